//! Where the journals of a project are.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead};
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tooloop_kernel::Entry;
use tooloop_model::{Content, Message};
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use crate::header::read_header;
use crate::{Header, Record, SessionId, StoreError};

/// The journals of one project: one folder, one file a session. Nothing is read until it is asked
/// for, so that starting a session costs the same with ten thousand old ones.
#[derive(Debug, Clone)]
pub struct Catalog {
    root: PathBuf,
    folder: PathBuf,
}

/// What a list shows of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Its header.
    pub header: Header,
    /// Where it is.
    pub path: PathBuf,
    /// When it was written to last.
    pub modified: SystemTime,
    /// The file's size in bytes.
    pub bytes: u64,
    /// The beginning of the first prompt, on one line.
    pub prompt: String,
}

/// The folder for the long outputs of the session with this journal: it lies beside the journal and
/// is to be kept as long.
#[must_use]
pub fn outputs_beside(journal: &Path) -> PathBuf {
    journal.with_extension("outputs")
}

/// The folder for the journals of the subagents that work for the session with this journal: it
/// lies beside the journal and goes with it.
#[must_use]
pub fn subagents_beside(journal: &Path) -> PathBuf {
    journal.with_extension("agents")
}

/// How many projects are looked through for misplaced sessions.
const MOST_PROJECTS: usize = 2_000;

/// How deep subagents of subagents are looked for.
const DEPTH: usize = 4;

/// The widest title, in columns.
const TITLE: usize = 100;

/// The subagents that work for the session with this journal, in the order in which they began.
/// Files that are no journals are left out.
#[must_use]
pub fn subagents_of(journal: &Path) -> Vec<Summary> {
    let mut summaries: Vec<_> = journals_in(&subagents_beside(journal))
        .filter_map(|path| {
            let metadata = fs::metadata(&path).ok()?;
            summarise(path, metadata.modified().ok()?, metadata.len()).ok()
        })
        .collect();
    summaries.sort_by_key(|summary| (summary.header.created, summary.path.clone()));
    summaries
}

/// The journals of subagents below a folder of journals whose names begin so.
fn subagents_named(folder: &Path, name: &str, depth: usize) -> Vec<PathBuf> {
    if depth == 0 {
        return Vec::new();
    }
    let folders = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    let folders = folders.map(|file| file.path()).filter(|path| {
        path.extension()
            .is_some_and(|extension| extension == "agents")
    });
    folders
        .flat_map(|folder| {
            let mut found: Vec<_> = journals_in(&folder)
                .filter(|path| {
                    let stem = path.file_stem().unwrap_or_default();
                    stem.to_string_lossy().starts_with(name)
                })
                .collect();
            found.extend(subagents_named(&folder, name, depth.saturating_sub(1)));
            found
        })
        .collect()
}

/// How many sessions back the past of a fork is followed.
const GENERATIONS: usize = 32;

/// The folders for the long outputs of the sessions that the one with this journal was forked from:
/// its past names files in them. The journals of those sessions are looked for beside this one.
#[must_use]
pub fn inherited_outputs(journal: &Path, header: &Header) -> Vec<PathBuf> {
    let mut parent = header.forked_from.clone();
    let mut folders = Vec::new();
    while let Some(forked) = parent.filter(|_| folders.len() < GENERATIONS) {
        let journal = journal.with_file_name(format!("{}.jsonl", forked.session));
        folders.push(outputs_beside(&journal));
        // One that is gone took its own past with it.
        let header = read_header(&journal).ok();
        parent = header.and_then(|(header, _)| header.forked_from);
    }
    folders
}

