//! What of a repository a commit needs, and what of it must never be written.
//!
//! A repository's hooks and configuration name programs, and git runs them for whoever calls it
//! there next, outside of any sandbox. All else in its folder is data, and git makes its lock files
//! beside what they lock, so the folder as a whole is writable and the exceptions are named.
//!
//! A `.git` that is a file leads elsewhere, and it came with the folder: it is believed only if the
//! place that it leads to says the same of it, as git sees to.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tooloop_policy::protected::GIT_ENTRIES;

use crate::paths::{normal, real};

/// How many further folders are looked at: entries of a folder, working trees, submodules.
const MOST: usize = 1000;

/// How deep the names of submodules are nested at most.
const DEPTH: usize = 4;

/// Names of hooks that commands run.
const HOOKS: [&str; 10] = [
    "applypatch-msg",
    "commit-msg",
    "post-checkout",
    "post-commit",
    "post-merge",
    "pre-commit",
    "pre-push",
    "pre-rebase",
    "prepare-commit-msg",
    "update",
];

/// What of a store of objects is never written: it leads git to other stores.
const OBJECT_ENTRIES: [&str; 2] = ["info/alternates", "info/http-alternates"];

/// What of a repository's directory is not written in a sandbox, in addition to [`GIT_ENTRIES`]: it
/// hides files from the person. Of `info` no more, since packing a repository writes other files
/// there.
const EXCLUDE: &str = "info/exclude";

/// What a working tree needs written, and what there is never written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct GitFolders {
    pub(super) writable: Vec<PathBuf>,
    pub(super) protected: Vec<PathBuf>,
    /// Stores of objects and directories of hooks that the repository reads, and does not write.
    pub(super) read: Vec<PathBuf>,
}

/// The stores of objects that variables of the environment name. Commands inherit these variables.
pub(super) fn named_stores(variable: fn(&str) -> Option<OsString>) -> GitFolders {
    let mut found = GitFolders::default();
    let store = variable("GIT_OBJECT_DIRECTORY").map(PathBuf::from);
    if let Some(store) = store.filter(|path| path.is_absolute())
        && let Ok(store) = store.canonicalize()
        && holds_objects(&store)
    {
        found
            .protected
            .extend(OBJECT_ENTRIES.map(|name| store.join(name)));
        found.alternates(&store, DEPTH);
        found.writable.push(store);
    }
    let alternates = variable("GIT_ALTERNATE_OBJECT_DIRECTORIES").unwrap_or_default();
    let alternates = std::env::split_paths(&alternates);
    for path in alternates.filter(|path| path.is_absolute()).take(MOST) {
        found.alternate(&path, DEPTH);
    }
    found
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
        let folder = if metadata.is_symlink() {
            git.canonicalize().ok()
        } else {
            led_to(&git, "gitdir: ")
        };
        let Some(folder) = folder else {
            return;
        };
        if let Some(common) = common_folder(&folder, &git) {
            self.writable.push(common.clone());
            self.repository(&common);
        } else if is_repository(&folder) && (names_tree(&folder, tree) || is_apart(&folder, tree)) {
            // A submodule, or one whose folder was parted from its tree.
            self.writable.push(folder.clone());
            self.repository(&folder);
        }
    }

    /// Protects what in a repository's folder is never written.
    fn repository(&mut self, folder: &Path) {
        self.never(folder);
        // Commits write objects, wherever they are kept.
        let objects = folder.join("objects");
        if fs::symlink_metadata(&objects).is_ok_and(|kind| kind.is_symlink())
            && let Ok(objects) = objects.canonicalize()
            && holds_objects(&objects)
        {
            self.writable.push(objects);
        }
        self.alternates(&objects, DEPTH);
        let hooks = folder.join("hooks");
        if fs::symlink_metadata(&hooks).is_ok_and(|kind| kind.is_symlink())
            && let Ok(hooks) = hooks.canonicalize()
            && holds_hooks(&hooks)
        {
            self.read.push(hooks);
        }
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

    /// Adds the stores that `objects/info/alternates` names, and those that these name in turn.
    fn alternates(&mut self, objects: &Path, depth: usize) {
        let Some(text) = small_text(&objects.join("info/alternates")) else {
            return;
        };
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        for line in lines.take(MOST) {
            self.alternate(&objects.join(line), depth);
        }
    }

    fn alternate(&mut self, path: &Path, depth: usize) {
        let Ok(objects) = path.canonicalize() else {
            return;
        };
        if holds_objects(&objects) && !self.read.contains(&objects) {
            self.read.push(objects.clone());
            if depth > 0 {
                self.alternates(&objects, depth - 1);
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
    let mut trees = values(&text, "worktree");
    trees.any(|value| real(&folder.join(value)) == tree)
}

/// Whether a repository can only be one that was made apart from its working tree, as
/// `git init --separate-git-dir` does: it has another name than those in a working tree, says that
/// it has one and names none, and has the same owner. Nothing in it names the tree.
fn is_apart(folder: &Path, tree: &Path) -> bool {
    let owner = |path: &Path| fs::metadata(path).ok().map(|metadata| metadata.uid());
    let Ok(text) = fs::read_to_string(folder.join("config")) else {
        return false;
    };
    let is_bare = values(&text, "bare").any(|value| !value.eq_ignore_ascii_case("false"));
    let has_name = folder.file_name().is_some_and(|name| name != ".git");
    let is_linked = fs::symlink_metadata(folder.join("commondir")).is_ok();
    has_name
        && !is_bare
        && !is_linked
        && values(&text, "worktree").next().is_none()
        && owner(folder) == owner(tree)
}

/// The values of the settings of a name, in any section.
fn values<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines().filter_map(move |line| {
        let (key, value) = line.split_once('=')?;
        // A section may stand on the same line.
        let key = key.rsplit(']').next().unwrap_or(key).trim();
        key.eq_ignore_ascii_case(name)
            .then(|| value.trim().trim_matches('"'))
    })
}

/// Whether a directory holds objects of a repository and nothing else, so that a link to it opens no
/// other place.
fn holds_objects(folder: &Path) -> bool {
    let is_object = |name: &str| {
        matches!(name, "info" | "pack")
            || name.len() == 2 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
            || name.starts_with("tmp_obj")
    };
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    (folder.join("pack").is_dir() || folder.join("info").is_dir())
        && entries.all(|entry| entry.file_name().to_str().is_some_and(is_object))
}

/// Whether a directory holds hooks and no more than files, so that a link to it shows no other place.
fn holds_hooks(folder: &Path) -> bool {
    let is_hook = |name: &str| HOOKS.contains(&name.trim_end_matches(".sample"));
    let entries: Vec<_> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .collect();
    let is_file = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    entries.iter().all(is_file)
        && entries
            .iter()
            .any(|entry| entry.file_name().to_str().is_some_and(is_hook))
}

/// Where a file of one line leads, links resolved.
fn led_to(file: &Path, prefix: &str) -> Option<PathBuf> {
    let text = small_text(file)?;
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

/// The text of a small file that is no link.
fn small_text(file: &Path) -> Option<String> {
    const LONGEST: u64 = 8192;
    let metadata = fs::symlink_metadata(file).ok()?;
    if !metadata.is_file() || metadata.len() > LONGEST {
        return None;
    }
    fs::read_to_string(file).ok()
}
