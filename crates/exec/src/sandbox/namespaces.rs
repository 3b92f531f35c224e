//! Namespaces of a command: who makes them, and how the helper does it by itself.
//!
//! The helper goes on as the first process of namespaces of its own. The process that it was stays
//! outside, holds nothing, and waits for it, as bubblewrap does.

use std::ffi::{c_int, c_uint};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::bubblewrap::Bubblewrap;
use super::helper::{FAILED, Failure, end};
use super::layout::View;
use super::{mounts, privileges};

/// The namespaces that commands can have here.
#[derive(Debug)]
pub(super) struct Namespaces {
    pub(super) maker: Maker,
    /// A namespace in which root is the owner of all files that it owns outside.
    pub(super) users: Option<OwnedFd>,
    /// Whether network namespaces can be made.
    pub(super) has_network: bool,
}

/// Who makes namespaces.
#[derive(Debug, Clone)]
pub(super) enum Maker {
    /// The helper itself.
    Helper,
    /// A program that may do it also where others may not.
    Bubblewrap(Bubblewrap),
}

/// What the helper is to make before it starts the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Walls {
    /// The descriptor of a namespace of users that is there already.
    pub(super) users: Option<RawFd>,
    /// Whether there is to be a network namespace.
    pub(super) has_network: bool,
    pub(super) view: View,
}

/// Goes on in namespaces of its own. Only the process inside returns.
pub(super) fn enter(walls: &Walls) -> Result<(), Failure> {
    let user = rustix::process::geteuid();
    let (user, group) = (user.as_raw(), rustix::process::getegid().as_raw());
    let mut flags = libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::SIGCHLD;
    if walls.has_network {
        flags |= libc::CLONE_NEWNET;
    }
    match walls.users {
        // SAFETY: a call on this process, which has one thread.
        Some(users) if unsafe { libc::setns(users, libc::CLONE_NEWUSER) } < 0 => {
            return Err(Failure::Namespaces(io::Error::last_os_error()));
        }
        Some(_) => {}
        None => flags |= libc::CLONE_NEWUSER,
    }
    // SAFETY: this process has one thread, so the child may go on as any process.
    let child =
        unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize) };
    if child < 0 {
        return Err(Failure::Namespaces(io::Error::last_os_error()));
    }
    if child > 0 {
        wait_outside(c_int::try_from(child).unwrap_or(0));
    }
    if walls.users.is_none() {
        // As root, without which there are no terminals.
        map((0, user), (0, group)).map_err(Failure::Namespaces)?;
    }
    if walls.has_network {
        raise_loopback().map_err(Failure::Namespaces)?;
    }
    mounts::lay(&walls.view)?;
    if walls.users.is_some() || user == 0 {
        privileges::drop_most(true).map_err(Failure::Privileges)?;
    } else {
        // Again as who it is, and without power over what was made.
        // SAFETY: a call on this process, which has one thread.
        if unsafe { libc::unshare(libc::CLONE_NEWUSER) } < 0 {
            return Err(Failure::Namespaces(io::Error::last_os_error()));
        }
        map((user, 0), (group, 0)).map_err(Failure::Namespaces)?;
        privileges::drop_all().map_err(Failure::Privileges)?;
    }
    Ok(())
}

/// The life of the process outside.
fn wait_outside(child: c_int) -> ! {
    let mut status: c_int = 0;
    // SAFETY: closes descriptors that nothing here uses any more, and waits for the only child.
    unsafe {
        libc::syscall(libc::SYS_close_range, 0, c_uint::MAX, 0);
        while libc::waitpid(child, &raw mut status, libc::__WALL) < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }
    if libc::WIFEXITED(status) {
        end(libc::WEXITSTATUS(status));
    }
    end(FAILED)
}

/// Lets one user and one group of a new namespace, the first ones, stand for those outside.
fn map(user: (u32, u32), group: (u32, u32)) -> io::Result<()> {
    let line = |(inside, outside)| format!("{inside} {outside} 1\n");
    fs::write("/proc/self/uid_map", line(user))?;
    // Else no group can be mapped.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/gid_map", line(group))
}

/// Makes 127.0.0.1 and `::1` be there.
fn raise_loopback() -> io::Result<()> {
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: plain data, for which zeroes are a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(b"lo") {
        *place = byte.cast_signed();
    }
    let is_up = libc::c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING);
    request.ifr_ifru.ifru_flags = is_up.map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the call reads the struct it is given.
    let set = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if set < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