impl Catalog {
    /// The sessions of `workspace`, kept below `root`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>, workspace: &Path) -> Self {
        let root = root.into();
        Self {
            folder: root.join(project_name(workspace)),
            root,
        }
    }

    /// The folder of this project.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where a session of this project is kept.
    #[must_use]
    pub fn path(&self, session: SessionId) -> PathBuf {
        self.folder.join(format!("{session}.jsonl"))
    }

    /// The journal of the session called `wanted`: its id, or the beginning of an id of this
    /// project. Sessions of other projects are found by their whole id. If no session is called so,
    /// a subagent's may be.
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub fn find(&self, wanted: &str) -> Result<PathBuf, StoreError> {
        if let Ok(session) = wanted.parse::<SessionId>() {
            let here = self.path(session);
            if here.is_file() {
                return Ok(real(here));
            }
            if let Some(path) = subagents_named(&self.folder, wanted, DEPTH).pop() {
                return Ok(path);
            }
            let name = format!("{session}.jsonl");
            let elsewhere = fs::read_dir(&self.root)
                .into_iter()
                .flatten()
                .filter_map(Result::ok)
                .map(|folder| folder.path().join(&name))
                .find(|path| path.is_file())
                .map(real);
            return elsewhere.ok_or_else(|| self.not_found(wanted));
        }
        let mut matching: Vec<_> = self
            .files()
            .filter(|path| {
                let name = path.file_stem().unwrap_or_default().to_string_lossy();
                !wanted.is_empty() && name.starts_with(wanted)
            })
            .collect();
        if matching.is_empty() && !wanted.is_empty() {
            matching = subagents_named(&self.folder, wanted, DEPTH);
        }
        match (matching.pop(), matching.len()) {
            (Some(path), 0) => Ok(path),
            (Some(path), _) => {
                matching.push(path);
                Err(StoreError::Ambiguous {
                    wanted: wanted.into(),
                    candidates: matching
                        .iter()
                        .map(|path| {
                            let stem = path.file_stem().unwrap_or_default();
                            stem.to_string_lossy().into_owned()
                        })
                        .collect(),
                })
            }
            (None, _) => Err(self.not_found(wanted)),
        }
    }

    /// Makes the session with this journal one of this project too: a link in the project's folder
    /// leads to the journal, which stays where it is. Returns the session's own directory if the
    /// link is new. Does nothing for a session of this project or for a subagent.
    ///
    /// # Errors
    /// If the link cannot be made.
    pub fn adopt(&self, journal: &Path) -> io::Result<Option<PathBuf>> {
        let folder = journal.parent();
        let is_elsewhere = folder != Some(self.folder.as_path())
            && folder.and_then(Path::parent) == Some(self.root.as_path());
        let (Some(folder), Some(name)) = (folder.and_then(Path::file_name), journal.file_name())
        else {
            return Ok(None);
        };
        if !is_elsewhere {
            return Ok(None);
        }
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.folder)?;
        // From this folder on, so that it holds when the folder of all projects is moved.
        let target = Path::new("..").join(folder).join(name);
        match symlink(target, self.folder.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(error),
            Ok(()) => Ok(read_header(journal)
                .ok()
                .map(|(header, _)| header.workspace)),
        }
    }

    /// Sessions that a person may look for here: those of other projects whose directory is gone,
    /// as after a rename, and those of a directory beside `workspace`. The one written to last
    /// comes first; at most `most`.
    #[must_use]
    pub fn misplaced(&self, workspace: &Path, most: usize) -> Vec<Summary> {
        let folders = fs::read_dir(&self.root)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
            .map(|folder| folder.path())
            .filter(|folder| *folder != self.folder)
            .take(MOST_PROJECTS);
        let mut found: Vec<Summary> = Vec::new();
        for folder in folders {
            let other = Self {
                root: self.root.clone(),
                folder,
            };
            // All sessions of a folder have the same directory.
            let is_wanted = |summary: &Summary| {
                let theirs = &summary.header.workspace;
                theirs != workspace && (!theirs.exists() || theirs.parent() == workspace.parent())
            };
            let (first, _, _) = other.list(1);
            if first.iter().any(is_wanted) {
                found.extend(other.list(most).0.into_iter().filter(is_wanted));
            }
        }
        // Those that are gone first.
        found.sort_by_key(|summary| (summary.header.workspace.exists(), Reverse(summary.modified)));
        let mut known = BTreeSet::new();
        found.retain(|summary| known.insert(summary.header.session));
        found.truncate(most);
        found
    }

    /// The session of this project that was written to last.
    #[must_use]
    pub fn newest(&self) -> Option<PathBuf> {
        self.files()
            .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path)))
            .max()
            .map(|(_, path)| path)
    }

    /// The sessions of this project, the one written to last first, at most `most` of them. The
    /// second value is how many there are in all; files that are no journals are named in the
    /// third.
    #[must_use]
    pub fn list(&self, most: usize) -> (Vec<Summary>, usize, Vec<StoreError>) {
        let mut files: Vec<_> = self
            .files()
            .filter_map(|path| {
                let metadata = fs::metadata(&path).ok()?;
                Some((metadata.modified().ok()?, metadata.len(), path))
            })
            .collect();
        let all = files.len();
        files.sort();
        let mut summaries = Vec::new();
        let mut errors = Vec::new();
        for (modified, bytes, path) in files.into_iter().rev().take(most) {
            match summarise(path, modified, bytes) {
                Ok(summary) => summaries.push(summary),
                Err(error) => errors.push(error),
            }
        }
        (summaries, all, errors)
    }

    /// The journals of this project that were not written to since then, the oldest first.
    #[must_use]
    pub fn older_than(&self, time: SystemTime) -> Vec<PathBuf> {
        let mut files: Vec<_> = self
            .files()
            .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path)))
            .filter(|(modified, _)| *modified < time)
            .collect();
        files.sort();
        files.into_iter().map(|(_, path)| path).collect()
    }

    /// The journals of this project, adopted ones where they really are.
    fn files(&self) -> impl Iterator<Item = PathBuf> {
        journals_in(&self.folder)
            .map(real)
            .filter(|path| path.is_file())
    }

    fn not_found(&self, wanted: &str) -> StoreError {
        StoreError::NotFound {
            wanted: wanted.into(),
            folder: self.folder.clone(),
        }
    }
}

