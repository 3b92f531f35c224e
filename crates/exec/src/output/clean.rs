//! Makes the output of a command harmless, byte by byte.
//!
//! What comes out is what a terminal would finally show of it, as plain text: no escape sequences,
//! no control characters but line feed and tab, lines that were overwritten by a carriage return
//! in their last form, and bytes that are no text spelt out. The cleaner keeps what straddles two
//! reads, so the result does not depend on how the bytes were cut.

use std::fmt::Write as _;

use memchr::{memchr, memrchr};

use super::window::Window;

/// The longest line that a carriage return can still overwrite. A longer one is passed on, and a
/// carriage return in it becomes a line feed.
const LINE: usize = 4096;

/// The longest control sequence. A longer one is text.
const SEQUENCE: usize = 64;

/// The longest escape sequence with intermediate bytes. A longer one is text.
const INTERMEDIATES: usize = 3;

/// The longest control string (a title, a link), in bytes. A longer one is text, and so is one that
/// does not end within its line.
const CONTROL_STRING: usize = 2_200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ground,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate byte.
    Intermediate,
    /// In a control sequence, ESC `[`.
    Sequence,
    /// In a control string: ESC `]` and its like.
    ControlString {
        title: bool,
    },
    /// In a control string, after ESC.
    StringEscape,
}

/// The state between two reads.
#[derive(Debug)]
pub(crate) struct Cleaner {
    state: State,
    /// The start of a character whose rest has not come yet.
    partial: Vec<u8>,
    /// The bytes of the sequence being read that are text if the sequence does not end.
    held: Vec<u8>,
    /// The line being written, up to the cursor.
    line: String,
    /// What an earlier text left on the line; the new one covers its start.
    under: String,
    /// The cursor went back to the start of the line.
    carriage: bool,
    /// The line grew too long and is passed on as it comes.
    passed_on: bool,
    odd: u64,
}

impl Cleaner {
    pub(crate) const fn new() -> Self {
        Self {
            state: State::Ground,
            partial: Vec::new(),
            held: Vec::new(),
            line: String::new(),
            under: String::new(),
            carriage: false,
            passed_on: false,
            odd: 0,
        }
    }

    /// How many bytes so far were no text.
    pub(crate) const fn odd(&self) -> u64 {
        self.odd
    }

    /// The line being written, as a terminal would show it.
    pub(crate) fn current_line(&self) -> String {
        laid_over(&self.line, &self.under)
    }

    /// Takes the next bytes.
    pub(crate) fn feed(&mut self, bytes: &[u8], window: &mut Window) {
        let mut rest = bytes;
        while let Some((&first, after)) = rest.split_first() {
            if self.state != State::Ground {
                if self.escape(first, window) {
                    rest = after;
                }
                continue;
            }
            let run = plain_run(rest);
            if run > 0 {
                let (plain, after) = rest.split_at(run);
                self.text(plain, window);
                rest = after;
            } else {
                self.control(first, window);
                rest = after;
            }
        }
    }

    /// Passes on what is left at the end of the output.
    pub(crate) fn finish(&mut self, window: &mut Window) {
        if matches!(
            self.state,
            State::ControlString { .. } | State::StringEscape
        ) {
            self.release(window);
        }
        self.spell_partial(window);
        window.push(&self.current_line());
        self.line.clear();
        self.under.clear();
    }

    /// What was read as a sequence is none: its bytes are text.
    fn release(&mut self, window: &mut Window) {
        self.state = State::Ground;
        let held = std::mem::take(&mut self.held);
        // No escape is among them, so the state stays.
        self.feed(&held, window);
    }

    /// One control byte in the open.
    fn control(&mut self, byte: u8, window: &mut Window) {
        self.spell_partial(window);
        match byte {
            0x1b => self.state = State::Escape,
            b'\r' => self.carriage = true,
            0x08 if !self.carriage && !self.passed_on => {
                self.line.pop();
            }
            // Backspace elsewhere, bell, shift out and in: nothing to see.
            0x07 | 0x08 | 0x0e | 0x0f => {}
            other => self.spell(&[other], window),
        }
    }

