//! `tooloop memory`: the notes of a project, for a person.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tooloop::journal::Catalog;
use tooloop::tools::{MemoryError, MemoryStore};

use super::places::repository;
use crate::args::{MemoryArgs, MemoryCommand};
use crate::exit::{Failure, Status};
use crate::sessions;
use crate::setup::{self, environment};
use crate::text;

/// The notes of the project that a folder belongs to; `None` where there is no folder for data.
pub(crate) fn store(workspace: &Path) -> Option<MemoryStore> {
    let root = sessions::root(&environment)?;
    let root = root.parent()?.join("memory");
    Some(MemoryStore::at(
        Catalog::new(root, &project(workspace)).folder(),
    ))
}

/// Moves the notes of a directory that does not exist any more to this one. Those of a directory that
/// exists stay: it may be another project. Returns what a person should know of it.
pub(crate) fn take_over_notes(old: &Path, workspace: &Path) -> Option<String> {
    let root = sessions::root(&environment)?;
    let root = root.parent()?.join("memory");
    if old.exists() {
        let folder = |project: &Path| Catalog::new(&root, project).folder().to_owned();
        let (theirs, ours) = (folder(&project(old)), folder(&project(workspace)));
        return (theirs != ours && theirs.is_dir()).then(|| {
            format!(
                "the notes of {} stay in {}: that directory exists; notes of this one are in {}",
                old.display(),
                theirs.display(),
                ours.display()
            )
        });
    }
    // The notes are those of the repository that the directory was in.
    let gone = old.ancestors().take_while(|folder| !folder.exists());
    let mut theirs = gone.map(|folder| Catalog::new(&root, folder).folder().to_owned());
    let theirs = theirs.find(|folder| folder.is_dir())?;
    let ours = Catalog::new(&root, &project(workspace)).folder().to_owned();
    let (from, to) = (theirs.display(), ours.display());
    if ours.exists() {
        return Some(format!(
            "the notes of {} stay in {from}: {to} has notes already",
            old.display()
        ));
    }
    Some(match std::fs::rename(&theirs, &ours) {
        Ok(()) => format!("the notes of {} are now in {to}", old.display()),
        Err(error) => format!(
            "the notes of {} are in {from} and cannot be moved to {to}: {error}",
            old.display()
        ),
    })
}

/// The folder that a project is known by: that of its repository, for all working trees the same.
fn project(workspace: &Path) -> PathBuf {
    let Some(tree) = repository(workspace) else {
        return workspace.to_owned();
    };
    main_tree(tree).unwrap_or_else(|| tree.to_owned())
}

/// Where a working tree's repository is. A `.git` that is a file came with the folder, so it is believed only
/// if the place that it leads to says the same of it.
fn main_tree(tree: &Path) -> Option<PathBuf> {
    let link = tree.join(".git");
    if link.is_dir() {
        return None;
    }
    let line = |path: &Path| {
        let text = std::fs::read_to_string(path).ok()?;
        Some(text.trim_end().to_owned())
    };
    let of_tree = tree.join(line(&link)?.strip_prefix("gitdir:")?.trim());
    let back = of_tree.join(line(&of_tree.join("gitdir"))?);
    if back.canonicalize().ok()? != link.canonicalize().ok()? {
        return None;
    }
    let common = of_tree.join(line(&of_tree.join("commondir"))?);
    let common = common.canonicalize().ok()?;
    if !of_tree.canonicalize().ok()?.starts_with(&common) {
        return None;
    }
    if common.file_name()? == ".git" {
        return common.parent().map(Path::to_owned);
    }
    // A submodule names its tree; a repository without one is known by its own folder.
    Some(named_tree(&common).unwrap_or(common))
}

/// The working tree that a repository's settings name, if it leads to that repository.
fn named_tree(repository: &Path) -> Option<PathBuf> {
    let config = std::fs::read_to_string(repository.join("config")).ok()?;
    let value = config.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "worktree").then(|| value.trim())
    })?;
    let tree = repository.join(value).canonicalize().ok()?;
    let link = std::fs::read_to_string(tree.join(".git")).ok()?;
    let led_to = tree.join(link.trim_end().strip_prefix("gitdir:")?.trim());
    (led_to.canonicalize().ok()? == repository).then_some(tree)
}

