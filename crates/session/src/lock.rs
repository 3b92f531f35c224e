//! One writer a session.
//!
//! The lock is the kernel's, on the session file itself, so that it ends with the process that
//! holds it, by whatever death, and leaves no file behind.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::StoreError;

/// Opens a journal for writing, under its lock.
pub(crate) fn open(path: &Path) -> Result<File, StoreError> {
    // Where a repair has just put another file in its place, that one is meant.
    for _ in 0..3 {
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .open(path)
            .map_err(StoreError::io("open", path))?;
        if !take(&file).map_err(StoreError::io("lock", path))? {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            return Err(StoreError::Locked {
                session: name.into_owned(),
                holder: holder(&file),
            });
        }
        let own = file.metadata().map_err(StoreError::io("look at", path))?;
        let named = std::fs::metadata(path).map_err(StoreError::io("look at", path))?;
        if (own.dev(), own.ino()) == (named.dev(), named.ino()) {
            return Ok(file);
        }
    }
    let changing = io::Error::other("other files are put in its place again and again");
    Err(StoreError::io("open", path)(changing))
}

/// Takes the lock.
pub(crate) fn take(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        // Some network file systems know no locks: one writer cannot be kept there.
        Err(rustix::io::Errno::NOTSUP | rustix::io::Errno::NOLCK) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// The process that holds the lock, where the system tells.
///
/// The list may change between two reads of it, and what moves in it may be missed; so it is read
/// in pieces as large as the kernel gives, and looked at again where the lock is not in it.
pub(crate) fn holder(file: &File) -> Option<u32> {
    let inode = file.metadata().ok()?.ino().to_string();
    (0..3).find_map(|_| find(&list().ok()?, &inode))
}

/// Lines such as `1: FLOCK  ADVISORY  WRITE 1234 fe:00:131 0 EOF`.
fn list() -> io::Result<String> {
    let mut locks = File::open("/proc/locks")?;
    let mut bytes = Vec::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        match locks.read(&mut piece)? {
            0 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            length => bytes.extend_from_slice(piece.get(..length).unwrap_or_default()),
        }
    }
}

fn find(locks: &str, inode: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        if words.next() != Some("FLOCK") {
            return None;
        }
        let pid = words.nth(2)?;
        let place = words.next()?;
        (place.rsplit(':').next() == Some(inode))
            .then(|| pid.parse().ok())
            .flatten()
    })
}
