//! What the tests share.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each test binary uses a part; shared test code may panic"
)]

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tooloop_exec::{Command, End, Environment, EnvironmentRules, Outcome, Processes};

/// A bound for what must happen, not a time to wait.
pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) fn command(text: &str, directory: &Path) -> Command {
    let environment = Environment::of_this_process(&EnvironmentRules::default());
    Command::new(text, directory, environment)
}

pub(crate) async fn run(text: &str) -> Outcome {
    let processes = Processes::new().unwrap();
    let outcome = processes.run(command(text, Path::new("/"))).await.unwrap();
    processes.end_all(Duration::from_millis(100)).await;
    outcome
}

pub(crate) async fn text_and_end(text: &str) -> (String, End) {
    let outcome = run(text).await;
    (outcome.output.text(), outcome.end)
}

/// A length for `sleep` that no other process on the machine has in its arguments.
pub(crate) fn long_time() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("3000.{}{number:03}", std::process::id())
}

/// The living processes that have an argument which starts so.
pub(crate) fn alive(text: &str) -> Vec<i32> {
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| *pid != std::process::id() as i32)
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line)
                .split('\0')
                .any(|argument| argument.starts_with(text))
        })
        .collect()
}

/// Waits until no such process is alive.
pub(crate) fn assert_gone(text: &str, within: Duration) {
    let start = Instant::now();
    loop {
        let left = alive(text);
        if left.is_empty() {
            return;
        }
        assert!(start.elapsed() < within, "still alive: {left:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until such processes are alive, that many at least.
pub(crate) fn await_alive(text: &str, count: usize) {
    let start = Instant::now();
    while alive(text).len() < count {
        assert!(
            start.elapsed() < SOON,
            "{text} never came: {:?}",
            alive(text)
        );
        thread::sleep(Duration::from_millis(5));
    }
}

/// The guardians that are children of a process.
pub(crate) fn guardians_of(parent: u32) -> Vec<i32> {
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let mut fields = stat.split(' ');
            fields.nth(1) == Some("(process-guard)") && fields.nth(1) == Some(&parent.to_string())
        })
        .collect()
}

/// Waits until something is so.
pub(crate) fn await_true(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < SOON, "not in time: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
