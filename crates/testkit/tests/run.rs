//! Running programs: a shell stands in for the agent.

use serde_json::json;
use std::time::Duration;
use tooloop_testkit::run::{Output, Run, Signal, Stdin};
use tooloop_testkit::{Gate, ModelServer, Scratch, anthropic, processes_in, processes_with};

/// A bound for waits that a working program never reaches.
const LONG: Duration = Duration::from_secs(60);

fn shell(script: &str) -> Run {
    Run::new("/bin/sh").args(["-c", script])
}

#[test]
fn the_environment_is_known_and_the_directories_are_new() {
    let scratch = Scratch::new();
    let server = ModelServer::start([anthropic::say("ok")]);
    let run = Run::new("env")
        .home(&scratch)
        .model(&server)
        .env("EXTRA", "1")
        .env_remove("TERM")
        .start();
    let finished = run.wait(LONG);
    finished.assert_code(0);
    let mut names: Vec<_> = finished
        .stdout
        .lines
        .iter()
        .map(|line| line.text.split('=').next().unwrap().to_owned())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_BASE_URL",
            "EXTRA",
            "HOME",
            "LANG",
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
            "PATH",
            "TESTKIT_RUN",
            "TMPDIR",
            "TZ",
            "XDG_CACHE_HOME",
            "XDG_CONFIG_HOME",
            "XDG_DATA_HOME",
            "XDG_RUNTIME_DIR",
            "XDG_STATE_HOME"
        ]
    );
    assert!(
        finished
            .stdout
            .text()
            .contains(&format!("ANTHROPIC_BASE_URL={}\n", server.base_url()))
    );
    assert!(scratch.data().is_dir() && scratch.outside().is_dir() && !scratch.marker().exists());
    let root = scratch.root().to_owned();
    drop(scratch);
    assert!(!root.exists());
}

#[test]
fn a_program_talks_to_the_server() {
    let scratch = Scratch::new();
    let server = ModelServer::start([anthropic::say("from the script")]);
    scratch.write(
        "body",
        r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#,
    );
    // No client can be taken for granted but bash itself.
    let script = "exec 3<>/dev/tcp/127.0.0.1/${ANTHROPIC_BASE_URL##*:}
        printf 'POST /v1/messages HTTP/1.1\\r\\nconnection: close\\r\\ncontent-length: %d\\r\\n\\r\\n' \"$(wc -c <body)\" >&3
        cat body >&3
        cat <&3";
    let run = Run::new("bash")
        .args(["-c", script])
        .home(&scratch)
        .model(&server)
        .start();
    let finished = run.wait(LONG);
    finished.assert_code(0);
    assert!(
        finished.stdout.text().contains("from the script"),
        "{finished}"
    );
    server.assert_clean();
}

#[test]
fn output_is_kept_with_the_time_of_each_line() {
    let run = shell("echo one; read x; printf 'two\\nrest'; echo bad >&2; exit 3")
        .stdin(Stdin::Silent)
        .start();
    let one = run.wait_for_line(LONG, |line| line == "one").unwrap();
    assert!(one.ended && run.is_alive());
    assert_eq!(run.lines(), std::slice::from_ref(&one));
    run.write_stdin(b"go\n").unwrap();
    run.wait_for_error_line(LONG, |line| line == "bad").unwrap();
    let finished = run.wait(LONG);
    assert_eq!(
        (finished.code, finished.signal, finished.timed_out),
        (Some(3), None, false)
    );
    assert_eq!(finished.shell_status(), Some(3));
    assert_eq!(finished.stdout.bytes, b"one\ntwo\nrest");
    assert_eq!(finished.stderr.text(), "bad\n");
    let lines = &finished.stdout.lines;
    let texts: Vec<_> = lines
        .iter()
        .map(|line| (line.text.as_str(), line.ended))
        .collect();
    assert_eq!(texts, [("one", true), ("two", true), ("rest", false)]);
    assert!(run.started() < lines[0].at && lines[0].at < lines[1].at);
    let error = run.wait_for_line(LONG, |line| line == "three").unwrap_err();
    assert!(
        error.to_string().contains("it ended with code 3"),
        "{error}"
    );
}

