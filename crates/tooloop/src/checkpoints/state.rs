//! What is at a path.

use std::ffi::OsStr;
use std::fmt;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tooloop_session::{BlobId, NotKept};

/// The bits of a mode that a file can be given.
pub(super) const MODE_BITS: u32 = 0o7777;

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// Nothing.
    Absent,
    Folder {
        mode: u32,
    },
    /// A file. Whether its bytes are kept is for the store to say.
    File {
        blob: BlobId,
        size: u64,
        mode: u32,
    },
    Link {
        target: PathText,
    },
    /// A pipe, a socket or a device.
    Special,
    /// A file that is known from outside only.
    Unkept {
        why: String,
        stamp: Stamp,
    },
    /// Nobody looked.
    Unknown {
        why: String,
    },
}

impl State {
    /// Whether anything is there.
    pub(super) const fn is_there(&self) -> bool {
        !matches!(self, Self::Absent)
    }
}

/// What the system tells of a file without opening it. A file whose stamp is the same has the same
/// content, unless it was taken in the very moment of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    pub(super) mode: u32,
    pub(super) size: u64,
    pub(super) inode: u64,
    /// Nanoseconds since 1970.
    pub(super) modified: i64,
    pub(super) changed: i64,
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        let nanoseconds =
            |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        Self {
            mode: metadata.mode(),
            size: metadata.len(),
            inode: metadata.ino(),
            modified: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Of a file that is to be read whatever it says of itself.
    pub(super) const fn none() -> Self {
        Self {
            mode: 0,
            size: 0,
            inode: 0,
            modified: 0,
            changed: 0,
        }
    }

    /// Whether the file may be changed once more without its stamp telling, if it was read at
    /// `moment`.
    pub(super) fn is_fresh_at(&self, moment: i64) -> bool {
        let newest = self.modified.max(self.changed);
        newest.saturating_add(step_of(self.changed)) >= moment
    }

    pub(super) const fn permissions(&self) -> u32 {
        self.mode & MODE_BITS
    }
}

/// How far a file's time may be behind the clock, generously: times move in steps of at most 10 ms,
/// or of whole seconds where nothing finer is kept.
pub(super) const fn step_of(time: i64) -> i64 {
    if time % 1_000_000_000 == 0 {
        2_000_000_000
    } else {
        20_000_000
    }
}

/// Now, in nanoseconds since 1970.
pub(super) fn now() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_nanos()).ok())
        .unwrap_or_default()
}

/// What kind of thing there is, as far as the system tells without opening it.
pub(super) enum Kind {
    Folder,
    File,
    Link,
    Special,
}

impl Kind {
    pub(super) fn of(metadata: &Metadata) -> Self {
        let kind = metadata.file_type();
        if kind.is_dir() {
            Self::Folder
        } else if kind.is_file() {
            Self::File
        } else if kind.is_symlink() {
            Self::Link
        } else {
            Self::Special
        }
    }
}

/// Why bytes are not kept, for a person.
pub(super) fn why(error: &NotKept) -> String {
    match error {
        NotKept::TooLarge { most } => format!("larger than {} MiB", most >> 20),
        NotKept::Full { cap } => {
            format!(
                "{} MiB of old contents are kept already, which is the most",
                cap >> 20
            )
        }
        NotKept::Unreadable(error) => format!("not readable: {error}"),
        NotKept::Unwritable(error) => format!("its old content could not be kept: {error}"),
    }
}

/// A path, which need not be text: as a string, or as `{"hex": "…"}`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct PathText(pub(super) PathBuf);

impl PathText {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl fmt::Debug for PathText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

#[derive(Serialize, Deserialize)]
struct Hex {
    hex: String,
}

impl Serialize for PathText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => {
                let bytes = self.0.as_os_str().as_bytes();
                let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                Hex { hex }.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for PathText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Text(PathBuf),
            Hex(Hex),
        }
        match Either::deserialize(deserializer)? {
            Either::Text(path) => Ok(Self(path)),
            Either::Hex(Hex { hex }) => {
                let digits = hex.as_bytes().chunks(2);
                let byte = |pair: &[u8]| {
                    let pair = std::str::from_utf8(pair).ok()?;
                    u8::from_str_radix(pair, 16).ok()
                };
                let bytes: Option<Vec<u8>> = digits.map(byte).collect();
                let bytes =
                    bytes.ok_or_else(|| serde::de::Error::custom("no hexadecimal bytes"))?;
                Ok(Self(PathBuf::from(OsStr::from_bytes(&bytes))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_any_bytes_comes_back() {
        for bytes in [b"a/b.txt".as_slice(), "ä \n\"".as_bytes(), b"a\xff/\x80"] {
            let path = PathText(PathBuf::from(OsStr::from_bytes(bytes)));
            let json = serde_json::to_string(&path).unwrap();
            assert_eq!(
                serde_json::from_str::<PathText>(&json).unwrap(),
                path,
                "{json}"
            );
        }
    }
}
