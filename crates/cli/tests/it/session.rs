//! Sessions on disk: torn records, two writers, going on, forking, and what happens where nothing
//! can be written.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tooloop_testkit::run::{Finished, Run, Signal};
use tooloop_testkit::{Gate, ModelServer, Reply, Scratch, wait_for, wait_until};

use crate::support::{
    Api, Done, LONG, Random, ask, asking, bare, both, end, finish, journal, journals, kill,
    no_leftovers, resume, rounds, said, session_of, tooloop, wait_for_file,
};

const API: Api = Api::Messages;
const ID: &str = "0198c0de-0000-7000-8000-000000000001";

/// A server that says "ok" for ever.
fn server_that_says_ok() -> ModelServer {
    ModelServer::start_with(|request| request.format.say("ok").into())
}

fn go_on(scratch: &Scratch, server: &ModelServer, flags: &[&str], prompt: &str) -> Done {
    let run = tooloop(scratch, server, API)
        .args(flags.to_vec())
        .arg(prompt);
    finish(&run.start())
}

fn texts(server: &ModelServer) -> Vec<String> {
    let last = server.requests().pop().unwrap();
    said(&last).into_iter().map(|(_, text)| text).collect()
}

fn assert_whole(path: &Path) {
    let content = fs::read_to_string(path).unwrap();
    assert!(content.ends_with('\n'), "{content}");
    for line in content.lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
    }
}

both! {
    /// C41
    fn a_torn_last_record_costs_no_other(api) {
        let scratch = Scratch::new();
        let server = ModelServer::start([
            api.bash("c_1", "touch one; echo one"),
            api.bash("c_2", "touch two; echo two"),
            api.bash("c_3", "touch three; echo three"),
            api.bash("c_4", "touch four; echo four"),
            api.say("the first answer"),
        ]);
        let done = ask(&scratch, &server, api, "first");
        let session = done.session();
        let path = journal(&scratch, &session);
        let whole = fs::read(&path).unwrap();
        assert!(whole.iter().filter(|byte| **byte == b'\n').count() >= 20);
        let last_line = whole.len() - 1 - whole.iter().rev().skip(1).position(|byte| *byte == b'\n').unwrap();
        // The last record, the line end alone, and all but a few bytes of the last line.
        for (bytes, warnings) in [(40, 1), (1, 0), (whole.len() - last_line - 3, 1), (whole.len() - last_line, 0)] {
            fs::write(&path, &whole[..whole.len() - bytes]).unwrap();
            let server = ModelServer::start([api.say("ok"), api.say("fine")]);
            let next = resume(&scratch, &server, api, &session, "next");
            assert_eq!(next.answer(), "ok", "{bytes}");
            let told = next.system("warning");
            assert_eq!(told.len(), warnings, "{bytes}: {}", next.finished);
            assert_eq!(next.finished.stderr.lines.len(), warnings, "{}", next.finished);
            let request = server.request(0);
            for word in ["first", "one\n", "two\n", "three\n", "the first answer", "next"] {
                assert!(request.mentions(word), "{word}: {}", request.body);
            }
            assert_whole(&path);
            let then = resume(&scratch, &server, api, &session, "then");
            assert_eq!(then.answer(), "fine");
            assert!(then.system("warning").is_empty());
            assert!(server.request(1).mentions("next") && server.request(1).mentions("ok"));
            server.assert_clean();
        }
    }

    /// C42
    fn a_session_has_one_writer(api) {
        let scratch = Scratch::new();
        let command = "touch begun; until [ -e go ]; do sleep 0.02; done";
        let server = ModelServer::start([api.bash("c_1", command), api.say("ok"), api.say("fine")]);
        let running = tooloop(&scratch, &server, api).arg("first").start();
        wait_for_file(&scratch.workspace().join("begun"));
        let session = session_of(&running);
        let path = journal(&scratch, &session);
        let before = fs::read(&path).unwrap();
        for flags in [&["--resume", session.as_str()][..], &["--continue"]] {
            let run = tooloop(&scratch, &server, api).args(flags.to_vec()).arg("other");
            let refused = finish(&run.start());
            let words = refused.failed(54, "not_run");
            assert!(words.contains("in use") && words.contains(&running.pid().to_string()), "{words}");
        }
        assert_eq!(fs::read(&path).unwrap(), before);
        scratch.write("go", "");
        assert_eq!(finish(&running).answer(), "ok");
        assert_eq!(resume(&scratch, &server, api, &session, "other").answer(), "fine");
        server.assert_clean();
    }

    /// C42, two that go on with the newest at once
    fn of_two_that_go_on_at_once_one_is_refused(api) {
        let scratch = Scratch::new();
        ask(&scratch, &ModelServer::start([api.say("ok")]), api, "first").answer();
        let gate = Gate::new();
        let server = ModelServer::start([Reply::stream(wait_for(&gate).then(api.say("done")))]);
        let start = |prompt: &str| tooloop(&scratch, &server, api).args(["--continue", prompt]).start();
        let pair = [start("one"), start("two")];
        assert!(wait_until(LONG, || pair.iter().any(|running| !running.is_alive())));
        let is_alive = pair.iter().map(|running| running.is_alive()).collect::<Vec<_>>();
        gate.open();
        let pair = pair.map(|running| finish(&running));
        for (done, is_alive) in pair.iter().zip(&is_alive) {
            if *is_alive {
                assert_eq!(done.answer(), "done");
            } else {
                done.failed(54, "not_run");
            }
        }
        assert_eq!(is_alive.iter().filter(|is_alive| **is_alive).count(), 1);
        assert_eq!(server.requests().len(), 1);
        server.assert_clean();
    }

    /// C42, the lock of the dead
    fn the_lock_of_a_killed_run_is_no_obstacle(api) {
        let scratch = Scratch::new();
        let server = ModelServer::start([api.bash("c_1", "touch begun; sleep 300 & sleep 300"), api.say("ok")]);
        let running = tooloop(&scratch, &server, api).arg("first").start();
        wait_for_file(&scratch.workspace().join("begun"));
        let session = session_of(&running);
        assert!(running.signal(Signal::Kill));
        assert!(wait_until(LONG, || !running.is_alive()));
        // At once, while what it started is still being ended.
        assert_eq!(resume(&scratch, &server, api, &session, "next").answer(), "ok");
        no_leftovers(&running);
        server.assert_clean();
    }
}

