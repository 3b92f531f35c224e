//! A program that runs: signals, waiting, and what it leaves behind.

use crate::finished::Finished;
use crate::gate::{Bell, TimedOut, lock};
use crate::pipes::{Feeder, Held, Line, Stream};
use crate::process::{Process, has_variable, processes};
use crate::run::{MARK, Run, Signal, Stdin, reading};
use crate::wait_until;
use rustix::process::{Pid, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use serde_json::Value;
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Output that is still held open by others is waited for this long once the program has ended.
const GRACE: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct ProcessState {
    child: Child,
    ended: Option<(ExitStatus, Instant)>,
}

/// A program that was started. Dropping it kills it, its process group, and all else that carries its mark.
#[derive(Debug)]
pub struct Running {
    pid: Pid,
    mark: String,
    started: Instant,
    stdin: Mutex<Option<ChildStdin>>,
    stdout: Stream,
    stderr: Stream,
    process: Arc<Mutex<ProcessState>>,
    bell: Arc<Bell>,
    held: Mutex<Option<Held>>,
    watcher: Option<JoinHandle<()>>,
    feeder: Option<Feeder>,
}

impl Running {
    /// Starts the command and all that watches over it.
    pub(crate) fn start(
        mut command: Command,
        started: Instant,
        mark: String,
        held: Option<Held>,
        run: &Run,
    ) -> io::Result<Self> {
        let mut child = command.spawn()?;
        let bell = Arc::new(Bell::default());
        let (out, err, stdin) = (child.stdout.take(), child.stderr.take(), child.stdin.take());
        let mut running = Self {
            pid: Pid::from_child(&child),
            mark,
            started,
            stdin: Mutex::new(None),
            stdout: Stream::none(&bell),
            stderr: Stream::none(&bell),
            process: Arc::new(Mutex::new(ProcessState { child, ended: None })),
            bell,
            held: Mutex::new(held),
            watcher: None,
            feeder: None,
        };
        // From here on an error drops the value, which ends what was started.
        running.watch()?;
        if let Some(pipe) = out {
            running.stdout = Stream::start(pipe, reading(&run.stdout), &running.bell)?;
        }
        if let Some(pipe) = err {
            running.stderr = Stream::start(pipe, reading(&run.stderr), &running.bell)?;
        }
        match (&run.stdin, stdin) {
            (Stdin::Bytes(bytes), Some(pipe)) => {
                running.feeder = Some(Feeder::start(pipe, bytes.clone())?)
            }
            (_, stdin) => *lock(&running.stdin) = stdin,
        }
        Ok(running)
    }

    /// Its process id, which is also that of its group.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// When it was started.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Says whether it has not ended yet.
    pub fn is_alive(&self) -> bool {
        lock(&self.process).ended.is_none()
    }

    /// Sends a signal to the program alone; says false if it had ended.
    pub fn signal(&self, signal: Signal) -> bool {
        let process = lock(&self.process);
        // While it is not reaped its id cannot belong to anyone else.
        process.ended.is_none() && kill_process(self.pid, signal.native()).is_ok()
    }

    /// Sends a signal to its whole process group, as a terminal does; says false if it had ended.
    pub fn signal_group(&self, signal: Signal) -> bool {
        let process = lock(&self.process);
        process.ended.is_none() && kill_process_group(self.pid, signal.native()).is_ok()
    }

    /// Writes to its standard input, which must be [`Stdin::Silent`].
    ///
    /// # Errors
    /// If there is no such pipe, or nobody reads it any more.
    pub fn write_stdin(&self, bytes: &[u8]) -> io::Result<()> {
        match lock(&self.stdin).as_mut() {
            Some(stdin) => stdin.write_all(bytes).and_then(|()| stdin.flush()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Takes out what is left of [`Stdin::Holding`], and ends it.
    ///
    /// # Errors
    /// If its standard input is another, or this was asked before.
    pub fn unread_stdin(&self) -> io::Result<Vec<u8>> {
        let held = lock(&self.held).take();
        held.ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?
            .unread()
    }

    /// Ends its standard input.
    pub fn close_stdin(&self) {
        drop(lock(&self.stdin).take());
    }

    /// The lines that it has written to standard output so far.
    pub fn lines(&self) -> Vec<Line> {
        self.stdout.captured().lines
    }

    /// Waits for a line on standard output.
    ///
    /// # Errors
    /// If `within` passed first, or the output ended.
    pub fn wait_for_line(
        &self,
        within: Duration,
        wanted: impl FnMut(&str) -> bool,
    ) -> Result<Line, TimedOut> {
        self.wait_for(&self.stdout, "a line on standard output", within, wanted)
    }

    /// Waits for a line on standard error.
    ///
    /// # Errors
    /// If `within` passed first, or the output ended.
    pub fn wait_for_error_line(
        &self,
        within: Duration,
        wanted: impl FnMut(&str) -> bool,
    ) -> Result<Line, TimedOut> {
        self.wait_for(&self.stderr, "a line on standard error", within, wanted)
    }

    /// Waits for a line on standard output that is JSON and passes `wanted`.
    ///
    /// # Errors
    /// If `within` passed first, or the output ended.
    pub fn wait_for_record(
        &self,
        within: Duration,
        mut wanted: impl FnMut(&Value) -> bool,
    ) -> Result<(Value, Instant), TimedOut> {
        let mut found = Value::Null;
        let line = self.wait_for(
            &self.stdout,
            "a record on standard output",
            within,
            |line| {
                serde_json::from_str(line).is_ok_and(|value| {
                    let is_wanted = wanted(&value);
                    if is_wanted {
                        found = value;
                    }
                    is_wanted
                })
            },
        )?;
        Ok((found, line.at))
    }

    fn wait_for(
        &self,
        stream: &Stream,
        awaited: &str,
        within: Duration,
        mut wanted: impl FnMut(&str) -> bool,
    ) -> Result<Line, TimedOut> {
        let deadline = Instant::now() + within;
        let (mut looked_at, mut found) = (0, None);
        self.bell.wait_until(Some(deadline), || {
            let ended = stream.ended();
            let lines = stream.lines_from(looked_at, ended);
            looked_at += lines.iter().filter(|line| line.ended).count();
            found = lines.into_iter().find(|line| wanted(&line.text));
            found.is_some() || ended
        });
        found.ok_or_else(|| TimedOut {
            awaited: awaited.to_owned(),
            seen: self.snapshot(false).to_string(),
            within,
        })
    }

    /// Waits until the program has ended and its output has been read to the end. One that has not ended by `within`
    /// is killed with its process group and all that it started.
    ///
    /// Output that is held open by a process left behind is not waited for longer than ten seconds; see
    /// [`Finished::output_open`].
    pub fn wait(&self, within: Duration) -> Finished {
        let deadline = Instant::now() + within;
        let ended = self.bell.wait_until(Some(deadline), || !self.is_alive());
        if !ended {
            self.kill();
        }
        let grace = Some(Instant::now() + GRACE);
        self.bell.wait_until(grace, || {
            !self.is_alive() && self.stdout.ended() && self.stderr.ended()
        });
        self.snapshot(!ended)
    }

    /// Kills the program, its process group, and all else that carries its mark.
    pub fn kill(&self) {
        self.signal_group(Signal::Kill);
        // Something may start more while it is being looked for.
        let _all: bool = wait_until(Duration::from_secs(5), || {
            let left = self.processes();
            for process in &left {
                if let Some(pid) = Pid::from_raw(process.pid) {
                    // It may have ended by itself.
                    let _: Result<(), _> = kill_process(pid, Signal::Kill.native());
                }
            }
            left.is_empty()
        });
    }

    /// Living processes that the program left behind or still has: those of its group, and those that inherited the
    /// mark in their environment. The program itself is not among them. Whatever left the group and cleared its
    /// environment is not found; see [`processes_in`](crate::processes_in).
    pub fn leftovers(&self) -> Vec<Process> {
        let mut left = self.processes();
        left.retain(|process| process.pid != self.pid());
        left
    }

    /// Waits until nothing is left; gives what still is when `within` has passed.
    pub fn wait_for_no_leftovers(&self, within: Duration) -> Vec<Process> {
        let mut left = Vec::new();
        let _none: bool = wait_until(within, || {
            left = self.leftovers();
            left.is_empty()
        });
        left
    }

    fn processes(&self) -> Vec<Process> {
        processes()
            .into_iter()
            .filter(|process| {
                process.group == self.pid() || has_variable(process.pid, MARK, &self.mark)
            })
            .collect()
    }

    fn snapshot(&self, timed_out: bool) -> Finished {
        let ended = lock(&self.process).ended;
        let (status, at) = ended.map_or((None, Instant::now()), |(status, at)| (Some(status), at));
        Finished {
            code: status.and_then(|status| status.code()),
            signal: status.and_then(|status| status.signal()),
            timed_out,
            elapsed: at - self.started,
            output_open: !(self.stdout.ended() && self.stderr.ended()),
            stdout: self.stdout.captured(),
            stderr: self.stderr.captured(),
        }
    }

    /// Starts the thread that notices the end of the program.
    fn watch(&mut self) -> io::Result<()> {
        let (process, bell, pid) = (Arc::clone(&self.process), Arc::clone(&self.bell), self.pid);
        let watch = move || {
            // Not reaped yet, so that a signal sent meanwhile meets no stranger.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while matches!(
                waitid(WaitId::Pid(pid), options),
                Err(rustix::io::Errno::INTR)
            ) {}
            let mut process = lock(&process);
            let at = Instant::now();
            process.ended = process.child.wait().ok().map(|status| (status, at));
            drop(process);
            bell.ring();
        };
        let thread = std::thread::Builder::new().name("end of program".to_owned());
        self.watcher = Some(thread.spawn(watch)?);
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        match self.watcher.take() {
            Some(watcher) => drop(watcher.join()),
            // It never came to be watched.
            None => drop(lock(&self.process).child.wait()),
        }
    }
}
