//! Texts in other encodings, and directories with another name than before or with an odd one.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use tooloop_testkit::run::{Finished, Stdin};
use tooloop_testkit::{ModelServer, Scratch};

use crate::support::{Api, ask, bare, end, finish, said, tooloop};

const API: Api = Api::Messages;

fn told(finished: &Finished) -> String {
    finished.stdout.text() + &finished.stderr.text()
}

#[test]
fn prompts_are_decoded_or_refused() {
    let utf16 = [&b"\xff\xfe"[..], b"h\0i\0"].concat();
    for (bytes, expected, warning) in [
        (utf16, "hi", ""),
        (b"\xef\xbb\xbfhi".to_vec(), "hi", ""),
        (b"a\r\nb".to_vec(), "a\r\nb", ""),
        (b"caf\xe9".to_vec(), "caf\u{fffd}", "byte 4 is not UTF-8"),
    ] {
        let scratch = Scratch::new();
        let server = ModelServer::start([API.say("ok")]);
        let run = tooloop(&scratch, &server, API).arg("-");
        let finished = end(&run.stdin(Stdin::Bytes(bytes)).start());
        finished.assert_code(0);
        let sent = said(&server.request(0));
        assert!(
            sent.iter().any(|(_, text)| text.contains(expected)),
            "{sent:?}"
        );
        assert!(!server.request(0).mentions("\u{feff}"));
        assert!(told(&finished).contains(warning), "{}", told(&finished));
    }
    let scratch = Scratch::new();
    let server = ModelServer::start([API.say("unused")]);
    let run = tooloop(&scratch, &server, API).arg("-");
    let finished = end(&run.stdin(Stdin::Bytes(b"a\0b".to_vec())).start());
    finished.assert_code(42);
    assert!(told(&finished).contains("byte 2 is NUL"));
}

#[test]
fn option_files_are_decoded_or_refused() {
    let scratch = Scratch::new();
    let utf16 = [&b"\xff\xfe"[..], b"w\0i\0d\0e\0"].concat();
    let wide = scratch.write("wide.txt", utf16);
    let latin = scratch.write("latin.txt", b"caf\xe9");
    let server = ModelServer::start([API.say("ok")]);
    let run = tooloop(&scratch, &server, API).arg("--append-system-prompt-file");
    finish(&run.arg(wide).arg("go").start());
    assert!(server.request(0).mentions("wide"));
    let run = tooloop(&scratch, &server, API).arg("--append-system-prompt-file");
    let finished = end(&run.arg(latin).arg("go").start());
    finished.assert_code(2);
    assert!(told(&finished).contains("byte 4 is not UTF-8"));
}

#[test]
fn sessions_follow_a_renamed_directory() {
    let scratch = Scratch::new();
    let replies = ["one", "two", "three"].map(|text| API.say(text));
    let server = ModelServer::start(replies);
    let session = ask(&scratch, &server, API, "first prompt").session();
    let moved = scratch.workspace().with_file_name("moved");
    fs::rename(scratch.workspace(), &moved).unwrap();

    let list = || {
        let run = bare(&scratch).args(["sessions", "list"]);
        end(&run.directory(&moved).start())
    };
    let next = |flags: &[&str]| {
        let run = tooloop(&scratch, &server, API).args(flags.to_vec());
        end(&run.directory(&moved).start())
    };
    for finished in [list(), next(&["--continue", "next"])] {
        let told = told(&finished);
        assert!(
            told.contains(&session) && told.contains("--resume"),
            "{told}"
        );
        assert!(told.contains("does not exist any more"), "{told}");
    }
    let back = next(&["--resume", &session, "again"]);
    back.assert_code(0);
    assert!(server.request(1).mentions(moved.to_str().unwrap()));
    let after = next(&["--continue", "once more"]);
    after.assert_code(0);
    assert!(after.stdout.text().contains(&session));
    assert!(server.request(2).mentions("first prompt"));
    assert!(list().stdout.text().contains("first prompt"));
}

#[test]
fn a_directory_that_is_not_utf8_is_refused_by_name() {
    let scratch = Scratch::new();
    let odd = scratch.root().join(OsStr::from_bytes(b"x\xff"));
    // Some file systems have no such names.
    if fs::create_dir(&odd).is_err() {
        println!("skipped: the file system takes no name that is not UTF-8");
        return;
    }
    let server = ModelServer::start([API.say("ok")]);
    let run = tooloop(&scratch, &server, API).arg("go");
    let refused = told(&end(&run.directory(&odd).start()));
    assert!(
        refused.contains("is not UTF-8") && refused.contains("rename it"),
        "{refused}"
    );
    let run = tooloop(&scratch, &server, API).args(["--no-session-persistence", "go"]);
    let finished = end(&run.directory(&odd).start());
    finished.assert_code(0);

    let run = tooloop(&scratch, &server, API).arg("go");
    let refused = told(&end(&run.env("XDG_DATA_HOME", &odd).start()));
    assert!(
        refused.contains("in XDG_DATA_HOME is not UTF-8"),
        "{refused}"
    );
}
