//! Summing up, and what may come between.

use crate::script::check;

/// A conversation that a summary makes shorter, up to its third call, and what is told of it.
fn long(rest: &str) {
    let words = "word ".repeat(800);
    let words = words.trim();
    check(&format!(
        r#"
        > set window 4000
        > user go
          record user: go
          call 1 [user]
        > model 1 call tu_1 bash {{}}
          show 1 x3 tu_1
          record model (ToolUse): bash tu_1 {{}}
          record now: started tu_1
          run 1 bash tu_1 {{}}
        > done 1 {words}
          record finished tu_1: word word word word word word word word word word word word word...
          record go on: next step
          call 2 [user, model tu_1, results tu_1]
        > model 2 call tu_2 bash {{"again": true}}
          show 2 x3 tu_2
          record model (ToolUse): bash tu_2 {{"again": true}}
          record now: started tu_2
          run 2 bash tu_2 {{"again": true}}
        > done 2 out
          record finished tu_2: out
          record go on: next step
          call 3 [user, model tu_1, results tu_1, model tu_2, results tu_2]
        {rest}
        "#
    ));
}

#[test]
fn a_request_that_was_too_long_is_made_again_when_the_conversation_is_summed_up() {
    long(
        r#"
        > fail 3 too_long
          prepare compaction 1, too_long
        > prepared 7
        > prepared 1 carry the plan
          record go on: compact
          call 4 [user, model tu_2, results tu_2, user] cap 479
        > prepared 1
        > fail 4 overloaded at 10
          record retry of 4, failure 1, in 500 ms: Overloaded
          start timer 1 of 500ms
        > timer 1
          record go on: retry
          call 5 [user, model tu_2, results tu_2, user] cap 479
        > user steer
        > model 5 say in short
          record compacted 3 (too_long), with go / the plan
          compaction 1 done
          record go on: retry
          call 6 [user, model tu_2, results tu_2]
        > model 6 say done
          show 6 x3
          record model (EndTurn): text "done"
          record user: steer
          record go on: steered
          call 7 [user, model tu_2, results tu_2, model, user]
        "#,
    );
}

#[test]
fn an_interrupt_ends_the_turn_while_a_summary_is_prepared_or_written() {
    long(
        r#"
        > fail 3 too_long
          prepare compaction 1, too_long
        > interrupt
          cancel compaction 1
          record end: interrupted, model
          END interrupted, model
        > prepared 1
        > user more
          record user: more
          call 4 [user, model tu_1, results tu_1, model tu_2, results tu_2, user]
        > fail 4 too_long
          prepare compaction 2, too_long
        > prepared 2
          record go on: compact
          call 5 [user, model tu_2, results tu_2, user, user] cap 479
        > model 5 text in
        > interrupt
          cancel call 5
          record end: interrupted, model
          END interrupted, model
        > model 5 stop end_turn
        "#,
    );
}

#[test]
fn a_second_refusal_is_the_end_of_it() {
    long(
        r#"
        > fail 3 too_long
          prepare compaction 1, too_long
        > prepared 1
          record go on: compact
          call 4 [user, model tu_2, results tu_2, user] cap 479
        > model 4 say in short
          record compacted 3 (too_long), with go
          compaction 1 done
          record go on: retry
          call 5 [user, model tu_2, results tu_2]
        > fail 5 too_long
          record end: context limit: ContextTooLong. In tokens, about: the system prompt 0, the tools 0, the conversation 101, of which what you asked for 9; the model's window has 4000
          END context limit: ContextTooLong. In tokens, about: the system prompt 0, the tools 0, the conversation 101, of which what you asked for 9; the model's window has 4000
        "#,
    );
}

#[test]
fn a_summary_whose_request_is_too_long_is_asked_for_with_less() {
    long(
        r#"
        > fail 3 too_long
          prepare compaction 1, too_long
        > prepared 1
          record go on: compact
          call 4 [user, model tu_2, results tu_2, user] cap 479
        > fail 4 too_long
          record go on: compact
          call 5 [user, model tu_2, results tu_2, user] cap 479
        > fail 5 too_long
          record go on: compact
          call 6 [user, model tu_2, results tu_2, user] cap 479
        > fail 6 too_long
          compaction 1 failed: the request for the summary is too long: ContextTooLong
          record end: context limit: the provider found the request too long, and the conversation could not be summed up: the request for the summary is too long: ContextTooLong
          END context limit: the provider found the request too long, and the conversation could not be summed up: the request for the summary is too long: ContextTooLong
        > fail 7 too_long
        "#,
    );
}

