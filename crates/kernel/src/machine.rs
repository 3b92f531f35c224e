//! The machine itself.

mod answers;
mod compacting;
mod replies;
mod spending;
mod stopping;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tooloop_model::{Content, Message, MessageBuilder, ToolResult, ToolUseId, Usage};

use crate::batch::Batch;
use crate::ledger::{Amount, Reservation};
use crate::machine::compacting::{Compaction, Upkeep};
use crate::repeats::Repeats;
use crate::{
    Continue, Delivery, During, Effect, Entry, Gate, Input, Interrupter, Ledger, Settings, Sync,
    Transcript, TurnEnd,
};

/// How often a reply that the output cap cut is continued.
const MAX_CONTINUATIONS: u32 = 3;

/// The agent loop: see the crate's documentation.
pub struct Kernel {
    settings: Settings,
    gate: Arc<dyn Gate>,
    transcript: Transcript,
    phase: Phase,
    /// What the user said meanwhile, oldest first.
    queue: VecDeque<Queued>,
    turn: Turn,
    ledger: Ledger,
    /// A provider has counted a request since this kernel was made or its settings last changed.
    counted: bool,
    /// The model for which the conversation was counted. A past is taken to be that of the same one.
    counted_by: String,
    /// The newest turn ended so.
    interrupted: bool,
    /// The conversation is being summed up.
    compaction: Option<Box<Compaction>>,
    upkeep: Upkeep,
    /// The newest number given to a call, run, question or timer. Numbers are never used twice.
    newest: Numbers,
}

#[derive(Debug, Clone, Copy, Default)]
struct Numbers {
    call: u64,
    run: u64,
    ask: u64,
    consult: u64,
    timer: u64,
    stop: u64,
    compaction: u64,
}

struct Queued {
    content: Vec<Content>,
    delivery: Delivery,
}

enum Phase {
    /// No turn is under way.
    Idle,
    /// The model writes.
    Calling(Box<Calling>),
    /// What a summary needs is gathered.
    Preparing,
    /// A failed call is to be tried again.
    Waiting { timer: u64 },
    /// The message is complete; its calls are being answered.
    Answering(Batch),
    /// The model is done, and somebody judges that.
    Stopping { stop: u64 },
}

struct Calling {
    call: u64,
    builder: MessageBuilder,
    reservation: Reservation,
    /// Whether it is a summary that is written, not a part of the conversation.
    is_summary: bool,
    /// Whether anything has come of the reply.
    begins: bool,
    /// The tool uses begun in this reply, in order: the id that the provider gave and the one that
    /// the conversation has.
    begun: Vec<(ToolUseId, ToolUseId)>,
    /// Tool uses whose id the provider had given to another one of this reply before.
    repeated: Vec<Repeated>,
    /// Of those, the first ones, as long as each is complete and read-only: they may run already.
    early: Batch,
}

/// A tool use under an id that the provider had given before in the same reply.
struct Repeated {
    /// Its block.
    block: usize,
    /// The id that it has in the conversation, if it gets there.
    id: ToolUseId,
    /// The tool use that had the provider's id first.
    first: ToolUseId,
}

/// What is kept for the length of a turn.
#[derive(Default)]
struct Turn {
    /// Model calls made, retries not counted.
    steps: u32,
    /// Tool calls run.
    calls: u32,
    /// A call was not run since the turn had run as many as it may.
    refused_calls: bool,
    continuations: u32,
    pauses: u32,
    /// How often somebody objected to the end.
    objections: u32,
    /// A hook wants the turn to end, and why; what runs comes to its end before.
    stopped: Option<String>,
    /// What was said before the output cap or a pause cut it, if the answer must have a form.
    said: String,
    /// Answers that did not have their form.
    misfits: u32,
    escalated: bool,
    /// Requests in a row that met an overload.
    overloads: u32,
    /// The fallback model is asked.
    fell_back: bool,
    /// The conversation was summed up since the provider found a request too long, and no reply has
    /// come since.
    rescued: bool,
    /// When this one fires, the turn has taken as long as it may.
    deadline: Option<u64>,
    /// Requests that failed in a row.
    failures: u32,
    /// Replies in a row, other failures aside, that held neither text nor a tool use.
    empty_replies: u32,
    /// When the first of them was; `None` until one is that was told with a time.
    first_failure: Option<Duration>,
    repeats: Repeats,
}

