//! The thread that starts all commands and keeps what they leave behind.
//!
//! Commands die by SIGKILL when the thread that started them ends, so they are started by one that
//! lives as long as its owner. While there are leftovers, the thread drains their output (else
//! they would stand still or die of it), reaps those that came to this process, and notes when the
//! last of a session is gone.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use tokio::sync::{mpsc, oneshot};

use crate::platform::{
    self, Guardian, Image, MARK, Note, Spawner, Stage, children_of_self, oom_score, read_process,
    run_marker,
};
use crate::tree::{self, Scope};

/// How often leftovers are looked after.
const TICK: Duration = Duration::from_secs(1);

/// How long one is left alone that prints without end.
const BREATH: Duration = Duration::from_millis(20);

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
    wake: OwnedFd,
    stopping: AtomicBool,
    own_oom_score: Option<i32>,
}

#[derive(Debug, Default)]
struct State {
    sessions: HashMap<i32, Session>,
    /// Orphans of commands that are children of this process, and of which command they are.
    adopted: HashMap<i32, Option<u64>>,
    guardian: Option<Guardian>,
    guardian_failure: Option<io::Error>,
}

#[derive(Debug)]
struct Session {
    command: u64,
    phase: Phase,
    /// The end of the pipe that leftovers may still write to.
    pipe: Option<OwnedFd>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Someone waits for its shell.
    Running,
    /// The shell is gone, its leftovers are not.
    Left,
    /// Nobody waits: to be killed and reaped.
    Abandoned,
}

enum Need {
    None,
    Some,
    Urgent,
}

