//! Standard files that are closed, full or left by their readers.

use std::fs;

use tooloop_testkit::run::{Finished, Output, Stdin};
use tooloop_testkit::{ModelServer, Scratch, processes_with};

use super::{API, arguments, begun_by_shell, unique_sleep};
use crate::support::{ask, end, finish, front_end, journals, resume, tooloop, wait_for_file};

/// A command that prints on both files and leaves an effect, then an answer.
fn server() -> ModelServer {
    ModelServer::start([
        API.bash("c_1", "cat; echo out; echo err >&2; echo once >> log"),
        API.say("the answer"),
    ])
}

/// What must be true whatever became of its output: the effect is there once, and the journal holds
/// nothing but records.
fn assert_did_its_work(scratch: &Scratch, server: &ModelServer) {
    assert_eq!(scratch.read("log"), "once\n");
    server.assert_clean();
    assert_journals_are_clean(scratch);
}

fn assert_journals_are_clean(scratch: &Scratch) {
    for path in journals(scratch) {
        for line in scratch.read(path).lines() {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            let known = record.get("entry").or(record.get("tooloop_session"));
            assert!(known.is_some(), "{line}");
        }
    }
}

#[test]
fn any_of_them_closed_at_the_start() {
    for closed in 0_u8..8 {
        for format in ["text", "stream-json"] {
            let (scratch, server) = (Scratch::new(), server());
            let redirects: String = (0..3)
                .filter(|file| closed & (1 << file) != 0)
                .map(|file| format!(" {file}>&-"))
                .collect();
            let words = ["-p", "--output-format", format, "go"];
            let run = begun_by_shell(&scratch, &server, "", &redirects, &words);
            let running = run.start();
            let finished = if format == "text" || closed & 2 != 0 {
                end(&running)
            } else {
                finish(&running).finished
            };
            finished.assert_code(0);
            if format == "text" && closed & 2 == 0 {
                assert_eq!(finished.stdout.text(), "the answer\n");
            }
            assert_did_its_work(&scratch, &server);
        }
    }
}

/// Where the answer cannot be told, the status says so, and standard error says why.
#[test]
fn full_files() {
    for format in ["text", "json", "stream-json"] {
        let words = ["-p", "--output-format", format, "go"];
        let ended = |redirects: &str| -> (Scratch, ModelServer, Finished) {
            let (scratch, server) = (Scratch::new(), server());
            let run = begun_by_shell(&scratch, &server, "", redirects, &words);
            let finished = end(&run.start());
            (scratch, server, finished)
        };
        let (scratch, server, finished) = ended(">/dev/full");
        finished.assert_code(54);
        let words = finished.stderr.text();
        assert!(words.contains("standard output"), "{finished}");
        // A stream whose first record cannot be told is a run that nobody watches: it ends.
        if format != "stream-json" {
            assert_did_its_work(&scratch, &server);
        }
        assert_journals_are_clean(&scratch);

        let (scratch, server, finished) = ended("2>/dev/full");
        finished.assert_code(0);
        assert!(finished.stdout.text().contains("the answer"), "{finished}");
        assert_did_its_work(&scratch, &server);

        let (_, _, finished) = ended(">/dev/full 2>/dev/full");
        finished.assert_code(54);
    }
}

/// A reader that goes while a command runs is noticed at the next record: the command, and all
/// that it began, ends then, and the session goes on for another reader.
#[test]
fn a_reader_that_goes_in_the_middle() {
    for bytes in [1, 700] {
        let (scratch, sleep) = (Scratch::new(), unique_sleep());
        let command = format!("setsid {sleep} & touch begun; echo said");
        let server = ModelServer::start([
            API.bash("c_1", &command),
            API.bash("c_2", &format!("{sleep} & {sleep}")),
            API.say("ok"),
        ]);
        let running = tooloop(&scratch, &server, API)
            .stdout(Output::CloseAfter(bytes))
            .arg("go")
            .start();
        let finished = end(&running);
        finished.assert_code(141);
        assert!(processes_with(&sleep).is_empty());
        // It may have ended before it had anything to record.
        if let Some(path) = journals(&scratch).first() {
            let session = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let server = ModelServer::start([API.say("ok")]);
            let next = resume(&scratch, &server, API, &session, "next");
            assert_eq!(next.answer(), "ok");
            server.assert_clean();
        }
    }
}

/// What never ends is not read for ever.
#[test]
fn an_input_without_end() {
    let (scratch, server) = (Scratch::new(), server());
    for (before, more) in [
        // With a prompt and without one.
        ("exec 0< <(yes)", &["go"][..]),
        ("exec 0< <(yes)", &[]),
        ("exec 0</dev/zero", &[]),
        ("exec 0</dev/zero", &["--input-format", "stream-json"]),
    ] {
        let run = begun_by_shell(&scratch, &server, before, "", &arguments(more));
        let done = finish(&run.start());
        let words = done.failed(42, "not_run");
        assert!(words.contains("standard input"), "{words}");
    }
    assert!(server.requests().is_empty());
    // A front end that says a thing and then nothing more, without ever leaving.
    let running = front_end(&scratch, &server, API).start();
    crate::support::speak(&running, "go");
    wait_for_file(&scratch.workspace().join("log"));
    crate::support::wait_for_result(&running, 1);
    assert!(running.is_alive());
    running.close_stdin();
    finish(&running).answer();
    server.assert_clean();
}

/// A device, a folder and a file for input do no harm.
#[test]
fn odd_inputs() {
    let scratch = Scratch::new();
    for (before, told) in [
        ("exec 0</dev/zero", "go"),
        ("exec 0</", "go"),
        ("exec 0</dev/tty || exec 0</dev/null", "go"),
        ("echo piped > input; exec 0<input", "go\n\npiped\n"),
        ("exec 0<&-; exec 0>/dev/null", "go"),
    ] {
        let server = ModelServer::start([API.say("ok")]);
        let run = begun_by_shell(&scratch, &server, before, "", &arguments(&["go"]));
        assert_eq!(finish(&run.start()).answer(), "ok", "{before}");
        let said = crate::support::said(&server.request(0)).pop().unwrap().1;
        assert_eq!(said.trim_end(), told.trim_end(), "{before}");
    }
    let server = ModelServer::start([API.say("ok")]);
    let run = tooloop(&scratch, &server, API)
        .stdin(Stdin::Bytes(vec![0xff; 100_000]))
        .arg("go");
    assert_eq!(finish(&run.start()).answer(), "ok");
    ask(&scratch, &ModelServer::start([API.say("ok")]), API, "x").answer();
    assert!(fs::exists(scratch.workspace()).unwrap());
}
