//! One writer a session.
//!
//! The lock is the kernel's, on the session file itself, so that it ends with the process that
//! holds it, by whatever death, and leaves no file behind.

use std::fs::{self, File};
use std::io;
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

/// The process that holds the lock, where the system tells: lines such as
/// `1: FLOCK  ADVISORY  WRITE 1234 fe:00:131 0 EOF`.
pub(crate) fn holder(file: &File) -> Option<u32> {
    let inode = file.metadata().ok()?.ino().to_string();
    let locks = fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        if words.next() != Some("FLOCK") {
            return None;
        }
        let pid = words.nth(2)?;
        let place = words.next()?;
        (place.rsplit(':').next() == Some(inode.as_str()))
            .then(|| pid.parse().ok())
            .flatten()
    })
}
