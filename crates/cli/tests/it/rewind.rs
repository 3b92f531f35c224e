//! Going back to an earlier turn, and forking there.

use std::fs;

use serde_json::json;
use tooloop_testkit::run::Finished;
use tooloop_testkit::{ModelServer, Scratch};

use crate::support::{
    Api, ask, bare, both, end, finish, journal, kill, resume, said, tooloop, wait_for_file,
};

/// Runs `tooloop sessions` to its end.
fn sessions(scratch: &Scratch, arguments: &[&str]) -> Finished {
    end(&bare(scratch)
        .arg("sessions")
        .args(arguments.to_vec())
        .start())
}

fn lines(scratch: &Scratch, arguments: &[&str]) -> Vec<String> {
    lines_with_status(scratch, arguments, 0)
}

fn lines_with_status(scratch: &Scratch, arguments: &[&str], status: i32) -> Vec<String> {
    let done = sessions(scratch, arguments);
    assert_eq!(done.code, Some(status), "{done}");
    done.stdout
        .lines
        .iter()
        .map(|line| line.text.clone())
        .collect()
}

/// A session of three turns: a tool writes `made`, a command changes `made` and `old`, a tool `last`.
fn three_turns(scratch: &Scratch, api: Api) -> String {
    let server = ModelServer::start([
        api.call("c_1", "write", &json!({"path": "made", "content": "one\n"})),
        api.say("first answer"),
        api.bash("c_2", "echo two >> made; echo two > old; rm gone"),
        api.say("second answer"),
        api.call(
            "c_3",
            "write",
            &json!({"path": "sub/last", "content": "three\n"}),
        ),
        api.say("third answer"),
    ]);
    fs::write(scratch.workspace().join("old"), "zero\n").unwrap();
    fs::write(scratch.workspace().join("gone"), "here\n").unwrap();
    let session = ask(scratch, &server, api, "first prompt").session();
    for prompt in ["second prompt", "third prompt"] {
        resume(scratch, &server, api, &session, prompt);
    }
    server.assert_clean();
    session
}

fn read(scratch: &Scratch, name: &str) -> Option<String> {
    fs::read_to_string(scratch.workspace().join(name)).ok()
}

