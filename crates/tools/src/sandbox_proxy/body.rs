//! Where the body of a request ends, so that nothing goes on behind it.

use super::head::Body;

/// The longest line that tells the size of a chunk, and the most bytes of trailers.
const MAX_LINE: usize = 256;
const MAX_TRAILERS: usize = 8 << 10;

/// Follows a body. Fed in order, it tells how much of each piece belongs to the body.
#[derive(Debug)]
pub(super) struct Follow {
    state: State,
}

#[derive(Debug)]
enum State {
    /// Bytes that are still to come; nothing after them.
    Length(u64),
    /// In the line that tells a size.
    Size(Vec<u8>),
    /// In a chunk.
    Data(u64),
    /// In the end of the line behind a chunk: how many of its two bytes are there.
    After(usize),
    /// In the lines behind the last chunk: the current line, and how many bytes before it.
    Trailers(Vec<u8>, usize),
    Done,
}

/// A body that is not framed as it says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken;

impl Follow {
    pub(super) const fn new(body: Body) -> Self {
        let state = match body {
            Body::Length(0) => State::Done,
            Body::Length(length) => State::Length(length),
            Body::Chunked => State::Size(Vec::new()),
        };
        Self { state }
    }

    pub(super) const fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// How many of these bytes belong to the body.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        let mut taken = 0_usize;
        while let Some(&byte) = bytes.get(taken) {
            match &mut self.state {
                State::Done => break,
                State::Length(left) | State::Data(left) => {
                    let here = bytes.len().saturating_sub(taken);
                    let part = usize::try_from(*left).map_or(here, |left| left.min(here));
                    *left = left.saturating_sub(u64::try_from(part).unwrap_or(u64::MAX));
                    taken = taken.saturating_add(part);
                    if *left == 0 {
                        self.state = match self.state {
                            State::Length(_) => State::Done,
                            _ => State::After(0),
                        };
                    }
                    continue;
                }
                State::Size(line) => {
                    line.push(byte);
                    if byte == b'\n' {
                        self.state = match size(line)? {
                            0 => State::Trailers(Vec::new(), 0),
                            size => State::Data(size),
                        };
                    } else if line.len() > MAX_LINE {
                        return Err(Broken);
                    }
                }
                State::After(at) => {
                    if b"\r\n".get(*at) != Some(&byte) {
                        return Err(Broken);
                    }
                    self.state = match *at {
                        0 => State::After(1),
                        _ => State::Size(Vec::new()),
                    };
                }
                State::Trailers(line, before) => {
                    line.push(byte);
                    if line.len().saturating_add(*before) > MAX_TRAILERS {
                        return Err(Broken);
                    }
                    if byte == b'\n' {
                        let inner = line.strip_suffix(b"\r\n").ok_or(Broken)?;
                        if inner.contains(&b'\r') {
                            return Err(Broken);
                        }
                        if inner.is_empty() {
                            self.state = State::Done;
                        } else {
                            *before = before.saturating_add(line.len());
                            line.clear();
                        }
                    }
                }
            }
            taken = taken.saturating_add(1);
        }
        Ok(taken)
    }
}

/// The size that a line tells, in one spelling: hexadecimal digits, then an extension or nothing.
fn size(line: &[u8]) -> Result<u64, Broken> {
    let line = line.strip_suffix(b"\r\n").ok_or(Broken)?;
    let digits = line.split(|&byte| byte == b';').next().unwrap_or_default();
    let digits = digits.trim_ascii_end();
    let is_size = (1..=15).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
    if !is_size || line.contains(&b'\r') {
        return Err(Broken);
    }
    let text = std::str::from_utf8(digits).map_err(|_| Broken)?;
    u64::from_str_radix(text, 16).map_err(|_| Broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much belongs to the body, fed whole and byte by byte.
    fn taken(body: Body, bytes: &[u8]) -> Result<(usize, bool), Broken> {
        let mut whole = Follow::new(body);
        let found = whole.feed(bytes).map(|taken| (taken, whole.is_done()));
        let mut single = Follow::new(body);
        let mut sum = 0;
        let mut result = Ok(());
        for byte in bytes {
            match single.feed(&[*byte]) {
                Ok(taken) => sum += taken,
                Err(Broken) => {
                    result = Err(Broken);
                    break;
                }
            }
        }
        assert_eq!(found, result.map(|()| (sum, single.is_done())));
        found
    }

    #[test]
    fn a_body_ends_where_it_says() {
        for (body, bytes, expected) in [
            (Body::Length(0), "GET", (0, true)),
            (Body::Length(3), "abcGET", (3, true)),
            (Body::Length(5), "abc", (3, false)),
            (Body::Chunked, "0\r\n\r\nGET", (5, true)),
            (Body::Chunked, "3\r\nabc\r\n0\r\n\r\nGET", (13, true)),
            (
                Body::Chunked,
                "A;x=y\r\n0123456789\r\n0\r\nT: v\r\n\r\nGET",
                (30, true),
            ),
            (Body::Chunked, "3\r\nab", (5, false)),
        ] {
            assert_eq!(taken(body, bytes.as_bytes()), Ok(expected), "{bytes:?}");
        }
    }

    #[test]
    fn a_body_that_is_framed_otherwise_is_broken() {
        for bytes in [
            "\r\n",
            "x\r\n",
            "-1\r\n",
            "0x3\r\nabc\r\n",
            "3\nabc\r\n",
            "3\r\nabcd\r\n",
            "3\r\nabc\n0",
            "ffffffffffffffff\r\n",
            " 3\r\n",
            "3\r;\r\n",
            "0\r\nT: v\n\r\n",
            "0\r\nT\r: v\r\n\r\n",
        ] {
            assert_eq!(
                taken(Body::Chunked, bytes.as_bytes()),
                Err(Broken),
                "{bytes:?}"
            );
        }
        let long = format!("3;{}", "x".repeat(MAX_LINE));
        assert_eq!(taken(Body::Chunked, long.as_bytes()), Err(Broken));
        let trailers = format!("0\r\n{}", "T: v\r\n".repeat(2_000));
        assert_eq!(taken(Body::Chunked, trailers.as_bytes()), Err(Broken));
    }
}