#[test]
fn a_hook_may_refuse_it() {
    long(
        r#"
        > fail 3 too_long
          prepare compaction 1, too_long
        > prepared 1 refuse not now
          compaction 1 failed: a hook refused it: not now
          record end: context limit: the provider found the request too long, and the conversation could not be summed up: a hook refused it: not now
          END context limit: the provider found the request too long, and the conversation could not be summed up: a hook refused it: not now
        "#,
    );
}

#[test]
fn calls_in_a_summary_are_not_run_and_no_summary() {
    long(
        r#"
        > fail 3 too_long
          prepare compaction 1, too_long
        > prepared 1
          record go on: compact
          call 4 [user, model tu_2, results tu_2, user] cap 479
        > model 4 call tu_9 read {}
          compaction 1 failed: the model wrote no summary
          record end: context limit: the provider found the request too long, and the conversation could not be summed up: the model wrote no summary
          END context limit: the provider found the request too long, and the conversation could not be summed up: the model wrote no summary
        "#,
    );
}

#[test]
fn somebody_asks_for_it_while_nothing_is_under_way() {
    long(
        r#"
        > compact too early
        > model 3 say done
          show 3 x3
          record model (EndTurn): text "done"
          record end: completed
          END completed
        > compact the tests
          prepare compaction 1, manual
        > compact again
        > wake
        > user meanwhile
        > prepared 1
          call 4 [user, model tu_1, results tu_1, model tu_2, results tu_2, model, user] cap 479
        > model 4 say in short
          record compacted 6 (manual), with (So the conversation began.) / go
          compaction 1 done
          record user: meanwhile
          call 5 [user, user]
        > model 5 say yes
          show 5 x3
          record model (EndTurn): text "yes"
          record end: completed
          END completed
        > compact
          prepare compaction 2, manual
        > prepared 2
          call 6 [user, user, model, user] cap 479
        > interrupt
          cancel call 6
          compaction 2 failed: it was interrupted
        > compact
          prepare compaction 3, manual
        > interrupt
          cancel compaction 3
          compaction 3 failed: it was interrupted
        > user and now
          record user: and now
          call 7 [user, user, model, user]
        "#,
    );
}

#[test]
fn who_interrupts_a_summary_interrupts_what_waits_for_it() {
    long(
        r#"
        > model 3 say done
          show 3 x3
          record model (EndTurn): text "done"
          record end: completed
          END completed
        > compact
          prepare compaction 1, manual
        > user meanwhile
        > interrupt
          cancel compaction 1
          compaction 1 failed: it was interrupted
          record user: meanwhile
          call 4 [user, model tu_1, results tu_1, model tu_2, results tu_2, model, user]
          cancel call 4
          record end: interrupted, model
          END interrupted, model
        "#,
    );
}

#[test]
fn what_a_summary_is_asked_for_with_is_paid_for_too() {
    // Without the request for it, it would fit.
    long(
        r#"
        > model 3 say done
          show 3 x3
          record model (EndTurn): text "done"
          record end: completed
          END completed
        > set tokens 5300
        > compact
          prepare compaction 1, manual
        > prepared 1
          compaction 1 failed: the limit is reached: max_tokens
        > set tokens 9000
        > compact
          prepare compaction 2, manual
        > prepared 2
          call 4 [user, model tu_1, results tu_1, model tu_2, results tu_2, model, user] cap 479
        "#,
    );
}

#[test]
fn a_summary_beyond_the_limit_ends_the_turn() {
    long(
        r#"
        > set tokens 100
        > fail 3 too_long
          prepare compaction 1, too_long
        > prepared 1
          record end: budget: 25 + 5435 of 100 tokens
          END budget: 25 + 5435 of 100 tokens
        "#,
    );
}

#[test]
fn a_crash_while_it_is_summed_up_leaves_the_conversation_as_it_was() {
    long(
        r#"
        > fail 3 too_long
          prepare compaction 1, too_long
        > prepared 1
          record go on: compact
          call 4 [user, model tu_2, results tu_2, user] cap 479
        > crash
        > resumed
          record end: interrupted, model
        > user go on
          record user: go on
          call 1 [user, model tu_1, results tu_1, model tu_2, results tu_2, user]
        "#,
    );
}
