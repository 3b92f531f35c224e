//! What the helper is told: a list of fields, read from a descriptor.
//!
//! It comes from this very program, so there is one version of it only; it is read with bounds all
//! the same.

use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::layout::{Step, View};
use super::namespaces::Walls;

/// The longest task: an argument of a program is no longer than 128 KiB.
pub(super) const LONGEST: usize = 64 << 20;

/// What the helper is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) act: Act,
    /// Where it starts.
    pub(super) directory: PathBuf,
    /// The descriptors that the shell is given beside the standard three.
    pub(super) kept: Vec<RawFd>,
    /// Where the status of the shell is told. With it the helper is the first process of a
    /// namespace, stays, and runs the shell below it; else it becomes the shell.
    pub(super) report: Option<RawFd>,
    /// The version of Landlock that is used; 0: none.
    pub(super) landlock_abi: i32,
    /// What is written.
    pub(super) writable: Vec<PathBuf>,
    /// What is not even read. Landlock has to do it, since no mount does.
    pub(super) hidden: Vec<PathBuf>,
    pub(super) network: Network,
    /// Below which paths sockets can be connected to; `None`: nothing decides about that.
    pub(super) services: Option<Vec<PathBuf>>,
    /// The namespaces that the helper makes, if nobody has made some before.
    pub(super) walls: Option<Walls>,
}

/// What is done inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    /// Becomes a program.
    Run {
        program: PathBuf,
        arguments: Vec<OsString>,
    },
    /// Tries whether the walls stand.
    Try(Attempt),
}

/// What is tried. Each must be as its name says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attempt {
    /// A file that can be made.
    pub(super) inside: PathBuf,
    /// Files that cannot.
    pub(super) outside: Vec<PathBuf>,
    /// A port of 127.0.0.1, on which the harness listens, and that cannot be reached; 0: none.
    pub(super) port: u16,
}

/// What of the network is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Network {
    /// All that the namespace has.
    Open,
    /// No socket can be made.
    Closed,
    /// One port can be connected to by TCP.
    Port(u16),
    /// A proxy is to be had behind this descriptor of a Unix socket.
    Forward(RawFd),
}

