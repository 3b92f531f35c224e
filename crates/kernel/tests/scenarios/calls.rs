//! Calls: which run when, and how they are answered.

use crate::script::check;

#[test]
fn read_only_calls_start_while_the_model_writes() {
    check(
        r#"
        > user look
          record user: look
          call 1 [user]
        > model 1 use tu_1 read {"path":"a"}
          show 1 x3 tu_1
          run 1 read tu_1 {"path":"a"}
        > model 1 use tu_2 read {"path":"b"}
          show 1 x3 tu_2
          run 2 read tu_2 {"path":"b"}
        > done 2 b is here
        > model 1 text and then
          show 1 x3
        > model 1 stop tool_use
          record model (ToolUse): read tu_1 {"path":"a"}, read tu_2 {"path":"b"}, text "and then"
          record finished tu_2: b is here
        > done 1 a is here
          record finished tu_1: a is here
          record go on: next step
          call 2 [user, model tu_1 tu_2, results tu_1 tu_2]
        "#,
    );
}

#[test]
fn nothing_starts_early_behind_a_call_with_effects() {
    check(
        r#"
        > user look
          record user: look
          call 1 [user]
        > model 1 use tu_1 read {"path":"a"}
          show 1 x3 tu_1
          run 1 read tu_1 {"path":"a"}
        > model 1 use tu_2 bash {"command":"rm b"}
          show 1 x3 tu_2
        > model 1 use tu_3 read {"path":"b"}
          show 1 x3 tu_3
        > model 1 stop tool_use
          record model (ToolUse): read tu_1 {"path":"a"}, bash tu_2 {"command":"rm b"}, read tu_3 {"path":"b"}
        > done 1 a
          record finished tu_1: a
          record now: started tu_2
          run 2 bash tu_2 {"command":"rm b"}
        > done 2 removed
          record finished tu_2: removed
          run 3 read tu_3 {"path":"b"}
        > done 3 no such file
          record finished tu_3: no such file
          record go on: next step
          call 2 [user, model tu_1 tu_2 tu_3, results tu_1 tu_2 tu_3]
        "#,
    );
}

#[test]
fn nothing_starts_early_behind_a_question_or_a_refusal() {
    check(
        r#"
        > user look
          record user: look
          call 1 [user]
        > model 1 use tu_1 peek {}
          show 1 x3 tu_1
        > model 1 use tu_2 read {}
          show 1 x3 tu_2
        > model 1 stop tool_use
          record model (ToolUse): peek tu_1 {}, read tu_2 {}
          ask 1 peek tu_1 {}: peek is not allowed yet
        > allow 1
          record allowed tu_1
          record now: started tu_1
          run 1 peek tu_1 {}
        > done 1 peeked
          record finished tu_1: peeked
          run 2 read tu_2 {}
        > done 2 read
          record finished tu_2: read
          record go on: next step
          call 2 [user, model tu_1 tu_2, results tu_1 tu_2]
        > model 2 use tu_3 deny {}
          show 2 x3 tu_3
        > model 2 use tu_4 read {}
          show 2 x3 tu_4
        > model 2 stop tool_use
          record model (ToolUse): deny tu_3 {}, read tu_4 {}
          record denied tu_3: deny is forbidden
          record finished tu_3 (error): permission denied, not run: deny is forbidden
          run 3 read tu_4 {}
        "#,
    );
}

#[test]
fn a_block_that_is_still_open_does_not_start() {
    check(
        r#"
        > user look
          record user: look
          call 1 [user]
        > model 1 use+ tu_1 read {"path":"a"}
          show 1 x2 tu_1
        > model 1 use+ tu_2 read {"path":"b"}
          show 1 x2 tu_2
        > model 1 close 1
          show 1 x1
        > model 1 close 0
          show 1 x1
          run 1 read tu_1 {"path":"a"}
        > model 1 stop tool_use
          record model (ToolUse): read tu_1 {"path":"a"}, read tu_2 {"path":"b"}
          run 2 read tu_2 {"path":"b"}
        "#,
    );
}

