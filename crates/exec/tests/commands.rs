//! Commands and what comes of them, with real shells.

#![expect(clippy::expect_used, reason = "shared test code may panic")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use support::{SOON, alive, assert_gone, await_alive, command, long_time, run, text_and_end};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tooloop_exec::{
    Command, End, Environment, EnvironmentRules, Output, OutputLimits, Processes, Shell,
    SpoolState, StartError,
};

#[tokio::test]
async fn statuses_and_text_arrive_unchanged() {
    let here_document = "cat <<'END-1'\n$HOME \\n \"x\"\nEND-1";
    for (text, output, end) in [
        ("printf '%s' ' != '", " != ", End::Exited(0)),
        (
            "echo a | cat; { echo b; }; echo $(( $$ > 1 ))",
            "a\nb\n1\n",
            End::Exited(0),
        ),
        (here_document, "$HOME \\n \"x\"\n", End::Exited(0)),
        ("echo x # tail", "x\n", End::Exited(0)),
        ("exit 7", "", End::Exited(7)),
        ("kill -9 $$", "", End::Signaled(9)),
        ("cd /; kill -9 $$", "", End::Signaled(9)),
        ("bash -c 'exit 300'", "", End::Exited(44)),
        ("false | true", "", End::Exited(0)),
        (
            "echo out; echo err >&2; echo out2",
            "out\nerr\nout2\n",
            End::Exited(0),
        ),
        ("echo \"$0 $#\"", "bash 0\n", End::Exited(0)),
        (
            "nosuchcommand-1",
            "bash: line 1: nosuchcommand-1: command not found\n",
            End::Exited(127),
        ),
        ("(exit 3) & wait $!", "", End::Exited(3)),
        ("echo \"[$BASH_ENV]\"; trap", "[]\n", End::Exited(0)),
        ("", "", End::Exited(0)),
    ] {
        assert_eq!(text_and_end(text).await, (output.into(), end), "{text}");
    }
    let (text, end) = text_and_end("echo 'unclosed").await;
    assert_eq!(end, End::Exited(2));
    assert!(
        text.starts_with("bash: -c: line 1: unexpected EOF"),
        "{text}"
    );
}

#[tokio::test]
async fn the_directory_is_told_and_nothing_else_changes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let inner = folder.join("a b");
    fs::create_dir(&inner).unwrap();
    let processes = Processes::new().unwrap();
    let here = |path: &Path| Some(path.to_path_buf());
    for (text, output, end, directory) in [
        (
            "cd 'a b' && pwd",
            format!("{}\n", inner.display()),
            End::Exited(0),
            here(&inner),
        ),
        (
            "cd 'a b'; exit 7",
            String::new(),
            End::Exited(7),
            here(&inner),
        ),
        (
            "cd 'a b'; (exit 9)",
            String::new(),
            End::Exited(9),
            here(&inner),
        ),
        (
            "cd 'a b'; exec sleep 0",
            String::new(),
            End::Exited(0),
            None,
        ),
        (
            "set -e; cd 'a b'; false; echo no",
            String::new(),
            End::Exited(1),
            here(&inner),
        ),
        (
            "set -eu; cd 'a b'; set -o pipefail; false | true",
            String::new(),
            End::Exited(1),
            here(&inner),
        ),
        (
            "set -x; cd 'a b'",
            "+ cd 'a b'\n".into(),
            End::Exited(0),
            here(&inner),
        ),
        (
            "trap 'echo bye' EXIT; cd 'a b'",
            "bye\n".into(),
            End::Exited(0),
            None,
        ),
        (
            "(cd 'a b'); f() { cd /; }; g() { f; }",
            String::new(),
            End::Exited(0),
            here(&folder),
        ),
        (
            "pushd 'a b' >/dev/null; echo $? $0 $#",
            "0 bash 0\n".into(),
            End::Exited(0),
            here(&inner),
        ),
        (
            "pwd() { echo mine; }; cd 'a b'",
            String::new(),
            End::Exited(0),
            here(&inner),
        ),
        ("echo cd", "cd\n".into(), End::Exited(0), here(&folder)),
        ("true", String::new(), End::Exited(0), None),
    ] {
        let outcome = processes.run(command(text, &folder)).await.unwrap();
        assert_eq!(
            (outcome.output.text(), outcome.end, outcome.final_directory),
            (output, end, directory),
            "{text}"
        );
    }
    // The name by which a directory was entered stays.
    std::os::unix::fs::symlink(&inner, folder.join("link")).unwrap();
    let linked = processes.run(command("cd link", &folder)).await.unwrap();
    let linked = linked.final_directory.unwrap();
    assert_eq!(linked, folder.join("link"));
    let outcome = processes.run(command("pwd", &linked)).await.unwrap();
    assert_eq!(outcome.output.text(), format!("{}\n", linked.display()));
}

