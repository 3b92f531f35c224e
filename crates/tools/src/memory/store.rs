//! The folder of a project's notes. What is written is whole or not there: a new file takes the place of the
//! old one. Sessions that write at the same time take turns by a lock on a file.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, flock, openat, renameat, statat, unlinkat,
};

use super::index::{self, MemoryIndex};
use super::{MAX_NOTE_BYTES, MAX_NOTES};
use crate::no_links::{self, Entry};
use crate::places::bounded;

const INDEX: &str = "MEMORY.md";
const LOCK: &str = ".lock";

/// How long another session may take to write.
const PATIENCE: Duration = Duration::from_secs(5);

/// The most bytes of an index that is read: people may write one too.
const MAX_INDEX_FILE: usize = 1024 * 1024;

/// The notes of a project.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    folder: PathBuf,
}

/// A note, as a list tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Its name.
    pub name: String,
    /// What the index says of it; may be empty.
    pub about: String,
    /// How long it is.
    pub bytes: u64,
}

/// The state of a note that somebody has seen.
pub(super) type Seen = blake3::Hash;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The name is none.
    #[error(
        "{0:?} is no name of a note: small letters, digits, `-` and `_`, at most 64, beginning with a letter \
         or digit"
    )]
    Name(String),
    /// There is no such note.
    #[error("there is no note {name:?}; there are: {}", if .names.is_empty() { "none".to_owned() } else { .names.join(", ") })]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        names: Vec<String>,
    },
    /// It would be lost what somebody else has written.
    #[error(
        "the note {0:?} was not seen as it is now: view it first, then write all that is to be in it"
    )]
    Unseen(String),
    /// It does not fit.
    #[error("{0}")]
    Bound(String),
    /// The file system refused it.
    #[error("{}: {error}", .path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl MemoryStore {
    /// The notes in that folder, which need not be there yet. Links on the way to it are followed
    /// now, and none later.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        let real = folder.ancestors().find_map(|above| {
            let rest = folder.strip_prefix(above).ok()?;
            Some(above.canonicalize().ok()?.join(rest))
        });
        Self {
            folder: real.unwrap_or(folder),
        }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of a note.
    ///
    /// # Errors
    /// [`MemoryError::Name`].
    pub fn file(&self, name: &str) -> Result<PathBuf, MemoryError> {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
        if name.is_empty()
            || name.len() > 64
            || !name.chars().all(fits)
            || name.starts_with(['-', '_'])
        {
            return Err(MemoryError::Name(name.into()));
        }
        Ok(self.folder.join(format!("{name}.md")))
    }

    /// What of the index the model is shown.
    ///
    /// # Errors
    /// If it is there and cannot be read.
    pub fn index(&self) -> Result<Option<MemoryIndex>, MemoryError> {
        Ok(index::shown(&self.whole_index()?))
    }

    /// All notes, sorted by name.
    ///
    /// # Errors
    /// If the folder is there and cannot be read.
    pub fn list(&self) -> Result<Vec<Note>, MemoryError> {
        let index = self.whole_index()?;
        let opened = no_links::open(&self.folder, OFlags::RDONLY | OFlags::DIRECTORY);
        let folder = match opened {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(at(&self.folder, error)),
        };
        let entries = Dir::read_from(&folder).map_err(|error| at(&self.folder, error.into()))?;
        let mut notes = Vec::new();
        for entry in entries.flatten() {
            let file = entry.file_name();
            let name = file.to_str().ok().and_then(|name| name.strip_suffix(".md"));
            let Some(name) = name else { continue };
            let Ok(stat) = statat(&folder, file, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            if is_file && self.file(name).is_ok() {
                notes.push(Note {
                    name: name.to_owned(),
                    about: index::about(&index, name).unwrap_or_default().to_owned(),
                    bytes: u64::try_from(stat.st_size).unwrap_or_default(),
                });
            }
        }
        notes.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(notes)
    }

    /// The text of a note.
    ///
    /// # Errors
    /// If there is none of that name, or it cannot be read.
    pub fn view(&self, name: &str) -> Result<String, MemoryError> {
        self.read(name)?.ok_or_else(|| self.unknown(name))
    }

    /// Writes a note whole. One that is there is replaced only if it is still as it was `seen`.
    pub(super) fn write(
        &self,
        name: &str,
        text: &str,
        about: &str,
        seen: Option<Seen>,
    ) -> Result<Seen, MemoryError> {
        self.file(name)?;
        let _lock = self.lock()?;
        let old = self.read(name)?;
        if let Some(old) = &old
            && seen != Some(hash(old))
            && old != text
        {
            return Err(MemoryError::Unseen(name.into()));
        }
        if old.is_none() && self.list()?.len() >= MAX_NOTES {
            return Err(MemoryError::Bound(format!(
                "there are {MAX_NOTES} notes, which is the most: delete or join some"
            )));
        }
        self.put(name, text, about)
    }

    /// Puts `new` in the place of `old`, which has to be there once.
    pub(super) fn edit(
        &self,
        name: &str,
        old: &str,
        new: &str,
        about: Option<&str>,
    ) -> Result<Seen, MemoryError> {
        self.file(name)?;
        let _lock = self.lock()?;
        let text = self.view(name)?;
        let times = if old.is_empty() {
            0
        } else {
            text.matches(old).count()
        };
        if times != 1 {
            return Err(MemoryError::Bound(format!(
                "`old` is {times} times in the note {name:?}, and has to be there once: view it"
            )));
        }
        let text = text.replacen(old, new, 1);
        let index = self.whole_index()?;
        let about = about.or_else(|| index::about(&index, name)).unwrap_or(name);
        self.put(name, &text, about)
    }

    /// Deletes a note and its line of the index.
    ///
    /// # Errors
    /// If there is none of that name, or the file system refuses.
    pub fn delete(&self, name: &str) -> Result<(), MemoryError> {
        self.delete_seen(name, None)
    }

    /// The same, only if it is still as it was seen.
    pub(super) fn delete_seen(&self, name: &str, seen: Option<Seen>) -> Result<(), MemoryError> {
        let path = self.file(name)?;
        if no_links::stat(&path).is_err() {
            return Err(self.unknown(name));
        }
        let _lock = self.lock()?;
        if let Some(seen) = seen
            && self.read(name)?.is_some_and(|text| hash(&text) != seen)
        {
            return Err(MemoryError::Unseen(name.into()));
        }
        let entry = Entry::open(&path).map_err(|error| at(&path, error))?;
        unlinkat(entry.folder(), entry.name, AtFlags::empty())
            .map_err(|error| at(&path, error.into()))?;
        let index = index::without(&self.whole_index()?, name);
        self.replace(INDEX, &index)
    }

    fn put(&self, name: &str, text: &str, about: &str) -> Result<Seen, MemoryError> {
        if text.len() > MAX_NOTE_BYTES {
            return Err(MemoryError::Bound(format!(
                "the note has {} bytes, and {MAX_NOTE_BYTES} is the most: keep what is worth keeping, or part it",
                text.len()
            )));
        }
        let about = index::one_line(about);
        if about.is_empty() {
            return Err(MemoryError::Bound(
                "`about` is blank: say in one line what the note tells".into(),
            ));
        }
        self.replace(&format!("{name}.md"), text)?;
        let index = index::with(&self.whole_index()?, name, &about);
        self.replace(INDEX, &index)?;
        Ok(hash(text))
    }

    fn whole_index(&self) -> Result<String, MemoryError> {
        Ok(self.text(INDEX, MAX_INDEX_FILE)?.unwrap_or_default())
    }

    fn read(&self, name: &str) -> Result<Option<String>, MemoryError> {
        self.file(name)?;
        self.text(&format!("{name}.md"), MAX_INDEX_FILE)
    }

    fn text(&self, file: &str, most: usize) -> Result<Option<String>, MemoryError> {
        let path = self.folder.join(file);
        match no_links::open_file(&path).and_then(|file| bounded(file, most)) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(at(&path, error)),
        }
    }

    fn unknown(&self, name: &str) -> MemoryError {
        let notes = self.list().unwrap_or_default();
        MemoryError::Unknown {
            name: name.into(),
            names: notes.into_iter().map(|note| note.name).collect(),
        }
    }

    /// Waits for its turn to write; over when the file is dropped.
    fn lock(&self) -> Result<File, MemoryError> {
        let path = self.folder.join(LOCK);
        let entry = Entry::create(&path, Mode::RWXU).map_err(|error| at(&path, error))?;
        let flags = OFlags::WRONLY | OFlags::CREATE;
        let file = private(&entry, entry.name, flags).map_err(|error| at(&path, error))?;
        let begun = Instant::now();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(file),
                Err(rustix::io::Errno::WOULDBLOCK) if begun.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error) => return Err(at(&path, error.into())),
            }
        }
    }

    /// Puts a file in the place of another one, whole. The lock is held.
    fn replace(&self, file: &str, text: &str) -> Result<(), MemoryError> {
        let path = self.folder.join(file);
        let write = || {
            let entry = Entry::open(&path)?;
            let new = format!(".{file}.new");
            let fill = || {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
                let mut file = private(&entry, new.as_ref(), flags)?;
                file.write_all(text.as_bytes())?;
                file.sync_all()?;
                Ok(renameat(entry.folder(), &*new, entry.folder(), entry.name)?)
            };
            fill().inspect_err(|_| {
                // What is left of it is overwritten next time.
                let _left = unlinkat(entry.folder(), &*new, AtFlags::empty());
            })
        };
        write().map_err(|error| at(&path, error))
    }
}

/// Opens a file that other users may not read, in the folder of an entry.
fn private(entry: &Entry<'_>, name: &OsStr, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(entry.folder(), name, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// What tells a text from another one.
pub(super) fn hash(text: &str) -> Seen {
    blake3::hash(text.as_bytes())
}

fn at(path: &Path, error: io::Error) -> MemoryError {
    MemoryError::Io {
        path: path.to_owned(),
        error,
    }
}
