//! Replies that people met in the field, written down small. Each is read whole, byte by byte and
//! cut in two at every place.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail anywhere"
)]

use std::path::Path;

use serde_json::json;
use tooloop_model::{
    AssistantMessage, ContentBlock, MessageBuilder, ModelError, ModelErrorKind, Price, StopReason,
    StreamEvent, Usage,
};
use tooloop_provider::{AnthropicCodec, ChatSettings, Codec, Echo, OpenAiChatCodec};

fn codec(name: &str) -> Box<dyn Codec> {
    if name.starts_with("messages") {
        return Box::new(AnthropicCodec::default());
    }
    let settings = ChatSettings {
        reasoning_echo: Echo::AsReceived,
        max_completion_tokens: false,
        null_content: true,
    };
    Box::new(OpenAiChatCodec::new(settings, &serde_json::Map::new()))
}

type Outcome = (MessageBuilder, Vec<StreamEvent>, Option<ModelError>);

fn feed(codec: &dyn Codec, chunks: &[&[u8]]) -> Outcome {
    let mut decoder = codec.decoder();
    let mut events = Vec::new();
    let mut error = None;
    for chunk in chunks {
        if let Err(failed) = decoder.feed(chunk, &mut events) {
            error = Some(failed);
            break;
        }
    }
    if error.is_none() {
        error = decoder.finish(&mut events).err();
    }
    let mut builder = MessageBuilder::new();
    for event in &events {
        builder.push(event.clone()).unwrap();
    }
    (builder, events, error)
}

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name);
    std::fs::read(path.with_extension("sse")).unwrap()
}

/// Reads a fixture in every way, which must all come to the same, and gives what it came to.
fn decode(name: &str) -> Outcome {
    let bytes = fixture(name);
    let codec = codec(name);
    let whole = feed(codec.as_ref(), &[&bytes]);
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    let mut ways = vec![single];
    ways.extend((0..bytes.len()).map(|at| vec![&bytes[..at], &bytes[at..]]));
    for way in ways {
        let (_, events, error) = feed(codec.as_ref(), &way);
        assert_eq!((&events, &error), (&whole.1, &whole.2), "{name}");
    }
    whole
}

/// The message of a fixture that is a whole reply.
fn message(name: &str) -> AssistantMessage {
    let (builder, _, error) = decode(name);
    assert_eq!(error, None, "{name}");
    builder.finish().unwrap()
}

/// The error of a fixture that is none.
fn error(name: &str) -> ModelErrorKind {
    decode(name)
        .2
        .unwrap_or_else(|| panic!("{name} is no error"))
        .kind
}

/// Calls as `id name input`.
fn calls(message: &AssistantMessage) -> Vec<String> {
    let shown = message.tool_uses().map(|tool_use| {
        format!(
            "{} {} {}",
            tool_use.id,
            tool_use.name,
            tool_use.input.json()
        )
    });
    shown.collect()
}

#[test]
fn characters_cut_in_half() {
    let message = message("messages-characters");
    assert_eq!(message.text(), "Qué 日本 👩‍👩‍👧 fin");
    let tool_use = message.tool_uses().next().unwrap();
    let input: serde_json::Value = serde_json::from_str(tool_use.input.json()).unwrap();
    assert_eq!(input["command"], "printf '%s' '日 😀'");
}

#[test]
fn legal_framing_that_is_not_the_usual_framing() {
    for name in [
        "messages-crlf",
        "messages-cr",
        "messages-no-space",
        "messages-bom",
        "messages-two-data-lines",
        "messages-no-event-names",
    ] {
        let message = message(name);
        assert_eq!(message.text(), "plain", "{name}");
        assert_eq!(message.stop_reason, Some(StopReason::EndTurn), "{name}");
        assert_eq!(
            (message.usage.input_tokens, message.usage.output_tokens),
            (10, 20)
        );
        assert_eq!(message.id.as_deref(), Some("msg_1"));
    }
}

