//! Where what a tool would touch meets what is allowed.

use tooloop_model::ToolUse;
use tooloop_policy::{Access, AccessEffect, AskCause, Grant, Rule};

/// Judges tool uses. The runtime builds one from the registry and the policy.
pub trait Gate: Send + Sync {
    /// Judges one tool use against the present state of files, directory, rules and mode.
    ///
    /// The kernel asks when no earlier call of the message can change the answer any more, and
    /// once again when a question about the call has been answered.
    fn judge(&self, tool_use: &ToolUse) -> Judgement;
}

/// The one decision about a tool use. It travels with the call: the runtime runs the call with
/// these grants, and with nothing that it computes itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// Whether the call may run.
    pub verdict: Verdict,
    /// What the call would touch: resolved paths, command lines, hosts, and its effect. A read-only
    /// call may run beside others and before the message is complete, any other runs alone and in
    /// order.
    pub access: Access,
    /// What the call gets beyond the sandbox if it runs.
    pub grants: Vec<Grant>,
    /// The rules that the answer "always" adds. Empty if no question is asked, or if no rule would
    /// cover just this call.
    pub rules: Vec<Rule>,
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
    /// A judgement of a call that touches nothing by name and gets nothing beyond the sandbox.
    #[must_use]
    pub fn new(verdict: Verdict, effect: AccessEffect) -> Self {
        Self {
            verdict,
            access: Access {
                effect,
                ..Access::read_only()
            },
            grants: Vec::new(),
            rules: Vec::new(),
        }
    }

    /// There is nothing to run.
    #[must_use]
    pub fn invalid(message: String) -> Self {
        Self::new(Verdict::Invalid { message }, AccessEffect::Effectful)
    }

    /// It may run, alone.
    #[must_use]
    pub fn allow_effectful() -> Self {
        Self::new(Verdict::Allow, AccessEffect::Effectful)
    }

    /// It may run, beside others.
    #[must_use]
    pub fn allow_read_only() -> Self {
        Self::new(Verdict::Allow, AccessEffect::ReadOnly)
    }

    /// The strongest effect that the call can have.
    #[must_use]
    pub const fn effect(&self) -> AccessEffect {
        self.access.effect
    }

    /// Returns whether the call touches what it touched under the other judgement, with the same
    /// grants. Its directory and what is known of files may differ.
    pub(crate) fn reaches_the_same(&self, other: &Self) -> bool {
        self.access.effect == other.access.effect
            && self.access.touches == other.access.touches
            && self.grants == other.grants
    }

    /// Checks this judgement against the approved one. Returns why the approval
    /// does not hold for it, if it does not.
    pub(crate) fn why_not_approved(&self, approved: &Self) -> Option<Verdict> {
        match (&self.verdict, &approved.verdict) {
            (Verdict::Deny { .. } | Verdict::Invalid { .. }, _) => {
                return Some(self.verdict.clone());
            }
            (
                Verdict::Ask {
                    reason,
                    cause: AskCause::Rule,
                },
                Verdict::Allow
                | Verdict::Ask {
                    cause: AskCause::Uncovered | AskCause::Beyond,
                    ..
                },
            ) => {
                let reason = format!(
                    "{reason}: this was not so when the call was approved. If it is still needed, \
                     call again"
                );
                return Some(Verdict::Deny { reason });
            }
            (Verdict::Allow | Verdict::Ask { .. }, _) => {}
        }
        if self.access == approved.access && self.grants == approved.grants {
            return None;
        }
        let reason = "what this call touches has changed since it was approved: a file, a link or \
                      the directory. Look at what is there now; if the call is still right, make \
                      it again"
            .into();
        Some(Verdict::Deny { reason })
    }
}
