//! A machine that gives little: few descriptors, few processes, little memory, no home.

use std::os::unix::fs::chown;
use std::path::Path;

use tooloop_testkit::run::Run;
use tooloop_testkit::{ModelServer, Scratch, anthropic, processes_with};

use super::{API, arguments, begun_by_shell, unique_sleep};
use crate::support::{Done, end, finish, journals, resume};

fn server(sleep: &str) -> ModelServer {
    let mut replies = [
        API.bash("c_1", &format!("{sleep} >/dev/null 2>&1 & echo one >> log")),
        API.call("c_2", "read", &serde_json::json!({"path": "log"})),
        API.bash("c_3", "seq 1 30000; echo three >> log"),
        API.say("ok"),
    ]
    .into_iter();
    ModelServer::start_with(move |request| {
        let next = replies.next().filter(|_| !request.mentions("next"));
        next.unwrap_or_else(|| request.format.say("ok")).into()
    })
}

/// Runs within limits. It ends by itself, with nothing left; if it could begin, the session goes
/// on without them.
fn within(before: &str) -> Option<Done> {
    let (scratch, sleep) = (Scratch::new(), unique_sleep());
    let server = server(&sleep);
    let run = begun_by_shell(&scratch, &server, before, "", &arguments(&["go"]));
    let running = run.start();
    let finished = end(&running);
    assert!(processes_with(&sleep).is_empty(), "{before}");
    // A program that could not even be loaded says nothing.
    let done =
        (finished.code.is_some() && !finished.stdout.bytes.is_empty()).then(|| finish(&running));
    if let Some(path) = journals(&scratch).first() {
        let session = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let next = resume(&scratch, &server, API, &session, "next");
        assert_eq!(next.answer(), "ok", "{before}");
    }
    server.assert_clean();
    done
}

#[test]
fn few_descriptors() {
    let mut answers = 0;
    for most in [4, 8, 12, 16, 20, 24, 26, 27, 28, 29, 30, 32, 40, 64] {
        let Some(done) = within(&format!("ulimit -n {most}")) else {
            // Below this not even a shell can begin it.
            assert!(most < 12, "{most} descriptors and no record");
            continue;
        };
        match done.finished.code {
            Some(0) => answers += 1,
            _ => assert!(done.failed(54, "not_run").contains("ulimit -n"), "{most}"),
        }
    }
    assert!(answers > 0);
}

#[test]
fn little_memory() {
    // With less than some thirty the program's runtime does not come up, and says so itself.
    for megabytes in [64, 96, 128, 256] {
        within(&format!("ulimit -v {}", megabytes << 10));
    }
}

/// Where memory runs out in the middle nobody can write a last record. The rest holds.
#[test]
fn no_memory_for_an_answer() {
    let (scratch, sleep) = (Scratch::new(), unique_sleep());
    let begins = format!("setsid {sleep} >/dev/null 2>&1 & echo one >> log");
    let piece = anthropic::text_delta(0, &"word ".repeat(1 << 20)).times(20);
    let huge = anthropic::open().then(anthropic::text_start(0)).then(piece);
    let server = ModelServer::start([API.bash("c_1", &begins), huge, API.say("ok")]);
    let words = arguments(&["go"]);
    let run = begun_by_shell(&scratch, &server, "ulimit -v 65536", "", &words);
    let finished = end(&run.start());
    assert_ne!(finished.code, Some(0), "{finished}");
    assert!(processes_with(&sleep).is_empty());
    let journals = journals(&scratch);
    let session = journals[0].file_stem().unwrap().to_str().unwrap();
    let next = resume(&scratch, &server, API, session, "next");
    assert_eq!(next.answer(), "ok");
    assert_eq!(scratch.read("log"), "one\n");
    server.assert_clean();
}

/// Gives a folder and all in it to a user.
fn give(path: &Path, user: u32) {
    chown(path, Some(user), Some(user)).unwrap();
    for entry in std::fs::read_dir(path).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            give(&path, user);
        }
    }
}

/// Limits on processes do not hold for a superuser, so another user runs it.
#[test]
fn few_processes() {
    if !rustix::process::geteuid().is_root() {
        println!("only a superuser can become one that limits hold for: this is not tried");
        return;
    }
    // A user that nobody is, each time another one, since the limit counts all that a user has.
    let base = 300_000 + std::process::id() * 8;
    // Not between: a shell that may not fork tries for a quarter of a minute.
    for (index, most) in [0, 1, 2, 3, 4, 64].into_iter().enumerate() {
        let user = base + u32::try_from(index).unwrap();
        let (scratch, sleep) = (Scratch::new(), unique_sleep());
        let server = server(&sleep);
        give(scratch.root(), user);
        let limit = format!("--nproc={most}");
        let (user, binary) = (user.to_string(), env!("CARGO_BIN_EXE_tooloop"));
        let run = Run::new("setpriv")
            .home(&scratch)
            .model(&server)
            .env("TOOLOOP_MODEL", API.model())
            .env("TOOLOOP_SANDBOX", "off")
            .env("TOOLOOP_PERMISSION_MODE", "bypassPermissions")
            .args(["--reuid", &user, "--regid", &user, "--clear-groups"])
            .args(["prlimit", &limit, binary])
            .args(arguments(&["go"]));
        let running = run.start();
        let done = finish(&running);
        assert!(processes_with(&sleep).is_empty(), "{most}");
        if done.finished.code != Some(0) {
            assert!(!done.result()["errors"].as_array().unwrap().is_empty());
        }
        server.assert_clean();
    }
}

#[test]
fn no_home() {
    let (scratch, sleep) = (Scratch::new(), unique_sleep());
    let server = server(&sleep);
    let unset = "unset HOME XDG_DATA_HOME XDG_CONFIG_HOME XDG_STATE_HOME XDG_CACHE_HOME TMPDIR";
    let run = begun_by_shell(&scratch, &server, unset, "", &arguments(&["go"]));
    let words = finish(&run.start()).failed(52, "not_run");
    assert!(
        words.contains("HOME") && words.contains("--no-session-persistence"),
        "{words}"
    );
    assert!(server.requests().is_empty());
    for (before, flags) in [
        (unset, &["--no-session-persistence", "go"][..]),
        ("unset HOME", &["go"]),
        ("export HOME=relative", &["go"]),
        ("export TMPDIR=/dev/null", &["go"]),
    ] {
        let server = self::server(&sleep);
        let run = begun_by_shell(&scratch, &server, before, "", &arguments(flags));
        assert_eq!(finish(&run.start()).answer(), "ok", "{before}");
        server.assert_clean();
    }
    // One that is there and is no folder, and none at all.
    for home in ["/dev/null", "/proc/nowhere"] {
        let before = format!("unset XDG_DATA_HOME; export HOME='{home}'");
        let server = self::server(&sleep);
        let run = begun_by_shell(&scratch, &server, &before, "", &arguments(&["go"]));
        let done = finish(&run.start());
        if done.finished.code != Some(0) {
            let words = done.failed(54, "not_run");
            assert!(words.contains("tooloop/sessions"), "{words}");
            assert!(server.requests().is_empty());
        }
    }
}
