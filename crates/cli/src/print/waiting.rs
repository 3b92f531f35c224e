//! The end of a headless run waits for background work whose end the model was promised a notice of.

use tokio::time::Instant;

use super::Done;
use super::turns::{Lines, Run, passed};
use crate::control;
use crate::exit::{Failure, Status};

impl Run<'_> {
    /// Waits for background work and lets the model answer to what it comes to. Returns the last
    /// answer, which stands for all turns, and a failure if work was lost.
    pub(super) async fn settled(&mut self, first: Done) -> (Done, Option<Failure>) {
        let mut last = first;
        while last.is_complete() && self.stopped.is_none() {
            match self.next_turn().await {
                Ok(Some(Done::Turn(mut report))) => {
                    if let Done::Turn(earlier) = last {
                        report.add_earlier(*earlier);
                    }
                    last = Done::Turn(report);
                }
                Ok(Some(Done::Answer(_)) | None) => break,
                Err(failure) => {
                    self.note_background(&mut last);
                    return (last, Some(failure));
                }
            }
        }
        self.note_background(&mut last);
        (last, None)
    }

    /// The same after the last message of standard input, when each turn has a result of its own.
    /// Returns the status of the last turn, and a failure if work was lost.
    pub(super) async fn settled_after(&mut self) -> (Status, Option<Failure>) {
        let mut status = Status::Done;
        while status == Status::Done && self.stopped.is_none() {
            match self.next_turn().await {
                Ok(Some(done)) => status = self.tell(done).await,
                Ok(None) => break,
                Err(failure) => return (status, Some(failure)),
            }
        }
        (status, None)
    }

    /// The next turn that background work begins; `None` if no work is under way any more.
    async fn next_turn(&mut self) -> Result<Option<Done>, Failure> {
        let session = self.session;
        if !session.has_begun_background() {
            return Ok(None);
        }
        let end = Instant::now().checked_add(self.background_wait);
        loop {
            // In this order: work says how it ended before it is over.
            let is_over = session.promised().is_empty() && !session.has_notices();
            if is_over || session.is_noticed() {
                self.limit_time().await?;
                let done = self.turn(None, &mut Lines::default()).await?;
                if done.is_some() || is_over {
                    return Ok(done);
                }
            }
            let lost = |why: &str| {
                let titles = session.promised().join("; ");
                let words = format!("{why} while background work was running: {titles}");
                Failure::new(Status::Deadline, words)
            };
            tokio::select! {
                biased;
                event = self.events.next() => match event {
                    Some(event) => self.event(event).await,
                    None => return Ok(None),
                },
                status = self.signals.next() => {
                    self.stopped = Some(status);
                    return Err(lost("the run was interrupted"));
                }
                () = self.output.broken().cancelled() => {
                    self.stopped = Some(Status::BrokenPipe);
                    return Err(lost("the reader of standard output has gone"));
                }
                () = control::changed(self.host.as_ref(), &self.initialize.callbacks) => {
                    self.tell_host().await;
                }
                () = session.background_changes() => {}
                () = passed(self.deadline) => {
                    return Err(lost("the time limit (--max-time) was reached"));
                }
                () = passed(end) => {
                    let wait = self.background_wait.as_secs_f64();
                    let why = format!("the run waited {wait} s (background_wait_ms), and ended");
                    return Err(lost(&why));
                }
            }
        }
    }

    /// Names what still runs.
    fn note_background(&self, last: &mut Done) {
        if let Done::Turn(report) = last {
            report.background = self.session.background();
        }
    }
}
