//! What the user says while a turn is under way.

use crate::script::check;

#[test]
fn steering_enters_behind_the_results() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 use tu_1 read {}
          show 1 x3 tu_1
          run 1 read tu_1 {}
        > user first
        > model 1 use tu_2 bash {}
          show 1 x3 tu_2
        > model 1 stop tool_use
          record model (ToolUse): read tu_1 {}, bash tu_2 {}
        > user second
        > done 1 one
          record finished tu_1: one
          record now: started tu_2
          run 2 bash tu_2 {}
        > user third
        > done 2 two
          record finished tu_2: two
          record user: first
          record user: second
          record user: third
          record go on: steered
          call 2 [user, model tu_1 tu_2, results tu_1 tu_2, user, user, user]
        "#,
    );
}

#[test]
fn steering_keeps_the_turn_going_when_there_is_no_call() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > later at the end
        > user first
        > user second
        > model 1 say done
          show 1 x3
          record model (EndTurn): text "done"
          record user: first
          record user: second
          record go on: steered
          call 2 [user, model, user, user]
        > model 2 say and that
          show 2 x3
          record model (EndTurn): text "and that"
          record user: at the end
          record go on: follow up
          call 3 [user, model, user, user, model, user]
        > model 3 say all done
          show 3 x3
          record model (EndTurn): text "all done"
          record end: completed
          END completed
        "#,
    );
}

#[test]
fn follow_ups_come_one_by_one() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > later one
        > later two
        > model 1 call tu_1 bash {}
          show 1 x3 tu_1
          record model (ToolUse): bash tu_1 {}
          record now: started tu_1
          run 1 bash tu_1 {}
        > done 1 out
          record finished tu_1: out
          record go on: next step
          call 2 [user, model tu_1, results tu_1]
        > model 2 say done
          show 2 x3
          record model (EndTurn): text "done"
          record user: one
          record go on: follow up
          call 3 [user, model tu_1, results tu_1, model, user]
        > model 3 say one is done
          show 3 x3
          record model (EndTurn): text "one is done"
          record user: two
          record go on: follow up
          call 4 [user, model tu_1, results tu_1, model, user, model, user]
        > model 4 say two is done
          show 4 x3
          record model (EndTurn): text "two is done"
          record end: completed
          END completed
        "#,
    );
}

#[test]
fn a_follow_up_starts_a_turn_if_none_is_under_way() {
    check(
        r#"
        > later go
          record user: go
          call 1 [user]
        > model 1 say ok
          show 1 x3
          record model (EndTurn): text "ok"
          record end: completed
          END completed
        "#,
    );
}

#[test]
fn what_was_not_sent_is_given_back_after_an_interrupt() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > later at the end
        > user now
        > interrupt
          cancel call 1
          record end: interrupted, model
          END interrupted, model, unsent: at the end / now
        > user again
          record user: again
          call 2 [user, user]
        > model 2 say ok
          show 2 x3
          record model (EndTurn): text "ok"
          record end: completed
          END completed
        "#,
    );
}

#[test]
fn what_was_not_sent_is_given_back_after_a_limit() {
    check(
        r#"
        > set max_turns 1
        > user go
          record user: go
          call 1 [user]
        > user more
        > later at the end
        > model 1 call tu_1 bash {}
          show 1 x3 tu_1
          record model (ToolUse): bash tu_1 {}
          record now: started tu_1
          run 1 bash tu_1 {}
        > done 1 out
          record finished tu_1: out
          record end: max turns 1
          END max turns 1, unsent: more / at the end
        > user go
          record user: go
          call 2 [user, model tu_1, results tu_1, user]
        > later at the end
        > model 2 say ok
          show 2 x3
          record model (EndTurn): text "ok"
          record end: max turns 1
          END max turns 1, unsent: at the end
        > user go
          record user: go
          call 3 [user, model tu_1, results tu_1, user, model, user]
        > user more
        > model 3 say ok
          show 3 x3
          record model (EndTurn): text "ok"
          record end: max turns 1
          END max turns 1, unsent: more
        "#,
    );
}

