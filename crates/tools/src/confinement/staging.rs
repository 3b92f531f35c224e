//! A grant for a path that does not exist yet, and for nothing beside it.
//!
//! Where mounts are possible, a command sees another directory in place of the one that the path is to
//! be in: what is there is read-only in it, and what the command makes goes into the other one. When
//! the command has ended, what it made at the granted paths is moved to where it belongs, and all else
//! is dropped. Elsewhere an empty file is made before the command, granted alone, and removed if the
//! command did not touch it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, FileTimes, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;

use rustix::fs::{Access, CWD, FlockOperation, RenameFlags, access, flock, renameat_with};
use tooloop_exec::{SandboxProfile, StagedDirectory};
use tooloop_tool::ToolError;

use super::guard::Removal;
use super::removal::{Parent, resolved};

/// How many entries a directory may have in which something new is granted: each is a mount.
const MOST_ENTRIES: usize = 4096;

/// How the names of private directories begin. What a killed run left is removed by its name.
const NAME: &str = "tooloop-private-";

/// Paths that are granted and do not exist yet.
#[derive(Debug, Default)]
pub(super) struct Staging {
    directories: Vec<Staged>,
    /// Empty files that were made where there are no mounts.
    files: Vec<PathBuf>,
    /// What is never written, even below a granted path.
    obeyed: Vec<PathBuf>,
}

/// A directory in which something new is granted.
#[derive(Debug)]
struct Staged {
    path: PathBuf,
    shown: Private,
    /// What was in it.
    entries: BTreeSet<OsString>,
    /// The granted paths, from the directory on.
    granted: Vec<PathBuf>,
}

/// A directory that no command sees under this path. Dropping it removes it.
#[derive(Debug)]
struct Private {
    path: PathBuf,
    /// Others remove what is not locked.
    _lock: File,
}

