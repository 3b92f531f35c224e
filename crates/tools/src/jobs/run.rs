//! The life of a job.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use tooloop_exec::{Command, StartError};

use super::job::Job;
use super::stall;
use crate::Ops;
use crate::confinement::Wall;

/// How often a job is said to wait for an answer at most.
const HINTS: u32 = 3;

/// Runs a job to its end. Dropping it kills the job.
pub(super) async fn run(
    job: Arc<Job>,
    ops: Arc<dyn Ops>,
    command: Command,
    mut wall: Option<Wall>,
    started: oneshot::Sender<Result<(), StartError>>,
    stall_after: Duration,
) {
    let mut newest = job.newest.clone();
    let mut started = Some(started);
    let mut hints = 0;
    let mut is_told = true;
    let mut is_waited_for = false;
    let mut command = std::pin::pin!(ops.execute(command));
    let mut silence = std::pin::pin!(sleep(stall_after));
    let ran = loop {
        tokio::select! {
            ran = &mut command => break ran,
            changed = newest.changed(), if is_told => {
                is_told = changed.is_ok();
                if let Some(started) = started.take_if(|_| is_told) {
                    // Who does not wait any more will hear of the end.
                    started.send(Ok(())).unwrap_or_default();
                }
                is_waited_for = is_told && hints < HINTS;
                silence.as_mut().reset(Instant::now() + stall_after);
            }
            () = &mut silence, if is_waited_for => {
                is_waited_for = false;
                let hint = stall::hint(&job.id, &newest.borrow().tail, stall_after);
                if let Some(hint) = hint {
                    hints += 1;
                    job.say(hint);
                }
            }
        }
    };
    let ran = match (ran, started) {
        (Err(error), Some(started)) => match started.send(Err(error)) {
            // The call tells it, and forgets the job.
            Ok(()) | Err(Ok(())) => return,
            Err(Err(error)) => Err(error),
        },
        (ran, started) => {
            if let Some(started) = started {
                started.send(Ok(())).unwrap_or_default();
            }
            ran
        }
    };
    let refusals = match (&ran, &mut wall) {
        (Ok(outcome), Some(wall)) => wall.refusals(outcome),
        (Ok(_) | Err(_), _) => Vec::new(),
    };
    job.finish(&ran, &refusals);
}
