//! What comes in.

use std::time::Duration;

use tooloop_model::{Content, JsonObject, ModelError, StreamEvent};

use crate::{Settings, Transcript};

/// What the kernel is told. An input that names a call, run, question or timer that is not under
/// way (any more) changes nothing.
#[derive(Debug, Clone)]
pub enum Input {
    /// The user says something. It starts a turn if none is under way; else it is queued.
    User {
        /// What.
        content: Vec<Content>,
        /// When it is to reach the model if a turn is under way.
        delivery: Delivery,
    },
    /// A model call's stream has yielded an event.
    Stream {
        /// The call.
        call: u64,
        /// The event.
        event: StreamEvent,
    },
    /// A model call has failed, or its stream has ended without its end.
    StreamFailed {
        /// The call.
        call: u64,
        /// Why.
        error: ModelError,
        /// The time since any fixed moment, on a clock that never goes back.
        now: Duration,
        /// A random number: spreads the retries of many.
        chance: u16,
    },
    /// A tool has answered.
    ToolFinished {
        /// The run.
        run: u64,
        /// What the model is told.
        content: Vec<Content>,
        /// Whether it failed.
        is_error: bool,
        /// What makes two outcomes the same; `None` if that is the content.
        fingerprint: Option<String>,
    },
    /// Those who have a say in a call have said it.
    Consulted {
        /// The question.
        consult: u64,
        /// What they said.
        advice: Advice,
    },
    /// A question is answered.
    Answered {
        /// The question.
        ask: u64,
        /// The answer.
        answer: Answer,
    },
    /// A timer has run out.
    TimerFired {
        /// The timer.
        timer: u64,
    },
    /// The conversation is to be summed up now. Nothing happens while a turn is under way.
    Compact {
        /// What the summary is to look at most closely.
        focus: Option<String>,
    },
    /// What a summary needs is there.
    CompactionPrepared {
        /// The number.
        compaction: u64,
        /// What it comes to.
        prepared: Prepared,
    },
    /// If no turn is under way and notices wait, one begins with them.
    Wake,
    /// The user wants the turn to end now.
    Interrupt,
    /// The program ends, and the turn with it.
    Shutdown,
    /// The conversation is to be taken back to before this turn, counted from 1. Nothing happens
    /// while a turn is under way, or if there is no such turn.
    Rewind {
        /// The first turn that is to go.
        turn: usize,
        /// What the session has come to, with what was summed up kept
        /// ([`Transcript::keep_past`]): needed if the turn has begun in that
        /// ([`Transcript::reaches`]).
        past: Option<Box<Transcript>>,
    },
    /// A hook wants the turn to end. What runs comes to its end; nothing else begins.
    HookStop {
        /// Why, for a person.
        reason: String,
    },
    /// Who was told that the model is done has judged it.
    StopJudged {
        /// The question.
        stop: u64,
        /// The judgement.
        judgement: StopJudgement,
    },
    /// The session was read back: what a dead process left open is closed.
    Resumed,
    /// Other settings, in force from the next model call on.
    Configure(Box<Settings>),
}

/// What a summary needs of the world.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prepared {
    /// What whoever writes the summary is told beside what is always asked of it.
    pub instructions: Vec<String>,
    /// What tools carry over, as it is to be said.
    pub carried: Vec<Content>,
    /// Why there is to be no summary, if somebody objects.
    pub refused: Option<String>,
}

/// What is to come of it that the model is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopJudgement {
    /// It is.
    Done,
    /// It is not: this is said to it, and it goes on. At most eight times in a turn; then it is done
    /// all the same.
    GoOn {
        /// What is said.
        reason: String,
    },
    /// It is, and nothing else that was queued begins.
    End {
        /// Why, for a person.
        reason: String,
    },
}

/// When queued text reaches the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// With the results of the calls that run now.
    Steer,
    /// When the model would stop.
    FollowUp,
    /// As soon as may be in a turn, before the next model call or when the model would stop.
    /// Nobody said it: it is what background work has to tell. It begins no turn, and is not given
    /// back when one ends, but waits for the next one or for [`Input::Wake`].
    Notice,
    /// With the results of the calls that run now, if the model is called with them; dropped if the
    /// turn ends first, or if the model is done. Nobody said it: it reminds the model of something,
    /// and is worth no step of its own.
    Aside,
}

/// What is said about a call before it is judged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Advice {
    /// Whether it may run; `None` leaves that to the gate.
    pub verdict: Option<AdvisedVerdict>,
    /// What it is to be run with in place of what the model wrote.
    pub input: Option<JsonObject>,
    /// What the model is told with the call's result.
    pub context: Vec<String>,
    /// The turn is to end, and why, for a person.
    pub stop: Option<String>,
}

/// Whether a call may run, in the eyes of those who have a say in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdvisedVerdict {
    /// It may. Spares the question that is asked because nothing covers the call; a rule that
    /// refuses or asks is stronger.
    Allow,
    /// Somebody is to be asked, even if a rule allows it.
    Ask {
        /// Why, for the one who is asked.
        reason: String,
    },
    /// It may not.
    Deny {
        /// Why: reaches the model.
        reason: String,
    },
}

/// What the one who was asked says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It may run.
    Allow {
        /// The rule that was added for later calls.
        rule: Option<String>,
        /// What it is to be run with in place of what was asked about.
        input: Option<JsonObject>,
    },
    /// It may not.
    Deny {
        /// Why: reaches the model.
        reason: String,
        /// Whether the turn ends with it.
        stops: bool,
    },
}
