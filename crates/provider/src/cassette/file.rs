//! The file that is being recorded.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::{Map, Value};
use tooloop_model::{ModelInfo, Request};

use super::line::{Base, CallLine, InfoLine, messages, output_schema, tools};
use super::{CASSETTE_VERSION, CassetteError, RecordedReply};
use crate::Redactor;

/// How many calls are kept in mind, so that a call need not repeat what an earlier one asked.
const KEPT: usize = 8;

/// A cassette that is being recorded. A handle: clones write to one file.
#[derive(Debug, Clone)]
pub struct Cassette(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    redactor: Redactor,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    newest: u64,
    written: VecDeque<(u64, Request)>,
    problem: Option<String>,
}

impl Cassette {
    /// Makes the file, which must not be there yet, for this user alone. What is written to it is
    /// written without secrets.
    ///
    /// # Errors
    /// If there is one, or it cannot be made.
    pub fn create(path: &Path, redactor: Redactor) -> Result<Self, CassetteError> {
        Self::create_with(path, redactor, Map::new())
    }

    /// The same, with more in the first line.
    ///
    /// # Errors
    /// As for [`Cassette::create`].
    pub fn create_with(
        path: &Path,
        redactor: Redactor,
        more: Map<String, Value>,
    ) -> Result<Self, CassetteError> {
        let failed = |action| {
            move |source: std::io::Error| match source.kind() {
                std::io::ErrorKind::AlreadyExists => CassetteError::Exists {
                    path: path.to_owned(),
                },
                _ => CassetteError::Io {
                    action,
                    path: path.to_owned(),
                    source,
                },
            }
        };
        let mut file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(failed("create"))?;
        let mut header = Map::new();
        header.insert("tooloop_cassette".into(), CASSETTE_VERSION.into());
        header.extend(more);
        let mut header = Value::Object(header);
        redactor.redact_json(&mut header);
        file.write_all(format!("{header}\n").as_bytes())
            .map_err(failed("write to"))?;
        Ok(Self::writing(file, path, redactor))
    }

    fn writing(file: File, path: &Path, redactor: Redactor) -> Self {
        Self(Arc::new(Shared {
            path: path.to_owned(),
            redactor,
            state: Mutex::new(State {
                file,
                newest: 0,
                written: VecDeque::new(),
                problem: None,
            }),
        }))
    }

    /// A cassette on a file that is open already.
    #[cfg(test)]
    pub(super) fn on(file: File, path: &Path) -> Self {
        Self::writing(file, path, Redactor::off())
    }

    /// What takes secrets out.
    #[must_use]
    pub fn redactor(&self) -> &Redactor {
        &self.0.redactor
    }

    /// Writes a line of another kind than a call. Its secrets must have been taken out already.
    /// A failure is kept for [`Cassette::problem`].
    pub fn write(&self, line: &impl Serialize) {
        self.lock().write(line, &self.0.path);
    }

    /// Why not everything was recorded, for a person: the recording is of no use then. `None` if
    /// all is well.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.lock().problem.clone()
    }

    /// The number of a call that begins now.
    pub(super) fn begin(&self) -> u64 {
        let mut state = self.lock();
        state.newest = state.newest.saturating_add(1);
        state.newest
    }

    pub(super) fn fail(&self, why: &str) {
        self.lock().fail(&self.0.path, why);
    }

    /// Writes a call that is over.
    pub(super) fn call(
        &self,
        number: u64,
        request: Request,
        info: &ModelInfo,
        mut reply: RecordedReply,
    ) {
        let redactor = &self.0.redactor;
        for event in &mut reply.events {
            redactor.redact_event(event);
        }
        if let Some(error) = &mut reply.error {
            redactor.redact_error(error);
        }
        let mut state = self.lock();
        let base = state.base(&request);
        let kept = base.as_ref().map_or(0, |base| base.messages);
        let whole = base.is_none();
        let line = CallLine {
            number,
            model: request.model.clone(),
            info: InfoLine::new(info),
            base,
            system: whole.then(|| redactor.redact(&request.system).into_owned()),
            tools: whole.then(|| tools(&request, redactor)),
            output_schema: output_schema(&request, redactor),
            messages: messages(&request, kept, redactor),
            reply,
        };
        state.write(&serde_json::json!({ "call": line }), &self.0.path);
        if state.written.len() >= KEPT {
            state.written.pop_front();
        }
        state.written.push_back((number, request));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// One line in one write. After a failure nothing more is written: what follows would make no
    /// sense without it.
    fn write(&mut self, line: &impl Serialize, path: &Path) {
        if self.problem.is_some() {
            return;
        }
        let written = serde_json::to_vec(line)
            .map_err(std::io::Error::from)
            .and_then(|mut line| {
                line.push(b'\n');
                self.file.write_all(&line)
            });
        if let Err(error) = written {
            self.fail(path, &format!("it cannot be written: {error}"));
        }
    }

    fn fail(&mut self, path: &Path, why: &str) {
        let words = || format!("the recording {} is not complete: {why}", path.display());
        self.problem.get_or_insert_with(words);
    }

    /// The written call with the most messages in common.
    fn base(&self, request: &Request) -> Option<Base> {
        let same = |(_, written): &&(u64, Request)| {
            written.system == request.system && written.tools == request.tools
        };
        let common = |(number, written): &(u64, Request)| {
            let pairs = written.messages.iter().zip(&request.messages);
            let equal = pairs.take_while(|(one, other)| Arc::ptr_eq(one, other) || one == other);
            Base {
                call: *number,
                messages: equal.count(),
            }
        };
        let bases = self.written.iter().filter(same).map(common);
        bases.max_by_key(|base| base.messages)
    }
}
