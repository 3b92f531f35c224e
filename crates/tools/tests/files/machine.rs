//! The tools on another machine than this one.

use serde_json::json;

use crate::memory::memory;

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
    #[derive(Debug)]
    struct Breaks(std::sync::Arc<crate::memory::Memory>);
    // The second write breaks the disk under the first one, too.
    impl tooloop_tools::Ops for Breaks {
        fn execute(
            &self,
            command: tooloop_exec::Command,
        ) -> tooloop_tools::OpsFuture<'_, Result<tooloop_exec::Outcome, tooloop_exec::StartError>>
        {
            self.0.execute(command)
        }
        fn open(&self, path: &std::path::Path) -> std::io::Result<tooloop_tools::OpenFile> {
            self.0.open(path)
        }
        fn write(
            &self,
            path: &std::path::Path,
            contents: &[u8],
            write_as: tooloop_tools::WriteAs,
        ) -> std::io::Result<std::path::PathBuf> {
            if path.ends_with("two") {
                let all = ["/w/one".into(), "/w/two".into()];
                self.0.faults.lock().unwrap().extend(all);
            }
            self.0.write(path, contents, write_as)
        }
        fn rename(&self, from: &std::path::Path, to: &std::path::Path) -> std::io::Result<()> {
            self.0.rename(from, to)
        }
        fn remove(&self, path: &std::path::Path) -> std::io::Result<()> {
            self.0.remove(path)
        }
        fn list(
            &self,
            folder: &std::path::Path,
            most: usize,
        ) -> std::io::Result<tooloop_tools::Listing> {
            self.0.list(folder, most)
        }
    }
    let (machine, _) = memory();
    machine.put("/w/one", b"1\n");
    machine.put("/w/two", b"1\n");
    let room = crate::room::Room::on(
        std::sync::Arc::new(Breaks(machine)),
        std::path::Path::new("/w"),
    );
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
