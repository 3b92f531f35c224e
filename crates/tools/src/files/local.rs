//! The files of this machine.

use std::collections::BinaryHeap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    Access, AtFlags, Dir, FileType, Gid, Mode, OFlags, Stat, Uid, accessat, fchmod, fchown, openat,
    readlinkat, statat, unlinkat,
};

use super::attributes;
use super::machine::{FileKind, FolderEntry, Listing, OpenFile, WriteAs};
use super::staged::{self, Staged, clear_stale, move_to_free};
use crate::no_links::{self, Entry};

/// The bits of a mode that a file can be given.
const MODE_BITS: u32 = 0o7777;

pub(crate) fn open(path: &Path) -> io::Result<OpenFile> {
    let real_path = path.canonicalize()?;
    let metadata = fs::symlink_metadata(&real_path)?;
    if kind(metadata.file_type()) != FileKind::File {
        return Ok(described(real_path, &metadata, Box::new(io::empty())));
    }
    // By now another thing may lie there: a pipe must not block, a link must not be followed.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(no_links::open(&real_path, flags)?);
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
    write_by(path, contents, write_as, staged::nameless)
}

fn write_by(path: &Path, contents: &[u8], write_as: WriteAs, stage: Stage) -> io::Result<PathBuf> {
    let (entry, replaced) = match write_as {
        WriteAs::Replacement => {
            let entry = Entry::open(path)?;
            let stat = replaceable(&entry)?;
            (entry, Some(stat))
        }
        WriteAs::New { .. } => (new_place(path)?, None),
    };
    clear_stale(&entry);
    let make = |stage: Stage| -> Result<(), Failure> {
        let mut staged = stage(&entry, replaced.is_none()).map_err(Failure::last)?;
        let replaces = replaced.as_ref().map(|stat| (&entry, stat));
        fill(&mut staged.file, contents, write_as, replaces).map_err(Failure::last)?;
        let published = staged.publish(entry.name, replaced.is_some());
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
        made = make(staged::named);
    }
    made.map_err(|failure| failure.error)?;
    // The name, too, is to outlive a loss of power. A folder may be closed to reading.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if let Ok(folder) = openat(entry.folder(), ".", flags, Mode::empty()) {
        let _synced = File::from(folder).sync_all();
    }
    Ok(path.to_owned())
}

/// Makes a file what it is to be. `replaced` is what it takes the place of.
fn fill(
    file: &mut File,
    contents: &[u8],
    write_as: WriteAs,
    replaced: Option<(&Entry<'_>, &Stat)>,
) -> io::Result<()> {
    file.write_all(contents)?;
    if let Some((entry, stat)) = replaced {
        keep(file, entry, stat)?;
    } else if let WriteAs::New { mode: Some(mode) } = write_as {
        fchmod(&*file, Mode::from_raw_mode(mode & MODE_BITS))?;
    }
    file.sync_all()
}

/// Returns what is known of a file, if it may be replaced.
fn replaceable(entry: &Entry<'_>) -> io::Result<Stat> {
    let stat = entry.stat()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(problem(io::ErrorKind::InvalidInput, "it is no plain file"));
    }
    may_change(&stat)?;
    accessat(
        entry.folder(),
        entry.name,
        Access::WRITE_OK,
        AtFlags::EACCESS,
    )?;
    Ok(stat)
}

fn may_change(stat: &Stat) -> io::Result<()> {
    if stat.st_mode & 0o222 == 0 {
        return Err(problem(
            io::ErrorKind::PermissionDenied,
            "the file is write-protected by its mode; chmod it first if it may be changed",
        ));
    }
    Ok(())
}

/// Where a new file goes, which must not be there yet. Its folders are made.
fn new_place(path: &Path) -> io::Result<Entry<'_>> {
    if path.as_os_str().as_bytes().ends_with(b"/") {
        return Err(problem(
            io::ErrorKind::InvalidInput,
            "it ends with a slash as a folder does",
        ));
    }
    let entry = Entry::create(path, Mode::from_raw_mode(0o777))?;
    match entry.stat() {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => {
            let to = readlinkat(entry.folder(), entry.name, Vec::new())?.into_bytes();
            let to = Path::new(OsStr::from_bytes(&to)).display().to_string();
            Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("it is a link to {to}, where nothing is"),
            ))
        }
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(entry),
        Err(error) => Err(error),
    }
}

/// Makes the new file what the old one was to others.
fn keep(file: &File, entry: &Entry<'_>, stat: &Stat) -> io::Result<()> {
    let now = file.metadata()?;
    if now.gid() != stat.st_gid || now.uid() != stat.st_uid {
        let (owner, group) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
        fchown(file, Some(owner), Some(group)).map_err(|_| {
            problem(
                io::ErrorKind::PermissionDenied,
                "the file belongs to another user, and a replaced one could not be given to them",
            )
        })?;
    }
    let folder = format!("/proc/self/fd/{}", entry.folder().as_raw_fd());
    attributes::copy(&Path::new(&folder).join(entry.name), file);
    // Last, since a change of owner takes bits away.
    fchmod(file, Mode::from_raw_mode(stat.st_mode & MODE_BITS))?;
    Ok(())
}

/// A way to begin a file: its place, and whether it is new.
type Stage = for<'e> fn(&'e Entry<'_>, bool) -> io::Result<Staged<'e>>;

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
    let from = Entry::open(from)?;
    from.stat()?;
    let to = new_place(to)?;
    move_to_free((from.folder(), from.name), (to.folder(), to.name))
}

pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let entry = Entry::open(path)?;
    let stat = entry.stat()?;
    let flags = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => AtFlags::REMOVEDIR,
        FileType::RegularFile => {
            may_change(&stat)?;
            AtFlags::empty()
        }
        _ => AtFlags::empty(),
    };
    Ok(unlinkat(entry.folder(), entry.name, flags)?)
}

pub(crate) fn list(folder: &Path, most: usize) -> io::Result<Listing> {
    let folder = no_links::open(folder, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut first = BinaryHeap::new();
    let mut left_out = 0;
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        let kind = match entry.file_type() {
            // Not every file system says it here.
            FileType::Unknown => statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_or(FileType::RegularFile, |stat| {
                    FileType::from_raw_mode(stat.st_mode)
                }),
            known => known,
        };
        first.push(FolderEntry {
            name: name.to_owned(),
            kind: match kind {
                FileType::Directory => FileKind::Folder,
                FileType::Symlink => FileKind::Link,
                FileType::Fifo => FileKind::Fifo,
                FileType::Socket => FileKind::Socket,
                FileType::BlockDevice | FileType::CharacterDevice => FileKind::Device,
                FileType::RegularFile | FileType::Unknown => FileKind::File,
            },
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
