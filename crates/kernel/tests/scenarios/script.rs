//! The language of the scenarios.
//!
//! A scenario is one text. Lines that begin with `>` are inputs, the lines below are the effects
//! that they have. `check` plays the inputs and compares the whole text.
//!
//! ```text
//! > set KEY VALUE                       other settings
//! > user TEXT         > later TEXT      the user speaks (steering, follow-up)
//! > model N start                       the reply to call N begins
//! > model N text TEXT                   a whole block; `text+` leaves it open; so with `think`
//! > model N use ID NAME JSON            a whole tool use; `use+` leaves it open; ID `-` is empty
//! > model N more TEXT                   a delta for the newest block
//! > model N close INDEX                 a block ends
//! > model N usage INPUT OUTPUT
//! > model N stop REASON                 the reply is complete
//! > model N say TEXT                    text and end_turn, > model N call ID NAME JSON likewise
//! > fail N KIND [at SECONDS] [after SECONDS] [chance NUMBER] [status NUMBER]
//! > done RUN TEXT     > failed RUN TEXT     > same RUN FINGERPRINT TEXT
//! > allow ASK [RULE|JSON]               > deny ASK REASON
//! > advise CONSULT [allow|ask REASON|deny REASON|input JSON|tell TEXT|stop REASON] [; ...]
//! > judge STOP done|on REASON|end REASON    > hook REASON
//! > timer N    > interrupt    > shutdown    > resumed    > rewind TURN
//! > compact [FOCUS]    > prepared COMPACTION [carry TEXT|refuse REASON]
//! > crash [LOST]                        a new kernel from the journal but for the newest LOST
//! ```
//!
//! In texts `\n` is a line break and `\s` a blank. `[image]` and `[document]` in what the user says and
//! in results are attachments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tooloop_kernel::{
    Advice, AdvisedVerdict, Answer, Delivery, Effect, Entry, Fallback, Input, Kernel, OutputCheck,
    OutputForm, OutputWay, Prepared, Settings, StopJudgement, Transcript,
};
use tooloop_model::{
    BlockStart, Content, Document, Image, JsonObject, ModelError, ModelErrorKind, Money, Price,
    RawJson, StopReason, StreamEvent, ToolUseId, Usage,
};

use crate::common::ByName;
use crate::render;

/// Plays the inputs of a scenario and compares the effects with those that it tells.
#[track_caller]
pub(crate) fn check(scenario: &str) {
    let lines: Vec<_> = scenario
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let expected = lines.join("\n");
    let mut stage = Stage::new();
    for line in lines {
        if let Some(input) = line.strip_prefix("> ") {
            stage.play(input);
        }
    }
    let actual = stage.lines.join("\n");
    assert!(
        actual == expected,
        "the scenario went another way:\n<<<\n{actual}\n>>>\nexpected was:\n{expected}"
    );
}

/// Takes answers of digits.
#[derive(Debug)]
struct Digits;

impl OutputCheck for Digits {
    fn check(&self, text: &str) -> Result<RawJson, String> {
        RawJson::parse(text).map_err(|_| format!("{text:?} is no number"))
    }
}

struct Stage {
    kernel: Kernel,
    /// The entries as they would stand in a file.
    journal: Vec<String>,
    /// The next block's index in the reply to each call.
    blocks: BTreeMap<u64, usize>,
    lines: Vec<String>,
}

impl Stage {
    fn new() -> Self {
        Self {
            kernel: Kernel::new(Settings::default(), Arc::new(ByName), Transcript::default()),
            journal: Vec::new(),
            blocks: BTreeMap::new(),
            lines: Vec::new(),
        }
    }

