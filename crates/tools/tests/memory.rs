//! Notes as a model and a person meet them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "shared test code may panic"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use serde_json::{Value, json};
use tooloop_model::{Content, JsonObject};
use tooloop_policy::{Mode, Policy};
use tooloop_tool::{DynTool, Scope, ToolContext, tool};
use tooloop_tools::{MAX_NOTES, MemoryStore, MemoryTool};

fn session(store: &MemoryStore) -> Arc<dyn DynTool> {
    let made = MemoryTool::new(store.clone(), |text| text.replace("hunter2", "[redacted]"));
    tool(made).for_session(&Scope::new()).unwrap()
}

async fn call(tool: &Arc<dyn DynTool>, input: Value) -> Result<String, String> {
    let input = JsonObject::parse(&input.to_string()).unwrap();
    match tool.run(&input, &ToolContext::new("/")).await {
        Ok(output) => match output.content.as_slice() {
            [Content::Text(text)] => Ok(text.clone()),
            other => panic!("{other:?}"),
        },
        Err(error) => Err(error.to_string()),
    }
}

fn write(name: &str, text: &str) -> Value {
    json!({ "action": "write", "name": name, "text": text, "about": format!("about {name}") })
}

#[tokio::test]
async fn notes_are_written_read_changed_and_deleted() {
    let held = tempfile::tempdir().unwrap();
    let store = MemoryStore::at(held.path().join("new/project"));
    let tool = session(&store);
    assert_eq!(
        call(&tool, json!({ "action": "list" })).await,
        Ok("there are no notes".into())
    );
    assert_eq!(store.index().unwrap(), None);
    call(&tool, write("build", "run make\n")).await.unwrap();
    call(&tool, write("style", "tabs; the key is hunter2\n"))
        .await
        .unwrap();
    let view = json!({ "action": "view", "name": "style" });
    assert_eq!(
        call(&tool, view).await,
        Ok("tabs; the key is [redacted]\n".into())
    );
    let edit = json!({ "action": "edit", "name": "build", "old": "make", "new": "just", "about": "how\nto build" });
    call(&tool, edit).await.unwrap();
    assert_eq!(store.view("build").unwrap(), "run just\n");
    let index = "- [build](build.md): how to build\n- [style](style.md): about style";
    assert_eq!(store.index().unwrap().unwrap().text, index);
    let list = "build: how to build\nstyle: about style\n";
    assert_eq!(
        call(&tool, json!({ "action": "list" })).await,
        Ok(list.into())
    );
    call(&tool, json!({ "action": "delete", "name": "build" }))
        .await
        .unwrap();
    let unknown = call(&tool, json!({ "action": "view", "name": "build" })).await;
    assert_eq!(
        unknown,
        Err("there is no note \"build\"; there are: style".into())
    );
    assert_eq!(
        store.index().unwrap().unwrap().text,
        "- [style](style.md): about style"
    );
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(store.folder()), 0o700);
    assert_eq!(mode(&store.file("style").unwrap()), 0o600);
    // Nothing else is left.
    let mut files: Vec<_> = fs::read_dir(store.folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    files.sort();
    assert_eq!(files, [".lock", "MEMORY.md", "style.md"]);
}

#[tokio::test]
async fn names_are_no_paths_and_what_does_not_fit_is_refused() {
    let held = tempfile::tempdir().unwrap();
    let folder = held.path().join("memory");
    let store = MemoryStore::at(&folder);
    let tool = session(&store);
    for name in [
        "",
        "../x",
        "a/b",
        "MEMORY",
        "Big",
        ".lock",
        "a.md",
        "é",
        "-a",
        "a b",
        "/etc/passwd",
    ] {
        let error = call(&tool, write(name, "x")).await.unwrap_err();
        assert!(error.contains("is no name of a note"), "{name}: {error}");
        assert!(
            call(&tool, json!({ "action": "view", "name": name }))
                .await
                .is_err()
        );
        assert!(
            call(&tool, json!({ "action": "delete", "name": name }))
                .await
                .is_err()
        );
    }
    assert!(!folder.exists());
    for (input, expected) in [
        (
            json!({ "action": "write", "name": "a", "about": "x" }),
            "missing field `text`",
        ),
        (
            json!({ "action": "write", "name": "a", "text": "x" }),
            "missing field `about`",
        ),
        (
            json!({ "action": "write", "name": "a", "text": "x", "about": " \n" }),
            "`about` is blank",
        ),
        (json!({ "action": "view" }), "missing field `name`"),
        (json!({ "action": "burn", "name": "a" }), "unknown variant"),
        (write("a", &"x".repeat(32 * 1024 + 1)), "32768 is the most"),
    ] {
        let error = call(&tool, input.clone()).await.unwrap_err();
        assert!(error.contains(expected), "{input}: {error}");
    }
    call(&tool, write("a", "one one")).await.unwrap();
    for old in ["one", "two", ""] {
        let edit = json!({ "action": "edit", "name": "a", "old": old, "new": "x" });
        let error = call(&tool, edit).await.unwrap_err();
        assert!(error.contains("has to be there once"), "{error}");
    }
    assert_eq!(store.view("a").unwrap(), "one one");
    for number in 1..MAX_NOTES {
        fs::write(folder.join(format!("n{number}.md")), "x").unwrap();
    }
    let error = call(&tool, write("one-more", "x")).await.unwrap_err();
    assert!(error.contains("which is the most"), "{error}");
    call(&tool, write("a", "changed")).await.unwrap();
}

#[tokio::test]
async fn what_another_session_wrote_is_not_lost() {
    let held = tempfile::tempdir().unwrap();
    let store = MemoryStore::at(held.path().join("memory"));
    let (one, other) = (session(&store), session(&store));
    call(&one, write("a", "of one")).await.unwrap();
    let refused = call(&other, write("a", "of other")).await.unwrap_err();
    assert!(refused.contains("view it first"), "{refused}");
    call(&other, json!({ "action": "view", "name": "a" }))
        .await
        .unwrap();
    call(&other, write("a", "of both")).await.unwrap();
    // The first has not seen that.
    assert!(call(&one, write("a", "of one again")).await.is_err());
    assert!(
        call(&one, json!({ "action": "delete", "name": "a" }))
            .await
            .is_err()
    );
    assert_eq!(store.view("a").unwrap(), "of both");
    // The same text again is no loss.
    call(&one, write("a", "of both")).await.unwrap();
    call(&one, json!({ "action": "delete", "name": "a" }))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_writers_at_once_keep_every_line() {
    let held = tempfile::tempdir().unwrap();
    let store = MemoryStore::at(held.path().join("memory"));
    let mut running = tokio::task::JoinSet::new();
    for writer in 0..4 {
        let tool = session(&store);
        running.spawn(async move {
            for number in 0..10 {
                call(&tool, write(&format!("n{writer}-{number}"), "x"))
                    .await
                    .unwrap();
            }
        });
    }
    running.join_all().await;
    assert_eq!(store.index().unwrap().unwrap().text.lines().count(), 40);
    assert_eq!(store.list().unwrap().len(), 40);
}

#[test]
fn notes_ask_nobody() {
    let held = tempfile::tempdir().unwrap();
    let tool = session(&MemoryStore::at(held.path()));
    for action in ["list", "view", "write", "edit", "delete"] {
        let input = JsonObject::parse(&json!({ "action": action }).to_string()).unwrap();
        let access = tool.access(&input).unwrap();
        for mode in Mode::ALL {
            let policy = Policy {
                mode,
                ..Policy::default()
            };
            assert!(policy.decide("memory", &access).is_allow(), "{mode}");
        }
    }
}
