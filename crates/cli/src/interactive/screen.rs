//! Frames: what has happened goes into the scrollback, what is going on stands below it.
//!
//! The scrollback belongs to the terminal and is never touched again, with one exception: the row
//! that a running text has not filled yet is written anew with each frame, since the live rows
//! stand where it goes on. A frame is one text for one write. Pure: it knows neither the terminal
//! nor what the lines mean.

use std::fmt::Write as _;

use super::paint::{Line, Out};
use super::text;

/// What stands at the bottom and changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Live {
    /// The rows; each is cut to the width of the screen.
    pub(crate) rows: Vec<Line>,
    /// The cursor's column in the last row; hidden if there is none.
    pub(crate) cursor: Option<usize>,
}

/// Where the cursor is and what stands round it.
#[derive(Debug)]
pub(crate) struct Screen {
    /// The width of the window.
    window: usize,
    /// The width that text is broken at.
    columns: usize,
    rows: usize,
    color: bool,
    /// The row of running text that is not full yet.
    partial: String,
    /// Whether that row begins a line of the text, rather than going on with one.
    fresh: bool,
    /// Whether the text is within a block of code, which is not wrapped at blanks.
    code: bool,
    /// How wide each live row is that is being shown.
    live: Vec<usize>,
    /// Where the cursor rests in the last of them.
    rest: usize,
    /// How many rows the cursor is below the first row that may be written anew.
    up: usize,
}

/// Narrower than this, wrapping makes no sense: what is longer runs over the edge.
const LEAST_COLUMNS: usize = 8;

impl Screen {
    pub(crate) fn new(columns: u16, rows: u16, color: bool) -> Self {
        Self {
            window: usize::from(columns).max(1),
            columns: usize::from(columns).max(LEAST_COLUMNS),
            rows: usize::from(rows).max(2),
            color,
            partial: String::new(),
            fresh: true,
            code: false,
            live: Vec::new(),
            rest: 0,
            up: 0,
        }
    }

    pub(crate) const fn columns(&self) -> usize {
        self.columns
    }

    /// Adds to the scrollback and shows the live rows below it.
    pub(crate) fn frame(&mut self, outs: &[Out], live: Live) -> String {
        // One picture at a time, where the terminal knows how; the cursor does not run about.
        let mut out = String::from("\u{1b}[?2026h\u{1b}[?25l");
        self.back(&mut out);
        for one in outs {
            match one {
                Out::Text(text) => self.text(text, &mut out),
                Out::Line(line) => {
                    self.end_text(&mut out);
                    line.render(self.color, &mut out);
                    out.push_str("\r\n");
                }
            }
        }
        out.push_str(&self.partial);
        self.show(live, &mut out);
        out.push_str("\u{1b}[?2026l");
        out
    }

    /// Adds to the scrollback, takes the live rows away and leaves the cursor at the beginning of
    /// a row.
    pub(crate) fn finish(&mut self, outs: &[Out]) -> String {
        let mut out = self.frame(outs, Live::default());
        self.end_line(&mut out);
        self.code = false;
        out.push_str("\u{1b}[?25h");
        out
    }

    /// Takes the live rows away after the screen has another size. Terminals that keep long rows
    /// whole have broken them anew by then. Text goes on in a row of its own: where its last row
    /// is now cannot be known.
    pub(crate) fn resize(&mut self, columns: u16, rows: u16) -> String {
        self.window = usize::from(columns).max(1);
        self.columns = usize::from(columns).max(LEAST_COLUMNS);
        self.rows = usize::from(rows).max(2);
        let mut out = String::new();
        if let Some((_, above)) = self.live.split_last() {
            let above: usize = above
                .iter()
                .map(|wide| wide.div_ceil(self.window).max(1))
                .sum();
            let within = self.rest.saturating_sub(1) / self.window;
            self.up = (above + within).min(self.rows - 1);
            self.back(&mut out);
        } else if !self.partial.is_empty() {
            out.push_str("\r\n");
        }
        self.fresh &= self.partial.is_empty();
        self.partial.clear();
        self.live.clear();
        self.up = 0;
        out
    }

