//! Replies that are not what they should be.

use crate::script::check;

/// C07.
#[test]
fn the_stop_label_is_not_trusted() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 use tu_1 bash {}
          show 1 x3 tu_1
        > model 1 stop end_turn
          record model (EndTurn): bash tu_1 {}
          record now: started tu_1
          run 1 bash tu_1 {}
        > done 1 hi
          record finished tu_1: hi
          record go on: next step
          call 2 [user, model tu_1, results tu_1]
        > model 2 use tu_2 bash {}
          show 2 x3 tu_2
        > model 2 stop whatever
          record model (Other("whatever")): bash tu_2 {}
          record now: started tu_2
          run 2 bash tu_2 {}
        > done 2 hi again
          record finished tu_2: hi again
          record go on: next step
          call 3 [user, model tu_1, results tu_1, model tu_2, results tu_2]
        > model 3 use tu_3 bash {}
          show 3 x3 tu_3
        > model 3 stop refusal
          record model (Refusal): bash tu_3 {}
          record now: started tu_3
          run 3 bash tu_3 {}
        > done 3 hi at last
          record finished tu_3: hi at last
          record go on: next step
          call 4 [user, model tu_1, results tu_1, model tu_2, results tu_2, model tu_3, results tu_3]
        > model 4 text finished
          show 4 x3
        > model 4 stop tool_use
          record model (ToolUse): text "finished"
          record end: completed
          END completed
        "#,
    );
}

/// C13.
#[test]
fn blank_text_everywhere() {
    check(
        r#"
        > user
        > user \s\n
        > user go
          record user: go
          call 1 [user]
        > model 1 text
          show 1 x3
        > model 1 use tu_1 bash {"command":"true"}
          show 1 x3 tu_1
        > model 1 stop tool_use
          record model (ToolUse): text "", bash tu_1 {"command":"true"}
          record now: started tu_1
          run 1 bash tu_1 {"command":"true"}
        > user \n
        > done 1
          record finished tu_1: (no output)
          record go on: next step
          call 2 [user, model tu_1, results tu_1]
        > model 2 text \n\s\n
          show 2 x3
        > model 2 stop refusal
          record model (Refusal): text "\\n \\n"
          record end: refused
          END refused
        > user \s\s\s
        > user go on
          record user: go on
          call 3 [user, model tu_1, results tu_1, user]
        > model 3 say ok
          show 3 x3
          record model (EndTurn): text "ok"
          record end: completed
          END completed
        > crash
        > resumed
        > user and now
          record user: and now
          call 1 [user, model tu_1, results tu_1, user, model, user]
        "#,
    );
}

#[test]
fn an_empty_reply_is_asked_for_once_more() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 usage 10 1
          show 1 x1
        > model 1 stop end_turn
          record paid 10 + 1
          record retry of 1, failure 1, in 500 ms: the model returned nothing: no text and no tool call
          start timer 1 of 500ms
        > timer 1
          record go on: retry
          call 2 [user]
        > model 2 call tu_1 bash {}
          show 2 x3 tu_1
          record model (ToolUse): bash tu_1 {}
          record now: started tu_1
          run 1 bash tu_1 {}
        > done 1 hi
          record finished tu_1: hi
          record go on: next step
          call 3 [user, model tu_1, results tu_1]
        > model 3 think hm
          show 3 x3
        > model 3 stop strange
          void 3
          record retry of 3, failure 1, in 500 ms, voided: the model returned only reasoning: no text and no tool call (it...
          start timer 2 of 500ms
        > timer 2
          record go on: retry
          call 4 [user, model tu_1, results tu_1]
        > model 4 text \s
          show 4 x3
        > model 4 stop strange
          void 4
          record end: model error after 2: the model returned nothing: no text and no tool call (it stopped...
          END model error after 2: the model returned nothing: no text and no tool call (it stopped...
        > user go on
          record user: go on
          call 5 [user, model tu_1, results tu_1, user]
        "#,
    );
}

#[test]
fn a_content_filter_keeps_the_text_and_runs_nothing() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 text so far
          show 1 x3
        > model 1 use tu_1 bash {}
          show 1 x3 tu_1
        > model 1 stop content_filter
          record model (ContentFilter): text "so far"
          record end: model error after 1: a content filter of the provider stopped the reply
          END model error after 1: a content filter of the provider stopped the reply
        > user go on
          record user: go on
          call 2 [user, model, user]
        "#,
    );
}

