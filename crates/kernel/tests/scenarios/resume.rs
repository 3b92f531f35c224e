//! What a dead process left.

use crate::script::check;

#[test]
fn nothing_open_is_nothing_to_close() {
    check(
        r#"
        > resumed
        > user go
          record user: go
          call 1 [user]
        > model 1 say ok
          show 1 x3
          record model (EndTurn): text "ok"
          record end: completed
          END completed
        > crash
        > resumed
        > user go on
          record user: go on
          call 1 [user, model, user]
        "#,
    );
}

/// C12 (b).
#[test]
fn a_call_that_had_started_has_an_unknown_outcome() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 use tu_1 read {}
          show 1 x3 tu_1
          run 1 read tu_1 {}
        > model 1 use tu_2 bash {"command":"sleep 60"}
          show 1 x3 tu_2
        > model 1 use tu_3 bash {"command":"never"}
          show 1 x3 tu_3
        > model 1 stop tool_use
          record model (ToolUse): read tu_1 {}, bash tu_2 {"command":"sleep 60"}, bash tu_3 {"command":"never"}
        > done 1 kept
          record finished tu_1: kept
          record now: started tu_2
          run 2 bash tu_2 {"command":"sleep 60"}
        > crash
        > resumed
          record finished tu_2 (error): interrupted, outcome unknown: the harness ended while this call...
          record finished tu_3 (error): interrupted: the harness ended before this call had an answer. I...
          record end: interrupted, tools
        > user next
          record user: next
          call 1 [user, model tu_1 tu_2 tu_3, results tu_1 tu_2 tu_3, user]
        > model 1 say ok
          show 1 x3
          record model (EndTurn): text "ok"
          record end: completed
          END completed
        "#,
    );
}

#[test]
fn a_call_that_was_asked_about_had_not_begun() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 call tu_1 ask {}
          show 1 x3 tu_1
          record model (ToolUse): ask tu_1 {}
          ask 1 ask tu_1 {}: ask is not allowed yet
        > crash
        > resumed
          record finished tu_1 (error): interrupted: the harness ended before this call had an answer. I...
          record end: interrupted, tools
        > allow 1
        > user next
          record user: next
          call 1 [user, model tu_1, results tu_1, user]
        "#,
    );
}

#[test]
fn a_crash_while_closing_is_no_harm() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 use tu_1 bash {}
          show 1 x3 tu_1
        > model 1 use tu_2 bash {}
          show 1 x3 tu_2
        > model 1 stop tool_use
          record model (ToolUse): bash tu_1 {}, bash tu_2 {}
          record now: started tu_1
          run 1 bash tu_1 {}
        > crash
        > resumed
          record finished tu_1 (error): interrupted, outcome unknown: the harness ended while this call...
          record finished tu_2 (error): interrupted: the harness ended before this call had an answer. I...
          record end: interrupted, tools
        > crash 2
        > resumed
          record finished tu_2 (error): interrupted: the harness ended before this call had an answer. I...
          record end: interrupted, tools
        > user next
          record user: next
          call 1 [user, model tu_1 tu_2, results tu_1 tu_2, user]
        "#,
    );
}

#[test]
fn a_prompt_closes_what_was_not_told_to_be_resumed() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 use tu_1 bash {}
          show 1 x3 tu_1
        > model 1 use tu_2 bash {}
          show 1 x3 tu_2
        > model 1 stop tool_use
          record model (ToolUse): bash tu_1 {}, bash tu_2 {}
          record now: started tu_1
          run 1 bash tu_1 {}
        > done 1 one
          record finished tu_1: one
          record now: started tu_2
          run 2 bash tu_2 {}
        > crash
        > user next
          record user: next
          call 1 [user, model tu_1 tu_2, results tu_1 tu_2, user]
        "#,
    );
}

#[test]
fn a_reply_that_was_being_written_is_gone() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 text half
          show 1 x3
        > crash
        > resumed
          record end: interrupted, model
        > user next
          record user: next
          call 1 [user, user]
        "#,
    );
}

/// C43: the past may hold calls of tools that are no more.
#[test]
fn a_tool_that_is_gone() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 call tu_1 read {}
          show 1 x3 tu_1
          run 1 read tu_1 {}
          record model (ToolUse): read tu_1 {}
        > done 1 found
          record finished tu_1: found
          record go on: next step
          call 2 [user, model tu_1, results tu_1]
        > model 2 say ok
          show 2 x3
          record model (EndTurn): text "ok"
          record end: completed
          END completed
        > crash
        > resumed
        > user again
          record user: again
          call 1 [user, model tu_1, results tu_1, model, user]
        > model 1 call tu_9 mcp__gone__find {}
          show 1 x3 tu_9
          record model (ToolUse): mcp__gone__find tu_9 {}
          record finished tu_9 (error): there is no tool mcp__gone__find
          record go on: next step
          call 2 [user, model tu_1, results tu_1, model, user, model tu_9, results tu_9]
        > model 2 say ok
          show 2 x3
          record model (EndTurn): text "ok"
          record end: completed
          END completed
        "#,
    );
}

/// The turn that a dead process was in gets its end, so that the next prompt begins one.
#[test]
fn a_turn_that_a_death_cut_short_is_ended() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > crash
        > resumed
          record end: interrupted, model
        > resumed
        > rewind 2
        > rewind 1
          record rewound to before turn 1
        > user again
          record user: again
          call 1 [user]
        "#,
    );
}

#[test]
fn what_was_taken_back_is_no_part_of_the_conversation_any_more() {
    check(
        r#"
        > user one
          record user: one
          call 1 [user]
        > rewind 1
        > model 1 say first
          show 1 x3
          record model (EndTurn): text "first"
          record end: completed
          END completed
        > user two
          record user: two
          call 2 [user, model, user]
        > model 2 call t1 bash {}
          show 2 x3 t1
          record model (ToolUse): bash t1 {}
          record now: started t1
          run 1 bash t1 {}
        > interrupt
          cancel run 1
          record finished t1 (error): interrupted by the user while it ran: its outcome is unknown
          record end: interrupted, tools
          END interrupted, tools
        > rewind 0
        > rewind 3
        > rewind 2
          record rewound to before turn 2
        > crash
        > resumed
        > user three
          record user: three
          call 1 [user, model, user]
        > model 1 call t1 bash {}
          show 1 x3 call_1
          record model (ToolUse): bash call_1 {}
          record now: started call_1
          run 1 bash call_1 {}
        > done 1 ok
          record finished call_1: ok
          record go on: next step
          call 2 [user, model, user, model call_1, results call_1]
        > model 2 say third
          show 2 x3
          record model (EndTurn): text "third"
          record end: completed
          END completed
        > rewind 1
          record rewound to before turn 1
        > user all anew
          record user: all anew
          call 3 [user]
        "#,
    );
}
