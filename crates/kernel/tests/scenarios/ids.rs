//! Ids of tool uses, as providers give them.

use crate::script::check;

#[test]
fn ids_stay_as_the_provider_gave_them() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 use - read {"n":1}
          show 1 x3 call_1
          run 1 read call_1 {"n":1}
        > model 1 use functions.bash/0:a read {"n":2}
          show 1 x3 functions.bash/0:a
          run 2 read functions.bash/0:a {"n":2}
        > model 1 stop tool_use
          record model (ToolUse): read call_1 {"n":1}, read functions.bash/0:a {"n":2}
        > done 1 one
          record finished call_1: one
        > done 2 two
          record finished functions.bash/0:a: two
          record go on: next step
          call 2 [user, model call_1 functions.bash/0:a, results call_1 functions.bash/0:a]
        > model 2 call functions.bash/0:a read {"n":3}
          show 2 x3 call_2
          run 3 read call_2 {"n":3}
          record model (ToolUse): read call_2 {"n":3}
        > done 3 three
          record finished call_2: three
          record go on: next step
          call 3 [user, model call_1 functions.bash/0:a, results call_1 functions.bash/0:a, model call_2, results call_2]
        "#,
    );
}

#[test]
fn a_call_sent_twice_under_one_id_runs_once() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 use p read {"n":1}
          show 1 x3 p
          run 1 read p {"n":1}
        > model 1 use q read {"n":1}
          show 1 x3 q
          run 2 read q {"n":1}
        > model 1 use p read {"n": 1}
        > model 1 use p read {"n":2}
        > model 1 stop tool_use
          record model (ToolUse): read p {"n":1}, read q {"n":1}, read call_2 {}
          record finished call_2 (error): nothing was run: this call came with the id of an earlier call o...
        > done 1 one
          record finished p: one
        > done 2 two
          record finished q: two
          record go on: next step
          call 2 [user, model p q call_2, results p q call_2]
        "#,
    );
}

#[test]
fn an_id_of_a_reply_that_failed_may_come_again() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 use tu_1 bash {}
          show 1 x3 tu_1
        > fail 1 cut
          void 1
          record retry of 1, failure 1, in 500 ms, voided: CutStream
          start timer 1 of 500ms
        > timer 1
          record go on: retry
          call 2 [user]
        > model 2 call tu_1 bash {}
          show 2 x3 tu_1
          record model (ToolUse): bash tu_1 {}
          record now: started tu_1
          run 1 bash tu_1 {}
        > done 1 ok
          record finished tu_1: ok
          record go on: next step
          call 3 [user, model tu_1, results tu_1]
        "#,
    );
}

#[test]
fn ids_stay_unique_after_a_crash() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 call - bash {}
          show 1 x3 call_1
          record model (ToolUse): bash call_1 {}
          record now: started call_1
          run 1 bash call_1 {}
        > done 1 ok
          record finished call_1: ok
          record go on: next step
          call 2 [user, model call_1, results call_1]
        > model 2 call - bash {}
          show 2 x3 call_2
          record model (ToolUse): bash call_2 {}
          record now: started call_2
          run 2 bash call_2 {}
        > crash
        > resumed
          record finished call_2 (error): interrupted, outcome unknown: the harness ended while this call...
          record end: interrupted, tools
        > user go on
          record user: go on
          call 1 [user, model call_1, results call_1, model call_2, results call_2, user]
        > model 1 call - bash {}
          show 1 x3 call_3
          record model (ToolUse): bash call_3 {}
          record now: started call_3
          run 1 bash call_3 {}
        > done 1 ok
          record finished call_3: ok
          record go on: next step
          call 2 [user, model call_1, results call_1, model call_2, results call_2, user, model call_3, results call_3]
        "#,
    );
}
