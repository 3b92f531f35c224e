//! What can go wrong with a journal.

use std::io;
use std::path::{Path, PathBuf};

/// Why a journal cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system refuses.
    #[error("cannot {action} the session file {path}: {source}", path = path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Another process writes to this session.
    #[error("session {session} is in use{holder}: end that run, or fork the session (--fork-session)", holder = by(*holder))]
    Locked {
        /// The session.
        session: String,
        /// The process that holds it, where the system tells.
        holder: Option<u32>,
    },
    /// There is no such session.
    #[error("there is no session {wanted} under {folder}", folder = folder.display())]
    NotFound {
        /// What was asked for.
        wanted: String,
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// More than one session begins like that.
    #[error("{wanted} is the beginning of more than one session: {}", candidates.join(", "))]
    Ambiguous {
        /// What was asked for.
        wanted: String,
        /// The sessions.
        candidates: Vec<String>,
    },
    /// The file is not a journal, or of a kind that this version does not know.
    #[error("{path}, line {line}: {reason}", path = path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// An entry is longer than a line may be.
    #[error("an entry of {bytes} bytes is not recorded in the session file {path}: a line has at most {}", crate::MAX_LINE, path = path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The length of its line.
        bytes: usize,
    },
    /// A repair would leave a file that is not whole. The original is untouched.
    #[error("the session file {path} cannot be repaired: what would be written still has a fault: {fault}", path = path.display())]
    NotRepaired {
        /// The file.
        path: PathBuf,
        /// The fault.
        fault: String,
    },
    /// An earlier write failed, so that nothing more may be done on this record.
    #[error("the session file {path} could not be written before; nothing more is recorded", path = path.display())]
    Failed {
        /// The file.
        path: PathBuf,
    },
}

fn by(holder: Option<u32>) -> String {
    holder.map_or_else(String::new, |pid| format!(" by process {pid}"))
}

impl StoreError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}
