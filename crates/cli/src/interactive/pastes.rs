//! Ends pastes that the terminal does not end.
//!
//! A terminal that supports bracketed paste sends a paste between two marks. If the second mark is
//! lost, all keys would be part of the paste for ever. Here such a paste ends after a pause or with
//! Ctrl-C, and its text is kept. Pure: it gets bytes and returns bytes.

const START: &[u8] = b"\x1b[200~";
const END: &[u8] = b"\x1b[201~";
const CONTROL_C: u8 = 3;

/// What the bytes of the keyboard are part of.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Keys,
    Paste,
    /// Keys, after a paste whose end has not come. A piece of several lines is the rest of it.
    Unfinished,
}

/// The filter between the terminal and the reader of keys.
#[derive(Debug, Default)]
pub(super) struct Pastes {
    state: State,
    /// The last bytes, as far as they may be the beginning of a mark. Among keys they are passed on
    /// at once; in a paste they are held back.
    mark: Vec<u8>,
}

impl Pastes {
    /// Whether a paste has begun and not ended.
    pub(super) fn is_open(&self) -> bool {
        self.state == State::Paste
    }

    /// Passes on the next bytes, which were read at once.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len() + START.len() + END.len());
        if self.state == State::Unfinished {
            let is_rest = contains(bytes, END)
                || bytes.len() > 1 && bytes.iter().any(|byte| matches!(byte, b'\r' | b'\n'));
            if is_rest && !bytes.starts_with(START) {
                self.state = State::Paste;
                self.mark.clear();
                out.extend_from_slice(START);
            } else if bytes == b"\r" {
                self.state = State::Keys;
            }
        }
        let (last, before) = match bytes.split_last() {
            Some((&CONTROL_C, before)) => (true, before),
            _ => (false, bytes),
        };
        for &byte in before {
            self.byte(byte, &mut out);
        }
        if last && self.is_open() {
            self.end(&mut out);
        } else if last {
            self.byte(CONTROL_C, &mut out);
        }
        out
    }

    /// Ends the paste that is open: nothing has come for a while.
    pub(super) fn pause(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.is_open() {
            self.end(&mut out);
        }
        out
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        // The beginning of a mark is no text.
        self.mark.clear();
        out.extend_from_slice(END);
        self.state = State::Unfinished;
    }

    fn byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        let is_paste = self.is_open();
        self.mark.push(byte);
        if START.starts_with(&self.mark) || is_paste && END.starts_with(&self.mark) {
            if !is_paste {
                out.push(byte);
            }
            if self.mark == START {
                // In a paste a second beginning is dropped.
                self.state = State::Paste;
                self.mark.clear();
            } else if is_paste && self.mark == END {
                out.extend_from_slice(END);
                self.state = State::Keys;
                self.mark.clear();
            }
            return;
        }
        // No mark: what was held back is text, and only this byte may begin another one.
        self.mark.pop();
        if is_paste {
            out.append(&mut self.mark);
        }
        self.mark.clear();
        if START.first() == Some(&byte) {
            self.mark.push(byte);
            if is_paste {
                return;
            }
        }
        out.push(byte);
    }
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes out of pieces; `None` is a pause.
    fn passed(pieces: &[Option<&str>]) -> String {
        let mut pastes = Pastes::default();
        let mut out = Vec::new();
        for piece in pieces {
            out.extend(match piece {
                Some(piece) => pastes.feed(piece.as_bytes()),
                None => pastes.pause(),
            });
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn whole_pastes_and_keys_pass_as_they_are() {
        for text in [
            "abc\r",
            "\u{1b}",
            "\u{1b}[A\u{1b}[1;5C\u{3}",
            "\u{1b}[200~one\rtwo\u{1b}[201~x",
            "\u{1b}[200~\u{1b}[31mred\u{1b}[0m\u{1b}[201~",
            "\u{1b}[200~\u{1b}\u{1b}[2\u{1b}[201~\u{1b}[200~b\u{1b}[201~",
            "\u{1b}\u{1b}[200~a\u{3}b\u{1b}[201~\u{3}",
        ] {
            assert_eq!(passed(&[Some(text)]), text, "{text:?}");
            let single: Vec<String> = text.chars().map(|one| one.to_string()).collect();
            // A Ctrl-C that comes alone within a paste ends it.
            if !text.contains("a\u{3}b") {
                let single: Vec<_> = single.iter().map(|one| Some(one.as_str())).collect();
                assert_eq!(passed(&single), text, "{text:?}");
            }
        }
        // An Escape key is not held back.
        assert_eq!(passed(&[Some("\u{1b}"), None, Some("x")]), "\u{1b}x");
    }

    #[test]
    fn an_unclosed_paste_ends_and_keeps_its_text() {
        const OPEN: &str = "\u{1b}[200~never closed";
        const CLOSED: &str = "\u{1b}[200~never closed\u{1b}[201~";
        for (pieces, expected) in [
            (&[Some(OPEN), None][..], CLOSED.to_owned()),
            (&[Some(OPEN), Some("\u{3}")], CLOSED.into()),
            (
                &[Some(OPEN), Some("\u{3}"), Some("\u{3}")],
                format!("{CLOSED}\u{3}"),
            ),
            (
                &[Some(OPEN), None, None, Some("\u{3}")],
                format!("{CLOSED}\u{3}"),
            ),
            (
                &[Some(OPEN), None, Some("\r"), Some("a\rb")],
                format!("{CLOSED}\ra\rb"),
            ),
            // The end that comes late is none, and what comes with it is part of the paste.
            (
                &[Some(OPEN), None, Some(" a\rb\u{1b}[201~c")],
                format!("{CLOSED}\u{1b}[200~ a\rb\u{1b}[201~c"),
            ),
            (
                &[Some(OPEN), None, Some("a\rb"), None, Some("x")],
                format!("{CLOSED}\u{1b}[200~a\rb\u{1b}[201~x"),
            ),
            (&[Some(OPEN), Some("\u{1b}[20"), None], CLOSED.into()),
            (&[Some(OPEN), Some("\u{1b}[20"), Some("1~")], CLOSED.into()),
            (
                &[Some("\u{1b}[200~never \u{1b}[200~closed"), None],
                CLOSED.into(),
            ),
            (
                &[Some(OPEN), None, Some(OPEN), Some("\u{1b}[201~")],
                format!("{CLOSED}{CLOSED}"),
            ),
        ] {
            assert_eq!(passed(pieces), expected, "{pieces:?}");
        }
    }
}
