//! Finds the processes of a command or of a run, and ends them.

use std::collections::{HashMap, HashSet};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, kill_process_group, pidfd_open};

use crate::platform::{Process, is_first_of_namespace, kill, processes, run_marker, ticks};

/// After SIGKILL a process goes as soon as the kernel lets it. No longer than this is waited.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// How many processes are watched at a time while they end.
const WATCHED: usize = 128;

/// What belongs to a command, or to a whole run.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    /// The run's id.
    pub(crate) run: String,
    /// The number of the command; `None`: all commands.
    pub(crate) command: Option<u64>,
    /// The sessions of the command or the run.
    pub(crate) sessions: HashSet<i32>,
    /// Processes that are known to belong to it.
    pub(crate) known: HashSet<i32>,
}

impl Scope {
    fn is_marked(&self, pid: i32) -> bool {
        let Some(marker) = run_marker(pid) else {
            return false;
        };
        marker.split(':').any(|entry| {
            entry.split_once('.').is_some_and(|(run, command)| {
                run == self.run && self.command.is_none_or(|own| command.parse() == Ok(own))
            })
        })
    }

    /// The living processes that belong to it now: those of its sessions, those that carry its
    /// mark, and all that descend from them.
    pub(crate) fn members(&self) -> Vec<Process> {
        let own = getpid().as_raw_pid();
        let all = processes();
        let mut children: HashMap<i32, Vec<&Process>> = HashMap::new();
        for process in &all {
            children.entry(process.parent).or_default().push(process);
        }
        let mut queue: Vec<&Process> = all
            .iter()
            .filter(|process| {
                self.sessions.contains(&process.session)
                    || self.known.contains(&process.pid)
                    || (!process.is_dead && self.is_marked(process.pid))
            })
            .collect();
        let mut seen = HashSet::from([own]);
        let mut members = Vec::new();
        while let Some(process) = queue.pop() {
            if !seen.insert(process.pid) {
                continue;
            }
            queue.extend(children.get(&process.pid).into_iter().flatten());
            if !process.is_dead {
                members.push(process.clone());
            }
        }
        members
    }
}

/// The processes of a group that have been asked to end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    group: i32,
    /// The leader is none of the command's, nor is the first process of its namespace. Those do
    /// not hear, and neither does what they are about to start.
    is_confined: bool,
    /// Who was born before was asked; of who is younger that is not known.
    before: u64,
}

impl Asked {
    /// Asks the whole group of a session's leader at once.
    pub(crate) fn group(leader: i32, is_confined: bool) -> Self {
        let before = ticks();
        signal_group(leader, Signal::TERM);
        Self {
            group: leader,
            is_confined,
            before,
        }
    }

    fn holds(self, process: &Process) -> bool {
        process.group == self.group && process.start < self.before
    }

    fn is_deaf(self, process: &Process) -> bool {
        self.is_confined && (process.pid == self.group || is_first_of_namespace(process.pid))
    }
}

/// Signals the whole group of a session's leader at once.
pub(crate) fn signal_group(leader: i32, signal: Signal) {
    if let Some(leader) = Pid::from_raw(leader) {
        // One that is empty by now is nothing to act on.
        kill_process_group(leader, signal).unwrap_or_default();
    }
}

/// Asks all processes of a scope to end, kills them after `grace`, and returns when they are gone
/// (or will not go). Nobody is asked twice: many a program takes the second time for impatience, and
/// drops what it was putting in order.
pub(crate) fn end(scope: impl Fn() -> Scope, grace: Duration, already: Option<Asked>) {
    let start = Instant::now();
    let mut asked = HashSet::new();
    loop {
        let members = scope().members();
        if let Some(already) = already {
            let its = members.iter().filter(|process| already.holds(process));
            asked.extend(its.map(|process| (process.pid, process.start)));
        }
        if members.is_empty() {
            return;
        }
        let elapsed = start.elapsed();
        let kills = elapsed >= grace;
        let mut is_starting = false;
        if let Some(already) = already.filter(|already| already.is_confined && !kills) {
            let its =
                |process: &&Process| process.group == already.group && !already.is_deaf(process);
            let of_group = || members.iter().filter(its);
            // The command began only after its group was asked. Asked one by one, a shell might
            // go on for a moment when what it waited for has ended.
            if of_group().all(|process| !asked.contains(&(process.pid, process.start))) {
                is_starting = of_group().next().is_none();
                if !is_starting {
                    signal_group(already.group, Signal::TERM);
                    asked.extend(of_group().map(|process| (process.pid, process.start)));
                }
            }
        }
        for process in &members {
            if kills {
                kill(process, Signal::KILL);
            } else if asked.insert((process.pid, process.start)) {
                kill(process, Signal::TERM);
            }
        }
        if elapsed >= grace + LAST_WAIT {
            return;
        }
        // New ones may be born at any time, so even the patient wait is made of short ones.
        let wait = if is_starting {
            Duration::from_millis(2)
        } else if kills {
            Duration::from_millis(50)
        } else {
            (grace - elapsed).min(Duration::from_millis(500))
        };
        await_ends(&members, wait);
    }
}

/// Waits until all of them are gone, or the time is up.
fn await_ends(processes: &[Process], wait: Duration) {
    let deadline = Instant::now() + wait;
    let mut watched = Vec::new();
    for process in processes.iter().take(WATCHED) {
        let opened = Pid::from_raw(process.pid).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
        match opened {
            Some(Ok(pidfd)) => watched.push(pidfd),
            Some(Err(rustix::io::Errno::NOSYS)) => {
                return thread::sleep(wait.min(Duration::from_millis(20)));
            }
            _ => {}
        }
    }
    while !watched.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        let mut fds: Vec<PollFd<'_>> = watched
            .iter()
            .map(|pidfd| PollFd::new(pidfd, PollFlags::IN))
            .collect();
        let Ok(timeout) = Timespec::try_from(left) else {
            return;
        };
        // An interrupted wait is a short one.
        poll(&mut fds, Some(&timeout)).unwrap_or_default();
        let gone: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut gone = gone.into_iter();
        watched.retain(|_| !gone.next().unwrap_or(true));
    }
}
