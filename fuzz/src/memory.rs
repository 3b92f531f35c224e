//! A machine whose files are in memory.

use std::collections::BTreeMap;
use std::io::{self, Cursor, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use tooloop_exec::{Command, Outcome, StartError};
use tooloop_tools::{FileKind, FolderEntry, Listing, OpenFile, Ops, OpsFuture, WriteAs};

/// Files by their paths.
pub type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A machine whose files are in memory. A folder is there as long as a file is in it.
#[derive(Debug, Default)]
pub struct Memory(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    files: Files,
    /// How many changes succeed before one fails.
    fails_after: Option<u32>,
    /// What a file's size is said to be at least.
    least_size: u64,
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nothing panics with it")
    }

    /// Begins anew with these files. If told so, one change fails after some.
    pub fn reset(&self, files: Files, fails_after: Option<u32>) {
        *self.lock() = State {
            files,
            fails_after,
            least_size: 0,
        };
    }

    /// Says from now on that files are at least that large.
    pub fn overstate(&self, least_size: u64) {
        self.lock().least_size = least_size;
    }

    /// All files as they are.
    pub fn files(&self) -> Files {
        self.lock().files.clone()
    }
}

/// A path without dots, as it is where there are no links.
pub fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

impl State {
    /// The plain form of a path that may be there.
    fn path(&self, path: &Path) -> io::Result<PathBuf> {
        if path.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(ErrorKind::InvalidInput.into());
        }
        let path = plain(path);
        match path
            .ancestors()
            .skip(1)
            .any(|parent| self.files.contains_key(parent))
        {
            true => Err(ErrorKind::NotADirectory.into()),
            false => Ok(path),
        }
    }

    fn is_folder(&self, path: &Path) -> bool {
        self.files
            .keys()
            .any(|known| known.starts_with(path) && known != path)
    }

    fn is_free(&self, path: &Path) -> io::Result<()> {
        match self.files.contains_key(path) || self.is_folder(path) {
            true => Err(ErrorKind::AlreadyExists.into()),
            false => Ok(()),
        }
    }

    /// Comes before each change.
    fn change(&mut self) -> io::Result<()> {
        if let Some(left) = self.fails_after {
            self.fails_after = left.checked_sub(1);
            if left == 0 {
                return Err(io::Error::other("the disk is broken"));
            }
        }
        Ok(())
    }
}

impl Ops for Memory {
    fn execute(&self, _: Command) -> OpsFuture<'_, Result<Outcome, StartError>> {
        let none = io::Error::new(ErrorKind::Unsupported, "there are no commands here");
        Box::pin(async { Err(StartError::System(none)) })
    }

    fn open(&self, path: &Path) -> io::Result<OpenFile> {
        let state = self.lock();
        let real_path = state.path(path)?;
        let (kind, bytes) = match state.files.get(&real_path) {
            Some(bytes) => (FileKind::File, bytes.clone()),
            None if state.is_folder(&real_path) => (FileKind::Folder, Vec::new()),
            None => return Err(ErrorKind::NotFound.into()),
        };
        Ok(OpenFile {
            real_path,
            kind,
            size: (bytes.len() as u64).max(state.least_size),
            mode: 0o644,
            modified: None,
            content: Box::new(Cursor::new(bytes)),
        })
    }

    fn write(&self, path: &Path, contents: &[u8], write_as: WriteAs) -> io::Result<PathBuf> {
        let mut state = self.lock();
        let path = state.path(path)?;
        match write_as {
            WriteAs::New { .. } => state.is_free(&path)?,
            WriteAs::Replacement if state.files.contains_key(&path) => {}
            WriteAs::Replacement => return Err(ErrorKind::NotFound.into()),
        }
        state.change()?;
        state.files.insert(path.clone(), contents.to_vec());
        Ok(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.lock();
        let (from, to) = (state.path(from)?, state.path(to)?);
        state.is_free(&to)?;
        if !state.files.contains_key(&from) {
            return Err(ErrorKind::NotFound.into());
        }
        state.change()?;
        let bytes = state.files.remove(&from).unwrap_or_default();
        state.files.insert(to, bytes);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        let path = state.path(path)?;
        if !state.files.contains_key(&path) {
            return Err(match state.is_folder(&path) {
                true => ErrorKind::DirectoryNotEmpty.into(),
                false => ErrorKind::NotFound.into(),
            });
        }
        state.change()?;
        state.files.remove(&path);
        Ok(())
    }

    fn list(&self, folder: &Path, most: usize) -> io::Result<Listing> {
        let state = self.lock();
        let folder = state.path(folder)?;
        let mut entries: Vec<FolderEntry> = state
            .files
            .keys()
            .filter_map(|path| {
                let mut rest = path.strip_prefix(&folder).ok()?.components();
                let name = rest.next()?.as_os_str().to_owned();
                let kind = match rest.next() {
                    None => FileKind::File,
                    Some(_) => FileKind::Folder,
                };
                Some(FolderEntry { name, kind })
            })
            .collect();
        entries.dedup();
        if entries.is_empty() {
            return Err(ErrorKind::NotFound.into());
        }
        let left_out = entries.len().saturating_sub(most);
        entries.truncate(most);
        Ok(Listing { entries, left_out })
    }
}
