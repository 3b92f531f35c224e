//! The tools that tooloop brings.

#![warn(missing_docs)]

mod bash;
mod files;
mod ops;
mod search;

pub use bash::{Bash, BashInput, BashSettings, TimeLimit};
pub use files::{
    ApplyPatch, ApplyPatchInput, Edit, EditInput, FileKind, FolderEntry, Listing, OpenFile, Read,
    ReadInput, ReadSeek, Write, WriteAs, WriteInput,
};
pub use ops::{LocalOps, Ops, OpsFuture};
pub use search::{Count, Glob, GlobInput, Grep, GrepInput, GrepMode, SearchSettings};
