//! The tools that tooloop brings.

#![warn(missing_docs)]

mod bash;
mod ops;
mod todo;
mod web;

pub use bash::{Bash, BashInput, BashSettings, TimeLimit};
pub use ops::{LocalOps, Ops, OpsFuture};
pub use todo::{Todo, TodoInput, TodoItem, TodoStatus};
pub use web::{Names, NamesFuture, SystemNames, WebFetch, WebFetchInput, WebFetchSettings, WebUrl};
