//! What a codec makes of a provider's stream.

use serde::{Deserialize, Serialize};

use crate::{StopReason, ToolUseId, Usage, VendorData};

/// One step in the growth of a reply. A codec's decoder yields them in order: a start, then blocks
/// (each begun, grown and ended under its own index), then the stop. Anything may be followed by
/// the end of the stream, which is an error unless [`StreamEvent::MessageStop`] came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamEvent {
    /// The reply has begun.
    MessageStart {
        /// The provider's id of the reply.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// The model's name as the provider gives it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// A block has begun. Indices are the codec's own, each used once in a message.
    BlockStart {
        /// Which block.
        index: usize,
        /// What it is.
        block: BlockStart,
    },
    /// Text for a text block.
    TextDelta {
        /// Which block.
        index: usize,
        /// What to append.
        text: String,
    },
    /// Text for a thinking block.
    ThinkingDelta {
        /// Which block.
        index: usize,
        /// What to append.
        text: String,
    },
    /// A piece of JSON text for a tool use.
    InputDelta {
        /// Which block.
        index: usize,
        /// What to append.
        json: String,
    },
    /// Vendor data for a text, thinking or tool use block; replaces what was there.
    VendorDelta {
        /// Which block.
        index: usize,
        /// The data.
        data: VendorData,
    },
    /// A block is complete.
    BlockStop {
        /// Which block.
        index: usize,
    },
    /// The counts so far; replaces what was there.
    Usage(Usage),
    /// The reply is complete: nothing may follow but [`StreamEvent::Usage`].
    MessageStop {
        /// Why the model stopped.
        stop_reason: StopReason,
    },
}

impl StreamEvent {
    /// The index of the block that it is about, if it is about one.
    #[must_use]
    pub const fn block(&self) -> Option<usize> {
        match self {
            Self::BlockStart { index, .. }
            | Self::TextDelta { index, .. }
            | Self::ThinkingDelta { index, .. }
            | Self::InputDelta { index, .. }
            | Self::VendorDelta { index, .. }
            | Self::BlockStop { index } => Some(*index),
            Self::MessageStart { .. } | Self::Usage(_) | Self::MessageStop { .. } => None,
        }
    }
}

/// What kind of block begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockStart {
    /// Text.
    Text,
    /// Thinking that may be shown.
    Thinking,
    /// Thinking that only its provider can read, whole.
    RedactedThinking(VendorData),
    /// A tool use.
    ToolUse {
        /// The provider's id; may be empty, the kernel gives one then.
        id: ToolUseId,
        /// The tool's name.
        name: String,
    },
    /// A vendor's own block, whole.
    Vendor(VendorData),
}
