//! Long work in small windows: a model that is called hundreds of times and a provider that counts,
//! and refuses what is too long.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use common::{ByName, faults};
use proptest::prelude::*;
use tooloop_kernel::{
    CompactionTrigger, Delivery, Effect, Entry, Input, Kernel, Prepared, Settings, Transcript,
    TurnEnd,
};
use tooloop_model::{
    BlockStart, Content, ContentBlock, Message, ModelError, ModelErrorKind, Request, StopReason,
    StreamEvent, ToolUseId, Usage,
};

const KEEP: &str = "KEEP-7731";

/// A provider with a window, a model that works for so many steps, and tools that answer at length.
struct World {
    kernel: Kernel,
    window: u64,
    /// The bytes that make a token here, in tenths.
    bytes_per_token: u64,
    /// Whether the provider tells what it counted.
    tells: bool,
    /// The bytes of each result.
    result: usize,
    /// The calls that the model still makes in this turn.
    steps: u32,
    /// What the model writes for a summary; blank: nothing.
    summary: String,
    journal: Vec<Entry>,
    requests: u32,
    /// The steps made when the conversation was summed up.
    summed_up: Vec<u32>,
    shortened: u32,
    failed: Vec<String>,
    refused: u32,
    made: u32,
    carried: Vec<Content>,
    ends: Vec<TurnEnd>,
    /// What the requests of the turn must hold.
    must_hold: String,
}

impl World {
    fn new(window: u64) -> Self {
        let settings = Settings {
            window: Some(window),
            max_output_tokens: Some(4_000),
            system: "You are an agent. ".repeat(20).into(),
            ..Settings::default()
        };
        Self {
            kernel: Kernel::new(settings, Arc::new(ByName), Transcript::default()),
            window,
            bytes_per_token: 40,
            tells: true,
            result: 1_000,
            steps: 0,
            summary: "## Task\nThe sum of it all. ".repeat(8),
            journal: Vec::new(),
            requests: 0,
            summed_up: Vec::new(),
            shortened: 0,
            failed: Vec::new(),
            refused: 0,
            made: 0,
            carried: Vec::new(),
            ends: Vec::new(),
            must_hold: String::new(),
        }
    }

    fn prompt(&mut self, text: &str, steps: u32) {
        self.steps = steps;
        self.must_hold = text.to_owned();
        self.tell(Input::User {
            content: vec![Content::Text(text.to_owned())],
            delivery: Delivery::Steer,
        });
        assert!(self.kernel.is_idle());
    }

