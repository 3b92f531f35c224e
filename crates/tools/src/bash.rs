//! The shell.
//!
//! Says what became of a command in words for the model. How it is run is the business of
//! `tooloop_exec`; whether it may run is not judged here.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::watch;
use tooloop_exec::{
    Command, Environment, Mask, Outcome, OutputLimits, Progress, Shell, StartError,
};
use tooloop_policy::{Access, shell};
use tooloop_tool::{Scope, Tool, ToolContext, ToolError, ToolOutput};

use crate::confinement::{ToolConfinement, Wall, WantedGrant};
use crate::ending::{self, end, leftovers, not_started};
use crate::jobs::{JobSettings, Jobs, Start};
use crate::{Ops, TimeLimit};

/// Runs a command in a shell: a new one for each call, whose working directory is where the call
/// before it left off.
#[derive(Debug)]
pub struct Bash {
    settings: Arc<BashSettings>,
    description: Arc<str>,
    directory: Mutex<Option<PathBuf>>,
    jobs: Arc<Jobs>,
}

/// What a [`Bash`] needs of the world.
#[derive(Debug, Clone)]
pub struct BashSettings {
    /// The machine that commands run on.
    pub ops: Arc<dyn Ops>,
    /// What commands find in their environment.
    pub environment: Arc<Environment>,
    /// The shell.
    pub shell: Shell,
    /// The time limit of a call that asks for none.
    pub time_limit: Duration,
    /// The folders in which the working directory may stay from call to call, beside the session's
    /// workspace.
    pub folders: Vec<PathBuf>,
    /// Where outputs go that are too long for the model.
    pub spool_folder: PathBuf,
    /// The largest size of such an output in bytes.
    pub spool_bytes: u64,
    /// What is hidden in outputs, those of jobs included, as they come.
    pub mask: Option<Mask>,
    /// The bounds of background jobs. `None`: there are none, and `run_in_background` is not
    /// offered; for an agent without `job_output` and `job_stop`.
    pub jobs: Option<JobSettings>,
    /// The sandbox that commands run in; `None`: none, and `grant` is not offered.
    pub confinement: Option<ToolConfinement>,
}

impl BashSettings {
    /// The shell of this system, two minutes, whole outputs in the temporary folder.
    pub fn new(ops: Arc<dyn Ops>, environment: impl Into<Arc<Environment>>) -> Self {
        Self {
            ops,
            environment: environment.into(),
            shell: Shell::system().clone(),
            time_limit: Duration::from_secs(120),
            folders: Vec::new(),
            spool_folder: std::env::temp_dir().join("tooloop-outputs"),
            spool_bytes: OutputLimits::default().spool_bytes,
            mask: None,
            jobs: Some(JobSettings::default()),
            confinement: None,
        }
    }
}

/// What the model passes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BashInput {
    /// The command, as you would type it.
    pub command: String,
    /// Time limit in milliseconds.
    #[serde(default)]
    pub timeout_ms: Option<TimeLimit>,
    /// Answer at once and let it run as a job.
    #[serde(default)]
    pub run_in_background: bool,
    /// What the command is for, in a few words.
    #[serde(default)]
    pub description: Option<String>,
    /// What it needs beyond the sandbox: write:/path, network, host:NAME, unconfined. The user is
    /// asked.
    #[serde(default)]
    pub grant: Vec<WantedGrant>,
}

impl Bash {
    /// A shell.
    #[must_use]
    pub fn new(settings: BashSettings) -> Self {
        let jobs = settings.jobs.as_ref().map_or_else(String::new, |jobs| {
            let limit = match jobs.time_limit {
                Duration::MAX => "no time limit".into(),
                limit => format!("a time limit of {} s", limit.as_secs_f64()),
            };
            format!(
                " A background job has {limit}; a notice tells its end, and the end of this \
                 session ends it."
            )
        });
        let description = format!(
            "Runs a command in a new {} shell and returns its output and exit status. The working \
             directory persists between calls, variables do not. There is no terminal and no \
             input. The time limit is {} s unless timeout_ms says otherwise. Long output is cut in \
             the middle; the whole of it is then in a file that the result names.{jobs}",
            settings
                .shell
                .path()
                .file_name()
                .unwrap_or_default()
                .to_string_lossy(),
            settings.time_limit.as_secs_f64()
        );
        Self {
            settings: Arc::new(settings),
            description: description.into(),
            directory: Mutex::new(None),
            jobs: Arc::default(),
        }
    }

