//! The first process of a namespace: starts the shell, tells how it ended, and goes with the last
//! process, or with the harness.
//!
//! When it goes, the kernel kills all that is left in the namespace. No signal from inside reaches
//! it.

use std::ffi::{c_int, c_void};
use std::fs::OpenOptions;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::ptr;
use std::thread;

use super::helper::{Failure, become_shell, end, fail};
use super::task::{Network, Task};
use super::{forward, rules, sockets};

/// Returns only if there is no shell.
pub(super) fn run(task: &Task, report: RawFd) -> Failure {
    // So that the shell, which is of the same user, cannot reach into this process.
    // SAFETY: calls on this process's own state.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        libc::prctl(libc::PR_SET_NAME, c"sandbox".as_ptr());
    }
    let mut proxy = None;
    if let Network::Forward(socket) = task.network {
        let listening = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| Ok((listener.local_addr()?.port(), listener)));
        match listening {
            Ok((port, listener)) => proxy = Some((port, listener, socket)),
            Err(error) => return Failure::Proxy(error),
        }
    }
    let deaths = match Deaths::new() {
        Ok(deaths) => deaths,
        Err(error) => return Failure::Fork(error),
    };
    let mut ends = None;
    if task.services.is_some() {
        // A connection is made by this process, which must reach no more than the command.
        if let Err(error) = rules::scope(task.landlock_abi) {
            return error.into();
        }
        match UnixStream::pair() {
            Ok(pair) => ends = Some(pair),
            Err(error) => return Failure::Connections(error),
        }
    }
    // SAFETY: this process has one thread, so the child may go on as any process.
    let shell = unsafe { libc::fork() };
    if shell < 0 {
        return Failure::Fork(io::Error::last_os_error());
    }
    if shell == 0 {
        let port = proxy.as_ref().map(|(port, ..)| *port);
        let decider = ends.as_ref().map(|(theirs, _)| theirs);
        fail(&become_shell(task, port, decider));
    }
    let_go_of_standard();
    if let Some((_, listener, socket)) = proxy {
        // Without a thread nothing is forwarded, and who asks is refused.
        drop(
            thread::Builder::new()
                .stack_size(forward::STACK)
                .spawn(move || forward::serve(&listener, socket)),
        );
    }
    if let Some((theirs, ours)) = ends {
        // If the shell never comes to ask, this end sees it.
        drop(theirs);
        let writable = task.services.clone().unwrap_or_default();
        // Without a thread every connection is refused.
        drop(
            thread::Builder::new()
                .stack_size(forward::STACK)
                .spawn(move || sockets::decide(&ours, &writable)),
        );
    }
    reap(shell, report, &deaths)
}

/// Who reads the output waits for its end, and this process writes none.
fn let_go_of_standard() {
    if let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") {
        for standard in 0..=2 {
            // SAFETY: replaces a standard descriptor, which nothing else in this process owns.
            unsafe { libc::dup2(null.as_raw_fd(), standard) };
        }
    }
}

/// The ends of children, as a descriptor.
struct Deaths(RawFd);

impl Deaths {
    fn new() -> io::Result<Self> {
        // SAFETY: a signal set is plain data, for which zeroes are a value; the calls fill it and
        // read it. The shell gets its own mask later.
        let descriptor = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGCHLD);
            libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
            libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(descriptor))
    }

    /// Waits for the next one, or for the end of who reads the report. `false`: that one.
    fn next(&self, report: RawFd) -> bool {
        let mut polled = [
            libc::pollfd {
                fd: self.0,
                events: libc::POLLIN,
                revents: 0,
            },
            libc::pollfd {
                fd: report,
                events: 0,
                revents: 0,
            },
        ];
        let mut told = [0_u8; 128];
        // SAFETY: the pointers and the lengths are those of the arrays.
        unsafe {
            libc::poll(polled.as_mut_ptr(), 2, -1);
            libc::read(self.0, told.as_mut_ptr().cast(), told.len());
        }
        polled.last().is_some_and(|report| report.revents == 0)
    }
}

/// Reaps all that comes to this process, until nothing is left.
fn reap(shell: c_int, report: RawFd, deaths: &Deaths) -> ! {
    loop {
        let mut status: c_int = 0;
        // SAFETY: the call fills the number it is given.
        let child = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::__WALL) };
        if child == shell {
            let bytes = status.to_ne_bytes();
            // SAFETY: the pointer and the length are those of the bytes. If nobody reads it, the
            // next wait says so.
            unsafe { libc::write(report, bytes.as_ptr().cast::<c_void>(), bytes.len()) };
        } else if child > 0 {
            continue;
        } else if child < 0 || !deaths.next(report) {
            // The last one is gone, or the harness is.
            end(0);
        }
    }
}
