//! Turn limits and the detection of loops.

use crate::script::check;

#[test]
fn a_limit_of_nothing_allows_nothing() {
    check(
        r#"
        > set max_turns 0
        > user go
          record user: go
          record end: max turns 0
          END max turns 0
        "#,
    );
}

#[test]
fn retries_and_escalation_are_not_counted() {
    check(
        r#"
        > set max_turns 1
        > set output 10
        > set escalated 20
        > user go
          record user: go
          call 1 [user] cap 10
        > fail 1 overloaded
          record retry of 1, failure 1, in 500 ms: Overloaded
          start timer 1 of 500ms
        > timer 1
          record go on: retry
          call 2 [user] cap 10
        > model 2 text half
          show 2 x3
        > model 2 stop max_tokens
          void 2
          record go on: escalate output
          call 3 [user] cap 20
        > model 3 say ok
          show 3 x3
          record model (EndTurn): text "ok"
          record end: completed
          END completed
        "#,
    );
}

#[test]
fn continuation_is_counted() {
    check(
        r#"
        > set max_turns 1
        > user go
          record user: go
          call 1 [user]
        > model 1 text half
          show 1 x3
        > model 1 stop max_tokens
          record model (MaxTokens): text "half"
          record end: max turns 1
          END max turns 1
        "#,
    );
}

#[test]
fn each_turn_counts_anew() {
    check(
        r#"
        > set max_turns 1
        > user go
          record user: go
          call 1 [user]
        > model 1 say ok
          show 1 x3
          record model (EndTurn): text "ok"
          record end: completed
          END completed
        > user go
          record user: go
          call 2 [user, model, user]
        > model 2 say ok
          show 2 x3
          record model (EndTurn): text "ok"
          record end: completed
          END completed
        "#,
    );
}

/// C40 (a).
#[test]
fn six_requests_of_the_same_call_under_a_limit_of_six() {
    check(
        r#"
        > set max_turns 6
        > user go
          record user: go
          call 1 [user]
        > model 1 call tu_1 bash {"command":"echo same"}
          show 1 x3 tu_1
          record model (ToolUse): bash tu_1 {"command":"echo same"}
          record now: started tu_1
          run 1 bash tu_1 {"command":"echo same"}
        > done 1 same
          record finished tu_1: same
          record go on: next step
          call 2 [user, model tu_1, results tu_1]
        > model 2 call tu_2 bash {"command":"echo same"}
          show 2 x3 tu_2
          record model (ToolUse): bash tu_2 {"command":"echo same"}
          record now: started tu_2
          run 2 bash tu_2 {"command":"echo same"}
        > done 2 same
          record finished tu_2: same
          record go on: next step
          call 3 [user, model tu_1, results tu_1, model tu_2, results tu_2]
        > model 3 call tu_3 bash {"command":"echo same"}
          show 3 x3 tu_3
          record model (ToolUse): bash tu_3 {"command":"echo same"}
          record now: started tu_3
          run 3 bash tu_3 {"command":"echo same"}
        > done 3 same
          record finished tu_3: same
          record user: Reminder: you have made the same call with the same outcome 3 ti...
          record go on: reminder
          call 4 [user, model tu_1, results tu_1, model tu_2, results tu_2, model tu_3, results tu_3, user]
        > model 4 call tu_4 bash {"command":"echo same"}
          show 4 x3 tu_4
          record model (ToolUse): bash tu_4 {"command":"echo same"}
          record now: started tu_4
          run 4 bash tu_4 {"command":"echo same"}
        > done 4 same
          record finished tu_4: same
          record go on: next step
          call 5 [user, model tu_1, results tu_1, model tu_2, results tu_2, model tu_3, results tu_3, user, model tu_4, results tu_4]
        > model 5 call tu_5 bash {"command":"echo same"}
          show 5 x3 tu_5
          record model (ToolUse): bash tu_5 {"command":"echo same"}
          record now: started tu_5
          run 5 bash tu_5 {"command":"echo same"}
        > done 5 same
          record finished tu_5: same
          record go on: next step
          call 6 [user, model tu_1, results tu_1, model tu_2, results tu_2, model tu_3, results tu_3, user, model tu_4, results tu_4, model tu_5, results tu_5]
        > model 6 call tu_6 bash {"command":"echo same"}
          show 6 x3 tu_6
          record model (ToolUse): bash tu_6 {"command":"echo same"}
          record now: started tu_6
          run 6 bash tu_6 {"command":"echo same"}
        > done 6 same
          record finished tu_6: same
          record end: max turns 6
          END max turns 6
        "#,
    );
}

