//! What a call is given.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tooloop_model::ToolUseId;

use crate::Background;

/// What a call is given.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The tool use that is being run.
    pub tool_use_id: ToolUseId,
    /// The workspace: relative paths mean paths in it.
    pub working_directory: PathBuf,
    /// Fires when the call is to end.
    pub cancellation: CancellationToken,
    /// Takes what a person may watch while the call runs.
    pub progress: Progress,
    /// Takes work that goes on after the call has answered.
    pub background: Background,
}

impl ToolContext {
    /// A context for a call outside of any session, as tests need it.
    #[must_use]
    pub fn new(working_directory: impl Into<PathBuf>) -> Self {
        Self {
            tool_use_id: ToolUseId("call".into()),
            working_directory: working_directory.into(),
            cancellation: CancellationToken::new(),
            progress: Progress::none(),
            background: Background::default(),
        }
    }
}

/// Where a call reports to while it runs. Reports may be dropped or merged, and never block.
#[derive(Clone)]
pub struct Progress(Option<Arc<Report>>);

type Report = dyn Fn(&str) + Send + Sync;

impl Progress {
    /// Nobody watches.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// Calls `report` with each text. It must be quick and must not block.
    pub fn to(report: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(report)))
    }

    /// Reports a text, such as the newest line of output.
    pub fn report(&self, text: &str) {
        if let Some(report) = &self.0 {
            report(text);
        }
    }

    /// Whether anybody watches: texts that cost something need not be made otherwise.
    #[must_use]
    pub const fn is_watched(&self) -> bool {
        self.0.is_some()
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Progress")
            .field(&self.0.is_some())
            .finish()
    }
}
