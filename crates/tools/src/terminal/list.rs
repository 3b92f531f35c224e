//! The terminals of a session.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::task::JoinSet;
use tooloop_exec::{Terminal, TerminalSize};
use tooloop_policy::Grant;
use tooloop_tool::{Background, ToolError};

use super::live::{self, Live};
use crate::confinement::Wall;
use crate::known::known;

/// How many that have ended can still be looked at.
const KEPT: usize = 8;

/// The terminals of a session. Dropping it ends them all.
#[derive(Default)]
pub(super) struct Terminals(Mutex<List>);

#[derive(Default)]
struct List {
    newest: u64,
    /// In the order in which they were started.
    all: VecDeque<Arc<Live>>,
    tasks: JoinSet<()>,
}

impl Terminals {
    fn list(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one more may run.
    pub(super) fn admit(&self, limit: usize) -> Result<(), ToolError> {
        let list = self.list();
        let running: Vec<String> = list
            .all
            .iter()
            .filter(|live| live.is_running())
            .map(|live| format!("{} ({})", live.id, live.title))
            .collect();
        if running.len() < limit {
            return Ok(());
        }
        Err(ToolError::Failed(format!(
            "{} terminals are in use, and no more may be: {}; stop one first",
            running.len(),
            running.join(", ")
        )))
    }

    /// Takes in a program that was started.
    pub(super) fn add(
        &self,
        title: String,
        terminal: Terminal,
        size: TerminalSize,
        background: &Background,
        (mut wall, grants): (Option<Wall>, Vec<Grant>),
    ) -> Arc<Live> {
        let mut list = self.list();
        while list.tasks.try_join_next().is_some() {}
        let ended = list.all.iter().filter(|live| !live.is_running()).count();
        let mut ended = ended.saturating_sub(KEPT);
        list.all.retain(|live| {
            let goes = ended > 0 && !live.is_running();
            ended -= usize::from(goes);
            if goes {
                // Else what it left behind could hold the terminal, and so the task that watches.
                live.terminal.end_leftovers();
            }
            !goes
        });
        list.newest += 1;
        let id = format!("term_{}", list.newest);
        let (sender, printed) = watch::channel(0);
        let work = background.begin_untold(format!("{id}: {title}"));
        let live = Arc::new(Live::new(
            id,
            title,
            terminal,
            size,
            printed,
            (work, grants),
        ));
        list.all.push_back(Arc::clone(&live));
        let watched = live::watch(Arc::clone(&live), sender);
        let ended = Arc::clone(&live);
        list.tasks.spawn(async move {
            watched.await;
            // The way out of the sandbox is there as long as the program is.
            let notes = wall.as_mut().map(Wall::finish_with_notes);
            ended.add_notes(notes.unwrap_or_default());
            drop(wall);
        });
        live
    }

    pub(super) fn find(&self, id: &str) -> Result<Arc<Live>, ToolError> {
        let list = self.list();
        if let Some(live) = list.all.iter().find(|live| live.id == id.trim()) {
            return Ok(Arc::clone(live));
        }
        let all = list.all.iter();
        let known = known(all.map(|live| (&*live.id, live.is_running())));
        Err(ToolError::Failed(format!(
            "there is no terminal {id:?}: {known}; terminals end with the session that started \
             them"
        )))
    }
}
