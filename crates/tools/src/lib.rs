//! The tools that tooloop brings.

#![warn(missing_docs)]

mod bash;

pub use bash::{Bash, BashInput, BashSettings, TimeLimit};
