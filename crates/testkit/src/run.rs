//! Running the agent's binary in a test: a known environment, bounded waits, output with times, and nothing left.
//!
//! ```
//! use std::time::Duration;
//! use tooloop_testkit::{ModelServer, Scratch, anthropic};
//! use tooloop_testkit::run::Run;
//!
//! let server = ModelServer::start([anthropic::say("ok")]);
//! let scratch = Scratch::new();
//! let run = Run::new("/bin/sh").home(&scratch).model(&server).args(["-c", "echo '{\"at\":1}'; pwd >&2; exit 3"]).start();
//! let finished = run.wait(Duration::from_secs(30));
//! assert_eq!(finished.code, Some(3));
//! assert_eq!(finished.json_lines().unwrap()[0]["at"], 1);
//! assert_eq!(finished.stderr.text().trim(), scratch.workspace().to_str().unwrap());
//! ```

pub use crate::finished::{BadLine, Finished};
pub use crate::running::Running;

use crate::pipes::{Held, Reading};
use crate::{Gate, ModelServer, Scratch};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The variable that marks all that a run starts.
pub(crate) const MARK: &str = "TESTKIT_RUN";

/// What the program reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stdin {
    /// Nothing: the null device.
    #[default]
    Null,
    /// An open pipe on which nothing comes, unless the test [writes](Running::write_stdin).
    Silent,
    /// A pipe with these bytes, then its end.
    Bytes(Vec<u8>),
    /// An open pipe that holds these bytes (at most 4096) from the start and never ends, to see whether anything
    /// takes from it: see [`Running::unread_stdin`].
    Holding(Vec<u8>),
    /// No file at all.
    Closed,
}

/// Where the program writes.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Output {
    /// Everything is read as it comes.
    #[default]
    Collect,
    /// Nothing is read until the gate is open.
    CollectAfter(Gate),
    /// So many bytes are read, then the pipe is closed.
    CloseAfter(usize),
    /// The null device.
    Null,
    /// No file at all.
    Closed,
}

/// A signal that a test sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Signal {
    /// `SIGINT`, as from a terminal.
    Interrupt,
    /// `SIGTERM`.
    Terminate,
    /// `SIGKILL`.
    Kill,
    /// `SIGHUP`.
    HangUp,
    /// `SIGSTOP`.
    Stop,
    /// `SIGCONT`.
    Continue,
    /// `SIGTSTP`, as from a terminal.
    TerminalStop,
    /// `SIGQUIT`, as from a terminal.
    Quit,
}

impl Signal {
    pub(crate) fn native(self) -> rustix::process::Signal {
        match self {
            Self::Interrupt => rustix::process::Signal::INT,
            Self::Terminate => rustix::process::Signal::TERM,
            Self::Kill => rustix::process::Signal::KILL,
            Self::HangUp => rustix::process::Signal::HUP,
            Self::Stop => rustix::process::Signal::STOP,
            Self::Continue => rustix::process::Signal::CONT,
            Self::TerminalStop => rustix::process::Signal::TSTP,
            Self::Quit => rustix::process::Signal::QUIT,
        }
    }
}

/// A program that is to be run.
///
/// Its environment is empty but for `PATH`, `LANG=C.UTF-8`, `TZ=UTC`, `TERM=dumb`, a mark, and what is added here. It
/// gets a process group of its own.
#[derive(Debug, Clone)]
pub struct Run {
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: BTreeMap<OsString, OsString>,
    directory: Option<PathBuf>,
    pub(crate) stdin: Stdin,
    pub(crate) stdout: Output,
    pub(crate) stderr: Output,
}