#[test]
fn calls_without_arguments() {
    assert_eq!(
        calls(&message("messages-no-arguments")),
        ["tu_1 clock {}", "tu_2 clock {}", "tu_3 bash {}"]
    );
    assert_eq!(
        calls(&message("chat-no-arguments")),
        [
            "c_1 clock {}",
            "c_2 clock {}",
            "c_3 clock {}",
            "c_4 clock {}"
        ]
    );
    assert_eq!(
        calls(&message("messages-whole-input-at-start")),
        ["tu_1 bash {\"command\":\"ls\"}"]
    );
}

#[test]
fn labels_that_contradict_the_content() {
    for (name, label) in [
        ("messages-call-labelled-end-turn", StopReason::EndTurn),
        (
            "messages-call-without-label",
            StopReason::Other(String::new()),
        ),
        ("chat-call-labelled-stop", StopReason::EndTurn),
    ] {
        let message = message(name);
        assert_eq!(message.tool_uses().count(), 1, "{name}");
        assert_eq!(message.stop_reason, Some(label), "{name}");
    }
    let message = message("chat-label-without-call");
    assert_eq!(message.text(), "finished");
    assert_eq!(message.tool_uses().count(), 0);
}

#[test]
fn parallel_calls_however_they_are_told_apart() {
    for name in ["chat-no-index", "chat-all-index-zero", "chat-interleaved"] {
        assert_eq!(
            calls(&message(name)),
            [
                "a bash {\"command\":\"echo A\"}",
                "b bash {\"command\":\"echo B\"}"
            ],
            "{name}"
        );
    }
    assert_eq!(
        calls(&message("chat-no-ids")),
        [
            " bash {\"command\":\"echo A\"}",
            " bash {\"command\":\"echo B\"}"
        ]
    );
    assert_eq!(
        calls(&message("chat-late-name")),
        ["a bash {\"command\":\"echo A\"}"]
    );
}

#[test]
fn a_call_is_complete_when_the_next_begins() {
    let (_, events, _) = decode("chat-no-index");
    let position = |wanted: &dyn Fn(&StreamEvent) -> bool| events.iter().position(wanted).unwrap();
    let first_ends = position(&|event| matches!(event, StreamEvent::BlockStop { index: 0 }));
    let second_begins =
        position(&|event| matches!(event, StreamEvent::BlockStart { index: 1, .. }));
    assert!(first_ends < second_begins);
}

#[test]
fn odd_but_harmless_chunks() {
    for name in ["chat-odd-chunks", "chat-growing-usage"] {
        let message = message(name);
        assert_eq!(
            calls(&message),
            ["c_9 bash {\"command\":\"echo ok\"}"],
            "{name}"
        );
        let usage = Usage {
            input_tokens: 100,
            output_tokens: 7,
            ..Usage::default()
        };
        assert_eq!(message.usage, usage, "{name}");
    }
    assert_eq!(error("chat-undecodable"), ModelErrorKind::Decode);
    let sloppy = message("messages-sloppy");
    assert_eq!(sloppy.text(), "no start");
    assert_eq!(calls(&sloppy), ["tu_1 bash {}"]);
}

#[test]
fn a_call_that_the_cap_cut_is_never_told_complete() {
    for (name, cut) in [("messages-call-cut-by-cap", 0), ("chat-call-cut-by-cap", 1)] {
        let (builder, events, error) = decode(name);
        assert_eq!(error, None);
        let told = events.contains(&StreamEvent::BlockStop { index: cut });
        assert!(!told, "{name}: {events:?}");
        let message = builder.finish().unwrap();
        assert_eq!(message.stop_reason, Some(StopReason::MaxTokens), "{name}");
        let last = message.tool_uses().last().unwrap();
        assert!(
            matches!(last.input, tooloop_model::ToolInput::Invalid { .. }),
            "{name}"
        );
        assert_eq!(last.input.json(), "{}");
    }
}

#[test]
fn blank_text_is_kept_as_it_came() {
    let message = message("messages-blank-text");
    assert_eq!(message.content.len(), 3);
    assert_eq!(message.text(), "\n \n");
}

