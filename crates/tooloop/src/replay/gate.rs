//! Judges calls as they were judged when the session was recorded.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tooloop_kernel::{Gate, Judgement, Verdict};
use tooloop_model::{ToolUse, ToolUseId};
use tooloop_policy::{AccessEffect, AskCause};

/// Judges calls as the record says they were judged. Calls that it does not know are asked about,
/// and nobody answers: nothing is made up.
#[derive(Debug, Default)]
pub(super) struct RecordedGate(Mutex<HashMap<ToolUseId, Judgement>>);

impl RecordedGate {
    pub(super) fn know(&self, judgements: HashMap<ToolUseId, Judgement>) {
        *self.lock() = judgements;
    }

    /// What is said of a call from now on.
    pub(super) fn learn(&self, id: ToolUseId, verdict: Verdict) {
        let effect = AccessEffect::Effectful;
        self.lock().insert(id, Judgement::new(verdict, effect));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ToolUseId, Judgement>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate for RecordedGate {
    fn judge(&self, tool_use: &ToolUse) -> Judgement {
        let known = self.lock().get(&tool_use.id).cloned();
        known.unwrap_or_else(asked)
    }
}

/// Somebody is asked.
pub(super) fn asked() -> Judgement {
    let verdict = Verdict::Ask {
        reason: "as it was when the session was recorded".into(),
        cause: AskCause::Uncovered,
    };
    Judgement::new(verdict, AccessEffect::Effectful)
}
