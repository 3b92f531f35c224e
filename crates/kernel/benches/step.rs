//! What the kernel itself costs in a step of the loop: a prompt, a reply with one tool use, its
//! result and the next request, behind a history of 10, 100 and 1,000 messages.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use tooloop_kernel::{
    Delivery, Effect, Entry, Gate, Input, Judgement, Kernel, Settings, Transcript,
};
use tooloop_model::{
    AssistantMessage, BlockStart, Content, ContentBlock, Message, StopReason, StreamEvent,
    ToolInput, ToolResult, ToolUse, ToolUseId,
};

struct AllowAll;

impl Gate for AllowAll {
    fn judge(&self, _: &ToolUse) -> Judgement {
        Judgement::allow_effectful()
    }
}

/// A past of that many messages: a prompt, then calls and their results.
fn past(messages: usize) -> Transcript {
    let mut transcript = Transcript::default();
    transcript.apply(&Entry::message(Message::user("fix the failing test")));
    for number in 0..messages.saturating_sub(1) / 2 {
        let id = ToolUseId(format!("toolu_{number:08}"));
        let tool_use = ToolUse {
            id: id.clone(),
            name: "bash".into(),
            input: ToolInput::parse("{\"command\":\"cargo test\"}"),
            vendor: None,
        };
        transcript.apply(&Entry::message(Message::Assistant(AssistantMessage {
            content: vec![ContentBlock::ToolUse(tool_use)],
            ..AssistantMessage::default()
        })));
        transcript.apply(&Entry::CallFinished(ToolResult::text(id, "ok")));
    }
    transcript
}

/// One turn up to the second request.
fn step(kernel: &mut Kernel) -> Vec<Effect> {
    kernel.step(Input::User {
        content: vec![Content::Text("go on".into())],
        delivery: Delivery::Steer,
    });
    let start = StreamEvent::BlockStart {
        index: 0,
        block: BlockStart::ToolUse {
            id: "toolu_new".into(),
            name: "bash".into(),
        },
    };
    let delta = StreamEvent::InputDelta {
        index: 0,
        json: "{\"command\":\"ls\"}".into(),
    };
    let stop = StreamEvent::BlockStop { index: 0 };
    let end = StreamEvent::MessageStop {
        stop_reason: StopReason::ToolUse,
    };
    for event in [start, delta, stop, end] {
        black_box(kernel.step(Input::Stream { call: 1, event }));
    }
    kernel.step(Input::ToolFinished {
        run: 1,
        content: vec![Content::Text("out".into())],
        is_error: false,
        fingerprint: None,
    })
}

fn steps(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("step");
    for messages in [10, 100, 1000] {
        let past = past(messages);
        // A benchmark of a turn that goes another way would be worth nothing.
        let mut kernel = Kernel::new(Settings::default(), Arc::new(AllowAll), past.clone());
        let effects = step(&mut kernel);
        assert!(matches!(
            effects.last(),
            Some(Effect::CallModel { call: 2, .. })
        ));
        group.bench_function(BenchmarkId::from_parameter(messages), |bencher| {
            bencher.iter_batched_ref(
                || Kernel::new(Settings::default(), Arc::new(AllowAll), past.clone()),
                |kernel| black_box(step(kernel)),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, steps);
criterion_main!(benches);
