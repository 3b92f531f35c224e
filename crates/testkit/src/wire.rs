//! How an event stream is spelled and cut on its way: the legal forms that are not the usual form.
//!
//! A [`Wire`] changes the bytes of a whole reply without knowing what they say: other line ends, no space after a
//! colon, a byte order mark, one JSON value over two lines; and where one write ends and the next begins.

/// How the body of a reply is spelled and cut. The default sends each step as it is, in one write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wire {
    /// What ends a line.
    pub newline: Newline,
    /// Leaves out the space after the colon of a field.
    pub no_space: bool,
    /// Sends a UTF-8 byte order mark first.
    pub byte_order_mark: bool,
    /// Spreads each JSON value over two `data` lines.
    pub split_data: bool,
    /// Where writes end.
    pub cuts: Cuts,
}

/// What ends a line of an event stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Newline {
    /// A line feed.
    #[default]
    Lf,
    /// Carriage return and line feed.
    CrLf,
    /// A lone carriage return.
    Cr,
}

/// Where one write (and with it one chunk of the response) ends and the next begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cuts {
    /// After each step.
    #[default]
    Steps,
    /// Nowhere between steps that follow each other: as few writes as can be.
    Nowhere,
    /// After every so many bytes; 1 writes byte by byte.
    Every(usize),
    /// At these offsets into the body.
    At(Vec<usize>),
    /// Inside each character that has more than one byte, before each of its later bytes, and nowhere else.
    InsideChars,
    /// Between each carriage return and its line feed, and nowhere else.
    InsideCrLf,
}

impl Wire {
    /// Ends lines with `newline`.
    #[must_use]
    pub fn newline(mut self, newline: Newline) -> Self {
        self.newline = newline;
        self
    }

    /// Leaves out the space after the colon of a field.
    #[must_use]
    pub fn no_space(mut self) -> Self {
        self.no_space = true;
        self
    }

    /// Sends a UTF-8 byte order mark first.
    #[must_use]
    pub fn byte_order_mark(mut self) -> Self {
        self.byte_order_mark = true;
        self
    }

    /// Spreads each JSON value over two `data` lines.
    #[must_use]
    pub fn split_data(mut self) -> Self {
        self.split_data = true;
        self
    }

    /// Ends writes where `cuts` says.
    #[must_use]
    pub fn cuts(mut self, cuts: Cuts) -> Self {
        self.cuts = cuts;
        self
    }

    /// Writes byte by byte.
    pub fn bytewise() -> Self {
        Self::default().cuts(Cuts::Every(1))
    }
}

/// Spells and cuts the bytes of one body, step by step.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    wire: &'a Wire,
    at_line_start: bool,
    started: bool,
    /// Bytes handed out so far.
    offset: usize,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(wire: &'a Wire) -> Self {
        Self {
            wire,
            at_line_start: true,
            started: false,
            offset: 0,
        }
    }

    /// Gives the writes that carry `bytes`, none of them empty.
    pub(crate) fn writes(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut spelled = Vec::with_capacity(bytes.len());
        if !self.started && self.wire.byte_order_mark {
            spelled.extend_from_slice(b"\xef\xbb\xbf");
        }
        self.started = true;
        self.spell(bytes, &mut spelled);
        let start = self.offset;
        self.offset += spelled.len();
        cut(&spelled, start, &self.wire.cuts)
    }

    fn spell(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (mut text, ended) = match line.strip_suffix(b"\n") {
                Some(text) => (text.strip_suffix(b"\r").unwrap_or(text), true),
                None => (line, false),
            };
            let newline = match self.wire.newline {
                Newline::Lf if line.ends_with(b"\r\n") => b"\r\n".as_slice(),
                Newline::Lf => b"\n",
                Newline::CrLf => b"\r\n",
                Newline::Cr => b"\r",
            };
            let space: &[u8] = if self.wire.no_space { b"" } else { b" " };
            if self.at_line_start && (self.wire.no_space || self.wire.split_data) {
                let field = [b"data: ".as_slice(), b"event: ", b"id: ", b"retry: "]
                    .into_iter()
                    .find_map(|name| text.strip_prefix(name).map(|rest| (name, rest)));
                if let Some((name, rest)) = field {
                    let name = name.strip_suffix(b" ").unwrap_or(name);
                    out.extend_from_slice(name);
                    out.extend_from_slice(space);
                    text = rest;
                    if self.wire.split_data
                        && ended
                        && name == b"data:"
                        && let Some((first, second)) = split_json(rest)
                    {
                        out.extend_from_slice(first);
                        out.extend_from_slice(newline);
                        out.extend_from_slice(b"data:");
                        out.extend_from_slice(space);
                        text = second;
                    }
                }
            }
            out.extend_from_slice(text);
            if ended {
                out.extend_from_slice(newline);
            }
            self.at_line_start = ended;
        }
    }
}