#[test]
fn no_more_than_max_parallel_run_at_once() {
    check(
        r#"
        > set max_parallel 2
        > user look
          record user: look
          call 1 [user]
        > model 1 use tu_1 read {}
          show 1 x3 tu_1
          run 1 read tu_1 {}
        > model 1 use tu_2 read {}
          show 1 x3 tu_2
          run 2 read tu_2 {}
        > model 1 use tu_3 read {}
          show 1 x3 tu_3
        > model 1 use tu_4 read {}
          show 1 x3 tu_4
        > done 2 two
          run 3 read tu_3 {}
        > model 1 stop tool_use
          record model (ToolUse): read tu_1 {}, read tu_2 {}, read tu_3 {}, read tu_4 {}
          record finished tu_2: two
        > done 1 one
          record finished tu_1: one
          run 4 read tu_4 {}
        > done 4 four
          record finished tu_4: four
        > done 3 three
          record finished tu_3: three
          record go on: next step
          call 2 [user, model tu_1 tu_2 tu_3 tu_4, results tu_1 tu_2 tu_3 tu_4]
        "#,
    );
}

#[test]
fn calls_with_effects_run_alone_and_in_order() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 use tu_1 bash {"command":"1"}
          show 1 x3 tu_1
        > model 1 use tu_2 bash {"command":"2"}
          show 1 x3 tu_2
        > model 1 use tu_3 read {}
          show 1 x3 tu_3
        > model 1 use tu_4 read {}
          show 1 x3 tu_4
        > model 1 use tu_5 bash {"command":"5"}
          show 1 x3 tu_5
        > model 1 stop tool_use
          record model (ToolUse): bash tu_1 {"command":"1"}, bash tu_2 {"command":"2"}, read tu_3 {}, read tu_4 {}, bash tu_5 {"command":"5"}
          record now: started tu_1
          run 1 bash tu_1 {"command":"1"}
        > done 1 one
          record finished tu_1: one
          record now: started tu_2
          run 2 bash tu_2 {"command":"2"}
        > done 2 two
          record finished tu_2: two
          run 3 read tu_3 {}
          run 4 read tu_4 {}
        > done 4 four
          record finished tu_4: four
        > done 3 three
          record finished tu_3: three
          record now: started tu_5
          run 5 bash tu_5 {"command":"5"}
        > done 5 five
          record finished tu_5: five
          record go on: next step
          call 2 [user, model tu_1 tu_2 tu_3 tu_4 tu_5, results tu_1 tu_2 tu_3 tu_4 tu_5]
        "#,
    );
}

#[test]
fn what_may_be_done_twice_still_has_effects() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 use tu_1 read {}
          show 1 x3 tu_1
          run 1 read tu_1 {}
        > model 1 use tu_2 write {}
          show 1 x3 tu_2
        > model 1 stop tool_use
          record model (ToolUse): read tu_1 {}, write tu_2 {}
        > done 1 read
          record finished tu_1: read
          record now: started tu_2
          run 2 write tu_2 {}
        > done 2 written
          record finished tu_2: written
          record go on: next step
          call 2 [user, model tu_1 tu_2, results tu_1 tu_2]
        "#,
    );
}

#[test]
fn what_changes_the_session_alone_runs_once_and_in_its_place() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 use tu_1 note {"n":1}
          show 1 x3 tu_1
        > model 1 use tu_2 note {"n":2}
          show 1 x3 tu_2
        > model 1 use tu_3 read {}
          show 1 x3 tu_3
        > model 1 stop tool_use
          record model (ToolUse): note tu_1 {"n":1}, note tu_2 {"n":2}, read tu_3 {}
          record now: started tu_1
          run 1 note tu_1 {"n":1}
        > done 1 one
          record finished tu_1: one
          record now: started tu_2
          run 2 note tu_2 {"n":2}
        > done 2 two
          record finished tu_2: two
          run 3 read tu_3 {}
        > done 3 read
          record finished tu_3: read
          record go on: next step
          call 2 [user, model tu_1 tu_2 tu_3, results tu_1 tu_2 tu_3]
        "#,
    );
}