/// C41, a death at any moment: `TOOLOOP_KILL_ROUNDS` says how often
#[test]
fn after_a_death_at_any_moment_it_goes_on() {
    for api in [Api::Messages, Api::Chat] {
        let mut random = Random::new();
        let scratch = Scratch::new();
        // Every other reply is a call, so that a death finds all kinds of records.
        let server = ModelServer::start_with(move |request| {
            if request.index % 3 == 0 {
                api.say("ok").into()
            } else {
                api.bash("c_{#n}", "echo hi >> log").into()
            }
        });
        let first = tooloop(&scratch, &server, api).args(["--session-id", ID, "first"]);
        finish(&first.start()).answer();
        for round in 0..rounds() / 2 {
            let prompt = format!("round {round}");
            let running = tooloop(&scratch, &server, api)
                .args(["--resume", ID, &prompt])
                .start();
            random.wait_ms(250);
            kill(&running);
            let done = resume(&scratch, &server, api, ID, "on");
            assert_eq!(done.answer(), "ok", "{random:?} {round}");
            assert_whole(&journal(&scratch, ID));
            server.assert_clean();
        }
    }
}

/// C41, a death while the session begins
#[test]
fn after_a_death_at_the_beginning_it_goes_on_too() {
    let mut random = Random::new();
    let (scratch, server) = (Scratch::new(), server_that_says_ok());
    for round in 0..rounds() {
        let id = format!("0198c0de-0000-7000-8000-{round:012}");
        let running = tooloop(&scratch, &server, API)
            .args(["--session-id", &id, "first"])
            .start();
        random.wait_ms(60);
        kill(&running);
        let recorded = journals(&scratch)
            .iter()
            .any(|path| path.file_stem().unwrap() == id.as_str());
        let run = tooloop(&scratch, &server, API).args(["--resume", &id, "on"]);
        let done = finish(&run.start());
        if recorded {
            assert_eq!(done.answer(), "ok", "{random:?} {round}");
        } else {
            done.failed(2, "not_run");
        }
    }
    server.assert_clean();
}

// ---- going on

#[test]
fn the_newest_session_of_the_folder_goes_on() {
    let (scratch, server) = (Scratch::new(), server_that_says_ok());
    let first = ask(&scratch, &server, API, "first").session();
    let second = ask(&scratch, &server, API, "second").session();
    assert_ne!(first, second);
    for flag in ["--continue", "-c"] {
        let done = go_on(&scratch, &server, &[flag], "more");
        assert_eq!((done.answer(), done.session()), ("ok", second.clone()));
    }
    assert_eq!(texts(&server), ["second", "ok", "more", "ok", "more"]);
    // What was gone on with is the newest now.
    go_on(&scratch, &server, &["-r", &first], "again").answer();
    assert_eq!(go_on(&scratch, &server, &["-c"], "more").session(), first);
    assert_eq!(texts(&server), ["first", "ok", "again", "ok", "more"]);

    // Another folder has sessions of its own, and may name any by its whole id.
    fs::create_dir(scratch.workspace().join("deeper")).unwrap();
    let elsewhere = |flags: &[&str]| {
        let flags: Vec<_> = ["-C", "deeper"].iter().chain(flags).copied().collect();
        go_on(&scratch, &server, &flags, "elsewhere")
    };
    elsewhere(&["--continue"]).failed(2, "not_run");
    elsewhere(&["--resume", &first[..18]]).failed(2, "not_run");
    assert_eq!(elsewhere(&["--resume", &first]).session(), first);
    server.assert_clean();
}

