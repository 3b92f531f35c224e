//! A folder as it is at a time.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The most entries that are looked at.
const MAX_ENTRIES: usize = 10_000;

/// The largest file whose bytes are looked at.
const MAX_FILE: u64 = 16 << 20;

/// What is at each path: its kind, size, time of change, and a hash of its bytes.
pub(super) type Tree = BTreeMap<PathBuf, (String, u64, Option<SystemTime>, u64)>;

pub(super) fn look(folder: &Path) -> io::Result<Tree> {
    let mut tree = Tree::new();
    let mut left = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let about = fs::symlink_metadata(&path)?;
            let kind = about.file_type();
            let hash = if kind.is_file() && about.len() <= MAX_FILE {
                let mut hasher = DefaultHasher::new();
                fs::read(&path)?.hash(&mut hasher);
                hasher.finish()
            } else {
                0
            };
            if kind.is_dir() {
                left.push(path.clone());
            }
            let mode = format!("{kind:?} {:?}", about.permissions());
            tree.insert(path, (mode, about.len(), about.modified().ok(), hash));
            if tree.len() > MAX_ENTRIES {
                let words = format!("it has more than {MAX_ENTRIES} entries");
                return Err(io::Error::other(words));
            }
        }
    }
    Ok(tree)
}

/// A path that is not in both as it is in one.
pub(super) fn difference(before: &Tree, after: &Tree) -> Option<String> {
    let gone = before
        .iter()
        .find(|(path, entry)| after.get(*path) != Some(entry));
    let new = after.iter().find(|(path, _)| !before.contains_key(*path));
    let (path, _) = gone.or(new)?;
    Some(path.display().to_string())
}
