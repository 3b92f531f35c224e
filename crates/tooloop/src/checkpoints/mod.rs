//! Old contents of what the calls of a session change, so that it can be restored.
//!
//! Before a call with effects runs, what it names is kept; before one that may change anything, the
//! workspace is looked at, and again after it, beside the next model call. Nothing is done for calls
//! that only read, and nothing before the first call with effects. What is kept lies beside the
//! session's journal: contents under their hashes, and a record of changes ([`manifest`]).
//!
//! It must not know: what a turn is made of, or who asks for a rewind.

mod beside;
mod git;
mod keeper;
mod manifest;
mod place;
mod rewind;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod tree;
mod walk;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tooloop_model::ToolUseId;
use tooloop_policy::{Access, Touch};
use tooloop_tool::Background;

use beside::Beside;
pub(crate) use beside::Kept;
use keeper::Keeper;
pub(crate) use keeper::{Place, Touched};
pub use rewind::FilesRewound;
pub(crate) use rewind::{Back, How};
use tree::{Bounds, Quit, Refusal};

use crate::Event;
use crate::event::Broadcast;

/// The most bytes of old contents that a session keeps.
pub(crate) const CAP: u64 = 512 << 20;

/// How long closing waits for a look at the workspace.
const CLOSE: Duration = Duration::from_secs(4);

/// Keeps the old contents of one session. Clones are one.
#[derive(Debug, Clone)]
pub(crate) struct Checkpoints(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    keeper: Mutex<Keeper>,
    /// What goes on after a call has answered.
    pending: Mutex<Option<JoinHandle<()>>>,
    /// Nobody wants to know any more.
    is_over: AtomicBool,
    events: Arc<Broadcast>,
    background: Background,
    /// How many calls of subagents run of which nobody can tell what they change.
    beside: AtomicU32,
}

impl Shared {
    fn keeper(&self) -> MutexGuard<'_, Keeper> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_work(&self) -> bool {
        !self.background.under_way().is_empty()
    }

    fn tell(&self, keeper: &mut Keeper) {
        if let Some(words) = keeper.store.take_trouble() {
            self.events.send(&Event::Warning(words));
        }
    }
}

impl Checkpoints {
    pub(crate) fn new(place: Place, events: Arc<Broadcast>, background: Background) -> Self {
        Self(Arc::new(Shared {
            keeper: Mutex::new(Keeper::new(place, Bounds::default())),
            pending: Mutex::default(),
            is_over: AtomicBool::new(false),
            events,
            background,
            beside: AtomicU32::new(0),
        }))
    }

    /// What keeps the old contents of what a call changes.
    pub(crate) fn of_call(&self, turn: u32, call: &ToolUseId, touched: Touched) -> Checkpoint {
        Checkpoint {
            checkpoints: self.clone(),
            turn,
            call: call.to_string(),
            touched,
            beside: None,
        }
    }

    /// Runs something that nobody waits for now, but the next who comes.
    fn run(&self, work: impl FnOnce(&mut Keeper, &Shared, Quit<'_>) + Send + 'static) {
        let shared = Arc::clone(&self.0);
        let before = self.pending().take();
        let task = tokio::task::spawn_blocking(move || {
            let quit = || shared.is_over.load(Ordering::Relaxed);
            let mut keeper = shared.keeper();
            work(&mut keeper, &shared, &quit);
            shared.tell(&mut keeper);
        });
        let task = match before {
            None => task,
            Some(before) => tokio::spawn(async move {
                drop(before.await);
                drop(task.await);
            }),
        };
        *self.pending() = Some(task);
    }

    /// The conversation was taken back to before this turn.
    pub(crate) fn cut(&self, turn: u32) {
        self.run(move |keeper, _, quit| keeper.cut(turn, quit));
    }

    fn pending(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.0
            .pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn settle(&self) {
        let pending = self.pending().take();
        if let Some(task) = pending {
            drop(task.await);
        }
    }

    /// Waits for what goes on, and takes note of what background work has done.
    pub(crate) async fn close(&self) {
        let close = async {
            self.settle().await;
            if self.0.keeper().had_work() {
                self.run(|keeper, _, quit| keeper.catch_work(false, quit));
                self.settle().await;
            }
        };
        if tokio::time::timeout(CLOSE, close).await.is_err() {
            self.0.is_over.store(true, Ordering::Relaxed);
        }
    }

    /// Restores files, or says what would be restored.
    pub(crate) async fn rewind(
        &self,
        back: Back,
        turns: u32,
        how: How,
    ) -> io::Result<FilesRewound> {
        self.settle().await;
        let shared = Arc::clone(&self.0);
        let rewound = tokio::task::spawn_blocking(move || {
            let quit = || shared.is_over.load(Ordering::Relaxed);
            let mut keeper = shared.keeper();
            let rewound = keeper.rewind(back, turns, how, shared.has_work(), &quit);
            shared.tell(&mut keeper);
            rewound
        });
        rewound
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)))
    }
}