#[test]
fn refused_reasoning_is_left_out() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 think plan
          show 1 x3
        > model 1 use tu_1 bash {}
          show 1 x3 tu_1
        > model 1 stop tool_use
          record model (ToolUse): thinking "plan", bash tu_1 {}
          record now: started tu_1
          run 1 bash tu_1 {}
        > done 1 hi
          record finished tu_1: hi
          record go on: next step
          call 2 [user, model tu_1, results tu_1]
        > fail 2 thinking
          record retry of 2, failure 1, in 0 ms, without Thinking: ThinkingRefused
          start timer 1 of 0ns
        > timer 1
          record go on: retry
          call 3 [user, model tu_1, results tu_1]
        > fail 3 thinking
          record end: model error after 2: ThinkingRefused
          END model error after 2: ThinkingRefused
        "#,
    );
}

#[test]
fn a_refused_image_is_not_sent_again() {
    check(
        r#"
        > user look
          record user: look
          call 1 [user]
        > model 1 call tu_1 read {}
          show 1 x3 tu_1
          run 1 read tu_1 {}
          record model (ToolUse): read tu_1 {}
        > done 1 [image]
          record finished tu_1: image image/png
          record go on: next step
          call 2 [user, model tu_1, results tu_1+image]
        > fail 2 image
          record retry of 2, failure 1, in 0 ms, without Attachments: AttachmentRefused
          start timer 1 of 0ns
        > timer 1
          record go on: retry
          call 3 [user, model tu_1, results tu_1]
        > model 3 say a text
          show 3 x3
          record model (EndTurn): text "a text"
          record end: completed
          END completed
        > user go on
          record user: go on
          call 4 [user, model tu_1, results tu_1, model, user]
        > crash
        > user and on
          record user: and on
          call 1 [user, model tu_1, results tu_1, model, user, user]
        "#,
    );
}

#[test]
fn of_several_attachments_the_newest_are_left_out_first() {
    check(
        r#"
        > user look [image] and [document]
          record user: look + image image/png + and + document application/pdf
          call 1 [user+image+document]
        > model 1 call tu_1 read {}
          show 1 x3 tu_1
          run 1 read tu_1 {}
          record model (ToolUse): read tu_1 {}
        > done 1 a picture [image]
          record finished tu_1: a picture + image image/png
          record go on: next step
          call 2 [user+image+document, model tu_1, results tu_1+image]
        > fail 2 image
          record retry of 2, failure 1, in 0 ms, without NewAttachments: AttachmentRefused
          start timer 1 of 0ns
        > timer 1
          record go on: retry
          call 3 [user+image+document, model tu_1, results tu_1]
        > fail 3 image
          record retry of 3, failure 2, in 0 ms, without Attachments: AttachmentRefused
          start timer 2 of 0ns
        > timer 2
          record go on: retry
          call 4 [user, model tu_1, results tu_1]
        > fail 4 image
          record end: model error after 3: AttachmentRefused
          END model error after 3: AttachmentRefused
        "#,
    );
}

