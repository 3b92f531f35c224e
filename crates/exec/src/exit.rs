//! How the exit of a shell is noticed, and what it was.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, kill_process, pidfd_open, waitpid,
};
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{self, SignalKind};

use crate::platform::readable;
use crate::{End, tree};

/// Notices the exit of a shell.
///
/// A shell that is no child of this process has a child above it, and its status comes by a report.
#[derive(Debug)]
pub(crate) struct Exit {
    notice: Notice,
    report: Option<AsyncFd<OwnedFd>>,
    told: OnceLock<End>,
}

#[derive(Debug)]
enum Notice {
    Descriptor(AsyncFd<OwnedFd>),
    /// Kernels before 5.3 have no descriptors for processes.
    Signal(unix::Signal),
}

impl Exit {
    pub(crate) fn watch(pid: i32, report: Option<OwnedFd>) -> io::Result<Self> {
        let opened = Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::NONBLOCK));
        Ok(Self {
            notice: match opened {
                Some(Ok(descriptor)) => Notice::Descriptor(readable(descriptor)?),
                _ => Notice::Signal(unix::signal(SignalKind::child())?),
            },
            report: report.map(readable).transpose()?,
            told: OnceLock::new(),
        })
    }

    /// Waits for the exit and reaps. Can be dropped at any await without loss.
    pub(crate) async fn wait(&mut self, pid: i32) -> End {
        let Some(report) = &self.report else {
            return end_of(self.notice.wait(pid, || ()).await);
        };
        let known = &self.told;
        if known.get().is_none() {
            let late = || match read(report) {
                Some(end) => {
                    known.get_or_init(|| end);
                }
                // The one above is gone without a word: so is to be what it was above.
                None => tree::signal_group(pid, Signal::KILL),
            };
            tokio::select! {
                biased;
                end = told(report) => {
                    known.get_or_init(|| end);
                    // It has nothing more to do, and would wait for what the shell leaves behind.
                    if let Some(pid) = Pid::from_raw(pid) {
                        kill_process(pid, Signal::KILL).unwrap_or_default();
                    }
                }
                status = self.notice.wait(pid, late) => {
                    return known.get().copied().unwrap_or_else(|| end_of(status));
                }
            }
        }
        self.notice.wait(pid, || ()).await;
        known.get().copied().unwrap_or(End::Unknown)
    }
}

impl Notice {
    /// Reaps when the process has exited, after a last act; `None` if someone else has.
    async fn wait(&mut self, pid: i32, last: impl Fn()) -> Option<WaitStatus> {
        loop {
            match self {
                Self::Descriptor(descriptor) => {
                    let mut ready = descriptor.readable().await.ok()?;
                    last();
                    match reap(pid) {
                        Reaped::Not => ready.clear_ready(),
                        Reaped::As(status) => return status,
                    }
                }
                Self::Signal(signal) => {
                    if let Reaped::As(status) = reap(pid) {
                        last();
                        return status;
                    }
                    signal.recv().await?;
                }
            }
        }
    }
}

/// What the report says; for ever nothing if it ends without a word.
async fn told(report: &AsyncFd<OwnedFd>) -> End {
    loop {
        let Ok(mut ready) = report.readable().await else {
            return std::future::pending().await;
        };
        match ready.try_io(|report| read_bytes(report.get_ref())) {
            Ok(Ok(Some(status))) => return end_of_raw(status),
            Ok(_) => return std::future::pending().await,
            Err(_) => {}
        }
    }
}

fn read(report: &AsyncFd<OwnedFd>) -> Option<End> {
    read_bytes(report.get_ref()).ok().flatten().map(end_of_raw)
}

fn read_bytes(report: &OwnedFd) -> io::Result<Option<i32>> {
    let mut status = [0; 4];
    let length = rustix::io::read(report, &mut status)?;
    Ok((length == status.len()).then(|| i32::from_ne_bytes(status)))
}

fn end_of_raw(status: i32) -> End {
    if libc::WIFEXITED(status) {
        End::Exited(libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        End::Signaled(libc::WTERMSIG(status))
    } else {
        End::Unknown
    }
}

fn end_of(status: Option<WaitStatus>) -> End {
    status.map_or(End::Unknown, |status| end_of_raw(status.as_raw()))
}

enum Reaped {
    Not,
    As(Option<WaitStatus>),
}

fn reap(pid: i32) -> Reaped {
    match waitpid(Pid::from_raw(pid), WaitOptions::NOHANG) {
        Ok(Some((_, status))) => Reaped::As(Some(status)),
        Ok(None) | Err(rustix::io::Errno::INTR) => Reaped::Not,
        Err(_) => Reaped::As(None),
    }
}
