//! Gives up what makes root more than an owner of files.

use std::ffi::c_int;
use std::io;

/// Those that are kept, by their numbers, where a process has them: to own files (`CHOWN`,
/// `DAC_OVERRIDE`, `DAC_READ_SEARCH`, `FOWNER`, `FSETID`), to become another user (`SETGID`,
/// `SETUID`), and to serve on low ports (`NET_BIND_SERVICE`).
const KEPT: [c_int; 8] = [0, 1, 2, 3, 4, 6, 7, 10];

/// To signal processes of other users.
const KILL: c_int = 5;

/// No kernel has more than these.
const ALL: c_int = 64;

#[repr(C)]
struct Header {
    version: u32,
    pid: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Half {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Gives up all capabilities but the kept ones, and new ones for good.
pub(super) fn drop_most(keeps_kill: bool) -> io::Result<()> {
    drop_but(|number| KEPT.contains(&number) || (keeps_kill && number == KILL))
}

/// Gives up all capabilities, and new ones for good.
pub(super) fn drop_all() -> io::Result<()> {
    drop_but(|_| false)
}

fn drop_but(is_kept: impl Fn(c_int) -> bool) -> io::Result<()> {
    for number in (0..ALL).filter(|number| !is_kept(*number)) {
        // SAFETY: a call on this process's own state. It fails for who has none to give up, and
        // for numbers that the kernel does not have.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) };
    }
    let mut header = Header {
        version: 0x2008_0522,
        pid: 0,
    };
    let mut halves = [Half::default(); 2];
    // SAFETY: the structs are those that this version of the call reads and fills.
    let mut result =
        unsafe { libc::syscall(libc::SYS_capget, &raw mut header, halves.as_mut_ptr()) };
    let mut mask = [0_u32; 2];
    for number in (0..ALL).filter(|number| is_kept(*number)) {
        if let Some(half) = mask.get_mut(usize::from(number >= 32)) {
            *half |= 1 << (number % 32);
        }
    }
    for (half, mask) in halves.iter_mut().zip(mask) {
        half.effective &= mask;
        half.permitted &= mask;
        half.inheritable = 0;
    }
    if result == 0 {
        // SAFETY: as above. Giving up is always allowed.
        result = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, halves.as_ptr()) };
    }
    // SAFETY: a call on this process's own state.
    if result == 0 && unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}
