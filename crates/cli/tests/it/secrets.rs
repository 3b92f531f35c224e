//! What this process was given in confidence is nowhere: C24, and values that turn up in files.

use std::fs;
use std::path::Path;

use serde_json::json;
use tooloop_testkit::{ModelServer, Scratch, anthropic, processes_with, wait_until};

use crate::support::{Api, LONG, bare, end, finish, journal, resume, tooloop};

const API: Api = Api::Messages;
const SECRET: &str = "hunter2-hunter2-42";
/// `user:` and the secret, as a server is told them.
const BASIC: &str = "dXNlcjpodW50ZXIyLWh1bnRlcjItNDI=";

/// The files below a folder in which a text stands.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if String::from_utf8_lossy(&fs::read(&path).unwrap()).contains(text) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn a_secret_in_a_file_reaches_neither_the_model_nor_the_record() {
    let scratch = Scratch::new();
    let lines = "a line that makes it long\n".repeat(4_000);
    let content = format!("{lines}password={SECRET}\nAuthorization: Basic {BASIC}\n{lines}");
    scratch.write("login.txt", &content);
    scratch.write("short.txt", format!("password={SECRET}\n"));
    let server = ModelServer::start([
        anthropic::calls(&[
            ("c_1", "bash", json!({"command": "cat login.txt"})),
            (
                "c_2",
                "bash",
                json!({"command": "cat short.txt; printf hunter2-; sleep 0.1; printf 'hunter2-42\\n'"}),
            ),
            ("c_3", "read", json!({"path": "short.txt"})),
            ("c_4", "grep", json!({"pattern": "password"})),
            (
                "c_5",
                "bash",
                json!({"command": "cat short.txt >&2; cat login.txt", "run_in_background": true}),
            ),
        ]),
        anthropic::calls(&[(
            "c_6",
            "job_output",
            json!({"id": "job_1", "wait_ms": 60_000}),
        )]),
        API.say("ok"),
        API.say("fine"),
    ]);
    let run = tooloop(&scratch, &server, API)
        .env("DB_PASSWORD", SECRET)
        .arg("--include-partial-messages")
        .arg("what is in login.txt?");
    let done = finish(&run.start());
    assert_eq!(done.answer(), "ok");
    for request in server.requests() {
        assert!(
            !request.mentions(SECRET) && !request.mentions(BASIC),
            "{request:?}"
        );
    }
    let (short, _) = done.tool_result("c_2");
    let covered = "password=[masked**********]\n[masked**********]\n";
    assert!(short.starts_with(covered), "{short}");
    let (read, _) = done.tool_result("c_3");
    assert!(read.contains("password=[masked**********]"), "{read}");
    assert!(!done.finished.stdout.text().contains(SECRET));
    assert!(!done.finished.stderr.text().contains(SECRET));
    // The journal, the outputs beside it, and what else was written down.
    for text in [SECRET, &BASIC[8..24]] {
        assert_eq!(files_with(&scratch.data(), text), [""; 0]);
    }
    // The files are what they were.
    assert_eq!(scratch.read("login.txt"), content);
    // Going on sends the same bytes.
    let session = done.session();
    assert_eq!(
        resume(&scratch, &server, API, &session, "and now?").answer(),
        "fine"
    );
    let last = server.requests().len() - 1;
    assert!(!server.request(last).mentions(SECRET));
}

/// A mask that the model writes back never replaces the value.
#[test]
fn a_masked_value_is_never_written_over_the_real_one() {
    let scratch = Scratch::new();
    let env = format!("A=1\nTOKEN={SECRET}\nB=2\n");
    let word = "provider = \"lm-studio\"\ndef function():\n";
    scratch.write("app.env", &env);
    scratch.write("b64", BASIC);
    scratch.write("word", word);
    let mark = "[masked**********]";
    let masked = format!("A=1\nTOKEN={mark}\nB=3\n");
    let hidden = format!("TOKEN={mark}");
    let patch = format!(
        "*** Begin Patch\n*** Update File: app.env\n@@\n {hidden}\n-B=2\n+B=3\n*** End Patch"
    );
    let server = ModelServer::start([
        anthropic::calls(&[
            ("r_1", "read", json!({"path": "app.env"})),
            ("r_2", "read", json!({"path": "word"})),
            ("r_3", "read", json!({"path": "b64"})),
        ]),
        anthropic::calls(&[(
            "w_1",
            "write",
            json!({"path": "app.env", "content": masked}),
        )]),
        anthropic::calls(&[(
            "w_2",
            "edit",
            json!({"path": "app.env", "old": format!("{hidden}\nB=2"), "new": format!("{hidden}\nB=3")}),
        )]),
        anthropic::calls(&[(
            "w_3",
            "edit",
            json!({"path": "app.env", "old": "B=2", "new": format!("OTHER={mark}")}),
        )]),
        anthropic::calls(&[("w_4", "apply_patch", json!({ "patch": patch }))]),
        anthropic::calls(&[("w_5", "write", json!({"path": "new", "content": masked}))]),
        anthropic::calls(&[(
            "w_6",
            "edit",
            json!({"path": "word", "old": "def", "new": mark, "all": true}),
        )]),
        anthropic::calls(&[(
            "n_1",
            "bash",
            json!({"command": format!("printf '{hidden}' | wc -c")}),
        )]),
        // Ordinary text, and changes beside a masked line.
        anthropic::calls(&[(
            "o_1",
            "write",
            json!({"path": "plain", "content": "[redacted] [masked] [masked**]"}),
        )]),
        anthropic::calls(&[(
            "o_2",
            "edit",
            json!({"path": "app.env", "old": "B=2", "new": "B=3"}),
        )]),
        anthropic::calls(&[(
            "o_3",
            "write",
            json!({"path": "word", "content": format!("{word}more")}),
        )]),
        API.say("ok"),
    ]);
    let run = tooloop(&scratch, &server, API)
        .env("DB_PASSWORD", SECRET)
        .env("API_KEY", "function")
        .env("MY_API_KEY", "lm-studio")
        .args(["--permission-mode", "bypassPermissions"])
        .arg("go");
    let done = finish(&run.start());
    assert_eq!(done.answer(), "ok");
    let (shown, _) = done.tool_result("r_1");
    assert!(shown.contains(&hidden), "{shown}");
    let (shown, _) = done.tool_result("r_2");
    assert!(shown.contains("lm-studio") && shown.contains("def function():"));
    for call in ["w_1", "w_2", "w_3", "w_4", "w_5", "w_6"] {
        let (text, is_error) = done.tool_result(call);
        assert!(is_error && text.contains(mark), "{call}: {text}");
        assert!(text.contains("nothing was written"), "{call}: {text}");
    }
    let (text, is_error) = done.tool_result("n_1");
    assert!(
        !is_error && text.contains("Note: the input holds [masked"),
        "{text}"
    );
    for call in ["o_1", "o_2", "o_3"] {
        let (text, is_error) = done.tool_result(call);
        assert!(!is_error, "{call}: {text}");
    }
    assert_eq!(scratch.read("app.env"), env.replace("B=2", "B=3"));
    assert_eq!(scratch.read("word"), format!("{word}more"));
    assert_eq!(scratch.read("b64"), BASIC);
    assert!(!scratch.root().join("new").exists());
    for request in server.requests() {
        assert!(!request.mentions(SECRET), "{request:?}");
    }
}

