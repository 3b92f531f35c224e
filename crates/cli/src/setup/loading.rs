//! Which settings a run goes by, and what a folder may widen.

use std::path::Path;

use crate::args::RunArgs;
use crate::exit::{Failure, Status};
use crate::settings::{self, Approvals, Fault, Files, Loaded, Problem, Sources, Trust};
use crate::trust::{self, Known, Said};

/// Reads the settings of all sources. What a folder's files widen is applied as far as a person has
/// approved it before.
pub(crate) fn load_settings(args: &RunArgs, workspace: &Path) -> Result<Loaded, Failure> {
    let known = known(args, workspace);
    let sources = sources(args, workspace, known.approvals);
    let mut loaded = load(&sources, &Files::default())?;
    if loaded.trust == Trust::Untrusted {
        loaded.warnings.extend(known.warning);
    }
    Ok(loaded)
}

/// The same, and the person at the terminal is asked about what is new; `None` if they leave.
pub(crate) fn load_settings_asking(
    args: &RunArgs,
    workspace: &Path,
) -> Result<Option<Loaded>, Failure> {
    let known = known(args, workspace);
    let files = Files::default();
    let mut sources = sources(args, workspace, known.approvals.clone());
    let loaded = load(&sources, &files)?;
    if loaded.trust != Trust::Untrusted {
        return Ok(Some(loaded));
    }
    match trust::ask(workspace, &loaded, &known)? {
        Said::Leave => Ok(None),
        Said::Go(approvals) => {
            sources.approvals = approvals;
            let mut loaded = load(&sources, &files)?;
            loaded.warnings.extend(known.warning);
            Ok(Some(loaded))
        }
    }
}

fn known(args: &RunArgs, workspace: &Path) -> Known {
    if args.trust_folder {
        return Known {
            approvals: Approvals::Everything,
            ..Known::default()
        };
    }
    trust::known(workspace)
}

fn sources(args: &RunArgs, workspace: &Path, approvals: Approvals) -> Sources {
    let mut flags: Vec<(&'static str, String)> = Vec::new();
    let single = [
        ("model", &args.model),
        ("fallback_model", &args.fallback_model),
        ("base_url", &args.base_url),
        ("api", &args.api),
        ("tools", &args.tools),
        ("permission_mode", &args.permission_mode),
        ("sandbox", &args.sandbox),
        ("debug_file", &args.debug_file),
    ];
    for (key, value) in single {
        flags.extend(value.iter().map(|value| (key, value.clone())));
    }
    for rule in &args.allowed_tools {
        flags.push(("allowed_tools", rule.clone()));
    }
    for rule in &args.disallowed_tools {
        flags.push(("disallowed_tools", rule.clone()));
    }
    let sources = Sources {
        approvals,
        bare: args.bare,
        explicit: args.settings.clone(),
        working_directory: std::env::current_dir().unwrap_or_default(),
        flags,
        ..Sources::new(workspace.to_owned(), std::env::vars_os().collect())
    };
    Sources {
        project: sources.project.filter(|_| !args.bare),
        ..sources
    }
}

fn load(sources: &Sources, files: &Files) -> Result<Loaded, Failure> {
    settings::load(sources, files).map_err(|error| {
        let is_sandbox =
            |problem: &Problem| matches!(problem.fault, Fault::Value { key: "sandbox", .. });
        let status = if error.problems.iter().any(is_sandbox) {
            Status::Sandbox
        } else {
            Status::Settings
        };
        Failure::new(status, error.to_string())
    })
}
