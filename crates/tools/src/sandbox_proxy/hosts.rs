//! Names of hosts, and which of them may be reached.
//!
//! There is one spelling of a host: lower case, ASCII, no dot at the end, addresses in their
//! shortest form. What cannot be brought to it is no host, so that no two readers of a name can
//! come to two hosts.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use reqwest::Url;

/// The ports that a host may be reached at if its pattern names none.
const PORTS: [u16; 2] = [80, 443];

/// The longest name of a host, and of one of its parts.
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// A host in its one spelling.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Host {
    Name(String),
    Address(IpAddr),
}

impl Host {
    /// Reads a host as it stands in a request. `None` if it is none, or one in a spelling that
    /// others may read in another way.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']')?;
            return inner.parse().ok().map(IpAddr::V6).map(Self::Address);
        }
        if let Ok(address) = text.parse() {
            return Some(Self::Address(IpAddr::V4(address)));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let is_label = |label: &str| {
            let part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            (1..=MAX_LABEL).contains(&label.len()) && label.bytes().all(part)
        };
        // Resolvers take `127.1`, `2130706433` and `0x7f.1` for addresses.
        let last = name.rsplit('.').next().unwrap_or_default();
        let is_number = last.starts_with(|first: char| first.is_ascii_digit());
        let is_name = name.len() <= MAX_NAME && name.split('.').all(is_label) && !is_number;
        is_name.then_some(Self::Name(name))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => formatter.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(formatter),
            Self::Address(IpAddr::V6(address)) => write!(formatter, "[{address}]"),
        }
    }
}

/// Splits `host:port`.
pub(crate) fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        // The colons of an address in brackets are its own.
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        Some(_) | None => (authority, None),
    }
}

/// A port as it stands in a request: digits alone.
pub(crate) fn port(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = digits.then(|| text.parse().ok()).flatten()?;
    (port != 0).then_some(port)
}

/// A host that may be reached, or all hosts below one.
///
/// `example.com` is that host alone and `*.example.com` all below it, at ports 80 and 443;
/// `example.com:8443` is another port. An address is itself: no name leads to it.
///
/// ```
/// use tooloop_tools::HostPattern;
///
/// let pattern: HostPattern = "*.Example.com".parse()?;
/// assert!(pattern.covers("a.b.example.com", 443));
/// assert!(!pattern.covers("example.com", 443));
/// assert!(!pattern.covers("a.example.com", 22));
/// # Ok::<(), tooloop_tools::HostPatternError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPattern {
    host: Host,
    below: bool,
    port: Option<u16>,
}

/// A text that is no pattern of hosts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pattern:?} names no host: {reason}")]
pub struct HostPatternError {
    /// The text.
    pub pattern: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl HostPattern {
    /// Whether a host may be reached at a port.
    #[must_use]
    pub fn covers(&self, host: &str, port: u16) -> bool {
        Host::parse(host).is_some_and(|host| self.covers_host(&host, port))
    }

    pub(crate) fn covers_host(&self, host: &Host, port: u16) -> bool {
        let right_port = self.port.map_or(PORTS.contains(&port), |only| only == port);
        right_port && self.is_of(host)
    }

    /// Whether it is of this host, at whatever port.
    pub(crate) fn is_of(&self, host: &Host) -> bool {
        match (&self.host, host) {
            (Host::Name(suffix), Host::Name(name)) if self.below => name
                .strip_suffix(suffix.as_str())
                .is_some_and(|before| before.ends_with('.')),
            (known, host) => !self.below && known == host,
        }
    }
}

impl FromStr for HostPattern {
    type Err = HostPatternError;

