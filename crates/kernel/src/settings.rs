//! What a session is run with.

use std::sync::Arc;

use tooloop_model::ToolDefinition;

use crate::RetryPolicy;

/// What a session is run with. May change between model calls ([`crate::Input::Configure`]).
#[derive(Debug, Clone)]
pub struct Settings {
    /// The model's name as the provider knows it.
    pub model: String,
    /// The system prompt; empty for none.
    pub system: Arc<str>,
    /// The tools told to the model.
    pub tools: Arc<[ToolDefinition]>,
    /// The default output cap in tokens; `None` leaves it to the provider.
    pub max_output_tokens: Option<u64>,
    /// The larger output cap that is tried once when the default cap cut a reply.
    pub escalated_output_tokens: Option<u64>,
    /// The most model calls in a turn, retries not counted; `None` for no limit.
    pub max_turns: Option<u32>,
    /// The most read-only calls that run at once.
    pub max_parallel_tools: usize,
    /// How failed model calls are tried again.
    pub retry: RetryPolicy,
    /// How often the same calls with the same outcome may come in a row before the model is
    /// reminded.
    pub remind_after_repeats: u32,
    /// How often before the turn ends.
    pub stop_after_repeats: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            model: String::new(),
            system: Arc::from(""),
            tools: Arc::from([]),
            max_output_tokens: None,
            escalated_output_tokens: None,
            max_turns: None,
            max_parallel_tools: 10,
            retry: RetryPolicy::default(),
            remind_after_repeats: 3,
            stop_after_repeats: 6,
        }
    }
}
