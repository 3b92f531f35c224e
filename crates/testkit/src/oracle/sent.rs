//! What a server sent: the finished blocks of its replies, to hold later requests against.

use super::is_blank;
use crate::sse::Reader;
use serde_json::Value;
use std::collections::BTreeMap;

/// The replies of one conversation, or of all that a server ever sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sent {
    /// One entry a reply.
    pub messages: Vec<SentMessage>,
}

/// One reply, as far as it was sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SentMessage {
    /// Blocks that were sent to their end, in order.
    pub blocks: Vec<SentBlock>,
    /// Reasoning that stands beside the content, as some chat completion servers send it.
    pub reasoning: String,
}

/// One finished block of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SentBlock {
    /// Text.
    Text(String),
    /// Thinking with its signature.
    Thinking {
        /// The text.
        thinking: String,
        /// The signature.
        signature: String,
    },
    /// Thinking that only the server can read.
    Redacted(String),
    /// A tool call with this id, whose input was whole.
    Call(String),
    /// Any other block.
    Other,
}

impl Sent {
    /// Takes in the whole body of a reply: an event stream or one JSON value, in either wire format.
    pub fn learn(&mut self, body: &[u8]) {
        let mut learner = Learner::default();
        learner.feed(body);
        learner.end();
        if let Some(message) = learner.message() {
            self.messages.push(message);
        }
    }
}

/// Reads a reply while it is being sent.
#[derive(Debug, Default)]
pub struct Learner {
    reader: Reader,
    /// The body so far, until it has shown that it is an event stream.
    plain: Option<Vec<u8>>,
    is_stream: bool,
    seen: bool,
    open: BTreeMap<u64, Value>,
    message: SentMessage,
    content: String,
    calls: BTreeMap<u64, (String, String)>,
}

/// A plain body longer than this is not looked at.
const PLAIN_LIMIT: usize = 16 << 20;

impl Learner {
    /// Takes the next bytes of the body.
    pub fn feed(&mut self, bytes: &[u8]) {
        if !self.is_stream {
            let plain = self.plain.get_or_insert_default();
            if plain.len() + bytes.len() <= PLAIN_LIMIT {
                plain.extend_from_slice(bytes);
            }
        }
        for event in self.reader.feed(bytes) {
            if let Ok(value) = serde_json::from_str(&event.data) {
                self.is_stream = true;
                self.plain = None;
                self.take_event(&value);
            }
        }
    }

    /// Marks the end of the body: one that was no event stream is read as a plain answer.
    pub fn end(&mut self) {
        if let Some(value) = self
            .plain
            .take()
            .and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok())
        {
            self.take_plain(&value);
        }
    }

    /// The reply as far as it came, if it was a reply of a known format.
    pub fn message(&self) -> Option<SentMessage> {
        if !self.seen {
            return None;
        }
        let mut message = self.message.clone();
        if !self.content.is_empty() {
            message.blocks.push(SentBlock::Text(self.content.clone()));
        }
        let whole = |arguments: &str| serde_json::from_str::<Value>(arguments).is_ok();
        message.blocks.extend(
            self.calls
                .values()
                .filter(|(_, arguments)| arguments.is_empty() || whole(arguments))
                .map(|(id, _)| SentBlock::Call(id.clone())),
        );
        Some(message)
    }

    fn take_event(&mut self, event: &Value) {
        let index = event
            .get("index")
            .and_then(Value::as_u64)
            .unwrap_or_default();
        match event.get("type").and_then(Value::as_str) {
            Some("message_start") => self.seen = true,
            Some("content_block_start") => {
                let mut block = event.get("content_block").cloned().unwrap_or_default();
                if text(&block, "type") == "tool_use"
                    && block.get("input").is_none_or(is_empty_object)
                {
                    set(&mut block, "input", String::new());
                }
                self.open.insert(index, block);
            }
            Some("content_block_delta") => {
                let (Some(block), Some(delta)) = (self.open.get_mut(&index), event.get("delta"))
                else {
                    return;
                };
                for (from, to) in [
                    ("text", "text"),
                    ("thinking", "thinking"),
                    ("signature", "signature"),
                    ("partial_json", "input"),
                ] {
                    if let Some(piece) = delta.get(from).and_then(Value::as_str) {
                        let whole = format!("{}{piece}", text(block, to));
                        set(block, to, whole);
                    }
                }
            }
            Some("content_block_stop") => {
                if let Some(block) = self.open.remove(&index) {
                    self.message.blocks.extend(finished(&block));
                }
            }
            Some(_) => {}
            None => {
                if let Some(delta) = event.pointer("/choices/0/delta") {
                    self.seen = true;
                    self.take_delta(delta);
                }
            }
        }
    }

    fn take_delta(&mut self, delta: &Value) {
        self.content.push_str(text(delta, "content"));
        for field in ["reasoning_content", "reasoning"] {
            self.message.reasoning.push_str(text(delta, field));
        }
        for call in delta
            .get("tool_calls")
            .map(super::items)
            .unwrap_or_default()
        {
            let id = text(call, "id");
            // Without an index a piece with an id starts a call, and one without goes on with the last.
            let last = self.calls.last_key_value().map(|(index, _)| *index);
            let index = match call.get("index").and_then(Value::as_u64) {
                Some(index) => index,
                None if id.is_empty() => last.unwrap_or_default(),
                None => last.map_or(0, |last| last + 1),
            };
            let entry = self.calls.entry(index).or_default();
            if !id.is_empty() {
                id.clone_into(&mut entry.0);
            }
            if let Some(arguments) = call.pointer("/function/arguments").and_then(Value::as_str) {
                entry.1.push_str(arguments);
            }
        }
    }

    fn take_plain(&mut self, answer: &Value) {
        if let Some(content) = answer.get("content").and_then(Value::as_array) {
            self.seen = true;
            self.message
                .blocks
                .extend(content.iter().filter_map(finished));
        } else if let Some(message) = answer.pointer("/choices/0/message") {
            self.seen = true;
            self.take_delta(message);
        }
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    super::text_of(value, field).unwrap_or_default()
}

