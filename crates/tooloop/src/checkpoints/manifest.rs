//! What was changed when: a file of JSON lines beside the old contents, and the fold over it.
//!
//! Lines are only appended. Changes are counted from 0 in the order of the file, over all turns,
//! those that were cut off later included; a rewind is one more change of some files. So the state
//! of a file at any place is what it was before the first change from there on, and a turn needs
//! nothing but the place where it began.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::state::{PathText, State};

/// The name of the file.
pub(super) const NAME: &str = "changes.jsonl";

/// The most bytes of it: what comes after is not recorded, and said to be lost.
const MOST: u64 = 256 << 20;

/// Who changed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum By {
    /// A call that named the files.
    Tool,
    /// A call that may change any file.
    Command,
    /// Background work.
    Work,
    /// A rewind.
    Rewind,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// Something is about to be changed: written before it is.
    Begun(Begun),
    /// It was.
    Changed(Changed),
    /// Somebody else changed these.
    Seen { files: Vec<Found> },
    /// The conversation was cut back to before this turn.
    Cut { turn: u32 },
    /// What this call changed is not known.
    Unwatched { turn: u32, why: String },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Begun {
    pub(super) turn: u32,
    pub(super) call: String,
    pub(super) by: By,
    /// What is there before it, of those files that are named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) files: Vec<Found>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Found {
    pub(super) path: PathText,
    pub(super) state: State,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Changed {
    /// The turn in which it was, or the newest one at the time of a rewind.
    pub(super) turn: u32,
    pub(super) by: By,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) files: Vec<Change>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Change {
    pub(super) path: PathText,
    pub(super) before: State,
    pub(super) after: State,
}

/// The fold.
#[derive(Debug, Default)]
pub(super) struct History {
    changes: Vec<(By, Change)>,
    /// Where the changes of each turn begin.
    starts: BTreeMap<u32, usize>,
    /// The conversation was cut back to before this turn, and no turn has begun since.
    cut: Option<u32>,
    unwatched: Vec<(usize, u32, String)>,
    /// What was about to happen when the record ends.
    open: Option<Begun>,
    /// Where the changes of the newest rewind begin.
    newest_rewind: Option<usize>,
}

impl History {
    pub(super) fn apply(&mut self, line: &Line) {
        match line {
            Line::Begun(begun) => self.open = Some(begun.clone()),
            Line::Changed(changed) => {
                if changed.by == By::Rewind {
                    self.newest_rewind = Some(self.changes.len());
                    // Turns without changes began before it.
                    self.catch_up(changed.turn);
                    self.starts
                        .entry(changed.turn)
                        .or_insert(self.changes.len());
                } else if !changed.files.is_empty() {
                    self.begin(changed.turn);
                }
                let files = changed.files.iter().cloned();
                self.changes.extend(files.map(|file| (changed.by, file)));
                if self.open.as_ref().is_some_and(|open| open.by == changed.by) {
                    self.open = None;
                }
            }
            Line::Seen { .. } => {}
            Line::Cut { turn } => {
                self.cut = Some(self.cut.map_or(*turn, |cut| cut.min(*turn)));
            }
            Line::Unwatched { turn, why } => {
                self.begin(*turn);
                self.unwatched
                    .push((self.changes.len(), *turn, why.clone()));
                if self
                    .open
                    .as_ref()
                    .is_some_and(|open| open.by == By::Command)
                {
                    self.open = None;
                }
            }
        }
    }

    fn begin(&mut self, turn: u32) {
        if let Some(cut) = self.cut.take_if(|cut| turn >= *cut) {
            self.starts.split_off(&cut);
        }
        self.starts.split_off(&turn.saturating_add(1));
        self.starts.entry(turn).or_insert(self.changes.len());
    }

    /// Takes note of how many turns the conversation has: some of them may have changed nothing
    /// since it was cut, and are not the ones of that number before.
    pub(super) fn catch_up(&mut self, turns: u32) {
        if let Some(cut) = self.cut.filter(|cut| *cut <= turns) {
            self.begin(cut);
        }
    }

    /// Where the changes of a turn and those after it begin.
    pub(super) fn start_of(&self, turn: u32) -> usize {
        let later = self.starts.range(turn..).map(|(_, start)| *start);
        later.min().unwrap_or(self.changes.len())
    }

    /// Where the newest rewind's changes begin.
    pub(super) const fn newest_rewind(&self) -> Option<usize> {
        self.newest_rewind
    }

    pub(super) const fn open(&self) -> Option<&Begun> {
        self.open.as_ref()
    }

    /// The changes from a place on.
    pub(super) fn since(&self, start: usize) -> &[(By, Change)] {
        self.changes.get(start..).unwrap_or_default()
    }

    /// Each file that was changed, once.
    pub(super) fn named(&self) -> impl Iterator<Item = &Path> {
        let changes = self.changes.iter();
        let paths: BTreeSet<_> = changes.map(|(_, change)| change.path.path()).collect();
        paths.into_iter()
    }

    pub(super) fn len(&self) -> usize {
        self.changes.len()
    }

    /// Why changes from a place on are not known, with the turn.
    pub(super) fn unwatched(&self, start: usize) -> impl Iterator<Item = (u32, &str)> {
        let later = self.unwatched.iter().filter(move |(at, ..)| *at >= start);
        later.map(|(_, turn, why)| (*turn, why.as_str()))
    }

    /// The files that were changed in a turn.
    pub(super) fn changed_in(&self, turn: u32) -> Vec<&Path> {
        let range = self.start_of(turn)..self.start_of(turn.saturating_add(1));
        let changes = self.changes.get(range).unwrap_or_default();
        let mut paths: Vec<_> = changes
            .iter()
            .filter(|(by, change)| {
                let folder = |state: &State| matches!(state, State::Folder { .. });
                *by != By::Rewind && !folder(&change.before) && !folder(&change.after)
            })
            .map(|(_, change)| change.path.path())
            .collect();
        paths.sort_unstable();
        paths.dedup();
        paths
    }
}

/// The file, which is made when the first line is written.
#[derive(Debug)]
pub(super) struct Manifest {
    path: PathBuf,
    file: Option<File>,
    bytes: u64,
}

impl Manifest {
    pub(super) const fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            bytes: 0,
        }
    }

    /// Writes lines, in one go. They survive the death of this process when it returns.
    pub(super) fn append(&mut self, lines: &[Line]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut bytes, line)?;
            bytes.push(b'\n');
        }
        self.append_bytes(&bytes)
    }

    fn append_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.bytes.saturating_add(bytes.len() as u64) > MOST {
            let words = format!("the record of changes has reached {} MiB", MOST >> 20);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, words));
        }
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.open()?,
        };
        file.write_all(bytes)?;
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        self.file = Some(file);
        Ok(())
    }

    fn open(&mut self) -> io::Result<File> {
        if let Some(folder) = self.path.parent() {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o700).create(folder)?;
        }
        let mut options = OpenOptions::new();
        let options = options.create(true).read(true).append(true).mode(0o600);
        let mut file = options.open(&self.path)?;
        self.bytes = file.metadata()?.len();
        if self.bytes > 0 {
            // A death may have left half a line, which must not be fused with the next one.
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
                self.bytes = self.bytes.saturating_add(1);
            }
        }
        Ok(file)
    }

    /// How long the file is.
    pub(super) fn bytes(&self) -> u64 {
        match self.file {
            Some(_) => self.bytes,
            None => std::fs::metadata(&self.path).map_or(0, |file| file.len()),
        }
    }
}

