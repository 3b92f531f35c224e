//! Ways to go on: another model, a pause, a form, a hook.

use crate::script::check;

#[test]
fn after_three_overloads_in_a_row_the_other_model_is_asked_for_the_rest_of_the_turn() {
    check(
        r#"
        > set fallback other
        > user go
          record user: go
          call 1 [user]
        > fail 1 overloaded
          record retry of 1, failure 1, in 500 ms: Overloaded
          start timer 1 of 500ms
        > timer 1
          record go on: retry
          call 2 [user]
        > fail 2 rate_limited
          record retry of 2, failure 2, in 1000 ms: RateLimited
          start timer 2 of 1s
        > timer 2
          record go on: retry
          call 3 [user]
        > fail 3 overloaded
          record retry of 3, failure 3, in 2000 ms: Overloaded
          start timer 3 of 2s
        > timer 3
          record go on: retry
          call 4 [user]
        > fail 4 overloaded
          record retry of 4, failure 4, in 4000 ms: Overloaded
          start timer 4 of 4s
        > timer 4
          record go on: retry
          call 5 [user]
        > fail 5 overloaded
          record go on: fallback model other
          call 6 other [user] cap 77
        > fail 6 overloaded
          record retry of 6, failure 1, in 500 ms: Overloaded
          start timer 5 of 500ms
        > timer 5
          record go on: retry
          call 7 other [user] cap 77
        > model 7 call t1 bash {}
          show 7 x3 t1
          record model (ToolUse): bash t1 {}
          record now: started t1
          run 1 bash t1 {}
        > done 1 ok
          record finished t1: ok
          record go on: next step
          call 8 other [user, model t1, results t1] cap 77
        > model 8 say done
          show 8 x3
          record model (EndTurn): text "done"
          record end: completed
          END completed
        > user more
          record user: more
          call 9 [user, model t1, results t1, model, user]
        "#,
    );
}

#[test]
fn a_paused_reply_goes_on() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 text half
          show 1 x3
        > model 1 stop pause
          record model (Pause): text "half"
          record user: Go on.
          record go on: pause turn
          call 2 [user, model, user]
        > model 2 say done
          show 2 x3
          record model (EndTurn): text "done"
          record end: completed
          END completed
        "#,
    );
}

#[test]
fn an_answer_of_another_form_is_sent_back_so_often_and_no_more() {
    check(
        r#"
        > set answer native
        > user go
          record user: go
          call 1 [user] in a form
        > model 1 say seven
          show 1 x3
          record model (EndTurn): text "seven"
          record user: Your answer does not have the form that it must have: "seven" is...
          record go on: schema retry
          call 2 [user, model, user] in a form
        > model 2 say 7
          show 2 x3
          record model (EndTurn): text "7"
          record end: completed
          END completed
        > user again
          record user: again
          call 3 [user, model, user, model, user] in a form
        > model 3 say a
          show 3 x3
          record model (EndTurn): text "a"
          record user: Your answer does not have the form that it must have: "a" is no...
          record go on: schema retry
          call 4 [user, model, user, model, user, model, user] in a form
        > model 4 say b
          show 4 x3
          record model (EndTurn): text "b"
          record user: Your answer does not have the form that it must have: "b" is no...
          record go on: schema retry
          call 5 [user, model, user, model, user, model, user, model, user] in a form
        > model 5 say c
          show 5 x3
          record model (EndTurn): text "c"
          record end: structured output failed after 3: "c" is no number
          END structured output failed after 3: "c" is no number
        "#,
    );
}

#[test]
fn an_answer_that_a_tool_takes_ends_the_turn() {
    check(
        r#"
        > set answer note
        > user go
          record user: go
          call 1 [user]
        > model 1 say seven
          show 1 x3
          record model (EndTurn): text "seven"
          record user: You have not given your answer in the form that it must have. Wh...
          record go on: schema retry
          call 2 [user, model, user]
        > model 2 call t1 note {"answer":"seven"}
          show 2 x3 t1
          record model (ToolUse): note t1 {"answer":"seven"}
          record now: started t1
          run 1 note t1 {"answer":"seven"}
        > failed 1 no number
          record finished t1 (error): no number
          record go on: schema retry
          call 3 [user, model, user, model t1, results t1]
        > model 3 use t2 bash {}
          show 3 x3 t2
        > model 3 use t3 note {"answer":7}
          show 3 x3 t3
        > model 3 stop tool_use
          record model (ToolUse): bash t2 {}, note t3 {"answer":7}
          record now: started t2
          run 2 bash t2 {}
        > done 2 ok
          record finished t2: ok
          record now: started t3
          run 3 note t3 {"answer":7}
        > done 3 taken
          record finished t3: taken
          record end: completed
          END completed
        "#,
    );
}

#[test]
fn a_hook_may_object_eight_times() {
    let mut scenario = String::from(
        r#"
        > set stop_hook
        > user go
          record user: go
          call 1 [user]
        "#,
    );
    let mut past = String::from("user");
    for call in 1..=9 {
        let again = if call > 1 { ", again" } else { "" };
        scenario += &format!(
            "> model {call} say done\nshow {call} x3\nrecord model (EndTurn): text \"done\"\n\
             ask whether to stop {call}{again}\n> judge {call} on not yet\n"
        );
        past += ", model, user";
        if call < 9 {
            let next = call + 1;
            scenario += &format!(
                "record user: not yet\nrecord go on: stop hook blocked\ncall {next} [{past}]\n"
            );
        }
    }
    scenario += "record end: completed\nEND completed\n";
    check(&scenario);
}

