//! The paths of a profile, as they are now: real, and in the order in which they are mounted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::SandboxProfile;

/// Folders that every command has of its own, where mounts are possible.
pub(super) const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];

/// How many sockets are covered at most.
const SOCKETS: usize = 64;

/// Where sockets are out of reach, or belong to the command.
const WITHOUT_SOCKETS: [&str; 6] = ["/run", "/var/run", "/tmp", "/var/tmp", "/dev", "/proc"];

/// The paths of a profile without links, as far as they exist.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Places {
    pub(super) writable: Vec<PathBuf>,
    pub(super) read_only: Vec<PathBuf>,
    pub(super) hidden: Vec<PathBuf>,
    pub(super) temp: PathBuf,
    /// What is seen as it is, also where a temporary folder is laid over it.
    pub(super) seen: Vec<PathBuf>,
    /// Whether a path that is not to be written does not exist yet, or is a link that can be
    /// replaced.
    pub(super) has_missing: bool,
}

/// Something that is laid over a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mount {
    /// The private folder.
    Temporary(PathBuf),
    /// The path itself, to be written.
    Writable(PathBuf),
    /// The path itself, not to be written.
    ReadOnly(PathBuf),
    /// An empty folder.
    HiddenFolder(PathBuf),
    /// A file that cannot be read.
    HiddenFile(PathBuf),
}

impl Places {
    /// # Errors
    /// The private folder is not there.
    pub(super) fn of(profile: &SandboxProfile) -> io::Result<Self> {
        let real = |paths: &[PathBuf]| -> Vec<PathBuf> {
            let paths = paths.iter();
            paths.filter_map(|path| path.canonicalize().ok()).collect()
        };
        let temp = profile.temp.canonicalize()?;
        let mut writable = real(&profile.writable);
        writable.push(temp.clone());
        writable.sort();
        writable.dedup();
        let mut read_only = Vec::new();
        let mut has_missing = false;
        for path in &profile.read_only {
            has_missing |= fs::symlink_metadata(path).map_or(true, |kind| kind.is_symlink());
            if let Ok(path) = path.canonicalize()
                && writable.iter().any(|folder| path.starts_with(folder))
            {
                read_only.push(path);
            }
        }
        read_only.sort();
        read_only.dedup();
        Ok(Self {
            writable,
            read_only,
            hidden: real(&profile.hidden),
            temp,
            seen: Vec::new(),
            has_missing,
        })
    }

    /// The deepest of the folders that holds a path.
    fn deepest<'a>(folders: &'a [PathBuf], path: &Path) -> Option<&'a Path> {
        let folders = folders.iter().filter(|folder| path.starts_with(folder));
        folders
            .max_by_key(|folder| folder.components().count())
            .map(PathBuf::as_path)
    }

    fn is_below_hidden(&self, path: &Path) -> bool {
        let hidden = Self::deepest(&self.hidden, path);
        hidden.is_some_and(|hidden| {
            Self::deepest(&self.writable, path).is_none_or(|writable| hidden.starts_with(writable))
        })
    }

    /// Whether something hidden lies in a folder that is written.
    pub(super) fn has_hidden_inside(&self) -> bool {
        let mut hidden = self.hidden.iter();
        hidden.any(|path| Self::deepest(&self.writable, path).is_some())
    }

    /// What is laid over what, the deeper ones later.
    pub(super) fn mounts(&self) -> Vec<Mount> {
        let is_kept = |path: &&PathBuf| {
            let mut kept = self.read_only.iter();
            !kept.any(|kept| path.starts_with(kept)) || **path == self.temp
        };
        let writable = self.writable.iter().filter(is_kept).cloned();
        let mut mounts: Vec<Mount> = writable.map(Mount::Writable).collect();
        mounts.extend(self.hidden.iter().map(|path| cover(path.clone())));
        mounts.extend(self.seen.iter().cloned().map(Mount::ReadOnly));
        let temporary = TEMPORARY.map(PathBuf::from).into_iter();
        let temporary = temporary.filter(|folder| !self.writable.contains(folder));
        mounts.extend(temporary.map(Mount::Temporary));
        for path in &self.read_only {
            let above = |other: &PathBuf| other != path && path.starts_with(other);
            if self.is_below_hidden(path) || self.read_only.iter().any(above) {
                continue;
            }
            let Some(writable) = Self::deepest(&self.writable, path) else {
                continue;
            };
            // A folder on the way could be renamed, and another one put in its place. One on
            // which something is mounted cannot.
            let way = path.ancestors().skip(1);
            let way = way.take_while(|folder| *folder != writable && folder.starts_with(writable));
            mounts.extend(way.map(|folder| Mount::Writable(folder.to_path_buf())));
            mounts.push(Mount::ReadOnly(path.clone()));
        }
        mounts.sort_by(|a, b| {
            let depth = |mount: &Mount| mount.path().components().count();
            depth(a).cmp(&depth(b)).then_with(|| a.path().cmp(b.path()))
        });
        mounts.dedup();
        mounts
    }

    /// Where a path of a command that has temporary folders of its own lies outside.
    pub(crate) fn outside(&self, path: &Path) -> PathBuf {
        let writable = Self::deepest(&self.writable, path);
        for folder in TEMPORARY {
            if writable.is_some_and(|writable| writable.starts_with(folder)) {
                break;
            }
            if let Ok(rest) = path.strip_prefix(folder) {
                // Joined to nothing it would get a slash at its end.
                return if rest.as_os_str().is_empty() {
                    self.temp.clone()
                } else {
                    self.temp.join(rest)
                };
            }
        }
        path.to_path_buf()
    }

    /// Sockets on which somebody listens and that a mount can cover.
    pub(super) fn sockets(&self) -> Vec<PathBuf> {
        let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let mut found: Vec<PathBuf> = listening(&table)
            .filter(|path| {
                let mut known = WITHOUT_SOCKETS.iter();
                !known.any(|folder| path.starts_with(folder))
                    && Self::deepest(&self.writable, path).is_none()
                    && !self.is_below_hidden(path)
                    && path.canonicalize().is_ok_and(|real| real == *path)
            })
            .map(Path::to_path_buf)
            .collect();
        found.sort();
        found.dedup();
        found.truncate(SOCKETS);
        found
    }
}

