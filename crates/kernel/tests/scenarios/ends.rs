//! Each `TurnEnd` is reached.

use crate::script::check;

#[test]
fn turn_end_completed() {
    check(
        r#"
        > user fix it
          record user: fix it
          call 1 [user]
        > model 1 say done
          show 1 x3
          record model (EndTurn): text "done"
          record end: completed
          END completed
        "#,
    );
}

#[test]
fn turn_end_max_turns() {
    check(
        r#"
        > set max_turns 1
        > user fix it
          record user: fix it
          call 1 [user]
        > model 1 call tu_1 bash {"command":"ls"}
          show 1 x3 tu_1
          record model (ToolUse): bash tu_1 {"command":"ls"}
          record now: started tu_1
          run 1 bash tu_1 {"command":"ls"}
        > done 1 out
          record finished tu_1: out
          record end: max turns 1
          END max turns 1
        "#,
    );
}

#[test]
fn turn_end_context_limit_when_the_request_is_too_long() {
    check(
        r#"
        > user fix it
          record user: fix it
          call 1 [user]
        > fail 1 too_long
          record end: context limit: ContextTooLong
          END context limit: ContextTooLong
        "#,
    );
}

#[test]
fn turn_end_context_limit_when_the_reply_fills_the_window() {
    check(
        r#"
        > user fix it
          record user: fix it
          call 1 [user]
        > model 1 text so far
          show 1 x3
        > model 1 stop context_window
          record model (ContextWindow): text "so far"
          record end: context limit: the reply was cut: the conversation fills the model's window
          END context limit: the reply was cut: the conversation fills the model's window
        "#,
    );
}

#[test]
fn turn_end_model_error_that_no_retry_mends() {
    check(
        r#"
        > user fix it
          record user: fix it
          call 1 [user]
        > fail 1 auth
          record end: model error after 1: Auth
          END model error after 1: Auth
        "#,
    );
}

#[test]
fn turn_end_model_error_when_the_retries_are_spent() {
    check(
        r#"
        > set attempts 2
        > user fix it
          record user: fix it
          call 1 [user]
        > fail 1 connection
          record retry of 1, failure 1, in 500 ms: Connection
          start timer 1 of 500ms
        > timer 1
          record go on: retry
          call 2 [user]
        > fail 2 overloaded
          record end: model error after 2: Overloaded
          END model error after 2: Overloaded
        "#,
    );
}

#[test]
fn turn_end_output_limit() {
    check(
        r#"
        > user write a book
          record user: write a book
          call 1 [user]
        > model 1 text one
          show 1 x3
        > model 1 stop max_tokens
          record model (MaxTokens): text "one"
          record user: Your reply was cut by the output limit. Go on exactly where it s...
          record go on: continue output
          call 2 [user, model, user]
        > model 2 text two
          show 2 x3
        > model 2 stop max_tokens
          record model (MaxTokens): text "two"
          record user: Your reply was cut by the output limit. Go on exactly where it s...
          record go on: continue output
          call 3 [user, model, user, model, user]
        > model 3 text three
          show 3 x3
        > model 3 stop max_tokens
          record model (MaxTokens): text "three"
          record user: Your reply was cut by the output limit. Go on exactly where it s...
          record go on: continue output
          call 4 [user, model, user, model, user, model, user]
        > model 4 text four
          show 4 x3
        > model 4 stop max_tokens
          record model (MaxTokens): text "four"
          record end: output limit
          END output limit
        "#,
    );
}

#[test]
fn turn_end_interrupted_during_model() {
    check(
        r#"
        > user fix it
          record user: fix it
          call 1 [user]
        > interrupt
          cancel call 1
          record end: interrupted, model
          END interrupted, model
        "#,
    );
}

#[test]
fn turn_end_interrupted_during_tools() {
    check(
        r#"
        > user fix it
          record user: fix it
          call 1 [user]
        > model 1 call tu_1 bash {"command":"sleep 60"}
          show 1 x3 tu_1
          record model (ToolUse): bash tu_1 {"command":"sleep 60"}
          record now: started tu_1
          run 1 bash tu_1 {"command":"sleep 60"}
        > interrupt
          cancel run 1
          record finished tu_1 (error): interrupted by the user while it ran: its outcome is unknown
          record end: interrupted, tools
          END interrupted, tools
        "#,
    );
}

#[test]
fn turn_end_refused() {
    check(
        r#"
        > user do harm
          record user: do harm
          call 1 [user]
        > model 1 text I will not
          show 1 x3
        > model 1 stop refusal
          record model (Refusal): text "I will not"
          record end: refused
          END refused
        "#,
    );
}

#[test]
fn turn_end_loop_detected() {
    check(
        r#"
        > set stop_after 2
        > user fix it
          record user: fix it
          call 1 [user]
        > model 1 call tu_1 bash {"command":"ls"}
          show 1 x3 tu_1
          record model (ToolUse): bash tu_1 {"command":"ls"}
          record now: started tu_1
          run 1 bash tu_1 {"command":"ls"}
        > done 1 out
          record finished tu_1: out
          record go on: next step
          call 2 [user, model tu_1, results tu_1]
        > model 2 call tu_2 bash {"command":"ls"}
          show 2 x3 tu_2
          record model (ToolUse): bash tu_2 {"command":"ls"}
          record now: started tu_2
          run 2 bash tu_2 {"command":"ls"}
        > done 2 out
          record finished tu_2: out
          record end: loop detected 2
          END loop detected 2
        "#,
    );
}
