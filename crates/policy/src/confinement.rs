//! The sandbox as the policy knows it: what lies within it.

use std::path::{Path, PathBuf};

use crate::Grant;

/// What a shell line may do without anybody being asked, because a sandbox keeps it from all else.
///
/// Paths are absolute and links in them are resolved.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Confinement {
    /// The folders that are written in.
    pub writable: Vec<PathBuf>,
    /// The folders for what does not last, such as `/tmp`.
    pub temp: Vec<PathBuf>,
    /// What may be talked to.
    pub network: Reach,
}

/// What may be talked to from within the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Reach {
    /// Nobody.
    #[default]
    Nothing,
    /// These hosts: names, or `*.` with a name for all below it.
    Hosts(Vec<String>),
    /// Everybody.
    Everything,
}

impl Confinement {
    /// Tells whether a path may be written; it is compared as text and has to be absolute.
    #[must_use]
    pub fn writes(&self, path: &Path) -> bool {
        self.writable
            .iter()
            .chain(&self.temp)
            .any(|folder| path.starts_with(folder))
    }

    /// Tells whether this lies within the sandbox, so that nothing has to be given.
    #[must_use]
    pub fn includes(&self, grant: &Grant) -> bool {
        match grant {
            Grant::Write(path) => self.writes(path),
            Grant::Network => self.network == Reach::Everything,
            Grant::Host(host) => self.network.includes(host),
            Grant::Unconfined => false,
        }
    }
}

impl Reach {
    /// Tells whether this host may be talked to.
    #[must_use]
    pub fn includes(&self, host: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Hosts(hosts) => hosts
                .iter()
                .any(|wanted| crate::host::matches(wanted, host)),
        }
    }
}
