//! Child processes that never outlive their harness.
//!
//! This crate runs texts in a shell: within a time limit, with bounded output that is harmless to
//! show, and so that nothing they start is alive when the run is over, however it ends. It knows
//! nothing of models, tools or policy, and is the only place of the workspace with `unsafe` code.
//!
//! ```no_run
//! use std::time::Duration;
//! use tooloop_exec::{Command, Environment, EnvironmentRules, Processes};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let processes = Processes::new()?;
//! let environment = Environment::of_this_process(&EnvironmentRules::default());
//! let outcome = processes.run(Command::new("make test", "/src/project", environment)).await?;
//! println!("{:?} after {:?}\n{}", outcome.end, outcome.duration, outcome.output.text());
//! processes.end_all(Duration::from_secs(1)).await;
//! # Ok(())
//! # }
//! ```
//!
//! # How nothing outlives the harness
//!
//! - Each command is a session of its own, started by a thread that lives as long as its owner; its
//!   shell dies with that thread.
//! - All that descends from it carries a mark in its environment, and can be found by it where it
//!   left its session. In a program that called [`own_process`] orphans become its children, and are
//!   found even without the mark.
//! - A guardian process kills what is left when the harness is gone, SIGKILL included.

#[cfg(not(target_os = "linux"))]
compile_error!("processes can only be kept on Linux so far");

mod command;
mod environment;
mod exit;
mod keeper;
mod outcome;
mod output;
mod platform;
mod processes;
mod pump;
mod running;
mod sandbox;
mod shared;
mod shell;
mod terminal;
mod tree;

pub use command::{Command, Progress};
pub use environment::{Environment, EnvironmentRules};
pub use outcome::{End, Leftover, Outcome, StartError, signal_name};
pub use output::{Mask, Output, OutputCleaner, OutputLimits, Spool, SpoolState};
pub use platform::{hide_memory, own_process};
pub use processes::Processes;
pub use running::Running;
pub use sandbox::{
    Confined, Enforced, Gap, Mechanism, MissingFeature, Sandbox, SandboxNetwork, SandboxOptions,
    SandboxProfile, SandboxUnavailable, StagedDirectory, sandbox_main,
};
pub use shell::Shell;
pub use terminal::{Terminal, TerminalSize};
