//! One job, and who tells of its end.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tooloop_exec::{End, Outcome, Output, Progress, Spool, SpoolState, StartError};
use tooloop_tool::{SandboxRefusal, Work};

use crate::ending;

/// How many of the last lines a notice shows, and how many characters of them.
const LAST_LINES: usize = 10;
const LAST_CHARACTERS: usize = 1000;

/// A job.
///
/// Its end is told exactly once: by a call that looks at it, or else by a notice. Both are settled
/// under the one lock of its state. While a call has a [`Look`] at it, the call is the one to tell;
/// if the call ends without having told, the notice goes out after all.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: String,
    pub(super) title: String,
    /// The file with its output.
    pub(super) path: PathBuf,
    pub(super) newest: watch::Receiver<Progress>,
    /// Ends it.
    pub(super) cancellation: CancellationToken,
    /// Ends what it has left behind.
    pub(super) leftovers: CancellationToken,
    /// Fires when it has ended.
    pub(super) has_ended: CancellationToken,
    /// How far its output has been shown. Whoever shows more holds it meanwhile.
    pub(super) shown: tokio::sync::Mutex<u64>,
    begin: Instant,
    state: Mutex<State>,
}

pub(super) struct Parts {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) path: PathBuf,
    pub(super) newest: watch::Receiver<Progress>,
    pub(super) leftovers: CancellationToken,
}

#[derive(Debug)]
struct State {
    end: Option<Arc<Ended>>,
    /// Here until the end was told.
    work: Option<Work>,
    /// How many calls look at it.
    looks: usize,
    /// It was asked to end.
    is_stopped: bool,
}

/// How a job ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// In words.
    pub(super) end: String,
    pub(super) duration: Duration,
    /// What is to be said of the processes that it left behind.
    pub(super) leftovers: Option<String>,
    /// Where the output is, in words.
    pub(super) kept: String,
    /// Its last lines, and how much it printed.
    pub(super) newest: Progress,
}

