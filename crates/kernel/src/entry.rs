//! What lasts.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tooloop_model::{
    Content, HistoryMessage, JsonObject, Message, ModelError, Money, ToolResult, ToolUseId, Usage,
};

use crate::{Continue, TurnEnd};

/// One fact of a session. A session is the fold of its entries ([`crate::Transcript::apply`]);
/// nothing else is kept. Stores wrap entries in an envelope with id, parent and time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// The user or the model said something. Tool results are not said: they are the sum of the
    /// [`Entry::CallFinished`] of each call.
    #[serde(with = "message")]
    Message(Arc<HistoryMessage>),
    /// A call with effects is about to run. Durable before it does.
    CallStarted {
        /// The tool use.
        tool_use_id: ToolUseId,
    },
    /// A call is to be run with another input than the model wrote: a hook, or whoever was asked
    /// about it, has put this in its place. What the model wrote stays in its message.
    CallRewritten {
        /// The tool use.
        tool_use_id: ToolUseId,
        /// What it is run with, if it is.
        input: JsonObject,
    },
    /// A call has its answer, whether or not it ran.
    CallFinished(ToolResult),
    /// Somebody was asked about a call, or a rule refused it.
    Permission {
        /// The tool use.
        tool_use_id: ToolUseId,
        /// What came of it.
        #[serde(flatten)]
        permission: Permission,
    },
    /// A model call failed and is tried again.
    Retry {
        /// The number of the call that failed.
        call: u64,
        /// How many requests have failed in a row.
        attempt: u32,
        /// Why.
        error: ModelError,
        /// How long the wait is, in milliseconds.
        wait_ms: u64,
        /// Whether text of the failed reply had come already; it is void.
        voided: bool,
        /// What the provider refused. Later requests leave it out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        left_out: Option<LeftOut>,
    },
    /// A reply that is no part of the conversation was paid for all the same.
    Discarded {
        /// What it used, as far as the provider said.
        usage: Usage,
    },
    /// What the newest reply came to, or at most came to if it failed. Only where there is a limit
    /// on it or the price is known.
    Spent {
        /// Tokens, sent and written.
        tokens: u64,
        /// Money; `None` if the price is not known.
        #[serde(rename = "nano_usd", default, skip_serializing_if = "Option::is_none")]
        cost: Option<Money>,
    },
    /// The loop goes on.
    Continue(Continue),
    /// The turn is over.
    TurnEnd(TurnEnd),
    /// Results that the model has seen were cut short to make room: of each there is left its
    /// beginning and its end.
    Shortened {
        /// The tool uses.
        results: Vec<ToolUseId>,
        /// The tokens that the next request likely had.
        before: u64,
        /// The tokens that it likely has now.
        after: u64,
    },
    /// The oldest part of the conversation was summed up to make room. What it stands for stays in
    /// the journal.
    Compacted {
        /// How many of the oldest messages of the conversation are no part of it any more.
        cut: usize,
        /// What is said in their place.
        summary: String,
        /// What the user wants, word for word, where that is in what was cut.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        request: Vec<Content>,
        /// What tools carry over.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        carried: Vec<Content>,
        /// Why.
        trigger: CompactionTrigger,
        /// The tokens that the next request likely had.
        before: u64,
        /// The tokens that it likely has now.
        after: u64,
    },
    /// The conversation was taken back: what was said in this turn and after it is no part of it
    /// any more. What it cost stays.
    Rewound {
        /// The first turn that is gone, from 1 ([`crate::Transcript::turns`]).
        turn: usize,
    },
}

/// What later requests leave out because a provider refused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftOut {
    /// The reasoning of all replies.
    Thinking,
    /// The images and documents that came after the newest reply. A line of text stands for each.
    NewAttachments,
    /// Those that came before it.
    OldAttachments,
    /// All images and documents.
    Attachments,
}

/// Why a conversation is summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionTrigger {
    /// The next request would leave too little of the window.
    Auto,
    /// Somebody asked for it.
    Manual,
    /// The provider refused a request as too long.
    TooLong,
}

impl CompactionTrigger {
    /// Its name, as in a journal.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Manual => "manual",
            Self::TooLong => "too_long",
        }
    }
}

/// What came of asking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "decision")]
pub enum Permission {
    /// It may run.
    Allowed {
        /// The rule that was added for later calls.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
    },
    /// It may not.
    Denied {
        /// Why: reaches the model.
        reason: String,
        /// Whether the turn was to end with it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stops: bool,
    },
}

impl Entry {
    /// A message as an entry.
    #[must_use]
    pub fn message(message: Message) -> Self {
        Self::Message(Arc::new(HistoryMessage::new(message)))
    }
}

mod message {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tooloop_model::{HistoryMessage, Message};

    pub(super) fn serialize<S: Serializer>(
        message: &Arc<HistoryMessage>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        message.message().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<HistoryMessage>, D::Error> {
        Message::deserialize(deserializer).map(|message| Arc::new(HistoryMessage::new(message)))
    }
}
