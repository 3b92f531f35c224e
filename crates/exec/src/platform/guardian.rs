//! A process that outlives the harness for a moment and ends what the harness left.
//!
//! However the harness ends, SIGKILL included, the connection that it holds to its guardian closes.
//! The guardian then kills the sessions and processes it was told of and all processes that carry
//! the mark of the run, until none is left or its time is up.
//!
//! It is a fork that never becomes another program: a child of a process with many threads. So it
//! makes system calls only: no allocation, no lock, no panic. It holds none of the harness's
//! descriptors.

use std::ffi::{CStr, c_int, c_long, c_uint, c_void};
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::ptr;
use std::sync::Arc;

use super::memory::{argument_memory, give_back_memory, rename_arguments};
use super::spawn::Blocked;
use super::table::MARK;

/// How many sessions and how many single processes a guardian can remember. What is beyond is
/// still found by its mark.
const REMEMBERED: usize = 1024;

/// For how long a guardian goes on looking.
const PATIENCE_MILLISECONDS: i64 = 2000;

/// How many looks in a row must find nothing. One is not enough: a process that is just becoming
/// another program has no environment to read, and one that has just begun may be missed.
const CLEAN_LOOKS: u32 = 10;

/// The harness's end of the connection.
#[derive(Debug)]
pub(crate) struct Guardian {
    connection: Arc<UnixStream>,
    pid: i32,
}

/// What a guardian is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Note {
    /// A session is to be ended with the harness.
    Session(i32),
    /// It has ended.
    SessionGone(i32),
    /// A process is to be ended with the harness.
    Process(i32),
    /// It has ended.
    ProcessGone(i32),
    /// The harness has ended everything itself.
    Farewell,
}

impl Note {
    const fn bytes(self) -> [u8; 8] {
        let (kind, id) = match self {
            Self::Session(id) => (1, id),
            Self::SessionGone(id) => (2, id),
            Self::Process(id) => (3, id),
            Self::ProcessGone(id) => (4, id),
            Self::Farewell => (5, 0),
        };
        ((id as i64) << 8 | kind).to_ne_bytes()
    }

    /// Sends it, with system calls only; says whether it could.
    pub(super) fn send(self, connection: RawFd) -> bool {
        let bytes = self.bytes();
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: the pointer and the length are those of `bytes`.
        let sent = unsafe { libc::send(connection, bytes.as_ptr().cast(), bytes.len(), flags) };
        sent >= 0
    }
}

impl Guardian {
    /// Forks the guardian of a run.
    pub(crate) fn start(run: &str) -> io::Result<Self> {
        let (connection, theirs) = UnixStream::pair()?;
        let mut needle = [0_u8; 16];
        for (place, byte) in needle.iter_mut().zip(run.bytes()) {
            *place = byte;
        }
        let arguments = argument_memory();
        let blocked = Blocked::all();
        // A fork that sends no signal at its end, so that nobody else waits for it by accident.
        // SAFETY: the child runs `guard` and nothing else, which makes system calls only and does
        // not return. All signals are blocked, so none of the harness's handlers runs in it.
        let pid =
            unsafe { libc::syscall(libc::SYS_clone, 0_usize, 0_usize, 0_usize, 0_usize, 0_usize) };
        let pid = pid as i32;
        if pid == 0 {
            guard(theirs.as_raw_fd(), &needle, arguments);
        }
        let error = io::Error::last_os_error();
        drop(blocked);
        if pid < 0 {
            return Err(error);
        }
        Ok(Self {
            connection: Arc::new(connection),
            pid,
        })
    }

    /// What hangs up when the guardian is gone.
    pub(crate) fn connection(&self) -> Arc<UnixStream> {
        Arc::clone(&self.connection)
    }

    /// Tells the guardian something.
    ///
    /// A note that is lost since too many wait only costs time: what it is about carries the mark.
    ///
    /// # Errors
    /// The guardian is gone.
    pub(crate) fn tell(&self, note: Note) -> io::Result<()> {
        if note.send(self.connection.as_raw_fd()) {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Err(error),
            _ => Ok(()),
        }
    }

