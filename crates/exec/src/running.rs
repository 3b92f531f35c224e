//! A command from its start to its outcome.

use std::future::pending;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, test_kill_process_group};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

use crate::exit::Exit;
use crate::output::{Capture, Output};
use crate::platform::{Process, command_line, is_first_of_namespace};
use crate::processes::Inner;
use crate::pump::Pump;
use crate::sandbox::Places;
use crate::{Command, End, Leftover, Outcome, Progress, StartError, shell, tree};

/// For how long a shell that was killed is waited for.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// The longest name of a leftover.
const NAME: usize = 100;

/// A command that has been started.
///
/// Dropping it kills the command with all its processes.
#[derive(Debug)]
pub struct Running {
    inner: Arc<Inner>,
    command: Command,
    pid: i32,
    number: u64,
    begin: Instant,
    exit: Exit,
    pump: Option<Pumps>,
    directory: Option<OwnedFd>,
    moved: Option<Places>,
    /// The shell has been reaped, so its number is no longer its own.
    is_reaped: bool,
    is_finished: bool,
}

/// What a started command is made of.
pub(crate) struct Parts {
    pub(crate) inner: Arc<Inner>,
    pub(crate) pid: i32,
    pub(crate) number: u64,
    pub(crate) begin: Instant,
    pub(crate) exit: Exit,
    pub(crate) output: OwnedFd,
    pub(crate) directory: Option<OwnedFd>,
    pub(crate) moved: Option<Places>,
    pub(crate) capture: Capture,
    /// The pipe of its standard error, if that is one of its own.
    pub(crate) errors: Option<(OwnedFd, Capture)>,
}

/// What carries the output of a command.
#[derive(Debug)]
struct Pumps {
    output: Pump,
    errors: Option<Pump>,
}

impl Pumps {
    /// Moves some bytes. Can be dropped at any await without loss. Never ready at the end.
    async fn step(&mut self) {
        match &mut self.errors {
            None => self.output.step().await,
            Some(errors) => tokio::select! {
                () = self.output.step() => {}
                () = errors.step() => {}
            },
        }
    }

    fn is_at_end(&self) -> bool {
        self.output.is_at_end() && self.errors.as_ref().is_none_or(Pump::is_at_end)
    }

    fn bytes_so_far(&self) -> u64 {
        self.output.bytes_so_far() + self.errors.as_ref().map_or(0, Pump::bytes_so_far)
    }

    fn bytes_read(&self) -> u64 {
        self.output.bytes_read() + self.errors.as_ref().map_or(0, Pump::bytes_read)
    }

    /// The output, that of standard error if it was kept apart, and the pipe if others still hold
    /// its other end.
    async fn finish(self) -> (Output, Output, Option<OwnedFd>) {
        let (output, pipe) = self.output.finish().await;
        let errors = match self.errors {
            Some(errors) => errors.finish().await.0,
            None => Output::default(),
        };
        (output, errors, pipe)
    }
}

impl Running {
    pub(crate) fn new(parts: Parts, command: Command) -> Result<Self, StartError> {
        let pump = Pump::new(parts.output, parts.capture, command.progress.clone());
        let errors = parts
            .errors
            .map(|(pipe, capture)| Pump::new(pipe, capture, None));
        let pump = pump.and_then(|output| {
            let errors = errors.transpose()?;
            Ok(Pumps { output, errors })
        });
        match pump {
            Ok(pump) => {
                if let Some(progress) = &command.progress {
                    progress.send_replace(Progress::default());
                }
                tracing::debug!(process = parts.pid, "a command starts");
                Ok(Self {
                    inner: parts.inner,
                    command,
                    pid: parts.pid,
                    number: parts.number,
                    begin: parts.begin,
                    exit: parts.exit,
                    pump: Some(pump),
                    directory: parts.directory,
                    moved: parts.moved,
                    is_reaped: false,
                    is_finished: false,
                })
            }
            Err(error) => {
                parts.inner.shared.abandon(parts.pid);
                Err(StartError::System(error))
            }
        }
    }

    /// The number of the shell's process, which is that of its group and its session too.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// Waits for the end, within the bounds of the command.
    pub async fn outcome(mut self) -> Outcome {
        let Some(mut pump) = self.pump.take() else {
            // Only here it is taken, and here only once.
            return pending().await;
        };
        let (end, duration) = self.until_exit(&mut pump).await;
        self.drain(&mut pump).await;
        let was_ended = matches!(end, End::TimedOut { .. } | End::Cancelled);
        let left = if was_ended {
            None
        } else {
            self.leftovers(&pump).await
        };
        let (output, errors, pipe) = pump.finish().await;
        let mut leftovers = Vec::new();
        if !self.is_reaped {
            // It would not die: the owner goes on trying.
            self.inner.shared.abandon(self.pid);
        } else if let Some(processes) = left {
            leftovers = processes.iter().map(describe).collect();
            self.inner.shared.finished(self.pid, Some(pipe));
        } else {
            self.inner.shared.finished(self.pid, None);
        }
        self.is_finished = true;
        let (process, left) = (self.pid, leftovers.len());
        tracing::debug!(process, ?end, left, "a command has ended");
        Outcome {
            end,
            duration,
            output,
            errors,
            leftovers,
            final_directory: self.told_directory(),
        }
    }

