//! The tools on another machine than this one.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::memory::{BeforeWrites, memory};
use crate::room::Room;

#[tokio::test]
async fn all_tools_work_on_another_machine() {
    let (machine, room) = memory();
    assert_eq!(
        room.write("a/b", "1\n2\n").await,
        "created a/b (2 lines, 4 bytes)"
    );
    assert_eq!(room.read("a/b").await, "1\t1\n2\t2\n");
    assert_eq!(room.read("a").await, "(a is a folder with 1 entry)\nb\n");
    room.edit("a/b", "2", "3").await;
    room.patch("*** Begin Patch\n*** Update File: a/b\n*** Move to: c\n-1\n+0\n*** Add File: d\n+x\n*** End Patch")
        .await;
    assert_eq!(machine.names(), ["/w/c", "/w/d"]);
    assert_eq!(machine.bytes("/w/c").unwrap(), b"0\n3\n");
    // It was known before it moved, and is known at its new place.
    room.write("c", "new\n").await;
    room.write("d", "new\n").await;
}

#[tokio::test]
async fn a_patch_that_fails_half_way_is_taken_back() {
    for fault in ["/w/new", "/w/two", "/w/moved", "/w/gone"] {
        let (machine, room) = memory();
        machine.put("/w/one", b"1\r\n\xff\n");
        machine.put("/w/two", b"1\n");
        machine.put("/w/moved", b"1\n");
        machine.put("/w/also", b"bye\n");
        machine.put("/w/gone", b"bye\n");
        let before = machine.files.lock().unwrap().clone();
        machine.faults.lock().unwrap().push(fault.into());
        let error = room
            .no_patch(
                "*** Begin Patch\n*** Update File: one\n-1\n+2\n*** Add File: new\n+x\n\
                 *** Update File: two\n-1\n+2\n*** Update File: moved\n*** Move to: there\n\
                 *** Delete File: also\n*** Delete File: gone\n*** End Patch\n",
            )
            .await;
        let what = match fault {
            "/w/new" => "cannot create new",
            "/w/two" => "cannot write two",
            "/w/moved" => "cannot move moved to there",
            _ => "cannot delete gone",
        };
        assert_eq!(
            error,
            format!("{what}: the disk is broken; all is put back, nothing is changed")
        );
        assert_eq!(*machine.files.lock().unwrap(), before);
    }
}

#[tokio::test]
async fn what_cannot_be_taken_back_is_named() {
    let (machine, _) = memory();
    machine.put("/w/one", b"1\n");
    machine.put("/w/two", b"1\n");
    // The second write breaks the disk under the first one, too.
    let broken = machine.clone();
    let breaks = BeforeWrites {
        machine,
        act: move |path: &Path| {
            if path.ends_with("two") {
                let all = ["/w/one".into(), "/w/two".into()];
                broken.faults.lock().unwrap().extend(all);
            }
        },
    };
    let room = Room::on(Arc::new(breaks), Path::new("/w"));
    assert_eq!(
        room.no_patch("--- one\n+++ one\n@@\n-1\n+2\n--- two\n+++ two\n@@\n-1\n+2\n")
            .await,
        "cannot write two: the disk is broken; and this could not be put back: /w/one (the disk is \
         broken); look at these files"
    );
}

#[tokio::test]
async fn a_read_without_end_is_cancelled() {
    for reads in [0, 3, 70] {
        let (machine, room) = memory();
        let token = room.context.cancellation.clone();
        *machine.endless.lock().unwrap() = Some((reads, token));
        assert_eq!(
            room.fail("read", json!({"path": "f", "offset": 2})).await,
            "cancelled"
        );
    }
}

#[tokio::test]
async fn what_a_cancelled_read_has_read_nobody_has_seen() {
    let (machine, mut room) = memory();
    machine.put("/w/f", b"1\n");
    *machine.at_end.lock().unwrap() = Some(room.context.cancellation.clone());
    assert_eq!(room.fail("read", json!({"path": "f"})).await, "cancelled");
    room.context.cancellation = CancellationToken::new();
    let error = room
        .fail("write", json!({"path": "f", "content": "2\n"}))
        .await;
    assert!(error.contains("you have not read it"), "{error}");
    assert_eq!(room.read("f").await, "1\t1\n");
}

#[tokio::test]
async fn the_file_that_was_looked_at_is_the_one_that_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().canonicalize().unwrap();
    let path = |name: &str| workspace.join(name);
    fs::write(path("a"), "a\n").unwrap();
    fs::write(path("b"), "b\n").unwrap();
    symlink("a", path("link")).unwrap();
    let link = path("link");
    let machine = BeforeWrites {
        machine: crate::room::local(),
        act: move |_: &Path| {
            fs::remove_file(&link).unwrap();
            symlink("b", &link).unwrap();
        },
    };
    let room = Room::on(Arc::new(machine), &workspace);
    room.read("link").await;
    room.write("link", "new\n").await;
    assert_eq!(fs::read(path("a")).unwrap(), b"new\n");
    assert_eq!(fs::read(path("b")).unwrap(), b"b\n");
}
