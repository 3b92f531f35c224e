//! What people and earlier sessions have written down for a run: skills, commands and notes.
//!
//! Where it lies is said here; what is done with it is the library's.

mod calls;
mod notes;
mod places;

use std::path::Path;
use std::sync::Arc;

use tooloop::PromptSection;
use tooloop::tools::{MemoryStore, SkillSet};

use crate::settings::Settings;
use crate::setup::environment;
use crate::text;
use crate::toolset::Builtin;

pub(crate) use calls::{Called, Calls};
pub(crate) use notes::{list, run, store, take_over_notes};
use places::Places;

/// What there is for a run.
pub(crate) struct Knowledge {
    pub(crate) skills: Arc<SkillSet>,
    pub(crate) memory: Option<MemoryStore>,
    pub(crate) calls: Calls,
    pub(crate) warnings: Vec<String>,
    /// What of it the model is told from the beginning.
    pub(crate) sections: Vec<PromptSection>,
}

/// The least tokens that the list of skills may have, however small the window is.
const LEAST_TOKENS: u64 = 250;

/// Finds what there is; nothing with `bare`.
pub(crate) fn gather(bare: bool, workspace: &Path, settings: &Settings, window: u64) -> Knowledge {
    let mut knowledge = Knowledge {
        skills: Arc::default(),
        memory: None,
        calls: Calls::default(),
        warnings: Vec::new(),
        sections: Vec::new(),
    };
    if bare {
        return knowledge;
    }
    let places = Places::of(workspace, &environment);
    let skills = Arc::new(SkillSet::discover(&places.skills));
    knowledge
        .warnings
        .extend(skills.warnings().iter().map(|words| text::one_line(words)));
    if settings.tools.has(Builtin::Skill) {
        // One percent of the window, at three and a half bytes a token.
        let tokens = (window / 100).max(LEAST_TOKENS);
        let bytes = usize::try_from(tokens.saturating_mul(7) / 2).unwrap_or(usize::MAX);
        if let Some(catalogue) = skills.catalogue(bytes) {
            if catalogue.left_out > 0 {
                knowledge.warnings.push(format!(
                    "the list of skills has no room for {} of them: the model can still call them by name",
                    catalogue.left_out
                ));
            }
            knowledge
                .sections
                .push(PromptSection::new("skills", catalogue.text));
        }
    }
    knowledge.calls = Calls::new(Arc::clone(&skills), places.commands);
    knowledge.skills = skills;
    if settings.memory && settings.tools.has(Builtin::Memory) {
        knowledge.remember(workspace);
    }
    knowledge
}

impl Knowledge {
    fn remember(&mut self, workspace: &Path) {
        let Some(store) = store(workspace) else {
            return;
        };
        match store.index() {
            Ok(Some(index)) => {
                if index.left_out > 0 {
                    self.warnings.push(format!(
                        "{}: {} lines of the index are not shown to the model: shorten it",
                        store.folder().join("MEMORY.md").display(),
                        index.left_out
                    ));
                }
                let text = format!(
                    "# Memory\nNotes from earlier sessions on this project; the tool `memory` has them whole. \
                     They may be out of date.\n{}",
                    index.text
                );
                self.sections.push(PromptSection::new("memory", text));
            }
            Ok(None) => {}
            Err(error) => self.warnings.push(format!("no memory: {error}")),
        }
        self.memory = Some(store);
    }
}
