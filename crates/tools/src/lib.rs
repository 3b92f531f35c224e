//! The tools that tooloop brings.

#![warn(missing_docs)]

mod bash;
mod ops;
mod search;

pub use bash::{Bash, BashInput, BashSettings, TimeLimit};
pub use ops::{LocalOps, Ops, OpsFuture};
pub use search::{Count, Glob, GlobInput, Grep, GrepInput, GrepMode, SearchSettings};