/// A command to be started.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) image: Image,
    pub(crate) command: u64,
    pub(crate) answer: oneshot::Sender<Result<i32, (Stage, io::Error)>>,
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

    #[cfg(test)]
    pub(crate) fn guardian_pid(&self) -> Option<i32> {
        self.state().guardian.as_ref().map(Guardian::pid)
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

    fn needs_care(&self) -> Need {
        let state = self.state();
        let mut phases = state.sessions.values().map(|session| session.phase);
        if phases.clone().any(|phase| phase == Phase::Abandoned) {
            Need::Urgent
        } else if !state.adopted.is_empty() || phases.any(|phase| phase == Phase::Left) {
            Need::Some
        } else {
            Need::None
        }
    }

    /// Nobody waits for a command any more: kills it, and has the keeper see to the rest.
    pub(crate) fn abandon(&self, session: i32) {
        let mut state = self.state();
        if let Some(entry) = state.sessions.get_mut(&session) {
            entry.phase = Phase::Abandoned;
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn tell(&self, note: Note) {
        if let Some(guardian) = &self.guardian {
            guardian.tell(note);
        }
    }

    fn forget(&mut self, session: i32) {
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

/// The life of the keeper.
pub(crate) fn keep(shared: &Shared, mut requests: mpsc::Receiver<Request>) {
    let mut spawner = Spawner::new();
    let mut is_busy = false;
    let mut cared = Instant::now();
    loop {
        while let Ok(request) = requests.try_recv() {
            start(shared, &mut spawner, request);
        }
        if shared.stopping.load(Ordering::SeqCst) {
            break;
        }
        let tick = match shared.needs_care() {
            Need::None => None,
            Need::Some => Some(TICK),
            Need::Urgent => Some(BREATH),
        };
        if tick.is_some_and(|tick| cared.elapsed() >= tick) {
            care(shared);
            cared = Instant::now();
            continue;
        }
        let timeout = if is_busy { Some(BREATH) } else { tick };
        is_busy = wait(shared, timeout, is_busy);
    }
    let is_clean = shared.is_clean();
    let guardian = shared.state().guardian.take();
    if let Some(guardian) = guardian {
        if is_clean {
            guardian.tell(Note::Farewell);
        }
        guardian.dismiss();
    }
}

fn start(shared: &Shared, spawner: &mut io::Result<Spawner>, request: Request) {
    {
        let mut state = shared.state();
        if state.guardian.is_none() && state.guardian_failure.is_none() {
            match Guardian::start(&shared.run) {
                Ok(guardian) => state.guardian = Some(guardian),
                Err(error) => state.guardian_failure = Some(error),
            }
        }
    }
    let started = match spawner {
        Ok(spawner) => spawner.spawn(&request.image),
        Err(error) => Err((
            Stage::Prepare,
            io::Error::new(error.kind(), error.to_string()),
        )),
    };
    if let Ok(pid) = started {
        let mut state = shared.state();
        state.tell(Note::Session(pid));
        state.sessions.insert(
            pid,
            Session {
                command: request.command,
                phase: Phase::Running,
                pipe: None,
            },
        );
        drop(state);
        // The pipe must end with the last process that writes to it.
        drop(request.image);
        if request.answer.send(Ok(pid)).is_err() {
            shared.abandon(pid);
        }
    } else {
        // Who asked and went away needs no answer.
        request.answer.send(started).unwrap_or_default();
    }
}

/// Looks after leftovers.
fn care(shared: &Shared) {
    shared.adopt(None);
    let waiting: Vec<(i32, u64, Phase)> = shared
        .state()
        .sessions
        .iter()
        .filter(|(_, session)| session.phase != Phase::Running)
        .map(|(id, session)| (*id, session.command, session.phase))
        .collect();
    for &(id, command, phase) in &waiting {
        let members = shared.scope_of(id, command).members();
        if phase == Phase::Abandoned {
            for process in &members {
                platform::kill(process, Signal::KILL);
            }
            // Its shell is a child that nobody else waits for.
            if waitpid(Pid::from_raw(id), WaitOptions::NOHANG).is_ok_and(|reaped| reaped.is_none())
            {
                continue;
            }
            if let Some(session) = shared.state().sessions.get_mut(&id) {
                session.phase = Phase::Left;
            }
        }
        if members.is_empty() {
            shared.state().forget(id);
        }
    }
}

/// Waits until there is something to do, and drains the pipes of leftovers. `true` if one prints
/// so much that it is to be left alone for a moment.
fn wait(shared: &Shared, timeout: Option<Duration>, is_busy: bool) -> bool {
    // The pipes are taken out while they are used, so that nothing is locked meanwhile.
    let mut pipes: Vec<(i32, OwnedFd)> = shared
        .state()
        .sessions
        .iter_mut()
        .filter_map(|(id, session)| Some((*id, session.pipe.take()?)))
        .collect();
    let mut fds = vec![PollFd::new(&shared.wake, PollFlags::IN)];
    if !is_busy {
        fds.extend(
            pipes
                .iter()
                .map(|(_, pipe)| PollFd::new(pipe, PollFlags::IN)),
        );
    }
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    // An interrupted wait is a short one.
    poll(&mut fds, timeout.as_ref()).unwrap_or_default();
    let ready: Vec<bool> = fds
        .iter()
        .skip(1)
        .map(|fd| !fd.revents().is_empty())
        .collect();
    drop(fds);
    rustix::io::read(&shared.wake, &mut [0_u8; 8]).unwrap_or_default();
    let mut buffer = [0_u8; 64 * 1024];
    let mut prints_much = false;
    let mut ready = ready.into_iter();
    pipes.retain(|(_, pipe)| {
        if !ready.next().unwrap_or(false) {
            return true;
        }
        match rustix::io::read(pipe.as_fd(), &mut buffer) {
            Ok(0) => false,
            Ok(length) => {
                prints_much |= length == buffer.len();
                true
            }
            Err(error) => matches!(error, rustix::io::Errno::AGAIN | rustix::io::Errno::INTR),
        }
    });
    let mut state = shared.state();
    for (id, pipe) in pipes {
        if let Some(session) = state.sessions.get_mut(&id) {
            session.pipe = Some(pipe);
        }
    }
    prints_much
}
