//! The shell at the hands of a model: children that stay, limits, input, bytes, statuses, keys.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use tooloop_testkit::run::{Running, Signal, Stdin};
use tooloop_testkit::{Gate, ModelServer, Reply, Scratch, processes_with, wait_for, wait_until};

use crate::support::{
    Api, Done, GONE, LONG, both, end, finish, is_ignored_here, journal, resume, told, tooloop,
    wait_for_file,
};

const API: Api = Api::Messages;

/// A command for `sleep` that nothing else on the machine has.
fn sleep() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!(
        "sleep {}",
        100_000_000 + u64::from(std::process::id()) * 100 + u64::from(number)
    )
}

fn is_gone(command: &str) -> bool {
    wait_until(GONE, || processes_with(command).is_empty())
}

/// How long a call took, by its own words.
fn seconds(result: &str) -> f64 {
    let (_, end) = result.rsplit_once(", ").unwrap();
    let (number, _) = end.split_once(" s)").unwrap();
    number.parse().unwrap()
}

/// Runs commands one after the other, and gives the run and what the model was told of each.
fn run_all(
    commands: &[&str],
    scratch: &Scratch,
    environment: &[(&str, &str)],
) -> (Done, Vec<String>) {
    let ids: Vec<_> = (0..commands.len())
        .map(|index| format!("c_{index}"))
        .collect();
    let calls: Vec<_> = ids
        .iter()
        .map(String::as_str)
        .zip(commands.iter().copied())
        .collect();
    let server = ModelServer::start([API.bashes(&calls), API.say("ok")]);
    let mut run = tooloop(scratch, &server, API).arg("go");
    for (name, value) in environment {
        run = run.env(*name, *value);
    }
    let done = finish(&run.start());
    assert_eq!(done.answer(), "ok");
    server.assert_clean();
    let request = server.request(1);
    let results = ids.iter().map(|id| told(&request, id)).collect();
    (done, results)
}

