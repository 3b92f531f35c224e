//! Old contents, and how a file becomes a state.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use tooloop_session::{BlobId, Blobs, NotKept};

use super::place::Root;
use super::state::{Kind, PathText, Stamp, State, why};

/// The largest file of which more than its stamp is known.
pub(super) const MOST_FILE: u64 = 64 << 20;

/// Keeps contents and remembers, once, what went wrong with it.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) blobs: Blobs,
    /// What a person should be told.
    trouble: Option<String>,
    is_told: bool,
}

/// What is to be known of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// Its content, if it has at most so many bytes.
    Content(u64),
    /// Which content it is.
    Name,
}

impl Store {
    pub(super) const fn new(blobs: Blobs) -> Self {
        Self {
            blobs,
            trouble: None,
            is_told: false,
        }
    }

    /// What went wrong, once.
    pub(super) fn take_trouble(&mut self) -> Option<String> {
        let trouble = self.trouble.take()?;
        (!std::mem::replace(&mut self.is_told, true)).then_some(trouble)
    }

    pub(super) fn complain(&mut self, words: String) {
        self.trouble.get_or_insert(words);
    }

    /// What is at a path below a root.
    pub(super) fn look(&mut self, root: &Root, below: &Path, want: Want) -> State {
        match root.metadata(below) {
            Ok(metadata) => {
                let stamp = Stamp::of(&metadata);
                self.state(root, below, &Kind::of(&metadata), stamp, want)
            }
            // What lies behind a link lies elsewhere.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                State::Absent
            }
            Err(error) => unknown(&error),
        }
    }

    /// What is at a path, of which this much is known.
    pub(super) fn state(
        &mut self,
        root: &Root,
        below: &Path,
        kind: &Kind,
        stamp: Stamp,
        want: Want,
    ) -> State {
        match kind {
            Kind::Folder => State::Folder {
                mode: stamp.permissions(),
            },
            Kind::Special => State::Special,
            Kind::Link => match root.link(below) {
                Ok(target) => {
                    use std::os::unix::ffi::OsStringExt as _;
                    let target = std::ffi::OsString::from_vec(target);
                    State::Link {
                        target: PathText(PathBuf::from(target)),
                    }
                }
                Err(error) => unknown(&error),
            },
            Kind::File => {
                let most = match want {
                    Want::Content(most) => most.min(MOST_FILE),
                    Want::Name => MOST_FILE,
                };
                if stamp.size > most {
                    return too_large(stamp, most);
                }
                match root.file(below) {
                    Ok(file) => self.content(file, want, most, stamp),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => State::Absent,
                    Err(error) => State::Unkept {
                        why: why(&NotKept::Unreadable(error)),
                        stamp,
                    },
                }
            }
        }
    }

    /// A file with these bytes.
    pub(super) fn given(&mut self, bytes: &[u8], mode: u32) -> State {
        let blob = match self.blobs.keep_bytes(bytes) {
            Ok(blob) => blob,
            Err(error) => {
                self.lost(&error);
                BlobId::of(bytes)
            }
        };
        State::File {
            blob,
            size: bytes.len() as u64,
            mode,
        }
    }

    fn lost(&mut self, error: &NotKept) {
        self.complain(format!(
            "an old content is not kept, so that a rewind cannot restore it: {}",
            why(error)
        ));
    }

    fn content(&mut self, mut file: File, want: Want, most: u64, stamp: Stamp) -> State {
        let unkept = |error: &NotKept| State::Unkept {
            why: why(error),
            stamp,
        };
        let named = match want {
            Want::Name => BlobId::of_reader(&mut file).map_err(NotKept::Unreadable),
            Want::Content(_) => self.blobs.keep(&mut file, most),
        };
        let named = match named {
            Err(error @ (NotKept::Full { .. } | NotKept::Unwritable(_))) => {
                self.lost(&error);
                // Which one it is can be told all the same.
                let again = io::Seek::rewind(&mut file);
                again
                    .and_then(|()| BlobId::of_reader(&mut file))
                    .map_err(NotKept::Unreadable)
            }
            other => other,
        };
        match named {
            Ok((blob, size)) => State::File {
                blob,
                size,
                mode: stamp.permissions(),
            },
            Err(NotKept::TooLarge { most }) => too_large(stamp, most),
            Err(error) => unkept(&error),
        }
    }
}

fn too_large(stamp: Stamp, most: u64) -> State {
    State::Unkept {
        why: why(&NotKept::TooLarge { most }),
        stamp,
    }
}

fn unknown(error: &io::Error) -> State {
    State::Unknown {
        why: error.to_string(),
    }
}
