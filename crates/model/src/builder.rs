//! How stream events grow into a message.

use crate::{
    AssistantMessage, BlockStart, ContentBlock, StopReason, StreamEvent, ToolInput, ToolUse,
    ToolUseId, Usage, VendorData,
};

/// A stream that does not make sense. Always a fault of the provider or of its codec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// A block index was used twice.
    #[error("block {0} begins twice")]
    DuplicateBlock(usize),
    /// A delta or stop names a block that is not open.
    #[error("block {0} is not open")]
    NoSuchBlock(usize),
    /// A delta does not fit the kind of its block.
    #[error("a delta does not fit block {0}")]
    WrongDelta(usize),
    /// Something came after the end of the message.
    #[error("an event came after the end of the message")]
    AfterEnd,
    /// The message has not ended.
    #[error("the message has not ended")]
    NotEnded,
    /// The message is larger than any real one.
    #[error("the message is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
}

/// Grows an [`AssistantMessage`] from stream events.
#[derive(Debug, Clone, Default)]
pub struct MessageBuilder {
    blocks: Vec<Growing>,
    size: usize,
    id: Option<String>,
    model: Option<String>,
    usage: Usage,
    stop_reason: Option<StopReason>,
}

#[derive(Debug, Clone)]
struct Growing {
    index: usize,
    open: bool,
    block: Partial,
    vendor: Option<VendorData>,
}

#[derive(Debug, Clone)]
enum Partial {
    Text(String),
    Thinking(String),
    Redacted(VendorData),
    ToolUse {
        id: ToolUseId,
        name: String,
        json: String,
    },
    Vendor(VendorData),
}

impl MessageBuilder {
    /// The most bytes that a message may have: 64 MiB, well above the largest output cap.
    pub const MAX_BYTES: usize = 64 << 20;

    /// How many bytes of text, reasoning and input have come so far.
    #[must_use]
    pub fn written(&self) -> usize {
        self.blocks.iter().fold(0, |sum, growing| {
            let bytes = match &growing.block {
                Partial::Text(text) | Partial::Thinking(text) => text.len(),
                Partial::ToolUse { name, json, .. } => name.len().saturating_add(json.len()),
                Partial::Redacted(data) | Partial::Vendor(data) => data.data.get().len(),
            };
            sum.saturating_add(bytes)
        })
    }

    /// An empty message.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes an event in. Returns the tool use that it completed, if it did.
    ///
    /// # Errors
    /// If the event does not fit what came before. The builder is not to be used further then.
    pub fn push(&mut self, event: StreamEvent) -> Result<Option<ToolUse>, StreamError> {
        if self.stop_reason.is_some() && !matches!(event, StreamEvent::Usage(_)) {
            return Err(StreamError::AfterEnd);
        }
        match event {
            StreamEvent::MessageStart { id, model } => {
                self.id = id.or(self.id.take());
                self.model = model.or(self.model.take());
            }
            StreamEvent::BlockStart { index, block } => self.start(index, block)?,
            StreamEvent::TextDelta { index, text } => {
                self.grow(text.len())?;
                match &mut self.open(index)?.block {
                    Partial::Text(so_far) => so_far.push_str(&text),
                    _ => return Err(StreamError::WrongDelta(index)),
                }
            }
            StreamEvent::ThinkingDelta { index, text } => {
                self.grow(text.len())?;
                match &mut self.open(index)?.block {
                    Partial::Thinking(so_far) => so_far.push_str(&text),
                    _ => return Err(StreamError::WrongDelta(index)),
                }
            }
            StreamEvent::InputDelta { index, json } => {
                self.grow(json.len())?;
                match &mut self.open(index)?.block {
                    Partial::ToolUse { json: so_far, .. } => so_far.push_str(&json),
                    _ => return Err(StreamError::WrongDelta(index)),
                }
            }
            StreamEvent::VendorDelta { index, data } => {
                self.grow(data.data.get().len())?;
                self.open(index)?.vendor = Some(data);
            }
            StreamEvent::BlockStop { index } => {
                let growing = self.open(index)?;
                growing.open = false;
                return Ok(growing.tool_use());
            }
            StreamEvent::Usage(usage) => self.usage = usage,
            StreamEvent::MessageStop { stop_reason } => {
                for growing in &mut self.blocks {
                    growing.open = false;
                }
                self.stop_reason = Some(stop_reason);
            }
        }
        Ok(None)
    }