    /// One byte of an escape sequence; `false` if it is not part of it and is to be read again.
    fn escape(&mut self, byte: u8, window: &mut Window) -> bool {
        let next = match (self.state, byte) {
            (State::Escape, b'[') => Some(State::Sequence),
            (State::Escape, b']') => Some(State::ControlString { title: true }),
            (State::Escape, b'P' | b'X' | b'^' | b'_') => {
                Some(State::ControlString { title: false })
            }
            (State::Escape | State::Intermediate, 0x20..=0x2f)
                if self.held.len() < INTERMEDIATES =>
            {
                self.held.push(byte);
                self.state = State::Intermediate;
                return true;
            }
            (State::Escape | State::Intermediate, 0x30..=0x7e) => Some(State::Ground),
            (State::Escape | State::Intermediate | State::Sequence, 0x1b) => Some(State::Escape),
            // A parameter after an intermediate byte is none.
            (State::Sequence, 0x20..=0x3f)
                if self.held.len() < SEQUENCE
                    && (byte < 0x30 || self.held.iter().all(|held| *held >= 0x30)) =>
            {
                self.held.push(byte);
                return true;
            }
            (State::Sequence, 0x40..=0x7e) => {
                self.sequence(byte);
                Some(State::Ground)
            }
            (State::ControlString { .. }, 0x1b) => {
                self.state = State::StringEscape;
                return true;
            }
            (State::ControlString { title: true }, 0x07) | (State::StringEscape, b'\\') => {
                Some(State::Ground)
            }
            (State::ControlString { .. }, _)
                if self.held.len() < CONTROL_STRING && !matches!(byte, b'\n' | 0x18 | 0x1a) =>
            {
                self.held.push(byte);
                return true;
            }
            // Only parameters are lost of a sequence that another byte breaks off.
            (State::Sequence, byte) if !(0x20..=0x3f).contains(&byte) => {
                self.held.clear();
                None
            }
            _ => None,
        };
        if let Some(next) = next {
            self.state = next;
            self.held.clear();
            return true;
        }
        let is_escaped = self.state == State::StringEscape;
        self.release(window);
        if is_escaped {
            self.state = State::Escape;
        }
        false
    }

    /// The few sequences that say what is finally seen of a line.
    fn sequence(&mut self, last: u8) {
        match (last, self.held.as_slice()) {
            (b'G', b"" | b"0" | b"1") => self.carriage = true,
            (b'K', b"" | b"0") if self.carriage => self.erase_line(),
            (b'K', b"" | b"0") => self.under.clear(),
            (b'K', b"2") => self.erase_line(),
            _ => {}
        }
    }

    fn erase_line(&mut self) {
        if !self.passed_on {
            self.line.clear();
            self.under.clear();
            self.carriage = false;
        }
    }

    /// A run of bytes that are no control bytes.
    fn text(&mut self, bytes: &[u8], window: &mut Window) {
        let mut rest = bytes;
        while !self.partial.is_empty() {
            let Some((&first, after)) = rest.split_first() else {
                return;
            };
            if first & 0xc0 != 0x80 {
                self.spell_partial(window);
                break;
            }
            rest = after;
            self.partial.push(first);
            let partial = std::mem::take(&mut self.partial);
            match std::str::from_utf8(&partial) {
                Ok(text) => self.characters(text, window),
                Err(error) if error.error_len().is_some() => self.spell(&partial, window),
                Err(_) => self.partial = partial,
            }
        }
        while !rest.is_empty() {
            let error = match std::str::from_utf8(rest) {
                Ok(text) => return self.characters(text, window),
                Err(error) => error,
            };
            let (good, bad) = rest.split_at(error.valid_up_to());
            if let Ok(text) = std::str::from_utf8(good) {
                self.characters(text, window);
            }
            let Some(length) = error.error_len() else {
                self.partial.extend_from_slice(bad);
                return;
            };
            let (wrong, after) = bad.split_at(length);
            self.spell(wrong, window);
            rest = after;
        }
    }

