//! The shell.
//!
//! Says what became of a command in words for the model. How it is run is the business of
//! `tooloop_exec`; whether it may run is not judged here.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use tokio::sync::watch;
use tooloop_exec::{
    Command, End, Environment, Leftover, Outcome, OutputLimits, Progress, Shell, StartError,
    signal_name,
};
use tooloop_policy::{Access, AccessEffect, shell};
use tooloop_tool::{Scope, Tool, ToolContext, ToolError, ToolOutput};

use crate::Ops;

/// The longest time that a call may ask for.
const MAX_TIME_LIMIT: Duration = Duration::from_secs(600);

/// How many leftover processes are named at most.
const NAMED: usize = 10;

/// Runs a command in a shell: a new one for each call, whose working directory is where the call
/// before it left off.
#[derive(Debug)]
pub struct Bash {
    settings: Arc<BashSettings>,
    description: Arc<str>,
    directory: Mutex<Option<PathBuf>>,
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
    /// What the command is for, in a few words.
    #[serde(default)]
    pub description: Option<String>,
}

/// A time limit that a call may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimit(pub Duration);

impl<'de> Deserialize<'de> for TimeLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = serde_json::Value::deserialize(deserializer)?;
        let millis = given
            .as_u64()
            // Some models write 5000.0, and some "5000".
            .or_else(|| given.as_f64().and_then(whole))
            .or_else(|| given.as_str()?.trim().parse().ok());
        millis
            .map(Duration::from_millis)
            .filter(|limit| !limit.is_zero() && *limit <= MAX_TIME_LIMIT)
            .map(Self)
            .ok_or_else(|| {
                de::Error::custom(format!(
                    "timeout_ms must be a whole number from 1 to {}, not {given}; for longer \
                     work, start it in the background with output to a file, and look later",
                    MAX_TIME_LIMIT.as_millis()
                ))
            })
    }
}

fn whole(number: f64) -> Option<u64> {
    let fits = number.fract() == 0.0 && (0.0..=1e9).contains(&number);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole and within the range, as just seen"
    )]
    fits.then_some(number as u64)
}

impl JsonSchema for TimeLimit {
    fn schema_name() -> Cow<'static, str> {
        "TimeLimit".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 1, "maximum": 600_000 })
    }
}

impl Bash {
    /// A shell.
    #[must_use]
    pub fn new(settings: BashSettings) -> Self {
        let description = format!(
            "Runs a command in a new {} shell and returns its output and exit status. The working \
             directory persists between calls, variables do not. There is no terminal and no \
             input. The time limit is {} s unless timeout_ms says otherwise. Long output is cut in \
             the middle; the whole of it is then in a file that the result names.",
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
        command
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
                    context.progress.report(&newest);
                }
            }
        }
    }
}

impl Tool for Bash {
    type Input = BashInput;

    fn name(&self) -> &str {
        "bash"
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn access(&self, input: &BashInput) -> Access {
        let mut access = Access::command(&input.command);
        if access.effect == AccessEffect::ReadOnly && moves(&input.command) {
            // The next call feels it: it must run once, and in its place.
            access.effect = AccessEffect::Effectful;
        }
        access
    }

    async fn run(&self, input: BashInput, context: &ToolContext) -> Result<ToolOutput, ToolError> {
        let workspace = &context.working_directory;
        let (mut start, mut note) = self.start_directory(workspace);
        let command = self.command(&input, &start, context);
        let mut ran = self.watched(command, context).await;
        if let Err(StartError::Directory { .. }) = &ran
            && start != *workspace
        {
            // It is there, yet it cannot be entered.
            let (alive, why) = self.leave(&start, workspace, "cannot be entered any more");
            let command = self.command(&input, &alive, context);
            ran = self.watched(command, context).await;
            (start, note) = (alive, Some(why));
        }
        let outcome = ran.map_err(|error| not_started(&error))?;
        let stays = self.keep_directory(&start, outcome.final_directory.clone(), workspace);
        let notes: Vec<String> = note.into_iter().chain(stays).collect();
        Ok(report(&outcome, &notes))
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
        })
    }
}

fn not_started(error: &StartError) -> ToolError {
    let source = std::error::Error::source(error);
    ToolError::Failed(match source {
        Some(source) => format!("the command did not start: {error}: {source}"),
        None => format!("the command did not start: {error}"),
    })
}

/// Whether a line may leave its shell in another directory.
fn moves(line: &str) -> bool {
    shell::analyse(line)
        .commands()
        .iter()
        .any(|command| matches!(command.program(), Some("cd" | "pushd" | "popd")))
}

fn report(outcome: &Outcome, notes: &[String]) -> ToolOutput {
    let (end, is_error) = end(outcome.end);
    let output = &outcome.output;
    // Without what differs each time: times, process numbers, the path of the whole output.
    let fingerprint = format!(
        "{end}\n{}\n{}\n{}\n{}",
        output.bytes, output.left_out, output.head, output.tail
    );
    let mut text = output.text();
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
        ..ToolOutput::text(text)
    }
}

/// How it ended in words, and whether that is a failure.
fn end(end: End) -> (String, bool) {
    match end {
        End::Exited(status) => (format!("exit status {status}"), status != 0),
        End::Signaled(signal) => {
            let name = signal_name(signal);
            (format!("killed by signal {signal}, {name}"), true)
        }
        End::TimedOut { limit } => {
            let limit = limit.as_secs_f64();
            let text = format!("timed out after {limit} s and ended with all its processes");
            (text, true)
        }
        End::Cancelled => ("cancelled and ended with all its processes".into(), true),
        End::Unknown => ("its exit status is not known".into(), true),
    }
}

fn leftovers(leftovers: &[Leftover]) -> String {
    let named: Vec<String> = leftovers
        .iter()
        .take(NAMED)
        .map(|leftover| format!("{} ({})", leftover.pid, leftover.name))
        .collect();
    let mut named = named.join(", ");
    if let Some(more) = leftovers.len().checked_sub(NAMED).filter(|more| *more > 0) {
        named.push_str(&format!(" and {more} more"));
    }
    format!("(still running, until this session ends at the latest: {named})")
}
