//! Drives the kernel by what the record says came in.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tooloop_kernel::{
    Answer, Continue, Delivery, Effect, Entry, Input, Kernel, Permission, Settings, Transcript,
    TurnEnd,
};
use tooloop_model::{Request, StreamEvent, ToolResult, ToolUse, ToolUseId};
use tooloop_provider::{RecordedCall, RecordedReply, first_difference};

use super::compare::{Compare, value};
use super::foresight::{self, Queued};
use super::gate::RecordedGate;
use super::recording::Recorded;
use super::reply::{self, Outcome};
use super::words::{self, Closed};
use super::{Difference, Recording, Replayed};
use crate::turn::TurnUnderWay;
use crate::{Event, TurnReport};

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
enum Stop {
    Differs(Difference),
    /// The process died here, or else this differs.
    Died(Difference),
}

type Step = Result<(), Stop>;

/// Plays one recording.
pub(super) struct Player<'a> {
    records: &'a [Recorded],
    /// How many entries have come as they were recorded.
    cursor: usize,
    compare: Compare,
    kernel: Kernel,
    gate: Arc<RecordedGate>,
    /// The fold of the entries that have come.
    transcript: Transcript,
    /// The recorded model calls that have not been asked for.
    calls: Vec<&'a RecordedCall>,
    has_calls: bool,
    model: Option<(u64, Request)>,
    runs: HashMap<ToolUseId, u64>,
    asks: HashMap<ToolUseId, u64>,
    timer: Option<u64>,
    /// Which outcomes of the turn's replies were the same, and how many replies there were.
    repeats: Vec<usize>,
    batches: usize,
    /// Whether a call of the newest reply has its answer.
    answered: bool,
    /// Where the process died last.
    died: Option<usize>,
    turn: Option<TurnUnderWay>,
    out: VecDeque<Played>,
    resumed: bool,
    over: bool,
    replayed: Replayed,
}

impl<'a> Player<'a> {
    pub(super) fn new(recording: &'a Recording) -> Self {
        let mut transcript = Transcript::default();
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
            model: None,
            runs: HashMap::new(),
            asks: HashMap::new(),
            timer: None,
            repeats: Vec::new(),
            batches: 0,
            answered: false,
            died: None,
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

    fn differs(&mut self, difference: Difference) {
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

    fn left(&self) -> &'a [Recorded] {
        self.records.get(self.cursor..).unwrap_or_default()
    }

    fn expected(&self) -> Option<&'a Recorded> {
        self.records.get(self.cursor)
    }

    /// The next record does not follow from where the machine is.
    fn stuck(&self, waits: &str) -> Stop {
        Stop::Differs(self.missing(waits))
    }

    fn died(&self, waits: &str) -> Stop {
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
        matches!(
            newest,
            None | Some(Entry::TurnEnd(_) | Entry::Rewound { .. })
        )
    }