impl Private {
    fn create(beside: &Path) -> io::Result<Self> {
        let folder = beside.parent().unwrap_or(beside);
        let number = RandomState::new().hash_one(0);
        let path = folder.join(format!("{NAME}{number:x}-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path)?;
        let lock = File::open(&path)?;
        flock(&lock, FlockOperation::LockExclusive)?;
        Ok(Self { path, _lock: lock })
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        if let Some((parent, name)) = self.path.parent().zip(self.path.file_name()) {
            // What cannot be removed is removed by a later run.
            Parent::open(parent)
                .and_then(|parent| parent.remove(name))
                .unwrap_or_default();
        }
    }
}

impl Staging {
    /// Prepares a profile for these granted paths.
    ///
    /// # Errors
    /// A directory has too many entries, or there is no place for private ones.
    pub(super) fn prepare(
        granted: Vec<PathBuf>,
        obeyed: &[PathBuf],
        has_mounts: bool,
        profile: &mut SandboxProfile,
    ) -> Result<Self, ToolError> {
        let mut staging = Self::default();
        for path in granted {
            let place = resolved(&path);
            let is_open = |root: &PathBuf| place.starts_with(root);
            if profile.writable.iter().chain([&profile.temp]).any(is_open) {
                continue;
            }
            let is_obeyed = obeyed.iter().any(|obeyed| place.starts_with(obeyed));
            let climbs = path.components().any(|part| part == Component::ParentDir);
            let parent = place.ancestors().skip(1).find(|parent| parent.is_dir());
            let Some(parent) = parent.filter(|_| !is_obeyed && !climbs) else {
                continue;
            };
            // Who could not write there without a sandbox cannot in one, and a whole system is not
            // replaced.
            let is_open = access(parent, Access::WRITE_OK | Access::EXEC_OK).is_ok();
            if parent.parent().is_none() || !is_open {
                continue;
            }
            if has_mounts {
                staging.stage(parent, &place, profile)?;
            } else if parent == place.parent().unwrap_or(parent) {
                staging.make_file(place, profile);
            }
        }
        staging.obeyed = obeyed.to_vec();
        Ok(staging)
    }

    fn stage(
        &mut self,
        parent: &Path,
        place: &Path,
        profile: &mut SandboxProfile,
    ) -> Result<(), ToolError> {
        let Ok(rest) = place.strip_prefix(parent) else {
            return Ok(());
        };
        let known = self
            .directories
            .iter_mut()
            .find(|staged| staged.path == parent);
        if let Some(staged) = known {
            staged.granted.push(rest.to_path_buf());
            return Ok(());
        }
        let failed = |error: io::Error| {
            ToolError::Failed(format!(
                "the new path {} cannot be granted: {error}; create it first, and call again",
                place.display()
            ))
        };
        let entries = fs::read_dir(parent).map_err(failed)?;
        let entries: BTreeSet<OsString> = entries
            .flatten()
            .map(|entry| entry.file_name())
            .take(MOST_ENTRIES + 1)
            .collect();
        if entries.len() > MOST_ENTRIES {
            return Err(failed(io::Error::other(format!(
                "{} has more than {MOST_ENTRIES} entries",
                parent.display()
            ))));
        }
        let shown = Private::create(&profile.temp).map_err(failed)?;
        let metadata = fs::metadata(parent).map_err(failed)?;
        let mode = fs::Permissions::from_mode(metadata.mode() & 0o1777 | 0o700);
        fs::set_permissions(&shown.path, mode).map_err(failed)?;
        profile.staged.push(StagedDirectory {
            path: parent.to_path_buf(),
            shown: shown.path.clone(),
        });
        self.directories.push(Staged {
            path: parent.to_path_buf(),
            shown,
            entries,
            granted: vec![rest.to_path_buf()],
        });
        Ok(())
    }

    fn make_file(&mut self, place: PathBuf, profile: &mut SandboxProfile) {
        let mut file = OpenOptions::new();
        let Ok(file) = file.write(true).create_new(true).open(&place) else {
            return;
        };
        // A command that only touches it changes its time.
        let times = FileTimes::new().set_modified(UNIX_EPOCH);
        file.set_times(times).unwrap_or_default();
        profile.writable.push(place.clone());
        self.files.push(place);
    }

    /// Moves what was made at the granted paths to where it belongs, and drops the rest.
    pub(super) fn end(self) -> Vec<Removal> {
        let mut dropped = Vec::new();
        for staged in &self.directories {
            for granted in &staged.granted {
                if let Err(error) = self.commit(staged, granted, &mut dropped) {
                    dropped.push(Removal {
                        path: staged.path.join(granted),
                        why: format!("it could not be moved to its place: {error}"),
                        is_grantable: false,
                    });
                }
            }
            let made = fs::read_dir(&staged.shown.path)
                .into_iter()
                .flatten()
                .flatten();
            for entry in made {
                let name = entry.file_name();
                let is_way = staged
                    .granted
                    .iter()
                    .any(|granted| granted.starts_with(&name));
                if !is_way && !staged.entries.contains(&name) {
                    let granted = staged.granted.iter().map(|path| staged.path.join(path));
                    let granted: Vec<String> =
                        granted.map(|path| path.display().to_string()).collect();
                    dropped.push(Removal {
                        path: staged.path.join(name),
                        why: format!("only {} was granted, so it was dropped", granted.join(", ")),
                        is_grantable: true,
                    });
                }
            }
        }
        for file in &self.files {
            let is_untouched = fs::symlink_metadata(file)
                .is_ok_and(|file| file.is_file() && file.len() == 0 && file.mtime() == 0);
            if is_untouched {
                // If it cannot be removed, an empty file stays.
                fs::remove_file(file).unwrap_or_default();
            }
        }
        dropped
    }

    fn commit(
        &self,
        staged: &Staged,
        granted: &Path,
        dropped: &mut Vec<Removal>,
    ) -> io::Result<()> {
        let (Some(way), Some(name)) = (granted.parent(), granted.file_name()) else {
            return Ok(());
        };
        let Ok(from) = Parent::open(&staged.shown.path.join(way)) else {
            // It was not made, or a link stands on the way to it.
            return Ok(());
        };
        if fs::symlink_metadata(from.entry(name)).is_err() {
            return Ok(());
        }
        let place = staged.path.join(granted);
        for obeyed in &self.obeyed {
            let Ok(below) = obeyed.strip_prefix(&place) else {
                continue;
            };
            let inner = staged.shown.path.join(granted).join(below);
            let inner = inner.parent().zip(inner.file_name());
            if let Some((parent, name)) = inner
                && let Ok(parent) = Parent::open(parent)
                && parent.remove(name).is_ok()
            {
                dropped.push(Removal {
                    path: obeyed.clone(),
                    why: "programs outside of the sandbox obey it, so it was dropped".into(),
                    is_grantable: false,
                });
            }
        }
        fs::create_dir_all(staged.path.join(way))?;
        let to = Parent::open(&staged.path.join(way))?;
        let (from, to) = (from.entry(name), to.entry(name));
        match renameat_with(CWD, &from, CWD, &to, RenameFlags::NOREPLACE) {
            Err(rustix::io::Errno::XDEV | rustix::io::Errno::INVAL) => copy(&from, &to),
            moved => Ok(moved?),
        }
    }
}

/// Copies what lies on another file system, with all below it. Nothing is replaced.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(from)?;
    let kind = metadata.file_type();
    if kind.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    if kind.is_dir() {
        DirBuilder::new().mode(0o700).create(to)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            copy(&from.join(&name), &to.join(&name))?;
        }
    } else if kind.is_file() {
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let flags = i32::try_from(flags.bits()).unwrap_or(0);
        let mut source = OpenOptions::new();
        let source = std::os::unix::fs::OpenOptionsExt::custom_flags(source.read(true), flags);
        let mut target = OpenOptions::new();
        let target = target.write(true).create_new(true);
        let (mut source, mut target) = (source.open(from)?, target.open(to)?);
        io::copy(&mut source, &mut target)?;
        let times = FileTimes::new().set_modified(metadata.modified()?);
        target.set_times(times)?;
    } else {
        // Pipes and sockets have ended with the command.
        return Ok(());
    }
    // Who may not give files away owns all of them.
    chown(to, Some(metadata.uid()), Some(metadata.gid())).unwrap_or_default();
    fs::set_permissions(to, fs::Permissions::from_mode(metadata.mode() & 0o1777))
}