impl Run {
    /// A program without arguments that is not run yet.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let mut run = Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            directory: None,
            stdin: Stdin::default(),
            stdout: Output::default(),
            stderr: Output::default(),
        };
        if let Some(path) = std::env::var_os("PATH") {
            run = run.env("PATH", path);
        }
        run.env("LANG", "C.UTF-8")
            .env("TZ", "UTC")
            .env("TERM", "dumb")
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Takes a variable away.
    #[must_use]
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.environment.remove(name.as_ref());
        self
    }

    /// Runs it in this directory.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Points it at these directories, and runs it in their workspace.
    #[must_use]
    pub fn home(mut self, scratch: &Scratch) -> Self {
        for (name, value) in scratch.environment() {
            self = self.env(name, value);
        }
        self.directory(scratch.workspace())
    }

    /// Points it at this server with the variables that clients of the vendors read, and a key.
    #[must_use]
    pub fn model(self, server: &ModelServer) -> Self {
        self.env("ANTHROPIC_BASE_URL", server.base_url())
            .env("ANTHROPIC_API_KEY", "test-key")
            .env("OPENAI_BASE_URL", server.base_url_v1())
            .env("OPENAI_API_KEY", "test-key")
    }

    /// Says what it reads.
    #[must_use]
    pub fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    /// Says where its standard output goes.
    #[must_use]
    pub fn stdout(mut self, stdout: Output) -> Self {
        self.stdout = stdout;
        self
    }

    /// Says where its standard error goes.
    #[must_use]
    pub fn stderr(mut self, stderr: Output) -> Self {
        self.stderr = stderr;
        self
    }

    /// Starts it.
    ///
    /// # Panics
    /// If it cannot be started; [`try_start`](Self::try_start) gives the error instead.
    #[must_use = "the program is killed when this is dropped"]
    pub fn start(&self) -> Running {
        match self.try_start() {
            Ok(running) => running,
            #[expect(clippy::panic, reason = "a test cannot go on without its program")]
            Err(error) => panic!("{} cannot be run: {error}", self.program.display()),
        }
    }

    /// Starts it.
    ///
    /// # Errors
    /// If the machine does not let it.
    pub fn try_start(&self) -> io::Result<Running> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mark = format!(
            "{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let mut held = None;
        let mut command = self.command();
        command
            .env_clear()
            .envs(&self.environment)
            .env(MARK, &mark)
            .process_group(0);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command
            .stdin(match &self.stdin {
                Stdin::Null | Stdin::Closed => Stdio::null(),
                Stdin::Silent | Stdin::Bytes(_) => Stdio::piped(),
                Stdin::Holding(bytes) => {
                    let pipe = held.insert(Held::new(bytes)?);
                    Stdio::from(pipe.reader.try_clone()?)
                }
            })
            .stdout(stdio(&self.stdout))
            .stderr(stdio(&self.stderr));
        let started = Instant::now();
        Running::start(command, started, mark, held, self)
    }

    /// The command itself, or a shell that closes files and then becomes it.
    fn command(&self) -> Command {
        let closed = [
            (matches!(self.stdin, Stdin::Closed), " <&-"),
            (matches!(self.stdout, Output::Closed), " >&-"),
            (matches!(self.stderr, Output::Closed), " 2>&-"),
        ];
        let closing: String = closed
            .into_iter()
            .filter_map(|(closed, text)| closed.then_some(text))
            .collect();
        let mut command = if closing.is_empty() {
            Command::new(&self.program)
        } else {
            let mut shell = Command::new("/bin/sh");
            shell
                .arg("-c")
                .arg(format!("exec \"$@\"{closing}"))
                .arg("sh")
                .arg(&self.program);
            shell
        };
        command.args(&self.arguments);
        command
    }
}

fn stdio(output: &Output) -> Stdio {
    match output {
        Output::Collect | Output::CollectAfter(_) | Output::CloseAfter(_) => Stdio::piped(),
        Output::Null | Output::Closed => Stdio::null(),
    }
}

pub(crate) fn reading(output: &Output) -> Reading {
    match output {
        Output::CollectAfter(gate) => Reading {
            after: Some(gate.clone()),
            limit: None,
        },
        Output::CloseAfter(count) => Reading {
            after: None,
            limit: Some(*count),
        },
        Output::Collect | Output::Null | Output::Closed => Reading {
            after: None,
            limit: None,
        },
    }
}