    /// Whether the record is one that whoever goes on after a death makes.
    fn closes_a_death(&self, record: &Recorded) -> bool {
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

    fn step(&mut self, input: Input) -> Step {
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
                    turn.model_called();
                }
                self.model = Some((call, *request));
            }
            Effect::CancelModel { .. } => self.model = None,
            Effect::Show { call, event } => self.tell(Event::Delta { call, event }),
            Effect::Void { call } => self.tell(Event::Voided { call }),
            Effect::RunTool { run, tool_use } => self.run(run, tool_use),
            Effect::CancelTool { run } => self.runs.retain(|_, other| *other != run),
            Effect::Ask { ask, tool_use, .. } => {
                self.asks.insert(tool_use.id, ask);
            }
            Effect::CancelAsk { .. } => self.asks.clear(),
            Effect::StartTimer { timer, .. } => self.timer = Some(timer),
            Effect::CancelTimer { .. } => self.timer = None,
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
        let (_, report) = turn.end(end, self.kernel.transcript().usage(), None);
        let report: Arc<TurnReport> = Arc::new(report);
        self.replayed.turns = self.replayed.turns.saturating_add(1);
        self.replayed.report = Some(Arc::clone(&report));
        self.tell(Event::TurnEnded(report));
    }

    fn configure(&mut self, change: impl FnOnce(&mut Settings)) -> Step {
        let mut settings = self.kernel.settings().clone();
        change(&mut settings);
        self.step(Input::Configure(Box::new(settings)))
    }

    // ---- what comes in

    fn go_on(&mut self) -> Step {
        if !std::mem::replace(&mut self.resumed, true) {
            return self.step(Input::Resumed);
        }
        let Some(expected) = self.expected() else {
            self.over = true;
            return Ok(());
        };
        if self.kernel.is_idle() {
            return self.begin(expected);
        }
        if self.model.is_some() {
            return self.model();
        }
        if let Some(timer) = self.timer {
            return match &expected.entry {
                Entry::Continue(Continue::Retry) => {
                    self.timer = None;
                    self.step(Input::TimerFired { timer })
                }
                Entry::TurnEnd(TurnEnd::Interrupted { .. }) => self.step(Input::Interrupt),
                _ => Err(self.stuck("a failed model call is to be tried again")),
            };
        }
        self.tools(expected)
    }

    /// A turn, or what else may happen between turns.
    fn begin(&mut self, expected: &Recorded) -> Step {
        match &expected.entry {
            Entry::Rewound { turn } => self.step(Input::Rewind { turn: *turn }),
            _ if self.closes_a_death(expected) => Err(self.died("no turn is under way")),
            Entry::Message(message) if words::said(message.message()).is_some() => self.prompt(),
            _ => Err(self.stuck("no turn is under way")),
        }
    }

    /// The prompt, and before it what background work had to say meanwhile.
    fn prompt(&mut self) -> Step {
        let records = self.left();
        let said = records.iter().map_while(|record| match &record.entry {
            Entry::Message(message) => words::said(message.message()),
            _ => None,
        });
        let mut said: Vec<_> = said.cloned().collect();
        let Some(prompt) = said.pop() else {
            return Err(self.stuck("no turn is under way"));
        };
        self.compare.turn_begins();
        self.configure(|settings| foresight::limits(settings, records))?;
        let remind_after = self.kernel.settings().remind_after_repeats;
        self.repeats = foresight::repeats(records, remind_after);
        self.batches = 0;
        self.answered = false;
        // Nobody waits for the report here: it is told as an event.
        let (reply, _) = oneshot::channel();
        let usage = self.kernel.transcript().usage();
        self.turn = Some(TurnUnderWay::begin(reply, usage));
        for notice in said {
            self.step(Input::User {
                content: notice,
                delivery: Delivery::Notice,
            })?;
        }
        self.step(Input::User {
            content: prompt,
            delivery: Delivery::Steer,
        })
    }

    fn model(&mut self) -> Step {
        let records = self.left();
        let Some((call, request)) = self.model.take() else {
            return Ok(());
        };
        let Some((outcome, usage)) = reply::outcome(records) else {
            // Nothing but Discarded is left: the process died in between.
            let discarded = |record: &Recorded| {
                matches!(record.entry, Entry::Discarded { .. } | Entry::Spent { .. })
            };
            if records.iter().all(discarded) {
                self.over = true;
                self.cursor = self.records.len();
                return Ok(());
            }
            return Err(self.stuck("the model has been asked"));
        };
        let reply = if self.has_calls {
            self.recorded_reply(&request)?
        } else {
            outcome.reply(usage)
        };
        let escalates = outcome == Outcome::Escalate;
        let retry = outcome.policy();
        self.configure(|settings| {
            settings.retry = retry;
            settings.max_output_tokens = Some(1);
            settings.escalated_output_tokens = escalates.then_some(2);
        })?;
        // What is there to be judged and said stands behind the reply.
        let behind = records.get(1..).unwrap_or_default();
        let message = match &outcome {
            Outcome::Reply(message) => Some(*message),
            Outcome::Partial(_)
            | Outcome::Escalate
            | Outcome::Retry { .. }
            | Outcome::Fail(_)
            | Outcome::Interrupt => None,
        };
        let ids = message.into_iter().flat_map(|message| message.tool_uses());
        let ids = ids.map(|tool_use| tool_use.id.clone());
        self.gate.know(foresight::judgements(ids, behind));
        let queued = if message.is_some() {
            foresight::queued(behind)
        } else {
            Vec::new()
        };
        self.feed(call, reply, queued, behind)
    }

    /// Has the model say its part.
    fn feed(
        &mut self,
        call: u64,
        reply: RecordedReply,
        queued: Vec<Queued>,
        behind: &[Recorded],
    ) -> Step {
        for event in reply.events {
            let stops = matches!(event, StreamEvent::MessageStop { .. });
            if stops {
                for Queued { content, delivery } in &queued {
                    self.step(Input::User {
                        content: content.clone(),
                        delivery: *delivery,
                    })?;
                }
                self.early(behind)?;
            }
            self.step(Input::Stream { call, event })?;
            if stops {
                return Ok(());
            }
        }
        match reply.error {
            Some(error) => self.step(Input::StreamFailed {
                call,
                error,
                now: Duration::ZERO,
                chance: 0,
            }),
            None => self.step(Input::Interrupt),
        }
    }

    /// The calls whose answers stand right behind their message may have been answered before it
    /// was complete, and are.
    fn early(&mut self, behind: &[Recorded]) -> Step {
        for record in behind {
            let Entry::CallFinished(result) = &record.entry else {
                break;
            };
            if words::closed(result).is_some() || !self.runs.contains_key(&result.tool_use_id) {
                break;
            }
            self.finish(result)?;
        }
        Ok(())
    }

    /// A tool answers.
    fn finish(&mut self, result: &ToolResult) -> Step {
        let Some(run) = self.runs.remove(&result.tool_use_id) else {
            return Err(self.stuck("the call that this answers does not run"));
        };
        let label = self.repeats.get(self.batches);
        self.step(Input::ToolFinished {
            run,
            content: result.content.clone(),
            is_error: result.is_error,
            fingerprint: label.map(ToString::to_string),
        })
    }

    fn tools(&mut self, expected: &Recorded) -> Step {
        let waits = "calls have not been answered";
        match &expected.entry {
            Entry::CallFinished(result) => match words::closed(result) {
                Some(Closed::Dead) => Err(self.died(waits)),
                Some(Closed::NotBegun | Closed::NotAllowed | Closed::Running) => {
                    self.step(Input::Interrupt)
                }
                None => self.finish(result),
            },
            Entry::Permission {
                tool_use_id,
                permission,
            } => {
                let Some(ask) = self.asks.remove(tool_use_id) else {
                    return Err(self.stuck("nobody is asked about this call"));
                };
                let answer = match permission.clone() {
                    Permission::Allowed { rule } => Answer::Allow { rule },
                    Permission::Denied { reason } => Answer::Deny { reason },
                };
                self.step(Input::Answered { ask, answer })
            }
            Entry::TurnEnd(TurnEnd::Interrupted { .. }) => Err(self.died(waits)),
            _ => Err(self.stuck(waits)),
        }
    }

    /// The process has died, and another one goes on. The same death twice is none.
    fn die(&mut self, difference: Difference) {
        if self.died.replace(self.cursor) == Some(self.cursor) {
            return self.differs(difference);
        }
        self.kernel = kernel(&self.gate, &self.transcript);
        self.model = None;
        self.timer = None;
        self.runs.clear();
        self.asks.clear();
        self.compare.turn_begins();
        match self.step(Input::Resumed) {
            Ok(()) => self.turn = None,
            // It died as well, before it had recorded all of this.
            Err(Stop::Died(difference)) if self.died == Some(self.cursor) => {
                self.differs(difference);
            }
            Err(Stop::Died(_)) => {}
            Err(Stop::Differs(difference)) => self.differs(difference),
        }
    }

    /// What the model answered to this request.
    fn recorded_reply(&mut self, request: &Request) -> Result<RecordedReply, Stop> {
        let messages: Vec<_> = request
            .messages
            .iter()
            .map(|message| serde_json::to_value(message.message()).unwrap_or_default())
            .collect();
        let same = |call: &&RecordedCall| {
            let recorded = call.request.messages.iter().map(|message| &**message);
            recorded.eq(messages.iter())
        };
        if let Some(at) = self.calls.iter().position(same) {
            return Ok(self.calls.remove(at).reply.clone());
        }
        let words = match self.calls.first() {
            None => "the model is asked once more than was recorded".into(),
            Some(call) => {
                let recorded = call
                    .request
                    .messages
                    .iter()
                    .map(|message| (**message).clone());
                let difference = first_difference(&recorded.collect(), &messages.into());
                let difference = difference.map_or_else(String::new, |found| found.to_string());
                format!(
                    "the messages of the request differ from those of call {} {difference}",
                    call.number
                )
            }
        };
        Err(Stop::Differs(Difference {
            record: self.expected().map(|record| record.seq),
            words,
        }))
    }
}

/// An entry as it is told.
fn short(entry: &Entry) -> String {
    value(entry).to_string().chars().take(200).collect()
}

fn kernel(gate: &Arc<RecordedGate>, transcript: &Transcript) -> Kernel {
    let settings = Settings {
        // What runs beside what is told by the record.
        max_parallel_tools: usize::MAX,
        ..Settings::default()
    };
    Kernel::new(settings, Arc::clone(gate) as _, transcript.clone())
}
