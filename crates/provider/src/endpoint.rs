//! Where a request goes.

use std::net::IpAddr;

use reqwest::Url;

use crate::http::BuildError;

/// The URL of a call: the base URL, a version part unless it has one, and the format's path. A base
/// URL that already ends with that path is taken as it is.
pub(crate) fn endpoint(base_url: &str, path: &str) -> Result<Url, BuildError> {
    let refuse = |reason: &str| BuildError::BaseUrl {
        url: shown(base_url),
        reason: reason.to_owned(),
    };
    let mut url = Url::parse(base_url.trim()).map_err(|error| refuse(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refuse("it begins neither with http:// nor with https://"));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(refuse("it names no host"));
    }
    let base = url.path().trim_end_matches('/').to_owned();
    if base.ends_with(&format!("/{path}")) {
        return Ok(url);
    }
    let has_version = base.split('/').any(is_version);
    let version = if has_version { "" } else { "/v1" };
    url.set_path(&format!("{base}{version}/{path}"));
    url.set_fragment(None);
    Ok(url)
}

/// Whether a segment of a path is a version, such as `v1` or `v1beta`.
fn is_version(segment: &str) -> bool {
    segment
        .strip_prefix('v')
        .is_some_and(|rest| rest.starts_with(|character: char| character.is_ascii_digit()))
}

/// A URL without what may be secret in it.
pub(crate) fn shown(url: &str) -> String {
    match Url::parse(url.trim()) {
        Ok(url)
            if url.has_authority() && (url.password().is_some() || !url.username().is_empty()) =>
        {
            format!("{}://{}", url.scheme(), url.host_str().unwrap_or_default())
        }
        _ => url.to_owned(),
    }
}

/// A URL for a record: no login, and no query, which may hold a key.
pub(crate) fn without_secrets(url: &Url) -> String {
    let port = url
        .port()
        .map_or_else(String::new, |port| format!(":{port}"));
    let host = url.host_str().unwrap_or_default();
    format!("{}://{host}{port}{}", url.scheme(), url.path())
}

/// Host and port for a message; the port only where it is not the usual one.
pub(crate) fn host_and_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Whether a host is this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    if host.eq_ignore_ascii_case("localhost") || host.ends_with(".localhost") {
        return true;
    }
    ip(host).is_some_and(|ip| ip.is_loopback() || ip.is_unspecified())
}

/// Whether a host is this machine or in this network.
pub(crate) fn is_local_host(host: &str) -> bool {
    if is_loopback(host) || host.ends_with(".local") || host == "host.docker.internal" {
        return true;
    }
    match ip(host) {
        Some(IpAddr::V4(ip)) => ip.is_private() || ip.is_link_local(),
        Some(IpAddr::V6(ip)) => ip.is_unique_local() || ip.is_unicast_link_local(),
        None => false,
    }
}

fn ip(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[')
        .trim_end_matches(']')
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases_with_and_without_a_version() {
        let cases = [
            ("https://api.test", "https://api.test/v1/messages"),
            ("https://api.test/", "https://api.test/v1/messages"),
            ("https://api.test/v1", "https://api.test/v1/messages"),
            ("https://api.test/v1/", "https://api.test/v1/messages"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1/messages"),
            (
                "https://api.test/anthropic",
                "https://api.test/anthropic/v1/messages",
            ),
            (
                "https://api.test/v1/messages",
                "https://api.test/v1/messages",
            ),
            (
                "https://api.test/v1beta/openai/",
                "https://api.test/v1beta/openai/messages",
            ),
            (
                "https://api.test/v4?key=x",
                "https://api.test/v4/messages?key=x",
            ),
        ];
        for (base, url) in cases {
            assert_eq!(endpoint(base, "messages").unwrap().as_str(), url);
        }
        for bad in ["", "api.test", "ftp://api.test", "http://"] {
            assert!(endpoint(bad, "messages").is_err(), "{bad}");
        }
        let error = endpoint("ftp://user:secret@api.test/x", "messages").unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }

    #[test]
    fn what_is_near() {
        for host in ["localhost", "127.0.0.1", "[::1]", "0.0.0.0", "a.localhost"] {
            assert!(is_loopback(host) && is_local_host(host), "{host}");
        }
        for host in ["192.168.1.5", "10.0.0.1", "box.local", "[fd00::1]"] {
            assert!(!is_loopback(host) && is_local_host(host), "{host}");
        }
        for host in ["api.openai.com", "8.8.8.8", "localhost.test"] {
            assert!(!is_local_host(host), "{host}");
        }
    }
}
