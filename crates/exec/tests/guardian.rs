//! A guardian that is killed is missed, but not by commands.
//!
//! One test only, so that the only guardian of the process is the one it means.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod support;

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use support::{alive, command, long_time};
use tooloop_exec::{End, Processes};

fn guardian() -> Option<i32> {
    let own = std::process::id();
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .find(|pid: &i32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.starts_with(&format!("{pid} (process-guard) S {own} "))
        })
}

#[tokio::test]
async fn commands_go_on_without_a_guardian() {
    let processes = Processes::new().unwrap();
    assert!(processes.guardian().is_none());
    assert_eq!(guardian(), None);
    processes.prepare().unwrap();
    processes
        .run(command("true", Path::new("/")))
        .await
        .unwrap();
    assert!(matches!(processes.guardian(), Some(Ok(()))));

    kill_process(Pid::from_raw(guardian().unwrap()).unwrap(), Signal::KILL).unwrap();
    let time = long_time();
    let text = format!("sleep {time} & echo on");
    loop {
        let outcome = processes.run(command(&text, Path::new("/"))).await.unwrap();
        assert_eq!(outcome.end, End::Exited(0));
        if matches!(processes.guardian(), Some(Err(_))) {
            break;
        }
    }
    processes.end_all(Duration::from_secs(1)).await;
    assert_eq!(alive(&time), [0; 0]);
    drop(processes);
    assert_eq!(guardian(), None);
}
