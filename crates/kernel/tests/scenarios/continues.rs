//! Each `Continue` is reached.

use crate::script::check;

#[test]
fn continue_next_step() {
    check(
        r#"
        > user fix it
          record user: fix it
          call 1 [user]
        > model 1 text I look
          show 1 x3
        > model 1 use tu_1 bash {"command":"ls"}
          show 1 x3 tu_1
        > model 1 stop tool_use
          record model (ToolUse): text "I look", bash tu_1 {"command":"ls"}
          record now: started tu_1
          run 1 bash tu_1 {"command":"ls"}
        > done 1 out
          record finished tu_1: out
          record go on: next step
          call 2 [user, model tu_1, results tu_1]
        > model 2 say done
          show 2 x3
          record model (EndTurn): text "done"
          record end: completed
          END completed
        "#,
    );
}

#[test]
fn continue_retry() {
    check(
        r#"
        > user fix it
          record user: fix it
          call 1 [user]
        > fail 1 overloaded
          record retry of 1, failure 1, in 500 ms: Overloaded
          start timer 1 of 500ms
        > timer 1
          record go on: retry
          call 2 [user]
        > model 2 say done
          show 2 x3
          record model (EndTurn): text "done"
          record end: completed
          END completed
        "#,
    );
}

#[test]
fn continue_escalate_output() {
    check(
        r#"
        > set output 100
        > set escalated 800
        > user write
          record user: write
          call 1 [user] cap 100
        > model 1 usage 7 100
          show 1 x1
        > model 1 text half
          show 1 x3
        > model 1 stop max_tokens
          void 1
          record paid 7 + 100
          record go on: escalate output
          call 2 [user] cap 800
        > model 2 say whole
          show 2 x3
          record model (EndTurn): text "whole"
          record end: completed
          END completed
        "#,
    );
}

#[test]
fn continue_continue_output() {
    check(
        r#"
        > user write
          record user: write
          call 1 [user]
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
          record end: completed
          END completed
        "#,
    );
}

#[test]
fn continue_steered() {
    check(
        r#"
        > user fix it
          record user: fix it
          call 1 [user]
        > model 1 call tu_1 bash {"command":"ls"}
          show 1 x3 tu_1
          record model (ToolUse): bash tu_1 {"command":"ls"}
          record now: started tu_1
          run 1 bash tu_1 {"command":"ls"}
        > user only touch src
        > done 1 out
          record finished tu_1: out
          record user: only touch src
          record go on: steered
          call 2 [user, model tu_1, results tu_1, user]
        > model 2 say done
          show 2 x3
          record model (EndTurn): text "done"
          record end: completed
          END completed
        "#,
    );
}

#[test]
fn continue_follow_up() {
    check(
        r#"
        > user fix it
          record user: fix it
          call 1 [user]
        > later then commit
        > model 1 say fixed
          show 1 x3
          record model (EndTurn): text "fixed"
          record user: then commit
          record go on: follow up
          call 2 [user, model, user]
        > model 2 say committed
          show 2 x3
          record model (EndTurn): text "committed"
          record end: completed
          END completed
        "#,
    );
}

#[test]
fn continue_reminder() {
    check(
        r#"
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
          record go on: next step
          call 3 [user, model tu_1, results tu_1, model tu_2, results tu_2]
        > model 3 call tu_3 bash {"command":"ls"}
          show 3 x3 tu_3
          record model (ToolUse): bash tu_3 {"command":"ls"}
          record now: started tu_3
          run 3 bash tu_3 {"command":"ls"}
        > done 3 out
          record finished tu_3: out
          record user: Reminder: you have made the same call with the same outcome 3 ti...
          record go on: reminder
          call 4 [user, model tu_1, results tu_1, model tu_2, results tu_2, model tu_3, results tu_3, user]
        > model 4 say I give up
          show 4 x3
          record model (EndTurn): text "I give up"
          record end: completed
          END completed
        "#,
    );
}

#[test]
fn an_escalated_cap_that_is_no_larger_is_not_tried() {
    check(
        r#"
        > set output 10
        > set escalated 10
        > user go
          record user: go
          call 1 [user] cap 10
        > model 1 text half
          show 1 x3
        > model 1 stop max_tokens
          record model (MaxTokens): text "half"
          record user: Your reply was cut by the output limit. Go on exactly where it s...
          record go on: continue output
          call 2 [user, model, user] cap 10
        "#,
    );
}
