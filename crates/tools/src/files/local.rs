//! The files of this machine.
//!
//! A file is written beside its place and then moved there. Where the system can, it has no name
//! until it is whole, so that a harness that is killed leaves nothing behind. Where it cannot, or
//! in the instant before the move, its name is `.NAME.tooloop-N`, locked by who writes: the next
//! write of the same file clears such names that nobody locks.

use std::collections::BinaryHeap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    Access, AtFlags, CWD, FlockOperation, Gid, Mode, OFlags, RenameFlags, Uid, accessat, fchmod,
    fchown, flock, linkat, open as open_raw, renameat_with,
};
use rustix::io::Errno;

use super::attributes;
use super::machine::{FileKind, FolderEntry, Listing, OpenFile, WriteAs};

const MARK: &str = ".tooloop-";

/// The bits of a mode that a file can be given.
const MODE_BITS: u32 = 0o7777;

/// How much of a file's name goes into that of its temporary file: names may be 255 bytes long.
const NAME_BYTES: usize = 200;

pub(crate) fn open(path: &Path) -> io::Result<OpenFile> {
    let real_path = path.canonicalize()?;
    let metadata = fs::symlink_metadata(&real_path)?;
    if kind(metadata.file_type()) != FileKind::File {
        return Ok(described(real_path, &metadata, Box::new(io::empty())));
    }
    // By now another thing may lie there: a pipe must not block, a link must not be followed.
    let flags =
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(open_raw(&real_path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if kind(metadata.file_type()) != FileKind::File {
        return Ok(described(real_path, &metadata, Box::new(io::empty())));
    }
    Ok(described(real_path, &metadata, Box::new(file)))
}

fn described(
    real_path: PathBuf,
    metadata: &fs::Metadata,
    content: Box<dyn super::machine::ReadSeek>,
) -> OpenFile {
    OpenFile {
        real_path,
        kind: kind(metadata.file_type()),
        size: metadata.len(),
        mode: metadata.mode(),
        modified: metadata.modified().ok(),
        content,
    }
}

fn kind(file_type: fs::FileType) -> FileKind {
    if file_type.is_dir() {
        FileKind::Folder
    } else if file_type.is_symlink() {
        FileKind::Link
    } else if file_type.is_fifo() {
        FileKind::Fifo
    } else if file_type.is_socket() {
        FileKind::Socket
    } else if file_type.is_block_device() || file_type.is_char_device() {
        FileKind::Device
    } else {
        FileKind::File
    }
}

pub(crate) fn write(path: &Path, contents: &[u8], write_as: WriteAs) -> io::Result<PathBuf> {
    write_by(path, contents, write_as, Staged::new)
}

fn write_by(
    path: &Path,
    contents: &[u8],
    write_as: WriteAs,
    stage: fn(&Path, &OsStr, bool) -> io::Result<Staged>,
) -> io::Result<PathBuf> {
    let (target, replaced) = match write_as {
        WriteAs::Replacement => {
            let (target, metadata) = replaceable(path)?;
            (target, Some(metadata))
        }
        WriteAs::New { .. } => (new_place(path)?, None),
    };
    let (Some(folder), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(problem(io::ErrorKind::InvalidInput, "it names no file"));
    };
    clear_stale(folder, name);
    let mut staged = stage(folder, name, replaced.is_none())?;
    staged.file.write_all(contents)?;
    if let Some(metadata) = &replaced {
        keep(&staged.file, &target, metadata)?;
    } else if let WriteAs::New { mode: Some(mode) } = write_as {
        fchmod(&staged.file, Mode::from_raw_mode(mode & MODE_BITS))?;
    }
    staged.file.sync_all()?;
    staged.publish(folder, name, &target, replaced.is_some())?;
    // The name, too, is to outlive a loss of power. A folder may be closed to reading.
    if let Ok(folder) = File::open(folder) {
        let _synced = folder.sync_all();
    }
    Ok(target)
}

/// The file that a path leads to, if it may be replaced.
fn replaceable(path: &Path) -> io::Result<(PathBuf, fs::Metadata)> {
    let target = path.canonicalize()?;
    let metadata = fs::symlink_metadata(&target)?;
    if kind(metadata.file_type()) != FileKind::File {
        return Err(problem(io::ErrorKind::InvalidInput, "it is no plain file"));
    }
    may_change(&metadata)?;
    accessat(CWD, &target, Access::WRITE_OK, AtFlags::EACCESS)?;
    Ok((target, metadata))
}

fn may_change(metadata: &fs::Metadata) -> io::Result<()> {
    if metadata.mode() & 0o222 == 0 {
        return Err(problem(
            io::ErrorKind::PermissionDenied,
            "the file is write-protected by its mode; chmod it first if it may be changed",
        ));
    }
    Ok(())
}

/// Where a new file goes: its parent's real path, with the name.
fn new_place(path: &Path) -> io::Result<PathBuf> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(problem(io::ErrorKind::InvalidInput, "it names no file"));
    };
    if path.as_os_str().as_bytes().ends_with(b"/") {
        return Err(problem(
            io::ErrorKind::InvalidInput,
            "it ends with a slash as a folder does",
        ));
    }
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() && path.canonicalize().is_err() => {
            let to = fs::read_link(path).unwrap_or_default();
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("it is a link to {}, where nothing is", to.display()),
            ));
        }
        Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    fs::create_dir_all(parent)?;
    Ok(parent.canonicalize()?.join(name))
}

