//! Recorded replies of real providers: each must decode to what stands beside it, whole, byte by
//! byte and cut at random.
//!
//! The recordings are no part of this crate. Where they are absent, the test says so and passes.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test may fail anywhere"
)]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tooloop_model::{
    AssistantMessage, ContentBlock, MessageBuilder, ModelError, StopReason, StreamEvent, ToolInput,
    Usage,
};
use tooloop_provider::{AnthropicCodec, ChatSettings, Codec, Echo, Failure, OpenAiChatCodec};

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("TOOLOOP_TRANSCRIPTS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/transcripts"),
        PathBuf::from,
    );
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no recordings in {}", folder.display());
    None
}

fn chat() -> OpenAiChatCodec {
    let settings = ChatSettings {
        reasoning_echo: Echo::AsReceived,
        max_completion_tokens: false,
        null_content: true,
    };
    OpenAiChatCodec::new(settings, &serde_json::Map::new())
}

fn decode(codec: &dyn Codec, chunks: &[&[u8]]) -> (Vec<StreamEvent>, Option<ModelError>) {
    let mut decoder = codec.decoder();
    let mut events = Vec::new();
    for chunk in chunks {
        if let Err(error) = decoder.feed(chunk, &mut events) {
            return (events, Some(error));
        }
    }
    let error = decoder.finish(&mut events).err();
    (events, error)
}

/// A generator of cuts that needs no crate: the same seed gives the same cuts.
fn cuts(length: usize, seed: u64) -> Vec<usize> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut at = 0;
    let mut cuts = vec![0];
    while at < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        at = (at + 1 + usize::try_from(state % 700).unwrap()).min(length);
        cuts.push(at);
    }
    cuts
}

/// Joins neighbouring deltas, so that only the content counts and not how it was cut.
fn join(events: Vec<StreamEvent>) -> Vec<StreamEvent> {
    let mut joined: Vec<StreamEvent> = Vec::new();
    for event in events {
        match (joined.last_mut(), &event) {
            (
                Some(StreamEvent::TextDelta { index, text }),
                StreamEvent::TextDelta {
                    index: other,
                    text: more,
                },
            ) if index == other => text.push_str(more),
            _ => joined.push(event),
        }
    }
    joined
}

struct Decoded {
    message: AssistantMessage,
    usage: Usage,
    error: Option<ModelError>,
    complete: bool,
}

fn build(events: Vec<StreamEvent>, error: Option<ModelError>, name: &str) -> Decoded {
    let mut builder = MessageBuilder::new();
    for event in events {
        let shown = format!("{event:?}");
        if let Err(problem) = builder.push(event) {
            panic!("{name}: {problem} at {shown}");
        }
    }
    let usage = builder.usage();
    let finished = builder.clone().finish();
    let complete = error.is_none();
    assert_eq!(finished.is_ok(), complete, "{name}: {error:?}");
    Decoded {
        message: finished.unwrap_or_else(|_| builder.interrupted()),
        usage,
        error,
        complete,
    }
}

fn whole_byte_by_byte_and_cut(codec: &dyn Codec, bytes: &[u8], name: &str) -> Decoded {
    let (events, error) = decode(codec, &[bytes]);
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    let other = decode(codec, &single);
    assert_eq!(
        (&join(other.0), &other.1),
        (&join(events.clone()), &error),
        "{name}: byte by byte"
    );
    for seed in 1..=5 {
        let cuts = cuts(bytes.len(), seed);
        let parts: Vec<&[u8]> = cuts
            .windows(2)
            .map(|pair| &bytes[pair[0]..pair[1]])
            .collect();
        let other = decode(codec, &parts);
        assert_eq!(
            (&join(other.0), &other.1),
            (&join(events.clone()), &error),
            "{name}: seed {seed}"
        );
    }
    build(events, error, name)
}