    fn play(&mut self, line: &str) {
        self.lines.push(format!("> {line}"));
        let (verb, rest) = word(line);
        let inputs = match verb {
            "crash" => {
                self.crash(if rest.is_empty() { 0 } else { number(rest) });
                Vec::new()
            }
            "set" => vec![self.configure(rest)],
            "user" => vec![user(rest, Delivery::Steer)],
            "notice" => vec![user(rest, Delivery::Notice)],
            "aside" => vec![user(rest, Delivery::Aside)],
            "wake" => vec![Input::Wake],
            "later" => vec![user(rest, Delivery::FollowUp)],
            "model" => {
                let (call, rest) = word(rest);
                self.stream(number(call), rest)
            }
            "fail" => vec![failure(rest)],
            "done" => vec![finished(rest, false)],
            "failed" => vec![finished(rest, true)],
            "same" => vec![fingerprinted(rest)],
            "allow" => {
                let (ask, rule) = word(rest);
                let json = rule.starts_with('{');
                let input = json.then(|| JsonObject::parse(rule).unwrap());
                let rule = (!json && !rule.is_empty()).then(|| rule.to_owned());
                vec![answered(ask, Answer::Allow { rule, input })]
            }
            "deny" | "stop" => {
                let (ask, reason) = word(rest);
                let (reason, stops) = (reason.to_owned(), verb == "stop");
                vec![answered(ask, Answer::Deny { reason, stops })]
            }
            "advise" => vec![advice(rest)],
            "hook" => vec![Input::HookStop {
                reason: rest.into(),
            }],
            "judge" => {
                let (stop, rest) = word(rest);
                let (verb, reason) = word(rest);
                let reason = reason.to_owned();
                let judgement = match verb {
                    "done" => StopJudgement::Done,
                    "on" => StopJudgement::GoOn { reason },
                    "end" => StopJudgement::End { reason },
                    other => panic!("no such judgement: {other}"),
                };
                let stop = number(stop);
                vec![Input::StopJudged { stop, judgement }]
            }
            "timer" => vec![Input::TimerFired {
                timer: number(rest),
            }],
            "interrupt" => vec![Input::Interrupt],
            "shutdown" => vec![Input::Shutdown],
            "rewind" => vec![Input::Rewind {
                turn: number(rest),
                past: None,
            }],
            "compact" => vec![Input::Compact {
                focus: (!rest.is_empty()).then(|| rest.to_owned()),
            }],
            "prepared" => {
                let (compaction, rest) = word(rest);
                let mut prepared = Prepared::default();
                match word(rest) {
                    ("carry", text) => prepared.carried = vec![Content::Text(text.into())],
                    ("refuse", reason) => prepared.refused = Some(reason.into()),
                    ("", _) => {}
                    (other, _) => panic!("no such thing to prepare: {other}"),
                }
                let compaction = number(compaction);
                vec![Input::CompactionPrepared {
                    compaction,
                    prepared,
                }]
            }
            "resumed" => vec![Input::Resumed],
            other => panic!("no such input: {other}"),
        };
        let effects: Vec<_> = inputs
            .into_iter()
            .flat_map(|input| self.kernel.step(input))
            .collect();
        for effect in &effects {
            if let Effect::Record { entry, .. } = effect {
                self.journal.push(serde_json::to_string(entry).unwrap());
            }
        }
        self.lines.extend(render::effects(&effects));
    }

    fn crash(&mut self, lost: usize) {
        self.journal.truncate(self.journal.len() - lost);
        let mut transcript = Transcript::default();
        for line in &self.journal {
            let entry: Entry = serde_json::from_str(line).unwrap();
            transcript.apply(&entry);
        }
        let settings = self.kernel.settings().clone();
        self.kernel = Kernel::new(settings, Arc::new(ByName), transcript);
        self.blocks.clear();
    }

