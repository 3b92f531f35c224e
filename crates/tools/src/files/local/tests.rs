//! What the tools' tests cannot reach: files that have a name on their way.

use std::os::unix::fs::PermissionsExt;

use rustix::fs::{FlockOperation, flock};

use super::*;

fn names(folder: &Path) -> Vec<String> {
    let listing = list(folder, 100).unwrap();
    let name = |entry: FolderEntry| entry.name.into_string().unwrap();
    listing.entries.into_iter().map(name).collect()
}

#[test]
fn a_named_file_takes_its_place_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    for stage in [staged::nameless as Stage, staged::named] {
        let new = WriteAs::New { mode: None };
        write_by(&path, b"one", new, stage).unwrap();
        let again = write_by(&path, b"two", new, stage).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        fs::set_permissions(&path, PermissionsExt::from_mode(0o4751)).unwrap();
        write_by(&path, b"three", WriteAs::Replacement, stage).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
        assert_eq!(fs::metadata(&path).unwrap().mode() & MODE_BITS, 0o4751);
        assert_eq!(names(folder.path()), ["a.txt"]);
        remove(&path).unwrap();
        let gone = write_by(&path, b"four", WriteAs::Replacement, stage).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
        assert!(names(folder.path()).is_empty());
    }
}

#[test]
fn what_a_killed_write_left_is_cleared_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    for name in [
        ".a.txt.tooloop-1f",
        ".a.txt.tooloop-2f",
        ".a.txt.tooloop-notes",
        ".b.txt.tooloop-1f",
    ] {
        fs::write(folder.path().join(name), "half").unwrap();
    }
    let busy = File::open(folder.path().join(".a.txt.tooloop-2f")).unwrap();
    flock(&busy, FlockOperation::LockExclusive).unwrap();
    write(&path, b"whole", WriteAs::New { mode: None }).unwrap();
    assert_eq!(
        names(folder.path()),
        [
            ".a.txt.tooloop-2f",
            ".a.txt.tooloop-notes",
            ".b.txt.tooloop-1f",
            "a.txt"
        ]
    );
}

#[test]
fn long_names_have_room_for_their_temporary_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("n".repeat(255));
    write_by(&path, b"", WriteAs::New { mode: None }, staged::named).unwrap();
    write(&path, b"1", WriteAs::Replacement).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"1");
}

#[test]
fn links_that_lead_nowhere_are_not_written_through() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("/nowhere/at/all", &link).unwrap();
    let error = write(&link, b"", WriteAs::New { mode: None }).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(
        error.to_string(),
        "it is a link to /nowhere/at/all, where nothing is"
    );
    rename(&link, &folder.path().join("sub/moved")).unwrap();
    remove(&folder.path().join("sub/moved")).unwrap();
    remove(&folder.path().join("sub")).unwrap();
    assert!(names(folder.path()).is_empty());
}

#[test]
fn attributes_stay() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, "1").unwrap();
    // Not every file system has them.
    if setxattr(&path, "user.note", b"kept", XattrFlags::empty()).is_ok() {
        write(&path, b"2", WriteAs::Replacement).unwrap();
        let mut value = vec![0_u8; 10];
        let length = getxattr(&path, "user.note", &mut value).unwrap();
        assert_eq!(value.get(..length).unwrap(), b"kept");
    }
}

#[test]
fn a_listing_holds_the_first_names() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["c", "a", "d", "b"] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    let listing = list(folder.path(), 3).unwrap();
    assert_eq!(listing.left_out, 1);
    assert_eq!(names(folder.path()), ["a", "b", "c", "d"]);
    assert_eq!(listing.entries.last().unwrap().name, "c");
}

#[test]
fn an_owner_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, "1").unwrap();
    // Only root can give files away.
    if std::os::unix::fs::chown(&path, Some(4321), Some(1234)).is_ok() {
        fs::set_permissions(&path, PermissionsExt::from_mode(0o6755)).unwrap();
        write(&path, b"2", WriteAs::Replacement).unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (4321, 1234));
        assert_eq!(metadata.mode() & MODE_BITS, 0o6755);
    }
}
