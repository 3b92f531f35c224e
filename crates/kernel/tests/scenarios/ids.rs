//! Ids of tool uses, as providers give them.

use crate::script::check;

#[test]
fn empty_odd_and_repeated_ids_are_replaced() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 use - bash {"n":1}
          show 1 x3 call_1
        > model 1 use tu_1 bash {"n":2}
          show 1 x3 tu_1
        > model 1 use tu_1 bash {"n":3}
          show 1 x3 call_2
        > model 1 use functions.bash:0 bash {"n":4}
          show 1 x3 call_3
        > model 1 stop tool_use
          record model (ToolUse): bash call_1 {"n":1}, bash tu_1 {"n":2}, bash call_2 {"n":3}, bash call_3 {"n":4}
          record now: started call_1
          run 1 bash call_1 {"n":1}
        > done 1 one
          record finished call_1: one
          record now: started tu_1
          run 2 bash tu_1 {"n":2}
        > done 2 two
          record finished tu_1: two
          record now: started call_2
          run 3 bash call_2 {"n":3}
        > done 3 three
          record finished call_2: three
          record now: started call_3
          run 4 bash call_3 {"n":4}
        > done 4 four
          record finished call_3: four
          record go on: next step
          call 2 [user, model call_1 tu_1 call_2 call_3, results call_1 tu_1 call_2 call_3]
        > model 2 call tu_1 bash {"n":5}
          show 2 x3 call_4
          record model (ToolUse): bash call_4 {"n":5}
          record now: started call_4
          run 5 bash call_4 {"n":5}
        > done 5 five
          record finished call_4: five
          record go on: next step
          call 3 [user, model call_1 tu_1 call_2 call_3, results call_1 tu_1 call_2 call_3, model call_4, results call_4]
        > model 3 call call_5 bash {"n":6}
          show 3 x3 call_5
          record model (ToolUse): bash call_5 {"n":6}
          record now: started call_5
          run 6 bash call_5 {"n":6}
        > done 6 six
          record finished call_5: six
          record go on: next step
          call 4 [user, model call_1 tu_1 call_2 call_3, results call_1 tu_1 call_2 call_3, model call_4, results call_4, model call_5, results call_5]
        > model 4 call - bash {"n":7}
          show 4 x3 call_6
          record model (ToolUse): bash call_6 {"n":7}
          record now: started call_6
          run 7 bash call_6 {"n":7}
        > done 7 seven
          record finished call_6: seven
          record go on: next step
          call 5 [user, model call_1 tu_1 call_2 call_3, results call_1 tu_1 call_2 call_3, model call_4, results call_4, model call_5, results call_5, model call_6, results call_6]
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
