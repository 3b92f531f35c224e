//! How a request is written.
//!
//! What a message becomes never depends on its neighbours, so it is made once and kept: the blocks,
//! joined by commas. Roles, brackets and cache marks are added when a body is put together.

use tooloop_model::{
    AssistantMessage, Content, ContentBlock, Document, Message, ModelInfo, Request, ToolChoice,
    ToolResult, ToolUse, VendorData,
};

use super::NAME;
use crate::history::{self, NO_OUTPUT, NO_TEXT};
use crate::json_text::{push_comma, push_key, push_raw_field, push_string, push_text_field};

/// The members of a body that are not open to settings.
pub(super) const OWN_MEMBERS: &[&str] = &[
    "model",
    "max_tokens",
    "stream",
    "tools",
    "tool_choice",
    "system",
    "messages",
    "output_config",
];

const CACHE_MARK: &[u8] = br#","cache_control":{"type":"ephemeral"}"#;
/// How many user messages are marked, from the newest.
const MARKED_MESSAGES: usize = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    User,
    Assistant,
}

/// The whole body.
pub(super) fn body(request: &Request, info: &ModelInfo, extra: &str) -> Vec<u8> {
    let max_tokens = request
        .max_output_tokens
        .unwrap_or(info.max_output_tokens)
        .max(1);
    let mut out = Vec::with_capacity(64 << 10);
    out.push(b'{');
    push_text_field(&mut out, "model", &request.model);
    push_raw_field(&mut out, "max_tokens", &max_tokens.to_string());
    push_raw_field(&mut out, "stream", "true");
    if !extra.is_empty() {
        out.push(b',');
        out.extend_from_slice(extra.as_bytes());
    }
    tools(&mut out, request);
    if !request.system.trim().is_empty() {
        push_key(&mut out, "system");
        out.extend_from_slice(br#"[{"type":"text","text":"#);
        push_string(&mut out, &request.system);
        out.extend_from_slice(CACHE_MARK);
        out.extend_from_slice(b"}]");
    }
    if let Some(schema) = &request.output_schema {
        push_key(&mut out, "output_config");
        out.extend_from_slice(br#"{"format":{"type":"json_schema","schema":"#);
        out.extend_from_slice(schema.get().as_bytes());
        out.extend_from_slice(b"}}");
    }
    push_key(&mut out, "messages");
    out.push(b'[');
    messages(&mut out, request);
    out.extend_from_slice(b"]}");
    out
}

fn tools(out: &mut Vec<u8>, request: &Request) {
    if request.tools.is_empty() {
        return;
    }
    push_key(out, "tools");
    out.push(b'[');
    for tool in request.tools.iter() {
        push_comma(out);
        out.push(b'{');
        push_text_field(out, "name", &tool.name);
        if !tool.description.trim().is_empty() {
            push_text_field(out, "description", &tool.description);
        }
        push_raw_field(out, "input_schema", tool.input_schema.get());
        out.push(b'}');
    }
    mark(out);
    out.push(b']');
    match request.tool_choice {
        ToolChoice::Auto => {}
        ToolChoice::None => push_raw_field(out, "tool_choice", r#"{"type":"none"}"#),
        ToolChoice::Required => push_raw_field(out, "tool_choice", r#"{"type":"any"}"#),
    }
}

/// Puts a cache mark into the object that `out` ends with.
fn mark(out: &mut Vec<u8>) {
    if out.pop_if(|last| *last == b'}').is_some() {
        out.extend_from_slice(CACHE_MARK);
        out.push(b'}');
    }
}

/// Neighbours of one role become one message; a message with nothing to say is left out.
fn messages(out: &mut Vec<u8>, request: &Request) {
    // Where each user message's list of blocks ends, so that the newest can be marked.
    let mut ends = Vec::new();
    let mut open: Option<Role> = None;
    for message in &request.messages {
        let role = match message.message() {
            Message::User(_) | Message::ToolResults(_) => Role::User,
            Message::Assistant(_) => Role::Assistant,
        };
        message.wire(NAME, blocks, |blocks| {
            if blocks.is_empty() {
                return;
            }
            if open != Some(role) {
                close(out, open, &mut ends);
                if open.is_none() && role == Role::Assistant {
                    begin(out, Role::User);
                    push_text(out, NO_TEXT);
                    close(out, Some(Role::User), &mut ends);
                }
                begin(out, role);
                open = Some(role);
            }
            push_comma(out);
            out.extend_from_slice(blocks);
        });
    }
    if open != Some(Role::User) {
        close(out, open, &mut ends);
        begin(out, Role::User);
        push_text(out, NO_TEXT);
    }
    close(out, Some(Role::User), &mut ends);
    // From the back, so that what is inserted moves nothing that is still to be marked.
    for &end in ends.iter().rev().take(MARKED_MESSAGES) {
        // `end` stands behind the last block's closing brace.
        let at = end.saturating_sub(1);
        out.splice(at..at, CACHE_MARK.iter().copied());
    }
}

fn begin(out: &mut Vec<u8>, role: Role) {
    push_comma(out);
    out.extend_from_slice(match role {
        Role::User => br#"{"role":"user","content":["#,
        Role::Assistant => br#"{"role":"assistant","content":["#,
    });
}

fn close(out: &mut Vec<u8>, open: Option<Role>, ends: &mut Vec<usize>) {
    match open {
        None => return,
        Some(Role::User) => ends.push(out.len()),
        Some(Role::Assistant) => {}
    }
    out.extend_from_slice(b"]}");
}

/// The blocks of one message; empty if nothing is left of it.
fn blocks(message: &Message) -> Box<[u8]> {
    let mut out = Vec::new();
    match message {
        Message::User(contents) => {
            for content in history::telling(contents) {
                push_content(&mut out, content);
            }
        }
        Message::ToolResults(results) => {
            for result in results {
                push_result(&mut out, result);
            }
        }
        Message::Assistant(message) => push_assistant(&mut out, message),
    }
    out.into_boxed_slice()
}

fn push_content(out: &mut Vec<u8>, content: &Content) {
    match content {
        Content::Text(text) => push_text(out, text),
        Content::Image(image) => {
            push_comma(out);
            out.extend_from_slice(br#"{"type":"image","source":"#);
            push_base64(out, &image.media_type, &image.data);
            out.push(b'}');
        }
        Content::Document(document) => push_document(out, document),
    }
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    push_comma(out);
    out.extend_from_slice(br#"{"type":"text","text":"#);
    push_string(out, text);
    out.push(b'}');
}

fn push_base64(out: &mut Vec<u8>, media_type: &str, data: &str) {
    out.extend_from_slice(br#"{"type":"base64""#);
    push_text_field(out, "media_type", media_type);
    push_text_field(out, "data", data);
    out.push(b'}');
}

fn push_document(out: &mut Vec<u8>, document: &Document) {
    push_comma(out);
    out.extend_from_slice(br#"{"type":"document","source":"#);
    match history::document_text(document) {
        Some(text) => {
            out.extend_from_slice(br#"{"type":"text","media_type":"text/plain""#);
            push_text_field(
                out,
                "data",
                if text.trim().is_empty() {
                    NO_TEXT
                } else {
                    &text
                },
            );
            out.push(b'}');
        }
        None => push_base64(out, &document.media_type, &document.data),
    }
    if let Some(title) = &document.title {
        push_text_field(out, "title", title);
    }
    out.push(b'}');
}

fn push_result(out: &mut Vec<u8>, result: &ToolResult) {
    push_comma(out);
    out.extend_from_slice(br#"{"type":"tool_result""#);
    push_text_field(out, "tool_use_id", &wire_id(&result.tool_use_id.0));
    push_key(out, "content");
    let contents: Vec<&Content> = history::telling(&result.content).collect();
    match contents.as_slice() {
        [] => push_string(out, NO_OUTPUT),
        [Content::Text(text)] => push_string(out, text),
        contents => {
            out.push(b'[');
            for content in contents {
                push_content(out, content);
            }
            out.push(b']');
        }
    }
    if result.is_error {
        push_raw_field(out, "is_error", "true");
    }
    out.push(b'}');
}

fn push_assistant(out: &mut Vec<u8>, message: &AssistantMessage) {
    // A message must not end with thinking, so what comes after the last real block is left out.
    let mut end = 0;
    for block in &message.content {
        match block {
            ContentBlock::Text { text, vendor } => {
                if text.trim().is_empty() {
                    continue;
                }
                push_comma(out);
                out.extend_from_slice(br#"{"type":"text""#);
                push_text_field(out, "text", text);
                if let Some(citations) = own(vendor.as_ref()).and_then(citations) {
                    push_raw_field(out, "citations", &citations);
                }
                out.push(b'}');
                end = out.len();
            }
            ContentBlock::Thinking { text, vendor } => {
                // Without its signature, thinking is refused.
                let signature = own(vendor.as_ref()).and_then(|data| data.data.as_string());
                let Some(signature) = signature.filter(|signature| !signature.is_empty()) else {
                    continue;
                };
                push_comma(out);
                out.extend_from_slice(br#"{"type":"thinking""#);
                push_text_field(out, "thinking", text);
                push_text_field(out, "signature", &signature);
                out.push(b'}');
            }
            ContentBlock::RedactedThinking(data) => {
                let data = own(Some(data)).and_then(|data| data.data.as_string());
                let Some(data) = data.filter(|data| !data.is_empty()) else {
                    continue;
                };
                push_comma(out);
                out.extend_from_slice(br#"{"type":"redacted_thinking""#);
                push_text_field(out, "data", &data);
                out.push(b'}');
            }
            ContentBlock::ToolUse(tool_use) => {
                push_tool_use(out, tool_use);
                end = out.len();
            }
            ContentBlock::Vendor(data) => {
                let Some(data) = own(Some(data)) else {
                    continue;
                };
                push_comma(out);
                out.extend_from_slice(data.data.get().as_bytes());
                end = out.len();
            }
        }
    }
    out.truncate(end);
}

fn push_tool_use(out: &mut Vec<u8>, tool_use: &ToolUse) {
    push_comma(out);
    out.extend_from_slice(br#"{"type":"tool_use""#);
    push_text_field(out, "id", &wire_id(&tool_use.id.0));
    push_text_field(out, "name", &history::tool_name(&tool_use.name));
    push_raw_field(out, "input", tool_use.input.json());
    out.push(b'}');
}

fn own(data: Option<&VendorData>) -> Option<&VendorData> {
    data.filter(|data| data.owner == NAME)
}

fn citations(data: &VendorData) -> Option<String> {
    let value = data.data.to_value();
    let citations = value.get("citations")?;
    citations
        .as_array()
        .is_some_and(|list| !list.is_empty())
        .then(|| citations.to_string())
}

/// An id as this format takes it. Other providers use characters that are refused here; such an id
/// is changed, always in the same way, and stays apart from every other.
fn wire_id(id: &str) -> String {
    if !id.is_empty() && id.chars().all(history::is_name) {
        return id.to_owned();
    }
    // FNV-1a: short, and the same on every run.
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let clean: String = id
        .chars()
        .map(|character| {
            if history::is_name(character) {
                character
            } else {
                '_'
            }
        })
        .collect();
    format!("{clean}_{hash:016x}")
}
