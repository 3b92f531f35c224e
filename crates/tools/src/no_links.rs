//! Opening absolute paths without following any link.
//!
//! A path is resolved once, when the policy judges the call. What opens the result must not resolve
//! it again, since a command that runs at the same time may have put a link in its place. These
//! functions fail where a part of the path is a link, so that what is opened is what was judged.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, Stat, mkdirat, openat, openat2, statat,
};
use rustix::io::Errno;

const FOLDER: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Opens a path. With `OFlags::PATH` the last part may be a link, which is opened itself.
///
/// # Errors
/// If a part of the path is a link, and as the system says.
pub fn open(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    match opened {
        // Not every kernel has the call, and not every container lets it through.
        Err(Errno::NOSYS | Errno::PERM) => walk(path, flags),
        other => other.map_err(error),
    }
}

/// Opens a regular file to be read. Does not wait for a pipe, and runs no driver of a terminal.
///
/// # Errors
/// As [`open`], and if it is no regular file.
pub fn open_file(path: &Path) -> io::Result<File> {
    let file = File::from(open(
        path,
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
    )?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(file)
}

/// Returns what the system says of a path. A link in the last part is looked at itself.
///
/// # Errors
/// As [`open`].
pub fn stat(path: &Path) -> io::Result<Stat> {
    Ok(rustix::fs::fstat(open(path, OFlags::PATH)?)?)
}

/// The same part by part, for systems without `openat2`.
fn walk(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let mut folder = openat(
        CWD,
        if path.is_absolute() { "/" } else { "." },
        FOLDER,
        Mode::empty(),
    )?;
    let mut parts = path.components().filter_map(name).peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return openat(&folder, part, flags, Mode::empty()).map_err(error);
        }
        folder = openat(&folder, part, FOLDER, Mode::empty()).map_err(error)?;
    }
    Ok(openat(&folder, ".", flags, Mode::empty())?)
}

fn name(part: Component<'_>) -> Option<&OsStr> {
    match part {
        Component::Normal(name) => Some(name),
        Component::ParentDir => Some("..".as_ref()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    }
}

/// A directory that was reached without following a link, and a name in it.
#[derive(Debug)]
pub struct Entry<'p> {
    folder: OwnedFd,
    /// The name of the entry.
    pub name: &'p OsStr,
}

impl<'p> Entry<'p> {
    /// Opens the directory of a path.
    ///
    /// # Errors
    /// As [`open`], and if the path has no name.
    pub fn open(path: &'p Path) -> io::Result<Self> {
        let (parent, name) = split(path)?;
        let folder = open(parent, OFlags::PATH | OFlags::DIRECTORY)?;
        Ok(Self { folder, name })
    }

    /// The same; directories that are missing are created with this mode.
    ///
    /// # Errors
    /// As [`Entry::open`].
    pub fn create(path: &'p Path, mode: Mode) -> io::Result<Self> {
        match Self::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        let (parent, name) = split(path)?;
        let above = Self::create(parent, mode)?;
        match mkdirat(&above.folder, above.name, mode) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let folder = openat(&above.folder, above.name, FOLDER, Mode::empty()).map_err(error)?;
        Ok(Self { folder, name })
    }

    /// The directory, which is open to be named and not to be read.
    #[must_use]
    pub fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Returns what the system says of the entry; a link is looked at itself.
    ///
    /// # Errors
    /// As the system says.
    pub fn stat(&self) -> io::Result<Stat> {
        Ok(statat(&self.folder, self.name, AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

fn split(path: &Path) -> io::Result<(&Path, &OsStr)> {
    let parts = path.parent().zip(path.file_name());
    parts.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it names no file"))
}

fn error(errno: Errno) -> io::Error {
    if errno == Errno::LOOP {
        return io::Error::other(
            "a part of the path is a link now, so this is not the place that was judged",
        );
    }
    errno.into()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    type Open = fn(&Path, OFlags) -> io::Result<OwnedFd>;

    #[test]
    fn no_part_of_a_path_may_be_a_link() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("real/sub")).unwrap();
        fs::write(root.join("real/sub/f"), "x").unwrap();
        symlink("real", root.join("link")).unwrap();
        symlink("f", root.join("real/sub/to_f")).unwrap();
        for open in [open as Open, walk as Open] {
            let opens =
                |path: &str, flags| open(&root.join(path), flags | OFlags::NOFOLLOW).is_ok();
            assert!(opens("real/sub/f", OFlags::RDONLY));
            assert!(opens("real", OFlags::RDONLY | OFlags::DIRECTORY));
            assert!(opens("real/sub/to_f", OFlags::PATH));
            assert!(!opens("real/sub/to_f", OFlags::RDONLY));
            assert!(!opens("link/sub/f", OFlags::RDONLY));
            assert!(!opens("link", OFlags::RDONLY | OFlags::DIRECTORY));
            assert!(!opens("missing", OFlags::RDONLY));
        }
        assert!(Entry::create(&root.join("link/a/b"), Mode::RWXU).is_err());
        assert!(!root.join("real/a").exists());
        let (new, old) = (root.join("real/a/b/c"), root.join("real/sub/f"));
        assert_eq!(Entry::create(&new, Mode::RWXU).unwrap().name, "c");
        assert!(root.join("real/a/b").is_dir());
        assert!(Entry::open(&old).unwrap().stat().is_ok());
        assert!(Entry::open(Path::new("/")).is_err());
    }
}
