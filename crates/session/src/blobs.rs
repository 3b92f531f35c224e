//! A store of bytes, each kept once under its hash.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Header, inherited_outputs};

/// What is read before it is known whether a temporary file is needed.
const IN_MEMORY: usize = 1 << 20;

/// How a temporary file's name begins.
const UNNAMED: &str = ".new-";

/// The folder for what a session keeps of files: it lies beside the journal and is to be kept as
/// long.
#[must_use]
pub fn files_beside(journal: &Path) -> PathBuf {
    journal.with_extension("files")
}

/// The folders of the sessions that the one with this journal was forked from, the nearest first.
#[must_use]
pub fn inherited_files(journal: &Path, header: &Header) -> Vec<PathBuf> {
    let outputs = inherited_outputs(journal, header);
    outputs.iter().map(|folder| files_beside(folder)).collect()
}

/// Names bytes by their hash (BLAKE3).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlobId(blake3::Hash);

impl BlobId {
    /// The name of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes))
    }

    /// The name of all that can be read, and how much it is.
    ///
    /// # Errors
    /// If reading fails.
    pub fn of_reader(from: &mut dyn Read) -> io::Result<(Self, u64)> {
        let mut hasher = blake3::Hasher::new();
        let size = pour(from, &mut io::sink(), &mut hasher, u64::MAX)?;
        Ok((Self(hasher.finalize()), size.unwrap_or_default()))
    }
}

impl fmt::Debug for BlobId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.to_hex())
    }
}

impl FromStr for BlobId {
    type Err = blake3::HexError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        blake3::Hash::from_hex(text).map(Self)
    }
}

impl Serialize for BlobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.to_hex())
    }
}

impl<'de> Deserialize<'de> for BlobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Why bytes are not kept.
#[derive(Debug, thiserror::Error)]
pub enum NotKept {
    /// They are more than one blob may have.
    #[error("it is larger than {most} bytes")]
    TooLarge {
        /// The most.
        most: u64,
    },
    /// There is no room left for them.
    #[error("{cap} bytes are kept already, which is the most")]
    Full {
        /// The most.
        cap: u64,
    },
    /// They could not be read.
    #[error("it could not be read: {0}")]
    Unreadable(io::Error),
    /// They could not be written.
    #[error("its content could not be kept: {0}")]
    Unwritable(io::Error),
}

/// A store of bytes. The folder is not touched before the first are kept. One process writes to it
/// at a time: whoever holds the lock of the session's journal.
#[derive(Debug)]
pub struct Blobs {
    folder: PathBuf,
    inherited: Vec<PathBuf>,
    cap: u64,
    kept: HashMap<BlobId, u64>,
    bytes: u64,
    is_open: bool,
    newest: u64,
}

impl Blobs {
    /// The store in this folder. What it lacks is looked for in the `inherited` ones, which are
    /// never written to. It never holds more than `cap` bytes.
    #[must_use]
    pub fn new(folder: PathBuf, inherited: Vec<PathBuf>, cap: u64) -> Self {
        Self {
            folder,
            inherited,
            cap,
            kept: HashMap::new(),
            bytes: 0,
            is_open: false,
            newest: 0,
        }
    }

    /// Keeps what can be read, at most `most` bytes. The bytes survive the death of this process
    /// when it returns; a name stands only for bytes that are whole.
    ///
    /// # Errors
    /// If they are not kept. Nothing is left behind then.
    pub fn keep(&mut self, from: &mut dyn Read, most: u64) -> Result<(BlobId, u64), NotKept> {
        let mut start = Vec::new();
        let mut hasher = blake3::Hasher::new();
        from.take(IN_MEMORY as u64)
            .read_to_end(&mut start)
            .map_err(NotKept::Unreadable)?;
        let too_large = || NotKept::TooLarge { most };
        if start.len() as u64 > most {
            return Err(too_large());
        }
        hasher.update(&start);
        if start.len() < IN_MEMORY {
            let id = BlobId(hasher.finalize());
            self.keep_bytes_as(id, &start)?;
            return Ok((id, start.len() as u64));
        }
        self.open().map_err(NotKept::Unwritable)?;
        let (path, mut file) = self.unnamed().map_err(NotKept::Unwritable)?;
        let poured = file
            .write_all(&start)
            .map_err(NotKept::Unwritable)
            .and_then(|()| {
                let rest = most.saturating_sub(start.len() as u64);
                pour(from, &mut file, &mut hasher, rest).map_err(NotKept::Unreadable)
            })
            .and_then(|rest| rest.ok_or_else(too_large));
        let named = poured.and_then(|rest| {
            let size = rest.saturating_add(start.len() as u64);
            let id = BlobId(hasher.finalize());
            self.name(&path, id, size)?;
            Ok((id, size))
        });
        if named.is_err() {
            drop(fs::remove_file(&path));
        }
        named
    }