#[tokio::test]
async fn another_shell_does_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let processes = Processes::new().unwrap();
    for (text, output, end, directory) in [
        (
            "mkdir d; cd d; echo \"$0 $#\"; exit 5",
            "sh 0\n",
            End::Exited(5),
            Some(folder.join("d")),
        ),
        (
            "cd d; set -e; false",
            "",
            End::Exited(1),
            Some(folder.join("d")),
        ),
        ("echo \"$0 $#\"; (exit 4)", "sh 0\n", End::Exited(4), None),
    ] {
        let command = Command {
            shell: Shell::at("/bin/sh"),
            ..command(text, &folder)
        };
        let outcome = processes.run(command).await.unwrap();
        assert_eq!(
            (
                outcome.output.text().as_str(),
                outcome.end,
                outcome.final_directory
            ),
            (output, end, directory),
            "{text}"
        );
    }
    let command = Command {
        shell: Shell::at("/bin/sh"),
        ..command("cd /; echo 'unclosed", &folder)
    };
    assert_eq!(processes.run(command).await.unwrap().end, End::Exited(2));
}

#[tokio::test]
async fn a_very_long_text_is_run() {
    let body = "x".repeat(300_000);
    let text = format!("cat <<'EOF' | wc -c\n{body}\nEOF\necho \"$0 $#\"; exit 6\n");
    assert_eq!(
        text_and_end(&text).await,
        ("300001\nbash 0\n".into(), End::Exited(6))
    );
}

#[tokio::test]
async fn what_cannot_start_is_an_error() {
    let processes = Processes::new().unwrap();
    let nul = processes.run(command("echo a\0b", Path::new("/"))).await;
    assert!(matches!(nul, Err(StartError::Nul)));
    let nowhere = processes
        .run(command("true", Path::new("/no/such/place")))
        .await;
    let Err(StartError::Directory { path, source }) = nowhere else {
        panic!("{nowhere:?}");
    };
    assert_eq!(path, PathBuf::from("/no/such/place"));
    assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
    let shell = Command {
        shell: Shell::at("/no/such/shell"),
        ..command("true", Path::new("/"))
    };
    assert!(matches!(
        processes.run(shell).await,
        Err(StartError::Shell { .. })
    ));
    // And it can go on after that.
    let outcome = processes
        .run(command("echo on", Path::new("/")))
        .await
        .unwrap();
    assert_eq!(outcome.output.text(), "on\n");
    assert!(matches!(processes.guardian(), Some(Ok(()))));
}