    /// The finished message.
    ///
    /// # Errors
    /// If no [`StreamEvent::MessageStop`] has come.
    pub fn finish(self) -> Result<AssistantMessage, StreamError> {
        if self.stop_reason.is_none() {
            return Err(StreamError::NotEnded);
        }
        Ok(AssistantMessage {
            content: self.blocks.into_iter().map(Growing::finish).collect(),
            stop_reason: self.stop_reason,
            usage: self.usage,
            model: self.model,
            id: self.id,
        })
    }

    /// What is worth keeping of a message that will never end: its text, and its thinking where
    /// that is complete. Tool uses are left out: they have not run, and a provider would ask for
    /// their results.
    #[must_use]
    pub fn interrupted(self) -> AssistantMessage {
        let content = self
            .blocks
            .into_iter()
            .filter(|growing| match &growing.block {
                Partial::Text(text) => !text.trim().is_empty(),
                Partial::Thinking(_) | Partial::Redacted(_) | Partial::Vendor(_) => !growing.open,
                Partial::ToolUse { .. } => false,
            })
            .map(Growing::finish)
            .collect();
        AssistantMessage {
            content,
            stop_reason: None,
            usage: self.usage,
            model: self.model,
            id: self.id,
        }
    }

    /// Whether any text or thinking has come, that is, whether something may have been shown.
    #[must_use]
    pub fn has_shown(&self) -> bool {
        self.blocks.iter().any(|growing| match &growing.block {
            Partial::Text(text) | Partial::Thinking(text) => !text.is_empty(),
            Partial::ToolUse { .. } => true,
            Partial::Redacted(_) | Partial::Vendor(_) => false,
        })
    }

    /// Whether there is neither text that is not blank, nor a tool use, nor a block of the vendor's
    /// own.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.blocks.iter().all(|growing| match &growing.block {
            Partial::Text(text) => text.trim().is_empty(),
            Partial::Thinking(_) | Partial::Redacted(_) => true,
            Partial::ToolUse { .. } | Partial::Vendor(_) => false,
        })
    }

    /// Whether there is any reasoning.
    #[must_use]
    pub fn has_thinking(&self) -> bool {
        self.blocks
            .iter()
            .any(|growing| matches!(growing.block, Partial::Thinking(_) | Partial::Redacted(_)))
    }

    /// Why the model stopped, once it has.
    #[must_use]
    pub const fn stop_reason(&self) -> Option<&StopReason> {
        self.stop_reason.as_ref()
    }

    /// The counts so far.
    #[must_use]
    pub const fn usage(&self) -> Usage {
        self.usage
    }

    fn start(&mut self, index: usize, block: BlockStart) -> Result<(), StreamError> {
        if self.blocks.iter().any(|growing| growing.index == index) {
            return Err(StreamError::DuplicateBlock(index));
        }
        // Even an empty block takes room.
        self.grow(64)?;
        let block = match block {
            BlockStart::Text => Partial::Text(String::new()),
            BlockStart::Thinking => Partial::Thinking(String::new()),
            BlockStart::RedactedThinking(data) => {
                self.grow(data.data.get().len())?;
                Partial::Redacted(data)
            }
            BlockStart::ToolUse { id, name } => {
                self.grow(id.0.len().saturating_add(name.len()))?;
                Partial::ToolUse {
                    id,
                    name,
                    json: String::new(),
                }
            }
            BlockStart::Vendor(data) => {
                self.grow(data.data.get().len())?;
                Partial::Vendor(data)
            }
        };
        self.blocks.push(Growing {
            index,
            open: true,
            block,
            vendor: None,
        });
        Ok(())
    }

    /// Deltas nearly always belong to the newest block, so the search begins there.
    fn open(&mut self, index: usize) -> Result<&mut Growing, StreamError> {
        self.blocks
            .iter_mut()
            .rev()
            .find(|growing| growing.index == index && growing.open)
            .ok_or(StreamError::NoSuchBlock(index))
    }

    const fn grow(&mut self, bytes: usize) -> Result<(), StreamError> {
        self.size = self.size.saturating_add(bytes);
        if self.size > Self::MAX_BYTES {
            return Err(StreamError::TooLarge {
                limit: Self::MAX_BYTES,
            });
        }
        Ok(())
    }
}

