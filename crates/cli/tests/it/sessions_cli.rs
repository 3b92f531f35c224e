//! `tooloop sessions` verify, repair, export and rm, and journals that something has happened to.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tooloop_testkit::run::Finished;
use tooloop_testkit::{ModelServer, Scratch, anthropic};

use crate::support::{
    Api, Random, ask, asking, bare, both, damages_journals, end, finish, journal, journals, resume,
    session_of, tooloop, wait_for_file,
};

const API: Api = Api::Messages;

fn sessions(scratch: &Scratch, arguments: &[&str]) -> Finished {
    end(&bare(scratch)
        .arg("sessions")
        .args(arguments.to_vec())
        .start())
}

/// A session with calls in it, in a scratch of its own.
fn session(api: Api) -> (Scratch, String, PathBuf) {
    let scratch = Scratch::new();
    let server = ModelServer::start([
        api.bash("c_1", "echo one"),
        api.bashes(&[("c_2", "echo two"), ("c_3", "exit 3")]),
        api.say("the answer"),
    ]);
    let session = ask(&scratch, &server, api, "first things first").session();
    let path = journal(&scratch, &session);
    (scratch, session, path)
}

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}

/// What may happen to a journal, each with a name.
fn damaged(whole: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let all = lines(whole);
    let joined = |parts: &[&[u8]]| parts.concat();
    let text = String::from_utf8(whole.to_vec()).unwrap();
    let mut not_text = whole.to_vec();
    let at = text.find("first things").unwrap();
    not_text[at] = 0xff;
    let mut long = all[..4].concat();
    long.resize(long.len() + 100_000_000, b'x');
    long.push(b'\n');
    long.extend(all[4..].concat());
    let last = all.len() - 1;
    vec![
        ("torn", whole[..whole.len() - 40].to_vec()),
        ("no line end", whole[..whole.len() - 1].to_vec()),
        (
            "fused",
            joined(&[
                &all[..3].concat(),
                all[3].trim_ascii_end(),
                &all[4..].concat(),
            ]),
        ),
        (
            "torn and fused",
            joined(&[&all[..3].concat(), &all[3][..30], &all[4..].concat()]),
        ),
        (
            "zeros between",
            joined(&[&all[..5].concat(), &[0; 4096], &all[5..].concat()]),
        ),
        ("zeros at the end", joined(&[whole, &[0; 4096]])),
        (
            "zeros for a line",
            joined(&[
                &all[..5].concat(),
                &vec![0; all[5].len()],
                &all[6..].concat(),
            ]),
        ),
        ("no text", not_text),
        (
            "a line again",
            joined(&[&all[..3].concat(), all[2], &all[3..].concat()]),
        ),
        ("all again", joined(&[whole, whole])),
        (
            "half a header",
            joined(&[&all[0][..50], b"\n", &all[1..].concat()]),
        ),
        ("no header", all[1..].concat()),
        ("carriage returns", text.replace('\n', "\r\n").into_bytes()),
        ("a mark", joined(&["\u{feff}".as_bytes(), whole])),
        (
            "a line is gone",
            joined(&[&all[..4].concat(), &all[5..].concat()]),
        ),
        (
            "two are swapped",
            joined(&[&all[..last - 1].concat(), all[last], all[last - 1]]),
        ),
        ("far too long", long),
    ]
}

