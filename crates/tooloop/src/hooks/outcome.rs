//! What comes of the command of a hook.

use std::fmt::Debug;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tooloop_model::ToolUseId;

use super::{HookEvent, HookRule};

/// Runs the commands of hooks.
pub trait HookRunner: Debug + Send + Sync {
    /// Runs the command of this rule with `input`, one line of JSON, on its standard input. It ends
    /// within [`HookRule::timeout`], and nothing of it is left when this is over or is dropped.
    fn run(&self, rule: &HookRule, input: Value) -> BoxFuture<'static, HookOutcome>;
}

/// What came of the command of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookOutcome {
    /// How it ended.
    pub end: HookEnd,
    /// What it printed on its standard output, as far as that was kept: decoded, otherwise as it was
    /// printed. [`HookNote`] has it without control characters.
    pub stdout: String,
    /// The same of its standard error.
    pub stderr: String,
    /// Whether more was printed than was kept of the standard output.
    pub is_cut: bool,
    /// How long it took.
    pub duration: Duration,
}

/// A hook that begins or has ended, for front ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookNote {
    /// Its number within the session: the same when it begins and when it has ended.
    pub hook: u64,
    /// What it is told of.
    pub event: HookEvent,
    /// The call that this is about, if it is about one.
    pub tool_use_id: Option<ToolUseId>,
    /// Its command.
    pub command: String,
    /// Where it is written.
    pub source: String,
    /// What came of it; `None` when it begins.
    pub outcome: Option<HookOutcome>,
}

/// How the command of a hook ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookEnd {
    /// It exited with this status.
    Exited(i32),
    /// It took longer than it may, and was ended with all its processes.
    TimedOut,
    /// It was not run, or not to its end.
    Failed {
        /// Why, in words.
        reason: String,
    },
}

impl HookOutcome {
    /// It exited with a status, at once.
    pub fn exited(status: i32, stdout: impl Into<String>, stderr: impl Into<String>) -> Self {
        Self {
            end: HookEnd::Exited(status),
            stdout: stdout.into(),
            stderr: stderr.into(),
            is_cut: false,
            duration: Duration::ZERO,
        }
    }
}
