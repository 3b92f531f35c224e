//! Finds out whether git may run programs of a repository.
//!
//! Git obeys the configuration and the hooks of the repository around a directory. A clone brings
//! neither, but an archive does, and a directory of a clone can look like a repository. The result
//! is a fact for the policy, which has no access to files; nothing here decides about a call.

mod config;
mod index;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::{paths, regular_file};

/// How many bytes of a configuration file are read.
const LONGEST_CONFIG: u64 = 1 << 20;

/// How many bytes of an index are read.
const LONGEST_INDEX: u64 = 64 << 20;

/// How deep submodules are followed.
const DEPTH: usize = 4;

/// A hook that commands run which only read: they refresh the index.
const HOOKS: [&str; 1] = ["post-index-change"];

/// Returns why a git command that only reads may run a program of the repository around
/// `directory`, or reads a repository that is not the workspace's own; `None` if it does neither.
///
/// `roots` are the workspace and the additional directories, absolute and without links.
pub(crate) fn risk(directory: &Path, roots: &[PathBuf]) -> Option<String> {
    let found = Repository::around(directory)?;
    let is_own =
        |root: &PathBuf| Repository::around(root).is_some_and(|own| own.folder == found.folder);
    if !roots.iter().any(is_own) {
        return Some(format!(
            "git would use the repository `{}`, which is not the workspace's own",
            found.folder.display()
        ));
    }
    found.risk(DEPTH)
}

/// A repository as git finds it.
#[derive(Debug, PartialEq, Eq)]
struct Repository {
    /// The folder with `HEAD`, links resolved.
    folder: PathBuf,
    /// The folder that holds its `.git`; `None` if it is bare.
    tree: Option<PathBuf>,
}

impl Repository {
    /// The repository that git finds from a directory upwards.
    fn around(directory: &Path) -> Option<Self> {
        paths::real(directory).ancestors().find_map(Self::at)
    }

    /// The repository whose working tree or whose own folder this is.
    fn at(directory: &Path) -> Option<Self> {
        let git = directory.join(".git");
        let metadata = fs::metadata(&git).ok();
        if metadata.as_ref().is_some_and(fs::Metadata::is_file) {
            // A file that names nothing usable stops git: then nothing runs.
            let text = read(&git, 8192)?;
            let folder = text
                .trim_end_matches(['\n', '\r'])
                .strip_prefix("gitdir: ")?;
            return Some(Self {
                folder: paths::real(&directory.join(folder)),
                tree: Some(directory.to_owned()),
            });
        }
        if metadata.is_some() && looks_like_one(&git) {
            return Some(Self {
                folder: paths::real(&git),
                tree: Some(directory.to_owned()),
            });
        }
        looks_like_one(directory).then(|| Self {
            folder: directory.to_owned(),
            tree: None,
        })
    }

    /// The folder with configuration and hooks: another one for a linked working tree.
    fn common(&self) -> PathBuf {
        let named = read(&self.folder.join("commondir"), 8192);
        let named = named
            .as_deref()
            .map(|text| text.trim_end_matches(['\n', '\r']));
        named.map_or_else(
            || self.folder.clone(),
            |named| paths::real(&self.folder.join(named)),
        )
    }

    /// Returns why git may run a program of this repository or of a submodule.
    fn risk(&self, depth: usize) -> Option<String> {
        let common = self.common();
        let mut files = vec![common.join("config"), common.join("config.worktree")];
        if common != self.folder {
            files.push(self.folder.join("config.worktree"));
        }
        for file in files {
            if fs::symlink_metadata(&file).is_err() {
                continue;
            }
            let Some(text) = read(&file, LONGEST_CONFIG) else {
                return Some(format!("`{}` cannot be read", file.display()));
            };
            if let Some(setting) = config::risky_setting(&text, |tree| self.is_tree(tree)) {
                return Some(format!(
                    "`{}` has the setting `{setting}`, which may name a program",
                    file.display()
                ));
            }
        }
        let hooks = HOOKS.iter().map(|name| common.join("hooks").join(name));
        if let Some(hook) = hooks.into_iter().find(|hook| fs::metadata(hook).is_ok()) {
            return Some(format!("git would run the hook `{}`", hook.display()));
        }
        self.submodule_risk(depth)
    }

    /// Git looks into each submodule that is there.
    fn submodule_risk(&self, depth: usize) -> Option<String> {
        let index = self.folder.join("index");
        let tree = self.tree.as_ref()?;
        if fs::symlink_metadata(&index).is_err() {
            return None;
        }
        let Some(bytes) = read_bytes(&index, LONGEST_INDEX) else {
            return Some(format!("`{}` cannot be read", index.display()));
        };
        let Some(submodules) = index::submodules(&bytes) else {
            return Some(format!(
                "the submodules in `{}` are not known",
                index.display()
            ));
        };
        for path in submodules {
            let Some(submodule) = Self::at(&tree.join(path)) else {
                continue;
            };
            let risk = match depth.checked_sub(1) {
                Some(depth) => submodule.risk(depth),
                None => Some("the submodules are nested too deep".to_owned()),
            };
            if risk.is_some() {
                return risk;
            }
        }
        None
    }

