//! Text made fit for a terminal: harmless, measured, cut.
//!
//! What a model, a tool or a journal says may hold anything. Nothing of it reaches the screen that
//! has not gone through [`Cleaner`], [`clean`] or [`reveal`]. Knows nothing of what the text means.

use std::time::Duration;

use unicode_width::UnicodeWidthChar;

/// Takes control characters and whole escape sequences out of a text that comes in pieces; a
/// sequence may be cut anywhere. Line ends and tabs (as blanks) stay.
#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    state: State,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// In a sequence that ends with a letter.
    Sequence,
    /// In a string (a title, a link) that ends with BEL or ESC `\`; how much of it came.
    Words { length: usize },
    /// After the ESC that may end a string.
    WordsEscape { length: usize },
}

/// A string that has no end by then was none: what follows is text again.
const LONGEST_WORDS: usize = 4_096;

/// What a tab becomes: the screen cannot know at which column the text begins.
const TAB: &str = "    ";

impl Cleaner {
    /// The harmless rest of the next piece.
    pub(crate) fn feed(&mut self, piece: &str) -> String {
        let mut out = String::with_capacity(piece.len());
        for character in piece.chars() {
            self.state = self.step(character, &mut out);
        }
        out
    }

    fn step(&self, character: char, out: &mut String) -> State {
        match self.state {
            State::Text => text(character, out),
            State::Escape => match character {
                '[' => State::Sequence,
                ']' | 'P' | 'X' | '^' | '_' => State::Words { length: 0 },
                // Intermediate bytes: the sequence goes on.
                ' '..='/' | '\u{1b}' => State::Escape,
                // A broken sequence must not swallow the end of a line.
                '\n' => text(character, out),
                _ => State::Text,
            },
            State::Sequence => match character {
                ' '..='?' => State::Sequence,
                '\u{1b}' => State::Escape,
                '\n' => text(character, out),
                _ => State::Text,
            },
            State::Words { length } => match character {
                '\u{7}' | '\u{9c}' => State::Text,
                '\u{1b}' => State::WordsEscape { length },
                _ if length >= LONGEST_WORDS => text(character, out),
                _ => State::Words { length: length + 1 },
            },
            State::WordsEscape { length } => match character {
                '\\' => State::Text,
                '\u{1b}' => State::WordsEscape { length },
                _ => State::Words { length: length + 1 },
            },
        }
    }
}

fn text(character: char, out: &mut String) -> State {
    match character {
        '\u{1b}' => return State::Escape,
        '\u{9b}' => return State::Sequence,
        '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => return State::Words { length: 0 },
        '\t' => out.push_str(TAB),
        '\n' | '\u{2028}' | '\u{2029}' => out.push('\n'),
        other if is_unseen(other) => {}
        other => out.push(other),
    }
    State::Text
}

/// Whether a character acts on the terminal or on the order of what is shown, rather than showing
/// something itself.
fn is_unseen(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            // Marks that turn the direction of what follows; line and paragraph separators;
            // the byte order mark; tags.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
                | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
        )
}

/// The harmless rest of a whole text.
pub(crate) fn clean(text: &str) -> String {
    Cleaner::default().feed(text)
}

/// A text that is to be judged before it is run: nothing is taken out, what cannot be seen is
/// written out instead, so that what is shown is all there is.
pub(crate) fn reveal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => out.push('\n'),
            '\t' => out.push_str(TAB),
            '\r' => out.push_str("\\r"),
            // Also what takes no room at all, or only looks like a blank: it may hide where a word
            // ends.
            other if is_unseen(other) || is_misleading(other) => {
                out.extend(other.escape_unicode());
            }
            other => out.push(other),
        }
    }
    out
}

/// Whether a character shows nothing, or what is taken for a blank and is none.
fn is_misleading(character: char) -> bool {
    (character != ' ' && character.is_whitespace())
        || matches!(
            character,
            '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{2800}'
                | '\u{3164}' | '\u{fe00}'..='\u{fe0d}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// On one line: runs of white space become one blank.
pub(crate) fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(256));
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// How many columns a character takes. Where terminals disagree, the larger one, so that a row is
/// never longer on the screen than it was thought to be.
pub(crate) fn character_width(character: char) -> usize {
    match character {
        // Asks for the picture of the character before it, which may be wider.
        '\u{fe0f}' => 1,
        other => other.width().unwrap_or(0),
    }
}

/// How many columns a text of one line takes.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(character_width).sum()
}

/// How much of `text`, in bytes, fits into `columns`.
pub(crate) fn fitting(text: &str, columns: usize) -> usize {
    let mut used = 0;
    for (at, character) in text.char_indices() {
        used += character_width(character);
        if used > columns {
            return at;
        }
    }
    text.len()
}

/// The beginning of a text, with a mark if it was cut. Never wider than `columns`.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if fitting(text, columns) == text.len() {
        return text.to_owned();
    }
    let kept = fitting(text, columns.saturating_sub(1));
    let mark = if columns == 0 { "" } else { "…" };
    format!("{}{mark}", text.get(..kept).unwrap_or_default())
}

