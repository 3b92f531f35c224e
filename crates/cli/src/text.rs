//! Text made fit for a terminal: harmless, measured, cut.
//!
//! What a model, a tool or a journal says may hold anything. Nothing of it reaches the screen that
//! has not gone through [`Cleaner`], [`clean`] or [`reveal`]. Knows nothing of what the text means.

use std::borrow::Cow;
use std::time::Duration;

use unicode_width::UnicodeWidthChar;

/// Takes control characters and whole escape sequences out of a text that comes in pieces; a
/// sequence may be cut anywhere. Line ends and tabs (as blanks) stay. What begins like a sequence
/// and does not end like one is text and stays.
#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    state: State,
    /// The characters of the sequence so far that are text if it does not end.
    held: String,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC, or in a sequence that ends with its first letter or digit.
    Escape,
    /// In a sequence that ends with a letter.
    Sequence,
    /// In a control string (a title, a link) that ends with ESC `\`, a title also with BEL.
    Words { title: bool },
    /// After the ESC that may end a control string.
    WordsEscape,
}

/// The longest control string, in bytes. A longer one is text, and so is one that does not end
/// within its line.
const LONGEST_WORDS: usize = 2_200;

/// The longest control sequence. A longer one is text.
const LONGEST_SEQUENCE: usize = 64;

/// The most intermediate characters after an ESC.
const MOST_INTERMEDIATE: usize = 3;

/// What a tab becomes: the screen cannot know at which column the text begins.
const TAB: &str = "    ";

impl Cleaner {
    /// The harmless rest of the next piece.
    pub(crate) fn feed(&mut self, piece: &str) -> String {
        let mut out = String::with_capacity(piece.len());
        for character in piece.chars() {
            self.step(character, &mut out);
        }
        out
    }

    /// The text that is still held back, at the end of the last piece.
    pub(crate) fn finish(&mut self) -> String {
        let mut out = String::new();
        match self.state {
            State::Words { .. } | State::WordsEscape => self.release(&mut out),
            State::Text | State::Escape | State::Sequence => self.turn_to(State::Text),
        }
        out
    }

    fn turn_to(&mut self, state: State) {
        self.state = state;
        self.held.clear();
    }

    /// What was read as a sequence is none: its characters are text.
    fn release(&mut self, out: &mut String) {
        let held = std::mem::take(&mut self.held);
        self.turn_to(State::Text);
        for character in held.chars() {
            plain(character, out);
        }
    }

    fn step(&mut self, character: char, out: &mut String) {
        let held = self.held.len();
        match (self.state, character) {
            (State::Text, _) => match begins(character) {
                Some(state) => self.turn_to(state),
                None => plain(character, out),
            },
            (State::Escape, '[') if held == 0 => self.turn_to(State::Sequence),
            (State::Escape, ']') if held == 0 => self.turn_to(State::Words { title: true }),
            (State::Escape, 'P' | 'X' | '^' | '_') if held == 0 => {
                self.turn_to(State::Words { title: false });
            }
            (State::Escape, ' '..='/') if held < MOST_INTERMEDIATE => self.held.push(character),
            (State::Escape, '0'..='~') => self.turn_to(State::Text),
            (State::Escape | State::Sequence, '\u{1b}') => self.turn_to(State::Escape),
            // A parameter after an intermediate character is none.
            (State::Sequence, ' '..='?')
                if held < LONGEST_SEQUENCE
                    && (character < '0' || self.held.chars().all(|held| held >= '0')) =>
            {
                self.held.push(character);
            }
            (State::Sequence, '@'..='~')
            | (State::Words { .. }, '\u{9c}')
            | (State::Words { title: true }, '\u{7}')
            | (State::WordsEscape, '\\') => self.turn_to(State::Text),
            (State::Words { .. }, '\u{1b}') => self.state = State::WordsEscape,
            (State::Words { .. }, _)
                if held < LONGEST_WORDS && !matches!(character, '\n' | '\u{18}' | '\u{1a}') =>
            {
                self.held.push(character);
            }
            (State::WordsEscape, _) => {
                self.release(out);
                self.state = State::Escape;
                self.step(character, out);
            }
            // Only parameters are lost of a sequence that another character breaks off.
            (State::Sequence, character) if !(' '..='?').contains(&character) => {
                self.turn_to(State::Text);
                self.step(character, out);
            }
            (State::Escape | State::Sequence | State::Words { .. }, _) => {
                self.release(out);
                self.step(character, out);
            }
        }
    }
}

