//! A model call under way.

use std::future::pending;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tooloop_model::{ModelError, ModelErrorKind, Request, StreamEvent};
use tooloop_provider::{ModelStream, Provider};
use tracing::{Instrument, Span};

/// One model call. Polled by the driver itself, so that a delta costs no hop between tasks.
pub(crate) struct ModelCall {
    pub(crate) call: u64,
    pub(crate) begun: Instant,
    state: State,
}

enum State {
    Asked(BoxFuture<'static, Result<ModelStream, ModelError>>),
    Writing(ModelStream),
    Over,
}

impl ModelCall {
    /// What happens until the reply begins belongs into the span.
    pub(crate) fn start(
        provider: Arc<dyn Provider>,
        call: u64,
        request: Request,
        span: Span,
    ) -> Self {
        let asked = async move {
            // Dropping the call closes its connection: there is nothing else to cancel.
            provider.stream(request, CancellationToken::new()).await
        };
        Self {
            call,
            begun: Instant::now(),
            state: State::Asked(Box::pin(asked.instrument(span))),
        }
    }

    /// The next event. After an error, or after the end of the message, it never resolves again.
    /// Safe to drop and call again.
    pub(crate) async fn next(&mut self) -> Result<StreamEvent, ModelError> {
        loop {
            let result = match &mut self.state {
                State::Asked(asked) => match asked.await {
                    Ok(stream) => {
                        self.state = State::Writing(stream);
                        continue;
                    }
                    Err(error) => Err(error),
                },
                State::Writing(stream) => match stream.next().await {
                    Some(Ok(event)) => {
                        return Ok(event);
                    }
                    Some(Err(error)) => Err(error),
                    None => Err(ModelError::new(
                        ModelErrorKind::CutStream,
                        "the reply ended before its end",
                    )),
                },
                State::Over => pending().await,
            };
            self.state = State::Over;
            return result;
        }
    }
}
