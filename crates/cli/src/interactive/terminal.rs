//! The terminal itself: its mode, which is always restored, and writing to it.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::panic::{self, PanicHookInfo};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossterm::terminal;
use tokio::task::JoinHandle;

use super::input::Input;
use crate::output::for_stderr;

/// Has a paste come in one piece.
pub(crate) const PASTE: &str = "\u{1b}[?2004h";
/// And no more.
pub(crate) const NO_PASTE: &str = "\u{1b}[?2004l";

/// Undoes whatever a frame or a paste mode may have left behind.
const RESTORE: &str = "\u{1b}[?2026l\u{1b}[?2004l\u{1b}[?7h\u{1b}[?25h";

/// The terminal on standard output. Dropping it restores its mode.
#[derive(Debug)]
pub(crate) struct Terminal {
    out: Arc<File>,
    /// There while the terminal is in raw mode.
    input: Option<Input>,
}

impl Terminal {
    pub(crate) fn new() -> io::Result<Self> {
        let out = io::stdout().as_fd().try_clone_to_owned()?;
        Ok(Self {
            out: Arc::new(File::from(out)),
            input: None,
        })
    }

    /// Its columns and rows.
    pub(crate) fn size() -> (u16, u16) {
        match terminal::size() {
            Ok((columns, rows)) if columns > 0 && rows > 0 => (columns, rows),
            Ok(_) | Err(_) => (80, 24),
        }
    }

    /// From now on keys come one by one, as they were pressed, and nothing but us shows them.
    pub(crate) fn enter(&mut self) -> io::Result<()> {
        self.input = Some(Input::open(&self.out, PASTE, RESTORE)?);
        Ok(())
    }

    /// Restores the mode that it was found in.
    pub(crate) fn leave(&mut self) {
        if let Some(input) = self.input.take() {
            // A terminal that has gone away needs no restoring.
            drop(write(&self.out, RESTORE.as_bytes()));
            drop(input);
        }
    }

    /// Writes beside whatever goes on: a terminal that does not read holds up nothing else.
    pub(crate) fn write(&self, text: String) -> JoinHandle<io::Result<()>> {
        let out = Arc::clone(&self.out);
        tokio::task::spawn_blocking(move || write(&out, text.as_bytes()))
    }

    /// Writes, and waits for it, though not for ever.
    pub(crate) async fn print(&self, text: String) -> io::Result<()> {
        match tokio::time::timeout(PATIENCE, self.write(text)).await {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => Err(io::Error::other(error)),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// How long is waited for a terminal that does not read, where nothing else can be done meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);

impl Drop for Terminal {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Standard output may share its file description with something that made it non-blocking.
pub(super) fn write(mut out: &File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match out.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut poll = [rustix::event::PollFd::new(
                    out,
                    rustix::event::PollFlags::OUT,
                )];
                rustix::event::poll(&mut poll, None)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Keeps what panics say while the screen is ours: printed at once it would be lost in the live
/// rows.
pub(crate) struct Faults {
    said: Arc<Mutex<Vec<String>>>,
    previous: Option<Hook>,
}

type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync + 'static>;

/// The most that are kept.
const MOST_FAULTS: usize = 16;

impl Faults {
    /// Keeps them from now on, until it is dropped.
    pub(crate) fn keep() -> Self {
        let said = Arc::new(Mutex::new(Vec::new()));
        let previous = panic::take_hook();
        let keep = Arc::clone(&said);
        panic::set_hook(Box::new(move |info| {
            let mut said = lock(&keep);
            if said.len() < MOST_FAULTS {
                said.push(info.to_string());
            }
        }));
        Self {
            said,
            previous: Some(previous),
        }
    }

    /// What was said since the last time.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.said))
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        for words in self.take() {
            // With standard error gone too, nobody is left to be told.
            drop(writeln!(io::stderr(), "{}", for_stderr(&words)));
        }
        // A hook cannot be changed by a thread that is panicking; the process is about to end then.
        if let Some(previous) = self.previous.take()
            && !std::thread::panicking()
        {
            drop(panic::take_hook());
            panic::set_hook(previous);
        }
    }
}

fn lock(said: &Mutex<Vec<String>>) -> MutexGuard<'_, Vec<String>> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}
