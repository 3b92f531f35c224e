//! Builders for Anthropic Messages: stream events, whole messages and errors.
//!
//! Each function gives the steps for one or more events; put them in a row for a reply:
//!
//! ```
//! use tooloop_testkit::{Reply, anthropic};
//!
//! let reply = Reply::stream([
//!     anthropic::open(),
//!     anthropic::text(0, "Looking."),
//!     anthropic::tool_use(1, "tu_1", "bash", &["{\"comm", "and\":\"ls\"}"]),
//!     anthropic::end("tool_use"),
//! ]);
//! # assert_eq!(reply.steps().len(), 10 + 1);
//! ```
//!
//! [`NUMBER`](crate::NUMBER) in any text becomes the number of the request.

use crate::reply::{Reply, Steps};
use crate::sse;
use serde_json::{Value, json};

/// Token counts of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt that no cache held.
    pub input: u64,
    /// Tokens of the prompt written to a cache; left out of the events if `None`.
    pub cache_write: Option<u64>,
    /// Tokens of the prompt read from a cache; left out of the events if `None`.
    pub cache_read: Option<u64>,
}

impl Default for Usage {
    fn default() -> Self {
        Self {
            input: 10,
            cache_write: None,
            cache_read: None,
        }
    }
}

impl Usage {
    fn to_json(self, output: u64) -> Value {
        let counts = [
            ("input_tokens", Some(self.input)),
            ("cache_creation_input_tokens", self.cache_write),
            ("cache_read_input_tokens", self.cache_read),
            ("output_tokens", Some(output)),
        ];
        counts
            .into_iter()
            .filter_map(|(name, count)| Some((name.to_owned(), Value::from(count?))))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

/// `message_start`.
pub fn open() -> Steps {
    open_with(Usage::default())
}

/// `message_start` with these token counts.
pub fn open_with(usage: Usage) -> Steps {
    sse::event(
        "message_start",
        &json!({"type": "message_start", "message": {
            "id": "msg_{#n}", "type": "message", "role": "assistant", "model": "m", "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": usage.to_json(1)}}),
    )
}

/// `content_block_start` with a block of any kind.
pub fn block_start(index: usize, block: &Value) -> Steps {
    sse::event(
        "content_block_start",
        &json!({"type": "content_block_start", "index": index, "content_block": block}),
    )
}

/// `content_block_delta` with a delta of any kind.
pub fn delta(index: usize, delta: &Value) -> Steps {
    sse::event(
        "content_block_delta",
        &json!({"type": "content_block_delta", "index": index, "delta": delta}),
    )
}

/// `content_block_stop`.
pub fn block_stop(index: usize) -> Steps {
    sse::event(
        "content_block_stop",
        &json!({"type": "content_block_stop", "index": index}),
    )
}

/// The start of a text block.
pub fn text_start(index: usize) -> Steps {
    block_start(index, &json!({"type": "text", "text": ""}))
}

/// A piece of text.
pub fn text_delta(index: usize, text: &str) -> Steps {
    delta(index, &json!({"type": "text_delta", "text": text}))
}

/// A whole text block in one piece.
pub fn text(index: usize, text: &str) -> Steps {
    text_start(index)
        .then(text_delta(index, text))
        .then(block_stop(index))
}

/// The start of a tool use.
pub fn tool_use_start(index: usize, id: &str, name: &str) -> Steps {
    block_start(
        index,
        &json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
    )
}

/// A piece of a tool's input.
pub fn input_delta(index: usize, fragment: &str) -> Steps {
    delta(
        index,
        &json!({"type": "input_json_delta", "partial_json": fragment}),
    )
}

/// A whole tool use, its input in these pieces of JSON text.
pub fn tool_use(index: usize, id: &str, name: &str, fragments: &[&str]) -> Steps {
    tool_use_start(index, id, name)
        .then(
            fragments
                .iter()
                .map(|fragment| input_delta(index, fragment))
                .collect::<Steps>(),
        )
        .then(block_stop(index))
}

/// The start of a thinking block.
pub fn thinking_start(index: usize) -> Steps {
    block_start(
        index,
        &json!({"type": "thinking", "thinking": "", "signature": ""}),
    )
}

/// A piece of thinking.
pub fn thinking_delta(index: usize, text: &str) -> Steps {
    delta(index, &json!({"type": "thinking_delta", "thinking": text}))
}

/// The signature of a thinking block.
pub fn signature_delta(index: usize, signature: &str) -> Steps {
    delta(
        index,
        &json!({"type": "signature_delta", "signature": signature}),
    )
}

/// A whole thinking block.
pub fn thinking(index: usize, text: &str, signature: &str) -> Steps {
    thinking_start(index)
        .then(thinking_delta(index, text))
        .then(signature_delta(index, signature))
        .then(block_stop(index))
}

/// A whole redacted thinking block.
pub fn redacted_thinking(index: usize, data: &str) -> Steps {
    block_start(index, &json!({"type": "redacted_thinking", "data": data})).then(block_stop(index))
}

/// `message_delta` with a stop reason, or none, and the number of tokens written.
pub fn message_delta(stop_reason: Option<&str>, output_tokens: u64) -> Steps {
    sse::event(
        "message_delta",
        &json!({"type": "message_delta", "delta": {"stop_reason": stop_reason, "stop_sequence": null},
            "usage": {"output_tokens": output_tokens}}),
    )
}

/// `message_stop`.
pub fn message_stop() -> Steps {
    sse::event("message_stop", &json!({"type": "message_stop"}))
}

/// `message_delta` and `message_stop`.
pub fn end(stop_reason: &str) -> Steps {
    end_with(Some(stop_reason), 20)
}

/// `message_delta`, with a stop reason or none, and `message_stop`.
pub fn end_with(stop_reason: Option<&str>, output_tokens: u64) -> Steps {
    message_delta(stop_reason, output_tokens).then(message_stop())
}

/// `ping`.
pub fn ping() -> Steps {
    sse::event("ping", &json!({"type": "ping"}))
}

/// An error inside the stream.
pub fn error(kind: &str, message: &str) -> Steps {
    sse::event("error", &error_body(kind, message))
}

/// Events and fields that say nothing: comments, ids, a ping, an event of a kind that nobody knows.
pub fn noise() -> Steps {
    sse::noise().then(ping()).then(sse::event(
        "shiny_new",
        &json!({"type": "shiny_new", "x": 1}),
    ))
}

/// A whole reply of text.
pub fn say(text: &str) -> Steps {
    open().then(self::text(0, text)).then(end("end_turn"))
}

/// A whole reply that uses one tool, its input given as JSON text, which may be broken.
pub fn call(id: &str, name: &str, input: &str) -> Steps {
    open()
        .then(tool_use(0, id, name, &[input]))
        .then(end("tool_use"))
}

/// A whole reply that uses one tool.
pub fn call_json(id: &str, name: &str, input: &Value) -> Steps {
    call(id, name, &input.to_string())
}

/// A whole reply that uses several tools.
pub fn calls(uses: &[(&str, &str, Value)]) -> Steps {
    let blocks: Steps = uses
        .iter()
        .enumerate()
        .map(|(index, (id, name, input))| tool_use(index, id, name, &[&input.to_string()]))
        .collect();
    open().then(blocks).then(end("tool_use"))
}

/// A whole message as a plain JSON answer gives it, for requests that do not stream.
pub fn message(content: &Value, stop_reason: &str) -> Value {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
        "stop_reason": stop_reason, "stop_sequence": null, "usage": Usage::default().to_json(20)})
}

/// The body of an error answer.
pub fn error_body(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

/// An error answer.
pub fn http_error(status: u16, kind: &str, message: &str) -> Reply {
    Reply::json(status, &error_body(kind, message))
}
