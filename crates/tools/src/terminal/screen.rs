//! What a person would see on a terminal.

use std::collections::VecDeque;
use std::num::NonZeroU16;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tooloop_exec::TerminalSize;
use vt100::capture::{BasicFormattedCaptureState, RowContents, basic_formatted_to_plain};
use vt100::{Callbacks, Parser};

/// How many lines that scrolled off are kept until they are shown.
const SCROLLED: usize = 200;

/// How many bytes of answers may wait for a program that does not read them.
const REPLIES: usize = 4096;

/// A screen: what was printed, as it looks now.
pub(super) struct Screen {
    parser: Parser<Notes>,
}

/// What a screen shows at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    /// How many lines scrolled off before those in `scrolled`.
    pub(super) left_out: u64,
    /// The last lines that scrolled off since the last look.
    pub(super) scrolled: Vec<String>,
    /// The screen without blank ends.
    pub(super) lines: Vec<String>,
    /// Row and column, from 1 on.
    pub(super) cursor: (u16, u16),
    pub(super) is_alternate: bool,
}

impl View {
    /// Leaves out the oldest of the lines that scrolled off until all of it has at most so many
    /// characters. The screen itself stays.
    pub(super) fn fit(&mut self, characters: usize) {
        let length = |line: &String| line.chars().count() + 1;
        let mut left = characters.saturating_sub(self.lines.iter().map(length).sum());
        let kept = self.scrolled.iter().rev().take_while(|line| {
            let fits = left.checked_sub(length(line));
            left = fits.unwrap_or(0);
            fits.is_some()
        });
        let gone = self.scrolled.len() - kept.count();
        self.scrolled.drain(..gone);
        self.left_out += gone as u64;
    }
}

/// What the parser tells beside the screen.
#[derive(Default)]
struct Notes {
    scrolled: VecDeque<String>,
    left_out: u64,
    replies: Vec<u8>,
}

impl Screen {
    pub(super) fn new(size: TerminalSize) -> Self {
        let (rows, columns) = numbers(size);
        Self {
            parser: Parser::new_with_callbacks(rows, columns, 0, Notes::default()),
        }
    }

    /// Takes what was printed, and gives what is to be answered to it.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        let parser = &mut self.parser;
        // It is fed by programs of any kind: should it fail at one, that is no end of the session.
        if catch_unwind(AssertUnwindSafe(|| parser.process(bytes))).is_err() {
            let (rows, columns) = self.parser.screen().size();
            let notes = std::mem::take(self.parser.callbacks_mut());
            self.parser = Parser::new_with_callbacks(rows, columns, 0, notes);
        }
        std::mem::take(&mut self.parser.callbacks_mut().replies)
    }

    pub(super) fn resize(&mut self, size: TerminalSize) {
        let (rows, columns) = numbers(size);
        self.parser.set_size(rows, columns);
    }

    pub(super) fn application_cursor(&self) -> bool {
        self.parser.screen().application_cursor()
    }

    /// What is to be seen. What scrolled off is given once.
    pub(super) fn look(&mut self) -> View {
        let notes = self.parser.callbacks_mut();
        let left_out = std::mem::take(&mut notes.left_out);
        let scrolled = std::mem::take(&mut notes.scrolled).into();
        let screen = self.parser.screen();
        let (_, columns) = screen.size();
        let mut lines: Vec<String> = screen
            .rows(0, columns.get())
            .map(|line| line.trim_end().to_owned())
            .collect();
        while lines.pop_if(|line| line.is_empty()).is_some() {}
        let (row, column) = screen.cursor_position();
        View {
            left_out,
            scrolled,
            lines,
            cursor: (row.saturating_add(1), column.saturating_add(1)),
            is_alternate: screen.alternate_screen(),
        }
    }
}

fn numbers(size: TerminalSize) -> (NonZeroU16, NonZeroU16) {
    let number = |number| NonZeroU16::new(number).unwrap_or(NonZeroU16::MIN);
    (number(size.rows), number(size.columns))
}

impl Notes {
    fn reply(&mut self, reply: &str) {
        if self.replies.len() + reply.len() <= REPLIES {
            self.replies.extend_from_slice(reply.as_bytes());
        }
    }
}

impl Callbacks for Notes {
    fn on_scroll(&mut self, contents: RowContents<'_>, alternate_screen: bool) {
        if alternate_screen {
            return;
        }
        let mut line = String::new();
        // Writing to a string does not fail.
        contents
            .write_formatted_basic(&mut line, &mut BasicFormattedCaptureState::new())
            .unwrap_or_default();
        let plain: String = basic_formatted_to_plain(&line).collect();
        if self.scrolled.len() >= SCROLLED {
            self.scrolled.pop_front();
            self.left_out += 1;
        }
        self.scrolled.push_back(plain.trim_end().to_owned());
    }

    /// Questions about the terminal. Who asks waits for an answer.
    fn unhandled_csi(
        &mut self,
        screen: &mut vt100::Screen,
        first: Option<u8>,
        second: Option<u8>,
        parameters: &[&[u16]],
        last: char,
    ) {
        let parameter = parameters.first().and_then(|part| part.first()).copied();
        let parameter = parameter.unwrap_or(0);
        let (row, column) = screen.cursor_position();
        let (row, column) = (row.saturating_add(1), column.saturating_add(1));
        match (first, second, last, parameter) {
            (None, None, 'c', 0) => self.reply("\x1b[?62;22c"),
            (Some(b'>'), None, 'c', 0) => self.reply("\x1b[>1;10;0c"),
            (None, None, 'n', 5) => self.reply("\x1b[0n"),
            (None, None, 'n', 6) => self.reply(&format!("\x1b[{row};{column}R")),
            (Some(b'?'), None, 'n', 6) => self.reply(&format!("\x1b[?{row};{column}R")),
            (None, None, 't', 18) => {
                let (rows, columns) = screen.size();
                self.reply(&format!("\x1b[8;{rows};{columns}t"));
            }
            // Which modes there are: none that it asks for.
            (Some(b'?'), Some(b'$'), 'p', mode) => self.reply(&format!("\x1b[?{mode};0$y")),
            _ => {}
        }
    }

