//! The machine that tools work on.

use std::fmt;
use std::pin::Pin;

use tooloop_exec::{Command, Outcome, Processes, StartError};

/// What an operation comes to in its own time.
pub type OpsFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The machine that tools work on: this one ([`LocalOps`]), or another that commands and files can
/// be reached on, such as a container.
pub trait Ops: Send + Sync + fmt::Debug + 'static {
    /// Runs a command to its end, within the bounds that it states.
    fn execute(&self, command: Command) -> OpsFuture<'_, Result<Outcome, StartError>>;
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
}
