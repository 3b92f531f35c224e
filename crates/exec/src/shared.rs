//! What the keeper and all handles of an owner share: which commands there are, and what is left.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use tokio_util::sync::CancellationToken;

use crate::platform::{
    self, Guardian, MARK, Note, children_of_self, oom_score, read_process, run_marker,
};
use crate::tree::{self, Scope};

/// How often leftovers are looked after.
const TICK: Duration = Duration::from_secs(1);

/// How often those are that nobody waits for, and that are to be gone at once.
const BREATH: Duration = Duration::from_millis(20);

/// For how long they are to be gone at once.
const PATIENCE: Duration = Duration::from_secs(5);

/// By how much the kernel prefers commands to this process when memory runs out. Inherited by all
/// descendants, it also tells an orphan of a command from another child of this process.
const OOM_STEP: i32 = 100;

/// What the keeper and all handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) run: String,
    /// The mark that this process itself was started with, if it is part of another run.
    outer: Option<String>,
    next: AtomicU64,
    state: Mutex<State>,
    pub(crate) wake: OwnedFd,
    pub(crate) stopping: AtomicBool,
    own_oom_score: Option<i32>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) sessions: HashMap<i32, Session>,
    /// Orphans of commands that are children of this process, and of which command they are.
    adopted: HashMap<i32, Option<u64>>,
    pub(crate) guardian: Option<Guardian>,
    pub(crate) guardian_failure: Option<io::Error>,
}

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) command: u64,
    pub(crate) phase: Phase,
    /// The end of the pipe that leftovers may still write to.
    pub(crate) pipe: Option<OwnedFd>,
    /// Fires when what is left is to end.
    pub(crate) ends: Option<CancellationToken>,
    /// Closes with this, and all processes in a namespace of their own die.
    #[expect(dead_code, reason = "it only has to stay open")]
    pub(crate) lifeline: Option<OwnedFd>,
}

