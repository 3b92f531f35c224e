//! A guardian that is killed is followed by another one, and commands notice nothing.
//!
//! One test only, so that the only guardian of the process is the one it means.

mod support;

use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use support::{alive, await_true, command, guardians_of, long_time};
use tooloop_exec::{End, Processes};

#[tokio::test]
async fn another_guardian_takes_the_place_of_one_that_was_killed() {
    let processes = Processes::new().unwrap();
    assert!(processes.guardian().is_none());
    let own = std::process::id();
    assert_eq!(guardians_of(own), [0; 0]);
    processes.prepare().unwrap();
    let time = long_time();
    let text = format!("sleep {time} & echo on");
    let mut before = 0;
    for count in 1..=3 {
        let outcome = processes.run(command(&text, Path::new("/"))).await.unwrap();
        assert_eq!(outcome.end, End::Exited(0));
        assert_eq!(alive(&time).len(), count);
        // It takes its name in its own time.
        let guardians = || guardians_of(own);
        await_true("a new guardian", || {
            guardians().len() == 1 && guardians()[0] != before
        });
        await_true("a guardian that is known", || {
            matches!(processes.guardian(), Some(Ok(())))
        });
        before = guardians()[0];
        kill_process(Pid::from_raw(before).unwrap(), Signal::KILL).unwrap();
    }
    processes.end_all(Duration::from_secs(1)).await;
    assert_eq!(alive(&time), [0; 0]);
    drop(processes);
    assert_eq!(guardians_of(own), [0; 0]);
}
