//! The main cases of read, write and edit.

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use serde_json::json;
use tooloop_policy::{AccessEffect, Touch};

use crate::room::{Room, local};

#[tokio::test]
async fn a_file_is_read_with_numbers_and_in_parts() {
    let room = Room::new();
    room.put("a.txt", "one\ntwo\nthree\n");
    assert_eq!(room.read("a.txt").await, "1\tone\n2\ttwo\n3\tthree\n");
    let part = |offset: i64, limit: i64| json!({"path": "a.txt", "offset": offset, "limit": limit});
    assert_eq!(
        room.ok("read", part(2, 1)).await,
        "2\ttwo\n(lines 2-2 of 3; go on with offset 3)"
    );
    assert_eq!(
        room.ok("read", part(-2, 9)).await,
        "2\ttwo\n3\tthree\n(lines 2-3 of 3)"
    );
    assert_eq!(
        room.ok("read", part(-9, 1)).await,
        "1\tone\n(lines 1-1 of 3; go on with offset 2)"
    );
    assert_eq!(
        room.fail("read", part(4, 1)).await,
        "there is no line 4: a.txt has 3 lines"
    );
    assert_eq!(
        room.fail("read", part(1, 0)).await,
        "limit is 0; it must be 1 or more"
    );
    assert_eq!(
        room.ok(
            "read",
            json!({"path": "a.txt", "offset": "3", "limit": 1.0})
        )
        .await,
        "3\tthree\n(lines 3-3 of 3)"
    );
}

#[tokio::test]
async fn a_crlf_file_keeps_its_line_ends() {
    // C26
    let room = Room::new();
    room.put("a.txt", "one\r\ntwo\r\nthree\r\n");
    let answer = room.edit("a.txt", "one\ntwo", "one\n2").await;
    assert_eq!(answer, "edited a.txt\n1\tone\n2\t2\n3\tthree");
    assert_eq!(room.bytes("a.txt"), b"one\r\n2\r\nthree\r\n");
    room.read("a.txt").await;
    let answer = room.write("a.txt", "p\nq\n").await;
    assert_eq!(
        answer,
        "replaced a.txt (2 lines, 6 bytes; line ends CRLF, as before)"
    );
    assert_eq!(room.bytes("a.txt"), b"p\r\nq\r\n");
}

#[tokio::test]
async fn replacement_is_data_and_the_match_exactly_one() {
    // C27
    let room = Room::new();
    room.put("price", "price=OLD\n");
    let odd = "$1 $& $$ ${x} \\1 \\0 %s";
    room.edit("price", "OLD", odd).await;
    assert_eq!(room.bytes("price"), format!("price={odd}\n").into_bytes());
    room.put("x", "x\nx\nx\n");
    assert_eq!(
        room.no_edit("x", "x", "y").await,
        "old occurs 3 times in x: lines 1, 2, 3; give more of the text around the right one, or \
         set all"
    );
    assert_eq!(
        room.no_edit("x", "", "z").await,
        "old is empty, which is everywhere; give the text to replace, or use write"
    );
    assert_eq!(
        room.no_edit("x", "none", "z").await,
        "old does not occur in x; nothing in it is like that; read the file again"
    );
    assert_eq!(
        room.no_edit("x", "x", "x").await,
        "old and new are the same: there is nothing to do"
    );
    let all = json!({"path": "x", "old": "x", "new": "y", "all": true});
    assert_eq!(
        room.ok("edit", all).await,
        "edited x in 3 places (lines 1, 2, 3)\n1\ty\n2\ty\n3\ty"
    );
}

#[tokio::test]
async fn bytes_that_are_no_utf8_stay() {
    // C28
    let room = Room::new();
    room.put("a", b"x = 1\n# caf\xe9 \x96\n");
    room.edit("a", "x = 1", "x = 2").await;
    assert_eq!(room.bytes("a"), b"x = 2\n# caf\xe9 \x96\n");
    assert_eq!(
        room.no_edit("a", "x = 2", "x = é").await,
        "a is not UTF-8, and how it writes 'é' is not known: only ASCII text can be put into it; \
         convert the file to UTF-8 first, or write those bytes with a shell command"
    );
    assert_eq!(
        room.read("a").await,
        "1\tx = 2\n2\t# café –\n(not UTF-8: shown as Windows-1252, a guess)"
    );
}

