//! What the driver does about instructions of folders that calls touch.

use std::path::PathBuf;
use std::sync::Arc;

use tooloop_kernel::{Delivery, Input, Judgement};
use tooloop_model::Content;
use tooloop_policy::Touch;

use super::Driver;
use crate::instructions::{FoundInstructions, NestedBlock, NestedInstructions};
use crate::{Event, Instructions};

/// The instructions that are told when something is touched.
#[derive(Default)]
pub(super) struct Nested {
    instructions: Option<Arc<NestedInstructions>>,
    /// What has been handed on in this turn and need not be in the history yet.
    on_the_way: Vec<Arc<NestedBlock>>,
    /// What goes to the kernel next.
    next: Vec<Arc<NestedBlock>>,
}

impl Nested {
    /// For a session that begins with these instructions.
    pub(super) fn new(instructions: Option<Instructions>) -> Self {
        Self {
            instructions: instructions.map(|known| Arc::new(NestedInstructions::new(known))),
            ..Self::default()
        }
    }
}

/// What a call is looked at for.
pub(super) struct Touched {
    instructions: Arc<NestedInstructions>,
    paths: Vec<PathBuf>,
}

impl Touched {
    /// What is to be told about what was touched.
    pub(super) async fn look(self) -> FoundInstructions {
        let Self {
            instructions,
            paths,
        } = self;
        if instructions.knows(&paths) {
            return instructions.of(&paths);
        }
        let look = tokio::task::spawn_blocking(move || instructions.of(&paths));
        // A fault in there is told on its own; the call does not depend on it.
        look.await.unwrap_or_default()
    }
}

impl Driver {
    /// The files that a call names; a command names none that could be relied on.
    pub(super) fn touched(&self, judgement: &Judgement) -> Option<Touched> {
        let instructions = self.nested.instructions.as_ref()?;
        let mut paths = Vec::new();
        for touch in &judgement.access.touches {
            match touch {
                Touch::Read(path) | Touch::Write(path) => paths.push(path.clone()),
                Touch::Command(_) | Touch::Input(_) => return None,
                Touch::Host(_) | Touch::Grant(_) => {}
            }
        }
        (!paths.is_empty()).then(|| Touched {
            instructions: Arc::clone(instructions),
            paths,
        })
    }

    /// Takes what was found: what the model does not know yet is told with the results.
    pub(super) fn found(&mut self, found: FoundInstructions) {
        for warning in found.warnings {
            self.events.send(&Event::Warning(warning));
        }
        for block in found.blocks {
            let nested = &mut self.nested;
            if !nested.on_the_way.contains(&block) && !block.is_told(self.kernel.transcript()) {
                nested.on_the_way.push(Arc::clone(&block));
                nested.next.push(block);
            }
        }
    }

    /// What is to be told next.
    pub(super) fn aside(&mut self) -> Option<Input> {
        let blocks = std::mem::take(&mut self.nested.next);
        let content: Vec<_> = blocks
            .iter()
            .map(|block| Content::reminder(&self.secrets.redact_known(&block.text)))
            .collect();
        (!content.is_empty()).then_some(Input::User {
            content,
            delivery: Delivery::Aside,
        })
    }

    /// What was on the way has arrived by now, or was dropped.
    pub(super) fn forget_asides(&mut self) {
        self.nested.on_the_way.clear();
        self.nested.next.clear();
    }
}
