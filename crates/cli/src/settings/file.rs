//! Reading a settings file, and places within its text. Never writes.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// No settings file is larger than this.
const MOST_BYTES: u64 = 1 << 20;

/// No file is looked at further than this.
const MOST_DIGESTED: u64 = 64 << 20;

/// What is wanted of a file, and whether it has to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Demand {
    /// It may be missing, and only a regular file counts: a pipe in a folder would block the start.
    Optional,
    /// A person has named it; a pipe will do.
    Explicit,
    /// As [`Demand::Optional`], and what tells its content from any other will do.
    Digest,
}

/// How files are read.
pub(super) type Read<'r> = &'r dyn Fn(&Path, Demand) -> io::Result<Vec<u8>>;

/// Reads a file from the disk.
pub(crate) fn read(path: &Path, demand: Demand) -> io::Result<Vec<u8>> {
    let flags = match demand {
        Demand::Optional | Demand::Digest => OFlags::NONBLOCK | OFlags::NOCTTY,
        Demand::Explicit => OFlags::NOCTTY,
    };
    let file = rustix::fs::open(
        path,
        OFlags::RDONLY | OFlags::CLOEXEC | flags,
        Mode::empty(),
    )
    .map_err(|error| missing_link(path, error.into()))?;
    let file = File::from(file);
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    if demand != Demand::Explicit && !kind.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if demand == Demand::Digest {
        return digest(file);
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MOST_BYTES) {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(bytes)
}

fn digest(file: File) -> io::Result<Vec<u8>> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file.take(MOST_DIGESTED + 1))?;
    if hasher.count() > MOST_DIGESTED {
        return Err(io::Error::other("it is larger than 64 MiB"));
    }
    Ok(hasher.finalize().as_bytes().to_vec())
}

/// A link that leads nowhere is not the same as no file: rules were meant to be there.
fn missing_link(path: &Path, error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::NotFound && path.symlink_metadata().is_ok() {
        return io::Error::other("it is a link that leads nowhere");
    }
    error
}

/// Whether there is no file of that name, or nothing that could be one.
pub(crate) fn is_no_file(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound
            | ErrorKind::NotADirectory
            | ErrorKind::IsADirectory
            | ErrorKind::InvalidFilename
            | ErrorKind::InvalidInput
    )
}

/// Says why a file cannot be read.
pub(crate) fn reason(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => "there is no such file".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        ErrorKind::IsADirectory => "it is a directory".to_owned(),
        _ => error.to_string(),
    }
}

/// Line and column of an offset, both from 1, the column in characters.
pub(crate) fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    let line = before.matches('\n').count() + 1;
    let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
    (line, column)
}
