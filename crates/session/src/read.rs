//! Looking into a journal without its lock and without changing it.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use tooloop_kernel::Transcript;

use crate::reader::{Ending, Kept, Reading};
use crate::record::record_id;
use crate::{Fault, Header, Line, Record, StoreError, fault, lock};

/// The most warnings that whoever resumes is told one by one.
const MOST_WARNINGS: usize = 20;

/// A journal that was looked into.
#[derive(Debug)]
pub struct Read {
    /// The first line.
    pub header: Header,
    /// What the entries come to.
    pub transcript: Transcript,
    /// What was wrong with the file and what was done about it, for a person.
    pub warnings: Vec<String>,
}

/// Reads what this version understands, as it stands in the file, oldest first. Gives the header and
/// the warnings.
///
/// # Errors
/// If the file cannot be read or is no journal of this version.
pub fn read_records(
    path: &Path,
    mut take: impl FnMut(Record),
) -> Result<(Header, Vec<String>), StoreError> {
    let read = read_lines(path, |line| match line {
        Line::Record(record) => take(record),
        Line::Unknown(_) => {}
    })?;
    Ok((read.header, read.warnings))
}

/// Reads every line but the first, as it stands in the file, oldest first.
///
/// # Errors
/// If the file cannot be read or is no journal of this version.
pub fn read_lines(path: &Path, mut take: impl FnMut(Line)) -> Result<Read, StoreError> {
    read(path, |kept| match kept {
        Kept::Record(record) | Kept::Idle(record) => take(Line::Record(record)),
        Kept::Unknown(record) => take(Line::Unknown(record)),
        Kept::Added { .. } => {}
    })
}

/// Reads every line but the first as another file may begin with it: in one chain, and with what
/// damage has torn away closed.
///
/// # Errors
/// If the file cannot be read or is no journal of this version.
pub fn read_past(path: &Path, mut take: impl FnMut(Line)) -> Result<Read, StoreError> {
    let mut chain = Chain::default();
    read(path, |kept| {
        if let Some(line) = chain.link(kept) {
            take(line);
        }
    })
}

/// What the entries of a journal come to, with what was summed up kept, so that the conversation can
/// be taken back to before it.
///
/// # Errors
/// If the file cannot be read or is no journal of this version.
pub fn read_whole(path: &Path) -> Result<Transcript, StoreError> {
    let file = File::open(path).map_err(StoreError::io("open", path))?;
    let reading = Reading {
        keeps_past: true,
        ..Reading::of(path)
    };
    let ending = reading.run(BufReader::new(file), &mut |_| Ok(()), &mut |_| {})?;
    Ok(ending.transcript)
}

fn read(path: &Path, mut take: impl FnMut(Kept)) -> Result<Read, StoreError> {
    let mut warnings = Warnings::of(path);
    let file = File::open(path).map_err(StoreError::io("open", path))?;
    let ending = Reading::of(path).run(
        BufReader::new(file),
        &mut |kept| {
            take(kept);
            Ok(())
        },
        &mut |fault| warnings.hear(&fault),
    )?;
    Ok(Read {
        header: ending.header,
        transcript: ending.transcript,
        warnings: warnings.tell(),
    })
}

/// What a check comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The header, or what would be made in its place.
    pub header: Header,
    /// How many records can be read.
    pub records: u64,
    /// How many faults there are.
    pub faults: u64,
    /// How many entries this version does not understand.
    pub notes: u64,
}

/// Checks a journal: its lines, its chain, and whether each entry fits those before it. `tell` is
/// given each fault, in the order of the file.
///
/// # Errors
/// If the file cannot be read or is of a newer version.
pub fn verify(
    path: &Path,
    workspace: Option<&Path>,
    mut tell: impl FnMut(Fault),
) -> Result<Verified, StoreError> {
    let file = File::open(path).map_err(StoreError::io("open", path))?;
    let reading = Reading {
        workspace,
        takes_nothing: true,
        ..Reading::of(path)
    };
    let (mut faults, mut notes) = (0_u64, 0_u64);
    let Ending {
        header, records, ..
    } = reading.run(BufReader::new(file), &mut |_| Ok(()), &mut |fault| {
        let count = if fault.kind.is_note() {
            &mut notes
        } else {
            &mut faults
        };
        *count = count.saturating_add(1);
        tell(fault);
    })?;
    Ok(Verified {
        header,
        records,
        faults,
        notes,
    })
}

/// The process that writes to this journal, where the system tells.
#[must_use]
pub fn holder(path: &Path) -> Option<u32> {
    lock::holder(&File::open(path).ok()?)
}

/// Puts what is kept into one chain.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    seq: u64,
    newest: Option<String>,
}

impl Chain {
    pub(crate) fn link(&mut self, kept: Kept) -> Option<Line> {
        if matches!(kept, Kept::Idle(_)) {
            return None;
        }
        self.seq = self.seq.saturating_add(1);
        let seq = self.seq;
        let parent = self.newest.take();
        let line = match kept {
            Kept::Record(record) | Kept::Idle(record) => Line::Record(Record {
                seq,
                parent,
                ..record
            }),
            Kept::Added { entry, time } => Line::Record(Record {
                seq,
                id: record_id(),
                parent,
                time,
                entry,
            }),
            Kept::Unknown(record) => Line::Unknown(crate::UnknownRecord {
                seq,
                parent,
                ..record
            }),
        };
        self.newest = Some(line.id().to_owned());
        Some(line)
    }
}

/// Collects what whoever resumes is told.
#[derive(Debug)]
pub(crate) struct Warnings {
    path: PathBuf,
    warnings: Vec<String>,
    more: u64,
}

impl Warnings {
    pub(crate) fn of(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            warnings: Vec::new(),
            more: 0,
        }
    }

    pub(crate) fn hear(&mut self, fault: &Fault) {
        if fault.kind.weight() == fault::Weight::Disorder {
            return;
        }
        if self.warnings.len() >= MOST_WARNINGS {
            self.more = self.more.saturating_add(1);
            return;
        }
        let remedy = fault.kind.remedy();
        let path = self.path.display();
        self.warnings.push(format!("{path}, {fault}; {remedy}"));
    }

    pub(crate) fn tell(mut self) -> Vec<String> {
        if self.more > 0 {
            let name = self.path.file_stem().unwrap_or_default();
            self.warnings.push(format!(
                "{}: {} more faults; all are named by: tooloop sessions verify {}",
                self.path.display(),
                self.more,
                name.to_string_lossy()
            ));
        }
        self.warnings
    }
}