    /// Closes the connection and waits until the guardian is gone.
    pub(crate) fn dismiss(self) {
        // Others may still watch it. What is gone already cannot be told.
        self.connection.shutdown(Shutdown::Both).unwrap_or_default();
        // SAFETY: the child is ours and nobody else waits for it.
        while unsafe { libc::waitpid(self.pid, ptr::null_mut(), libc::__WALL) } < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }
}

/// What the guardian remembers, on its own stack.
struct Memory {
    run: [u8; 16],
    own: i32,
    sessions: [i32; REMEMBERED],
    processes: [i32; REMEMBERED],
}

/// The life of a guardian.
fn guard(connection: RawFd, run: &[u8; 16], arguments: Option<(usize, usize)>) -> ! {
    // SAFETY: system calls on this process's own state. It is alone in its copy of the memory.
    let own = unsafe {
        // A session of its own, away from the terminal's signals.
        libc::setsid();
        libc::chdir(c"/".as_ptr());
        libc::prctl(libc::PR_SET_NAME, c"process-guard".as_ptr());
        close_all_but(connection);
        libc::getpid()
    };
    if let Some((start, end)) = arguments {
        rename_arguments(start, end);
    }
    give_back_memory();
    let mut memory = Memory {
        run: *run,
        own,
        sessions: [0; REMEMBERED],
        processes: [0; REMEMBERED],
    };
    if listen(connection, &mut memory) {
        end_all(&memory);
    }
    // SAFETY: ends this process without running anything of the harness's.
    unsafe { libc::_exit(0) }
}

/// Hears notes until the harness is gone; `false` if it left nothing.
fn listen(connection: RawFd, memory: &mut Memory) -> bool {
    loop {
        let mut note = [0_u8; 8];
        // SAFETY: the pointer and the length are those of `note`. Notes are written whole, and so
        // read whole.
        let length = unsafe { libc::read(connection, note.as_mut_ptr().cast(), note.len()) };
        if length < 0 && errno() == libc::EINTR {
            continue;
        }
        if length != 8 {
            return true;
        }
        let note = i64::from_ne_bytes(note);
        let id = (note >> 8) as i32;
        match note & 0xff {
            1 => replace(&mut memory.sessions, 0, id),
            2 => replace(&mut memory.sessions, id, 0),
            3 => replace(&mut memory.processes, 0, id),
            4 => replace(&mut memory.processes, id, 0),
            _ => return false,
        }
    }
}

fn replace(list: &mut [i32], old: i32, new: i32) {
    if let Some(place) = list.iter_mut().find(|place| **place == old) {
        *place = new;
    }
}

fn end_all(memory: &Memory) {
    // SAFETY: `kill` with numbers that the harness told us of and kept alive or unreaped.
    unsafe {
        for session in memory.sessions.iter().filter(|session| **session > 1) {
            libc::kill(-session, libc::SIGKILL);
        }
        for process in memory.processes.iter().filter(|process| **process > 1) {
            libc::kill(*process, libc::SIGKILL);
        }
    }
    let start = milliseconds();
    let mut clean = 0;
    while clean < CLEAN_LOOKS && milliseconds() - start < PATIENCE_MILLISECONDS {
        clean = match kill_found(memory) {
            0 => clean + 1,
            _ => 0,
        };
        pause();
    }
}

fn milliseconds() -> i64 {
    // SAFETY: the call fills the plain struct it is given.
    unsafe {
        let mut now: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now);
        now.tv_sec * 1000 + now.tv_nsec / 1_000_000
    }
}

fn pause() {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 5_000_000,
    };
    // SAFETY: the call reads the struct it is given.
    unsafe { libc::nanosleep(&raw const time, ptr::null_mut()) };
}

