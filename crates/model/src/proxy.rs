//! Which proxy the environment names for a server. Pure: the variables are handed in.

use std::net::{IpAddr, Ipv6Addr};

/// What `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` say, in capitals or not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProxySettings {
    http: Option<Named>,
    https: Option<Named>,
    all: Option<Named>,
    excluded: Vec<Excluded>,
    warnings: Vec<String>,
}

/// The proxy that a variable names.
type Named = Result<String, ProxyError>;

/// A proxy that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{variable} names no proxy that can be used: {reason}; correct it or unset it")]
pub struct ProxyError {
    /// The variable that names it.
    pub variable: String,
    /// What is wrong. It holds no login.
    pub reason: String,
}

/// An entry of `NO_PROXY`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Excluded {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    All,
    /// Names without a dot.
    Local,
    /// A name, and all names below it.
    Below(String),
    /// A pattern with stars.
    Like(String),
    /// The addresses that begin with so many bits of this one.
    Network(u128, u32),
}

const SCHEMES: [&str; 6] = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"];

impl ProxySettings {
    /// Reads the variables. `look` returns the value of one.
    #[must_use]
    pub fn from_environment(look: impl Fn(&str) -> Option<String>) -> Self {
        let value = |name: &str| look(name).filter(|value| !value.trim().is_empty());
        let named = |name: &str| {
            // Clients send a header `Proxy` to a CGI program, which sees it under this name.
            let is_header = name == "HTTP_PROXY" && value("REQUEST_METHOD").is_some();
            let upper = Some(name.to_owned()).filter(|_| !is_header);
            let names = upper.into_iter().chain([name.to_ascii_lowercase()]);
            let mut found = names.filter_map(|name| value(&name).map(|value| (name, value)));
            found.next().map(|(variable, value)| {
                address(value.trim()).map_err(|reason| ProxyError { variable, reason })
            })
        };
        let mut settings = Self {
            http: named("HTTP_PROXY"),
            https: named("HTTPS_PROXY"),
            all: named("ALL_PROXY"),
            ..Self::default()
        };
        for variable in ["NO_PROXY", "no_proxy"] {
            let list = value(variable).unwrap_or_default();
            let entries = list.split(|char: char| char.is_whitespace() || ",;".contains(char));
            for entry in entries.filter(|entry| !entry.is_empty()) {
                match excluded(entry) {
                    Some(excluded) if settings.excluded.contains(&excluded) => {}
                    Some(excluded) => settings.excluded.push(excluded),
                    None => settings.warnings.push(format!(
                        "{variable}: the entry {entry:?} is not understood and excludes no host; \
                         write a name, an address, a network such as 10.0.0.0/8, or one of them \
                         with :port"
                    )),
                }
            }
        }
        settings
    }

    /// Entries that exclude nothing.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether a proxy is named at all.
    #[must_use]
    pub const fn names_one(&self) -> bool {
        self.http.is_some() || self.https.is_some() || self.all.is_some()
    }

    /// The proxy for servers of a scheme, whatever `NO_PROXY` excludes.
    #[must_use]
    pub fn named(&self, scheme: &str) -> Option<&Result<String, ProxyError>> {
        let own = match scheme {
            "https" => &self.https,
            _ => &self.http,
        };
        own.as_ref().or(self.all.as_ref())
    }

    /// The address of the proxy for a server; `None` if the server is asked directly. A proxy is
    /// never used for this machine.
    ///
    /// # Errors
    /// If the proxy for this server cannot be used.
    pub fn proxy_for(
        &self,
        scheme: &str,
        host: &str,
        port: u16,
    ) -> Result<Option<&str>, &ProxyError> {
        let Some(named) = self.named(scheme) else {
            return Ok(None);
        };
        let host = host.trim_start_matches('[').trim_end_matches([']', '.']);
        let host = host.to_ascii_lowercase();
        let is_excluded = self.excluded.iter().any(|excluded| {
            excluded.port.is_none_or(|own| own == port) && excluded.hosts.hold(&host)
        });
        if is_excluded || is_this_machine(&host) {
            return Ok(None);
        }
        named.as_ref().map(|address| Some(address.as_str()))
    }
}

