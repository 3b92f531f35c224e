//! Finds out what works here, by trying it: the very helper writes where it may and where it may
//! not.

use std::fs::{self, DirBuilder};
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};

use super::bubblewrap::{self, Bubblewrap};
use super::confine::{Confinement, Shut};
use super::helper::{SOCKETS, attempted};
use super::namespaces::{Maker, Namespaces};
use super::places::Places;
use super::task::{Act, Attempt};
use super::{
    Enforced, Gap, Inner, Mechanism, MissingFeature, SandboxNetwork, SandboxOptions,
    SandboxProfile, SandboxUnavailable, rules, users,
};
use crate::platform::{Image, Spawner, Strings, above_standard, random_id};

/// How long an attempt may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// How often it is looked whether it is over.
const BREATH: Duration = Duration::from_millis(1);

/// The strongest that works.
pub(super) fn find(options: &SandboxOptions) -> Result<Inner, SandboxUnavailable> {
    let mut missing = Vec::new();
    let mut lacks = |feature: &str, reason: String| {
        missing.push(MissingFeature {
            feature: feature.to_owned(),
            reason,
        });
    };
    let landlock = rules::kernel_abi();
    let most = options.landlock_abi.unwrap_or(rules::NEWEST);
    let abi = landlock
        .as_ref()
        .map_or(0, |abi| *abi)
        .min(rules::NEWEST)
        .min(most)
        .max(0);
    let open = || {
        let path = options
            .helper
            .as_deref()
            .unwrap_or(Path::new("/proc/self/exe"));
        rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map_err(io::Error::from)
            .and_then(above_standard)
    };
    let mut makers = Vec::new();
    if options.namespaces {
        makers.push(("namespaces", Maker::Helper));
    }
    if options.bubblewrap {
        match bubblewrap::find() {
            Some(program) => makers.push((
                "bubblewrap",
                Maker::Bubblewrap(Bubblewrap {
                    program,
                    covers_system: rustix::process::geteuid().is_root() && abi == 0,
                }),
            )),
            None => lacks("bubblewrap", "it is not installed".to_owned()),
        }
    }
    // With all that namespaces can do, else with less.
    for (has_network, decides) in [(true, true), (true, false), (false, true), (false, false)] {
        for (name, maker) in &makers {
            let made = namespaces(maker.clone(), has_network);
            match open()
                .map_err(|error| error.to_string())
                .and_then(|helper| tried(helper, Some(made), abi, decides))
            {
                Ok(inner) => return Ok(inner),
                Err(reason) if !has_network && !decides => lacks(name, reason),
                Err(reason) => tracing::debug!(reason, name, has_network, decides, "refused"),
            }
        }
    }
    match landlock {
        Err(error) => lacks("Landlock", format!("the kernel refuses it: {error}")),
        Ok(_) if abi == 0 => lacks("Landlock", "it is not to be used".to_owned()),
        Ok(_) => match open()
            .map_err(|error| error.to_string())
            .and_then(|helper| tried(helper, None, abi, false))
        {
            Ok(inner) => return Ok(inner),
            Err(reason) => lacks("Landlock with seccomp", reason),
        },
    }
    Err(SandboxUnavailable { missing })
}

fn namespaces(maker: Maker, has_network: bool) -> Namespaces {
    let is_root = rustix::process::geteuid().is_root();
    Namespaces {
        maker,
        // Without it root has its own files only.
        users: is_root.then(users::identity).and_then(Result::ok),
        has_network,
    }
}

fn tried(
    helper: OwnedFd,
    namespaces: Option<Namespaces>,
    abi: i32,
    decides_connections: bool,
) -> Result<Inner, String> {
    let has_namespaces = namespaces.is_some();
    let inner = Inner {
        enforced: Enforced {
            mechanism: match namespaces.as_ref().map(|namespaces| &namespaces.maker) {
                Some(Maker::Helper) => Mechanism::Namespaces,
                Some(Maker::Bubblewrap(_)) => Mechanism::Bubblewrap,
                None => Mechanism::Landlock,
            },
            landlock_abi: abi,
            process_namespace: has_namespaces,
            network_namespace: namespaces
                .as_ref()
                .is_some_and(|namespaces| namespaces.has_network),
            decides_connections,
            gaps: gaps(has_namespaces, abi, decides_connections),
        },
        helper,
        namespaces,
    };
    attempt(&inner)?;
    Ok(inner)
}

fn gaps(has_namespaces: bool, abi: i32, decides_connections: bool) -> Vec<Gap> {
    if has_namespaces {
        let sockets = if decides_connections {
            Gap::InnerSockets
        } else {
            Gap::UnixSockets
        };
        let mut gaps = vec![Gap::NewProtected, sockets, Gap::SetuidFiles];
        if abi < 6 {
            gaps.push(Gap::AbstractSockets);
        }
        return gaps;
    }
    let mut gaps = vec![
        Gap::Protected,
        Gap::SetuidFiles,
        Gap::HiddenInside,
        Gap::HiddenNames,
        Gap::Attributes,
        Gap::ProcessesSeen,
        Gap::Survivors,
        Gap::SharedTemp,
        Gap::ProxyPort,
    ];
    for (version, gap) in [(3, Gap::Truncate), (5, Gap::Devices), (6, Gap::Signals)] {
        if abi < version {
            gaps.push(gap);
        }
    }
    gaps
}

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("tooloop-probe-{}", random_id()));
        DirBuilder::new().mode(0o700).create(&folder)?;
        let made = Self(folder.canonicalize()?);
        for inner in ["in", "out", "temp"] {
            fs::create_dir(made.0.join(inner))?;
        }
        fs::write(made.0.join("in/kept"), b"")?;
        Ok(made)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is a few empty files in a folder for such.
        fs::remove_dir_all(&self.0).unwrap_or_default();
    }
}

