//! What is particular to Linux: how processes are started, watched, found and guarded.

mod guardian;
mod memory;
mod own;
mod spawn;
mod table;

pub(crate) use guardian::{Guardian, Note};
pub(crate) use own::{is_subreaper, random_id, readable, watched};
pub(crate) use spawn::{
    Blocked, Image, Script, Spawner, Stage, Strings, above_standard, directory_script, high,
};
pub(crate) use table::{
    MARK, Process, children_of_self, command_line, is_first_of_namespace, kill, oom_score,
    processes, read_process, run_marker, ticks,
};

pub use own::{hide_memory, own_process};
