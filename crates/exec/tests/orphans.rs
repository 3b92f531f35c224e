//! A process that inherits the orphans of its commands.
//!
//! One test only: what it does to its process would touch others in it.

#![expect(clippy::unwrap_used, reason = "shared test code may panic")]

mod support;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use support::{SOON, alive, command, long_time};
use tooloop_exec::{End, Processes, own_process};

/// The children of this process that have exited and wait to be reaped.
fn zombies() -> Vec<String> {
    fs::read_dir("/proc/self/task")
        .unwrap()
        .flatten()
        .flat_map(|task| {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            children
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .filter(|pid| {
            fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
        })
        .collect()
}

#[tokio::test]
async fn orphans_are_found_named_ended_and_reaped() {
    own_process().unwrap();
    let processes = Processes::new().unwrap();

    // A child that another part of the program waits for is left to it, dead or alive.
    let mut own_living = std::process::Command::new("sleep")
        .arg("3000")
        .spawn()
        .unwrap();
    let mut own_dead = std::process::Command::new("sh")
        .args(["-c", "exit 5"])
        .spawn()
        .unwrap();

    // Cut off from everything: no mark, another session, no pipe, no parent.
    let time = long_time();
    let text = format!("(env -i setsid sleep {time} </dev/null >/dev/null 2>&1 &) ; true");
    let outcome = processes.run(command(&text, Path::new("/"))).await.unwrap();
    assert_eq!(outcome.end, End::Exited(0));
    // It may be on its way still, and then have another name.
    assert_eq!(outcome.leftovers.len(), 1, "{:?}", outcome.leftovers);

    // It is named once only, and the next command is quick to return.
    let outcome = processes
        .run(command("true", Path::new("/")))
        .await
        .unwrap();
    assert!(outcome.leftovers.is_empty());

    processes.end_all(Duration::from_secs(1)).await;
    assert_eq!(alive(&time), [0; 0]);

    // Orphans that exit by themselves, while a leftover lives.
    let time = long_time();
    let text =
        format!("for n in 1 2 3 4 5 6 7 8; do (setsid sleep 0.0$n &); done; sleep {time} & true");
    processes.run(command(&text, Path::new("/"))).await.unwrap();
    let own_dead_pid = own_dead.id().to_string();
    let begin = Instant::now();
    while zombies().iter().any(|pid| *pid != own_dead_pid) {
        assert!(begin.elapsed() < SOON, "{:?}", zombies());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    processes.end_all(Duration::from_secs(1)).await;
    assert_eq!(alive(&time), [0; 0]);
    drop(processes);
    assert!(zombies().iter().all(|pid| *pid == own_dead_pid));

    assert_eq!(own_dead.wait().unwrap().code(), Some(5));
    assert!(own_living.try_wait().unwrap().is_none());
    own_living.kill().unwrap();
    own_living.wait().unwrap();
}
