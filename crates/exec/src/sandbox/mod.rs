//! The wall round a command: what it can write, read and reach, whatever it tries.
//!
//! A command runs below a helper, which is this program (or another one that calls
//! [`sandbox_main`]) started once more with a hidden argument. The helper is told the profile by a
//! descriptor, shuts itself in, and becomes the shell. Where it may it makes namespaces first; where
//! only bubblewrap may, the helper runs inside of those that this one makes; else Landlock and
//! seccomp stand alone, and [`Enforced::gaps`] says what stays open.
//!
//! The helper is a program with one thread, since nothing of the kind is safe between a fork and an
//! exec of a program with many. In namespaces it is the first process: it starts the shell below it,
//! tells its status by a pipe (who waits outside would turn a signal into a number), reaps, and dies with
//! the last process, or when the harness's end of that pipe closes; the kernel kills what is left.
//! The process outside ignores all signals, so that the group can be asked to end as one; once the
//! status is told it is killed, for it would wait for leftovers. Of mounts what is deeper comes
//! later, and folders on the way to a path that is not written are mounts too, so that none is
//! renamed away.

mod bubblewrap;
mod confine;
mod enforced;
mod filter;
mod forward;
mod helper;
mod init;
mod layout;
mod mounts;
mod namespaces;
mod places;
mod privileges;
mod probe;
mod rules;
mod sockets;
mod task;
mod users;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use self::confine::{Confinement, Shut};
use self::namespaces::Namespaces;
pub(crate) use self::places::Places;

pub use enforced::{Enforced, Gap, Mechanism, MissingFeature, SandboxUnavailable};

/// What a command may do.
///
/// All paths are absolute. It reads everything that is not hidden.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxProfile {
    /// The folders and files that it writes.
    pub writable: Vec<PathBuf>,
    /// Paths below writable ones that it does not write all the same.
    pub read_only: Vec<PathBuf>,
    /// Paths that it does not even read.
    pub hidden: Vec<PathBuf>,
    /// A private folder, which must exist: it is writable, and `TMPDIR` names it. Where mounts are
    /// possible it is also seen as `/tmp` and `/var/tmp`.
    pub temp: PathBuf,
    /// Directories that it sees another one in place of. Needs mounts.
    pub staged: Vec<StagedDirectory>,
    /// What it reaches of the network.
    pub network: SandboxNetwork,
}

/// A directory that commands see another one in place of.
///
/// The entries that the path has when a command starts are seen there too, and are read-only. All
/// else that a command makes at the path goes into the other directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedDirectory {
    /// The directory that is replaced.
    pub path: PathBuf,
    /// The directory that commands see in its place. It must exist.
    pub shown: PathBuf,
}

/// What a command reaches of the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxNetwork {
    /// Nothing.
    Off,
    /// Everything.
    On,
    /// An HTTP proxy of the harness alone. The variables that name a proxy are set in the
    /// environment of the command.
    Proxy {
        /// The Unix socket on which the proxy listens.
        socket: PathBuf,
        /// The port of 127.0.0.1 on which it listens too. It is what a command uses where no
        /// network namespace can be had; without it such a command reaches nothing.
        port: Option<u16>,
    },
}

/// How a sandbox is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxOptions {
    /// The program that calls [`sandbox_main`]; `None`: this one.
    pub helper: Option<PathBuf>,
    /// Whether the helper may make namespaces by itself.
    pub namespaces: bool,
    /// Whether bubblewrap may be used.
    pub bubblewrap: bool,
    /// The newest version of Landlock that may be used; `None`: what the kernel has.
    pub landlock_abi: Option<i32>,
}

impl Default for SandboxOptions {
    fn default() -> Self {
        Self {
            helper: None,
            namespaces: true,
            bubblewrap: true,
            landlock_abi: None,
        }
    }
}

/// A sandbox that has been tried on this system. A handle: clones are cheap.
#[derive(Debug, Clone)]
pub struct Sandbox {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    enforced: Enforced,
    /// The program of the helper, as it was when the sandbox was tried.
    helper: OwnedFd,
    namespaces: Option<Namespaces>,
}

impl Sandbox {
    /// Finds the strongest sandbox that works here, by real attempts. Blocks for some
    /// milliseconds, or for a few seconds at most where something hangs.
    ///
    /// # Errors
    /// None works: says for each what is missing.
    pub fn probe(options: &SandboxOptions) -> Result<Self, SandboxUnavailable> {
        let inner = Arc::new(probe::find(options)?);
        Ok(Self { inner })
    }

    /// What it enforces.
    #[must_use]
    pub fn enforced(&self) -> &Enforced {
        &self.inner.enforced
    }

    /// What stays open with a profile.
    #[must_use]
    pub fn gaps(&self, profile: &SandboxProfile) -> Vec<Gap> {
        let places = Places::of(profile).unwrap_or_default();
        let is_there = |gap: &Gap| match gap {
            Gap::Protected => !places.read_only.is_empty(),
            Gap::NewProtected => places.has_missing,
            Gap::HiddenInside => places.has_hidden_inside(),
            Gap::HiddenNames => !places.hidden.is_empty(),
            Gap::ProxyPort => matches!(profile.network, SandboxNetwork::Proxy { .. }),
            Gap::AbstractSockets => {
                !self.inner.enforced.network_namespace || profile.network == SandboxNetwork::On
            }
            Gap::Attributes
            | Gap::Truncate
            | Gap::Devices
            | Gap::ProcessesSeen
            | Gap::Signals
            | Gap::Survivors
            | Gap::SharedTemp
            | Gap::UnixSockets
            | Gap::InnerSockets => true,
            Gap::SetuidFiles => rustix::process::geteuid().is_root(),
        };
        let gaps = self.inner.enforced.gaps.iter().copied();
        gaps.filter(is_there).collect()
    }
}

/// The sandbox of a command.
#[derive(Debug, Clone)]
pub struct Confined {
    /// How it is shut in.
    pub sandbox: Sandbox,
    /// What it may do.
    pub profile: Arc<SandboxProfile>,
}

/// Becomes a shell in a sandbox, if this process was started for that; else returns at once.
///
/// To be called first thing in `main` by every program that runs commands in a sandbox, before any
/// thread is started.
pub fn sandbox_main() {
    helper::main();
}
