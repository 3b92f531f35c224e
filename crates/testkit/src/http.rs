//! The server's side of HTTP/1.1, as little as a model client needs: requests with a length or in chunks, answers
//! with a length, in chunks or until the connection closes.
//!
//! Works on bytes alone; sockets belong to the connection.

use crate::reply::{Framing, Head};

/// The largest head of a request.
const HEAD_LIMIT: usize = 256 << 10;
/// The largest body of a request.
pub(crate) const BODY_LIMIT: usize = 256 << 20;

/// The start of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestHead {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) keep_alive: bool,
    body: BodyLength,
    /// The client waits for leave to send the body.
    pub(crate) expects_continue: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyLength {
    Known(usize),
    Chunked,
}

/// What bytes received so far amount to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed<T> {
    /// More bytes are needed.
    Partial,
    /// The thing, and how many bytes it took.
    Whole(T, usize),
    /// It can never become one, for this reason.
    Broken(&'static str),
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

/// Reads the head of a request.
pub(crate) fn parse_head(bytes: &[u8]) -> Parsed<RequestHead> {
    let Some(end) = find(bytes.get(..HEAD_LIMIT).unwrap_or(bytes), b"\r\n\r\n") else {
        return if bytes.len() < HEAD_LIMIT {
            Parsed::Partial
        } else {
            Parsed::Broken("the head is too long")
        };
    };
    let text = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default());
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Parsed::Broken("the request line is broken");
    };
    let mut headers = Vec::new();
    for line in lines {
        let Some((name, value)) = line.split_once(':') else {
            return Parsed::Broken("a header has no colon");
        };
        headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
    }
    let value = |name: &str| {
        headers
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, value)| value.as_str())
    };
    let has = |name: &str, wanted: &str| {
        value(name).is_some_and(|value| value.eq_ignore_ascii_case(wanted))
    };
    let body = if has("transfer-encoding", "chunked") {
        BodyLength::Chunked
    } else {
        match value("content-length").unwrap_or("0").parse() {
            Ok(length) if length <= BODY_LIMIT => BodyLength::Known(length),
            Ok(_) => return Parsed::Broken("the body is too long"),
            Err(_) => return Parsed::Broken("the content length is no number"),
        }
    };
    let keep_alive = version == "HTTP/1.1" && !has("connection", "close");
    let expects_continue = has("expect", "100-continue");
    let (method, target) = (method.to_owned(), target.to_owned());
    Parsed::Whole(
        RequestHead {
            method,
            target,
            headers,
            keep_alive,
            body,
            expects_continue,
        },
        end + 4,
    )
}

/// Reads the body that belongs to a head.
pub(crate) fn parse_body(head: &RequestHead, bytes: &[u8]) -> Parsed<Vec<u8>> {
    match head.body {
        BodyLength::Known(length) => match bytes.get(..length) {
            Some(body) => Parsed::Whole(body.to_vec(), length),
            None => Parsed::Partial,
        },
        BodyLength::Chunked => parse_chunks(bytes),
    }
}

fn parse_chunks(bytes: &[u8]) -> Parsed<Vec<u8>> {
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let Some(line) = find(rest, b"\r\n") else {
            return Parsed::Partial;
        };
        let size = std::str::from_utf8(rest.get(..line).unwrap_or_default())
            .ok()
            .and_then(|text| {
                usize::from_str_radix(text.split(';').next().unwrap_or_default().trim(), 16).ok()
            });
        let Some(size) = size else {
            return Parsed::Broken("a chunk has no size");
        };
        if body.len() + size > BODY_LIMIT {
            return Parsed::Broken("the body is too long");
        }
        let start = line + 2;
        let Some(end) = rest.get(start + size..start + size + 2) else {
            return Parsed::Partial;
        };
        if end != b"\r\n" {
            return Parsed::Broken("a chunk is longer than it says, or has trailers");
        }
        body.extend_from_slice(rest.get(start..start + size).unwrap_or_default());
        at += start + size + 2;
        if size == 0 {
            return Parsed::Whole(body, at);
        }
    }
}

