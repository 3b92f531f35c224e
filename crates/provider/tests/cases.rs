//! Replies that people met in the field, written down small. Each is read whole, byte by byte and
//! cut in two at every place.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail anywhere"
)]

use std::path::Path;

use tooloop_model::{
    AssistantMessage, ContentBlock, MessageBuilder, ModelError, ModelErrorKind, StopReason,
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
