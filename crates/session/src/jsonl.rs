//! The store that writes files.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tooloop_kernel::{Entry, Transcript};

use crate::read::Warnings;
use crate::reader::{Kept, Reading, Tail};
use crate::record::{now, record_id};
use crate::repair::rewrite;
use crate::{Flush, Header, Line, MAX_LINE, Record, SessionId, Store, StoreError, lock};

/// A journal file that is open for writing, under its lock.
#[derive(Debug)]
pub struct JsonlStore {
    path: PathBuf,
    session: SessionId,
    state: State,
    seq: u64,
    newest: Option<String>,
    durable: Arc<Durable>,
}

#[derive(Debug)]
enum State {
    /// Not there yet: a session in which nothing was said leaves no file.
    Planned(Box<Planned>),
    Open(Arc<File>),
    /// A write failed.
    Failed,
}

#[derive(Debug)]
struct Planned {
    header: Header,
    /// What a forked session begins with.
    past: Vec<Line>,
}

/// What a flush needs, shared with the threads that flush.
#[derive(Debug, Default)]
struct Durable {
    file: std::sync::OnceLock<Arc<File>>,
    /// Whether the folder is known to hold the file's name.
    named: AtomicBool,
}

/// A journal that was read back.
#[derive(Debug)]
pub struct Opened {
    /// The store, ready to be appended to.
    pub store: JsonlStore,
    /// The first line.
    pub header: Header,
    /// What the entries come to.
    pub transcript: Transcript,
    /// What was wrong with the file and what was done about it, for a person.
    pub warnings: Vec<String>,
}

impl JsonlStore {
    /// A new session, whose file is made when the first entry is appended.
    #[must_use]
    pub fn create(path: PathBuf, header: Header) -> Self {
        Self::planned(path, header, Vec::new())
    }

    /// A new session that begins with the past of another one, as [`crate::read_past`] tells it.
    #[must_use]
    pub fn fork(
        path: PathBuf,
        header: Header,
        past: impl IntoIterator<Item = impl Into<Line>>,
    ) -> Self {
        Self::planned(path, header, past.into_iter().map(Into::into).collect())
    }

    fn planned(path: PathBuf, header: Header, past: Vec<Line>) -> Self {
        let newest = past.last();
        Self {
            path,
            session: header.session,
            seq: newest.map_or(0, Line::seq),
            newest: newest.map(|line| line.id().to_owned()),
            state: State::Planned(Box::new(Planned { header, past })),
            durable: Arc::default(),
        }
    }

    /// Opens a session to go on with it. A last line that a death left half is cut off; other
    /// damage is left as it is and read as far as it can be, with a warning for each.
    ///
    /// # Errors
    /// If the file cannot be read, is locked by another process, or is no journal of this version.
    pub fn open(path: &Path) -> Result<Opened, StoreError> {
        Self::open_as(Reading::of(path), |_| {})
    }

    /// Like [`JsonlStore::open`]; calls `take` once for each record that this version understands,
    /// oldest first.
    ///
    /// # Errors
    /// As for [`JsonlStore::open`].
    pub fn open_with(path: &Path, take: impl FnMut(Record)) -> Result<Opened, StoreError> {
        Self::open_as(Reading::of(path), take)
    }

    fn open_as(reading: Reading<'_>, mut take: impl FnMut(Record)) -> Result<Opened, StoreError> {
        let path = reading.path;
        let mut file = lock::open(path)?;
        let mut warnings = Warnings::of(path);
        let mut read = |file: &File, take: &mut dyn FnMut(Record)| {
            let mut keep = |kept| {
                match kept {
                    Kept::Record(record) | Kept::Idle(record) => take(record),
                    Kept::Unknown(_) | Kept::Added { .. } => {}
                }
                Ok(())
            };
            reading.run(BufReader::new(file), &mut keep, &mut |fault| {
                warnings.hear(&fault);
            })
        };
        let mut ending = read(&file, &mut take)?;
        if ending.is_migrated {
            // What is appended is of the newest version, and so is what it is appended to.
            rewrite(reading, &file, |_| {})?;
            file = lock::open(path)?;
            ending = read(&file, &mut |_| {})?;
        }
        if let Tail::Open { keep, needs_end } = ending.tail {
            file.set_len(keep).map_err(StoreError::io("cut", path))?;
            if needs_end {
                file.write_all(b"\n")
                    .map_err(StoreError::io("write to", path))?;
            }
        }
        let file = Arc::new(file);
        let durable = Durable {
            file: Arc::clone(&file).into(),
            named: AtomicBool::new(true),
        };
        Ok(Opened {
            store: Self {
                path: path.to_owned(),
                session: ending.header.session,
                state: State::Open(file),
                seq: ending.seq,
                newest: ending.newest,
                durable: Arc::new(durable),
            },
            header: ending.header,
            transcript: ending.transcript,
            warnings: warnings.tell(),
        })
    }