#[test]
fn records_are_json_lines() {
    let run = shell("echo '{\"n\":1}'; echo; echo '{\"n\":2}'").start();
    assert_eq!(
        run.wait_for_record(LONG, |record| record["n"] == 2)
            .unwrap()
            .0,
        json!({"n": 2})
    );
    assert_eq!(
        run.wait(LONG).json_lines().unwrap(),
        [json!({"n": 1}), json!({"n": 2})]
    );
    let error = shell("echo 1; echo oops")
        .start()
        .wait(LONG)
        .json_lines()
        .unwrap_err();
    assert_eq!((error.number, error.text.as_str()), (2, "oops"));
}

#[test]
fn standard_input() {
    let text = |stdin: Stdin| {
        shell("cat; echo \" status $?\"")
            .stdin(stdin)
            .start()
            .wait(LONG)
            .stdout
            .text()
    };
    assert_eq!(text(Stdin::Null), " status 0\n");
    assert_eq!(text(Stdin::Bytes(b"abc".to_vec())), "abc status 0\n");
    assert_eq!(text(Stdin::Closed), " status 1\n");
    let much = vec![b'x'; 1 << 20];
    assert_eq!(
        shell("cat")
            .stdin(Stdin::Bytes(much.clone()))
            .start()
            .wait(LONG)
            .stdout
            .bytes,
        much
    );
    shell("exit 0")
        .stdin(Stdin::Bytes(much))
        .start()
        .wait(LONG)
        .assert_code(0);

    for (script, left) in [
        ("echo x", "USER-LINE\n"),
        ("read -r line; echo \"$line\"", ""),
        ("head -c 5", "LINE\n"),
    ] {
        let run = shell(script)
            .stdin(Stdin::Holding(b"USER-LINE\n".to_vec()))
            .start();
        run.wait(LONG).assert_code(0);
        assert_eq!(run.unread_stdin().unwrap(), left.as_bytes(), "{script}");
        assert!(run.unread_stdin().is_err());
    }
    assert!(
        shell("exit 0")
            .stdin(Stdin::Holding(vec![0; 5000]))
            .try_start()
            .is_err()
    );

    let silent = shell("cat; echo end").stdin(Stdin::Silent).start();
    assert!(silent.is_alive());
    silent.close_stdin();
    assert!(silent.write_stdin(b"x").is_err());
    assert_eq!(silent.wait(LONG).stdout.text(), "end\n");
}

#[test]
fn standard_output() {
    let closed = shell("echo x 2>/dev/null; echo \"status $?\" >&2")
        .stdout(Output::Closed)
        .start()
        .wait(LONG);
    assert_eq!(
        (closed.stdout.text().as_str(), closed.stderr.text().as_str()),
        ("", "status 1\n")
    );
    let both = shell("exit 4")
        .stdin(Stdin::Closed)
        .stderr(Output::Closed)
        .start()
        .wait(LONG);
    both.assert_code(4);
    let null = shell("echo x").stdout(Output::Null).start().wait(LONG);
    assert!(null.stdout.bytes.is_empty());

    // More than a pipe holds: the program waits until it is read.
    let gate = Gate::new();
    let slow = shell("head -c 300000 /dev/zero; echo written >&2")
        .stdout(Output::CollectAfter(gate.clone()))
        .start();
    assert!(
        slow.wait_for_error_line(Duration::from_millis(50), |_| true)
            .is_err()
    );
    gate.open();
    assert_eq!(slow.wait(LONG).stdout.bytes.len(), 300_000);

    let head = shell("exec yes")
        .stdout(Output::CloseAfter(10))
        .start()
        .wait(LONG);
    assert_eq!(head.stdout.bytes, b"y\ny\ny\ny\ny\n");
    assert_eq!(
        (head.signal, head.timed_out),
        (Some(13), false),
        "ended by the closed pipe"
    );
}