#[test]
fn thinking_keeps_its_signature_and_is_nothing_without() {
    let whole = message("messages-thinking");
    let ContentBlock::Thinking {
        text,
        vendor: Some(vendor),
    } = &whole.content[0]
    else {
        panic!("{whole:?}");
    };
    assert_eq!(
        (text.as_str(), vendor.owner.as_str()),
        ("plan", "anthropic")
    );
    assert_eq!(vendor.data.as_string().as_deref(), Some("sig1"));

    let (builder, _, error) = decode("messages-thinking-cut");
    assert_eq!(error.unwrap().kind, ModelErrorKind::CutStream);
    assert_eq!(builder.interrupted().content, []);
}

#[test]
fn reasoning_remembers_the_field_it_came_in() {
    for (name, field) in [
        ("chat-reasoning-content", "reasoning_content"),
        ("chat-reasoning", "reasoning"),
    ] {
        let message = message(name);
        let ContentBlock::Thinking {
            text,
            vendor: Some(vendor),
        } = &message.content[0]
        else {
            panic!("{message:?}");
        };
        assert_eq!(
            (text.as_str(), vendor.owner.as_str()),
            ("plan A", "openai-chat")
        );
        assert_eq!(vendor.data.to_value()["field"], field);
        assert_eq!(message.text(), "");
    }
}

#[test]
fn replies_without_an_end() {
    assert_eq!(error("chat-no-end"), ModelErrorKind::CutStream);
    let (_, _, error) = decode("chat-error-object");
    let error = error.unwrap();
    assert_eq!(
        (error.kind, error.status),
        (ModelErrorKind::Server, Some(500))
    );
    assert!(error.message.contains("engine died"), "{error}");
}

#[test]
fn what_follows_the_end_is_not_read() {
    // Whether it comes in the same piece as the end is chance, so it must make no difference.
    for name in ["messages-thinking", "chat-reasoning"] {
        let codec = codec(name);
        let bytes = fixture(name);
        let (builder, ..) = feed(codec.as_ref(), &[&bytes]);
        let message = builder.finish().unwrap();
        for rest in [
            &b"data: \xff\n\n"[..],
            b"data: {\n\n",
            b"event: error\ndata: {}\n\n",
            b"\xff",
        ] {
            let together = [&bytes, rest].concat();
            for chunks in [&[together.as_slice()][..], &[&bytes, rest]] {
                let (builder, _, error) = feed(codec.as_ref(), chunks);
                assert_eq!(error, None, "{name}");
                assert_eq!(builder.finish().unwrap(), message, "{name}");
            }
        }
    }
}

#[test]
fn random_bytes_never_panic_and_never_end_well() {
    // Every prefix of every fixture, and every fixture with one byte changed: whatever comes, the
    // events make sense, and an error or an end comes of it.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ext| ext != "sse") {
            continue;
        }
        count += 1;
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let codec = codec(&name);
        let bytes = std::fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            let (builder, _, error) = feed(codec.as_ref(), &[&bytes[..at]]);
            assert_eq!(
                builder.finish().is_ok(),
                error.is_none(),
                "{name} cut at {at}"
            );
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            drop(feed(codec.as_ref(), &[&changed]));
        }
    }
    assert!(count > 20);
}

/// Reads a stream of these events whole and byte by byte, which must come to the same.
fn read(codec: &dyn Codec, events: &[serde_json::Value]) -> Outcome {
    let text: String = events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    let whole = feed(codec, &[text.as_bytes()]);
    let single: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
    let (_, events, error) = feed(codec, &single);
    assert_eq!((&events, &error), (&whole.1, &whole.2), "{text}");
    whole
}

fn choice(choice: &serde_json::Value) -> serde_json::Value {
    json!({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]})
}

fn delta(delta: &serde_json::Value) -> serde_json::Value {
    choice(&json!({"index": 0, "delta": delta}))
}

fn piece(
    index: impl Into<serde_json::Value>,
    id: impl Into<serde_json::Value>,
    name: impl Into<serde_json::Value>,
    arguments: &str,
) -> serde_json::Value {
    let function = json!({"name": name.into(), "arguments": arguments});
    delta(&json!({"tool_calls": [{"index": index.into(), "id": id.into(), "function": function}]}))
}

