//! Old contents over real files, without a session.

mod cases;

mod properties;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::keeper::{Keeper, Place, Touched};
use super::rewind::{Back, FilesRewound, How};
use super::state::{Stamp, now};
use super::tree::Bounds;

/// A workspace, and the session's folder beside it.
struct World {
    scratch: tempfile::TempDir,
    keeper: Keeper,
    bounds: Bounds,
    cap: u64,
    /// The newest turn.
    turn: u32,
}

/// Nobody gives up.
fn never() -> bool {
    false
}

impl World {
    fn new() -> Self {
        Self::bounded(Bounds::default(), 1 << 30)
    }

    fn bounded(bounds: Bounds, cap: u64) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        fs::create_dir(root.join("w")).unwrap();
        let keeper = Keeper::new(place(&root, cap), bounds);
        Self {
            scratch,
            keeper,
            bounds,
            cap,
            turn: 0,
        }
    }

    fn root(&self) -> PathBuf {
        self.scratch.path().canonicalize().unwrap()
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root().join("w").join(name)
    }

    fn git(&self, arguments: &[&str]) {
        let done = Command::new("git")
            .args(["-c", "user.name=n", "-c", "user.email=e"])
            .args(arguments)
            .current_dir(self.path(""))
            .output()
            .unwrap();
        assert!(done.status.success(), "{arguments:?}: {done:?}");
    }

    fn commit(&self) {
        self.git(&["init", "-q"]);
        self.git(&["add", "."]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "first"]);
    }

    /// Waits until a file's time is so long ago that it tells which came first.
    fn grows_old(&self, name: impl AsRef<Path>) {
        let metadata = fs::symlink_metadata(self.path(name)).unwrap();
        while Stamp::of(&metadata).is_fresh_at(now()) {
            std::thread::yield_now();
        }
    }

    /// Another process goes on with the session.
    fn restart(&mut self) {
        self.keeper = Keeper::new(place(&self.root(), self.cap), self.bounds);
    }

    fn before(&mut self, turn: u32, touched: &Touched) {
        self.turn = turn;
        self.keeper
            .before(turn, "c", touched, false, &never)
            .unwrap();
    }

    fn after(&mut self) {
        self.keeper.after(false, &never);
    }

    /// A call that names the files that it changes.
    fn tool(&mut self, turn: u32, names: &[&str], act: impl FnOnce(&Path)) {
        let paths = names.iter().map(|name| self.path(name)).collect();
        self.before(turn, &Touched::Files(paths));
        act(&self.path(""));
        self.after();
    }

    /// A call that does not.
    fn command(&mut self, turn: u32, act: impl FnOnce(&Path)) {
        self.before(turn, &Touched::Anything);
        act(&self.path(""));
        self.after();
    }

    fn rewind(&mut self, turn: u32) -> FilesRewound {
        self.rewind_as(Back::Turn(turn), How::default())
    }

    fn rewind_as(&mut self, back: Back, how: How) -> FilesRewound {
        self.keeper
            .rewind(back, self.turn, how, false, &never)
            .unwrap()
    }

    /// All that is in the workspace, git's folder left out.
    fn all(&self) -> BTreeMap<PathBuf, There> {
        let mut all = BTreeMap::new();
        collect(&self.path(""), Path::new(""), &mut all);
        all
    }
}

fn place(root: &Path, cap: u64) -> Place {
    Place {
        workspace: root.join("w"),
        folders: Vec::new(),
        folder: root.join("sessions/s.files"),
        inherited: Vec::new(),
        cap,
    }
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum There {
    File(Vec<u8>, u32),
    Folder(u32),
    Link(PathBuf),
}

fn collect(folder: &Path, below: &Path, all: &mut BTreeMap<PathBuf, There>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() == ".git" {
            continue;
        }
        let below = below.join(entry.file_name());
        let metadata = entry.metadata().unwrap();
        let mode = metadata.permissions().mode() & 0o7777;
        let there = if metadata.is_dir() {
            collect(&entry.path(), &below, all);
            There::Folder(mode)
        } else if metadata.is_symlink() {
            There::Link(fs::read_link(entry.path()).unwrap())
        } else {
            There::File(fs::read(entry.path()).unwrap(), mode)
        };
        all.insert(below, there);
    }
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn paths(names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(PathBuf::from).collect()
}
