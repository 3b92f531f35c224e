//! The journal: an append-only record of a session that survives any death.
//!
//! A session is a file of lines: a [`Header`], then one [`Record`] for each entry of the kernel.
//! Lines are only ever appended. A [`Store`] takes entries in; [`JsonlStore`] is the one that
//! writes files, [`MemoryStore`] keeps nothing. [`Catalog`] knows where the files of a project are.
//! The format is described in `docs/journal.md`.
//!
//! It must not know: how entries come about, or what a front end shows of them.

#![warn(missing_docs)]

mod catalog;
pub mod conformance;
mod error;
mod jsonl;
mod lock;
mod record;
mod store;

pub use catalog::{Catalog, Summary, inherited_outputs, outputs_beside};
pub use error::StoreError;
pub use jsonl::{JsonlStore, Opened, read_records};
pub use record::{FORMAT_VERSION, ForkedFrom, Header, Record, SessionId};
pub use store::{Flush, Flushing, MemoryStore, Store};