fn finish(reason: &str) -> serde_json::Value {
    choice(&json!({"index": 0, "delta": {}, "finish_reason": reason}))
}

const NONE: serde_json::Value = serde_json::Value::Null;
const ARGUMENTS: &str = r#"{"command":"echo A"}"#;

/// The calls of a chat reply of these events, which is complete.
fn chat_calls(events: &[serde_json::Value]) -> Vec<String> {
    let mut events = events.to_vec();
    events.push(finish("tool_calls"));
    let (builder, _, error) = read(codec("chat").as_ref(), &events);
    assert_eq!(error, None, "{events:?}");
    calls(&builder.finish().unwrap())
}

#[test]
fn an_id_belongs_to_its_call_whatever_the_index() {
    let whole = "c bash {\"command\":\"echo A\"}";
    let (begin, end) = ARGUMENTS.split_at(12);
    let cases = [
        // Announced at one index and filled at another.
        vec![piece(0, "c", "bash", ""), piece(1, "c", NONE, ARGUMENTS)],
        vec![
            piece(0, "c", "bash", ""),
            piece(0, NONE, NONE, begin),
            piece(1, "c", NONE, end),
        ],
        // Pieces without an id follow the index under which the id came last.
        vec![
            piece(0, "c", "bash", ""),
            piece(1, "c", NONE, begin),
            piece(1, NONE, NONE, end),
        ],
        // Indexes that jump, are strings or are missing.
        vec![piece(7, "c", "bash", begin), piece(7, NONE, NONE, end)],
        vec![piece("1", "c", "bash", begin), piece("1", NONE, NONE, end)],
        vec![piece(NONE, "c", "bash", begin), piece(NONE, "c", NONE, end)],
        // Id and name with each piece, and a name in pieces.
        vec![piece(0, "c", "bash", begin), piece(0, "c", "bash", end)],
        vec![
            piece(0, "c", "ba", ""),
            piece(0, NONE, "sh", ""),
            piece(0, NONE, NONE, ARGUMENTS),
        ],
        vec![piece(0, "c", "ba", begin), piece(0, NONE, "sh", end)],
        // The id, the name or both come late.
        vec![piece(0, NONE, "bash", ARGUMENTS), piece(0, "c", NONE, "")],
        vec![piece(0, NONE, NONE, ARGUMENTS), piece(0, "c", "bash", "")],
        vec![
            piece(NONE, NONE, "bash", ARGUMENTS),
            piece(NONE, "c", NONE, ""),
        ],
        vec![piece(0, "c", NONE, ARGUMENTS), piece(0, NONE, " bash ", "")],
        // Nothing but the announcement comes again.
        vec![piece(0, "c", "bash", ARGUMENTS), piece(1, "c", "bash", "")],
    ];
    for case in cases {
        assert_eq!(chat_calls(&case), [whole], "{case:?}");
    }
}

#[test]
fn a_whole_call_that_comes_again_keeps_its_id() {
    let whole = "c bash {\"command\":\"echo A\"}";
    let (begin, end) = ARGUMENTS.split_at(12);
    let cases = [
        vec![piece(1, "c", "bash", ARGUMENTS)],
        vec![piece(0, "c", "bash", ARGUMENTS)],
        vec![piece(0, NONE, NONE, begin), piece(0, NONE, NONE, end)],
        vec![piece(1, "c", "bash", begin), piece(1, NONE, NONE, end)],
        vec![piece(1, "c", "bash", ""), piece(1, "c", NONE, ARGUMENTS)],
    ];
    for case in cases {
        let mut events = vec![piece(0, "c", "bash", ARGUMENTS)];
        events.extend(case);
        // Whether it runs is the kernel's to decide: it sees one id twice.
        assert_eq!(chat_calls(&events), [whole, whole], "{events:?}");
    }
}

