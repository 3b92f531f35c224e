//! Where what a tool would touch meets what is allowed.

use tooloop_model::ToolUse;
use tooloop_policy::{AccessEffect, AskCause};

/// Judges tool uses. The runtime builds one from the registry and the policy. Pure: it may be
/// asked more than once about a call, and the answer may change when rules are added.
pub trait Gate: Send + Sync {
    /// Judges one tool use.
    fn judge(&self, tool_use: &ToolUse) -> Judgement;
}

/// What the gate says of a tool use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// Whether it may run.
    pub verdict: Verdict,
    /// What it would do: a read-only call may run beside others and before the message is
    /// complete, any other runs alone and in order.
    pub effect: AccessEffect,
}

/// Whether a call may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Allow,
    /// Somebody is to be asked.
    Ask {
        /// Why, for the one who is asked.
        reason: String,
        /// What made it a question: a rule is stronger than the advice of a hook.
        cause: AskCause,
    },
    /// It may not.
    Deny {
        /// Why, for the model.
        reason: String,
    },
    /// There is nothing to run: no such tool, or the input does not fit.
    Invalid {
        /// What is wrong, for the model.
        message: String,
    },
}

impl Judgement {
    /// It may run, alone.
    #[must_use]
    pub const fn allow_effectful() -> Self {
        Self {
            verdict: Verdict::Allow,
            effect: AccessEffect::Effectful,
        }
    }

    /// It may run, beside others.
    #[must_use]
    pub const fn allow_read_only() -> Self {
        Self {
            verdict: Verdict::Allow,
            effect: AccessEffect::ReadOnly,
        }
    }
}
