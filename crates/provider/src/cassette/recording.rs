//! The provider that records.

use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use tokio_util::sync::CancellationToken;
use tooloop_model::{MessageBuilder, ModelError, ModelInfo, Request, StreamEvent};

use super::{Cassette, CassetteError, RecordedReply};
use crate::{ModelStream, Provider, Redactor};

/// Records what passes between an agent and its model into a [`Cassette`]. Whatever becomes of the
/// recording, the calls go on: ask [`RecordingProvider::problem`] at the end.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # use std::sync::Arc;
/// # use futures_util::StreamExt;
/// # use tooloop_model::Message;
/// # use tooloop_provider::{Provider, RecordingProvider, Redactor, ScriptedProvider, request};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("fixture.jsonl");
/// # let real = ScriptedProvider::new().say("hello");
/// let provider = RecordingProvider::new(Arc::new(real), &path, Redactor::default())?;
/// // Give it to an agent in place of the real one, and use the agent. Then:
/// # let asked = request("any", [Message::user("hi")]);
/// # let stream = provider.stream(asked, Default::default()).await?;
/// # drop(stream.collect::<Vec<_>>().await);
/// assert_eq!(provider.problem(), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct RecordingProvider {
    inner: Arc<dyn Provider>,
    cassette: Cassette,
}

impl RecordingProvider {
    /// Records into a new file, without the secrets that the redactor finds.
    ///
    /// # Errors
    /// If there is such a file, or it cannot be made.
    pub fn new(
        inner: Arc<dyn Provider>,
        path: &Path,
        redactor: Redactor,
    ) -> Result<Self, CassetteError> {
        Ok(Self::onto(inner, Cassette::create(path, redactor)?))
    }

    /// Records onto a cassette.
    #[must_use]
    pub fn onto(inner: Arc<dyn Provider>, cassette: Cassette) -> Self {
        Self { inner, cassette }
    }

    /// Why not everything was recorded, for a person. `None` if all is well.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.cassette.problem()
    }
}

impl Provider for RecordingProvider {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn info(&self, model: &str) -> ModelInfo {
        self.inner.info(model)
    }

    fn unrecorded(&self) -> Option<Arc<dyn Provider>> {
        Some(Arc::clone(&self.inner))
    }

    fn stream(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        let mut tape = Tape {
            cassette: self.cassette.clone(),
            number: self.cassette.begin(),
            info: self.inner.info(&request.model),
            request: Some(request.clone()),
            reply: RecordedReply::default(),
            size: 0,
        };
        Box::pin(async move {
            let stream = match self.inner.stream(request, cancel).await {
                Ok(stream) => stream,
                Err(error) => {
                    tape.take(&Err(error.clone()));
                    return Err(error);
                }
            };
            let played = stream::unfold((stream, tape), |(mut stream, mut tape)| async move {
                let event = stream.next().await?;
                tape.take(&event);
                Some((event, (stream, tape)))
            });
            Ok(Box::pin(played) as ModelStream)
        })
    }
}

/// What has passed of one call. Written when it is dropped, which is the end of every call.
struct Tape {
    cassette: Cassette,
    number: u64,
    info: ModelInfo,
    request: Option<Request>,
    reply: RecordedReply,
    size: usize,
}

impl Tape {
    fn take(&mut self, event: &Result<StreamEvent, ModelError>) {
        match event {
            Ok(event) => {
                self.size = self.size.saturating_add(size(event));
                if self.size <= MessageBuilder::MAX_BYTES {
                    push(&mut self.reply.events, event);
                }
            }
            Err(error) => self.reply.error = Some(error.clone()),
        }
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        let Some(request) = self.request.take() else {
            return;
        };
        if self.size > MessageBuilder::MAX_BYTES {
            let number = self.number;
            return self.cassette.fail(&format!(
                "the reply to call {number} is larger than {} bytes",
                MessageBuilder::MAX_BYTES
            ));
        }
        let mut reply = std::mem::take(&mut self.reply);
        let is_stop = |event: &StreamEvent| matches!(event, StreamEvent::MessageStop { .. });
        reply.cancelled = reply.error.is_none() && !reply.events.iter().any(is_stop);
        self.cassette.call(self.number, request, &self.info, reply);
    }
}

/// About the bytes that an event takes.
fn size(event: &StreamEvent) -> usize {
    let text = match event {
        StreamEvent::TextDelta { text, .. } | StreamEvent::ThinkingDelta { text, .. } => text,
        StreamEvent::InputDelta { json, .. } => json,
        StreamEvent::VendorDelta { data, .. } => data.data.get(),
        StreamEvent::MessageStart { .. }
        | StreamEvent::BlockStart { .. }
        | StreamEvent::BlockStop { .. }
        | StreamEvent::Usage(_)
        | StreamEvent::MessageStop { .. } => "",
    };
    text.len().saturating_add(64)
}

/// Adds an event; a piece of a block is joined to the piece before it. So a recording is short, and
/// a secret is found that came in pieces.
fn push(events: &mut Vec<StreamEvent>, event: &StreamEvent) {
    let before = events
        .iter_mut()
        .rev()
        .find(|before| block(before) == block(event));
    if !before.is_some_and(|before| join(before, event)) {
        events.push(event.clone());
    }
}

/// The block that an event is about.
const fn block(event: &StreamEvent) -> Option<usize> {
    match event {
        StreamEvent::BlockStart { index, .. }
        | StreamEvent::TextDelta { index, .. }
        | StreamEvent::ThinkingDelta { index, .. }
        | StreamEvent::InputDelta { index, .. }
        | StreamEvent::VendorDelta { index, .. }
        | StreamEvent::BlockStop { index } => Some(*index),
        StreamEvent::MessageStart { .. }
        | StreamEvent::Usage(_)
        | StreamEvent::MessageStop { .. } => None,
    }
}

/// Joins an event to the one before it in its block, if both are pieces of one text.
fn join(before: &mut StreamEvent, event: &StreamEvent) -> bool {
    match (before, event) {
        (StreamEvent::TextDelta { text, .. }, StreamEvent::TextDelta { text: more, .. })
        | (
            StreamEvent::ThinkingDelta { text, .. },
            StreamEvent::ThinkingDelta { text: more, .. },
        )
        | (
            StreamEvent::InputDelta { json: text, .. },
            StreamEvent::InputDelta { json: more, .. },
        ) => {
            text.push_str(more);
            true
        }
        _ => false,
    }
}