    /// Keeps these bytes.
    ///
    /// # Errors
    /// If they are not kept.
    pub fn keep_bytes(&mut self, bytes: &[u8]) -> Result<BlobId, NotKept> {
        let id = BlobId::of(bytes);
        self.keep_bytes_as(id, bytes)?;
        Ok(id)
    }

    fn keep_bytes_as(&mut self, id: BlobId, bytes: &[u8]) -> Result<(), NotKept> {
        self.open().map_err(NotKept::Unwritable)?;
        if self.kept.contains_key(&id) {
            return Ok(());
        }
        let size = bytes.len() as u64;
        self.must_fit(size)?;
        let (path, mut file) = self.unnamed().map_err(NotKept::Unwritable)?;
        let written = file.write_all(bytes).map_err(NotKept::Unwritable);
        let named = written.and_then(|()| self.name(&path, id, size));
        if named.is_err() {
            drop(fs::remove_file(&path));
        }
        named
    }

    /// The bytes of this name.
    ///
    /// # Errors
    /// `NotFound` if they are not kept, `InvalidData` if they are not what they were.
    pub fn read(&self, id: BlobId) -> io::Result<Vec<u8>> {
        let folders = std::iter::once(&self.folder).chain(&self.inherited);
        let mut failure = io::Error::from(io::ErrorKind::NotFound);
        for folder in folders {
            match fs::read(folder.join(id.to_string())) {
                Ok(bytes) if BlobId::of(&bytes) == id => return Ok(bytes),
                Ok(_) => {
                    let words = "what was kept is damaged";
                    failure = io::Error::new(io::ErrorKind::InvalidData, words);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Whether bytes of this name are kept, here or where they are inherited from.
    #[must_use]
    pub fn holds(&self, id: BlobId) -> bool {
        let name = id.to_string();
        let mut folders = std::iter::once(&self.folder).chain(&self.inherited);
        folders.any(|folder| folder.join(&name).is_file())
    }

    /// How many bytes are kept here.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The most bytes that are kept here.
    #[must_use]
    pub const fn cap(&self) -> u64 {
        self.cap
    }

    /// What is kept here, with its size.
    pub fn iter(&self) -> impl Iterator<Item = (BlobId, u64)> {
        self.kept.iter().map(|(id, size)| (*id, *size))
    }

    /// Lets go of bytes.
    pub fn remove(&mut self, id: BlobId) {
        if let Some(size) = self.kept.remove(&id) {
            drop(fs::remove_file(self.folder.join(id.to_string())));
            self.bytes = self.bytes.saturating_sub(size);
        }
    }

    /// Looks at what is kept already, and makes the folder.
    ///
    /// # Errors
    /// If the folder cannot be made or read.
    pub fn open(&mut self) -> io::Result<()> {
        if self.is_open {
            return Ok(());
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)?;
        for file in fs::read_dir(&self.folder)? {
            let file = file?;
            let name = file.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(UNNAMED) {
                // A death left it.
                drop(fs::remove_file(file.path()));
            } else if let Ok(id) = name.parse() {
                let size = file.metadata()?.len();
                self.kept.insert(id, size);
                self.bytes = self.bytes.saturating_add(size);
            }
        }
        self.is_open = true;
        Ok(())
    }

    fn must_fit(&self, size: u64) -> Result<(), NotKept> {
        if self.bytes.saturating_add(size) > self.cap {
            return Err(NotKept::Full { cap: self.cap });
        }
        Ok(())
    }

    fn unnamed(&mut self) -> io::Result<(PathBuf, File)> {
        self.newest = self.newest.saturating_add(1);
        let path = self.folder.join(format!("{UNNAMED}{}", self.newest));
        let mut options = OpenOptions::new();
        let options = options.write(true).create_new(true).mode(0o600);
        Ok((path.clone(), options.open(path)?))
    }

    fn name(&mut self, unnamed: &Path, id: BlobId, size: u64) -> Result<(), NotKept> {
        if self.kept.contains_key(&id) {
            drop(fs::remove_file(unnamed));
            return Ok(());
        }
        self.must_fit(size)?;
        let path = self.folder.join(id.to_string());
        fs::rename(unnamed, path).map_err(NotKept::Unwritable)?;
        self.kept.insert(id, size);
        self.bytes = self.bytes.saturating_add(size);
        Ok(())
    }
}

/// Copies what can be read and takes its hash. `None` if there is more than `most`.
fn pour(
    from: &mut dyn Read,
    to: &mut dyn Write,
    hasher: &mut blake3::Hasher,
    most: u64,
) -> io::Result<Option<u64>> {
    let mut piece = vec![0; 64 << 10];
    let mut poured = 0_u64;
    loop {
        let length = match from.read(&mut piece) {
            Ok(0) => return Ok(Some(poured)),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        poured = poured.saturating_add(length as u64);
        if poured > most {
            return Ok(None);
        }
        let bytes = piece.get(..length).unwrap_or_default();
        hasher.update(bytes);
        to.write_all(bytes)?;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn bytes_are_kept_once_for_their_owner_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("s.files/blobs");
        let mut blobs = Blobs::new(folder.clone(), Vec::new(), 1 << 30);
        assert!(!folder.exists());
        let large = vec![7; IN_MEMORY * 2 + 1];
        for bytes in [b"".as_slice(), b"one", &large] {
            let (id, size) = blobs.keep(&mut &*bytes, u64::MAX).unwrap();
            assert_eq!((id, size), (BlobId::of(bytes), bytes.len() as u64));
            assert_eq!(blobs.keep_bytes(bytes).unwrap(), id);
            assert_eq!(blobs.keep(&mut &*bytes, u64::MAX).unwrap().0, id);
            assert_eq!(blobs.read(id).unwrap(), bytes);
            assert!(blobs.holds(id));
        }
        assert_eq!(names(&folder).len(), 3);
        assert_eq!(blobs.bytes(), 3 + large.len() as u64);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        for name in names(&folder) {
            assert_eq!(mode(&folder.join(name)), 0o600);
        }
        // Another life finds them.
        let mut again = Blobs::new(folder, Vec::new(), 1 << 30);
        again.open().unwrap();
        assert_eq!(again.bytes(), blobs.bytes());
    }

    #[test]
    fn what_is_too_much_is_not_kept_and_leaves_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("blobs");
        let mut blobs = Blobs::new(folder.clone(), Vec::new(), 3 << 20);
        let large = vec![1; IN_MEMORY + 5];
        let most = IN_MEMORY as u64 + 4;
        let refused = blobs.keep(&mut large.as_slice(), most);
        assert!(matches!(refused, Err(NotKept::TooLarge { .. })));
        let refused = blobs.keep(&mut b"four".as_slice(), 3);
        assert!(matches!(refused, Err(NotKept::TooLarge { .. })));
        let larger = vec![1; 3 << 20];
        blobs.keep(&mut larger.as_slice(), u64::MAX).unwrap();
        let refused = blobs.keep(&mut b"x".as_slice(), 3);
        assert!(matches!(refused, Err(NotKept::Full { .. })));
        let refused = blobs.keep(&mut large.as_slice(), u64::MAX);
        assert!(matches!(refused, Err(NotKept::Full { .. })));
        assert_eq!(names(&folder), [BlobId::of(&larger).to_string()]);
        blobs.remove(BlobId::of(&larger));
        assert_eq!((blobs.bytes(), names(&folder).len()), (0, 0));
        blobs.keep(&mut b"x".as_slice(), 3).unwrap();
    }

    #[test]
    fn what_is_damaged_or_half_is_never_given_out() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("blobs");
        let mut blobs = Blobs::new(folder.clone(), Vec::new(), 1 << 30);
        let id = blobs.keep_bytes(b"whole").unwrap();
        fs::write(folder.join(id.to_string()), b"who").unwrap();
        let error = blobs.read(id).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        fs::write(folder.join(".new-1"), b"half").unwrap();
        let mut again = Blobs::new(folder.clone(), Vec::new(), 1 << 30);
        again.open().unwrap();
        assert_eq!(names(&folder), [id.to_string()]);
    }

    #[test]
    fn what_is_inherited_is_read_and_never_written() {
        let scratch = tempfile::tempdir().unwrap();
        let (parent, child) = (scratch.path().join("p"), scratch.path().join("c"));
        let mut blobs = Blobs::new(parent.clone(), Vec::new(), 1 << 30);
        let old = blobs.keep_bytes(b"old").unwrap();
        let mut blobs = Blobs::new(child, vec![parent.clone()], 1 << 30);
        let new = blobs.keep_bytes(b"new").unwrap();
        assert_eq!(blobs.read(old).unwrap(), b"old");
        assert_eq!(blobs.read(new).unwrap(), b"new");
        assert!(blobs.holds(old) && blobs.holds(new));
        assert_eq!(names(&parent), [old.to_string()]);
    }
}
