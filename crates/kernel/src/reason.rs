//! Why the loop ends, and why it goes on.
//!
//! Each iteration records exactly one of these. Both are matched exhaustively everywhere.

use serde::{Deserialize, Serialize};
use tooloop_model::ModelError;

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
    },
    /// The model or its provider refused to answer.
    Refused,
    /// The same calls with the same outcome, again and again, after a reminder.
    LoopDetected {
        /// How often in a row.
        times: u32,
    },
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
    /// Something was said that no user said: that it repeats itself, or what background work has
    /// to tell.
    Reminder,
}
