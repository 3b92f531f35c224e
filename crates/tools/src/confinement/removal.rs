//! Removes and replaces entries that a command may exchange for links at any time.
//!
//! The directory of an entry is opened once, through no link, and the entry is named from there. So
//! nothing outside of where the command writes is touched.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

/// How deep directories that cannot be entered are opened up.
const DEPTH: usize = 64;

/// The directory of an entry, opened through no link.
pub(super) struct Parent(OwnedFd);

impl Parent {
    /// # Errors
    /// It is not there, or a link leads to it.
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_SYMLINKS;
        Ok(Self(openat2(
            CWD,
            directory,
            flags,
            Mode::empty(),
            resolve,
        )?))
    }

    /// A path to an entry that leads through this directory, wherever it is now.
    pub(super) fn entry(&self, name: &OsStr) -> PathBuf {
        self.itself().join(name)
    }

    fn itself(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    /// Removes an entry with all below it.
    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        let path = self.entry(name);
        match remove(&path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                // A command can take its own rights away.
                let itself = self.itself();
                let mode = fs::metadata(&itself)?.mode();
                fs::set_permissions(&itself, Permissions::from_mode(mode | 0o700))?;
                open_up(self.0.as_fd(), name, DEPTH);
                remove(&path)
            }
            result => result,
        }
    }

    /// Writes a file in place of an entry.
    pub(super) fn write(&self, name: &OsStr, contents: &[u8]) -> io::Result<()> {
        self.remove(name).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        let mut file = fs::OpenOptions::new();
        let mut file = file.write(true).create_new(true).open(self.entry(name))?;
        io::Write::write_all(&mut file, contents)
    }

    /// Makes a link in place of an entry.
    pub(super) fn link(&self, name: &OsStr, target: &Path) -> io::Result<()> {
        self.remove(name).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        symlink(target, self.entry(name))
    }

    /// What a file holds that is no link and no longer than this.
    pub(super) fn read(&self, name: &OsStr, longest: u64) -> Option<Vec<u8>> {
        let path = self.entry(name);
        let metadata = fs::symlink_metadata(&path).ok()?;
        if !metadata.is_file() || metadata.len() > longest {
            return None;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.0, name, flags, Mode::empty()).ok()?;
        let mut contents = Vec::new();
        let file = fs::File::from(file);
        io::Read::read_to_end(&mut io::Read::take(file, longest), &mut contents).ok()?;
        Some(contents)
    }
}

fn remove(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    }
}

/// Makes a directory and those below it accessible again. No link is followed, not even one that
/// takes the place of a directory meanwhile.
fn open_up(parent: BorrowedFd<'_>, name: &OsStr, depth: usize) {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(folder) = rustix::fs::openat(parent, name, flags, Mode::empty()) else {
        return;
    };
    let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    if depth == 0 || fs::set_permissions(&path, Permissions::from_mode(0o700)).is_err() {
        return;
    }
    for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(folder.as_fd(), &entry.file_name(), depth - 1);
        }
    }
}

/// A path with the links of what is there resolved; its last part is not resolved.
pub(super) fn resolved(path: &Path) -> PathBuf {
    let Some((parent, name)) = path.parent().zip(path.file_name()) else {
        return path.to_path_buf();
    };
    match parent.canonicalize() {
        Ok(parent) => parent.join(name),
        Err(_) => resolved(parent).join(name),
    }
}
