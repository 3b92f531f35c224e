//! The nouns of a conversation with a language model.
//!
//! Messages, content blocks, tool uses and their results, stream events and how they grow into a
//! message, requests, usage, model errors and model data. Plain data and pure functions: no async,
//! no I/O, no clock, and no vendor's vocabulary (that ends at a codec).
//!
//! ```
//! use tooloop_model::{ContentBlock, MessageBuilder, BlockStart, StopReason, StreamEvent};
//!
//! let mut builder = MessageBuilder::new();
//! builder.push(StreamEvent::BlockStart { index: 0, block: BlockStart::Text })?;
//! builder.push(StreamEvent::TextDelta { index: 0, text: "hello".into() })?;
//! builder.push(StreamEvent::BlockStop { index: 0 })?;
//! builder.push(StreamEvent::MessageStop { stop_reason: StopReason::EndTurn })?;
//! let message = builder.finish()?;
//! assert_eq!(message.text(), "hello");
//! # Ok::<(), tooloop_model::StreamError>(())
//! ```

#![warn(missing_docs)]

mod builder;
mod error;
mod image;
mod info;
mod json;
mod message;
mod proxy;
mod reminder;
mod request;
mod stream;
mod text;
mod usage;

pub use builder::{MessageBuilder, StreamError};
pub use error::{ModelError, ModelErrorKind};
pub use image::image_size;
pub use info::{ModelInfo, Money, Price};
pub use json::{InvalidJson, JsonObject, RawJson};
pub use message::{
    AssistantMessage, Content, ContentBlock, Document, Image, Message, StopReason, ToolInput,
    ToolResult, ToolUse, ToolUseId, VendorData,
};
pub use proxy::{ProxyError, ProxySettings};
pub use request::{HistoryMessage, Request, ToolChoice, ToolDefinition, Wire};
pub use stream::{BlockStart, StreamEvent};
pub use text::{DecodedText, NotText, decode_text};
pub use usage::Usage;
