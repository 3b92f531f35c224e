//! Calls that others have a say in before they are judged.

use crate::script::check;

#[test]
fn all_calls_are_told_of_at_once_and_judged_in_order() {
    check(
        r#"
        > set before bash read
        > user go
          record user: go
          call 1 [user]
        > model 1 use t1 read {"path":"a"}
          show 1 x3 t1
        > model 1 use t2 bash {}
          show 1 x3 t2
        > model 1 use t3 read {"path":"b"}
          show 1 x3 t3
        > model 1 stop tool_use
          record model (ToolUse): read t1 {"path":"a"}, bash t2 {}, read t3 {"path":"b"}
          consult 1 read t1 {"path":"a"}
          consult 2 bash t2 {}
          consult 3 read t3 {"path":"b"}
        > advise 3
        > advise 2
        > advise 1
          run 1 read t1 {"path":"a"}
        > done 1 a
          record finished t1: a
          record now: started t2
          run 2 bash t2 {}
        > done 2 b
          record finished t2: b
          run 3 read t3 {"path":"b"}
        > done 3 c
          record finished t3: c
          record go on: next step
          call 2 [user, model t1 t2 t3, results t1 t2 t3]
        "#,
    );
}

#[test]
fn only_calls_that_could_run_and_are_hooked_are_told_of() {
    check(
        r#"
        > set before bash nothing
        > user go
          record user: go
          call 1 [user]
        > model 1 use t1 read {}
          show 1 x3 t1
          run 1 read t1 {}
        > model 1 use t2 nothing {}
          show 1 x3 t2
        > model 1 use t3 bash {"half":
          show 1 x3 t3
        > model 1 use t4 bash {}
          show 1 x3 t4
        > model 1 stop tool_use
          record model (ToolUse): read t1 {}, nothing t2 {}, bash t3 {}, bash t4 {}
          consult 1 bash t4 {}
          record finished t2 (error): there is no tool nothing
          record finished t3 (error): the input of this call is not a JSON object, so nothing was run:...
        > advise 1
        > done 1 a
          record finished t1: a
          record now: started t4
          run 2 bash t4 {}
        "#,
    );
}

#[test]
fn calls_that_are_told_of_afterwards_do_not_run_early() {
    check(
        r#"
        > set after read
        > user go
          record user: go
          call 1 [user]
        > model 1 use t1 read {}
          show 1 x3 t1
        > model 1 stop tool_use
          record model (ToolUse): read t1 {}
          run 1 read t1 {}
        "#,
    );
}

#[test]
fn advice_denies_and_its_neighbours_go_on() {
    check(
        r#"
        > set before bash
        > user go
          record user: go
          call 1 [user]
        > model 1 use t1 bash {"n":1}
          show 1 x3 t1
        > model 1 use t2 bash {"n":2}
          show 1 x3 t2
        > model 1 stop tool_use
          record model (ToolUse): bash t1 {"n":1}, bash t2 {"n":2}
          consult 1 bash t1 {"n":1}
          consult 2 bash t2 {"n":2}
        > advise 1 deny not on a Friday ; tell it is Friday ; input {"n":3}
          record denied t1: not on a Friday
          record finished t1 (error): permission denied, not run: not on a Friday + it is Friday
        > advise 2
          record now: started t2
          run 1 bash t2 {"n":2}
        > done 1 ok
          record finished t2: ok
          record go on: next step
          call 2 [user, model t1 t2, results t1 t2]
        "#,
    );
}

#[test]
fn advice_allows_what_nothing_covers_and_no_more() {
    check(
        r#"
        > set before ask ask_rule deny
        > user go
          record user: go
          call 1 [user]
        > model 1 use t1 ask {}
          show 1 x3 t1
        > model 1 use t2 ask_rule {}
          show 1 x3 t2
        > model 1 use t3 deny {}
          show 1 x3 t3
        > model 1 stop tool_use
          record model (ToolUse): ask t1 {}, ask_rule t2 {}, deny t3 {}
          consult 1 ask t1 {}
          consult 2 ask_rule t2 {}
          consult 3 deny t3 {}
        > advise 1 allow
          record now: started t1
          run 1 ask t1 {}
        > advise 2 allow
        > advise 3 allow
        > done 1 ok
          record finished t1: ok
          ask 1 ask_rule t2 {}: ask_rule is not allowed yet
        > allow 1
          record allowed t2
          record now: started t2
          run 2 ask_rule t2 {}
        > done 2 ok
          record finished t2: ok
          record denied t3: deny is forbidden
          record finished t3 (error): permission denied, not run: deny is forbidden
          record go on: next step
          call 2 [user, model t1 t2 t3, results t1 t2 t3]
        "#,
    );
}

#[test]
fn advice_asks_even_where_a_rule_allows() {
    check(
        r#"
        > set before bash ask
        > user go
          record user: go
          call 1 [user]
        > model 1 use t1 bash {}
          show 1 x3 t1
        > model 1 use t2 ask {}
          show 1 x3 t2
        > model 1 stop tool_use
          record model (ToolUse): bash t1 {}, ask t2 {}
          consult 1 bash t1 {}
          consult 2 ask t2 {}
        > advise 1 ask is that wise
          ask 1 bash t1 {}: is that wise
        > advise 2 ask and that
        > deny 1 no
          record denied t1: no
          record finished t1 (error): permission denied, not run: no
          ask 2 ask t2 {}: ask is not allowed yet; and that
        "#,
    );
}

#[test]
fn a_rewritten_input_is_judged_and_on_record_before_it_runs() {
    check(
        r#"
        > set before bash ask
        > user go
          record user: go
          call 1 [user]
        > model 1 use t1 bash {"n":1}
          show 1 x3 t1
        > model 1 use t2 bash {"n":2}
          show 1 x3 t2
        > model 1 use t3 ask {}
          show 1 x3 t3
        > model 1 stop tool_use
          record model (ToolUse): bash t1 {"n":1}, bash t2 {"n":2}, ask t3 {}
          consult 1 bash t1 {"n":1}
          consult 2 bash t2 {"n":2}
          consult 3 ask t3 {}
        > advise 1 input {"n":"safe"} ; tell made safe
          record rewritten t1: {"n":"safe"}
          record now: started t1
          run 1 bash t1 {"n":"safe"}
        > advise 2 allow ; input {"n":"forbidden"}
          record rewritten t2: {"n":"forbidden"}
        > advise 3 allow ; input {"a":"rule"}
          record rewritten t3: {"a":"rule"}
        > done 1 ok
          record finished t1: ok + made safe
          record denied t2: that input is forbidden
          record finished t2 (error): permission denied, not run: that input is forbidden
          ask 1 ask t3 {"a":"rule"}: ask is not allowed yet
        > deny 1 no
          record denied t3: no
          record finished t3 (error): permission denied, not run: no
          record go on: next step
          call 2 [user, model t1 t2 t3, results t1 t2 t3]
        "#,
    );
}

#[test]
fn who_is_asked_may_put_another_input_in_the_place() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 use t1 ask {"n":1}
          show 1 x3 t1
        > model 1 use t2 ask {"n":2}
          show 1 x3 t2
        > model 1 stop tool_use
          record model (ToolUse): ask t1 {"n":1}, ask t2 {"n":2}
          ask 1 ask t1 {"n":1}: ask is not allowed yet
        > allow 1 {"n":"safe"}
          record rewritten t1: {"n":"safe"}
          record allowed t1
          record now: started t1
          run 1 ask t1 {"n":"safe"}
        > done 1 ok
          record finished t1: ok
          ask 2 ask t2 {"n":2}: ask is not allowed yet
        > allow 2 {"n":"forbidden"}
          record rewritten t2: {"n":"forbidden"}
          record denied t2: that input is forbidden
          record finished t2 (error): permission denied, not run: that input is forbidden
          record go on: next step
          call 2 [user, model t1 t2, results t1 t2]
        "#,
    );
}

