//! Reads the table of processes in `/proc`.

use std::fs;
use std::os::fd::AsFd;

use rustix::param::clock_ticks_per_second;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, kill_process, pidfd_open,
    pidfd_send_signal, waitid,
};
use rustix::time::{ClockId, clock_gettime};

/// The variable that marks what belongs to a run.
///
/// Its value is a list of `run.command`, parted by colons, outermost first: a harness inside a
/// command of another one adds to it.
pub(crate) const MARK: &str = "TOOLOOP_RUN";

/// A process at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) name: String,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// Exited, and not yet reaped.
    pub(crate) is_dead: bool,
    /// With the number it is never that of another process.
    pub(crate) start: u64,
}

/// The time on the clock that [`Process::start`] is read from.
pub(crate) fn ticks() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let per_second = clock_ticks_per_second();
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(now.tv_nsec).unwrap_or_default();
    seconds
        .saturating_mul(per_second)
        .saturating_add(nanos.saturating_mul(per_second) / 1_000_000_000)
}

/// All processes that can be seen.
pub(crate) fn processes() -> Vec<Process> {
    let Ok(folder) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    folder
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(read_process)
        .collect()
}

pub(crate) fn read_process(pid: i32) -> Option<Process> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name is in parentheses and may hold anything, parentheses too.
    let (start, fields) = stat.rsplit_once(") ")?;
    let name = start.split_once(" (")?.1.to_owned();
    let mut fields = fields.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    let start = fields.nth(15)?.parse().ok()?;
    Some(Process {
        pid,
        name,
        parent,
        group,
        session,
        is_dead: matches!(state, "Z" | "X" | "x"),
        start,
    })
}

/// The value of [`MARK`] in the environment a process was started with.
pub(crate) fn run_marker(pid: i32) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    environment.split(|byte| *byte == 0).find_map(|variable| {
        let value = variable.strip_prefix(MARK.as_bytes())?.strip_prefix(b"=")?;
        String::from_utf8(value.to_vec()).ok()
    })
}

/// The line that started a process, with spaces between the arguments; empty if unknown.
pub(crate) fn command_line(pid: i32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line);
    line.trim_end_matches('\0').replace('\0', " ")
}

/// Whether a process is the first one of a namespace of processes other than the one of `/proc`.
pub(crate) fn is_first_of_namespace(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let mut numbers = numbers.unwrap_or_default().split_ascii_whitespace();
    numbers.next().is_some() && numbers.last() == Some("1")
}

/// How ready the kernel is to end a process when memory runs out.
pub(crate) fn oom_score(pid: i32) -> Option<i32> {
    let score = fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).ok()?;
    score.trim().parse().ok()
}

/// The children of this process, as far as its main thread has them: orphans come to that one.
pub(crate) fn children_of_self() -> Vec<i32> {
    // The usual case, and quicker than to read a file.
    let any = waitid(
        WaitId::All,
        WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT,
    );
    if matches!(any, Err(rustix::io::Errno::CHILD)) {
        return Vec::new();
    }
    let own = getpid().as_raw_pid();
    match fs::read_to_string(format!("/proc/self/task/{own}/children")) {
        Ok(children) => children
            .split_ascii_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect(),
        // A kernel that was built without such lists.
        Err(_) => processes()
            .into_iter()
            .filter(|process| process.parent == own)
            .map(|process| process.pid)
            .collect(),
    }
}

/// Signals a process, unless its number has passed to another one since.
pub(crate) fn kill(process: &Process, signal: Signal) {
    let Some(pid) = Pid::from_raw(process.pid) else {
        return;
    };
    // One that is gone, or that may not be signalled, is nothing to act on.
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => {
            if is_same(process) {
                pidfd_send_signal(pidfd.as_fd(), signal).unwrap_or_default();
            }
        }
        Err(rustix::io::Errno::NOSYS) if is_same(process) => {
            kill_process(pid, signal).unwrap_or_default();
        }
        Err(_) => {}
    }
}

fn is_same(process: &Process) -> bool {
    read_process(process.pid).is_some_and(|now| now.start == process.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_itself() {
        let own = std::process::id() as i32;
        let process = read_process(own).unwrap();
        assert_eq!(process.pid, own);
        assert!(!process.is_dead && process.start > 0);
        // The leader of the session may be outside of a container, where it has no number.
        assert!(process.session >= 0 && process.group >= 0);
        assert!(processes().iter().any(|other| other.pid == own));
        assert!(process.start <= ticks());
        assert!(command_line(own).contains("tooloop"));
        assert!(oom_score(own).is_some());
    }
}
