//! Memory: notes that an agent keeps about a project, from session to session.
//!
//! Each is a Markdown file in a folder outside of the project; `MEMORY.md` there has a line for each, and
//! stands in the system prompt. The model writes through the tool alone, by names and never by paths; people
//! write as they like.

mod index;
mod store;
mod tool;

pub use index::MemoryIndex;
pub use store::{MemoryError, MemoryStore, Note};
pub use tool::{MemoryAction, MemoryInput, MemoryTool};

/// The most bytes of a note.
pub const MAX_NOTE_BYTES: usize = 32 * 1024;

/// The most notes of a project.
pub const MAX_NOTES: usize = 200;

/// The most characters of what the index says of a note.
const MAX_ABOUT: usize = 200;

/// The most lines of the index that are shown.
const MAX_INDEX_LINES: usize = 200;

/// The most bytes of the index that are shown.
const MAX_INDEX_BYTES: usize = 25 * 1024;