#[test]
fn a_beginning_of_an_id_is_enough_if_it_is_the_only_one() {
    let (scratch, server) = (Scratch::new(), server_that_says_ok());
    let other = "0198c0de-0000-7000-8000-000000000002";
    for id in [ID, other] {
        let done = go_on(&scratch, &server, &["--session-id", id], "first");
        assert_eq!((done.answer(), done.session().as_str()), ("ok", id));
    }
    let words = go_on(&scratch, &server, &["--resume", "0198c0de"], "x").failed(2, "not_run");
    assert!(words.contains(ID) && words.contains(other), "{words}");
    let third = ask(&scratch, &server, API, "first").session();
    let words = go_on(&scratch, &server, &["--resume", "ffff"], "x").failed(2, "not_run");
    assert!(words.contains("ffff"), "{words}");
    assert_eq!(
        go_on(&scratch, &server, &["--resume", &third[..30]], "x").session(),
        third
    );

    // An id that is taken is not taken again, and what is there stays as it is.
    let path = journal(&scratch, ID);
    let before = fs::read(&path).unwrap();
    let requests = server.requests().len();
    let words = go_on(&scratch, &server, &["--session-id", ID], "x").failed(2, "not_run");
    assert!(words.contains(&format!("--resume {ID}")), "{words}");
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(server.requests().len(), requests);
}

#[test]
fn a_fork_leaves_its_origin_as_it_is() {
    let (scratch, server) = (Scratch::new(), server_that_says_ok());
    let origin = ask(&scratch, &server, API, "first").session();
    let path = journal(&scratch, &origin);
    let before = fs::read(&path).unwrap();
    let fork = go_on(
        &scratch,
        &server,
        &["--resume", &origin, "--fork-session"],
        "next",
    );
    assert_eq!(fork.answer(), "ok");
    assert_ne!(fork.session(), origin);
    assert_eq!(texts(&server), ["first", "ok", "next"]);
    assert_eq!(fs::read(&path).unwrap(), before);
    let header = scratch.read(journal(&scratch, &fork.session()));
    let header: Value = serde_json::from_str(header.lines().next().unwrap()).unwrap();
    assert_eq!(header["forked_from"]["session"], origin.as_str());
    // The fork goes on by itself.
    assert_eq!(
        go_on(&scratch, &server, &["-r", &fork.session()], "on").answer(),
        "ok"
    );
    assert_eq!(texts(&server), ["first", "ok", "next", "ok", "on"]);
    // One may be made without a record.
    let done = go_on(
        &scratch,
        &server,
        &["-r", &origin, "--fork-session", "--no-session-persistence"],
        "x",
    );
    assert_eq!(done.answer(), "ok");
    assert_eq!(journals(&scratch).len(), 2);
    server.assert_clean();
}

#[test]
fn a_fork_of_a_session_that_runs() {
    let scratch = Scratch::new();
    let command = "touch begun; until [ -e go ]; do sleep 0.02; done";
    let server = ModelServer::start([
        API.bash("c_1", command),
        API.say("the fork's"),
        API.say("its own"),
    ]);
    let running = tooloop(&scratch, &server, API).arg("first").start();
    wait_for_file(&scratch.workspace().join("begun"));
    let session = session_of(&running);
    let fork = go_on(
        &scratch,
        &server,
        &["--resume", &session, "--fork-session"],
        "other",
    );
    assert_eq!(fork.answer(), "the fork's");
    scratch.write("go", "");
    assert_eq!(finish(&running).answer(), "its own");
    server.assert_clean();
}

#[test]
fn no_record_is_kept_where_none_is_wanted() {
    let (scratch, server) = (Scratch::new(), server_that_says_ok());
    let done = go_on(&scratch, &server, &["--no-session-persistence"], "first");
    assert_eq!(done.answer(), "ok");
    assert!(journals(&scratch).is_empty());
    go_on(&scratch, &server, &["--continue"], "x").failed(2, "not_run");
    ask(&scratch, &server, API, "first").answer();
    go_on(
        &scratch,
        &server,
        &["--continue", "--no-session-persistence"],
        "x",
    )
    .failed(2, "not_run");
}

