//! What a git repository is known by, read from its files: no program is started.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::prompt::on_one_line;
use crate::regular_file;

/// No file that is read here is longer: names of folders and branches.
const MOST_BYTES: u64 = 4096;

/// The longest name of a branch that is told.
const LONGEST_NAME: usize = 200;

/// A git repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    root: PathBuf,
    folder: PathBuf,
}

impl Repository {
    /// The repository that a folder is in; looked for in the folder and in those above it.
    #[must_use]
    pub fn of(folder: &Path) -> Option<Self> {
        folder.ancestors().find_map(|root| {
            let place = root.join(".git");
            let kind = std::fs::metadata(&place).ok()?;
            let folder = if kind.is_dir() {
                place
            } else {
                // A worktree, or a part of another repository.
                let text = line(&place)?;
                root.join(text.strip_prefix("gitdir:")?.trim())
            };
            Some(Self {
                root: root.to_owned(),
                folder,
            })
        })
    }

    /// The folder that its files are in.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The branch that is checked out, or the beginning of the commit if none is.
    #[must_use]
    pub fn head(&self) -> Option<String> {
        let text = line(&self.folder.join("HEAD"))?;
        let name = match text.strip_prefix("ref:") {
            Some(reference) => {
                let reference = reference.trim();
                let name = reference.strip_prefix("refs/heads/").unwrap_or(reference);
                name.chars().take(LONGEST_NAME).collect()
            }
            None => {
                let commit: String = text.chars().take(12).collect();
                if commit.is_empty() || !commit.chars().all(|c| c.is_ascii_hexdigit()) {
                    return None;
                }
                format!("none, at commit {commit}")
            }
        };
        (!name.is_empty()).then(|| on_one_line(&name))
    }

    /// What has begun and is not over.
    #[must_use]
    pub fn under_way(&self) -> Option<&'static str> {
        const MARKS: [(&str, &str); 5] = [
            ("rebase-merge", "a rebase"),
            ("rebase-apply", "a rebase"),
            ("MERGE_HEAD", "a merge"),
            ("CHERRY_PICK_HEAD", "a cherry-pick"),
            ("REVERT_HEAD", "a revert"),
        ];
        let is_there = |(mark, _): &&(&str, &str)| self.folder.join(mark).exists();
        MARKS.iter().find(is_there).map(|(_, words)| *words)
    }
}

/// The first line of a small file.
fn line(path: &Path) -> Option<String> {
    let file = regular_file::open(path).ok()?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    text.lines().next().map(|line| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn branches_are_read_without_git() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("garden");
        let git = root.join(".git");
        fs::create_dir_all(root.join("beds/north")).unwrap();
        assert_eq!(
            Repository::of(&root.join("beds/north")).map(|r| r.root),
            None
        );
        fs::create_dir_all(&git).unwrap();
        let repository = Repository::of(&root.join("beds/north")).unwrap();
        assert_eq!(repository.root(), root);
        let table = [
            ("ref: refs/heads/main\n", Some("main")),
            ("ref: refs/heads/a/b\r\n", Some("a/b")),
            ("ref: refs/heads/a\u{1b}[2J\n", Some("a\u{fffd}[2J")),
            (
                "0123456789abcdef0123\n",
                Some("none, at commit 0123456789ab"),
            ),
            ("what is this\n", None),
            ("", None),
        ];
        for (head, expected) in table {
            fs::write(git.join("HEAD"), head).unwrap();
            assert_eq!(repository.head().as_deref(), expected, "{head:?}");
        }
        assert_eq!(repository.under_way(), None);
        fs::write(git.join("MERGE_HEAD"), "").unwrap();
        assert_eq!(repository.under_way(), Some("a merge"));
    }

    #[test]
    fn a_worktree_has_a_head_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("main/.git/worktrees/side");
        let side = folder.path().join("side");
        fs::create_dir_all(&own).unwrap();
        fs::create_dir_all(&side).unwrap();
        fs::write(own.join("HEAD"), "ref: refs/heads/side\n").unwrap();
        for link in [
            own.display().to_string(),
            "../main/.git/worktrees/side".into(),
        ] {
            fs::write(side.join(".git"), format!("gitdir: {link}\n")).unwrap();
            let repository = Repository::of(&side).unwrap();
            assert_eq!(repository.root(), side);
            assert_eq!(repository.head().as_deref(), Some("side"));
        }
    }
}