/// Does what was asked for.
pub(crate) fn run(args: MemoryArgs) -> Result<Status, Failure> {
    let workspace = setup::workspace(args.directory.as_deref())?;
    let store = store(&workspace).ok_or_else(|| {
        Failure::settings("there is no folder for notes: set HOME or XDG_DATA_HOME")
    })?;
    let refused = |error: MemoryError| match error {
        MemoryError::Io { .. } => Failure::new(Status::Internal, error.to_string()),
        _ => Failure::usage(error.to_string()),
    };
    let printed = match args.command.unwrap_or(MemoryCommand::List) {
        MemoryCommand::List => list(&store).map_err(refused)?,
        MemoryCommand::Path => format!("{}\n", store.folder().display()),
        MemoryCommand::Show { name } => {
            let text = store.view(&name).map_err(refused)?;
            text::clean(&text) + if text.ends_with('\n') { "" } else { "\n" }
        }
        MemoryCommand::Edit { name } => {
            store.view(&name).map_err(refused)?;
            return edit(&store.file(&name).map_err(refused)?);
        }
        MemoryCommand::Delete { name } => {
            store.delete(&name).map_err(refused)?;
            format!("deleted {name}\n")
        }
    };
    match crate::output::stdout().write_all(printed.as_bytes()) {
        Ok(()) => Ok(Status::Done),
        Err(_) => Ok(Status::BrokenPipe),
    }
}

/// A line for each note.
pub(crate) fn list(store: &MemoryStore) -> Result<String, MemoryError> {
    let notes = store.list()?;
    if notes.is_empty() {
        return Ok(format!(
            "There are no notes in {}\n",
            store.folder().display()
        ));
    }
    let width = notes.iter().map(|note| note.name.len()).max().unwrap_or(0);
    let lines = notes.iter().map(|note| {
        let about = text::one_line(&note.about);
        format!("{:width$}  {:>6} bytes  {about}\n", note.name, note.bytes)
    });
    Ok(lines.collect())
}

/// Has the user's editor open a file.
fn edit(path: &Path) -> Result<Status, Failure> {
    let editor = environment("VISUAL").or_else(|| environment("EDITOR"));
    let Some(editor) = editor else {
        return Err(Failure::usage(format!(
            "no editor is set: set VISUAL or EDITOR, or open {}",
            path.display()
        )));
    };
    // It may come with flags of its own.
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or_default();
    let status = Command::new(program).args(words).arg(path).status();
    match status {
        Ok(status) if status.success() => Ok(Status::Done),
        Ok(status) => Err(Failure::new(
            Status::Internal,
            format!("{editor} ended with {status}"),
        )),
        Err(error) => Err(Failure::usage(format!(
            "cannot start the editor {editor}: {error}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn all_working_trees_and_folders_of_a_repository_are_one_project() {
        let held = tempfile::tempdir().unwrap();
        let base = held.path().canonicalize().unwrap();
        let put = |path: &str, text: &str| {
            let path = base.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let at = |path: &str| base.join(path);
        fs::create_dir_all(at("main/.git/worktrees/side")).unwrap();
        fs::create_dir_all(at("main/src/deep")).unwrap();
        assert_eq!(project(&at("main/src/deep")), at("main"));
        put(
            "side/.git",
            &format!("gitdir: {}\n", at("main/.git/worktrees/side").display()),
        );
        put("main/.git/worktrees/side/commondir", "../..\n");
        // The repository says nothing of it yet.
        assert_eq!(project(&at("side")), at("side"));
        put(
            "main/.git/worktrees/side/gitdir",
            &format!("{}\n", at("side/.git").display()),
        );
        fs::create_dir_all(at("side/src")).unwrap();
        assert_eq!(project(&at("side/src")), at("main"));
        // Another folder that claims the same is not believed.
        put(
            "thief/.git",
            &format!("gitdir: {}\n", at("main/.git/worktrees/side").display()),
        );
        assert_eq!(project(&at("thief")), at("thief"));
        fs::create_dir_all(at("plain/src")).unwrap();
        assert_eq!(project(&at("plain/src")), at("plain/src"));
    }
}