    /// Text, in which the control characters above ASCII may still be.
    fn characters(&mut self, text: &str, window: &mut Window) {
        let mut rest = text;
        while memchr(0xc2, rest.as_bytes()).is_some() {
            let Some(at) = rest.find(|c| ('\u{80}'..='\u{9f}').contains(&c)) else {
                break;
            };
            let (before, after) = rest.split_at(at);
            self.print(before, window);
            let mut characters = after.chars();
            if let Some(character) = characters.next() {
                self.odd += 1;
                self.print(&character.escape_unicode().to_string(), window);
            }
            rest = characters.as_str();
        }
        self.print(rest, window);
    }

    fn spell(&mut self, bytes: &[u8], window: &mut Window) {
        let mut spelt = String::with_capacity(bytes.len() * 4);
        for byte in bytes {
            self.odd += 1;
            // Writing to a string does not fail.
            write!(spelt, "\\x{byte:02x}").unwrap_or_default();
        }
        self.print(&spelt, window);
    }

    fn spell_partial(&mut self, window: &mut Window) {
        if !self.partial.is_empty() {
            let partial = std::mem::take(&mut self.partial);
            self.spell(&partial, window);
        }
    }

    /// Harmless text, put where the cursor stands.
    fn print(&mut self, text: &str, window: &mut Window) {
        if text.is_empty() {
            return;
        }
        if self.carriage {
            self.carriage = false;
            if !text.starts_with('\n') {
                self.return_to_start(window);
            }
        }
        let mut rest = text;
        if !self.under.is_empty() {
            let Some((first, after)) = rest.split_once('\n') else {
                self.line.push_str(rest);
                return self.bound_line(window);
            };
            self.line.push_str(first);
            self.bound_line(window);
            window.push(&self.current_line());
            window.push("\n");
            self.line.clear();
            self.under.clear();
            self.passed_on = false;
            rest = after;
        }
        if let Some(at) = memrchr(b'\n', rest.as_bytes()) {
            let (lines, last) = rest.split_at(at + 1);
            window.push(&self.line);
            window.push(lines);
            self.line.clear();
            self.passed_on = false;
            rest = last;
        }
        if self.passed_on {
            window.push(rest);
        } else {
            self.line.push_str(rest);
            self.bound_line(window);
        }
    }

    fn return_to_start(&mut self, window: &mut Window) {
        if self.passed_on {
            window.push("\n");
            self.passed_on = false;
        } else {
            self.under = self.current_line();
        }
        self.line.clear();
    }

    fn bound_line(&mut self, window: &mut Window) {
        if self.line.len() > LINE {
            window.push(&self.line);
            self.line.clear();
            self.under.clear();
            self.passed_on = true;
        }
    }
}

/// What is seen of a line when `over` was written from its start on over `under`.
fn laid_over(over: &str, under: &str) -> String {
    let mut line = String::from(over);
    line.extend(under.chars().skip(over.chars().count()));
    line
}

/// How many bytes at the start are no control bytes (line feed and tab are none here).
fn plain_run(bytes: &[u8]) -> usize {
    const BLOCK: usize = 64;
    let is_plain = |byte: &u8| (*byte >= 0x20 && *byte != 0x7f) || *byte == b'\n' || *byte == b'\t';
    let mut run = 0;
    for block in bytes.chunks(BLOCK) {
        // Without an early exit, so that it is done many bytes at a time.
        if block
            .iter()
            .fold(true, |plain, byte| plain & is_plain(byte))
        {
            run += block.len();
        } else {
            run += block.iter().take_while(|byte| is_plain(byte)).count();
            break;
        }
    }
    run
}
