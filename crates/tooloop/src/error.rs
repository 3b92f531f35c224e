//! What can go wrong with an agent or a session, beside the turn itself.

use tooloop_session::StoreError;
use tooloop_tool::RegistryError;

/// Why an agent cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// [`crate::AgentBuilder::provider`] was not called.
    #[error("an agent needs a provider")]
    NoProvider,
    /// A tool cannot be taken in.
    #[error(transparent)]
    Tool(#[from] RegistryError),
    /// The matcher of a hook is no pattern.
    #[error("hook {rule}: {source}")]
    Hook {
        /// Where the hook is written.
        rule: String,
        /// What is wrong.
        source: crate::hooks::MatcherError,
    },
    /// The workspace is not there.
    #[error("the workspace {path} cannot be used: {source}")]
    Workspace {
        /// The folder.
        path: String,
        /// Why not.
        source: std::io::Error,
    },
}

/// Why a session cannot do what it is asked. How a turn ended is not an error: see
/// [`crate::TurnReport::end`].
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The prompt says nothing.
    #[error("the prompt is blank")]
    BlankPrompt,
    /// A turn is under way: steer it, queue a follow-up or interrupt it.
    #[error("a turn is under way")]
    Busy,
    /// There is no such turn to go back to.
    #[error("there is no turn {turn}: the conversation has {turns}")]
    NoSuchTurn {
        /// What was asked for.
        turn: usize,
        /// How many there are.
        turns: usize,
    },
    /// The conversation was not summed up; it is as it was.
    #[error("the conversation was not summed up: {0}")]
    NotCompacted(String),
    /// The old contents of files are not kept in this session.
    #[error(
        "the old contents of files are not kept in this session: that takes a journal and the \
         setting checkpoints = true"
    )]
    NoFiles,
    /// What a rewind of files would change could not be recorded. Nothing was changed.
    #[error("files are left as they are: what a rewind changes cannot be recorded: {0}")]
    Files(std::io::Error),
    /// The session was closed, or its journal failed.
    #[error("the session is closed")]
    Closed,
    /// The journal cannot be read or written. Nothing was done that is not on record.
    #[error(transparent)]
    Journal(#[from] StoreError),
}