    /// Until the shell has exited, and the whole tree has if it was to be ended.
    async fn until_exit(&mut self, pump: &mut Pumps) -> (End, Duration) {
        let cancellation = self.command.cancellation.clone();
        let limit = sleep(self.command.time_limit);
        tokio::pin!(limit);
        let give_up = sleep(Duration::MAX);
        tokio::pin!(give_up);
        let mut ended_by = None;
        let mut ending: Option<JoinHandle<()>> = None;
        let mut status = None;
        let mut duration = None;
        loop {
            tokio::select! {
                biased;
                exited = self.exit.wait(self.pid), if !self.is_reaped => {
                    self.is_reaped = true;
                    status = Some(exited);
                    duration = Some(self.begin.elapsed());
                }
                () = cancellation.cancelled(), if ended_by.is_none() => {
                    ended_by = Some(End::Cancelled);
                    ending = Some(self.end_tree());
                }
                () = &mut limit, if ended_by.is_none() => {
                    ended_by = Some(End::TimedOut { limit: self.command.time_limit });
                    ending = Some(self.end_tree());
                }
                _ = joined(&mut ending), if ending.is_some() => {
                    ending = None;
                    give_up.as_mut().reset(tokio::time::Instant::now() + LAST_WAIT);
                }
                () = &mut give_up => break,
                () = pump.step() => {}
            }
            if self.is_reaped && ending.is_none() {
                break;
            }
        }
        let end = ended_by.or(status).unwrap_or(End::Unknown);
        (end, duration.unwrap_or_else(|| self.begin.elapsed()))
    }

    /// Asks the whole tree to end, and kills it after the grace.
    fn end_tree(&self) -> JoinHandle<()> {
        let asked = tree::Asked::group(self.pid, self.moved.is_some());
        let scope = self.inner.shared.scope_of(self.pid, self.number);
        let grace = self.command.grace;
        spawn_blocking(move || tree::end(|| scope.clone(), grace, Some(asked)))
    }

    /// Takes what is in the pipe, and waits a little for what its other holders still write.
    async fn drain(&self, pump: &mut Pumps) {
        let written = pump.bytes_so_far();
        let enough = sleep(self.command.pipe_grace);
        tokio::pin!(enough);
        let mut is_time_up = false;
        while !(pump.is_at_end() || is_time_up && pump.bytes_read() >= written) {
            tokio::select! {
                biased;
                () = &mut enough, if !is_time_up => is_time_up = true,
                () = pump.step() => {}
            }
        }
    }

    /// The processes that are left of the command; `None` if there are none.
    async fn leftovers(&self, pump: &Pumps) -> Option<Vec<Process>> {
        let shared = &self.inner.shared;
        shared.adopt(Some(self.number));
        let scope = shared.scope_of(self.pid, self.number);
        let group = Pid::from_raw(self.pid).map(test_kill_process_group);
        // Not being allowed to signal it also says that it is there.
        let has_group = !matches!(group, None | Some(Err(rustix::io::Errno::SRCH)));
        // Where they have an owner, also those count that cut all ties.
        let is_owned = self.command.leftovers.is_some();
        if scope.known.is_empty() && !has_group && pump.is_at_end() && !is_owned {
            return None;
        }
        let is_confined = self.command.sandbox.is_some();
        let living = move || {
            let mut members = scope.members();
            // The first process of a namespace is none of the command's.
            members.retain(|process| !(is_confined && is_first_of_namespace(process.pid)));
            members
        };
        let members = spawn_blocking(living).await.ok()?;
        (!members.is_empty()).then_some(members)
    }

    fn told_directory(&self) -> Option<std::path::PathBuf> {
        let mut told = [0_u8; 4200];
        let length = rustix::io::read(self.directory.as_ref()?, &mut told).ok()?;
        let told = shell::told_directory(told.get(..length)?)?;
        match &self.moved {
            Some(places) => Some(places.outside(&told)),
            None => Some(told),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        if self.is_reaped {
            let pipe = None;
            self.inner.shared.finished(self.pid, Some(pipe));
        } else {
            self.inner.shared.abandon(self.pid);
        }
    }
}

async fn joined(handle: &mut Option<JoinHandle<()>>) {
    match handle {
        // If the runtime does not run it any more, the group was signalled all the same.
        Some(handle) => handle.await.unwrap_or_default(),
        None => pending().await,
    }
}

fn describe(process: &Process) -> Leftover {
    let line = command_line(process.pid);
    let line = if line.trim().is_empty() {
        &process.name
    } else {
        &line
    };
    let name: String = line
        .chars()
        .take(NAME)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    Leftover {
        pid: process.pid.unsigned_abs(),
        name,
    }
}