#[tokio::test]
async fn children_that_keep_the_pipe_keep_nobody() {
    let processes = Processes::new().unwrap();
    for form in [
        "(sleep TIME; echo late) & echo started",
        "nohup sleep TIME & disown; echo started",
        "sh -c 'sleep TIME & exec true'; echo started",
        "setsid sleep TIME & echo started",
        "sleep TIME >/dev/null 2>&1 & echo started",
    ] {
        let time = long_time();
        let text = form.replace("TIME", &time);
        let begin = Instant::now();
        let outcome = processes.run(command(&text, Path::new("/"))).await.unwrap();
        assert!(begin.elapsed() < SOON);
        assert_eq!(outcome.end, End::Exited(0));
        assert!(outcome.output.text().contains("started\n"), "{form}");
        assert!(!outcome.output.text().contains("late"));
        let named = outcome
            .leftovers
            .iter()
            .any(|leftover| leftover.name.contains(&time));
        assert!(named, "{form}: {:?}", outcome.leftovers);
        // The shell may be gone before its child has become the program.
        await_alive(&time, 1);
        processes.end_all(Duration::from_secs(1)).await;
        assert_eq!(alive(&time), [0; 0], "{form}");
    }
}

#[tokio::test]
async fn what_is_printed_before_the_exit_is_all_there() {
    // A child holds the pipe and the shell prints more than the pipe holds.
    let time = long_time();
    let text = format!("sleep {time} & seq 1 20000; printf the-end");
    let processes = Processes::new().unwrap();
    let outcome = processes.run(command(&text, Path::new("/"))).await.unwrap();
    assert!(outcome.output.text().ends_with("20000\nthe-end"));
    // Output of a child that is soon done is waited for.
    let outcome = run("exec > >(read -r line; sleep 0.05; echo \"late $line\"); echo first").await;
    assert_eq!(outcome.output.text(), "late first\n");
}

