//! Puts a shell into a sandbox: makes of what was to be started what starts it shut in.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};

use super::layout::View;
use super::namespaces::{Maker, Namespaces, Walls};
use super::places::{Places, TEMPORARY};
use super::task::{Act, Network, Task};
use super::{Confined, Inner, SandboxNetwork, helper};
use crate::StartError;
use crate::platform::{Image, Script, Strings, high};

/// The descriptors that the helper is given, above those of the shell.
const TASK: RawFd = 244;
const HELPER: RawFd = 245;
const REPORT: RawFd = 246;
const USERS: RawFd = 247;
const PROXY: RawFd = 248;

/// How a command is shut in.
#[derive(Debug)]
pub(crate) struct Confinement<'a> {
    inner: &'a Inner,
    network: &'a SandboxNetwork,
    places: Places,
}

/// What is started in place of the shell.
#[derive(Debug)]
pub(crate) struct Shut {
    pub(crate) image: Image,
    /// Where the status of the shell is told, if not by the process itself. When the last of these
    /// descriptors closes, all processes of the command die.
    pub(crate) report: Option<OwnedFd>,
}

impl<'a> Confinement<'a> {
    pub(crate) fn of(confined: &'a Confined) -> Result<Self, StartError> {
        let profile = &confined.profile;
        let places = Places::of(profile).map_err(|source| StartError::Sandbox {
            path: profile.temp.clone(),
            source,
        })?;
        Ok(Self::new(&confined.sandbox.inner, &profile.network, places))
    }

    pub(super) const fn new(inner: &'a Inner, network: &'a SandboxNetwork, places: Places) -> Self {
        Self {
            inner,
            network,
            places,
        }
    }

    /// The private folder for temporary files.
    pub(crate) fn temp(&self) -> &Path {
        &self.places.temp
    }

    /// The paths, if some of them are others inside than they are outside.
    pub(crate) fn moved(&self) -> Option<&Places> {
        self.inner.namespaces.is_some().then_some(&self.places)
    }

