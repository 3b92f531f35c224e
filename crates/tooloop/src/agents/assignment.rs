//! What a subagent's session knows of the one that it works for.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tooloop_model::ToolUseId;
use tooloop_session::SessionId;

use crate::checkpoints::Kept;
use crate::event::Broadcast;

/// What a subagent's session knows of the one that it works for.
#[derive(Debug)]
pub(crate) struct Assignment {
    /// The call that began it.
    pub(crate) tool_use_id: ToolUseId,
    /// What kind of agent it is.
    pub(crate) kind: Arc<str>,
    /// Who hears of what it does.
    pub(crate) events: Arc<Broadcast>,
    /// Its number among all of the tree.
    pub(crate) number: u64,
    /// The newest of these numbers.
    pub(crate) numbers: Arc<AtomicU64>,
    /// How many sessions are above it.
    pub(crate) depth: u32,
    /// Whether it may change nothing.
    pub(crate) only_reads: bool,
    /// The session at the top, as hooks are told it, and where that is recorded.
    pub(crate) top: (SessionId, Option<PathBuf>),
    /// Where what it changes is kept.
    pub(crate) kept: Option<Kept>,
}
