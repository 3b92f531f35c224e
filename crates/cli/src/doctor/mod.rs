//! `tooloop doctor`: what a run would find here, and what to do where that is not well.
//!
//! It looks and tries, and changes nothing: no file and no folder is made, no host beyond this
//! machine is asked. Each group of checks has its own bound; one that hangs, as on a file system
//! that is gone, is told of as that. It works where runs do not, so nothing here ends it early.

mod configuration;
mod journal;
mod programs;
mod report;
mod sandbox;
mod servers;
mod system;

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::args::DoctorArgs;
use crate::exit::{Failure, Status};
use crate::sessions;
use crate::settings::{Loaded, Settings, Sources};
use crate::setup;
use crate::trust;
use report::{Check, Group, Report};

/// How long a group may take.
const LIMIT: Duration = Duration::from_secs(15);

/// The width where there is no terminal, and the most that is used of one.
const COLUMNS: usize = 80;
const MOST_COLUMNS: usize = 110;

/// Looks at everything and tells.
pub(crate) async fn doctor(args: DoctorArgs) -> Result<Status, Failure> {
    let report = examine(&args).await;
    let text = if args.json {
        format!("{}\n", report.json())
    } else {
        report.text(columns())
    };
    let mut out = crate::output::stdout();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    Ok(match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Status::BrokenPipe,
        Err(error) => {
            return Err(Failure::new(
                Status::Internal,
                format!("cannot write to standard output: {error}"),
            ));
        }
        Ok(()) if report.has_problem() => Status::Model,
        Ok(()) => Status::Done,
    })
}

fn columns() -> usize {
    if !std::io::stdout().is_terminal() {
        return COLUMNS;
    }
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    match columns {
        0 => COLUMNS,
        columns => columns.min(MOST_COLUMNS),
    }
}

async fn examine(args: &DoctorArgs) -> Report {
    let mut groups = Vec::new();
    let mut add = |name, checks| groups.push(Group { name, checks });
    add("system", bounded("system", system::checks).await);

    let (loaded, checks) = read_settings(args).await;
    add("settings", checks);

    let mut checks: Vec<_> = loaded.iter().map(configuration::sandbox).collect();
    // What is wrong has been told; the rest is looked at with what is built in.
    let settings = loaded.map(|loaded| loaded.settings).unwrap_or_default();
    let is_needed = configuration::needs_sandbox(&settings);
    checks.extend(bounded("mechanism", move || sandbox::checks(is_needed)).await);
    add("sandbox", checks);
    add("programs", programs(&settings).await);

    let (servers, has_local_server) = servers::check().await;
    let mut checks = configuration::keys(&settings);
    checks.push(servers);
    checks.push(configuration::model(&settings, has_local_server));
    add("model", checks);

    let root = sessions::root(&setup::environment);
    add(
        "journal",
        bounded("sessions", || journal::checks(root)).await,
    );
    Report(groups)
}

/// The folder that a run would work in, links followed.
fn folder(directory: Option<&Path>) -> (PathBuf, Check) {
    match setup::workspace(directory) {
        Ok(folder) => {
            let text = folder.display().to_string();
            (folder, Check::ok("folder", text))
        }
        Err(failure) => {
            let check = Check::problem("folder", failure.message, "name another one with --cd");
            (PathBuf::from("/nonexistent"), check)
        }
    }
}

async fn read_settings(args: &DoctorArgs) -> (Option<Loaded>, Vec<Check>) {
    let (directory, explicit) = (args.directory.clone(), args.settings.clone());
    let reading = tokio::task::spawn_blocking(move || {
        let (folder, check) = folder(directory.as_deref());
        let sources = Sources {
            approvals: trust::known(&folder).approvals,
            explicit,
            working_directory: std::env::current_dir().unwrap_or_default(),
            ..Sources::new(folder, std::env::vars_os().collect())
        };
        let loaded = configuration::load(&sources);
        let mut checks = vec![check];
        checks.extend(configuration::checks(&sources, &loaded));
        (loaded.ok(), checks)
    });
    match tokio::time::timeout(LIMIT, reading).await {
        Ok(Ok(read)) => read,
        Ok(Err(_)) | Err(_) => (None, vec![silent("settings")]),
    }
}

async fn programs(settings: &Settings) -> Vec<Check> {
    let looked = tokio::time::timeout(LIMIT, programs::checks(settings)).await;
    looked.unwrap_or_else(|_| vec![silent("shell")])
}

/// Does what may block where nothing waits for it for ever.
async fn bounded(
    name: &'static str,
    look: impl FnOnce() -> Vec<Check> + Send + 'static,
) -> Vec<Check> {
    let looking = tokio::task::spawn_blocking(look);
    match tokio::time::timeout(LIMIT, looking).await {
        Ok(Ok(checks)) => checks,
        Ok(Err(_)) | Err(_) => vec![silent(name)],
    }
}

fn silent(name: &'static str) -> Check {
    Check::problem(
        name,
        format!("could not be looked at within {} s", LIMIT.as_secs()),
        "a file system or a program here may hang",
    )
}
