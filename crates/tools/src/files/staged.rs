//! A file on its way to its place.
//!
//! A file is written beside its place and then moved there. Where the system can, it has no name
//! until it is whole, so that a harness that is killed leaves nothing behind. Where it cannot, or
//! in the instant before the move, its name is `.NAME.tooloop-N`, locked by who writes: the next
//! write of the same file clears such names that nobody locks.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags, flock, linkat, open as open_raw,
    renameat_with,
};
use rustix::io::Errno;

const MARK: &str = ".tooloop-";

/// How much of a file's name goes into that of its temporary file: names may be 255 bytes long.
const NAME_BYTES: usize = 200;

/// How many names of a folder are looked at for what was left there.
const LOOKED_AT: usize = 10_000;

/// A file on its way. One with a name is removed when it is dropped.
pub(crate) struct Staged {
    pub(crate) file: File,
    name: Option<PathBuf>,
}

impl Staged {
    /// A file without a name, where the system can have such.
    pub(crate) fn new(folder: &Path, name: &OsStr, is_new: bool) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if Path::new("/proc/self/fd").exists() {
            let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
            match open_raw(folder, flags, mode_before(is_new)) {
                Ok(file) => {
                    return Ok(Self {
                        file: file.into(),
                        name: None,
                    });
                }
                Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {}
                Err(error) => return Err(in_folder(error, folder)),
            }
        }
        Self::named(folder, name, is_new)
    }

    /// A file that has a name from the beginning.
    pub(crate) fn named(folder: &Path, name: &OsStr, is_new: bool) -> io::Result<Self> {
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        free_name(folder, name, |path| {
            let file = File::from(open_raw(path, flags, mode_before(is_new))?);
            let staged = Self {
                file,
                name: Some(path.to_owned()),
            };
            // Who clears may have had it before this lock; then the name is gone, and another is
            // tried.
            let locked = flock(&staged.file, FlockOperation::NonBlockingLockExclusive);
            if locked == Err(Errno::WOULDBLOCK) {
                return Err(Errno::EXIST);
            }
            Ok(staged)
        })
        .map_err(|error| in_folder(error, folder))
    }

    /// Whether it has no name yet.
    pub(crate) const fn is_nameless(&self) -> bool {
        self.name.is_none()
    }

    /// Gives the file its place.
    pub(crate) fn publish(
        &mut self,
        folder: &Path,
        name: &OsStr,
        target: &Path,
        replaces: bool,
    ) -> io::Result<()> {
        if self.name.is_none() {
            let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            if !replaces {
                linkat(CWD, own.as_str(), CWD, target, AtFlags::SYMLINK_FOLLOW)?;
                return Ok(());
            }
            let _locked = flock(&self.file, FlockOperation::NonBlockingLockExclusive);
            let named = free_name(folder, name, |path| {
                linkat(CWD, own.as_str(), CWD, path, AtFlags::SYMLINK_FOLLOW)?;
                Ok(path.to_owned())
            })?;
            self.name = Some(named);
        }
        let Some(named) = self.name.as_ref() else {
            return Ok(());
        };
        if replaces {
            fs::rename(named, target)?;
            self.name = None;
            return Ok(());
        }
        match fs::hard_link(named, target) {
            // Not every file system has hard links.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                move_to_free(named, target)?;
                self.name = None;
            }
            other => other?,
        }
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _gone = fs::remove_file(name);
        }
    }
}

/// What replaces another file may be secret until it has that file's mode.
const fn mode_before(is_new: bool) -> Mode {
    Mode::from_raw_mode(if is_new { 0o666 } else { 0o600 })
}

/// Tries names for a temporary file until one is free.
fn free_name<T>(
    folder: &Path,
    name: &OsStr,
    mut attempt: impl FnMut(&Path) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let prefix = temporary_prefix(name);
    let process = u64::from(std::process::id());
    for number in 0..1000_u64 {
        let mut candidate = prefix.clone();
        candidate.push(format!("{:x}", process.saturating_mul(1000) + number));
        match attempt(&folder.join(candidate)) {
            Err(Errno::EXIST) => {}
            other => return other,
        }
    }
    Err(Errno::EXIST)
}

fn temporary_prefix(name: &OsStr) -> OsString {
    let bytes = name.as_bytes();
    let mut prefix = OsString::from(".");
    prefix.push(OsStr::from_bytes(bytes.get(..NAME_BYTES).unwrap_or(bytes)));
    prefix.push(MARK);
    prefix
}

/// Removes what an earlier write of this file, killed in the middle, has left.
pub(crate) fn clear_stale(folder: &Path, name: &OsStr) {
    let prefix = temporary_prefix(name);
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten().take(LOOKED_AT) {
        let name = entry.file_name();
        let Some(number) = name.as_bytes().strip_prefix(prefix.as_bytes()) else {
            continue;
        };
        if number.is_empty() || !number.iter().all(u8::is_ascii_hexdigit) {
            continue;
        }
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(file) = open_raw(entry.path(), flags, Mode::empty()) else {
            continue;
        };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _gone = fs::remove_file(entry.path());
        }
    }
}

/// Moves a file to where nothing is.
pub(crate) fn move_to_free(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => fs::rename(from, to),
        other => Ok(other?),
    }
}

fn in_folder(error: Errno, folder: &Path) -> io::Error {
    let error = io::Error::from(error);
    io::Error::new(
        error.kind(),
        format!("in the folder {}: {error}", folder.display()),
    )
}