both! {
    /// C41, and all else that may have happened
    fn whatever_happened_to_it_a_session_goes_on(api) {
        let (scratch, session, path) = session(api);
        damages_journals();
        let whole = fs::read(&path).unwrap();
        assert!(sessions(&scratch, &["verify", &session]).stdout.text().contains("no fault"));
        for (name, damaged) in damaged(&whole) {
            let server = ModelServer::start([api.say("ok"), api.say("fine")]);
            fs::write(&path, &damaged).unwrap();
            let done = resume(&scratch, &server, api, &session, "next");
            assert_eq!(done.answer(), "ok", "{name}");
            assert!(server.request(0).mentions("next"), "{name}");
            assert!(done.system("warning").len() <= 21, "{name}");
            assert_eq!(done.session(), session, "{name}");

            fs::write(&path, &damaged).unwrap();
            let found = sessions(&scratch, &["verify", &session]);
            assert_eq!(found.code, Some(42), "{name}: {found}");
            assert_eq!(fs::read(&path).unwrap(), damaged);
            let repaired = sessions(&scratch, &["repair", &session]);
            repaired.assert_code(0);
            let words = repaired.stdout.text();
            let (_, original) = words.split_once("as it was: ").unwrap();
            let original = original.lines().next().unwrap();
            assert_eq!(fs::read(original).unwrap(), damaged, "{name}");
            fs::remove_file(original).unwrap();
            sessions(&scratch, &["verify", &session]).assert_code(0);
            let done = resume(&scratch, &server, api, &session, "next");
            assert_eq!(done.answer(), "fine", "{name}");
            assert!(done.system("warning").is_empty(), "{name}");
            // The same, whether or not it was repaired before.
            assert_eq!(server.request(0).body["messages"], server.request(1).body["messages"], "{name}");
            server.assert_clean();
            fs::write(&path, &whole).unwrap();
        }
    }

    fn flipped_bits_leave_a_history_that_a_provider_takes(api) {
        let (scratch, session, path) = session(api);
        damages_journals();
        let whole = fs::read(&path).unwrap();
        let header = lines(&whole)[0].len();
        let mut random = Random::new();
        for round in 0..6 {
            let mut damaged = whole.clone();
            for _ in 0..3 {
                let at = header + usize::try_from(random.below(whole.len() as u64 - header as u64)).unwrap();
                damaged[at] ^= 1 << random.below(8);
            }
            fs::write(&path, &damaged).unwrap();
            let server = ModelServer::start([api.say("ok")]);
            let done = resume(&scratch, &server, api, &session, "next");
            assert_eq!(done.answer(), "ok", "{random:?} {round}");
            server.assert_clean();
            fs::write(&path, &damaged).unwrap();
            sessions(&scratch, &["repair", &session]).assert_code(0);
            sessions(&scratch, &["verify", &session]).assert_code(0);
        }
    }

    fn every_line_that_is_written_is_valid(api) {
        let scratch = Scratch::new();
        let server = ModelServer::start([
            api.error(529, "overloaded_error", "Overloaded"),
            api.bash("c_1", "echo one").into(),
            api.bash("c_2", "touch no").into(),
            api.call("c_3", "nothing", &json!({})).into(),
            api.say("ok").into(),
            api.error(400, "invalid_request_error", "no"),
            api.bash("c_4", "echo two").into(),
            api.bash("c_5", "touch begun; sleep 60").into(),
            tooloop_testkit::Reply::from(api.say("fine")),
        ]);
        let start = |flags: &[&str]| tooloop(&scratch, &server, api).args(flags.to_vec()).start();
        let session = {
            let done = finish(&start(&["--disallowedTools", "Bash(touch no)", "go"]));
            assert_eq!(done.answer(), "ok");
            done.session()
        };
        finish(&start(&["-r", &session, "again"])).failed(1, "model_error");
        finish(&start(&["-r", &session, "--max-turns", "1", "again"])).failed(53, "max_turns");
        let running = start(&["-r", &session, "again"]);
        wait_for_file(&scratch.workspace().join("begun"));
        assert!(running.signal(tooloop_testkit::run::Signal::Interrupt));
        finish(&running).failed(130, "interrupted");
        let forked = finish(&start(&["-r", &session, "--fork-session", "more"]));
        assert_eq!(forked.answer(), "fine");
        let paths = journals(&scratch);
        assert_eq!(paths.len(), 2);
        for path in paths {
            valid(&path);
            let path = path.to_str().unwrap();
            let verified = sessions(&scratch, &["verify", path, "--json"]);
            verified.assert_code(0);
            let told: Value = serde_json::from_str(&verified.stdout.text()).unwrap();
            assert_eq!((&told["faults"], &told["is_clean"]), (&json!([]), &json!(true)), "{told}");
        }
    }
}

