//! Starts a process without copying the memory of this one.
//!
//! The child borrows the memory until it has become the new program, as with `vfork`, so the cost
//! does not grow with the size of the harness. In return the child may do nothing but system calls
//! on what was prepared before.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::ptr;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::fcntl_dupfd_cloexec;

use super::guardian::Note;

/// Enough for a few system calls, and for a signal frame should one come.
const STACK: usize = 64 * 1024;

/// Descriptors that a child is given beside the standard three come from above this number, and
/// go below it.
const HIGH: RawFd = 256;

/// A list of strings as the kernel wants it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Strings {
    bytes: Vec<u8>,
    starts: Vec<usize>,
}

impl Strings {
    /// Adds a string made of some parts; `false` if it holds a NUL, which no string here can.
    pub(crate) fn push(&mut self, parts: &[&OsStr]) -> bool {
        if parts.iter().any(|part| part.as_bytes().contains(&0)) {
            return false;
        }
        self.starts.push(self.bytes.len());
        for part in parts {
            self.bytes.extend_from_slice(part.as_bytes());
        }
        self.bytes.push(0);
        true
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &OsStr> {
        self.starts.iter().filter_map(|start| {
            let text = CStr::from_bytes_until_nul(self.bytes.get(*start..)?).ok()?;
            Some(OsStr::from_bytes(text.to_bytes()))
        })
    }

    fn pointers(&self) -> Vec<*const c_char> {
        self.starts
            .iter()
            .filter_map(|start| Some(self.bytes.get(*start..)?.as_ptr().cast()))
            .chain([ptr::null()])
            .collect()
    }
}

/// What a child is to become.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) program: CString,
    pub(crate) arguments: Strings,
    pub(crate) environment: Strings,
    pub(crate) directory: CString,
    /// Is read as standard input; `None`: it is empty.
    pub(crate) input: Option<OwnedFd>,
    /// Takes standard output, and standard error if nothing else does.
    pub(crate) output: OwnedFd,
    pub(crate) errors: Option<OwnedFd>,
    /// The output is a terminal: it becomes the one that controls the child, and its input too.
    pub(crate) is_terminal: bool,
    /// Descriptors to be had by the child under these numbers, in rising order.
    pub(crate) extra: Vec<(RawFd, OwnedFd)>,
    /// How ready the kernel is to be to end the child when memory runs out.
    pub(crate) oom_score: Option<CString>,
    /// The program ignores all signals that can be ignored, for it is not the one they are meant
    /// for.
    pub(crate) ignores_signals: bool,
}

/// Where a start failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Clone,
    Prepare,
    Directory,
    Program,
}

/// Starts children. Those die by SIGKILL when the thread that started them ends.
pub(crate) struct Spawner {
    null: OwnedFd,
    stack: Box<[Line]>,
}

#[derive(Clone, Copy)]
#[repr(align(16))]
struct Line(#[expect(dead_code, reason = "room on a stack")] [u8; 16]);

/// What parent and child both see while the child borrows the memory.
struct Plan<'a> {
    parent: libc::pid_t,
    input: RawFd,
    output: RawFd,
    errors: RawFd,
    is_terminal: bool,
    extra: &'a [(RawFd, RawFd)],
    directory: &'a CStr,
    program: &'a CStr,
    arguments: &'a [*const c_char],
    environment: &'a [*const c_char],
    oom_score: Option<&'a CStr>,
    ignores_signals: bool,
    has_oom_score: bool,
    guardian: Option<RawFd>,
    is_guarded: bool,
    failure: Option<(Stage, c_int)>,
}

