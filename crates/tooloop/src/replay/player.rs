//! Drives the kernel by what the record says came in.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use tooloop_kernel::{
    Advice, Continue, Effect, Entry, Input, Kernel, Settings, Transcript, TurnEnd,
};
use tooloop_model::{
    HistoryMessage, ModelErrorKind, Money, Request, ToolResult, ToolUse, ToolUseId,
};
use tooloop_provider::RecordedCall;

use super::compare::{Compare, value};
use super::foresight;
use super::gate::RecordedGate;
use super::recording::Recorded;
use super::words::{self, Closed};
use super::{Difference, Recording, Replayed};
use crate::turn::TurnUnderWay;
use crate::{CompactionState, Event, TurnReport};

/// What comes of a step.
#[derive(Debug)]
pub(super) enum Played {
    /// What a front end is told.
    Event(Event),
    /// A tool would be run now.
    Run {
        tool_use: ToolUse,
        /// What it came to; `None` if that is not on record.
        recorded: Option<ToolResult>,
    },
}

/// Why the machine does not go on as it would.
pub(super) enum Stop {
    Differs(Difference),
    /// The process died here, or else this differs.
    Died(Difference),
}

pub(super) type Step = Result<(), Stop>;

/// Plays one recording.
pub(super) struct Player<'a> {
    pub(super) records: &'a [Recorded],
    /// How many entries have come as they were recorded.
    pub(super) cursor: usize,
    pub(super) compare: Compare,
    pub(super) kernel: Kernel,
    pub(super) gate: Arc<RecordedGate>,
    /// The fold of the entries that have come.
    pub(super) transcript: Transcript,
    /// The recorded model calls that have not been asked for.
    pub(super) calls: Vec<&'a RecordedCall>,
    pub(super) has_calls: bool,
    /// The messages of the newest request, each with its JSON.
    pub(super) asked: Vec<(Arc<HistoryMessage>, Value)>,
    pub(super) model: Option<(u64, Request)>,
    pub(super) runs: HashMap<ToolUseId, u64>,
    pub(super) asks: HashMap<ToolUseId, u64>,
    /// Calls that somebody had a say in, which has not been said yet.
    pub(super) consults: HashMap<ToolUseId, u64>,
    /// What was said of them.
    pub(super) advice: HashMap<ToolUseId, Advice>,
    /// Runs until a failed call is tried again.
    pub(super) timer: Option<u64>,
    /// Runs until the turn has taken as long as it may.
    pub(super) deadline: Option<u64>,
    /// Who judges whether the model is done.
    pub(super) stop: Option<u64>,
    /// How many model calls in a row met an overload.
    pub(super) overloads: u32,
    /// Which outcomes of the turn's replies were the same, and how many replies there were.
    pub(super) repeats: Vec<usize>,
    pub(super) batches: usize,
    /// The tool that takes the turn's answer.
    pub(super) answer_tool: Option<String>,
    /// Whether a call of the newest reply has its answer.
    pub(super) answered: bool,
    /// Where the process died last.
    pub(super) died: Option<usize>,
    /// The model is asked for a summary.
    pub(super) sums_up: bool,
    pub(super) turn: Option<TurnUnderWay>,
    pub(super) out: VecDeque<Played>,
    pub(super) resumed: bool,
    pub(super) over: bool,
    pub(super) replayed: Replayed,
}

impl<'a> Player<'a> {
    pub(super) fn new(recording: &'a Recording) -> Self {
        let mut transcript = Transcript::default();
        transcript.keep_past();
        for entry in &recording.past {
            transcript.apply(entry);
        }
        let gate = Arc::new(RecordedGate::default());
        Self {
            records: &recording.records,
            cursor: 0,
            compare: Compare::default(),
            kernel: kernel(&gate, &transcript),
            gate,
            transcript,
            calls: recording.calls.iter().collect(),
            has_calls: !recording.calls.is_empty(),
            asked: Vec::new(),
            model: None,
            runs: HashMap::new(),
            asks: HashMap::new(),
            consults: HashMap::new(),
            advice: HashMap::new(),
            timer: None,
            deadline: None,
            stop: None,
            overloads: 0,
            repeats: Vec::new(),
            batches: 0,
            answer_tool: None,
            answered: false,
            died: None,
            sums_up: false,
            turn: None,
            out: VecDeque::new(),
            resumed: recording.past.is_empty(),
            over: false,
            replayed: Replayed::default(),
        }
    }

