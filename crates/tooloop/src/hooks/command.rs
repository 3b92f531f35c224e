//! Hooks as commands of a shell on this machine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tooloop_exec::{
    Command, Confined, End, Environment, Mask, Outcome, Output, OutputLimits, Processes, Shell,
    StartError, signal_name,
};
use tooloop_tools::{ToolConfinement, Wall};

use super::printed::decode;
use super::{HookEnd, HookOutcome, HookRule, HookRunner};

/// The most bytes that are read of what a hook prints.
const OUTPUT: usize = 64 * 1024;

/// The same of its errors.
const ERRORS: usize = 16 * 1024;

/// How long a hook that is to end may take for it, before it is killed.
const GRACE: Duration = Duration::from_millis(500);

/// Runs hooks in a shell on this machine. Nothing that a hook starts outlives it.
#[derive(Debug, Clone)]
pub struct CommandRunner {
    /// Who keeps their processes.
    pub processes: Processes,
    /// What they find in their environment.
    pub environment: Arc<Environment>,
    /// Where they begin.
    pub directory: PathBuf,
    /// What reads their commands.
    pub shell: Shell,
    /// The sandbox that they run in, if they do.
    pub confinement: Option<ToolConfinement>,
    /// What is covered in what they print.
    pub mask: Option<Mask>,
}

impl CommandRunner {
    fn command(
        &self,
        rule: &HookRule,
        input: &Value,
        leftovers: CancellationToken,
        sandbox: Option<Confined>,
    ) -> Command {
        let mut line = input.to_string().into_bytes();
        line.push(b'\n');
        let mut environment = Arc::clone(&self.environment);
        Arc::make_mut(&mut environment).remove_startup_files();
        Command {
            shell: self.shell.clone(),
            input: Some(line.into()),
            errors: Some(self.limits(ERRORS)),
            output: self.limits(OUTPUT),
            sandbox,
            time_limit: rule.timeout,
            grace: GRACE,
            leftovers: Some(leftovers),
            ..Command::new(rule.command.as_str(), self.directory.clone(), environment)
        }
    }

    fn limits(&self, bytes: usize) -> OutputLimits {
        OutputLimits {
            head: 0,
            tail: 0,
            raw: bytes,
            mask: self.mask.clone(),
            ..OutputLimits::default()
        }
    }
}

impl HookRunner for CommandRunner {
    fn run(&self, rule: &HookRule, input: Value) -> BoxFuture<'static, HookOutcome> {
        let wall = self.confinement.as_ref().map(ToolConfinement::wall);
        let wall = match wall.transpose() {
            Ok(wall) => wall,
            Err(error) => return std::future::ready(failed(error.to_string())).boxed(),
        };
        let leftovers = CancellationToken::new();
        let confined = wall.as_ref().map(Wall::confined);
        let command = self.command(rule, &input, leftovers.clone(), confined);
        let processes = self.processes.clone();
        let mask = self.mask.clone();
        async move {
            // The way to its hosts ends with it.
            let _wall = wall;
            // What it leaves behind ends with it, and with whoever drops this.
            let _ends = leftovers.drop_guard();
            outcome(processes.run(command).await, mask.as_ref())
        }
        .boxed()
    }
}

fn outcome(result: Result<Outcome, StartError>, mask: Option<&Mask>) -> HookOutcome {
    let outcome = match result {
        Ok(outcome) => outcome,
        Err(error) => {
            let source = std::error::Error::source(&error);
            let source = source.map_or_else(String::new, |source| format!(": {source}"));
            return failed(format!("{error}{source}"));
        }
    };
    let end = match outcome.end {
        End::Exited(status) => HookEnd::Exited(status),
        End::TimedOut { .. } => HookEnd::TimedOut,
        End::Signaled(signal) => HookEnd::Failed {
            reason: format!("it was ended by {}", signal_name(signal)),
        },
        End::Cancelled => HookEnd::Failed {
            reason: "it was broken off".into(),
        },
        End::Unknown => HookEnd::Failed {
            reason: "its status is not known".into(),
        },
    };
    let is_cut = outcome.output.bytes > OUTPUT as u64;
    HookOutcome {
        end,
        stdout: text(&outcome.output, mask),
        stderr: text(&outcome.errors, mask),
        is_cut,
        duration: outcome.duration,
    }
}

fn failed(reason: String) -> HookOutcome {
    HookOutcome {
        end: HookEnd::Failed { reason },
        ..HookOutcome::exited(0, "", "")
    }
}

/// The text that was printed. Secrets in UTF-16 show only once it is decoded.
fn text(output: &Output, mask: Option<&Mask>) -> String {
    let text = decode(&output.raw);
    match mask {
        Some(mask) => mask.cover(&text),
        None => text,
    }
}
