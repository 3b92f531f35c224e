//! One program on a terminal, and the task that watches it.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tooloop_exec::{Terminal, TerminalSize};
use tooloop_policy::Grant;
use tooloop_tool::Work;

use super::screen::{Screen, View};
use crate::ending;

/// How much is read at once.
const READ: usize = 4096;

/// After that many bytes without a pause the program is left alone for a moment.
const BURST: usize = 256 * 1024;
const BREATH: Duration = Duration::from_millis(10);

/// For how long the last output is waited for once the program has exited.
const LAST_OUTPUT: Duration = Duration::from_millis(300);

/// A program on a terminal. The last one to let go of it ends the program.
pub(super) struct Live {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) terminal: Terminal,
    /// What it was given beyond the sandbox.
    pub(super) grants: Vec<Grant>,
    /// Counts what was printed.
    pub(super) printed: watch::Receiver<u64>,
    /// Fires when the program has exited and its last output is on the screen.
    pub(super) has_ended: CancellationToken,
    /// Held while something is typed, so that nothing is mixed.
    pub(super) typing: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

struct State {
    screen: Screen,
    size: TerminalSize,
    shown: u64,
    end: Option<String>,
    /// What the sandbox took back when it had ended.
    notes: Vec<String>,
    is_stopped: bool,
    /// As long as it runs. It ends without a word: who wants to know looks at the screen.
    work: Option<Work>,
}

/// What came of typing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Typed {
    All,
    /// The program took no more within the time.
    Part(usize),
    Cancelled,
}

impl Live {
    pub(super) fn add_notes(&self, notes: Vec<String>) {
        self.state().notes.extend(notes);
    }

    pub(super) fn notes(&self) -> Vec<String> {
        self.state().notes.clone()
    }

    pub(super) fn new(
        id: String,
        title: String,
        terminal: Terminal,
        size: TerminalSize,
        printed: watch::Receiver<u64>,
        (work, grants): (Work, Vec<Grant>),
    ) -> Self {
        Self {
            id,
            title,
            terminal,
            grants,
            printed,
            has_ended: CancellationToken::new(),
            typing: tokio::sync::Mutex::new(()),
            state: Mutex::new(State {
                screen: Screen::new(size),
                size,
                shown: 0,
                end: None,
                notes: Vec::new(),
                is_stopped: false,
                work: Some(work),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the program ended, in words.
    pub(super) fn end(&self) -> Option<String> {
        self.state().end.clone()
    }

    pub(super) fn is_running(&self) -> bool {
        self.state().end.is_none()
    }

    pub(super) fn application_cursor(&self) -> bool {
        self.state().screen.application_cursor()
    }

    /// What is to be seen, and the size of the screen.
    pub(super) fn show(&self) -> (View, TerminalSize) {
        let mut state = self.state();
        // Under the lock, as what is printed is counted when it is on the screen.
        state.shown = *self.printed.borrow();
        (state.screen.look(), state.size)
    }

    /// How much had been printed when it was shown.
    pub(super) fn shown(&self) -> u64 {
        self.state().shown
    }

    /// Changes the size where one is given that is another; `true` if so.
    pub(super) fn resize(&self, rows: Option<u16>, columns: Option<u16>) -> io::Result<bool> {
        let mut state = self.state();
        let size = TerminalSize {
            rows: rows.unwrap_or(state.size.rows),
            columns: columns.unwrap_or(state.size.columns),
        };
        if size == state.size {
            return Ok(false);
        }
        // The screen first, so that what is printed for the new size finds it.
        state.screen.resize(size);
        state.size = size;
        self.terminal.resize(size)?;
        Ok(true)
    }

    /// Types bytes, for as long as `limit` at most.
    pub(super) async fn type_bytes(
        &self,
        bytes: &[u8],
        limit: Duration,
        cancellation: &CancellationToken,
    ) -> Typed {
        let limit = sleep(limit);
        tokio::pin!(limit);
        let mut typed = 0;
        while let Some(rest) = bytes.get(typed..).filter(|rest| !rest.is_empty()) {
            tokio::select! {
                written = self.terminal.write(rest) => match written {
                    Ok(length) => typed += length,
                    Err(_) => return Typed::Part(typed),
                },
                () = self.has_ended.cancelled() => return Typed::Part(typed),
                () = &mut limit => return Typed::Part(typed),
                () = cancellation.cancelled() => return Typed::Cancelled,
            }
        }
        Typed::All
    }

    /// Waits until something has been printed since `seen` and nothing more for a while, until the
    /// program has ended, or for `wait` at most. `false` if it was cancelled.
    pub(super) async fn settle(
        &self,
        seen: u64,
        quiet: Duration,
        wait: Duration,
        cancellation: &CancellationToken,
    ) -> bool {
        let limit = sleep(wait);
        tokio::pin!(limit);
        let mut printed = self.printed.clone();
        let mut is_quiet = (*printed.borrow_and_update() != seen).then(|| Instant::now() + quiet);
        loop {
            tokio::select! {
                () = self.has_ended.cancelled() => return true,
                () = cancellation.cancelled() => return false,
                () = &mut limit => return true,
                () = until(is_quiet) => return true,
                changed = printed.changed() => match changed {
                    Ok(()) => is_quiet = Some(Instant::now() + quiet),
                    // Nobody watches any more.
                    Err(_) => return true,
                },
            }
        }
    }

    /// Ends the program with all its processes.
    pub(super) async fn stop(&self) {
        self.state().is_stopped = true;
        self.terminal.end().await;
    }

    /// Takes output, and gives what is to be answered to it.
    fn feed(&self, bytes: &[u8]) -> Vec<u8> {
        self.state().screen.feed(bytes)
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Watches a terminal until nobody holds it any more.
pub(super) async fn watch(live: Arc<Live>, printed: watch::Sender<u64>) {
    let mut buffer = vec![0; READ];
    let mut replies: Vec<u8> = Vec::new();
    let mut burst = 0;
    let mut end = None;
    let mut last_output = None;
    loop {
        tokio::select! {
            biased;
            exited = live.terminal.exited(), if end.is_none() => {
                end = Some(ending::end(exited).0);
                last_output = Some(Instant::now() + LAST_OUTPUT);
            }
            () = until(last_output) => {
                last_output = None;
                finish(&live, end.clone());
            }
            written = live.terminal.write(&replies), if !replies.is_empty() => {
                // Who hangs up wants no answer.
                let written = written.unwrap_or(replies.len());
                replies.drain(..written.min(replies.len()));
            }
            read = live.terminal.read(&mut buffer) => {
                let length = read.unwrap_or(0);
                let bytes = buffer.get(..length).unwrap_or_default();
                if bytes.is_empty() {
                    break;
                }
                let answer = live.feed(bytes);
                // What waits to be read is bounded by what is answered at once.
                if replies.is_empty() {
                    replies = answer;
                }
                printed.send_modify(|printed| *printed += length as u64);
                burst = if length == READ { burst + length } else { 0 };
                if burst >= BURST {
                    burst = 0;
                    sleep(BREATH).await;
                } else {
                    yield_now().await;
                }
            }
        }
    }
    let end = match end {
        Some(end) => end,
        None => ending::end(live.terminal.exited().await).0,
    };
    finish(&live, Some(end));
}

fn finish(live: &Live, end: Option<String>) {
    let mut state = live.state();
    state.work = None;
    if state.end.is_none() {
        state.end = if state.is_stopped {
            Some("stopped with all its processes".into())
        } else {
            end
        };
    }
    drop(state);
    live.has_ended.cancel();
}
