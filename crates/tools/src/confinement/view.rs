//! The temporary folders as commands in a sandbox see them.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use tooloop_exec::{Command, Outcome, StartError, Terminal, TerminalSize};

use crate::{Listing, OpenFile, Ops, OpsFuture, WriteAs};

/// Where a path leads when a private folder is seen as `/tmp` and `/var/tmp`, as commands in a
/// sandbox do: so that a file tool finds what a command has put there.
///
/// A file that is there in the system's own folder, and not in the private one, stays what it is: a
/// person may have put it there to be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TempView {
    /// The folder that is seen in place of others.
    pub private: PathBuf,
    /// What below those is seen as it is: the workspace, if it is there.
    pub kept: Vec<PathBuf>,
}

impl TempView {
    /// The folders in whose place the private one is seen.
    pub const SEEN_AS: [&'static str; 2] = ["/tmp", "/var/tmp"];

    /// The real path of an absolute one.
    #[must_use]
    pub fn real(&self, path: &Path) -> PathBuf {
        let climbs = path
            .components()
            .any(|part| matches!(part, Component::ParentDir));
        let is_kept = || {
            let mut kept = self.kept.iter().chain([&self.private]);
            // What leads to them is as it is, too.
            kept.any(|kept| path.starts_with(kept) || kept.starts_with(path))
        };
        let below = Self::SEEN_AS
            .iter()
            .find_map(|folder| path.strip_prefix(folder).ok());
        let Some(below) = below.filter(|_| !climbs && !is_kept()) else {
            return path.to_owned();
        };
        let private = self.private.join(below);
        let is_there = |path: &Path| std::fs::symlink_metadata(path).is_ok();
        if !is_there(&private) && is_there(path) {
            return path.to_owned();
        }
        private
    }
}

/// A machine whose files are seen through a view.
#[derive(Debug)]
pub struct ViewedOps {
    ops: Arc<dyn Ops>,
    view: TempView,
}

impl ViewedOps {
    /// This machine, seen so. Commands are none of its business: they have the view of their own
    /// sandbox.
    #[must_use]
    pub fn new(ops: Arc<dyn Ops>, view: TempView) -> Self {
        Self { ops, view }
    }
}

impl Ops for ViewedOps {
    fn execute(&self, command: Command) -> OpsFuture<'_, Result<Outcome, StartError>> {
        self.ops.execute(command)
    }

    fn open(&self, path: &Path) -> io::Result<OpenFile> {
        self.ops.open(&self.view.real(path))
    }

    fn write(&self, path: &Path, contents: &[u8], write_as: WriteAs) -> io::Result<PathBuf> {
        self.ops.write(&self.view.real(path), contents, write_as)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.ops.rename(&self.view.real(from), &self.view.real(to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.ops.remove(&self.view.real(path))
    }

    fn list(&self, folder: &Path, most: usize) -> io::Result<Listing> {
        self.ops.list(&self.view.real(folder), most)
    }

    fn open_terminal(
        &self,
        command: Command,
        size: TerminalSize,
    ) -> OpsFuture<'_, Result<Terminal, StartError>> {
        self.ops.open_terminal(command, size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_folder_is_seen_as_the_system_s() {
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let root = folder.path().canonicalize().unwrap();
        let private = root.join("private");
        std::fs::create_dir(&private).unwrap();
        std::fs::write(root.join("theirs"), "x").unwrap();
        let view = TempView {
            private: private.clone(),
            kept: vec![root.join("w")],
        };
        let name = root.file_name().unwrap();
        for (path, expected) in [
            (PathBuf::from("/tmp/new"), private.join("new")),
            (PathBuf::from("/var/tmp/a/b"), private.join("a/b")),
            (PathBuf::from("/etc/x"), "/etc/x".into()),
            (PathBuf::from("/tmpx/x"), "/tmpx/x".into()),
            (PathBuf::from("/tmp/../x"), "/tmp/../x".into()),
            (root.join("w/file"), root.join("w/file")),
            (root.clone(), root.clone()),
            (private.join("x"), private.join("x")),
            (root.join("theirs"), root.join("theirs")),
        ] {
            assert_eq!(view.real(&path), expected, "{path:?}");
        }
        // What a command put there comes first.
        std::fs::create_dir(private.join(name)).unwrap();
        std::fs::write(private.join(name).join("theirs"), "y").unwrap();
        let found = view.real(&root.join("theirs"));
        assert_eq!(std::fs::read(found).unwrap(), b"y");
    }
}
