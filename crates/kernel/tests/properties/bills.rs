//! What a provider bills, against what may be spent.
//!
//! The provider here counts as real ones do: each text has some number of tokens, at least one for
//! all of it and at most one a byte, and a text that was counted once counts the same again. It
//! bills what it was sent, in whatever mix of cached and fresh, and what it wrote, up to the cap.

use std::sync::Arc;

use proptest::prelude::*;
use tooloop_kernel::{
    Budget, Delivery, Effect, Entry, Input, Kernel, Ledger, Limits, Settings, Transcript, TurnEnd,
};
use tooloop_model::{
    BlockStart, Content, HistoryMessage, Message, ModelError, ModelErrorKind, Money, Price,
    Request, StopReason, StreamEvent, ToolUseId, Usage,
};

use crate::common::ByName;

#[derive(Debug, Clone)]
pub(crate) struct Case {
    price: Price,
    /// In parts of what one step may cost.
    limit: u64,
    by_tokens: bool,
    cap: u64,
    system: usize,
    /// How dense tokens are: bytes a token, from 1.
    density: u64,
    steps: Vec<Step>,
}

#[derive(Debug, Clone)]
struct Step {
    /// Which of the two sessions that share the ledger takes it.
    second: bool,
    written: usize,
    cached: u8,
    result: usize,
    end: u8,
}

pub(crate) fn case() -> impl Strategy<Value = Case> {
    let step = (
        any::<bool>(),
        0..400_usize,
        any::<u8>(),
        0..600_usize,
        0..10_u8,
    )
        .prop_map(|(second, written, cached, result, end)| Step {
            second,
            written,
            cached,
            result,
            end,
        });
    (
        (0..20_u32, 0..80_u32, 0..100_u8),
        1..400_u64,
        any::<bool>(),
        16..300_u64,
        0..500_usize,
        1..6_u64,
        prop::collection::vec(step, 1..60),
    )
        .prop_map(|(prices, limit, by_tokens, cap, system, density, steps)| {
            let (input, output, cache) = prices;
            let cache = f64::from(cache) / 50.0;
            Case {
                price: Price {
                    input: f64::from(input) / 4.0,
                    output: f64::from(output) / 4.0,
                    cache_read: f64::from(input) / 40.0,
                    cache_write: f64::from(input) / 4.0 * cache,
                },
                limit,
                by_tokens,
                cap,
                system,
                density,
                steps,
            }
        })
}

/// One of the sessions, with the request that it waits for.
struct Party {
    kernel: Kernel,
    journal: Vec<Entry>,
    waits: Option<(u64, Request)>,
    runs: Option<u64>,
    ended: Option<TurnEnd>,
}

struct Provider {
    case: Case,
    tokens: u64,
    cost: Money,
}

pub(crate) fn pay(case: Case) {
    let limits = if case.by_tokens {
        Limits {
            tokens: Some(case.limit * 20),
            ..Limits::default()
        }
    } else {
        Limits {
            cost: Some(Money(case.limit * 20_000)),
            ..Limits::default()
        }
    };
    let settings = Settings {
        system: "s".repeat(case.system).into(),
        max_output_tokens: Some(case.cap),
        limits,
        price: Some(case.price),
        stop_after_repeats: u32::MAX,
        remind_after_repeats: u32::MAX,
        ..Settings::default()
    };
    let ledger = Ledger::default();
    let party = |ledger: &Ledger| {
        let kernel = Kernel::new(settings.clone(), Arc::new(ByName), Transcript::default());
        Party {
            kernel: kernel.with_ledger(ledger.clone()),
            journal: Vec::new(),
            waits: None,
            runs: None,
            ended: None,
        }
    };
    let mut parties = [party(&ledger), party(&ledger)];
    let mut provider = Provider {
        tokens: 0,
        cost: Money(0),
        case: case.clone(),
    };
    for step in &case.steps {
        let party = &mut parties[usize::from(step.second)];
        party.go_on(step, &mut provider);
        if let Some(limit) = limits.tokens {
            assert!(provider.tokens <= limit, "{} of {limit}", provider.tokens);
        }
        if let Some(limit) = limits.cost {
            assert!(provider.cost <= limit, "{} of {limit}", provider.cost);
        }
    }
    // What the ledger says is no less than the bill, and is what the records come to.
    let (tokens, cost) = ledger.spent();
    assert!(tokens >= provider.tokens && cost >= provider.cost);
    let mut kept = (0, Money(0));
    for party in &parties {
        let mut transcript = Transcript::default();
        party
            .journal
            .iter()
            .for_each(|entry| transcript.apply(entry));
        kept.0 += transcript.spent_tokens();
        kept.1 = kept.1.saturating_add(transcript.spent());
    }
    assert_eq!(kept, (tokens, cost));
}

