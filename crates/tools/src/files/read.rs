//! Reading a file.

use std::io::{Cursor, ErrorKind, SeekFrom};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use tooloop_policy::Access;
use tooloop_tool::{Scope, Tool, ToolContext, ToolError, ToolOutput};

use super::call::{Call, Files, WHOLE, failed, kind, words};
use super::lines::{End, Lines, seek_from_end};
use super::machine::{FileKind, OpenFile, ReadSeek};
use super::seen::Fingerprint;
use super::text::{self, Encoding, UTF8_MARK, counted, size};
use super::{image, listing, number};
use crate::Ops;

/// How many lines are shown at most.
const LINES: usize = 2000;

/// How many bytes of text are shown at most. With the words about them it stays below 50,000.
const BYTES: usize = 49_000;

/// How many characters of a line are shown at most.
const LINE_CHARACTERS: usize = 2000;

/// How many bytes may be needed to see so many characters.
const LINE_BYTES: usize = LINE_CHARACTERS * 4;

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
    #[serde(default, deserialize_with = "number::lenient")]
    #[schemars(schema_with = "number::schema")]
    pub offset: Option<i64>,
    /// How many lines.
    #[serde(default, deserialize_with = "number::lenient")]
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

    fn for_session(&self, scope: &Scope) -> Option<Self> {
        Some(Self {
            files: self.files.for_session(scope),
        })
    }
}

fn read(call: &Call, input: &ReadInput) -> Result<ToolOutput, ToolError> {
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
        call.seen.read(path, content, (offset, limit))
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
    if repeated() {
        return Ok(unchanged(given));
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
        )
    });
    let mut page = read_or_fail(call, given, page)?;
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

/// Shows a part of a file that is too large to be taken in whole.
fn large(
    call: &Call,
    given: &str,
    file: &mut OpenFile,
    (offset, limit): (i64, usize),
) -> Result<ToolOutput, ToolError> {
    let bytes = file.size;
    let content = file.content.as_mut();
    let is_cancelled = || call.is_cancelled();
    let mut head = vec![0; 64 << 10];
    let taken = content
        .seek(SeekFrom::Start(0))
        .and_then(|_| content.read(&mut head));
    head.truncate(read_or_fail(call, given, taken)?);
    if image::media_type(&head).is_some() {
        return image::refuse_large(given, bytes);
    }
    if text::is_binary(&head) {
        return binary(given, &head, bytes);
    }
    let encoding = text::encoding(text::whole_characters(&head));
    if matches!(encoding, Encoding::Utf16Little | Encoding::Utf16Big) {
        return failed(format!(
            "{given} is UTF-16 text of {}: that is too large to be shown; convert it to UTF-8",
            size(bytes)
        ));
    }
    let found = match u64::try_from(offset) {
        Ok(first) => from_start(content, first, &is_cancelled),
        Err(_) => seek_from_end(content, offset.unsigned_abs(), &is_cancelled)
            .map(|is_there| Ok(if is_there { offset } else { 1 })),
    };
    let first = match read_or_fail(call, given, found)? {
        Ok(first) => first,
        Err(total) => return no_line(given, offset.unsigned_abs(), total),
    };
    // At the start there may be a byte order mark, which is no part of the first line.
    if first == 1 {
        let start = if head.starts_with(UTF8_MARK) { 3 } else { 0 };
        let placed = content.seek(SeekFrom::Start(start));
        read_or_fail(call, given, placed)?;
    }
    let mut lines = Lines::new(content, &is_cancelled);
    let page = Page::fill(&mut lines, encoding, first, limit);
    let page = read_or_fail(call, given, page)?;
    let count = i64::try_from(page.count).unwrap_or(0);
    let last = first + count - 1;
    let of = size(bytes);
    let place = match (page.has_more, first > 0) {
        (true, _) => format!(
            "lines {first} to {last} of a file of {of}; go on with offset {}",
            last + 1
        ),
        (false, true) => format!("lines {first} to {last}, the end of a file of {of}"),
        (false, false) => format!("the end of a file of {of}"),
    };
    let note = if first < 0 {
        format!("{place}; line numbers count from the end")
    } else {
        place
    };
    Ok(page.finish(encoding, vec![note]))
}