    /// The next thing that happens; `None` at the end, or behind the first difference.
    pub(super) fn next(&mut self) -> Option<Played> {
        loop {
            if let Some(played) = self.out.pop_front() {
                return Some(played);
            }
            if self.over {
                return None;
            }
            match self.go_on() {
                Ok(()) => {}
                Err(Stop::Died(difference)) => self.die(difference),
                Err(Stop::Differs(difference)) => self.differs(difference),
            }
        }
    }

    pub(super) fn differs(&mut self, difference: Difference) {
        self.replayed.difference = Some(difference);
        self.over = true;
    }

    pub(super) fn replayed(self) -> Replayed {
        Replayed {
            entries: self.cursor,
            unfinished: !self.ends_with_a_turn(),
            calls_left: self.calls.len(),
            ..self.replayed
        }
    }

    // ---- the record

    pub(super) fn left(&self) -> &'a [Recorded] {
        self.records.get(self.cursor..).unwrap_or_default()
    }

    pub(super) fn expected(&self) -> Option<&'a Recorded> {
        self.records.get(self.cursor)
    }

    /// The next record does not follow from where the machine is.
    pub(super) fn stuck(&self, waits: &str) -> Stop {
        Stop::Differs(self.missing(waits))
    }

    pub(super) fn died(&self, waits: &str) -> Stop {
        Stop::Died(self.missing(waits))
    }

    fn missing(&self, waits: &str) -> Difference {
        let expected = self.expected();
        let entry = expected.map_or_else(String::new, |record| short(&record.entry));
        Difference {
            record: expected.map(|record| record.seq),
            words: format!("expected {entry}, came nothing: {waits}"),
        }
    }

    /// Takes an entry that the kernel records.
    fn entry(&mut self, entry: Entry) -> Step {
        let Some(expected) = self.expected() else {
            // The process died before it could record this.
            self.over = true;
            if self.ends_with_a_turn() {
                return Err(Stop::Differs(Difference {
                    record: None,
                    words: format!("expected nothing, came {}", short(&entry)),
                }));
            }
            return Ok(());
        };
        if let Err(difference) = self.compare.check(expected, &entry) {
            return Err(if self.closes_a_death(expected) {
                Stop::Died(difference)
            } else {
                Stop::Differs(difference)
            });
        }
        self.cursor = self.cursor.saturating_add(1);
        self.transcript.apply(&expected.entry);
        match &entry {
            Entry::CallFinished(_) => self.answered = true,
            Entry::Retry { error, .. } if error.kind == ModelErrorKind::Overloaded => {
                self.overloads = self.overloads.saturating_add(1);
            }
            Entry::Retry { .. } | Entry::Message(_) => self.overloads = 0,
            Entry::Continue(Continue::FallbackModel { .. }) => self.overloads = 0,
            Entry::Continue(_) if std::mem::take(&mut self.answered) => {
                self.batches = self.batches.saturating_add(1);
            }
            _ => {}
        }
        if let Some(turn) = &mut self.turn {
            turn.note(&entry);
        }
        self.tell(Event::Recorded(Arc::new(entry)));
        Ok(())
    }

    fn ends_with_a_turn(&self) -> bool {
        let newest = self.records.last().map(|record| &record.entry);
        matches!(newest, Some(Entry::TurnEnd(_) | Entry::Rewound { .. }))
    }

    /// Whether the record is one that whoever goes on after a death makes.
    pub(super) fn closes_a_death(&self, record: &Recorded) -> bool {
        match &record.entry {
            Entry::CallFinished(result) => words::closed(result) == Some(Closed::Dead),
            Entry::TurnEnd(TurnEnd::Interrupted { .. }) => self.turn.is_some(),
            _ => false,
        }
    }

    fn tell(&mut self, event: Event) {
        self.out.push_back(Played::Event(event));
    }

    // ---- what goes out

    pub(super) fn step(&mut self, input: Input) -> Step {
        for effect in self.kernel.step(input) {
            if self.over {
                break;
            }
            self.act(effect)?;
        }
        Ok(())
    }

    fn act(&mut self, effect: Effect) -> Step {
        match effect {
            Effect::Record { entry, .. } => return self.entry(entry),
            Effect::CallModel { call, request } => {
                if let Some(turn) = &mut self.turn {
                    turn.model_called(&request.model);
                }
                self.model = Some((call, *request));
            }
            Effect::CancelModel { .. } => self.model = None,
            Effect::Show { call, event } => self.tell(Event::Delta { call, event }),
            Effect::Void { call } => self.tell(Event::Voided { call }),
            Effect::RunTool { run, tool_use, .. } => self.run(run, tool_use),
            Effect::CancelTool { run } => self.runs.retain(|_, other| *other != run),
            Effect::Consult { consult, tool_use } => {
                self.consults.insert(tool_use.id, consult);
            }
            Effect::CancelConsult { consult } => {
                self.consults.retain(|_, other| *other != consult);
            }
            Effect::Ask { ask, tool_use, .. } => {
                self.asks.insert(tool_use.id, ask);
            }
            Effect::CancelAsk { .. } => self.asks.clear(),
            Effect::PrepareCompaction {
                compaction,
                trigger,
                ..
            } => {
                self.sums_up = true;
                let state = CompactionState::Begun;
                self.tell(Event::Compaction { trigger, state });
                let prepared = foresight::prepared(self.left());
                return self.step(Input::CompactionPrepared {
                    compaction,
                    prepared,
                });
            }
            Effect::CancelCompaction { .. } => self.sums_up = false,
            Effect::CompactionEnded {
                trigger, failure, ..
            } => {
                self.sums_up = false;
                let state = failure.map_or(CompactionState::Done, CompactionState::Failed);
                self.tell(Event::Compaction { trigger, state });
            }
            Effect::AskStop { stop, .. } => self.stop = Some(stop),
            Effect::CancelStop { .. } => self.stop = None,
            Effect::StartTimer { timer, .. } => {
                let newest = self
                    .cursor
                    .checked_sub(1)
                    .and_then(|at| self.records.get(at));
                if newest.is_some_and(|record| matches!(record.entry, Entry::Retry { .. })) {
                    self.timer = Some(timer);
                } else {
                    self.deadline = Some(timer);
                }
            }
            Effect::CancelTimer { timer } => {
                self.timer = self.timer.filter(|other| *other != timer);
                self.deadline = self.deadline.filter(|other| *other != timer);
            }
            Effect::EndTurn { end, .. } => self.turn_ended(end),
        }
        Ok(())
    }

    fn run(&mut self, run: u64, tool_use: ToolUse) {
        self.runs.insert(tool_use.id.clone(), run);
        let answers = self.left().iter().filter_map(|record| match &record.entry {
            Entry::CallFinished(result) => Some(result),
            _ => None,
        });
        let mut answers = answers.filter(|result| result.tool_use_id == tool_use.id);
        let recorded = answers
            .next()
            .filter(|result| words::closed(result).is_none());
        let recorded = recorded.cloned();
        self.tell(Event::ToolStarted {
            tool_use: tool_use.clone(),
        });
        self.out.push_back(Played::Run { tool_use, recorded });
    }

    fn turn_ended(&mut self, end: TurnEnd) {
        let Some(turn) = self.turn.take() else { return };
        let priced = self.transcript.spent() > Money::default();
        let (_, report) = turn.end(end, &self.transcript, priced);
        let report: Arc<TurnReport> = Arc::new(report);
        self.replayed.turns = self.replayed.turns.saturating_add(1);
        self.replayed.report = Some(Arc::clone(&report));
        self.tell(Event::TurnEnded(report));
    }

    pub(super) fn configure(&mut self, change: impl FnOnce(&mut Settings)) -> Step {
        let mut settings = self.kernel.settings().clone();
        change(&mut settings);
        self.step(Input::Configure(Box::new(settings)))
    }
}

/// An entry as it is told.
fn short(entry: &Entry) -> String {
    value(entry).to_string().chars().take(200).collect()
}

pub(super) fn kernel(gate: &Arc<RecordedGate>, transcript: &Transcript) -> Kernel {
    let settings = Settings {
        // The record tells what ran beside what.
        max_parallel_tools: usize::MAX,
        max_output_tokens: Some(foresight::CAP),
        ..Settings::default()
    };
    Kernel::new(settings, Arc::clone(gate) as _, transcript.clone())
}
