//! What needs a process of its own: a file mode mask, and a death in the middle.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tooloop_tools::WriteAs;

use crate::room::{Room, local};

/// Where a child finds its workspace.
const FOLDER: &str = "TOOLOOP_TEST_FOLDER";

/// How long a file is that is written again and again.
const LENGTH: usize = 300_000;

/// This test program again, with one test, which sees the folder.
fn again(test: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn new_files_obey_the_mask() {
    // C29
    let folder = tempfile::tempdir().unwrap();
    let mut child = again("processes::under_a_mask", folder.path());
    assert!(child.wait().unwrap().success());
    let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().mode() & 0o7777;
    assert_eq!(mode("new.txt"), 0o640);
    assert_eq!(mode("added.txt"), 0o640);
    assert_eq!(mode("sub"), 0o750);
    assert_eq!(mode("run.sh"), 0o755);
}

#[tokio::test]
async fn under_a_mask() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o027));
    let room = Room::on(local(), Path::new(&folder));
    room.put("run.sh", "1\n");
    fs::set_permissions(room.path("run.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    room.write("new.txt", "1\n").await;
    room.edit("run.sh", "1", "2").await;
    room.patch(
        "*** Begin Patch\n*** Add File: added.txt\n+1\n*** Add File: sub/b\n+1\n*** End Patch\n",
    )
    .await;
}

#[test]
fn a_death_in_the_middle_leaves_old_or_new() {
    // C29
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f");
    fs::write(&path, vec![b'a'; LENGTH]).unwrap();
    for round in 0..25 {
        let mut child = again("processes::writes_without_end", folder.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        // That many times it has been written when it is killed, or a few more.
        let mut written = 0;
        while written <= round {
            let mut line = String::new();
            assert_ne!(lines.read_line(&mut line).unwrap(), 0);
            written += usize::from(line.contains("written"));
            check(&path);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        check(&path);
    }
    local().write(&path, b"end", WriteAs::Replacement).unwrap();
    let left: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["f"]);
}

fn check(path: &Path) {
    let mut bytes = Vec::new();
    fs::File::open(path)
        .unwrap()
        .read_to_end(&mut bytes)
        .unwrap();
    assert_eq!(bytes.len(), LENGTH);
    let first = bytes.first().copied().unwrap();
    assert!(bytes.iter().all(|byte| *byte == first));
}

#[test]
fn writes_without_end() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let path = Path::new(&folder).join("f");
    // It ends with the test that started it, however that ends.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    let ops = local();
    for round in 0.. {
        let byte = if round % 2 == 0 { b'b' } else { b'a' };
        ops.write(&path, &vec![byte; LENGTH], WriteAs::Replacement)
            .unwrap();
        println!("written");
    }
}
