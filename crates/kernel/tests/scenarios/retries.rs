//! Failed model calls.

use crate::script::check;

/// C03, C38 (a).
#[test]
fn a_retry_voids_what_was_shown() {
    check(
        r#"
        > user say hello
          record user: say hello
          call 1 [user]
        > model 1 start
          show 1 x1
        > model 1 usage 9 1
          show 1 x1
        > model 1 text+ Hello wor
          show 1 x2
        > fail 1 overloaded
          void 1
          record paid 9 + 1
          record retry of 1, failure 1, in 500 ms, voided: Overloaded
          start timer 1 of 500ms
        > timer 1
          record go on: retry
          call 2 [user]
        > model 2 say Hello world
          show 2 x3
          record model (EndTurn): text "Hello world"
          record end: completed
          END completed
        > user again
          record user: again
          call 3 [user, model, user]
        "#,
    );
}

/// C38 (b), C04.
#[test]
fn a_cut_stream_runs_nothing_with_effects() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 use tu_1 bash {"command":"echo once >> M"}
          show 1 x3 tu_1
        > model 1 use+ tu_2 bash {"comm
          show 1 x2 tu_2
        > fail 1 cut
          void 1
          record retry of 1, failure 1, in 500 ms, voided: CutStream
          start timer 1 of 500ms
        > timer 1
          record go on: retry
          call 2 [user]
        > model 2 call tu_9 bash {"command":"echo once >> M"}
          show 2 x3 tu_9
          record model (ToolUse): bash tu_9 {"command":"echo once >> M"}
          record now: started tu_9
          run 1 bash tu_9 {"command":"echo once >> M"}
        > done 1 ok
          record finished tu_9: ok
          record go on: next step
          call 3 [user, model tu_9, results tu_9]
        > model 3 say ok
          show 3 x3
          record model (EndTurn): text "ok"
          record end: completed
          END completed
        "#,
    );
}

#[test]
fn early_runs_of_a_failed_reply_are_cancelled_and_forgotten() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 use tu_1 read {"path":"a"}
          show 1 x3 tu_1
          run 1 read tu_1 {"path":"a"}
        > model 1 use tu_2 read {"path":"b"}
          show 1 x3 tu_2
          run 2 read tu_2 {"path":"b"}
        > done 1 from the first try
        > fail 1 cut
          cancel run 2
          void 1
          record retry of 1, failure 1, in 500 ms, voided: CutStream
          start timer 1 of 500ms
        > done 2 late, while waiting
        > timer 1
          record go on: retry
          call 2 [user]
        > done 2 late, while calling
        > model 2 use tu_1 read {"path":"a"}
          show 2 x3 tu_1
          run 3 read tu_1 {"path":"a"}
        > done 1 late, of a call done
        > model 2 stop tool_use
          record model (ToolUse): read tu_1 {"path":"a"}
        > done 2 late, while answering
        > done 3 from the second try
          record finished tu_1: from the second try
          record go on: next step
          call 3 [user, model tu_1, results tu_1]
        "#,
    );
}

/// C37 (b).
#[test]
fn waits_grow_and_vary() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > fail 1 overloaded chance 0
          record retry of 1, failure 1, in 500 ms: Overloaded
          start timer 1 of 500ms
        > timer 1
          record go on: retry
          call 2 [user]
        > fail 2 overloaded chance 65535
          record retry of 2, failure 2, in 1250 ms: Overloaded
          start timer 2 of 1.25s
        > timer 2
          record go on: retry
          call 3 [user]
        > fail 3 overloaded chance 32768
          record retry of 3, failure 3, in 2250 ms: Overloaded
          start timer 3 of 2.250003814s
        > timer 3
          record go on: retry
          call 4 [user]
        > model 4 say ok
          show 4 x3
          record model (EndTurn): text "ok"
          record end: completed
          END completed
        > user go on
          record user: go on
          call 5 [user, model, user]
        > fail 5 overloaded
          record retry of 5, failure 1, in 500 ms: Overloaded
          start timer 4 of 500ms
        "#,
    );
}

/// C37 (a), (c), (g).
#[test]
fn the_provider_says_how_long_to_wait() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > fail 1 rate_limited after 2
          record retry of 1, failure 1, in 2000 ms: RateLimited
          start timer 1 of 2s
        > timer 1
          record go on: retry
          call 2 [user]
        > fail 2 rate_limited after 0
          record retry of 2, failure 2, in 0 ms: RateLimited
          start timer 2 of 0ns
        > timer 2
          record go on: retry
          call 3 [user]
        > fail 3 rate_limited after 43200
          record end: model error after 3: RateLimited
          END model error after 3: RateLimited
        "#,
    );
}

#[test]
fn retries_are_bounded_in_time() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > fail 1 rate_limited after 60 at 5000
          record retry of 1, failure 1, in 60000 ms: RateLimited
          start timer 1 of 60s
        > timer 1
          record go on: retry
          call 2 [user]
        > fail 2 rate_limited after 60 at 5240
          record retry of 2, failure 2, in 60000 ms: RateLimited
          start timer 2 of 60s
        > timer 2
          record go on: retry
          call 3 [user]
        > fail 3 rate_limited after 60 at 5241
          record end: model error after 3: RateLimited
          END model error after 3: RateLimited
        "#,
    );
}

#[test]
fn a_reply_ends_a_row_of_failures() {
    check(
        r#"
        > set attempts 2
        > user go
          record user: go
          call 1 [user]
        > fail 1 overloaded at 10
          record retry of 1, failure 1, in 500 ms: Overloaded
          start timer 1 of 500ms
        > timer 1
          record go on: retry
          call 2 [user]
        > model 2 call tu_1 bash {}
          show 2 x3 tu_1
          record model (ToolUse): bash tu_1 {}
          record now: started tu_1
          run 1 bash tu_1 {}
        > done 1 out
          record finished tu_1: out
          record go on: next step
          call 3 [user, model tu_1, results tu_1]
        > fail 3 overloaded at 1000
          record retry of 3, failure 1, in 500 ms: Overloaded
          start timer 2 of 500ms
        > timer 2
          record go on: retry
          call 4 [user, model tu_1, results tu_1]
        > model 4 say ok
          show 4 x3
          record model (EndTurn): text "ok"
          record end: completed
          END completed
        "#,
    );
}

#[test]
fn a_retry_uses_the_newest_settings() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > fail 1 overloaded
          record retry of 1, failure 1, in 500 ms: Overloaded
          start timer 1 of 500ms
        > set output 50
        > timer 1
          record go on: retry
          call 2 [user] cap 50
        "#,
    );
}