#[test]
fn a_stop_lets_what_runs_come_to_its_end() {
    check(
        r#"
        > set before bash ask
        > user go
          record user: go
          call 1 [user]
        > model 1 use t1 bash {"n":1}
          show 1 x3 t1
        > model 1 use t2 bash {"n":2}
          show 1 x3 t2
        > model 1 use t3 ask {}
          show 1 x3 t3
        > model 1 stop tool_use
          record model (ToolUse): bash t1 {"n":1}, bash t2 {"n":2}, ask t3 {}
          consult 1 bash t1 {"n":1}
          consult 2 bash t2 {"n":2}
          consult 3 ask t3 {}
        > advise 1
          record now: started t1
          run 1 bash t1 {"n":1}
        > advise 2 stop that is enough
          record finished t2 (error): not run: a hook ended the turn before this call began
          cancel consult 3
          record finished t3 (error): not run: a hook ended the turn before this call began
        > advise 3 deny late
        > done 1 ok
          record finished t1: ok
          record end: hook stopped: that is enough
          END hook stopped: that is enough
        "#,
    );
}

#[test]
fn a_stop_withdraws_a_question_and_may_be_overtaken_by_the_user() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 use t1 read {}
          show 1 x3 t1
          run 1 read t1 {}
        > model 1 use t2 ask {}
          show 1 x3 t2
        > model 1 stop tool_use
          record model (ToolUse): read t1 {}, ask t2 {}
          ask 1 ask t2 {}: ask is not allowed yet
        > hook enough
          cancel ask 1
          record finished t2 (error): not run: a hook ended the turn before this call was allowed
        > interrupt
          cancel run 1
          record finished t1 (error): interrupted by the user while it ran: its outcome is unknown
          record end: interrupted, tools
          END interrupted, tools
        > user again
          record user: again
          call 2 [user, model t1 t2, results t1 t2, user]
        > model 2 call t3 bash {}
          show 2 x3 t3
          record model (ToolUse): bash t3 {}
          record now: started t3
          run 2 bash t3 {}
        > done 2 ok
          record finished t3: ok
          record go on: next step
          call 3 [user, model t1 t2, results t1 t2, user, model t3, results t3]
        "#,
    );
}

