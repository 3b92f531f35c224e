//! Recorded model calls: what was asked, and what was answered.
//!
//! A cassette is a file of JSON lines (`docs/replay.md`). [`RecordingProvider`] writes one while a
//! model answers; [`CassetteProvider`] answers from it, without any network, and refuses what was
//! asked otherwise. Whoever keeps more in a cassette (the entries of a session) puts it into lines
//! of its own, which are passed over here.

mod difference;
mod file;
mod line;
mod playing;
mod recording;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tooloop_model::{ModelError, StreamEvent};

pub use difference::{ValueDifference, first_difference};
pub use file::Cassette;
pub use playing::CassetteProvider;
pub use recording::RecordingProvider;

use line::{CallLine, InfoLine};

/// The version of the format that this code writes, and the newest that it reads.
pub const CASSETTE_VERSION: u32 = 1;

/// The longest line that is read: a reply of the largest size, coded at its worst.
const LINE: u64 = 512 << 20;

/// Why a cassette cannot be made or read.
#[derive(Debug, thiserror::Error)]
pub enum CassetteError {
    /// There is a file of that name: a recording never replaces anything.
    #[error("{path} is there already, and a recording replaces nothing: give another name or remove it", path = path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file system refuses.
    #[error("cannot {action} the recording {path}: {source}", path = path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file is no cassette, or of a kind that this version does not know.
    #[error("{path}, line {line}: {reason}", path = path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// What was asked is not what was recorded.
    #[error("{0}")]
    Differs(String),
}

/// A recorded model call.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedCall {
    /// Its number, from 1, in the order in which calls began.
    pub number: u64,
    /// What was asked.
    pub request: RecordedRequest,
    /// What was answered.
    pub reply: RecordedReply,
}

/// What was asked of a model, as plain JSON.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecordedRequest {
    /// The model's name.
    pub model: String,
    /// The system prompt.
    pub system: Arc<str>,
    /// The tools.
    pub tools: Arc<Value>,
    /// The schema of the answer, if it was to have one.
    pub output_schema: Option<Arc<Value>>,
    /// The messages, oldest first.
    pub messages: Vec<Arc<Value>>,
}

/// What was answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedReply {
    /// The events, the pieces of one block joined.
    pub events: Vec<StreamEvent>,
    /// The error that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ModelError>,
    /// Whether it was dropped before its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancelled: bool,
}

/// What a cassette holds.
#[derive(Debug, Clone, Default)]
pub struct CassetteContent {
    /// The first line.
    pub header: Map<String, Value>,
    /// The model calls, in the order in which they began.
    pub calls: Vec<RecordedCall>,
    /// All other lines, each with its number.
    pub lines: Vec<(usize, Value)>,
    models: BTreeMap<String, InfoLine>,
}

impl CassetteContent {
    /// Whether a first line is that of a cassette.
    #[must_use]
    pub fn is_header(line: &Value) -> bool {
        line.get("tooloop_cassette").is_some()
    }

    /// Reads a cassette. A last line that was cut is passed over.
    ///
    /// # Errors
    /// If it cannot be read, or is none.
    pub fn read(path: &Path) -> Result<Self, CassetteError> {
        let io = |action| {
            move |source| CassetteError::Io {
                action,
                path: path.to_owned(),
                source,
            }
        };
        let mut reader = BufReader::new(File::open(path).map_err(io("open"))?);
        let mut content = Self::default();
        let mut calls = BTreeMap::new();
        let mut line = Vec::new();
        for number in 1_usize.. {
            let wrong = |reason: String| CassetteError::Format {
                path: path.to_owned(),
                line: number,
                reason,
            };
            line.clear();
            let length = std::io::Read::take(&mut reader, LINE)
                .read_until(b'\n', &mut line)
                .map_err(io("read"))?;
            if length == 0 && number > 1 {
                break;
            }
            let value: Value = match serde_json::from_slice(&line) {
                Ok(value) => value,
                // The recording process died here.
                Err(_) if !line.ends_with(b"\n") && number > 1 => break,
                Err(error) => return Err(wrong(format!("this is no recording: {error}"))),
            };
            if number == 1 {
                content.header = header(value).map_err(wrong)?;
            } else if let Some(call) = value.get("call") {
                let call = CallLine::deserialize(call)
                    .map_err(|error| wrong(format!("this call cannot be read: {error}")))?;
                content
                    .models
                    .entry(call.model.clone())
                    .or_insert_with(|| call.info.clone());
                let call = call.resolved(&calls).map_err(wrong)?;
                calls.insert(call.number, call);
            } else {
                content.lines.push((number, value));
            }
        }
        content.calls = calls.into_values().collect();
        Ok(content)
    }
}

fn header(line: Value) -> Result<Map<String, Value>, String> {
    let version = line.get("tooloop_cassette").and_then(Value::as_u64);
    match (line, version) {
        (Value::Object(header), Some(version)) if version <= u64::from(CASSETTE_VERSION) => {
            Ok(header)
        }
        (_, Some(version)) => Err(format!(
            "it was recorded by a newer version (format {version}, this version knows \
             {CASSETTE_VERSION})"
        )),
        (_, None) => Err("this is not the first line of a recording".into()),
    }
}

#[cfg(test)]
mod tests;
