//! The harness dies, in whatever way, and takes all with it.

#![expect(clippy::unwrap_used, reason = "shared test code may panic")]

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use support::{
    SOON, alive, assert_gone, await_alive, await_true, command, guardians_of, long_time,
};
use tooloop_exec::{Processes, TerminalSize, own_process};

/// What the harness runs, by the name of the test that watches.
const TEXT: &str = "TOOLOOP_EXEC_TEST_TEXT";
const OWNS: &str = "TOOLOOP_EXEC_TEST_OWNS";
const ENDS: &str = "TOOLOOP_EXEC_TEST_ENDS";
const TERMINAL: &str = "TOOLOOP_EXEC_TEST_TERMINAL";

/// Not a test of its own: with the variable set, it is the harness that the others kill.
#[test]
fn harness() {
    let Ok(text) = std::env::var(TEXT) else {
        return;
    };
    if std::env::var_os(OWNS).is_some() {
        own_process().unwrap();
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let processes = Processes::new().unwrap();
        // A leftover of one command, and another command that runs.
        let first = text.replace("TIME", "TIME1").replace("WAIT", "true");
        let first = first.replace("TIME", &std::env::var("TIME").unwrap());
        let outcome = processes
            .run(command(&first, Path::new("/")))
            .await
            .unwrap();
        println!("leftovers {}", outcome.leftovers.len());
        if std::env::var_os(ENDS).is_some() {
            return;
        }
        let second = text.replace("TIME", "TIME2").replace("WAIT", "sleep TIME3");
        let second = second.replace("TIME", &std::env::var("TIME").unwrap());
        println!("at work");
        let on_terminal = command(&second, Path::new("/"));
        if std::env::var_os(TERMINAL).is_some() {
            let size = TerminalSize {
                rows: 24,
                columns: 80,
            };
            let terminal = processes.open_terminal(on_terminal, size).await.unwrap();
            terminal.exited().await;
        }
        processes
            .run(command(&second, Path::new("/")))
            .await
            .unwrap();
    });
}

fn start(text: &str, time: &str, variables: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let mut harness = std::process::Command::new(std::env::current_exe().unwrap());
    harness
        .args(["--exact", "harness", "--nocapture"])
        .env(TEXT, text)
        .env("TIME", time)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    for variable in variables {
        harness.env(variable, "1");
    }
    let mut harness = harness.spawn().unwrap();
    let output = BufReader::new(harness.stdout.take().unwrap());
    (harness, output)
}

fn await_line(output: &mut BufReader<ChildStdout>, start: &str) {
    let mut line = String::new();
    while !line.starts_with(start) {
        line.clear();
        assert!(
            output.read_line(&mut line).unwrap() > 0,
            "it ended before {start}"
        );
    }
}

/// Kills a harness by SIGKILL while `count` processes of it are alive.
fn kill_harness(text: &str, count: usize, variables: &[&str]) {
    let time = long_time();
    let (mut harness, mut output) = start(text, &time, variables);
    await_line(&mut output, "at work");
    await_alive(&time, count);
    harness.kill().unwrap();
    harness.wait().unwrap();
    assert_gone(&time, SOON);
    // Nobody holds its output any more.
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
}

#[test]
fn killed_harness_takes_children() {
    kill_harness("sleep TIME & sleep TIME0 & WAIT", 5, &[]);
}

#[test]
fn killed_harness_takes_those_that_ignore_signals() {
    kill_harness(
        "(trap '' TERM HUP INT; sleep TIME; sleep TIME) & WAIT",
        3,
        &[],
    );
}

#[test]
fn killed_harness_takes_those_in_other_sessions() {
    kill_harness(
        "setsid sleep TIME & (setsid setsid sleep TIME0 &) ; WAIT",
        5,
        &[],
    );
}

#[test]
fn killed_harness_takes_what_is_on_a_terminal() {
    kill_harness(
        "(trap '' TERM HUP INT; sleep TIME; sleep TIME) & setsid sleep TIME0 & WAIT",
        5,
        &[TERMINAL],
    );
}

#[test]
fn killed_harness_takes_those_that_shed_the_mark() {
    kill_harness("env -i sleep TIME & WAIT", 3, &[]);
}

#[test]
fn killed_harness_takes_orphans_without_a_mark() {
    // Of the command that runs, those without a mark are not found; see the next test.
    let text = "if [ WAIT = true ]; then env -i setsid sleep TIME & fi; WAIT";
    kill_harness(text, 2, &[OWNS]);
}

/// It dies by the first thing that its first command does, before it may know that this runs.
#[test]
fn a_harness_killed_by_what_it_has_just_begun_takes_that_too() {
    for _ in 0..20 {
        let time = long_time();
        let text = "env -i sleep TIME & kill -9 $PPID; WAIT";
        let (mut harness, mut output) = start(text, &time, &[]);
        harness.wait().unwrap();
        assert_gone(&time, SOON);
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        assert!(!rest.contains("at work"), "{rest}");
    }
}

#[test]
fn a_harness_that_returns_takes_all() {
    let time = long_time();
    let text = "sleep TIME & setsid sleep TIME & env -i setsid sleep TIME & WAIT";
    let (mut harness, mut output) = start(text, &time, &[OWNS, ENDS]);
    await_line(&mut output, "leftovers 3");
    // Its end is the end of its output too, though its children had that open once.
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(harness.wait().unwrap().success());
    assert_eq!(alive(&time), [0; 0]);
}

#[test]
fn a_guardian_is_small_and_goes_too() {
    let time = long_time();
    let (mut harness, mut output) = start("sleep TIME & WAIT", &time, &[]);
    await_line(&mut output, "at work");
    let id = harness.id();
    await_true("a guardian", || guardians_of(id).len() == 1);
    let guard = Path::new("/proc").join(guardians_of(id)[0].to_string());
    let read = |file| fs::read_to_string(guard.join(file)).unwrap_or_default();
    await_true("a name of its own", || {
        read("cmdline").trim_end_matches('\0') == "process-guard"
    });
    // Only the connection to the harness is open.
    assert_eq!(fs::read_dir(guard.join("fd")).unwrap().count(), 1);
    await_true("little memory", || {
        let status = read("status");
        let line = status.lines().find(|line| line.starts_with("RssAnon"));
        let resident: Option<u64> =
            line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        resident.is_some_and(|resident| resident < 2048)
    });
    harness.kill().unwrap();
    harness.wait().unwrap();
    // A dead process that nobody reaps has no command line any more.
    await_true("its end", || read("cmdline").is_empty());
    assert_gone(&time, SOON);
}
