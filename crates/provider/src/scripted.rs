//! A provider that answers from a list.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use futures_util::future::BoxFuture;
use futures_util::stream;
use tokio_util::sync::CancellationToken;
use tooloop_model::{
    BlockStart, ModelError, ModelErrorKind, ModelInfo, Request, StopReason, StreamEvent, ToolUseId,
};

use crate::{ModelStream, Provider};

/// One scripted reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The call fails before any event.
    Refused(ModelError),
    /// These events, then the end; what is not ended by a [`StreamEvent::MessageStop`] or an error
    /// ends as a cut stream.
    Events(Vec<Result<StreamEvent, ModelError>>),
    /// These events, then silence until the call is cancelled.
    Hold(Vec<StreamEvent>),
}

/// A provider that answers from a list and keeps the requests: for tests and examples. When the
/// list is over, every call fails with an error that says so.
#[derive(Debug)]
pub struct ScriptedProvider {
    replies: Mutex<VecDeque<Reply>>,
    requests: Mutex<Vec<Request>>,
    info: ModelInfo,
}

impl Default for ScriptedProvider {
    fn default() -> Self {
        Self::new()
    }
}

impl ScriptedProvider {
    /// A provider with an empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            replies: Mutex::new(VecDeque::new()),
            requests: Mutex::new(Vec::new()),
            info: ModelInfo {
                context_window: 200_000,
                max_output_tokens: 8_192,
                price: None,
                images: true,
                structured_output: false,
            },
        }
    }

    /// Replaces what it says of every model.
    #[must_use]
    pub const fn with_info(mut self, info: ModelInfo) -> Self {
        self.info = info;
        self
    }

    /// Adds a reply.
    #[must_use]
    pub fn then(self, reply: Reply) -> Self {
        self.push(reply);
        self
    }

    /// Adds a reply of these events.
    #[must_use]
    pub fn events(self, events: Vec<StreamEvent>) -> Self {
        self.then(Reply::Events(events.into_iter().map(Ok).collect()))
    }

    /// Adds a reply of one text.
    #[must_use]
    pub fn say(self, text: &str) -> Self {
        self.events(vec![
            StreamEvent::BlockStart {
                index: 0,
                block: BlockStart::Text,
            },
            StreamEvent::TextDelta {
                index: 0,
                text: text.into(),
            },
            StreamEvent::BlockStop { index: 0 },
            StreamEvent::MessageStop {
                stop_reason: StopReason::EndTurn,
            },
        ])
    }

    /// Adds a reply of one tool use.
    #[must_use]
    pub fn call(self, id: &str, name: &str, input: &str) -> Self {
        self.events(vec![
            StreamEvent::BlockStart {
                index: 0,
                block: BlockStart::ToolUse {
                    id: ToolUseId(id.into()),
                    name: name.into(),
                },
            },
            StreamEvent::InputDelta {
                index: 0,
                json: input.into(),
            },
            StreamEvent::BlockStop { index: 0 },
            StreamEvent::MessageStop {
                stop_reason: StopReason::ToolUse,
            },
        ])
    }

    /// Adds a call that fails before any event.
    #[must_use]
    pub fn fail(self, error: ModelError) -> Self {
        self.then(Reply::Refused(error))
    }

    /// Adds a reply to a provider that is already in use.
    pub fn push(&self, reply: Reply) {
        self.replies
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(reply);
    }

    /// The requests so far, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// How many replies are left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.replies
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }
}

impl Provider for ScriptedProvider {
    fn name(&self) -> &str {
        "scripted"
    }

    fn info(&self, _model: &str) -> ModelInfo {
        self.info.clone()
    }

    fn stream(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(request);
        let reply = self
            .replies
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        Box::pin(async move {
            let reply = reply.ok_or_else(|| {
                ModelError::new(ModelErrorKind::BadRequest, "the scripted replies are over")
            })?;
            if cancel.is_cancelled() {
                return Err(cancelled());
            }
            match reply {
                Reply::Refused(error) => Err(error),
                Reply::Events(events) => Ok(play(events, false, cancel)),
                Reply::Hold(events) => Ok(play(events.into_iter().map(Ok).collect(), true, cancel)),
            }
        })
    }
}