/// Tries it, and says what is wrong.
fn attempt(inner: &Inner) -> Result<(), String> {
    let folder = Folder::new().map_err(|error| {
        let place = std::env::temp_dir();
        format!("nothing can be tried in {}: {error}", place.display())
    })?;
    let at = |path: &str| folder.0.join(path);
    let profile = SandboxProfile {
        writable: vec![at("in")],
        read_only: vec![at("in/kept")],
        hidden: Vec::new(),
        temp: at("temp"),
        staged: Vec::new(),
        network: SandboxNetwork::Off,
    };
    let listener = TcpListener::bind(("127.0.0.1", 0));
    let port = listener
        .as_ref()
        .ok()
        .and_then(|listener| listener.local_addr().ok());
    // Its path may be too long for an address; then it is not tried.
    let [_, foreign] = SOCKETS;
    let _service = UnixListener::bind(at(foreign));
    let mut outside = vec![at("out/made")];
    if inner.namespaces.is_some() {
        outside.push(at("in/kept"));
    }
    let act = Act::Try(Attempt {
        inside: at("in/made"),
        outside,
        port: port.map_or(0, |address| address.port()),
    });
    let told = run(inner, &profile, act, &folder.0)?;
    let is_out = at("out/made").exists()
        || fs::metadata(at("in/kept")).is_ok_and(|kept| kept.len() > 0)
            && inner.namespaces.is_some();
    match told {
        0 if is_out => Err("a file outside was written all the same".to_owned()),
        0 if at("in/made").exists() => Ok(()),
        told if told & attempted::INSIDE_REFUSED != 0 || told == 0 => {
            Err("a file inside could not be written".to_owned())
        }
        told if told & attempted::OUTSIDE_WRITTEN != 0 => {
            Err("a file outside was written".to_owned())
        }
        told if told & attempted::CALLS_ALLOWED != 0 => {
            Err("a call was allowed that was to be refused".to_owned())
        }
        told if told & attempted::SOCKET_REFUSED != 0 => {
            Err("an own socket could not be connected to".to_owned())
        }
        told if told & attempted::SOCKET_REACHED != 0 => {
            Err("a socket outside was connected to".to_owned())
        }
        _ => Err("the network was reached".to_owned()),
    }
}

/// The status with which the attempt ended, or what was printed by what failed before it.
fn run(inner: &Inner, profile: &SandboxProfile, act: Act, folder: &Path) -> Result<i32, String> {
    let words = |error: io::Error| error.to_string();
    let (output, theirs) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| error.to_string())?;
    rustix::io::ioctl_fionbio(&output, true).map_err(|error| error.to_string())?;
    let image = Image {
        program: c"/proc/self/exe".into(),
        arguments: Strings::default(),
        environment: Strings::default(),
        directory: c"/".into(),
        input: None,
        output: above_standard(theirs).map_err(words)?,
        errors: None,
        is_terminal: false,
        extra: Vec::new(),
        oom_score: None,
        ignores_signals: false,
    };
    let mut places = Places::of(profile).map_err(words)?;
    places.seen.push(folder.to_path_buf());
    let confinement = Confinement::new(inner, &profile.network, places);
    let Shut { image, report } = confinement
        .start(image, act, folder, &[])
        .map_err(|(place, error)| format!("{place}: {error}"))?;
    let started = Spawner::new().map_err(words)?.spawn(&image, None);
    drop(image);
    let (pid, _) = started.map_err(|(_, error)| error.to_string())?;
    let exited = wait(pid);
    let status = match &report {
        Some(report) => {
            let mut bytes = [0; 4];
            let read = rustix::io::read(report, &mut bytes).unwrap_or(0);
            (read == bytes.len())
                .then(|| i32::from_ne_bytes(bytes))
                .filter(|status| libc::WIFEXITED(*status))
                .map(|status| libc::WEXITSTATUS(status))
        }
        None => exited,
    };
    match status {
        // More than the bits of an attempt: it has not come to it.
        Some(status) if status < attempted::END => Ok(status),
        _ => {
            let mut said = [0; 1000];
            let length = rustix::io::read(&output, &mut said).unwrap_or(0);
            let said = String::from_utf8_lossy(said.get(..length).unwrap_or_default());
            let said = said.trim().replace('\n', "; ");
            Err(match (said.is_empty(), exited) {
                (false, _) => said,
                (true, Some(status)) => format!("it ended with status {status}"),
                (true, None) => "it did not end by itself".to_owned(),
            })
        }
    }
}

/// Waits for the end of a child, and kills it if that does not come. The status of an exit.
fn wait(pid: i32) -> Option<i32> {
    let process = Pid::from_raw(pid)?;
    let begin = Instant::now();
    let mut is_killed = false;
    let descriptor = rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty());
    loop {
        if let Ok(Some((_, status))) = waitpid(Some(process), WaitOptions::NOHANG) {
            return status.exit_status().filter(|_| !is_killed);
        }
        let left = PATIENCE.saturating_sub(begin.elapsed());
        if left.is_zero() {
            if is_killed && begin.elapsed() > PATIENCE * 2 {
                return None;
            }
            kill_process_group(process, Signal::KILL).unwrap_or_default();
            is_killed = true;
        }
        let wait = if descriptor.is_ok() && !is_killed {
            left
        } else {
            BREATH
        };
        let Ok(wait) = Timespec::try_from(wait) else {
            return None;
        };
        let mut fds: Vec<PollFd<'_>> = descriptor
            .iter()
            .map(|descriptor| PollFd::new(descriptor, PollFlags::IN))
            .collect();
        // An interrupted wait is a short one.
        poll(&mut fds, Some(&wait)).unwrap_or_default();
    }
}
