//! Journals that were cut, and journals that make no sense.

use std::sync::Arc;

use proptest::prelude::*;
use tooloop_kernel::{
    Continue, Delivery, Effect, Entry, Input, Kernel, Permission, Settings, Transcript, TurnEnd,
};
use tooloop_model::{
    AssistantMessage, Content, ContentBlock, Message, ToolInput, ToolResult, ToolUse, Usage,
};

use crate::common::{ByName, faults};
use crate::replies::{id, text};

/// Writes the entries as lines, cuts the file behind every byte, drops a torn line, and goes on
/// from what is left.
pub(crate) fn cut_everywhere(entries: &[Entry]) {
    let mut file = String::new();
    for entry in entries {
        file.push_str(&serde_json::to_string(entry).unwrap());
        file.push('\n');
    }
    let mut transcript = Transcript::default();
    let mut whole = 0;
    goes_on(&transcript);
    for cut in 0..=file.len() {
        let bytes = &file.as_bytes()[..cut];
        let tail_begins = bytes.iter().rposition(|byte| *byte == b'\n');
        let tail = &bytes[tail_begins.map_or(0, |end| end + 1)..];
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
        // A line is whole with its last byte, and not before.
        let is_whole = serde_json::from_slice::<Entry>(tail).is_ok();
        let now = lines + usize::from(is_whole);
        assert!(now == whole || now == whole + 1);
        if now > whole {
            whole = now;
            let entry = serde_json::from_slice(tail).unwrap();
            assert_eq!(entry, entries[whole - 1]);
            transcript.apply(&entry);
            goes_on(&transcript);
        }
    }
    assert_eq!(whole, entries.len());
}

/// A kernel with this past is resumed and prompted: its request is one that a provider accepts.
fn goes_on(transcript: &Transcript) {
    let gate = Arc::new(ByName);
    let mut kernel = Kernel::new(Settings::default(), gate, transcript.clone());
    kernel.step(Input::Resumed);
    assert_eq!(kernel.transcript().open_calls(), []);
    let effects = kernel.step(Input::User {
        content: vec![Content::Text("go on".into())],
        delivery: Delivery::Steer,
    });
    let Some(Effect::CallModel { request, .. }) = effects.last() else {
        panic!("{effects:?}");
    };
    assert_eq!(faults(&request.messages), Vec::<String>::new());
}

/// Folds entries in an order that no kernel wrote.
pub(crate) fn fold(entries: &[Entry]) {
    let mut transcript = Transcript::default();
    for entry in entries {
        transcript.apply(entry);
    }
    transcript.apply(&Entry::message(Message::user("go on")));
    let mut faults = faults(transcript.messages());
    // Ids are made unique when a reply comes in; a fold takes them as they are.
    faults.retain(|fault| !fault.ends_with("is used twice") && !fault.ends_with("is no id"));
    assert_eq!(faults, Vec::<String>::new());
}

pub(crate) fn entry() -> impl Strategy<Value = Entry> {
    let user = text().prop_map(|text| Entry::message(Message::user(text)));
    let reply = prop::collection::vec(block(), 0..4).prop_map(|content| {
        Entry::message(Message::Assistant(AssistantMessage {
            content,
            ..AssistantMessage::default()
        }))
    });
    let results = prop::collection::vec(result(), 0..4)
        .prop_map(|results| Entry::message(Message::ToolResults(results)));
    prop_oneof![
        3 => user,
        6 => reply,
        1 => results,
        2 => id().prop_map(|tool_use_id| Entry::CallStarted { tool_use_id }),
        8 => result().prop_map(Entry::CallFinished),
        1 => id().prop_map(|tool_use_id| Entry::Permission {
            tool_use_id,
            permission: Permission::Allowed { rule: None },
        }),
        1 => Just(Entry::Discarded { usage: Usage::default() }),
        1 => Just(Entry::Continue(Continue::NextStep)),
        1 => Just(Entry::TurnEnd(TurnEnd::Completed)),
        1 => (0_usize..5).prop_map(|turn| Entry::Rewound { turn }),
    ]
}

fn result() -> impl Strategy<Value = ToolResult> {
    (id(), any::<bool>()).prop_map(|(id, is_error)| ToolResult {
        is_error,
        ..ToolResult::text(id, "result")
    })
}

fn block() -> impl Strategy<Value = ContentBlock> {
    prop_oneof![
        text().prop_map(|text| ContentBlock::Text { text, vendor: None }),
        text().prop_map(|text| ContentBlock::Thinking { text, vendor: None }),
        id().prop_map(|id| ContentBlock::ToolUse(ToolUse {
            id,
            name: "read".into(),
            input: ToolInput::parse("{}"),
            vendor: None,
        })),
    ]
}
