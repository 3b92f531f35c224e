//! Notes at the real binary: from one session to the next, and for a person.

use std::fs;

use serde_json::json;
use tooloop_testkit::{ModelServer, Scratch};

use super::support::{Api, ask, asking, bare, end, finish, resume, told, tooloop};

const API: Api = Api::Messages;

fn written(name: &str, text: &str) -> serde_json::Value {
    json!({ "action": "write", "name": name, "about": format!("about {name}"), "text": text })
}

#[test]
fn a_note_is_known_in_the_next_session_of_the_project() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.workspace().join(".git")).unwrap();
    fs::create_dir_all(scratch.workspace().join("src")).unwrap();
    let server = ModelServer::start([
        API.call(
            "a",
            "memory",
            &written(
                "build",
                "Run just. The key is sk-ant-api03-abcdefghijklmnop\n",
            ),
        ),
        API.say("noted"),
        API.say("again"),
        API.call("b", "memory", &json!({ "action": "view", "name": "build" })),
        API.say("done"),
        API.say("bare"),
        API.say("off"),
    ]);
    // By the permissions as they are: it asks nobody.
    let run = |more: &[&str]| {
        let run = asking(&scratch, &server, API).args(["--output-format", "stream-json"]);
        finish(&run.args(more.to_vec()).arg("go").start())
    };
    let first = run(&[]);
    assert_eq!(first.answer(), "noted");
    // While the session lasts its prompt stays as it was.
    assert_eq!(server.request(0).system(), server.request(1).system());
    assert!(!server.request(1).system().contains("# Memory"));
    resume(&scratch, &server, API, &first.session(), "more");
    assert!(
        server
            .request(2)
            .system()
            .contains("- [build](build.md): about build")
    );
    // From a folder of the same project.
    let src = scratch.workspace().join("src");
    run(&["-C", src.to_str().unwrap()]);
    assert_eq!(
        server.request(3).system().lines().last(),
        server.request(2).system().lines().last()
    );
    assert_eq!(
        told(&server.request(4), "b"),
        "Run just. The key is [redacted]\n"
    );
    finish(
        &tooloop(&scratch, &server, API)
            .args(["--bare", "go"])
            .start(),
    );
    let off = tooloop(&scratch, &server, API).env("TOOLOOP_MEMORY", "false");
    finish(&off.arg("go").start());
    for index in [5, 6] {
        let request = server.request(index);
        assert!(!request.system().contains("# Memory"), "{index}");
        assert!(
            !request.tool_names().contains(&"memory".to_owned()),
            "{index}"
        );
    }
    // Nothing is written into the project.
    assert_eq!(fs::read_dir(scratch.workspace()).unwrap().count(), 2);
    server.assert_clean();
}

#[test]
fn a_long_index_is_cut_with_a_warning() {
    let scratch = Scratch::new();
    let server = ModelServer::start([API.say("hi")]);
    let path = end(&bare(&scratch).args(["memory", "path"]).start())
        .stdout
        .text();
    let folder = std::path::Path::new(path.trim());
    assert!(folder.starts_with(scratch.data()), "{path}");
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("MEMORY.md"), "by hand\n".repeat(250)).unwrap();
    let done = ask(&scratch, &server, API, "go");
    let warnings = done.system("warning");
    let told = warnings.iter().any(|record| {
        record["message"]
            .as_str()
            .unwrap()
            .contains("50 lines of the index")
    });
    assert!(told, "{warnings:?}");
    assert!(
        server
            .request(0)
            .system()
            .ends_with("by hand\n[50 lines more are not shown]")
    );
}

#[test]
fn file_tools_do_not_write_notes() {
    let scratch = Scratch::new();
    let path = end(&bare(&scratch).args(["memory", "path"]).start())
        .stdout
        .text();
    let file = std::path::Path::new(path.trim()).join("evil.md");
    let server = ModelServer::start([
        API.call("a", "write", &json!({ "path": file, "content": "x" })),
        API.say("done"),
    ]);
    let run = asking(&scratch, &server, API).args(["--output-format", "stream-json"]);
    let run = run.args(["--permission-mode", "acceptEdits", "go"]);
    let done = finish(&run.start());
    assert!(done.tool_result("a").1);
    assert!(!file.exists());
}

#[test]
fn a_person_looks_at_notes_and_changes_them() {
    let scratch = Scratch::new();
    let memory = |arguments: &[&str]| {
        let run = bare(&scratch).env("EDITOR", "sed -i s/one/two/");
        end(&run.arg("memory").args(arguments.to_vec()).start())
    };
    assert!(
        memory(&[])
            .stdout
            .text()
            .starts_with("There are no notes in ")
    );
    let server = ModelServer::start([
        API.call("a", "memory", &written("build", "one\u{1b}[2J")),
        API.say("done"),
    ]);
    ask(&scratch, &server, API, "go");
    assert_eq!(
        memory(&["list"]).stdout.text(),
        "build       7 bytes  about build\n"
    );
    assert_eq!(memory(&["show", "build"]).stdout.text(), "one\n");
    let edited = memory(&["edit", "build"]);
    assert_eq!(
        (edited.code, edited.stderr.text()),
        (Some(0), String::new())
    );
    assert_eq!(memory(&["show", "build"]).stdout.text(), "two\n");
    let wrong = memory(&["show", "../x"]);
    assert_eq!(wrong.code, Some(2), "{}", wrong.stderr.text());
    let unknown = memory(&["delete", "nothing"]);
    let words = unknown.stderr.text();
    assert!(
        words.contains("there is no note \"nothing\"; there are: build"),
        "{words}"
    );
    assert_eq!(
        memory(&["delete", "build"]).stdout.text(),
        "deleted build\n"
    );
    assert!(
        memory(&["list"])
            .stdout
            .text()
            .starts_with("There are no notes")
    );
}