    fn from_str(text: &str) -> Result<Self, HostPatternError> {
        let refused = |reason| HostPatternError {
            pattern: text.to_owned(),
            reason,
        };
        let trimmed = text.trim();
        if trimmed.contains("://") {
            return Err(refused("write the host alone, such as example.com"));
        }
        let bare: Option<std::net::Ipv6Addr> = trimmed.parse().ok();
        let (host, port) = match bare {
            Some(_) => (trimmed, None),
            None => split_port(trimmed),
        };
        let port = match port.map(self::port) {
            Some(None) => return Err(refused("what follows the colon is no port")),
            Some(port) => port,
            None => None,
        };
        let (host, below) = match host.strip_prefix("*.") {
            Some(host) => (host, true),
            None => (host, false),
        };
        if host.contains('*') {
            return Err(refused(
                "a star stands for what is before a whole name, as in *.example.com",
            ));
        }
        let host = match bare {
            Some(address) => Host::Address(IpAddr::V6(address)),
            None => Host::parse(&ascii(host)).ok_or_else(|| {
                refused("it is neither a name, such as example.com, nor an address")
            })?,
        };
        match &host {
            Host::Address(_) if below => Err(refused("there is nothing below an address")),
            Host::Name(name) if below && !name.contains('.') => Err(refused(
                "that is too much: name at least two parts after the star",
            )),
            Host::Name(_) | Host::Address(_) => Ok(Self { host, below, port }),
        }
    }
}

/// A name of another script as resolvers know it. Only settings are written so: in a request it is
/// refused.
fn ascii(host: &str) -> String {
    if host.is_ascii() {
        return host.to_owned();
    }
    let url = Url::parse(&format!("http://{host}/"));
    let found = url.ok().and_then(|url| url.host_str().map(str::to_owned));
    found.unwrap_or_default()
}

impl fmt::Display for HostPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.below { "*." } else { "" };
        write!(formatter, "{star}{}", self.host)?;
        self.port
            .map_or(Ok(()), |port| write!(formatter, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_one_spelling() {
        for (text, expected) in [
            ("Example.COM", Some("example.com")),
            ("example.com.", Some("example.com")),
            ("127.0.0.1", Some("127.0.0.1")),
            ("[::1]", Some("[::1]")),
            ("[0:0::1]", Some("[::1]")),
            ("localhost", Some("localhost")),
            ("xn--bcher-kva.example", Some("xn--bcher-kva.example")),
            ("example.com..", None),
            (".example.com", None),
            ("", None),
            (".", None),
            ("a b", None),
            ("me@example.com", None),
            ("example.com/", None),
            ("example.com\\.evil.test", None),
            ("example.com%2eevil.test", None),
            ("bücher.example", None),
            ("еxample.com", None),
            ("127.1", None),
            ("2130706433", None),
            ("0x7f.0x1", None),
            ("0x7f000001", None),
            ("0177.0.0.1", None),
            ("127.0.0.1.", None),
            ("::1", None),
            ("[::1", None),
            ("[fe80::1%eth0]", None),
        ] {
            let host = Host::parse(text).map(|host| host.to_string());
            assert_eq!(host.as_deref(), expected, "{text}");
        }
        let long = format!("{}.test", "a".repeat(64));
        assert_eq!(Host::parse(&long), None);
        assert_eq!(Host::parse(&"a.".repeat(127).repeat(2)), None);
    }

    #[test]
    fn patterns_cover_hosts_at_ports() {
        for (pattern, host, port, expected) in [
            ("example.com", "example.com", 443, true),
            ("example.com", "EXAMPLE.com.", 80, true),
            ("Example.com.", "example.com", 80, true),
            ("example.com", "example.com", 22, false),
            ("example.com", "example.com", 8443, false),
            ("example.com:8443", "example.com", 8443, true),
            ("example.com:8443", "example.com", 443, false),
            ("example.com", "www.example.com", 443, false),
            ("example.com", "badexample.com", 443, false),
            ("example.com", "example.com.evil.test", 443, false),
            ("*.example.com", "www.example.com", 443, true),
            ("*.example.com", "a.b.example.com", 443, true),
            ("*.example.com", "example.com", 443, false),
            ("*.example.com", "badexample.com", 443, false),
            ("*.example.com", ".example.com", 443, false),
            ("*.example.com:22", "git.example.com", 22, true),
            ("bücher.example", "xn--bcher-kva.example", 443, true),
            ("example.com", "xn--xample-2of.com", 443, false),
            ("127.0.0.1:8080", "127.0.0.1", 8080, true),
            ("127.0.0.1:8080", "127.1", 8080, false),
            ("[::1]:8080", "[0::1]", 8080, true),
            ("::1", "[::1]", 80, true),
        ] {
            let parsed: HostPattern = pattern.parse().unwrap();
            assert_eq!(
                parsed.covers(host, port),
                expected,
                "{pattern} {host} {port}"
            );
            let again: HostPattern = parsed.to_string().parse().unwrap();
            assert_eq!(parsed, again);
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_words() {
        for (pattern, words) in [
            ("", "neither a name"),
            ("*", "a star stands for"),
            ("*.com", "too much"),
            ("*.*.com", "a star stands for"),
            ("a*.example.com", "a star stands for"),
            ("*.127.0.0.1", "nothing below an address"),
            ("https://example.com", "the host alone"),
            ("example.com/path", "neither a name"),
            ("me@example.com", "neither a name"),
            ("example.com:", "no port"),
            ("example.com:0", "no port"),
            ("example.com:65536", "no port"),
            ("example.com:+80", "no port"),
            ("127.1", "neither a name"),
        ] {
            let error = HostPattern::from_str(pattern).unwrap_err().to_string();
            assert!(error.contains(words), "{pattern}: {error}");
        }
    }
}
