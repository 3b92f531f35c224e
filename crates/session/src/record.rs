//! The lines of a journal.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tooloop_kernel::Entry;
use uuid::Uuid;

/// The version of the format that this code writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;

/// Names a session: a UUID, of version 7 where we make it, so that names sort by age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(Uuid);

impl SessionId {
    /// A new name.
    #[must_use]
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

impl FromStr for SessionId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::parse_str(text).map(Self)
    }
}

/// The first line of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the format.
    pub tooloop_session: u32,
    /// The session.
    pub session: SessionId,
    /// When it was begun.
    pub created: Timestamp,
    /// The workspace.
    pub workspace: PathBuf,
    /// The session that this one was forked from, whose records it begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
    /// The session that this one works for, and the call that began it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub works_for: Option<WorksFor>,
}

impl Header {
    /// The header of a new session.
    #[must_use]
    pub fn new(session: SessionId, workspace: PathBuf) -> Self {
        Self {
            tooloop_session: FORMAT_VERSION,
            session,
            created: now(),
            workspace,
            forked_from: None,
            works_for: None,
        }
    }
}

/// Where a forked session comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkedFrom {
    /// The session.
    pub session: SessionId,
    /// Its newest record that this one has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
}

/// Whom a session works for that is a subagent's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorksFor {
    /// The session.
    pub session: SessionId,
    /// Its call.
    pub tool_use: String,
    /// What kind of agent works.
    pub agent: String,
}

/// Every line but the first: an entry in its envelope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its place in the file, from 1.
    pub seq: u64,
    /// Its name, unique in the file.
    pub id: String,
    /// The record that it follows; `None` for the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// When it was written.
    pub time: Timestamp,
    /// The entry.
    pub entry: Entry,
}

/// A record whose entry is of a kind that this version does not know: a newer one has written it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UnknownRecord {
    /// Its place in the file, from 1.
    pub seq: u64,
    /// Its name, unique in the file.
    pub id: String,
    /// The record that it follows; `None` for the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// When it was written.
    pub time: Timestamp,
    /// The entry, as it was written.
    pub entry: Box<RawValue>,
}

impl UnknownRecord {
    /// The kind of the entry: the name of its one member, or the only word that it is.
    #[must_use]
    pub fn kind(&self) -> Option<String> {
        let text = self.entry.get();
        if let Ok(word) = serde_json::from_str::<String>(text) {
            return Some(word);
        }
        let members = serde_json::from_str::<BTreeMap<String, IgnoredAny>>(text).ok()?;
        let only = members.len() == 1;
        members.into_keys().next().filter(|_| only)
    }
}

/// Every line but the first, as this version understands it.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Line {
    /// A record.
    Record(Record),
    /// A record whose entry is not understood.
    Unknown(UnknownRecord),
}

impl From<Record> for Line {
    fn from(record: Record) -> Self {
        Self::Record(record)
    }
}

impl Line {
    /// Its place in the file.
    #[must_use]
    pub const fn seq(&self) -> u64 {
        match self {
            Self::Record(record) => record.seq,
            Self::Unknown(record) => record.seq,
        }
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Record(record) => &record.id,
            Self::Unknown(record) => &record.id,
        }
    }
}

pub(crate) fn record_id() -> String {
    // The lower half of a version 7 UUID is random but for two bits.
    let (_, low) = Uuid::now_v7().as_u64_pair();
    format!("{low:016x}")
}

/// Milliseconds are enough and make shorter lines.
pub(crate) fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}