impl Party {
    fn go_on(&mut self, step: &Step, provider: &mut Provider) {
        if let Some(run) = self.runs.take() {
            return self.tell(Input::ToolFinished {
                run,
                content: vec![Content::Text("r".repeat(step.result))],
                is_error: false,
                fingerprint: None,
            });
        }
        match self.waits.take() {
            Some((call, request)) => {
                for input in provider.reply(call, &request, step) {
                    self.tell(input);
                }
            }
            None => self.tell(Input::User {
                content: vec![Content::Text("u".repeat(step.result + 1))],
                delivery: Delivery::Steer,
            }),
        }
    }

    fn tell(&mut self, input: Input) {
        for effect in self.kernel.step(input) {
            match effect {
                Effect::Record { entry, .. } => self.journal.push(entry),
                Effect::CallModel { call, request } => self.waits = Some((call, *request)),
                Effect::RunTool { run, .. } => self.runs = Some(run),
                // No time passes here.
                Effect::StartTimer { timer, .. } => self.tell(Input::TimerFired { timer }),
                Effect::EndTurn { end, .. } => {
                    if let TurnEnd::Budget(Budget::UnknownPrice { .. }) = end {
                        panic!("the price is known");
                    }
                    self.ended = Some(end);
                }
                Effect::CancelModel { .. } => self.waits = None,
                _ => {}
            }
        }
    }
}

impl Provider {
    /// The reply, and what it costs is on the bill.
    fn reply(&mut self, call: u64, request: &Request, step: &Step) -> Vec<Input> {
        let event = |event| Input::Stream { call, event };
        let failed = |kind| Input::StreamFailed {
            call,
            error: ModelError::new(kind, "it failed"),
            now: std::time::Duration::ZERO,
            chance: 0,
        };
        if step.end == 0 {
            return vec![failed(ModelErrorKind::Overloaded)];
        }
        let cap = request.max_output_tokens.unwrap();
        let density = self.case.density;
        // The prompt is told in plain words.
        let fixed = (request.system.len() as u64) / density.max(4);
        let sent = request.messages.iter().map(|message| self.count(message));
        let input_tokens = fixed + sent.sum::<u64>();
        let most = usize::try_from(cap * density).unwrap();
        let text = "w".repeat(step.written.min(most));
        let id = ToolUseId(format!("t{call}"));
        let calls = matches!(step.end, 1..=6);
        let block = if calls {
            BlockStart::ToolUse {
                id,
                name: "read".into(),
            }
        } else {
            BlockStart::Text
        };
        let delta = if calls {
            StreamEvent::InputDelta {
                index: 0,
                json: "{}".into(),
            }
        } else {
            StreamEvent::TextDelta {
                index: 0,
                text: text.clone(),
            }
        };
        let written = if calls { 6 } else { text.len() as u64 };
        let output_tokens = written.div_ceil(density).min(cap);
        let cached = input_tokens * u64::from(step.cached) / 255;
        let usage = Usage {
            input_tokens,
            output_tokens,
            cache_read_tokens: cached / 2,
            cache_write_tokens: cached - cached / 2,
            reasoning_tokens: None,
        };
        self.tokens += input_tokens + output_tokens;
        self.cost = self.cost.saturating_add(self.case.price.cost(usage));
        let mut told = vec![
            event(StreamEvent::MessageStart {
                id: None,
                model: None,
            }),
            event(StreamEvent::BlockStart { index: 0, block }),
            event(delta),
        ];
        if step.end == 9 {
            // It says what it was sent, and no more before it breaks off.
            let usage = Usage {
                output_tokens: 1,
                ..usage
            };
            told.insert(1, event(StreamEvent::Usage(usage)));
            told.push(failed(ModelErrorKind::CutStream));
            return told;
        }
        told.push(event(StreamEvent::BlockStop { index: 0 }));
        told.push(event(StreamEvent::Usage(usage)));
        let stop_reason = match step.end {
            8 => StopReason::MaxTokens,
            _ => StopReason::EndTurn,
        };
        told.push(event(StreamEvent::MessageStop { stop_reason }));
        told
    }

    fn count(&self, message: &HistoryMessage) -> u64 {
        let bytes = match message.message() {
            Message::User(content) => texts(content),
            Message::Assistant(reply) => {
                reply.text().len() + reply.tool_uses().map(|_| 6).sum::<usize>()
            }
            Message::ToolResults(results) => {
                results.iter().map(|result| texts(&result.content)).sum()
            }
        };
        (bytes as u64).div_ceil(self.case.density) + 4
    }
}

fn texts(content: &[Content]) -> usize {
    content
        .iter()
        .map(|part| match part {
            Content::Text(text) => text.len(),
            Content::Image(_) | Content::Document(_) => 0,
        })
        .sum()
}