/// Spells the head of an answer.
pub(crate) fn head_bytes(head: &Head, keep_alive: bool) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {} {}\r\n", head.status, reason(head.status));
    for (name, value) in &head.headers {
        out.push_str(&format!("{name}: {value}\r\n"));
    }
    match head.framing {
        Framing::Chunked => out.push_str("transfer-encoding: chunked\r\n"),
        Framing::Length(length) => out.push_str(&format!("content-length: {length}\r\n")),
        Framing::UntilClose => {}
    }
    if !keep_alive || head.framing == Framing::UntilClose {
        out.push_str("connection: close\r\n");
    }
    out.push_str("\r\n");
    out.into_bytes()
}

/// One chunk of a chunked answer.
pub(crate) fn chunk_bytes(bytes: &[u8]) -> Vec<u8> {
    let mut out = format!("{:x}\r\n", bytes.len()).into_bytes();
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
    out
}

/// The chunk that ends a chunked answer.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        408 => "Request Timeout",
        413 => "Payload Too Large",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        529 => "Overloaded",
        _ => "Status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole<T: std::fmt::Debug>(parsed: Parsed<T>) -> (T, usize) {
        match parsed {
            Parsed::Whole(thing, used) => (thing, used),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_request_comes_whole_or_not_yet() {
        let bytes = b"POST /v1/messages?beta=true HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nX-Key:  v \r\n\r\nabcGET";
        let head_length = bytes.len() - 6;
        for end in 0..head_length {
            assert_eq!(parse_head(&bytes[..end]), Parsed::Partial, "{end}");
        }
        let (head, used) = whole(parse_head(bytes));
        assert_eq!(used, head_length);
        assert_eq!(
            (head.method.as_str(), head.target.as_str()),
            ("POST", "/v1/messages?beta=true")
        );
        assert_eq!(head.headers[2], ("x-key".to_owned(), "v".to_owned()));
        assert!(head.keep_alive);
        assert_eq!(parse_body(&head, b"ab"), Parsed::Partial);
        assert_eq!(
            parse_body(&head, b"abcGET"),
            Parsed::Whole(b"abc".to_vec(), 3)
        );
    }

    #[test]
    fn a_chunked_body() {
        let head = whole(parse_head(
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        ))
        .0;
        let bytes = b"3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\nrest";
        for end in 0..bytes.len() - 4 {
            assert_eq!(parse_body(&head, &bytes[..end]), Parsed::Partial, "{end}");
        }
        assert_eq!(
            parse_body(&head, bytes),
            Parsed::Whole(b"abc0123456789".to_vec(), bytes.len() - 4)
        );
        for bad in ["x\r\n", "3\r\nabcd\r\n", "ffffffff\r\n", "\r\n"] {
            assert!(
                matches!(parse_body(&head, bad.as_bytes()), Parsed::Broken(_)),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn broken_and_closing_heads() {
        for bad in [
            "GET /\r\n\r\n",
            "GET / HTTP/1.1 x\r\n\r\n",
            "GET / HTTP/1.1\r\nnothing\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
        ] {
            assert!(
                matches!(parse_head(bad.as_bytes()), Parsed::Broken(_)),
                "{bad:?}"
            );
        }
        assert!(matches!(
            parse_head(&vec![b'x'; HEAD_LIMIT]),
            Parsed::Broken(_)
        ));
        assert!(!whole(parse_head(b"GET / HTTP/1.0\r\n\r\n")).0.keep_alive);
        assert!(
            !whole(parse_head(b"GET / HTTP/1.1\r\nConnection: Close\r\n\r\n"))
                .0
                .keep_alive
        );
        assert!(
            whole(parse_head(
                b"GET / HTTP/1.1\r\nExpect: 100-continue\r\n\r\n"
            ))
            .0
            .expects_continue
        );
    }

    #[test]
    fn heads_of_answers() {
        let head = Head {
            status: 529,
            headers: vec![("a".into(), "b".into())],
            framing: Framing::Length(3),
        };
        assert_eq!(
            String::from_utf8(head_bytes(&head, true)).unwrap(),
            "HTTP/1.1 529 Overloaded\r\na: b\r\ncontent-length: 3\r\n\r\n"
        );
        let head = Head {
            framing: Framing::UntilClose,
            ..head
        };
        assert!(head_bytes(&head, true).ends_with(b"\r\nconnection: close\r\n\r\n"));
        assert_eq!(chunk_bytes(&[0; 16])[..4], *b"10\r\n");
    }
}
