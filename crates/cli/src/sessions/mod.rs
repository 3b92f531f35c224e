//! `tooloop sessions`: a module for each thing that can be done with recorded sessions.

mod cost;
mod export;
mod list;
mod remove;
mod repair;
mod show;
mod verify;

use std::path::{Path, PathBuf};

use tooloop::SessionError;
use tooloop::journal::Catalog;

use crate::args::SessionsCommand;
use crate::exit::Failure;
use crate::exit::Status;
use crate::rewinding;
use crate::setup;
use crate::text::clean;

pub(crate) use show::tell;

/// Does what was asked for.
pub(crate) fn run(command: SessionsCommand) -> Result<Status, Failure> {
    let root = root(&setup::environment);
    let folder = |directory: Option<&Path>| {
        let workspace = setup::workspace(directory)?;
        let catalog = catalog(root.clone(), &workspace)?;
        Ok::<_, Failure>((catalog, workspace))
    };
    match command {
        SessionsCommand::List {
            limit,
            all,
            json,
            directory,
        } => {
            let (catalog, workspace) = folder(directory.as_deref())?;
            list::list(&catalog, &workspace, limit, all, json)
        }
        SessionsCommand::Show {
            session,
            json,
            directory,
        } => {
            let (catalog, _) = folder(directory.as_deref())?;
            show::show(&find(&catalog, &session)?, json)
        }
        SessionsCommand::Rewind(args) => {
            let (catalog, _) = folder(args.directory.as_deref())?;
            let path = find(&catalog, &args.session)?;
            rewinding::rewind(root.clone(), &path, &args)
        }
        SessionsCommand::Fork {
            session,
            at,
            session_id,
            directory,
        } => {
            let (catalog, _) = folder(directory.as_deref())?;
            let path = find(&catalog, &session)?;
            rewinding::fork(&path, at, session_id.as_deref())
        }
        SessionsCommand::Verify {
            session,
            json,
            directory,
        } => {
            let (catalog, workspace) = folder(directory.as_deref())?;
            verify::verify(&find(&catalog, &session)?, &workspace, json)
        }
        SessionsCommand::Cost {
            session,
            json,
            directory,
        } => {
            let (catalog, _) = folder(directory.as_deref())?;
            cost::cost(&find(&catalog, &session)?, json)
        }
        SessionsCommand::Repair { session, directory } => {
            let (catalog, workspace) = folder(directory.as_deref())?;
            repair::repair(&find(&catalog, &session)?, &workspace)
        }
        SessionsCommand::Export {
            session,
            format,
            output,
            directory,
        } => {
            let (catalog, _) = folder(directory.as_deref())?;
            export::export(&find(&catalog, &session)?, format, output.as_deref())
        }
        SessionsCommand::Rm {
            sessions,
            older_than,
            yes,
            directory,
        } => {
            let (catalog, _) = folder(directory.as_deref())?;
            let paths = match older_than {
                Some(days) => remove::older_than(&catalog, days),
                None => sessions
                    .iter()
                    .map(|session| find(&catalog, session))
                    .collect::<Result<_, _>>()?,
            };
            remove::remove(&paths, yes)
        }
    }
}

/// The journal that is meant: a file, where one is named as such, else a session.
pub(crate) fn find(catalog: &Catalog, wanted: &str) -> Result<PathBuf, Failure> {
    let path = Path::new(wanted);
    if wanted.contains('/') || path.extension().is_some_and(|end| end == "jsonl") {
        return std::path::absolute(path)
            .ok()
            .filter(|path| path.is_file())
            .ok_or_else(|| Failure::usage(format!("there is no file {wanted}")));
    }
    Ok(catalog.find(wanted).map_err(SessionError::from)?)
}

/// The sessions that may be meant where none is found, with their directories: starts with a separator,
/// or is empty.
pub(crate) fn misplaced(catalog: &Catalog, workspace: &Path) -> String {
    const MOST: usize = 5;
    let mut list = String::new();
    for summary in catalog.misplaced(workspace, MOST) {
        let theirs = &summary.header.workspace;
        let what = if theirs.exists() {
            "is another directory"
        } else {
            "does not exist any more"
        };
        list.push_str(&clean(&format!(
            "\n  {}  {} ({what})  {}",
            summary.header.session,
            theirs.display(),
            summary.prompt
        )));
    }
    if list.is_empty() {
        return list;
    }
    format!(
        "; sessions of a directory that may have been renamed or copied (--resume ID continues one \
         here, and it then belongs to this directory too):{list}"
    )
}

/// Where sessions are kept: below the data folder of the user.
pub(crate) fn root(environment: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let absolute = |path: String| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    environment("XDG_DATA_HOME")
        .and_then(absolute)
        .or_else(|| {
            let home = environment("HOME").and_then(absolute)?;
            Some(home.join(".local/share"))
        })
        .map(|data| data.join("tooloop/sessions"))
}

/// Where the sessions of a folder can be kept.
///
/// # Errors
/// If a path that a journal would hold is not UTF-8, or no place is known.
pub(crate) fn root_for(workspace: &Path) -> Result<PathBuf, Failure> {
    const REFUSED: &str = "is not UTF-8, so its sessions cannot be recorded";
    const HELP: &str = "or keep no record with --no-session-persistence";
    if workspace.to_str().is_none() {
        return Err(Failure::usage(clean(&format!(
            "the name of the directory {} {REFUSED}: rename it, {HELP}",
            workspace.display()
        ))));
    }
    for name in ["XDG_DATA_HOME", "HOME"] {
        let value = std::env::var_os(name).filter(|value| !value.is_empty());
        match value.map(PathBuf::from) {
            Some(path) if path.to_str().is_none() => {
                return Err(Failure::settings(clean(&format!(
                    "the name of the directory {} in {name} {REFUSED}: set XDG_DATA_HOME to a \
                     directory with a UTF-8 name, {HELP}",
                    path.display()
                ))));
            }
            Some(path) if path.is_absolute() => break,
            Some(_) | None => {}
        }
    }
    root(&setup::environment).ok_or_else(|| {
        Failure::settings(format!(
            "there is no folder for sessions: set HOME or XDG_DATA_HOME, {HELP}"
        ))
    })
}

/// The sessions of a folder.
pub(crate) fn catalog(root: Option<PathBuf>, workspace: &Path) -> Result<Catalog, Failure> {
    let root = root.ok_or_else(|| {
        Failure::settings("there is no folder for sessions: set HOME or XDG_DATA_HOME")
    })?;
    let workspace = std::fs::canonicalize(workspace)
        .map_err(|error| Failure::usage(format!("{}: {error}", workspace.display())))?;
    Ok(Catalog::new(root, &workspace))
}
