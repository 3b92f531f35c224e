//! What came of a command.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::Output;

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// How long its shell ran.
    pub duration: Duration,
    /// What it printed.
    pub output: Output,
    /// What it printed on its standard error, if that was kept apart.
    pub errors: Output,
    /// Processes of it that still run. They end with the run at the latest.
    pub leftovers: Vec<Leftover>,
    /// The directory that its shell was in at the end, if the shell told.
    pub final_directory: Option<PathBuf>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The shell exited with a status.
    Exited(i32),
    /// The shell was ended by a signal.
    Signaled(i32),
    /// It took longer than it may, and was ended with all its processes.
    TimedOut {
        /// How long it was allowed.
        limit: Duration,
    },
    /// It was cancelled, and ended with all its processes.
    Cancelled,
    /// Another part of this program took the status away, or the shell could not be killed.
    Unknown,
}

/// A process that a command left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Its number.
    pub pid: u32,
    /// The line that started it, shortened, without control characters.
    pub name: String,
}

/// A command could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No program can be given a NUL.
    #[error("the command or its environment holds a NUL byte, which no program can be given")]
    Nul,
    /// It cannot start in that directory.
    #[error("cannot enter {path}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The shell cannot be run.
    #[error("cannot run {path}")]
    Shell {
        /// The shell.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its sandbox cannot be set up.
    #[error("cannot set up the sandbox at {path}")]
    Sandbox {
        /// What is not as it must be.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The system has nothing left for another process.
    #[error("cannot start a process")]
    System(#[from] io::Error),
}

/// The name of a signal, such as `SIGKILL`.
#[must_use]
pub fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}
