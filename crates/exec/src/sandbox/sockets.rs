//! Decides which services on sockets in the file system a command connects to.
//!
//! No mount and no rule on files keeps a process from connecting to a socket that it sees. So seccomp
//! asks the first process of the namespace at each `connect`, and that process makes the connection
//! itself: on a duplicate of the command's socket, to an address that it has read once. The kernel
//! never reads the arguments of the command again, so nothing can be exchanged after the decision.
//!
//! A path leads to a socket that a command may connect to if the socket lies where the command
//! writes. Datagram sockets of this family cannot be made at all (see `filter`), since each message
//! that they send can have an address of its own.

use std::ffi::{OsStr, c_int};
use std::fs::{self, File};
use std::io::{IoSlice, IoSliceMut};
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fcntl_getfl, fstat, open, openat2};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg, sockopt::socket_domain,
};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// How many connections that wait there may be at a time.
const MOST: usize = 256;

/// The stack of a thread that only waits for a connection.
const STACK: usize = 128 * 1024;

/// No address is longer.
const LONGEST: usize = 128;

/// Where the text of an address begins.
const FAMILY: usize = 2;

/// Has each `connect` of this process, and of those that it starts, decided by the holder of the
/// other end of the stream. It must have given up new privileges.
pub(super) fn ask(stream: &UnixStream) -> Result<(), Errno> {
    const LOAD: u16 = 0x20;
    const EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    let line = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let connect = u32::try_from(libc::SYS_connect).map_err(|_| Errno::NOSYS)?;
    let mut lines = [
        line(LOAD, 0, 0, 0),
        line(EQUAL, 0, 1, connect),
        line(RETURN, 0, 0, libc::SECCOMP_RET_USER_NOTIF),
        line(RETURN, 0, 0, ALLOW),
    ];
    let program = libc::sock_fprog {
        len: 4,
        filter: lines.as_mut_ptr(),
    };
    let set = |flags: libc::c_ulong| {
        // SAFETY: the program and its lines live for the call.
        unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const program,
            )
        }
    };
    let plain = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    // Older kernels restart the call at each signal.
    let mut listener = set(plain | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
    if listener < 0 {
        listener = set(plain);
    }
    if listener < 0 {
        return Err(last_error());
    }
    let listener = c_int::try_from(listener).map_err(|_| Errno::BADF)?;
    // SAFETY: the descriptor is new, and nothing else owns it.
    let listener = unsafe { OwnedFd::from_raw_fd(listener) };
    let handed = [listener.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&handed));
    sendmsg(
        stream,
        &[IoSlice::new(b"x")],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// Decides for as long as this process lives. `writable`: below which paths sockets can be
/// connected to.
pub(super) fn decide(stream: &UnixStream, writable: &[PathBuf]) {
    let Some(listener) = received(stream) else {
        return;
    };
    let listener = Arc::new(listener);
    let waiting = Arc::new(AtomicUsize::new(0));
    loop {
        // SAFETY: plain data, for which zeroes are a value; the kernel wants them.
        let mut asked: libc::seccomp_notif = unsafe { mem::zeroed() };
        // SAFETY: the call fills the struct.
        let got = unsafe {
            libc::ioctl(
                listener.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_RECV as _,
                &raw mut asked,
            )
        };
        if got < 0 {
            match last_error() {
                // Who asked is gone already.
                Errno::INTR | Errno::NOENT => continue,
                _ => return,
            }
        }
        match prepared(&listener, &asked, writable) {
            Err(error) => answer(&listener, asked.id, Err(error)),
            Ok(call) if call.is_short => answer(&listener, asked.id, call.make()),
            Ok(call) => {
                if waiting.fetch_add(1, Ordering::Relaxed) >= MOST {
                    waiting.fetch_sub(1, Ordering::Relaxed);
                    answer(&listener, asked.id, Err(Errno::AGAIN));
                    continue;
                }
                let (own, count) = (Arc::clone(&listener), Arc::clone(&waiting));
                let started = thread::Builder::new().stack_size(STACK).spawn(move || {
                    answer(&own, asked.id, call.make());
                    count.fetch_sub(1, Ordering::Relaxed);
                });
                if started.is_err() {
                    waiting.fetch_sub(1, Ordering::Relaxed);
                    answer(&listener, asked.id, Err(Errno::AGAIN));
                }
            }
        }
    }
}

fn received(stream: &UnixStream) -> Option<OwnedFd> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut byte)];
    recvmsg(stream, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
    control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut handed) => handed.next(),
        _ => None,
    })
}

/// A connection that is to be made for a command.
struct Call {
    socket: OwnedFd,
    address: Vec<u8>,
    /// The socket that the address leads to, by its descriptor. Open for as long as the call.
    _service: Option<OwnedFd>,
    /// Whether it does not wait.
    is_short: bool,
}

impl Call {
    fn make(&self) -> Result<(), Errno> {
        let length = libc::socklen_t::try_from(self.address.len()).map_err(|_| Errno::INVAL)?;
        // SAFETY: the pointer and the length are those of the bytes, which the kernel only reads.
        let made = unsafe {
            libc::connect(
                self.socket.as_raw_fd(),
                self.address.as_ptr().cast::<libc::sockaddr>(),
                length,
            )
        };
        if made < 0 { Err(last_error()) } else { Ok(()) }
    }
}

