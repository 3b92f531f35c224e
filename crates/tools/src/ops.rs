//! The machine that tools work on.

use std::fmt;
use std::io;
use std::pin::Pin;

use tooloop_exec::{Command, Outcome, Processes, StartError, Terminal, TerminalSize};

/// What an operation comes to in its own time.
pub type OpsFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The machine that tools work on: this one ([`LocalOps`]), or another that commands and files can
/// be reached on, such as a container.
pub trait Ops: Send + Sync + fmt::Debug + 'static {
    /// Runs a command to its end, within the bounds that it states.
    fn execute(&self, command: Command) -> OpsFuture<'_, Result<Outcome, StartError>>;

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

    fn open_terminal(
        &self,
        command: Command,
        size: TerminalSize,
    ) -> OpsFuture<'_, Result<Terminal, StartError>> {
        Box::pin(self.processes.open_terminal(command, size))
    }
}