/// What keeps the old contents of what one call changes.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    checkpoints: Checkpoints,
    turn: u32,
    call: String,
    touched: Touched,
    /// It runs beside others.
    beside: Option<Beside>,
}

impl Checkpoint {
    /// The call is about to run. Returns false if it was cancelled meanwhile.
    pub(crate) async fn before(&self, cancellation: &CancellationToken) -> bool {
        self.checkpoints.settle().await;
        let shared = Arc::clone(&self.checkpoints.0);
        let cancelled = cancellation.clone();
        let (turn, call, touched) = (self.turn, self.call.clone(), self.touched.clone());
        let beside = self.beside.as_ref().map(Beside::found);
        let kept = tokio::task::spawn_blocking(move || {
            let quit = || cancelled.is_cancelled();
            let mut keeper = shared.keeper();
            let kept = match beside {
                Some(found) => {
                    let kept = keeper.before_beside(turn, &touched, &quit);
                    kept.map(|files| found.set(files))
                }
                None => keeper.before(turn, &call, &touched, shared.has_work(), &quit),
            };
            shared.tell(&mut keeper);
            kept != Err(Refusal::Cancelled)
        });
        // A fault of ours must not keep the call from running; what it changes is found by the next.
        kept.await.unwrap_or(true)
    }

    /// The call has run. Returns at once; the next call waits for what goes on.
    pub(crate) fn after(self) {
        if let Some(beside) = self.beside {
            let turn = self.turn;
            let checkpoints = self.checkpoints;
            return checkpoints.run(move |keeper, _, quit| beside.after(keeper, turn, quit));
        }
        self.checkpoints
            .run(|keeper, shared, quit| keeper.after(shared.has_work(), quit));
    }
}

/// Gives a fork the record of what was changed in its past, as far as that is kept. What cannot be
/// carried over cannot be rewound in the fork.
pub(crate) fn inherit(from: &Path, to: &Path, turns: usize) {
    let turns = u32::try_from(turns).unwrap_or(u32::MAX);
    drop(manifest::inherit(
        &from.join(manifest::NAME),
        &to.join(manifest::NAME),
        turns,
    ));
}

/// The files that were changed in each of these turns, as far as is known.
pub(crate) fn changed_files(folder: &Path, turns: u32) -> io::Result<Vec<Vec<PathBuf>>> {
    let mut history = manifest::History::default();
    manifest::read(&folder.join(manifest::NAME), 0, |line, _| {
        history.apply(&line);
    })?;
    history.catch_up(turns);
    let changed = |turn| history.changed_in(turn).into_iter().map(Path::to_owned);
    Ok((1..=turns).map(|turn| changed(turn).collect()).collect())
}

/// What a call may change, if it has effects.
pub(crate) fn touched(access: &Access, workspace: &Path) -> Option<Touched> {
    if !access.effect.reaches_outside() {
        return None;
    }
    let mut files = Vec::new();
    for touch in &access.touches {
        match touch {
            Touch::Write(path) => files.push(workspace.join(path)),
            Touch::Read(_) | Touch::Host(_) | Touch::Grant(_) => {}
            Touch::Command(_) | Touch::Input(_) => return Some(Touched::Anything),
        }
    }
    Some(if files.is_empty() {
        Touched::Anything
    } else {
        Touched::Files(files)
    })
}