#[tokio::test]
async fn a_leftover_that_prints_is_not_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let processes = Processes::new().unwrap();
    // It prints far more than a pipe holds, after the call has returned, and then leaves a file.
    let text =
        "mkfifo go; (read line <go; seq 1 200000; echo done >&2 && touch done) & echo started";
    let outcome = processes.run(command(text, folder.path())).await.unwrap();
    assert_eq!(outcome.output.text(), "started\n");
    assert_eq!(outcome.leftovers.len(), 1);
    fs::write(folder.path().join("go"), "go\n").unwrap();
    let begin = Instant::now();
    while !folder.path().join("done").exists() {
        assert!(begin.elapsed() < SOON, "it stands still");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_stubborn_tree_is_ended_at_the_limit() {
    let time = long_time();
    let text = format!(
        "echo first; bash -c 'trap : TERM; sleep {time}1 & setsid sleep {time}2 & bash -mc \"sleep {time}3\" 2>/dev/null; \
         while :; do sleep {time}4; done'; echo never"
    );
    let processes = Processes::new().unwrap();
    let limit = Duration::from_millis(300);
    let limited = Command {
        time_limit: limit,
        grace: Duration::from_millis(300),
        ..command(&text, Path::new("/"))
    };
    let outcome = processes.run(limited).await.unwrap();
    assert_eq!(outcome.end, End::TimedOut { limit });
    let text = outcome.output.text();
    assert!(
        text.starts_with("first\n") && !text.contains("never"),
        "{text}"
    );
    assert!(outcome.duration >= limit);
    assert_eq!(alive(&time), [0; 0]);
    let outcome = processes
        .run(command("echo second", Path::new("/")))
        .await
        .unwrap();
    assert_eq!(outcome.output.text(), "second\n");
}

#[tokio::test]
async fn one_that_ends_when_asked_is_not_waited_for() {
    let time = long_time();
    let processes = Processes::new().unwrap();
    let limited = Command {
        time_limit: Duration::from_millis(50),
        grace: Duration::from_secs(3600),
        ..command(
            &format!("trap 'echo asked; exit 3' TERM; sleep {time} & wait"),
            Path::new("/"),
        )
    };
    let outcome = processes.run(limited).await.unwrap();
    assert!(matches!(outcome.end, End::TimedOut { .. }));
    assert_eq!(outcome.output.text(), "asked\n");
    assert_eq!(alive(&time), [0; 0]);
}

#[tokio::test]
async fn cancelling_ends_the_tree_at_once() {
    let time = long_time();
    let processes = Processes::new().unwrap();
    let cancellation = CancellationToken::new();
    let cancelled = Command {
        cancellation: cancellation.clone(),
        grace: Duration::from_secs(3600),
        ..command(
            &format!("echo before; sleep {time}1 & (cd /; sleep {time}2); echo never"),
            Path::new("/"),
        )
    };
    let running = processes.start(cancelled).await.unwrap();
    let outcome = tokio::spawn(running.outcome());
    let time_alive = time.clone();
    tokio::task::spawn_blocking(move || await_alive(&time_alive, 2))
        .await
        .unwrap();
    cancellation.cancel();
    let outcome = outcome.await.unwrap();
    assert_eq!(outcome.end, End::Cancelled);
    let text = outcome.output.text();
    // The shell may tell of its child's end before its own.
    let (before, after) = text.split_once('\n').unwrap();
    assert!(before == "before" && !after.contains("never"), "{text}");
    assert_eq!(alive(&time), [0; 0]);
}

#[tokio::test]
async fn dropping_ends_the_tree() {
    let time = long_time();
    let processes = Processes::new().unwrap();
    let text = format!("sleep {time}1 & setsid sleep {time}2 & sleep {time}3");
    let running = processes
        .start(command(&text, Path::new("/")))
        .await
        .unwrap();
    let pid = running.pid();
    await_alive(&time, 3);
    drop(running);
    assert_gone(&time, SOON);
    // And its shell is reaped.
    let begin = Instant::now();
    while Path::new(&format!("/proc/{pid}")).exists() {
        assert!(begin.elapsed() < SOON);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[tokio::test]
async fn dropping_the_owner_ends_all() {
    let time = long_time();
    let processes = Processes::new().unwrap();
    let text =
        format!("sleep {time}1 & setsid sleep {time}2 & (trap '' TERM HUP; sleep {time}3) & true");
    let outcome = processes.run(command(&text, Path::new("/"))).await.unwrap();
    assert!(outcome.leftovers.len() >= 3, "{:?}", outcome.leftovers);
    drop(processes);
    assert_eq!(alive(&time), [0; 0]);
}

#[tokio::test]
async fn nobody_is_there_to_answer() {
    let folder = tempfile::tempdir().unwrap();
    let processes = Processes::new().unwrap();
    let setup = "git init -q . && git config user.email a@b && git config user.name a \
        && git config core.pager less && git commit -q --allow-empty -m first";
    let outcome = processes.run(command(setup, folder.path())).await.unwrap();
    assert_eq!(outcome.end, End::Exited(0), "{}", outcome.output.text());
    for (text, output, code) in [
        ("cat", "", 0),
        ("read -p '? ' x; echo \"[$x]\"", "[]\n", 0),
        ("cat /dev/stdin", "", 0),
        (
            "cat < /dev/tty",
            "bash: line 1: /dev/tty: No such device or address\n",
            1,
        ),
        ("EDITOR=vi git log --format=%s", "first\n", 0),
        (
            "git commit --amend --allow-empty -q && git log --format=%s",
            "first\n",
            0,
        ),
    ] {
        let outcome = processes.run(command(text, folder.path())).await.unwrap();
        assert_eq!(
            (outcome.output.text().as_str(), outcome.end),
            (output, End::Exited(code)),
            "{text}"
        );
    }
    let outcome = processes
        .run(command("git commit --allow-empty", folder.path()))
        .await
        .unwrap();
    assert!(matches!(outcome.end, End::Exited(code) if code != 0));
    let outcome = processes
        .run(command("python3 -c 'input()'", folder.path()))
        .await
        .unwrap();
    assert!(matches!(outcome.end, End::Exited(code) if code != 0));
}

#[tokio::test]
async fn no_descriptor_leaks_into_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    // A descriptor that does not close itself, as a parent may have left it.
    let leaked = leak(&secret);
    let outcome = run("ls -l /proc/self/fd").await;
    let text = outcome.output.text();
    assert!(!text.contains("secret"), "{text}");
    assert_eq!(text.matches("pipe:").count(), 2, "{text}");
    assert!(text.contains("/dev/null"));
    drop(leaked);
}

/// Opens a file without the flag that closes it in children.
fn leak(path: &Path) -> fs::File {
    use std::os::fd::{FromRawFd, IntoRawFd};
    let file = fs::File::open(path)
        .expect("the file is there")
        .into_raw_fd();
    // SAFETY: duplicating a descriptor; the copy is owned by what is returned.
    unsafe {
        let copy = libc::dup(file);
        libc::close(file);
        fs::File::from_raw_fd(copy)
    }
}

#[tokio::test]
async fn output_without_end_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let processes = Processes::new().unwrap();
    let mut long = command("yes 0123456789 | head -c 30000000; exit 3", Path::new("/"));
    long.output.spool_folder = Some(folder.path().join("spool"));
    let outcome = processes.run(long).await.unwrap();
    assert_eq!(outcome.end, End::Exited(3));
    let output = &outcome.output;
    assert_eq!(output.bytes, 30_000_000);
    assert_eq!(output.head.chars().count(), 15_000);
    assert_eq!(output.tail.chars().count(), 15_000);
    assert_eq!(output.left_out, 30_000_000 - 30_000);
    let spool = output.spool.as_ref().unwrap();
    assert_eq!(spool.state, SpoolState::Whole);
    let whole = fs::read(&spool.path).unwrap();
    assert_eq!(whole.len(), 30_000_000);
    assert!(
        whole
            .chunks(11)
            .take(2_727_272)
            .all(|line| line == b"0123456789\n")
    );

    let endless = Command {
        time_limit: Duration::from_millis(300),
        ..command("yes", Path::new("/"))
    };
    let outcome = processes.run(endless).await.unwrap();
    assert!(matches!(outcome.end, End::TimedOut { .. }));
    assert!(outcome.output.left_out > 0);
}

#[tokio::test]
async fn bytes_that_are_no_text() {
    let (text, end) =
        text_and_end("printf 'a\\377\\376\\000b \\033[31mred\\033[0m\\r\\nc\\200'").await;
    assert_eq!(text, "a\\xff\\xfe\\x00b red\nc\\x80");
    assert_eq!(end, End::Exited(0));
    let (text, end) = text_and_end("head -c 4096 /dev/urandom").await;
    assert_eq!(text, "(binary output, 4096 bytes)");
    assert_eq!(end, End::Exited(0));
}

#[tokio::test]
async fn secrets_do_not_reach_commands() {
    let source = [
        ("PATH", std::env::var("PATH").unwrap().as_str().to_owned()),
        ("ANTHROPIC_API_KEY", "kk-AAA".into()),
        ("OPENAI_API_KEY", "kk-BBB".into()),
        ("TEAM_TOKEN", "kk-CCC".into()),
        ("FOO", "bar".into()),
    ]
    .map(|(name, value)| (name.into(), value.into()));
    let environment = Environment::fit(source.clone(), &EnvironmentRules::default());
    let processes = Processes::new().unwrap();
    let text = "env | grep -c kk-; echo $FOO";
    let outcome = processes
        .run(Command::new(text, "/", environment))
        .await
        .unwrap();
    assert_eq!(outcome.output.text(), "0\nbar\n");
    let rules = EnvironmentRules {
        pass: vec!["TEAM_TOKEN".into()],
        ..EnvironmentRules::default()
    };
    let environment = Environment::fit(source, &rules);
    let outcome = processes
        .run(Command::new(text, "/", environment))
        .await
        .unwrap();
    assert_eq!(outcome.output.text(), "1\nbar\n");
}

#[tokio::test]
async fn a_startup_file_that_is_passed_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("startup");
    fs::write(&file, "STARTED=yes\n").unwrap();
    let mut environment = Environment::of_this_process(&EnvironmentRules::default());
    environment.set("BASH_ENV", &file);
    let processes = Processes::new().unwrap();
    let command = Command::new(
        "cd /; echo $STARTED $BASH_ENV $TOOLOOP_BASH_ENV",
        "/",
        environment,
    );
    let outcome = processes.run(command).await.unwrap();
    assert_eq!(outcome.output.text(), format!("yes {}\n", file.display()));
}