/// Goes to a line, and returns its number; else how many lines there are.
fn from_start(
    content: &mut dyn ReadSeek,
    first: u64,
    is_cancelled: &dyn Fn() -> bool,
) -> std::io::Result<Result<i64, u64>> {
    content.seek(SeekFrom::Start(0))?;
    let mut lines = Lines::new(content, is_cancelled);
    let skipped = lines.skip(first - 1)?;
    if skipped < first - 1 || lines.is_at_end()? {
        return Ok(Err(skipped));
    }
    lines.stand()?;
    Ok(Ok(i64::try_from(first).unwrap_or(i64::MAX)))
}

fn read_or_fail<T>(call: &Call, given: &str, read: std::io::Result<T>) -> Result<T, ToolError> {
    match read {
        Ok(value) => Ok(value),
        Err(error) if error.kind() == ErrorKind::Interrupted && call.is_cancelled() => {
            Err(ToolError::Cancelled)
        }
        Err(error) => failed(format!("cannot read {given}: {}", words(&error))),
    }
}

fn no_line<T>(given: &str, line: u64, total: u64) -> Result<T, ToolError> {
    let total = counted(usize::try_from(total).unwrap_or(usize::MAX), "line");
    failed(format!("there is no line {line}: {given} has {total}"))
}

fn binary<T>(given: &str, head: &[u8], bytes: u64) -> Result<T, ToolError> {
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

/// Lines as the model sees them.
struct Page {
    text: String,
    count: usize,
    has_more: bool,
    is_lossy: bool,
    has_cut_lines: bool,
    lacks_end: bool,
}

impl Page {
    fn fill(
        lines: &mut Lines<'_>,
        encoding: Encoding,
        first: i64,
        limit: usize,
    ) -> std::io::Result<Self> {
        let mut page = Self {
            text: String::new(),
            count: 0,
            has_more: false,
            is_lossy: false,
            has_cut_lines: false,
            lacks_end: false,
        };
        let mut number = first;
        let mut rendered = String::new();
        while page.count < limit {
            // Enough for one character more than is shown, so that a cut is known as one.
            let Some(mut line) = lines.next(LINE_BYTES + 4)? else {
                return Ok(page);
            };
            if line.left_out > 0
                && encoding != Encoding::Windows1252
                && let Err(error) = std::str::from_utf8(&line.bytes)
                && error.error_len().is_none()
            {
                let cut = line.bytes.split_off(error.valid_up_to());
                line.left_out += cut.len() as u64;
            }
            let whole = line.bytes.len() as u64 + line.left_out;
            let (text, is_lossy) = text::readable(&line.bytes, encoding);
            rendered.clear();
            rendered.push_str(&format!("{number}\t"));
            match text.char_indices().nth(LINE_CHARACTERS) {
                Some((end, _)) => {
                    rendered.push_str(text.get(..end).unwrap_or_default());
                    rendered.push_str(&format!(" ... (line cut, {whole} bytes in all)"));
                    page.has_cut_lines = true;
                }
                None => rendered.push_str(&text),
            }
            rendered.push('\n');
            if page.count > 0 && page.text.len() + rendered.len() > BYTES {
                page.has_more = true;
                return Ok(page);
            }
            page.text.push_str(&rendered);
            page.count += 1;
            page.is_lossy |= is_lossy;
            page.lacks_end = line.end == End::None;
            number = number.saturating_add(1);
        }
        page.has_more = !lines.is_at_end()?;
        Ok(page)
    }

    fn finish(self, encoding: Encoding, mut notes: Vec<String>) -> ToolOutput {
        if self.has_cut_lines {
            notes.push("a shell command shows the rest of long lines".into());
        }
        if self.lacks_end && !self.has_more {
            notes.push("no line end at the end".into());
        }
        notes.extend(text::shown_as(encoding).map(str::to_owned));
        if self.is_lossy && encoding != Encoding::BrokenUtf8 {
            notes.push("bytes that are no text are shown as \\xNN".into());
        }
        let mut text = self.text;
        if !notes.is_empty() {
            text.push_str(&format!("({})", notes.join("; ")));
        }
        ToolOutput::text(text)
    }
}
