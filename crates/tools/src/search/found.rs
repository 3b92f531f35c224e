//! What a search has found, kept within bounds.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;

use super::GrepMode;
use super::report::{grouped, wide};
use super::root::Root;
use super::sink::{Hits, Keep};

/// How many files are named in a note.
const NAMED: usize = 5;

/// Names of a few files, and how many there are.
#[derive(Debug, Default)]
pub(super) struct Sample {
    pub(super) count: u64,
    first: BTreeSet<OsString>,
}

impl Sample {
    pub(super) fn add(&mut self, path: &Path) {
        self.count += 1;
        self.first.insert(path.as_os_str().to_owned());
        self.shrink();
    }

    fn join(&mut self, other: Self) {
        self.count += other.count;
        self.first.extend(other.first);
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.first.len() > NAMED {
            self.first.pop_last();
        }
    }

    pub(super) fn names(&self, root: &Root) -> String {
        let names: Vec<String> = self
            .first
            .iter()
            .map(|path| root.show(Path::new(path)))
            .collect();
        let mut text = names.join(", ");
        let more = self.count.saturating_sub(wide(names.len()));
        if more > 0 {
            text.push_str(&format!(" and {} more", grouped(more)));
        }
        text
    }
}

/// What one thread, or all of them, found: the first files by path, as many as can be shown.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) keep: Keep,
    pub(super) files: BTreeMap<OsString, Hits>,
    /// How many matches (or files, where only these are shown) are kept, and how long they are.
    kept: usize,
    bytes: usize,
    pub(super) matches: u64,
    pub(super) matching_files: u64,
    pub(super) searched: u64,
    pub(super) binary: Sample,
    pub(super) unfinished: Sample,
    /// Whether it takes whole files in memory to find what is looked for.
    pub(super) in_memory: bool,
}

impl Found {
    pub(super) fn new(keep: Keep) -> Self {
        Self {
            keep,
            files: BTreeMap::new(),
            kept: 0,
            bytes: 0,
            matches: 0,
            matching_files: 0,
            searched: 0,
            binary: Sample::default(),
            unfinished: Sample::default(),
            in_memory: false,
        }
    }

    fn weight(&self, hits: &Hits) -> usize {
        match self.keep.mode {
            GrepMode::Lines => hits.kept,
            GrepMode::Files | GrepMode::Count => 1,
        }
    }

    fn is_full(&self) -> bool {
        self.kept >= self.keep.matches || self.bytes >= self.keep.bytes
    }

    /// Whether a file with this path would be kept.
    pub(super) fn has_room_for(&self, below: &Path) -> bool {
        !self.is_full()
            || self
                .files
                .last_key_value()
                .is_some_and(|(last, _)| below.as_os_str() < last.as_os_str())
    }

    pub(super) fn add(&mut self, below: &Path, hits: Hits) {
        if hits.matches == 0 {
            return;
        }
        if hits.binary {
            self.binary.add(below);
            return;
        }
        self.matches += hits.matches;
        self.matching_files += 1;
        if self.has_room_for(below) {
            self.insert(below.as_os_str().to_owned(), hits);
        }
    }

    fn insert(&mut self, path: OsString, hits: Hits) {
        self.kept += self.weight(&hits);
        self.bytes += path.len() + hits.bytes;
        self.files.insert(path, hits);
        // Those that cannot be shown any more go.
        while let Some((path, last)) = self.files.last_key_value() {
            let kept = self.kept - self.weight(last);
            let bytes = self.bytes - path.len() - last.bytes;
            if kept < self.keep.matches && bytes < self.keep.bytes {
                break;
            }
            (self.kept, self.bytes) = (kept, bytes);
            self.files.pop_last();
        }
    }

    /// Both together.
    pub(super) fn join(mut self, other: Self) -> Self {
        self.matches += other.matches;
        self.matching_files += other.matching_files;
        self.searched += other.searched;
        self.binary.join(other.binary);
        self.unfinished.join(other.unfinished);
        self.in_memory |= other.in_memory;
        for (path, hits) in other.files {
            self.insert(path, hits);
        }
        self
    }
}