impl Spawner {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            null: above_standard(File::open("/dev/null")?.into())?,
            stack: vec![Line([0; 16]); STACK / 16].into_boxed_slice(),
        })
    }

    /// Starts a child as the leader of a session of its own. Says whether it told the guardian of
    /// it: by itself and before it is another program, for a harness may be killed at any time.
    pub(crate) fn spawn(
        &mut self,
        image: &Image,
        guardian: Option<&UnixStream>,
    ) -> Result<(i32, bool), (Stage, io::Error)> {
        let extra: Vec<(RawFd, RawFd)> = image
            .extra
            .iter()
            .map(|(target, source)| (*target, source.as_raw_fd()))
            .collect();
        let arguments = image.arguments.pointers();
        let environment = image.environment.pointers();
        let mut plan = Plan {
            parent: std::process::id().cast_signed(),
            input: image.input.as_ref().unwrap_or(&self.null).as_raw_fd(),
            output: image.output.as_raw_fd(),
            errors: image.errors.as_ref().unwrap_or(&image.output).as_raw_fd(),
            is_terminal: image.is_terminal,
            extra: &extra,
            directory: &image.directory,
            program: &image.program,
            arguments: &arguments,
            environment: &environment,
            oom_score: image.oom_score.as_deref(),
            ignores_signals: image.ignores_signals,
            has_oom_score: false,
            guardian: guardian.map(AsRawFd::as_raw_fd),
            is_guarded: false,
            failure: None,
        };
        let top = self.stack.as_mut_ptr_range().end;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let blocked = Blocked::all();
        // SAFETY: `top` is the aligned end of a stack that nothing else uses, since `self` is
        // borrowed for the call. With CLONE_VFORK this thread stands still until the child has
        // become another program or has exited, so the plan outlives the child's use of it, and
        // `child` makes system calls only. All signals are blocked, so no handler of ours runs
        // in the child on memory that is shared.
        let pid = unsafe { libc::clone(child, top.cast(), flags, (&raw mut plan).cast()) };
        let error = io::Error::last_os_error();
        drop(blocked);
        if pid < 0 {
            return Err((Stage::Clone, error));
        }
        match plan.failure {
            None => {
                if let (Some(score), false) = (&image.oom_score, plan.has_oom_score) {
                    // A process that hides its memory cannot do it for a child that borrows that.
                    // It may be forbidden here too: then there is none.
                    std::fs::write(format!("/proc/{pid}/oom_score_adj"), score.to_bytes())
                        .unwrap_or_default();
                }
                Ok((pid, plan.is_guarded))
            }
            Some((stage, code)) => {
                // SAFETY: the child is ours, has exited, and is waited for by nobody else.
                unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
                if let (Some(guardian), true) = (guardian, plan.is_guarded) {
                    Note::SessionGone(pid).send(guardian.as_raw_fd());
                }
                Err((stage, io::Error::from_raw_os_error(code)))
            }
        }
    }
}

/// All signals of this thread blocked, as long as it lives.
pub(crate) struct Blocked(libc::sigset_t);

impl Blocked {
    pub(crate) fn all() -> Self {
        // SAFETY: a signal set is plain data, for which zeroes are a value; the calls fill it and
        // read it.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            Self(before)
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set was filled in by the kernel.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
    }
}

