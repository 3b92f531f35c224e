//! What was not reached, and by which rule.

use std::collections::VecDeque;
use std::fmt;
use std::net::IpAddr;

/// The most that are kept. The oldest go first.
const MAX: usize = 64;

/// A host that something in the sandbox wanted to reach and did not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// The host, in lower case.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The rule.
    pub why: DeniedWhy,
}

/// Why a host is not reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeniedWhy {
    /// It is not among the hosts that may be reached.
    NotListed,
    /// It is among them, but not at this port.
    Port,
    /// It is a name of this machine or its network.
    LocalName,
    /// A tunnel to another host was to lead there.
    OtherName,
    /// What was to go there looks like TLS and cannot be read.
    Unreadable,
    /// It is at an address that is not one of the public internet.
    Private(IpAddr),
}

impl fmt::Display for Denied {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, why } = self;
        write!(formatter, "{host}:{port} may not be reached: ")?;
        match why {
            DeniedWhy::NotListed => formatter.write_str("it is not among the allowed hosts"),
            DeniedWhy::Port => formatter.write_str("the host is allowed, but not at this port"),
            DeniedWhy::LocalName => {
                formatter.write_str("it is a name of this machine or its network")
            }
            DeniedWhy::OtherName => {
                formatter.write_str("a tunnel to another host was to lead there")
            }
            DeniedWhy::Unreadable => {
                formatter.write_str("what was to go there looks like TLS and cannot be read")
            }
            DeniedWhy::Private(address) => {
                write!(
                    formatter,
                    "{address} is not an address of the public internet"
                )
            }
        }
    }
}

/// The denials that nobody has taken yet, each once.
#[derive(Debug, Default)]
pub(super) struct Denials(VecDeque<Denied>);

impl Denials {
    pub(super) fn note(&mut self, denied: Denied) {
        if self.0.contains(&denied) {
            return;
        }
        if self.0.len() >= MAX {
            self.0.pop_front();
        }
        self.0.push_back(denied);
    }

    pub(super) fn take(&mut self) -> Vec<Denied> {
        std::mem::take(&mut self.0).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denials_are_kept_once_and_not_without_end() {
        let denied = |number: usize| Denied {
            host: format!("h{number}.test"),
            port: 443,
            why: DeniedWhy::NotListed,
        };
        let mut denials = Denials::default();
        for number in (0..=MAX).chain([MAX]) {
            denials.note(denied(number));
        }
        let expected: Vec<_> = (1..=MAX).map(denied).collect();
        assert_eq!(denials.take(), expected);
        assert_eq!(denials.take(), []);
    }

    #[test]
    fn a_denial_names_host_and_rule() {
        let words = |why| {
            let host = "a.test".into();
            Denied {
                host,
                port: 22,
                why,
            }
            .to_string()
        };
        assert_eq!(
            words(DeniedWhy::NotListed),
            "a.test:22 may not be reached: it is not among the allowed hosts"
        );
        assert_eq!(
            words(DeniedWhy::Private([10, 0, 0, 1].into())),
            "a.test:22 may not be reached: 10.0.0.1 is not an address of the public internet"
        );
    }
}