#[tokio::test]
async fn modes_and_links_stay() {
    // C29, but for the umask
    let room = Room::new();
    room.put("run.sh", "echo 1\n");
    fs::set_permissions(room.path("run.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    symlink("run.sh", room.path("link.sh")).unwrap();
    room.put("ro.txt", "keep\n");
    fs::set_permissions(room.path("ro.txt"), PermissionsExt::from_mode(0o444)).unwrap();
    room.edit("link.sh", "1", "2").await;
    assert_eq!(room.bytes("run.sh"), b"echo 2\n");
    let mode = |name: &str| fs::metadata(room.path(name)).unwrap().mode() & 0o7777;
    assert_eq!(mode("run.sh"), 0o755);
    assert!(room.path("link.sh").is_symlink());
    let protected = "the file is write-protected by its mode; chmod it first if it may be changed";
    assert_eq!(
        room.no_edit("ro.txt", "keep", "lost").await,
        format!("cannot write ro.txt: {protected}")
    );
    room.read("ro.txt").await;
    assert_eq!(
        room.fail("write", json!({"path": "ro.txt", "content": "lost"}))
            .await,
        format!("cannot replace ro.txt: {protected}")
    );
    assert_eq!(room.bytes("ro.txt"), b"keep\n");
    assert_eq!(
        room.no_patch("*** Begin Patch\n*** Delete File: ro.txt\n*** End Patch\n")
            .await,
        format!("cannot delete ro.txt: {protected}; all is put back, nothing is changed")
    );
    // What was done before that is taken back, with the folders that were made.
    let error = room
        .no_patch(
            "*** Begin Patch\n*** Add File: deep/er/new\n+1\n*** Update File: run.sh\n*** Move to: \
             other/run.sh\n-echo 2\n+echo 3\n*** Delete File: ro.txt\n*** End Patch\n",
        )
        .await;
    assert_eq!(
        error,
        format!("cannot delete ro.txt: {protected}; all is put back, nothing is changed")
    );
    assert_eq!(room.bytes("run.sh"), b"echo 2\n");
    assert_eq!(mode("run.sh"), 0o755);
    assert_eq!(room.names(), ["link.sh", "ro.txt", "run.sh"]);
}

#[tokio::test]
async fn a_stale_view_does_not_overwrite() {
    // C30
    let room = Room::new();
    room.put("a.txt", "1\n");
    room.read("a.txt").await;
    room.put("a.txt", "1\nUSER\n");
    let write = |content: &str| json!({"path": "a.txt", "content": content});
    assert_eq!(
        room.fail("write", write("1\n2\n")).await,
        "a.txt has changed since you last read or wrote it, so it is not replaced; read it again \
         and keep what others did to it"
    );
    assert_eq!(room.bytes("a.txt"), b"1\nUSER\n");
    room.read("a.txt").await;
    room.edit("a.txt", "1", "3").await;
    room.edit("a.txt", "3", "4").await;
    room.write("a.txt", "5\nUSER\n").await;
    room.write("a.txt", "6\nUSER\n").await;
    // Same size, old time.
    let before = fs::metadata(room.path("a.txt")).unwrap();
    room.put("a.txt", "7\nUSER\n");
    let times = FileTimes::new()
        .set_accessed(before.accessed().unwrap())
        .set_modified(before.modified().unwrap());
    File::options()
        .write(true)
        .open(room.path("a.txt"))
        .unwrap()
        .set_times(times)
        .unwrap();
    room.fail("write", write("8\n")).await;
    let answer = room.edit("a.txt", "7", "8").await;
    assert_eq!(
        answer,
        "edited a.txt\n(the file had changed since you last read it; read it again before you rely \
         on the rest)\n1\t8\n2\tUSER"
    );
    room.fail("write", write("8\n")).await;
    assert_eq!(room.bytes("a.txt"), b"8\nUSER\n");
}

#[tokio::test]
async fn access_is_stated() {
    let room = Room::new();
    let access = |name: &str, input: serde_json::Value| {
        let input = tooloop_model::JsonObject::parse(&input.to_string()).unwrap();
        let access = room.tool(name).access(&input).unwrap();
        (access.effect, access.touches)
    };
    let read = |path: &str| Touch::Read(path.into());
    let write = |path: &str| Touch::Write(path.into());
    assert_eq!(
        access("read", json!({"path": "~/a"})),
        (AccessEffect::ReadOnly, vec![read("~/a")])
    );
    assert_eq!(
        access("write", json!({"path": "../a", "content": ""})),
        (AccessEffect::Idempotent, vec![read("../a"), write("../a")])
    );
    assert_eq!(
        access("edit", json!({"path": "/a", "old": "a", "new": "b"})),
        (AccessEffect::Effectful, vec![read("/a"), write("/a")])
    );
}

#[tokio::test]
async fn links_lead_to_one_file_in_one_session() {
    // C31, the part that is not the gate's
    let room = Room::new();
    fs::create_dir(room.path("sub")).unwrap();
    symlink("sub", room.path("in")).unwrap();
    room.write("in/ok.txt", "1\n").await;
    assert_eq!(room.bytes("sub/ok.txt"), b"1\n");
    // What was seen by one path is seen by the other, and not in another session.
    room.write("sub/ok.txt", "2\n").await;
    let other = Room::on(local(), &room.workspace);
    let write = json!({"path": "in/ok.txt", "content": "3\n"});
    assert_eq!(
        other.fail("write", write.clone()).await,
        "in/ok.txt exists and you have not read it, so it is not replaced; read it first, or change \
         a part of it with edit"
    );
    other.read("sub/ok.txt").await;
    other.ok("write", write).await;
    assert!(room.path("in").is_symlink());
}

#[tokio::test]
async fn definitions_are_short() {
    let room = Room::new();
    let length: usize = ["read", "write", "edit", "apply_patch"]
        .into_iter()
        .map(|name| {
            let definition = room.tool(name).definition();
            definition.description.len() + definition.input_schema.get().len()
        })
        .sum();
    assert!(length < 2100, "{length}");
}
