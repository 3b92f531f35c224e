//! Messages and what they are made of.
//!
//! There is no system role: the system prompt is a field of [`crate::Request`]. What a user or a
//! tool may say ([`Content`]) is a smaller set than what a model may say ([`ContentBlock`]), so a
//! thinking block in a user message cannot be written.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{InvalidJson, JsonObject, RawJson, Usage};

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// What the user, or the harness in the user's place, says.
    User(Vec<Content>),
    /// What the model says.
    Assistant(AssistantMessage),
    /// The answers to every tool use of the assistant message before, in its order.
    ToolResults(Vec<ToolResult>),
}

impl Message {
    /// A user message of one text.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::User(vec![Content::Text(text.into())])
    }
}

/// What the model said in one reply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// The blocks, in the order in which they came.
    pub content: Vec<ContentBlock>,
    /// Why the model stopped; `None` if it was interrupted. Information only: the loop goes on if
    /// and only if there is a tool use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// What the reply cost.
    #[serde(default, skip_serializing_if = "Usage::is_empty")]
    pub usage: Usage,
    /// The model's name as the provider gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The provider's id of the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

impl AssistantMessage {
    /// The tool uses, in order.
    pub fn tool_uses(&self) -> impl Iterator<Item = &ToolUse> {
        self.content.iter().filter_map(|block| match block {
            ContentBlock::ToolUse(tool_use) => Some(tool_use),
            ContentBlock::Text { .. }
            | ContentBlock::Thinking { .. }
            | ContentBlock::RedactedThinking(_)
            | ContentBlock::Vendor(_) => None,
        })
    }

    /// All text blocks joined.
    #[must_use]
    pub fn text(&self) -> String {
        self.content
            .iter()
            .filter_map(|block| match block {
                ContentBlock::Text { text, .. } => Some(text.as_str()),
                ContentBlock::Thinking { .. }
                | ContentBlock::RedactedThinking(_)
                | ContentBlock::ToolUse(_)
                | ContentBlock::Vendor(_) => None,
            })
            .collect()
    }

    /// Whether anything is left that can be sent back: text that is not blank, a tool use, or a
    /// vendor's block. Thinking alone cannot stand as a message.
    #[must_use]
    pub fn has_substance(&self) -> bool {
        self.content.iter().any(|block| match block {
            ContentBlock::Text { text, .. } => !text.trim().is_empty(),
            ContentBlock::ToolUse(_) | ContentBlock::Vendor(_) => true,
            ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking(_) => false,
        })
    }
}

/// A piece of what the model said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentBlock {
    /// Text for the user.
    Text {
        /// The text.
        text: String,
        /// What the provider attached to it, such as citations.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vendor: Option<VendorData>,
    },
    /// Reasoning that may be shown.
    Thinking {
        /// The reasoning.
        text: String,
        /// What the provider wants back with it, such as a signature.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        vendor: Option<VendorData>,
    },
    /// Reasoning that only its provider can read.
    RedactedThinking(VendorData),
    /// A request to run a tool.
    ToolUse(ToolUse),
    /// A block that only its provider understands.
    Vendor(VendorData),
}

/// What a user or a tool says to the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Text.
    Text(String),
    /// A picture.
    Image(Image),
    /// A document.
    Document(Document),
}

impl Content {
    /// Whether it says nothing: an empty or blank text.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        match self {
            Self::Text(text) => text.trim().is_empty(),
            Self::Image(_) | Self::Document(_) => false,
        }
    }
}

/// A picture, base64 coded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Such as `image/png`.
    pub media_type: String,
    /// The bytes in base64.
    pub data: String,
}

/// A document, base64 coded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// Such as `application/pdf`.
    pub media_type: String,
    /// The bytes in base64.
    pub data: String,
    /// A name to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// Names one tool use within a conversation. Never empty, unique over the whole conversation once
/// the kernel has taken the message in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ToolUseId(pub String);

impl fmt::Display for ToolUseId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl From<&str> for ToolUseId {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

/// A request of the model to run a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolUse {
    /// Its id.
    pub id: ToolUseId,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// What it is called with.
    pub input: ToolInput,
    /// What the provider wants back with it, such as a thought signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<VendorData>,
}

/// The input of a tool use, or what the model wrote in its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolInput {
    /// A JSON object.
    Valid(JsonObject),
    /// Not a JSON object. It is never run and never sent back: a provider gets an empty object,
    /// and the model gets the reason as the result.
    Invalid {
        /// What the model wrote.
        raw: String,
        /// Why it is not a JSON object.
        reason: String,
    },
}

impl ToolInput {
    /// Takes what the model wrote.
    #[must_use]
    pub fn parse(raw: &str) -> Self {
        match JsonObject::parse(raw) {
            Ok(object) => Self::Valid(object),
            Err(InvalidJson { reason }) => Self::Invalid {
                raw: raw.into(),
                reason,
            },
        }
    }

    /// The JSON text that may be sent to a provider.
    #[must_use]
    pub fn json(&self) -> &str {
        match self {
            Self::Valid(object) => object.get(),
            Self::Invalid { .. } => "{}",
        }
    }
}

/// The answer to a tool use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The tool use it answers.
    pub tool_use_id: ToolUseId,
    /// What the model is told. Never empty or blank once the kernel has taken it in.
    pub content: Vec<Content>,
    /// Whether it tells of a failure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

impl ToolResult {
    /// An answer of one text.
    #[must_use]
    pub fn text(id: ToolUseId, text: impl Into<String>) -> Self {
        Self {
            tool_use_id: id,
            content: vec![Content::Text(text.into())],
            is_error: false,
        }
    }

    /// A failure told in one text.
    #[must_use]
    pub fn error(id: ToolUseId, text: impl Into<String>) -> Self {
        Self {
            is_error: true,
            ..Self::text(id, text)
        }
    }
}

/// Opaque data with an owner: a signature, encrypted reasoning, a vendor's own block. A codec
/// returns it byte for byte to the owner that gave it, and to nobody else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VendorData {
    /// The codec that understands it.
    pub owner: String,
    /// The data, as JSON text.
    pub data: RawJson,
}

/// Why the model stopped. Information, never control.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had said all.
    EndTurn,
    /// It waits for a tool.
    ToolUse,
    /// It reached the output cap.
    MaxTokens,
    /// It wrote a stop sequence.
    StopSequence,
    /// It, or its provider, refuses to go on.
    Refusal,
    /// A content filter of the provider stopped the reply.
    ContentFilter,
    /// The provider pauses a long turn.
    Pause,
    /// The conversation fills the window.
    ContextWindow,
    /// Something else, in the provider's word; empty if it gave none.
    Other(String),
}
