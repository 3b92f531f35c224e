//! Limits on calls, time, tokens and money.

use crate::script::check;

#[test]
fn no_more_tools_run_than_may() {
    check(
        r#"
        > set tool_calls 3
        > user go
          record user: go
          call 1 [user]
        > model 1 use t1 read {}
          show 1 x3 t1
          run 1 read t1 {}
        > model 1 use t2 bash {}
          show 1 x3 t2
        > model 1 use t3 bash {}
          show 1 x3 t3
        > model 1 use t4 read {}
          show 1 x3 t4
        > model 1 stop tool_use
          record model (ToolUse): read t1 {}, bash t2 {}, bash t3 {}, read t4 {}
        > done 1 a
          record finished t1: a
          record now: started t2
          run 2 bash t2 {}
        > done 2 b
          record finished t2: b
          record now: started t3
          run 3 bash t3 {}
        > done 3 c
          record finished t3: c
          record finished t4 (error): not run: the limit of 3 tool calls is reached
          record end: max tool calls 3
          END max tool calls 3
        > user more
          record user: more
          call 2 [user, model t1 t2 t3 t4, results t1 t2 t3 t4, user]
        "#,
    );
}

/// What runs early counts as well, and no more of it runs than may.
#[test]
fn early_calls_count() {
    check(
        r#"
        > set tool_calls 1
        > user go
          record user: go
          call 1 [user]
        > model 1 use t1 read {}
          show 1 x3 t1
          run 1 read t1 {}
        > model 1 use t2 read {}
          show 1 x3 t2
        > model 1 stop tool_use
          record model (ToolUse): read t1 {}, read t2 {}
          record finished t2 (error): not run: the limit of 1 tool calls is reached
        > done 1 a
          record finished t1: a
          record end: max tool calls 1
          END max tool calls 1
        "#,
    );
}

#[test]
fn a_turn_ends_when_its_time_is_over_whatever_goes_on() {
    check(
        r#"
        > set time 60
        > user go
          record user: go
          start timer 1 of 60s
          call 1 [user]
        > model 1 call t1 bash {}
          show 1 x3 t1
          record model (ToolUse): bash t1 {}
          record now: started t1
          run 1 bash t1 {}
        > timer 1
          cancel run 1
          record finished t1 (error): interrupted by the time limit while it ran: its outcome is unkno...
          record end: deadline 60000 ms
          END deadline 60000 ms
        > timer 1
        > user more
          record user: more
          start timer 2 of 60s
          call 2 [user, model t1, results t1, user]
        > timer 1
        > fail 2 overloaded
          record retry of 2, failure 1, in 500 ms: Overloaded
          start timer 3 of 500ms
        > timer 2
          cancel timer 3
          record end: deadline 60000 ms
          END deadline 60000 ms
        > user again
          record user: again
          start timer 4 of 60s
          call 3 [user, model t1, results t1, user, user]
        > model 3 say done
          show 3 x3
          record model (EndTurn): text "done"
          cancel timer 4
          record end: completed
          END completed
        "#,
    );
}

#[test]
fn tokens_are_reserved_before_they_are_spent() {
    check(
        r#"
        > set output 100
        > set tokens 160
        > user go
          record user: go
          call 1 [user] cap 100
        > model 1 usage 50 40
          show 1 x1
        > model 1 call t1 bash {}
          show 1 x3 t1
          record model (ToolUse): bash t1 {}
          record spent 90
          record now: started t1
          run 1 bash t1 {}
        > done 1 fine
          record finished t1: fine
          record end: budget: 90 + 160 of 160 tokens
          END budget: 90 + 160 of 160 tokens
        "#,
    );
}

#[test]
fn the_last_output_cap_shrinks_and_a_reply_that_it_cuts_is_kept() {
    check(
        r#"
        > set output 100
        > set escalated 1000
        > set price
        > set cost 350
        > user go
          record user: go
          call 1 [user] cap 59
        > model 1 usage 40 59
          show 1 x1
        > model 1 text half
          show 1 x3
        > model 1 stop max_tokens
          record model (MaxTokens): text "half"
          record spent 99, $0.000335
          record user: Your reply was cut by the output limit. Go on exactly where it s...
          record end: budget: $0.000335 + $0.000334 of $0.00035
          END budget: $0.000335 + $0.000334 of $0.00035
        > crash
        > set cost 350
        > resumed
        > user more
          record user: more
          record end: budget: $0.000335 + $0.000386 of $0.00035
          END budget: $0.000335 + $0.000386 of $0.00035
        "#,
    );
}