/// Holds each line of a journal against the schema; a field that it does not name is a fault.
fn valid(path: &Path) {
    fn close(value: &mut Value) {
        if let Some(object) = value.as_object_mut() {
            if object.contains_key("properties") {
                object.insert("additionalProperties".into(), false.into());
            }
            object.values_mut().for_each(close);
        } else if let Some(values) = value.as_array_mut() {
            values.iter_mut().for_each(close);
        }
    }
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/journal.schema.json");
    let mut schema: Value = serde_json::from_str(&fs::read_to_string(schema).unwrap()).unwrap();
    close(&mut schema);
    let mut schemas = boon::Schemas::new();
    let mut compiler = boon::Compiler::new();
    compiler.add_resource("journal.json", schema).unwrap();
    let index = compiler.compile("journal.json", &mut schemas).unwrap();
    for line in fs::read_to_string(path).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if let Err(error) = schemas.validate(&line, index) {
            panic!("{line}\n{error:#}");
        }
    }
}

#[test]
fn faults_are_named_with_their_place() {
    let (scratch, session, path) = session(API);
    let whole = fs::read(&path).unwrap();
    let all = lines(&whole);
    let before = all[..4].concat();
    let mut file = fs::File::create(&path).unwrap();
    file.write_all(&before).unwrap();
    file.write_all(b"nonsense\n").unwrap();
    file.write_all(&all[4..].concat()).unwrap();
    drop(file);
    let found = sessions(&scratch, &["verify", path.to_str().unwrap()]);
    found.assert_code(42);
    let words = found.stdout.text();
    let place = format!("line 5, byte {}: 8 bytes that are no record", before.len());
    assert!(words.starts_with(&place), "{words}");
    assert!(words.contains("it is passed over"), "{words}");
    assert!(
        words.contains(&format!("sessions repair {session}")),
        "{words}"
    );
    let found = sessions(&scratch, &["verify", &session, "--json"]);
    found.assert_code(42);
    let told: Value = serde_json::from_str(&found.stdout.text()).unwrap();
    assert_eq!(told["fault_count"], 1);
    assert_eq!(told["faults"][0]["kind"], "unreadable");
    assert_eq!(told["faults"][0]["line"], 5);
    assert_eq!(told["faults"][0]["offset"], before.len());
    assert_eq!(told["session_id"], session.as_str());
    // Where nothing is wrong nothing is done.
    fs::write(&path, &whole).unwrap();
    let told = sessions(&scratch, &["repair", &session]);
    told.assert_code(0);
    assert!(told.stdout.text().contains("nothing was done"), "{told}");
    for arguments in [&["verify", "./none.jsonl"][..], &["repair", "ffff"]] {
        sessions(&scratch, arguments).assert_code(2);
    }
    let help = sessions(&scratch, &["verify", "--help"]);
    assert!(help.stdout.text().contains("42"), "{help}");
}

#[test]
fn a_session_that_runs_is_neither_repaired_nor_removed() {
    let scratch = Scratch::new();
    let command = "touch begun; until [ -e go ]; do sleep 0.02; done";
    let server = ModelServer::start([API.bash("c_1", command), API.say("ok")]);
    let running = tooloop(&scratch, &server, API).arg("first").start();
    wait_for_file(&scratch.workspace().join("begun"));
    let session = session_of(&running);
    let holder = format!("by process {}", running.pid());
    for arguments in [
        &["repair", session.as_str()][..],
        &["rm", "--yes", &session],
    ] {
        let refused = sessions(&scratch, arguments);
        refused.assert_code(54);
        assert!(refused.stderr.text().contains(&holder), "{refused}");
    }
    let looked = sessions(&scratch, &["verify", &session]);
    looked.assert_code(0);
    let pid = format!("process {} writes to it", running.pid());
    assert!(looked.stdout.text().contains(&pid), "{looked}");
    scratch.write("go", "");
    assert_eq!(finish(&running).answer(), "ok");
}

