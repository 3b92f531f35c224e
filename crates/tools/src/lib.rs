//! The tools that tooloop brings.

#![warn(missing_docs)]

mod bash;
mod ops;

pub use bash::{Bash, BashInput, BashSettings, TimeLimit};
pub use ops::{LocalOps, Ops, OpsFuture};
