//! Finds repositories and protected entries below the directories that commands write.
//!
//! A search looks at each directory once. What it found is kept, and a later search reads only those
//! directories again whose change time is another one. No program can set that time.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// How many directories are looked at.
pub(super) const MOST: usize = 20_000;

/// A directory that changed so recently may change again without a new time.
const UNSURE_SECONDS: u64 = 1;

/// Searches the same directories again and again.
#[derive(Debug)]
pub(super) struct Scanner {
    /// The most directories that are looked at.
    most: usize,
    roots: Vec<PathBuf>,
    /// Relative paths.
    names: Vec<String>,
    /// What is known of each root.
    known: Mutex<Vec<Directory>>,
}

/// What a search found. No link was followed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Directories of repositories, of submodules and of linked working trees.
    pub(super) repositories: BTreeSet<PathBuf>,
    /// What is called `.git` and is a file or a link.
    pub(super) leads: BTreeSet<PathBuf>,
    /// Protected entries.
    pub(super) entries: BTreeSet<PathBuf>,
    /// Links on the way to protected entries.
    pub(super) links: BTreeSet<PathBuf>,
    /// Directories that were not looked at, because there are too many: nothing below them is known.
    unseen: BTreeSet<PathBuf>,
}

impl Found {
    /// The first directory that was not looked at.
    pub(super) fn first_unseen(&self) -> Option<&Path> {
        self.unseen.first().map(PathBuf::as_path)
    }

    /// Returns whether the search reached a path: only then is it known not to have been there.
    pub(super) fn reached(&self, path: &Path) -> bool {
        self.unseen.is_empty() || !path.ancestors().any(|above| self.unseen.contains(above))
    }
}

/// A directory as it was when it was read. The default is one that was not.
#[derive(Debug, Default)]
struct Directory {
    stamp: Stamp,
    /// The directories in it.
    folders: Vec<(OsString, Self)>,
    /// First parts of protected entries, and whether they are links.
    starts: Vec<(OsString, bool)>,
    /// Whether there is a `.git` that is a file or a link.
    has_lead: bool,
    is_repository: bool,
}

/// Device, number, and change time of a directory.
type Stamp = (u64, u64, i64, i64);

fn stamp(metadata: &Metadata) -> Stamp {
    let (device, number) = (metadata.dev(), metadata.ino());
    (device, number, metadata.ctime(), metadata.ctime_nsec())
}

impl Scanner {
    /// `names`: protected entries, relative to whatever directory they are in.
    pub(super) fn new(roots: Vec<PathBuf>, names: Vec<String>) -> Self {
        let is_below = |path: &Path, root: &PathBuf| path != root && path.starts_with(root);
        let mut outer: Vec<PathBuf> = Vec::with_capacity(roots.len());
        for root in &roots {
            if !outer.contains(root) && !roots.iter().any(|other| is_below(root, other)) {
                outer.push(root.clone());
            }
        }
        Self {
            most: MOST,
            known: Mutex::new(outer.iter().map(|_| Directory::default()).collect()),
            roots: outer,
            names,
        }
    }

    /// The same with another limit.
    #[cfg(test)]
    pub(super) fn at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Searches all of it.
    pub(super) fn scan(&self) -> Found {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = Found::default();
        let roots = self.roots.iter().cloned().zip(known.iter_mut());
        let mut open: VecDeque<(PathBuf, &mut Directory)> = roots.collect();
        let mut seen = 0;
        while seen < self.most
            && let Some((path, directory)) = open.pop_front()
        {
            let metadata = fs::symlink_metadata(&path).ok();
            let Some(metadata) = metadata.filter(Metadata::is_dir) else {
                *directory = Directory::default();
                continue;
            };
            seen += 1;
            let stamp = stamp(&metadata);
            if directory.stamp != stamp {
                self.read(&path, stamp, directory);
            }
            self.add(&path, directory, &mut found);
            let is_repository = directory.is_repository;
            for (name, folder) in &mut directory.folders {
                // Of what a repository stores nothing is run.
                if !(is_repository && name == "objects") {
                    open.push_back((path.join(name), folder));
                }
            }
        }
        found.unseen = open.into_iter().map(|(path, _)| path).collect();
        found
    }

