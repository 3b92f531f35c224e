//! Commands on terminals of their own.

#![expect(clippy::unwrap_used, reason = "shared test code may panic")]

mod support;

use std::path::Path;
use std::time::Duration;

use support::{SOON, alive, assert_gone, await_alive, command, long_time};
use tokio::time::timeout;
use tooloop_exec::{End, Processes, Shell, StartError, Terminal, TerminalSize};

const SIZE: TerminalSize = TerminalSize {
    rows: 24,
    columns: 80,
};

async fn open(processes: &Processes, text: &str) -> Terminal {
    let command = command(text, Path::new("/"));
    processes.open_terminal(command, SIZE).await.unwrap()
}

/// What is printed until `part` is, or to the end.
async fn read_until(terminal: &Terminal, part: &str) -> String {
    let reading = async {
        let mut seen = String::new();
        let mut buffer = [0; 1000];
        while part.is_empty() || !seen.contains(part) {
            let length = terminal.read(&mut buffer).await.unwrap();
            if length == 0 {
                break;
            }
            seen.push_str(&String::from_utf8_lossy(buffer.split_at(length).0));
        }
        seen
    };
    timeout(SOON, reading).await.unwrap()
}

async fn type_all(terminal: &Terminal, text: &str) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let written = timeout(SOON, terminal.write(rest)).await.unwrap().unwrap();
        rest = rest.split_at(written).1;
    }
}

#[tokio::test]
async fn a_command_has_a_terminal_and_a_session_of_its_own() {
    let processes = Processes::new().unwrap();
    let text = "tty <&1; stty size; test -t 0 -a -t 1 -a -t 2; echo \"all $?\"; \
                read fields </proc/self/stat; set -- $fields; echo \"$$ $1 $5 $6 $8\"; \
                (: </dev/tty) && echo controlled; cd /tmp; echo end; exit 7";
    // Not bash, which would take a terminal that it was not given.
    let mut command = command(text, Path::new("/"));
    command.shell = Shell::at("/bin/sh");
    let terminal = processes.open_terminal(command, SIZE).await.unwrap();
    let seen = read_until(&terminal, "").await;
    let lines: Vec<&str> = seen.lines().collect();
    let [tty, size, all, numbers, controlled, end] = lines.as_slice() else {
        return assert_eq!(seen, "six lines");
    };
    assert!(tty.starts_with("/dev/pts/"), "{tty}");
    assert_eq!(
        [*size, *all, *controlled, *end],
        ["24 80", "all 0", "controlled", "end"]
    );
    // Process, group, session and the group in the foreground of the terminal are one.
    let numbers: Vec<&str> = numbers.split(' ').collect();
    assert!(
        numbers.iter().all(|number| Some(number) == numbers.first()),
        "{numbers:?}"
    );
    assert_eq!(terminal.exited().await, End::Exited(7));
    assert_eq!(terminal.exited().await, End::Exited(7));
}

#[tokio::test]
async fn what_is_typed_arrives_and_keys_are_signals() {
    let processes = Processes::new().unwrap();
    let time = long_time();
    let text = format!("read -p 'name? ' x; echo \"[$x]\"; sleep {time}; echo no");
    let terminal = open(&processes, &text).await;
    assert_eq!(read_until(&terminal, "? ").await, "name? ");
    // The erase key takes a whole character.
    type_all(&terminal, "A\u{e9}\x7fda\r").await;
    let seen = read_until(&terminal, "]\r\n").await;
    assert!(seen.ends_with("[Ada]\r\n"), "{seen:?}");
    await_alive(&time, 1);
    type_all(&terminal, "\x03").await;
    assert_eq!(
        timeout(SOON, terminal.exited()).await.unwrap(),
        End::Signaled(2)
    );
    assert!(alive(&time).is_empty());
}

#[tokio::test]
async fn a_new_size_is_told() {
    let processes = Processes::new().unwrap();
    let text = "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done";
    let terminal = open(&processes, text).await;
    read_until(&terminal, "ready").await;
    terminal
        .resize(TerminalSize {
            rows: 10,
            columns: 132,
        })
        .unwrap();
    let seen = read_until(&terminal, "132\r\n").await;
    assert!(seen.ends_with("10 132\r\n"), "{seen:?}");
}

#[tokio::test]
async fn a_full_terminal_takes_no_more_and_blocks_nobody() {
    let processes = Processes::new().unwrap();
    let text = format!("stty raw -echo; echo ready; sleep {}", long_time());
    let terminal = open(&processes, &text).await;
    read_until(&terminal, "ready").await;
    let mut taken = 0;
    let full = async {
        loop {
            taken += terminal.write(&[b'x'; 4096]).await.unwrap();
        }
    };
    let never: Result<(), _> = timeout(Duration::from_millis(300), full).await;
    assert!(never.is_err());
    assert!((1..1 << 20).contains(&taken), "{taken}");
    assert!(matches!(terminal.end().await, End::Signaled(_)));
}

#[tokio::test]
async fn ending_takes_the_stubborn_and_the_cut_off() {
    let processes = Processes::new().unwrap();
    let times = [long_time(), long_time(), long_time()];
    let [stubborn, cut_off, main] = &times;
    let text = format!(
        "(trap '' TERM HUP INT; sleep {stubborn}; sleep {stubborn}) & setsid sleep {cut_off} & \
         sleep {main}; sleep {main}"
    );
    let mut command = command(&text, Path::new("/"));
    command.grace = Duration::from_millis(200);
    let terminal = processes.open_terminal(command, SIZE).await.unwrap();
    for time in &times {
        await_alive(time, 1);
    }
    let end = terminal.end().await;
    assert!(matches!(end, End::Signaled(1 | 9 | 15)), "{end:?}");
    for time in &times {
        assert!(alive(time).is_empty(), "{time}");
    }
    // Once more is harmless.
    assert_eq!(terminal.end().await, end);
}

#[tokio::test]
async fn dropping_takes_all_also_after_the_exit() {
    let processes = Processes::new().unwrap();
    let [first, second] = [long_time(), long_time()];
    // The loss of the terminal alone would not end these.
    let text = format!("trap '' HUP; sleep {first} & sleep {first}; echo no");
    let terminal = open(&processes, &text).await;
    await_alive(&first, 2);
    drop(terminal);
    assert_gone(&first, SOON);

    let text = format!("trap '' HUP; setsid sleep {second} & echo started");
    let terminal = open(&processes, &text).await;
    read_until(&terminal, "started").await;
    assert_eq!(
        timeout(SOON, terminal.exited()).await.unwrap(),
        End::Exited(0)
    );
    await_alive(&second, 1);
    drop(terminal);
    assert_gone(&second, SOON);
}

#[tokio::test]
async fn what_cannot_start_is_told() {
    let processes = Processes::new().unwrap();
    let nowhere = command("true", Path::new("/nowhere"));
    let error = processes.open_terminal(nowhere, SIZE).await.unwrap_err();
    assert!(matches!(error, StartError::Directory { .. }), "{error:?}");
    let nul = command("a\0b", Path::new("/"));
    let error = processes.open_terminal(nul, SIZE).await.unwrap_err();
    assert!(matches!(error, StartError::Nul), "{error:?}");
}