both! {
    /// C17
    fn a_child_that_keeps_the_output_is_not_waited_for(api) {
        let sleeps = [sleep(), sleep(), sleep()];
        let commands = [
            format!("({}; echo late) & echo started", sleeps[0]),
            format!("nohup {} & disown; echo started", sleeps[1]),
            format!("sh -c '{} & exec true'; echo started", sleeps[2]),
        ];
        let (scratch, gate) = (Scratch::new(), Gate::new());
        let calls: Vec<_> = ["a", "b", "c"].into_iter().zip(commands.iter().map(String::as_str)).collect();
        let server = ModelServer::start([
            Reply::stream(api.bashes(&calls)),
            Reply::stream(wait_for(&gate).then(api.say("ok"))),
        ]);
        let running = tooloop(&scratch, &server, api).arg("go").start();
        server.wait_for_requests(2, LONG).unwrap();
        // They live on while the session does,
        for sleep in &sleeps {
            assert!(!processes_with(sleep).is_empty(), "{sleep}");
        }
        gate.open();
        let done = finish(&running);
        assert_eq!(done.answer(), "ok");
        // and end with it.
        for sleep in &sleeps {
            assert!(is_gone(sleep), "{sleep}");
        }
        for id in ["a", "b", "c"] {
            let text = told(&server.request(1), id);
            assert!(text.contains("started\n") && text.contains("(exit status 0, "), "{text}");
            assert!(text.contains("still running") && text.contains("sleep"), "{text}");
            assert!(!done.tool_result(id).1);
        }
        server.assert_clean();
    }

    /// C18
    fn a_time_limit_ends_the_whole_tree(api) {
        let sleeps = [sleep(), sleep(), sleep()];
        let command = format!("echo first; bash -c 'trap : TERM; {} & {}; {}'; echo never", sleeps[0], sleeps[1], sleeps[2]);
        let (scratch, gate) = (Scratch::new(), Gate::new());
        let server = ModelServer::start([
            Reply::stream(api.call("a", "bash", &json!({"command": command, "timeout_ms": 1500}))),
            Reply::stream(wait_for(&gate).then(api.bash("b", "echo second"))),
            Reply::stream(api.say("ok")),
        ]);
        let running = tooloop(&scratch, &server, api).arg("go").start();
        server.wait_for_requests(2, LONG).unwrap();
        for sleep in &sleeps {
            assert!(is_gone(sleep), "{sleep} lives on in the session");
        }
        gate.open();
        let done = finish(&running);
        assert_eq!(done.answer(), "ok");
        let (text, is_error) = done.tool_result("a");
        assert!(is_error && text.starts_with("first\n") && !text.contains("never"), "{text}");
        assert!(text.contains("timed out after 1.5 s"), "{text}");
        assert!(seconds(&text) < 60.0, "{text}");
        assert!(done.tool_result("b").0.starts_with("second\n"));
        server.assert_clean();
    }

    /// C18, odd limits
    fn odd_time_limits_are_refused_with_words(api) {
        let scratch = Scratch::new();
        for odd in [json!(-1), json!(0), json!(1e12), json!("soon"), json!(1.5)] {
            let call = api.call("a", "bash", &json!({"command": "touch M", "timeout_ms": odd}));
            let server = ModelServer::start([call, api.say("ok")]);
            let done = finish(&tooloop(&scratch, &server, api).arg("go").start());
            assert_eq!(done.answer(), "ok");
            let (text, is_error) = done.tool_result("a");
            assert!(is_error && text.contains("timeout_ms"), "{odd}: {text}");
            assert!(!scratch.workspace().join("M").exists());
        }
    }

    /// C25
    fn signals_end_the_run_and_all_it_started(api) {
        for (signal, status) in [(Signal::Interrupt, 130), (Signal::Terminate, 143), (Signal::HangUp, 129)] {
            if signal == Signal::HangUp && is_ignored_here("HUP", 1) {
                continue;
            }
            let sleeps = [sleep(), sleep()];
            let scratch = Scratch::new();
            let command = format!("touch begun; {} & {}", sleeps[0], sleeps[1]);
            let server = ModelServer::start([api.bash("c_1", &command), api.say("ok")]);
            let running = tooloop(&scratch, &server, api).arg("go").start();
            wait_for_file(&scratch.workspace().join("begun"));
            assert!(running.signal(signal));
            let done = finish(&running);
            done.failed(status, "interrupted");
            assert!(is_gone(&sleeps[0]) && is_gone(&sleeps[1]));
            let by = match signal {
                Signal::Interrupt => "interrupted by the user while it ran",
                _ => "interrupted by the end of the program (a signal, or its terminal was closed) while it ran",
            };
            assert!(done.tool_result("c_1").0.contains(by), "{:?}", done.tool_result("c_1"));
            assert_eq!(resume(&scratch, &server, api, &done.session(), "next").answer(), "ok");
            server.assert_clean();
        }
    }

    /// C25, without patience
    fn a_second_signal_ends_a_stubborn_tree_at_once(api) {
        let sleep = sleep();
        let scratch = Scratch::new();
        let command = format!("trap '' INT TERM HUP; touch begun; while :; do {sleep}; done");
        let server = ModelServer::start([api.bash("c_1", &command), api.say("ok")]);
        let running = tooloop(&scratch, &server, api).arg("go").start();
        wait_for_file(&scratch.workspace().join("begun"));
        assert!(running.signal(Signal::Interrupt));
        // Told as soon as the first has done its work.
        running.wait_for_record(LONG, |record| record["message"]["content"][0]["type"] == "tool_result").unwrap();
        running.signal(Signal::Interrupt);
        let done = finish(&running);
        done.failed(130, "interrupted");
        assert!(is_gone(&sleep));
        assert_eq!(resume(&scratch, &server, api, &done.session(), "next").answer(), "ok");
        server.assert_clean();
    }

    fn a_signal_while_the_model_writes(api) {
        let (scratch, server) = (Scratch::new(), ModelServer::start([Reply::silence(), api.say("ok").into()]));
        let running = tooloop(&scratch, &server, api).arg("go").start();
        server.wait_for_requests(1, LONG).unwrap();
        assert!(running.signal(Signal::Terminate));
        let done = finish(&running);
        done.failed(143, "interrupted");
        server.wait_client_gone(0, LONG).unwrap();
        assert_eq!(resume(&scratch, &server, api, &done.session(), "next").answer(), "ok");
        server.assert_clean();
    }
}