#[test]
fn journals_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let (scratch, server) = (Scratch::new(), server_that_says_ok());
    let session = ask(&scratch, &server, API, "first").session();
    let path = journal(&scratch, &session);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    for folder in path.ancestors().skip(1).take(3) {
        assert_eq!(mode(folder), 0o700, "{}", folder.display());
    }
}

// ---- looking at sessions

fn look(scratch: &Scratch, arguments: &[&str]) -> Finished {
    end(&bare(scratch)
        .arg("sessions")
        .args(arguments.to_vec())
        .start())
}

#[test]
fn sessions_are_listed_and_shown() {
    let scratch = Scratch::new();
    let nothing = look(&scratch, &["list"]);
    nothing.assert_code(0);
    assert_eq!(nothing.stdout.text(), "");
    assert!(nothing.stderr.text().contains("no sessions"), "{nothing}");

    let server = ModelServer::start([
        API.bash("c_1", "echo hi; exit 3"),
        API.say("the first answer"),
        API.say("the second answer"),
    ]);
    let first = ask(&scratch, &server, API, "first things first").session();
    let second = ask(&scratch, &server, API, "second thoughts").session();

    let list = look(&scratch, &["list"]);
    list.assert_code(0);
    let lines: Vec<_> = list
        .stdout
        .lines
        .iter()
        .map(|line| line.text.as_str())
        .collect();
    assert_eq!(lines.len(), 2, "{list}");
    assert!(
        lines[0].starts_with(&second) && lines[0].ends_with("second thoughts"),
        "{list}"
    );
    assert!(
        lines[1].starts_with(&first) && lines[1].ends_with("first things first"),
        "{list}"
    );
    let one = look(&scratch, &["list", "-n", "1"]);
    assert_eq!(one.stdout.lines.len(), 1);
    assert!(one.stderr.text().contains("1 older"), "{one}");
    let listed = look(&scratch, &["list", "--json"]).json_lines().unwrap();
    assert_eq!(listed[1]["session_id"], first.as_str());
    assert_eq!(listed[1]["prompt"], "first things first");
    assert_eq!(
        listed[1]["workspace"],
        scratch.workspace().to_str().unwrap()
    );
    assert_eq!(
        listed[1]["path"],
        journal(&scratch, &first).to_str().unwrap()
    );

    for wanted in [first.as_str(), &first[..34]] {
        let shown = look(&scratch, &["show", wanted]);
        shown.assert_code(0);
        let text = shown.stdout.text();
        for part in [
            "> first things first\n",
            "echo hi; exit 3",
            "hi\n",
            "exit status 3",
            "the first answer\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("second"), "{text}");
    }
    let records = look(&scratch, &["show", "--json", &first])
        .json_lines()
        .unwrap();
    assert_eq!(
        records[0]["entry"]["message"]["user"][0]["text"],
        "first things first"
    );
    assert_eq!(records.last().unwrap()["entry"]["turn_end"], "completed");
    for (index, record) in records.iter().enumerate() {
        assert_eq!(record["seq"], index + 1);
    }
    let none = look(&scratch, &["show", "ffff"]);
    none.assert_code(2);
    assert!(none.stderr.text().contains("ffff"), "{none}");
    server.assert_clean();
}

#[test]
fn a_session_can_be_looked_at_while_it_runs() {
    let scratch = Scratch::new();
    let command = "touch begun; until [ -e go ]; do sleep 0.02; done";
    let server = ModelServer::start([API.bash("c_1", command), API.say("ok")]);
    let running = tooloop(&scratch, &server, API).arg("first").start();
    wait_for_file(&scratch.workspace().join("begun"));
    let session = session_of(&running);
    let shown = look(&scratch, &["show", &session]);
    shown.assert_code(0);
    assert!(shown.stdout.text().contains("touch begun"), "{shown}");
    assert_eq!(look(&scratch, &["list"]).stdout.lines.len(), 1);
    scratch.write("go", "");
    finish(&running).answer();
}

#[test]
fn what_a_model_wrote_cannot_steer_a_terminal() {
    let (scratch, server) = (
        Scratch::new(),
        ModelServer::start([API.say("\u{1b}[31mred\u{1b}[0m\u{9b}2J\u{7}")]),
    );
    let session = ask(&scratch, &server, API, "\u{1b}]0;title\u{7}").session();
    for arguments in [&["list"][..], &["show", &session]] {
        let text = look(&scratch, arguments).stdout.text();
        let steers = |character: char| character.is_control() && character != '\n';
        assert!(!text.contains(steers), "{text:?}");
    }
}

// ---- where nothing can be written

/// Runs the binary where files can have at most this many kilobytes, as on a disk that is full.
fn confined(scratch: &Scratch, server: &ModelServer, kilobytes: u32, prompt: &str) -> Done {
    let script = format!("ulimit -f {kilobytes}; exec \"$@\"");
    let run = Run::new("bash")
        .home(scratch)
        .model(server)
        .env("TOOLOOP_MODEL", API.model())
        .env("TOOLOOP_SANDBOX", "off")
        .env("TOOLOOP_PERMISSION_MODE", "bypassPermissions")
        .args(["-c", &script, "bash", env!("CARGO_BIN_EXE_tooloop"), "-p"])
        .args(["--output-format", "stream-json", prompt]);
    finish(&run.start())
}

#[test]
fn nothing_is_asked_that_cannot_be_recorded() {
    let (scratch, server) = (Scratch::new(), server_that_says_ok());
    let prompt = "x".repeat(20_000);
    let done = confined(&scratch, &server, 8, &prompt);
    let words = done.failed(54, "not_run");
    assert!(
        words.contains("session file") && words.contains(".jsonl"),
        "{words}"
    );
    assert!(server.requests().is_empty());
}

#[test]
fn nothing_is_run_that_cannot_be_recorded() {
    let scratch = Scratch::new();
    let command = format!(
        "touch {} # {}",
        scratch.marker().display(),
        "x".repeat(20_000)
    );
    let server = ModelServer::start([API.bash("c_1", &command), API.say("never")]);
    let done = confined(&scratch, &server, 8, "go");
    let words = done.failed(54, "not_run");
    assert!(words.contains("session file"), "{words}");
    assert_eq!(server.requests().len(), 1);
    assert!(!scratch.marker().exists());
    // What was recorded before can be gone on with.
    let server = ModelServer::start([API.say("ok")]);
    let done = go_on(&scratch, &server, &["--continue"], "next");
    assert_eq!(done.answer(), "ok");
    server.assert_clean();
}

#[test]
fn a_folder_that_cannot_be_made_ends_the_run() {
    let (scratch, server) = (Scratch::new(), server_that_says_ok());
    scratch.write(scratch.data().join("tooloop/sessions"), "this is a file");
    for format in ["text", "json", "stream-json"] {
        let run = asking(&scratch, &server, API).args(["--output-format", format, "go"]);
        let finished = end(&run.start());
        finished.assert_code(54);
        let words = if format == "text" {
            finished.stderr.text()
        } else {
            let last = finished.json_lines().unwrap().pop().unwrap();
            assert_eq!(last["exit_status"], 54);
            last["errors"][0].as_str().unwrap().to_owned()
        };
        assert!(words.contains("tooloop/sessions"), "{words}");
    }
    assert!(server.requests().is_empty());
    // Unless no record is wanted.
    assert_eq!(
        go_on(&scratch, &server, &["--no-session-persistence"], "go").answer(),
        "ok"
    );
}

#[test]
fn files_that_are_no_journals_are_named() {
    let (scratch, server) = (Scratch::new(), server_that_says_ok());
    let session = ask(&scratch, &server, API, "first").session();
    let path = journal(&scratch, &session);
    let good = fs::read_to_string(&path).unwrap();
    let newer = good.replacen("\"tooloop_session\":1", "\"tooloop_session\":99", 1);
    assert_ne!(newer, good);
    for (content, named) in [
        (newer.as_str(), "newer version"),
        ("", "header"),
        ("nonsense\n", "header"),
    ] {
        fs::write(&path, content).unwrap();
        let words = go_on(&scratch, &server, &["--resume", &session], "x").failed(54, "not_run");
        assert!(words.contains(named) && words.contains(&session), "{words}");
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
        let list = look(&scratch, &["list"]);
        assert!(list.stderr.text().contains(&session), "{list}");
    }
    // A line in the middle that cannot be read is passed over, with its number.
    let mut lines: Vec<_> = good.lines().collect();
    lines.insert(2, "{\"seq\":oops");
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    let done = go_on(&scratch, &server, &["--resume", &session], "next");
    assert_eq!(done.answer(), "ok");
    let warnings = done.system("warning");
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0]["message"].as_str().unwrap().contains("line 3"),
        "{}",
        warnings[0]
    );
    assert_eq!(texts(&server), ["first", "ok", "next"]);
    server.assert_clean();
}
