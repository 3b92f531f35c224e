//! What a person has said about folders, in one file of theirs.
//!
//! It holds fingerprints and no settings, so nothing secret is copied into it. It is replaced whole,
//! under a lock, so two programs that write at once lose nothing. A file that cannot be understood
//! trusts nothing and is never overwritten.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The form of the file that is written here.
const VERSION: u32 = 1;

/// No file of this kind is larger.
const MOST_BYTES: u64 = 16 << 20;

/// How often, and after which pause, the lock is tried for.
const TRIES: u32 = 250;
const PAUSE: Duration = Duration::from_millis(20);

/// The file.
#[derive(Debug, Clone)]
pub(crate) struct TrustStore {
    path: PathBuf,
}

/// What was said about one folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) at: Timestamp,
    /// Fingerprints of what is applied.
    #[serde(default)]
    pub(crate) approved: BTreeSet<String>,
    /// Fingerprints of what is left out without another question.
    #[serde(default)]
    pub(crate) declined: BTreeSet<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Content {
    version: u32,
    folders: BTreeMap<String, Entry>,
}

impl TrustStore {
    pub(crate) const fn at(path: PathBuf) -> Self {
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// All folders there are.
    pub(crate) fn folders(&self) -> io::Result<BTreeMap<String, Entry>> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(BTreeMap::new());
            }
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.len() > MOST_BYTES {
            return Err(io::Error::other("it is no file of this program"));
        }
        let content: Content = serde_json::from_reader(io::BufReader::new(file))?;
        if content.version != VERSION {
            return Err(io::Error::other(format!(
                "it has the version {}, this program knows {VERSION}",
                content.version
            )));
        }
        Ok(content.folders)
    }

    /// Puts something down about a folder, or takes it away. Tells whether there was something.
    pub(crate) fn set(&self, folder: &Path, entry: Option<Entry>) -> io::Result<bool> {
        let name = folder
            .to_str()
            .ok_or_else(|| io::Error::other("the folder's name is no text"))?;
        let home = self.path.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).mode(0o700).create(home)?;
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.path.with_extension("lock"))?;
        locked(&lock)?;
        let mut folders = self.folders()?;
        let before = match entry {
            Some(entry) => folders.insert(name.to_owned(), entry),
            None => folders.remove(name),
        };
        self.replace(&Content {
            version: VERSION,
            folders,
        })?;
        Ok(before.is_some())
    }

    fn replace(&self, content: &Content) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let mut text = serde_json::to_string_pretty(content)?;
        text.push('\n');
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &self.path)
    }
}

/// Whoever holds the lock writes a small file.
fn locked(lock: &File) -> io::Result<()> {
    for _ in 0..TRIES {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::Error::other("another program keeps it locked"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(fingerprints: &[&str]) -> Entry {
        Entry {
            at: Timestamp::from_second(1_000_000_000).unwrap(),
            approved: fingerprints.iter().map(ToString::to_string).collect(),
            declined: BTreeSet::new(),
        }
    }

    #[test]
    fn what_was_said_is_found_again_and_can_be_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let store = TrustStore::at(folder.path().join("deep/er/trusted.json"));
        assert_eq!(store.folders().unwrap(), BTreeMap::new());
        assert!(
            !store
                .set(Path::new("/w"), Some(entry(&["a", "b"])))
                .unwrap()
        );
        assert!(!store.set(Path::new("/v"), Some(entry(&[]))).unwrap());
        assert!(store.set(Path::new("/w"), Some(entry(&["c"]))).unwrap());
        let expected = [("/v", entry(&[])), ("/w", entry(&["c"]))];
        let expected = expected.map(|(name, entry)| (name.to_owned(), entry));
        assert_eq!(store.folders().unwrap(), BTreeMap::from(expected));
        assert!(store.set(Path::new("/w"), None).unwrap());
        assert!(!store.set(Path::new("/w"), None).unwrap());
        assert_eq!(store.folders().unwrap().len(), 1);
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(store.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn what_cannot_be_understood_trusts_nothing_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let store = TrustStore::at(folder.path().join("trusted.json"));
        for text in ["", "{", "[]", "{\"version\": 2, \"folders\": {}}"] {
            fs::write(store.path(), text).unwrap();
            assert!(store.folders().is_err(), "{text:?}");
            assert!(store.set(Path::new("/w"), Some(entry(&["a"]))).is_err());
            assert_eq!(fs::read_to_string(store.path()).unwrap(), text);
        }
    }

    #[test]
    fn writers_at_once_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = TrustStore::at(folder.path().join("trusted.json"));
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let store = &store;
                scope.spawn(move || {
                    for number in 0..5 {
                        let folder = format!("/{writer}/{number}");
                        store.set(Path::new(&folder), Some(entry(&["x"]))).unwrap();
                    }
                });
            }
        });
        assert_eq!(store.folders().unwrap().len(), 20);
    }
}
