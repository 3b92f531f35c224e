//! The tools that tooloop brings.

#![warn(missing_docs)]

mod bash;
mod confinement;
mod ending;
mod files;
pub mod front_matter;
mod jobs;
mod known;
mod memory;
mod millis;
pub mod no_links;
mod ops;
mod places;
mod sandbox_proxy;
mod search;
mod skills;
mod terminal;
mod todo;
mod web;

pub use bash::{Bash, BashInput, BashSettings};
pub use confinement::{TempView, ToolConfinement, ViewedOps, Wall, WantedGrant};
pub use files::{
    ApplyPatch, ApplyPatchInput, Edit, EditInput, FileKind, FolderEntry, Listing, OpenFile, Read,
    ReadInput, ReadSeek, Write, WriteAs, WriteInput,
};
pub use jobs::{JobOutput, JobOutputInput, JobSettings, JobStop, JobStopInput};
pub use memory::{
    MAX_NOTE_BYTES, MAX_NOTES, MemoryAction, MemoryError, MemoryIndex, MemoryInput, MemoryStore,
    MemoryTool, Note,
};
pub use millis::{TimeLimit, Wait};
pub use ops::{LocalOps, Ops, OpsFuture};
pub use places::Place;
pub use sandbox_proxy::{
    Denied, DeniedWhy, HostPattern, HostPatternError, SandboxProxy, SandboxProxyError,
    SandboxProxySettings,
};
pub use search::{Count, Glob, GlobInput, Grep, GrepInput, GrepMode, SearchSettings};
pub use skills::{
    Catalogue, CommandSet, CustomCommand, Expanded, MAX_BODY_BYTES, Skill, SkillInput, SkillSet,
    SkillTool, with_arguments,
};
pub use terminal::{Terminal, TerminalAction, TerminalInput, TerminalSettings};
pub use todo::{Todo, TodoInput, TodoItem, TodoStatus};
pub use web::{
    Names, NamesFuture, SystemNames, WebFetch, WebFetchInput, WebFetchSettings, WebUrl, page_output,
};
