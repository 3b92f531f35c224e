//! The policy: rules by layer of strength, and a mode for what no rule speaks about.

use crate::{Access, AccessEffect, Decision, Mode, Rule, Touch};

/// Rules and mode; judges an access and never runs anything.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Policy {
    /// What happens to calls that no rule speaks about.
    pub mode: Mode,
    /// What may never run, whatever else is said.
    pub deny: Vec<Rule>,
    /// What is asked about, even if it is allowed too.
    pub ask: Vec<Rule>,
    /// What runs without a question.
    pub allow: Vec<Rule>,
}

impl Policy {
    /// Decides about one call of `tool`.
    #[must_use]
    pub fn decide(&self, tool: &str, access: &Access) -> Decision {
        let named = |rules: &[Rule]| rules.iter().any(|rule| rule.names(tool));
        if named(&self.deny) {
            return Decision::Deny {
                reason: format!("`{tool}` is denied by a rule"),
            };
        }
        if access.effect == AccessEffect::ReadOnly || self.mode == Mode::BypassPermissions {
            return Decision::Allow;
        }
        Decision::Ask {
            reason: format!("`{tool}` is not covered by an allow rule"),
        }
    }

    /// Gives the rule that "always allow" would save for this very call, never a wider one.
    #[must_use]
    pub fn allow_always_rule(&self, tool: &str, access: &Access) -> Option<Rule> {
        match access.touches.first() {
            Some(Touch::Command(line)) => Rule::new(tool, Some(line)).ok(),
            Some(Touch::Read(_) | Touch::Write(_) | Touch::Host(_)) | None => None,
        }
    }
}