#[test]
fn late_ids_keep_the_order_of_the_calls() {
    let (begin, end) = ARGUMENTS.split_at(12);
    let events = [
        piece(0, NONE, "bash", begin),
        piece(1, "y", "read", begin),
        piece(2, NONE, "glob", begin),
        piece(1, NONE, NONE, end),
        piece(2, NONE, NONE, end),
        piece(0, NONE, NONE, end),
        piece(2, "z", NONE, ""),
        piece(0, "x", NONE, ""),
    ];
    let expected = ["x bash", "y read", "z glob"].map(|call| format!("{call} {ARGUMENTS}"));
    assert_eq!(chat_calls(&events), expected);
}

#[test]
fn ids_come_as_the_provider_wrote_them() {
    for id in ["fn.bash/7:a", "a b", "ид", &"x".repeat(300)] {
        assert_eq!(
            chat_calls(&[piece(0, id, "bash", ARGUMENTS)]),
            [format!("{id} bash {ARGUMENTS}")]
        );
    }
    assert_eq!(
        chat_calls(&[piece(0, 7, "bash", ARGUMENTS)]),
        [format!("7 bash {ARGUMENTS}")]
    );
}

#[test]
fn answers_in_unexpected_places() {
    let answer = |events: &[serde_json::Value]| {
        let (builder, _, error) = read(codec("chat").as_ref(), events);
        assert_eq!(error, None, "{events:?}");
        builder.finish().unwrap()
    };
    let whole = |key: &str, value: serde_json::Value| {
        choice(&json!({"index": 0, key: value, "finish_reason": "stop"}))
    };
    let said = json!({"role": "assistant", "content": "hello there"});
    assert_eq!(
        answer(&[whole("message", said.clone())]).text(),
        "hello there"
    );
    assert_eq!(
        answer(&[whole("text", json!("hello there"))]).text(),
        "hello there"
    );
    let pieces = ["hello ", "there"].map(|text| choice(&json!({"index": 0, "text": text})));
    let [one, two] = pieces;
    assert_eq!(answer(&[one, two, finish("stop")]).text(), "hello there");
    // What was streamed and comes whole at the end is not said twice.
    assert_eq!(
        answer(&[
            delta(&json!({"content": "hello there"})),
            whole("message", said)
        ])
        .text(),
        "hello there"
    );
    let function = json!({"name": "bash", "arguments": ARGUMENTS});
    let call = json!({"id": "c", "type": "function", "function": function});
    assert_eq!(
        calls(&answer(&[whole(
            "message",
            json!({"content": null, "tool_calls": [call]})
        )])),
        [format!("c bash {ARGUMENTS}")]
    );
    let (begin, end) = ARGUMENTS.split_at(12);
    let older = [
        delta(&json!({"function_call": {"name": "bash", "arguments": begin}})),
        delta(&json!({"function_call": {"arguments": end}})),
        finish("function_call"),
    ];
    assert_eq!(calls(&answer(&older)), [format!(" bash {ARGUMENTS}")]);
    let refused = answer(&[delta(&json!({"refusal": "I will not."})), finish("stop")]);
    assert_eq!(refused.text(), "I will not.");
    assert_eq!(refused.stop_reason, Some(StopReason::Refusal));
}

#[test]
fn filters_are_no_refusals() {
    for reason in ["content_filter", "SAFETY", "RECITATION"] {
        let events = [delta(&json!({"content": "so far"})), finish(reason)];
        let (builder, ..) = read(codec("chat").as_ref(), &events);
        let message = builder.finish().unwrap();
        assert_eq!(
            message.stop_reason,
            Some(StopReason::ContentFilter),
            "{reason}"
        );
        assert_eq!(message.text(), "so far");
    }
}

#[test]
fn what_follows_the_reason_to_stop_is_no_part_of_the_reply() {
    let call = |id: &str| piece(0, id, "bash", ARGUMENTS);
    for rest in [
        vec![call("b"), finish("tool_calls")],
        vec![delta(&json!({"content": "more"}))],
        vec![json!(["no chunk"])],
    ] {
        let mut events = vec![call("a"), finish("tool_calls")];
        events.extend(rest);
        let (builder, _, error) = read(codec("chat").as_ref(), &events);
        assert_eq!(error, None, "{events:?}");
        let message = builder.finish().unwrap();
        assert_eq!(calls(&message), [format!("a bash {ARGUMENTS}")]);
        assert_eq!(message.text(), "");
    }
}

