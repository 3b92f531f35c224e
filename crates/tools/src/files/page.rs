//! Lines as the model sees them.

use tooloop_tool::ToolOutput;

use super::lines::{End, Lines};
use super::text::{self, Encoding};

/// How many bytes of text are shown at most. With the words about them it stays below 50,000.
pub(crate) const BYTES: usize = 49_000;

/// How many characters of a line are shown at most.
const LINE_CHARACTERS: usize = 2000;

/// How many bytes may be needed to see so many characters.
const LINE_BYTES: usize = LINE_CHARACTERS * 4;

/// Lines as the model sees them.
pub(crate) struct Page {
    text: String,
    pub(crate) count: usize,
    pub(crate) has_more: bool,
    pub(crate) is_lossy: bool,
    has_cut_lines: bool,
    lacks_end: bool,
}

impl Page {
    pub(crate) fn fill(
        lines: &mut Lines<'_>,
        encoding: Encoding,
        first: i64,
        limit: usize,
        room: usize,
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
            if page.count > 0 && page.text.len() + rendered.len() > room {
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

    pub(crate) fn finish(self, encoding: Encoding, mut notes: Vec<String>) -> ToolOutput {
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
