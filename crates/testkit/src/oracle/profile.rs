//! What some servers ask beyond the rules: reasoning that must come back, or must not.

use super::{Rule, Sent, SentBlock, SentMessage, Violation, items, text_of};
use serde_json::Value;

const FIELDS: [&str; 2] = ["reasoning_content", "reasoning"];

/// A Chat Completions server that asks for the reasoning of its replies back, byte for byte, in one field.
///
/// Looks at every assistant message that answers to a reply with reasoning: the one with the same tool calls, or,
/// if there were none, with the same text. Reasoning must not stand in the content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeedsReasoning {
    /// The name of the field, such as `reasoning_content`.
    pub field: String,
}

impl NeedsReasoning {
    /// A server that asks for it in this field.
    pub fn in_field(field: &str) -> Self {
        Self {
            field: field.to_owned(),
        }
    }

    /// Gives what is missing or wrong.
    pub fn check(&self, body: &Value, sent: &Sent) -> Vec<Violation> {
        let mut violations = Vec::new();
        for (path, message) in assistant_messages(body) {
            let Some(reply) = reply_of(message, sent).filter(|reply| !reply.reasoning.is_empty())
            else {
                continue;
            };
            violations.extend(leak(&path, message, reply));
            match text_of(message, &self.field) {
                Some(text) if text == reply.reasoning => {}
                Some(_) => violations.push(Violation::new(
                    Rule::Profile,
                    format!("{path}.{}", self.field),
                    "differs from the reasoning that was sent",
                )),
                None => violations.push(Violation::new(
                    Rule::Profile,
                    path.as_str(),
                    format!("the {} of the reply must be passed back", self.field),
                )),
            }
        }
        violations
    }
}

/// A Chat Completions server that knows no reasoning: the fields must not be there, nor their text in the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainReasoning;

impl PlainReasoning {
    /// Gives what must not be there.
    pub fn check(&self, body: &Value, sent: &Sent) -> Vec<Violation> {
        let mut violations = Vec::new();
        for (path, message) in assistant_messages(body) {
            for field in FIELDS
                .into_iter()
                .filter(|field| message.get(field).is_some())
            {
                violations.push(Violation::new(
                    Rule::Profile,
                    format!("{path}.{field}"),
                    "unknown field",
                ));
            }
            if let Some(reply) = reply_of(message, sent) {
                violations.extend(leak(&path, message, reply));
            }
        }
        violations
    }
}

fn assistant_messages(body: &Value) -> impl Iterator<Item = (String, &Value)> {
    body.get("messages")
        .map(items)
        .unwrap_or_default()
        .iter()
        .enumerate()
        .filter(|(_, message)| text_of(message, "role") == Some("assistant"))
        .map(|(index, message)| (format!("messages[{index}]"), message))
}

/// The text of a message, its parts joined.
fn content(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts
            .iter()
            .filter_map(|part| text_of(part, "text"))
            .collect(),
        _ => String::new(),
    }
}

/// The reply that a message stands for: the latest with one of its calls, or with its text.
fn reply_of<'a>(message: &Value, sent: &'a Sent) -> Option<&'a SentMessage> {
    let ids: Vec<&str> = message
        .get("tool_calls")
        .map(items)
        .unwrap_or_default()
        .iter()
        .filter_map(|call| text_of(call, "id"))
        .collect();
    let text = content(message);
    sent.messages.iter().rev().find(|reply| {
        reply.blocks.iter().any(|block| match block {
            SentBlock::Call(id) => ids.contains(&id.as_str()),
            SentBlock::Text(sent) => {
                ids.is_empty() && !text.is_empty() && text.contains(sent.as_str())
            }
            _ => false,
        })
    })
}

fn leak(path: &str, message: &Value, reply: &SentMessage) -> Option<Violation> {
    let leaked =
        !reply.reasoning.trim().is_empty() && content(message).contains(reply.reasoning.trim());
    leaked.then(|| {
        Violation::new(
            Rule::Profile,
            format!("{path}.content"),
            "reasoning has leaked into the content",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sent() -> Sent {
        Sent {
            messages: vec![
                SentMessage {
                    reasoning: "plan A".into(),
                    blocks: vec![SentBlock::Call("c_1".into())],
                },
                SentMessage {
                    reasoning: "plan B".into(),
                    blocks: vec![SentBlock::Text("done".into())],
                },
                SentMessage {
                    reasoning: String::new(),
                    blocks: vec![SentBlock::Text("quiet".into())],
                },
            ],
        }
    }

    fn body(extra: &Value, content: &str) -> Value {
        let mut message = json!({"role": "assistant", "content": content,
            "tool_calls": [{"id": "c_1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}]});
        for (name, value) in extra.as_object().unwrap() {
            message[name] = value.clone();
        }
        json!({"messages": [{"role": "user", "content": "go"}, message,
            {"role": "assistant", "content": "quiet"}]})
    }

    #[test]
    fn needed_reasoning() {
        let needs = NeedsReasoning::in_field("reasoning_content");
        let count =
            |extra: Value, content: &str| needs.check(&body(&extra, content), &sent()).len();
        assert_eq!(count(json!({"reasoning_content": "plan A"}), "Hm."), 0);
        assert_eq!(count(json!({"reasoning_content": "plan a"}), "Hm."), 1);
        assert_eq!(count(json!({"reasoning": "plan A"}), "Hm."), 1);
        assert_eq!(count(json!({}), "Hm."), 1);
        assert_eq!(
            count(json!({"reasoning_content": "plan A"}), "plan A: Hm."),
            1
        );
        let text = json!({"messages": [{"role": "assistant", "content": "done"}]});
        assert_eq!(needs.check(&text, &sent()).len(), 1);
        assert!(needs.check(&text, &Sent::default()).is_empty());
    }

    #[test]
    fn unwanted_reasoning() {
        let count = |extra: Value, content: &str| {
            PlainReasoning.check(&body(&extra, content), &sent()).len()
        };
        assert_eq!(count(json!({}), "Hm."), 0);
        assert_eq!(count(json!({"reasoning_content": "plan A"}), "Hm."), 1);
        assert_eq!(
            count(json!({"reasoning_content": null, "reasoning": "x"}), "Hm."),
            2
        );
        assert_eq!(count(json!({}), "plan A"), 1);
    }
}