impl Job {
    pub(super) fn new(work: Work, parts: Parts) -> Self {
        Self {
            id: parts.id,
            title: parts.title,
            path: parts.path,
            newest: parts.newest,
            cancellation: CancellationToken::new(),
            leftovers: parts.leftovers,
            has_ended: CancellationToken::new(),
            shown: tokio::sync::Mutex::new(0),
            begin: Instant::now(),
            state: Mutex::new(State {
                end: None,
                work: Some(work),
                looks: 0,
                is_stopped: false,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_running(&self) -> bool {
        self.state().end.is_none()
    }

    pub(super) fn end(&self) -> Option<Arc<Ended>> {
        self.state().end.clone()
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Says something while it runs.
    pub(super) fn say(&self, notice: String) {
        if let Some(work) = &self.state().work {
            work.say(notice);
        }
    }

    /// Asks it to end.
    pub(super) fn stop(&self) {
        self.state().is_stopped = true;
        self.cancellation.cancel();
        self.leftovers.cancel();
    }

    /// Ends it without a word: nobody knows of it.
    pub(super) fn withdraw(&self) {
        self.state().work = None;
        self.stop();
    }

    /// It has ended.
    pub(super) fn finish(&self, ran: &Result<Outcome, StartError>, refusals: &[SandboxRefusal]) {
        let mut state = self.state();
        let mut ended = match ran {
            Ok(outcome) => Ended::new(outcome, state.is_stopped, &self.path),
            Err(error) => Ended::without_start(error, self.elapsed()),
        };
        for refusal in refusals {
            ended.kept.push_str(&format!("; {refusal}"));
        }
        state.end = Some(Arc::new(ended));
        self.tell(&mut state);
        drop(state);
        self.has_ended.cancel();
    }

    /// Gives the notice of the end if it is due.
    fn tell(&self, state: &mut State) {
        if state.looks > 0 {
            return;
        }
        if let Some(ended) = &state.end
            && let Some(work) = state.work.take()
        {
            work.finish(ended.notice(&self.id));
        }
    }

    /// Begins a look: until it is over no notice goes out.
    pub(super) fn look(&self) -> Look<'_> {
        self.state().looks += 1;
        Look { job: self }
    }
}

/// A call that looks at a job, and so is the one to tell of its end.
pub(super) struct Look<'a> {
    job: &'a Job,
}

impl Look<'_> {
    /// The end is being told. `false` if it was told before.
    pub(super) fn told(&self) -> bool {
        self.job.state().work.take().is_some()
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        let mut state = self.job.state();
        state.looks -= 1;
        self.job.tell(&mut state);
    }
}

impl Ended {
    fn new(outcome: &Outcome, is_stopped: bool, path: &Path) -> Self {
        let output = &outcome.output;
        let end = match outcome.end {
            End::Cancelled if is_stopped => "stopped and ended with all its processes".into(),
            other => ending::end(other).0,
        };
        let left = &outcome.leftovers;
        Self {
            end,
            duration: outcome.duration,
            leftovers: (!left.is_empty()).then(|| ending::leftovers(left)),
            kept: output
                .spool
                .as_ref()
                .map_or_else(|| format!("output in {}", path.display()), kept),
            newest: Progress {
                tail: last_lines(output),
                bytes: output.bytes,
            },
        }
    }

    fn without_start(error: &StartError, elapsed: Duration) -> Self {
        Self {
            end: ending::not_started(error).to_string(),
            duration: elapsed,
            leftovers: None,
            kept: "no output".into(),
            newest: Progress::default(),
        }
    }

    fn notice(&self, id: &str) -> String {
        let Self { end, kept, .. } = self;
        let seconds = self.duration.as_secs_f64();
        let mut notice = format!("(background job {id} ended: {end}, {seconds:.1} s; {kept}");
        if self.newest.tail.is_empty() {
            notice.push_str("; it printed nothing)");
        } else {
            notice.push_str("; its last lines follow)\n");
            notice.push_str(&self.newest.tail);
        }
        if let Some(leftovers) = &self.leftovers {
            notice.push('\n');
            notice.push_str(leftovers);
        }
        notice
    }
}

/// Where the output is.
fn kept(spool: &Spool) -> String {
    let path = spool.path.display();
    match &spool.state {
        SpoolState::Whole => format!("output in {path}"),
        SpoolState::Capped => format!("the first {} bytes of output in {path}", spool.bytes),
        SpoolState::Failed(reason) if spool.bytes == 0 => {
            format!("output could not be kept in {path}: {reason}")
        }
        SpoolState::Failed(reason) => format!(
            "the first {} bytes of output in {path}, where writing failed: {reason}",
            spool.bytes
        ),
    }
}

fn last_lines(output: &Output) -> String {
    if output.is_binary {
        return format!("(binary output, {} bytes)", output.bytes);
    }
    let text = if output.left_out > 0 {
        &output.tail
    } else {
        &output.head
    };
    let text = text.trim_end();
    let start = text
        .rmatch_indices('\n')
        .nth(LAST_LINES - 1)
        .map_or(0, |(at, _)| at + 1);
    let lines = text.split_at(start).1;
    match lines.char_indices().nth_back(LAST_CHARACTERS - 1) {
        Some((at, _)) if at > 0 => format!("...{}", lines.split_at(at).1),
        _ => lines.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use tooloop_tool::Background;

    use super::*;

    fn job(background: &Background) -> Job {
        let (_, newest) = watch::channel(Progress::default());
        Job::new(
            background.begin("job_1: make"),
            Parts {
                id: "job_1".into(),
                title: "make".into(),
                path: "/job_1.txt".into(),
                newest,
                leftovers: CancellationToken::new(),
            },
        )
    }

    fn end(job: &Job) {
        job.finish(&Err(StartError::Nul), &[]);
    }

    #[test]
    fn one_lock_settles_who_tells_of_the_end() {
        // Looks that begin before the end, how many of them tell, and notices.
        for (looks, tells, notices) in [(0, 0, 1), (1, 1, 0), (1, 0, 1), (3, 0, 1), (3, 2, 0)] {
            let background = Background::default();
            let job = job(&background);
            let begun: Vec<Look<'_>> = (0..looks).map(|_| job.look()).collect();
            end(&job);
            let told = begun.iter().take(tells).filter(|look| look.told()).count();
            assert_eq!(told, tells.min(1), "{looks} {tells}");
            let early = background.try_notice();
            assert_eq!(early.is_some(), looks == 0, "{looks} {tells}");
            drop(begun);
            let late = background.try_notice();
            let given = [early, late].into_iter().flatten().count();
            assert_eq!(given, notices, "{looks} {tells}");
            assert!(background.under_way().is_empty());
            assert!(!job.look().told());
            assert_eq!(background.try_notice(), None);
        }
    }

    #[test]
    fn what_nobody_knows_of_ends_without_a_word() {
        let background = Background::default();
        let job = job(&background);
        job.withdraw();
        assert!(job.cancellation.is_cancelled());
        end(&job);
        assert_eq!(background.try_notice(), None);
        assert!(background.under_way().is_empty());
    }
}
