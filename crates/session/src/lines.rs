//! Cuts a file into lines, however damaged, in bounded memory.

use std::io::{self, BufRead, ErrorKind};

use memchr::memchr2;

/// The longest line that is written or read, in bytes. A longer one is passed over.
pub const MAX_LINE: usize = 64 << 20;

/// What a buffer may keep between two lines.
const KEPT_CAPACITY: usize = 1 << 20;

/// A line, or a part of one between blocks of NUL: a crash of the file system leaves those where
/// data were to be, and JSON has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The line, from 1.
    pub(crate) line: usize,
    /// Where the text begins in the file.
    pub(crate) offset: u64,
    /// The text's length in the file, without what ends it.
    pub(crate) length: u64,
    pub(crate) end: End,
    /// Longer than is read: there is no text.
    pub(crate) is_too_long: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Line,
    /// So many NUL bytes.
    Nul(u64),
    File,
}

pub(crate) struct Lines<R> {
    reader: R,
    text: Vec<u8>,
    line: usize,
    offset: u64,
    longest: usize,
}

impl<R: BufRead> Lines<R> {
    pub(crate) const fn new(reader: R, longest: usize) -> Self {
        Self {
            reader,
            text: Vec::new(),
            line: 1,
            offset: 0,
            longest,
        }
    }

    /// The text of the newest segment.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Reads on to the next end. `None` behind the last byte.
    pub(crate) fn next(&mut self) -> io::Result<Option<Segment>> {
        self.text.clear();
        self.text.shrink_to(KEPT_CAPACITY);
        let (line, offset) = (self.line, self.offset);
        let mut length = 0_u64;
        let mut is_too_long = false;
        let end = loop {
            let chunk = fill(&mut self.reader)?;
            if chunk.is_empty() {
                break End::File;
            }
            let found = memchr2(b'\n', 0, chunk);
            let size = found.unwrap_or(chunk.len());
            is_too_long |= self.text.len().saturating_add(size) > self.longest;
            if is_too_long {
                self.text = Vec::new();
            } else {
                self.text
                    .extend_from_slice(chunk.get(..size).unwrap_or_default());
            }
            length = length.saturating_add(size as u64);
            let ending = chunk.get(size).copied();
            self.reader.consume(size);
            match ending {
                Some(b'\n') => {
                    self.reader.consume(1);
                    self.line = self.line.saturating_add(1);
                    break End::Line;
                }
                Some(_) => break End::Nul(self.skip_nuls()?),
                None => {}
            }
        };
        let ended = match end {
            End::Line => 1,
            End::Nul(bytes) => bytes,
            End::File => 0,
        };
        self.offset = offset.saturating_add(length).saturating_add(ended);
        Ok((self.offset > offset).then_some(Segment {
            line,
            offset,
            length,
            end,
            is_too_long,
        }))
    }

    fn skip_nuls(&mut self) -> io::Result<u64> {
        let mut skipped = 0_u64;
        loop {
            let chunk = fill(&mut self.reader)?;
            let nuls = chunk.iter().take_while(|byte| **byte == 0).count();
            let is_last = nuls < chunk.len() || chunk.is_empty();
            self.reader.consume(nuls);
            skipped = skipped.saturating_add(nuls as u64);
            if is_last {
                return Ok(skipped);
            }
        }
    }
}

fn fill(reader: &mut impl BufRead) -> io::Result<&[u8]> {
    loop {
        match reader.fill_buf() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(_) => break,
        }
    }
    // What is there is given at once.
    reader.fill_buf()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn cut(bytes: &[u8], longest: usize) -> Vec<(usize, u64, String, End, bool)> {
        let mut lines = Lines::new(BufReader::with_capacity(3, bytes), longest);
        let mut found = Vec::new();
        while let Some(segment) = lines.next().unwrap() {
            let text = String::from_utf8_lossy(lines.text()).into_owned();
            assert!(segment.is_too_long || text.len() as u64 == segment.length);
            found.push((
                segment.line,
                segment.offset,
                text,
                segment.end,
                segment.is_too_long,
            ));
        }
        found
    }

    #[test]
    fn lines_and_blocks_of_nul_end_a_text() {
        assert_eq!(
            cut(b"ab\n\ncdefg\0\0\0\0\0hi\n\0\n\0j", 99),
            [
                (1, 0, "ab".into(), End::Line, false),
                (2, 3, String::new(), End::Line, false),
                (3, 4, "cdefg".into(), End::Nul(5), false),
                (3, 14, "hi".into(), End::Line, false),
                (4, 17, String::new(), End::Nul(1), false),
                (4, 18, String::new(), End::Line, false),
                (5, 19, String::new(), End::Nul(1), false),
                (5, 20, "j".into(), End::File, false),
            ]
        );
        assert_eq!(cut(b"", 99), []);
    }

    #[test]
    fn a_long_line_is_passed_over_and_not_kept() {
        assert_eq!(
            cut(b"abcdefgh\nabcdefg\nabc", 7),
            [
                (1, 0, String::new(), End::Line, true),
                (2, 9, "abcdefg".into(), End::Line, false),
                (3, 17, "abc".into(), End::File, false),
            ]
        );
    }
}
