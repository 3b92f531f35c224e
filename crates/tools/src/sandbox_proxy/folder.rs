//! The folder of a proxy's socket.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Once;

use rustix::fs::{FlockOperation, flock};

/// What the names of such folders begin with.
const NAME: &str = "tooloop-proxy-";

/// How many entries are looked at for what others have left.
const MOST: usize = 10_000;

/// A folder for this user alone, gone with its value. It is locked as long as it is held, so that
/// what a death has left is told from what is in use.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes one. The first of a process removes what dead ones have left beside it.
    ///
    /// # Errors
    /// The path that could not be made, and why.
    pub(super) fn new(parent: &Path) -> Result<Self, (PathBuf, io::Error)> {
        static SWEPT: Once = Once::new();
        SWEPT.call_once(|| sweep(parent));
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error: io::Error| (path, error)
        };
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| failed(parent)(error.into()))?;
        let path = parent.join(format!("{NAME}{:016x}", u64::from_ne_bytes(random)));
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(failed(&path))?;
        // One who sweeps just now may have taken it: then it is as if it could not be made.
        let lock = locked(&path).map_err(failed(&path))?;
        Ok(Self { path, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

fn locked(path: &Path) -> io::Result<File> {
    let lock = File::open(path)?;
    flock(&lock, FlockOperation::LockExclusive)?;
    // It may be gone by now.
    fs::symlink_metadata(path).map(|_| lock)
}

impl Drop for Folder {
    fn drop(&mut self) {
        // If it cannot be removed, another one will.
        drop(fs::remove_dir_all(&self.path));
    }
}

/// Removes the folders of this user's that nobody holds.
fn sweep(parent: &Path) {
    let own = rustix::process::geteuid().as_raw();
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries.take(MOST) {
        let name = entry.file_name();
        if !name.to_str().is_some_and(|name| name.starts_with(NAME)) {
            continue;
        }
        let path = entry.path();
        let is_own = fs::symlink_metadata(&path)
            .is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == own);
        if is_own
            && let Ok(lock) = File::open(&path)
            && flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            drop(fs::remove_dir_all(&path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_dead_have_left_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let live = Folder::new(parent.path()).unwrap();
        let other = parent.path().join("other");
        fs::create_dir(&other).unwrap();
        let dead = parent.path().join(format!("{NAME}dead"));
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("proxy"), "").unwrap();
        let link = parent.path().join(format!("{NAME}link"));
        std::os::unix::fs::symlink(&other, &link).unwrap();
        sweep(parent.path());
        assert!(!dead.exists());
        assert!(live.path().exists() && other.exists());
        assert!(fs::symlink_metadata(&link).is_ok());
        let path = live.path().to_owned();
        drop(live);
        assert!(!path.exists());
    }
}
