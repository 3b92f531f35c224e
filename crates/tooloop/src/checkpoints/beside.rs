//! Calls of subagents, which run beside others: what they change belongs to the turn of the session
//! that they work for.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tooloop_model::ToolUseId;

use super::keeper::Keeper;
use super::manifest::Found;
use super::tree::Quit;
use super::{Checkpoint, Checkpoints, Shared, Touched};

/// Where what subagents change is kept: with what the session itself changes.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) checkpoints: Checkpoints,
    /// The newest turn of the session.
    pub(crate) turn: Arc<AtomicU32>,
}

impl Kept {
    /// What keeps the old contents of what a call of a subagent changes.
    pub(crate) fn of_call(&self, call: &ToolUseId, touched: Touched) -> Checkpoint {
        let beside = Beside::new(&self.checkpoints.0, &touched);
        Checkpoint {
            beside: Some(beside),
            ..self
                .checkpoints
                .of_call(self.turn.load(Ordering::Relaxed), call, touched)
        }
    }
}

/// One such call.
#[derive(Debug)]
pub(super) struct Beside {
    found: Findings,
    shared: Arc<Shared>,
    /// Whether it counts among those of which nobody can tell what they change.
    counts: bool,
}

/// What was there before a call.
#[derive(Debug, Clone, Default)]
pub(super) struct Findings(Arc<Mutex<Vec<Found>>>);

impl Findings {
    pub(super) fn set(&self, files: Vec<Found>) {
        *self.lock() = files;
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Found>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Beside {
    fn new(shared: &Arc<Shared>, touched: &Touched) -> Self {
        let counts = *touched == Touched::Anything;
        if counts {
            shared.beside.fetch_add(1, Ordering::AcqRel);
        }
        Self {
            found: Findings::default(),
            shared: Arc::clone(shared),
            counts,
        }
    }

    pub(super) fn found(&self) -> Findings {
        self.found.clone()
    }

    /// The call has run.
    pub(super) fn after(self, keeper: &mut Keeper, turn: u32, quit: Quit<'_>) {
        let found = std::mem::take(&mut *self.found.lock());
        let others = self.shared.beside.load(Ordering::Acquire) > u32::from(self.counts);
        keeper.after_beside(turn, found, others, quit);
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if self.counts {
            self.shared.beside.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