    fn tell(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let effects = self.kernel.step(input);
            for effect in effects {
                inputs.extend(self.act(effect));
            }
        }
    }

    fn act(&mut self, effect: Effect) -> Vec<Input> {
        match effect {
            Effect::Record { entry, .. } => {
                self.recorded(&entry);
                Vec::new()
            }
            Effect::CallModel { call, request } => self.called(call, &request),
            Effect::RunTool { run, .. } => {
                self.made += 1;
                let number = self.made;
                let text = format!("result {number} {}", "x".repeat(self.result));
                vec![Input::ToolFinished {
                    run,
                    content: vec![Content::Text(text)],
                    is_error: false,
                    fingerprint: None,
                }]
            }
            Effect::PrepareCompaction { compaction, .. } => vec![Input::CompactionPrepared {
                compaction,
                prepared: Prepared {
                    carried: self.carried.clone(),
                    ..Prepared::default()
                },
            }],
            Effect::CompactionEnded { failure, .. } => {
                self.failed.extend(failure);
                Vec::new()
            }
            Effect::StartTimer { timer, .. } => vec![Input::TimerFired { timer }],
            Effect::EndTurn { end, .. } => {
                self.ends.push(end);
                Vec::new()
            }
            Effect::Show { .. } | Effect::Void { .. } => Vec::new(),
            other => panic!("{other:?}"),
        }
    }

    fn recorded(&mut self, entry: &Entry) {
        match entry {
            Entry::Compacted { before, after, .. } => {
                assert!(after < before, "{before} became {after}");
                self.summed_up.push(self.made);
            }
            Entry::Shortened { before, after, .. } => {
                assert!(after < before, "{before} became {after}");
                self.shortened += 1;
            }
            _ => {}
        }
        let json = serde_json::to_string(entry).unwrap();
        self.journal.push(serde_json::from_str(&json).unwrap());
    }

    fn count(&self, request: &Request) -> u64 {
        let bytes = request
            .messages
            .iter()
            .map(|message| serde_json::to_string(message.message()).unwrap().len())
            .sum::<usize>()
            + request.system.len();
        bytes as u64 * 10 / self.bytes_per_token
    }

    fn called(&mut self, call: u64, request: &Request) -> Vec<Input> {
        self.requests += 1;
        assert_eq!(faults(&request.messages), Vec::<String>::new());
        let input_tokens = self.count(request);
        let error = |kind, message: &str| Input::StreamFailed {
            call,
            error: ModelError::new(kind, message),
            now: Duration::from_secs(self.requests.into()),
            chance: 0,
        };
        if input_tokens > self.window {
            self.refused += 1;
            return vec![error(ModelErrorKind::ContextTooLong, "prompt is too long")];
        }
        if let (true, Some(cap)) = (self.tells, request.max_output_tokens) {
            assert!(
                input_tokens + cap <= self.window + self.window / 5,
                "{input_tokens} + {cap}"
            );
        }
        let last = request.messages.last().map(|last| last.message());
        let asked = matches!(last, Some(Message::User(content)) if content.iter().any(|part|
            matches!(part, Content::Text(text) if text.contains("is about to be summed up"))));
        let block = if asked {
            self.texts(&self.summary.clone())
        } else {
            self.holds(request);
            if self.steps > 0 {
                self.steps -= 1;
                let id = ToolUseId(format!("tu_{}", self.requests));
                let name = "bash".to_owned();
                let json = format!("{{\"command\":\"step {}\"}}", self.requests);
                vec![
                    StreamEvent::BlockStart {
                        index: 0,
                        block: BlockStart::ToolUse { id, name },
                    },
                    StreamEvent::InputDelta { index: 0, json },
                    StreamEvent::BlockStop { index: 0 },
                ]
            } else {
                self.texts("done")
            }
        };
        let usage = Usage {
            input_tokens: if self.tells { input_tokens } else { 0 },
            output_tokens: if self.tells { 40 } else { 0 },
            ..Usage::default()
        };
        let mut events = vec![StreamEvent::Usage(usage)];
        events.extend(block);
        events.push(StreamEvent::MessageStop {
            stop_reason: StopReason::EndTurn,
        });
        // The last one is taken first.
        let stream = |event| Input::Stream { call, event };
        events.into_iter().rev().map(stream).collect()
    }

    fn texts(&self, text: &str) -> Vec<StreamEvent> {
        vec![
            StreamEvent::BlockStart {
                index: 0,
                block: BlockStart::Text,
            },
            StreamEvent::TextDelta {
                index: 0,
                text: text.into(),
            },
            StreamEvent::BlockStop { index: 0 },
        ]
    }

    /// What the user wants stays word for word, and what the model has not seen stays whole.
    fn holds(&self, request: &Request) {
        let said = |message: &Message| match message {
            Message::User(content) => content
                .iter()
                .any(|part| *part == Content::Text(self.must_hold.clone())),
            Message::Assistant(_) | Message::ToolResults(_) => false,
        };
        let mut messages = request.messages.iter();
        assert!(
            messages.any(|message| said(message.message())),
            "{request:?}"
        );
        let newest = request.messages.last().map(|last| last.message());
        if let Some(Message::ToolResults(results)) = newest {
            let [Content::Text(text)] = &*results[0].content else {
                panic!("{results:?}");
            };
            assert!(text.len() >= self.result, "unseen and shortened: {text}");
        }
    }

    /// The journal comes to what the kernel has.
    fn folds(&self) {
        let mut folded = Transcript::default();
        self.journal.iter().for_each(|entry| folded.apply(entry));
        assert_eq!(&folded, self.kernel.transcript());
    }
}

