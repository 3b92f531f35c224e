//! Raw input from the terminal, and the way back to the mode that the terminal was found in.
//!
//! The libraries that read keys read from standard input. While the terminal is in raw mode,
//! standard input is a pseudo-terminal of our own, and a thread passes the bytes of the terminal on
//! to it, through [`Pastes`].

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, getpid, kill_process};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::stdio::dup2_stdin;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::AbortHandle;

use super::pastes::Pastes;
use crate::signals::is_ignored;

/// How long a paste may pause. One that pauses longer has ended.
const PAUSE: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// Reading from the terminal pauses while this many bytes wait to be processed.
const MOST_PENDING: usize = 64 * 1024;

/// How long is waited for a terminal that does not read before the process stops.
const STOP: Duration = Duration::from_secs(1);

/// The terminal in raw mode. Dropping it restores the mode.
#[derive(Debug)]
pub(super) struct Input {
    modes: Arc<Modes>,
    /// Closing it ends the thread.
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    job_control: Option<AbortHandle>,
}

#[derive(Debug)]
struct Modes {
    terminal: OwnedFd,
    found: Termios,
    raw: Termios,
}

impl Modes {
    fn set(&self, modes: &Termios) {
        // A terminal that has gone away has no mode.
        tcsetattr(&self.terminal, OptionalActions::Now, modes).unwrap_or_default();
    }
}

impl Input {
    /// Sets the mode. `out` is the terminal, `enter` and `leave` are what is written to it around a
    /// stop of the process.
    pub(super) fn open(
        out: &Arc<File>,
        enter: &'static str,
        leave: &'static str,
    ) -> io::Result<Self> {
        let terminal = io::stdin().as_fd().try_clone_to_owned()?;
        let found = tcgetattr(&terminal)?;
        let mut raw = found.clone();
        raw.make_raw();
        let modes = Arc::new(Modes {
            terminal,
            found,
            raw,
        });
        let mut input = Self {
            modes: Arc::clone(&modes),
            stop: None,
            thread: None,
            job_control: None,
        };
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags)?;
        unlockpt(&ours)?;
        let theirs = ioctl_tiocgptpeer(&ours, flags)?;
        tcsetattr(&theirs, OptionalActions::Now, &modes.raw)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC)?;
        input.stop = Some(stop);
        tcsetattr(&modes.terminal, OptionalActions::Now, &modes.raw)?;
        dup2_stdin(&theirs)?;
        let passed = Arc::clone(&modes);
        let thread = std::thread::Builder::new()
            .name("input".into())
            .spawn(move || pass_on(&passed.terminal, &ours, &stopped))?;
        input.thread = Some(thread);
        if !is_ignored(Signal::TSTP) {
            input.job_control = Some(job_control(modes, Arc::clone(out), enter, leave)?);
        }
        Ok(input)
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        if let Some(task) = self.job_control.take() {
            task.abort();
        }
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
        dup2_stdin(&self.modes.terminal).unwrap_or_default();
        self.modes.set(&self.modes.found);
    }
}

/// Restores the terminal when the process is to stop, and takes it again when it goes on.
fn job_control(
    modes: Arc<Modes>,
    out: Arc<File>,
    enter: &'static str,
    leave: &'static str,
) -> io::Result<AbortHandle> {
    let mut stops = signal(SignalKind::from_raw(Signal::TSTP.as_raw()))?;
    let mut continues = signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
    let say = move |words: &'static str| {
        let out = Arc::clone(&out);
        let write = move || super::terminal::write(&out, words.as_bytes());
        tokio::time::timeout(STOP, tokio::task::spawn_blocking(write))
    };
    let task = async move {
        loop {
            tokio::select! {
                Some(()) = stops.recv() => {
                    drop(say(leave).await);
                    modes.set(&modes.found);
                    kill_process(getpid(), Signal::STOP).unwrap_or_default();
                }
                Some(()) = continues.recv() => {
                    modes.set(&modes.raw);
                    drop(say(enter).await);
                    // What was on the screen may be gone: it is drawn again.
                    kill_process(getpid(), Signal::WINCH).unwrap_or_default();
                }
                else => return,
            }
        }
    };
    Ok(tokio::spawn(task).abort_handle())
}

/// Passes bytes on until it is stopped or the terminal has gone away.
fn pass_on(terminal: &OwnedFd, reader: &OwnedFd, stopped: &OwnedFd) {
    let mut pastes = Pastes::default();
    let mut pending = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let mut waits = vec![PollFd::new(stopped, PollFlags::IN)];
        if !pending.is_empty() {
            waits.push(PollFd::new(reader, PollFlags::OUT));
        }
        if pending.len() < MOST_PENDING {
            waits.push(PollFd::new(terminal, PollFlags::IN));
        }
        let limit = (pastes.is_open() && pending.is_empty()).then_some(&PAUSE);
        let ready = match poll(&mut waits, limit) {
            Ok(ready) => ready,
            Err(Errno::INTR) => continue,
            Err(_) => return,
        };
        let is_stopped = waits.first().is_none_or(|stop| !stop.revents().is_empty());
        let is_readable = pending.len() < MOST_PENDING
            && waits
                .last()
                .is_some_and(|terminal| !terminal.revents().is_empty());
        if is_stopped {
            return;
        }
        if ready == 0 {
            pending.extend(pastes.pause());
        }
        if is_readable {
            match read(terminal, &mut buffer) {
                Ok(0) => return,
                Ok(count) => {
                    pending.extend(pastes.feed(buffer.get(..count).unwrap_or_default()));
                }
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return,
            }
        }
        if !pending.is_empty() {
            match write(reader, &pending) {
                Ok(count) => drop(pending.drain(..count)),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return,
            }
        }
    }
}