/// Reads the lines of a file from a place on; one that is not there has none. What is no line is
/// passed over: it is what a death has left half.
pub(super) fn read(path: &Path, from: u64, mut take: impl FnMut(Line, &[u8])) -> io::Result<()> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    file.seek(SeekFrom::Start(from))?;
    let mut reader = BufReader::new(file.take(MOST));
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        if reader.read_until(b'\n', &mut bytes)? == 0 {
            return Ok(());
        }
        if let Ok(line) = serde_json::from_slice(&bytes) {
            take(line, &bytes);
        }
    }
}

/// Gives a fork the record of its past: what was changed before the turn that it does not have.
///
/// # Errors
/// If the one cannot be read or the other not be written.
pub(super) fn inherit(from: &Path, to: &Path, turns: u32) -> io::Result<()> {
    let mut history = History::default();
    let mut lines = Vec::new();
    read(from, 0, |line, bytes| {
        lines.push((history.len(), bytes.to_vec()));
        history.apply(&line);
    })?;
    history.catch_up(turns);
    let end = history.start_of(turns.saturating_add(1));
    let mut kept = Vec::new();
    for (start, line) in lines {
        if start < end || end == history.len() {
            kept.extend_from_slice(&line);
            if !line.ends_with(b"\n") {
                kept.push(b'\n');
            }
        }
    }
    if kept.is_empty() {
        return Ok(());
    }
    Manifest::new(to.to_owned()).append_bytes(&kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(turn: u32, by: By, names: &[&str]) -> Line {
        let change = |name: &&str| Change {
            path: PathText(name.into()),
            before: State::Absent,
            after: State::Special,
        };
        Line::Changed(Changed {
            turn,
            by,
            files: names.iter().map(change).collect(),
        })
    }

    fn history(lines: &[Line]) -> History {
        let mut history = History::default();
        lines.iter().for_each(|line| history.apply(line));
        history
    }

    #[test]
    fn a_turn_begins_where_its_first_change_is() {
        let history = history(&[
            changed(1, By::Tool, &["a"]),
            changed(3, By::Command, &["b", "c"]),
            changed(3, By::Command, &[]),
            changed(4, By::Tool, &["a"]),
        ]);
        let starts: Vec<_> = (0..6).map(|turn| history.start_of(turn)).collect();
        assert_eq!(starts, [0, 0, 1, 1, 3, 4]);
        assert_eq!(history.changed_in(3), [Path::new("b"), Path::new("c")]);
        assert_eq!(history.changed_in(2), Vec::<&Path>::new());
    }

    #[test]
    fn after_a_cut_the_same_number_is_another_turn() {
        let mut lines = vec![
            changed(1, By::Tool, &["a"]),
            changed(2, By::Tool, &["a"]),
            changed(3, By::Tool, &["a"]),
            Line::Cut { turn: 2 },
        ];
        // Until another turn begins, the old one can be asked for.
        assert_eq!(history(&lines).start_of(2), 1);
        assert_eq!(history(&lines).start_of(3), 2);
        lines.push(changed(1, By::Rewind, &["a"]));
        assert_eq!(history(&lines).start_of(2), 1);
        assert_eq!(history(&lines).newest_rewind(), Some(3));
        let mut without_changes = history(&lines);
        without_changes.catch_up(1);
        assert_eq!(without_changes.start_of(2), 1);
        without_changes.catch_up(2);
        assert_eq!(without_changes.start_of(1), 0);
        assert_eq!(without_changes.start_of(2), 4);
        assert_eq!(without_changes.start_of(3), 4);
        lines.push(changed(3, By::Tool, &["b"]));
        assert_eq!(history(&lines).start_of(3), 4);
        assert_eq!(history(&lines).start_of(4), 5);
    }

    #[test]
    fn half_a_line_is_passed_over_and_not_fused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.files").join(NAME);
        let lines = [changed(1, By::Tool, &["a"]), changed(2, By::Tool, &["b"])];
        Manifest::new(path.clone()).append(&lines).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let next = changed(3, By::Tool, &["c"]);
            Manifest::new(path.clone()).append(&[next]).unwrap();
            let mut history = History::default();
            read(&path, 0, |line, _| history.apply(&line)).unwrap();
            let newest = history.since(0).last().unwrap();
            assert_eq!(newest.1.path.path(), Path::new("c"), "{cut}");
        }
    }

    #[test]
    fn a_fork_has_the_changes_of_its_turns() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        let lines = [
            changed(1, By::Tool, &["a"]),
            changed(2, By::Tool, &["b"]),
            changed(3, By::Tool, &["c"]),
        ];
        Manifest::new(path.clone()).append(&lines).unwrap();
        for (turns, expected) in [(0, 0), (1, 1), (2, 2), (3, 3), (9, 3)] {
            let to = folder.path().join(format!("{turns}/{NAME}"));
            inherit(&path, &to, turns).unwrap();
            let mut history = History::default();
            read(&to, 0, |line, _| history.apply(&line)).unwrap();
            assert_eq!(history.len(), expected, "{turns}");
        }
    }
}
