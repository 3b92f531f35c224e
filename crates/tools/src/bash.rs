//! The shell.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use tokio::sync::watch;
use tooloop_exec::{
    Command, End, Environment, Outcome, OutputLimits, Processes, Progress, Shell, StartError,
    signal_name,
};
use tooloop_policy::Access;
use tooloop_tool::{Tool, ToolContext, ToolError, ToolOutput};

/// The longest time that a call may ask for.
const MAX_TIME_LIMIT: Duration = Duration::from_secs(600);

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
    /// Owns the processes.
    pub processes: Processes,
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
    pub fn new(processes: Processes, environment: impl Into<Arc<Environment>>) -> Self {
        Self {
            processes,
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
             input. The time limit is {} s unless timeout_ms says otherwise.",
            settings
                .shell
                .path()
                .file_name()
                .unwrap_or_default()
                .to_string_lossy(),
            settings.time_limit.as_secs()
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
        let Some(wanted) = wanted else {
            return (workspace.to_owned(), None);
        };
        if wanted.is_dir() {
            return (wanted, None);
        }
        let alive = wanted
            .ancestors()
            .skip(1)
            .find(|parent| parent.is_dir() && self.may_stay(parent, workspace))
            .unwrap_or(workspace)
            .to_owned();
        let note = format!(
            "(the working directory {} is gone; this ran in {})",
            wanted.display(),
            alive.display()
        );
        *self.directory() = Some(alive.clone());
        (alive, Some(note))
    }

    fn may_stay(&self, directory: &Path, workspace: &Path) -> bool {
        directory.starts_with(workspace)
            || self
                .settings
                .folders
                .iter()
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
        if self.may_stay(&end, workspace) {
            *self.directory() = Some(end);
            return None;
        }
        Some(format!(
            "(the working directory is {} again: {} is outside of the workspace)",
            start.display(),
            end.display()
        ))
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
        Access::command(&input.command)
    }

    async fn run(&self, input: BashInput, context: &ToolContext) -> Result<ToolOutput, ToolError> {
        let workspace = &context.working_directory;
        let (start, mut note) = self.start_directory(workspace);
        let settings = &self.settings;
        let mut command = Command::new(
            input.command,
            start.clone(),
            Arc::clone(&settings.environment),
        );
        command.shell = settings.shell.clone();
        command.time_limit = input
            .timeout_ms
            .map_or(settings.time_limit, |limit| limit.0);
        command.cancellation = context.cancellation.clone();
        command.output.spool_folder = Some(settings.spool_folder.clone());
        command.output.spool_bytes = settings.spool_bytes;
        let (sender, mut progress) = watch::channel(Progress::default());
        if context.progress.is_watched() {
            command.progress = Some(sender);
        }
        let mut run = std::pin::pin!(settings.processes.run(command));
        let outcome = loop {
            tokio::select! {
                outcome = &mut run => break outcome.map_err(|error| not_started(&error))?,
                Ok(()) = progress.changed() => {
                    let newest = progress.borrow_and_update().tail.clone();
                    context.progress.report(&newest);
                }
            }
        };
        let stays = self.keep_directory(&start, outcome.final_directory.clone(), workspace);
        note = note.or(stays);
        Ok(report(&outcome, note.as_deref()))
    }

    fn for_session(&self) -> Option<Self> {
        Some(Self {
            settings: Arc::clone(&self.settings),
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

fn report(outcome: &Outcome, note: Option<&str>) -> ToolOutput {
    let output = outcome.output.text();
    let mut text = if output.trim().is_empty() {
        "(no output)".to_owned()
    } else {
        output
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let (end, is_error) = match outcome.end {
        End::Exited(status) => (format!("exit status {status}"), status != 0),
        End::Signaled(signal) => (
            format!("killed by signal {signal} ({})", signal_name(signal)),
            true,
        ),
        End::TimedOut { limit } => (
            format!(
                "timed out after {} s and was ended with all its processes",
                limit.as_secs_f64()
            ),
            true,
        ),
        End::Cancelled => ("cancelled".into(), true),
        End::Unknown => ("its exit status is not known".into(), true),
    };
    let mut extra = String::new();
    if !outcome.leftovers.is_empty() {
        extra.push_str("\n(still running, to be ended with this session at the latest:");
        for leftover in &outcome.leftovers {
            extra.push_str(&format!(" {} ({})", leftover.pid, leftover.name));
        }
        extra.push(')');
    }
    if let Some(note) = note {
        extra.push('\n');
        extra.push_str(note);
    }
    let fingerprint = format!("{text}{end}");
    let seconds = outcome.duration.as_secs_f64();
    text.push_str(&format!("({end}, {seconds:.1} s){extra}"));
    ToolOutput {
        is_error,
        fingerprint: Some(fingerprint),
        ..ToolOutput::text(text)
    }
}
