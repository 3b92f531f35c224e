//! Where a session cannot be recorded nothing is done, and once it can be, it goes on. Each test has
//! a small file system of its own, in a mount namespace that ends with it.

use std::fs;

use serde_json::Value;
use tooloop_testkit::run::Run;
use tooloop_testkit::{ModelServer, Scratch};

use crate::support::{Api, both, end};

/// Shell words that a script begins with: `turn NAME ARGUMENTS...` runs the binary, and keeps what it
/// says and its status in the folder `$OUT`; `free` says how many kilobytes are left.
const PRELUDE: &str = r#"
    set -u
    turn() {
        name=$1; shift
        "$BIN" -p --output-format stream-json "$@" >"$OUT/$name" 2>"$OUT/$name.err"
        echo $? >"$OUT/$name.code"
    }
    sessions() {
        "$BIN" sessions "$@" >"$OUT/sessions" 2>&1
        echo $? >"$OUT/sessions.code"
    }
    mount -t tmpfs -o size=256k,mode=700 none "$XDG_DATA_HOME" || exit 99
"#;

/// Runs the script in a namespace of its own.
fn play(scratch: &Scratch, server: &ModelServer, api: Api, script: &str) {
    let run = Run::new("unshare")
        .home(scratch)
        .model(server)
        .env("TOOLOOP_MODEL", api.model())
        .env("TOOLOOP_SANDBOX", "off")
        .env("TOOLOOP_PERMISSION_MODE", "bypassPermissions")
        .env("BIN", env!("CARGO_BIN_EXE_tooloop"))
        .env("OUT", scratch.outside())
        .env("MARKER", scratch.marker())
        .args(["--map-root-user", "--mount", "bash", "-c"])
        .arg(format!("{PRELUDE}{script}"));
    let finished = end(&run.start());
    finished.assert_code(0);
}

struct Told {
    code: i32,
    last: Value,
    words: String,
}

fn told(scratch: &Scratch, name: &str) -> Told {
    let read = |name: &str| fs::read_to_string(scratch.outside().join(name)).unwrap();
    let code = read(&format!("{name}.code")).trim().parse().unwrap();
    let out = read(name);
    let last: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(last["type"], "result", "{out}");
    assert_eq!(last["exit_status"], code, "{out}");
    let errors = last["errors"].as_array().into_iter().flatten();
    let words = errors.filter_map(Value::as_str).collect();
    Told { code, last, words }
}

fn refused(scratch: &Scratch, name: &str, system_word: &str) {
    let told = told(scratch, name);
    assert_eq!(told.code, 54, "{}", told.last);
    let words = told.words;
    for word in [".jsonl", system_word, scratch.data().to_str().unwrap()] {
        assert!(words.contains(word), "{word}: {words}");
    }
}

fn sessions_status(scratch: &Scratch) -> (String, String) {
    let read = |name: &str| fs::read_to_string(scratch.outside().join(name)).unwrap();
    (read("sessions.code").trim().to_owned(), read("sessions"))
}

both! {
    fn a_disk_that_fills_stops_the_run_before_the_call(api) {
        let scratch = Scratch::new();
        // The record of the call is longer than what is left, and begins to be written.
        let command = format!("touch {} # {}", scratch.marker().display(), "x".repeat(60_000));
        let server = ModelServer::start([
            api.bash("c_0", "head -c 200k /dev/zero > \"$XDG_DATA_HOME/filler\""),
            api.bash("c_1", &command),
            api.say("ok"),
        ]);
        play(&scratch, &server, api, r#"
            turn first go
            ls -l "$XDG_DATA_HOME" >"$OUT/ls"
            sessions verify "$(basename "$XDG_DATA_HOME"/tooloop/sessions/*/*.jsonl .jsonl)"
            rm "$XDG_DATA_HOME/filler"
            turn second --continue next
        "#);
        refused(&scratch, "first", "No space left");
        assert!(!scratch.marker().exists());
        let (code, words) = sessions_status(&scratch);
        assert_eq!(code, "0", "nothing half is left behind: {words}");
        let second = told(&scratch, "second");
        assert_eq!((second.code, &second.last["result"]), (0, &"ok".into()), "{}", second.last);
        assert!(server.request(2).mentions("next"));
        server.assert_clean();
    }

    fn a_disk_that_is_full_stops_the_run_before_the_first_request(api) {
        let scratch = Scratch::new();
        let server = ModelServer::start([api.say("ok")]);
        play(&scratch, &server, api, r#"
            head -c 1M /dev/zero >"$XDG_DATA_HOME/filler" 2>/dev/null
            turn first go
            rm "$XDG_DATA_HOME/filler"
            find "$XDG_DATA_HOME" -type f >"$OUT/left"
            turn second go
        "#);
        refused(&scratch, "first", "No space left");
        assert_eq!(told(&scratch, "second").last["result"], "ok");
        assert_eq!(server.requests().len(), 1);
        let left = fs::read_to_string(scratch.outside().join("left")).unwrap();
        assert_eq!(left, "", "half a journal is left");
    }

    fn a_disk_that_cannot_be_written_stops_the_run(api) {
        let scratch = Scratch::new();
        let server = ModelServer::start([api.say("one"), api.say("two")]);
        play(&scratch, &server, api, r#"
            turn first go
            mount -o remount,ro "$XDG_DATA_HOME" || exit 98
            turn new go
            turn again --continue next
            sessions repair "$(basename "$XDG_DATA_HOME"/tooloop/sessions/*/*.jsonl .jsonl)"
            mount -o remount,rw "$XDG_DATA_HOME" || exit 97
            turn last --continue next
        "#);
        assert_eq!(told(&scratch, "first").last["result"], "one");
        refused(&scratch, "new", "Read-only");
        refused(&scratch, "again", "Read-only");
        let (code, words) = sessions_status(&scratch);
        assert_eq!(code, "54");
        assert!(words.contains("Read-only") && words.contains(".jsonl"), "{words}");
        assert_eq!(told(&scratch, "last").last["result"], "two");
        assert_eq!(server.requests().len(), 2);
        server.assert_clean();
    }
}
