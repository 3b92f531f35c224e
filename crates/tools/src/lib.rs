//! The tools that tooloop brings.

#![warn(missing_docs)]

mod bash;
mod ending;
mod jobs;
mod millis;
mod ops;
mod terminal;

pub use bash::{Bash, BashInput, BashSettings};
pub use jobs::{JobOutput, JobOutputInput, JobSettings, JobStop, JobStopInput};
pub use millis::{TimeLimit, Wait};
pub use ops::{LocalOps, Ops, OpsFuture};
pub use terminal::{Terminal, TerminalAction, TerminalInput, TerminalSettings};