#[tokio::test]
async fn progress_shows_the_newest() {
    let (sender, mut receiver) = watch::channel(tooloop_exec::Progress::default());
    let folder = tempfile::tempdir().unwrap();
    let processes = Processes::new().unwrap();
    let watched = Command {
        progress: Some(sender),
        ..command(
            "mkfifo go; printf 'one\\ntw'; read line <go; echo o",
            folder.path(),
        )
    };
    let outcome = tokio::spawn(async move {
        let outcome = processes.run(watched).await;
        (processes, outcome)
    });
    let seen = receiver
        .wait_for(|progress| progress.bytes == 6)
        .await
        .unwrap()
        .clone();
    assert_eq!(seen.tail, "one\ntw");
    fs::write(folder.path().join("go"), "\n").unwrap();
    let (_processes, outcome) = outcome.await.unwrap();
    assert_eq!(outcome.unwrap().output.text(), "one\ntwo\n");
}

#[tokio::test]
async fn a_named_file_takes_the_output_from_the_first_byte_on() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made").join("job.txt");
    let processes = Processes::new().unwrap();
    let (sender, mut receiver) = watch::channel(tooloop_exec::Progress::default());
    let mut kept = command(
        "mkfifo go; printf 'on\\033[0me'; read line <go; echo two",
        folder.path(),
    );
    kept.output.file = Some(file.clone());
    kept.progress = Some(sender);
    let running = tokio::spawn({
        let processes = processes.clone();
        async move { processes.run(kept).await.unwrap() }
    });
    receiver.wait_for(|now| now.bytes == 7).await.unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"on\x1b[0me");
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    fs::write(folder.path().join("go"), "\n").unwrap();
    let outcome = running.await.unwrap();
    assert_eq!(outcome.output.text(), "onetwo\n");
    let spool = outcome.output.spool.unwrap();
    assert_eq!((spool.path, spool.bytes), (file.clone(), 11));
    assert_eq!(fs::read(&file).unwrap(), b"on\x1b[0metwo\n");

    // It never writes over another one, and it is there even if nothing is printed.
    let mut second = command("echo other", folder.path());
    second.output.file = Some(file.clone());
    let outcome = processes.run(second).await.unwrap();
    assert_eq!(outcome.output.text(), "other\n");
    let state = outcome.output.spool.unwrap().state;
    assert!(
        matches!(&state, SpoolState::Failed(why) if why.contains("exists")),
        "{state:?}"
    );
    let mut silent = command("exit 3", folder.path());
    silent.output.file = Some(folder.path().join("silent.txt"));
    assert_eq!(processes.run(silent).await.unwrap().end, End::Exited(3));
    assert_eq!(fs::read(folder.path().join("silent.txt")).unwrap(), b"");

    // Bounded as all such files.
    let mut long = command("seq 1 100000", folder.path());
    long.output.file = Some(folder.path().join("long.txt"));
    long.output.spool_bytes = 1000;
    let spool = processes.run(long).await.unwrap().output.spool.unwrap();
    assert_eq!((spool.bytes, spool.state), (1000, SpoolState::Capped));
    assert_eq!(
        fs::metadata(folder.path().join("long.txt")).unwrap().len(),
        1000
    );
}

