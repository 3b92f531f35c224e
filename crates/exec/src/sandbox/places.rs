//! The paths of a profile, as they are now: real, and in the order in which they are mounted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{SandboxProfile, StagedDirectory};

/// Folders that every command has of its own, where mounts are possible.
pub(super) const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];

/// What a command has of its own too.
const DEVICES: &str = "/dev";

/// The paths of a profile without links, as far as they exist.
///
/// The first three lists are sorted, so that a lookup costs as much as a path is deep, however many
/// paths there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Places {
    pub(super) writable: Vec<PathBuf>,
    pub(super) read_only: Vec<PathBuf>,
    pub(super) hidden: Vec<PathBuf>,
    pub(super) temp: PathBuf,
    /// Directories that another one replaces.
    pub(super) staged: Vec<StagedDirectory>,
    /// What is seen as it is, also where a temporary folder is laid over it.
    pub(super) seen: Vec<PathBuf>,
    /// Whether a path that is not to be written does not exist yet, or is a link that can be
    /// replaced.
    pub(super) has_missing: bool,
}

/// Something that is laid over a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mount {
    /// A directory that is seen in place of the path: the path, and the directory.
    Staged(PathBuf, PathBuf),
    /// A link of a directory that another one replaces: it is made again in that one.
    Link(PathBuf),
    /// An entry of such a directory, which need not be there any more.
    Kept(PathBuf),
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
        let writable = sorted(writable);
        let mut read_only = Vec::new();
        let mut has_missing = false;
        for path in &profile.read_only {
            let kind = fs::symlink_metadata(path);
            has_missing |= kind.as_ref().map_or(true, |kind| kind.is_symlink());
            let is_link = kind.is_ok_and(|kind| kind.is_symlink());
            if let Ok(path) = path.canonicalize()
                && nearest(&writable, &path).is_some()
                // What is protected in such a directory is named by itself; the link cannot be kept.
                && !(is_link && writable.binary_search(&path).is_ok())
            {
                read_only.push(path);
            }
        }
        let staged = profile.staged.iter().filter_map(|staged| {
            Some(StagedDirectory {
                path: staged.path.canonicalize().ok()?,
                shown: staged.shown.canonicalize().ok()?,
            })
        });
        Ok(Self {
            writable,
            read_only: sorted(read_only),
            hidden: sorted(real(&profile.hidden)),
            temp,
            staged: staged.collect(),
            seen: Vec::new(),
            has_missing,
        })
    }

    fn is_below_hidden(&self, path: &Path) -> bool {
        let hidden = nearest(&self.hidden, path);
        hidden.is_some_and(|hidden| {
            nearest(&self.writable, path).is_none_or(|writable| hidden.starts_with(writable))
        })
    }

    /// Whether something hidden lies in a folder that is written.
    pub(super) fn has_hidden_inside(&self) -> bool {
        let mut hidden = self.hidden.iter();
        hidden.any(|path| nearest(&self.writable, path).is_some())
    }

    /// What is laid over what, the deeper ones later.
    pub(super) fn mounts(&self) -> Vec<Mount> {
        let mut mounts = Vec::new();
        // What else is laid over one of these paths comes after it.
        for staged in &self.staged {
            let (path, shown) = (staged.path.clone(), staged.shown.clone());
            mounts.extend(kept(&path));
            mounts.push(Mount::Staged(path, shown));
        }
        let is_kept =
            |path: &&PathBuf| nearest(&self.read_only, path).is_none() || **path == self.temp;
        let writable = self.writable.iter().filter(is_kept).cloned();
        mounts.extend(writable.map(Mount::Writable));
        mounts.extend(self.hidden.iter().map(|path| cover(path.clone())));
        mounts.extend(self.seen.iter().cloned().map(Mount::ReadOnly));
        let temporary = TEMPORARY.map(PathBuf::from).into_iter();
        let temporary = temporary.filter(|folder| {
            let is_staged = self.staged.iter().any(|staged| staged.path == *folder);
            !is_staged && !self.writable.contains(folder)
        });
        mounts.extend(temporary.map(Mount::Temporary));
        for path in &self.read_only {
            let is_covered = path
                .parent()
                .is_some_and(|parent| nearest(&self.read_only, parent).is_some());
            if is_covered || self.is_below_hidden(path) {
                continue;
            }
            let Some(writable) = nearest(&self.writable, path) else {
                continue;
            };
            // A folder on the way could be renamed, and another one put in its place. One on
            // which something is mounted cannot.
            let way = path.ancestors().skip(1);
            let way = way.take_while(|folder| *folder != writable && folder.starts_with(writable));
            mounts.extend(way.map(|folder| Mount::Writable(folder.to_path_buf())));
            mounts.push(Mount::ReadOnly(path.clone()));
        }
        mounts.sort_by_cached_key(|mount| {
            let path = mount.path();
            (path.components().count(), path.to_path_buf())
        });
        mounts.dedup();
        mounts
    }

    /// Below which paths a command connects to sockets: where it writes. What is seen as it is
    /// outside, in a directory that the command has of its own, has sockets of others.
    pub(super) fn services(&self) -> Vec<PathBuf> {
        let outside = || {
            let staged = self.staged.iter().map(|staged| &staged.path);
            self.seen.iter().chain(staged)
        };
        let is_own = |folder: &PathBuf| !outside().any(|path| path.starts_with(folder));
        let own = TEMPORARY.map(PathBuf::from).into_iter().filter(is_own);
        let writable = self.writable.iter().cloned();
        writable.chain(own).chain([DEVICES.into()]).collect()
    }

    /// Where a path of a command that has temporary folders of its own lies outside.
    pub(crate) fn outside(&self, path: &Path) -> PathBuf {
        let writable = nearest(&self.writable, path);
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
}