    fn directory(&self) -> MutexGuard<'_, Option<PathBuf>> {
        self.directory
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Where this call starts, and a sentence if that is not where the last one ended.
    fn start_directory(&self, workspace: &Path) -> (PathBuf, Option<String>) {
        let wanted = self.directory().clone();
        match wanted {
            None => (workspace.to_owned(), None),
            Some(wanted) if wanted.is_dir() => (wanted, None),
            Some(wanted) => {
                let (alive, note) = self.leave(&wanted, workspace, "is gone");
                (alive, Some(note))
            }
        }
    }

    /// Moves from a directory that cannot be used to the nearest parent that can.
    fn leave(&self, directory: &Path, workspace: &Path, why: &str) -> (PathBuf, String) {
        let alive = directory
            .ancestors()
            .skip(1)
            .find(|parent| parent.is_dir() && self.may_stay(parent, workspace))
            .unwrap_or(workspace)
            .to_owned();
        let note = format!(
            "(the working directory {} {why}; this ran in {})",
            directory.display(),
            alive.display()
        );
        *self.directory() = Some(alive.clone());
        (alive, note)
    }

    /// Whether a directory is inside the workspace or one of the folders, links followed.
    fn may_stay(&self, directory: &Path, workspace: &Path) -> bool {
        let Ok(directory) = directory.canonicalize() else {
            return false;
        };
        std::iter::once(workspace)
            .chain(self.settings.folders.iter().map(PathBuf::as_path))
            .filter_map(|folder| folder.canonicalize().ok())
            .any(|folder| directory.starts_with(folder))
    }

    /// Takes over the directory that the shell ended in. A sentence if it must not stay there.
    fn keep_directory(
        &self,
        start: &Path,
        end: Option<PathBuf>,
        workspace: &Path,
    ) -> Option<String> {
        let end = end.filter(|end| end != start)?;
        // One that its own command removed is noticed by the next call.
        if !end.exists() || self.may_stay(&end, workspace) {
            *self.directory() = Some(end);
            return None;
        }
        Some(format!(
            "(the working directory is {} again: {} is outside of the workspace)",
            start.display(),
            end.display()
        ))
    }

    fn command(&self, input: &BashInput, start: &Path, context: &ToolContext) -> Command {
        let settings = &self.settings;
        let environment = Arc::clone(&settings.environment);
        let mut command = Command::new(input.command.as_str(), start, environment);
        command.shell = settings.shell.clone();
        command.time_limit = input
            .timeout_ms
            .map_or(settings.time_limit, |limit| limit.0);
        command.cancellation = context.cancellation.clone();
        command.output.spool_folder = Some(settings.spool_folder.clone());
        command.output.spool_bytes = settings.spool_bytes;
        command.output.mask = settings.mask.clone();
        command
    }

    /// Runs a command to its end, or starts it as a job.
    async fn begin(
        &self,
        input: &BashInput,
        start: &Path,
        context: &ToolContext,
    ) -> Result<Result<Begun, StartError>, ToolError> {
        let mut command = self.command(input, start, context);
        let settings = &self.settings;
        let wall = match &settings.confinement {
            Some(confinement) => confinement.wall_for(context, start)?,
            None => None,
        };
        command.sandbox = wall.as_ref().map(Wall::confined);
        if !input.run_in_background {
            let ran = self.watched(command, context).await;
            return Ok(ran.map(|outcome| Begun::Ended(Box::new(outcome), wall.map(Box::new))));
        }
        let jobs = settings
            .jobs
            .as_ref()
            .ok_or_else(|| ToolError::InvalidInput {
                tool: "bash".into(),
                problem: "run_in_background is not offered here: run the command without it".into(),
            })?;
        command.time_limit = input.timeout_ms.map_or(jobs.time_limit, |limit| limit.0);
        let title = input.description.as_deref().unwrap_or(&input.command);
        let start = Start {
            ops: &settings.ops,
            command,
            title,
            folder: &settings.spool_folder,
            settings: jobs,
            context,
            wall,
        };
        let answer = self.jobs.start(start).await?;
        Ok(answer.map(Begun::Job))
    }

    /// Runs a command, and shows the newest output to who watches.
    async fn watched(
        &self,
        mut command: Command,
        context: &ToolContext,
    ) -> Result<Outcome, StartError> {
        let (sender, mut progress) = watch::channel(Progress::default());
        if context.progress.is_watched() {
            command.progress = Some(sender);
        }
        let mut run = std::pin::pin!(self.settings.ops.execute(command));
        loop {
            tokio::select! {
                outcome = &mut run => return outcome,
                Ok(()) = progress.changed() => {
                    let newest = progress.borrow_and_update().tail.clone();
                    if !newest.is_empty() {
                        context.progress.report(&newest);
                    }
                }
            }
        }
    }
}

