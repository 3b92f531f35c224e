//! What a turn came to.

use std::time::Duration;

use tooloop_kernel::TurnEnd;
use tooloop_model::{Content, ToolUseId, Usage};

/// What a turn came to.
#[derive(Debug, Clone)]
pub struct TurnReport {
    /// Why it ended.
    pub end: TurnEnd,
    /// What the model said last; empty if it said nothing after its last tool use.
    pub text: String,
    /// Model calls made, retries not counted.
    pub steps: u32,
    /// What all its model calls used, failed ones included as far as the provider told.
    pub usage: Usage,
    /// What that costs in US dollars; `None` if a price is not known.
    pub cost_usd: Option<f64>,
    /// How long it took.
    pub duration: Duration,
    /// How much of that was spent waiting for the model.
    pub model_duration: Duration,
    /// The calls that were not allowed.
    pub denials: Vec<Denial>,
    /// What the user said meanwhile that has not reached the model.
    pub unsent: Vec<Vec<Content>>,
    /// The background work that goes on. It ends with the session.
    pub background: Vec<String>,
}

/// A call that was not allowed.
#[derive(Debug, Clone, PartialEq)]
pub struct Denial {
    /// The call.
    pub tool_use_id: ToolUseId,
    /// The tool.
    pub tool: String,
    /// What it was to be run with, as JSON text.
    pub input: String,
    /// Why not.
    pub reason: String,
}