    /// Starts the program of an image shut in.
    pub(crate) fn shut(&self, image: Image) -> Result<Shut, StartError> {
        let directory = Path::new(OsStr::from_bytes(image.directory.to_bytes()));
        let program = Path::new(OsStr::from_bytes(image.program.to_bytes()));
        // What the kernel would say to a start without a sandbox.
        let outside = self.places.outside(directory);
        let entered = if self.moved().is_some() {
            &outside
        } else {
            directory
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(entered, flags, Mode::empty()).map_err(|error| StartError::Directory {
            path: directory.to_path_buf(),
            source: error.into(),
        })?;
        rustix::fs::access(program, rustix::fs::Access::EXEC_OK).map_err(|error| {
            StartError::Shell {
                path: program.to_path_buf(),
                source: error.into(),
            }
        })?;
        let act = Act::Run {
            program: program.to_path_buf(),
            arguments: image.arguments.iter().map(OsStr::to_owned).collect(),
        };
        let (directory, program) = (directory.to_path_buf(), program.to_path_buf());
        self.start(image, act, &directory, &[&program])
            .map_err(|(path, source)| StartError::Sandbox {
                path: path.into(),
                source,
            })
    }

    /// Has the helper do something.
    pub(super) fn start(
        &self,
        mut image: Image,
        act: Act,
        directory: &Path,
        programs: &[&Path],
    ) -> Result<Shut, (String, io::Error)> {
        let at = |place: &str| {
            let place = place.to_owned();
            move |error: rustix::io::Errno| (place, error.into())
        };
        let namespaces = self.inner.namespaces.as_ref();
        let mut report = None;
        let mut given = None;
        if namespaces.is_some() {
            let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC).map_err(at("a pipe"))?;
            rustix::io::ioctl_fionbio(&ours, true).map_err(at("a pipe"))?;
            report = Some(ours);
            given = Some(theirs);
        }
        let (network, proxy) = self.network(namespaces).map_err(|error| {
            let socket = match self.network {
                SandboxNetwork::Proxy { socket, .. } => socket.display().to_string(),
                SandboxNetwork::Off | SandboxNetwork::On => String::new(),
            };
            (socket, error)
        })?;
        let mut writable = self.places.writable.clone();
        let decides = self.inner.enforced.decides_connections;
        let services = decides.then(|| self.places.services());
        if namespaces.is_some() {
            writable.extend(TEMPORARY.map(Into::into));
            let staged = self.places.staged.iter();
            writable.extend(staged.map(|staged| staged.path.clone()));
        }
        let users = namespaces.and_then(|namespaces| namespaces.users.as_ref());
        let users_number = users.is_some().then_some(USERS);
        let has_network = namespaces.is_some_and(|namespaces| namespaces.has_network)
            && *self.network != SandboxNetwork::On;
        let view = namespaces.map(|_| View::of(&self.places, self.network, programs));
        let (walls, wrapped) = match (namespaces.map(|namespaces| &namespaces.maker), view) {
            (Some(Maker::Helper), Some(view)) => {
                let walls = Walls {
                    users: users_number,
                    has_network,
                    view,
                };
                (Some(walls), None)
            }
            (Some(Maker::Bubblewrap(wrap)), Some(view)) => {
                let list = wrap.arguments(&view, users_number, has_network);
                (None, Some((wrap, list)))
            }
            _ => (None, None),
        };
        let task = Task {
            act,
            directory: directory.to_path_buf(),
            kept: image.extra.iter().map(|(number, _)| *number).collect(),
            report: given.is_some().then_some(REPORT),
            landlock_abi: self.inner.enforced.landlock_abi,
            writable,
            hidden: if namespaces.is_some() {
                Vec::new()
            } else {
                self.places.hidden.clone()
            },
            network,
            services,
            walls,
        };
        let handed =
            |fd: &dyn AsFd| high(fd.as_fd()).map_err(|error| ("a descriptor".to_owned(), error));
        let script = Script::new(&task.to_bytes()).map_err(|error| ("memory".to_owned(), error))?;
        image.extra.push((
            TASK,
            script
                .handed()
                .map_err(|error| ("memory".to_owned(), error))?,
        ));
        image.extra.push((HELPER, handed(&self.inner.helper)?));
        if let Some(report) = &given {
            image.extra.push((REPORT, handed(report)?));
        }
        if let Some(users) = users {
            image.extra.push((USERS, handed(users)?));
        }
        if let Some(proxy) = &proxy {
            image.extra.push((PROXY, handed(proxy)?));
        }
        let helper_path = format!("/proc/self/fd/{HELPER}");
        let helper =
            [helper_path.as_str(), helper::ARGUMENT, &TASK.to_string()].map(OsString::from);
        if namespaces.is_some() {
            image.ignores_signals = true;
            image.directory = c"/".into();
        }
        let (program, list) = match wrapped {
            Some((wrap, mut list)) => {
                list.extend(helper);
                (wrap.program.as_os_str().to_owned(), list)
            }
            None => (helper_path.clone().into(), helper.into()),
        };
        let mut arguments = Strings::default();
        let is_whole = list.iter().all(|argument| arguments.push(&[argument]));
        let nul = || ("a path".to_owned(), io::ErrorKind::InvalidInput.into());
        if !is_whole {
            return Err(nul());
        }
        image.arguments = arguments;
        image.program = CString::new(program.as_bytes()).map_err(|_| nul())?;
        Ok(Shut { image, report })
    }

    /// What the helper does about the network, and the proxy's socket if it is to forward to it.
    fn network(&self, namespaces: Option<&Namespaces>) -> io::Result<(Network, Option<OwnedFd>)> {
        let has_namespace = namespaces.is_some_and(|namespaces| namespaces.has_network);
        Ok(match self.network {
            SandboxNetwork::On => (Network::Open, None),
            // The namespace is empty but for the command's own servers.
            SandboxNetwork::Off if has_namespace => (Network::Open, None),
            SandboxNetwork::Off => (Network::Closed, None),
            SandboxNetwork::Proxy { socket, .. } if has_namespace => {
                let flags = OFlags::PATH | OFlags::CLOEXEC;
                let socket = rustix::fs::open(socket, flags, Mode::empty())?;
                (Network::Forward(PROXY), Some(socket))
            }
            SandboxNetwork::Proxy {
                port: Some(port), ..
            } if self.inner.enforced.landlock_abi >= 4 => (Network::Port(*port), None),
            SandboxNetwork::Proxy { .. } => (Network::Closed, None),
        })
    }
}
