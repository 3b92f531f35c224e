//! Commands that go on in the background.
//!
//! The [`Jobs`] of a session own what its `bash` started in the background; the tools `job_output`
//! and `job_stop` look at it and end it. When the session's tools are gone, so are its jobs, with
//! all their processes.

mod job;
mod look;
mod output;
mod run;
mod stall;
mod stop;

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tooloop_exec::{Command, Progress, StartError};
use tooloop_tool::{ToolContext, ToolError};

use crate::Ops;
use crate::confinement::Wall;
use crate::known::known;
use job::Job;

pub use output::{JobOutput, JobOutputInput};
pub use stop::{JobStop, JobStopInput};

/// For how long the answer of a start waits until the command runs.
const START: Duration = Duration::from_secs(10);

/// How many characters of a title are kept.
const TITLE: usize = 60;

/// The bounds of background jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSettings {
    /// How many may run at once.
    pub running: usize,
    /// How many that have ended are remembered.
    pub kept: usize,
    /// The time limit of a job that asks for none.
    pub time_limit: Duration,
    /// After how long a silence a job is taken to wait, if its last line asks for an answer.
    pub stall_after: Duration,
    /// For a session that ends by itself: for how long its end waits for jobs.
    pub end_waits: Option<Duration>,
}

impl Default for JobSettings {
    /// 16 at once, 100 remembered, no limit but the end of the session, 45 s of silence.
    fn default() -> Self {
        Self {
            running: 16,
            kept: 100,
            time_limit: Duration::MAX,
            stall_after: Duration::from_secs(45),
            end_waits: None,
        }
    }
}

/// The jobs of a session. Dropping it ends them all.
#[derive(Debug)]
pub(crate) struct Jobs {
    list: Mutex<List>,
    /// Tells the files of this session from those of others in the same folder.
    tag: String,
    /// Ends what ended jobs have left behind.
    end: CancellationToken,
}

#[derive(Debug, Default)]
struct List {
    newest: u64,
    /// In the order in which they were started.
    jobs: VecDeque<Arc<Job>>,
    tasks: JoinSet<()>,
}

/// Tells whether the command could be started.
type Started = oneshot::Receiver<Result<(), StartError>>;

/// What is to be started.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    pub(crate) ops: &'a Arc<dyn Ops>,
    pub(crate) command: Command,
    pub(crate) title: &'a str,
    /// Where the output goes.
    pub(crate) folder: &'a Path,
    pub(crate) settings: &'a JobSettings,
    pub(crate) context: &'a ToolContext,
    /// What it runs in.
    pub(crate) wall: Option<Wall>,
}

impl Default for Jobs {
    fn default() -> Self {
        Self {
            list: Mutex::default(),
            tag: format!("{:08x}", RandomState::new().hash_one(0) >> 32),
            end: CancellationToken::new(),
        }
    }
}

impl Jobs {
    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a job, and says what the model is to know about it.
    pub(crate) async fn start(
        &self,
        start: Start<'_>,
    ) -> Result<Result<String, StartError>, ToolError> {
        let context = start.context;
        let ending = match start.settings.end_waits {
            _ if context.background.ends_with_answer() => {
                " Your answer ends the job, and nothing is told of it then: if you need its result, \
                 wait for it with job_output first."
                    .to_owned()
            }
            Some(Duration::ZERO) => {
                " Your answer ends the run and the job: if you need its result, wait for it with \
                 job_output first."
                    .to_owned()
            }
            Some(wait) => format!(
                " After your answer the run waits for it, for {} s at most, and a job that still \
                 runs then fails the run: end one that you no longer need with job_stop.",
                wait.as_secs_f64()
            ),
            None => String::new(),
        };
        let promise = if context.background.ends_with_answer()
            || start.settings.end_waits == Some(Duration::ZERO)
        {
            ""
        } else {
            "A notice comes when it ends. "
        };
        let (job, started) = self.begin(start)?;
        let mut starting = Starting {
            jobs: self,
            job: Some(&job),
        };
        let came = tokio::select! {
            came = started => came,
            () = context.cancellation.cancelled() => return Err(ToolError::Cancelled),
            // It is on its way; what comes of it is told by its notice.
            () = sleep(START) => Ok(Ok(())),
        };
        if let Ok(Err(error)) = came {
            return Ok(Err(error));
        }
        starting.job = None;
        Ok(Ok(format!(
            "{} runs in the background; its output goes to {}\n{promise}job_output shows what it \
             prints, job_stop ends it.{ending}",
            job.id,
            job.path.display()
        )))
    }