    fn unhandled_osc(&mut self, _: &mut vt100::Screen, parameters: &[&[u8]]) {
        match parameters {
            [b"10", b"?"] => self.reply("\x1b]10;rgb:e5e5/e5e5/e5e5\x1b\\"),
            [b"11", b"?"] => self.reply("\x1b]11;rgb:0000/0000/0000\x1b\\"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: TerminalSize = TerminalSize {
        rows: 3,
        columns: 10,
    };

    fn lines(view: &View) -> Vec<&str> {
        view.lines.iter().map(String::as_str).collect()
    }

    #[test]
    fn what_is_seen() {
        let mut screen = Screen::new(SIZE);
        screen.feed(b"\x1b[31mred\x1b[0m  \r\nabcdefghijkl\r");
        let view = screen.look();
        assert_eq!(lines(&view), ["red", "abcdefghij", "kl"]);
        assert_eq!(view.cursor, (3, 1));
        assert!(!view.is_alternate);
        screen.feed("\x1b[2J\x1b[2;3H\u{65e5}\u{672c}e\u{301}".as_bytes());
        let view = screen.look();
        assert_eq!(lines(&view), ["", "  \u{65e5}\u{672c}e\u{301}"]);
        // Wide characters take two columns.
        assert_eq!(view.cursor, (2, 8));
        screen.feed(b"\x1b[?1049h\x1b[Hfull");
        let view = screen.look();
        assert_eq!(lines(&view), ["full"]);
        assert!(view.is_alternate);
        screen.feed(b"\x1b[?1049l");
        assert_eq!(lines(&screen.look()).len(), 2);
    }

    #[test]
    fn what_scrolls_off_is_given_once_and_bounded() {
        let mut screen = Screen::new(SIZE);
        screen.feed(b"1\r\n2\r\n\x1b[7m3\x1b[0m\r\n4\r\n5");
        let view = screen.look();
        assert_eq!(view.scrolled, ["1", "2"]);
        assert_eq!(lines(&view), ["3", "4", "5"]);
        assert_eq!(screen.look().scrolled, [""; 0]);
        for number in 6..1000 {
            screen.feed(format!("\r\n{number}").as_bytes());
        }
        let view = screen.look();
        assert_eq!(view.scrolled.len(), SCROLLED);
        assert_eq!(view.left_out, 994 - SCROLLED as u64);
        assert_eq!(view.scrolled.last().unwrap(), "996");
        let mut short = view.clone();
        short.fit(4 * 3 + 4 * 5 + 3);
        assert_eq!(short.scrolled, view.scrolled[SCROLLED - 5..]);
        assert_eq!(short.left_out, 989);
        assert_eq!(short.lines, view.lines);
        // What a full screen program scrolls is not history.
        screen.feed(b"\x1b[?1049ha\r\nb\r\nc\r\nd\r\ne");
        assert_eq!(screen.look().scrolled, [""; 0]);
    }

    #[test]
    fn questions_are_answered() {
        let mut screen = Screen::new(SIZE);
        for (asked, answer) in [
            (&b"\x1b[c"[..], &b"\x1b[?62;22c"[..]),
            (b"\x1b[0c", b"\x1b[?62;22c"),
            (b"\x1b[>c", b"\x1b[>1;10;0c"),
            (b"\x1b[2;4H\x1b[6n", b"\x1b[2;4R"),
            (b"\x1b[?6n", b"\x1b[?2;4R"),
            (b"\x1b[5n", b"\x1b[0n"),
            (b"\x1b[18t", b"\x1b[8;3;10t"),
            (b"\x1b[?2026$p", b"\x1b[?2026;0$y"),
            (b"\x1b]10;?\x07", b"\x1b]10;rgb:e5e5/e5e5/e5e5\x1b\\"),
            (b"\x1b]11;?\x1b\\", b"\x1b]11;rgb:0000/0000/0000\x1b\\"),
            (b"plain", b""),
            (b"\x1b]11;#000\x07", b""),
        ] {
            let given = screen.feed(asked);
            assert_eq!(
                String::from_utf8_lossy(&given),
                String::from_utf8_lossy(answer),
                "{asked:?}"
            );
        }
        let many = b"\x1b[6n".repeat(10_000);
        assert!(screen.feed(&many).len() <= REPLIES);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_in_any_pieces(
            pieces in proptest::collection::vec(piece(), 0..40),
            sizes in proptest::collection::vec((1_u16..30, 1_u16..30), 1..4),
        ) {
            let mut screen = Screen::new(SIZE);
            for (number, piece) in pieces.iter().enumerate() {
                screen.feed(piece);
                if number % 7 == 0 {
                    let (rows, columns) = sizes[number / 7 % sizes.len()];
                    screen.resize(TerminalSize { rows, columns });
                }
            }
            let view = screen.look();
            for line in view.lines.iter().chain(&view.scrolled) {
                assert!(!line.contains(char::is_control), "{line:?}");
            }
        }
    }

    fn piece() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
        use proptest::prelude::*;
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..20),
            "[ -~\u{e9}\u{65e5}\u{301}\u{1f600}\n\r\t]{0,12}".prop_map(String::into_bytes),
            "\u{1b}\\[[?>!]?[0-9]{0,5}(;[0-9]{0,5}){0,2}[ $]?[@-~]".prop_map(String::into_bytes),
        ]
    }
}
