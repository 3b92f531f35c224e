//! How many tokens a request has, where no provider has counted them yet: at most, and likely.

use std::sync::Arc;

use tooloop_model::{
    AssistantMessage, Content, ContentBlock, HistoryMessage, Message, ToolDefinition, ToolResult,
    VendorData,
};

/// No picture costs more with the providers at hand, whatever its size: they scale it down.
const PICTURE: u64 = 6_000;

/// Bytes of a coded picture that likely make a token, and the likely bounds of a picture.
const PICTURE_BYTES: u64 = 500;
const LIKELY_PICTURE: (u64, u64) = (100, 1_600);

/// How bytes become tokens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scale {
    /// Whatever the text is: a token has at least one byte.
    Most,
    /// As plain words, code and JSON do: 3.5 bytes a token.
    Likely,
}

impl Scale {
    fn text(self, text: &str) -> u64 {
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        match self {
            Self::Most => bytes,
            Self::Likely => bytes.saturating_mul(2).div_ceil(7),
        }
    }

    /// What a message, a block or a definition costs beside its text.
    const fn frame(self) -> u64 {
        match self {
            Self::Most => 16,
            Self::Likely => 4,
        }
    }

    fn picture(self, data: &str) -> u64 {
        let bytes = u64::try_from(data.len()).unwrap_or(u64::MAX);
        let (least, most) = LIKELY_PICTURE;
        match self {
            Self::Most => PICTURE,
            Self::Likely => (bytes / PICTURE_BYTES).clamp(least, most),
        }
    }

    fn messages(self, messages: &[Arc<HistoryMessage>]) -> u64 {
        let each = messages.iter().map(|message| self.message(message));
        each.fold(0, u64::saturating_add)
    }

    fn message(self, message: &HistoryMessage) -> u64 {
        let tokens = match message.message() {
            Message::User(content) => self.contents(content),
            Message::Assistant(reply) => self.written(reply),
            Message::ToolResults(results) => results
                .iter()
                .map(|result| self.result(result))
                .fold(0, u64::saturating_add),
        };
        tokens.saturating_add(self.frame())
    }

    fn result(self, result: &ToolResult) -> u64 {
        self.text(&result.tool_use_id.0)
            .saturating_add(self.frame())
            .saturating_add(self.contents(&result.content))
    }

    fn contents(self, content: &[Content]) -> u64 {
        content
            .iter()
            .map(|part| match part {
                Content::Text(text) => self.text(text),
                Content::Image(image) => self.picture(&image.data),
                Content::Document(document) => self.text(&document.data),
            })
            .fold(0, |sum, tokens| {
                sum.saturating_add(tokens).saturating_add(self.frame())
            })
    }

    fn written(self, reply: &AssistantMessage) -> u64 {
        let opaque = |data: &VendorData| self.text(data.data.get());
        reply
            .content
            .iter()
            .map(|block| match block {
                ContentBlock::Text { text, vendor } | ContentBlock::Thinking { text, vendor } => {
                    let vendor = vendor.as_ref().map_or(0, opaque);
                    self.text(text).saturating_add(vendor)
                }
                ContentBlock::RedactedThinking(data) | ContentBlock::Vendor(data) => opaque(data),
                ContentBlock::ToolUse(tool_use) => {
                    let texts = [&*tool_use.id.0, &*tool_use.name, tool_use.input.json()];
                    let vendor = tool_use.vendor.as_ref().map_or(0, opaque);
                    texts
                        .into_iter()
                        .fold(vendor, |sum, text| sum.saturating_add(self.text(text)))
                }
            })
            .fold(0, |sum, tokens| {
                sum.saturating_add(tokens).saturating_add(self.frame())
            })
    }
}

/// The tokens of the system prompt and the tools. They are told in plain words and JSON, which
/// tokenizers take at more than 3.5 bytes a token.
pub(crate) fn fixed(system: &str, tools: &[ToolDefinition]) -> u64 {
    let tools = tools.iter().map(definition);
    tools.fold(
        text(system).saturating_add(Scale::Most.frame()),
        u64::saturating_add,
    )
}

/// The tokens that a tool's definition likely has.
#[must_use]
pub fn definition(tool: &ToolDefinition) -> u64 {
    let texts = [&*tool.name, &*tool.description, tool.input_schema.get()];
    texts.into_iter().fold(Scale::Most.frame(), |sum, part| {
        sum.saturating_add(text(part))
    })
}

/// The tokens that a text likely has: one for each 3.5 bytes.
#[must_use]
pub fn text(text: &str) -> u64 {
    Scale::Likely.text(text)
}

/// The tokens that a message likely has.
#[must_use]
pub fn message(message: &HistoryMessage) -> u64 {
    Scale::Likely.message(message)
}

/// The tokens that these messages likely have.
#[must_use]
pub fn messages(messages: &[Arc<HistoryMessage>]) -> u64 {
    Scale::Likely.messages(messages)
}

/// The most tokens that these messages can have. What comes from a user, a model or a tool may be
/// anything: a token has at least one byte.
pub(crate) fn most(messages: &[Arc<HistoryMessage>]) -> u64 {
    Scale::Most.messages(messages)
}

/// The tokens that a result likely has.
#[must_use]
pub fn result(result: &ToolResult) -> u64 {
    Scale::Likely.result(result)
}

#[cfg(test)]
mod tests {
    use tooloop_model::{Image, RawJson};

    use super::*;

    #[test]
    fn pictures_count_by_their_bytes_within_bounds() {
        let tokens = |length: usize| {
            let image = Image {
                media_type: "image/png".into(),
                data: "A".repeat(length),
            };
            let content = vec![Content::Image(image)];
            let message = HistoryMessage::new(Message::User(content));
            // Two frames.
            super::message(&message) - 8
        };
        assert_eq!(tokens(10), 100);
        assert_eq!(tokens(100_300), 200);
        assert_eq!(tokens(10_000_000), 1_600);
    }

    #[test]
    fn definitions_count_all_their_text() {
        let tool = ToolDefinition {
            name: "n".repeat(35),
            description: "d".repeat(350),
            input_schema: RawJson::from_value(&serde_json::json!({})),
        };
        assert_eq!(definition(&tool), 10 + 100 + 1 + 16);
        assert_eq!(fixed("", &[tool]), 10 + 100 + 1 + 16 + 16);
    }
}