/// Splits a JSON object after the comma nearest to its middle that stands outside strings, or after its brace.
fn split_json(text: &[u8]) -> Option<(&[u8], &[u8])> {
    if text.first() != Some(&b'{') {
        return None;
    }
    let (mut in_string, mut escaped) = (false, false);
    let mut best = 1_usize;
    for (at, byte) in text.iter().enumerate() {
        match (in_string, escaped, byte) {
            (true, true, _) => escaped = false,
            (true, false, b'\\') => escaped = true,
            (_, false, b'"') => in_string = !in_string,
            (false, _, b',') if at.abs_diff(text.len() / 2) < best.abs_diff(text.len() / 2) => {
                best = at + 1
            }
            _ => {}
        }
    }
    text.split_at_checked(best)
}

fn cut(bytes: &[u8], start: usize, cuts: &Cuts) -> Vec<Vec<u8>> {
    let byte_at = |at: usize| bytes.get(at).copied().unwrap_or_default();
    let ends: Vec<usize> = match cuts {
        Cuts::Steps | Cuts::Nowhere => Vec::new(),
        Cuts::Every(count) => (1..bytes.len())
            .filter(|at| (start + at).is_multiple_of((*count).max(1)))
            .collect(),
        Cuts::At(offsets) => (1..bytes.len())
            .filter(|at| offsets.contains(&(start + at)))
            .collect(),
        Cuts::InsideChars => (1..bytes.len())
            .filter(|at| byte_at(*at) & 0xC0 == 0x80)
            .collect(),
        Cuts::InsideCrLf => (1..bytes.len())
            .filter(|at| byte_at(*at) == b'\n' && byte_at(*at - 1) == b'\r')
            .collect(),
    };
    let mut writes = Vec::with_capacity(ends.len() + 1);
    let mut from = 0;
    for end in ends.into_iter().chain([bytes.len()]) {
        if let Some(write) = bytes.get(from..end).filter(|write| !write.is_empty()) {
            writes.push(write.to_vec());
        }
        from = end;
    }
    writes
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "event: a\ndata: {\"x\":\"p,q\",\"é\":[1,2]}\n\n: note\ndata: [DONE]\n\n";

    fn spelled(wire: &Wire) -> Vec<String> {
        Writer::new(wire)
            .writes(STREAM.as_bytes())
            .into_iter()
            .map(|write| String::from_utf8_lossy(&write).into_owned())
            .collect()
    }

    #[test]
    fn the_default_changes_nothing() {
        assert_eq!(spelled(&Wire::default()), [STREAM]);
    }

    #[test]
    fn spellings() {
        let wire = Wire::default();
        assert_eq!(
            spelled(&wire.clone().newline(Newline::CrLf)).concat(),
            STREAM.replace('\n', "\r\n")
        );
        assert_eq!(
            spelled(&wire.clone().newline(Newline::Cr)).concat(),
            STREAM.replace('\n', "\r")
        );
        assert_eq!(
            spelled(&wire.clone().no_space()).concat(),
            "event:a\ndata:{\"x\":\"p,q\",\"é\":[1,2]}\n\n: note\ndata:[DONE]\n\n"
        );
        assert_eq!(
            spelled(&wire.clone().byte_order_mark()).concat(),
            format!("\u{feff}{STREAM}")
        );
        assert_eq!(
            spelled(&wire.split_data()).concat(),
            "event: a\ndata: {\"x\":\"p,q\",\ndata: \"é\":[1,2]}\n\n: note\ndata: [DONE]\n\n"
        );
    }

    #[test]
    fn a_mark_is_sent_once_and_a_line_may_go_on_in_the_next_step() {
        let wire = Wire::default().byte_order_mark().no_space();
        let mut writer = Writer::new(&wire);
        assert_eq!(writer.writes(b"da"), [b"\xef\xbb\xbfda"]);
        assert_eq!(writer.writes(b"ta: 1\ndata: 2\n"), [b"ta: 1\ndata:2\n"]);
    }

    #[test]
    fn cuts_fall_where_they_are_said() {
        let pieces = |text: &str, cuts: Cuts| {
            Writer::new(&Wire::default().cuts(cuts))
                .writes(text.as_bytes())
                .iter()
                .map(Vec::len)
                .collect::<Vec<_>>()
        };
        assert_eq!(pieces("abc", Cuts::Every(1)), [1, 1, 1]);
        assert_eq!(pieces("abcde", Cuts::Every(2)), [2, 2, 1]);
        assert_eq!(pieces("abcde", Cuts::Every(0)), [1, 1, 1, 1, 1]);
        assert_eq!(pieces("abcde", Cuts::At(vec![1, 4, 9])), [1, 3, 1]);
        assert_eq!(pieces("aé日😀b", Cuts::InsideChars), [2, 2, 1, 2, 1, 1, 2]);
        assert_eq!(pieces("a\r\nb\n", Cuts::InsideCrLf), [2, 3]);
        let wire = Wire::default().cuts(Cuts::At(vec![5]));
        let mut writer = Writer::new(&wire);
        assert_eq!(writer.writes(b"abc"), [b"abc"]);
        assert_eq!(writer.writes(b"defg"), [b"de".as_slice(), b"fg"]);
    }
}
