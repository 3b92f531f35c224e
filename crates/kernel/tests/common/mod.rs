//! What scenarios and properties share: a gate that judges by name, and the rules that every
//! request must keep.

use std::collections::BTreeSet;
use std::sync::Arc;

use tooloop_kernel::{Gate, Judgement, Verdict};
use tooloop_model::{Content, HistoryMessage, Message, ToolUse, ToolUseId};
use tooloop_policy::{AccessEffect, AskCause};

/// Judges a tool use by the beginning of its name: `read`, `bash`, `write` (which may be done
/// twice), `note` (which changes the session alone) and `task` (which has others work) are allowed, `ask` and `peek` (read-only) are asked about, `deny` is refused, anything else does not exist. An input with the word `forbidden` is refused, and a question about one with the word `rule` is a rule's.
pub(crate) struct ByName;

impl Gate for ByName {
    fn judge(&self, tool_use: &ToolUse) -> Judgement {
        let name = tool_use.name.as_str();
        let begins = |with: &str| name.starts_with(with);
        let verdict = if tool_use.input.json().contains("forbidden") {
            Verdict::Deny {
                reason: "that input is forbidden".into(),
            }
        } else if ["read", "bash", "write", "note", "task"]
            .into_iter()
            .any(begins)
        {
            Verdict::Allow
        } else if begins("ask") || begins("peek") {
            let reason = format!("{name} is not allowed yet");
            let rule = name.contains("rule") || tool_use.input.json().contains("rule");
            Verdict::Ask {
                reason,
                cause: if rule {
                    AskCause::Rule
                } else {
                    AskCause::Uncovered
                },
            }
        } else if begins("deny") {
            let reason = format!("{name} is forbidden");
            Verdict::Deny { reason }
        } else {
            let message = format!("there is no tool {name}");
            Verdict::Invalid { message }
        };
        let effect = if begins("read") || begins("peek") {
            AccessEffect::ReadOnly
        } else if begins("note") {
            AccessEffect::Session
        } else if begins("task") {
            AccessEffect::Delegated
        } else if begins("write") {
            AccessEffect::Idempotent
        } else {
            AccessEffect::Effectful
        };
        Judgement::new(verdict, effect)
    }
}

/// Which of a strict provider's rules a conversation breaks. The rules are those that do not depend
/// on a wire format: where it begins and ends, that each tool use is answered once, in order and
/// at once, that nothing is blank, and that ids are usable and unique.
pub(crate) fn faults(messages: &[Arc<HistoryMessage>]) -> Vec<String> {
    let mut faults = Vec::new();
    match messages.first().map(|first| first.message()) {
        Some(Message::User(_)) => {}
        other => faults.push(format!("begins with {other:?}")),
    }
    if let Some(Message::Assistant(_)) = messages.last().map(|last| last.message()) {
        faults.push("ends with the model's own words".into());
    }
    let mut ids = BTreeSet::new();
    let mut open: Vec<ToolUseId> = Vec::new();
    let mut assistant_before = false;
    for (place, message) in messages.iter().enumerate() {
        let mut fault = |words: String| faults.push(format!("message {place}: {words}"));
        let expected = std::mem::take(&mut open);
        let mut is_assistant = false;
        match message.message() {
            Message::User(content) => {
                if !expected.is_empty() {
                    fault(format!("{expected:?} have no answer"));
                }
                speaks(content, &mut fault);
            }
            Message::Assistant(reply) => {
                is_assistant = true;
                if !expected.is_empty() {
                    fault(format!("{expected:?} have no answer"));
                }
                if assistant_before {
                    fault("the model speaks twice in a row".into());
                }
                if !reply.has_substance() {
                    fault("nothing is in it".into());
                }
                for tool_use in reply.tool_uses() {
                    let id = &tool_use.id;
                    if !usable(id) {
                        fault(format!("{id:?} is no id"));
                    }
                    if !ids.insert(id.clone()) {
                        fault(format!("{id} is used twice"));
                    }
                    open.push(id.clone());
                }
            }
            Message::ToolResults(results) => {
                let answered: Vec<_> = results
                    .iter()
                    .map(|result| result.tool_use_id.clone())
                    .collect();
                if answered != expected || answered.is_empty() {
                    fault(format!("answers {answered:?}, asked were {expected:?}"));
                }
                for result in results {
                    speaks(&result.content, &mut fault);
                }
            }
        }
        assistant_before = is_assistant;
    }
    faults
}

fn speaks(content: &[Content], fault: &mut impl FnMut(String)) {
    if content.is_empty() || content.iter().any(Content::is_blank) {
        fault(format!("blank: {content:?}"));
    }
}

fn usable(id: &ToolUseId) -> bool {
    !id.0.trim().is_empty()
}
