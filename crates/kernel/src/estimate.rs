//! How many tokens a request can have at most, where no provider has counted them yet.

use tooloop_model::{Content, ContentBlock, HistoryMessage, Message, ToolDefinition, VendorData};

/// No picture costs more with the providers at hand, whatever its size: they scale it down.
const PICTURE: u64 = 6_000;

/// What a message, a block or a definition costs beside its text.
const FRAME: u64 = 16;

/// The tokens of the system prompt and the tools. They are told in plain words and JSON, which
/// tokenizers take at more than 3.5 bytes a token.
pub(crate) fn fixed(system: &str, tools: &[ToolDefinition]) -> u64 {
    let bytes = tools.iter().fold(length(system), |sum, tool| {
        let texts = [&*tool.name, &*tool.description, tool.input_schema.get()];
        texts
            .into_iter()
            .fold(sum, |sum, text| sum.saturating_add(length(text)))
    });
    let frames = u64::try_from(tools.len())
        .unwrap_or(u64::MAX)
        .saturating_mul(FRAME);
    (bytes.saturating_mul(2) / 7)
        .saturating_add(frames)
        .saturating_add(FRAME)
}

/// The most tokens that these messages can have. What comes from a user, a model or a tool may be
/// anything: a token has at least one byte.
pub(crate) fn most(messages: &[std::sync::Arc<HistoryMessage>]) -> u64 {
    messages
        .iter()
        .map(|message| match message.message() {
            Message::User(content) => contents(content),
            Message::Assistant(reply) => written(&reply.content),
            Message::ToolResults(results) => results
                .iter()
                .map(|result| {
                    length(&result.tool_use_id.0)
                        .saturating_add(FRAME)
                        .saturating_add(contents(&result.content))
                })
                .fold(0, u64::saturating_add),
        })
        .fold(0, |sum, tokens| {
            sum.saturating_add(tokens).saturating_add(FRAME)
        })
}

/// The most tokens that what a model wrote can have.
fn written(blocks: &[ContentBlock]) -> u64 {
    blocks
        .iter()
        .map(|block| match block {
            ContentBlock::Text { text, vendor } | ContentBlock::Thinking { text, vendor } => {
                length(text).saturating_add(vendor.as_ref().map_or(0, opaque))
            }
            ContentBlock::RedactedThinking(data) | ContentBlock::Vendor(data) => opaque(data),
            ContentBlock::ToolUse(tool_use) => {
                let texts = [&*tool_use.id.0, &*tool_use.name, tool_use.input.json()];
                let vendor = tool_use.vendor.as_ref().map_or(0, opaque);
                texts
                    .into_iter()
                    .fold(vendor, |sum, text| sum.saturating_add(length(text)))
            }
        })
        .fold(0, |sum, tokens| {
            sum.saturating_add(tokens).saturating_add(FRAME)
        })
}

fn contents(content: &[Content]) -> u64 {
    content
        .iter()
        .map(|part| match part {
            Content::Text(text) => length(text),
            Content::Image(_) => PICTURE,
            Content::Document(document) => length(&document.data),
        })
        .fold(0, |sum, tokens| {
            sum.saturating_add(tokens).saturating_add(FRAME)
        })
}

fn opaque(data: &VendorData) -> u64 {
    length(data.data.get())
}

fn length(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}