impl fmt::Debug for Kernel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Kernel")
            .field("idle", &self.is_idle())
            .field("messages", &self.transcript.messages().len())
            .finish_non_exhaustive()
    }
}

impl Kernel {
    /// A kernel for a session with this past. If the past is not empty, tell it
    /// [`Input::Resumed`] first.
    #[must_use]
    pub fn new(settings: Settings, gate: Arc<dyn Gate>, transcript: Transcript) -> Self {
        let ledger = Ledger::default();
        ledger.charge(Amount {
            tokens: transcript.spent_tokens(),
            cost: transcript.spent(),
        });
        Self {
            counted_by: settings.model.clone(),
            settings,
            gate,
            transcript,
            ledger,
            counted: false,
            phase: Phase::Idle,
            queue: VecDeque::new(),
            turn: Turn::default(),
            interrupted: false,
            compaction: None,
            upkeep: Upkeep::default(),
            newest: Numbers::default(),
        }
    }

    /// The same, sharing a ledger: its limits hold for the sum of what all who share it spend.
    #[must_use]
    pub fn with_ledger(mut self, ledger: Ledger) -> Self {
        ledger.charge(Amount {
            tokens: self.transcript.spent_tokens(),
            cost: self.transcript.spent(),
        });
        self.ledger = ledger;
        self
    }

    /// What was spent: to be shared with others who spend for this session.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What the session has come to.
    #[must_use]
    pub const fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// What the session is run with.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether no turn is under way.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Whether notices wait, and [`Input::Wake`] should begin a turn with them. Not after an
    /// interrupt: whoever wanted it to end has the word, and the notices go with what they say.
    #[must_use]
    pub fn wants_wake(&self) -> bool {
        let mut queue = self.queue.iter();
        self.is_idle()
            && !self.interrupted
            && queue.any(|queued| queued.delivery == Delivery::Notice)
    }

    /// Takes an input in and says what is to be done.
    pub fn step(&mut self, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        let out = &mut effects;
        match input {
            Input::User { content, delivery } => self.hear(content, delivery, out),
            Input::Stream { call, event } => self.grow(call, event, out),
            Input::StreamFailed {
                call,
                error,
                now,
                chance,
            } => self.fail(call, error, Some(now), chance, out),
            Input::ToolFinished {
                run,
                content,
                is_error,
                fingerprint,
            } => self.tool_finished(run, content, is_error, fingerprint, out),
            Input::Consulted { consult, advice } => self.consulted(consult, advice, out),
            Input::Answered { ask, answer } => self.answered(ask, answer, out),
            Input::TimerFired { timer } => {
                if matches!(self.phase, Phase::Waiting { timer: current } if current == timer) {
                    self.call_again(Continue::Retry, out);
                } else if self.turn.deadline == Some(timer) {
                    self.deadline_passed(out);
                }
            }
            Input::Wake => {
                if self.is_idle() && self.say_notices(out) {
                    self.first_call(out);
                }
            }
            Input::Interrupt => self.interrupt(Interrupter::User, out),
            Input::Shutdown => self.interrupt(Interrupter::Shutdown, out),
            Input::HookStop { reason } => self.hook_stopped(reason, out),
            Input::StopJudged { stop, judgement } => self.stop_judged(stop, judgement, out),
            Input::Rewind { turn, past } => self.rewind(turn, past, out),
            Input::Compact { focus } => self.compact_now(focus, out),
            Input::CompactionPrepared {
                compaction,
                prepared,
            } => self.prepared(compaction, prepared, out),
            Input::Resumed => self.resumed(out),
            Input::Configure(settings) => self.configure(*settings),
        }
        effects
    }

    fn record(&mut self, entry: Entry, sync: Sync, out: &mut Vec<Effect>) {
        self.transcript.apply(&entry);
        out.push(Effect::Record { entry, sync });
    }

    fn say(&mut self, content: Vec<Content>, out: &mut Vec<Effect>) {
        self.record(Entry::message(Message::User(content)), Sync::Soon, out);
    }

    /// Keeps the count of a reply of which nothing else is kept.
    fn discard(&mut self, usage: Usage, out: &mut Vec<Effect>) {
        if !usage.is_empty() {
            self.record(Entry::Discarded { usage }, Sync::Soon, out);
        }
    }

    // ---- the user