    /// Where the file is, or will be.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the file of a new session now, with what it begins with.
    ///
    /// # Errors
    /// If it cannot be written, or is there already.
    pub fn make(&mut self) -> Result<(), StoreError> {
        let written = self.write(&[]);
        if written.is_err() {
            self.state = State::Failed;
        }
        written
    }

    fn write(&mut self, entries: &[Entry]) -> Result<(), StoreError> {
        let mut lines = Vec::with_capacity(256);
        if let State::Planned(planned) = &self.state {
            push_line(&mut lines, &planned.header, &self.path)?;
            for line in &planned.past {
                push_line(&mut lines, line, &self.path)?;
            }
        }
        let mut seq = self.seq;
        let mut newest = self.newest.clone();
        for entry in entries {
            seq = seq.saturating_add(1);
            let line = NewLine {
                seq,
                id: record_id(),
                parent: newest.as_deref(),
                time: now(),
                entry,
            };
            push_line(&mut lines, &line, &self.path)?;
            newest = Some(line.id);
        }
        let file = match &self.state {
            State::Open(file) => Arc::clone(file),
            State::Planned(_) => {
                let file = Arc::new(make(&self.path, self.session, &lines)?);
                // Nobody else sets it: a store is planned once.
                drop(self.durable.file.set(Arc::clone(&file)));
                self.state = State::Open(file);
                self.seq = seq;
                self.newest = newest;
                return Ok(());
            }
            State::Failed => {
                return Err(StoreError::Failed {
                    path: self.path.clone(),
                });
            }
        };
        let before = file
            .metadata()
            .map_err(StoreError::io("look at", &self.path))?
            .len();
        if let Err(error) = (&*file).write_all(&lines) {
            // Half a line would be fused with the next one. If even this fails, the next reader
            // cuts it off.
            drop(file.set_len(before));
            return Err(StoreError::io("write to", &self.path)(error));
        }
        self.seq = seq;
        self.newest = newest;
        Ok(())
    }
}

#[derive(serde::Serialize)]
struct NewLine<'a> {
    seq: u64,
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<&'a str>,
    time: jiff::Timestamp,
    entry: &'a Entry,
}

impl Store for JsonlStore {
    fn session(&self) -> SessionId {
        self.session
    }

    fn append(&mut self, entries: &[Entry]) -> Result<(), StoreError> {
        if entries.is_empty() {
            return Ok(());
        }
        let written = self.write(entries);
        if written.is_err() {
            self.state = State::Failed;
        }
        written
    }

    fn flush(&self) -> Flush {
        let durable = Arc::clone(&self.durable);
        let path = self.path.clone();
        Flush::blocking(move || {
            let Some(file) = durable.file.get() else {
                return Ok(());
            };
            file.sync_data().map_err(StoreError::io("sync", &path))?;
            if !durable.named.load(Ordering::Acquire) {
                let folder = path.parent().unwrap_or(Path::new("."));
                File::open(folder)
                    .and_then(|folder| folder.sync_all())
                    .map_err(StoreError::io("sync the folder of", &path))?;
                durable.named.store(true, Ordering::Release);
            }
            Ok(())
        })
    }
}

