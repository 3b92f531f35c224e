//! A machine that is all in memory, with faults on demand.

use std::collections::BTreeMap;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;
use tooloop_exec::{Command, Outcome, StartError};
use tooloop_tools::{FileKind, FolderEntry, Listing, OpenFile, Ops, OpsFuture, ReadSeek, WriteAs};

#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) files: Mutex<BTreeMap<PathBuf, (Vec<u8>, u32)>>,
    /// Paths that can be neither written nor removed nor moved.
    pub(crate) faults: Mutex<Vec<PathBuf>>,
    /// Fires when an endless file has been read from that often.
    pub(crate) endless: Mutex<Option<(usize, CancellationToken)>>,
    /// Fires when the file that is opened next has been read to its end.
    pub(crate) at_end: Mutex<Option<CancellationToken>>,
}

impl Memory {
    pub(crate) fn put(&self, path: &str, bytes: &[u8]) {
        let file = (bytes.to_vec(), 0o644);
        self.files.lock().unwrap().insert(path.into(), file);
    }

    pub(crate) fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let files = self.files.lock().unwrap();
        files.get(Path::new(path)).map(|(bytes, _)| bytes.clone())
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let files = self.files.lock().unwrap();
        files
            .keys()
            .map(|path| path.display().to_string())
            .collect()
    }

    fn check(&self, path: &Path) -> io::Result<()> {
        if self
            .faults
            .lock()
            .unwrap()
            .iter()
            .any(|fault| fault == path)
        {
            return Err(io::Error::other("the disk is broken"));
        }
        Ok(())
    }
}

/// Lines without end.
struct Endless(usize, CancellationToken);

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.checked_sub(1) {
            Some(left) => self.0 = left,
            None => self.1.cancel(),
        }
        buffer.fill(b'x');
        Ok(buffer.len())
    }
}

impl Seek for Endless {
    fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
        Ok(0)
    }
}

/// A file at whose end something fires, when who reads has been told so twice: then it is believed.
struct UpTo(Cursor<Vec<u8>>, CancellationToken, usize);

impl Read for UpTo {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.0.read(buffer)?;
        self.2 += usize::from(length == 0);
        if self.2 == 2 {
            self.1.cancel();
        }
        Ok(length)
    }
}

impl Seek for UpTo {
    fn seek(&mut self, place: SeekFrom) -> io::Result<u64> {
        self.0.seek(place)
    }
}

/// A machine to which something is done before each write.
pub(crate) struct BeforeWrites<F> {
    pub(crate) machine: Arc<dyn Ops>,
    pub(crate) act: F,
}

impl<F> std::fmt::Debug for BeforeWrites<F> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.machine.fmt(formatter)
    }
}

impl<F: Fn(&Path) + Send + Sync + 'static> Ops for BeforeWrites<F> {
    fn execute(&self, command: Command) -> OpsFuture<'_, Result<Outcome, StartError>> {
        self.machine.execute(command)
    }

    fn open(&self, path: &Path) -> io::Result<OpenFile> {
        self.machine.open(path)
    }

    fn write(&self, path: &Path, contents: &[u8], write_as: WriteAs) -> io::Result<PathBuf> {
        (self.act)(path);
        self.machine.write(path, contents, write_as)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.machine.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.machine.remove(path)
    }

    fn list(&self, folder: &Path, most: usize) -> io::Result<Listing> {
        self.machine.list(folder, most)
    }
}

impl Ops for Memory {
    fn execute(&self, _: Command) -> OpsFuture<'_, Result<Outcome, StartError>> {
        panic!("no commands here")
    }

    fn open(&self, path: &Path) -> io::Result<OpenFile> {
        if let Some((times, token)) = self.endless.lock().unwrap().clone() {
            return Ok(OpenFile {
                real_path: path.into(),
                kind: FileKind::File,
                size: 0,
                mode: 0o644,
                modified: None,
                content: Box::new(Endless(times, token)),
            });
        }
        let files = self.files.lock().unwrap();
        let (kind, bytes, mode) = match files.get(path) {
            Some((bytes, mode)) => (FileKind::File, bytes.clone(), *mode),
            None if files.keys().any(|known| known.starts_with(path)) => {
                (FileKind::Folder, Vec::new(), 0o755)
            }
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        let content = Cursor::new(bytes.clone());
        let content: Box<dyn ReadSeek> = match self.at_end.lock().unwrap().take() {
            Some(token) => Box::new(UpTo(content, token, 0)),
            None => Box::new(content),
        };
        Ok(OpenFile {
            real_path: path.into(),
            kind,
            size: bytes.len() as u64,
            mode,
            modified: None,
            content,
        })
    }

    fn write(&self, path: &Path, contents: &[u8], write_as: WriteAs) -> io::Result<PathBuf> {
        self.check(path)?;
        let mut files = self.files.lock().unwrap();
        let mode = match (files.get(path), write_as) {
            (Some((_, mode)), WriteAs::Replacement) => *mode,
            (None, WriteAs::New { mode }) => mode.unwrap_or(0o644),
            (Some(_), WriteAs::New { .. }) => return Err(io::ErrorKind::AlreadyExists.into()),
            (None, WriteAs::Replacement) => return Err(io::ErrorKind::NotFound.into()),
        };
        files.insert(path.into(), (contents.to_vec(), mode));
        Ok(path.into())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(from)?;
        let mut files = self.files.lock().unwrap();
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.into(), file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check(path)?;
        let mut files = self.files.lock().unwrap();
        files
            .remove(path)
            .map(drop)
            .ok_or(io::ErrorKind::NotFound.into())
    }

    fn list(&self, folder: &Path, most: usize) -> io::Result<Listing> {
        let files = self.files.lock().unwrap();
        let mut names: Vec<FolderEntry> = files
            .keys()
            .filter_map(|path| {
                let rest = path.strip_prefix(folder).ok()?;
                let mut parts = rest.components();
                let name = parts.next()?.as_os_str().to_owned();
                let kind = match parts.next() {
                    None => FileKind::File,
                    Some(_) => FileKind::Folder,
                };
                Some(FolderEntry { name, kind })
            })
            .collect();
        names.dedup();
        if names.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let left_out = names.len().saturating_sub(most);
        names.truncate(most);
        Ok(Listing {
            entries: names,
            left_out,
        })
    }
}

/// A machine and the tools on it.
pub(crate) fn memory() -> (Arc<Memory>, crate::room::Room) {
    let memory = Arc::new(Memory::default());
    let room = crate::room::Room::on(memory.clone(), Path::new("/w"));
    (memory, room)
}
