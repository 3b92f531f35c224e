//! Looking for processes that a run left behind.
//!
//! Reads `/proc`; where there is none, nothing is found.

use std::fs;
use std::path::{Path, PathBuf};

/// A living process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// The id of its process group.
    pub group: i32,
    /// The id of its parent.
    pub parent: i32,
    /// The program and its arguments, joined by spaces; the short name if it has none.
    pub command: String,
    /// Its working directory, if it may be seen.
    pub directory: Option<PathBuf>,
}

/// All living processes. Those that have ended and only wait to be noticed are not among them.
pub fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let pid = entry.file_name().to_str()?.parse().ok()?;
            read(pid, &entry.path())
        })
        .collect()
}

/// Living processes whose command line holds `text`, such as `sleep 311`.
pub fn processes_with(text: &str) -> Vec<Process> {
    processes()
        .into_iter()
        .filter(|process| process.command.contains(text))
        .collect()
}

/// Living processes whose working directory is `directory` or below it.
pub fn processes_in(directory: &Path) -> Vec<Process> {
    let inside = |process: &Process| {
        process
            .directory
            .as_ref()
            .is_some_and(|path| path.starts_with(directory))
    };
    processes().into_iter().filter(inside).collect()
}

fn read(pid: i32, path: &Path) -> Option<Process> {
    let stat = fs::read(path.join("stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The short name stands in brackets and may itself hold any character.
    let (before, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let arguments = fs::read(path.join("cmdline")).ok()?;
    let command = arguments
        .split(|byte| *byte == 0)
        .map(String::from_utf8_lossy)
        .collect::<Vec<_>>()
        .join(" ")
        .trim_end()
        .to_owned();
    let command = if command.is_empty() {
        before.split_once('(')?.1.to_owned()
    } else {
        command
    };
    let directory = fs::read_link(path.join("cwd")).ok();
    Some(Process {
        pid,
        group,
        parent,
        command,
        directory,
    })
}

/// Says whether a process was started with this in its environment, by itself or by inheritance.
pub(crate) fn has_variable(pid: i32, name: &str, value: &str) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else {
        return false;
    };
    let wanted = format!("{name}={value}");
    environment
        .split(|byte| *byte == 0)
        .any(|variable| variable == wanted.as_bytes())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_among_them() {
        let own = i32::try_from(std::process::id()).unwrap();
        let process = processes()
            .into_iter()
            .find(|process| process.pid == own)
            .unwrap();
        assert!(
            process.command.contains("tooloop_testkit"),
            "{}",
            process.command
        );
        assert_eq!(process.directory, std::env::current_dir().ok());
        assert!(processes_in(&std::env::current_dir().unwrap()).contains(&process));
        let path = std::env::var("PATH").unwrap();
        assert!(has_variable(own, "PATH", &path));
        assert!(!has_variable(own, "PATH", &format!("{path}:")));
    }
}