pub(crate) fn push_line(
    lines: &mut Vec<u8>,
    value: &impl serde::Serialize,
    path: &Path,
) -> Result<(), StoreError> {
    let before = lines.len();
    serde_json::to_writer(&mut *lines, value)
        .map_err(|error| StoreError::io("write to", path)(error.into()))?;
    lines.push(b'\n');
    let bytes = lines.len().saturating_sub(before);
    if bytes > MAX_LINE {
        return Err(StoreError::TooLong {
            path: path.to_owned(),
            bytes,
        });
    }
    Ok(())
}

/// Makes the file with its first lines. It gets its name when they are in it, so that a death in
/// between leaves no journal rather than an empty one.
fn make(path: &Path, session: SessionId, lines: &[u8]) -> Result<File, StoreError> {
    if let Some(folder) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(StoreError::io("make the folder of", path))?;
    }
    let unnamed = path.with_extension(format!("{}.new", std::process::id()));
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .create_new(true)
        .mode(0o600)
        .open(&unnamed)
        .map_err(StoreError::io("create", path))?;
    let made = fill(&file, session, lines, path).and_then(|()| name(&unnamed, path));
    if let Err(error) = made {
        // If even this fails, a file stays behind that nobody takes for a journal.
        drop(fs::remove_file(&unnamed));
        return Err(error);
    }
    Ok(file)
}

fn fill(mut file: &File, session: SessionId, lines: &[u8], path: &Path) -> Result<(), StoreError> {
    if !lock::take(file).map_err(StoreError::io("lock", path))? {
        return Err(StoreError::Locked {
            session: session.to_string(),
            holder: lock::holder(file),
        });
    }
    file.write_all(lines)
        .map_err(StoreError::io("write to", path))
}

/// Gives the file its name, unless that is taken.
fn name(unnamed: &Path, path: &Path) -> Result<(), StoreError> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, unnamed, CWD, path, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        // Some file systems cannot do that in one step.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => fs::hard_link(unnamed, path)
            .and_then(|()| fs::remove_file(unnamed))
            .map_err(StoreError::io("create", path)),
        Err(error) => Err(StoreError::io("create", path)(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tooloop_model::Message;

    use super::*;

    /// Says that version 2 calls the first member of a user message something else.
    fn rename(line: Value) -> Value {
        let text = line.to_string().replace("\"spoken\":", "\"text\":");
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn an_older_file_is_rewritten_before_it_is_gone_on_with() {
        let root = tempfile::tempdir().unwrap();
        let path = root
            .path()
            .join("0190163d-8694-739b-aea5-966c26f8ad91.jsonl");
        let record = json!({
            "seq": 1, "id": "0123456789abcdef", "time": "2026-01-01T00:00:00Z",
            "entry": {"message": {"user": [{"spoken": "hello"}]}},
        });
        let header = Header::new(
            "0190163d-8694-739b-aea5-966c26f8ad91".parse().unwrap(),
            "/w".into(),
        );
        let header = serde_json::to_string(&header).unwrap();
        let old = format!("{header}\n{record}\n");
        fs::write(&path, &old).unwrap();
        let reading = Reading {
            steps: &[rename],
            ..Reading::of(&path)
        };
        let hello = Message::user("hello");
        let mut opened = JsonlStore::open_as(reading, |_| {}).unwrap();
        assert_eq!(opened.warnings, [""; 0]);
        assert_eq!(opened.transcript.messages()[0].message(), &hello);
        let next = Entry::message(Message::user("next"));
        opened.store.append(&[next]).unwrap();
        drop(opened);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("{\"tooloop_session\":2,"), "{text}");
        assert!(!text.contains("spoken"), "{text}");
        assert_eq!(text.lines().count(), 3);
        let kept: Vec<_> = fs::read_dir(root.path())
            .unwrap()
            .map(|file| file.unwrap().path())
            .filter(|kept| *kept != path)
            .collect();
        assert_eq!(kept.len(), 1);
        assert!(kept[0].to_string_lossy().contains(".jsonl.older-"));
        assert_eq!(fs::read_to_string(&kept[0]).unwrap(), old);
        // And that is what the first version, which knows none newer, will not read.
        let error = JsonlStore::open(&path).unwrap_err().to_string();
        assert!(error.contains("format is 2"), "{error}");
        let again = JsonlStore::open_as(reading, |_| {}).unwrap();
        assert_eq!(again.transcript.messages().len(), 2);
    }
}
