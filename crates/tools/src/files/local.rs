//! The files of this machine.

use std::collections::BinaryHeap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    Access, AtFlags, CWD, Gid, Mode, OFlags, Uid, accessat, fchmod, fchown, open as open_raw,
};

use super::attributes;
use super::machine::{FileKind, FolderEntry, Listing, OpenFile, WriteAs};
use super::staged::{Staged, clear_stale, move_to_free};

/// The bits of a mode that a file can be given.
const MODE_BITS: u32 = 0o7777;

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

fn write_by(path: &Path, contents: &[u8], write_as: WriteAs, stage: Stage) -> io::Result<PathBuf> {
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
    let make = |stage: Stage| -> Result<(), Failure> {
        let mut staged = stage(folder, name, replaced.is_none()).map_err(Failure::last)?;
        let replaces = replaced.as_ref().map(|metadata| (&*target, metadata));
        fill(&mut staged.file, contents, write_as, replaces).map_err(Failure::last)?;
        let published = staged.publish(folder, name, &target, replaced.is_some());
        published.map_err(|error| Failure {
            has_other_way: staged.is_nameless() && error.kind() != io::ErrorKind::AlreadyExists,
            error,
        })
    };
    let mut made = make(stage);
    // Not everywhere may a file without a name be given one.
    if let Err(failure) = &made
        && failure.has_other_way
    {
        made = make(Staged::named);
    }
    made.map_err(|failure| failure.error)?;
    // The name, too, is to outlive a loss of power. A folder may be closed to reading.
    if let Ok(folder) = File::open(folder) {
        let _synced = folder.sync_all();
    }
    Ok(target)
}

/// Makes a file what it is to be. `replaced` is what it takes the place of.
fn fill(
    file: &mut File,
    contents: &[u8],
    write_as: WriteAs,
    replaced: Option<(&Path, &fs::Metadata)>,
) -> io::Result<()> {
    file.write_all(contents)?;
    if let Some((target, metadata)) = replaced {
        keep(file, target, metadata)?;
    } else if let WriteAs::New { mode: Some(mode) } = write_as {
        fchmod(&*file, Mode::from_raw_mode(mode & MODE_BITS))?;
    }
    file.sync_all()
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

/// A way to begin a file: its folder, its name, and whether it is new.
type Stage = fn(&Path, &OsStr, bool) -> io::Result<Staged>;

/// Why a file was not written.
struct Failure {
    error: io::Error,
    /// Whether it may do to write it under a name.
    has_other_way: bool,
}

impl Failure {
    const fn last(error: io::Error) -> Self {
        Self {
            error,
            has_other_way: false,
        }
    }
}

pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    move_to_free(from, &new_place(to)?)
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

fn problem(kind: io::ErrorKind, words: &'static str) -> io::Error {
    io::Error::new(kind, words)
}

#[cfg(test)]
mod tests;
