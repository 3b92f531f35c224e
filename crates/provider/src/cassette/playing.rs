//! The provider that answers from a recording.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use futures_util::stream;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tooloop_model::{ModelError, ModelErrorKind, ModelInfo, Request, StreamEvent};

use super::line::{messages, output_schema, tools};
use super::{
    CassetteContent, CassetteError, RecordedCall, RecordedReply, RecordedRequest, ValueDifference,
    first_difference,
};
use crate::replay::PLAYED;
use crate::scripted::cancelled;
use crate::{ModelStream, Provider, Redactor};

/// Answers from a cassette that a [`crate::RecordingProvider`] has made, without any network: for
/// tests of agents. It makes nothing up: a request that differs from the recorded one, and one
/// beyond the end, get an error that no retry mends and that names the call, the place and both
/// values.
///
/// Requests are compared by model, system prompt, tools and messages, and are matched by what they
/// hold: calls that run beside each other may come in any order.
#[derive(Debug)]
pub struct CassetteProvider {
    path: PathBuf,
    models: BTreeMap<String, ModelInfo>,
    redactor: Redactor,
    ignored: Vec<&'static str>,
    replaced: Vec<(String, String)>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The calls that have not been asked for yet.
    left: Vec<RecordedCall>,
    /// The first request that found no answer.
    refused: Option<String>,
}

impl CassetteProvider {
    /// Opens a recording.
    ///
    /// # Errors
    /// If it cannot be read, or is none.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CassetteError> {
        let path = path.as_ref();
        let content = CassetteContent::read(path)?;
        let models = content.models.iter();
        Ok(Self {
            path: path.to_owned(),
            models: models
                .map(|(name, info)| (name.clone(), info.info()))
                .collect(),
            redactor: Redactor::default(),
            ignored: Vec::new(),
            replaced: Vec::new(),
            state: Mutex::new(State {
                left: content.calls,
                refused: None,
            }),
        })
    }

    /// Takes the same secrets out of requests as the recording did. Without this, those that show
    /// by their look.
    #[must_use]
    pub fn redacting(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }

    /// Takes any system prompt.
    #[must_use]
    pub fn ignoring_system(mut self) -> Self {
        self.ignored.push("system");
        self
    }

    /// Takes any descriptions of tools.
    #[must_use]
    pub fn ignoring_tools(mut self) -> Self {
        self.ignored.push("tools");
        self
    }

    /// Takes any model.
    #[must_use]
    pub fn ignoring_model(mut self) -> Self {
        self.ignored.push("model");
        self
    }

    /// Reads `here` in a request as `there` in the recording, such as the folder of this machine as
    /// that of the machine that recorded.
    #[must_use]
    pub fn reading(mut self, here: impl Into<String>, there: impl Into<String>) -> Self {
        self.replaced.push((here.into(), there.into()));
        self
    }

    /// How many recorded calls have not been asked for.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.lock().left.len()
    }

    /// Whether all was asked as it was recorded: to be called at the end of a test.
    ///
    /// # Errors
    /// The first request that differed, or the recorded calls that were never asked for.
    pub fn finish(&self) -> Result<(), CassetteError> {
        let state = self.lock();
        if let Some(refused) = &state.refused {
            return Err(CassetteError::Differs(refused.clone()));
        }
        let Some(first) = state.left.first() else {
            return Ok(());
        };
        let newest = first.request.messages.last();
        let newest = newest.map_or_else(String::new, |message| message.to_string());
        let newest: String = newest.chars().take(160).collect();
        Err(CassetteError::Differs(format!(
            "{}: {} recorded calls were never asked for; the first is call {}, whose newest message \
             is {newest}",
            self.path.display(),
            state.left.len(),
            first.number
        )))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The request as it would stand in the recording.
    fn recorded(&self, request: &Request) -> RecordedRequest {
        let mut system = Value::from(self.redactor.redact(&request.system));
        let mut tools = tools(request, &self.redactor);
        let mut messages = messages(request, 0, &self.redactor);
        for value in messages.iter_mut().chain([&mut system, &mut tools]) {
            self.replace(value);
        }
        RecordedRequest {
            model: request.model.clone(),
            system: Arc::from(system.as_str().unwrap_or_default()),
            tools: Arc::new(tools),
            output_schema: output_schema(request, &self.redactor).map(Arc::new),
            messages: messages.into_iter().map(Arc::new).collect(),
        }
    }

    fn replace(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                for (here, there) in &self.replaced {
                    if text.contains(here) {
                        *text = text.replace(here, there);
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.replace(item)),
            Value::Object(members) => members.values_mut().for_each(|value| self.replace(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn is_same(&self, recorded: &RecordedRequest, asked: &RecordedRequest) -> bool {
        let ignored = |part| self.ignored.contains(&part);
        (ignored("model") || recorded.model == asked.model)
            && (ignored("system") || recorded.system == asked.system)
            && (ignored("tools") || recorded.tools == asked.tools)
            && recorded.output_schema == asked.output_schema
            && recorded.messages == asked.messages
    }

    /// The reply to a request, or why there is none.
    fn answer(&self, request: &Request) -> Result<RecordedReply, String> {
        let asked = self.recorded(request);
        let mut state = self.lock();
        let mut calls = state.left.iter();
        if let Some(at) = calls.position(|call| self.is_same(&call.request, &asked)) {
            return Ok(state.left.remove(at).reply);
        }
        let path = self.path.display();
        let words = match state.left.first() {
            None => format!("{path}: all recorded calls have been asked for, and this is one more"),
            Some(call) => {
                let difference = difference(&call.request, &asked, &self.ignored);
                let difference = difference.map_or_else(String::new, |found| found.to_string());
                format!(
                    "{path}: the request differs from call {} {difference}",
                    call.number
                )
            }
        };
        state.refused.get_or_insert_with(|| words.clone());
        Err(words)
    }
}

/// Where two requests differ.
fn difference(
    recorded: &RecordedRequest,
    asked: &RecordedRequest,
    ignored: &[&str],
) -> Option<ValueDifference> {
    let value = |request: &RecordedRequest| {
        let mut value = json!({
            "model": request.model,
            "system": request.system,
            "tools": request.tools,
            "output_schema": request.output_schema,
            "messages": request.messages,
        });
        if let Some(members) = value.as_object_mut() {
            members.retain(|name, _| !ignored.contains(&name.as_str()));
        }
        value
    };
    first_difference(&value(recorded), &value(asked))
}

impl Provider for CassetteProvider {
    fn name(&self) -> &str {
        "recording"
    }

    fn info(&self, model: &str) -> ModelInfo {
        let known = self.models.get(model).or(self.models.values().next());
        known.cloned().unwrap_or(PLAYED)
    }

    fn stream(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        Box::pin(async move {
            if cancel.is_cancelled() {
                return Err(cancelled());
            }
            let reply = self
                .answer(&request)
                .map_err(|words| ModelError::new(ModelErrorKind::BadRequest, words))?;
            play(reply)
        })
    }
}

fn play(reply: RecordedReply) -> Result<ModelStream, ModelError> {
    let error = reply.error.or_else(|| {
        let words = "the recorded call was dropped here";
        let dropped = || ModelError::new(ModelErrorKind::Cancelled, words);
        reply.cancelled.then(dropped)
    });
    match error {
        Some(error) if reply.events.is_empty() => Err(error),
        error => {
            let events: Vec<Result<StreamEvent, ModelError>> = reply
                .events
                .into_iter()
                .map(Ok)
                .chain(error.map(Err))
                .collect();
            Ok(Box::pin(stream::iter(events)))
        }
    }
}
