//! The journal: an append-only record of a session that survives any death.
//!
//! A session is a file of lines: a [`Header`], then one [`Record`] for each entry of the kernel.
//! Lines are only ever appended. A [`Store`] takes entries in; [`JsonlStore`] is the one that
//! writes files, [`MemoryStore`] keeps nothing. [`Catalog`] knows where the files of a project are.
//! The format is described in `docs/journal.md`.
//!
//! It must not know: how entries come about, or what a front end shows of them.

#![warn(missing_docs)]

mod blobs;
mod catalog;
pub mod conformance;
mod error;
mod fault;
mod fit;
mod header;
mod jsonl;
mod lines;
mod lock;
mod migration;
mod order;
mod read;
mod reader;
mod record;
mod removal;
mod repair;
mod salvage;
mod store;

pub use blobs::{BlobId, Blobs, NotKept, files_beside, inherited_files};
pub use catalog::{
    Catalog, Summary, inherited_outputs, outputs_beside, subagents_beside, subagents_of,
};
pub use error::StoreError;
pub use fault::{Fault, FaultKind};
pub use jsonl::{JsonlStore, Opened};
pub use lines::MAX_LINE;
pub use read::{Read, Verified, holder, read_lines, read_past, read_records, read_whole, verify};
pub use record::{
    FORMAT_VERSION, ForkedFrom, Header, Line, Record, SessionId, UnknownRecord, WorksFor,
};
pub use removal::{Removed, belongings, forks_of, remove};
pub use repair::{Repaired, repair};
pub use store::{Flush, Flushing, MemoryStore, Store};
