//! What a machine says of its files.

use std::ffi::OsString;
use std::fmt;
use std::io::{Read, Seek};
use std::path::PathBuf;
use std::time::SystemTime;

/// Bytes that can be read from any place.
pub trait ReadSeek: Read + Seek + Send {}

impl<T: Read + Seek + Send> ReadSeek for T {}

/// What is at a path.
pub struct OpenFile {
    /// The path without links.
    pub real_path: PathBuf,
    /// What kind of thing it is.
    pub kind: FileKind,
    /// Its size in bytes as the file system states it, which need not be true.
    pub size: u64,
    /// Its mode bits.
    pub mode: u32,
    /// When it was changed last, as far as that is known.
    pub modified: Option<SystemTime>,
    /// The bytes of a plain file; nothing for other things.
    pub content: Box<dyn ReadSeek>,
}

impl fmt::Debug for OpenFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("OpenFile")
            .field("real_path", &self.real_path)
            .field("kind", &self.kind)
            .field("size", &self.size)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

/// A kind of thing that has a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// A plain file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link: only in listings.
    Link,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A device.
    Device,
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteAs {
    /// It is not there yet.
    New {
        /// Its mode bits, if they are not to be what the system gives to new files.
        mode: Option<u32>,
    },
    /// It is there, and its mode and owner stay.
    Replacement,
}

/// What is in a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// The first of its entries.
    pub entries: Vec<FolderEntry>,
    /// How many there are beside these.
    pub left_out: usize,
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FolderEntry {
    /// Its name.
    pub name: OsString,
    /// What it is.
    pub kind: FileKind,
}
