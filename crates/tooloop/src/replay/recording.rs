//! What is replayed: a journal, or a recording with the model's part.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use tooloop_kernel::Entry;
use tooloop_provider::{CassetteContent, CassetteError, RecordedCall};
use tooloop_session::{StoreError, read_records};

/// What is replayed.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// The session's id, where the recording has one.
    pub session: Option<String>,
    /// The folder that it worked in, on the machine that recorded.
    pub workspace: Option<PathBuf>,
    /// The entries that the session began with, which are not replayed.
    pub past: Vec<Entry>,
    /// The entries to replay.
    pub records: Vec<Recorded>,
    /// The model calls, if they were recorded.
    pub calls: Vec<RecordedCall>,
    /// What was wrong with the file, for a person.
    pub warnings: Vec<String>,
}

/// An entry on record.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// Its number.
    pub seq: u64,
    /// The entry.
    pub entry: Entry,
}

/// Why there is nothing to replay.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] StoreError),
    /// The recording cannot be read.
    #[error(transparent)]
    Cassette(#[from] CassetteError),
    /// It holds model calls alone.
    #[error(
        "{path} holds model calls but no session, so there is nothing to replay: it is played by a \
         CassetteProvider"
    )]
    NoSession {
        /// The file.
        path: String,
    },
}

impl Recording {
    /// Reads a session's journal, or a recording that was made beside one.
    ///
    /// # Errors
    /// If the file is neither, or cannot be read.
    pub fn open(path: &Path) -> Result<Self, ReplayError> {
        if is_cassette(path) {
            return Self::cassette(path);
        }
        let mut records = Vec::new();
        let (header, warnings) = read_records(path, |record| {
            records.push(Recorded {
                seq: record.seq,
                entry: record.entry,
            });
        })?;
        Ok(Self {
            session: Some(header.session.to_string()),
            workspace: Some(header.workspace),
            records,
            warnings,
            ..Self::default()
        })
    }

    /// The entries of a session that was kept in a store of your own.
    #[must_use]
    pub fn of(entries: impl IntoIterator<Item = Entry>) -> Self {
        let records = (1..).zip(entries);
        Self {
            records: records
                .map(|(seq, entry)| Recorded { seq, entry })
                .collect(),
            ..Self::default()
        }
    }

    fn cassette(path: &Path) -> Result<Self, ReplayError> {
        let content = CassetteContent::read(path)?;
        let header = |name| content.header.get(name).and_then(Value::as_str);
        let mut recording = Self {
            session: header("session").map(str::to_owned),
            workspace: header("workspace").map(PathBuf::from),
            ..Self::default()
        };
        for (line, value) in content.lines {
            let wrong = |error: serde_json::Error| CassetteError::Format {
                path: path.to_owned(),
                line,
                reason: format!("this record cannot be read: {error}"),
            };
            let mut kinds = BTreeMap::<String, Value>::deserialize(&value).map_err(wrong)?;
            if let Some(entry) = kinds.remove("past") {
                recording
                    .past
                    .push(Entry::deserialize(entry).map_err(wrong)?);
            } else if let Some(entry) = kinds.remove("entry") {
                recording.records.push(Recorded {
                    seq: value.get("seq").and_then(Value::as_u64).unwrap_or_default(),
                    entry: Entry::deserialize(entry).map_err(wrong)?,
                });
            }
        }
        if recording.records.is_empty() && !content.calls.is_empty() {
            return Err(ReplayError::NoSession {
                path: path.display().to_string(),
            });
        }
        recording.calls = content.calls;
        Ok(recording)
    }
}

/// Whether the first line says so. What cannot be read is left to whoever reads it next.
fn is_cassette(path: &Path) -> bool {
    let Ok(file) = std::fs::File::open(path) else {
        return false;
    };
    let mut line = Vec::new();
    let read = BufReader::new(file.take(64 << 10)).read_until(b'\n', &mut line);
    let header: Option<Value> = read.ok().and_then(|_| serde_json::from_slice(&line).ok());
    header.is_some_and(|header| CassetteContent::is_header(&header))
}