/// C19
#[test]
fn commands_that_want_a_person_end_by_themselves() {
    let scratch = Scratch::new();
    repository(&scratch, 500);
    let commands = [
        "cat",
        "read -p '? ' x; echo \"[$x]\"",
        "cat /dev/stdin",
        "python3 -c 'input()'",
        "EDITOR=vi git -C repo commit --allow-empty",
        "git -C repo log",
    ];
    let background: Vec<_> = commands
        .iter()
        .map(|command| format!("{{ {command}; }} & wait $!"))
        .collect();
    let all: Vec<_> = commands
        .into_iter()
        .chain(background.iter().map(String::as_str))
        .collect();
    let ids: Vec<_> = (0..all.len()).map(|index| format!("c_{index}")).collect();
    let calls: Vec<_> = ids
        .iter()
        .map(String::as_str)
        .zip(all.iter().copied())
        .collect();
    let server = ModelServer::start([API.bashes(&calls), API.say("ok")]);
    let run = tooloop(&scratch, &server, API)
        .env("EDITOR", "vi")
        .stdin(Stdin::Holding(b"USER-LINE\n".to_vec()))
        .arg("go");
    let running = run.start();
    let done = finish(&running);
    assert_eq!(done.answer(), "ok");
    assert_eq!(running.unread_stdin().unwrap(), b"USER-LINE\n");
    assert!(!server.request(0).mentions("USER-LINE"));
    let complaint = done.finished.stderr.text();
    assert!(complaint.contains("was not read"), "{complaint}");
    let request = server.request(1);
    assert!(!request.mentions("USER-LINE"), "{}", request.body);
    for (id, command) in &calls {
        let text = told(&request, id);
        assert!(!text.contains("timed out"), "{command}: {text}");
        assert!(seconds(&text) < 60.0, "{command}: {text}");
    }
    for (index, first) in [(1, "[]"), (7, "[]")] {
        let text = told(&request, &ids[index]);
        assert!(text.lines().any(|line| line.contains(first)), "{text}");
    }
    for index in [3, 9] {
        let text = told(&request, &ids[index]);
        if text.contains("exit status 127") {
            println!("skipped: there is no python3 here");
        } else {
            assert!(text.contains("EOFError"), "{text}");
        }
    }
    for index in [5, 11] {
        let text = told(&request, &ids[index]);
        assert!(
            text.contains("number 500") && text.contains("exit status 0"),
            "{text}"
        );
    }
    server.assert_clean();
}

/// A repository with so many commits below the workspace.
fn repository(scratch: &Scratch, commits: u32) {
    let path = scratch.workspace().join("repo");
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command
            .args(arguments)
            .current_dir(&path)
            .env("GIT_CONFIG_GLOBAL", "/dev/null");
        command
    };
    fs::create_dir(&path).unwrap();
    for arguments in [
        &["init", "--quiet", "--initial-branch=main"][..],
        &["config", "core.pager", "less"],
        &["config", "user.name", "A"],
        &["config", "user.email", "a@example.invalid"],
    ] {
        assert!(git(arguments).status().unwrap().success());
    }
    let commits: String = (1..=commits)
        .map(|number| {
            let message = format!("number {number}\n");
            format!(
                "commit refs/heads/main\ncommitter A <a@example.invalid> {number} +0000\ndata {}\n{message}\n",
                message.len()
            )
        })
        .collect();
    let stream = scratch.write("stream", commits);
    let stream = fs::File::open(stream).unwrap();
    assert!(
        git(&["fast-import", "--quiet"])
            .stdin(stream)
            .status()
            .unwrap()
            .success()
    );
}