#[tokio::test]
async fn what_is_left_ends_with_its_owner() {
    let processes = Processes::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let owner = CancellationToken::new();
    let times = [long_time(), long_time(), long_time()];
    let [owned, cut_off, other] = &times;
    for (time, text) in [
        (owned, format!("sleep {owned} & echo started")),
        // With an owner also one is looked for that has cut all ties.
        (
            cut_off,
            format!(
                // In the midst of its exec a process shows no environment to be known by.
                "setsid sh -c 'echo $$ >cut; exec sleep {cut_off}' >/dev/null 2>&1 & \
                 until pid=$(cat cut 2>/dev/null) && [ -n \"$pid\" ] \
                 && [ \"$(cat /proc/$pid/comm)\" = sleep ] \
                 && grep -q . /proc/$pid/environ; do sleep 0.01; done; echo started"
            ),
        ),
    ] {
        let mut command = command(&text, folder.path());
        command.leftovers = Some(owner.clone());
        let outcome = processes.run(command).await.unwrap();
        assert_eq!(outcome.output.text(), "started\n");
        let names: Vec<&str> = outcome
            .leftovers
            .iter()
            .map(|left| left.name.as_str())
            .collect();
        assert!(
            names.len() == 1 && names.iter().all(|name| name.contains(time.as_str())),
            "{names:?}"
        );
    }
    let text = format!("sleep {other} & echo started");
    processes.run(command(&text, Path::new("/"))).await.unwrap();
    await_alive(owned, 1);
    await_alive(cut_off, 1);
    owner.cancel();
    assert_gone(owned, SOON);
    assert_gone(cut_off, SOON);
    // That of another command is another's.
    await_alive(other, 1);
}