#[cfg(test)]
mod tests {
    use tooloop_exec::SandboxNetwork;

    use super::*;

    struct World {
        _folder: tempfile::TempDir,
        root: PathBuf,
        profile: SandboxProfile,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().canonicalize().unwrap();
            for name in ["out", "temp"] {
                fs::create_dir(root.join(name)).unwrap();
            }
            fs::write(root.join("out/old"), "old").unwrap();
            let profile = SandboxProfile {
                writable: Vec::new(),
                read_only: Vec::new(),
                hidden: Vec::new(),
                temp: root.join("temp"),
                staged: Vec::new(),
                network: SandboxNetwork::Off,
            };
            Self {
                _folder: folder,
                root,
                profile,
            }
        }

        fn prepare(&mut self, granted: &[&str], obeyed: &[&str], has_mounts: bool) -> Staging {
            let all = |paths: &[&str]| -> Vec<PathBuf> {
                paths.iter().map(|path| self.root.join(path)).collect()
            };
            let (granted, obeyed) = (all(granted), all(obeyed));
            Staging::prepare(granted, &obeyed, has_mounts, &mut self.profile).unwrap()
        }

        fn listed(&self) -> Vec<String> {
            let mut all = Vec::new();
            let mut open = vec![self.root.join("out")];
            while let Some(folder) = open.pop() {
                for entry in fs::read_dir(folder).unwrap().flatten() {
                    all.push(
                        entry
                            .path()
                            .strip_prefix(&self.root)
                            .unwrap()
                            .display()
                            .to_string(),
                    );
                    if entry.file_type().unwrap().is_dir() {
                        open.push(entry.path());
                    }
                }
            }
            all.sort();
            all
        }
    }

    #[test]
    fn only_granted_paths_come_to_be() {
        let mut world = World::new();
        let granted = ["out/new", "out/a/b/dir", "out/none"];
        let staging = world.prepare(&granted, &["out/a/b/dir/.rc"], true);
        assert_eq!(world.profile.writable, [] as [PathBuf; 0]);
        let shown = world.profile.staged[0].shown.clone();
        assert_eq!(world.profile.staged.len(), 1);
        assert!(!shown.starts_with(&world.profile.temp));
        // What a command would do there.
        fs::write(shown.join("new"), "new").unwrap();
        fs::write(shown.join("old"), "").unwrap();
        fs::write(shown.join("other"), "other").unwrap();
        fs::create_dir_all(shown.join("a/b/dir/inner")).unwrap();
        fs::write(shown.join("a/b/dir/.rc"), "x").unwrap();
        fs::write(shown.join("a/b/beside"), "x").unwrap();
        let dropped = staging.end();
        let dropped: Vec<_> = dropped.iter().map(|removal| removal.path.clone()).collect();
        assert_eq!(
            dropped,
            ["out/a/b/dir/.rc", "out/other"].map(|path| world.root.join(path))
        );
        assert_eq!(
            world.listed(),
            [
                "out/a",
                "out/a/b",
                "out/a/b/dir",
                "out/a/b/dir/inner",
                "out/new",
                "out/old"
            ]
        );
        assert_eq!(fs::read(world.root.join("out/old")).unwrap(), b"old");
        assert!(!shown.exists());
    }

    #[test]
    fn no_link_leads_what_was_made_elsewhere() {
        let mut world = World::new();
        fs::create_dir(world.root.join("elsewhere")).unwrap();
        let staging = world.prepare(&["out/a/new"], &[], true);
        let shown = world.profile.staged[0].shown.clone();
        fs::write(world.root.join("elsewhere/new"), "x").unwrap();
        symlink(world.root.join("elsewhere"), shown.join("a")).unwrap();
        staging.end();
        assert_eq!(world.listed(), ["out/old"]);
    }

    #[test]
    fn what_is_never_written_is_not_granted() {
        let mut world = World::new();
        let staging = world.prepare(&["out/.rc/x", "new-in-root", "/new"], &["out/.rc"], true);
        let staged: Vec<_> = world
            .profile
            .staged
            .iter()
            .map(|staged| &staged.path)
            .collect();
        assert_eq!(staged, [&world.root]);
        drop(staging);
    }

    #[test]
    fn without_mounts_a_file_is_made_and_removed_if_untouched() {
        for (act, expected) in [
            (None, vec!["out/old"]),
            (Some(""), vec!["out/new", "out/old"]),
            (Some("x"), vec!["out/new", "out/old"]),
        ] {
            let mut world = World::new();
            let staging = world.prepare(&["out/new"], &[], false);
            let path = world.root.join("out/new");
            assert_eq!(world.profile.writable, std::slice::from_ref(&path));
            if let Some(text) = act {
                fs::write(&path, text).unwrap();
            }
            assert_eq!(staging.end(), []);
            assert_eq!(world.listed(), expected);
        }
    }

    #[test]
    fn a_tree_is_copied_to_another_file_system() {
        let world = World::new();
        let from = world.root.join("from");
        fs::create_dir_all(from.join("a")).unwrap();
        fs::write(from.join("a/program"), "x").unwrap();
        fs::set_permissions(from.join("a/program"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("a/program", from.join("link")).unwrap();
        let to = world.root.join("out/to");
        copy(&from, &to).unwrap();
        let mode = fs::metadata(to.join("a/program")).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o755);
        assert_eq!(
            fs::read_link(to.join("link")).unwrap(),
            Path::new("a/program")
        );
        assert!(copy(&from, &to).is_err());
    }
}
