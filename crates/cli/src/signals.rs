//! Signals that end a run.

use std::io;

use rustix::process::Signal as Native;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{Failure, Status};

/// The signals that end a run: interrupt, quit, abort, terminate, hang up.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    quit: Signal,
    abort: Signal,
    terminate: Signal,
    /// Not where whoever began us wants it ignored, as `nohup` does.
    hang_up: Option<Signal>,
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
            quit: signal(SignalKind::quit())?,
            abort: signal(SignalKind::from_raw(Native::ABORT.as_raw()))?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: if is_ignored(Native::HUP) {
                None
            } else {
                Some(signal(SignalKind::hangup())?)
            },
            _file_size: signal(SignalKind::from_raw(Native::XFSZ.as_raw()))?,
        })
    }

    /// The next one, as the status that it ends the run with.
    pub(crate) async fn next(&mut self) -> Status {
        let hang_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(()) = self.interrupt.recv() => Status::Interrupted,
            Some(()) = self.quit.recv() => Status::Quit,
            Some(()) = self.abort.recv() => Status::Aborted,
            Some(()) = self.terminate.recv() => Status::Terminated,
            Some(()) = hang_up => Status::HungUp,
            else => std::future::pending().await,
        }
    }
}

/// Whether this process ignores the signal.
pub(crate) fn is_ignored(signal: Native) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let place = u32::try_from(signal.as_raw() - 1).ok();
    let bit = place.and_then(|place| 1_u64.checked_shl(place));
    matches!((ignored, bit), (Some(ignored), Some(bit)) if ignored & bit != 0)
}
