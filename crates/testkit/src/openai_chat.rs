//! Builders for OpenAI Chat Completions: chunks, whole completions and errors.
//!
//! ```
//! use serde_json::json;
//! use tooloop_testkit::{Reply, openai_chat};
//!
//! let reply = Reply::stream([
//!     openai_chat::delta(&json!({"role": "assistant", "content": null})),
//!     openai_chat::tool_delta(0, "c_1", "bash", "{\"command\":\"ls\"}"),
//!     openai_chat::finish("tool_calls"),
//!     openai_chat::usage(100, 7),
//!     openai_chat::done(),
//! ]);
//! # assert_eq!(reply.steps().len(), 6);
//! ```
//!
//! [`NUMBER`](crate::NUMBER) in any text becomes the number of the request.

use crate::reply::{Reply, Steps};
use crate::sse;
use serde_json::{Value, json};

/// A chunk of any kind.
pub fn chunk(chunk: &Value) -> Steps {
    sse::data(chunk)
}

/// A chunk with one choice and this delta.
pub fn delta(delta: &Value) -> Steps {
    chunk(&chunk_value(delta, &Value::Null))
}

/// A chunk with one choice, an empty delta and this finish reason.
pub fn finish(reason: &str) -> Steps {
    chunk(&chunk_value(&json!({}), &reason.into()))
}

/// The value of a chunk with one choice, for a script that adds or takes away fields before it is sent.
pub fn chunk_value(delta: &Value, finish_reason: &Value) -> Value {
    json!({"id": "c_{#n}", "object": "chat.completion.chunk", "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})
}

/// The chunk that carries token counts and no choice.
pub fn usage(prompt: u64, completion: u64) -> Steps {
    chunk(
        &json!({"id": "c_{#n}", "object": "chat.completion.chunk", "model": "m", "choices": [],
        "usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}}),
    )
}

/// The mark of the end.
pub fn done() -> Steps {
    sse::text("[DONE]")
}

/// A piece of text.
pub fn content(text: &str) -> Steps {
    delta(&json!({"content": text}))
}

/// A piece of reasoning, in the field of this name.
pub fn reasoning(field: &str, text: &str) -> Steps {
    delta(&json!({field: text}))
}

/// A tool call in one piece, or the start of one.
pub fn tool_delta(index: usize, id: &str, name: &str, arguments: &str) -> Steps {
    delta(
        &json!({"tool_calls": [{"index": index, "id": id, "type": "function",
        "function": {"name": name, "arguments": arguments}}]}),
    )
}

/// A further piece of a tool call's arguments.
pub fn arguments_delta(index: usize, arguments: &str) -> Steps {
    delta(&json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}))
}

/// An error inside the stream.
pub fn error(code: u16, message: &str) -> Steps {
    chunk(&json!({"error": {"code": code, "message": message}, "choices": []}))
}

/// A whole reply of text.
pub fn say(text: &str) -> Steps {
    delta(&json!({"role": "assistant", "content": text}))
        .then(finish("stop"))
        .then(done())
}

/// A whole reply with one tool call, its arguments given as JSON text, which may be broken.
pub fn call(id: &str, name: &str, arguments: &str) -> Steps {
    delta(&json!({"role": "assistant", "content": null}))
        .then(tool_delta(0, id, name, arguments))
        .then(finish("tool_calls"))
        .then(done())
}

/// A whole reply with one tool call.
pub fn call_json(id: &str, name: &str, arguments: &Value) -> Steps {
    call(id, name, &arguments.to_string())
}

/// A whole reply with several tool calls.
pub fn calls(calls: &[(&str, &str, Value)]) -> Steps {
    let deltas: Steps = calls
        .iter()
        .enumerate()
        .map(|(index, (id, name, arguments))| tool_delta(index, id, name, &arguments.to_string()))
        .collect();
    delta(&json!({"role": "assistant", "content": null}))
        .then(deltas)
        .then(finish("tool_calls"))
        .then(done())
}

/// A whole completion as a plain JSON answer gives it, for requests that do not stream.
pub fn completion(message: &Value, finish_reason: &str) -> Value {
    json!({"id": "c_1", "object": "chat.completion", "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30}})
}

/// The body of an error answer.
pub fn error_body(kind: &str, code: Option<&str>, message: &str) -> Value {
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

/// An error answer.
pub fn http_error(status: u16, kind: &str, message: &str) -> Reply {
    Reply::json(status, &error_body(kind, None, message))
}