#[test]
fn a_chat_stream_that_starts_again_is_an_error() {
    let with_id = |id: &str, mut event: serde_json::Value| {
        event["id"] = id.into();
        event
    };
    let begin = || delta(&json!({"role": "assistant", "content": "On it."}));
    let error = |events: &[serde_json::Value]| {
        let (_, _, error) = read(codec("chat").as_ref(), events);
        error.map(|error| error.kind)
    };
    let first = [begin(), piece(0, "a", "bash", ARGUMENTS)];
    let second = [
        begin(),
        piece(0, "b", "bash", ARGUMENTS),
        finish("tool_calls"),
    ];
    let [again, call, end] = second.clone();
    let mut same_id = first.to_vec();
    same_id.extend(second);
    assert_eq!(error(&same_id), Some(ModelErrorKind::Decode));
    let mut other_id = first.to_vec();
    other_id.extend([with_id("d", again), with_id("d", call)]);
    assert_eq!(error(&other_id), Some(ModelErrorKind::Decode));
    // With nothing after it, it is harmless; so are an id and a role with each chunk.
    let mut harmless = first.to_vec();
    let empty = delta(&json!({"role": "assistant", "content": ""}));
    harmless.extend([with_id("d", empty), with_id("d", end.clone())]);
    assert_eq!(error(&harmless), None);
    let each = |id: &str, content: &str| {
        with_id(id, delta(&json!({"role": "assistant", "content": content})))
    };
    assert_eq!(
        error(&[each("1", ""), each("2", "a"), each("3", "b"), end]),
        None
    );
}

fn messages_start(id: &str) -> serde_json::Value {
    json!({"type": "message_start", "message": {"id": id, "role": "assistant", "content": [],
        "usage": {"input_tokens": 10, "output_tokens": 1}}})
}

#[test]
fn a_message_that_starts_again_is_an_error() {
    let block = |index: u64, block: serde_json::Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let text = || block(0, json!({"type": "text", "text": "On it."}));
    let tool = |id: &str| {
        let input = json!({"command": "echo A"});
        block(
            1,
            json!({"type": "tool_use", "id": id, "name": "bash", "input": input}),
        )
    };
    let thinking = || block(0, json!({"type": "thinking", "thinking": "plan"}));
    let close = |index: u64| json!({"type": "content_block_stop", "index": index});
    let stop = || json!({"type": "message_stop"});
    let reason = || json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}});
    let run = |events: Vec<serde_json::Value>| {
        let (builder, _, error) = read(codec("messages").as_ref(), &events);
        (error.map(|error| error.kind), builder)
    };
    for first in [
        vec![text(), close(0), tool("a"), close(1)],
        vec![text(), close(0), tool("a")],
        vec![thinking()],
        vec![tool("a"), close(1), reason()],
    ] {
        for again in ["m1", "m2"] {
            let mut events = vec![messages_start("m1")];
            events.extend(first.clone());
            events.extend([messages_start(again), text(), tool("b"), reason(), stop()]);
            assert_eq!(run(events).0, Some(ModelErrorKind::Decode), "{first:?}");
        }
    }
    // With nothing after it, or nothing before it, it is harmless.
    let harmless = [
        vec![text(), close(0), tool("a"), close(1), messages_start("m2")],
        vec![messages_start("m1"), text(), close(0), tool("a"), close(1)],
    ];
    for middle in harmless {
        let mut events = vec![messages_start("m1")];
        events.extend(middle);
        events.extend([reason(), stop()]);
        let (error, builder) = run(events);
        assert_eq!(error, None);
        let message = builder.finish().unwrap();
        assert_eq!(message.text(), "On it.");
        assert_eq!(calls(&message), ["a bash {\"command\":\"echo A\"}"]);
    }
}

/// Per million tokens.
const PRICE: Price = Price {
    input: 10.0,
    output: 20.0,
    cache_read: 1.0,
    cache_write: 12.5,
};