    fn configure(&self, rest: &str) -> Input {
        let (key, value) = word(rest);
        let mut settings = self.kernel.settings().clone();
        match key {
            "max_turns" => settings.max_turns = Some(number(value)),
            "max_parallel" => settings.max_parallel_tools = number(value),
            "output" => settings.max_output_tokens = Some(number(value)),
            "escalated" => settings.escalated_output_tokens = Some(number(value)),
            "attempts" => settings.retry.max_attempts = number(value),
            "stop_after" => settings.stop_after_repeats = number(value),
            "before" => settings.hooked.before = names(value),
            "after" => settings.hooked.after = names(value),
            "stop_hook" => settings.stop_hook = true,
            "time" => settings.limits.time = Some(Duration::from_secs(number(value))),
            "tool_calls" => settings.limits.tool_calls = Some(number(value)),
            "tokens" => settings.limits.tokens = Some(number(value)),
            // In millionths of a dollar.
            "cost" => settings.limits.cost = Some(Money(number::<u64>(value) * 1000)),
            // One dollar for a million of them, and five for one written.
            "price" => {
                settings.price = Some(Price {
                    input: 1.0,
                    output: 5.0,
                    cache_read: 0.1,
                    cache_write: 1.0,
                });
            }
            "window" => settings.window = Some(number(value)),
            "model" => settings.model = value.into(),
            "fallback" => {
                settings.fallback = Some(Fallback {
                    model: value.into(),
                    max_output_tokens: Some(77),
                    escalated_output_tokens: None,
                    window: None,
                    price: settings.price,
                });
            }
            "answer" => {
                let way = match value {
                    "native" => OutputWay::Native(RawJson::parse("{}").unwrap()),
                    tool => OutputWay::Tool(tool.into()),
                };
                settings.output = Some(OutputForm {
                    check: Arc::new(Digits),
                    way,
                    tries: 3,
                });
            }
            other => panic!("no such setting: {other}"),
        }
        Input::Configure(Box::new(settings))
    }

    /// The events of one line of a model's reply.
    fn stream(&mut self, call: u64, line: &str) -> Vec<Input> {
        let (verb, rest) = word(line);
        let next = self.blocks.entry(call).or_default();
        let mut events = Vec::new();
        match verb {
            "start" => events.push(StreamEvent::MessageStart {
                id: None,
                model: None,
            }),
            "text" | "text+" | "say" => block(next, BlockStart::Text, text(rest), &mut events),
            "think" | "think+" => block(next, BlockStart::Thinking, text(rest), &mut events),
            "use" | "use+" | "call" => {
                let (id, rest) = word(rest);
                let (name, json) = word(rest);
                let id = ToolUseId(if id == "-" { "" } else { id }.into());
                let name = name.into();
                let start = BlockStart::ToolUse { id, name };
                block(next, start, json.into(), &mut events);
            }
            "more" => events.push(StreamEvent::TextDelta {
                index: next.saturating_sub(1),
                text: text(rest),
            }),
            "close" => events.push(StreamEvent::BlockStop {
                index: number(rest),
            }),
            "usage" => {
                let (input, output) = word(rest);
                events.push(StreamEvent::Usage(Usage {
                    input_tokens: number(input),
                    output_tokens: number(output),
                    ..Usage::default()
                }));
            }
            "stop" => {}
            other => panic!("no such event: {other}"),
        }
        if matches!(verb, "text" | "say" | "think" | "use" | "call") {
            let index = *next - 1;
            events.push(StreamEvent::BlockStop { index });
        }
        let stop = match verb {
            "say" => Some(StopReason::EndTurn),
            "call" => Some(StopReason::ToolUse),
            "stop" => Some(stop_reason(rest)),
            _ => None,
        };
        events.extend(stop.map(|stop_reason| StreamEvent::MessageStop { stop_reason }));
        let input = |event| Input::Stream { call, event };
        events.into_iter().map(input).collect()
    }
}

fn block(next: &mut usize, start: BlockStart, text: String, events: &mut Vec<StreamEvent>) {
    let index = *next;
    *next += 1;
    let delta = match &start {
        BlockStart::Text => StreamEvent::TextDelta { index, text },
        BlockStart::Thinking => StreamEvent::ThinkingDelta { index, text },
        _ => StreamEvent::InputDelta { index, json: text },
    };
    events.extend([
        StreamEvent::BlockStart {
            index,
            block: start,
        },
        delta,
    ]);
}

fn stop_reason(name: &str) -> StopReason {
    match name {
        "end_turn" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolUse,
        "max_tokens" => StopReason::MaxTokens,
        "refusal" => StopReason::Refusal,
        "content_filter" => StopReason::ContentFilter,
        "pause" => StopReason::Pause,
        "context_window" => StopReason::ContextWindow,
        other => StopReason::Other(other.into()),
    }
}