fn thinking(message: &AssistantMessage) -> String {
    let texts = message.content.iter().filter_map(|block| match block {
        ContentBlock::Thinking { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn stop_reason(word: &str) -> StopReason {
    match word {
        "end_turn" | "stop" => StopReason::EndTurn,
        "tool_use" | "tool_calls" => StopReason::ToolUse,
        "max_tokens" | "length" => StopReason::MaxTokens,
        "stop_sequence" => StopReason::StopSequence,
        "refusal" => StopReason::Refusal,
        "pause_turn" => StopReason::Pause,
        other => StopReason::Other(other.into()),
    }
}

fn check(name: &str, decoded: &Decoded, expected: &Value) {
    let message = &decoded.message;
    let refusal = expected["refusal"].as_str().unwrap_or_default();
    assert_eq!(
        decoded.complete,
        expected["complete"].as_bool().unwrap(),
        "{name}: complete"
    );
    assert_eq!(
        decoded.error.is_some(),
        !expected["error"].is_null(),
        "{name}: {:?}",
        decoded.error
    );
    if !expected["error"].is_null() {
        let words = expected["error"]["message"].as_str().unwrap();
        let error = decoded.error.as_ref().unwrap();
        assert!(error.message.contains(words), "{name}: {error:?}");
    }
    let text = format!("{}{refusal}", expected["text"].as_str().unwrap());
    assert_eq!(message.text(), text, "{name}: text");
    if decoded.complete || !expected["thinking"].as_str().unwrap().is_empty() {
        let expected_thinking = expected["thinking"].as_str().unwrap();
        // Of a reply that broke, thinking is kept where its block was complete.
        if decoded.complete || !thinking(message).is_empty() {
            assert_eq!(thinking(message), expected_thinking, "{name}: thinking");
        }
    }
    calls(name, message, expected);
    if decoded.complete {
        let reason = match expected["stop_reason"].as_str() {
            _ if !refusal.is_empty() => StopReason::Refusal,
            Some(word) => stop_reason(word),
            None => StopReason::Other(String::new()),
        };
        assert_eq!(message.stop_reason, Some(reason), "{name}: stop reason");
    }
    if let Some(norm) = expected.get("usage_norm") {
        let count = |key: &str| norm[key].as_u64().unwrap_or_default();
        let usage = Usage {
            input_tokens: count("input_total"),
            output_tokens: count("output_total"),
            cache_read_tokens: count("cache_read"),
            cache_write_tokens: count("cache_write"),
            reasoning_tokens: norm["reasoning"].as_u64(),
        };
        assert_eq!(decoded.usage, usage, "{name}: usage");
    }
    blocks(name, message, expected);
}

fn calls(name: &str, message: &AssistantMessage, expected: &Value) {
    let expected = expected["tool_calls"].as_array().unwrap();
    let uses: Vec<_> = message.tool_uses().collect();
    assert_eq!(uses.len(), expected.len(), "{name}: calls");
    for (tool_use, expected) in uses.iter().zip(expected) {
        assert_eq!(tool_use.id.0, expected["id"].as_str().unwrap(), "{name}");
        assert_eq!(tool_use.name, expected["name"].as_str().unwrap(), "{name}");
        match &tool_use.input {
            ToolInput::Valid(object) => assert_eq!(object.to_value(), expected["input"], "{name}"),
            ToolInput::Invalid { raw, .. } => {
                assert_eq!(expected["input_invalid"], true, "{name}");
                assert_eq!(raw, expected["input_raw"].as_str().unwrap(), "{name}");
            }
        }
    }
}

/// The blocks in order, with signatures and data.
fn blocks(name: &str, message: &AssistantMessage, expected: &Value) {
    let expected: Vec<&Value> = expected["blocks"].as_array().unwrap().iter().collect();
    // A block that holds nothing but opaque reasoning is no block in the expectation.
    let ours: Vec<&ContentBlock> = message
        .content
        .iter()
        .filter(|block| !matches!(block, ContentBlock::Thinking { text, .. } if text.is_empty()))
        .collect();
    if message.stop_reason.is_none() {
        return;
    }
    assert_eq!(ours.len(), expected.len(), "{name}: {ours:#?}");
    for (block, expected) in ours.iter().zip(expected) {
        let kind = expected["type"].as_str().unwrap();
        match block {
            ContentBlock::Text { text, vendor } => {
                assert!(kind == "text" || kind == "refusal", "{name}: {kind}");
                assert_eq!(text, expected["text"].as_str().unwrap(), "{name}");
                let citations = vendor.as_ref().map(|vendor| vendor.data.to_value());
                let citations =
                    citations.and_then(|mut data| data.get_mut("citations").map(Value::take));
                assert_eq!(citations.as_ref(), expected.get("citations"), "{name}");
            }
            ContentBlock::Thinking { text, vendor } => {
                assert_eq!(kind, "thinking", "{name}");
                assert_eq!(text, expected["text"].as_str().unwrap(), "{name}");
                if let Some(signature) = expected["signature"].as_str() {
                    let data = vendor.as_ref().unwrap();
                    assert_eq!(data.owner, "anthropic");
                    assert_eq!(data.data.as_string().as_deref(), Some(signature), "{name}");
                }
            }
            ContentBlock::RedactedThinking(data) => {
                assert_eq!(kind, "redacted_thinking", "{name}");
                assert_eq!(
                    data.data.as_string().as_deref(),
                    expected["data"].as_str(),
                    "{name}"
                );
            }
            ContentBlock::ToolUse(tool_use) => {
                assert!(kind == "tool_use" || kind == "tool_call", "{name}: {kind}");
                assert_eq!(tool_use.id.0, expected["id"].as_str().unwrap(), "{name}");
            }
            ContentBlock::Vendor(data) => {
                let data = data.data.to_value();
                for key in ["type", "id", "name", "input", "tool_use_id"] {
                    if let Some(value) = expected.get(key) {
                        assert_eq!(&data[key], value, "{name}: {key}");
                    }
                }
                if let Some(text) = expected.get("text") {
                    assert_eq!(&data["content"], text, "{name}");
                }
            }
        }
    }
}

fn recorded(format: &str, codec: &dyn Codec) {
    let Some(folder) = folder() else { return };
    let mut count = 0;
    let mut paths: Vec<PathBuf> = fs::read_dir(folder.join("recorded").join(format))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "sse"))
        .collect();
    paths.sort();
    for path in paths {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let bytes = fs::read(&path).unwrap();
        let beside = fs::read(path.with_extension("json")).unwrap();
        let beside: Value = serde_json::from_slice(&beside).unwrap();
        let decoded = whole_byte_by_byte_and_cut(codec, &bytes, &name);
        check(&name, &decoded, &beside["expected"]);
        count += 1;
    }
    assert!(count > 10, "only {count} recordings of {format}");
}

#[test]
fn anthropic_messages() {
    recorded("anthropic-messages", &AnthropicCodec::default());
}

#[test]
fn openai_chat() {
    recorded("openai-chat", &chat());
}

/// Replies of local servers, which have no expectation beside them but a structure that is known.
#[test]
fn local_servers() {
    let Some(folder) = folder() else { return };
    let anthropic = AnthropicCodec::default();
    let chat = chat();
    let cases: [(&str, &dyn Codec, &str); 13] = [
        ("real-anthropic-stream-ping", &anthropic, "tool"),
        ("real-anthropic-stream-text", &anthropic, "text"),
        ("real-anthropic-stream-tool-heredoc", &anthropic, "tool"),
        ("real-anthropic-stream-tool", &anthropic, "tool"),
        ("real-anthropic-stream-truncated-tool", &anthropic, "cut"),
        ("real-litellm-anthropic-stream-text", &anthropic, "text"),
        ("real-litellm-anthropic-stream-tool", &anthropic, "tool"),
        ("real-openai-chat-stream-ping", &chat, "tool"),
        ("real-openai-chat-stream-text", &chat, "text"),
        ("real-openai-chat-stream-tool-usage", &chat, "tool"),
        ("real-openai-chat-stream-tool", &chat, "tool"),
        ("real-openai-chat-stream-truncated-tool", &chat, "cut"),
        ("real-openai-chat-stream-utf8", &chat, "text"),
    ];
    for (name, codec, kind) in cases {
        let bytes = fs::read(folder.join(name).with_extension("sse")).unwrap();
        let decoded = whole_byte_by_byte_and_cut(codec, &bytes, name);
        assert!(decoded.complete, "{name}: {:?}", decoded.error);
        let uses: Vec<_> = decoded.message.tool_uses().collect();
        match kind {
            "text" => {
                assert!(uses.is_empty(), "{name}");
                assert!(!decoded.message.text().is_empty(), "{name}");
            }
            "tool" => {
                assert_eq!(uses.len(), 1, "{name}");
                assert!(
                    matches!(uses[0].input, ToolInput::Valid(_)),
                    "{name}: {:?}",
                    uses[0]
                );
            }
            _ => {
                assert_eq!(
                    decoded.message.stop_reason,
                    Some(StopReason::MaxTokens),
                    "{name}"
                );
                assert!(matches!(uses[0].input, ToolInput::Invalid { .. }), "{name}");
            }
        }
    }
}

#[test]
fn errors_of_local_servers() {
    use tooloop_model::ModelErrorKind as Kind;
    let Some(folder) = folder() else { return };
    let codec = AnthropicCodec::default();
    let cases = [
        ("real-error-anthropic-auth.json", 401, Kind::Auth),
        ("real-error-anthropic-bad-json.json", 400, Kind::BadRequest),
        (
            "real-error-anthropic-context-overflow-stream.sse",
            400,
            Kind::ContextTooLong,
        ),
        (
            "real-error-anthropic-context-overflow.json",
            400,
            Kind::ContextTooLong,
        ),
        (
            "real-error-anthropic-no-messages.json",
            500,
            Kind::BadRequest,
        ),
        ("real-error-method.json", 404, Kind::NotFound),
        ("real-error-not-found.json", 404, Kind::NotFound),
        ("real-error-openai-auth.json", 401, Kind::Auth),
        ("real-error-openai-bad-json.json", 400, Kind::BadRequest),
        ("real-error-openai-bad-schema.json", 400, Kind::BadRequest),
        ("real-error-openai-bad-tools.json", 500, Kind::BadRequest),
        ("real-error-openai-bad-type.json", 400, Kind::BadRequest),
        (
            "real-error-openai-context-overflow-stream.sse",
            400,
            Kind::ContextTooLong,
        ),
        (
            "real-error-openai-context-overflow.json",
            400,
            Kind::ContextTooLong,
        ),
        (
            "real-error-openai-history-bad-arguments.json",
            500,
            Kind::BadRequest,
        ),
        (
            "real-error-openai-image-unsupported.json",
            500,
            Kind::AttachmentRefused,
        ),
        ("real-error-openai-loading.json", 503, Kind::Overloaded),
        ("real-error-openai-no-messages.json", 400, Kind::BadRequest),
        (
            "real-litellm-error-anthropic-auth.json",
            400,
            Kind::BadRequest,
        ),
        (
            "real-litellm-error-anthropic-context-overflow.json",
            400,
            Kind::ContextTooLong,
        ),
        (
            "real-litellm-error-anthropic-unknown-model.json",
            400,
            Kind::BadRequest,
        ),
    ];
    for (name, status, kind) in cases {
        let body = fs::read(folder.join(name)).unwrap();
        let error = codec.classify_error(&Failure {
            host: "127.0.0.1:8080",
            status,
            retry_after_ms: None,
            retry_after: None,
            body: &body,
            now: std::time::SystemTime::UNIX_EPOCH,
        });
        assert_eq!(error.kind, kind, "{name}: {error}");
        assert!(error.message.chars().count() < 400, "{name}: {error}");
        assert!(!error.message.contains(['<', '\n']), "{name}: {error}");
    }
}