/// The most memory that a process has held, in kB.
fn peak(running: &Running) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", running.pid())).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// C20
#[cfg(target_os = "linux")]
#[test]
fn output_without_end_takes_no_memory() {
    let (scratch, gates) = (Scratch::new(), [Gate::new(), Gate::new(), Gate::new()]);
    let endless = json!({"command": "yes", "timeout_ms": 2000});
    let server = ModelServer::start([
        wait_for(&gates[0]).then(API.bash("c_1", "yes 0123456789 | head -c 400000000")),
        wait_for(&gates[1]).then(API.call("c_2", "bash", &endless)),
        wait_for(&gates[2]).then(API.say("ok")),
    ]);
    let running = tooloop(&scratch, &server, API)
        .env("TOOLOOP_SPOOL_MAX_BYTES", "50000000")
        // A small one would cut results further.
        .env("TOOLOOP_CONTEXT_WINDOW", "200000")
        .arg("go")
        .start();
    server.wait_for_requests(1, LONG).unwrap();
    let idle = peak(&running);
    gates[0].open();
    server.wait_for_requests(2, LONG).unwrap();
    let before = journal_bytes(&scratch);
    gates[1].open();
    server.wait_for_requests(3, LONG).unwrap();
    let most = peak(&running);
    // Records are written while the next request is on its way.
    gates[2].open();
    let done = finish(&running);
    assert_eq!(done.answer(), "ok");
    let grown = most - idle;
    assert!(grown <= 64 << 10, "{idle} kB idle, {most} kB at most");

    const CAP: usize = 30_000;
    let (text, is_error) = done.tool_result("c_1");
    assert!(!is_error && text.contains("(exit status 0, "), "{is_error}");
    assert!(text.len() <= CAP + 1_000, "{}", text.len());
    assert!(
        text.starts_with("0123456789\n0123456789\n") && text.contains("\n0123456789\n0123\n(exit")
    );
    let left_out = 400_000_000 - CAP;
    assert!(
        text.contains(&format!("{left_out} bytes left out")),
        "{}",
        middle(&text)
    );
    let (text, is_error) = done.tool_result("c_2");
    assert!(is_error && text.contains("timed out after 2 s") && text.contains("bytes left out"));
    assert!(text.len() <= CAP + 1_000, "{}", text.len());
    let total = journal_bytes(&scratch);
    assert!(total - before <= CAP as u64 + 30_000, "{before} {total}");
    assert!(total <= 2 * (2 * CAP as u64 + 2_000), "{total}");
    let spooled: u64 = spooled(&scratch);
    assert!(spooled <= 2 * 50_000_000, "{spooled}");
    server.assert_clean();
}

fn middle(text: &str) -> &str {
    text.lines()
        .find(|line| line.contains("left out"))
        .unwrap_or("nothing is left out")
}

fn journal_bytes(scratch: &Scratch) -> u64 {
    let journals = crate::support::journals(scratch);
    journals
        .iter()
        .map(|path| fs::metadata(path).unwrap().len())
        .sum()
}

fn spooled(scratch: &Scratch) -> u64 {
    fn below(path: &std::path::Path) -> u64 {
        let entries = fs::read_dir(path).into_iter().flatten().map(Result::unwrap);
        entries
            .map(|entry| match entry.metadata().unwrap() {
                metadata if metadata.is_dir() => below(&entry.path()),
                metadata => metadata.len(),
            })
            .sum()
    }
    below(&scratch.temporary())
}

