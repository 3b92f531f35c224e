//! The store that writes files.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tooloop_kernel::Entry;

use crate::record::{now, record_id};
use crate::{FORMAT_VERSION, Flush, Header, Record, SessionId, Store, StoreError, lock};

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
    records: Vec<Record>,
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
    /// What was wrong with the file and what was done about it, for a person.
    pub warnings: Vec<String>,
}

impl JsonlStore {
    /// A new session, whose file is made when the first entry is appended.
    #[must_use]
    pub fn create(path: PathBuf, header: Header) -> Self {
        Self::planned(path, header, Vec::new())
    }

    /// A new session that begins with the records of another one.
    #[must_use]
    pub fn fork(path: PathBuf, header: Header, records: Vec<Record>) -> Self {
        Self::planned(path, header, records)
    }

    fn planned(path: PathBuf, header: Header, records: Vec<Record>) -> Self {
        let newest = records.last();
        Self {
            path,
            session: header.session,
            seq: newest.map_or(0, |record| record.seq),
            newest: newest.map(|record| record.id.clone()),
            state: State::Planned(Box::new(Planned { header, records })),
            durable: Arc::default(),
        }
    }

    /// Opens a session to go on with it. `take` is given each record, oldest first. A last line
    /// that a death left half is cut off; other lines that cannot be read are left as they are,
    /// and passed over with a warning.
    ///
    /// # Errors
    /// If the file cannot be read, is locked by another process, or is no journal of this version.
    pub fn open(path: &Path, take: impl FnMut(Record)) -> Result<Opened, StoreError> {
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .open(path)
            .map_err(StoreError::io("open", path))?;
        if !lock::take(&file).map_err(StoreError::io("lock", path))? {
            return Err(StoreError::Locked {
                session: stem(path),
                holder: lock::holder(&file),
            });
        }
        let mut scan = Scan::run(path, BufReader::new(&file), take)?;
        match scan.tail {
            Tail::Whole => {}
            Tail::NoLineEnd => file
                .write_all(b"\n")
                .map_err(StoreError::io("write to", path))?,
            Tail::Torn { from, bytes } => {
                file.set_len(from).map_err(StoreError::io("cut", path))?;
                file.seek(SeekFrom::End(0))
                    .map_err(StoreError::io("read", path))?;
                scan.warnings.push(format!(
                    "{}: the last line was not written to its end and is cut off ({bytes} bytes)",
                    path.display()
                ));
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
                session: scan.header.session,
                state: State::Open(file),
                seq: scan.seq,
                newest: scan.newest,
                durable: Arc::new(durable),
            },
            header: scan.header,
            warnings: scan.warnings,
        })
    }

    /// Where the file is, or will be.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn write(&mut self, entries: &[Entry]) -> Result<(), StoreError> {
        let mut lines = Vec::with_capacity(256);
        if let State::Planned(planned) = &self.state {
            push_line(&mut lines, &planned.header, &self.path)?;
            for record in &planned.records {
                push_line(&mut lines, record, &self.path)?;
            }
        }
        let mut seq = self.seq;
        let mut newest = self.newest.clone();
        for entry in entries {
            seq = seq.saturating_add(1);
            let line = Line {
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
struct Line<'a> {
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

fn push_line(
    lines: &mut Vec<u8>,
    value: &impl serde::Serialize,
    path: &Path,
) -> Result<(), StoreError> {
    serde_json::to_writer(&mut *lines, value)
        .map_err(|error| StoreError::io("write to", path)(error.into()))?;
    lines.push(b'\n');
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

/// Reads a journal without its lock and without changing it, as `sessions show` does.
///
/// # Errors
/// If the file cannot be read or is no journal of this version.
pub fn read_records(
    path: &Path,
    take: impl FnMut(Record),
) -> Result<(Header, Vec<String>), StoreError> {
    let file = File::open(path).map_err(StoreError::io("open", path))?;
    let scan = Scan::run(path, BufReader::new(file), take)?;
    Ok((scan.header, scan.warnings))
}

pub(crate) fn read_header(path: &Path) -> Result<(Header, BufReader<File>), StoreError> {
    let file = File::open(path).map_err(StoreError::io("open", path))?;
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    // A header is a few hundred bytes; what is far longer is something else.
    reader
        .by_ref()
        .take(64 << 10)
        .read_until(b'\n', &mut line)
        .map_err(StoreError::io("read", path))?;
    Ok((parse_header(path, &line)?, reader))
}

fn parse_header(path: &Path, line: &[u8]) -> Result<Header, StoreError> {
    let wrong = |reason: String| StoreError::Format {
        path: path.to_owned(),
        line: 1,
        reason,
    };
    let header: Header = serde_json::from_slice(line)
        .map_err(|error| wrong(format!("this is not the header of a session: {error}")))?;
    if header.tooloop_session > FORMAT_VERSION {
        return Err(wrong(format!(
            "the session was written by a newer version (format {}, this version knows {FORMAT_VERSION})",
            header.tooloop_session
        )));
    }
    Ok(header)
}

fn stem(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// What reading a file through comes to.
struct Scan {
    header: Header,
    warnings: Vec<String>,
    seq: u64,
    newest: Option<String>,
    tail: Tail,
}

enum Tail {
    Whole,
    /// The last line is complete but for its end.
    NoLineEnd,
    Torn {
        from: u64,
        bytes: usize,
    },
}

impl Scan {
    fn run(
        path: &Path,
        mut reader: impl BufRead,
        mut take: impl FnMut(Record),
    ) -> Result<Self, StoreError> {
        let mut line = Vec::new();
        let mut next = |line: &mut Vec<u8>| -> Result<usize, StoreError> {
            line.clear();
            reader
                .read_until(b'\n', line)
                .map_err(StoreError::io("read", path))
        };
        let mut at = next(&mut line)? as u64;
        let mut scan = Self {
            header: parse_header(path, &line)?,
            warnings: Vec::new(),
            seq: 0,
            newest: None,
            tail: if line.ends_with(b"\n") {
                Tail::Whole
            } else {
                Tail::NoLineEnd
            },
        };
        for number in 2_usize.. {
            let bytes = next(&mut line)?;
            if bytes == 0 {
                break;
            }
            let ended = line.ends_with(b"\n");
            match serde_json::from_slice::<Record>(&line) {
                Ok(record) => {
                    scan.seq = scan.seq.max(record.seq);
                    scan.newest = Some(record.id.clone());
                    take(record);
                    if !ended {
                        scan.tail = Tail::NoLineEnd;
                    }
                }
                Err(_) if line.trim_ascii().is_empty() && ended => {}
                Err(_) if !ended => scan.tail = Tail::Torn { from: at, bytes },
                Err(error) => scan.warnings.push(format!(
                    "{}, line {number}: this record cannot be read and is passed over: {error}",
                    path.display()
                )),
            }
            at = at.saturating_add(bytes as u64);
        }
        Ok(scan)
    }
}
