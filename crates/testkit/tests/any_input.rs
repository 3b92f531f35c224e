//! Whatever a client sends, the judge and the readers answer and do not panic.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tooloop_testkit::oracle::{
    self, NeedsReasoning, Options, PlainReasoning, Sent, Window, check_anthropic, check_openai_chat,
};
use tooloop_testkit::sse::Reader;

const KEYS: [&str; 24] = [
    "messages",
    "role",
    "content",
    "type",
    "text",
    "tools",
    "name",
    "input_schema",
    "properties",
    "system",
    "id",
    "input",
    "tool_use_id",
    "tool_call_id",
    "tool_calls",
    "function",
    "arguments",
    "thinking",
    "signature",
    "source",
    "data",
    "image_url",
    "url",
    "cache_control",
];
const WORDS: [&str; 20] = [
    "user",
    "assistant",
    "tool",
    "system",
    "text",
    "tool_use",
    "tool_result",
    "thinking",
    "redacted_thinking",
    "image",
    "image_url",
    "function",
    "object",
    "base64",
    "data:image/png;base64,AAAA",
    "",
    " ",
    "a",
    "{}",
    "日本 ",
];

/// Values made of the words that the judge knows, in any order.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        8 => prop::sample::select(&WORDS[..]).prop_map(Value::from),
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(&KEYS[..]), inner), 0..6).prop_map(
                |fields| {
                    fields
                        .into_iter()
                        .map(|(key, value)| (key.to_owned(), value))
                        .collect::<Map<_, _>>()
                        .into()
                }
            ),
        ]
    })
}

proptest! {
    #[test]
    fn any_body_is_judged(messages in value(), tools in value(), system in value(), reply in value()) {
        let body = json!({"messages": messages, "tools": tools, "system": system});
        let mut sent = Sent::default();
        sent.learn(reply.to_string().as_bytes());
        sent.learn(format!("data: {reply}\n\n").as_bytes());
        let options = Options { window: Some(Window::of(10)), sent: Some(&sent), ..Options::default() };
        for judged in [&body, &messages] {
            // Neither has a model.
            prop_assert!(!check_anthropic(judged, &options).is_empty());
            prop_assert!(!check_openai_chat(judged, &options).is_empty());
        }
        NeedsReasoning::in_field("reasoning").check(&body, &sent);
        PlainReasoning.check(&body, &sent);
    }

    #[test]
    fn any_event_is_learnt(events in prop::collection::vec(value(), 0..6)) {
        let stream: String = events
            .iter()
            .enumerate()
            .map(|(number, event)| {
                let kind = ["content_block_start", "content_block_delta", "content_block_stop"][number % 3];
                let event = json!({"type": kind, "index": 0, "content_block": event, "delta": event});
                format!("data: {event}\n\ndata: {}\n\n", json!({"choices": [{"delta": event}]}))
            })
            .collect();
        Sent::default().learn(stream.as_bytes());
    }

    #[test]
    fn any_bytes_are_read_the_same_however_they_are_cut(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0..200_usize) {
        let whole = Reader::default().feed(&bytes);
        let (first, second) = bytes.split_at(at.min(bytes.len()));
        let mut reader = Reader::default();
        let mut parts = reader.feed(first);
        parts.extend(reader.feed(second));
        prop_assert_eq!(parts, whole);
        let _judged: bool = oracle::parse_body(&bytes).is_ok();
    }
}