fn summarise(path: PathBuf, modified: SystemTime, bytes: u64) -> Result<Summary, StoreError> {
    let (header, mut reader) = read_header(&path)?;
    let mut prompt = String::new();
    let mut line = Vec::new();
    // The first prompt is among the first records.
    for _ in 0..8 {
        line.clear();
        match reader.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let Ok(record) = serde_json::from_slice::<Record>(&line) else {
            continue;
        };
        if let Entry::Message(message) = &record.entry
            && let Message::User(content) = message.message()
        {
            prompt = first_words(content);
            break;
        }
    }
    Ok(Summary {
        header,
        path,
        modified,
        bytes,
        prompt,
    })
}

fn first_words(content: &[Content]) -> String {
    let text = Content::said(content).find_map(|part| match part {
        Content::Text(text) => Some(text.as_str()),
        Content::Image(_) | Content::Document(_) => None,
    });
    title(text.unwrap_or_default())
}

/// The beginning of a text on one line, at most [`TITLE`] columns wide. It ends with a mark if more
/// follows, after a word if one ends nearby, else within the text.
fn title(text: &str) -> String {
    let mut title = String::new();
    let mut columns = 0;
    for word in text.split_whitespace() {
        let blank = usize::from(!title.is_empty());
        if blank == 1 {
            title.push(' ');
        }
        columns += blank;
        let start = (title.len(), columns);
        for grapheme in word.graphemes(true) {
            if grapheme.contains(char::is_control) {
                continue;
            }
            columns += grapheme.width();
            if columns > TITLE {
                let (end, width) = start;
                if width * 3 > TITLE * 2 {
                    title.truncate(end);
                }
                title.truncate(title.trim_end().len());
                title.push('…');
                return title;
            }
            title.push_str(grapheme);
        }
    }
    title
}

/// A folder name for a workspace that a person recognises and that no other workspace has: the end
/// of the path, and a hash (FNV-1a, 64 bits) of the whole.
pub(crate) fn project_name(workspace: &Path) -> String {
    let bytes = workspace.as_os_str().as_encoded_bytes();
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let name = workspace
        .file_name()
        .map_or_else(|| "root".into(), |name| name.to_string_lossy());
    let readable: String = name
        .chars()
        .map(|character| {
            if character.is_ascii_alphanumeric() || "._-".contains(character) {
                character
            } else {
                '-'
            }
        })
        .take(60)
        .collect();
    format!("{readable}-{hash:016x}")
}