/// C16.
#[test]
fn one_refused_and_two_failed_of_four_calls() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 use tu_a bash {"command":"exit 3"}
          show 1 x3 tu_a
        > model 1 use tu_b read {"path":"missing"}
          show 1 x3 tu_b
        > model 1 use tu_c bash {"command":"echo c"}
          show 1 x3 tu_c
        > model 1 use tu_d ask {"command":"touch M"}
          show 1 x3 tu_d
        > model 1 stop tool_use
          record model (ToolUse): bash tu_a {"command":"exit 3"}, read tu_b {"path":"missing"}, bash tu_c {"command":"echo c"}, ask tu_d {"command":"touch M"}
          record now: started tu_a
          run 1 bash tu_a {"command":"exit 3"}
        > failed 1 exit status 3
          record finished tu_a (error): exit status 3
          run 2 read tu_b {"path":"missing"}
        > failed 2 no such file
          record finished tu_b (error): no such file
          record now: started tu_c
          run 3 bash tu_c {"command":"echo c"}
        > done 3 c
          record finished tu_c: c
          ask 1 ask tu_d {"command":"touch M"}: ask is not allowed yet
        > deny 1 not today
          record denied tu_d: not today
          record finished tu_d (error): permission denied, not run: not today
          record go on: next step
          call 2 [user, model tu_a tu_b tu_c tu_d, results tu_a tu_b tu_c tu_d]
        "#,
    );
}

#[test]
fn one_question_at_a_time() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 use tu_1 ask {}
          show 1 x3 tu_1
        > model 1 use tu_2 ask {}
          show 1 x3 tu_2
        > model 1 use tu_3 read {}
          show 1 x3 tu_3
        > model 1 stop tool_use
          record model (ToolUse): ask tu_1 {}, ask tu_2 {}, read tu_3 {}
          ask 1 ask tu_1 {}: ask is not allowed yet
        > allow 1 Ask(*)
          record allowed tu_1, rule Ask(*)
          record now: started tu_1
          run 1 ask tu_1 {}
        > done 1 asked and ran
          record finished tu_1: asked and ran
          ask 2 ask tu_2 {}: ask is not allowed yet
        > deny 2 no
          record denied tu_2: no
          record finished tu_2 (error): permission denied, not run: no
          run 2 read tu_3 {}
        > done 2 read
          record finished tu_3: read
          record go on: next step
          call 2 [user, model tu_1 tu_2 tu_3, results tu_1 tu_2 tu_3]
        "#,
    );
}

#[test]
fn a_no_that_ends_the_turn_lets_no_neighbour_begin() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 use tu_1 ask {}
          show 1 x3 tu_1
        > model 1 use tu_2 bash {}
          show 1 x3 tu_2
        > model 1 stop tool_use
          record model (ToolUse): ask tu_1 {}, bash tu_2 {}
          ask 1 ask tu_1 {}: ask is not allowed yet
        > stop 1 not today
          record denied tu_1 (stops): not today
          record finished tu_1 (error): permission denied, not run: not today
          record finished tu_2 (error): not run: the user interrupted before this call began
          record end: interrupted, tools
          END interrupted, tools
        "#,
    );
}

#[test]
fn what_cannot_run_is_answered() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 use tu_1 Bash {"command":"ls"}
          show 1 x3 tu_1
        > model 1 use tu_2 deny {}
          show 1 x3 tu_2
        > model 1 use tu_3 bash {"command":
          show 1 x3 tu_3
        > model 1 use tu_4 bash [1]
          show 1 x3 tu_4
        > model 1 stop tool_use
          record model (ToolUse): Bash tu_1 {"command":"ls"}, deny tu_2 {}, bash tu_3 {}, bash tu_4 {}
          record finished tu_1 (error): there is no tool Bash
          record denied tu_2: deny is forbidden
          record finished tu_2 (error): permission denied, not run: deny is forbidden
          record finished tu_3 (error): the input of this call is not a JSON object, so nothing was run:...
          record finished tu_4 (error): the input of this call is not a JSON object, so nothing was run:...
          record go on: next step
          call 2 [user, model tu_1 tu_2 tu_3 tu_4, results tu_1 tu_2 tu_3 tu_4]
        "#,
    );
}

