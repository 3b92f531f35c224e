//! Reading a part of a file that is too large to be taken in whole.

use std::io::SeekFrom;

use tooloop_tool::{ToolError, ToolOutput};

use super::ahead::ahead;
use super::call::{Call, failed};
use super::image;
use super::lines::{Lines, seek_from_end};
use super::machine::{OpenFile, ReadSeek};
use super::page::Page;
use super::read::{binary, no_line, read_or_fail};
use super::seen::Mark;
use super::text::{self, Encoding, UTF8_MARK, size};

/// Shows a part of a file that is too large to be taken in whole.
pub(crate) fn large(
    call: &Call,
    given: &str,
    file: &mut OpenFile,
    (offset, limit): (i64, usize),
) -> Result<ToolOutput, ToolError> {
    let bytes = file.size;
    let version = (file.size, file.modified);
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
        Ok(first) => {
            let mark = call.seen.mark(&file.real_path, version, first);
            let (byte, line) = mark.map_or((0, 1), |mark| (mark.byte, mark.line));
            // Another handle counts if it is one of the same file as it was.
            let open = || {
                let file = call.reopen(&file.real_path).ok()?;
                ((file.size, file.modified) == version).then_some(file.content)
            };
            ahead((byte, bytes), first - line, open, &is_cancelled).and_then(|ahead| {
                let line = line + ahead.ends;
                go_to(content, (ahead.byte, line), first, &is_cancelled)
            })
        }
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
    } else if let Ok(line) = u64::try_from(first) {
        let byte = read_or_fail(call, given, content.stream_position())?;
        let mark = Mark {
            version,
            line,
            byte,
        };
        call.seen.set_mark(file.real_path.clone(), mark);
    }
    let mut lines = Lines::new(content, &is_cancelled);
    let page = Page::fill(&mut lines, encoding, first, limit, call.room);
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

/// Goes to a line from a place within an earlier one, and returns its number; else how many lines
/// there are.
fn go_to(
    content: &mut dyn ReadSeek,
    (byte, line): (u64, u64),
    first: u64,
    is_cancelled: &dyn Fn() -> bool,
) -> std::io::Result<Result<i64, u64>> {
    content.seek(SeekFrom::Start(byte))?;
    let mut lines = Lines::new(content, is_cancelled);
    let skipped = lines.skip(first - line)?;
    if skipped < first - line || lines.is_at_end()? {
        return Ok(Err(line - 1 + skipped));
    }
    let position = lines.position()?;
    content.seek(SeekFrom::Start(position))?;
    Ok(Ok(i64::try_from(first).unwrap_or(i64::MAX)))
}