both! {
    /// C21
    fn bytes_that_are_no_text(api) {
        let scratch = Scratch::new();
        let odd = r"printf 'a\377\376\000b \033[31mred\033[0m\r\nc\200'";
        let calls = [("c_1", odd), ("c_2", "head -c 4096 /dev/urandom")];
        let server = ModelServer::start([api.bashes(&calls), api.say("ok")]);
        let done = finish(&tooloop(&scratch, &server, api).arg("go").start());
        assert_eq!(done.answer(), "ok");
        let request = server.request(1);
        let text = told(&request, "c_1");
        for part in ["a", "b", "red", "c", "exit status 0"] {
            assert!(text.contains(part), "{text:?}");
        }
        for nothing in ["\0", "\u{1b}"] {
            assert!(!request.mentions(nothing), "{}", request.body);
        }
        let text = told(&request, "c_2");
        assert!(text.contains("(binary output, 4096 bytes") && text.len() < 1_000, "{text:?}");
        server.assert_clean();
    }
}

/// C22
#[test]
fn commands_and_statuses_arrive_unchanged() {
    let here_document = "cat <<'END-1'\n$HOME \\n \"x\"\nEND-1";
    let cases: [(&str, &str, &str); 9] = [
        ("printf '%s' ' != '", " != \n", "exit status 0"),
        (
            "echo a | cat; { echo b; }; echo $(( $$ > 1 ))",
            "a\nb\n1\n",
            "exit status 0",
        ),
        (here_document, "$HOME \\n \"x\"\n", "exit status 0"),
        ("echo x # tail", "x\n", "exit status 0"),
        ("echo 'unclosed", "", "exit status 2"),
        ("exit 7", "(no output)\n", "exit status 7"),
        ("kill -9 $$", "(no output)\n", "killed by signal 9"),
        ("bash -c 'exit 300'", "(no output)\n", "exit status 44"),
        ("false | true", "(no output)\n", "exit status 0"),
    ];
    let scratch = Scratch::new();
    let commands: Vec<_> = cases.iter().map(|(command, ..)| *command).collect();
    let (done, results) = run_all(&commands, &scratch, &[]);
    for ((command, output, status), result) in cases.iter().zip(&results) {
        assert!(result.starts_with(output), "{command}: {result:?}");
        assert!(
            result.contains(&format!("({status}")),
            "{command}: {result:?}"
        );
    }
    let errors: Vec<_> = (0..cases.len())
        .map(|index| done.tool_result(&format!("c_{index}")).1)
        .collect();
    assert_eq!(
        errors,
        [false, false, false, false, true, true, true, true, false]
    );

    // In the background the same, told by wait.
    let background = [
        ("(exit 7) & wait $!", "exit status 7"),
        (
            "bash -c 'kill -9 $$' & wait $!; echo \"[$?]\"",
            "exit status 0",
        ),
        ("bash -c 'exit 300' & wait $!", "exit status 44"),
    ];
    let commands: Vec<_> = background.iter().map(|(command, _)| *command).collect();
    let (_, results) = run_all(&commands, &scratch, &[]);
    for ((command, status), result) in background.iter().zip(&results) {
        assert!(result.contains(status), "{command}: {result:?}");
    }
    assert!(results[1].contains("[137]"), "{}", results[1]);
}

/// C23
#[test]
fn the_working_directory_may_go_away() {
    let scratch = Scratch::new();
    let outside = format!("cd {} && pwd", scratch.outside().display());
    let commands = [
        "mkdir d && cd d && pwd",
        "rm -rf ../d",
        "echo alive; pwd",
        "pwd",
        &outside,
        "pwd",
    ];
    let (_, results) = run_all(&commands, &scratch, &[]);
    let workspace = scratch.workspace();
    let workspace = workspace.to_str().unwrap();
    assert!(
        results[0].starts_with(&format!("{workspace}/d\n")),
        "{results:?}"
    );
    assert!(
        results[2].starts_with(&format!("alive\n{workspace}\n")),
        "{results:?}"
    );
    let notes = results.iter().filter(|result| result.contains("is gone"));
    assert_eq!(notes.count(), 1, "{results:?}");
    assert!(
        results[3].starts_with(&format!("{workspace}\n")),
        "{results:?}"
    );
    assert!(
        results[4].starts_with(&format!("{}\n", scratch.outside().display())),
        "{results:?}"
    );
    assert!(
        results[5].starts_with(&format!("{workspace}\n")),
        "{results:?}"
    );
}

