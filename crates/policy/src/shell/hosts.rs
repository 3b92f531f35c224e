//! Hosts and remotes as they stand in words.

use super::Word;

/// What a remote of git is.
pub(super) enum Target {
    /// A folder of this machine.
    Here,
    /// Something on the web.
    Web(Option<String>),
    /// Something behind `ssh`, or another way of its own.
    Shell(String),
    /// Only the settings of the repository say it.
    Unknown,
}

pub(super) fn git_target(word: &Word) -> Target {
    let text = word.prefix();
    let is_whole = word.literal().is_some();
    match text.split_once("://") {
        Some(("file", _)) => Target::Here,
        Some(("http" | "https", rest)) => Target::Web(url_host(rest, is_whole)),
        Some((_, rest)) => url_host(rest, is_whole).map_or(Target::Unknown, Target::Shell),
        None if text.starts_with(['/', '.', '~']) => Target::Here,
        None => remote_host(word).map_or(Target::Unknown, Target::Shell),
    }
}

/// The host of an address without its scheme.
pub(super) fn url_host(rest: &str, is_whole: bool) -> Option<String> {
    let end = rest.find(['/', '?', '#']);
    if end.is_none() && !is_whole {
        return None;
    }
    let authority = rest.get(..end.unwrap_or(rest.len()))?;
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_name = !host.is_empty()
        && host
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-._:".contains(c));
    is_name.then(|| host.trim_end_matches('.').to_ascii_lowercase())
}

/// The host of `user@host:path` or `host:path`.
pub(super) fn remote_host(word: &Word) -> Option<String> {
    let text = word.prefix();
    let (host, _) = text.split_once(':')?;
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let is_name = !host.is_empty()
        && host
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
    is_name.then(|| host.to_ascii_lowercase())
}

/// Names for this machine itself.
pub(crate) fn is_this_machine(host: &str) -> bool {
    host == "localhost"
        || host.ends_with(".localhost")
        || host == "::1"
        || host.starts_with("127.")
        || host == "0.0.0.0"
}