/// Where a journal is that may be an adopted one.
fn real(journal: PathBuf) -> PathBuf {
    let beside = || {
        let target = fs::read_link(&journal).ok()?;
        let root = journal.parent()?.parent()?;
        let folder = target.parent()?.file_name()?;
        Some(root.join(folder).join(target.file_name()?))
    };
    beside().unwrap_or(journal)
}

/// The journals in a folder, in no order.
pub(crate) fn journals_in(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .map(|file| file.path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "jsonl")
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FORMAT_VERSION, record};

    #[test]
    fn titles_are_cut_by_width() {
        let japanese = "設定を直してから報告してください".repeat(10);
        let family = "👩\u{200d}👩\u{200d}👧".repeat(60);
        let url = format!("https://example.com/{}", "path/".repeat(40));
        for (text, expected) in [
            ("  fix\nthe   bug ", "fix the bug".to_owned()),
            (&"a".repeat(100), "a".repeat(100)),
            (&"a".repeat(101), format!("{}…", "a".repeat(100))),
            (
                &japanese,
                format!("{}…", japanese.chars().take(50).collect::<String>()),
            ),
            (&family, format!("{}…", "👩\u{200d}👩\u{200d}👧".repeat(50))),
            (&url, format!("{}…", &url[..100])),
            (
                &format!("look at {url}"),
                format!("look at {}…", &url[..92]),
            ),
            (&"word ".repeat(30), format!("{}word…", "word ".repeat(19))),
            (&"กี่".repeat(150), format!("{}…", "กี่".repeat(100))),
            ("a\u{1b}[2Jb", "a[2Jb".into()),
            ("", String::new()),
        ] {
            assert_eq!(title(text), expected);
            assert!(title(text).width() <= TITLE + 1);
        }
    }

    fn begin(catalog: &Catalog, workspace: &Path) -> SessionId {
        let session = SessionId::generate();
        let header = Header {
            tooloop_session: FORMAT_VERSION,
            session,
            created: record::now(),
            workspace: workspace.to_owned(),
            forked_from: None,
            works_for: None,
        };
        fs::create_dir_all(catalog.folder()).unwrap();
        let line = serde_json::to_string(&header).unwrap();
        fs::write(catalog.path(session), format!("{line}\n")).unwrap();
        session
    }

    #[test]
    fn a_session_of_a_renamed_directory_is_found_and_adopted() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        let root = place("sessions");
        for name in ["w", "far/other"] {
            fs::create_dir_all(place(name)).unwrap();
        }
        let old = Catalog::new(&root, &place("w"));
        let session = begin(&old, &place("w"));
        begin(
            &Catalog::new(&root, &place("far/other")),
            &place("far/other"),
        );
        fs::rename(place("w"), place("moved")).unwrap();

        let new = Catalog::new(&root, &place("moved"));
        let found = |new: &Catalog| -> Vec<SessionId> {
            let found = new.misplaced(&place("moved"), 5).into_iter();
            found.map(|summary| summary.header.session).collect()
        };
        assert_eq!((found(&new), new.newest()), (vec![session], None));
        // A new directory with the old name changes nothing.
        fs::create_dir(place("w")).unwrap();
        assert_eq!(found(&new), [session]);
        fs::remove_dir(place("w")).unwrap();

        let journal = new.find(&session.to_string()).unwrap();
        assert_eq!(new.adopt(&journal).unwrap(), Some(place("w")));
        assert_eq!(new.adopt(&journal).unwrap(), None);
        assert_eq!(new.newest(), Some(journal.clone()));
        assert_eq!(new.list(5).1, 1);
        // Again, and with the folder of all sessions elsewhere.
        fs::rename(&root, place("kept")).unwrap();
        let again = Catalog::new(place("kept"), &place("again"));
        let journal = again.find(&session.to_string()).unwrap();
        assert!(again.adopt(&journal).unwrap().is_some());
        assert_eq!(again.newest(), Some(journal.clone()));
        // What is removed is gone everywhere.
        fs::remove_file(journal).unwrap();
        assert_eq!(again.newest(), None);
        assert!(again.find(&session.to_string()).is_err());
    }
}
