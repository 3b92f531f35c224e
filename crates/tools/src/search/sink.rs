//! What a search keeps of one file.

use std::cell::Cell;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};

use super::root::harmless;
use super::{GrepMode, Quit};

/// The longest line that is shown whole, in characters.
const MAX_LINE: usize = 500;

/// How many characters before the match are shown of a line that is cut.
const BEFORE: usize = 120;

/// How many lines of one match are shown.
const MAX_LINES: usize = 40;

/// How much of a file is searched after it has shown itself to be binary.
const MAX_BINARY: u64 = 4 << 20;

/// What was found in one file.
#[derive(Debug, Default)]
pub(super) struct Hits {
    pub(super) matches: u64,
    /// How many of them have their lines kept.
    pub(super) kept: usize,
    /// How long the kept lines are.
    pub(super) bytes: usize,
    pub(super) lines: Vec<Line>,
    /// It is no text: it has a match or none, and no lines.
    pub(super) binary: bool,
}

/// A line that is shown.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) number: u64,
    pub(super) kind: LineKind,
    pub(super) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind {
    /// The first line of a match.
    Match,
    /// A further line of a match.
    More,
    /// A line round it.
    Context,
}

/// What is to be kept of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keep {
    pub(super) mode: GrepMode,
    pub(super) matches: usize,
    pub(super) bytes: usize,
    pub(super) context: u64,
}

/// Takes the matches of one file.
pub(super) struct Collector<'s> {
    pub(super) hits: Hits,
    pub(super) keep: Keep,
    pub(super) matcher: &'s RegexMatcher,
    pub(super) quit: &'s Quit,
    /// Whether the file has shown itself to be binary.
    pub(super) binary: &'s Cell<bool>,
    /// Whether some file of text has a match: then those in binary files are of no interest.
    pub(super) found: &'s AtomicBool,
}

impl Collector<'_> {
    fn is_full(&self) -> bool {
        self.hits.kept >= self.keep.matches || self.hits.bytes >= self.keep.bytes
    }

    fn push(&mut self, number: u64, kind: LineKind, text: String) {
        self.hits.bytes += text.len() + 8;
        self.hits.lines.push(Line { number, kind, text });
    }

    /// The last line of a match that is kept.
    fn last_match(&self) -> Option<u64> {
        let mut lines = self.hits.lines.iter().rev();
        lines
            .find(|line| line.kind != LineKind::Context)
            .map(|line| line.number)
    }
}

impl Sink for Collector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.quit.now() {
            return Err(given_up());
        }
        self.hits.matches += 1;
        if self.hits.binary {
            return Ok(false);
        }
        match self.keep.mode {
            GrepMode::Files => return Ok(false),
            GrepMode::Count => return Ok(true),
            GrepMode::Lines => {}
        }
        if self.is_full() {
            return Ok(true);
        }
        self.hits.kept += 1;
        let first = found.line_number().unwrap_or(0);
        for (shown, (number, line)) in (first..).zip(found.lines()).enumerate() {
            if shown == MAX_LINES {
                self.push(number, LineKind::More, "… (the match goes on)".into());
                break;
            }
            let kind = if shown == 0 {
                LineKind::Match
            } else {
                LineKind::More
            };
            let text = around(line, self.matcher);
            self.push(number, kind, text);
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        if self.quit.now() {
            return Err(given_up());
        }
        if self.keep.mode != GrepMode::Lines || self.hits.binary {
            return Ok(true);
        }
        let number = context.line_number().unwrap_or(0);
        let belongs = !self.is_full()
            || self
                .last_match()
                .is_some_and(|last| number <= last.saturating_add(self.keep.context));
        if belongs && self.hits.bytes < self.keep.bytes.saturating_mul(2) {
            let text = window(context.bytes(), 0);
            self.push(number, LineKind::Context, text);
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.binary.set(true);
        let matched = self.hits.matches > 0;
        self.hits = Hits {
            matches: u64::from(matched),
            binary: true,
            ..Hits::default()
        };
        Ok(!matched && !self.found.load(Ordering::Relaxed))
    }
}

fn given_up() -> io::Error {
    io::Error::other("given up")
}

/// Reads a file until nobody waits for it any more.
pub(super) struct Source<'s, R> {
    reader: R,
    quit: &'s Quit,
    binary: &'s Cell<bool>,
    left: u64,
}

impl<'s, R> Source<'s, R> {
    pub(super) const fn new(reader: R, quit: &'s Quit, binary: &'s Cell<bool>) -> Self {
        Self {
            reader,
            quit,
            binary,
            left: MAX_BINARY,
        }
    }
}

impl<R: Read> Read for Source<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.quit.now() {
            return Err(given_up());
        }
        if self.left == 0 {
            return Ok(0);
        }
        let read = self.reader.read(buffer)?;
        if self.binary.get() {
            self.left = self.left.saturating_sub(super::report::wide(read));
        }
        Ok(read)
    }
}

/// A line as it is shown: cut round its first match if it is long.
fn around(line: &[u8], matcher: &RegexMatcher) -> String {
    let begin = if line.len() > MAX_LINE {
        matcher.find(line).ok().flatten().map_or(0, |at| at.start())
    } else {
        0
    };
    window(line, begin)
}

/// At most [`MAX_LINE`] characters of a line, with what stands at a place in it.
fn window(line: &[u8], place: usize) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= MAX_LINE {
        return harmless(&String::from_utf8_lossy(line));
    }
    let place = boundary(line, place.min(line.len()));
    // No character has more than four bytes.
    let from = boundary(line, place.saturating_sub(MAX_LINE * 4));
    let to = boundary(line, place.saturating_add(MAX_LINE * 4).min(line.len()));
    let before = String::from_utf8_lossy(line.get(from..place).unwrap_or_default());
    let after = String::from_utf8_lossy(line.get(place..to).unwrap_or_default());
    let (before_count, after_count) = (before.chars().count(), after.chars().count());
    if from == 0 && to == line.len() && before_count + after_count <= MAX_LINE {
        return harmless(&format!("{before}{after}"));
    }
    let take_before = before_count.min(BEFORE.max(MAX_LINE.saturating_sub(after_count)));
    let take_after = after_count.min(MAX_LINE - take_before.min(MAX_LINE));
    let cut_before = from > 0 || take_before < before_count;
    let cut_after = to < line.len() || take_after < after_count;
    let text: String = before
        .chars()
        .skip(before_count - take_before)
        .chain(after.chars().take(take_after))
        .collect();
    let ellipsis = |cut| if cut { "…" } else { "" };
    harmless(&format!(
        "{}{text}{}",
        ellipsis(cut_before),
        ellipsis(cut_after)
    ))
}

/// The place, or the nearest one before it that does not cut a character.
fn boundary(line: &[u8], place: usize) -> usize {
    (place.saturating_sub(3)..=place)
        .rev()
        .find(|at| {
            line.get(*at)
                .is_none_or(|byte| byte & 0b1100_0000 != 0b1000_0000)
        })
        .unwrap_or(place)
}

#[cfg(test)]
mod tests;