/// Looks through the table of processes once, kills what belongs to the run, and counts it.
fn kill_found(memory: &Memory) -> u32 {
    let Some(folder) = open(c"/proc", libc::O_RDONLY | libc::O_DIRECTORY) else {
        return 0;
    };
    let mut found = 0;
    let mut entries = Entries { bytes: [0; 4096] };
    loop {
        let room = entries.bytes.len() as c_long;
        // SAFETY: the pointer and the length are those of the aligned buffer.
        let length = unsafe {
            libc::syscall(
                libc::SYS_getdents64,
                folder as c_long,
                entries.bytes.as_mut_ptr().cast::<c_void>(),
                room,
            )
        };
        let Some(mut rest) = usize::try_from(length)
            .ok()
            .filter(|length| *length > 0)
            .and_then(|length| entries.bytes.get(..length))
        else {
            break;
        };
        // A record: inode (8), offset (8), length (2), kind (1), name up to a NUL.
        while let (Some(&[low, high]), Some(name)) = (rest.get(16..18), rest.get(19..)) {
            if let Some(pid) = number(name, 0)
                && pid > 1
                && pid != memory.own
                && belongs(folder, name, memory)
            {
                // SAFETY: the process was found to belong to the run a moment ago.
                unsafe { libc::kill(pid, libc::SIGKILL) };
                found += 1;
            }
            rest = rest
                .get(usize::from(u16::from_ne_bytes([low, high])).max(1)..)
                .unwrap_or_default();
        }
    }
    // SAFETY: the descriptor is ours and not used again.
    unsafe { libc::close(folder) };
    found
}

#[repr(align(8))]
struct Entries {
    bytes: [u8; 4096],
}

/// Whether the process of this entry of `/proc` is alive and of the run.
fn belongs(folder: RawFd, name: &[u8], memory: &Memory) -> bool {
    let mut stat = [0_u8; 512];
    let length = read_start(folder, name, b"/stat\0", &mut stat);
    let stat = stat.get(..length).unwrap_or_default();
    // The name of the program is in parentheses and may hold anything.
    let Some(end) = stat.iter().rposition(|byte| *byte == b')') else {
        return false;
    };
    let fields = stat.get(end + 2..).unwrap_or_default();
    if matches!(fields.first(), None | Some(b'Z' | b'X' | b'x')) {
        return false;
    }
    // State, parent, group, session.
    let mut spaces = fields
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b' ')
        .map(|(at, _)| at + 1);
    let mut field = |skip| number(fields.get(spaces.nth(skip)?..)?, b' ');
    let group = field(1);
    let session = field(0);
    let remembered = |id: Option<i32>| id.is_some_and(|id| id > 1 && memory.sessions.contains(&id));
    remembered(group) || remembered(session) || is_marked(folder, name, memory)
}

/// Whether the environment of a process holds the mark of the run.
fn is_marked(folder: RawFd, name: &[u8], memory: &Memory) -> bool {
    let Some(file) = open_at(folder, name, b"/environ\0") else {
        return false;
    };
    let mut marked = false;
    let mut buffer = [0_u8; 4096];
    let mut finder = Finder::new(&memory.run);
    while !marked {
        // SAFETY: the pointer and the length are those of the buffer.
        let length = unsafe { libc::read(file, buffer.as_mut_ptr().cast(), buffer.len()) };
        let Some(bytes) = usize::try_from(length)
            .ok()
            .filter(|length| *length > 0)
            .and_then(|length| buffer.get(..length))
        else {
            break;
        };
        marked = bytes.iter().any(|byte| finder.feed(*byte));
    }
    // SAFETY: the descriptor is ours and not used again.
    unsafe { libc::close(file) };
    marked
}

/// Finds the run among the values of the mark, byte by byte.
struct Finder<'a> {
    run: &'a [u8; 16],
    /// How much of `TOOLOOP_RUN=` was met since the start of the variable; more than its length if
    /// it is another variable.
    variable: usize,
    /// How much of the run was met since the start of the entry; more if it is another one.
    entry: usize,
}

impl<'a> Finder<'a> {
    const fn new(run: &'a [u8; 16]) -> Self {
        Self {
            run,
            variable: 0,
            entry: 0,
        }
    }