#[test]
fn a_silent_tool_is_reported() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 call tu_1 bash
          show 1 x3 tu_1
          record model (ToolUse): bash tu_1 {}
          record now: started tu_1
          run 1 bash tu_1 {}
        > done 1 \n\s\n
          record finished tu_1: (no output)
          record go on: next step
          call 2 [user, model tu_1, results tu_1]
        "#,
    );
}

#[test]
fn answers_to_what_is_not_under_way_change_nothing() {
    check(
        r#"
        > done 1 x
        > allow 1
        > timer 1
        > model 1 say x
        > fail 1 overloaded
        > interrupt
        > resumed
        > user go
          record user: go
          call 1 [user]
        > model 2 say x
        > fail 2 overloaded
        > timer 1
        > model 1 call tu_1 ask {}
          show 1 x3 tu_1
          record model (ToolUse): ask tu_1 {}
          ask 1 ask tu_1 {}: ask is not allowed yet
        > model 1 say twice
        > fail 1 overloaded
        > done 1 x
        > allow 2
        > resumed
        > allow 1
          record allowed tu_1
          record now: started tu_1
          run 1 ask tu_1 {}
        > deny 1 too late
        > done 1 once
          record finished tu_1: once
          record go on: next step
          call 2 [user, model tu_1, results tu_1]
        > done 1 twice
        > fail 2 overloaded
          record retry of 2, failure 1, in 500 ms: Overloaded
          start timer 1 of 500ms
        > interrupt
          cancel timer 1
          record end: interrupted, model
          END interrupted, model
        > user go on
          record user: go on
          call 3 [user, model tu_1, results tu_1, user]
        > fail 3 overloaded
          record retry of 3, failure 1, in 500 ms: Overloaded
          start timer 2 of 500ms
        > timer 1
        "#,
    );
}

#[test]
fn those_who_have_others_work_run_beside_each_other_once_the_message_is_complete() {
    check(
        r#"
        > user look
          record user: look
          call 1 [user]
        > model 1 use tu_1 task {"n":1}
          show 1 x3 tu_1
        > model 1 use tu_2 task {"n":2}
          show 1 x3 tu_2
        > model 1 use tu_3 read {}
          show 1 x3 tu_3
        > model 1 use tu_4 bash {}
          show 1 x3 tu_4
        > model 1 stop tool_use
          record model (ToolUse): task tu_1 {"n":1}, task tu_2 {"n":2}, read tu_3 {}, bash tu_4 {}
          record now: started tu_1
          run 1 task tu_1 {"n":1}
          record now: started tu_2
          run 2 task tu_2 {"n":2}
          run 3 read tu_3 {}
        > done 2 two
          record finished tu_2: two
        > done 3 read
          record finished tu_3: read
        > done 1 one
          record finished tu_1: one
          record now: started tu_4
          run 4 bash tu_4 {}
        > done 4 done
          record finished tu_4: done
          record go on: next step
          call 2 [user, model tu_1 tu_2 tu_3 tu_4, results tu_1 tu_2 tu_3 tu_4]
        "#,
    );
}

#[test]
fn a_task_waits_for_calls_with_effects_before_it_and_dies_with_the_process() {
    check(
        r#"
        > user look
          record user: look
          call 1 [user]
        > model 1 use tu_1 bash {}
          show 1 x3 tu_1
        > model 1 use tu_2 task {}
          show 1 x3 tu_2
        > model 1 stop tool_use
          record model (ToolUse): bash tu_1 {}, task tu_2 {}
          record now: started tu_1
          run 1 bash tu_1 {}
        > done 1 one
          record finished tu_1: one
          record now: started tu_2
          run 2 task tu_2 {}
        > interrupt
          cancel run 2
          record finished tu_2 (error): interrupted by the user while it ran: its outcome is unknown
          record end: interrupted, tools
          END interrupted, tools
        "#,
    );
}
