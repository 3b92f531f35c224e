//! Texts in other encodings, and directories with another name than before or with an odd one.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use serde_json::json;
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
fn no_byte_order_mark_and_no_nul_reaches_the_model() {
    let scratch = Scratch::new();
    scratch.write(".tooloop/commands/hey.md", "Say hey to $ARGUMENTS.");
    let schema = scratch.write("schema.json", b"\xef\xbb\xbf{\"type\":\"integer\"}");
    let words = scratch.write("words.txt", b"\xef\xbb\xbfBe brief.");
    let server = ModelServer::start([API.say("7"), API.say("8")]);
    let run =
        tooloop(&scratch, &server, API).args(["--json-schema", &format!("@{}", schema.display())]);
    let run = run.arg("--append-system-prompt-file").arg(words).arg("-");
    let prompt = b"\xef\xbb\xbf/hey you".to_vec();
    end(&run.stdin(Stdin::Bytes(prompt)).start()).assert_code(0);
    let request = server.request(0);
    assert!(request.mentions("Say hey to you.") && request.mentions("Be brief."));
    assert!(!request.mentions("\u{feff}"), "{}", request.body);

    let run = tooloop(&scratch, &server, API).arg("-");
    let finished = end(&run
        .stdin(Stdin::Bytes(b"caf\xe9 \xff\x00".to_vec()))
        .start());
    finished.assert_code(42);
    assert!(told(&finished).contains("byte "), "{}", told(&finished));
    let run = tooloop(&scratch, &server, API).arg(OsStr::from_bytes(b"caf\xe9"));
    let finished = end(&run.start());
    assert!(!matches!(finished.code, Some(0)), "{finished}");
    assert!(told(&finished).contains("UTF-8"), "{}", told(&finished));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn json_lines_in_other_encodings_are_decoded_or_refused() {
    let line = "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"hi caf\u{e9}\"}}\n";
    let mark = format!("\u{feff}{line}");
    let utf16: Vec<u8> = mark.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let latin: Vec<u8> = line.chars().map(|c| c as u8).collect();
    for (bytes, refusal) in [
        (mark.into_bytes(), None),
        (utf16, Some("line 1: byte 1 is not UTF-8")),
        (latin, Some("line 1: byte 58 is not UTF-8")),
    ] {
        let scratch = Scratch::new();
        let server = ModelServer::start([API.say("ok")]);
        let run = tooloop(&scratch, &server, API).args(["--input-format", "stream-json"]);
        let finished = end(&run.stdin(Stdin::Bytes(bytes)).start());
        match refusal {
            None => {
                finished.assert_code(0);
                let expected = ("user".to_owned(), "hi caf\u{e9}".to_owned());
                assert_eq!(said(&server.request(0)), [expected]);
            }
            Some(words) => {
                finished.assert_code(42);
                assert!(told(&finished).contains(words), "{finished}");
                assert_eq!(server.requests().len(), 0);
            }
        }
    }
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

/// The same through a link to the directory, and with a new directory of the old name.
#[test]
fn sessions_of_a_renamed_directory_are_adopted_in_any_case() {
    for (through_link, new_one) in [(true, false), (false, true), (true, true)] {
        let scratch = Scratch::new();
        let note = json!({"action": "write", "name": "build", "about": "how", "text": "make it"});
        let server = ModelServer::start([
            API.call("a", "memory", &note),
            API.say("one"),
            API.say("two"),
            API.say("three"),
            API.say("four"),
        ]);
        let session = ask(&scratch, &server, API, "first prompt").session();
        let old = scratch.workspace();
        let moved = old.with_file_name("moved");
        fs::rename(&old, &moved).unwrap();
        if new_one {
            fs::create_dir(&old).unwrap();
        }
        let directory = if through_link {
            let link = old.with_file_name("link");
            std::os::unix::fs::symlink(&moved, &link).unwrap();
            link
        } else {
            moved.clone()
        };
        let next = |flags: &[&str]| {
            let run = tooloop(&scratch, &server, API).args(flags.to_vec());
            end(&run.directory(&directory).start())
        };
        let listed = || {
            let run = bare(&scratch).args(["sessions", "list"]);
            told(&end(&run.directory(&directory).start()))
        };
        for told in [listed(), told(&next(&["--continue", "next"]))] {
            let what = if new_one {
                "is another directory"
            } else {
                "does not exist any more"
            };
            assert!(told.contains(&session) && told.contains(what), "{told}");
            assert!(told.contains("--resume"), "{told}");
        }
        let back = next(&["--resume", &session, "again"]);
        back.assert_code(0);
        let request = server.requests().pop().unwrap();
        assert!(
            request.mentions(moved.to_str().unwrap()),
            "{}",
            request.body
        );
        // The new directory may be another project, so its notes stay, and are named.
        let notes = if new_one { "stay in" } else { "are now in" };
        assert!(told(&back).contains(notes), "{}", told(&back));
        let run = bare(&scratch).args(["memory", "list"]);
        let listed_notes = told(&end(&run.directory(&directory).start()));
        assert_eq!(listed_notes.contains("build"), !new_one, "{listed_notes}");
        let after = next(&["--continue", "once more"]);
        after.assert_code(0);
        assert!(after.stdout.text().contains(&session));
        assert!(!told(&after).contains("the notes of"), "{}", told(&after));
        assert!(listed().contains("first prompt"));
    }
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
