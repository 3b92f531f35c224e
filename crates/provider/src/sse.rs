//! Server-sent events: bytes in, events out.
//!
//! Linear in the bytes whatever the chunking, with a cap on what one event may hold. It knows the
//! framing and nothing of what the data means. Undecodable bytes are an error.
//!
//! ```
//! use tooloop_provider::sse::{Framer, SseError};
//!
//! let mut framer = Framer::new();
//! let mut seen = Vec::new();
//! for chunk in [&b": hello\n\ndata: {\"a\""[..], b":1}\r", b"\n\r\n"] {
//!     framer.feed(chunk, &mut |event| -> Result<(), SseError> {
//!         seen.push(event.data.to_owned());
//!         Ok(())
//!     })?;
//! }
//! assert_eq!(seen, ["{\"a\":1}"]);
//! # Ok::<(), SseError>(())
//! ```

/// What is wrong with a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// An event is larger than any real one.
    #[error("an event of the stream is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// An event is not text.
    #[error("an event of the stream is not valid UTF-8")]
    NotUtf8,
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// What the `event` field said; empty if there was none.
    pub name: &'a str,
    /// The `data` fields, joined by line feeds.
    pub data: &'a str,
}

/// Cuts a byte stream into events.
#[derive(Debug, Clone)]
pub struct Framer {
    limit: usize,
    /// The line that has begun and not ended.
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    name: Vec<u8>,
    /// The last byte was a carriage return, so a line feed that follows belongs to it.
    after_cr: bool,
    /// The first line has not ended, so a byte order mark may still stand before it.
    first: bool,
}

impl Default for Framer {
    fn default() -> Self {
        Self::new()
    }
}

impl Framer {
    /// The most bytes that an event may have, unless said otherwise: 16 MiB.
    pub const LIMIT: usize = 16 << 20;

    /// A framer at the beginning of a stream.
    #[must_use]
    pub const fn new() -> Self {
        Self::with_limit(Self::LIMIT)
    }