/// The life of the child before it is the new program.
extern "C" fn child(plan: *mut c_void) -> c_int {
    // SAFETY: `spawn` passes a plan that lives until this process is another program or gone, and
    // does not touch it meanwhile.
    let plan = unsafe { &mut *plan.cast::<Plan<'_>>() };
    plan.failure = Some(become_program(plan));
    // SAFETY: ends this process only, without running anything of the parent's.
    unsafe { libc::_exit(127) }
}

/// Returns only if it failed.
fn become_program(plan: &mut Plan<'_>) -> (Stage, c_int) {
    // SAFETY: system calls on this process's own state, with pointers to what the plan holds. The
    // signal dispositions, descriptors, directory and mask are the child's own, not shared.
    unsafe {
        // Handlers belong to the parent, and what the parent ignores, a shell would ignore too.
        let mut action: libc::sigaction = std::mem::zeroed();
        for signal in 1..=64 {
            action.sa_sigaction = if plan.ignores_signals && signal != libc::SIGCHLD {
                libc::SIG_IGN
            } else {
                libc::SIG_DFL
            };
            libc::sigaction(signal, &raw const action, ptr::null_mut());
        }
        if libc::setsid() < 0
            || libc::prctl(
                libc::PR_SET_PDEATHSIG,
                libc::SIGKILL as libc::c_ulong,
                0,
                0,
                0,
            ) < 0
        {
            return (Stage::Prepare, errno());
        }
        if libc::getppid() != plan.parent {
            // It died before the wish to die with it was noted.
            libc::_exit(127);
        }
        if let Some(guardian) = plan.guardian {
            plan.is_guarded = Note::Session(libc::getpid()).send(guardian);
        }
        if let Some(score) = plan.oom_score {
            let file = libc::open(
                c"/proc/self/oom_score_adj".as_ptr(),
                libc::O_WRONLY | libc::O_CLOEXEC,
            );
            if file >= 0 {
                let length = score.count_bytes();
                plan.has_oom_score = libc::write(file, score.as_ptr().cast(), length) > 0;
                libc::close(file);
            }
        }
        let input = if plan.is_terminal {
            plan.output
        } else {
            plan.input
        };
        if libc::dup2(input, 0) < 0
            || libc::dup2(plan.output, 1) < 0
            || libc::dup2(plan.errors, 2) < 0
        {
            return (Stage::Prepare, errno());
        }
        if plan.is_terminal && libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
            return (Stage::Prepare, errno());
        }
        let mut kept: c_uint = 3;
        for &(target, source) in plan.extra {
            if libc::dup2(source, target) < 0 {
                return (Stage::Prepare, errno());
            }
        }
        // All others close, also those that this process was started with. An old kernel that
        // cannot do it leaves those open; ours close themselves.
        for &(target, _) in plan.extra {
            let target = target.cast_unsigned();
            if target > kept {
                close_later(kept, target - 1);
            }
            kept = target + 1;
        }
        close_later(kept, c_uint::MAX);
        if libc::chdir(plan.directory.as_ptr()) < 0 {
            return (Stage::Directory, errno());
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
        libc::execve(
            plan.program.as_ptr(),
            plan.arguments.as_ptr(),
            plan.environment.as_ptr(),
        );
        (Stage::Program, errno())
    }
}

/// Has a range of descriptors closed when the program is replaced.
///
/// # Safety
/// Only for a process that is about to become another program.
unsafe fn close_later(first: c_uint, last: c_uint) {
    // SAFETY: sets a flag on this process's own descriptors.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            last,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
}

fn errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// The same file under a number that is none of the standard three.
pub(crate) fn above_standard(file: OwnedFd) -> io::Result<OwnedFd> {
    if file.as_raw_fd() > 2 {
        Ok(file)
    } else {
        Ok(fcntl_dupfd_cloexec(&file, 3)?)
    }
}

/// A text in memory that a child reads from a descriptor.
#[derive(Debug)]
pub(crate) struct Script(OwnedFd);

impl Script {
    pub(crate) fn new(text: &[u8]) -> io::Result<Self> {
        let memory = memfd_create("script", MemfdFlags::CLOEXEC)?;
        let mut rest = text;
        while !rest.is_empty() {
            let written = rustix::io::write(&memory, rest)?;
            rest = rest.split_at(written).1;
        }
        Ok(Self(memory))
    }

    /// A descriptor to hand to a child.
    pub(crate) fn handed(&self) -> io::Result<OwnedFd> {
        high(&self.0)
    }

    /// A descriptor that is read from the beginning of the text on.
    pub(crate) fn to_read(&self) -> io::Result<OwnedFd> {
        rustix::fs::seek(&self.0, rustix::fs::SeekFrom::Start(0))?;
        high(&self.0)
    }
}

/// A pipe in which a shell leaves a word for us: our end, and one to hand to the child.
pub(crate) fn directory_script() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, high(&theirs)?))
}

/// The same file under a number that no child is given.
pub(crate) fn high(file: impl AsFd) -> io::Result<OwnedFd> {
    Ok(fcntl_dupfd_cloexec(file, HIGH)?)
}
