//! The fold over entries, one fact at a time.

#![expect(clippy::panic, reason = "a test fails by panicking")]

use tooloop_kernel::{Continue, Entry, OpenCall, Transcript, TurnEnd};
use tooloop_model::{
    AssistantMessage, ContentBlock, Message, ToolInput, ToolResult, ToolUse, ToolUseId, Usage,
};

fn folded(entries: &[Entry]) -> Transcript {
    let mut transcript = Transcript::default();
    for entry in entries {
        transcript.apply(entry);
    }
    transcript
}

fn user(text: &str) -> Entry {
    Entry::message(Message::user(text))
}

fn calls(ids: &[&str]) -> Entry {
    let tool_use = |id: &&str| {
        ContentBlock::ToolUse(ToolUse {
            id: ToolUseId::from(*id),
            name: "bash".into(),
            input: ToolInput::parse("{}"),
            vendor: None,
        })
    };
    Entry::message(Message::Assistant(AssistantMessage {
        content: ids.iter().map(tool_use).collect(),
        ..AssistantMessage::default()
    }))
}

fn says(text: &str, usage: Usage) -> Entry {
    Entry::message(Message::Assistant(AssistantMessage {
        content: vec![ContentBlock::Text {
            text: text.into(),
            vendor: None,
        }],
        usage,
        ..AssistantMessage::default()
    }))
}

fn answer(id: &str, text: &str) -> Entry {
    Entry::CallFinished(ToolResult::text(id.into(), text))
}

fn used(input_tokens: u64, output_tokens: u64) -> Usage {
    Usage {
        input_tokens,
        output_tokens,
        ..Usage::default()
    }
}

/// The newest message, if it is one of results: whose they are and what they say.
fn results(transcript: &Transcript) -> Vec<(String, String)> {
    match transcript.messages().last().map(|last| last.message()) {
        Some(Message::ToolResults(results)) => results
            .iter()
            .map(|result| {
                let said = format!("{:?}", result.content);
                (result.tool_use_id.to_string(), said)
            })
            .collect(),
        other => panic!("no results: {other:?}"),
    }
}

fn said(id: &str, text: &str) -> (String, String) {
    (id.into(), format!("[Text({text:?})]"))
}

#[test]
fn results_wait_for_each_other_and_stand_in_call_order() {
    let mut transcript = folded(&[user("go"), calls(&["a", "b"]), answer("b", "two")]);
    assert_eq!(transcript.messages().len(), 2);
    let open = |id: &str, result| OpenCall {
        id: id.into(),
        started: false,
        result,
    };
    let two = ToolResult::text("b".into(), "two");
    assert_eq!(
        transcript.open_calls(),
        [open("a", None), open("b", Some(two))]
    );
    transcript.apply(&answer("a", "one"));
    assert_eq!(transcript.open_calls(), []);
    assert_eq!(results(&transcript), [said("a", "one"), said("b", "two")]);
}

#[test]
fn the_first_answer_counts_and_strangers_have_none() {
    let transcript = folded(&[
        user("go"),
        answer("a", "before the call"),
        calls(&["a", "b"]),
        answer("a", "one"),
        answer("a", "another"),
        answer("c", "of no call"),
        answer("b", "two"),
        answer("b", "behind its time"),
    ]);
    assert_eq!(transcript.messages().len(), 3);
    assert_eq!(results(&transcript), [said("a", "one"), said("b", "two")]);
}

#[test]
fn a_call_that_began_is_told_so() {
    let started = |id: &str| Entry::CallStarted {
        tool_use_id: id.into(),
    };
    let transcript = folded(&[user("go"), calls(&["a", "b"]), started("b"), started("c")]);
    let began: Vec<_> = transcript
        .open_calls()
        .iter()
        .map(|call| (call.id.to_string(), call.started))
        .collect();
    assert_eq!(began, [("a".into(), false), ("b".into(), true)]);
}

