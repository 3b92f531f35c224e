//! The URL that a model passes.

use std::borrow::Cow;
use std::net::IpAddr;

use reqwest::Url;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

use super::address;

/// The longest URL, in bytes.
const MAX_LENGTH: usize = 8_000;

/// An address on the web that may be asked for: http or https, with a host, without a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebUrl(Url);

impl WebUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// What is wrong with it, in words for the model.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.len() > MAX_LENGTH {
            return Err(format!(
                "the url is longer than {MAX_LENGTH} bytes: pass a shorter one"
            ));
        }
        let url = Url::parse(text).map_err(|error| {
            format!(
                "{} is not a URL ({error}): pass a whole one, such as https://example.com/page",
                shown(text)
            )
        })?;
        Self::of(url)
    }

    /// Takes a URL that is one already.
    pub(crate) fn of(mut url: Url) -> Result<Self, String> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!(
                "only http and https can be fetched, not {}",
                shown(url.scheme())
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(
                "the url holds a login, which is never sent: pass it without the part before @"
                    .into(),
            );
        }
        if url
            .host_str()
            .is_none_or(|host| host.trim_matches('.').is_empty())
        {
            return Err("the url names no host".into());
        }
        url.set_fragment(None);
        Ok(Self(url))
    }

    /// The URL.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.0
    }

    /// The host as rules name it: lower case, no port, no dot at the end.
    #[must_use]
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default().trim_end_matches('.')
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.port_or_known_default().unwrap_or_default()
    }

    /// The address, if the host is one.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        address::literal(self.host())
    }

    /// Whether what is at `other` may be taken for an answer of this one: the same place, or its
    /// https twin.
    pub(crate) fn is_same_place(&self, other: &Self) -> bool {
        let same_host = self.host() == other.host();
        let upgrade = self.0.scheme() == "http"
            && other.0.scheme() == "https"
            && self.0.port().is_none()
            && other.0.port().is_none();
        let same_port = self.0.scheme() == other.0.scheme() && self.port() == other.port();
        same_host && (same_port || upgrade)
    }
}

/// A piece of text from outside, short and on one line.
pub(crate) fn shown(text: &str) -> String {
    let short: String = text.chars().take(100).collect();
    let dots = if short.len() < text.len() { "..." } else { "" };
    format!("{short:?}{dots}")
}

impl<'de> Deserialize<'de> for WebUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}

impl JsonSchema for WebUrl {
    fn schema_name() -> Cow<'static, str> {
        "WebUrl".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_or_refused() {
        let table = [
            ("https://example.com", Ok(("example.com", 443))),
            (" http://EXAMPLE.com:8080/a?b#c ", Ok(("example.com", 8080))),
            ("https://example.com.", Ok(("example.com", 443))),
            ("http://0x7f.1/", Ok(("127.0.0.1", 80))),
            ("http://2130706433/", Ok(("127.0.0.1", 80))),
            ("http://0177.0.0.1/", Ok(("127.0.0.1", 80))),
            ("http://127.1/", Ok(("127.0.0.1", 80))),
            ("http://127.0.0.1./", Ok(("127.0.0.1", 80))),
            ("http://[::FFFF:127.0.0.1]/", Ok(("[::ffff:7f00:1]", 80))),
            ("http://１２７.0.0.1/", Ok(("127.0.0.1", 80))),
            ("http://%31%32%37.0.0.1/", Ok(("127.0.0.1", 80))),
            (
                "example.com",
                Err("is not a URL (relative URL without a base)"),
            ),
            ("", Err("is not a URL")),
            ("http://", Err("is not a URL (empty host)")),
            ("http://./", Err("names no host")),
            (
                "http://256.1.1.1/",
                Err("is not a URL (invalid IPv4 address)"),
            ),
            (
                "file:///etc/passwd",
                Err("only http and https can be fetched, not \"file\""),
            ),
            ("ftp://example.com", Err("not \"ftp\"")),
            ("javascript:alert(1)", Err("not \"javascript\"")),
            ("http://me@example.com", Err("holds a login")),
            ("http://me:secret@example.com", Err("holds a login")),
        ];
        for (text, expected) in table {
            match (WebUrl::parse(text), expected) {
                (Ok(url), Ok((host, port))) => {
                    assert_eq!((url.host(), url.port()), (host, port), "{text}");
                }
                (Err(error), Err(words)) => {
                    assert!(error.contains(words), "{text}: {error}");
                    assert!(!error.contains("secret"), "{error}");
                }
                (found, _) => assert!(found.is_err() && expected.is_err(), "{text}: {found:?}"),
            }
        }
        let long = format!("http://example.com/{}", "a".repeat(MAX_LENGTH));
        assert!(
            WebUrl::parse(&long)
                .unwrap_err()
                .contains("longer than 8000 bytes")
        );
    }

    #[test]
    fn the_same_place_is_the_same_host_and_port_or_the_https_twin() {
        let table = [
            ("http://a.test/x", "http://a.test/y", true),
            ("http://a.test/x", "https://a.test/y", true),
            ("https://a.test/x", "http://a.test/y", false),
            ("http://a.test:81/x", "https://a.test/y", false),
            ("http://a.test:81/x", "http://a.test:81/y", true),
            ("http://a.test:81/x", "http://a.test:82/y", false),
            ("http://a.test/", "http://a.test./", true),
            ("http://a.test/", "http://www.a.test/", false),
        ];
        for (from, to, expected) in table {
            let parse = |text| WebUrl::parse(text).unwrap();
            assert_eq!(
                parse(from).is_same_place(&parse(to)),
                expected,
                "{from} {to}"
            );
        }
    }
}
