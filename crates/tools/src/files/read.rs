//! Reading a file.

use std::io::{Cursor, ErrorKind};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use tooloop_policy::Access;
use tooloop_tool::{Carried, Scope, Tool, ToolContext, ToolError, ToolOutput, Withheld};

use super::call::{Call, Files, WHOLE, failed, kind, words};
use super::large::large;
use super::lines::Lines;
use super::machine::{FileKind, OpenFile};
use super::page::Page;
use super::seen::Fingerprint;
use super::text::{self, Encoding, UTF8_MARK, counted, size};
use super::{carried, image, listing, number};
use crate::Ops;

/// How many lines are shown at most.
const LINES: usize = 2000;

/// Reads files.
#[derive(Debug, Clone)]
pub struct Read {
    files: Files,
}

/// What the model passes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadInput {
    /// File or folder.
    pub path: String,
    /// First line, from 1; -20: the last 20 lines.
    #[serde(
        default,
        deserialize_with = "number::lenient",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "number::schema")]
    pub offset: Option<i64>,
    /// How many lines.
    #[serde(
        default,
        deserialize_with = "number::lenient",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "number::schema")]
    pub limit: Option<i64>,
}

impl Read {
    /// A tool that reads files of this machine.
    #[must_use]
    pub fn new(ops: Arc<dyn Ops>) -> Self {
        Self {
            files: Files::new(ops),
        }
    }
}

impl Tool for Read {
    type Input = ReadInput;

    fn name(&self) -> &str {
        "read"
    }

    fn description(&self) -> &str {
        "Reads a text file, an image or a folder. Text comes as up to 2000 lines or 50 KB, each \
         line with its number and a tab in front, which are not part of the file."
    }

    fn access(&self, input: &ReadInput) -> Access {
        Access::read_only().reading(&input.path)
    }

    async fn run(&self, input: ReadInput, context: &ToolContext) -> Result<ToolOutput, ToolError> {
        self.files
            .run(context, move |call| read(call, &input))
            .await
    }

    async fn carried(&self, withheld: &Withheld) -> Vec<Carried> {
        carried::newest(&self.files, withheld.clone()).await
    }

    fn for_session(&self, scope: &Scope) -> Option<Self> {
        Some(Self {
            files: self.files.for_session(scope),
        })
    }
}

pub(crate) fn read(call: &Call, input: &ReadInput) -> Result<ToolOutput, ToolError> {
    let given = input.path.as_str();
    let limit = match input.limit {
        None => LINES,
        Some(limit) if limit < 1 => {
            return failed(format!("limit is {limit}; it must be 1 or more"));
        }
        Some(limit) => usize::try_from(limit).unwrap_or(LINES).min(LINES),
    };
    // Line 0 is what some call the first one.
    let offset = input.offset.unwrap_or(1);
    let offset = if offset == 0 { 1 } else { offset };
    let Some(mut file) = call.find(given)? else {
        return failed(listing::missing(call, given));
    };
    match file.kind {
        FileKind::File => {}
        FileKind::Folder => return listing::folder(call, given, &file),
        other => {
            return failed(format!(
                "{given} is {}: only files and folders can be read",
                kind(other)
            ));
        }
    }
    let source = Some(file.real_path.clone());
    let output = match call.bytes(given, &mut file, WHOLE)? {
        Some(bytes) => whole(call, given, &file, &bytes, (offset, limit))?,
        None => large(call, given, &mut file, (offset, limit))?,
    };
    Ok(ToolOutput { source, ..output })
}

/// Shows a part of a file whose bytes are all here.
fn whole(
    call: &Call,
    given: &str,
    file: &OpenFile,
    bytes: &[u8],
    (offset, limit): (i64, usize),
) -> Result<ToolOutput, ToolError> {
    let repeated = || {
        let content = Fingerprint::of(bytes);
        let path = file.real_path.clone();
        call.seen
            .read(path, content, (offset, limit), &call.thrown_away)
    };
    if bytes.is_empty() {
        let _seen = repeated();
        return Ok(ToolOutput::text(format!("({given} is empty: 0 bytes)")));
    }
    if let Some(media_type) = image::media_type(bytes) {
        let output = image::show(given, media_type, bytes)?;
        return Ok(if repeated() { unchanged(given) } else { output });
    }
    if text::is_binary(bytes) {
        return binary(given, bytes, bytes.len() as u64);
    }
    let encoding = text::encoding(bytes);
    let utf16;
    let mut is_lossy = false;
    let (body, has_mark) = match encoding {
        Encoding::Utf16Little | Encoding::Utf16Big => {
            (utf16, is_lossy) = text::from_utf16(bytes, encoding);
            (utf16.as_bytes(), false)
        }
        _ => match bytes.strip_prefix(UTF8_MARK) {
            Some(body) => (body, true),
            None => (bytes, false),
        },
    };
    let total = text::count_lines(body) as u64;
    let first = match u64::try_from(offset) {
        Ok(first) => first,
        Err(_) => (total + 1).saturating_sub(offset.unsigned_abs()).max(1),
    };
    if first > total.max(1) {
        return no_line(given, first, total);
    }
    let mut source = Cursor::new(body);
    let is_cancelled = || call.is_cancelled();
    let mut lines = Lines::new(&mut source, &is_cancelled);
    let page = lines.skip(first - 1).and_then(|_| {
        Page::fill(
            &mut lines,
            encoding,
            i64::try_from(first).unwrap_or(1),
            limit,
            call.room,
        )
    });
    let mut page = read_or_fail(call, given, page)?;
    // What a cancelled call has read nobody has seen.
    call.check()?;
    if repeated() {
        return Ok(unchanged(given));
    }
    let last = first + (page.count as u64).saturating_sub(1);
    let mut notes = Vec::new();
    if last < total {
        let next = last + 1;
        notes.push(format!(
            "lines {first}-{last} of {total}; go on with offset {next}"
        ));
    } else if first > 1 {
        notes.push(format!("lines {first}-{last} of {total}"));
    }
    page.is_lossy |= is_lossy;
    if has_mark {
        notes.push("the file starts with a byte order mark".into());
    }
    if let Some(name) = text::LineEnds::of(body).name() {
        notes.push(name.into());
    }
    Ok(page.finish(encoding, notes))
}

pub(crate) fn read_or_fail<T>(
    call: &Call,
    given: &str,
    read: std::io::Result<T>,
) -> Result<T, ToolError> {
    match read {
        Ok(value) => Ok(value),
        Err(error) if error.kind() == ErrorKind::Interrupted && call.is_cancelled() => {
            Err(ToolError::Cancelled)
        }
        Err(error) => failed(format!("cannot read {given}: {}", words(&error))),
    }
}

pub(crate) fn no_line<T>(given: &str, line: u64, total: u64) -> Result<T, ToolError> {
    let total = counted(usize::try_from(total).unwrap_or(usize::MAX), "line");
    failed(format!("there is no line {line}: {given} has {total}"))
}

pub(crate) fn binary<T>(given: &str, head: &[u8], bytes: u64) -> Result<T, ToolError> {
    failed(format!(
        "{given} is not text: {}, {}",
        image::binary_kind(head),
        size(bytes)
    ))
}

fn unchanged(given: &str) -> ToolOutput {
    ToolOutput::text(format!(
        "({given} is unchanged since you last read this part of it. If you no longer have the \
         text, read it again: it will be shown.)"
    ))
}
