//! Recorded sessions are played again. That each of the other tests' sessions can be is seen to by
//! what they all share.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tooloop_testkit::run::Finished;
use tooloop_testkit::{ModelServer, Reply, Scratch};

use crate::support::{Api, ask, bare, both, end, finish, journal, resume, tooloop};

/// Runs `tooloop replay` where a model could be asked.
fn replay(scratch: &Scratch, server: &ModelServer, arguments: &[&str]) -> Finished {
    let run = bare(scratch).model(server).arg("replay").args(arguments);
    let before = server.connections();
    let finished = end(&run.start());
    assert_eq!(server.connections(), before, "it has asked somebody");
    finished
}

fn recording(scratch: &Scratch) -> PathBuf {
    scratch.outside().join("run.jsonl")
}

fn recorded(scratch: &Scratch, server: &ModelServer, api: Api) -> PathBuf {
    let path = recording(scratch);
    let run = tooloop(scratch, server, api).arg("--record").arg(&path);
    finish(&run.arg("go").start()).answer();
    path
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

both! {
    fn a_session_is_shown_as_it_was_and_nobody_is_asked(api) {
        let scratch = Scratch::new();
        let server = ModelServer::start([
            api.bash("tu_1", "echo one; echo x >> marker").into(),
            api.error(529, "overloaded_error", "no room"),
            api.say("done").into(),
        ]);
        let done = ask(&scratch, &server, api, "go");
        done.answer();
        let session = done.session();
        let marker = scratch.workspace().join("marker");
        assert_eq!(text(&marker), "x\n");

        let finished = replay(&scratch, &server, &[&session]);
        finished.assert_code(0);
        let shown = finished.stdout.text();
        for part in ["> go\n", "● bash ", "one\n", "(failed, tried again", "done\n"] {
            assert!(shown.contains(part), "no {part:?} in {shown}");
        }
        let told = finished.stderr.text();
        assert!(told.contains("entries, as recorded"), "{told}");
        // Nothing was run.
        assert_eq!(text(&marker), "x\n");

        let journal = journal(&scratch, &session);
        let path = journal.display().to_string();
        let finished = replay(&scratch, &server, &[&path, "--output-format", "json"]);
        finished.assert_code(0);
        let records = finished.json_lines().unwrap();
        let result = &records[0];
        let entries = text(&journal).lines().count() - 1;
        assert_eq!(
            (&result["replayed"], &result["result"], &result["subtype"]),
            (&json!(entries), &json!("done"), &json!("success"))
        );
        let finished = replay(&scratch, &server, &[&path, "--output-format", "stream-json"]);
        let records = finished.json_lines().unwrap();
        let kinds: Vec<_> = records.iter().map(|record| record["type"].as_str().unwrap()).collect();
        assert_eq!(kinds.first().copied(), Some("system"));
        assert_eq!(kinds.last().copied(), Some("result"));
        // What a run tells, and the prompts, which a run repeats only if it is asked to.
        let of = |records: &[Value], kind: &str| {
            let records = records.iter().filter(|record| record["type"] == kind);
            let records = records.filter(|record| record["message"]["content"][0]["type"] != "text" || kind != "user");
            records.map(|record| record["message"].clone()).collect::<Vec<_>>()
        };
        for kind in ["user", "assistant"] {
            assert_eq!(of(&records, kind), of(&done.records, kind));
        }
    }

    fn the_first_difference_is_told(api) {
        let scratch = Scratch::new();
        let server = ModelServer::start([api.bash("tu_1", "echo one"), api.say("done")]);
        let session = ask(&scratch, &server, api, "go").session();
        let journal = journal(&scratch, &session);
        let changed = text(&journal).replace(r#""continue":"next_step""#, r#""continue":"steered""#);
        let path = scratch.outside().join("changed.jsonl");
        fs::write(&path, changed).unwrap();
        let path = path.display().to_string();
        let finished = replay(&scratch, &server, &[&path]);
        finished.assert_code(1);
        let told = finished.stderr.text();
        let words = "the replay differs after 3 entries: record 4: at /continue: expected \"steered\", \
                     came \"next_step\"";
        assert!(told.contains(words), "{told}");
        let finished = replay(&scratch, &server, &[&path, "--output-format", "json"]);
        finished.assert_code(1);
        let result = &finished.json_lines().unwrap()[0];
        assert_eq!(
            (&result["is_error"], &result["exit_status"], &result["difference"]["record"]),
            (&json!(true), &json!(1), &json!(4))
        );
    }

    /// The file holds all that another machine needs, no secret, and nothing is replaced.
    fn a_recording_plays_elsewhere(api) {
        let scratch = Scratch::new();
        let secret = "correct-horse-battery";
        let server = ModelServer::start([
            api.bash("tu_1", "echo correct-horse-battery ghp_0123456789abcdefghij").into(),
            api.error(529, "overloaded_error", "no room"),
            Reply::from(api.say("the key is correct-horse-battery")),
        ]);
        let path = recording(&scratch);
        let run = tooloop(&scratch, &server, api)
            .env("DEPLOY_PASSWORD", secret)
            .arg("--record")
            .arg(&path);
        finish(&run.arg("go, with correct-horse-battery").start()).answer();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let kept = text(&path);
        assert!(!kept.contains(secret) && !kept.contains("ghp_"), "{kept}");
        assert!(kept.contains("[redacted]"), "{kept}");

        let elsewhere = Scratch::new();
        let other = ModelServer::start(Vec::<Reply>::new());
        let finished = replay(&elsewhere, &other, &[&path.display().to_string()]);
        finished.assert_code(0);

        // A request that is another one is a difference.
        let changed = kept.replacen("go, with", "stop, with", 1);
        let changed_path = elsewhere.outside().join("changed.jsonl");
        fs::write(&changed_path, changed).unwrap();
        let finished = replay(&elsewhere, &other, &[&changed_path.display().to_string()]);
        finished.assert_code(1);
        let told = finished.stderr.text();
        assert!(told.contains("differ from those of call 1 at /0/user/0/text"), "{told}");

        let run = tooloop(&scratch, &server, api).arg("--record").arg(&path);
        let before = server.requests().len();
        let words = finish(&run.arg("again").start()).failed(2, "not_run");
        assert!(words.contains("is there already"), "{words}");
        assert_eq!((server.requests().len(), text(&path)), (before, kept));
    }

    fn tools_are_run_for_real_and_compared(api) {
        let scratch = Scratch::new();
        scratch.write("notes.txt", "one\ntwo\n");
        let server = ModelServer::start([
            api.bash("tu_1", "cat notes.txt; echo $(pwd); echo x >> log"),
            api.call("tu_2", "read", &json!({"path": "notes.txt"})),
            api.say("done"),
        ]);
        let path = recorded(&scratch, &server, api).display().to_string();
        let workspace = scratch.workspace().display().to_string();
        let live = ["--tools", "live", "--permission-mode", "bypassPermissions", "-C", &workspace];
        let arguments = |more: &[&'static str]| {
            let mut all = vec![&*path];
            all.extend(live);
            all.extend(more);
            all.into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let run = |more: &[&'static str]| {
            let arguments = arguments(more);
            let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
            replay(&scratch, &server, &arguments)
        };
        run(&[]).assert_code(0);
        assert_eq!(text(&scratch.workspace().join("log")), "x\nx\n");

        scratch.write("notes.txt", "one\nthree\n");
        let finished = run(&["--output-format", "json"]);
        finished.assert_code(1);
        let result = &finished.json_lines().unwrap()[0];
        assert_eq!(result["difference"], Value::Null);
        let differences = result["tool_differences"].as_array().unwrap();
        assert_eq!(differences.len(), 2, "{finished}");
        let diff = differences[0]["diff"].as_str().unwrap();
        assert!(diff.contains("\n-two\n+three\n"), "{diff}");

        // What the policy refuses is not run.
        scratch.write("notes.txt", "one\ntwo\n");
        let finished = run(&["--disallowedTools", "bash"]);
        finished.assert_code(1);
        let told = finished.stderr.text();
        assert!(told.contains("+permission denied, not run: "), "{told}");
        assert_eq!(text(&scratch.workspace().join("log")), "x\nx\nx\n");
    }
}

#[test]
fn a_recording_of_a_session_that_is_gone_on_with() {
    let scratch = Scratch::new();
    let api = Api::Messages;
    let server = ModelServer::start([api.say("one"), api.say("two")]);
    let session = ask(&scratch, &server, api, "first").session();
    resume(&scratch, &server, api, &session, "second").answer();
}

/// What the folder's own files allow counts as in any run: once somebody trusts it.
#[test]
fn a_folder_is_trusted_for_one_replay() {
    let scratch = Scratch::new();
    let api = Api::Messages;
    let server = ModelServer::start([api.bash("tu_1", "touch made"), api.say("done")]);
    let path = recorded(&scratch, &server, api).display().to_string();
    let made = scratch.workspace().join("made");
    fs::remove_file(&made).unwrap();
    scratch.write(
        ".tooloop/config.toml",
        "allowed_tools = [\"Bash(touch *)\"]\n",
    );
    let workspace = scratch.workspace().display().to_string();
    let live = [
        &*path,
        "--tools",
        "live",
        "--permission-mode",
        "default",
        "-C",
        &workspace,
    ];
    let finished = replay(&scratch, &server, &live);
    finished.assert_code(1);
    let told = finished.stderr.text();
    assert!(told.contains("`allowed_tools` is not applied"), "{told}");
    assert!(!made.exists());
    let trusting = [&live[..], &["--trust-folder"]].concat();
    replay(&scratch, &server, &trusting).assert_code(0);
    assert!(made.exists());
}

#[test]
fn what_cannot_be_replayed() {
    let scratch = Scratch::new();
    let server = ModelServer::start(Vec::<Reply>::new());
    let file = scratch
        .write("outside/file.jsonl", "no\n")
        .display()
        .to_string();
    for (wanted, status, words) in [
        ("none.jsonl", 2, "there is no file none.jsonl"),
        ("0123", 2, "there is no session 0123 under "),
        (&*file, 42, "this is not the header of a session"),
    ] {
        let finished = replay(&scratch, &server, &[wanted]);
        finished.assert_code(status);
        let told = finished.stderr.text();
        assert!(told.contains(words), "{told}");
    }
}

/// A recording that cannot be kept disturbs nothing, and is told.
#[test]
fn a_full_disk_for_the_recording() {
    let scratch = Scratch::new();
    let api = Api::Messages;
    let server = ModelServer::start([api.say("fine")]);
    let path = scratch.outside().join("none/run.jsonl");
    let run = tooloop(&scratch, &server, api).arg("--record").arg(&path);
    let words = finish(&run.arg("go").start()).failed(2, "not_run");
    assert!(words.contains("cannot create the recording "), "{words}");
}
