//! The lines of a journal.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
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
