//! How a request is written.
//!
//! What a message becomes never depends on its neighbours, so it is made once and kept, in a form
//! from which neighbours can still be joined: servers with strict chat templates want user and
//! assistant to take turns, and many take nothing but a string for content.

use tooloop_model::{
    AssistantMessage, Content, ContentBlock, Document, Image, Message, Request, ToolChoice,
    ToolResult,
};

use super::reasoning::{self, Kept};
use super::{ChatSettings, Echo, NAME};
use crate::history::{self, NO_OUTPUT, NO_TEXT};
use crate::json_text::{
    push_comma, push_escaped, push_key, push_raw_field, push_string, push_text_field,
};

/// The members of a body that are not open to settings.
pub(super) const OWN_MEMBERS: &[&str] = &[
    "model",
    "max_tokens",
    "max_completion_tokens",
    "stream",
    "stream_options",
    "tools",
    "tool_choice",
    "messages",
    "response_format",
];

/// The whole body.
pub(super) fn body(
    request: &Request,
    settings: &ChatSettings,
    wire_key: &'static str,
    extra: &str,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 << 10);
    out.push(b'{');
    push_text_field(&mut out, "model", &request.model);
    if let Some(cap) = request.max_output_tokens {
        let name = if settings.max_completion_tokens {
            "max_completion_tokens"
        } else {
            "max_tokens"
        };
        push_raw_field(&mut out, name, &cap.max(1).to_string());
    }
    push_raw_field(&mut out, "stream", "true");
    push_raw_field(&mut out, "stream_options", r#"{"include_usage":true}"#);
    if !extra.is_empty() {
        out.push(b',');
        out.extend_from_slice(extra.as_bytes());
    }
    tools(&mut out, request);
    if let Some(schema) = &request.output_schema {
        push_key(&mut out, "response_format");
        out.extend_from_slice(
            br#"{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":"#,
        );
        out.extend_from_slice(schema.get().as_bytes());
        out.extend_from_slice(b"}}");
    }
    push_key(&mut out, "messages");
    out.push(b'[');
    if !request.system.trim().is_empty() {
        out.extend_from_slice(br#"{"role":"system","content":"#);
        push_string(&mut out, &request.system);
        out.push(b'}');
    }
    messages(&mut out, request, settings, wire_key);
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
        out.extend_from_slice(br#"{"type":"function","function":{"#);
        push_text_field(out, "name", &tool.name);
        if !tool.description.trim().is_empty() {
            push_text_field(out, "description", &tool.description);
        }
        push_raw_field(out, "parameters", tool.input_schema.get());
        out.extend_from_slice(b"}}");
    }
    out.push(b']');
    match request.tool_choice {
        ToolChoice::Auto => {}
        ToolChoice::None => push_text_field(out, "tool_choice", "none"),
        ToolChoice::Required => push_text_field(out, "tool_choice", "required"),
    }
}

/// A user message that is still growing: texts while there is nothing else, parts from then on.
#[derive(Default)]
struct User {
    /// The inside of one JSON string.
    text: Vec<u8>,
    /// Parts joined by commas.
    parts: Vec<u8>,
}

impl User {
    const fn is_empty(&self) -> bool {
        self.text.is_empty() && self.parts.is_empty()
    }

    fn push(&mut self, fragment: Fragment<'_>) {
        match fragment {
            Fragment::Text(text) => {
                if !self.text.is_empty() {
                    self.text.extend_from_slice(br"\n\n");
                }
                self.text.extend_from_slice(text);
            }
            Fragment::Part(part) => {
                self.settle();
                push_comma(&mut self.parts);
                self.parts.extend_from_slice(part);
            }
        }
    }

    /// Turns the text so far into a part.
    fn settle(&mut self) {
        if self.text.is_empty() {
            return;
        }
        push_comma(&mut self.parts);
        self.parts.extend_from_slice(br#"{"type":"text","text":""#);
        self.parts.append(&mut self.text);
        self.parts.extend_from_slice(br#""}"#);
    }

    fn write(&mut self, out: &mut Vec<u8>) {
        if self.is_empty() {
            return;
        }
        push_comma(out);
        out.extend_from_slice(br#"{"role":"user","content":"#);
        if self.parts.is_empty() {
            out.push(b'"');
            out.append(&mut self.text);
            out.push(b'"');
        } else {
            self.settle();
            out.push(b'[');
            out.append(&mut self.parts);
            out.push(b']');
        }
        out.push(b'}');
    }
}

fn messages(out: &mut Vec<u8>, request: &Request, settings: &ChatSettings, wire_key: &'static str) {
    let mut user = User::default();
    let mut any = false;
    let mut assistant_last = false;
    for message in &request.messages {
        let is_assistant = matches!(message.message(), Message::Assistant(_));
        message.wire(
            wire_key,
            |message| wire(message, settings),
            |bytes| {
                let Some(pieces) = Pieces::read(bytes) else {
                    return;
                };
                if !pieces.whole.is_empty() {
                    // Nothing but a user's word may stand before an assistant's, at the beginning
                    // and after another.
                    if is_assistant && user.is_empty() && (!any || assistant_last) {
                        user.push(Fragment::Text(NO_TEXT.as_bytes()));
                    }
                    user.write(out);
                    push_comma(out);
                    out.extend_from_slice(pieces.whole);
                    any = true;
                    assistant_last = is_assistant;
                }
                for fragment in pieces.fragments() {
                    user.push(fragment);
                    any = true;
                    assistant_last = false;
                }
            },
        );
    }
    if assistant_last || !any {
        user.push(Fragment::Text(NO_TEXT.as_bytes()));
    }
    user.write(out);
}

/// What is kept of a message: whole messages joined by commas (assistant and tool messages), then
/// fragments of a user message. The first eight bytes are the length of the former; each fragment
/// is a tag, eight bytes of length, and its bytes.
struct Pieces<'a> {
    whole: &'a [u8],
    rest: &'a [u8],
}

/// A piece of a user message.
#[derive(Clone, Copy)]
enum Fragment<'a> {
    /// The inside of a JSON string.
    Text(&'a [u8]),
    /// A part.
    Part(&'a [u8]),
}

const TEXT: u8 = b't';
const PART: u8 = b'p';

impl<'a> Pieces<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let (whole, rest) = take_sized(bytes)?;
        Some(Self { whole, rest })
    }

    fn fragments(&self) -> impl Iterator<Item = Fragment<'a>> {
        let mut rest = self.rest;
        std::iter::from_fn(move || {
            let (&tag, tail) = rest.split_first()?;
            let (bytes, tail) = take_sized(tail)?;
            rest = tail;
            Some(if tag == TEXT {
                Fragment::Text(bytes)
            } else {
                Fragment::Part(bytes)
            })
        })
    }
}

fn take_sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    rest.split_at_checked(length)
}