/// The state after a character that begins a sequence.
const fn begins(character: char) -> Option<State> {
    match character {
        '\u{1b}' => Some(State::Escape),
        '\u{9b}' => Some(State::Sequence),
        '\u{9d}' => Some(State::Words { title: true }),
        '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => Some(State::Words { title: false }),
        _ => None,
    }
}

/// One character that is no part of a sequence.
fn plain(character: char, out: &mut String) {
    match character {
        '\t' => out.push_str(TAB),
        '\n' | '\u{2028}' | '\u{2029}' => out.push('\n'),
        other if is_unseen(other) => {}
        other => out.push(other),
    }
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
    let mut cleaner = Cleaner::default();
    let mut clean = cleaner.feed(text);
    clean.push_str(&cleaner.finish());
    clean
}

/// A text for a terminal, of which nothing is taken out: what acts on the terminal or turns the
/// direction of text is written out. Line ends and tabs stay.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    let acts = |character: char| is_unseen(character) && !matches!(character, '\n' | '\t');
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 32);
    for character in text.chars() {
        match character {
            '\r' => out.push_str("\\r"),
            other if acts(other) => out.extend(other.escape_unicode()),
            other => out.push(other),
        }
    }
    Cow::Owned(out)
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
    fn an_unfinished_sequence_hides_no_text() {
        let openers = ["\u{1b}P", "\u{1b}]", "\u{1b}_", "\u{1b}^", "\u{1b}X"];
        let single = ["\u{90}", "\u{98}", "\u{9d}", "\u{9e}", "\u{9f}"];
        for opener in openers.into_iter().chain(single) {
            for (rest, expected) in [
                ("open\n\nlast", "open\n\nlast"),
                ("open", "open"),
                ("open\u{1b}", "open"),
                ("open\u{1b}[1mbold", "openbold"),
                ("open\u{18}last", "openlast"),
                ("o\tp\u{90}en\n", "o    pen\n"),
                ("title\u{1b}\\last", "last"),
                ("title\u{9c}last", "last"),
            ] {
                let text = format!("first {opener}{rest}");
                assert_eq!(clean(&text), format!("first {expected}"), "{text:?}");
                let mut cleaner = Cleaner::default();
                let mut pieces: String = text
                    .chars()
                    .map(|character| cleaner.feed(&character.to_string()))
                    .collect();
                pieces.push_str(&cleaner.finish());
                assert_eq!(pieces, format!("first {expected}"), "{text:?}");
            }
            let long = "x".repeat(5_000);
            assert_eq!(
                clean(&format!("{opener}{long}\u{1b}\\!")),
                format!("{long}!")
            );
            let link = "x".repeat(2_083);
            assert_eq!(clean(&format!("{opener}{link}\u{1b}\\!")), "!");
        }
        for (text, expected) in [
            ("\u{1b}[3\nnext", "\nnext"),
            ("\u{1b}[12 34 text", "12 34 text"),
            ("\u{9b}日本", "日本"),
            ("\u{1b}日本", "日本"),
            ("\u{1b}      text", "      text"),
        ] {
            assert_eq!(clean(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_terminal_shows_control_characters_as_marks() {
        assert_eq!(
            visible("a\tb\n日本 👩\u{200d}🚀"),
            "a\tb\n日本 👩\u{200d}🚀"
        );
        assert_eq!(
            visible("a\u{1b}[2J\r\u{9b}\u{7f}\u{202e}\u{7}b"),
            "a\\u{1b}[2J\\r\\u{9b}\\u{7f}\\u{202e}\\u{7}b"
        );
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