    /// Reads a directory again. What is known of those in it is kept: each has its own stamp.
    fn read(&self, path: &Path, stamp: Stamp, directory: &mut Directory) {
        let folders = std::mem::take(directory).folders;
        let mut folders: HashMap<OsString, Directory> = folders.into_iter().collect();
        let (mut head, mut objects, mut refs, mut common) = (false, false, false, false);
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            head |= name == "HEAD";
            objects |= name == "objects";
            refs |= name == "refs";
            common |= name == "commondir";
            directory.has_lead |= name == ".git" && !kind.is_dir();
            let is_start = |whole: &String| {
                let first = whole.split('/').next();
                first.is_some_and(|first| OsStr::new(first) == name)
            };
            if self.names.iter().any(is_start) {
                directory.starts.push((name.clone(), kind.is_symlink()));
            }
            if kind.is_dir() {
                let folder = folders.remove(&name).unwrap_or_default();
                directory.folders.push((name, folder));
            }
        }
        directory.is_repository =
            head && (objects && refs || common) || path.file_name() == Some(OsStr::new(".git"));
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let changed = u64::try_from(stamp.2).unwrap_or(0);
        if now.is_ok_and(|now| now.as_secs() > changed.saturating_add(UNSURE_SECONDS)) {
            directory.stamp = stamp;
        }
    }

    fn add(&self, path: &Path, directory: &Directory, found: &mut Found) {
        if directory.is_repository {
            found.repositories.insert(path.to_path_buf());
        }
        if directory.has_lead {
            found.leads.insert(path.join(".git"));
        }
        for (start, is_link) in &directory.starts {
            if *is_link {
                found.links.insert(path.join(start));
            }
            let names = self.names.iter().filter(|name| {
                let first = name.split('/').next();
                first.is_some_and(|first| OsStr::new(first) == start)
            });
            for name in names {
                let entry = path.join(name);
                if fs::symlink_metadata(&entry).is_ok() {
                    found.entries.insert(entry);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn repositories_and_entries_are_found_at_any_depth() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let at = |path: &str| root.join(path);
        for path in [
            "a/b/.git/modules/lib/m/objects",
            "a/b/.git/modules/lib/m/refs",
            "a/b/.git/objects/aa/.git",
            "bare/objects",
            "bare/refs",
            "c/.agent",
            "real",
        ] {
            fs::create_dir_all(at(path)).unwrap();
        }
        for path in [
            "a/b/.git/modules/lib/m/HEAD",
            "bare/HEAD",
            "c/.agent/hooks",
            "d.git",
        ] {
            fs::write(at(path), "").unwrap();
        }
        fs::write(at("real/hooks"), "").unwrap();
        fs::write(at("real/.git"), "gitdir: ../bare").unwrap();
        symlink("../real", at("a/.agent")).unwrap();
        let scanner = Scanner::new(
            vec![root.clone(), at("a")],
            vec![".agent/hooks".into(), ".mcp".into()],
        );
        let found = scanner.scan();
        let set = |paths: &[&str]| paths.iter().map(|path| at(path)).collect::<BTreeSet<_>>();
        let expected = Found {
            repositories: set(&["a/b/.git", "a/b/.git/modules/lib/m", "bare"]),
            leads: set(&["real/.git"]),
            entries: set(&["c/.agent/hooks", "a/.agent/hooks"]),
            links: set(&["a/.agent"]),
            unseen: BTreeSet::new(),
        };
        assert_eq!(found, expected);
        // What comes later is found too, and what is gone is not.
        fs::write(at("c/.mcp"), "").unwrap();
        fs::remove_dir_all(at("a")).unwrap();
        let found = scanner.scan();
        assert_eq!(found.entries, set(&["c/.agent/hooks", "c/.mcp"]));
        assert_eq!(found.repositories, set(&["bare"]));
    }
}
