//! An interrupt in each phase.

use crate::script::check;

#[test]
fn when_idle_it_is_nothing() {
    check(
        r#"
        > interrupt
        > user go
          record user: go
          call 1 [user]
        > model 1 say ok
          show 1 x3
          record model (EndTurn): text "ok"
          record end: completed
          END completed
        > interrupt
        "#,
    );
}

/// C14.
#[test]
fn before_any_text_nothing_is_kept() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 usage 12 3
          show 1 x1
        > model 1 think plan
          show 1 x3
        > model 1 think+ let me
          show 1 x2
        > interrupt
          cancel call 1
          record paid 12 + 3
          record end: interrupted, model
          END interrupted, model
        > model 1 say too late
        > user go on
          record user: go on
          call 2 [user, user]
        "#,
    );
}

#[test]
fn what_was_written_is_kept() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 usage 12 3
          show 1 x1
        > model 1 think plan
          show 1 x3
        > model 1 text+ half a thou
          show 1 x2
        > interrupt
          cancel call 1
          record model (interrupted): thinking "plan", text "half a thou"
          record end: interrupted, model
          END interrupted, model
        > user go on
          record user: go on
          call 2 [user, model, user]
        "#,
    );
}

/// C12 (c).
#[test]
fn calls_of_an_unfinished_message_are_dropped() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 text I look
          show 1 x3
        > model 1 use tu_1 bash {}
          show 1 x3 tu_1
        > model 1 use+ tu_2 bash {"co
          show 1 x2 tu_2
        > interrupt
          cancel call 1
          record model (interrupted): text "I look"
          record end: interrupted, model
          END interrupted, model
        > user go on
          record user: go on
          call 2 [user, model, user]
        "#,
    );
}

#[test]
fn early_runs_are_cancelled() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 use tu_1 read {}
          show 1 x3 tu_1
          run 1 read tu_1 {}
        > model 1 use tu_2 read {}
          show 1 x3 tu_2
          run 2 read tu_2 {}
        > model 1 use tu_3 read {}
          show 1 x3 tu_3
          run 3 read tu_3 {}
        > done 2 two
        > interrupt
          cancel call 1
          cancel run 1
          cancel run 3
          record end: interrupted, model
          END interrupted, model
        > done 1 too late
        > user go on
          record user: go on
          call 2 [user, user]
        "#,
    );
}

#[test]
fn while_waiting_for_a_retry() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > fail 1 overloaded
          record retry of 1, failure 1, in 500 ms: Overloaded
          start timer 1 of 500ms
        > interrupt
          cancel timer 1
          record end: interrupted, model
          END interrupted, model
        > timer 1
        > user go on
          record user: go on
          call 2 [user, user]
        "#,
    );
}

#[test]
fn while_asking() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 use tu_1 ask {}
          show 1 x3 tu_1
        > model 1 use tu_2 ask {}
          show 1 x3 tu_2
        > model 1 stop tool_use
          record model (ToolUse): ask tu_1 {}, ask tu_2 {}
          ask 1 ask tu_1 {}: ask is not allowed yet
        > interrupt
          cancel ask 1
          record finished tu_1 (error): not run: the user interrupted before this call was allowed
          record finished tu_2 (error): not run: the user interrupted before this call began
          record end: interrupted, tools
          END interrupted, tools
        > allow 1
        > user go on
          record user: go on
          call 2 [user, model tu_1 tu_2, results tu_1 tu_2, user]
        "#,
    );
}

#[test]
fn the_end_of_the_program_is_named_as_the_cause() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 use tu_1 bash {"command":"sleep 60"}
          show 1 x3 tu_1
        > model 1 use tu_2 read {}
          show 1 x3 tu_2
        > model 1 stop tool_use
          record model (ToolUse): bash tu_1 {"command":"sleep 60"}, read tu_2 {}
          record now: started tu_1
          run 1 bash tu_1 {"command":"sleep 60"}
        > shutdown
          cancel run 1
          record finished tu_1 (error): interrupted by the end of the program (a signal, or its terminal...
          record finished tu_2 (error): not run: the program was ended (by a signal, or its terminal was...
          record end: interrupted, tools, shutdown
          END interrupted, tools, shutdown
        "#,
    );
}

/// C12 (a).
#[test]
fn while_a_call_with_effects_runs() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 use tu_1 bash {"command":"sleep 60"}
          show 1 x3 tu_1
        > model 1 use tu_2 read {}
          show 1 x3 tu_2
        > model 1 stop tool_use
          record model (ToolUse): bash tu_1 {"command":"sleep 60"}, read tu_2 {}
          record now: started tu_1
          run 1 bash tu_1 {"command":"sleep 60"}
        > interrupt
          cancel run 1
          record finished tu_1 (error): interrupted by the user while it ran: its outcome is unknown
          record finished tu_2 (error): not run: the user interrupted before this call began
          record end: interrupted, tools
          END interrupted, tools
        > done 1 too late
        > user next
          record user: next
          call 2 [user, model tu_1 tu_2, results tu_1 tu_2, user]
        > model 2 say ok
          show 2 x3
          record model (EndTurn): text "ok"
          record end: completed
          END completed
        "#,
    );
}

#[test]
fn while_several_run_and_one_is_done_and_one_is_asked() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 use tu_1 read {}
          show 1 x3 tu_1
          run 1 read tu_1 {}
        > model 1 use tu_2 read {}
          show 1 x3 tu_2
          run 2 read tu_2 {}
        > model 1 use tu_3 read {}
          show 1 x3 tu_3
          run 3 read tu_3 {}
        > model 1 use tu_4 ask {}
          show 1 x3 tu_4
        > model 1 use tu_5 read {}
          show 1 x3 tu_5
        > model 1 stop tool_use
          record model (ToolUse): read tu_1 {}, read tu_2 {}, read tu_3 {}, ask tu_4 {}, read tu_5 {}
          ask 1 ask tu_4 {}: ask is not allowed yet
        > done 2 two
          record finished tu_2: two
        > interrupt
          cancel run 1
          record finished tu_1 (error): interrupted by the user while it ran: its outcome is unknown
          cancel run 3
          record finished tu_3 (error): interrupted by the user while it ran: its outcome is unknown
          cancel ask 1
          record finished tu_4 (error): not run: the user interrupted before this call was allowed
          record finished tu_5 (error): not run: the user interrupted before this call began
          record end: interrupted, tools
          END interrupted, tools
        > interrupt
        > done 1 too late
        > done 3 too late
        > allow 1
        > user next
          record user: next
          call 2 [user, model tu_1 tu_2 tu_3 tu_4 tu_5, results tu_1 tu_2 tu_3 tu_4 tu_5, user]
        "#,
    );
}
