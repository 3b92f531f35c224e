//! Writing a whole file.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use tooloop_policy::Access;
use tooloop_tool::{Scope, Tool, ToolContext, ToolError, ToolOutput};

use super::call::{Call, Files, WHOLE, failed, plain, too_large, words};
use super::machine::{OpenFile, WriteAs};
use super::seen::{Fingerprint, View};
use super::text::{self, Encoding, LineEnds, UTF8_MARK, counted, size};
use super::{diff, image};
use crate::Ops;

/// Writes whole files.
#[derive(Debug, Clone)]
pub struct Write {
    files: Files,
}

/// What the model passes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteInput {
    /// File; its folders are made if needed.
    pub path: String,
    /// The whole content.
    pub content: String,
}

impl Write {
    /// A tool that writes files of this machine. What was read it knows from the tools of its
    /// session ([`Tool::for_session`]): outside of one it replaces only what it wrote itself.
    #[must_use]
    pub fn new(ops: Arc<dyn Ops>) -> Self {
        Self {
            files: Files::new(ops),
        }
    }
}

impl Tool for Write {
    type Input = WriteInput;

    fn name(&self) -> &str {
        "write"
    }

    fn description(&self) -> &str {
        "Creates a file or replaces the whole of it. A file that exists must have been read before. \
         A CRLF file stays one unless the content has CRLF itself. For changes to a part, use edit."
    }

    fn access(&self, input: &WriteInput) -> Access {
        Access::idempotent()
            .reading(&input.path)
            .writing(&input.path)
    }

    async fn run(&self, input: WriteInput, context: &ToolContext) -> Result<ToolOutput, ToolError> {
        self.files
            .run(context, move |call| write(call, &input))
            .await
    }

    fn for_session(&self, scope: &Scope) -> Option<Self> {
        Some(Self {
            files: self.files.for_session(scope),
        })
    }
}

fn write(call: &Call, input: &WriteInput) -> Result<ToolOutput, ToolError> {
    let given = input.path.as_str();
    match call.find(given)? {
        None => create(call, given, &input.content),
        Some(file) => replace(call, given, plain(given, file)?, &input.content),
    }
}

fn create(call: &Call, given: &str, content: &str) -> Result<ToolOutput, ToolError> {
    if given.ends_with('/') {
        return failed(format!(
            "cannot create {given}: it ends with a slash as a folder does"
        ));
    }
    let path = call.written_entry(given)?;
    let bytes = content.as_bytes();
    match call.ops.write(&path, bytes, WriteAs::New { mode: None }) {
        Ok(real_path) => call.seen.wrote(real_path, Fingerprint::of(bytes)),
        Err(error) => return failed(format!("cannot create {given}: {}", words(&error))),
    }
    Ok(ToolOutput {
        details: diff::unified(given, b"", bytes, Encoding::Utf8),
        ..ToolOutput::text(format!("created {given} ({})", measure(content, bytes)))
    })
}

fn replace(
    call: &Call,
    given: &str,
    mut file: OpenFile,
    content: &str,
) -> Result<ToolOutput, ToolError> {
    let Some(old) = call.bytes(given, &mut file, WHOLE)? else {
        return too_large(
            given,
            file.size,
            "such a file is not replaced as a whole; change parts of it with edit",
        );
    };
    match call.seen.view(&file.real_path, Fingerprint::of(&old)) {
        View::Fresh => {}
        View::Unseen if image::media_type(&old).is_none() && text::is_binary(&old) => {
            return failed(format!(
                "{given} exists and is not text ({}, {}), so it is not replaced; remove it first \
                 if it is to go",
                image::binary_kind(&old),
                size(old.len() as u64)
            ));
        }
        View::Unseen => {
            return failed(format!(
                "{given} exists and you have not read it, so it is not replaced; read it first, or \
                 change a part of it with edit"
            ));
        }
        View::Stale => {
            return failed(format!(
                "{given} has changed since you last read or wrote it, so it is not replaced; read \
                 it again and keep what others did to it"
            ));
        }
    }
    let (new, notes) = in_manner_of(&old, content);
    if new == old {
        return Ok(ToolOutput::text(format!(
            "{given} has that content already; nothing is changed"
        )));
    }
    call.check()?;
    // Not what the path may lead to by now: this is the file that was looked at.
    let path = &file.real_path;
    match call.ops.write(path, &new, WriteAs::Replacement) {
        Ok(real_path) => call.seen.wrote(real_path, Fingerprint::of(&new)),
        Err(error) => return failed(format!("cannot replace {given}: {}", words(&error))),
    }
    let mut text = format!("replaced {given} ({}", measure(content, &new));
    for note in notes {
        text.push_str("; ");
        text.push_str(note);
    }
    text.push(')');
    Ok(ToolOutput {
        details: diff::unified(given, &old, &new, text::encoding(&old)),
        ..ToolOutput::text(text)
    })
}

fn measure(content: &str, bytes: &[u8]) -> String {
    let lines = counted(text::count_lines(content.as_bytes()), "line");
    format!("{lines}, {}", counted(bytes.len(), "byte"))
}

/// The content with the line ends, the byte order mark and the encoding that the file has.
fn in_manner_of(old: &[u8], content: &str) -> (Vec<u8>, Vec<&'static str>) {
    let mut notes = Vec::new();
    let encoding = text::encoding(old);
    let is_utf16 = matches!(encoding, Encoding::Utf16Little | Encoding::Utf16Big);
    let ends = if is_utf16 {
        LineEnds::of(text::from_utf16(old, encoding).0.as_bytes())
    } else {
        LineEnds::of(old)
    };
    let converted;
    let mut content = content;
    if ends.usual() == "\r\n" && content.contains('\n') && !content.contains('\r') {
        notes.push("line ends CRLF, as before");
        converted = text::with_crlf(content);
        content = &converted;
    }
    if is_utf16 {
        notes.push("UTF-16, as before");
        let content = content.strip_prefix('\u{feff}').unwrap_or(content);
        return (text::to_utf16(content, encoding), notes);
    }
    let mut new = Vec::with_capacity(content.len() + UTF8_MARK.len());
    if old.starts_with(UTF8_MARK) && !content.starts_with('\u{feff}') {
        notes.push("byte order mark, as before");
        new.extend_from_slice(UTF8_MARK);
    }
    if encoding != Encoding::Utf8 && !content.is_ascii() {
        notes.push("UTF-8, which it was not before");
    }
    new.extend_from_slice(content.as_bytes());
    (new, notes)
}
