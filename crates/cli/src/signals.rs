//! Signals that end a run.

use std::io;

use rustix::process::Signal as Native;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{Failure, Status};

/// The signals that end a run: interrupt, terminate, hang up.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    /// Caught and not looked at: by default a file at its limit would kill the process, where a
    /// write that fails ends the run with words.
    _file_size: Signal,
}

impl Signals {
    /// Listens from now on, with words where that fails.
    pub(crate) fn listen() -> Result<Self, Failure> {
        Self::new().map_err(|error| {
            let words = format!("cannot listen for signals: {error}");
            Failure::new(Status::Internal, words)
        })
    }

    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            _file_size: signal(SignalKind::from_raw(Native::XFSZ.as_raw()))?,
        })
    }

    /// The next one, as the status that it ends the run with.
    pub(crate) async fn next(&mut self) -> Status {
        tokio::select! {
            Some(()) = self.interrupt.recv() => Status::Interrupted,
            Some(()) = self.terminate.recv() => Status::Terminated,
            Some(()) = self.hang_up.recv() => Status::HungUp,
            else => std::future::pending().await,
        }
    }
}