fn failure(rest: &str) -> Input {
    let (call, rest) = word(rest);
    let (kind, mut rest) = word(rest);
    let kind = match kind {
        "connection" => ModelErrorKind::Connection,
        "cut" => ModelErrorKind::CutStream,
        "overloaded" => ModelErrorKind::Overloaded,
        "rate_limited" => ModelErrorKind::RateLimited,
        "auth" => ModelErrorKind::Auth,
        "too_long" => ModelErrorKind::ContextTooLong,
        "image" => ModelErrorKind::AttachmentRefused,
        "thinking" => ModelErrorKind::ThinkingRefused,
        other => panic!("no such failure: {other}"),
    };
    let mut error = ModelError::new(kind, format!("{kind:?}"));
    let (mut now, mut chance) = (Duration::from_secs(1000), 0);
    while !rest.is_empty() {
        let (key, more) = word(rest);
        let (value, more) = word(more);
        match key {
            "at" => now = Duration::from_secs(number(value)),
            "after" => error.retry_after = Some(Duration::from_secs(number(value))),
            "chance" => chance = number(value),
            "status" => error.status = Some(number(value)),
            other => panic!("no such word: {other}"),
        }
        rest = more;
    }
    Input::StreamFailed {
        call: number(call),
        error,
        now,
        chance,
    }
}

fn user(said: &str, delivery: Delivery) -> Input {
    Input::User {
        content: content(said),
        delivery,
    }
}

/// A text with attachments in it.
fn content(said: &str) -> Vec<Content> {
    let parts = said.split_inclusive(']').flat_map(|part| {
        let (before, name) = part.rsplit_once('[').unwrap_or((part, ""));
        let data = "AAAA".to_owned();
        let attached = match name {
            "image]" => Content::Image(Image {
                media_type: "image/png".into(),
                data,
            }),
            "document]" => Content::Document(Document {
                media_type: "application/pdf".into(),
                data,
                title: None,
            }),
            _ => return vec![Content::Text(text(part))],
        };
        vec![Content::Text(text(before)), attached]
    });
    let parts = parts.map(|part| match part {
        Content::Text(text) => Content::Text(text.trim().to_owned()),
        attached => attached,
    });
    let all: Vec<Content> = parts.filter(|part| !part.is_blank()).collect();
    if all.iter().all(|part| matches!(part, Content::Text(_))) {
        return vec![Content::Text(text(said))];
    }
    all
}

fn finished(rest: &str, is_error: bool) -> Input {
    let (run, said) = word(rest);
    Input::ToolFinished {
        run: number(run),
        content: content(said),
        is_error,
        fingerprint: None,
    }
}

fn fingerprinted(rest: &str) -> Input {
    let (run, rest) = word(rest);
    let (fingerprint, said) = word(rest);
    Input::ToolFinished {
        run: number(run),
        content: vec![Content::Text(text(said))],
        is_error: false,
        fingerprint: Some(fingerprint.into()),
    }
}

fn answered(ask: &str, answer: Answer) -> Input {
    Input::Answered {
        ask: number(ask),
        answer,
    }
}

/// What was said, parted by ` ; `.
fn advice(rest: &str) -> Input {
    let (consult, rest) = word(rest);
    let mut advice = Advice::default();
    for part in rest.split(" ; ").filter(|part| !part.is_empty()) {
        let (verb, rest) = word(part);
        let reason = rest.to_owned();
        match verb {
            "allow" => advice.verdict = Some(AdvisedVerdict::Allow),
            "ask" => advice.verdict = Some(AdvisedVerdict::Ask { reason }),
            "deny" => advice.verdict = Some(AdvisedVerdict::Deny { reason }),
            "input" => advice.input = Some(JsonObject::parse(rest).unwrap()),
            "tell" => advice.context.push(text(rest)),
            "stop" => advice.stop = Some(reason),
            other => panic!("no such advice: {other}"),
        }
    }
    let consult = number(consult);
    Input::Consulted { consult, advice }
}

fn names(list: &str) -> BTreeSet<String> {
    list.split(' ').map(str::to_owned).collect()
}

/// The first word, and what follows it.
fn word(line: &str) -> (&str, &str) {
    line.split_once(' ').unwrap_or((line, ""))
}

fn number<N: std::str::FromStr>(word: &str) -> N {
    let Ok(number) = word.parse() else {
        panic!("no number: {word}");
    };
    number
}

fn text(said: &str) -> String {
    said.replace("\\n", "\n").replace("\\s", " ")
}