fn put_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u64::try_from(bytes.len()).unwrap_or_default();
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
}

fn put_fragment(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    put_sized(out, bytes);
}

fn wire(message: &Message, settings: &ChatSettings) -> Box<[u8]> {
    let mut whole = Vec::new();
    let mut fragments = Vec::new();
    match message {
        Message::User(contents) => {
            for content in history::telling(contents) {
                put_content(&mut fragments, content);
            }
        }
        Message::ToolResults(results) => {
            for result in results {
                push_result(&mut whole, &mut fragments, result);
            }
        }
        Message::Assistant(message) => push_assistant(&mut whole, message, settings),
    }
    let mut out = Vec::with_capacity(whole.len() + fragments.len() + 8);
    put_sized(&mut out, &whole);
    out.append(&mut fragments);
    out.into_boxed_slice()
}

fn put_content(fragments: &mut Vec<u8>, content: &Content) {
    match content {
        Content::Text(text) => put_text(fragments, text),
        Content::Image(image) => put_image(fragments, image),
        Content::Document(document) => put_document(fragments, document),
    }
}

fn put_text(fragments: &mut Vec<u8>, text: &str) {
    let mut escaped = Vec::with_capacity(text.len() + 16);
    push_escaped(&mut escaped, text);
    put_fragment(fragments, TEXT, &escaped);
}

