//! Makes a journal whole again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::jsonl::push_line;
use crate::read::Chain;
use crate::reader::{Ending, Kept, Reading};
use crate::{Fault, Header, StoreError, lock};

/// How many names are tried for the original.
const MOST_NAMES: u32 = 1_000;

/// What a repair came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// Where the file is kept as it was; `None` if nothing was wrong with it and it was left alone.
    pub original: Option<PathBuf>,
    /// The header that the file has now.
    pub header: Header,
    /// How many records were kept.
    pub kept: u64,
    /// How many were put in, where others are lost.
    pub added: u64,
    /// How many faults were mended.
    pub faults: u64,
}

/// Rewrites a journal so that nothing is wrong with it, as resuming would have read it. The
/// file is kept beside the new one as it was. `tell` is given each fault, in the order of the file.
///
/// # Errors
/// If the file cannot be read or written, is in use, or is of a newer version. It is as it was then.
pub fn repair(
    path: &Path,
    workspace: Option<&Path>,
    tell: impl FnMut(&Fault),
) -> Result<Repaired, StoreError> {
    let original = lock::open(path)?;
    let reading = Reading {
        workspace,
        takes_nothing: true,
        ..Reading::of(path)
    };
    rewrite(reading, &original, tell)
}

/// Rewrites a journal that this process has the lock of. It has not that of the new file.
pub(crate) fn rewrite(
    reading: Reading<'_>,
    original: &File,
    mut tell: impl FnMut(&Fault),
) -> Result<Repaired, StoreError> {
    let path = reading.path;
    let mut from = original;
    from.rewind().map_err(StoreError::io("read", path))?;
    let mut faults = 0_u64;
    // The header is known for sure when all was read.
    let Ending {
        header,
        records,
        is_migrated,
        ..
    } = reading.run(BufReader::new(original), &mut |_| Ok(()), &mut |fault| {
        if !fault.kind.is_note() {
            faults = faults.saturating_add(1);
        }
        tell(&fault);
    })?;
    let why = if faults > 0 { "damaged" } else { "older" };
    if faults == 0 && !is_migrated {
        return Ok(Repaired {
            original: None,
            header,
            kept: records,
            added: 0,
            faults,
        });
    }
    let header = Header {
        tooloop_session: reading.version(),
        ..header
    };
    let new = path.with_extension(format!("{}.new", std::process::id()));
    let written = write(&new, &header, reading).and_then(|counts| {
        check(reading, &new)?;
        let kept_as = exchange(path, &new, original, why)?;
        Ok((counts, kept_as))
    });
    match written {
        Ok(((kept, added), kept_as)) => Ok(Repaired {
            original: Some(kept_as),
            header,
            kept,
            added,
            faults,
        }),
        Err(error) => {
            // If even this fails, a file stays behind that nobody takes for a journal.
            drop(fs::remove_file(&new));
            Err(error)
        }
    }
}

fn write(new: &Path, header: &Header, reading: Reading<'_>) -> Result<(u64, u64), StoreError> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(new)
        .map_err(StoreError::io("create", new))?;
    let mut out = BufWriter::with_capacity(256 << 10, file);
    let mut line = Vec::new();
    push_line(&mut line, header, new)?;
    let mut chain = Chain::default();
    let (mut kept_count, mut added) = (0_u64, 0_u64);
    let again = File::open(reading.path).map_err(StoreError::io("open", reading.path))?;
    reading.run(
        BufReader::new(again),
        &mut |kept| {
            let count = match &kept {
                Kept::Record(_) | Kept::Unknown(_) => &mut kept_count,
                Kept::Added { .. } => &mut added,
                Kept::Idle(_) => return Ok(()),
            };
            *count = count.saturating_add(1);
            if let Some(kept) = chain.link(kept) {
                push_line(&mut line, &kept, new)?;
            }
            if line.len() > 64 << 10 {
                out.write_all(&line)
                    .map_err(StoreError::io("write to", new))?;
                line.clear();
            }
            Ok(())
        },
        &mut |_| {},
    )?;
    out.write_all(&line)
        .and_then(|()| out.flush())
        .and_then(|()| out.get_ref().sync_all())
        .map_err(StoreError::io("write to", new))?;
    Ok((kept_count, added))
}

/// What is to take the place of a journal has no fault.
fn check(reading: Reading<'_>, new: &Path) -> Result<(), StoreError> {
    let mut first = None;
    let file = File::open(new).map_err(StoreError::io("open", new))?;
    let again = Reading {
        path: new,
        ..reading
    };
    again.run(BufReader::new(file), &mut |_| Ok(()), &mut |fault| {
        if !fault.kind.is_note() {
            first.get_or_insert(fault);
        }
    })?;
    match first {
        None => Ok(()),
        Some(fault) => Err(StoreError::NotRepaired {
            path: reading.path.to_owned(),
            fault: fault.to_string(),
        }),
    }
}

/// Puts the new file in the place of the old one, which gets a name of its own first: at no moment
/// is there no journal.
fn exchange(path: &Path, new: &Path, original: &File, why: &str) -> Result<PathBuf, StoreError> {
    // It was not gone on with, and is no newer than it was.
    let modified = original.metadata().and_then(|metadata| metadata.modified());
    if let Ok(modified) = modified {
        let file = File::options().append(true).open(new);
        drop(file.and_then(|file| file.set_modified(modified)));
    }
    let kept_as = keep(path, why)?;
    fs::rename(new, path).map_err(StoreError::io("replace", path))?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(StoreError::io("sync the folder of", path))?;
    Ok(kept_as)
}

/// Gives the file a second name that nothing else has.
fn keep(path: &Path, why: &str) -> Result<PathBuf, StoreError> {
    let time = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    for number in 1..=MOST_NAMES {
        let again = if number == 1 {
            String::new()
        } else {
            format!("-{number}")
        };
        let kept_as = path.with_file_name(format!("{name}.{why}-{time}{again}"));
        let kept = fs::hard_link(path, &kept_as).or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Err(error),
            // Some file systems know no second names.
            _ => copy(path, &kept_as),
        });
        match kept {
            Ok(()) => return Ok(kept_as),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(StoreError::io("keep the original of", path)(error)),
        }
    }
    let taken = io::Error::from(io::ErrorKind::AlreadyExists);
    Err(StoreError::io("keep the original of", path)(taken))
}

fn copy(path: &Path, kept_as: &Path) -> io::Result<()> {
    let mut from = File::open(path)?;
    let mut to = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(kept_as)?;
    io::copy(&mut from, &mut to)?;
    to.sync_all()
}
