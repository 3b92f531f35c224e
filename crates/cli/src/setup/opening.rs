//! Which session a run begins or goes on with.

use std::path::{Path, PathBuf};

use tooloop::Agent;
use tooloop::journal::SessionId;

use super::environment;
use crate::args::RunArgs;
use crate::exit::{Failure, Status};
use crate::knowledge;
use crate::print::complain;
use crate::sessions;

/// Which session is begun or gone on with.
#[derive(Debug, Clone)]
pub(crate) enum Open {
    New(SessionId),
    Resume(PathBuf),
    Fork(PathBuf, SessionId),
}

impl Open {
    pub(crate) fn start(&self, agent: &Agent) -> Result<tooloop::Session, tooloop::SessionError> {
        match self {
            Self::New(id) => agent.session_named(*id),
            Self::Resume(path) => agent.resume(path),
            Self::Fork(path, id) => agent.fork(path, *id),
        }
    }

    /// The session's name.
    pub(crate) fn session(&self) -> String {
        match self {
            Self::New(id) | Self::Fork(_, id) => id.to_string(),
            Self::Resume(path) => {
                let name = path.file_stem().unwrap_or_default();
                name.to_string_lossy().into_owned()
            }
        }
    }

    pub(crate) const fn is_resumed(&self) -> bool {
        matches!(self, Self::Resume(_) | Self::Fork(..))
    }
}

pub(super) fn open(args: &RunArgs, workspace: &Path) -> Result<Open, Failure> {
    let new = match &args.session_id {
        None => SessionId::generate(),
        Some(id) => id
            .parse()
            .map_err(|_| Failure::usage(format!("--session-id {id:?} is not a UUID")))?,
    };
    let resumes = args.continue_newest || args.resume.is_some();
    if !resumes {
        if args.fork_session {
            return Err(Failure::usage(
                "--fork-session needs the session to fork: --continue or --resume ID",
            ));
        }
        return free(new, args, workspace).map(Open::New);
    }
    if args.no_session_persistence && !args.fork_session {
        return Err(Failure::usage(
            "a session that is gone on with is recorded: --no-session-persistence does not go \
             with --continue or --resume",
        ));
    }
    let catalog = sessions::catalog(sessions::root(&environment), workspace)?;
    let path = match &args.resume {
        Some(wanted) => catalog.find(wanted).map_err(tooloop::SessionError::from)?,
        None => catalog.newest().ok_or_else(|| {
            let misplaced = sessions::misplaced(&catalog, workspace);
            Failure::usage(format!(
                "there is no session of {} to continue{misplaced}",
                workspace.display()
            ))
        })?,
    };
    if !args.fork_session && !args.no_session_persistence {
        let adopted = catalog.adopt(&path).map_err(|error| {
            let folder = catalog.folder().display();
            Failure::new(
                Status::Internal,
                format!("cannot keep the session in {folder}: {error}"),
            )
        })?;
        if let Some(warning) = adopted.and_then(|old| knowledge::take_over_notes(&old, workspace)) {
            complain(&warning);
        }
    }
    Ok(if args.fork_session {
        Open::Fork(path, free(new, args, workspace)?)
    } else {
        Open::Resume(path)
    })
}

/// The id, unless somebody chose it and it is taken.
fn free(id: SessionId, args: &RunArgs, workspace: &Path) -> Result<SessionId, Failure> {
    if args.session_id.is_none() || args.no_session_persistence {
        return Ok(id);
    }
    let catalog = sessions::catalog(sessions::root(&environment), workspace)?;
    if catalog.path(id).exists() {
        return Err(Failure::usage(format!(
            "--session-id {id}: there is such a session already; go on with it: --resume {id}"
        )));
    }
    Ok(id)
}