    /// To the first row that may be written anew; clears from there.
    fn back(&mut self, out: &mut String) {
        out.push('\r');
        if self.up > 0 {
            // Writing to a string cannot fail.
            let _ = write!(out, "\u{1b}[{}A", self.up);
        }
        out.push_str("\u{1b}[J");
        self.up = 0;
    }

    fn show(&mut self, live: Live, out: &mut String) {
        let most = self.rows - 1;
        let skipped = live.rows.len().saturating_sub(most);
        let rows: Vec<_> = live
            .rows
            .into_iter()
            .skip(skipped)
            .map(|row| row.cut(self.window))
            .collect();
        self.live = rows.iter().map(Line::width).collect();
        self.rest = live
            .cursor
            .unwrap_or_else(|| self.live.last().copied().unwrap_or(0));
        if rows.is_empty() {
            return;
        }
        if !self.partial.is_empty() {
            out.push_str("\r\n");
            self.up = 1;
        }
        self.up += rows.len() - 1;
        // A row that the terminal finds wider than we do is cut by it and takes no second one.
        out.push_str("\u{1b}[?7l");
        for (number, row) in rows.iter().enumerate() {
            if number > 0 {
                out.push_str("\r\n");
            }
            row.render(self.color, out);
        }
        out.push_str("\u{1b}[?7h");
        if let Some(column) = live.cursor {
            out.push('\r');
            if column > 0 {
                let _ = write!(out, "\u{1b}[{column}C");
            }
            out.push_str("\u{1b}[?25h");
        }
    }

    fn text(&mut self, text: &str, out: &mut String) {
        for piece in text.split_inclusive('\n') {
            let body = piece.strip_suffix('\n');
            let mut words = body.unwrap_or(piece);
            if self.partial.is_empty() && !self.fresh && !self.code {
                // The line was broken here.
                words = words.trim_start_matches(' ');
            }
            self.partial.push_str(words);
            self.full_rows(out);
            if body.is_some() {
                if self.fresh && self.partial.trim_start().starts_with("```") {
                    self.code = !self.code;
                }
                out.push_str(&self.partial);
                self.partial.clear();
                out.push_str("\r\n");
                self.fresh = true;
            }
        }
    }

    /// Writes the rows that are full, and keeps the rest.
    fn full_rows(&mut self, out: &mut String) {
        let text = std::mem::take(&mut self.partial);
        let mut rest = text.as_str();
        loop {
            let fits = text::fitting(rest, self.columns);
            if fits == rest.len() {
                break;
            }
            self.fresh = false;
            let (row, next) = match blank_before(rest, fits).filter(|_| !self.code) {
                Some(blank) => rest.split_at(blank),
                None => rest.split_at(fits),
            };
            out.push_str(row.trim_end_matches(' '));
            // Left to the terminal, a long word or a line of code can be copied in one piece; but
            // only if there is no doubt where the terminal breaks it.
            if next.starts_with(' ') || !row.is_ascii() || row.len() < self.columns {
                out.push_str("\r\n");
            }
            rest = if self.code {
                next
            } else {
                next.trim_start_matches(' ')
            };
        }
        self.partial.push_str(rest);
    }

    fn end_text(&mut self, out: &mut String) {
        if !self.partial.is_empty() {
            out.push_str(&self.partial);
            self.partial.clear();
            out.push_str("\r\n");
        }
        self.fresh = true;
        self.code = false;
    }

    /// Like [`Self::end_text`], for a row that is on the screen already.
    fn end_line(&mut self, out: &mut String) {
        if !self.partial.is_empty() {
            self.partial.clear();
            out.push_str("\r\n");
        }
        self.fresh = true;
    }
}

/// The last blank within the first `fits` bytes, or right behind them, that has a word before it.
fn blank_before(text: &str, fits: usize) -> Option<usize> {
    if text.get(fits..)?.starts_with(' ') {
        return Some(fits);
    }
    let row = text.get(..fits)?;
    let blank = row.rfind(' ')?;
    (!row.get(..blank)?.trim().is_empty()).then_some(blank)
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
