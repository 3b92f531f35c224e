//! Carries the output of a command from its pipe to where it is kept.

use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::pipe::fcntl_setpipe_size;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep_until};

use crate::Progress;
use crate::output::{Capture, Output};
use crate::platform::readable;

/// How much is read at once from a command that prints little.
const LITTLE: usize = 64 * 1024;

/// How much is read at once, and held in the pipe, from one that prints much.
const MUCH: usize = 512 * 1024;

/// How often progress is told at most.
const PROGRESS: Duration = Duration::from_millis(100);

/// How many characters of the newest output progress holds.
const RECENT: usize = 2000;

#[derive(Debug)]
pub(crate) struct Pump {
    pipe: AsyncFd<OwnedFd>,
    work: Work,
    is_at_end: bool,
    bytes_read: u64,
    progress: Option<watch::Sender<Progress>>,
    /// When to tell of output that has not been told of.
    tell_at: Option<Instant>,
    told: Instant,
}

/// The capture is here, or away writing to a file.
#[derive(Debug)]
enum Work {
    Here(Box<Load>),
    Away(JoinHandle<Box<Load>>),
    /// The thread that had it is gone, with what was printed.
    Lost,
}

#[derive(Debug)]
struct Load {
    capture: Capture,
    buffer: Vec<u8>,
}

impl Pump {
    pub(crate) fn new(
        pipe: OwnedFd,
        capture: Capture,
        progress: Option<watch::Sender<Progress>>,
    ) -> io::Result<Self> {
        let is_file = capture.begins_with_file();
        let mut load = Box::new(Load {
            capture,
            buffer: Vec::new(),
        });
        Ok(Self {
            pipe: readable(pipe)?,
            work: if is_file {
                Work::Away(spawn_blocking(move || {
                    load.capture.begin_file();
                    load
                }))
            } else {
                Work::Here(load)
            },
            is_at_end: false,
            bytes_read: 0,
            progress,
            tell_at: None,
            told: Instant::now(),
        })
    }

    /// Nobody holds the other end any more, and all was read.
    pub(crate) const fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    pub(crate) const fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// How many bytes were written until now, those still in the pipe included.
    pub(crate) fn bytes_so_far(&self) -> u64 {
        self.bytes_read + rustix::io::ioctl_fionread(self.pipe.get_ref()).unwrap_or(0)
    }

    /// Moves some bytes. Can be dropped at any await without loss. Never ready at the end.
    pub(crate) async fn step(&mut self) {
        if let Work::Away(handle) = &mut self.work {
            self.work = match handle.await {
                Ok(load) => Work::Here(load),
                Err(_) => Work::Lost,
            };
        }
        if self.is_at_end {
            return pending().await;
        }
        let tell_at = self.tell_at;
        tokio::select! {
            ready = self.pipe.readable() => match ready {
                Ok(mut ready) => {
                    let Work::Here(load) = &mut self.work else {
                        // What comes is taken, so that nobody is stopped by a full pipe.
                        self.is_at_end = true;
                        return;
                    };
                    load.buffer.clear();
                    load.buffer.reserve(LITTLE);
                    let read = ready.try_io(|pipe| {
                        Ok(rustix::io::read(pipe.get_ref(), spare_capacity(&mut load.buffer))?)
                    });
                    drop(ready);
                    match read {
                        Ok(Ok(0)) => self.is_at_end = true,
                        Ok(Ok(length)) => {
                            self.bytes_read += length as u64;
                            self.take();
                        }
                        Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                        Ok(Err(_)) => self.is_at_end = true,
                        // It was not ready after all.
                        Err(_) => {}
                    }
                }
                Err(_) => self.is_at_end = true,
            },
            () = until(tell_at) => self.tell(),
        }
    }

    /// Hands what is in the buffer to the capture, elsewhere if that means writing to a file.
    fn take(&mut self) {
        let Work::Here(load) = &mut self.work else {
            return;
        };
        if self.progress.is_some() && self.tell_at.is_none() {
            self.tell_at = Some(self.told + PROGRESS);
        }
        if !load.capture.would_write(load.buffer.len()) {
            load.capture.feed(&load.buffer);
            return;
        }
        let Work::Here(mut load) = std::mem::replace(&mut self.work, Work::Lost) else {
            return;
        };
        if load.buffer.capacity() < MUCH {
            // It prints much: fewer and larger reads. Where the system has no room for a larger
            // pipe, the smaller one does.
            fcntl_setpipe_size(self.pipe.get_ref(), MUCH).unwrap_or_default();
        }
        self.work = Work::Away(spawn_blocking(move || {
            load.capture.feed(&load.buffer);
            load.buffer.clear();
            load.buffer.reserve_exact(MUCH);
            load
        }));
    }

    fn tell(&mut self) {
        let (Some(progress), Work::Here(load)) = (&self.progress, &self.work) else {
            return;
        };
        progress.send_replace(Progress {
            tail: load.capture.recent(RECENT),
            bytes: self.bytes_read,
        });
        self.told = Instant::now();
        self.tell_at = None;
    }

    /// The output, and the pipe if others still hold its other end.
    pub(crate) async fn finish(mut self) -> (Output, Option<OwnedFd>) {
        let load = match std::mem::replace(&mut self.work, Work::Lost) {
            Work::Here(load) => Some(load),
            Work::Away(handle) => handle.await.ok(),
            Work::Lost => None,
        };
        let output = match load {
            None => Output::default(),
            Some(load) if load.capture.finish_writes() => {
                spawn_blocking(move || load.capture.finish())
                    .await
                    .unwrap_or_default()
            }
            Some(load) => load.capture.finish(),
        };
        let pipe = (!self.is_at_end).then(|| self.pipe.into_inner());
        (output, pipe)
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}
