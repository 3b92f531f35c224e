//! What a session is run with.

use std::collections::BTreeSet;
use std::sync::Arc;

use tooloop_model::{Price, RawJson, ToolDefinition, ToolUseId};

use crate::{CompactionTrigger, Limits, RetryPolicy};

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
    /// What else may be used up.
    pub limits: Limits,
    /// The model's window; `None` if that is not known.
    pub window: Option<u64>,
    /// Whether the conversation is summed up by itself when it fills the window.
    pub compaction: bool,
    /// How room is made next, whatever the window: it was decided elsewhere, and is on record.
    pub planned: Option<Planned>,
    /// What the model's tokens cost; `None` if that is not known.
    pub price: Option<Price>,
    /// Who is asked in its place for the rest of a turn in which it is overloaded again and again.
    pub fallback: Option<Fallback>,
    /// The form that the answer must have.
    pub output: Option<OutputForm>,
    /// The tool whose call, if it was answered without an error, is the model's last word: there is
    /// no further step.
    pub last_word: Option<String>,
    /// Whether somebody is to be told when the model is done, and may object.
    pub stop_hook: bool,
    /// Whose calls others have a say in.
    pub hooked: Hooked,
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

/// The tools in whose calls others have a say, or of whose calls they are told. None of them runs
/// before its message is complete: what was told cannot be taken back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hooked {
    /// These calls are told of before they are judged ([`crate::Effect::Consult`]).
    pub before: BTreeSet<String>,
    /// These are told of when they are over. The kernel has no part in that.
    pub after: BTreeSet<String>,
}

impl Hooked {
    /// Whether calls of this tool are told to anybody.
    #[must_use]
    pub fn holds(&self, tool: &str) -> bool {
        self.before.contains(tool) || self.after.contains(tool)
    }
}

/// Room that is to be made before the next request, as a record tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Planned {
    /// These results are cut short.
    Shorten {
        /// The tool uses.
        results: Vec<ToolUseId>,
        /// The tokens that were likely before.
        before: u64,
        /// And after.
        after: u64,
    },
    /// The oldest messages are summed up.
    Compact {
        /// Why.
        trigger: CompactionTrigger,
        /// How many, if it was done.
        cut: Option<usize>,
        /// The tokens that were likely before.
        before: u64,
        /// And after.
        after: u64,
    },
}

/// Another model.
#[derive(Debug, Clone, PartialEq)]
pub struct Fallback {
    /// Its name as the provider knows it.
    pub model: String,
    /// Its default output cap in tokens.
    pub max_output_tokens: Option<u64>,
    /// The larger one.
    pub escalated_output_tokens: Option<u64>,
    /// Its window in tokens.
    pub window: Option<u64>,
    /// What its tokens cost.
    pub price: Option<Price>,
}

/// The form that an answer must have.
#[derive(Debug, Clone)]
pub struct OutputForm {
    /// Judges an answer.
    pub check: Arc<dyn OutputCheck>,
    /// How the model is held to it.
    pub way: OutputWay,
    /// The most answers that are judged in a turn.
    pub tries: u32,
}

/// How a model is held to a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputWay {
    /// By its provider, who is told the JSON schema.
    Native(RawJson),
    /// By a tool, whose input is the answer: a call of it that succeeds ends the turn.
    Tool(String),
}

/// Judges answers. Pure.
pub trait OutputCheck: std::fmt::Debug + Send + Sync {
    /// The answer in this text, as JSON.
    ///
    /// # Errors
    /// What is wrong with it, for the model.
    fn check(&self, text: &str) -> Result<RawJson, String>;
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
            limits: Limits::default(),
            window: None,
            compaction: true,
            planned: None,
            price: None,
            fallback: None,
            output: None,
            last_word: None,
            stop_hook: false,
            hooked: Hooked::default(),
            max_parallel_tools: 10,
            retry: RetryPolicy::default(),
            remind_after_repeats: 3,
            stop_after_repeats: 6,
        }
    }
}
