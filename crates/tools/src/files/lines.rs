//! Some lines of a file of any size, in bounded memory.

use std::io::{self, SeekFrom};

use memchr::{memchr, memchr_iter, memrchr_iter};

use super::machine::ReadSeek;

/// How many bytes are read at once.
const STRETCH: usize = 128 << 10;

/// A line, or as much of it as is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// The first bytes, without the line end.
    pub(crate) bytes: Vec<u8>,
    /// How many bytes there are beside these.
    pub(crate) left_out: u64,
    pub(crate) end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The file ends here.
    None,
    Lf,
    CrLf,
}

/// Reads lines from where its source stands.
pub(crate) struct Lines<'a> {
    source: &'a mut dyn ReadSeek,
    is_cancelled: &'a dyn Fn() -> bool,
    buffer: Vec<u8>,
    place: usize,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(source: &'a mut dyn ReadSeek, is_cancelled: &'a dyn Fn() -> bool) -> Self {
        Self {
            source,
            is_cancelled,
            buffer: Vec::new(),
            place: 0,
        }
    }

    /// What is read and not taken yet; empty at the end of the source only.
    fn rest(&mut self) -> io::Result<&[u8]> {
        if self.place >= self.buffer.len() {
            if (self.is_cancelled)() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            self.buffer.resize(STRETCH, 0);
            self.place = 0;
            let read = read(self.source, &mut self.buffer);
            self.buffer.truncate(*read.as_ref().unwrap_or(&0));
            read?;
        }
        Ok(self.buffer.get(self.place..).unwrap_or_default())
    }

    /// Where the next line starts.
    pub(crate) fn position(&mut self) -> io::Result<u64> {
        let unread = self.buffer.len().saturating_sub(self.place) as u64;
        Ok(self.source.stream_position()?.saturating_sub(unread))
    }

    pub(crate) fn is_at_end(&mut self) -> io::Result<bool> {
        Ok(self.rest()?.is_empty())
    }

    /// Passes over lines. Returns how many there were, at most `count`.
    pub(crate) fn skip(&mut self, count: u64) -> io::Result<u64> {
        let mut skipped = 0;
        let mut is_within = false;
        while skipped < count {
            let rest = self.rest()?;
            let Some(last) = rest.last() else {
                return Ok(skipped + u64::from(is_within));
            };
            let ends = memchr_iter(b'\n', rest).count() as u64;
            if skipped + ends < count {
                skipped += ends;
                is_within = *last != b'\n';
                self.place = self.buffer.len();
                continue;
            }
            let nth = usize::try_from(count - skipped - 1).unwrap_or(usize::MAX);
            let end = memchr_iter(b'\n', rest).nth(nth).unwrap_or_default();
            self.place += end + 1;
            skipped = count;
        }
        Ok(skipped)
    }

    /// The next line, of which the first `kept` bytes are kept.
    pub(crate) fn next(&mut self, kept: usize) -> io::Result<Option<Line>> {
        let mut bytes: Vec<u8> = Vec::new();
        let mut left_out = 0_u64;
        // A CR is of the line or of its end: the next byte tells.
        let mut has_cr = false;
        let mut is_line = false;
        loop {
            let rest = self.rest()?;
            if rest.is_empty() {
                if has_cr {
                    keep(&mut bytes, &mut left_out, b"\r", kept);
                }
                let end = End::None;
                return Ok(is_line.then_some(Line {
                    bytes,
                    left_out,
                    end,
                }));
            }
            is_line = true;
            let end = memchr(b'\n', rest);
            let part = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
            if has_cr && !part.is_empty() {
                keep(&mut bytes, &mut left_out, b"\r", kept);
                has_cr = false;
            }
            let body = part.strip_suffix(b"\r").unwrap_or(part);
            has_cr |= body.len() < part.len();
            keep(&mut bytes, &mut left_out, body, kept);
            match end {
                Some(end) => {
                    self.place += end + 1;
                    let end = if has_cr { End::CrLf } else { End::Lf };
                    return Ok(Some(Line {
                        bytes,
                        left_out,
                        end,
                    }));
                }
                None => self.place = self.buffer.len(),
            }
        }
    }
}

fn keep(bytes: &mut Vec<u8>, left_out: &mut u64, more: &[u8], kept: usize) {
    let room = kept.saturating_sub(bytes.len()).min(more.len());
    bytes.extend_from_slice(more.get(..room).unwrap_or_default());
    *left_out += (more.len() - room) as u64;
}

pub(crate) fn read(source: &mut dyn ReadSeek, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Puts a source at the start of its `count`th line from the end. False if there are not that
/// many, and it stands at its start.
pub(crate) fn seek_from_end(
    source: &mut dyn ReadSeek,
    count: u64,
    is_cancelled: &dyn Fn() -> bool,
) -> io::Result<bool> {
    let size = source.seek(SeekFrom::End(0))?;
    let mut place = size;
    let mut missing = count;
    let mut buffer = vec![0; STRETCH];
    while place > 0 {
        if is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let length = place.min(STRETCH as u64);
        place -= length;
        source.seek(SeekFrom::Start(place))?;
        let stretch = buffer
            .get_mut(..usize::try_from(length).unwrap_or(STRETCH))
            .unwrap_or_default();
        source.read_exact(stretch)?;
        for end in memrchr_iter(b'\n', stretch) {
            let after = place + end as u64 + 1;
            // The end of the last line has no line after it.
            if after == size {
                continue;
            }
            missing -= 1;
            if missing == 0 {
                source.seek(SeekFrom::Start(after))?;
                return Ok(true);
            }
        }
    }
    source.seek(SeekFrom::Start(0))?;
    Ok(false)
}