impl Mount {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Temporary(path)
            | Self::Writable(path)
            | Self::ReadOnly(path)
            | Self::HiddenFolder(path)
            | Self::HiddenFile(path) => path,
        }
    }
}

fn cover(path: PathBuf) -> Mount {
    if path.is_dir() {
        Mount::HiddenFolder(path)
    } else {
        Mount::HiddenFile(path)
    }
}

/// The paths in the kernel's table of Unix sockets on which somebody listens.
fn listening(table: &str) -> impl Iterator<Item = &Path> {
    /// It takes connections.
    const ACCEPTS: &str = "00010000";
    table.lines().filter_map(|line| {
        // Number, count, protocol, flags, type, state, inode, and a path that may hold spaces.
        let path = line.get(line.find(" /")? + 1..)?;
        let flags = line.split_ascii_whitespace().nth(3)?;
        (flags == ACCEPTS).then_some(Path::new(path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(writable: &[&str], read_only: &[&str], hidden: &[&str]) -> Places {
        let list = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
        Places {
            writable: list(writable),
            read_only: list(read_only),
            hidden: list(hidden),
            temp: "/cache/t".into(),
            seen: Vec::new(),
            has_missing: false,
        }
    }

    fn shown(places: &Places) -> Vec<String> {
        let mounts = places.mounts();
        let mounts = mounts.iter().map(|mount| {
            let kind = match mount {
                Mount::Temporary(_) => 't',
                Mount::Writable(_) => 'w',
                Mount::ReadOnly(_) => 'r',
                Mount::HiddenFolder(_) | Mount::HiddenFile(_) => 'h',
            };
            format!("{kind} {}", mount.path().display())
        });
        mounts.collect()
    }

    #[test]
    fn what_is_deeper_comes_later_and_the_way_to_it_is_held() {
        let places = places(
            &["/a/b/w", "/cache/t", "/a"],
            &[
                "/a/b/w/.git/hooks",
                "/a/b/w/.git/config",
                "/a/b/w/.git/hooks/x",
                "/a/b/h/x",
            ],
            &["/a/b", "/a/b/h", "/cache"],
        );
        assert_eq!(
            shown(&places),
            [
                "w /a",
                "h /cache",
                "t /tmp",
                "h /a/b",
                "w /cache/t",
                "t /var/tmp",
                "h /a/b/h",
                "w /a/b/w",
                "w /a/b/w/.git",
                "r /a/b/w/.git/config",
                "r /a/b/w/.git/hooks",
            ]
        );
    }

    #[test]
    fn what_is_written_and_not_written_is_not_written() {
        let places = places(&["/a", "/a/x/y", "/cache/t"], &["/a", "/a/x/y"], &[]);
        assert_eq!(
            shown(&places),
            ["r /a", "t /tmp", "w /cache/t", "t /var/tmp"]
        );
    }

    #[test]
    fn temporary_paths_lie_elsewhere() {
        let places = places(&["/tmp/w", "/cache/t"], &[], &[]);
        for (inside, outside) in [
            ("/tmp", "/cache/t"),
            ("/tmp/x y", "/cache/t/x y"),
            ("/var/tmp/x", "/cache/t/x"),
            ("/tmp/w/x", "/tmp/w/x"),
            ("/tmpx", "/tmpx"),
            ("/cache/t/x", "/cache/t/x"),
            ("/", "/"),
        ] {
            assert_eq!(places.outside(Path::new(inside)), Path::new(outside));
        }
        let wide = super::tests::places(&["/", "/var/tmp/w", "/cache/t"], &[], &[]);
        assert_eq!(wide.outside(Path::new("/tmp/x")), Path::new("/cache/t/x"));
        let path = Path::new("/var/tmp/w/x");
        assert_eq!(wide.outside(path), path);
    }

    #[test]
    fn sockets_are_read_from_the_table() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                     0: 00000002 00000000 00010000 0001 01 16 /a b/s\n\
                     0: 00000002 00000000 00010000 0001 01 17 @/abstract /x\n\
                     0: 00000003 00000000 00000000 0001 03 18 /connected\n\
                     0: 00000003 00000000 00000000 0001 03 19\n";
        let found: Vec<&Path> = listening(table).collect();
        assert_eq!(found[0], Path::new("/a b/s"));
        assert!(!found.contains(&Path::new("/connected")));
    }
}
