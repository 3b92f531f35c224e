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
    /// The session was closed, or its journal failed.
    #[error("the session is closed")]
    Closed,
    /// The journal cannot be read or written. Nothing was done that is not on record.
    #[error(transparent)]
    Journal(#[from] StoreError),
}
