//! What a process says about itself.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{DumpableBehavior, getpid, set_child_subreaper, set_dumpable_behavior};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Makes this process the one that inherits the orphans of its commands.
///
/// For programs that are theirs alone, to be called once at the start: what a command leaves
/// behind, even where it cut all ties to its shell, then becomes a child of this process, so that
/// it is found at once and ends with the run. Orphans that exit are reaped as soon as commands run;
/// other children of the process are left alone. A library inside another program skips this: what
/// commands leave behind is then found by session and by a mark in the environment.
///
/// # Errors
/// The kernel refuses it.
pub fn own_process() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Hides the memory and the start environment of this process from other processes of the same
/// user, so that commands cannot read there what their own environment does not hold.
///
/// There is no core dump of such a process and no debugger can attach. It does nothing against
/// commands that run as root.
///
/// # Errors
/// The kernel refuses it.
pub fn hide_memory() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

pub(crate) fn is_subreaper() -> bool {
    rustix::process::child_subreaper().is_ok_and(|reaper| reaper.is_some())
}

/// Has the runtime tell when a descriptor can be read.
pub(crate) fn readable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    watched(descriptor, Interest::READABLE)
}

/// Has the runtime tell when a descriptor is ready.
pub(crate) fn watched(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an owned descriptor is open, and stays the same one until it is dropped.
    Ok(unsafe { AsyncFd::register_with_interest(descriptor, interest) }?)
}

/// Sixteen hexadecimal digits that no other run has.
pub(crate) fn random_id() -> String {
    let mut bytes = [0_u8; 8];
    // SAFETY: the pointer and the length are those of `bytes`.
    let filled = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    let mut number = u64::from_ne_bytes(bytes);
    if filled != 8 {
        // Without a source of chance: the process and the time will do.
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        number = (u64::from(std::process::id()) << 40) ^ now.as_micros() as u64;
    }
    format!("{number:016x}")
}
