//! What is to be run.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{Confined, Environment, OutputLimits, Shell};

/// A text for a shell, and the bounds in which it runs.
#[derive(Debug, Clone)]
pub struct Command {
    /// What the shell is given, byte for byte.
    pub text: String,
    /// The shell.
    pub shell: Shell,
    /// Where it starts: an absolute path.
    pub directory: PathBuf,
    /// What it finds in its environment.
    pub environment: Arc<Environment>,
    /// What it reads on its standard input; `None`: nothing.
    pub input: Option<Arc<[u8]>>,
    /// How much of its standard error is kept apart from its output. `None`: both are one.
    pub errors: Option<OutputLimits>,
    /// How long it may take.
    pub time_limit: Duration,
    /// How long its processes have to end by themselves, once asked to, before they are killed.
    pub grace: Duration,
    /// For how long output is waited for after the shell has exited, if its children hold the pipe.
    pub pipe_grace: Duration,
    /// Ends it.
    pub cancellation: CancellationToken,
    /// Ends what it leaves behind when it is over, within a second. `None`: what it leaves behind
    /// ends with the run.
    pub leftovers: Option<CancellationToken>,
    /// How much of its output is kept.
    pub output: OutputLimits,
    /// Takes the newest output while it runs, and is told without any as soon as it does. What
    /// nobody reads in time is replaced by newer.
    pub progress: Option<watch::Sender<Progress>>,
    /// Shuts it in. `None`: it may do what this process may.
    pub sandbox: Option<Confined>,
}

impl Command {
    /// A text for the shell of this system, with the usual bounds.
    pub fn new(
        text: impl Into<String>,
        directory: impl Into<PathBuf>,
        environment: impl Into<Arc<Environment>>,
    ) -> Self {
        Self {
            text: text.into(),
            shell: Shell::system().clone(),
            directory: directory.into(),
            environment: environment.into(),
            input: None,
            errors: None,
            time_limit: Duration::from_secs(120),
            grace: Duration::from_secs(2),
            pipe_grace: Duration::from_millis(300),
            cancellation: CancellationToken::new(),
            leftovers: None,
            output: OutputLimits::default(),
            progress: None,
            sandbox: None,
        }
    }
}

/// What a running command has printed of late.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// The newest lines, cleaned.
    pub tail: String,
    /// How many bytes it has printed.
    pub bytes: u64,
}