/// Makes the new file what the old one was to others.
fn keep(file: &File, old: &Path, metadata: &fs::Metadata) -> io::Result<()> {
    let now = file.metadata()?;
    if now.gid() != metadata.gid() || now.uid() != metadata.uid() {
        let (owner, group) = (Uid::from_raw(metadata.uid()), Gid::from_raw(metadata.gid()));
        fchown(file, Some(owner), Some(group)).map_err(|_| {
            problem(
                io::ErrorKind::PermissionDenied,
                "the file belongs to another user, and a replaced one could not be given to them",
            )
        })?;
    }
    attributes::copy(old, file);
    // Last, since a change of owner takes bits away.
    fchmod(file, Mode::from_raw_mode(metadata.mode() & MODE_BITS))?;
    Ok(())
}

/// A file on its way. One with a name is removed when it is dropped.
struct Staged {
    file: File,
    name: Option<PathBuf>,
}

impl Staged {
    fn new(folder: &Path, name: &OsStr, is_new: bool) -> io::Result<Self> {
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

    fn named(folder: &Path, name: &OsStr, is_new: bool) -> io::Result<Self> {
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

    /// Gives the file its place.
    fn publish(
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
fn clear_stale(folder: &Path, name: &OsStr) {
    let prefix = temporary_prefix(name);
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
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

pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    move_to_free(from, &new_place(to)?)
}

fn move_to_free(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => fs::rename(from, to),
        other => Ok(other?),
    }
}

pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_dir() {
        return fs::remove_dir(path);
    }
    if metadata.is_file() {
        may_change(&metadata)?;
    }
    fs::remove_file(path)
}

pub(crate) fn list(folder: &Path, most: usize) -> io::Result<Listing> {
    let mut first = BinaryHeap::new();
    let mut left_out = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        first.push(FolderEntry {
            name: entry.file_name(),
            kind: entry.file_type().map_or(FileKind::File, kind),
        });
        if first.len() > most {
            first.pop();
            left_out += 1;
        }
    }
    Ok(Listing {
        entries: first.into_sorted_vec(),
        left_out,
    })
}

fn in_folder(error: Errno, folder: &Path) -> io::Error {
    let error = io::Error::from(error);
    io::Error::new(
        error.kind(),
        format!("in the folder {}: {error}", folder.display()),
    )
}

fn problem(kind: io::ErrorKind, words: &'static str) -> io::Error {
    io::Error::new(kind, words)
}

#[cfg(test)]
mod tests;