pub(crate) fn cancelled() -> ModelError {
    ModelError::new(ModelErrorKind::Cancelled, "the call was cancelled")
}

fn play(
    events: Vec<Result<StreamEvent, ModelError>>,
    hold: bool,
    cancel: CancellationToken,
) -> ModelStream {
    struct State {
        events: std::vec::IntoIter<Result<StreamEvent, ModelError>>,
        hold: bool,
        stopped: bool,
        over: bool,
        cancel: CancellationToken,
    }
    let state = State {
        events: events.into_iter(),
        hold,
        stopped: false,
        over: false,
        cancel,
    };
    Box::pin(stream::unfold(state, |mut state| async move {
        if state.over {
            return None;
        }
        if state.cancel.is_cancelled() && !state.stopped {
            state.over = true;
            return Some((Err(cancelled()), state));
        }
        match state.events.next() {
            Some(Ok(event)) => {
                state.stopped |= matches!(event, StreamEvent::MessageStop { .. });
                Some((Ok(event), state))
            }
            Some(Err(error)) => {
                state.over = true;
                Some((Err(error), state))
            }
            None if state.stopped => None,
            None => {
                let error = if state.hold {
                    state.cancel.cancelled().await;
                    cancelled()
                } else {
                    ModelError::new(ModelErrorKind::CutStream, "the scripted reply has no end")
                };
                state.over = true;
                Some((Err(error), state))
            }
        }
    }))
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;
    use tooloop_model::Message;

    use super::*;
    use crate::request;

    /// What a call gives, each event as a word.
    async fn ask(provider: &ScriptedProvider, cancel: CancellationToken) -> Vec<String> {
        let asked = provider.stream(request("m", [Message::user("hi")]), cancel.clone());
        let mut stream = match asked.await {
            Ok(stream) => stream,
            Err(error) => return vec![format!("refused: {error}")],
        };
        let mut words = Vec::new();
        while let Some(event) = stream.next().await {
            words.push(match event {
                Ok(StreamEvent::TextDelta { text, .. }) => {
                    // Whoever holds a reply back waits for this.
                    cancel.cancel();
                    text
                }
                Ok(StreamEvent::MessageStop { .. }) => "stop".into(),
                Ok(_) => continue,
                Err(error) => format!("{:?}", error.kind),
            });
        }
        words
    }

    #[tokio::test]
    async fn replies_in_order_and_then_none() {
        let half = vec![
            StreamEvent::BlockStart {
                index: 0,
                block: BlockStart::Text,
            },
            StreamEvent::TextDelta {
                index: 0,
                text: "half".into(),
            },
        ];
        let overloaded = ModelError::new(ModelErrorKind::Overloaded, "no room");
        let provider = ScriptedProvider::new()
            .call("t1", "bash", "{}")
            .events(half.clone())
            .then(Reply::Hold(half))
            .fail(overloaded);
        let quiet = CancellationToken::new;
        assert_eq!(ask(&provider, quiet()).await, ["stop"]);
        assert_eq!(ask(&provider, quiet()).await, ["half", "Cancelled"]);
        assert_eq!(ask(&provider, quiet()).await, ["half", "Cancelled"]);
        assert_eq!(ask(&provider, quiet()).await, ["refused: no room"]);
        assert_eq!(
            ask(&provider, quiet()).await,
            ["refused: the scripted replies are over"]
        );
        assert_eq!((provider.requests().len(), provider.remaining()), (5, 0));
        let dead = quiet();
        dead.cancel();
        provider.push(Reply::Events(Vec::new()));
        assert_eq!(
            ask(&provider, dead).await,
            ["refused: the call was cancelled"]
        );
        provider.push(Reply::Events(Vec::new()));
        assert_eq!(ask(&provider, quiet()).await, ["CutStream"]);
    }
}