#[test]
fn what_was_not_sent_is_given_back_after_a_failure() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > user more
        > fail 1 auth
          record end: model error after 1: Auth
          END model error after 1: Auth, unsent: more
        > user go
          record user: go
          call 2 [user, user]
        > user more
        > model 2 stop refusal
          record model (Refusal):
          record end: refused
          END refused, unsent: more
        "#,
    );
}

#[test]
fn steering_waits_while_a_retry_is_due() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > fail 1 overloaded
          record retry of 1, failure 1, in 500 ms: Overloaded
          start timer 1 of 500ms
        > user more
        > timer 1
          record go on: retry
          call 2 [user]
        > model 2 say ok
          show 2 x3
          record model (EndTurn): text "ok"
          record user: more
          record go on: steered
          call 3 [user, model, user]
        "#,
    );
}

#[test]
fn steering_waits_while_a_cut_reply_goes_on() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > user more
        > model 1 text half
          show 1 x3
        > model 1 stop max_tokens
          record model (MaxTokens): text "half"
          record user: Your reply was cut by the output limit. Go on exactly where it s...
          record go on: continue output
          call 2 [user, model, user]
        > model 2 say the rest
          show 2 x3
          record model (EndTurn): text "the rest"
          record user: more
          record go on: steered
          call 3 [user, model, user, model, user]
        "#,
    );
}

#[test]
fn a_notice_enters_before_the_next_call_and_before_what_the_user_says() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > user steer
        > notice a job has ended
        > model 1 call tu_1 bash {}
          show 1 x3 tu_1
          record model (ToolUse): bash tu_1 {}
          record now: started tu_1
          run 1 bash tu_1 {}
        > done 1 out
          record finished tu_1: out
          record user: a job has ended
          record user: steer
          record go on: steered
          call 2 [user, model tu_1, results tu_1, user, user]
        > notice another
        > model 2 say done
          show 2 x3
          record model (EndTurn): text "done"
          record user: another
          record go on: reminder
          call 3 [user, model tu_1, results tu_1, user, user, model, user]
        "#,
    );
}

#[test]
fn an_aside_goes_with_results_and_is_worth_no_step_of_its_own() {
    check(
        r#"
        > aside nobody works
        > user go
          record user: go
          call 1 [user]
        > aside the plan is old
        > model 1 call tu_1 bash {}
          show 1 x3 tu_1
          record model (ToolUse): bash tu_1 {}
          record now: started tu_1
          run 1 bash tu_1 {}
        > done 1 out
          record finished tu_1: out
          record user: the plan is old
          record go on: reminder
          call 2 [user, model tu_1, results tu_1, user]
        > aside the plan is still old
        > model 2 say done
          show 2 x3
          record model (EndTurn): text "done"
          record end: completed
          END completed
        > user more
          record user: more
          call 3 [user, model tu_1, results tu_1, user, model, user]
        "#,
    );
}

#[test]
fn a_notice_wakes_a_session_whose_turn_is_over() {
    check(
        r#"
        > wake
        > user go
          record user: go
          call 1 [user]
        > model 1 say done
          show 1 x3
          record model (EndTurn): text "done"
          record end: completed
          END completed
        > wake
        > notice a job has ended
        > wake
          record user: a job has ended
          call 2 [user, model, user]
        > wake
        > model 2 say good
          show 2 x3
          record model (EndTurn): text "good"
          record end: completed
          END completed
        "#,
    );
}

#[test]
fn a_notice_outlives_an_interrupt_and_comes_with_the_next_prompt() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > user steer
        > notice a job has ended
        > interrupt
          cancel call 1
          record end: interrupted, model
          END interrupted, model, unsent: steer
        > user on
          record user: a job has ended
          record user: on
          call 2 [user, user, user]
        "#,
    );
}
