//! Files by name and files by content: [`Glob`] and [`Grep`].
//!
//! On the libraries of ripgrep, inside this process and over the file system of *this* machine by
//! design: there is no seam to another one. A remote machine has programs for this in its shell.
//!
//! Both only read. What `.gitignore`, `.ignore` and git's own exclude files name is left out, and
//! so is what is hidden, unless it is asked for. Links met on the way are not followed, and nothing
//! but regular files is ever opened. Every walk ends its threads before its call returns.

mod answer;
mod found;
mod glob;
mod grep;
mod input;
mod look;
mod matcher;
mod pattern;
mod report;
mod root;
mod searcher;
mod sink;
mod walk;

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tooloop_tool::{ToolContext, ToolError};

use crate::TempView;

pub use glob::{Glob, GlobInput};
pub use grep::{Grep, GrepInput, GrepMode};
pub use input::Count;

/// The largest number of threads that help by themselves.
const MAX_THREADS: usize = 12;

/// The bounds of [`Glob`] and [`Grep`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchSettings {
    /// How many paths `glob` lists at most.
    pub paths: usize,
    /// How many matches (or files with matches) `grep` shows at most.
    pub matches: usize,
    /// The longest answer in characters.
    pub characters: usize,
    /// How many threads search.
    pub threads: usize,
    /// How much of a file one thread may hold in memory, in bytes: a file with a longer line is
    /// not searched to its end.
    pub heap_bytes: usize,
    /// How temporary folders are seen, if not as they are.
    pub view: Option<TempView>,
}

impl Default for SearchSettings {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self {
            paths: 200,
            matches: 250,
            characters: 48_000,
            threads: cores.min(MAX_THREADS),
            heap_bytes: 8 << 20,
            view: None,
        }
    }
}

impl SearchSettings {
    /// The same for a call whose result may be shorter than that.
    fn within(&self, context: &ToolContext) -> Self {
        Self {
            characters: context.room_for(self.characters, 2_000),
            ..self.clone()
        }
    }
}

/// Tells the threads of a search that nobody waits for it any more.
#[derive(Debug, Clone, Default)]
struct Quit(Arc<AtomicBool>);

impl Quit {
    fn now(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Sets it when the call is over, also when its future is dropped half way.
struct QuitAtEnd(Quit);

impl Drop for QuitAtEnd {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Does work that blocks, and waits for its end even if the call is cancelled.
async fn blocking<T: Send + 'static>(
    context: &ToolContext,
    work: impl FnOnce(&Quit) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let quit = Quit::default();
    let at_end = QuitAtEnd(quit.clone());
    let mut task = tokio::task::spawn_blocking(move || work(&quit));
    let done = tokio::select! {
        done = &mut task => done,
        () = context.cancellation.cancelled() => {
            drop(at_end);
            // What it found is of no use to anybody; that it has ended is.
            drop(task.await);
            return Err(ToolError::Cancelled);
        }
    };
    done.unwrap_or_else(|error| Err(ToolError::Failed(format!("the search broke off: {error}"))))
}

#[cfg(test)]
mod tests;