#[test]
fn with_a_limit_on_money_a_model_without_a_price_is_not_asked() {
    check(
        r#"
        > set model unheard-of
        > set cost 1000000
        > user go
          record user: go
          record end: budget: price of unheard-of
          END budget: price of unheard-of
        "#,
    );
}

/// What had come of it is booked, and nothing where nothing came.
#[test]
fn a_reply_that_breaks_off_is_paid_for() {
    check(
        r#"
        > set output 100
        > set price
        > user go
          record user: go
          call 1 [user] cap 100
        > fail 1 overloaded
          record retry of 1, failure 1, in 500 ms: Overloaded
          start timer 1 of 500ms
        > timer 1
          record go on: retry
          call 2 [user] cap 100
        > model 2 usage 50 1
          show 2 x1
        > model 2 text+ four
          show 2 x2
        > fail 2 cut
          void 2
          record paid 50 + 1
          record spent 54, $0.00007
          record retry of 2, failure 2, in 1000 ms, voided: CutStream
          start timer 2 of 1s
        "#,
    );
}

/// The price is that of who was asked, whoever is asked next.
#[test]
fn a_reply_is_paid_for_at_the_price_at_which_it_was_asked_for() {
    check(
        r#"
        > set output 100
        > user go
          record user: go
          call 1 [user] cap 100
        > set price
        > model 1 usage 50 10
          show 1 x1
        > model 1 say done
          show 1 x3
          record model (EndTurn): text "done"
          record end: completed
          END completed
        "#,
    );
}

/// A conversation that another model has counted is counted anew, byte by byte, until the one that
/// is asked has counted it: that of the reply under way does not count.
#[test]
fn what_another_model_has_counted_is_no_count() {
    check(
        r#"
        > set output 10
        > set tokens 300
        > user go
          record user: go
          call 1 [user] cap 10
        > set model other
        > model 1 usage 1 1
          show 1 x1
        > model 1 say done
          show 1 x3
          record model (EndTurn): text "done"
          record spent 2
          record end: completed
          END completed
        > set tokens 100
        > user more
          record user: more
          record end: budget: 2 + 132 of 100 tokens
          END budget: 2 + 132 of 100 tokens
        "#,
    );
}

/// What is told of a reply that is broken off need not be all that is kept of it.
#[test]
fn what_is_kept_of_a_reply_that_was_broken_off_is_reckoned_with() {
    check(
        r#"
        > set output 10
        > set tokens 200
        > user go
          record user: go
          call 1 [user] cap 10
        > model 1 usage 50 0
          show 1 x1
        > model 1 text twenty bytes of text
          show 1 x3
        > interrupt
          cancel call 1
          record spent 60
          record model (interrupted): text "twenty bytes of text"
          record end: interrupted, model
          END interrupted, model
        > set tokens 160
        > user more
          record user: more
          record end: budget: 60 + 148 of 160 tokens
          END budget: 60 + 148 of 160 tokens
        "#,
    );
}

/// It costs the reserved input and one token for each byte of the reply.
#[test]
fn a_reply_without_usage_is_not_free() {
    check(
        r#"
        > set output 100
        > set price
        > set cost 1000
        > user go
          record user: go
          call 1 [user] cap 100
        > model 1 say done
          show 1 x3
          record model (EndTurn): text "done"
          record spent 54, $0.00007
          record end: completed
          END completed
        "#,
    );
}

/// The request that was counted may have had another system prompt, so the prompt is added.
#[test]
fn a_resumed_count_excludes_the_system_prompt() {
    check(
        r#"
        > set output 10
        > user go
          record user: go
          call 1 [user] cap 10
        > model 1 usage 50 5
          show 1 x1
        > model 1 say ok
          show 1 x3
          record model (EndTurn): text "ok"
          record end: completed
          END completed
        > crash
        > resumed
        > user more
          record user: more
          call 1 [user, model, user] cap 10
        > model 1 say ok
          show 1 x3
          record model (EndTurn): text "ok"
          record end: completed
          END completed
        > set tokens 100
        > user again
          record user: again
          record end: budget: 57 + 188 of 100 tokens
          END budget: 57 + 188 of 100 tokens
        "#,
    );
}
