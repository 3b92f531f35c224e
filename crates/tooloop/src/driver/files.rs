//! What the driver does about the old contents of files.

use tooloop_kernel::Judgement;
use tooloop_model::ToolUse;

use super::Driver;
use crate::SessionError;
use crate::checkpoints::{Back, Checkpoint, FilesRewound, How, touched};

impl Driver {
    /// What keeps the old contents of what a call with effects changes.
    pub(super) fn checkpoint(
        &self,
        tool_use: &ToolUse,
        judgement: &Judgement,
    ) -> Option<Checkpoint> {
        let touched = touched(&judgement.access, &self.workspace)?;
        if let Some(kept) = self.assignment.as_ref().and_then(|work| work.kept.as_ref()) {
            return Some(kept.of_call(&tool_use.id, touched));
        }
        let checkpoints = self.checkpoints.as_ref()?;
        let turn = number(self.kernel.transcript().turns().len());
        Some(checkpoints.of_call(turn, &tool_use.id, touched))
    }

    /// The conversation ends before a turn now: what was read in it is not known any more.
    pub(super) fn taken_back(&mut self, turn: usize) {
        for (_, cancellation) in self.told.extract_if(.., |(of, _)| *of >= turn) {
            cancellation.cancel();
        }
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.cut(number(turn));
        }
    }

    /// Restores files, if no turn is under way.
    pub(super) async fn rewind_files(
        &mut self,
        back: Back,
        how: How,
    ) -> Result<FilesRewound, SessionError> {
        let turns = self.kernel.transcript().turns().len();
        if self.turn.is_some() {
            return Err(SessionError::Busy);
        }
        // Before the first turn that was cut off, too.
        let latest = number(turns.saturating_add(1));
        if let Back::Turn(turn) = back
            && !(1..=latest).contains(&turn)
        {
            let turn = usize::try_from(turn).unwrap_or(usize::MAX);
            return Err(SessionError::NoSuchTurn { turn, turns });
        }
        let Some(checkpoints) = &self.checkpoints else {
            return Err(SessionError::NoFiles);
        };
        let rewound = checkpoints.rewind(back, number(turns), how).await;
        rewound.map_err(SessionError::Files)
    }
}

/// The number of a turn.
fn number(turn: usize) -> u32 {
    u32::try_from(turn).unwrap_or(u32::MAX)
}