    fn begin(&self, start: Start<'_>) -> Result<(Arc<Job>, Started), ToolError> {
        let Start {
            ops,
            mut command,
            title,
            folder,
            settings,
            context,
            wall,
        } = start;
        let mut list = self.list();
        // Those that have ended are let go of here; who dropped them early is aborted with the set.
        while list.tasks.try_join_next().is_some() {}
        let running: Vec<String> = list
            .jobs
            .iter()
            .filter(|job| job.is_running())
            .map(|job| format!("{} ({})", job.id, job.title))
            .collect();
        if running.len() >= settings.running {
            return Err(ToolError::Failed(format!(
                "{} background jobs are running, and no more may: {}; end one with job_stop, or \
                 wait for one with job_output",
                running.len(),
                running.join(", ")
            )));
        }
        let ended = list.jobs.len() - running.len();
        let mut ended = ended.saturating_sub(settings.kept);
        list.jobs.retain(|job| {
            let goes = ended > 0 && !job.is_running();
            ended -= usize::from(goes);
            !goes
        });
        list.newest += 1;
        let id = format!("job_{}", list.newest);
        let path = folder.join(format!("{id}-{}.txt", self.tag));
        let (progress, newest) = watch::channel(Progress::default());
        let (tell, started) = oneshot::channel();
        let title = short(title);
        let job = Arc::new(Job::new(
            context.background.begin(format!("{id}: {title}")),
            job::Parts {
                id,
                title,
                path,
                newest,
                leftovers: self.end.child_token(),
            },
        ));
        command.cancellation = job.cancellation.clone();
        command.leftovers = Some(job.leftovers.clone());
        command.output.file = Some(job.path.clone());
        command.progress = Some(progress);
        list.jobs.push_back(Arc::clone(&job));
        let stall_after = settings.stall_after;
        let ops = Arc::clone(ops);
        let task = run::run(Arc::clone(&job), ops, command, wall, tell, stall_after);
        list.tasks.spawn(task);
        Ok((job, started))
    }

    fn forget(&self, job: &Arc<Job>) {
        self.list().jobs.retain(|other| !Arc::ptr_eq(other, job));
    }

    fn find(&self, id: &str) -> Result<Arc<Job>, ToolError> {
        let list = self.list();
        if let Some(job) = list.jobs.iter().find(|job| job.id == id.trim()) {
            return Ok(Arc::clone(job));
        }
        let all = list.jobs.iter();
        let known = known(all.map(|job| (&*job.id, job.is_running())));
        Err(ToolError::Failed(format!(
            "there is no job {id:?}: {known}; jobs end with the session that started them"
        )))
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.end.cancel();
        // The set of tasks goes too, and each takes its command with it.
    }
}

/// A job whose start has not been answered: should nobody wait for the answer, it goes.
struct Starting<'a> {
    jobs: &'a Jobs,
    job: Option<&'a Arc<Job>>,
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        if let Some(job) = self.job {
            job.withdraw();
            self.jobs.forget(job);
        }
    }
}

/// The first line of a text, shortened, without control characters.
pub(crate) fn short(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let mut title: String = line.chars().take(TITLE).map(clean).collect();
    if title.len() < text.trim().len() {
        title.push_str("...");
    }
    title
}
