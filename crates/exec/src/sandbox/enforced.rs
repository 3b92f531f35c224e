//! What a sandbox really enforces, and what it leaves open.

use std::fmt;

/// What a sandbox is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// Namespaces, made by the helper itself, with Landlock and seccomp inside.
    Namespaces,
    /// Namespaces, made by bubblewrap, with Landlock and seccomp inside.
    Bubblewrap,
    /// Landlock and seccomp alone.
    Landlock,
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Namespaces => "namespaces",
            Self::Bubblewrap => "bubblewrap",
            Self::Landlock => "Landlock",
        })
    }
}

/// What a sandbox enforces here, as a real attempt has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enforced {
    /// What it is made of.
    pub mechanism: Mechanism,
    /// The version of Landlock that is used; 0: none.
    pub landlock_abi: i32,
    /// Commands have process numbers of their own, see no process outside, and nothing of them is
    /// alive when the run is over.
    pub process_namespace: bool,
    /// Commands without a network have one of their own, with nobody else in it.
    pub network_namespace: bool,
    /// Commands connect to no service on a socket in the file system, unless the socket lies where
    /// they write.
    pub decides_connections: bool,
    /// What stays open, whatever the profile.
    pub gaps: Vec<Gap>,
}

/// Something that a sandbox does not close here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gap {
    /// Protected paths inside of writable folders can be changed.
    Protected,
    /// Protected paths that do not exist yet can be made.
    NewProtected,
    /// Hidden paths inside of writable folders can be read.
    HiddenInside,
    /// The names below hidden folders can be listed.
    HiddenNames,
    /// Mode, owner and times of files outside can be changed.
    Attributes,
    /// Files outside can be cut to length zero.
    Truncate,
    /// Devices can be told things beside what is read and written.
    Devices,
    /// Other processes of the same user can be seen.
    ProcessesSeen,
    /// Other processes of the same user can be signalled.
    Signals,
    /// A process that cuts all its ties can outlive a run that is killed.
    Survivors,
    /// The temporary folders of the system are not replaced by a private one.
    SharedTemp,
    /// Services on sockets in the file system can be reached, but for those below `/run`, `/tmp`
    /// and `/var/tmp`.
    UnixSockets,
    /// Services on sockets in writable directories can be reached.
    InnerSockets,
    /// As root, commands can leave programs in writable directories that run as root for any user who
    /// starts them.
    SetuidFiles,
    /// With the network on, services that listen on abstract sockets can be reached.
    AbstractSockets,
    /// With a proxy, any host can be reached on the port of the proxy.
    ProxyPort,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Protected => "protected paths inside of writable folders can be changed",
            Self::NewProtected => {
                "protected paths that do not exist yet can be made, and are removed when the command ends"
            }
            Self::HiddenInside => "hidden paths inside of writable folders can be read",
            Self::HiddenNames => "the names below hidden folders can be listed",
            Self::Attributes => "mode, owner and times of files outside can be changed",
            Self::Truncate => "files outside can be cut to length zero",
            Self::Devices => "devices can be controlled",
            Self::ProcessesSeen => "other processes can be seen",
            Self::Signals => "other processes of the same user can be signalled",
            Self::Survivors => "a process that cuts all its ties can outlive a run that is killed",
            Self::SharedTemp => "the temporary folders of the system can be read",
            Self::UnixSockets => {
                "services on sockets outside of /run, /tmp and /var/tmp can be reached"
            }
            Self::InnerSockets => {
                "services outside that listen on sockets in the workspace or in another writable directory can be reached"
            }
            Self::SetuidFiles => {
                "as root, commands can leave setuid programs in writable directories"
            }
            Self::AbstractSockets => {
                "with the network on, services on abstract sockets can be reached"
            }
            Self::ProxyPort => "with a proxy, any host can be reached on the port of the proxy",
        })
    }
}

/// No sandbox can be set up on this system.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no sandbox can be set up here: {}", listed(.missing))]
pub struct SandboxUnavailable {
    /// What is missing for each mechanism that was tried.
    pub missing: Vec<MissingFeature>,
}

/// A feature that a sandbox needs and this system does not give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingFeature {
    /// Its name, such as `bubblewrap` or `Landlock`.
    pub feature: String,
    /// Why it cannot be had, in words.
    pub reason: String,
}

impl fmt::Display for MissingFeature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.feature, self.reason)
    }
}

fn listed(missing: &[MissingFeature]) -> String {
    let words: Vec<String> = missing.iter().map(ToString::to_string).collect();
    words.join("; ")
}