    /// Checks whether a setting `core.worktree` names the working tree that git would use anyway.
    fn is_tree(&self, value: &str) -> bool {
        let named = paths::real(&self.folder.join(value));
        self.tree
            .as_ref()
            .is_some_and(|tree| paths::real(tree) == named)
    }
}

/// Checks whether git may take a folder for a repository.
fn looks_like_one(folder: &Path) -> bool {
    let has = |name: &str| fs::symlink_metadata(folder.join(name)).is_ok();
    has("HEAD") && (has("commondir") || has("objects") && has("refs"))
}

fn read(path: &Path, longest: u64) -> Option<String> {
    String::from_utf8(read_bytes(path, longest)?).ok()
}

/// A whole regular file; `None` if it is longer or cannot be read.
fn read_bytes(path: &Path, longest: u64) -> Option<Vec<u8>> {
    let file = regular_file::open(path).ok()?;
    let mut bytes = Vec::new();
    let read = file.take(longest + 1).read_to_end(&mut bytes).ok()?;
    (u64::try_from(read).ok()? <= longest).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n";

    fn repository(folder: &Path, config: &str) {
        for name in ["objects", "refs", "hooks"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        fs::write(folder.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(folder.join("config"), config).unwrap();
    }

    #[test]
    fn the_workspaces_own_repository_is_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().canonicalize().unwrap();
        repository(&work.join(".git"), PLAIN);
        fs::create_dir_all(work.join("src/deep")).unwrap();
        let roots = [work.clone()];
        assert_eq!(risk(&work, &roots), None);
        assert_eq!(risk(&work.join("src/deep"), &roots), None);
        assert_eq!(risk(&work.join("gone/deep"), &roots), None);
        // The workspace may lie within the repository.
        assert_eq!(risk(&work, &[work.join("src")]), None);
    }

    #[test]
    fn another_repository_is_not_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let above = folder.path().canonicalize().unwrap();
        let work = above.join("work");
        repository(&work.join(".git"), PLAIN);
        repository(&work.join("docs/x/r"), PLAIN);
        repository(&work.join("sub/.git"), PLAIN);
        repository(&above.join(".git"), PLAIN);
        repository(&above.join("next/.git"), PLAIN);
        fs::create_dir_all(work.join("docs/file")).unwrap();
        fs::write(work.join("docs/file/.git"), "gitdir: ../x/r\n").unwrap();
        let roots = [work.clone()];
        assert_eq!(risk(&work.join("docs"), &roots), None);
        for other in [
            work.join("docs/x/r"),
            work.join("docs/x/r/refs"),
            work.join("docs/file"),
            work.join("sub"),
            above.clone(),
            above.join("next"),
        ] {
            let risk = risk(&other, &roots);
            assert!(
                risk.is_some_and(|risk| risk.contains("not the workspace's own")),
                "{other:?}"
            );
        }
    }

    #[test]
    fn settings_and_hooks_that_name_programs_are_a_risk() {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().canonicalize().unwrap();
        let git = work.join(".git");
        let roots = [work.clone()];
        repository(&git, &format!("{PLAIN}\tfsmonitor = touch M; false\n"));
        assert!(risk(&work, &roots).unwrap().contains("core.fsmonitor"));
        repository(&git, PLAIN);
        fs::write(git.join("config.worktree"), "[diff]\nexternal = x\n").unwrap();
        assert!(risk(&work, &roots).unwrap().contains("diff.external"));
        fs::remove_file(git.join("config.worktree")).unwrap();
        assert_eq!(risk(&work, &roots), None);
        fs::write(git.join("hooks/post-index-change"), "#!/bin/sh\n").unwrap();
        assert!(risk(&work, &roots).unwrap().contains("hook"));
    }

    #[test]
    fn a_linked_working_tree_has_the_settings_of_its_repository() {
        let folder = tempfile::tempdir().unwrap();
        let above = folder.path().canonicalize().unwrap();
        let main = above.join("main/.git");
        repository(&main, PLAIN);
        let linked = main.join("worktrees/w");
        fs::create_dir_all(&linked).unwrap();
        fs::write(linked.join("HEAD"), "ref: refs/heads/w\n").unwrap();
        fs::write(linked.join("commondir"), "../..\n").unwrap();
        let work = above.join("w");
        fs::create_dir(&work).unwrap();
        fs::write(work.join(".git"), format!("gitdir: {}\n", linked.display())).unwrap();
        let roots = [work.clone()];
        assert_eq!(risk(&work, &roots), None);
        repository(&main, "[core]\n\tpager = x\n");
        assert!(risk(&work, &roots).unwrap().contains("core.pager"));
        repository(&main, PLAIN);
        fs::write(linked.join("config.worktree"), "[core]\n\teditor = x\n").unwrap();
        assert!(risk(&work, &roots).unwrap().contains("core.editor"));
    }
}
