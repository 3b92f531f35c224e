//! Walking the workspace.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ignore::WalkBuilder;

use super::state::{Kind, Stamp};
use super::tree::{Bounds, Quit, Refusal};

/// What there is, by its path below the workspace.
#[derive(Default)]
pub(super) struct Listing {
    pub(super) entries: Vec<(PathBuf, Kind, Stamp)>,
}

pub(super) fn is_cancelled(quit: Quit<'_>) -> Result<(), Refusal> {
    if quit() {
        return Err(Refusal::Cancelled);
    }
    Ok(())
}

/// The kind and stamp of what is at a path; `None` if nothing is, or nothing can be told.
pub(super) fn stamp(path: &Path) -> Option<(Kind, Stamp)> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    Some((Kind::of(&metadata), Stamp::of(&metadata)))
}

/// Lists what git's rules do not leave out, the workspace's folder itself included.
pub(super) fn walk(
    base: &Path,
    except: &Path,
    bounds: &Bounds,
    quit: Quit<'_>,
) -> Result<Listing, Refusal> {
    let until = Instant::now() + bounds.walk;
    for folder in base.ancestors() {
        has_plain_rules(folder)?;
    }
    let apart = except.to_owned();
    let walk = WalkBuilder::new(base)
        .hidden(false)
        .ignore(false)
        .require_git(false)
        .follow_links(false)
        .current_dir(base)
        .filter_entry(move |entry| {
            entry.file_name() != ".git"
                && entry.path() != apart
                && (!entry.file_type().is_some_and(|kind| kind.is_dir())
                    || has_plain_rules(entry.path()).is_ok())
        })
        .build();
    let mut listing = Listing::default();
    for entry in walk {
        // A folder that may not be read is as good as empty.
        let Ok(entry) = entry else { continue };
        if listing.entries.len() >= bounds.entries {
            return Err(Refusal::Because(format!(
                "the workspace has more than {} files",
                bounds.entries
            )));
        }
        if listing.entries.len().is_multiple_of(256) {
            is_cancelled(quit)?;
            if Instant::now() > until {
                return Err(Refusal::Because(format!(
                    "looking through the workspace takes longer than {} s",
                    bounds.walk.as_secs()
                )));
            }
        }
        let (Ok(below), Some((kind, stamp))) = (
            entry.path().strip_prefix(base),
            entry
                .metadata()
                .ok()
                .map(|metadata| (Kind::of(&metadata), Stamp::of(&metadata))),
        ) else {
            continue;
        };
        listing.entries.push((below.to_owned(), kind, stamp));
    }
    Ok(listing)
}

/// What is read as a file of rules must be one: a pipe of that name would never be read to its end.
fn has_plain_rules(folder: &Path) -> Result<(), Refusal> {
    let path = folder.join(".gitignore");
    match std::fs::metadata(&path) {
        Ok(metadata) if !metadata.is_file() => {
            Err(Refusal::Because(format!("{} is no file", path.display())))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

impl Listing {
    /// Adds those of these paths that are there.
    pub(super) fn add_missing<'p>(&mut self, base: &Path, paths: impl Iterator<Item = &'p Path>) {
        let listed: HashSet<&Path> = self.entries.iter().map(|(path, ..)| &**path).collect();
        let missing: Vec<_> = paths
            .filter(|path| !listed.contains(path))
            .filter_map(|path| Some((path, stamp(&base.join(path))?)))
            .collect();
        drop(listed);
        let missing = missing.into_iter();
        self.entries
            .extend(missing.map(|(path, (kind, stamp))| (path.to_owned(), kind, stamp)));
    }
}
