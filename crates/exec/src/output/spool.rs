//! The file that takes the whole of a long output.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Where the whole output of a command lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spool {
    /// The file, byte for byte as the command wrote it.
    pub path: PathBuf,
    /// How many bytes it holds.
    pub bytes: u64,
    /// Whether it is the whole.
    pub state: SpoolState,
}

/// Whether a spool file is the whole of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpoolState {
    /// It is.
    Whole,
    /// It ends where its size limit was reached.
    Capped,
    /// It ends where writing failed, as on a full disk: the reason.
    Failed(String),
}

/// How much of the file is given back where the disk is full: who keeps the record of what was run
/// may have the same disk, and must not stand still for the sake of what was printed.
const GIVEN_BACK: u64 = 1 << 20;

/// A spool file that is being written.
#[derive(Debug)]
pub(crate) struct SpoolFile {
    file: Option<File>,
    limit: u64,
    spool: Spool,
}

impl SpoolFile {
    /// Never fails: a file that cannot be made is told of at the end.
    pub(crate) fn create(path: PathBuf, limit: u64) -> Self {
        let folder = path.parent().unwrap_or_else(|| Path::new("/"));
        let (file, state) = match open(folder, &path) {
            Ok(file) => (Some(file), SpoolState::Whole),
            Err(error) => (None, SpoolState::Failed(error.to_string())),
        };
        Self {
            file,
            limit,
            spool: Spool {
                path,
                bytes: 0,
                state,
            },
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let Some(file) = &mut self.file else { return };
        let room = usize::try_from(self.limit - self.spool.bytes).unwrap_or(usize::MAX);
        let mut rest = bytes.split_at(room.min(bytes.len())).0;
        let mut state = (rest.len() < bytes.len()).then_some(SpoolState::Capped);
        while !rest.is_empty() {
            match file.write(rest) {
                Ok(0) => {
                    state = Some(SpoolState::Failed("nothing could be written".into()));
                    break;
                }
                Ok(written) => {
                    self.spool.bytes += written as u64;
                    rest = rest.split_at(written).1;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    if error.kind() == io::ErrorKind::StorageFull {
                        let kept = self.spool.bytes.saturating_sub(GIVEN_BACK);
                        // Where even this fails, the file keeps what it has.
                        if file.set_len(kept).is_ok() {
                            self.spool.bytes = kept;
                        }
                    }
                    state = Some(SpoolState::Failed(error.to_string()));
                    break;
                }
            }
        }
        if let Some(state) = state {
            self.spool.state = state;
            self.file = None;
        }
    }

    pub(crate) fn finish(self) -> Spool {
        self.spool
    }

    /// Takes the file away again.
    pub(crate) fn discard(self) {
        if self.spool.bytes > 0 || self.file.is_some() {
            // A file that is gone already is as good.
            fs::remove_file(&self.spool.path).unwrap_or_default();
        }
    }
}

fn open(folder: &Path, path: &Path) -> io::Result<File> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let user = rustix::process::geteuid();
    if !user.is_root() && fs::metadata(folder)?.uid() != user.as_raw() {
        // In a place that all may write to, someone else may have made it before.
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the folder belongs to another user",
        ));
    }
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_noted() {
        let path = PathBuf::from("/dev/full");
        let mut full = SpoolFile {
            file: Some(OpenOptions::new().write(true).open(&path).unwrap()),
            limit: 1000,
            spool: Spool {
                path,
                bytes: 0,
                state: SpoolState::Whole,
            },
        };
        full.write(b"some");
        full.write(b"more");
        let spool = full.finish();
        assert!(matches!(&spool.state, SpoolState::Failed(reason) if reason.contains("space")));
        assert_eq!(spool.bytes, 0);
    }
}