impl Task {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer(Vec::new());
        match &self.act {
            Act::Run { program, arguments } => {
                out.number(0);
                out.text(program.as_os_str());
                out.list(arguments, |out, argument| out.text(argument));
            }
            Act::Try(attempt) => {
                out.number(1);
                out.text(attempt.inside.as_os_str());
                out.paths(&attempt.outside);
                out.number(i32::from(attempt.port));
            }
        }
        out.text(self.directory.as_os_str());
        out.list(&self.kept, |out, kept| out.number(*kept));
        out.number(self.report.unwrap_or(-1));
        out.number(self.landlock_abi);
        out.paths(&self.writable);
        out.paths(&self.hidden);
        let (kind, value) = match self.network {
            Network::Open => (0, 0),
            Network::Closed => (1, 0),
            Network::Port(port) => (2, i32::from(port)),
            Network::Forward(socket) => (3, socket),
        };
        out.number(kind);
        out.number(value);
        out.number(i32::from(self.services.is_some()));
        out.paths(self.services.as_deref().unwrap_or_default());
        out.number(i32::from(self.walls.is_some()));
        if let Some(walls) = &self.walls {
            out.walls(walls);
        }
        out.0
    }

    /// `None` if it is not whole, or more than that.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let act = match from.number()? {
            0 => Act::Run {
                program: from.text()?.into(),
                arguments: from.list(Reader::text)?,
            },
            1 => Act::Try(Attempt {
                inside: from.text()?.into(),
                outside: from.paths()?,
                port: u16::try_from(from.number()?).ok()?,
            }),
            _ => return None,
        };
        let directory = from.text()?.into();
        let kept = from.list(Reader::number)?;
        let report = Some(from.number()?).filter(|report| *report >= 0);
        let landlock_abi = from.number()?;
        let writable = from.paths()?;
        let hidden = from.paths()?;
        let (kind, value) = (from.number()?, from.number()?);
        let network = match kind {
            0 => Network::Open,
            1 => Network::Closed,
            2 => Network::Port(u16::try_from(value).ok()?),
            3 => Network::Forward(value),
            _ => return None,
        };
        let has_services = from.number()? != 0;
        let services = Some(from.paths()?).filter(|_| has_services);
        let walls = match from.number()? {
            0 => None,
            _ => Some(from.walls()?),
        };
        from.0.is_empty().then_some(Self {
            act,
            directory,
            kept,
            report,
            landlock_abi,
            writable,
            hidden,
            network,
            services,
            walls,
        })
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, number: i32) {
        self.0.extend_from_slice(&number.to_ne_bytes());
    }

    fn text(&mut self, text: &OsStr) {
        // None is longer than what a program can be given.
        self.number(i32::try_from(text.len()).unwrap_or(i32::MAX));
        self.0.extend_from_slice(text.as_bytes());
    }

    fn list<T>(&mut self, list: &[T], mut each: impl FnMut(&mut Self, &T)) {
        self.number(i32::try_from(list.len()).unwrap_or(i32::MAX));
        for item in list {
            each(self, item);
        }
    }

    fn paths(&mut self, paths: &[PathBuf]) {
        self.list(paths, |out, path| out.text(Path::as_os_str(path)));
    }

    fn walls(&mut self, walls: &Walls) {
        self.number(walls.users.unwrap_or(-1));
        self.number(i32::from(walls.has_network));
        self.number(i32::from(walls.view.is_open));
        self.list(&walls.view.steps, |out, step| match step {
            Step::Empty(path) => {
                out.number(0);
                out.text(path.as_os_str());
            }
            Step::Bind {
                from,
                to,
                is_writable,
                is_needed,
            } => {
                out.number(1);
                out.text(from.as_os_str());
                out.text(to.as_os_str());
                out.number(i32::from(*is_writable));
                out.number(i32::from(*is_needed));
            }
            Step::Link { target, path } => {
                out.number(2);
                out.text(target.as_os_str());
                out.text(path.as_os_str());
            }
        });
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self) -> Option<i32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(i32::from_ne_bytes(*number))
    }

    fn text(&mut self) -> Option<OsString> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(OsString::from_vec(text.to_vec()))
    }

    fn list<T>(&mut self, mut each: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let length = self.number()?;
        // Each takes some bytes, so a wrong length ends soon.
        (0..length).map(|_| each(self)).collect()
    }

    fn paths(&mut self) -> Option<Vec<PathBuf>> {
        self.list(|from| from.text().map(PathBuf::from))
    }

    fn walls(&mut self) -> Option<Walls> {
        Some(Walls {
            users: Some(self.number()?).filter(|users| *users >= 0),
            has_network: self.number()? != 0,
            view: View {
                is_open: self.number()? != 0,
                steps: self.list(Self::step)?,
            },
        })
    }

    fn step(&mut self) -> Option<Step> {
        Some(match self.number()? {
            0 => Step::Empty(self.text()?.into()),
            1 => Step::Bind {
                from: self.text()?.into(),
                to: self.text()?.into(),
                is_writable: self.number()? != 0,
                is_needed: self.number()? != 0,
            },
            2 => Step::Link {
                target: self.text()?.into(),
                path: self.text()?.into(),
            },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_arrives_as_it_was_sent() {
        let run = Task {
            act: Act::Run {
                program: "/bin/bash".into(),
                arguments: vec![
                    "bash".into(),
                    "-c".into(),
                    OsString::from_vec(vec![255, 10]),
                ],
            },
            directory: "/a b".into(),
            kept: vec![241, 243],
            report: Some(246),
            landlock_abi: 7,
            writable: vec!["/a b".into(), "/tmp".into()],
            hidden: vec!["/secret".into()],
            network: Network::Forward(247),
            services: Some(vec!["/tmp".into()]),
            walls: Some(Walls {
                users: Some(247),
                has_network: true,
                view: View {
                    is_open: false,
                    steps: vec![
                        Step::Empty("/run".into()),
                        Step::Link {
                            target: "a".into(),
                            path: "/l".into(),
                        },
                        Step::Bind {
                            from: "/t".into(),
                            to: "/tmp".into(),
                            is_writable: true,
                            is_needed: false,
                        },
                    ],
                },
            }),
        };
        let attempt = Task {
            act: Act::Try(Attempt {
                inside: "/i".into(),
                outside: vec!["/o".into()],
                port: 65535,
            }),
            report: None,
            network: Network::Port(8080),
            services: None,
            walls: None,
            ..run.clone()
        };
        for task in [run, attempt] {
            let bytes = task.to_bytes();
            assert_eq!(Task::from_bytes(&bytes), Some(task));
            for length in 0..bytes.len() {
                assert_eq!(Task::from_bytes(bytes.split_at(length).0), None, "{length}");
            }
            let more = [&bytes[..], &[0]].concat();
            assert_eq!(Task::from_bytes(&more), None);
        }
    }
}
