//! The thread that starts all commands and keeps what they leave behind.
//!
//! Commands die by SIGKILL when the thread that started them ends, so they are started by one that
//! lives as long as its owner. While there are leftovers, the thread drains their output (else
//! they would stand still or die of it), reaps those that came to this process, and notes when the
//! last of a session is gone.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::platform::{self, Guardian, Image, Note, Spawner, Stage};
use crate::shared::{Phase, Session, Shared};

/// How long a leftover is left alone that prints without end.
const BREATH: Duration = Duration::from_millis(20);

/// How many guardians a run may have, one after the other: somebody kills them.
const GUARDIANS: u32 = 8;

/// A command to be started.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) image: Image,
    pub(crate) command: u64,
    pub(crate) leftovers: Option<CancellationToken>,
    /// When it closes, all processes of the command die, if they have a namespace of their own.
    pub(crate) lifeline: Option<OwnedFd>,
    pub(crate) answer: oneshot::Sender<Result<i32, (Stage, io::Error)>>,
}

/// The life of the keeper.
pub(crate) fn keep(shared: &Shared, mut requests: mpsc::Receiver<Request>) {
    start_guardian(shared);
    let mut guardians = 1;
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
        if guardians < GUARDIANS && shared.state().guardian.is_none() {
            guardians += 1;
            start_guardian(shared);
        }
        let tick = shared.next_care();
        if tick.is_some_and(|tick| cared.elapsed() >= tick) {
            care(shared);
            cared = Instant::now();
            continue;
        }
        let timeout = if is_busy { Some(BREATH) } else { tick };
        is_busy = wait(shared, timeout, is_busy);
    }
    let is_clean = shared.is_clean();
    let mut state = shared.state();
    if is_clean {
        state.tell(Note::Farewell);
    }
    let guardian = state.guardian.take();
    drop(state);
    if let Some(guardian) = guardian {
        guardian.dismiss();
    }
}

fn start_guardian(shared: &Shared) {
    let started = Guardian::start(&shared.run);
    let mut state = shared.state();
    match started {
        Ok(guardian) => state.set_guardian(guardian),
        Err(error) => state.guardian_failure = Some(error),
    }
}

fn start(shared: &Shared, spawner: &mut io::Result<Spawner>, request: Request) {
    let guardian = shared.state().guardian.as_ref().map(Guardian::connection);
    let started = match spawner {
        Ok(spawner) => spawner.spawn(&request.image, guardian.as_deref()),
        Err(error) => Err((
            Stage::Prepare,
            io::Error::new(error.kind(), error.to_string()),
        )),
    };
    drop(guardian);
    if let Ok((pid, is_guarded)) = started {
        let mut state = shared.state();
        if !is_guarded {
            state.tell(Note::Session(pid));
        }
        state.sessions.insert(
            pid,
            Session {
                command: request.command,
                phase: Phase::Running,
                pipe: None,
                ends: request.leftovers,
                lifeline: request.lifeline,
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
        let failed = started.map(|(pid, _)| pid);
        request.answer.send(failed).unwrap_or_default();
    }
}

/// Looks after leftovers.
fn care(shared: &Shared) {
    shared.adopt(None);
    let waiting: Vec<(i32, u64, Phase, bool)> = shared
        .state()
        .sessions
        .iter()
        .filter(|(_, session)| session.phase != Phase::Running)
        .map(|(id, session)| (*id, session.command, session.phase, session.is_to_end()))
        .collect();
    for &(id, command, phase, is_to_end) in &waiting {
        let members = shared.scope_of(id, command).members();
        let is_abandoned = matches!(phase, Phase::Abandoned(_));
        if is_abandoned || is_to_end {
            for process in &members {
                platform::kill(process, Signal::KILL);
            }
        }
        if is_abandoned {
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
    let guardian = shared.state().guardian.as_ref().map(Guardian::connection);
    let mut fds = vec![PollFd::new(&shared.wake, PollFlags::IN)];
    if let Some(guardian) = &guardian {
        // It says nothing: only its end is told.
        fds.push(PollFd::new(guardian, PollFlags::empty()));
    }
    let others = fds.len();
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
    let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
    let is_unguarded = ready.nth(others - 1).unwrap_or(false) && guardian.is_some();
    let ready: Vec<bool> = ready.collect();
    drop(fds);
    if is_unguarded {
        shared
            .state()
            .lose_guardian(io::ErrorKind::BrokenPipe.into());
    }
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