#[test]
fn results_that_stand_as_a_message_are_answers() {
    let message = Message::ToolResults(vec![
        ToolResult::text("b".into(), "two"),
        ToolResult::text("a".into(), "one"),
    ]);
    let transcript = folded(&[user("go"), calls(&["a", "b"]), Entry::message(message)]);
    assert_eq!(transcript.messages().len(), 3);
    assert_eq!(results(&transcript), [said("a", "one"), said("b", "two")]);
}

#[test]
fn what_is_left_open_is_closed_by_the_next_message() {
    for next in [user("next"), says("next", Usage::default())] {
        let transcript = folded(&[user("go"), calls(&["a"]), next]);
        let unknown = "its outcome is unknown";
        let Some(Message::ToolResults(results)) = transcript
            .messages()
            .get(2)
            .map(|message| message.message())
        else {
            panic!("nothing closes the call");
        };
        assert_eq!(results.len(), 1);
        let words = format!("{:?}", results.first());
        assert!(words.contains(unknown), "{words}");
    }
}

#[test]
fn a_reply_to_nothing_gets_something_to_reply_to() {
    let transcript = folded(&[says("one", Usage::default()), says("two", Usage::default())]);
    let shape: Vec<_> = transcript
        .messages()
        .iter()
        .map(|message| match message.message() {
            Message::User(_) => "user",
            Message::Assistant(_) => "model",
            Message::ToolResults(_) => "results",
        })
        .collect();
    assert_eq!(shape, ["user", "model", "user", "model"]);
}

#[test]
fn counts_are_summed_and_the_newest_are_kept() {
    let transcript = folded(&[
        user("go"),
        says("one", used(10, 1)),
        Entry::Discarded { usage: used(20, 2) },
        user("go on"),
        says("two", used(40, 4)),
        user("go on"),
        // A reply that is no message was paid for too.
        says("", used(80, 8)),
        user("go on"),
        says("told no counts", Usage::default()),
    ]);
    assert_eq!(transcript.usage(), used(150, 15));
    assert_eq!(transcript.newest_usage(), used(80, 8));
}

#[test]
fn a_new_prompt_has_no_end_yet() {
    let mut transcript = folded(&[user("go"), Entry::TurnEnd(TurnEnd::OutputLimit)]);
    assert_eq!(transcript.newest_end(), Some(&TurnEnd::OutputLimit));
    transcript.apply(&user("go on"));
    assert_eq!(transcript.newest_end(), None);
}

#[test]
fn what_the_user_wants_is_all_that_was_said_before_the_first_reply_of_a_turn() {
    let wanted = |entries: &[Entry]| -> Vec<Message> {
        let transcript = folded(entries);
        let request = transcript.request().iter();
        request.map(|asked| asked.message().clone()).collect()
    };
    let told = |text: &str| Message::user(text);
    let end = || Entry::TurnEnd(TurnEnd::Completed);
    let mut entries = vec![user("one"), says("1", Usage::default()), end()];
    assert_eq!(wanted(&entries), [told("one")]);
    // What background work had to say comes first.
    entries.extend([user("a job has ended"), user("two")]);
    let both = [told("a job has ended"), told("two")];
    assert_eq!(wanted(&entries), both);
    entries.extend([says("2", Usage::default()), user("Go on.")]);
    assert_eq!(wanted(&entries), both);
    entries.push(Entry::Continue(Continue::ContinueOutput));
    assert_eq!(wanted(&entries), both);
    entries.extend([says("3", Usage::default()), user("and this")]);
    entries.push(Entry::Continue(Continue::Steered));
    let all = [told("a job has ended"), told("two"), told("and this")];
    assert_eq!(wanted(&entries), all);
    // Nothing is wanted twice.
    let again = Entry::Continue(Continue::Steered);
    entries.push(again);
    assert_eq!(wanted(&entries), all);
}

#[test]
fn ids_are_known_once_they_are_said() {
    let transcript = folded(&[user("go"), calls(&["a", "b"])]);
    assert!(transcript.knows(&"a".into()) && !transcript.knows(&"c".into()));
    assert_eq!(transcript.tool_uses(), 2);
}
