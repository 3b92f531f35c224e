//! The file and search tools at the hands of a model.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use serde_json::{Value, json};
use tooloop_testkit::{Gate, ModelServer, Reply, Scratch, anthropic, wait_for};

use crate::support::{Api, Done, LONG, both, finish, told, tooloop};

const API: Api = Api::Messages;

/// Has a model make these calls one after the other, each in a message of its own. Gives what the
/// model was told of each, and whether it was an error.
fn play(scratch: &Scratch, flags: &[&str], calls: &[(&str, Value)]) -> Vec<(String, bool)> {
    let ids: Vec<_> = (0..calls.len()).map(|index| format!("c_{index}")).collect();
    let replies = ids
        .iter()
        .zip(calls)
        .map(|(id, (name, input))| API.call(id, name, input))
        .chain([API.say("ok")]);
    let server = ModelServer::start(replies.collect::<Vec<_>>());
    let done = finish(&tooloop(scratch, &server, API).args(flags).arg("go").start());
    assert_eq!(done.answer(), "ok");
    server.assert_clean();
    ids.iter().map(|id| done.tool_result(id)).collect()
}

fn path(scratch: &Scratch, name: &str) -> PathBuf {
    scratch.workspace().join(name)
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// C26
#[test]
fn line_ends_of_a_file_are_kept() {
    let scratch = Scratch::new();
    scratch.write("a.txt", "one\r\ntwo\r\nthree\r\n");
    let edit = json!({"path": "a.txt", "old": "one\ntwo", "new": "one\n2"});
    let results = play(&scratch, &[], &[("edit", edit)]);
    assert!(!results[0].1, "{results:?}");
    assert_eq!(scratch.read("a.txt"), "one\r\n2\r\nthree\r\n");
    let write = json!({"path": "a.txt", "content": "p\nq\n"});
    let read = json!({"path": "a.txt"});
    let results = play(&scratch, &[], &[("read", read), ("write", write)]);
    assert!(
        !results[1].1 && results[1].0.contains("CRLF"),
        "{results:?}"
    );
    assert_eq!(scratch.read("a.txt"), "p\r\nq\r\n");
}

/// C27
#[test]
fn replacement_text_is_data_and_the_match_is_exactly_one() {
    let scratch = Scratch::new();
    scratch.write("price", "price=OLD\n");
    scratch.write("x", "x\nx\nx\n");
    let before = fs::metadata(path(&scratch, "x"))
        .unwrap()
        .modified()
        .unwrap();
    let new = "$1 $& $$ ${x} \\1 \\0 %s";
    let calls = [
        ("edit", json!({"path": "price", "old": "OLD", "new": new})),
        ("edit", json!({"path": "x", "old": "x", "new": "y"})),
        ("edit", json!({"path": "x", "old": "", "new": "z"})),
        ("edit", json!({"path": "x", "old": "none", "new": "z"})),
        ("edit", json!({"path": "x", "old": "x", "new": "x"})),
    ];
    let results = play(&scratch, &[], &calls);
    assert_eq!(scratch.read("price"), format!("price={new}\n"));
    assert_eq!(
        results
            .iter()
            .map(|(_, is_error)| *is_error)
            .collect::<Vec<_>>(),
        [false, true, true, true, true],
        "{results:?}"
    );
    for words in ["3", "1, 2", "3"] {
        assert!(results[1].0.contains(words), "{results:?}");
    }
    assert_eq!(scratch.read("x"), "x\nx\nx\n");
    assert_eq!(
        fs::metadata(path(&scratch, "x"))
            .unwrap()
            .modified()
            .unwrap(),
        before
    );
}

/// C28
#[test]
fn bytes_that_an_edit_does_not_name_stay() {
    let scratch = Scratch::new();
    scratch.write("old.py", b"x = 1\n# caf\xe9 \x96\n");
    let calls = [
        (
            "edit",
            json!({"path": "old.py", "old": "x = 1", "new": "x = 2"}),
        ),
        (
            "edit",
            json!({"path": "old.py", "old": "x = 2", "new": "x = é"}),
        ),
    ];
    let results = play(&scratch, &[], &calls);
    assert!(!results[0].1 && results[1].1, "{results:?}");
    let bytes = fs::read(path(&scratch, "old.py")).unwrap();
    assert_eq!(bytes, b"x = 2\n# caf\xe9 \x96\n");
}

/// C29
#[test]
fn mode_bits_and_links_stay() {
    let scratch = Scratch::new();
    scratch.write("run.sh", "echo one\n");
    scratch.write("ro.txt", "keep\n");
    fs::set_permissions(path(&scratch, "run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(path(&scratch, "ro.txt"), fs::Permissions::from_mode(0o444)).unwrap();
    symlink("run.sh", path(&scratch, "link.sh")).unwrap();
    let calls = [
        (
            "edit",
            json!({"path": "link.sh", "old": "one", "new": "two"}),
        ),
        (
            "edit",
            json!({"path": "ro.txt", "old": "keep", "new": "lost"}),
        ),
        (
            "write",
            json!({"path": "deep/er/new.txt", "content": "new\n"}),
        ),
    ];
    let results = play(&scratch, &[], &calls);
    let errors: Vec<_> = results.iter().map(|(_, is_error)| *is_error).collect();
    assert_eq!(errors, [false, true, false], "{results:?}");
    assert_eq!(scratch.read("run.sh"), "echo two\n");
    assert_eq!(mode(&path(&scratch, "run.sh")), 0o755);
    assert!(
        fs::symlink_metadata(path(&scratch, "link.sh"))
            .unwrap()
            .is_symlink()
    );
    assert_eq!(scratch.read("ro.txt"), "keep\n");
    // The mask of this process is that of the run.
    let mask = rustix::process::umask(Mode::from_raw_mode(0o027));
    rustix::process::umask(mask);
    assert_eq!(
        mode(&path(&scratch, "deep/er/new.txt")),
        0o666 & !mask.bits()
    );
    let mut left: Vec<_> = fs::read_dir(scratch.workspace())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["deep", "link.sh", "ro.txt", "run.sh"]);
}

/// C30
#[test]
fn a_file_that_changed_since_it_was_read_is_not_overwritten() {
    let scratch = Scratch::new();
    scratch.write("a.txt", "one\n");
    scratch.write("b.txt", "same size\n");
    let gate = Gate::new();
    let read = |id: &str, path: &str| API.call(id, "read", &json!({"path": path}));
    let write = json!({"path": "a.txt", "content": "one\ntwo\n"});
    let server = ModelServer::start([
        Reply::from(read("r_1", "a.txt")),
        read("r_2", "b.txt").into(),
        wait_for(&gate)
            .then(API.call("w_1", "write", &write))
            .into(),
        API.call(
            "w_2",
            "write",
            &json!({"path": "b.txt", "content": "mine\n"}),
        )
        .into(),
        read("r_3", "a.txt").into(),
        API.call(
            "e_1",
            "edit",
            &json!({"path": "a.txt", "old": "one", "new": "1"}),
        )
        .into(),
        API.call(
            "e_2",
            "edit",
            &json!({"path": "a.txt", "old": "1", "new": "uno"}),
        )
        .into(),
        API.call(
            "w_3",
            "write",
            &json!({"path": "a.txt", "content": "all mine\n"}),
        )
        .into(),
        API.say("ok").into(),
    ]);
    let running = tooloop(&scratch, &server, API).arg("go").start();
    server.wait_for_requests(3, LONG).unwrap();
    scratch.write("a.txt", "one\nUSER\n");
    // Another content of the same size, with the old time put back.
    let path = path(&scratch, "b.txt");
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    scratch.write("b.txt", "SAME SIZE\n");
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(before)
        .unwrap();
    gate.open();
    let done = finish(&running);
    assert_eq!(done.answer(), "ok");
    for id in ["w_1", "w_2"] {
        let (words, is_error) = done.tool_result(id);
        assert!(is_error && words.contains("changed"), "{words}");
    }
    for id in ["e_1", "e_2", "w_3"] {
        assert!(!done.tool_result(id).1, "{:?}", done.tool_result(id));
    }
    assert_eq!(scratch.read("b.txt"), "SAME SIZE\n");
    assert_eq!(scratch.read("a.txt"), "all mine\n");
    server.assert_clean();
}

/// C31
#[test]
fn a_link_does_not_lead_out_of_the_workspace() {
    let scratch = Scratch::new();
    let outside = scratch.outside().join("o");
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("secret.txt"), "SECRET-55").unwrap();
    fs::create_dir(path(&scratch, "sub")).unwrap();
    symlink(&outside, path(&scratch, "out")).unwrap();
    symlink(path(&scratch, "sub"), path(&scratch, "in")).unwrap();
    let patch = "*** Begin Patch\n*** Update File: out/secret.txt\n-SECRET-55\n+X\n*** End Patch";
    let calls = [
        ("write", json!({"path": "out/new.txt", "content": "x"})),
        ("read", json!({"path": "out/secret.txt"})),
        (
            "edit",
            json!({"path": "out/secret.txt", "old": "SECRET", "new": "x"}),
        ),
        ("grep", json!({"pattern": "SECRET", "path": "out"})),
        ("glob", json!({"pattern": "*", "path": "out/../out"})),
        ("apply_patch", json!({"patch": patch})),
        ("read", json!({"path": outside.join("secret.txt")})),
        ("write", json!({"path": "in/ok.txt", "content": "ok\n"})),
    ];
    for mode in ["acceptEdits", "dontAsk"] {
        let flags = [
            "--permission-mode",
            mode,
            "--allowedTools",
            "Edit Write Read apply_patch",
        ];
        let results = play(&scratch, &flags, &calls);
        let (inside, refused) = results.split_last().unwrap();
        for (words, is_error) in refused {
            assert!(
                *is_error && words.contains("outside of the workspace"),
                "{words}"
            );
            assert!(!words.contains("SECRET-55"));
        }
        assert!(!inside.1, "{inside:?}");
        assert_eq!(scratch.read("sub/ok.txt"), "ok\n");
        fs::remove_file(path(&scratch, "sub/ok.txt")).unwrap();
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
        assert_eq!(
            fs::read_to_string(outside.join("secret.txt")).unwrap(),
            "SECRET-55"
        );
    }
    // A folder that was added is no longer outside.
    let added = [
        "--permission-mode",
        "dontAsk",
        "--add-dir",
        outside.to_str().unwrap(),
    ];
    let results = play(
        &scratch,
        &added,
        &[("read", json!({"path": "out/secret.txt"}))],
    );
    assert!(
        results[0].0.contains("SECRET-55") && !results[0].1,
        "{results:?}"
    );
}

/// C32
#[test]
fn what_is_no_plain_file_is_told_at_once() {
    let scratch = Scratch::new();
    let fifo = path(&scratch, "fifo");
    let made = std::process::Command::new("mkfifo")
        .arg(&fifo)
        .status()
        .unwrap();
    assert!(made.success());
    fs::create_dir(path(&scratch, "folder")).unwrap();
    scratch.write("folder/inside.txt", "x");
    let sparse = fs::File::create(path(&scratch, "sparse")).unwrap();
    sparse.set_len(3_000_000_000).unwrap();
    scratch.write("line", "x".repeat(5_000_000));
    scratch.write("empty", "");
    scratch.write("blank ", "here\n");
    let paths = [
        "fifo",
        "/dev/zero",
        "folder",
        "sparse",
        "line",
        "empty",
        "blank ",
    ];
    let calls = paths.map(|path| ("read", json!({"path": path})));
    let results = play(&scratch, &[], &calls);
    let expected = [
        (true, "pipe"),
        (true, "device"),
        (false, "inside.txt"),
        (true, "binary"),
        (false, "cut"),
        (false, "empty"),
        (false, "here"),
    ];
    for ((path, (words, is_error)), (error, told)) in paths.iter().zip(&results).zip(expected) {
        assert_eq!(*is_error, error, "{path}: {words}");
        assert!(words.contains(told), "{path}: {words}");
        assert!(words.chars().count() <= 50_000, "{path}");
    }
}

/// C23: where the shell went does not move the file tools.
#[test]
fn relative_paths_are_those_of_the_workspace_wherever_the_shell_is() {
    let scratch = Scratch::new();
    scratch.write("here.txt", "in the workspace\n");
    let elsewhere = format!("mkdir d && cd d && cd {}", scratch.outside().display());
    let calls = [
        ("bash", json!({"command": elsewhere})),
        ("bash", json!({"command": "mkdir -p d && cd d"})),
        ("read", json!({"path": "here.txt"})),
    ];
    let results = play(&scratch, &[], &calls);
    assert!(results[2].0.contains("in the workspace"), "{results:?}");
}

/// C16, with a file that is not there.
#[test]
fn one_of_several_calls_goes_wrong() {
    let scratch = Scratch::new();
    let marker = format!("touch {}", scratch.marker().display());
    let calls = [
        ("a", "bash", json!({"command": "exit 3"})),
        ("b", "read", json!({"path": "missing.txt"})),
        ("c", "bash", json!({"command": "echo c"})),
        ("d", "bash", json!({"command": marker})),
    ];
    let server = ModelServer::start([anthropic::calls(&calls), API.say("ok")]);
    let flags = ["--disallowedTools", "Bash(touch *)", "go"];
    let done = finish(&tooloop(&scratch, &server, API).args(flags).start());
    assert_eq!(done.answer(), "ok");
    let ids: Vec<_> = server
        .request(1)
        .tool_results()
        .into_iter()
        .map(|result| result.id)
        .collect();
    assert_eq!(ids, ["a", "b", "c", "d"]);
    let results = ids
        .iter()
        .map(|id| done.tool_result(id))
        .collect::<Vec<_>>();
    let errors: Vec<_> = results.iter().map(|(_, is_error)| *is_error).collect();
    assert_eq!(errors, [true, true, false, true]);
    assert!(results[0].0.contains("exit status 3") && results[1].0.contains("missing.txt"));
    assert!(results[2].0.starts_with("c\n"));
    assert!(!scratch.marker().exists());
    server.assert_clean();
}

/// A long result goes into a file that the session's reads may see whatever the rules are.
#[test]
fn a_long_result_is_put_aside_and_can_be_read() {
    let scratch = Scratch::new();
    let lines: String = (0..20_000)
        .map(|number| format!("number {number}\n"))
        .collect();
    scratch.write("long.txt", &lines);
    let command = json!({"command": "cat long.txt"});
    let server = ModelServer::start([API.call("c_1", "bash", &command), API.say("ok")]);
    let flags = ["--permission-mode", "dontAsk", "go"];
    let done: Done = finish(
        &tooloop(&scratch, &server, API)
            .env("TOOLOOP_CONTEXT_WINDOW", "200000")
            .args(flags)
            .start(),
    );
    assert_eq!(done.answer(), "ok");
    let text = told(&server.request(1), "c_1");
    assert!(text.chars().count() < 31_000);
    let (_, path) = text.split_once("whole output in ").unwrap();
    let (path, _) = path.split_once(' ').unwrap();
    assert!(path.contains(".outputs/"), "{path}");
    let read = json!({"path": path, "offset": 19_990, "limit": 5});
    let replies = [API.call("c_2", "read", &read), API.say("ok")];
    let server = ModelServer::start(replies);
    let session = done.session();
    let flags = ["--permission-mode", "dontAsk", "--resume", &session, "go"];
    let done = finish(
        &tooloop(&scratch, &server, API)
            .env("TOOLOOP_CONTEXT_WINDOW", "200000")
            .args(flags)
            .start(),
    );
    assert_eq!(done.answer(), "ok");
    let (text, is_error) = done.tool_result("c_2");
    assert!(!is_error && text.contains("number 19989"), "{text}");
    // Forks have the same past: one that is kept, what goes on with it, and one that is not kept.
    let mut from = session;
    for (id, more, is_kept) in [
        ("c_3", &["--fork-session"][..], true),
        ("c_4", &[], true),
        (
            "c_5",
            &["--fork-session", "--no-session-persistence"],
            false,
        ),
    ] {
        let replies = [API.call(id, "read", &read), API.say("ok")];
        let server = ModelServer::start(replies);
        let flags = ["--permission-mode", "dontAsk", "--resume", &from, "go"];
        let run = tooloop(&scratch, &server, API).args(more).args(flags);
        let done = finish(&run.start());
        let (text, is_error) = done.tool_result(id);
        assert!(
            !is_error && text.contains("number 19989"),
            "{more:?} {text}"
        );
        if is_kept {
            from = done.session();
        }
    }
    let folder = Path::new(path).parent().unwrap();
    assert_eq!((mode(folder), mode(path.as_ref())), (0o700, 0o600));
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
}

both! {
    /// A picture comes as a picture, in whichever way the format has for it.
    fn a_picture_is_shown_as_one(api) {
        // One pixel.
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\x9cc\xfc\xcf\xc0P\x0f\0\x04\x85\x01\x80\x84\xa9\x8c!\0\0\0\0IEND\xaeB`\x82";
        let scratch = Scratch::new();
        scratch.write("dot.png", png);
        let server = ModelServer::start([
            api.call("c_1", "read", &json!({"path": "dot.png"})),
            api.say("a dot"),
            api.say("still a dot"),
        ]);
        let done = finish(&tooloop(&scratch, &server, api).arg("go").start());
        assert_eq!(done.answer(), "a dot");
        assert!(server.request(1).mentions("iVBORw0KGgo"), "{}", server.request(1).body);
        let again = crate::support::resume(&scratch, &server, api, &done.session(), "and now?");
        assert_eq!(again.answer(), "still a dot");
        assert!(server.request(2).mentions("iVBORw0KGgo"));
        server.assert_clean();
    }
}

/// The tools of a run are those that were picked.
#[test]
fn tools_can_be_picked() {
    let table: [(&str, &[&str]); 4] = [
        ("bash-only", &["bash"]),
        ("Read,grep", &["grep", "read"]),
        ("none", &[]),
        ("", &[]),
    ];
    for (picked, expected) in table {
        let scratch = Scratch::new();
        let server = ModelServer::start([API.say("ok")]);
        let run = tooloop(&scratch, &server, API).args(["--tools", picked, "go"]);
        let done = finish(&run.start());
        assert_eq!(done.answer(), "ok");
        assert_eq!(done.records[0]["tools"], json!(expected), "{picked}");
        let request = server.request(0);
        assert_eq!(request.tool_names(), expected, "{picked}");
        // Nothing there could look at a job.
        assert!(!request.mentions("background"), "{picked}");
        let system = request.body["system"].to_string();
        assert_eq!(system.contains("one tool: bash"), picked == "bash-only");
    }
    let scratch = Scratch::new();
    let server = ModelServer::start([API.say("never")]);
    let run = tooloop(&scratch, &server, API).args(["--tools", "raed", "go"]);
    let words = finish(&run.start()).failed(52, "not_run");
    assert!(words.contains("did you mean read?"), "{words}");
}

/// A search of a folder does not show what a rule denies to read.
#[test]
fn a_deny_rule_holds_for_what_a_search_meets() {
    let scratch = Scratch::new();
    scratch.write("secrets/key.txt", "TOKEN-91");
    scratch.write("src/a.txt", "TOKEN-00");
    scratch.write(".env", "TOKEN-92");
    let calls = [
        ("grep", json!({"pattern": "TOKEN", "all": true})),
        ("glob", json!({"pattern": "*", "all": true})),
        ("grep", json!({"pattern": "TOKEN", "path": "secrets"})),
        ("glob", json!({"pattern": "secrets/*"})),
        ("read", json!({"path": "secrets/key.txt"})),
    ];
    let rules = "Read(./secrets/**) Read(.env)";
    let results = play(&scratch, &["--disallowedTools", rules], &calls);
    for (words, _) in &results {
        assert!(
            !words.contains("TOKEN-9") && !words.contains("key.txt\n"),
            "{words}"
        );
    }
    assert!(
        results[0].0.contains("TOKEN-00") && results[0].0.contains("permission rule"),
        "{results:?}"
    );
    assert!(
        results[1].0.contains("src/a.txt") && !results[1].0.contains(".env"),
        "{results:?}"
    );
    assert_eq!(
        results[2..]
            .iter()
            .map(|(_, is_error)| *is_error)
            .collect::<Vec<_>>(),
        [true, false, true]
    );
}
