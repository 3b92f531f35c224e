//! What is put on the screen: lines of styled text.

use std::fmt::Write as _;

use super::text;

/// How a piece of text looks. Without colour all look the same, so no style says anything that
/// the words do not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Dim,
    Bold,
    Good,
    Bad,
    Notice,
    Accent,
}

impl Style {
    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Dim => "2",
            Self::Bold => "1",
            Self::Good => "32",
            Self::Bad => "31",
            Self::Notice => "33",
            Self::Accent => "36",
        }
    }
}

/// One line. Its texts hold neither control characters nor line ends: whatever else they are given
/// is taken out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Line(Vec<(Style, String)>);

impl Line {
    /// An empty line.
    pub(crate) const fn empty() -> Self {
        Self(Vec::new())
    }

    /// A line of one style.
    pub(crate) fn new(style: Style, text: impl Into<String>) -> Self {
        Self::empty().and(style, text)
    }

    /// Adds a piece.
    pub(crate) fn and(mut self, style: Style, text: impl Into<String>) -> Self {
        let mut text = text.into();
        // Cleaned before, if all is well; this is the last door.
        text.retain(|character| !character.is_control());
        if !text.is_empty() {
            self.0.push((style, text));
        }
        self
    }

    /// How many columns it takes.
    pub(crate) fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text::width(text)).sum()
    }

    /// The same line, cut to `columns`.
    pub(crate) fn cut(self, columns: usize) -> Self {
        if self.width() <= columns {
            return self;
        }
        let mut left = columns.saturating_sub(1);
        let mut pieces = Vec::new();
        for (style, mut piece) in self.0 {
            let kept = text::fitting(&piece, left);
            let whole = kept == piece.len();
            piece.truncate(kept);
            left = left.saturating_sub(text::width(&piece));
            if !whole && columns > 0 {
                piece.push('…');
            }
            pieces.push((style, piece));
            if !whole {
                break;
            }
        }
        Self(pieces)
    }

    /// The text alone.
    #[cfg(test)]
    pub(crate) fn plain(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// Writes it out for a terminal.
    pub(crate) fn render(&self, color: bool, out: &mut String) {
        for (style, text) in &self.0 {
            let code = style.code();
            if color && !code.is_empty() {
                // Writing to a string cannot fail.
                let _ = write!(out, "\u{1b}[{code}m{text}\u{1b}[0m");
            } else {
                out.push_str(text);
            }
        }
    }
}

/// What goes into the scrollback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Out {
    /// The next piece of a running text; it may hold line ends, and need not end a line.
    Text(String),
    /// A line of its own.
    Line(Line),
}

/// A blank line, where one part ends and another begins.
pub(crate) const fn gap() -> Out {
    Out::Line(Line::empty())
}

/// A line of one style.
pub(crate) fn line(style: Style, text: impl Into<String>) -> Out {
    Out::Line(Line::new(style, text))
}

/// The texts alone.
#[cfg(test)]
pub(crate) fn shown(outs: &[Out]) -> Vec<String> {
    outs.iter()
        .map(|out| match out {
            Out::Text(text) => text.clone(),
            Out::Line(line) => line.plain(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cutting_keeps_styles_and_never_exceeds_the_width() {
        let line = Line::new(Style::Bold, "bash").and(Style::Dim, "  git 日本 status");
        for columns in 0..=line.width() {
            let cut = line.clone().cut(columns);
            assert!(cut.width() <= columns, "{columns}: {cut:?}");
            if columns < line.width() && columns > 0 {
                assert!(cut.plain().ends_with('…'), "{columns}: {cut:?}");
            }
        }
        assert_eq!(line.clone().cut(80), line);
    }

    #[test]
    fn without_colour_there_is_no_escape() {
        let mut out = String::new();
        Line::new(Style::Bad, "x").render(false, &mut out);
        assert_eq!(out, "x");
        Line::new(Style::Bad, "x").render(true, &mut out);
        assert_eq!(out, "x\u{1b}[31mx\u{1b}[0m");
    }
}