    fn hear(&mut self, content: Vec<Content>, delivery: Delivery, out: &mut Vec<Effect>) {
        let content: Vec<_> = content
            .into_iter()
            .filter(|part| !part.is_blank())
            .collect();
        if content.is_empty() {
            return;
        }
        match (delivery, self.is_idle()) {
            // There is nothing that it could go with.
            (Delivery::Aside, true) => return,
            (Delivery::Notice, _) | (_, false) => {
                return self.queue.push_back(Queued { content, delivery });
            }
            (Delivery::Steer | Delivery::FollowUp, true) => {}
        }
        self.say_notices(out);
        self.say(content, out);
        self.first_call(out);
    }

    /// Says what was queued for the next call. Returns why the model is called if there was any.
    fn say_queued(&mut self, out: &mut Vec<Effect>) -> Option<Continue> {
        let reminded = self.say_all(Delivery::Aside, out);
        let noticed = (self.say_notices(out) || reminded).then_some(Continue::Reminder);
        let steered = self.say_all(Delivery::Steer, out);
        steered.then_some(Continue::Steered).or(noticed)
    }

    fn say_notices(&mut self, out: &mut Vec<Effect>) -> bool {
        self.say_all(Delivery::Notice, out)
    }

    /// What would have gone with results has nothing to go with.
    fn drop_asides(&mut self) {
        (self.queue).retain(|queued| queued.delivery != Delivery::Aside);
    }

    /// Says what was queued in this way. Returns whether there was any.
    fn say_all(&mut self, delivery: Delivery, out: &mut Vec<Effect>) -> bool {
        let queue = std::mem::take(&mut self.queue);
        let (said, rest): (VecDeque<_>, _) = queue
            .into_iter()
            .partition(|queued| queued.delivery == delivery);
        self.queue = rest;
        let any = !said.is_empty();
        for queued in said {
            self.say(queued.content, out);
        }
        any
    }

    fn rewind(&mut self, turn: usize, past: Option<Box<Transcript>>, out: &mut Vec<Effect>) {
        if !self.is_idle() || !(1..=self.transcript.turns().len()).contains(&turn) {
            return;
        }
        let keeps = self.transcript.reaches(turn);
        match past {
            Some(past) if !keeps && past.reaches(turn) => self.transcript = *past,
            Some(_) | None if keeps => {}
            Some(_) | None => return,
        }
        self.record(Entry::Rewound { turn }, Sync::Soon, out);
        if !keeps {
            self.transcript.forget_past();
        }
    }

    fn resumed(&mut self, out: &mut Vec<Effect>) {
        if !self.is_idle() {
            return;
        }
        let open = self.transcript.open_calls().iter();
        let unanswered: Vec<_> = open
            .filter(|call| call.result.is_none())
            .map(|call| {
                let words = if call.started {
                    "interrupted, outcome unknown: the harness ended while this call ran. It was \
                     not run again. Look at what is there before you repeat it."
                } else {
                    "interrupted: the harness ended before this call had an answer. If it has \
                     effects, it had not begun."
                };
                ToolResult::error(call.id.clone(), words)
            })
            .collect();
        let during = if self.transcript.open_calls().is_empty() {
            During::Model
        } else {
            During::Tools
        };
        for result in unanswered {
            self.record(Entry::CallFinished(result), Sync::Soon, out);
        }
        // The turn that the dead process was in has no end on record.
        let under_way = self.transcript.newest_end().is_none();
        if under_way && !self.transcript.messages().is_empty() {
            let end = TurnEnd::Interrupted {
                during,
                by: Interrupter::User,
            };
            self.record(Entry::TurnEnd(end), Sync::Soon, out);
        }
    }

    fn configure(&mut self, settings: Settings) {
        self.counted &=
            settings.system == self.settings.system && settings.tools == self.settings.tools;
        self.settings = settings;
    }

    fn end(&mut self, end: TurnEnd, out: &mut Vec<Effect>) {
        self.phase = Phase::Idle;
        self.compaction = None;
        if let Some(timer) = self.turn.deadline.take() {
            out.push(Effect::CancelTimer { timer });
        }
        self.record(Entry::TurnEnd(end.clone()), Sync::Soon, out);
        self.drop_asides();
        let (notices, unsent): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.queue)
            .into_iter()
            .partition(|queued| queued.delivery == Delivery::Notice);
        self.queue = notices;
        let unsent = unsent.into_iter().map(|queued| queued.content).collect();
        out.push(Effect::EndTurn { end, unsent });
    }
}
