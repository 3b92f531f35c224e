//! What a client asks of the proxy, read strictly.
//!
//! Where two readers of a request could differ over what it means, it is refused. The head that goes
//! on is written anew from what was understood, so no lenience of the reader reaches the server.

use super::hosts::{self, Host};

/// The most headers.
const MAX_HEADERS: usize = 100;

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) host: Host,
    pub(super) port: u16,
    pub(super) kind: Kind,
    /// How many bytes of what was read the head is.
    pub(super) length: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A tunnel: only whom its beginning is for is looked at.
    Tunnel,
    /// One request in the clear: its head as it goes on, and how its body ends.
    Plain { head: Vec<u8>, body: Body },
}

/// How the end of a body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    Length(u64),
    Chunked,
}

/// Why a request cannot be answered: the words are for who sent it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

/// Reads a head. `None` if it has not ended yet.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<Head>, Malformed> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Malformed("too many headers")),
        Err(_) => return Err(Malformed("that is not HTTP")),
    };
    // All three are there once a head is complete.
    let (method, target) = (
        request.method.unwrap_or_default(),
        request.path.unwrap_or_default(),
    );
    let is_old = request.version == Some(0);
    if !target.bytes().all(|byte| byte.is_ascii_graphic()) || target.contains('#') {
        return Err(Malformed("the target has characters that no target has"));
    }
    let found = if method == "CONNECT" {
        let (host, port) = authority(target)?;
        let port = port.ok_or(Malformed("CONNECT needs a host and a port"))?;
        let kind = Kind::Tunnel;
        Head {
            host,
            port,
            kind,
            length,
        }
    } else {
        let (authority_text, path) = absolute(target)?;
        let (host, port) = authority(authority_text)?;
        let body = body(request.headers, is_old)?;
        let head = Rewritten {
            method,
            path,
            host: &host,
            port,
            is_old,
            body,
        };
        Head {
            kind: Kind::Plain {
                head: head.bytes(request.headers),
                body: body.unwrap_or(Body::Length(0)),
            },
            host,
            port: port.unwrap_or(80),
            length,
        }
    };
    Ok(Some(found))
}

/// Takes `http://host/path` apart.
fn absolute(target: &str) -> Result<(&str, String), Malformed> {
    const SCHEME: &str = "http://";
    let scheme = target.get(..SCHEME.len());
    if !scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME)) {
        return Err(Malformed(
            "this is a proxy: ask for http://host/path, or for other than http with CONNECT",
        ));
    }
    let rest = target.get(SCHEME.len()..).unwrap_or_default();
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    Ok((authority, path))
}

fn authority(text: &str) -> Result<(Host, Option<u16>), Malformed> {
    if text.contains('@') {
        return Err(Malformed("the target holds a login, which is never sent"));
    }
    let (host, port) = hosts::split_port(text);
    let host = Host::parse(host).ok_or(Malformed(
        "the target names no host in a plain spelling: ASCII letters, digits and hyphens between \
         dots, or an address",
    ))?;
    let port = match port.map(hosts::port) {
        Some(None) => return Err(Malformed("the target names no port")),
        Some(port) => port,
        None => None,
    };
    Ok((host, port))
}

fn body(headers: &[httparse::Header<'_>], is_old: bool) -> Result<Option<Body>, Malformed> {
    let mut found: Option<Body> = None;
    let mut hosts = 0_usize;
    for header in headers {
        if header.name.eq_ignore_ascii_case("host") {
            hosts = hosts.saturating_add(1);
        }
        let this = if header.name.eq_ignore_ascii_case("content-length") {
            let text = std::str::from_utf8(header.value).unwrap_or_default().trim();
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let length = digits.then(|| text.parse().ok()).flatten();
            Body::Length(length.ok_or(Malformed("Content-Length is not one number"))?)
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            if is_old || !header.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                return Err(Malformed("a Transfer-Encoding other than chunked"));
            }
            Body::Chunked
        } else {
            continue;
        };
        if found.replace(this).is_some() {
            return Err(Malformed("the length of the body is told more than once"));
        }
    }
    if hosts > 1 {
        return Err(Malformed("more than one Host"));
    }
    Ok(found)
}

/// The head as it goes on.
struct Rewritten<'a> {
    method: &'a str,
    path: String,
    host: &'a Host,
    port: Option<u16>,
    is_old: bool,
    body: Option<Body>,
}

/// Headers that are between two neighbours, and those that are written anew.
const NOT_FORWARDED: [&str; 10] = [
    "host",
    "connection",
    "proxy-connection",
    "proxy-authorization",
    "keep-alive",
    "te",
    "transfer-encoding",
    "content-length",
    "upgrade",
    "http2-settings",
];

