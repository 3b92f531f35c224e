//! What a session lets run, as its users look at it and change it.

use std::sync::Arc;

use tooloop_model::ToolUse;
use tooloop_policy::{Access, Policy};

use crate::gate::{RegistryGate, change, read};
use crate::judged::JudgedCalls;
use crate::{Agent, Session};

impl Session {
    /// The rules and the mode that hold now, those that answers have added included.
    #[must_use]
    pub fn policy(&self) -> Policy {
        read(&self.gate.policy, Policy::clone)
    }

    /// Changes them, in force from the next call that is judged on. A question that waits goes on
    /// waiting.
    pub fn change_policy(&self, how: impl FnOnce(&mut Policy)) {
        change(&self.gate.policy, how);
    }

    /// What a call would touch, as its tool states it and where links lead.
    ///
    /// # Errors
    /// In words for the model, if there is no such tool or the input does not fit.
    pub fn access(&self, tool_use: &ToolUse) -> Result<Access, String> {
        self.gate.access(tool_use)
    }
}

impl Agent {
    /// The policy that a session begins with.
    #[must_use]
    pub fn policy(&self) -> Policy {
        read(&self.gate().policy, Policy::clone)
    }

    /// What a call would touch: see [`Session::access`].
    ///
    /// # Errors
    /// As there.
    pub fn access(&self, tool_use: &ToolUse) -> Result<Access, String> {
        self.gate().access(tool_use)
    }

    fn gate(&self) -> RegistryGate {
        let parts = self.parts_for_tools();
        RegistryGate {
            registry: parts.registry,
            policy: Arc::clone(&parts.policy),
            workspace: parts.workspace,
            border: parts.border,
            agent: None,
            only_reads: false,
            planning: parts.planning,
            judged: JudgedCalls::default(),
            secrets: parts.secrets,
        }
    }
}
