//! A guardian that is killed is missed, but not by commands.
//!
//! One test only, so that the only guardian of the process is the one it means.

mod support;

use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use support::{alive, await_true, command, guardians_of, long_time};
use tooloop_exec::{End, Processes};

#[tokio::test]
async fn commands_go_on_without_a_guardian() {
    let processes = Processes::new().unwrap();
    assert!(processes.guardian().is_none());
    let own = std::process::id();
    assert_eq!(guardians_of(own), [0; 0]);
    processes.prepare().unwrap();
    processes
        .run(command("true", Path::new("/")))
        .await
        .unwrap();
    assert!(matches!(processes.guardian(), Some(Ok(()))));

    // It takes its name in its own time.
    await_true("a guardian", || guardians_of(own).len() == 1);
    let pid = guardians_of(own)[0];
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
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
    assert_eq!(guardians_of(own), [0; 0]);
}