/// What came of a call.
enum Begun {
    Ended(Box<Outcome>, Option<Box<Wall>>),
    /// It runs on: what is to be said about the job.
    Job(String),
}

impl Tool for Bash {
    type Input = BashInput;

    fn name(&self) -> &str {
        "bash"
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn withheld_fields(&self) -> &[&str] {
        match self.settings.jobs {
            Some(_) if self.settings.confinement.is_some() => &[],
            Some(_) => &["grant"],
            None if self.settings.confinement.is_some() => &["run_in_background"],
            None => &["run_in_background", "grant"],
        }
    }

    fn access(&self, input: &BashInput) -> Access {
        let mut access = Access::command(&input.command);
        // Relative paths in the line mean paths in it.
        access.directory = self.directory().clone();
        let grants = input.grant.iter().map(|wanted| wanted.0.clone());
        let access = grants.fold(access, Access::wanting);
        // The next call feels another directory, and a job is there to stay: such a call must run
        // once, and in its place.
        if input.run_in_background || moves(&input.command) {
            access.changing_session()
        } else {
            access
        }
    }

    async fn run(&self, input: BashInput, context: &ToolContext) -> Result<ToolOutput, ToolError> {
        let workspace = &context.working_directory;
        let (mut start, mut note) = self.start_directory(workspace);
        let mut ran = self.begin(&input, &start, context).await?;
        if let Err(StartError::Directory { .. }) = &ran
            && start != *workspace
        {
            // It is there, yet it cannot be entered.
            let (alive, why) = self.leave(&start, workspace, "cannot be entered any more");
            ran = self.begin(&input, &alive, context).await?;
            (start, note) = (alive, Some(why));
        }
        let (outcome, wall) = match ran.map_err(|error| not_started(&error))? {
            Begun::Ended(outcome, wall) => (outcome, wall),
            Begun::Job(answer) => return Ok(started(&answer, note.as_deref())),
        };
        let stays = self.keep_directory(&start, outcome.final_directory.clone(), workspace);
        let mut notes: Vec<String> = note.into_iter().chain(stays).collect();
        let refusals = wall.map_or_else(Vec::new, |mut wall| wall.refusals(&outcome));
        notes.extend(refusals.iter().map(|refusal| format!("({refusal})")));
        Ok(ToolOutput {
            refusals,
            ..report(&outcome, &notes)
        })
    }

    fn for_session(&self, scope: &Scope) -> Option<Self> {
        let mut settings = Arc::clone(&self.settings);
        if let Some(outputs) = scope.outputs() {
            Arc::make_mut(&mut settings).spool_folder = outputs.to_owned();
        }
        Some(Self {
            settings,
            description: Arc::clone(&self.description),
            directory: Mutex::new(None),
            jobs: scope.shared(Jobs::default),
        })
    }
}

/// Whether a line may leave its shell in another directory.
fn moves(line: &str) -> bool {
    shell::analyse(line)
        .commands()
        .iter()
        .any(|command| matches!(command.program(), Some("cd" | "pushd" | "popd")))
}

fn started(answer: &str, note: Option<&str>) -> ToolOutput {
    let text = match note {
        Some(note) => format!("{note}\n{answer}"),
        None => answer.to_owned(),
    };
    ToolOutput {
        fingerprint: Some("started in the background".into()),
        ..ToolOutput::text(text)
    }
}

fn report(outcome: &Outcome, notes: &[String]) -> ToolOutput {
    let (end, is_error) = end(outcome.end);
    let output = &outcome.output;
    // Without what differs each time: times, process numbers, the path of the whole output.
    let fingerprint = format!(
        "{end}\n{}\n{}\n{}\n{}",
        output.bytes, output.left_out, output.head, output.tail
    );
    let (mut text, omission) = ending::printed(output);
    if text.is_empty() {
        text.push_str("(no output)");
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    for note in notes {
        text.push_str(note);
        text.push('\n');
    }
    if !outcome.leftovers.is_empty() {
        text.push_str(&leftovers(&outcome.leftovers));
        text.push('\n');
    }
    let seconds = outcome.duration.as_secs_f64();
    text.push_str(&format!("({end}, {seconds:.1} s)"));
    ToolOutput {
        is_error,
        fingerprint: Some(fingerprint),
        omission,
        ..ToolOutput::text(text)
    }
}
