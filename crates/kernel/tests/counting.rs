//! A provider's count of the conversation is used if it is plausible.

mod common;

use std::sync::Arc;

use common::{ByName, faults};
use tooloop_kernel::{Delivery, Effect, Input, Kernel, Limits, Settings, Transcript};
use tooloop_model::{BlockStart, Content, RawJson, StopReason, StreamEvent, ToolDefinition, Usage};

fn settings(model: &str, window: Option<u64>) -> Settings {
    Settings {
        model: model.into(),
        window,
        ..Settings::default()
    }
}

/// A turn with a prompt of so many bytes, whose reply has this usage.
fn turn(kernel: &mut Kernel, prompt: usize, usage: Option<Usage>) {
    let effects = kernel.step(Input::User {
        content: vec![Content::Text("x".repeat(prompt))],
        delivery: Delivery::Steer,
    });
    let call = effects.iter().find_map(|effect| match effect {
        Effect::CallModel { call, request } => {
            assert_eq!(faults(&request.messages), [""; 0]);
            Some(*call)
        }
        _ => None,
    });
    let mut events = vec![
        StreamEvent::MessageStart {
            id: None,
            model: None,
        },
        StreamEvent::BlockStart {
            index: 0,
            block: BlockStart::Text,
        },
        StreamEvent::TextDelta {
            index: 0,
            text: "ok".into(),
        },
        StreamEvent::BlockStop { index: 0 },
    ];
    events.extend(usage.map(StreamEvent::Usage));
    events.push(StreamEvent::MessageStop {
        stop_reason: StopReason::EndTurn,
    });
    for event in events {
        kernel.step(Input::Stream {
            call: call.unwrap_or_default(),
            event,
        });
    }
}

fn counted(input_tokens: u64) -> Option<Usage> {
    Some(Usage {
        input_tokens,
        output_tokens: 5,
        ..Usage::default()
    })
}

fn kernel(window: Option<u64>) -> Kernel {
    let settings = settings("m", window);
    Kernel::new(settings, Arc::new(ByName), Transcript::default())
}

#[test]
fn counts_far_from_the_estimate_are_not_used() {
    // The prompt is estimated at 2,000 tokens.
    for (window, input, used, implausible) in [
        (Some(8_000), 2_000, Some(2_005), None),
        (Some(8_000), 10_000, Some(10_005), None),
        (Some(8_000), 600, Some(605), None),
        (Some(8_000), 100, None, Some(105)),
        (Some(8_000), 12_000, None, Some(12_005)),
        // Far below the window neither number matters.
        (Some(100_000), 100, None, None),
        (Some(40_000), 12_000, None, Some(12_005)),
        (None, 100, None, None),
    ] {
        let mut kernel = kernel(window);
        turn(&mut kernel, 7_000, counted(input));
        assert_eq!(kernel.counted_input(), used, "{window:?} {input}");
        assert_eq!(
            kernel.implausible_count(),
            implausible,
            "{window:?} {input}"
        );
    }
}

#[test]
fn the_count_of_another_model_is_not_used() {
    let mut kernel = kernel(Some(8_000));
    turn(&mut kernel, 7_000, counted(2_000));
    assert_eq!(kernel.counted_input(), Some(2_005));
    kernel.step(Input::Configure(settings("other", Some(8_000)).into()));
    assert_eq!(kernel.counted_input(), None);
    assert_eq!(kernel.implausible_count(), None);
    // A reply that counts nothing changes nothing.
    turn(&mut kernel, 10, None);
    assert_eq!(kernel.counted_input(), None);
    turn(&mut kernel, 10, counted(2_100));
    assert_eq!(kernel.counted_input(), Some(2_105));
}

#[test]
fn definitions_that_changed_are_estimated_anew() {
    let limited = || Settings {
        limits: Limits {
            tokens: Some(5_000),
            ..Limits::default()
        },
        ..settings("m", None)
    };
    let long = "x".repeat(35_000);
    let tool = ToolDefinition {
        name: "tool".into(),
        description: long.clone(),
        input_schema: RawJson::parse("{}").unwrap(),
    };
    let system = Settings {
        system: long.into(),
        ..limited()
    };
    let tools = Settings {
        tools: vec![tool].into(),
        ..limited()
    };
    for (settings, fits) in [(limited(), true), (system, false), (tools, false)] {
        let mut kernel = Kernel::new(limited(), Arc::new(ByName), Transcript::default());
        turn(&mut kernel, 10, counted(20));
        kernel.step(Input::Configure(settings.into()));
        let effects = kernel.step(Input::User {
            content: vec![Content::Text("go on".into())],
            delivery: Delivery::Steer,
        });
        let mut effects = effects.iter();
        let called = effects.any(|effect| matches!(effect, Effect::CallModel { .. }));
        assert_eq!(called, fits, "{:?}", kernel.settings());
    }
}
