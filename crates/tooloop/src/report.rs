//! What a turn came to.

use std::time::Duration;

use tooloop_kernel::TurnEnd;
use tooloop_model::{Content, RawJson, ToolUseId, Usage};
use tooloop_policy::AskCause;

/// What a turn came to.
#[derive(Debug, Clone)]
pub struct TurnReport {
    /// Why it ended.
    pub end: TurnEnd,
    /// What the model said last; empty if it said nothing after its last tool use.
    pub text: String,
    /// The answer, if it was to have a form and has it.
    pub structured_output: Option<RawJson>,
    /// Model calls made, retries not counted.
    pub steps: u32,
    /// What all its model calls used, failed ones included as far as the provider told.
    pub usage: Usage,
    /// The same for each model that was asked.
    pub model_usage: Vec<(String, Usage)>,
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

impl TurnReport {
    /// Adds what the turns before this one used and what they were refused.
    pub fn add_earlier(&mut self, earlier: Self) {
        self.steps = self.steps.saturating_add(earlier.steps);
        self.usage.add(earlier.usage);
        for (model, usage) in earlier.model_usage {
            let mut known = self.model_usage.iter_mut();
            match known.find(|(name, _)| *name == model) {
                Some((_, used)) => used.add(usage),
                None => self.model_usage.push((model, usage)),
            }
        }
        self.cost_usd = match (self.cost_usd, earlier.cost_usd) {
            (Some(cost), Some(before)) => Some(cost + before),
            (None, _) | (_, None) => None,
        };
        self.duration = self.duration.saturating_add(earlier.duration);
        self.model_duration = self.model_duration.saturating_add(earlier.model_duration);
        self.denials.splice(0..0, earlier.denials);
        self.unsent.splice(0..0, earlier.unsent);
    }

    /// The answer as text: in its form if it has one, else what the model said last.
    #[must_use]
    pub fn answer(&self) -> &str {
        self.structured_output
            .as_ref()
            .map_or(&self.text, |answer| answer.get())
    }
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
    /// Who said so.
    pub by: DeniedBy,
    /// Why somebody was to be asked; `None` if nobody was, or if it was not the policy that asked.
    pub cause: Option<AskCause>,
}

/// Who has said no to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeniedBy {
    /// A rule, or the mode.
    Policy,
    /// Whoever was asked.
    Answer,
    /// There was nobody to ask.
    Nobody,
    /// A hook, before the call was judged or in the place of whoever was asked.
    Hook,
}