both! {
    fn files_and_conversation_go_back_to_a_turn(api) {
        let scratch = Scratch::new();
        let session = three_turns(&scratch, api);
        let listed = lines(&scratch, &["rewind", &session]);
        assert_eq!(listed.len(), 3, "{listed:?}");
        assert!(listed[1].contains("second prompt  (3 files)"), "{listed:?}");
        let expected = [
            "would restore gone",
            "would restore made",
            "would restore old",
            "would remove sub",
            "would remove sub/last",
            "would cut the conversation before turn 2",
        ];
        assert_eq!(lines(&scratch, &["rewind", &session, "2", "--dry-run"]), expected);
        assert_eq!(read(&scratch, "old").as_deref(), Some("two\n"));
        let done = lines(&scratch, &["rewind", &session, "2"]);
        let expected = expected.map(|line| {
            line.replace("would restore", "restored")
                .replace("would remove", "removed")
                .replace("would ", "")
        });
        assert_eq!(done, expected);
        assert_eq!(read(&scratch, "made").as_deref(), Some("one\n"));
        assert_eq!(read(&scratch, "old").as_deref(), Some("zero\n"));
        assert_eq!(read(&scratch, "gone").as_deref(), Some("here\n"));
        assert!(!scratch.workspace().join("sub").exists());

        // The session goes on from there; what was cut is still on record, and shown as cut.
        let server = ModelServer::start([
            api.bash("c_4", "echo other > old"),
            api.say("another second answer"),
        ]);
        resume(&scratch, &server, api, &session, "another second prompt");
        let last = server.requests().pop().unwrap();
        let texts: Vec<_> = said(&last).into_iter().map(|(_, text)| text).collect();
        assert!(texts.contains(&"first prompt".into()), "{texts:?}");
        assert!(!last.mentions("second answer") && !last.mentions("third prompt"), "{}", last.body);
        server.assert_clean();
        let shown = sessions(&scratch, &["show", &session]).stdout.text();
        assert!(shown.contains("third prompt") && shown.contains("(taken back to before turn 2)"), "{shown}");

        // That turn goes back as well, and the files of before come again.
        let listed = lines(&scratch, &["rewind", &session]);
        assert_eq!(listed.len(), 2, "{listed:?}");
        assert_eq!(lines(&scratch, &["rewind", &session, "2", "--files"]), ["restored old"]);
        assert_eq!(read(&scratch, "old").as_deref(), Some("zero\n"));
        assert_eq!(lines(&scratch, &["rewind", &session, "--undo"]), ["restored old"]);
        assert_eq!(read(&scratch, "old").as_deref(), Some("other\n"));
        lines(&scratch, &["rewind", &session, "1"]);
        assert_eq!(read(&scratch, "made"), None);
        assert_eq!(read(&scratch, "old").as_deref(), Some("zero\n"));
    }

    fn a_fork_ends_with_its_turn_and_has_its_files(api) {
        let scratch = Scratch::new();
        let session = three_turns(&scratch, api);
        let before = fs::read(journal(&scratch, &session)).unwrap();
        let fork = lines(&scratch, &["fork", &session, "--at", "2"]).remove(0);
        assert_eq!(lines(&scratch, &["rewind", &fork]).len(), 2);
        let server = ModelServer::start([api.say("in the fork")]);
        resume(&scratch, &server, api, &fork, "and now");
        let request = server.request(0);
        assert!(request.mentions("second answer") && !request.mentions("third"), "{}", request.body);
        server.assert_clean();
        // The fork did not make that file.
        assert_eq!(
            lines(&scratch, &["rewind", &fork, "2", "--files"]),
            ["restored gone", "restored made", "restored old"]
        );
        assert!(scratch.workspace().join("sub/last").exists());
        assert_eq!(fs::read(journal(&scratch, &session)).unwrap(), before);
        let whole = lines(&scratch, &["fork", &session, "--session-id", "0198c0de-0000-7000-8000-000000000001"]);
        assert_eq!(whole, ["0198c0de-0000-7000-8000-000000000001"]);
        assert_eq!(lines(&scratch, &["rewind", &whole[0]]).len(), 3);
        let refused = sessions(&scratch, &["fork", &session, "--at", "4"]);
        assert_eq!(refused.code, Some(42), "{refused}");
        let refused = sessions(&scratch, &["rewind", &session, "4"]);
        assert_eq!(refused.code, Some(42), "{refused}");
    }

    fn what_a_person_changed_is_left_alone(api) {
        let scratch = Scratch::new();
        let session = three_turns(&scratch, api);
        fs::write(scratch.workspace().join("old"), "mine\n").unwrap();
        let done = lines_with_status(&scratch, &["rewind", &session, "1", "--files"], 65);
        let told = "old was changed by somebody else meanwhile: --force restores it too";
        assert!(done.contains(&told.into()), "{done:?}");
        assert_eq!(read(&scratch, "old").as_deref(), Some("mine\n"));
        assert_eq!(read(&scratch, "made"), None);
        let done = lines(&scratch, &["rewind", &session, "1", "--files", "--force"]);
        assert_eq!(done, ["restored old", told]);
        assert_eq!(read(&scratch, "old").as_deref(), Some("zero\n"));
    }

    fn a_command_that_died_with_the_program_is_taken_back(api) {
        let scratch = Scratch::new();
        fs::write(scratch.workspace().join("old"), "zero\n").unwrap();
        let server = ModelServer::start([
            api.bash("c_1", "echo one > old; touch made; sleep 60"),
        ]);
        let running = tooloop(&scratch, &server, api).arg("go").start();
        wait_for_file(&scratch.workspace().join("made"));
        assert!(kill(&running));
        let session = crate::support::journals(&scratch).remove(0);
        let session = session.file_stem().unwrap().to_str().unwrap().to_owned();
        assert_eq!(
            lines(&scratch, &["rewind", &session, "1"]),
            ["restored old", "removed made", "cut the conversation before turn 1"]
        );
        assert_eq!(read(&scratch, "old").as_deref(), Some("zero\n"));
    }
}

#[test]
fn without_checkpoints_nothing_is_kept_and_it_is_said() {
    let api = Api::Messages;
    let scratch = Scratch::new();
    let server = ModelServer::start([api.bash("c_1", "touch made"), api.say("done")]);
    let run = tooloop(&scratch, &server, api).env("TOOLOOP_CHECKPOINTS", "false");
    let session = finish(&run.arg("go").start()).session();
    let path = journal(&scratch, &session);
    assert!(!path.with_extension("files").exists());
    assert_eq!(
        lines(&scratch, &["rewind", &session, "1"]),
        ["cut the conversation before turn 1"]
    );
    assert!(scratch.workspace().join("made").exists());
}

#[test]
fn a_session_that_only_reads_keeps_nothing() {
    let api = Api::Messages;
    let scratch = Scratch::new();
    let server = ModelServer::start([api.bash("c_1", "ls; cat /dev/null"), api.say("done")]);
    let session = ask(&scratch, &server, api, "go").session();
    assert!(!journal(&scratch, &session).with_extension("files").exists());
}