#[test]
fn the_same_call_with_the_same_outcome_six_times() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 call tu_1 nothing {}
          show 1 x3 tu_1
          record model (ToolUse): nothing tu_1 {}
          record finished tu_1 (error): there is no tool nothing
          record go on: next step
          call 2 [user, model tu_1, results tu_1]
        > model 2 call tu_2 nothing {}
          show 2 x3 tu_2
          record model (ToolUse): nothing tu_2 {}
          record finished tu_2 (error): there is no tool nothing
          record go on: next step
          call 3 [user, model tu_1, results tu_1, model tu_2, results tu_2]
        > model 3 call tu_3 nothing {}
          show 3 x3 tu_3
          record model (ToolUse): nothing tu_3 {}
          record finished tu_3 (error): there is no tool nothing
          record user: Reminder: you have made the same call with the same outcome 3 ti...
          record go on: reminder
          call 4 [user, model tu_1, results tu_1, model tu_2, results tu_2, model tu_3, results tu_3, user]
        > model 4 call tu_4 nothing {}
          show 4 x3 tu_4
          record model (ToolUse): nothing tu_4 {}
          record finished tu_4 (error): there is no tool nothing
          record go on: next step
          call 5 [user, model tu_1, results tu_1, model tu_2, results tu_2, model tu_3, results tu_3, user, model tu_4, results tu_4]
        > model 5 call tu_5 nothing {}
          show 5 x3 tu_5
          record model (ToolUse): nothing tu_5 {}
          record finished tu_5 (error): there is no tool nothing
          record go on: next step
          call 6 [user, model tu_1, results tu_1, model tu_2, results tu_2, model tu_3, results tu_3, user, model tu_4, results tu_4, model tu_5, results tu_5]
        > model 6 call tu_6 nothing {}
          show 6 x3 tu_6
          record model (ToolUse): nothing tu_6 {}
          record finished tu_6 (error): there is no tool nothing
          record end: loop detected 6
          END loop detected 6
        "#,
    );
}

#[test]
fn another_outcome_or_another_input_is_no_repetition() {
    check(
        r#"
        > set stop_after 2
        > user go
          record user: go
          call 1 [user]
        > model 1 call tu_1 bash {"a":1}
          show 1 x3 tu_1
          record model (ToolUse): bash tu_1 {"a":1}
          record now: started tu_1
          run 1 bash tu_1 {"a":1}
        > done 1 one
          record finished tu_1: one
          record go on: next step
          call 2 [user, model tu_1, results tu_1]
        > model 2 call tu_2 bash {"a":1}
          show 2 x3 tu_2
          record model (ToolUse): bash tu_2 {"a":1}
          record now: started tu_2
          run 2 bash tu_2 {"a":1}
        > done 2 two
          record finished tu_2: two
          record go on: next step
          call 3 [user, model tu_1, results tu_1, model tu_2, results tu_2]
        > model 3 call tu_3 bash {"a":2}
          show 3 x3 tu_3
          record model (ToolUse): bash tu_3 {"a":2}
          record now: started tu_3
          run 3 bash tu_3 {"a":2}
        > done 3 two
          record finished tu_3: two
          record go on: next step
          call 4 [user, model tu_1, results tu_1, model tu_2, results tu_2, model tu_3, results tu_3]
        > model 4 call tu_4 bash {"a":2}
          show 4 x3 tu_4
          record model (ToolUse): bash tu_4 {"a":2}
          record now: started tu_4
          run 4 bash tu_4 {"a":2}
        > failed 4 two
          record finished tu_4 (error): two
          record go on: next step
          call 5 [user, model tu_1, results tu_1, model tu_2, results tu_2, model tu_3, results tu_3, model tu_4, results tu_4]
        > model 5 call tu_5 bash {"a":2}
          show 5 x3 tu_5
          record model (ToolUse): bash tu_5 {"a":2}
          record now: started tu_5
          run 5 bash tu_5 {"a":2}
        > same 5 f two, at 12:01
          record finished tu_5: two, at 12:01
          record go on: next step
          call 6 [user, model tu_1, results tu_1, model tu_2, results tu_2, model tu_3, results tu_3, model tu_4, results tu_4, model tu_5, results tu_5]
        > model 6 call tu_6 bash {"a":2}
          show 6 x3 tu_6
          record model (ToolUse): bash tu_6 {"a":2}
          record now: started tu_6
          run 6 bash tu_6 {"a":2}
        > same 6 f two, at 12:02
          record finished tu_6: two, at 12:02
          record end: loop detected 2
          END loop detected 2
        "#,
    );
}

/// Each follow-up is a task of its own: doing the same for each is no loop.
#[test]
fn the_same_for_each_follow_up_is_no_repetition() {
    check(
        r#"
        > set stop_after 2
        > user run the tests
          record user: run the tests
          call 1 [user]
        > later run the tests again
        > model 1 call tu_1 bash {"command":"test"}
          show 1 x3 tu_1
          record model (ToolUse): bash tu_1 {"command":"test"}
          record now: started tu_1
          run 1 bash tu_1 {"command":"test"}
        > done 1 ok
          record finished tu_1: ok
          record go on: next step
          call 2 [user, model tu_1, results tu_1]
        > model 2 say they pass
          show 2 x3
          record model (EndTurn): text "they pass"
          record user: run the tests again
          record go on: follow up
          call 3 [user, model tu_1, results tu_1, model, user]
        > model 3 call tu_2 bash {"command":"test"}
          show 3 x3 tu_2
          record model (ToolUse): bash tu_2 {"command":"test"}
          record now: started tu_2
          run 2 bash tu_2 {"command":"test"}
        > done 2 ok
          record finished tu_2: ok
          record go on: next step
          call 4 [user, model tu_1, results tu_1, model, user, model tu_2, results tu_2]
        > model 4 say they pass
          show 4 x3
          record model (EndTurn): text "they pass"
          record end: completed
          END completed
        "#,
    );
}
