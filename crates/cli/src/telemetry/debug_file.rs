//! The file that `--debug-file` names: a line for each thing that happens.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tooloop::provider::Redactor;
use tracing::{Level, Metadata, level_filters::LevelFilter};
use tracing_subscriber::filter::Targets;

use super::fields::Fields;
use crate::exit::Failure;

/// The most bytes of one line.
const LINE: usize = 8 << 10;
/// The most bytes that one run writes.
const ALL: u64 = 256 << 20;

/// Where what is said in a conversation goes: only to those who name it.
const CONTENT: &str = "tooloop::content";

/// A debug file that is open.
#[derive(Debug)]
pub(super) struct DebugFile {
    path: PathBuf,
    filter: Targets,
    redactor: Redactor,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    left: u64,
    failure: Option<String>,
}

impl DebugFile {
    /// Opens the file, for appending; nobody else may read what is new.
    ///
    /// # Errors
    /// If it cannot be opened, or the filter is none.
    pub(super) fn open(
        path: &Path,
        filter: Option<&str>,
        redactor: Redactor,
    ) -> Result<Self, Failure> {
        let refused = |why: &dyn std::fmt::Display| {
            Failure::settings(format!(
                "cannot write to the debug file {}: {why}",
                path.display()
            ))
        };
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            // Nobody waits for a reader of a pipe.
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
            .open(path)
            .map_err(|error| refused(&error))?;
        let kind = file.metadata().map_err(|error| refused(&error))?;
        if !kind.is_file() {
            return Err(refused(&"it is not a plain file"));
        }
        Ok(Self {
            path: path.to_owned(),
            filter: targets(filter)?,
            redactor,
            state: Mutex::new(State {
                file,
                left: ALL,
                failure: None,
            }),
        })
    }

    pub(super) fn wants(&self, metadata: &Metadata<'_>) -> bool {
        self.filter
            .would_enable(metadata.target(), metadata.level())
    }

    pub(super) fn most(&self) -> LevelFilter {
        let filters = self.filter.iter().map(|(_, level)| level);
        let most = filters.chain(self.filter.default_level()).max();
        most.unwrap_or(LevelFilter::OFF)
    }

    /// Whether it wants what is said in a conversation.
    pub(super) fn has_content(&self) -> bool {
        self.filter.would_enable(CONTENT, &Level::TRACE)
    }

    /// Writes a line.
    pub(super) fn line(&self, level: &Level, path: &str, fields: &Fields) {
        let mut line = String::with_capacity(160);
        let now = jiff::Timestamp::now();
        line.push_str(&format!("{now:.3} {level:5} "));
        if !path.is_empty() {
            line.push_str(path);
            line.push_str(": ");
        }
        push_plain(&mut line, &fields.message);
        for (name, value) in &fields.values {
            line.push_str(&format!(" {name}={value}"));
        }
        let clean = self.redactor.redact(&line);
        let end = clean.floor_char_boundary(LINE);
        let mut bytes = clean.get(..end).unwrap_or_default().as_bytes().to_vec();
        if end < clean.len() {
            bytes.extend_from_slice(" [cut]".as_bytes());
        }
        bytes.push(b'\n');
        self.write(&bytes);
    }

    fn write(&self, bytes: &[u8]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.failure.is_some() {
            return;
        }
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let Some(left) = state.left.checked_sub(length) else {
            let limit = ALL >> 20;
            state.failure = Some(format!("it has grown by {limit} MiB in this run"));
            return;
        };
        state.left = left;
        // In one write, so that lines of several runs stay whole.
        if let Err(error) = state.file.write_all(bytes) {
            state.failure = Some(error.to_string());
        }
    }

    /// Why the file is not complete, if it is not.
    pub(super) fn failure(&self) -> Option<String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let why = state.failure.as_ref()?;
        let path = self.path.display();
        Some(format!("the debug file {path} is not complete: {why}"))
    }
}

fn push_plain(line: &mut String, text: &str) {
    line.extend(text.chars().map(|c| if c.is_control() { ' ' } else { c }));
}

/// By default all that is ours, at the level DEBUG.
fn targets(filter: Option<&str>) -> Result<Targets, Failure> {
    let ours = |level| {
        let rooms = [
            "tooloop",
            "tooloop_provider",
            "tooloop_exec",
            "tooloop_tools",
        ];
        Targets::new().with_targets(rooms.map(|room| (room, level)))
    };
    let Some(filter) = filter else {
        return Ok(ours(LevelFilter::DEBUG).with_target(CONTENT, LevelFilter::OFF));
    };
    let filter = filter.trim();
    let targets = match filter.parse::<LevelFilter>() {
        Ok(level) => ours(level),
        Err(_) => filter.parse::<Targets>().map_err(|error| {
            Failure::settings(format!(
                "the setting log must be a level (error, warn, info, debug, trace) or a list such \
                 as tooloop=info,tooloop_provider=trace: {error}"
            ))
        })?,
    };
    Ok(if filter.contains(CONTENT) {
        targets
    } else {
        targets.with_target(CONTENT, LevelFilter::OFF)
    })
}
