//! Secrets in messages and in what they grow from.
//!
//! A message and the events that it grew from come to the same without secrets, as long as the
//! pieces of a block are joined.

use std::borrow::Cow;

use tooloop_model::{
    AssistantMessage, BlockStart, Content, ContentBlock, JsonObject, Message, ModelError, RawJson,
    StreamEvent, ToolInput, ToolResult, VendorData,
};

use super::Redactor;

impl Redactor {
    /// Takes secrets out of a text.
    pub fn redact_text(&self, text: &mut String) {
        if let Cow::Owned(clean) = self.redact(text) {
            *text = clean;
        }
    }

    /// Takes secrets out of all that a message says. Pictures and documents stay as they are.
    pub fn redact_message(&self, message: &mut Message) {
        match message {
            Message::User(content) => self.redact_content(content),
            Message::Assistant(reply) => self.redact_reply(reply),
            Message::ToolResults(results) => {
                for result in results {
                    self.redact_result(result);
                }
            }
        }
    }

    /// Takes secrets out of what a user or a tool says.
    pub fn redact_content(&self, content: &mut [Content]) {
        for part in content {
            match part {
                Content::Text(text) => self.redact_text(text),
                Content::Image(_) | Content::Document(_) => {}
            }
        }
    }

    /// Takes secrets out of a tool's answer.
    pub fn redact_result(&self, result: &mut ToolResult) {
        self.redact_content(&mut result.content);
    }

    /// Takes secrets out of an error's words.
    pub fn redact_error(&self, error: &mut ModelError) {
        self.redact_text(&mut error.message);
    }

    fn redact_reply(&self, reply: &mut AssistantMessage) {
        for block in &mut reply.content {
            match block {
                ContentBlock::Text { text, vendor } | ContentBlock::Thinking { text, vendor } => {
                    self.redact_text(text);
                    self.redact_vendor(vendor.as_mut());
                }
                ContentBlock::RedactedThinking(data) | ContentBlock::Vendor(data) => {
                    self.redact_vendor(Some(data));
                }
                ContentBlock::ToolUse(tool_use) => {
                    self.redact_input(&mut tool_use.input);
                    self.redact_vendor(tool_use.vendor.as_mut());
                }
            }
        }
    }

    /// Takes secrets out of what a tool is called with.
    pub fn redact_object(&self, object: &mut JsonObject) {
        if let Cow::Owned(clean) = self.redact_json_text(object.get())
            && let Ok(clean) = JsonObject::parse(&clean)
        {
            *object = clean;
        }
    }

    fn redact_input(&self, input: &mut ToolInput) {
        match input {
            ToolInput::Valid(object) => self.redact_object(object),
            ToolInput::Invalid { raw, reason } => {
                self.redact_text(raw);
                self.redact_text(reason);
            }
        }
    }

    fn redact_vendor(&self, vendor: Option<&mut VendorData>) {
        if let Some(vendor) = vendor
            && let Cow::Owned(clean) = self.redact_json_text(vendor.data.get())
            && let Ok(clean) = RawJson::parse(clean)
        {
            vendor.data = clean;
        }
    }

    /// Takes secrets out of an event. A secret in pieces is not found: join them first.
    pub(crate) fn redact_event(&self, event: &mut StreamEvent) {
        match event {
            StreamEvent::TextDelta { text, .. } | StreamEvent::ThinkingDelta { text, .. } => {
                self.redact_text(text);
            }
            StreamEvent::InputDelta { json, .. } => {
                if let Cow::Owned(clean) = self.redact_json_text(json) {
                    *json = clean;
                }
            }
            StreamEvent::VendorDelta { data, .. }
            | StreamEvent::BlockStart {
                block: BlockStart::RedactedThinking(data) | BlockStart::Vendor(data),
                ..
            } => self.redact_vendor(Some(data)),
            StreamEvent::BlockStart {
                block: BlockStart::Text | BlockStart::Thinking | BlockStart::ToolUse { .. },
                ..
            }
            | StreamEvent::MessageStart { .. }
            | StreamEvent::BlockStop { .. }
            | StreamEvent::Usage(_)
            | StreamEvent::MessageStop { .. } => {}
        }
    }
}
