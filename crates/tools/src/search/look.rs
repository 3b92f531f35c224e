//! When files were changed, for very many of them.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, OFlags, Stat};

use crate::no_links;

/// Looks at one file after another, through no link. Quick where many lie in one folder: the way to that is gone
/// only once.
#[derive(Debug, Default)]
pub(super) struct Looker {
    folder: OsString,
    handle: Option<OwnedFd>,
}

/// What is to be known of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// When it was changed: seconds, and nanoseconds in that second.
    pub(super) modified: (i64, u64),
    pub(super) kind: FileType,
}

impl Looker {
    /// Looks at a file, or at a link itself.
    pub(super) fn look(&mut self, path: &Path) -> io::Result<Look> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(seen(&no_links::stat(path)?));
        };
        match self.handle(folder.as_os_str()) {
            None => Ok(seen(&no_links::stat(path)?)),
            Some(handle) => {
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                Ok(seen(&rustix::fs::statat(handle, name, flags)?))
            }
        }
    }

    /// The folder, opened, if the file before was in it too: for one alone it does not pay.
    fn handle(&mut self, folder: &OsStr) -> Option<&OwnedFd> {
        if self.folder != folder {
            self.handle = None;
            folder.clone_into(&mut self.folder);
            return None;
        }
        if self.handle.is_none() {
            let flags = OFlags::PATH | OFlags::DIRECTORY;
            self.handle = no_links::open(Path::new(folder), flags).ok();
        }
        self.handle.as_ref()
    }
}

fn seen(stat: &Stat) -> Look {
    Look {
        modified: (stat.st_mtime, stat.st_mtime_nsec),
        kind: FileType::from_raw_mode(stat.st_mode),
    }
}
