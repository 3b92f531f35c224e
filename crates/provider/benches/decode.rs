//! How fast replies are read and requests are written.

#![expect(clippy::unwrap_used, reason = "a bench may fail anywhere")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tooloop_model::{
    AssistantMessage, ContentBlock, HistoryMessage, Message, ModelInfo, RawJson, Request,
    StreamEvent, ToolDefinition, ToolInput, ToolResult, ToolUse,
};
use tooloop_provider::sse::{Event, Framer, SseError};
use tooloop_provider::{AnthropicCodec, ChatSettings, Codec, Echo, OpenAiChatCodec, request};

fn anthropic_reply(deltas: usize) -> String {
    let mut text = String::from(
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"x\",\"usage\":{\"input_tokens\":9}}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
    );
    for _ in 0..deltas {
        text.push_str("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" a few words\"}}\n\n");
    }
    text.push_str("event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
    text
}

fn chat_reply(deltas: usize) -> String {
    let mut text = String::new();
    for _ in 0..deltas {
        text.push_str("data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" a few words\"},\"finish_reason\":null}]}\n\n");
    }
    text.push_str("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n");
    text
}

fn chat() -> OpenAiChatCodec {
    let settings = ChatSettings {
        reasoning_echo: Echo::AsReceived,
        max_completion_tokens: false,
        null_content: true,
    };
    OpenAiChatCodec::new(settings, &serde_json::Map::new())
}

fn decode(codec: &dyn Codec, bytes: &[u8]) -> Vec<StreamEvent> {
    let mut decoder = codec.decoder();
    let mut events = Vec::new();
    for chunk in bytes.chunks(1400) {
        decoder.feed(chunk, &mut events).unwrap();
    }
    decoder.finish(&mut events).unwrap();
    events
}

fn decoders(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    let (messages, chat_codec) = (AnthropicCodec::default(), chat());
    let cases: [(&str, &dyn Codec, String); 2] = [
        ("anthropic", &messages, anthropic_reply(2000)),
        ("openai-chat", &chat_codec, chat_reply(2000)),
    ];
    for (name, codec, reply) in cases {
        group.throughput(Throughput::Bytes(u64::try_from(reply.len()).unwrap()));
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(decode(codec, reply.as_bytes())));
        });
    }
    let reply = anthropic_reply(2000);
    group.throughput(Throughput::Bytes(u64::try_from(reply.len()).unwrap()));
    group.bench_function("sse alone", |bencher| {
        bencher.iter(|| {
            let mut framer = Framer::new();
            let mut count = 0_usize;
            let mut sink = |event: Event<'_>| -> Result<(), SseError> {
                count += event.data.len();
                Ok(())
            };
            for chunk in reply.as_bytes().chunks(1400) {
                framer.feed(chunk, &mut sink).unwrap();
            }
            black_box(count)
        });
    });
    group.finish();
}

/// A conversation of `count` messages: a task, then calls and their results.
fn conversation(count: usize) -> Request {
    let mut messages = vec![Message::user("fix the failing test")];
    for number in 0..count / 2 {
        let id = format!("toolu_{number}");
        messages.push(Message::Assistant(AssistantMessage {
            content: vec![
                ContentBlock::Text {
                    text: "Let me look at the next file.".into(),
                    vendor: None,
                },
                ContentBlock::ToolUse(ToolUse {
                    id: id.as_str().into(),
                    name: "bash".into(),
                    input: ToolInput::parse("{\"command\":\"cat src/lib.rs | head -50\"}"),
                    vendor: None,
                }),
            ],
            ..AssistantMessage::default()
        }));
        messages.push(Message::ToolResults(vec![ToolResult::text(
            id.as_str().into(),
            "fn main() {\n    println!(\"hello\");\n}\n".repeat(12),
        )]));
    }
    let mut request = request("m", messages);
    request.system = Arc::from("You are a coding agent. ".repeat(200));
    request.tools = (0..12)
        .map(|number| ToolDefinition {
            name: format!("tool_{number}"),
            description: "Runs a command and gives its output back. ".repeat(10),
            input_schema: RawJson::parse(
                "{\"type\":\"object\",\"properties\":{\"command\":{\"type\":\"string\"}},\"required\":[\"command\"]}",
            )
            .unwrap(),
        })
        .collect();
    request
}

fn encoders(criterion: &mut Criterion) {
    let info = ModelInfo {
        context_window: 200_000,
        max_output_tokens: 8_192,
        price: None,
        images: true,
        structured_output: false,
    };
    let (messages, chat_codec) = (AnthropicCodec::default(), chat());
    let codecs: [&dyn Codec; 2] = [&messages, &chat_codec];
    for codec in codecs {
        let mut group = criterion.benchmark_group(format!("encode {}", codec.name()));
        for count in [10, 100, 1000] {
            let request = conversation(count);
            let size = codec.encode(&request, &info).len();
            group.throughput(Throughput::Bytes(u64::try_from(size).unwrap()));
            group.bench_with_input(
                BenchmarkId::new("kept", count),
                &request,
                |bencher, request| {
                    bencher.iter(|| black_box(codec.encode(request, &info)));
                },
            );
        }
        let request = conversation(1000);
        group.bench_function("first time, 1000", |bencher| {
            bencher.iter_batched(
                || {
                    let mut fresh = request.clone();
                    fresh.messages = fresh
                        .messages
                        .iter()
                        .map(|message| Arc::new(HistoryMessage::new(message.message().clone())))
                        .collect();
                    fresh
                },
                |fresh| black_box(codec.encode(&fresh, &info)),
                criterion::BatchSize::LargeInput,
            );
        });
        group.finish();
    }
}

criterion_group!(benches, decoders, encoders);
criterion_main!(benches);