/// The counts of a reply, with the number of counts that were told, and what they cost.
fn counted(codec_name: &str, events: &[serde_json::Value]) -> (Usage, f64) {
    let (builder, _, error) = read(codec(codec_name).as_ref(), events);
    assert_eq!(error, None, "{events:?}");
    let usage = builder.finish().unwrap().usage;
    (usage, PRICE.cost(usage).as_usd())
}

#[test]
fn tokens_from_a_cache_cost_what_they_cost() {
    let said = || delta(&json!({"content": "hi"}));
    let last = |usage: serde_json::Value| json!({"choices": [], "usage": usage});
    let counts = |more: serde_json::Value| {
        let mut usage = json!({"prompt_tokens": 1000, "completion_tokens": 100});
        let more = more.as_object().unwrap().clone();
        usage.as_object_mut().unwrap().extend(more);
        usage
    };
    let cached = |count: u64| json!({"prompt_tokens_details": {"cached_tokens": count}});
    let floats = json!({"prompt_tokens": 1000.0, "completion_tokens": 100.0,
        "prompt_tokens_details": {"cached_tokens": 900.0}});
    let table = [
        (counts(cached(900)), 900, 0.0039),
        (
            counts(json!({"prompt_cache_hit_tokens": 900, "prompt_cache_miss_tokens": 100})),
            900,
            0.0039,
        ),
        (floats, 900, 0.0039),
        // More than there is.
        (counts(cached(1200)), 1000, 0.003),
        (counts(json!({"prompt_tokens_details": null})), 0, 0.012),
        (counts(json!({})), 0, 0.012),
        (
            counts(json!({"completion_tokens_details": {"reasoning_tokens": 80}})),
            0,
            0.012,
        ),
    ];
    for (usage, read_tokens, cost) in table {
        // Once, with each chunk, and twice at the end.
        let mut with_each = said();
        with_each["usage"] = usage.clone();
        for events in [
            vec![said(), finish("stop"), last(usage.clone())],
            vec![
                with_each.clone(),
                with_each,
                finish("stop"),
                last(usage.clone()),
            ],
            vec![
                said(),
                finish("stop"),
                last(usage.clone()),
                last(usage.clone()),
            ],
        ] {
            let (found, dollars) = counted("chat", &events);
            assert_eq!(
                (found.input_tokens, found.output_tokens),
                (1000, 100),
                "{usage}"
            );
            assert_eq!(found.cache_read_tokens, read_tokens, "{usage}");
            assert!((dollars - cost).abs() < 1e-9, "{usage}: {dollars}");
        }
    }
}

#[test]
fn messages_count_a_cache_once_wherever_it_is_told() {
    let start = |usage: serde_json::Value| {
        json!({"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [],
            "usage": usage}})
    };
    let delta = |usage: serde_json::Value| json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage});
    let block = json!({"type": "content_block_start", "index": 0,
        "content_block": {"type": "text", "text": "hi"}});
    let stop = json!({"type": "message_stop"});
    let whole = json!({"input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 100});
    let first = json!({"input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 1});
    let output = json!({"output_tokens": 100});
    let floats =
        json!({"input_tokens": 100.0, "cache_read_input_tokens": 900.0, "output_tokens": 100.0});
    let zeros = json!({"input_tokens": 0, "output_tokens": 0});
    for (begin, end) in [
        (first.clone(), output),
        (first, whole.clone()),
        (whole.clone(), whole.clone()),
        (zeros, whole),
        (json!({}), floats),
    ] {
        let events = [
            start(begin.clone()),
            block.clone(),
            delta(end.clone()),
            stop.clone(),
        ];
        let (found, dollars) = counted("messages", &events);
        assert_eq!(
            (found.input_tokens, found.output_tokens),
            (1000, 100),
            "{begin} {end}"
        );
        assert_eq!(found.cache_read_tokens, 900, "{begin} {end}");
        assert!((dollars - 0.0039).abs() < 1e-9, "{begin} {end}: {dollars}");
    }
}