fn is_this_machine(host: &str) -> bool {
    let address = host
        .parse()
        .ok()
        .map(|address: IpAddr| address.to_canonical());
    host == "localhost"
        || host.ends_with(".localhost")
        || address.is_some_and(|address| address.is_loopback() || address.is_unspecified())
}

impl Hosts {
    /// Whether a host without brackets, in small letters, is one of them.
    fn hold(&self, host: &str) -> bool {
        let address = host.parse().ok().map(bits);
        match (self, address) {
            (Self::All, _) => true,
            (Self::Like(pattern), _) => is_like(host, pattern),
            (Self::Network(network, length), Some(address)) => {
                let shift = 128_u32.saturating_sub(*length);
                (address ^ network).checked_shr(shift).unwrap_or(0) == 0
            }
            (Self::Below(name), None) => {
                let below = host.strip_suffix(name.as_str());
                below.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }
            (Self::Local, None) => !host.contains('.'),
            (Self::Network(..), None) | (Self::Below(_) | Self::Local, Some(_)) => false,
        }
    }
}

/// An address as the bits of one of version 6.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => Ipv6Addr::to_bits(address),
    }
}

/// Whether a text fits a pattern in which `*` stands for any text.
fn is_like(text: &str, pattern: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return text == pattern;
    };
    let Some(mut text) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return text.ends_with(part);
        }
        let Some((_, after)) = text.split_once(part) else {
            return false;
        };
        text = after;
    }
    true
}

/// What an entry of `NO_PROXY` excludes; `None` if it is not understood.
fn excluded(entry: &str) -> Option<Excluded> {
    let entry = entry.to_ascii_lowercase();
    let all = |hosts| Some(Excluded { hosts, port: None });
    match entry.as_str() {
        "*" => return all(Hosts::All),
        "<local>" => return all(Hosts::Local),
        _ => {}
    }
    if let Some((address, length)) = entry.split_once('/') {
        let address: IpAddr = unbracketed(address).parse().ok()?;
        let length: u32 = length.parse().ok()?;
        let (most, more) = if address.is_ipv4() {
            (32, 96)
        } else {
            (128, 0)
        };
        let length = Some(length).filter(|length| *length <= most)?;
        return all(Hosts::Network(bits(address), length.saturating_add(more)));
    }
    if let Ok(address) = unbracketed(&entry).parse() {
        return all(Hosts::Network(bits(address), 128));
    }
    let (host, port) = match entry.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse().ok().filter(|port| *port > 0)?)),
        None => (entry.as_str(), None),
    };
    let hosts = if let Ok(address) = unbracketed(host).parse() {
        Hosts::Network(bits(address), 128)
    } else {
        let name = host.trim_end_matches('.');
        let is_part = |char: char| char.is_alphanumeric() || "-_.*".contains(char);
        if name.trim_matches('.').is_empty() || !name.chars().all(is_part) {
            return None;
        }
        match name {
            "*" => Hosts::All,
            name if name.contains('*') => Hosts::Like(name.to_owned()),
            name => Hosts::Below(name.trim_start_matches('.').to_owned()),
        }
    };
    Some(Excluded { hosts, port })
}

fn unbracketed(address: &str) -> &str {
    let inner = address
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    inner.unwrap_or(address)
}

