//! A command on a terminal of its own.
//!
//! The command is the leader of its session as every other one, with the terminal in control of
//! it, and all that holds for commands holds for it: its mark, its guardian, its end.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::process::Signal;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{InputModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::exit::Exit;
use crate::platform::watched;
use crate::processes::Inner;
use crate::{End, StartError, tree};

/// For how long a command that was killed is waited for.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// How many lines.
    pub rows: u16,
    /// How many characters a line.
    pub columns: u16,
}

/// A command on a terminal of its own: what a person would hold in their hands.
///
/// Dropping it kills the command with all its processes.
#[derive(Debug)]
pub struct Terminal {
    inner: Arc<Inner>,
    pid: i32,
    number: u64,
    device: AsyncFd<OwnedFd>,
    grace: Duration,
    exit: Mutex<Exit>,
    end: OnceLock<End>,
    /// Ends what the command leaves behind.
    ends: CancellationToken,
}

impl Terminal {
    pub(crate) fn new(
        inner: Arc<Inner>,
        (pid, number): (i32, u64),
        exit: Exit,
        device: OwnedFd,
        grace: Duration,
        ends: CancellationToken,
    ) -> Result<Self, StartError> {
        let device = watched(device, Interest::READABLE | Interest::WRITABLE);
        match device {
            Ok(device) => Ok(Self {
                inner,
                pid,
                number,
                device,
                grace,
                exit: Mutex::new(exit),
                end: OnceLock::new(),
                ends,
            }),
            Err(error) => {
                inner.shared.abandon(pid);
                Err(StartError::System(error))
            }
        }
    }

    /// Reads what was printed. `0`: nobody holds the terminal any more. Can be dropped at any
    /// await without loss.
    ///
    /// # Errors
    /// The system fails.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.device.readable().await?;
            match ready.try_io(|device| Ok(rustix::io::read(device.get_ref(), &mut *buffer)?)) {
                Ok(Ok(length)) => return Ok(length),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                // That is how the kernel says it.
                Ok(Err(error)) if error.raw_os_error() == Some(libc::EIO) => return Ok(0),
                Ok(Err(error)) => return Err(error),
                // It was not ready after all.
                Err(_) => {}
            }
        }
    }

    /// Types some of these bytes, and says how many: waits while the terminal takes none. Can be
    /// dropped at any await without loss.
    ///
    /// # Errors
    /// The system fails.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.device.writable().await?;
            match ready.try_io(|device| Ok(rustix::io::write(device.get_ref(), bytes)?)) {
                Ok(Ok(length)) => return Ok(length),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Changes the size, and has the command told.
    ///
    /// # Errors
    /// The system fails.
    pub fn resize(&self, size: TerminalSize) -> io::Result<()> {
        Ok(tcsetwinsize(self.device.get_ref(), window(size))?)
    }

    /// Waits for the exit of the command. Can be dropped at any await without loss.
    pub async fn exited(&self) -> End {
        let mut exit = self.exit.lock().await;
        if let Some(end) = self.end.get() {
            return *end;
        }
        let told = exit.wait(self.pid).await;
        let end = *self.end.get_or_init(|| told);
        self.inner.shared.finished(self.pid, Some(None));
        end
    }

    /// Ends what the command has left behind, within a second. Nothing while it runs.
    pub fn end_leftovers(&self) {
        if self.end.get().is_some() {
            self.ends.cancel();
        }
    }

    /// Ends the command with all its processes: hangs up, asks, and kills after the grace what has
    /// not gone by then.
    pub async fn end(&self) -> End {
        self.ends.cancel();
        let shared = &self.inner.shared;
        // Once its number may be another's, it is not to be found by it.
        if shared.knows(self.pid) {
            if self.end.get().is_none() {
                tree::signal_group(self.pid, Signal::HUP);
            }
            let scope = shared.scope_of(self.pid, self.number);
            let grace = self.grace;
            // If the runtime does not run it any more, the drop of this kills.
            spawn_blocking(move || tree::end(|| scope.clone(), grace, None))
                .await
                .unwrap_or_default();
        }
        timeout(LAST_WAIT, self.exited())
            .await
            .unwrap_or(End::Unknown)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.ends.cancel();
        if self.end.get().is_none() {
            self.inner.shared.abandon(self.pid);
        }
    }
}

/// A terminal: our end, which does not block, and the command's.
pub(crate) fn open(size: TerminalSize) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags)?;
    unlockpt(&ours)?;
    let theirs = ioctl_tiocgptpeer(&ours, flags)?;
    let mut modes = tcgetattr(&theirs)?;
    // So that the erase key takes whole characters.
    modes.input_modes |= InputModes::IUTF8;
    tcsetattr(&theirs, OptionalActions::Now, &modes)?;
    tcsetwinsize(&ours, window(size))?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

const fn window(size: TerminalSize) -> Winsize {
    Winsize {
        ws_row: size.rows,
        ws_col: size.columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}