fn put_image(fragments: &mut Vec<u8>, image: &Image) {
    let mut part = Vec::with_capacity(image.data.len() + 80);
    part.extend_from_slice(br#"{"type":"image_url","image_url":{"url":"#);
    push_string(
        &mut part,
        &format!("data:{};base64,{}", image.media_type, image.data),
    );
    part.extend_from_slice(b"}}");
    put_fragment(fragments, PART, &part);
}

fn put_document(fragments: &mut Vec<u8>, document: &Document) {
    let title = document.title.as_deref().unwrap_or("document");
    match history::document_text(document) {
        Some(text) => put_text(fragments, &format!("{title}:\n{text}")),
        None => {
            let mut part = Vec::with_capacity(document.data.len() + 120);
            part.extend_from_slice(br#"{"type":"file","file":{"#);
            push_text_field(&mut part, "filename", title);
            let data = format!("data:{};base64,{}", document.media_type, document.data);
            push_text_field(&mut part, "file_data", &data);
            part.extend_from_slice(b"}}");
            put_fragment(fragments, PART, &part);
        }
    }
}

/// A `tool` message holds text alone; what else a tool returns follows as the user's.
fn push_result(whole: &mut Vec<u8>, fragments: &mut Vec<u8>, result: &ToolResult) {
    let mut text = String::new();
    let mut others = 0_usize;
    for content in history::telling(&result.content) {
        match content {
            Content::Text(more) => {
                if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(more);
            }
            Content::Image(_) | Content::Document(_) => {
                if others == 0 {
                    let of = format!("Attached to the result of {}:", result.tool_use_id);
                    put_text(fragments, &of);
                }
                others += 1;
                put_content(fragments, content);
            }
        }
    }
    if others > 0 {
        let note = format!("({others} attachment(s) in the next message)");
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&note);
    }
    if text.is_empty() {
        text.push_str(NO_OUTPUT);
    }
    // There is no field for it, so the words have to say it.
    if result.is_error && !starts_with_error(&text) {
        text.insert_str(0, "Error: ");
    }
    push_comma(whole);
    whole.extend_from_slice(br#"{"role":"tool""#);
    push_text_field(whole, "tool_call_id", &result.tool_use_id.0);
    push_text_field(whole, "content", &text);
    whole.push(b'}');
}

fn starts_with_error(text: &str) -> bool {
    text.trim_start()
        .get(..5)
        .is_some_and(|start| start.eq_ignore_ascii_case("error"))
}

fn push_assistant(out: &mut Vec<u8>, message: &AssistantMessage, settings: &ChatSettings) {
    let mut texts = String::new();
    let mut calls = Vec::new();
    let mut thoughts = Thoughts::default();
    for block in &message.content {
        match block {
            ContentBlock::Text { text, .. } => texts.push_str(text),
            ContentBlock::Thinking { text, vendor } => {
                if let Some(kept) = vendor.as_ref().and_then(Kept::load) {
                    thoughts.add(text, kept);
                }
            }
            ContentBlock::ToolUse(tool_use) => {
                push_comma(&mut calls);
                calls.push(b'{');
                push_text_field(&mut calls, "id", &tool_use.id.0);
                push_text_field(&mut calls, "type", "function");
                push_key(&mut calls, "function");
                calls.push(b'{');
                push_text_field(&mut calls, "name", &history::tool_name(&tool_use.name));
                push_text_field(&mut calls, "arguments", tool_use.input.json());
                calls.push(b'}');
                if let Some(vendor) = &tool_use.vendor
                    && vendor.owner == NAME
                {
                    push_raw_field(&mut calls, "extra_content", vendor.data.get());
                }
                calls.push(b'}');
            }
            ContentBlock::RedactedThinking(_) | ContentBlock::Vendor(_) => {}
        }
    }
    if texts.trim().is_empty() {
        texts.clear();
    }
    if texts.is_empty() && calls.is_empty() {
        return;
    }
    out.extend_from_slice(br#"{"role":"assistant""#);
    let echo = &settings.reasoning_echo;
    push_key(out, "content");
    if thoughts.field == reasoning::IN_CONTENT && *echo == Echo::AsReceived {
        thoughts.push_parts(out, &texts);
    } else if !texts.is_empty() {
        push_string(out, &texts);
    } else if settings.null_content {
        out.extend_from_slice(b"null");
    } else {
        out.extend_from_slice(br#""""#);
    }
    thoughts.push_fields(out, echo);
    if !calls.is_empty() {
        push_key(out, "tool_calls");
        out.push(b'[');
        out.append(&mut calls);
        out.push(b']');
    }
    out.push(b'}');
}

/// All the reasoning of one message.
#[derive(Default)]
struct Thoughts {
    field: String,
    text: String,
    details: Vec<serde_json::Value>,
}

impl Thoughts {
    fn add(&mut self, text: &str, kept: Kept) {
        if self.field.is_empty() {
            self.field = kept.field;
        }
        self.text.push_str(text);
        for detail in kept.details {
            reasoning::merge(&mut self.details, detail);
        }
    }

    fn push_fields(&self, out: &mut Vec<u8>, echo: &Echo) {
        let field = match echo {
            Echo::Never => return,
            Echo::AsReceived if self.field == reasoning::IN_CONTENT => "",
            Echo::AsReceived => self.field.as_str(),
            Echo::Field(name) => name.as_str(),
        };
        if !field.is_empty() && !self.text.is_empty() {
            push_text_field(out, field, &self.text);
        }
        if !self.details.is_empty() {
            let details = serde_json::Value::from(self.details.clone());
            push_raw_field(out, "reasoning_details", &details.to_string());
        }
    }

    /// The content as parts, reasoning first, as the provider wrote it.
    fn push_parts(&self, out: &mut Vec<u8>, text: &str) {
        out.push(b'[');
        out.extend_from_slice(br#"{"type":"thinking","thinking":[{"type":"text","text":"#);
        push_string(out, &self.text);
        out.extend_from_slice(b"}]}");
        if !text.is_empty() {
            out.extend_from_slice(br#",{"type":"text","text":"#);
            push_string(out, text);
            out.push(b'}');
        }
        out.push(b']');
    }
}
