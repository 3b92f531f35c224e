//! What is asked of a model.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::{Message, RawJson};

/// One request: everything that a model needs to write the next message.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The model's name as the provider knows it.
    pub model: String,
    /// The system prompt; empty for none.
    pub system: Arc<str>,
    /// The tools that the model may use, in the order in which they are told.
    pub tools: Arc<[ToolDefinition]>,
    /// Whether the model may, must or must not use them.
    pub tool_choice: ToolChoice,
    /// The conversation, oldest first. It begins with a user message and ends with a user message
    /// or with tool results.
    pub messages: Vec<Arc<HistoryMessage>>,
    /// The JSON schema that the provider is to hold the answer to, if it can.
    pub output_schema: Option<RawJson>,
    /// The most tokens to write; `None` leaves it to the provider, where its format allows that.
    pub max_output_tokens: Option<u64>,
}

/// Whether tools may be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// As the model sees fit.
    #[default]
    Auto,
    /// None, though they are told.
    None,
    /// At least one.
    Required,
}

/// What the model is told of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// Its name: `^[A-Za-z0-9_-]{1,64}$`.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The JSON schema of its input, an object schema.
    pub input_schema: RawJson,
}

/// A message of the history, which never changes any more, so that what a codec makes of it can be
/// kept beside it: nothing is serialised twice.
pub struct HistoryMessage {
    message: Message,
    wire: OnceLock<Wire>,
}

/// What a codec made of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wire {
    /// The codec, with whatever settings its output depends on.
    pub codec: &'static str,
    /// The bytes.
    pub bytes: Box<[u8]>,
}

impl HistoryMessage {
    /// Takes a message into the history.
    #[must_use]
    pub const fn new(message: Message) -> Self {
        Self {
            message,
            wire: OnceLock::new(),
        }
    }

    /// The message.
    #[must_use]
    pub const fn message(&self) -> &Message {
        &self.message
    }

    /// The bytes that `codec` makes of this message: made once, then kept. A second codec gets its
    /// bytes made anew at each call, since one conversation rarely speaks two formats.
    pub fn wire<R>(
        &self,
        codec: &'static str,
        encode: impl FnOnce(&Message) -> Box<[u8]>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> R {
        if let Some(wire) = self.wire.get()
            && wire.codec != codec
        {
            return read(&encode(&self.message));
        }
        let wire = self.wire.get_or_init(|| Wire {
            codec,
            bytes: encode(&self.message),
        });
        read(&wire.bytes)
    }
}

impl fmt::Debug for HistoryMessage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.message, formatter)
    }
}

impl PartialEq for HistoryMessage {
    fn eq(&self, other: &Self) -> bool {
        self.message == other.message
    }
}