#[test]
fn a_request_of_too_many_bytes_loses_old_attachments_first() {
    check(
        r#"
        > user look [image]
          record user: look + image image/png
          call 1 [user+image]
        > model 1 call tu_1 read {}
          show 1 x3 tu_1
          run 1 read tu_1 {}
          record model (ToolUse): read tu_1 {}
        > done 1 [image]
          record finished tu_1: image image/png
          record go on: next step
          call 2 [user+image, model tu_1, results tu_1+image]
        > fail 2 too_long status 413
          record retry of 2, failure 1, in 0 ms, without OldAttachments: ContextTooLong
          start timer 1 of 0ns
        > timer 1
          record go on: retry
          call 3 [user, model tu_1, results tu_1+image]
        > fail 3 too_long status 413
          record retry of 3, failure 2, in 0 ms, without Attachments: ContextTooLong
          start timer 2 of 0ns
        > timer 2
          record go on: retry
          call 4 [user, model tu_1, results tu_1]
        > model 4 say seen
          show 4 x3
          record model (EndTurn): text "seen"
          record end: completed
          END completed
        "#,
    );
}

#[test]
fn a_refused_image_of_a_prompt_is_left_out_after_resume_too() {
    check(
        r#"
        > user [image]
          record user: image image/png
          call 1 [user+image]
        > fail 1 image
          record retry of 1, failure 1, in 0 ms, without Attachments: AttachmentRefused
          start timer 1 of 0ns
        > crash
        > user again
          record user: again
          call 1 [user, user]
        > model 2 say ok
        "#,
    );
}

#[test]
fn thinking_alone_is_no_message() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 think hm
          show 1 x3
        > model 1 stop max_tokens
          record model (MaxTokens): thinking "hm"
          record user: Your reply was cut by the output limit. Go on exactly where it s...
          record go on: continue output
          call 2 [user, user]
        "#,
    );
}

