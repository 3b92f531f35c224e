//! Removing a session with all that belongs to it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::catalog::journals_in;
use crate::header::read_header;
use crate::{SessionId, StoreError, lock, outputs_beside, subagents_beside};

/// What was removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    /// The files and folders.
    pub paths: Vec<PathBuf>,
}

/// What there is of the session with this journal: the journal last; before it the folder of its
/// outputs, those of its old files and of its subagents, and what repairs have kept.
#[must_use]
pub fn belongings(journal: &Path) -> Vec<PathBuf> {
    let name = journal.file_name().unwrap_or_default().to_string_lossy();
    let kept = [format!("{name}.damaged-"), format!("{name}.older-")];
    let mut paths = vec![
        outputs_beside(journal),
        journal.with_extension("files"),
        subagents_beside(journal),
    ];
    let neighbours = journal.parent().map(fs::read_dir);
    let neighbours = neighbours.into_iter().flatten().flatten();
    let mut originals: Vec<_> = neighbours
        .filter_map(Result::ok)
        .filter(|file| {
            let name = file.file_name();
            let name = name.to_string_lossy();
            kept.iter().any(|kept| name.starts_with(kept.as_str()))
        })
        .map(|file| file.path())
        .collect();
    originals.sort();
    paths.extend(originals);
    paths.retain(|path| path.symlink_metadata().is_ok());
    paths.push(journal.to_owned());
    paths
}

/// Removes a session. The journal goes last: what a death leaves can be removed again.
///
/// # Errors
/// If the session is in use, or a part of it cannot be removed.
pub fn remove(journal: &Path) -> Result<Removed, StoreError> {
    // Whatever stands in the file: nobody else has it now.
    let _lock = lock::open(journal)?;
    let mut removed = Removed::default();
    for path in belongings(journal) {
        let is_folder = path
            .symlink_metadata()
            .is_ok_and(|metadata| metadata.is_dir());
        let gone = if is_folder {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        match gone {
            Ok(()) => removed.paths.push(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(StoreError::io("remove", &path)(error)),
        }
    }
    Ok(removed)
}

/// The sessions beside this journal that were forked from its session: their past may name files
/// in its folder of outputs.
#[must_use]
pub fn forks_of(journal: &Path) -> Vec<SessionId> {
    let Ok((own, _)) = read_header(journal) else {
        return Vec::new();
    };
    let neighbours = journal.parent().map(journals_in);
    let mut forks: Vec<_> = neighbours
        .into_iter()
        .flatten()
        .filter_map(|path| read_header(&path).ok())
        .map(|(header, _)| header)
        .filter(|header| {
            let from = header.forked_from.as_ref();
            from.is_some_and(|from| from.session == own.session)
        })
        .map(|header| header.session)
        .collect();
    forks.sort();
    forks
}