/// C24
#[test]
fn keys_are_not_handed_to_commands() {
    let keys = [
        ("ANTHROPIC_API_KEY", "kk-AAA"),
        ("OPENAI_API_KEY", "kk-BBB"),
        ("TEAM_TOKEN", "kk-CCC"),
        ("TOOLOOP_KEY_VARIABLE", "TEAM_TOKEN"),
        ("FOO", "bar"),
    ];
    let commands = [
        "env | grep -c kk-; echo $FOO",
        "tr '\\0' '\\n' < /proc/self/environ | grep -c kk-",
    ];
    let scratch = Scratch::new();
    let (done, results) = run_all(&commands, &scratch, &keys);
    assert!(results[0].starts_with("0\nbar\n"), "{results:?}");
    assert!(results[1].starts_with("0\n"), "{results:?}");
    let journal = scratch.read(journal(&scratch, &done.session()));
    assert!(
        !journal.replace("grep -c kk-", "").contains("kk-"),
        "{journal}"
    );
    let finished = &done.finished;
    assert!(
        !finished
            .stdout
            .text()
            .replace("grep -c kk-", "")
            .contains("kk-")
    );
    assert!(!finished.stderr.text().contains("kk-"));

    // One whose name tells nothing is withheld because it is named.
    let named = [
        ("TEAM_LOGIN", "kk-DDD"),
        ("TOOLOOP_KEY_VARIABLE", "TEAM_LOGIN"),
    ];
    let (_, results) = run_all(&["env | grep -c kk-"], &scratch, &named);
    assert!(results[0].starts_with("0\n"), "{results:?}");

    // One may be let through by name.
    let passed: Vec<_> = keys
        .into_iter()
        .chain([("TOOLOOP_PASS_ENVIRONMENT", "TEAM_TOKEN")])
        .collect();
    let (_, results) = run_all(&["env | grep kk-"], &scratch, &passed);
    assert!(
        results[0].starts_with("TEAM_TOKEN=kk-CCC\n(exit"),
        "{results:?}"
    );
}

#[test]
fn the_named_key_is_the_one_that_is_used() {
    let (scratch, server) = (Scratch::new(), ModelServer::start([API.say("ok")]));
    let run = tooloop(&scratch, &server, API)
        .env("TEAM_TOKEN", "kk-CCC")
        .env("TOOLOOP_KEY_VARIABLE", "TEAM_TOKEN");
    assert_eq!(finish(&run.arg("go").start()).answer(), "ok");
    let key = server.request(0).header("x-api-key").map(str::to_owned);
    assert_eq!(key.as_deref(), Some("kk-CCC"));
}

#[test]
fn what_runs_in_the_background_ends_with_a_plain_end_too() {
    let (scratch, sleep) = (Scratch::new(), sleep());
    let server = ModelServer::start([
        API.bash("c", &format!("setsid {sleep} >/dev/null 2>&1 & echo $!")),
        API.say("ok"),
    ]);
    let run = crate::support::asking(&scratch, &server, API).args([
        "--permission-mode",
        "bypassPermissions",
        "go",
    ]);
    let running = run.start();
    end(&running).assert_code(0);
    assert!(is_gone(&sleep), "{:?}", processes_with(&sleep));
    let pid: Value = told(&server.request(1), "c")
        .lines()
        .next()
        .unwrap()
        .parse::<u32>()
        .unwrap()
        .into();
    assert!(pid.is_u64());
}