fn set(value: &mut Value, field: &str, text: String) {
    if let Some(fields) = value.as_object_mut() {
        fields.insert(field.to_owned(), text.into());
    }
}

fn is_empty_object(value: &Value) -> bool {
    value.as_object().is_some_and(serde_json::Map::is_empty)
}

/// The block as it counts for later requests: blank text and calls with broken input need not come back.
fn finished(block: &Value) -> Option<SentBlock> {
    match text(block, "type") {
        "text" => {
            let text = text(block, "text");
            (!is_blank(text)).then(|| SentBlock::Text(text.to_owned()))
        }
        "thinking" => Some(SentBlock::Thinking {
            thinking: text(block, "thinking").to_owned(),
            signature: text(block, "signature").to_owned(),
        }),
        "redacted_thinking" => Some(SentBlock::Redacted(text(block, "data").to_owned())),
        "tool_use" => {
            let whole = match block.get("input") {
                Some(Value::String(json)) => {
                    json.is_empty() || serde_json::from_str::<Value>(json).is_ok()
                }
                _ => true,
            };
            whole.then(|| SentBlock::Call(text(block, "id").to_owned()))
        }
        _ => Some(SentBlock::Other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{anthropic, openai_chat, reply::Step, reply::Steps};
    use serde_json::json;

    fn body(steps: Steps) -> Vec<u8> {
        steps
            .0
            .into_iter()
            .flat_map(|step| match step {
                Step::Event(text) => text.into_bytes(),
                _ => Vec::new(),
            })
            .collect()
    }

    #[test]
    fn finished_blocks_of_a_stream_are_kept() {
        let stream = body(
            [
                anthropic::open(),
                anthropic::thinking(0, "plan", "sig1"),
                anthropic::redacted_thinking(1, "xyz"),
                anthropic::text(2, "\n "),
                anthropic::text(3, "hi"),
                anthropic::tool_use(4, "tu_1", "bash", &["{\"a\":", "1}"]),
                anthropic::tool_use(5, "tu_2", "clock", &[]),
                anthropic::tool_use(6, "tu_3", "bash", &["{\"a\":"]),
                anthropic::thinking_start(7),
                anthropic::thinking_delta(7, "not finished"),
            ]
            .into(),
        );
        for size in [1, 7, stream.len()] {
            let mut learner = Learner::default();
            stream.chunks(size).for_each(|piece| learner.feed(piece));
            learner.end();
            assert_eq!(
                learner.message().unwrap().blocks,
                [
                    SentBlock::Thinking {
                        thinking: "plan".into(),
                        signature: "sig1".into()
                    },
                    SentBlock::Redacted("xyz".into()),
                    SentBlock::Text("hi".into()),
                    SentBlock::Call("tu_1".into()),
                    SentBlock::Call("tu_2".into()),
                ]
            );
        }
    }

    #[test]
    fn chat_chunks_with_and_without_an_index() {
        let mut sent = Sent::default();
        sent.learn(&body(
            [
                openai_chat::reasoning("reasoning_content", "plan "),
                openai_chat::reasoning("reasoning", "A"),
                openai_chat::content("Well"),
                openai_chat::tool_delta(0, "c_1", "bash", "{\"command\":"),
                openai_chat::arguments_delta(0, "\"ls\"}"),
                openai_chat::finish("tool_calls"),
                openai_chat::done(),
            ]
            .into(),
        ));
        let piece = |call: Value| openai_chat::delta(&json!({"tool_calls": [call]}));
        sent.learn(&body(
            [
                piece(json!({"id": "a", "function": {"name": "bash", "arguments": "{"}})),
                piece(json!({"function": {"arguments": "}"}})),
                piece(json!({"id": "b", "function": {"name": "bash", "arguments": "{}"}})),
                piece(json!({"id": "c", "function": {"name": "bash", "arguments": "{"}})),
            ]
            .into(),
        ));
        assert_eq!(
            sent.messages,
            [
                SentMessage {
                    reasoning: "plan A".into(),
                    blocks: vec![
                        SentBlock::Text("Well".into()),
                        SentBlock::Call("c_1".into())
                    ],
                },
                SentMessage {
                    reasoning: String::new(),
                    blocks: vec![SentBlock::Call("a".into()), SentBlock::Call("b".into())],
                },
            ]
        );
    }

    #[test]
    fn plain_answers_and_errors() {
        let mut sent = Sent::default();
        sent.learn(
            anthropic::message(
                &json!([{"type": "thinking", "thinking": "t", "signature": "s"}]),
                "end_turn",
            )
            .to_string()
            .as_bytes(),
        );
        sent.learn(
            openai_chat::completion(&json!({"content": "x", "reasoning_content": "r"}), "stop")
                .to_string()
                .as_bytes(),
        );
        sent.learn(
            anthropic::error_body("overloaded_error", "busy")
                .to_string()
                .as_bytes(),
        );
        sent.learn(b"<html>");
        sent.learn(&body(anthropic::error("overloaded_error", "busy")));
        assert_eq!(sent.messages.len(), 2);
        assert_eq!(
            sent.messages[0].blocks,
            [SentBlock::Thinking {
                thinking: "t".into(),
                signature: "s".into()
            }]
        );
        assert_eq!(
            (
                sent.messages[1].reasoning.as_str(),
                sent.messages[1].blocks.len()
            ),
            ("r", 1)
        );
    }
}