    /// A framer with a cap of its own.
    #[must_use]
    pub const fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            name: Vec::new(),
            after_cr: false,
            first: true,
        }
    }

    /// Takes bytes in and hands every event that they complete to `sink`.
    ///
    /// # Errors
    /// What is wrong with the stream, or what `sink` says. The framer is not to be used further
    /// then.
    pub fn feed<E: From<SseError>>(
        &mut self,
        bytes: &[u8],
        sink: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            if self.after_cr {
                self.after_cr = false;
                if byte == b'\n' {
                    rest = after;
                    continue;
                }
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', rest) else {
                self.keep(rest)?;
                break;
            };
            let (line, tail) = rest.split_at(end);
            self.after_cr = tail.first() == Some(&b'\r');
            if self.line.is_empty() {
                self.take_line(line, sink)?;
            } else {
                self.keep(line)?;
                let mut line = std::mem::take(&mut self.line);
                self.take_line(&line, sink)?;
                // The buffer is kept for the next line.
                line.clear();
                self.line = line;
            }
            rest = tail.get(1..).unwrap_or_default();
        }
        Ok(())
    }

    /// Ends the stream: an event that no blank line has ended is handed to `sink` all the same,
    /// though it may be cut anywhere.
    ///
    /// # Errors
    /// As [`Framer::feed`].
    pub fn finish<E: From<SseError>>(
        &mut self,
        sink: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, sink)?;
        }
        self.dispatch(sink)
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        self.check(self.line.len().saturating_add(bytes.len()))?;
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    const fn check(&self, more: usize) -> Result<(), SseError> {
        if self.data.len().saturating_add(more) > self.limit {
            return Err(SseError::TooLarge { limit: self.limit });
        }
        Ok(())
    }

    fn take_line<E: From<SseError>>(
        &mut self,
        line: &[u8],
        sink: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let line = if std::mem::take(&mut self.first) {
            line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
        } else {
            line
        };
        if line.is_empty() {
            return self.dispatch(sink);
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(at) => {
                let (field, value) = line.split_at(at);
                let value = value.get(1..).unwrap_or_default();
                (field, value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &b""[..]),
        };
        match field {
            b"data" => {
                self.check(value.len().saturating_add(1))?;
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => {
                self.check(value.len())?;
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            // Comments (an empty field name), `id`, `retry` and fields that nobody knows.
            _ => {}
        }
        Ok(())
    }

    fn dispatch<E: From<SseError>>(
        &mut self,
        sink: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.has_data {
            let name = std::str::from_utf8(&self.name).map_err(|_| SseError::NotUtf8)?;
            let data = std::str::from_utf8(&self.data).map_err(|_| SseError::NotUtf8)?;
            sink(Event { name, data })?;
        }
        self.has_data = false;
        self.name.clear();
        self.data.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Events = Vec<(String, String)>;

    fn frame(chunks: &[&[u8]]) -> Result<Events, SseError> {
        let mut framer = Framer::new();
        let mut events = Events::new();
        let mut sink = |event: Event<'_>| -> Result<(), SseError> {
            events.push((event.name.into(), event.data.into()));
            Ok(())
        };
        for chunk in chunks {
            framer.feed(chunk, &mut sink)?;
        }
        framer.finish(&mut sink)?;
        Ok(events)
    }

    fn datas(text: &str) -> Vec<String> {
        frame(&[text.as_bytes()])
            .unwrap()
            .into_iter()
            .map(|(_, data)| data)
            .collect()
    }

    #[test]
    fn line_ends_of_every_kind() {
        for end in ["\n", "\r", "\r\n"] {
            let text = format!("event: a{end}data: x{end}{end}data: y{end}{end}");
            assert_eq!(
                frame(&[text.as_bytes()]).unwrap(),
                [("a".into(), "x".into()), (String::new(), "y".into())],
                "{end:?}"
            );
        }
    }

    #[test]
    fn a_carriage_return_dispatches_without_waiting_for_a_line_feed() {
        let mut framer = Framer::new();
        let mut count = 0;
        framer
            .feed(b"data: x\r\n\r", &mut |_| -> Result<(), SseError> {
                count += 1;
                Ok(())
            })
            .unwrap();
        assert_eq!(count, 1);
    }

    #[test]
    fn fields_and_comments() {
        assert_eq!(datas("data:x\n\ndata: x\n\ndata:  x\n\n"), ["x", "x", " x"]);
        assert_eq!(datas("data: a\ndata: b\ndata\n\n"), ["a\nb\n"]);
        assert_eq!(datas(": note\nid: 4\nretry: 900\nshiny: new\n\n"), [""; 0]);
        assert_eq!(datas("event: lost\n\ndata: x\n\n"), ["x"]);
        assert_eq!(datas("\u{feff}data: x\n\n"), ["x"]);
        assert_eq!(datas("data: \u{feff}x\n\n"), ["\u{feff}x"]);
        assert_eq!(datas("\n\n\n\ndata: x\n\n\n\n"), ["x"]);
        assert_eq!(datas("data\n\n"), [""]);
    }

    #[test]
    fn an_event_that_no_blank_line_ends_is_offered_at_the_end() {
        assert_eq!(datas("data: x\n"), ["x"]);
        assert_eq!(datas("data: x"), ["x"]);
    }

    #[test]
    fn bytes_that_are_no_text_are_an_error() {
        assert_eq!(frame(&[b"data: \xe6\x97\n\n"]), Err(SseError::NotUtf8));
        assert_eq!(frame(&[b"data: \xe6\x97"]), Err(SseError::NotUtf8));
        // Comments carry nothing, so they may hold anything.
        assert_eq!(frame(&[b": \xff\n\n"]), Ok(Vec::new()));
    }

    #[test]
    fn an_event_without_end_is_an_error() {
        let mut framer = Framer::with_limit(1000);
        let mut sink = |_: Event<'_>| -> Result<(), SseError> { Ok(()) };
        let too_large = Err(SseError::TooLarge { limit: 1000 });
        framer.feed(&[b'x'; 1000], &mut sink).unwrap();
        assert_eq!(framer.feed(b"x", &mut sink), too_large);
        let mut framer = Framer::with_limit(1000);
        let mut result = Ok(());
        for _ in 0..11 {
            result =
                result.and(framer.feed(&[&b"data:"[..], &[b'x'; 100], b"\n"].concat(), &mut sink));
        }
        assert_eq!(result, too_large);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn chunking_changes_nothing(
            pieces in prop::collection::vec(
                prop::sample::select(vec![
                    "data", ":", " ", "\n", "\r", "\r\n", "event: a", "data: 日本", "{\"x\":1}",
                    ": c", "\u{feff}", "\n\n", "id", "👩‍👩‍👧",
                ]),
                0..40,
            ),
            cuts in prop::collection::vec(0_usize..200, 0..12),
        ) {
            let text = pieces.concat();
            let bytes = text.as_bytes();
            let whole = frame(&[bytes]).unwrap();
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            prop_assert_eq!(&frame(&single).unwrap(), &whole);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let parts: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(&frame(&parts).unwrap(), &whole);
        }
    }
}
