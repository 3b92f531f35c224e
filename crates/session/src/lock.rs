//! One writer a session.
//!
//! The lock is the kernel's, on the session file itself, so that it ends with the process that
//! holds it, by whatever death, and leaves no file behind.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;

use rustix::fs::{FlockOperation, flock};

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