/// Reads what a command wants to connect to, and decides.
fn prepared(
    listener: &OwnedFd,
    asked: &libc::seccomp_notif,
    writable: &[PathBuf],
) -> Result<Call, Errno> {
    let [number, place, length, ..] = asked.data.args;
    let thread = asked.pid;
    let number = c_int::try_from(number & u64::from(u32::MAX)).map_err(|_| Errno::BADF)?;
    let length = usize::try_from(length & u64::from(u32::MAX)).map_err(|_| Errno::INVAL)?;
    if length > LONGEST {
        return Err(Errno::INVAL);
    }
    let process = group_of(thread).ok_or(Errno::SRCH)?;
    let process = pidfd_open(process, PidfdFlags::empty())?;
    let socket = pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).map_err(refused)?;
    let mut address = vec![0; length];
    let memory = File::open(format!("/proc/{thread}/mem")).map_err(|_| Errno::ACCESS)?;
    memory
        .read_exact_at(&mut address, place)
        .map_err(|_| Errno::FAULT)?;
    let directory = open(
        format!("/proc/{thread}/cwd"),
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(refused)?;
    // Its number may belong to another process by now: then all of this is of that one.
    // SAFETY: the call reads the number.
    let is_valid = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_ID_VALID as _,
            &raw const asked.id,
        )
    };
    if is_valid < 0 {
        return Err(Errno::SRCH);
    }
    let is_short = fcntl_getfl(&socket)?.contains(OFlags::NONBLOCK);
    let mut service = None;
    if socket_domain(&socket)? == AddressFamily::UNIX
        && let Some(path) = path_of(&address)
    {
        let place = allowed(&directory, path, writable)?;
        address.truncate(FAMILY);
        address.extend(format!("/proc/self/fd/{}\0", place.as_raw_fd()).bytes());
        service = Some(place);
    }
    Ok(Call {
        socket,
        address,
        _service: service,
        is_short,
    })
}

/// The path of an address; `None` if it has none.
fn path_of(address: &[u8]) -> Option<&Path> {
    let (family, text) = address.split_at_checked(FAMILY)?;
    let family = u16::from_ne_bytes(family.try_into().ok()?);
    if c_int::from(family) != libc::AF_UNIX {
        return None;
    }
    let end = text.iter().position(|byte| *byte == 0);
    let path = text.get(..end.unwrap_or(text.len()))?;
    (!path.is_empty()).then(|| Path::new(OsStr::from_bytes(path)))
}

/// The socket at a path, if a command may connect to it.
fn allowed(directory: &OwnedFd, path: &Path, writable: &[PathBuf]) -> Result<OwnedFd, Errno> {
    // Links that the kernel makes lead to what this process has open, not the command.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_MAGICLINKS;
    let place = match openat2(directory, path, flags, Mode::empty(), resolve) {
        Err(Errno::LOOP) => Err(Errno::ACCESS),
        place => place,
    }?;
    if FileType::from_raw_mode(fstat(&place)?.st_mode) != FileType::Socket {
        return Err(Errno::CONNREFUSED);
    }
    let real = fs::read_link(format!("/proc/self/fd/{}", place.as_raw_fd()));
    let real = real.map_err(|_| Errno::ACCESS)?;
    let is_allowed = writable.iter().any(|folder| real.starts_with(folder));
    is_allowed.then_some(place).ok_or(Errno::ACCESS)
}

/// The process of a thread.
fn group_of(thread: u32) -> Option<Pid> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    Pid::from_raw(line.trim().parse().ok()?)
}

/// The error of a command for what cannot be looked at.
fn refused(error: Errno) -> Errno {
    match error {
        Errno::PERM => Errno::ACCESS,
        error => error,
    }
}

fn answer(listener: &OwnedFd, id: u64, result: Result<(), Errno>) {
    let answer = libc::seccomp_notif_resp {
        id,
        val: 0,
        error: result.map_or_else(|error| -error.raw_os_error(), |()| 0),
        flags: 0,
    };
    // The process that asked may have ended.
    // SAFETY: the call reads the struct.
    unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_SEND as _,
            &raw const answer,
        );
    }
}

fn last_error() -> Errno {
    let error = std::io::Error::last_os_error();
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_to_its_first_zero() {
        let unix = u16::try_from(libc::AF_UNIX).unwrap().to_ne_bytes();
        let of = |text: &[u8]| [&unix[..], text].concat();
        for (address, path) in [
            (of(b"/a/s\0/b"), Some("/a/s")),
            (of(b"s"), Some("s")),
            (of(b"\0abstract"), None),
            (of(b""), None),
            (vec![2, 0, 1, 1], None),
            (vec![1], None),
        ] {
            assert_eq!(path_of(&address), path.map(Path::new), "{address:?}");
        }
    }

    #[test]
    fn only_sockets_in_writable_directories_are_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["in", "out"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        let _services = ["in/s", "out/s"]
            .map(|name| std::os::unix::net::UnixListener::bind(root.join(name)).unwrap());
        std::os::unix::fs::symlink("../out/s", root.join("in/link")).unwrap();
        fs::write(root.join("in/file"), "").unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let directory = open(root.join("in"), flags, Mode::empty()).unwrap();
        let writable = [root.join("in")];
        let own = format!("/proc/self/fd/{}", directory.as_raw_fd());
        for (path, expected) in [
            ("s", None),
            ("../in/s", None),
            ("../out/s", Some(Errno::ACCESS)),
            ("link", Some(Errno::ACCESS)),
            ("file", Some(Errno::CONNREFUSED)),
            ("none", Some(Errno::NOENT)),
            (&own, Some(Errno::ACCESS)),
        ] {
            let found = allowed(&directory, Path::new(path), &writable);
            assert_eq!(found.err(), expected, "{path}");
        }
    }
}
