//! The helper: shuts itself in and becomes the shell.
//!
//! It is a program of its own, with one thread, so all that it does is ordinary.

use std::ffi::{OsString, c_int, c_uint};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::ptr;

use super::task::{Act, Attempt, LONGEST, Network, Task};
use super::{filter, init, mounts, namespaces, privileges, rules, sockets};

/// The hidden first argument of the helper.
pub(super) const ARGUMENT: &str = "__sandbox";

/// The sockets of an attempt, from its directory on: one that the command makes and connects to, and
/// one that it must not reach.
pub(super) const SOCKETS: [&str; 2] = ["in/socket", "out/socket"];

/// What a shell says that cannot be run.
pub(super) const FAILED: c_int = 126;

/// What the exit status of an attempt says.
pub(super) mod attempted {
    pub(crate) const INSIDE_REFUSED: i32 = 1;
    pub(crate) const OUTSIDE_WRITTEN: i32 = 2;
    pub(crate) const CALLS_ALLOWED: i32 = 4;
    pub(crate) const NETWORK_REACHED: i32 = 8;
    pub(crate) const SOCKET_REFUSED: i32 = 16;
    pub(crate) const SOCKET_REACHED: i32 = 32;
    /// More than all of them together.
    pub(crate) const END: i32 = 64;
}

/// Why there is no shell.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("this argument is for the program itself only")]
    Task,
    #[error("cannot enter {path}: {source}")]
    Directory { path: PathBuf, source: io::Error },
    #[error("no namespaces can be made: {0}")]
    Namespaces(io::Error),
    #[error(transparent)]
    Mounts(#[from] mounts::Error),
    #[error("privileges cannot be given up: {0}")]
    Privileges(io::Error),
    #[error("the rules on files cannot be set: {0}")]
    Rules(#[from] landlock::RulesetError),
    #[error("the filter of system calls cannot be set: {0}")]
    Filter(#[from] filter::Error),
    #[error("nothing can decide about connections: {0}")]
    Connections(io::Error),
    #[error("the proxy cannot be reached: {0}")]
    Proxy(io::Error),
    #[error("no process can be started: {0}")]
    Fork(io::Error),
    #[error("cannot run {path}: {source}")]
    Program { path: PathBuf, source: io::Error },
}

/// Becomes the shell, or the process above it, if the arguments say so.
pub(super) fn main() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|first| first != ARGUMENT) {
        return;
    }
    fail(&run(arguments.next()));
}

/// Says it where the shell would have printed, and ends.
pub(super) fn fail(failure: &Failure) -> ! {
    let words = format!("sandbox: {failure}\n");
    // If nobody reads it, the status says enough.
    rustix::io::write(rustix::stdio::stderr(), words.as_bytes()).unwrap_or_default();
    end(FAILED)
}

pub(super) fn end(status: c_int) -> ! {
    // SAFETY: ends this process, in which nothing waits to be finished.
    unsafe { libc::_exit(status) }
}

fn run(descriptor: Option<OsString>) -> Failure {
    let Some(task) = descriptor
        .and_then(|number| number.to_str()?.parse().ok())
        .and_then(read)
    else {
        return Failure::Task;
    };
    if let Err(error) = keep_only(&task) {
        return Failure::Privileges(error);
    }
    if let Some(walls) = &task.walls
        && let Err(failure) = namespaces::enter(walls)
    {
        return failure;
    }
    if let Some(report) = task.report {
        return init::run(&task, report);
    }
    become_shell(&task, None, None)
}

fn read(number: RawFd) -> Option<Task> {
    if number < 3 {
        return None;
    }
    // SAFETY: borrowed for this function only. One that is not open is an error of the read.
    let file = unsafe { BorrowedFd::borrow_raw(number) };
    let mut bytes = vec![0; 64 * 1024];
    let mut length = 0;
    loop {
        let room = bytes.get_mut(length..)?;
        let read = rustix::io::pread(file, room, u64::try_from(length).ok()?).ok()?;
        length += read;
        if read == 0 {
            return Task::from_bytes(bytes.get(..length)?);
        }
        if length == bytes.len() {
            if length >= LONGEST {
                return None;
            }
            bytes.resize(length * 2, 0);
        }
    }
}

/// Nothing but what the shell is to have stays open in it.
fn keep_only(task: &Task) -> io::Result<()> {
    let mut kept = task.kept.clone();
    kept.sort_unstable();
    let mut first: c_uint = 3;
    for number in kept {
        let number = number.cast_unsigned();
        if number > first {
            close_later(first, number - 1)?;
        }
        first = first.max(number.saturating_add(1));
    }
    close_later(first, c_uint::MAX)
}

