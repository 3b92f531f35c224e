//! The programs that commands need: a shell, git. They are run, in the way that commands are.

use std::time::Duration;

use serde_json::json;
use tooloop::exec::{Command, End, Environment, Processes, Shell};

use super::report::Check;
use crate::secrets;
use crate::settings::Settings;

/// How long such a program may take.
const LIMIT: Duration = Duration::from_secs(5);

/// The first git that has worktrees.
const WORKTREES: (u32, u32) = (2, 5);

pub(super) async fn checks(settings: &Settings) -> Vec<Check> {
    let processes = match Processes::new() {
        Ok(processes) => processes,
        Err(error) => {
            let text = format!("cannot prepare for running commands: {error}");
            let advice = "see the limits above";
            return vec![Check::problem("shell", text, advice)];
        }
    };
    let shell = match &settings.shell {
        Some(path) => Shell::at(path),
        None => Shell::system().clone(),
    };
    let run = |text: &'static str| {
        let environment = Environment::of_this_process(&secrets::rules(settings));
        let mut command = Command::new(text, "/", environment);
        command.shell = shell.clone();
        command.time_limit = LIMIT;
        printed(&processes, command)
    };
    let mut checks = Vec::new();
    let place = shell.path().display().to_string();
    let version = run("printf %s \"$BASH_VERSION\"").await;
    let works = version.is_ok();
    checks.push(match version {
        Ok(version) if !version.is_empty() => {
            let details = json!({"path": place, "bash_version": version});
            Check::ok("shell", format!("{place}, bash {version}")).with(details)
        }
        Ok(_) => Check::warning(
            "shell",
            format!("{place}, which is not bash"),
            "install bash: models write for it",
        )
        .with(json!({"path": place})),
        Err(reason) => Check::problem(
            "shell",
            format!("{place} cannot be run: {reason}"),
            "install bash, or name a shell with the setting `shell`",
        )
        .with(json!({"path": place})),
    });
    if works {
        checks.push(git(run("git --version").await));
    }
    processes.end_all(Duration::from_secs(1)).await;
    checks
}

/// What a command printed, if it went well.
async fn printed(processes: &Processes, command: Command) -> Result<String, String> {
    let outcome = processes
        .run(command)
        .await
        .map_err(|error| error.to_string())?;
    let text = outcome.output.text().trim().to_owned();
    match outcome.end {
        End::Exited(0) => Ok(text),
        End::Exited(status) => Err(format!("it ended with status {status}: {text}")),
        End::TimedOut { limit } => Err(format!("it did not end within {} s", limit.as_secs())),
        End::Signaled(signal) => Err(format!("it was ended by signal {signal}")),
        End::Cancelled | End::Unknown => Err("how it ended is not known".into()),
    }
}

fn git(version: Result<String, String>) -> Check {
    let Ok(text) = version else {
        return Check::warning(
            "git",
            "not found",
            "install git: without it the files that git ignores are not told from others",
        );
    };
    let Some(number) = number(&text) else {
        return Check::warning(
            "git",
            format!("its version is not known: {text}"),
            "check it",
        );
    };
    let details = json!({"version": text, "worktrees": number >= WORKTREES});
    if number < WORKTREES {
        let text = format!("{text}, which has no worktrees");
        return Check::warning("git", text, "install git 2.5 or later").with(details);
    }
    Check::ok("git", format!("{text}, with worktrees")).with(details)
}

/// `git version 2.39.5 (Apple Git-154)` and its like.
fn number(text: &str) -> Option<(u32, u32)> {
    let version = text.strip_prefix("git version ")?;
    let mut parts = version.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::report::Level;

    #[test]
    fn git_is_told_by_its_version() {
        for (text, expected) in [
            ("git version 2.39.5", Level::Ok),
            ("git version 2.47.1.windows.2", Level::Ok),
            ("git version 2.5.0 (Some Git-154)", Level::Ok),
            ("git version 1.8.3.1", Level::Warning),
            ("hub", Level::Warning),
        ] {
            assert_eq!(git(Ok(text.into())).level, expected, "{text}");
        }
        assert_eq!(git(Err("no".into())).text, "not found");
    }
}
