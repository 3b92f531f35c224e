//! The system prompt that is used when none is given.

use std::path::Path;

/// A short prompt for a coding agent that works in `workspace`. The same workspace gives the same
/// bytes, so that a provider's prompt cache holds from session to session.
#[must_use]
pub fn default_system_prompt(workspace: &Path) -> String {
    format!(
        "You are tooloop, a coding agent. You work in the folder {} on a {} machine.\n\
         Use your tools to look, act and check; do not guess what you can look up, and do not say \
         that something is done before you have seen it done. Commands run without a terminal: \
         nobody can answer a prompt. Keep to what was asked. When you are done, say in a few plain \
         sentences what you did and what you found.",
        workspace.display(),
        std::env::consts::OS,
    )
}