impl Mount {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Staged(path, _)
            | Self::Link(path)
            | Self::Kept(path)
            | Self::Temporary(path)
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

/// The nearest of the sorted paths that is a path or lies above it.
fn nearest<'a>(sorted: &'a [PathBuf], path: &Path) -> Option<&'a Path> {
    path.ancestors()
        .find_map(|above| {
            let place = sorted.binary_search_by(|other| other.as_path().cmp(above));
            place.ok().and_then(|place| sorted.get(place))
        })
        .map(PathBuf::as_path)
}

fn sorted(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    paths.dedup();
    paths
}

/// The entries of a directory that another one replaces. They stay as they are, and are not written.
fn kept(directory: &Path) -> Vec<Mount> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let kept = entries.map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_symlink() => Mount::Link(entry.path()),
        Ok(_) | Err(_) => Mount::Kept(entry.path()),
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(writable: &[&str], read_only: &[&str], hidden: &[&str]) -> Places {
        let list = |paths: &[&str]| sorted(paths.iter().map(PathBuf::from).collect());
        Places {
            writable: list(writable),
            read_only: list(read_only),
            hidden: list(hidden),
            temp: "/cache/t".into(),
            staged: Vec::new(),
            seen: Vec::new(),
            has_missing: false,
        }
    }

    fn shown(places: &Places) -> Vec<String> {
        let mounts = places.mounts();
        let mounts = mounts.iter().map(|mount| {
            let kind = match mount {
                Mount::Staged(..) => 's',
                Mount::Link(_) => 'l',
                Mount::Kept(_) => 'k',
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
    fn another_directory_replaces_one_whose_entries_stay() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        fs::create_dir(root.join("w")).unwrap();
        fs::write(root.join("file"), "").unwrap();
        std::os::unix::fs::symlink("file", root.join("link")).unwrap();
        let workspace = root.join("w").display().to_string();
        let mut places = places(&[&workspace], &[], &[]);
        places.staged.push(StagedDirectory {
            path: root.clone(),
            shown: "/cache/s".into(),
        });
        let shown = shown(&places);
        let below: Vec<String> = shown
            .iter()
            .filter(|mount| mount.contains(&root.display().to_string()))
            .map(|mount| mount.replace(&root.display().to_string(), "P"))
            .collect();
        assert_eq!(below, ["s P", "k P/file", "l P/link", "k P/w", "w P/w"]);
    }

    #[test]
    fn many_paths_take_time_in_proportion() {
        // Each path is compared with those above it, so ten thousand of each kind are no work.
        let all = |name: &str| -> Vec<PathBuf> {
            sorted(
                (0..10_000)
                    .map(|n| format!("/a/{n}{name}").into())
                    .collect(),
            )
        };
        let places = Places {
            writable: all(""),
            read_only: all("/.git/config"),
            hidden: all("/secret"),
            ..places(&[], &[], &[])
        };
        assert_eq!(places.mounts().len(), 40_002);
    }
}