/// C10.
#[test]
fn a_call_cut_by_the_output_limit_is_told_so() {
    check(
        r#"
        > user write
          record user: write
          call 1 [user]
        > model 1 use tu_1 bash {"content":"line 1
          show 1 x3 tu_1
        > model 1 stop max_tokens
          record model (MaxTokens): bash tu_1 {}
          record finished tu_1 (error): your output was cut by the output limit before the input of this...
          record go on: continue output
          call 2 [user, model tu_1, results tu_1]
        > model 2 use tu_2 bash {"content":"line 1
          show 2 x3 tu_2
        > model 2 stop max_tokens
          record model (MaxTokens): bash tu_2 {}
          record finished tu_2 (error): your output was cut by the output limit before the input of this...
          record go on: continue output
          call 3 [user, model tu_1, results tu_1, model tu_2, results tu_2]
        > model 3 use tu_3 bash {"content":"line 1
          show 3 x3 tu_3
        > model 3 stop max_tokens
          record model (MaxTokens): bash tu_3 {}
          record finished tu_3 (error): your output was cut by the output limit before the input of this...
          record end: output limit
          END output limit
        "#,
    );
}

/// The cut came before the first piece of the input: an empty text is no empty input here.
#[test]
fn a_call_cut_before_its_input_does_not_run() {
    check(
        r#"
        > user write
          record user: write
          call 1 [user]
        > model 1 use tu_1 bash {"command":"ls"}
          show 1 x3 tu_1
        > model 1 use tu_2 bash
          show 1 x3 tu_2
        > model 1 stop max_tokens
          record model (MaxTokens): bash tu_1 {"command":"ls"}, bash tu_2 {}
          record now: started tu_1
          run 1 bash tu_1 {"command":"ls"}
        > done 1 out
          record finished tu_1: out
          record finished tu_2 (error): your output was cut by the output limit before the input of this...
          record go on: continue output
          call 2 [user, model tu_1 tu_2, results tu_1 tu_2]
        "#,
    );
}

#[test]
fn a_whole_call_before_the_cut_runs() {
    check(
        r#"
        > user write
          record user: write
          call 1 [user]
        > model 1 use tu_1 bash {"command":"ls"}
          show 1 x3 tu_1
        > model 1 stop max_tokens
          record model (MaxTokens): bash tu_1 {"command":"ls"}
          record now: started tu_1
          run 1 bash tu_1 {"command":"ls"}
        > done 1 out
          record finished tu_1: out
          record go on: next step
          call 2 [user, model tu_1, results tu_1]
        "#,
    );
}

#[test]
fn escalation_comes_once_and_before_continuation() {
    check(
        r#"
        > set output 100
        > set escalated 800
        > user write
          record user: write
          call 1 [user] cap 100
        > model 1 use tu_1 read {}
          show 1 x3 tu_1
          run 1 read tu_1 {}
        > model 1 use tu_2 read {}
          show 1 x3 tu_2
          run 2 read tu_2 {}
        > done 1 thrown away
        > model 1 use tu_3 bash {"content":"li
          show 1 x3 tu_3
        > model 1 stop max_tokens
          cancel run 2
          void 1
          record go on: escalate output
          call 2 [user] cap 800
        > done 2 too late
        > model 2 text half
          show 2 x3
        > model 2 stop max_tokens
          record model (MaxTokens): text "half"
          record user: Your reply was cut by the output limit. Go on exactly where it s...
          record go on: continue output
          call 3 [user, model, user] cap 800
        > model 3 use tu_4 bash {"content":"li
          show 3 x3 tu_4
        > model 3 stop max_tokens
          record model (MaxTokens): bash tu_4 {}
          record finished tu_4 (error): your output was cut by the output limit before the input of this...
          record go on: continue output
          call 4 [user, model, user, model tu_4, results tu_4] cap 800
        > model 4 use tu_5 bash {"content":"li
          show 4 x3 tu_5
        > model 4 stop max_tokens
          record model (MaxTokens): bash tu_5 {}
          record finished tu_5 (error): your output was cut by the output limit before the input of this...
          record end: output limit
          END output limit
        "#,
    );
}

#[test]
fn events_that_make_no_sense_are_a_failure() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 text hello
          show 1 x3
        > model 1 more behind its end
          cancel call 1
          void 1
          record retry of 1, failure 1, in 500 ms, voided: the provider's stream makes no sense: block 0 is not open
          start timer 1 of 500ms
        > model 1 more still coming
        > timer 1
          record go on: retry
          call 2 [user]
        > model 2 more out of nowhere
          cancel call 2
          record retry of 2, failure 2, in 1000 ms: the provider's stream makes no sense: block 0 is not open
          start timer 2 of 1s
        > timer 2
          record go on: retry
          call 3 [user]
        > model 3 say ok
          show 3 x3
          record model (EndTurn): text "ok"
          record end: completed
          END completed
        "#,
    );
}

/// A stream that makes no sense fails without a clock: the time is counted from the first failure
/// that has one.
#[test]
fn a_failure_without_a_clock_does_not_use_up_the_time() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 more out of nowhere
          cancel call 1
          record retry of 1, failure 1, in 500 ms: the provider's stream makes no sense: block 0 is not open
          start timer 1 of 500ms
        > timer 1
          record go on: retry
          call 2 [user]
        > fail 2 overloaded at 100000
          record retry of 2, failure 2, in 1000 ms: Overloaded
          start timer 2 of 1s
        > timer 2
          record go on: retry
          call 3 [user]
        > fail 3 overloaded at 100299
          record end: model error after 3: Overloaded
          END model error after 3: Overloaded
        "#,
    );
}

#[test]
fn a_request_of_too_many_tokens_keeps_its_attachments() {
    check(
        r#"
        > user look [image]
          record user: look + image image/png
          call 1 [user+image]
        > fail 1 too_long
          record end: context limit: ContextTooLong
          END context limit: ContextTooLong
        "#,
    );
}

#[test]
fn a_broken_call_sent_twice_under_one_id_counts_once() {
    check(
        r#"
        > user go
          record user: go
          call 1 [user]
        > model 1 use p read {"n
          show 1 x3 p
        > model 1 use p read {"n
        > model 1 stop tool_use
          record model (ToolUse): read p {}
          record finished p (error): the input of this call is not a JSON object, so nothing was run:...
          record go on: next step
          call 2 [user, model p, results p]
        "#,
    );
}