#[test]
fn three_hundred_steps_in_a_window_of_8000_tokens() {
    for (bytes_per_token, tells) in [(40, true), (35, true), (40, false), (30, true), (52, true)] {
        let mut world = World::new(8_000);
        world.bytes_per_token = bytes_per_token;
        world.tells = tells;
        world.prompt(&format!("count the words, {KEEP}"), 300);
        assert_eq!(world.ends, [TurnEnd::Completed], "{:?}", world.failed);
        assert_eq!((world.made, world.refused), (300, 0));
        assert_eq!(world.failed, Vec::<String>::new());
        assert!(world.summed_up.len() > 3, "{:?}", world.summed_up);
        let steps = world.summed_up.windows(2).map(|pair| pair[1] - pair[0]);
        let least = steps.min().unwrap();
        assert!(
            least >= 5,
            "{bytes_per_token} {tells}: {:?}",
            world.summed_up
        );
        world.folds();
    }
}

#[test]
fn a_summary_stands_for_the_oldest_part_and_says_what_was_asked() {
    let mut world = World::new(8_000);
    world.carried = vec![Content::Text("the plan: two things".into())];
    world.prompt("first", 2);
    world.prompt(KEEP, 40);
    let entry = world.journal.iter().find(|entry| {
        matches!(
            entry,
            Entry::Compacted {
                trigger: CompactionTrigger::Auto,
                ..
            }
        )
    });
    let Some(Entry::Compacted {
        summary,
        request,
        carried,
        ..
    }) = entry
    else {
        panic!("{entry:?}");
    };
    assert_eq!(summary, world.summary.trim());
    let said = |text: &str| Content::Text(text.into());
    let began = said("(So the conversation began.)");
    let now = said("(And this is to be done now:)");
    assert_eq!(*request, [began, said("first"), now, said(KEEP)]);
    assert_eq!(*carried, world.carried);
    let transcript = world.kernel.transcript();
    assert_eq!(transcript.turns().len(), 2);
    assert_eq!(transcript.summed_up(), 2);
}

#[test]
fn a_window_that_is_smaller_than_was_said_costs_one_refusal() {
    let mut world = World::new(8_000);
    world.tells = false;
    // The provider's count is far above the estimate, and it does not tell.
    world.bytes_per_token = 24;
    world.prompt(KEEP, 30);
    assert!(world.refused >= 1);
    assert_eq!(world.ends, [TurnEnd::Completed], "{:?}", world.failed);
    let rescued = |entry: &Entry| {
        matches!(
            entry,
            Entry::Compacted {
                trigger: CompactionTrigger::TooLong,
                ..
            }
        )
    };
    assert!(world.journal.iter().any(rescued));
    world.folds();
}

#[test]
fn what_cannot_fit_ends_soon_and_says_what_is_too_large() {
    let mut world = World::new(8_000);
    let settings = Settings {
        system: "rule ".repeat(9_000).into(),
        ..world.kernel.settings().clone()
    };
    world.tell(Input::Configure(Box::new(settings)));
    world.prompt("hello", 3);
    let [TurnEnd::ContextLimit { message }] = &*world.ends else {
        panic!("{:?}", world.ends);
    };
    assert!(message.contains("the system prompt 12858"), "{message}");
    assert!(world.requests <= 3, "{}", world.requests);
}

#[test]
fn a_model_that_writes_no_summary_is_asked_three_times_and_no_more() {
    let mut world = World::new(8_000);
    world.summary = "  ".into();
    // Nothing can be cut short either: the results are small, and many.
    world.result = 300;
    world.prompt(KEEP, 200);
    let [TurnEnd::ContextLimit { message }] = &*world.ends else {
        panic!("{:?}", world.ends);
    };
    assert!(message.contains("no summary"), "{message}");
    // Three by itself, and one when the provider had the last word.
    assert_eq!(world.failed.len(), 4, "{:?}", world.failed);
    world.folds();
}