impl Session {
    pub(crate) fn is_to_end(&self) -> bool {
        self.ends
            .as_ref()
            .is_some_and(CancellationToken::is_cancelled)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Someone waits for its shell.
    Running,
    /// The shell is gone, its leftovers are not.
    Left,
    /// Nobody waits, since then: to be killed and reaped.
    Abandoned(Instant),
}

impl Shared {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            run: platform::random_id(),
            outer: std::env::var(MARK).ok().filter(|mark| mark.len() < 1000),
            next: AtomicU64::new(1),
            state: Mutex::default(),
            wake: platform::above_standard(eventfd(
                0,
                EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK,
            )?)?,
            stopping: AtomicBool::new(false),
            own_oom_score: oom_score(std::process::id().cast_signed()),
        })
    }

    pub(crate) fn next_command(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The value of the mark for a command.
    pub(crate) fn mark(&self, command: u64) -> String {
        let run = &self.run;
        match &self.outer {
            Some(outer) => format!("{outer}:{run}.{command}"),
            None => format!("{run}.{command}"),
        }
    }

    /// Has the keeper look.
    pub(crate) fn wake(&self) {
        // It fails only if the keeper has not yet looked since very many calls.
        rustix::io::write(&self.wake, &1_u64.to_ne_bytes()).unwrap_or_default();
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Whether there is a guardian: `None` before the first command.
    pub(crate) fn guardian(&self) -> Option<Result<(), io::Error>> {
        let state = self.state();
        match (&state.guardian, &state.guardian_failure) {
            (Some(_), _) => Some(Ok(())),
            (None, Some(error)) => Some(Err(io::Error::new(error.kind(), error.to_string()))),
            (None, None) => None,
        }
    }

    /// What belongs to a command.
    pub(crate) fn scope_of(&self, session: i32, command: u64) -> Scope {
        Scope {
            run: self.run.clone(),
            command: Some(command),
            sessions: HashSet::from([session]),
            known: self.orphans_of(command),
        }
    }

    /// What belongs to the run.
    pub(crate) fn scope(&self) -> Scope {
        self.adopt(None);
        let state = self.state();
        Scope {
            run: self.run.clone(),
            command: None,
            sessions: state.sessions.keys().copied().collect(),
            known: state.adopted.keys().copied().collect(),
        }
    }

    /// Whether a session is known and has not been seen to be empty.
    pub(crate) fn knows(&self, session: i32) -> bool {
        self.state().sessions.contains_key(&session)
    }

    /// Whether nothing is known to be left. Without being told of orphans one cannot know.
    pub(crate) fn is_clean(&self) -> bool {
        self.adopt(None);
        let state = self.state();
        state.sessions.is_empty()
            && state.adopted.is_empty()
            && (self.next.load(Ordering::Relaxed) == 1 || platform::is_subreaper())
    }

    /// A command is over: its session is forgotten if nothing is left of it, else kept.
    pub(crate) fn finished(&self, session: i32, left: Option<Option<OwnedFd>>) {
        let mut state = self.state();
        match left {
            None => state.forget(session),
            Some(pipe) => {
                if let Some(entry) = state.sessions.get_mut(&session) {
                    entry.phase = Phase::Left;
                    entry.pipe = pipe;
                }
                drop(state);
                self.wake();
            }
        }
    }

    /// All leftovers were ended: forgets them.
    pub(crate) fn settle(&self) {
        self.adopt(None);
        let mut state = self.state();
        let left: Vec<i32> = state
            .sessions
            .iter()
            .filter(|(_, session)| session.phase == Phase::Left)
            .map(|(id, _)| *id)
            .collect();
        for session in left {
            state.forget(session);
        }
    }

    /// How soon leftovers are to be looked after; `None` if there are none.
    pub(crate) fn next_care(&self) -> Option<Duration> {
        let state = self.state();
        let mut phases = state.sessions.values().map(|session| session.phase);
        let is_urgent =
            |phase| matches!(phase, Phase::Abandoned(since) if since.elapsed() < PATIENCE);
        if phases.clone().any(is_urgent) {
            Some(BREATH)
        } else if !state.adopted.is_empty() || phases.any(|phase| phase != Phase::Running) {
            Some(TICK)
        } else {
            None
        }
    }

    /// Nobody waits for a command any more: kills it, and has the keeper see to the rest.
    pub(crate) fn abandon(&self, session: i32) {
        let mut state = self.state();
        if let Some(entry) = state.sessions.get_mut(&session) {
            entry.phase = Phase::Abandoned(Instant::now());
            drop(state);
            tree::signal_group(session, Signal::KILL);
            self.wake();
        }
    }

    /// Looks at the children that this process has, notes those that are orphans of commands, and
    /// reaps the dead among them.
    ///
    /// A new one of which nothing says where it came from is laid to the command that just `ended`.
    pub(crate) fn adopt(&self, ended: Option<u64>) {
        if !platform::is_subreaper() {
            return;
        }
        let children = children_of_self();
        let mut state = self.state();
        let gone: Vec<i32> = state
            .adopted
            .keys()
            .filter(|pid| !children.contains(pid))
            .copied()
            .collect();
        for pid in gone {
            state.disown(pid);
        }
        for pid in children {
            if state
                .sessions
                .get(&pid)
                .is_some_and(|session| session.phase != Phase::Left)
            {
                continue;
            }
            let Some(process) = read_process(pid) else {
                continue;
            };
            let is_known = state.adopted.contains_key(&pid);
            let owner = state
                .sessions
                .get(&process.session)
                .map(|session| session.command)
                .or_else(|| self.marked_command(pid));
            if !is_known && owner.is_none() && !self.has_oom_mark(pid) {
                continue;
            }
            if process.is_dead {
                state.disown(pid);
                // It is ours, so its number cannot have passed to another child.
                waitpid(Pid::from_raw(pid), WaitOptions::NOHANG).unwrap_or_default();
            } else if !is_known {
                state.adopted.insert(pid, owner.or(ended));
                state.tell(Note::Process(pid));
            }
        }
    }

    /// The orphans that are of a command.
    pub(crate) fn orphans_of(&self, command: u64) -> HashSet<i32> {
        let state = self.state();
        let orphans = state.adopted.iter();
        orphans
            .filter(|(_, owner)| **owner == Some(command))
            .map(|(pid, _)| *pid)
            .collect()
    }

    /// The command that a process is marked with.
    fn marked_command(&self, pid: i32) -> Option<u64> {
        run_marker(pid)?.split(':').find_map(|entry| {
            let (run, command) = entry.split_once('.')?;
            (run == self.run).then(|| command.parse().ok())?
        })
    }

    fn has_oom_mark(&self, pid: i32) -> bool {
        self.oom_mark()
            .is_some_and(|mark| oom_score(pid) == Some(mark))
    }

    /// The score that commands are given, if it differs from ours.
    pub(crate) fn oom_mark(&self) -> Option<i32> {
        let own = self.own_oom_score?;
        let mark = own.saturating_add(OOM_STEP).min(1000);
        (mark != own).then_some(mark)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    pub(crate) fn tell(&mut self, note: Note) {
        let told = self.guardian.as_ref().map(|guardian| guardian.tell(note));
        if let Some(Err(error)) = told {
            self.lose_guardian(error);
        }
    }

    /// It was killed. The keeper, which sees its end too, starts another one.
    pub(crate) fn lose_guardian(&mut self, error: io::Error) {
        self.guardian_failure = Some(error);
        if let Some(guardian) = self.guardian.take() {
            guardian.dismiss();
        }
    }

    /// There is a guardian, the first or another one: tells it all that there is to know.
    pub(crate) fn set_guardian(&mut self, guardian: Guardian) {
        self.guardian = Some(guardian);
        self.guardian_failure = None;
        let sessions: Vec<i32> = self.sessions.keys().copied().collect();
        let orphans: Vec<i32> = self.adopted.keys().copied().collect();
        for session in sessions {
            self.tell(Note::Session(session));
        }
        for orphan in orphans {
            self.tell(Note::Process(orphan));
        }
    }

    pub(crate) fn forget(&mut self, session: i32) {
        if self.sessions.remove(&session).is_some() {
            self.tell(Note::SessionGone(session));
        }
    }

    fn disown(&mut self, pid: i32) {
        if self.adopted.remove(&pid).is_some() {
            self.tell(Note::ProcessGone(pid));
        }
    }
}
