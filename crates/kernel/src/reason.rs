//! Why the loop ends, and why it goes on.
//!
//! Each iteration records exactly one of these. Both are matched exhaustively everywhere.

use serde::{Deserialize, Serialize};
use tooloop_model::{ModelError, Money};

/// Why a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnEnd {
    /// The model finished a message without a tool use, and nothing objects.
    Completed,
    /// The turn has made as many model calls as it may.
    MaxTurns {
        /// The limit.
        limit: u32,
    },
    /// The turn has run as many tools as it may.
    MaxToolCalls {
        /// The limit.
        limit: u32,
    },
    /// The next request could have cost more than is left.
    Budget(Budget),
    /// The turn has taken as long as it may.
    Deadline {
        /// The limit, in milliseconds.
        limit_ms: u64,
    },
    /// The conversation cannot be made to fit the model's window.
    ContextLimit {
        /// What the provider said.
        message: String,
    },
    /// The model call failed, and no retry mends it or none is left.
    ModelError {
        /// The last failure.
        error: ModelError,
        /// How many requests were made in vain.
        attempts: u32,
    },
    /// The reply was cut by the output cap, again and again.
    OutputLimit,
    /// The user or a signal.
    Interrupted {
        /// What was going on.
        during: During,
        /// Who or what interrupted it.
        #[serde(default, skip_serializing_if = "Interrupter::is_user")]
        by: Interrupter,
    },
    /// The model or its provider refused to answer.
    Refused,
    /// The same calls with the same outcome, again and again, after a reminder.
    LoopDetected {
        /// How often in a row.
        times: u32,
    },
    /// The answer was to have a form that it never had.
    StructuredOutputFailed {
        /// How many answers were judged.
        tries: u32,
        /// What was wrong with the last one.
        problem: String,
    },
    /// A hook asked for the end while the turn was under way.
    HookStopped {
        /// What it said.
        reason: String,
    },
    /// The model was done, and a hook that was told so asked for the end of it.
    StopHookPrevented {
        /// What it said.
        reason: String,
    },
}

/// Which budget is spent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    /// That of tokens, sent and written.
    Tokens {
        /// The limit.
        limit: u64,
        /// What was spent.
        spent: u64,
        /// What the next request could have come to.
        next: u64,
    },
    /// That of money.
    Cost {
        /// The limit.
        limit: Money,
        /// What was spent.
        spent: Money,
        /// What the next request could have come to.
        next: Money,
    },
    /// There is a limit on money, and nobody knows what this model costs.
    UnknownPrice {
        /// The model.
        model: String,
    },
}

/// Who or what interrupted a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interrupter {
    /// The user; also where the cause is not on record: in journals of earlier versions, and for a
    /// turn whose process died.
    #[default]
    User,
    /// The end of the program: a signal, or its terminal was closed.
    Shutdown,
}

impl Interrupter {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    fn is_user(&self) -> bool {
        *self == Self::User
    }

    /// Why a call did not run, and what interrupted one that ran.
    pub(crate) const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::User => ("the user interrupted", "by the user "),
            Self::Shutdown => (
                "the program was ended (by a signal, or its terminal was closed)",
                "by the end of the program (a signal, or its terminal was closed) ",
            ),
        }
    }
}

/// What an interrupt met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum During {
    /// A model call, or the wait before the next try.
    Model,
    /// Tools, or a question about one.
    Tools,
}

/// Why the model is called again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Continue {
    /// The results of its tool uses are ready.
    NextStep,
    /// The last call failed in a way that may pass.
    Retry,
    /// The reply was cut at the default output cap: the same once more with the larger one.
    EscalateOutput,
    /// The reply was cut by the output cap: what was said is kept, and it is asked to go on.
    ContinueOutput,
    /// The user said something while it worked.
    Steered,
    /// The user had said something for when it was done.
    FollowUp,
    /// The model was overloaded again and again: another one is asked for the rest of the turn.
    FallbackModel {
        /// The other one.
        model: String,
    },
    /// The conversation is summed up to make room: this call is for the summary.
    Compact,
    /// The provider paused a long reply.
    PauseTurn,
    /// The answer did not have the form that it was to have: it is told what is wrong.
    SchemaRetry,
    /// The model was done, and a hook that was told so had something to add.
    StopHookBlocked,
    /// Something was said that no user said: that it repeats itself, or what background work has
    /// to tell.
    Reminder,
}

impl Continue {
    /// Its name, as in a journal.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NextStep => "next_step",
            Self::Retry => "retry",
            Self::EscalateOutput => "escalate_output",
            Self::ContinueOutput => "continue_output",
            Self::Steered => "steered",
            Self::FollowUp => "follow_up",
            Self::FallbackModel { .. } => "fallback_model",
            Self::Compact => "compact",
            Self::PauseTurn => "pause_turn",
            Self::SchemaRetry => "schema_retry",
            Self::StopHookBlocked => "stop_hook_blocked",
            Self::Reminder => "reminder",
        }
    }
}

impl TurnEnd {
    /// Its short name, for records and traces. A limit has the name of what it limits.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::MaxTurns { .. } => "max_turns",
            Self::MaxToolCalls { .. } => "max_tool_calls",
            Self::Budget(Budget::Tokens { .. }) => "max_tokens",
            Self::Budget(Budget::Cost { .. } | Budget::UnknownPrice { .. }) => "max_budget_usd",
            Self::Deadline { .. } => "max_time",
            Self::StructuredOutputFailed { .. } => "structured_output_failed",
            Self::HookStopped { .. } => "hook_stopped",
            Self::StopHookPrevented { .. } => "stop_hook_prevented",
            Self::ContextLimit { .. } => "context_limit",
            Self::ModelError { .. } => "model_error",
            Self::OutputLimit => "output_limit",
            Self::Interrupted { .. } => "interrupted",
            Self::Refused => "refused",
            Self::LoopDetected { .. } => "loop_detected",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_their_names_of_the_journal() {
        for reason in [
            Continue::NextStep,
            Continue::Retry,
            Continue::EscalateOutput,
            Continue::ContinueOutput,
            Continue::Steered,
            Continue::FollowUp,
            Continue::FallbackModel { model: "m".into() },
            Continue::Compact,
            Continue::PauseTurn,
            Continue::SchemaRetry,
            Continue::StopHookBlocked,
            Continue::Reminder,
        ] {
            let written = serde_json::to_value(&reason).unwrap();
            let fields = written.as_object();
            let name = match fields.and_then(|fields| fields.keys().next()) {
                Some(name) => name,
                None => written.as_str().unwrap(),
            };
            assert_eq!(name, reason.name());
        }
    }
}
