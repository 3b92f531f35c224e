//! Patches.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use tooloop_model::JsonObject;
use tooloop_policy::{AccessEffect, Touch};

use crate::room::Room;

fn envelope(body: &str) -> String {
    format!("*** Begin Patch\n{body}*** End Patch\n")
}

#[tokio::test]
async fn an_envelope_changes_several_files() {
    let room = Room::new();
    room.put("a.rs", "fn a() {\n    1\n}\n\nfn b() {\n    1\n}\n");
    room.put("old.txt", "x\ny\n");
    room.put("gone.txt", "z\n");
    fs::set_permissions(room.path("old.txt"), PermissionsExt::from_mode(0o755)).unwrap();
    let answer = room
        .patch(&envelope(
            "*** Add File: new/n.txt\n+one\n+\n+three\n\
             *** Update File: a.rs\n@@ fn b() {\n-    1\n+    2\n }\n\
             *** Update File: old.txt\n*** Move to: sub/new.txt\n@@\n x\n-y\n+Y\n\
             *** Delete File: gone.txt\n",
        ))
        .await;
    assert_eq!(
        answer,
        "the patch is applied:\nA new/n.txt (3 lines)\nM a.rs (+1 -1)\nR old.txt -> sub/new.txt (+1 -1)\n\
         D gone.txt"
    );
    assert_eq!(room.bytes("new/n.txt"), b"one\n\nthree\n");
    assert_eq!(
        room.bytes("a.rs"),
        b"fn a() {\n    1\n}\n\nfn b() {\n    2\n}\n"
    );
    assert_eq!(room.bytes("sub/new.txt"), b"x\nY\n");
    let mode = fs::metadata(room.path("sub/new.txt")).unwrap().mode() & 0o777;
    assert_eq!(mode, 0o755);
    assert_eq!(room.names(), ["a.rs", "new", "sub"]);
}

#[tokio::test]
async fn a_unified_diff_changes_several_files() {
    let room = Room::new();
    room.put("a.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    room.put("gone.txt", "z\nz");
    let answer = room
        .patch(
            "diff --git a/a.txt b/a.txt\nindex 1..2 100644\n--- a/a.txt\n+++ b/a.txt\n\
             @@ -1,3 +1,3 @@\n-1\n+one\n 2\n 3\n@@ -8,2 +8,3 @@ words\n 8\n 9\n+10\n\
             diff --git a/new.txt b/new.txt\nnew file mode 100644\n--- /dev/null\n+++ b/new.txt\n\
             @@ -0,0 +1,2 @@\n+n\n+m\n\\ No newline at end of file\n\
             --- a/gone.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-z\n-z\n\\ No newline at end of file\n",
        )
        .await;
    assert_eq!(
        answer,
        "the patch is applied:\nM a.txt (+2 -1)\nA new.txt (2 lines)\nD gone.txt"
    );
    assert_eq!(room.bytes("a.txt"), b"one\n2\n3\n4\n5\n6\n7\n8\n9\n10\n");
    assert_eq!(room.bytes("new.txt"), b"n\nm");
    assert_eq!(room.names(), ["a.txt", "new.txt"]);
}

#[tokio::test]
async fn all_or_nothing() {
    let room = Room::new();
    room.put("a.txt", "1\n");
    let error = room
        .no_patch(&envelope(
            "*** Update File: a.txt\n-1\n+2\n*** Update File: b.txt\n-1\n+2\n",
        ))
        .await;
    assert_eq!(
        error,
        format!(
            "there is no file b.txt; similar names in the workspace {}: a.txt",
            room.workspace.display()
        )
    );
    let error = room
        .no_patch(&envelope(
            "*** Update File: a.txt\n-1\n+2\n*** Add File: a.txt/b\n+2\n",
        ))
        .await;
    assert_eq!(error, "cannot open a.txt/b: Not a directory");
    assert_eq!(room.bytes("a.txt"), b"1\n");
}

#[tokio::test]
async fn access_names_each_path() {
    let room = Room::new();
    let access = |patch: &str| {
        let input = serde_json::json!({ "patch": patch }).to_string();
        let input = JsonObject::parse(&input).unwrap();
        room.tool("apply_patch").access(&input).unwrap()
    };
    let read = |path: &str| Touch::Read(path.into());
    let write = |path: &str| Touch::Write(path.into());
    let stated = access(&envelope(
        "*** Add File: a\n+1\n*** Update File: b\n*** Move to: ../c\n-1\n+2\n*** Delete File: /d\n",
    ));
    assert_eq!(stated.effect, AccessEffect::Effectful);
    assert_eq!(
        stated.touches,
        [
            write("a"),
            write("../c"),
            read("b"),
            write("b"),
            read("/d"),
            write("/d")
        ]
    );
    let stated = access("no patch");
    assert_eq!(stated.effect, AccessEffect::Effectful);
    assert!(stated.touches.is_empty());
    assert_eq!(
        room.no_patch("no patch").await,
        "patch line 1: no change is found; begin with *** Begin Patch, or with --- and +++ lines; \
         nothing is changed"
    );
}