impl Rewritten<'_> {
    fn bytes(&self, headers: &[httparse::Header<'_>]) -> Vec<u8> {
        let version = if self.is_old { "1.0" } else { "1.1" };
        let port = self
            .port
            .map_or_else(String::new, |port| format!(":{port}"));
        // Whatever Host the client sent: the server that is asked is the one that was judged.
        let mut head = format!(
            "{} {} HTTP/{version}\r\nHost: {}{port}\r\nConnection: close\r\n",
            self.method, self.path, self.host
        )
        .into_bytes();
        match self.body {
            Some(Body::Length(length)) => {
                head.extend(format!("Content-Length: {length}\r\n").into_bytes());
            }
            Some(Body::Chunked) => head.extend(b"Transfer-Encoding: chunked\r\n"),
            None => {}
        }
        let own = |name: &str| {
            let same = |other: &str| other.trim().eq_ignore_ascii_case(name);
            NOT_FORWARDED.iter().any(|other| same(other))
                || headers.iter().any(|header| {
                    header.name.eq_ignore_ascii_case("connection")
                        && String::from_utf8_lossy(header.value).split(',').any(same)
                })
        };
        for header in headers.iter().filter(|header| !own(header.name)) {
            head.extend(header.name.as_bytes());
            head.extend(b": ");
            head.extend(header.value);
            head.extend(b"\r\n");
        }
        head.extend(b"\r\n");
        head
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(request: &str) -> &'static str {
        parse(request.as_bytes()).unwrap_err().0
    }

    #[test]
    fn a_tunnel_names_host_and_port() {
        let request = "CONNECT Example.com.:443 HTTP/1.1\r\nHost: evil.test\r\n\r\nmore";
        let head = parse(request.as_bytes()).unwrap().unwrap();
        assert_eq!(
            (head.host.to_string().as_str(), head.port),
            ("example.com", 443)
        );
        assert_eq!(
            (&head.kind, head.length),
            (&Kind::Tunnel, request.len() - 4)
        );
        assert!(
            parse(b"CONNECT example.com:443 HTTP/1.1\r\n")
                .unwrap()
                .is_none()
        );
        for (target, words) in [
            ("example.com", "needs a host and a port"),
            ("example.com:", "names no port"),
            ("example.com:0", "names no port"),
            ("example.com:99999", "names no port"),
            ("me@example.com:443", "holds a login"),
            ("example.com:443@evil.test:443", "holds a login"),
            ("example.com/x:443", "no host in a plain spelling"),
            ("127.1:443", "no host in a plain spelling"),
            ("[::1:443", "no host in a plain spelling"),
            ("example.com#.evil.test:443", "characters"),
        ] {
            let request = format!("CONNECT {target} HTTP/1.1\r\n\r\n");
            assert!(
                refused(&request).contains(words),
                "{target}: {}",
                refused(&request)
            );
        }
        for host in ["еxample.com", "bücher.example", "exa\u{ff0e}mple.com"] {
            let request = format!("CONNECT {host}:443 HTTP/1.1\r\n\r\n");
            assert!(parse(request.as_bytes()).is_err(), "{host}");
        }
    }

    #[test]
    fn a_plain_request_is_written_anew() {
        let request = "POST http://EXAMPLE.com:8080?q=1 HTTP/1.1\r\nHost: evil.test\r\n\
                       Proxy-Authorization: Basic x\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n\
                       Upgrade: websocket\r\nAccept: */*\r\nContent-Length: 5\r\n\r\nhello";
        let head = parse(request.as_bytes()).unwrap().unwrap();
        assert_eq!(
            (head.host.to_string().as_str(), head.port),
            ("example.com", 8080)
        );
        assert_eq!(head.length, request.len() - 5);
        let Kind::Plain { head, body } = head.kind else {
            panic!()
        };
        let expected = "POST /?q=1 HTTP/1.1\r\nHost: example.com:8080\r\nConnection: close\r\n\
                        Content-Length: 5\r\nAccept: */*\r\n\r\n";
        assert_eq!(String::from_utf8(head).unwrap(), expected);
        assert_eq!(body, Body::Length(5));
    }

    #[test]
    fn what_may_be_read_in_two_ways_is_refused() {
        let plain = |headers: &str| format!("POST http://a.test/ HTTP/1.1\r\n{headers}\r\n\r\n");
        for (headers, words) in [
            (
                "Content-Length: 5\r\nTransfer-Encoding: chunked",
                "more than once",
            ),
            (
                "Transfer-Encoding: chunked\r\nContent-Length: 5",
                "more than once",
            ),
            ("Content-Length: 5\r\nContent-Length: 6", "more than once"),
            ("Content-Length: 5\r\ncontent-length: 5", "more than once"),
            ("Content-Length: 5, 5", "not one number"),
            ("Content-Length: +5", "not one number"),
            ("Content-Length: -1", "not one number"),
            ("Content-Length: 99999999999999999999", "not one number"),
            ("Content-Length:", "not one number"),
            ("Transfer-Encoding: gzip, chunked", "other than chunked"),
            ("Transfer-Encoding: xchunked", "other than chunked"),
            (
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
                "more than once",
            ),
            ("Host: a.test\r\nHost: b.test", "more than one Host"),
            ("Content-Length : 5", "not HTTP"),
            ("A: b\r\n folded", "not HTTP"),
        ] {
            assert!(
                refused(&plain(headers)).contains(words),
                "{headers}: {}",
                refused(&plain(headers))
            );
        }
        let old = "POST http://a.test/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert!(refused(old).contains("other than chunked"));
        for (target, words) in [
            ("/path", "this is a proxy"),
            ("*", "this is a proxy"),
            ("https://a.test/", "with CONNECT"),
            ("ftp://a.test/", "with CONNECT"),
            ("http:///path", "no host"),
            ("http://a.test@b.test/", "holds a login"),
            ("http://a.test\\@b.test/", "holds a login"),
            ("http://a.test\\.b.test/", "no host"),
            ("http://a.test:80:80/", "no host"),
        ] {
            let request = format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n");
            assert!(
                refused(&request).contains(words),
                "{target}: {}",
                refused(&request)
            );
        }
    }
}
