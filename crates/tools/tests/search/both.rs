//! What holds for both tools.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::{Value, json};
use tooloop_model::JsonObject;
use tooloop_policy::{AccessEffect, Touch};
use tooloop_tool::ToolError;

use crate::room::{Room, rerun};

fn fifo(path: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

#[test]
fn they_state_what_they_read() {
    let room = Room::new();
    for (tool, input, path) in [
        (&room.glob, json!({ "pattern": "*" }), "."),
        (&room.glob, json!({ "pattern": "src/*" }), "."),
        (&room.glob, json!({ "pattern": "*", "path": "src" }), "src"),
        (
            &room.glob,
            json!({ "pattern": "/etc/ssl/*.pem" }),
            "/etc/ssl",
        ),
        (&room.glob, json!({ "pattern": "../../x/*" }), "./../.."),
        (
            &room.glob,
            json!({ "pattern": "../*", "path": "src" }),
            "src/..",
        ),
        (&room.grep, json!({ "pattern": "x" }), "."),
        (
            &room.grep,
            json!({ "pattern": "x", "path": "/etc" }),
            "/etc",
        ),
    ] {
        let parsed = JsonObject::parse(&input.to_string()).unwrap();
        let access = tool.access(&parsed).unwrap();
        assert_eq!(access.effect, AccessEffect::ReadOnly);
        assert_eq!(access.touches, [Touch::Read(path.into())], "{input}");
    }
}

#[test]
fn what_the_model_is_told_of_them_is_short() {
    let room = Room::new();
    for (tool, bytes) in [(&room.glob, 550), (&room.grep, 1_400)] {
        let definition = tool.definition();
        let schema = definition.input_schema.to_value().to_string();
        let all = definition.description.len() + schema.len();
        assert!(all <= bytes, "{all}: {schema}");
    }
}

#[tokio::test]
async fn a_cancelled_call_says_so() {
    let room = Room::new();
    room.write("a", "x");
    room.context.cancellation.cancel();
    for tool in [&room.glob, &room.grep] {
        for path in [".", "a"] {
            let ended = room
                .call(tool, json!({ "pattern": "x", "path": path }))
                .await;
            // What is over before it can be cancelled may be answered as well.
            assert!(
                !matches!(
                    ended,
                    Err(ToolError::Denied { .. } | ToolError::InvalidInput { .. })
                ),
                "{ended:?}"
            );
        }
    }
}

#[tokio::test]
async fn nothing_but_files_is_opened() {
    let room = Room::new();
    room.write("a", "x");
    fifo(&room.workspace.join("pipe"));
    symlink("a", room.workspace.join("link")).unwrap();
    symlink("/dev/zero", room.workspace.join("zero")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(room.workspace.join("socket")).unwrap();
    assert_eq!(room.grep(json!({ "pattern": "x" })).await, "a\n1: x");
    let found = room.grep(json!({ "pattern": "x", "path": "link" })).await;
    assert_eq!(found, "link\n1: x");
    assert_eq!(
        room.grep_error(json!({ "pattern": "x", "path": "pipe" }))
            .await,
        "pipe is neither a file nor a folder (a pipe, a socket or a device) and is not searched"
    );
    let found = room.glob(json!({ "pattern": "*" })).await;
    assert_eq!(found.lines().count(), 2, "{found}");
}

#[tokio::test]
async fn an_ignore_file_that_would_never_end_is_not_opened() {
    for make in [
        (|path| fifo(path)) as fn(&Path),
        |path| symlink("/dev/zero", path).unwrap(),
        |path| fs::File::create(path).unwrap().set_len(1 << 40).unwrap(),
    ] {
        for name in [".gitignore", ".ignore", ".git/info/exclude"] {
            let room = Room::new();
            room.write("a", "x")
                .write("sub/b", "x")
                .write("sub/.git/info/x", "");
            let bad = room.workspace.join("sub").join(name);
            make(&bad);
            let note = "(1 folder left out: the ignore file in it is no regular file, or too \
                        large; set all to search without ignore files)";
            let found = room.grep(json!({ "pattern": "x", "mode": "files" })).await;
            assert_eq!(found, format!("a\n{note}"), "{name}");
            let found = room.glob(json!({ "pattern": "*" })).await;
            assert_eq!(found, format!("a\n{note}"), "{name}");
            let input = json!({ "pattern": "b", "path": "sub" });
            assert_eq!(
                room.glob_error(input).await,
                format!(
                    "the ignore file {} is no regular file, or too large: set all to search \
                     without ignore files",
                    bad.display()
                )
            );
            let all = json!({ "pattern": "b", "path": "sub", "all": true });
            assert_eq!(room.glob(all).await, "sub/b");
        }
    }
}

#[test]
fn what_may_not_be_read_is_counted() {
    if rerun("both::what_may_not_be_read_is_counted", true, &[]).is_some() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let room = Room::new();
        room.write("a", "x")
            .write("b", "x")
            .write("c/d", "x")
            .write("e/f", "x");
        let lock = |path: &str, mode| {
            let path = room.workspace.join(path);
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        lock("b", 0);
        lock("c", 0);
        lock("e", 0);
        let found = room.grep(json!({ "pattern": "x" })).await;
        assert_eq!(
            found,
            "a\n1: x\n(2 folders and 1 file left out: permission denied)"
        );
        let found = room.glob(json!({ "pattern": "[acdf]" })).await;
        assert_eq!(found, "a\n(2 folders left out: permission denied)");
        let input: Value = json!({ "pattern": "d", "path": "c/d" });
        let error = room.grep_error(input).await;
        assert_eq!(error, "c/d cannot be read: Permission denied (os error 13)");
        let input = json!({ "pattern": "x", "path": "b" });
        let found = room.grep(input).await;
        assert_eq!(
            found,
            "no matches for x in b\n(1 file left out: permission denied)"
        );
        lock("c", 0o755);
        lock("e", 0o755);
    });
}
