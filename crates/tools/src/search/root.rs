//! Where a search begins, and how its paths are shown.

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use rustix::fs::FileType;
use tooloop_tool::{JudgedPaths, ToolError};

use crate::{TempView, no_links};

/// The folder or file that a search begins at.
#[derive(Debug)]
pub(super) struct Root {
    /// Without links: what is walked.
    pub(super) path: PathBuf,
    /// As it is shown: relative to the workspace, empty for the workspace itself, absolute outside.
    shown: PathBuf,
    /// Whether it is one file.
    pub(super) is_file: bool,
}

impl Root {
    /// Looks at a path that was given.
    pub(super) fn find(
        workspace: &Path,
        given: &Path,
        view: Option<&TempView>,
        judged: &JudgedPaths,
    ) -> Result<Self, ToolError> {
        let mut joined = workspace.join(given);
        let judged = judged.get(&joined).map_err(|error| {
            ToolError::Failed(format!("{} cannot be searched: {error}", given.display()))
        })?;
        if let Some(view) = view {
            joined = view.real(&joined);
        }
        let real = match judged {
            Some(judged) => Ok(judged.real.clone()),
            None => joined.canonicalize(),
        };
        let path = real.map_err(|error| missing(given, workspace, &error))?;
        let stat = no_links::stat(&path).map_err(|error| missing(given, workspace, &error))?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind != FileType::Directory && kind != FileType::RegularFile {
            return Err(ToolError::Failed(format!(
                "{} is neither a file nor a folder (a pipe, a socket or a device) and is not searched",
                given.display()
            )));
        }
        let shown = shown(workspace, &joined, &path);
        Ok(Self {
            path,
            shown,
            is_file: kind == FileType::RegularFile,
        })
    }

    /// The text for a path below the root.
    pub(super) fn show(&self, below: &Path) -> String {
        if below.as_os_str().is_empty() {
            return self.name();
        }
        harmless(&self.shown.join(below).to_string_lossy())
    }

    /// The text for the root itself.
    pub(super) fn name(&self) -> String {
        if self.shown.as_os_str().is_empty() {
            return "the workspace".into();
        }
        harmless(&self.shown.to_string_lossy())
    }
}

fn missing(given: &Path, workspace: &Path, error: &std::io::Error) -> ToolError {
    let shown = given.display();
    ToolError::Failed(match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => format!(
            "there is no file or folder {shown} (paths are relative to {})",
            workspace.display()
        ),
        _ => format!("{shown} cannot be read: {error}"),
    })
}

fn shown(workspace: &Path, joined: &Path, real: &Path) -> PathBuf {
    let climbs = joined
        .components()
        .any(|part| matches!(part, Component::ParentDir));
    if !climbs && let Ok(below) = joined.strip_prefix(workspace) {
        // A link in the workspace keeps the name by which it was called.
        return below.components().collect();
    }
    match workspace.canonicalize() {
        Ok(workspace) => real.strip_prefix(workspace).unwrap_or(real).to_owned(),
        Err(_) => real.to_owned(),
    }
}

/// Names and lines may hold anything: control characters are shown, not sent.
pub(super) fn harmless(text: &str) -> String {
    if !text.contains(|character: char| character.is_control() && character != '\t') {
        return text.to_owned();
    }
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() && character != '\t' {
            safe.push_str(&format!("\\x{:02x}", u32::from(character)));
        } else {
            safe.push(character);
        }
    }
    safe
}
