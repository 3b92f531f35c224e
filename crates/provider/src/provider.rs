//! The one thing that the loop asks of a model: a stream of events for a request.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tooloop_model::{
    HistoryMessage, Message, ModelError, ModelInfo, Request, StreamEvent, ToolChoice,
};

/// A reply as it comes. It ends after a clean [`StreamEvent::MessageStop`] (and the usage that may
/// follow it) or after an error, whichever comes first; there is no other end.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<StreamEvent, ModelError>> + Send>>;

/// A source of replies.
pub trait Provider: Send + Sync + fmt::Debug {
    /// A name to show.
    fn name(&self) -> &str;

    /// The name under which traces speak of it, by OpenTelemetry's conventions.
    fn trace_name(&self) -> &str {
        match self.name() {
            "mistral" => "mistral_ai",
            "gemini" => "gcp.gemini",
            "xai" => "x_ai",
            name => name,
        }
    }

    /// What is known of a model. Unknown models get safe numbers and no price.
    fn info(&self, model: &str) -> ModelInfo;

    /// The provider behind one that records what passes, for calls that are no part of the record.
    fn unrecorded(&self) -> Option<Arc<dyn Provider>> {
        None
    }

    /// Asks for a reply. Resolves once the reply's body has begun, or with the error that kept it
    /// from beginning. Cancelling the token ends the call at any point with
    /// [`tooloop_model::ModelErrorKind::Cancelled`] and closes its connection; dropping the future
    /// or the stream closes it too.
    fn stream(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<ModelStream, ModelError>>;
}

impl<P: Provider + ?Sized> Provider for Arc<P> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn trace_name(&self) -> &str {
        (**self).trace_name()
    }

    fn info(&self, model: &str) -> ModelInfo {
        (**self).info(model)
    }

    fn unrecorded(&self) -> Option<Arc<dyn Provider>> {
        (**self).unrecorded()
    }

    fn stream(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        (**self).stream(request, cancel)
    }
}

/// A plain request: no system prompt, no tools, the provider's own output cap.
#[must_use]
pub fn request(model: &str, messages: impl IntoIterator<Item = Message>) -> Request {
    Request {
        model: model.into(),
        system: Arc::from(""),
        tools: Arc::from([]),
        tool_choice: ToolChoice::default(),
        messages: messages
            .into_iter()
            .map(|message| Arc::new(HistoryMessage::new(message)))
            .collect(),
        output_schema: None,
        max_output_tokens: None,
    }
}