/// Replies that stop for this reason are continued so often, and the next one ends the turn.
fn continued(times: u32, stop: &str, recorded: &str, [words, reason, end]: [&str; 3]) {
    let mut scenario = String::from(
        r#"
        > set window 4000
        > user go
          record user: go
          call 1 [user]
        "#,
    );
    let mut past = String::from("user");
    for call in 1..=times + 1 {
        scenario += &format!(
            "> model {call} text part\nshow {call} x3\n> model {call} stop {stop}\n\
             record model ({recorded}): text \"part\"\n"
        );
        past += ", model, user";
        if call <= times {
            let next = call + 1;
            scenario +=
                &format!("record user: {words}\nrecord go on: {reason}\ncall {next} [{past}]\n");
        }
    }
    scenario += &format!("record end: {end}\nEND {end}\n");
    check(&scenario);
}

#[test]
fn a_pause_is_continued_ten_times() {
    continued(10, "pause", "Pause", ["Go on.", "pause turn", "completed"]);
}

#[test]
fn a_full_window_continues_a_reply_three_times() {
    let words = "Your reply was cut, since the conversation filled the window. Go...";
    let end = "context limit: the reply was cut: the conversation fills the model's window";
    let expected = [words, "continue output", end];
    continued(3, "context_window", "ContextWindow", expected);
}

#[test]
fn what_is_said_while_it_is_judged_is_taken_up() {
    check(
        r#"
        > set stop_hook
        > user go
          record user: go
          call 1 [user]
        > model 1 say done
          show 1 x3
          record model (EndTurn): text "done"
          ask whether to stop 1
        > user and this
        > judge 1 done
          record user: and this
          record go on: steered
          call 2 [user, model, user]
        > model 2 say done
          show 2 x3
          record model (EndTurn): text "done"
          ask whether to stop 2
        > judge 1 done
        > interrupt
          cancel stop 2
          record end: interrupted, model
          END interrupted, model
        > user once more
          record user: once more
          call 3 [user, model, user, model, user]
        > model 3 say done
          show 3 x3
          record model (EndTurn): text "done"
          ask whether to stop 3
        > judge 3 end enough
          record end: stop hook prevented: enough
          END stop hook prevented: enough
        "#,
    );
}

#[test]
fn a_hook_ends_a_turn_that_is_under_way() {
    check(
        r#"
        > hook nothing is under way
        > user go
          record user: go
          call 1 [user]
        > model 1 call t1 bash {}
          show 1 x3 t1
          record model (ToolUse): bash t1 {}
          record now: started t1
          run 1 bash t1 {}
        > hook enough
        > hook more than enough
        > done 1 ok
          record finished t1: ok
          record end: hook stopped: enough
          END hook stopped: enough
        "#,
    );
}

#[test]
fn what_was_said_before_a_call_is_no_part_of_the_answer() {
    check(
        r#"
        > set answer native
        > user go
          record user: go
          call 1 [user] in a form
        > model 1 text 7
          show 1 x3
        > model 1 stop pause
          record model (Pause): text "7"
          record user: Go on.
          record go on: pause turn
          call 2 [user, model, user] in a form
        > model 2 call t1 read {}
          show 2 x3 t1
          run 1 read t1 {}
          record model (ToolUse): read t1 {}
        > done 1 fine
          record finished t1: fine
          record go on: next step
          call 3 [user, model, user, model t1, results t1] in a form
        > model 3 say x
          show 3 x3
          record model (EndTurn): text "x"
          record user: Your answer does not have the form that it must have: "x" is no...
          record go on: schema retry
          call 4 [user, model, user, model t1, results t1, model, user] in a form
        "#,
    );
}

#[test]
fn empty_replies_that_pause_end_after_ten() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 stop pause
          record model (Pause):
          record user: Go on.
          record go on: pause turn
          call 2 [user, user]
        > model 2 stop pause
          record model (Pause):
          record user: Go on.
          record go on: pause turn
          call 3 [user, user, user]
        > model 3 stop pause
          record model (Pause):
          record user: Go on.
          record go on: pause turn
          call 4 [user, user, user, user]
        > model 4 stop pause
          record model (Pause):
          record user: Go on.
          record go on: pause turn
          call 5 [user, user, user, user, user]
        > model 5 stop pause
          record model (Pause):
          record user: Go on.
          record go on: pause turn
          call 6 [user, user, user, user, user, user]
        > model 6 stop pause
          record model (Pause):
          record user: Go on.
          record go on: pause turn
          call 7 [user, user, user, user, user, user, user]
        > model 7 stop pause
          record model (Pause):
          record user: Go on.
          record go on: pause turn
          call 8 [user, user, user, user, user, user, user, user]
        > model 8 stop pause
          record model (Pause):
          record user: Go on.
          record go on: pause turn
          call 9 [user, user, user, user, user, user, user, user, user]
        > model 9 stop pause
          record model (Pause):
          record user: Go on.
          record go on: pause turn
          call 10 [user, user, user, user, user, user, user, user, user, user]
        > model 10 stop pause
          record model (Pause):
          record user: Go on.
          record go on: pause turn
          call 11 [user, user, user, user, user, user, user, user, user, user, user]
        > model 11 stop pause
          record retry of 11, failure 1, in 500 ms: the model returned nothing: no text and no tool call
          start timer 1 of 500ms
        "#,
    );
}
