//! What a call is given.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tooloop_model::ToolUseId;
use tooloop_policy::Grant;

use crate::Background;

/// What a call is given.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The tool use that is being run.
    pub tool_use_id: ToolUseId,
    /// The workspace: relative paths mean paths in it.
    pub working_directory: PathBuf,
    /// Fires when the call is to end. For a read-only call it fires after its end too if its result
    /// is thrown away, since the message that asked for it came to nothing, or if the conversation is
    /// taken back to before it: who keeps what was read asks it then.
    pub cancellation: CancellationToken,
    /// Takes what a person may watch while the call runs.
    pub progress: Progress,
    /// Takes work that goes on after the call has answered.
    pub background: Background,
    /// What a call that walks folders must leave out although it was let in.
    pub withheld: Withheld,
    /// Where the paths that the call names led when it was judged: only these places are opened.
    pub judged: JudgedPaths,
    /// What the call was given beyond the sandbox, asked for by itself or foreseen. It was allowed
    /// with that.
    pub grants: Vec<Grant>,
    /// Nothing is to be written outside of the folder for what does not last: the call was let in
    /// since it changes nothing.
    pub is_read_only: bool,
    /// How many characters of a result the model is shown. Longer results are cut: a tool that can
    /// show less, and say how to see the rest, does so.
    pub room: usize,
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
            withheld: Withheld::nothing(),
            judged: JudgedPaths::unchecked(),
            grants: Vec::new(),
            is_read_only: false,
            room: usize::MAX,
        }
    }

    /// How many characters a tool may fill that has at most `most` of its own, so that up to
    /// `around` characters of words about them find room too.
    #[must_use]
    pub fn room_for(&self, most: usize, around: usize) -> usize {
        most.min(self.room.saturating_sub(around).max(self.room / 2))
    }
}

/// Files that must be left out where a call meets them, since a rule denies them or asks about them.
/// What a call names itself has been judged before.
#[derive(Clone)]
pub struct Withheld(Option<Arc<Test>>);

type Test = dyn Fn(&Path) -> bool + Send + Sync;

impl Withheld {
    /// Nothing is left out.
    #[must_use]
    pub const fn nothing() -> Self {
        Self(None)
    }

    /// What `test` says of an absolute path without links is left out, with all below it.
    pub fn by(test: impl Fn(&Path) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(test)))
    }

    /// Whether a file, or a folder with all in it, is to be left out.
    #[must_use]
    pub fn holds(&self, path: &Path) -> bool {
        self.0.as_ref().is_some_and(|test| test(path))
    }
}

impl fmt::Debug for Withheld {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Withheld")
            .field(&self.0.is_some())
            .finish()
    }
}

/// Where the paths of a call led when the policy judged it.
///
/// Links can change between the judgement and the moment at which a tool opens a path. A tool must
/// open the place that was judged, by a way that follows no link, and fail if that is not possible.
#[derive(Debug, Clone, Default)]
pub struct JudgedPaths(Option<Arc<[JudgedPath]>>);

/// A path of a call, and where it led.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedPath {
    /// The path as the call names it, joined to the workspace.
    pub given: PathBuf,
    /// The same with the links of its directory resolved; the last part may be a link.
    pub entry: PathBuf,
    /// Where it leads, all links resolved.
    pub real: PathBuf,
    /// Whether it may be written, and not only read.
    pub may_write: bool,
}

impl JudgedPaths {
    /// No call was judged: a tool resolves paths itself.
    #[must_use]
    pub const fn unchecked() -> Self {
        Self(None)
    }

    /// These paths and no others.
    #[must_use]
    pub fn new(paths: Vec<JudgedPath>) -> Self {
        Self(Some(paths.into()))
    }

    /// Looks up a path that a call names, joined to the workspace. `Ok(None)`: nothing was judged.
    ///
    /// # Errors
    /// [`NotJudged`] if the call was judged without this path.
    pub fn get(&self, given: &Path) -> Result<Option<&JudgedPath>, NotJudged> {
        let Some(paths) = &self.0 else {
            return Ok(None);
        };
        let found = paths.iter().find(|path| path.given == given);
        found.map(Some).ok_or(NotJudged)
    }
}

/// A path was not among those that a call was judged with, or led to another place each time that
/// the call was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it does not lead where it led when the call was judged; call again")]
pub struct NotJudged;

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