#[test]
fn what_a_person_says_stays_and_leaves_only_without_it() {
    let scratch = Scratch::new();
    let server = ModelServer::start([API.say("ok")]);
    let log = scratch.root().join("debug.log");
    let run = tooloop(&scratch, &server, API)
        .env("TEAM_LOGIN", SECRET)
        .env("TOOLOOP_WITHHOLD_ENVIRONMENT", "TEAM_LOGIN")
        .env("TOOLOOP_LOG", "trace,tooloop::content=trace")
        .args(["--debug-file", log.to_str().unwrap()]);
    let done = finish(&run.arg(format!("the password is {SECRET}")).start());
    assert!(server.request(0).mentions(SECRET));
    assert!(
        scratch
            .read(journal(&scratch, &done.session()))
            .contains(SECRET)
    );
    let log = fs::read_to_string(log).unwrap();
    assert!(
        !log.contains(SECRET) && log.contains("the password is [redacted]"),
        "{log}"
    );
    for format in ["md", "html", "json"] {
        let run = bare(&scratch)
            .env("TEAM_LOGIN", SECRET)
            .env("TOOLOOP_WITHHOLD_ENVIRONMENT", "TEAM_LOGIN")
            .args(["sessions", "export", &done.session(), "--format", format]);
        let finished = end(&run.start());
        finished.assert_code(0);
        let text = finished.stdout.text();
        assert!(
            !text.contains(SECRET) && text.contains("the password is [redacted]"),
            "{text}"
        );
    }
}

/// Whatever starts a process: none of them has a key in its environment.
#[test]
fn no_process_below_has_a_key() {
    let scratch = Scratch::new();
    let sleep = format!("sleep {}", 200_000_000 + u64::from(std::process::id()));
    let jobs = [
        (
            "c_1",
            "bash",
            json!({"command": sleep, "run_in_background": true}),
        ),
        (
            "c_2",
            "terminal",
            json!({"action": "start", "command": sleep}),
        ),
        (
            "c_3",
            "bash",
            json!({"command": format!("{sleep} & sleep 0.1; cat fifo")}),
        ),
    ];
    let server = ModelServer::start([anthropic::calls(&jobs), API.say("ok")]);
    scratch.write("keep", "");
    let run = tooloop(&scratch, &server, API)
        .env("DB_PASSWORD", SECRET)
        .env("FOO", "bar")
        .env("TOOLOOP_BACKGROUND_WAIT_MS", "0")
        .arg("go");
    let status = std::process::Command::new("mkfifo")
        .arg(scratch.workspace().join("fifo"))
        .status();
    if !status.is_ok_and(|status| status.success()) {
        println!("skipped: there is no mkfifo here");
        return;
    }
    let running = run.start();
    // By their command lines: the shells, and what they started.
    assert!(
        wait_until(LONG, || processes_with(&sleep).len() >= 3),
        "{:?}",
        processes_with(&sleep)
    );
    let mut seen = 0;
    for process in processes_with(&sleep) {
        let Ok(bytes) = fs::read(format!("/proc/{}/environ", process.pid)) else {
            continue;
        };
        let environment = String::from_utf8_lossy(&bytes).into_owned();
        assert!(!environment.contains(SECRET), "{process:?}: {environment}");
        seen += usize::from(environment.contains("FOO=bar"));
    }
    assert!(seen >= 3, "{seen}");
    fs::write(scratch.workspace().join("fifo"), "go").unwrap();
    finish(&running).failed(61, "background_unfinished");
}