// ---- export

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\x9cc\xfc\xcf\xc0P\x0f\0\x04\x85\x01\x80\x84\xa9\x8c!\0\0\0\0IEND\xaeB`\x82";

/// Keys that were said or printed are in no export, whatever its form.
#[test]
fn an_export_holds_no_secrets() {
    let scratch = Scratch::new();
    let known = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789";
    let server = ModelServer::start([
        API.bash("c_1", &format!("echo {known} team-secret-value")),
        API.say("done"),
    ]);
    let done = finish(&tooloop(&scratch, &server, API).arg("go").start());
    assert_eq!(done.answer(), "done");
    let session = done.session();
    for format in ["md", "html", "json"] {
        let run = bare(&scratch)
            .env("TEAM_TOKEN", "team-secret-value")
            .args(["sessions", "export", &session, "--format", format]);
        let finished = end(&run.start());
        finished.assert_code(0);
        let told = finished.stdout.text();
        assert!(told.contains("[redacted]"), "{told}");
        assert!(
            !told.contains(known) && !told.contains("team-secret-value"),
            "{told}"
        );
        if format == "json" {
            serde_json::from_str::<serde_json::Value>(&told).unwrap();
        }
    }
}

#[test]
fn a_session_is_written_down() {
    let scratch = Scratch::new();
    scratch.write("dot.png", PNG);
    let wild = "<script>alert(1)</script> </pre> & \u{1b}[31mred\u{202e} ```` \"'";
    let first = anthropic::open()
        .then(anthropic::thinking(0, "hidden thought", "c2ln"))
        .then(anthropic::text(1, wild))
        .then(anthropic::tool_use(
            2,
            "c_1",
            "read",
            &["{\"path\":\"dot.png\"}"],
        ))
        .then(anthropic::end("tool_use"));
    let command = "printf '%s' '</pre><script>x</script>'; exit 3";
    let server = ModelServer::start([
        first,
        API.bash("c_2", command),
        API.bash("c_3", "touch no"),
        API.say("all done"),
    ]);
    let run = tooloop(&scratch, &server, API).args(["--disallowedTools", "Bash(touch no)"]);
    let done = finish(&run.arg(format!("look {wild}")).start());
    assert_eq!(done.answer(), "all done");
    let session = done.session();
    let path = journal(&scratch, &session);

    let html = sessions(&scratch, &["export", &session, "--format", "html"]);
    html.assert_code(0);
    let page = html.stdout.text();
    assert!(!page.contains("<script") && !page.contains('\u{1b}') && !page.contains('\u{202e}'));
    for part in [
        "<!doctype html>",
        "&lt;script&gt;alert(1)&lt;/script&gt; &lt;/pre&gt; &amp; red",
        "<details><summary>Thinking</summary><pre>hidden thought",
        "src=\"data:image/png;base64,",
        "&lt;/pre&gt;&lt;script&gt;x",
        "refused: bash",
        "end of the turn: completed",
        "tokens in",
        "default-src &#39;none&#39;",
    ] {
        let part = part.replace("&#39;none&#39;", "'none'");
        assert!(page.contains(&part), "{part}: {page}");
    }
    // Every mark is one of the page's own.
    let own = [
        "body", "code", "details", "div", "h1", "head", "html", "img", "meta", "p", "pre",
        "strong", "style", "summary", "time", "title", "!doctype",
    ];
    for mark in page.split('<').skip(1) {
        let name: String = mark
            .trim_start_matches('/')
            .chars()
            .take_while(|character| character.is_ascii_alphanumeric() || *character == '!')
            .collect();
        assert!(own.contains(&name.as_str()), "<{mark}");
    }

    let file = scratch.outside().join("session.md");
    let to_file = ["export", &session, "-o", file.to_str().unwrap()];
    let md = sessions(&scratch, &to_file);
    md.assert_code(0);
    assert_eq!(md.stdout.text(), "");
    let text = fs::read_to_string(&file).unwrap();
    for part in [
        "# Session ",
        "## Prompt",
        "> look <script>",
        "<details><summary>Thinking</summary>\n\n```text\nhidden thought\n```",
        "**` bash `**",
        "touch no",
        "all done",
        "_(a picture, ` image/png `)_",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // What is there already is not overwritten.
    let again = sessions(&scratch, &to_file);
    again.assert_code(2);
    assert!(again.stderr.text().contains("session.md"), "{again}");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);

    let json = sessions(
        &scratch,
        &["export", path.to_str().unwrap(), "--format", "json"],
    );
    json.assert_code(0);
    let document: Value = serde_json::from_str(&json.stdout.text()).unwrap();
    let mut expected: Vec<Value> = fs::read_to_string(&path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(document["header"], expected.remove(0));
    assert_eq!(document["records"], Value::from(expected));
    server.assert_clean();
}

// ---- rm

#[test]
fn sessions_are_removed_with_all_that_is_theirs() {
    let scratch = Scratch::new();
    let long = "seq 1 200000";
    let server = ModelServer::start([
        API.bash("c_1", long),
        API.say("ok"),
        API.say("fine"),
        API.say("the fork goes on"),
        API.say("other"),
    ]);
    let session = ask(&scratch, &server, API, "first").session();
    let path = journal(&scratch, &session);
    let outputs = path.with_extension("outputs");
    assert!(outputs.is_dir());
    let files = path.with_extension("files");
    fs::create_dir_all(files.join("deeper")).unwrap();
    let fork = tooloop(&scratch, &server, API).args(["-r", &session, "--fork-session", "more"]);
    let fork = finish(&fork.start());
    assert_eq!(fork.answer(), "fine");

    // Nobody is there to say yes.
    let refused = sessions(&scratch, &["rm", &session]);
    refused.assert_code(2);
    let words = refused.stderr.text();
    assert!(
        words.contains("--yes") && words.contains(&session),
        "{words}"
    );
    assert!(path.exists() && outputs.exists());
    sessions(&scratch, &["rm"]).assert_code(2);

    let removed = sessions(&scratch, &["rm", &session, "--yes"]);
    removed.assert_code(0);
    let words = removed.stdout.text();
    for gone in [&path, &outputs, &files] {
        assert!(!gone.exists(), "{}", gone.display());
        assert!(words.contains(gone.to_str().unwrap()), "{words}");
    }
    assert!(removed.stderr.text().contains(&fork.session()), "{removed}");
    let on = resume(&scratch, &server, API, &fork.session(), "on");
    assert_eq!(on.answer(), "the fork goes on");
    assert!(on.system("warning").is_empty());

    // By age.
    let young = ask(&scratch, &server, API, "young").session();
    let old = journal(&scratch, &fork.session());
    let time = std::time::SystemTime::now() - std::time::Duration::from_secs(8 * 24 * 60 * 60);
    let file = fs::File::options().append(true).open(&old).unwrap();
    file.set_modified(time).unwrap();
    drop(file);
    let none = sessions(&scratch, &["rm", "--older-than", "9", "--yes"]);
    none.assert_code(0);
    assert!(old.exists());
    sessions(&scratch, &["rm", "--older-than", "7", "--yes"]).assert_code(0);
    assert!(!old.exists());
    assert_eq!(journals(&scratch), [journal(&scratch, &young)]);
    server.assert_clean();
}

#[test]
fn a_newer_journal_is_refused_in_words() {
    let (scratch, session, path) = session(API);
    let text = fs::read_to_string(&path).unwrap();
    let newer = text.replacen("\"tooloop_session\":1", "\"tooloop_session\":7", 1);
    fs::write(&path, &newer).unwrap();
    for arguments in [
        &["verify", session.as_str()][..],
        &["repair", &session],
        &["export", &session],
    ] {
        let refused = sessions(&scratch, arguments);
        refused.assert_code(54);
        let words = refused.stderr.text();
        let named = words.contains("format is 7") && words.contains("formats up to 1");
        assert!(named && words.contains("newer version"), "{words}");
    }
    let server = ModelServer::start([API.say("never")]);
    let run = asking(&scratch, &server, API).args(["--resume", &session, "x"]);
    end(&run.start()).assert_code(54);
    assert!(server.requests().is_empty());
    assert_eq!(fs::read_to_string(&path).unwrap(), newer);
}
