//! The files that deny rules name, for the sandbox.
//!
//! A sandbox knows paths and no patterns, so patterns are compared with the files that are there.

use std::fs;
use std::path::{Path, PathBuf};

use tooloop_policy::DeniedPath;

/// How many entries of folders are looked at for all rules together.
const MOST: usize = 20_000;

/// The paths that deny rules name, for a [`super::BoundarySettings`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeniedFiles {
    /// What commands cannot read.
    pub hidden: Vec<PathBuf>,
    /// What commands cannot write.
    pub read_only: Vec<PathBuf>,
    /// Whether there were more entries than are looked at, so that some files may be missing.
    pub is_partial: bool,
}

impl DeniedFiles {
    /// Looks for the files that are there. `roots` are the folders that the agent works in: none of
    /// them can be hidden, and a rule that names a folder around one holds for the root.
    #[must_use]
    pub fn find(denied: &[DeniedPath], roots: &[PathBuf]) -> Self {
        let mut found = Self::default();
        let mut left = MOST;
        for path in denied {
            let start = path.start();
            let mut paths = Vec::new();
            if path.is_start() {
                let mut held = roots
                    .iter()
                    .filter(|root| root.starts_with(&start))
                    .peekable();
                if held.peek().is_none() {
                    paths.push(start);
                } else {
                    paths.extend(held.cloned());
                }
            } else {
                walk(path, &start, &mut left, &mut paths);
            }
            if path.is_read {
                paths.retain(|path| !roots.iter().any(|root| root.starts_with(path)));
                found.hidden.extend(paths);
            } else {
                found.read_only.extend(paths);
            }
        }
        found.is_partial = left == 0;
        found
    }
}

fn walk(denied: &DeniedPath, folder: &Path, left: &mut usize, paths: &mut Vec<PathBuf>) {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Some(rest) = left.checked_sub(1) else {
                return;
            };
            *left = rest;
            let path = entry.path();
            if denied.matches(&path) {
                paths.push(path);
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir())
                && denied.may_match_below(&path)
            {
                folders.push(path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tooloop_policy::Policy;

    use super::*;

    #[test]
    fn files_that_deny_rules_name_are_found() {
        let scratch = tempfile::tempdir().unwrap();
        let work = scratch.path().canonicalize().unwrap();
        for file in [
            "secrets/a",
            "a/.env",
            "a/b/.env",
            "a/b/x.key",
            "a/.envrc",
            "c/x.txt",
        ] {
            let path = work.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let rules = [
            "Read(./secrets/**)",
            "Read(.env)",
            "Read(a/b/*.key)",
            "Read(missing)",
            "Edit(./locked/**)",
            "Edit(c/x.txt)",
            "Read(//etc/shadow)",
            "Bash(git push *)",
            "Read",
        ];
        let policy = Policy {
            deny: rules.iter().map(|rule| rule.parse().unwrap()).collect(),
            ..Policy::default()
        };
        let policy = policy.anchored(&work, None);
        let mut found = DeniedFiles::find(&policy.denied_paths(), std::slice::from_ref(&work));
        found.hidden.sort();
        let mut hidden = vec![
            PathBuf::from("/etc/shadow"),
            work.join("a/.env"),
            work.join("a/b/.env"),
            work.join("a/b/x.key"),
            work.join("secrets"),
        ];
        hidden.sort();
        assert_eq!(found.hidden, hidden);
        assert_eq!(found.read_only, [work.join("locked"), work.join("c/x.txt")]);
        assert!(!found.is_partial);
    }

    #[test]
    fn a_workspace_is_never_hidden() {
        let policy = Policy {
            deny: vec!["Read(/w/**)".parse().unwrap(), "Edit(/**)".parse().unwrap()],
            ..Policy::default()
        };
        let root = PathBuf::from("/w/p");
        let found = DeniedFiles::find(&policy.denied_paths(), std::slice::from_ref(&root));
        assert_eq!(found.hidden, [] as [PathBuf; 0]);
        assert_eq!(found.read_only, [root]);
    }
}