/// The end of a text, with a mark if it was cut. Never wider than `columns`.
pub(crate) fn cut_front(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    if columns == 0 {
        return String::new();
    }
    let mut used = 1;
    let mut from = text.len();
    for (at, character) in text.char_indices().rev() {
        used += character_width(character);
        if used > columns {
            break;
        }
        from = at;
    }
    // What belongs to a character that was cut off does not stand alone.
    let kept = text.get(from..).unwrap_or_default();
    let kept = kept.trim_start_matches(|character| character_width(character) == 0);
    format!("…{kept}")
}

/// The lines of a text, broken at blanks where they are longer than `columns`. A longer word keeps
/// its length.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut row = String::new();
        let mut used = 0;
        for word in line.split(' ') {
            let wide = width(word);
            if used > 0 && used + 1 + wide > columns {
                lines.push(std::mem::take(&mut row));
                used = 0;
            } else if !row.is_empty() || used > 0 {
                row.push(' ');
                used += 1;
            }
            row.push_str(word);
            used += wide;
        }
        lines.push(row);
    }
    lines
}

/// At most `most` bytes of a text, at a character's border.
pub(crate) fn head(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}

/// A count of tokens, short.
pub(crate) fn count(tokens: u64) -> String {
    match tokens {
        0..1_000 => tokens.to_string(),
        1_000..100_000 => tenths(tokens / 100, "k"),
        100_000..1_000_000 => format!("{}k", tokens / 1_000),
        _ => tenths(tokens / 100_000, "M"),
    }
}

fn tenths(tenths: u64, unit: &str) -> String {
    format!("{}.{}{unit}", tenths / 10, tenths % 10)
}

/// Money, in US dollars.
pub(crate) fn money(dollars: f64) -> String {
    if dollars >= 1.0 {
        format!("${dollars:.2}")
    } else {
        format!("${dollars:.4}")
    }
}

/// How long something took.
pub(crate) fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => {
            let millis = duration.as_millis();
            format!("{}.{} s", millis / 1_000, millis % 1_000 / 100)
        }
        10..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// How long something has been going on, in whole seconds: it changes once a second at most.
pub(crate) fn elapsed(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        seconds => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WILD: &str = "a\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7}b \u{1b}]8;;http://x\u{1b}\\c\
                        \u{1b}(Bd\u{7}\u{8}\u{9b}2Je\r\n\tf\u{202e}g";

    #[test]
    fn sequences_go_and_text_stays() {
        assert_eq!(clean(WILD), "ared b cde\n    fg");
    }

    #[test]
    fn pieces_of_any_size_give_the_same() {
        let mut cleaner = Cleaner::default();
        let whole: String = WILD
            .chars()
            .map(|character| cleaner.feed(&character.to_string()))
            .collect();
        assert_eq!(whole, clean(WILD));
    }

    #[test]
    fn a_string_without_an_end_does_not_swallow_the_rest() {
        let text = format!("\u{1b}]0;{}the end", "x".repeat(LONGEST_WORDS));
        assert!(clean(&text).ends_with("e end"));
        assert_eq!(clean("\u{1b}[3\nnext"), "\nnext");
    }

    #[test]
    fn nothing_is_hidden_in_what_is_to_be_judged() {
        assert_eq!(
            reveal("ls\u{1b}[2K\rrm -rf x\u{202e}\u{200b}\n"),
            "ls\\u{1b}[2K\\rrm -rf x\\u{202e}\\u{200b}\n"
        );
    }

    #[test]
    fn wide_characters_count_twice_and_are_never_halved() {
        assert_eq!(width("日本語"), 6);
        assert_eq!(width("e\u{301}"), 1);
        assert_eq!(cut("日本語", 6), "日本語");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("日本語", 1), "…");
        assert_eq!(cut("日本語", 0), "");
        assert_eq!(cut_front("日本語", 5), "…本語");
        assert_eq!(cut_front("日本語", 4), "…語");
        assert_eq!(cut_front("abcdef", 4), "…def");
    }

    #[test]
    fn lines_are_broken_at_blanks() {
        let lines = wrap("one two three\n\n日本 語 overlongword x", 7);
        assert_eq!(
            lines,
            ["one two", "three", "", "日本 語", "overlongword", "x"]
        );
    }

    #[test]
    fn numbers_are_short() {
        let counts = [0, 999, 1_000, 12_345, 123_456, 1_234_567].map(count);
        assert_eq!(counts, ["0", "999", "1.0k", "12.3k", "123k", "1.2M"]);
        let spans = [340, 9_999, 10_000, 61_000, 3_660_000].map(|millis| {
            let duration = Duration::from_millis(millis);
            (span(duration), elapsed(duration))
        });
        assert_eq!(
            spans.map(|(span, elapsed)| format!("{span} {elapsed}")),
            [
                "0.3 s 0s",
                "9.9 s 9s",
                "10 s 10s",
                "1 min 1 s 1m01s",
                "1 h 1 min 1h01m"
            ]
        );
        assert_eq!(money(0.01234), "$0.0123");
        assert_eq!(money(12.345), "$12.35");
    }
}
