//! What was said, in the JSON that the conventions ask for. Made only for who asked for it.

use std::sync::Arc;

use serde_json::{Value, json};
use tooloop_model::{Content, ContentBlock, HistoryMessage, Message, ToolInput};

/// The most bytes of one field. The newest messages are kept, and texts are cut.
const LIMIT: usize = 128 << 10;

/// The system prompt.
pub(super) fn system(text: &str) -> String {
    json!([{ "type": "text", "content": short(text) }]).to_string()
}

/// Messages, oldest first: as many of the newest as fit.
pub(super) fn messages(messages: &[Arc<HistoryMessage>]) -> String {
    let mut left = LIMIT;
    let mut newest = Vec::new();
    for message in messages.iter().rev() {
        let message = one(message.message());
        let length = message.to_string().len();
        if length > left && !newest.is_empty() {
            break;
        }
        left = left.saturating_sub(length);
        newest.push(message);
    }
    newest.reverse();
    Value::from(newest).to_string()
}

/// What a tool answers.
pub(super) fn result(content: &[Content]) -> String {
    let text: Vec<&str> = content
        .iter()
        .map(|content| match content {
            Content::Text(text) => text.as_str(),
            Content::Image(image) => image.media_type.as_str(),
            Content::Document(document) => document.media_type.as_str(),
        })
        .collect();
    short(&text.join("\n")).to_owned()
}

/// The beginning of a text that is too long.
pub(super) fn short(text: &str) -> &str {
    let end = text.floor_char_boundary(LIMIT / 4);
    text.get(..end).unwrap_or(text)
}

fn one(message: &Message) -> Value {
    match message {
        Message::User(content) => said("user", content.iter().map(part)),
        Message::Assistant(reply) => said("assistant", reply.content.iter().filter_map(block)),
        Message::ToolResults(results) => {
            let answers = results.iter().map(|answer| {
                json!({
                    "type": "tool_call_response",
                    "id": answer.tool_use_id.0,
                    "response": result(&answer.content),
                })
            });
            said("tool", answers)
        }
    }
}

fn said(role: &str, parts: impl Iterator<Item = Value>) -> Value {
    json!({ "role": role, "parts": parts.collect::<Vec<_>>() })
}

/// Pictures and documents are named, not sent.
fn part(content: &Content) -> Value {
    let media = |modality: &str, kind: &str| json!({ "type": "blob", "modality": modality, "mime_type": kind, "content": "" });
    match content {
        Content::Text(text) => json!({ "type": "text", "content": short(text) }),
        Content::Image(image) => media("image", &image.media_type),
        Content::Document(document) => media("document", &document.media_type),
    }
}

fn block(block: &ContentBlock) -> Option<Value> {
    match block {
        ContentBlock::Text { text, .. } => Some(json!({ "type": "text", "content": short(text) })),
        ContentBlock::Thinking { text, .. } => {
            Some(json!({ "type": "reasoning", "content": short(text) }))
        }
        ContentBlock::ToolUse(tool_use) => {
            let arguments = match &tool_use.input {
                ToolInput::Valid(input) => serde_json::from_str(short(input.get()))
                    .unwrap_or_else(|_| Value::from(short(input.get()))),
                ToolInput::Invalid { raw, .. } => Value::from(short(raw)),
            };
            Some(json!({
                "type": "tool_call",
                "id": tool_use.id.0,
                "name": tool_use.name,
                "arguments": arguments,
            }))
        }
        ContentBlock::RedactedThinking(_) | ContentBlock::Vendor(_) => None,
    }
}