    fn feed(&mut self, byte: u8) -> bool {
        const OTHER: usize = usize::MAX;
        let mark = MARK.as_bytes();
        if byte == 0 {
            self.variable = 0;
            self.entry = 0;
        } else if self.variable <= mark.len() {
            let expected = mark.get(self.variable).unwrap_or(&b'=');
            self.variable = if byte == *expected {
                self.variable + 1
            } else {
                OTHER
            };
        } else if byte == b':' || self.variable == OTHER {
            self.entry = 0;
        } else if self.entry == self.run.len() && byte == b'.' {
            return true;
        } else if self.run.get(self.entry) == Some(&byte) {
            self.entry += 1;
        } else {
            self.entry = OTHER;
        }
        false
    }
}

/// Reads the start of a file of a process.
fn read_start(folder: RawFd, name: &[u8], file: &[u8], buffer: &mut [u8]) -> usize {
    let Some(file) = open_at(folder, name, file) else {
        return 0;
    };
    // SAFETY: the pointer and the length are those of the buffer; the descriptor is ours and not
    // used again.
    let length = unsafe {
        let length = libc::read(file, buffer.as_mut_ptr().cast(), buffer.len());
        libc::close(file);
        length
    };
    usize::try_from(length).unwrap_or(0)
}

/// Opens `NAME/FILE`, where `name` goes up to a NUL and `file` ends in one.
fn open_at(folder: RawFd, name: &[u8], file: &[u8]) -> Option<RawFd> {
    let mut path = [0_u8; 32];
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    for (place, byte) in path.iter_mut().zip(name.iter().chain(file)) {
        *place = *byte;
    }
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    // SAFETY: the path is a string that lives for the call.
    let opened = unsafe { libc::openat(folder, path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    (opened >= 0).then_some(opened)
}

pub(super) fn open(path: &CStr, flags: c_int) -> Option<RawFd> {
    // SAFETY: the path is a string that lives for the call.
    let opened = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) };
    (opened >= 0).then_some(opened)
}

/// The decimal number at the start, up to `end`.
fn number(bytes: &[u8], end: u8) -> Option<i32> {
    let mut value = 0_i32;
    let mut digits = 0;
    for byte in bytes.iter().take_while(|byte| **byte != end) {
        if !byte.is_ascii_digit() || digits == 9 {
            return None;
        }
        value = value * 10 + i32::from(byte - b'0');
        digits += 1;
    }
    (digits > 0).then_some(value)
}

fn errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Closes all descriptors but one.
///
/// # Safety
/// Only for a process that owns none of them.
unsafe fn close_all_but(kept: RawFd) {
    let kept = kept.cast_unsigned();
    // SAFETY: system calls on this process's own descriptors.
    unsafe {
        let below = kept == 0 || libc::syscall(libc::SYS_close_range, 0, kept - 1, 0) == 0;
        let above = libc::syscall(libc::SYS_close_range, kept + 1, c_uint::MAX, 0) == 0;
        if !below || !above {
            // An old kernel: one by one.
            for other in (0..65_536).filter(|other| *other != kept) {
                libc::close(other.cast_signed());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finds(environment: &[u8]) -> bool {
        let run = *b"0123456789abcdef";
        let mut finder = Finder::new(&run);
        environment.iter().any(|byte| finder.feed(*byte))
    }

    #[test]
    fn finds_the_run_in_an_environment() {
        assert!(finds(b"A=b\0TOOLOOP_RUN=0123456789abcdef.7\0C=d\0"));
        assert!(finds(
            b"TOOLOOP_RUN=ffffffffffffffff.1:0123456789abcdef.7\0"
        ));
        assert!(!finds(b"TOOLOOP_RUN=ffffffffffffffff.1\0"));
        assert!(!finds(b"TOOLOOP_RUN=0123456789abcdef\0"));
        assert!(!finds(b"XTOOLOOP_RUN=0123456789abcdef.7\0"));
        assert!(!finds(b"OTHER=TOOLOOP_RUN=0123456789abcdef.7\0"));
        assert!(!finds(b"TOOLOOP_RUN=00123456789abcdef.7\0"));
    }

    #[test]
    fn numbers() {
        assert_eq!(number(b"123\0rest", 0), Some(123));
        assert_eq!(number(b"12 3", b' '), Some(12));
        assert_eq!(number(b"12a\0", 0), None);
        assert_eq!(number(b"\0", 0), None);
        assert_eq!(number(b"9999999999\0", 0), None);
    }
}
