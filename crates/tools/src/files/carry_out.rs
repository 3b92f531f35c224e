//! Taking the steps of a plan: all of them, or none.
//!
//! A death in the middle of several files leaves some of them changed, each whole.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tooloop_tool::ToolError;

use super::call::{Call, failed, words};
use super::content::Content;
use super::machine::{FileKind, WriteAs};
use super::plan::{Kind, Step};
use super::seen::Fingerprint;

/// What was done, and what is needed to take it back.
enum Done {
    Created(PathBuf, Vec<PathBuf>),
    Replaced(PathBuf, Vec<u8>),
    Renamed(PathBuf, PathBuf, Vec<PathBuf>),
    Removed(PathBuf, Vec<u8>, u32),
    /// A link, and where it led: that is all that is known of it.
    Unlinked(PathBuf, PathBuf),
}

/// Takes all steps, or none. Returns a note for each step that needs one.
pub(crate) fn carry_out(call: &Call, steps: &[Step]) -> Result<Vec<String>, ToolError> {
    let mut done = Vec::new();
    match take(call, steps, &mut done) {
        Ok(written) => Ok(steps
            .iter()
            .zip(written)
            .filter_map(|(step, written)| note(call, step, written))
            .collect()),
        Err(problem) => {
            let lost: Vec<String> = done
                .into_iter()
                .rev()
                .filter_map(|done| take_back(call, done).err())
                .collect();
            if lost.is_empty() {
                return failed(format!("{problem}; all is put back, nothing is changed"));
            }
            failed(format!(
                "{problem}; and this could not be put back: {}; look at these files",
                lost.join(", ")
            ))
        }
    }
}

/// What a step has put at its path.
type Written = Option<(PathBuf, Fingerprint)>;

fn take(call: &Call, steps: &[Step], done: &mut Vec<Done>) -> Result<Vec<Written>, ToolError> {
    let mut written = Vec::new();
    for step in steps {
        call.check()?;
        written.push(write(call, step, done)?);
    }
    for step in steps {
        rename(call, step, done)?;
    }
    // Last, what leaves the fewest ways back: files can be made again, links not.
    for links in [false, true] {
        for step in steps {
            if matches!(&step.kind, Kind::Delete { is_link, .. } if *is_link == links) {
                remove(call, step, done)?;
            }
        }
    }
    Ok(written)
}

fn write(call: &Call, step: &Step, done: &mut Vec<Done>) -> Result<Written, ToolError> {
    let given = &step.given;
    match &step.kind {
        Kind::Add(bytes) => {
            let made = missing_parents(call, &step.path);
            match call
                .ops
                .write(&step.path, bytes, WriteAs::New { mode: None })
            {
                Ok(real_path) => {
                    done.push(Done::Created(real_path.clone(), made));
                    Ok(Some((real_path, Fingerprint::of(bytes))))
                }
                Err(error) => {
                    let _removed = remove_folders(call, &made);
                    failed(format!("cannot create {given}: {}", words(&error)))
                }
            }
        }
        Kind::Update { old, new, .. } => {
            let Some(new) = new else {
                return Ok(Some((step.path.clone(), old.fingerprint)));
            };
            let before = raw(old, given)?;
            let fingerprint = old.replace(call, given, new)?;
            done.push(Done::Replaced(step.path.clone(), before));
            Ok(Some((step.path.clone(), fingerprint)))
        }
        Kind::Delete { .. } => Ok(None),
    }
}

fn rename(call: &Call, step: &Step, done: &mut Vec<Done>) -> Result<(), ToolError> {
    let Kind::Update { to: Some(to), .. } = &step.kind else {
        return Ok(());
    };
    // A link is not moved, so this is the file itself.
    let from = step.path.clone();
    let made = missing_parents(call, &to.1);
    match call.ops.rename(&from, &to.1) {
        Ok(()) => {
            done.push(Done::Renamed(from, to.1.clone(), made));
            Ok(())
        }
        Err(error) => {
            let _removed = remove_folders(call, &made);
            let given = &step.given;
            failed(format!(
                "cannot move {given} to {}: {}",
                to.0,
                words(&error)
            ))
        }
    }
}

fn remove(call: &Call, step: &Step, done: &mut Vec<Done>) -> Result<(), ToolError> {
    let Kind::Delete { old, is_link } = &step.kind else {
        return Ok(());
    };
    let given = &step.given;
    let bytes = raw(old, given)?;
    match call.ops.remove(&step.path) {
        Ok(()) => {
            let path = step.path.clone();
            done.push(if *is_link {
                Done::Unlinked(path, old.file.real_path.clone())
            } else {
                Done::Removed(path, bytes, old.file.mode)
            });
            Ok(())
        }
        Err(error) => failed(format!("cannot delete {given}: {}", words(&error))),
    }
}

fn raw(old: &Content, given: &str) -> Result<Vec<u8>, ToolError> {
    match old.bytes(&old.body) {
        Some(bytes) => Ok(bytes.into_owned()),
        None => failed(format!("the text of {given} is broken")),
    }
}

fn take_back(call: &Call, done: Done) -> Result<(), String> {
    let (path, outcome) = match done {
        Done::Created(path, made) => {
            let removed = call.ops.remove(&path);
            (path, removed.and_then(|()| remove_folders(call, &made)))
        }
        Done::Replaced(path, bytes) => {
            let written = call.ops.write(&path, &bytes, WriteAs::Replacement);
            (path, written.map(drop))
        }
        Done::Renamed(from, to, made) => {
            let renamed = call.ops.rename(&to, &from);
            (to, renamed.and_then(|()| remove_folders(call, &made)))
        }
        Done::Unlinked(path, to) => {
            let (path, to) = (path.display(), to.display());
            return Err(format!("{path}, which was a link to {to}"));
        }
        Done::Removed(path, bytes, mode) => {
            let mode = Some(mode);
            let written = call.ops.write(&path, &bytes, WriteAs::New { mode });
            (path, written.map(drop))
        }
    };
    outcome.map_err(|error| format!("{} ({})", path.display(), words(&error)))
}

/// The folders that would be made for a file, the deepest first.
fn missing_parents(call: &Call, path: &Path) -> Vec<PathBuf> {
    path.ancestors()
        .skip(1)
        .take_while(|parent| {
            let error = call.reopen(parent).err();
            error.is_some_and(|error| error.kind() == ErrorKind::NotFound)
        })
        .map(Path::to_owned)
        .collect()
}

fn remove_folders(call: &Call, made: &[PathBuf]) -> std::io::Result<()> {
    made.iter().try_for_each(|folder| {
        let removed = match call.reopen(folder) {
            Ok(found) if found.kind == FileKind::Folder => call.ops.remove(folder),
            // Another process put something there.
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        match removed {
            // It was not made after all.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            other => other,
        }
    })
}

/// Keeps what the model knows of files up to date.
fn note(call: &Call, step: &Step, written: Written) -> Option<String> {
    match &step.kind {
        Kind::Add(_) => {
            let (path, content) = written?;
            call.seen.wrote(path, content);
            None
        }
        Kind::Update { old, to, .. } => {
            let (_, content) = written?;
            let now_at = to.as_ref().map_or(&step.path, |(_, to)| to);
            let was_stale = old.note(call, now_at, content);
            if to.is_some() {
                call.seen.forget(&step.path);
            }
            was_stale.then(|| {
                format!(
                    "{} had changed since you last read it; read it again before you rely on the \
                     rest",
                    step.given
                )
            })
        }
        Kind::Delete { is_link: true, .. } => None,
        Kind::Delete { old, .. } => {
            call.seen.forget(&old.file.real_path);
            None
        }
    }
}