impl Growing {
    fn tool_use(&self) -> Option<ToolUse> {
        match &self.block {
            Partial::ToolUse { id, name, json } => Some(ToolUse {
                id: id.clone(),
                name: name.clone(),
                input: ToolInput::parse(json),
                vendor: self.vendor.clone(),
            }),
            Partial::Text(_) | Partial::Thinking(_) | Partial::Redacted(_) | Partial::Vendor(_) => {
                None
            }
        }
    }

    fn finish(self) -> ContentBlock {
        let vendor = self.vendor;
        match self.block {
            Partial::Text(text) => ContentBlock::Text { text, vendor },
            Partial::Thinking(text) => ContentBlock::Thinking { text, vendor },
            Partial::Redacted(data) => ContentBlock::RedactedThinking(data),
            Partial::ToolUse { id, name, json } => ContentBlock::ToolUse(ToolUse {
                id,
                name,
                input: ToolInput::parse(&json),
                vendor,
            }),
            Partial::Vendor(data) => ContentBlock::Vendor(data),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(index: usize, text: &str) -> StreamEvent {
        StreamEvent::TextDelta {
            index,
            text: text.into(),
        }
    }

    fn start(index: usize, block: BlockStart) -> StreamEvent {
        StreamEvent::BlockStart { index, block }
    }

    #[test]
    fn a_tool_use_is_told_when_its_block_is_complete() {
        let mut builder = MessageBuilder::new();
        let block = BlockStart::ToolUse {
            id: "tu_1".into(),
            name: "bash".into(),
        };
        builder.push(start(1, block)).unwrap();
        for json in ["{\"command\":", "\"ls\"}"] {
            let delta = StreamEvent::InputDelta {
                index: 1,
                json: json.into(),
            };
            assert_eq!(builder.push(delta).unwrap(), None);
        }
        let done = builder.push(StreamEvent::BlockStop { index: 1 }).unwrap();
        let done = done.expect("the block was a tool use");
        assert_eq!(done.input.json(), "{\"command\":\"ls\"}");
    }

    #[test]
    fn what_is_kept_of_an_interrupted_message() {
        let mut builder = MessageBuilder::new();
        builder.push(start(0, BlockStart::Thinking)).unwrap();
        builder.push(StreamEvent::BlockStop { index: 0 }).unwrap();
        builder.push(start(1, BlockStart::Text)).unwrap();
        builder.push(text(1, "half a thou")).unwrap();
        builder.push(start(2, BlockStart::Thinking)).unwrap();
        builder
            .push(start(
                3,
                BlockStart::ToolUse {
                    id: "x".into(),
                    name: "y".into(),
                },
            ))
            .unwrap();
        builder.push(StreamEvent::BlockStop { index: 3 }).unwrap();
        let kept = builder.interrupted();
        assert_eq!(kept.content.len(), 2);
        assert_eq!(kept.text(), "half a thou");
        assert_eq!(kept.stop_reason, None);
    }

    #[test]
    fn events_that_do_not_fit_are_errors() {
        let mut builder = MessageBuilder::new();
        assert_eq!(builder.push(text(0, "x")), Err(StreamError::NoSuchBlock(0)));
        builder.push(start(0, BlockStart::Thinking)).unwrap();
        assert_eq!(builder.push(text(0, "x")), Err(StreamError::WrongDelta(0)));
        assert_eq!(
            builder.push(start(0, BlockStart::Text)),
            Err(StreamError::DuplicateBlock(0))
        );
        let stop = StreamEvent::MessageStop {
            stop_reason: StopReason::EndTurn,
        };
        builder.push(stop.clone()).unwrap();
        assert_eq!(builder.push(stop), Err(StreamError::AfterEnd));
    }
}
