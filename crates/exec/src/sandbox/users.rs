//! A namespace of users in which root keeps its files, and those of others.
//!
//! The one that bubblewrap makes knows root alone; in it, root could not write to a workspace of
//! another user.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::ptr;

use crate::platform::Blocked;

/// Makes one in which every user stands for itself. Only root can.
pub(super) fn identity() -> io::Result<OwnedFd> {
    let map = identity_map(&fs::read_to_string("/proc/self/uid_map")?);
    let groups = identity_map(&fs::read_to_string("/proc/self/gid_map")?);
    let flags = libc::CLONE_NEWUSER | libc::SIGCHLD;
    let blocked = Blocked::all();
    // SAFETY: a fork whose child only waits to be killed. All signals are blocked, so none of the
    // handlers of this process runs in it.
    let child =
        unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize) };
    if child == 0 {
        // SAFETY: system calls on the child's own state.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
            loop {
                libc::pause();
            }
        }
    }
    let error = io::Error::last_os_error();
    drop(blocked);
    if child < 0 {
        return Err(error);
    }
    let made = fs::write(format!("/proc/{child}/uid_map"), map)
        .and_then(|()| fs::write(format!("/proc/{child}/gid_map"), groups))
        .and_then(|()| File::open(format!("/proc/{child}/ns/user")));
    let child = i32::try_from(child).unwrap_or(0);
    if child > 1 {
        // SAFETY: the child is ours, and nobody else waits for it.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, ptr::null_mut(), 0);
        }
    }
    Ok(made?.into())
}

/// Lines of: number inside, number outside, count. Those outside are ours inside.
fn identity_map(own: &str) -> String {
    own.lines()
        .filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let (inside, count) = (fields.next()?, fields.nth(1)?);
            Some(format!("{inside} {inside} {count}\n"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::identity_map;

    #[test]
    fn every_user_stands_for_itself() {
        assert_eq!(
            identity_map("         0     100000      65536\n     70000          5          1\n"),
            "0 0 65536\n70000 70000 1\n"
        );
    }
}
