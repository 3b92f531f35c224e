//! The tools for files: read, write, edit, apply patch.
//!
//! They work on the machine that they are given ([`crate::Ops`]), and share what the model has
//! seen of files in a session. Whether a path may be touched is not judged here.

mod ahead;
mod apply_patch;
pub(crate) mod attributes;
mod call;
mod carried;
mod carry_out;
mod content;
mod diff;
mod edit;
mod image;
mod large;
mod lines;
mod listing;
pub(crate) mod local;
mod machine;
mod matching;
mod nearest;
mod number;
mod page;
mod patch;
mod plan;
mod read;
mod seen;
mod staged;
mod text;
mod write;

pub use apply_patch::{ApplyPatch, ApplyPatchInput};
pub use edit::{Edit, EditInput};
pub use machine::{FileKind, FolderEntry, Listing, OpenFile, ReadSeek, WriteAs};
pub use read::{Read, ReadInput};
pub use write::{Write, WriteInput};