#[test]
fn an_interrupt_while_they_are_asked() {
    check(
        r#"
        > set before bash
        > user go
          record user: go
          call 1 [user]
        > model 1 use t1 bash {}
          show 1 x3 t1
        > model 1 use t2 read {}
          show 1 x3 t2
        > model 1 stop tool_use
          record model (ToolUse): bash t1 {}, read t2 {}
          consult 1 bash t1 {}
        > interrupt
          cancel consult 1
          record finished t1 (error): not run: the user interrupted before this call began
          record finished t2 (error): not run: the user interrupted before this call began
          record end: interrupted, tools
          END interrupted, tools
        > advise 1 deny late
        "#,
    );
}

#[test]
fn a_death_while_they_are_asked() {
    check(
        r#"
        > set before bash
        > user go
          record user: go
          call 1 [user]
        > model 1 call t1 bash {"n":1}
          show 1 x3 t1
          record model (ToolUse): bash t1 {"n":1}
          consult 1 bash t1 {"n":1}
        > crash
        > resumed
          record finished t1 (error): interrupted: the harness ended before this call had an answer. I...
          record end: interrupted, tools
        > advise 1 deny late
        > user again
          record user: again
          call 1 [user, model t1, results t1, user]
        > model 1 call t2 bash {"n":2}
          show 1 x3 t2
          record model (ToolUse): bash t2 {"n":2}
          consult 1 bash t2 {"n":2}
        > advise 1 input {"n":3}
          record rewritten t2: {"n":3}
          record now: started t2
          run 1 bash t2 {"n":3}
        > crash
        > resumed
          record finished t2 (error): interrupted, outcome unknown: the harness ended while this call...
          record end: interrupted, tools
        "#,
    );
}

#[test]
fn a_call_behind_a_hooked_one_does_not_run_early() {
    check(
        r#"
        > set before bash
        > user go
          record user: go
          call 1 [user]
        > model 1 use t1 bash {}
          show 1 x3 t1
        > model 1 use t2 read {}
          show 1 x3 t2
        > model 1 stop tool_use
          record model (ToolUse): bash t1 {}, read t2 {}
          consult 1 bash t1 {}
        "#,
    );
}