#[test]
fn what_lies_in_a_file_is_cleaned_alike() {
    let mut cleaner = tooloop_exec::OutputCleaner::new(6, 4);
    for piece in [&b"\x1b[3"[..], b"1mred\xc3", b"\xa9 and much more"] {
        cleaner.feed(piece);
    }
    let output = cleaner.finish();
    assert_eq!(
        (output.head.as_str(), output.tail.as_str()),
        ("red\u{e9} a", "more")
    );
    assert_eq!(output.left_out, 8);
}

#[tokio::test]
async fn many_at_once() {
    let processes = Processes::new().unwrap();
    let tasks: Vec<_> = (0..100)
        .map(|number| {
            let processes = processes.clone();
            tokio::spawn(async move {
                let text = format!("cd /tmp; echo {number}; exit {number}");
                processes.run(command(&text, Path::new("/"))).await.unwrap()
            })
        })
        .collect();
    for (number, task) in (0..).zip(tasks) {
        let outcome = task.await.unwrap();
        assert_eq!(outcome.end, End::Exited(number));
        assert_eq!(outcome.output.text(), format!("{number}\n"));
        assert_eq!(outcome.final_directory, Some("/tmp".into()));
        assert!(outcome.leftovers.is_empty(), "{:?}", outcome.leftovers);
    }
}

#[tokio::test]
async fn an_input_is_read_and_errors_are_kept_apart() {
    let processes = Processes::new().unwrap();
    let input: Vec<u8> = (0..200_000_u32)
        .flat_map(|n| format!("{n}\n").into_bytes())
        .collect();
    let lines = "wc -l; echo oops >&2; head -c 300000 /dev/zero | tr '\\0' e >&2; echo done";
    let command = Command {
        input: Some(input.into()),
        errors: Some(OutputLimits {
            head: 100,
            tail: 0,
            ..OutputLimits::default()
        }),
        ..command(lines, Path::new("/"))
    };
    let outcome = processes.run(command).await.unwrap();
    assert_eq!(outcome.end, End::Exited(0));
    assert_eq!(outcome.output.text().trim(), "200000\ndone");
    assert!(
        outcome.errors.head.starts_with("oops\neee"),
        "{}",
        outcome.errors.head
    );
    assert_eq!(
        (outcome.errors.head.len(), outcome.errors.bytes),
        (100, 300_005)
    );
    // Nobody has to read it.
    let ignores = Command {
        input: Some(vec![b'x'; 1 << 20].into()),
        ..support::command("exec <&-; echo closed; echo and >&2", Path::new("/"))
    };
    let outcome = processes.run(ignores).await.unwrap();
    assert_eq!(outcome.output.text(), "closed\nand\n");
    assert_eq!(outcome.errors, Output::default());
}
