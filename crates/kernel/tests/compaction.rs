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
    CompactionTrigger, Delivery, Effect, Entry, Input, Kernel, Planned, Prepared, Settings,
    Transcript, TurnEnd,
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
    /// The input tokens that it reports in place of its count.
    reported: Option<u64>,
    /// Whether it finds the next request too long, whatever its window.
    refuses: bool,
    /// The bytes of each result.
    result: usize,
    /// The calls that the model still makes in this turn.
    steps: u32,
    /// What the model writes for a summary; blank: nothing.
    summary: String,
    journal: Vec<Entry>,
    requests: u32,
    /// The newest request, and the newest one for a summary.
    newest: Option<Request>,
    newest_for_summary: Option<Request>,
    /// How often a summary was prepared.
    prepared: u32,
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
            reported: None,
            refuses: false,
            result: 1_000,
            steps: 0,
            summary: "## Task\nThe sum of it all. ".repeat(8),
            journal: Vec::new(),
            requests: 0,
            newest: None,
            newest_for_summary: None,
            prepared: 0,
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
            Effect::PrepareCompaction { compaction, .. } => {
                self.prepared += 1;
                vec![Input::CompactionPrepared {
                    compaction,
                    prepared: Prepared {
                        carried: self.carried.clone(),
                        ..Prepared::default()
                    },
                }]
            }
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
        if std::mem::take(&mut self.refuses) || input_tokens > self.window {
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
        let kept = if asked {
            &mut self.newest_for_summary
        } else {
            &mut self.newest
        };
        *kept = Some(request.clone());
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
            input_tokens: match self.tells {
                true => self.reported.unwrap_or(input_tokens),
                false => 0,
            },
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

    fn configure(&mut self, change: impl FnOnce(&mut Settings)) {
        let mut settings = self.kernel.settings().clone();
        change(&mut settings);
        self.tell(Input::Configure(Box::new(settings)));
    }

    /// The newest compaction: why, how many messages, what the user wants, and the tokens before and
    /// after it.
    fn compacted(&self) -> Option<(CompactionTrigger, usize, &[Content], u64, u64)> {
        self.journal.iter().rev().find_map(|entry| match entry {
            Entry::Compacted {
                cut,
                request,
                trigger,
                before,
                after,
                ..
            } => Some((*trigger, *cut, &**request, *before, *after)),
            _ => None,
        })
    }

    /// Checks that the newest summary request has the messages of `before` and two more: the newest
    /// prompt and the words that ask for the summary.
    fn sums_up_whole(&self, before: &Transcript) {
        let request = self.newest_for_summary.as_ref().unwrap();
        let before = before.messages();
        assert!(request.messages.starts_with(before), "{request:?}");
        assert_eq!(request.messages.len(), before.len() + 2);
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
    world.configure(|settings| settings.system = "rule ".repeat(9_000).into());
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

/// A conversation of 8,040 tokens in a window of 10,000, of which a summary leaves half. Compaction
/// begins beyond 7,257 tokens of input; the window is full beyond 9,177.
fn nearly_full() -> World {
    let mut world = World::new(10_000);
    world.summary = "word ".repeat(1_400);
    world.tells = false;
    world.prompt(&"x".repeat(3_500), 0);
    world.tells = true;
    world.reported = Some(8_000);
    world.prompt(&"y".repeat(14_000), 0);
    world
}

#[test]
fn five_steps_pass_between_compactions() {
    let mut world = nearly_full();
    let mut prepared = Vec::new();
    for _ in 0..6 {
        world.prompt("more", 0);
        prepared.push(world.prepared);
    }
    assert_eq!(prepared, [1, 1, 1, 1, 1, 2]);
    // The newest reply and the prompt fit in what is kept. The first prompt is too large to be
    // repeated.
    let first = world
        .compacted()
        .map(|(trigger, cut, request, before, _)| (trigger, cut, request.to_vec(), before));
    assert_eq!(first, Some((CompactionTrigger::Auto, 3, Vec::new(), 8_050)));
    // The second summary is as long as what it would replace.
    assert_eq!(world.failed.len(), 1);
    assert!(
        world.failed[0]
            .starts_with("it would not be shorter: about 8050 tokens in place of 8050. "),
        "{:?}",
        world.failed
    );
    // 10,000 tokens less the input and a sixteenth of it.
    let cap = world.newest.and_then(|request| request.max_output_tokens);
    assert_eq!(cap, Some(1_447));
    assert_eq!(world.ends.len(), 8);
}

#[test]
fn a_full_window_is_compacted_at_once() {
    let mut world = nearly_full();
    world.reported = Some(9_127);
    world.prompt("more", 0);
    assert_eq!(world.prepared, 1);
    world.reported = Some(9_128);
    world.prompt("more", 0);
    assert_eq!(world.prepared, 1, "9,177 tokens are not too many");
    world.summary = "word ".repeat(1_300);
    let before = world.kernel.transcript().clone();
    world.prompt("more", 0);
    assert_eq!(world.prepared, 2, "9,178 tokens are");
    assert_eq!(world.failed, Vec::<String>::new());
    // The summary's request leaves nothing out that fits by the estimate.
    world.sums_up_whole(&before);
}

#[test]
fn a_window_full_again_and_again_ends_the_turn() {
    let mut world = nearly_full();
    world.reported = Some(9_200);
    for words in [1_400, 1_300, 1_200] {
        world.summary = "word ".repeat(words);
        world.prompt("more", 0);
    }
    assert_eq!((world.summed_up.len(), world.ends.len()), (3, 5));
    world.prompt("more", 0);
    let Some(TurnEnd::ContextLimit { message }) = world.ends.last() else {
        panic!("{:?}", world.ends);
    };
    let words = "the window was full again before 5 steps, 3 times in a row. In tokens, about: ";
    assert!(message.contains(words), "{message}");
}

#[test]
fn summary_request_is_whole_despite_a_high_estimate() {
    let mut world = World::new(10_000);
    world.reported = Some(8_000);
    // Estimated at 9,437 tokens. Nothing before it could be summed up.
    world.prompt(&"x".repeat(33_000), 0);
    assert_eq!((world.prepared, &*world.failed), (0, [].as_slice()));
    let before = world.kernel.transcript().clone();
    world.prompt("more", 0);
    assert_eq!(world.summed_up.len(), 1);
    world.sums_up_whole(&before);
}

#[test]
fn a_refused_request_keeps_half_as_much() {
    let mut world = World::new(10_000);
    world.tells = false;
    world.prompt(&"x".repeat(12_000), 0);
    for _ in 0..3 {
        world.prompt(&"y".repeat(1_050), 0);
    }
    world.refuses = true;
    world.prompt("more", 0);
    // The prompts have 308 tokens each. Of 713 two are kept, and the reply before them.
    let compacted = world.compacted().map(|(trigger, cut, ..)| (trigger, cut));
    assert_eq!(compacted, Some((CompactionTrigger::TooLong, 3)));
    assert_eq!(world.ends.len(), 5);
}

#[test]
fn a_summary_of_fewer_bytes_counts_as_shorter() {
    let mut world = World::new(30_000);
    world.reported = Some(5_000);
    world.prompt(&"x".repeat(33_000), 0);
    world.tells = false;
    world.prompt("more", 0);
    // Its estimate is above the provider's count of what it replaces.
    world.summary = "word ".repeat(5_000);
    world.tell(Input::Compact { focus: None });
    assert_eq!(world.failed, Vec::<String>::new());
    let compacted = world.compacted().map(|(.., before, after)| (before, after));
    assert_eq!(compacted, Some((5_060, 5_059)));
}

/// Runs a turn with a result of 12,000 bytes, then another turn. The provider reports this many input
/// tokens for each request.
fn turn_after_a_long_result(reported: u64) -> World {
    let mut world = World::new(10_000);
    world.result = 12_000;
    world.reported = Some(reported);
    world.prompt("go", 1);
    world.prompt("more", 0);
    world
}

#[test]
fn long_results_are_shortened_only_if_that_suffices() {
    let after = |world: &World| {
        world.journal.iter().find_map(|entry| match entry {
            Entry::Shortened { after, .. } => Some(*after),
            _ => None,
        })
    };
    let first = after(&turn_after_a_long_result(7_300)).unwrap();
    // The limit is the system prompt and six tenths of what the conversation may have.
    let reported = 7_300 + (4_397 - first);
    let world = turn_after_a_long_result(reported);
    assert_eq!((after(&world), world.prepared), (Some(4_397), 0));
    let world = turn_after_a_long_result(reported + 1);
    assert_eq!((after(&world), world.prepared), (None, 1));
}

#[test]
fn a_planned_compaction_is_done_as_planned() {
    let planned = |trigger| Planned::Compact {
        trigger,
        cut: Some(1),
        before: 900,
        after: 100,
    };
    for trigger in [CompactionTrigger::Auto, CompactionTrigger::TooLong] {
        let mut world = World::new(100_000);
        world.prompt(&"x".repeat(4_000), 0);
        world.configure(|settings| {
            settings.window = None;
            settings.planned = Some(planned(trigger));
        });
        if trigger == CompactionTrigger::TooLong {
            world.prompt("more", 0);
            assert_eq!(world.prepared, 0, "nothing was too long yet");
            world.refuses = true;
        }
        world.prompt("more", 0);
        let compacted = world
            .compacted()
            .map(|(trigger, cut, _, before, after)| (trigger, cut, before, after));
        assert_eq!(compacted, Some((trigger, 1, 900, 100)));
        assert_eq!(world.failed, Vec::<String>::new());
        // It is done once.
        world.prompt("more", 0);
        assert_eq!(world.prepared, 1);
    }
}

#[test]
fn planned_results_are_shortened_before_sending() {
    let mut world = World::new(100_000);
    world.prompt("go", 1);
    let results = vec![ToolUseId("tu_1".into())];
    world.configure(|settings| {
        settings.window = None;
        settings.planned = Some(Planned::Shorten {
            results: results.clone(),
            before: 900,
            after: 100,
        });
    });
    world.prompt("more", 0);
    world.prompt("more", 0);
    let shortened: Vec<_> = world
        .journal
        .iter()
        .filter(|entry| matches!(entry, Entry::Shortened { .. }))
        .collect();
    let expected = Entry::Shortened {
        results,
        before: 900,
        after: 100,
    };
    assert_eq!(shortened, [&expected]);
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