/// The address of a proxy with its scheme.
fn address(value: &str) -> Result<String, String> {
    let (scheme, rest) = value.split_once("://").unwrap_or(("http", value));
    let scheme = scheme.to_ascii_lowercase();
    // Some tools have a word of their own for this one.
    let scheme = if scheme == "socks" {
        "socks5"
    } else {
        scheme.as_str()
    };
    if !SCHEMES.contains(&scheme) {
        return Err(format!("the scheme is none of {}", SCHEMES.join(", ")));
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let place = authority
        .rsplit_once('@')
        .map_or(authority, |(_, place)| place);
    let (host, port) = match place
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        Some((host, after)) => {
            if host.parse::<Ipv6Addr>().is_err() {
                return Err("its host is no address".to_owned());
            }
            (
                host,
                after
                    .strip_prefix(':')
                    .or((!after.is_empty()).then_some("?")),
            )
        }
        None => match place.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    let is_part = |char: char| char.is_alphanumeric() || "-_.:%".contains(char);
    let is_bare = !place.starts_with('[') && host.contains(':');
    if host.is_empty() || is_bare || !host.chars().all(is_part) {
        return Err("it has no host, or one that is no name".to_owned());
    }
    let is_port = |port: &str| {
        port.bytes().all(|byte| byte.is_ascii_digit())
            && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    if port.is_some_and(|port| !is_port(port)) {
        return Err("its port is no number from 1 to 65535".to_owned());
    }
    Ok(format!("{scheme}://{authority}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> ProxySettings {
        ProxySettings::from_environment(|name| {
            let found = variables.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn entries_of_all_forms_exclude_hosts() {
        for (entries, host, port, is_excluded) in [
            ("*.lan.invalid", "api.lan.invalid", 80, true),
            ("*.lan.invalid", "a.b.lan.invalid", 80, true),
            ("*.lan.invalid", "lan.invalid", 80, false),
            ("*.lan.invalid", "xlan.invalid", 80, false),
            ("*lan.invalid", "xlan.invalid", 80, true),
            (".lan.invalid", "api.lan.invalid", 80, true),
            (".lan.invalid", "lan.invalid", 80, true),
            (".lan.invalid", "xlan.invalid", 80, false),
            ("lan.invalid", "api.lan.invalid", 80, true),
            ("lan.invalid", "xlan.invalid", 80, false),
            ("lan.invalid", "lan.invalid.evil", 80, false),
            ("LAN.Invalid.", "API.lan.INVALID.", 80, true),
            ("a , lan.invalid ,b", "lan.invalid", 80, true),
            ("a lan.invalid", "lan.invalid", 80, true),
            ("a;lan.invalid", "lan.invalid", 80, true),
            (",,lan.invalid,", "lan.invalid", 80, true),
            ("lan.invalid:8080", "api.lan.invalid", 8080, true),
            ("lan.invalid:8080", "lan.invalid", 80, false),
            ("*.lan.invalid:8080", "api.lan.invalid", 8080, true),
            ("api-*.lan.invalid", "api-1.lan.invalid", 80, true),
            ("*", "anything", 80, true),
            ("<local>", "intranet", 80, true),
            ("<local>", "a.invalid", 80, false),
            ("10.1.2.3", "10.1.2.3", 80, true),
            ("10.1.2.3", "110.1.2.3", 80, false),
            ("10.1.2.3:81", "10.1.2.3", 80, false),
            ("10.1.2.3:81", "10.1.2.3", 81, true),
            ("10.0.0.0/8", "10.200.0.1", 80, true),
            ("10.0.0.0/8", "11.0.0.1", 80, false),
            ("10.0.0.0/8", "10.example", 80, false),
            ("0.0.0.0/0", "8.8.8.8", 80, true),
            ("0.0.0.0/0", "2001:db8::1", 80, false),
            ("192.168.*", "192.168.4.5", 80, true),
            ("0.0.1", "10.0.0.1", 80, false),
            ("2001:db8::/32", "[2001:db8:1::1]", 80, true),
            ("[2001:db8::]/32", "2001:db8:1::1", 80, true),
            ("2001:db8::/32", "[2001:db9::1]", 80, false),
            ("2001:DB8::1", "[2001:db8:0::1]", 80, true),
            ("[2001:db8::1]:81", "[2001:db8::1]", 81, true),
            ("[2001:db8::1]:81", "[2001:db8::1]", 80, false),
            ("::ffff:10.1.2.3", "10.1.2.3", 80, true),
            ("::/0", "10.1.2.3", 80, true),
            ("", "lan.invalid", 80, false),
        ] {
            for variable in ["NO_PROXY", "no_proxy"] {
                let both = settings(&[
                    ("http_proxy", "http://p:1"),
                    (variable, entries),
                    ("NO_PROXY", "other.invalid"),
                ]);
                let proxy = both.proxy_for("http", host, port).unwrap();
                assert_eq!(proxy.is_none(), is_excluded, "{entries} {host}:{port}");
                assert_eq!(both.warnings(), [""; 0], "{entries}");
            }
        }
        let both = settings(&[("HTTP_PROXY", "p"), ("NO_PROXY", "a"), ("no_proxy", "b")]);
        assert_eq!(both.proxy_for("http", "b", 80), Ok(None));
        assert_eq!(both.proxy_for("http", "a", 80), Ok(None));
        for host in ["localhost", "x.localhost", "127.3.2.1", "[::1]", "0.0.0.0"] {
            assert_eq!(both.proxy_for("http", host, 80), Ok(None), "{host}");
        }
    }

    #[test]
    fn entries_that_mean_nothing_are_named() {
        for entry in [
            "10.0.0.0/33",
            "10.0.0/8",
            "::/129",
            "a:0",
            "a:99999",
            "a:b",
            "http://a",
            "a/b",
            "a?",
            ".",
            "[::1",
        ] {
            let list = format!("b, {entry}");
            let settings = settings(&[("HTTP_PROXY", "http://p:1"), ("NO_PROXY", &list)]);
            let [warning] = settings.warnings() else {
                panic!("{entry}: {:?}", settings.warnings());
            };
            assert!(
                warning.contains("NO_PROXY") && warning.contains(entry),
                "{warning}"
            );
            assert_eq!(settings.proxy_for("http", "b", 80), Ok(None));
        }
    }

    #[test]
    fn proxies_are_named_by_variables() {
        for (variable, value, expected) in [
            ("HTTP_PROXY", "http://p:3128", "http://p:3128"),
            ("http_proxy", " p:3128 ", "http://p:3128"),
            ("ALL_PROXY", "SOCKS5H://u:pw@p:1/", "socks5h://u:pw@p:1"),
            ("all_proxy", "socks://p", "socks5://p"),
            ("HTTP_PROXY", "https://[::1]:3128", "https://[::1]:3128"),
            ("HTTP_PROXY", "p", "http://p"),
        ] {
            let settings = settings(&[(variable, value)]);
            let found = settings.proxy_for("http", "a.invalid", 80);
            assert_eq!(found, Ok(Some(expected)), "{variable}={value}");
        }
        let three = settings(&[
            ("HTTP_PROXY", "h"),
            ("http_proxy", "other"),
            ("HTTPS_PROXY", "s"),
            ("ALL_PROXY", "a"),
        ]);
        assert_eq!(three.proxy_for("http", "x", 80), Ok(Some("http://h")));
        assert_eq!(three.proxy_for("https", "x", 443), Ok(Some("http://s")));
        let all = settings(&[("ALL_PROXY", "a"), ("HTTP_PROXY", " ")]);
        assert_eq!(all.proxy_for("https", "x", 443), Ok(Some("http://a")));
        let none = settings(&[("HTTP_PROXY", "h")]);
        assert_eq!(none.proxy_for("https", "x", 443), Ok(None));
        let cgi = settings(&[("HTTP_PROXY", "h"), ("REQUEST_METHOD", "GET")]);
        assert!(!cgi.names_one() && none.names_one());
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_never_left_out() {
        for value in [
            "gopher://127.0.0.1:9",
            "ftp://p",
            "http://",
            "http://:3128",
            "http://p:0",
            "http://p:99999",
            "http://p:port",
            "http://p:+1",
            "http://[::1:3128",
            "http://[p]:1",
            "http://[::1]3128",
            "::",
            "http://a b:1",
            "://p",
            "http://u:secret@:1",
        ] {
            for name in [
                "HTTP_PROXY",
                "HTTPS_PROXY",
                "ALL_PROXY",
                "http_proxy",
                "https_proxy",
                "all_proxy",
            ] {
                let settings = settings(&[(name, value), ("NO_PROXY", "b")]);
                let scheme = if name.eq_ignore_ascii_case("HTTP_PROXY") {
                    "http"
                } else {
                    "https"
                };
                let error = settings.proxy_for(scheme, "a", 80).unwrap_err();
                assert_eq!(error.variable, name);
                assert!(!error.to_string().contains("secret"));
                assert_eq!(settings.proxy_for(scheme, "b", 80), Ok(None));
            }
        }
    }
}