#[test]
fn a_summary_that_is_no_shorter_is_not_taken() {
    let mut world = World::new(8_000);
    world.result = 300;
    world.summary = "long ".repeat(8_000);
    world.prompt(KEEP, 200);
    assert!(matches!(&*world.ends, [TurnEnd::ContextLimit { .. }]));
    assert!(world.summed_up.is_empty());
    assert!(
        world.failed[0].contains("would not be shorter"),
        "{:?}",
        world.failed
    );
}

#[test]
fn somebody_may_ask_for_it_and_go_back_to_before_it() {
    let mut world = World::new(200_000);
    world.prompt("first", 5);
    world.prompt("second", 5);
    let before = world.kernel.transcript().clone();
    world.tell(Input::Compact {
        focus: Some("the tests".into()),
    });
    assert_eq!(world.failed, Vec::<String>::new());
    let transcript = world.kernel.transcript();
    assert_eq!(transcript.compactions(), 1);
    assert_eq!(transcript.messages().len(), 1, "{transcript:?}");
    assert_eq!(transcript.summed_up(), 2);
    assert!(!transcript.reaches(2));
    // Without what was summed up nothing happens.
    let entries = world.journal.len();
    world.tell(Input::Rewind {
        turn: 2,
        past: None,
    });
    assert_eq!(world.journal.len(), entries);
    let mut past = Transcript::default();
    past.keep_past();
    world.journal.iter().for_each(|entry| past.apply(entry));
    assert!(past.reaches(2));
    world.tell(Input::Rewind {
        turn: 2,
        past: Some(Box::new(past)),
    });
    let transcript = world.kernel.transcript();
    let until = before.turns()[1];
    assert_eq!(transcript.messages(), &before.messages()[..until]);
    assert_eq!(transcript.turns().len(), 1);
    // A fold that keeps nothing knows that it does not know.
    let mut folded = Transcript::default();
    world.journal.iter().for_each(|entry| folded.apply(entry));
    assert!(folded.lacks_past());
    let mut folded = Transcript::default();
    folded.keep_past();
    world.journal.iter().for_each(|entry| folded.apply(entry));
    assert_eq!(&folded, transcript);
    world.prompt("third", 2);
    assert_eq!(world.ends.len(), 3);
}

#[test]
fn stale_results_are_cut_short_before_anything_is_summed_up() {
    let mut world = World::new(100_000);
    world.result = 9_000;
    world.prompt(KEEP, 60);
    assert!(world.shortened >= 1);
    let first = world
        .journal
        .iter()
        .find(|entry| matches!(entry, Entry::Shortened { .. } | Entry::Compacted { .. }));
    assert!(matches!(first, Some(Entry::Shortened { .. })), "{first:?}");
    world.folds();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_window_breaks_a_law(
        window in 6_000_u64..60_000,
        result in 0_usize..6_000,
        bytes_per_token in 25_u64..60,
        tells: bool,
        turns in prop::collection::vec(0_u32..60, 1..5),
    ) {
        let mut world = World::new(window);
        world.result = result;
        world.bytes_per_token = bytes_per_token;
        world.tells = tells;
        let mut requests = 0;
        for (number, steps) in turns.iter().enumerate() {
            world.prompt(&format!("turn {number} {KEEP}"), *steps);
            requests += 6 + steps * 3;
            prop_assert!(world.requests <= requests, "{} requests", world.requests);
        }
        prop_assert_eq!(world.ends.len(), turns.len());
        world.folds();
        let mut ids = BTreeSet::new();
        for message in world.kernel.transcript().messages() {
            if let Message::Assistant(reply) = message.message() {
                for block in &reply.content {
                    if let ContentBlock::ToolUse(tool_use) = block {
                        prop_assert!(ids.insert(tool_use.id.clone()));
                    }
                }
            }
        }
    }
}