/// Whether this process was started with SIGINT ignored.
fn interrupt_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 0b10 != 0)
}

#[test]
fn signals() {
    let trapping = "trap 'echo int; exit 130' INT; trap 'echo term; exit 143' TERM; echo ready; while :; do sleep 0.01; done";
    for (signal, word, code) in [
        (Signal::Interrupt, "int", 130),
        (Signal::Terminate, "term", 143),
    ] {
        // A shell cannot trap what was ignored when it started, as it is in a background job.
        if signal == Signal::Interrupt && interrupt_is_ignored() {
            eprintln!("skipped: SIGINT is ignored here, and so it is in what starts from here");
            continue;
        }
        let run = shell(trapping).start();
        run.wait_for_line(LONG, |line| line == "ready").unwrap();
        assert!(run.signal(signal));
        let finished = run.wait(LONG);
        finished.assert_code(code);
        assert_eq!(finished.stdout.lines[1].text, word);
        assert!(!run.signal(signal), "it has ended");
    }
    let run = shell("echo ready; exec sleep 600").start();
    run.wait_for_line(LONG, |_| true).unwrap();
    assert!(run.signal(Signal::Kill));
    let finished = run.wait(LONG);
    assert_eq!(
        (finished.code, finished.signal, finished.shell_status()),
        (None, Some(9), Some(137))
    );
}

#[test]
fn what_does_not_end_is_killed_with_all_that_it_started() {
    let scratch = Scratch::new();
    let run = shell("setsid sleep 601 & sleep 602 & echo ready; wait")
        .home(&scratch)
        .start();
    run.wait_for_line(LONG, |_| true).unwrap();
    assert!(
        tooloop_testkit::wait_until(LONG, || run.leftovers().len() == 2),
        "{:?}",
        run.leftovers()
    );
    assert!(processes_in(scratch.root()).len() >= 3);
    let finished = run.wait(Duration::from_millis(50));
    assert!(finished.timed_out);
    assert_eq!((finished.signal, finished.output_open), (Some(9), false));
    assert!(finished.to_string().contains("killed after"), "{finished}");
    assert_eq!(run.wait_for_no_leftovers(LONG), []);
    assert_eq!(processes_in(scratch.root()), []);
}

#[test]
fn leftovers_are_found_and_end_with_the_run() {
    let run = shell("setsid sleep 603.25 >/dev/null 2>&1 & exit 0").start();
    run.wait(LONG).assert_code(0);
    assert!(tooloop_testkit::wait_until(LONG, || run
        .leftovers()
        .iter()
        .any(|left| left.command == "sleep 603.25")));
    drop(run);
    assert!(tooloop_testkit::wait_until(LONG, || processes_with(
        "sleep 603.25"
    )
    .is_empty()));
    let run = shell("exec sleep 604.25").start();
    let pid = run.pid();
    drop(run);
    assert!(
        processes_with("sleep 604.25")
            .iter()
            .all(|process| process.pid != pid)
    );
}

#[test]
fn a_dropped_run_waits_for_nobody() {
    // Neither the gate nor the reader of the input ever comes.
    let run = shell("exec sleep 605")
        .stdin(Stdin::Bytes(vec![0; 1 << 20]))
        .stdout(Output::CollectAfter(Gate::new()))
        .start();
    drop(run);
}

#[test]
fn a_program_that_is_not_there() {
    assert!(Run::new("/nonexistent/agent").try_start().is_err());
    let panic = std::panic::catch_unwind(|| Run::new("/nonexistent/agent").start())
        .err()
        .unwrap();
    assert!(
        panic
            .downcast_ref::<String>()
            .unwrap()
            .starts_with("/nonexistent/agent cannot be run: ")
    );
}
