//! What a call may be given beyond the sandbox.

use std::{fmt, path::PathBuf, str::FromStr};

use thiserror::Error;

/// One thing beyond the sandbox that a call needs, or that is asked for by name.
///
/// ```
/// use tooloop_policy::Grant;
///
/// assert_eq!("write:/srv/out".parse(), Ok(Grant::Write("/srv/out".into())));
/// assert_eq!("host:example.com".parse(), Ok(Grant::Host("example.com".into())));
/// assert_eq!(Grant::Network.to_string(), "network");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Grant {
    /// To write this path and what is below it: absolute.
    Write(PathBuf),
    /// To talk to any host.
    Network,
    /// To talk to this host.
    Host(String),
    /// To run without a sandbox.
    Unconfined,
}

impl Grant {
    /// Says in words what is given, as the end of a sentence.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Write(path) => format!("to write `{}`", path.display()),
            Self::Network => "to use the network".to_owned(),
            Self::Host(host) => format!("to talk to `{host}`"),
            Self::Unconfined => "to run without the sandbox".to_owned(),
        }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(path) => write!(f, "write:{}", path.display()),
            Self::Network => f.write_str("network"),
            Self::Host(host) => write!(f, "host:{host}"),
            Self::Unconfined => f.write_str("unconfined"),
        }
    }
}

impl FromStr for Grant {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |problem| {
            Err(GrantError {
                found: text.to_owned(),
                problem,
            })
        };
        match text.trim().split_once(':') {
            None => match text.trim() {
                "network" => Ok(Self::Network),
                "unconfined" => Ok(Self::Unconfined),
                _ => error("it is none of them"),
            },
            Some(("write", path)) => {
                let path = path.trim();
                let climbs = path.split('/').any(|part| part == "..");
                if !path.starts_with('/') || path.contains('\0') {
                    error("the path has to be absolute")
                } else if climbs {
                    error("the path must not hold `..`")
                } else {
                    Ok(Self::Write(PathBuf::from(path)))
                }
            }
            Some(("host", host)) => {
                let host = host.trim().trim_end_matches('.').to_ascii_lowercase();
                let is_name = !host.is_empty()
                    && host
                        .chars()
                        .all(|c| c.is_ascii_alphanumeric() || "-._:[]".contains(c));
                if is_name {
                    Ok(Self::Host(host))
                } else {
                    error("this is no name of a host")
                }
            }
            Some(_) => error("it is none of them"),
        }
    }
}

/// A text that names nothing that could be given.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "unknown grant `{found}`: {problem}; expected write:/PATH, network, host:NAME or unconfined"
)]
pub struct GrantError {
    /// What was found instead.
    pub found: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_grant_reads_back_as_written() {
        for grant in [
            Grant::Write("/a b/c".into()),
            Grant::Network,
            Grant::Host("a.example:8080".into()),
            Grant::Unconfined,
        ] {
            assert_eq!(grant.to_string().parse(), Ok(grant));
        }
    }

    #[test]
    fn other_texts_are_refused_and_named() {
        for text in [
            "",
            "write",
            "write:",
            "write:a",
            "write:/a/../b",
            "host:",
            "host:a b",
            "host:*",
            "Network",
            "net",
            "network:x",
        ] {
            let error = text.parse::<Grant>().unwrap_err();
            assert_eq!(error.found, text);
            assert!(error.to_string().contains("write:/PATH"), "{error}");
        }
    }
}
