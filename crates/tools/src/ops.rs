//! The machine that tools work on.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use tooloop_exec::{Command, Outcome, Processes, StartError, Terminal, TerminalSize};

use crate::files::local;
use crate::files::{Listing, OpenFile, WriteAs};

/// What an operation comes to in its own time.
pub type OpsFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The machine that tools work on: this one ([`LocalOps`]), or another that commands and files can
/// be reached on, such as a container.
///
/// The methods for files block: the tools call them on threads that may wait. Paths are absolute
/// paths of that machine. [`Ops::open`] follows links and says where they lead; to all other methods
/// the tools give paths without links, and a link that is on the way by then must be an error: the
/// call was allowed for the place without it. Errors are [`io::Error`]s, of which tools tell [`io::ErrorKind::NotFound`]
/// from the others; their words reach the model.
pub trait Ops: Send + Sync + fmt::Debug + 'static {
    /// Runs a command to its end, within the bounds that it states.
    fn execute(&self, command: Command) -> OpsFuture<'_, Result<Outcome, StartError>>;

    /// Says what is at a path, links followed, and opens it for reading if it is a plain file.
    /// Returns at once whatever is there: nothing but a plain file is opened, and a read of what is
    /// opened does not wait for somebody to write.
    ///
    /// # Errors
    /// `NotFound` if nothing is there, or a link that leads nowhere.
    fn open(&self, path: &Path) -> io::Result<OpenFile>;

    /// Makes `contents` the whole of a file, and returns the file's real path. Who reads the file
    /// meanwhile, and who finds it after the machine died, has either the old content or the new.
    ///
    /// As [`WriteAs::New`], parents are made on demand, and what is there already stays: that is
    /// `AlreadyExists`, for a link also. As [`WriteAs::Replacement`], the file's mode and owner stay;
    /// `NotFound` if there is none, and `PermissionDenied` if no bit of its mode allows writing, even where
    /// the harness could.
    ///
    /// # Errors
    /// Leaves everything as it was, but for parents that were made.
    fn write(&self, path: &Path, contents: &[u8], write_as: WriteAs) -> io::Result<PathBuf>;

    /// Gives a file another path, with its mode and owner. Parents are made on demand. A link is
    /// itself renamed.
    ///
    /// # Errors
    /// `AlreadyExists` if there is anything at the new path.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file, a link (not what it leads to), or an empty folder.
    ///
    /// # Errors
    /// `PermissionDenied` also for a file whose mode lets nobody write.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// The first `most` entries of a folder, sorted by name, and how many there are beside.
    ///
    /// # Errors
    /// `NotADirectory` if it is none.
    fn list(&self, folder: &Path, most: usize) -> io::Result<Listing>;

    /// Starts a command on a terminal of its own. A machine that has none need not say so.
    fn open_terminal(
        &self,
        command: Command,
        size: TerminalSize,
    ) -> OpsFuture<'_, Result<Terminal, StartError>> {
        drop(command);
        let _ = size;
        Box::pin(async {
            let why = "this machine has no terminals";
            Err(StartError::System(io::Error::new(
                io::ErrorKind::Unsupported,
                why,
            )))
        })
    }
}

/// This machine.
#[derive(Debug, Clone)]
pub struct LocalOps {
    processes: Processes,
}

impl LocalOps {
    /// This machine, with the owner of the processes that are started on it.
    #[must_use]
    pub const fn new(processes: Processes) -> Self {
        Self { processes }
    }
}

impl Ops for LocalOps {
    fn execute(&self, command: Command) -> OpsFuture<'_, Result<Outcome, StartError>> {
        Box::pin(self.processes.run(command))
    }

    fn open(&self, path: &Path) -> io::Result<OpenFile> {
        local::open(path)
    }

    fn write(&self, path: &Path, contents: &[u8], write_as: WriteAs) -> io::Result<PathBuf> {
        local::write(path, contents, write_as)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        local::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        local::remove(path)
    }

    fn list(&self, folder: &Path, most: usize) -> io::Result<Listing> {
        local::list(folder, most)
    }

    fn open_terminal(
        &self,
        command: Command,
        size: TerminalSize,
    ) -> OpsFuture<'_, Result<Terminal, StartError>> {
        Box::pin(self.processes.open_terminal(command, size))
    }
}
