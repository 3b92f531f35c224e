//! Files below a folder, reached without following any link.
//!
//! Each folder on the way is opened from the one before it, so that whatever others do meanwhile,
//! nothing outside of the root is read or written.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, fchmod, mkdirat, openat, readlinkat, renameat, statat,
    symlinkat, unlinkat,
};
use rustix::io::Errno;
use tooloop_tools::no_links;

use super::state::MODE_BITS;

/// A folder that paths are below of.
#[derive(Debug)]
pub(super) struct Root(OwnedFd);

/// A name in a folder that is open.
struct Place<'p> {
    folder: OwnedFd,
    name: &'p OsStr,
}

const FOLDER: OFlags = OFlags::DIRECTORY
    .union(OFlags::RDONLY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl Root {
    /// Opens a folder by its real path.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY;
        Ok(Self(no_links::open(path, flags)?))
    }

    /// Where a path below the root is.
    fn place<'p>(&self, below: &'p Path) -> io::Result<Place<'p>> {
        let mut folder = self.0.try_clone()?;
        let mut parts = below.components().peekable();
        while let Some(part) = parts.next() {
            let Component::Normal(name) = part else { break };
            if parts.peek().is_none() {
                return Ok(Place { folder, name });
            }
            folder = match openat(&folder, name, FOLDER, Mode::empty()) {
                Ok(next) => next,
                // What is opened as a folder and is a link says that it is none, or loops.
                Err(Errno::LOOP | Errno::NOTDIR) => {
                    let there = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
                    return Err(match FileType::from_raw_mode(there.st_mode) {
                        FileType::Symlink => io::Error::new(
                            io::ErrorKind::NotADirectory,
                            "a link is on the way to it",
                        ),
                        // Below a file there is nothing.
                        _ => io::ErrorKind::NotFound.into(),
                    });
                }
                Err(error) => return Err(error.into()),
            };
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it names nothing below the folder",
        ))
    }

    /// Opens a plain file. Never waits: what became a pipe meanwhile is opened and closed.
    pub(super) fn file(&self, below: &Path) -> io::Result<File> {
        let place = self.place(below)?;
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(openat(&place.folder, place.name, flags, Mode::empty())?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is no plain file",
            ));
        }
        Ok(file)
    }

    /// What is at a path, if all folders on the way are there and are no links. A link at the path
    /// itself is looked at.
    pub(super) fn metadata(&self, below: &Path) -> io::Result<Metadata> {
        let place = self.place(below)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        File::from(openat(&place.folder, place.name, flags, Mode::empty())?).metadata()
    }

    pub(super) fn link(&self, below: &Path) -> io::Result<Vec<u8>> {
        let place = self.place(below)?;
        Ok(readlinkat(&place.folder, place.name, Vec::new())?.into_bytes())
    }

    /// Puts a file there, in place of whatever file or link is there. Whoever looks finds the old
    /// one or the new one.
    pub(super) fn write(&self, below: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
        let place = self.place(below)?;
        place.replace(|name| {
            let flags =
                OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let file = openat(&place.folder, name, flags, Mode::from_raw_mode(0o600))?;
            Ok(Box::new(move || {
                let mut file = File::from(file);
                file.write_all(bytes)?;
                fchmod(&file, Mode::from_raw_mode(mode & MODE_BITS))?;
                file.sync_data()
            }))
        })
    }

    /// Puts a link there, in place of whatever file or link is there.
    pub(super) fn write_link(&self, below: &Path, target: &OsStr) -> io::Result<()> {
        let place = self.place(below)?;
        place.replace(|name| {
            symlinkat(target, &place.folder, name)?;
            Ok(Box::new(|| Ok(())))
        })
    }

    /// Makes a folder, or gives the one that is there this mode.
    pub(super) fn make_folder(&self, below: &Path, mode: u32) -> io::Result<()> {
        let place = self.place(below)?;
        match mkdirat(&place.folder, place.name, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let folder = openat(&place.folder, place.name, FOLDER, Mode::empty())?;
        Ok(fchmod(&folder, Mode::from_raw_mode(mode & MODE_BITS))?)
    }

    /// Removes a file or a link.
    pub(super) fn remove(&self, below: &Path) -> io::Result<()> {
        let place = self.place(below)?;
        Ok(unlinkat(&place.folder, place.name, AtFlags::empty())?)
    }

    /// Removes an empty folder.
    pub(super) fn remove_folder(&self, below: &Path) -> io::Result<()> {
        let place = self.place(below)?;
        Ok(unlinkat(&place.folder, place.name, AtFlags::REMOVEDIR)?)
    }
}

type Fill<'f> = Box<dyn FnOnce() -> io::Result<()> + 'f>;

impl Place<'_> {
    /// Makes something under another name and moves it here.
    fn replace<'f>(&self, make: impl Fn(&str) -> Result<Fill<'f>, Errno>) -> io::Result<()> {
        let process = std::process::id();
        for number in 0..1000_u32 {
            let name = format!(".tooloop-rewind-{process}-{number}");
            let fill = match make(&name) {
                Ok(fill) => fill,
                Err(Errno::EXIST) => continue,
                Err(error) => return Err(error.into()),
            };
            let moved =
                fill().and_then(|()| Ok(renameat(&self.folder, &*name, &self.folder, self.name)?));
            if moved.is_err() {
                let _gone = unlinkat(&self.folder, &*name, AtFlags::empty());
            }
            return moved;
        }
        Err(Errno::EXIST.into())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn nothing_is_reached_through_a_link() {
        let scratch = tempfile::tempdir().unwrap();
        let (inside, outside) = (scratch.path().join("in"), scratch.path().join("out"));
        fs::create_dir_all(inside.join("real")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("f"), "theirs").unwrap();
        symlink(&outside, inside.join("link")).unwrap();
        symlink(outside.join("f"), inside.join("real/f")).unwrap();
        let root = Root::open(&inside).unwrap();
        let through = Path::new("link/f");
        assert!(root.file(through).is_err());
        assert!(root.write(through, b"ours", 0o644).is_err());
        assert!(root.write_link(through, OsStr::new("x")).is_err());
        assert!(root.remove(through).is_err());
        assert!(root.make_folder(Path::new("link/d"), 0o755).is_err());
        assert!(root.write(Path::new("../out/f"), b"ours", 0o644).is_err());
        // A link at the place itself is replaced, not followed.
        assert!(root.file(Path::new("real/f")).is_err());
        root.write(Path::new("real/f"), b"ours", 0o640).unwrap();
        assert_eq!(fs::read(inside.join("real/f")).unwrap(), b"ours");
        let mode = fs::metadata(inside.join("real/f")).unwrap().permissions();
        assert_eq!(mode.mode() & 0o7777, 0o640);
        assert_eq!(fs::read(outside.join("f")).unwrap(), b"theirs");
        root.write_link(Path::new("real/f"), OsStr::new("gone"))
            .unwrap();
        assert_eq!(root.link(Path::new("real/f")).unwrap(), b"gone");
        assert_eq!(fs::read_dir(inside.join("real")).unwrap().count(), 1);
    }
}
