//! What of a repository a commit needs, and what of it must never be written.
//!
//! A repository's hooks and configuration name programs, and git runs them for whoever calls it
//! there next, outside of any sandbox. All else in its folder is data, and git makes its lock files
//! beside what they lock, so the folder as a whole is writable and the exceptions are named.
//!
//! A `.git` that is a file leads elsewhere, and it came with the folder: it is believed only if the
//! place that it leads to says the same of it, as git sees to.

use std::fs;
use std::path::{Path, PathBuf};

use tooloop_policy::protected::GIT_ENTRIES;

use crate::paths::{normal, real};

/// How many further folders are looked at: entries of a folder, working trees, submodules.
const MOST: usize = 1000;

/// How deep the names of submodules are nested at most.
const DEPTH: usize = 4;

/// What of a repository's directory is not written in a sandbox, in addition to [`GIT_ENTRIES`]: it
/// hides files from the person. Of `info` no more, since packing a repository writes other files
/// there.
const EXCLUDE: &str = "info/exclude";

/// What belongs into the folder of a linked working tree alone. Made in a repository's own folder it
/// would lead git to another one.
const LEADS: [&str; 2] = ["commondir", "gitdir"];

/// What a working tree needs written, and what there is never written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct GitFolders {
    pub(super) writable: Vec<PathBuf>,
    pub(super) protected: Vec<PathBuf>,
    /// What is not there, and is not to be made.
    pub(super) absent: Vec<PathBuf>,
}

/// The repositories that a folder without links lies in or holds.
pub(super) fn folders(root: &Path) -> GitFolders {
    let mut found = GitFolders::default();
    // As git does, the nearest one upwards.
    let above = root.ancestors().find(|folder| {
        let git = folder.join(".git");
        fs::symlink_metadata(git).is_ok()
    });
    if let Some(tree) = above {
        found.tree(tree);
    }
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    for entry in entries.take(MOST) {
        let folder = entry.path();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && fs::symlink_metadata(folder.join(".git")).is_ok() {
            found.tree(&folder);
        }
    }
    // A bare repository.
    if is_repository(root) {
        found.repository(root);
    }
    found
}

impl GitFolders {
    /// A folder with a `.git`.
    fn tree(&mut self, tree: &Path) {
        let git = tree.join(".git");
        // Who replaces a link or a file there leads git to a repository of their own making.
        let Ok(metadata) = fs::symlink_metadata(&git) else {
            return;
        };
        if metadata.is_dir() {
            self.writable.push(git.clone());
            self.repository(&git);
            return;
        }
        self.protected.push(git.clone());
        if !metadata.is_file() {
            return;
        }
        let Some(folder) = led_to(&git, "gitdir: ") else {
            return;
        };
        if let Some(common) = common_folder(&folder, &git) {
            self.writable.push(common.clone());
            self.repository(&common);
        } else if is_repository(&folder) && names_tree(&folder, tree) {
            // A submodule, or one whose folder was parted from its tree.
            self.writable.push(folder.clone());
            self.repository(&folder);
        }
    }

    /// Protects what in a repository's folder is never written.
    fn repository(&mut self, folder: &Path) {
        self.never(folder);
        let leads = LEADS.iter().map(|name| folder.join(name));
        let is_missing = |path: &PathBuf| fs::symlink_metadata(path).is_err();
        self.absent.extend(leads.filter(is_missing));
        let worktrees = fs::read_dir(folder.join("worktrees"));
        for worktree in worktrees.into_iter().flatten().flatten().take(MOST) {
            self.never(&worktree.path());
        }
        self.modules(&folder.join("modules"), DEPTH);
    }

    /// Protects the repositories of submodules. Their names may hold slashes.
    fn modules(&mut self, folder: &Path, depth: usize) {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries.take(MOST) {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let path = entry.path();
            if is_repository(&path) {
                self.repository(&path);
            } else if depth > 0 {
                self.modules(&path, depth - 1);
            }
        }
    }

    fn never(&mut self, folder: &Path) {
        let never = GIT_ENTRIES.iter().chain([&EXCLUDE]);
        let never = never.map(|name| folder.join(name));
        self.protected.extend(never);
    }
}

fn is_repository(folder: &Path) -> bool {
    folder.join("HEAD").is_file() && folder.join("objects").is_dir() && folder.join("refs").is_dir()
}

/// The repository of a linked working tree, whose own folder and whose `.git` are given.
fn common_folder(folder: &Path, git: &Path) -> Option<PathBuf> {
    let common = led_to(&folder.join("commondir"), "")?;
    let back = led_to(&folder.join("gitdir"), "")?;
    let is_its_own =
        back == *git && folder.parent()? == common.join("worktrees") && is_repository(&common);
    is_its_own.then_some(common)
}

/// Whether the configuration of a repository says that this is its working tree.
fn names_tree(folder: &Path, tree: &Path) -> bool {
    let Ok(text) = fs::read_to_string(folder.join("config")) else {
        return false;
    };
    text.lines().any(|line| {
        let parts = line.split_once('=').map(|(key, value)| (key.trim(), value));
        match parts {
            Some((key, value)) if key.eq_ignore_ascii_case("worktree") => {
                let value = value.trim().trim_matches('"');
                real(&folder.join(value)) == tree
            }
            _ => false,
        }
    })
}

/// Where a file of one line leads, links resolved.
fn led_to(file: &Path, prefix: &str) -> Option<PathBuf> {
    const LONGEST: u64 = 8192;
    let metadata = fs::symlink_metadata(file).ok()?;
    if !metadata.is_file() || metadata.len() > LONGEST {
        return None;
    }
    let text = fs::read_to_string(file).ok()?;
    let path = text.trim_end_matches(['\n', '\r']).strip_prefix(prefix)?;
    if path.is_empty() || path.contains('\n') {
        return None;
    }
    let path = file.parent()?.join(path);
    let path = normal(&path);
    // The last part stays as it is: `.git` itself may not be followed here.
    let (folder, name) = (path.parent()?, path.file_name()?);
    let folder = real(folder);
    let whole = folder.join(name);
    Some(if whole.is_dir() { real(&whole) } else { whole })
}
