//! A file on its way to its place.
//!
//! A file is written beside its place and then moved there. Where the system can, it has no name
//! until it is whole, so that a harness that is killed leaves nothing behind. Where it cannot, or
//! in the instant before the move, its name is `.NAME.tooloop-N`, locked by who writes: the next
//! write of the same file clears such names that nobody locks.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, RenameFlags, flock, linkat, openat, renameat,
    renameat_with, unlinkat,
};
use rustix::io::Errno;

use crate::no_links::Entry;

const MARK: &str = ".tooloop-";

/// How much of a file's name goes into that of its temporary file: names may be 255 bytes long.
const NAME_BYTES: usize = 200;

/// How many names of a folder are looked at for what was left there.
const LOOKED_AT: usize = 10_000;

/// A file on its way. One with a name is removed when it is dropped.
pub(crate) struct Staged<'e> {
    pub(crate) file: File,
    /// The folder that it goes to.
    folder: BorrowedFd<'e>,
    name: Option<OsString>,
}

/// A file without a name, where the system can have such.
pub(crate) fn nameless<'e>(entry: &'e Entry<'_>, is_new: bool) -> io::Result<Staged<'e>> {
    #[cfg(target_os = "linux")]
    if Path::new("/proc/self/fd").exists() {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        match openat(entry.folder(), ".", flags, mode_before(is_new)) {
            Ok(file) => {
                return Ok(Staged {
                    file: file.into(),
                    folder: entry.folder(),
                    name: None,
                });
            }
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {}
            Err(error) => return Err(in_folder(error)),
        }
    }
    named(entry, is_new)
}

/// A file that has a name from the beginning.
pub(crate) fn named<'e>(entry: &'e Entry<'_>, is_new: bool) -> io::Result<Staged<'e>> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let folder = entry.folder();
    free_name(entry.name, |name| {
        let file = File::from(openat(folder, name, flags, mode_before(is_new))?);
        let staged = Staged {
            file,
            folder,
            name: Some(name.to_owned()),
        };
        // Who clears may have had it before this lock; then the name is gone, and another is
        // tried.
        let locked = flock(&staged.file, FlockOperation::NonBlockingLockExclusive);
        if locked == Err(Errno::WOULDBLOCK) {
            return Err(Errno::EXIST);
        }
        Ok(staged)
    })
    .map_err(in_folder)
}

impl Staged<'_> {
    /// Whether it has no name yet.
    pub(crate) const fn is_nameless(&self) -> bool {
        self.name.is_none()
    }

    /// Gives the file its place.
    pub(crate) fn publish(&mut self, name: &OsStr, replaces: bool) -> io::Result<()> {
        let folder = self.folder;
        if self.name.is_none() {
            let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            if !replaces {
                linkat(CWD, own.as_str(), folder, name, AtFlags::SYMLINK_FOLLOW)?;
                return Ok(());
            }
            let _locked = flock(&self.file, FlockOperation::NonBlockingLockExclusive);
            let named = free_name(name, |name| {
                linkat(CWD, own.as_str(), folder, name, AtFlags::SYMLINK_FOLLOW)?;
                Ok(name.to_owned())
            })?;
            self.name = Some(named);
        }
        let Some(named) = self.name.as_ref() else {
            return Ok(());
        };
        if replaces {
            renameat(folder, named, folder, name)?;
            self.name = None;
            return Ok(());
        }
        match linkat(folder, named, folder, name, AtFlags::empty()) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(Errno::EXIST.into()),
            // Not every file system has hard links.
            Err(_) => {
                move_to_free((folder, named), (folder, name))?;
                self.name = None;
            }
        }
        Ok(())
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _gone = unlinkat(self.folder, name, AtFlags::empty());
        }
    }
}

/// What replaces another file may be secret until it has that file's mode.
const fn mode_before(is_new: bool) -> Mode {
    Mode::from_raw_mode(if is_new { 0o666 } else { 0o600 })
}

/// Tries names for a temporary file until one is free.
fn free_name<T>(
    name: &OsStr,
    mut attempt: impl FnMut(&OsStr) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let prefix = temporary_prefix(name);
    let process = u64::from(std::process::id());
    for number in 0..1000_u64 {
        let mut candidate = prefix.clone();
        candidate.push(format!("{:x}", process.saturating_mul(1000) + number));
        match attempt(&candidate) {
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
pub(crate) fn clear_stale(entry: &Entry<'_>) {
    let prefix = temporary_prefix(entry.name);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(entry.folder(), ".", flags, Mode::empty());
    let Ok(entries) = folder.and_then(Dir::new) else {
        return;
    };
    for found in entries.flatten().take(LOOKED_AT) {
        let name = found.file_name();
        let Some(number) = name.to_bytes().strip_prefix(prefix.as_bytes()) else {
            continue;
        };
        if number.is_empty() || !number.iter().all(u8::is_ascii_hexdigit) {
            continue;
        }
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(file) = openat(entry.folder(), name, flags, Mode::empty()) else {
            continue;
        };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _gone = unlinkat(entry.folder(), name, AtFlags::empty());
        }
    }
}

/// A name in an open folder.
type Named<'n> = (BorrowedFd<'n>, &'n OsStr);

/// Moves a file to where nothing is.
pub(crate) fn move_to_free(from: Named<'_>, to: Named<'_>) -> io::Result<()> {
    match renameat_with(from.0, from.1, to.0, to.1, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            Ok(renameat(from.0, from.1, to.0, to.1)?)
        }
        other => Ok(other?),
    }
}

fn in_folder(error: Errno) -> io::Error {
    let error = io::Error::from(error);
    io::Error::new(error.kind(), format!("in its folder: {error}"))
}