fn close_later(first: c_uint, last: c_uint) -> io::Result<()> {
    // SAFETY: sets a flag on this process's own descriptors.
    let set = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            last,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    if set == 0 {
        return Ok(());
    }
    // Kernels before 5.11.
    for entry in std::fs::read_dir("/proc/self/fd")?.flatten() {
        let number: Option<RawFd> = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        if let Some(number) = number
            && (first..=last).contains(&number.cast_unsigned())
        {
            // SAFETY: sets a flag on a descriptor of this process.
            unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
    Ok(())
}

/// Gives the signals their usual effect, whatever was inherited.
fn restore_signals() {
    // SAFETY: system calls on this process's own state, with structs that live for the calls.
    unsafe {
        let mut default: libc::sigaction = std::mem::zeroed();
        default.sa_sigaction = libc::SIG_DFL;
        for signal in 1..=64 {
            libc::sigaction(signal, &raw const default, ptr::null_mut());
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
    }
}

/// Shuts this process in, and becomes the shell. `port`: where a proxy listens. `decider`: who
/// decides about connections.
pub(super) fn become_shell(
    task: &Task,
    port: Option<u16>,
    decider: Option<&UnixStream>,
) -> Failure {
    restore_signals();
    if let Err(source) = std::env::set_current_dir(&task.directory) {
        let path = task.directory.clone();
        return Failure::Directory { path, source };
    }
    let has_namespace = task.report.is_some();
    let keeps_kill = has_namespace || task.landlock_abi >= 6;
    if let Err(error) = privileges::drop_most(keeps_kill) {
        return Failure::Privileges(error);
    }
    if let Err(error) = rules::apply(task) {
        return error.into();
    }
    if let Err(error) = filter::apply(&task.network, has_namespace) {
        return error.into();
    }
    if let Some(decider) = decider
        && let Err(error) = sockets::ask(decider)
    {
        return Failure::Connections(error.into());
    }
    let (program, arguments) = match &task.act {
        Act::Run { program, arguments } => (program, arguments),
        Act::Try(attempt) => end(attempted_status(attempt, task)),
    };
    let mut command = Command::new(program);
    let mut arguments = arguments.iter();
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command.args(arguments);
    let port = match task.network {
        Network::Port(port) => Some(port),
        Network::Open | Network::Closed | Network::Forward(_) => port,
    };
    if let Some(port) = port {
        let address = format!("http://127.0.0.1:{port}");
        for name in ["http_proxy", "https_proxy", "all_proxy"] {
            command.env(name, &address);
            command.env(name.to_ascii_uppercase(), &address);
        }
        for name in ["no_proxy", "NO_PROXY"] {
            command.env(name, "localhost,127.0.0.1,::1");
        }
        command.env("NODE_USE_ENV_PROXY", "1");
    }
    let source = command.exec();
    let path = program.clone();
    Failure::Program { path, source }
}

/// Tries what must be possible and what must not.
fn attempted_status(attempt: &Attempt, task: &Task) -> c_int {
    let mut status = 0;
    if std::fs::write(&attempt.inside, b"x").is_err() {
        status |= attempted::INSIDE_REFUSED;
    }
    if attempt
        .outside
        .iter()
        .any(|path| std::fs::write(path, b"x").is_ok())
    {
        status |= attempted::OUTSIDE_WRITTEN;
    }
    // SAFETY: a call that hands over no memory; it is to be refused.
    if unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } == 0 {
        status |= attempted::CALLS_ALLOWED;
    }
    // SAFETY: a call that hands over no memory.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0) };
    if task.network == Network::Closed && socket >= 0 {
        status |= attempted::NETWORK_REACHED;
    }
    if task.services.is_some() {
        let [own, foreign] = SOCKETS;
        // As a program is that was started: who decides looks at who asks.
        // SAFETY: a call on this process's own state.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
        // Relative, so that a long path fits into an address.
        if let Ok(_service) = UnixListener::bind(own)
            && UnixStream::connect(own).is_err()
        {
            status |= attempted::SOCKET_REFUSED;
        }
        if UnixStream::connect(foreign).is_ok() {
            status |= attempted::SOCKET_REACHED;
        }
    }
    if attempt.port != 0 {
        let address = SocketAddr::from(([127, 0, 0, 1], attempt.port));
        if TcpStream::connect(address).is_ok() {
            status |= attempted::NETWORK_REACHED;
        }
    }
    status
}
