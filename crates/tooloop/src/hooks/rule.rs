//! Which command is run when.

use std::sync::Arc;
use std::time::Duration;

use super::{HookEvent, HookRunner, Matcher, MatcherError};

/// Which command is run when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookRule {
    /// When.
    pub event: HookEvent,
    /// What the event must be about, as [`Matcher::parse`] reads it; `None` for anything.
    pub matcher: Option<String>,
    /// What the shell is given.
    pub command: String,
    /// How long it may take.
    pub timeout: Duration,
    /// Where it is written, as `file:line`, for messages.
    pub source: String,
}

impl HookRule {
    /// How long a hook may take if nothing else is said.
    pub const TIMEOUT: Duration = Duration::from_secs(60);

    /// A command for every event of this kind, with the usual time.
    pub fn new(event: HookEvent, command: impl Into<String>) -> Self {
        Self {
            event,
            matcher: None,
            command: command.into(),
            timeout: Self::TIMEOUT,
            source: "the program".into(),
        }
    }

    /// The same for what this matches alone.
    #[must_use]
    pub fn matching(mut self, matcher: impl Into<String>) -> Self {
        self.matcher = Some(matcher.into());
        self
    }

    /// The matcher, read.
    ///
    /// # Errors
    /// If it is no pattern.
    pub fn parsed_matcher(&self) -> Result<Matcher, MatcherError> {
        Matcher::parse(self.matcher.as_deref().unwrap_or_default())
    }
}

/// The hooks of an agent, and who runs them.
#[derive(Debug, Clone)]
pub struct Hooks {
    /// Which commands are run when. Their order says which of two rewritten inputs is taken.
    pub rules: Vec<HookRule>,
    /// Who runs them.
    pub runner: Arc<dyn HookRunner>,
}
