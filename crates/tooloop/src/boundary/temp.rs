//! A temporary folder of an agent's own, which is gone when it is.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// What the names of such folders begin with.
const NAME: &str = "tooloop-private-";

/// How many entries of the system's folder are looked at for what others have left.
const MOST: usize = 10_000;

/// A temporary folder that only its user can enter. Dropping it removes it.
///
/// As long as it is held its folder is locked. So what a death has left behind is told from what is
/// in use, and the next one removes it: [`PrivateTemp::sweep`].
#[derive(Debug)]
pub struct PrivateTemp {
    path: PathBuf,
    /// `None` for one that is not there.
    lock: Option<File>,
}

impl PrivateTemp {
    /// The place that one would have in this folder, with nothing there: for who only wants to know
    /// what would be allowed.
    ///
    /// # Errors
    /// There is no such folder.
    pub fn imagined(folder: &Path) -> io::Result<Self> {
        let path = folder.canonicalize()?.join(format!("{NAME}0"));
        Ok(Self { path, lock: None })
    }

    /// Makes one in this folder.
    ///
    /// # Errors
    /// It cannot be made there.
    pub fn create(folder: &Path) -> io::Result<Self> {
        let folder = folder.canonicalize()?;
        let mut tries = 0_u32;
        loop {
            // The number alone is not enough: another machine may share the folder.
            let number = u64::from(crate::driver::chance()) << 32 | u64::from(std::process::id());
            let path = folder.join(format!("{NAME}{number:x}-{tries}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    let lock = File::open(&path)?;
                    // One who sweeps may hold it for a moment; then it is gone, or is ours.
                    flock(&lock, FlockOperation::LockExclusive)?;
                    if path.exists() {
                        let lock = Some(lock);
                        return Ok(Self { path, lock });
                    }
                    tries += 1;
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < 100 => {
                    tries += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Where it is, without links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes what others of this user have left in the folder that this one is in.
    pub fn sweep(&self) {
        let Some(folder) = self.path.parent() else {
            return;
        };
        let own = rustix::process::geteuid().as_raw();
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries.take(MOST) {
            let path = entry.path();
            let is_one = entry
                .file_name()
                .to_str()
                .is_some_and(|name| name.starts_with(NAME));
            if !is_one || path == self.path {
                continue;
            }
            let is_own = fs::symlink_metadata(&path)
                .is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == own);
            if is_own && let Ok(lock) = File::open(&path) {
                let free = flock(&lock, FlockOperation::NonBlockingLockExclusive);
                if free.is_ok() {
                    remove(&path);
                }
            }
        }
    }
}

impl Drop for PrivateTemp {
    fn drop(&mut self) {
        if self.lock.is_some() {
            remove(&self.path);
        }
    }
}

/// Removes a folder, also where somebody took their own rights to its folders away.
fn remove(path: &Path) {
    const ROUNDS: usize = 8;
    for _ in 0..ROUNDS {
        if fs::remove_dir_all(path).is_ok() || fs::symlink_metadata(path).is_err() {
            return;
        }
        open_up(path, 64);
    }
}

fn open_up(folder: &Path, depth: usize) {
    let Ok(metadata) = fs::symlink_metadata(folder) else {
        return;
    };
    if !metadata.is_dir() || depth == 0 {
        return;
    }
    let mode = fs::Permissions::from_mode(0o700);
    if fs::set_permissions(folder, mode).is_err() {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path(), depth - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_owner_whatever_is_in_it() {
        let system = tempfile::tempdir().unwrap();
        let temp = PrivateTemp::create(system.path()).unwrap();
        let path = temp.path().to_owned();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let closed = path.join("a/closed");
        fs::create_dir_all(&closed).unwrap();
        fs::write(closed.join("file"), "x").unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        drop(temp);
        assert!(!path.exists());
    }

    #[test]
    fn one_that_is_imagined_touches_nothing() {
        let system = tempfile::tempdir().unwrap();
        let temp = PrivateTemp::imagined(system.path()).unwrap();
        assert!(!temp.path().exists());
        let path = temp.path().to_owned();
        fs::create_dir(&path).unwrap();
        drop(temp);
        assert!(path.exists());
    }

    #[test]
    fn what_the_dead_have_left_is_swept_and_nothing_else() {
        let system = tempfile::tempdir().unwrap();
        let live = PrivateTemp::create(system.path()).unwrap();
        let other = PrivateTemp::create(system.path()).unwrap();
        let dead = system.path().join(format!("{NAME}dead"));
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("file"), "x").unwrap();
        let foreign = system.path().join("something");
        fs::create_dir(&foreign).unwrap();
        let link = system.path().join(format!("{NAME}link"));
        std::os::unix::fs::symlink(&foreign, &link).unwrap();
        live.sweep();
        assert!(!dead.exists());
        assert!(live.path().exists() && other.path().exists() && foreign.exists());
        assert!(fs::symlink_metadata(&link).is_ok());
    }
}
