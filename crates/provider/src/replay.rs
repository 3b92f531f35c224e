//! A provider that plays recorded replies, as if a model were writing them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use tokio_util::sync::CancellationToken;
use tooloop_model::{
    AssistantMessage, BlockStart, ContentBlock, ModelError, ModelErrorKind, ModelInfo, Request,
    StopReason, StreamEvent,
};

use crate::scripted::cancelled;
use crate::{ModelStream, Provider};

/// How many bytes of text a delta has, about.
const PIECE: usize = 12;

/// Plays recorded replies, one for each call, piece by piece. When they are over, every call fails:
/// a replay never makes anything up.
#[derive(Debug)]
pub struct ReplayProvider {
    name: String,
    messages: Vec<AssistantMessage>,
    next: AtomicUsize,
    pace: Duration,
}

/// A recording that is none.
#[derive(Debug, thiserror::Error)]
#[error("the recording cannot be read: {0}")]
pub struct ReplayError(#[from] serde_json::Error);

impl ReplayProvider {
    /// Plays these messages, with no pause between pieces.
    #[must_use]
    pub fn new(messages: Vec<AssistantMessage>) -> Self {
        Self {
            name: "replay".into(),
            messages,
            next: AtomicUsize::new(0),
            pace: Duration::ZERO,
        }
    }

    /// Plays a recording: a JSON array of assistant messages.
    ///
    /// ```
    /// # use tooloop_provider::ReplayProvider;
    /// let recording = r#"[
    ///     {"content": [{"tool_use": {"id": "t1", "name": "bash", "input": {"valid": {"command": "ls"}}}}]},
    ///     {"content": [{"text": {"text": "done"}}], "stop_reason": "end_turn"}
    /// ]"#;
    /// let provider = ReplayProvider::from_json(recording)?;
    /// assert_eq!(provider.remaining(), 2);
    /// # Ok::<(), tooloop_provider::ReplayError>(())
    /// ```
    ///
    /// # Errors
    /// If it is not one.
    pub fn from_json(recording: &str) -> Result<Self, ReplayError> {
        Ok(Self::new(serde_json::from_str(recording)?))
    }

    /// Waits this long before each piece.
    #[must_use]
    pub const fn with_pace(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }

    /// How many replies are left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        let played = self.next.load(Ordering::SeqCst);
        self.messages.len().saturating_sub(played)
    }
}

/// What a model can do of which only replies are known.
pub(crate) const PLAYED: ModelInfo = ModelInfo {
    context_window: 200_000,
    max_output_tokens: 8_192,
    price: None,
    images: true,
    structured_output: false,
};

impl Provider for ReplayProvider {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self, _model: &str) -> ModelInfo {
        PLAYED
    }

    fn stream(
        &self,
        _request: Request,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        Box::pin(async move {
            if cancel.is_cancelled() {
                return Err(cancelled());
            }
            let at = self.next.fetch_add(1, Ordering::SeqCst);
            let message = self.messages.get(at).ok_or_else(|| {
                let count = self.messages.len();
                ModelError::new(
                    ModelErrorKind::BadRequest,
                    format!("the recording is over after {count} replies"),
                )
            })?;
            let pace = self.pace;
            let events = stream::iter(events(message));
            let stream: ModelStream = Box::pin(events.then(move |event| {
                let cancel = cancel.clone();
                async move {
                    if !pace.is_zero() {
                        tokio::select! {
                            biased;
                            () = cancel.cancelled() => return Err(cancelled()),
                            () = tokio::time::sleep(pace) => {}
                        }
                    }
                    Ok(event)
                }
            }));
            Ok(until_error(stream))
        })
    }
}

/// Ends a stream after its first error.
fn until_error(stream: ModelStream) -> ModelStream {
    Box::pin(stream::unfold(Some(stream), |state| async move {
        let mut stream = state?;
        let item = stream.next().await?;
        let state = item.is_ok().then_some(stream);
        Some((item, state))
    }))
}

/// A message as the events that it could have come in.
fn events(message: &AssistantMessage) -> Vec<StreamEvent> {
    let mut events = vec![StreamEvent::MessageStart {
        id: message.id.clone(),
        model: message.model.clone(),
    }];
    for (index, block) in message.content.iter().enumerate() {
        let mut begin = |block| events.push(StreamEvent::BlockStart { index, block });
        let vendor = match block {
            ContentBlock::Text { text, vendor } => {
                begin(BlockStart::Text);
                let deltas = pieces(text).map(|text| StreamEvent::TextDelta { index, text });
                events.extend(deltas);
                vendor.clone()
            }
            ContentBlock::Thinking { text, vendor } => {
                begin(BlockStart::Thinking);
                let deltas = pieces(text).map(|text| StreamEvent::ThinkingDelta { index, text });
                events.extend(deltas);
                vendor.clone()
            }
            ContentBlock::RedactedThinking(data) => {
                begin(BlockStart::RedactedThinking(data.clone()));
                None
            }
            ContentBlock::ToolUse(tool_use) => {
                begin(BlockStart::ToolUse {
                    id: tool_use.id.clone(),
                    name: tool_use.name.clone(),
                });
                let json = match &tool_use.input {
                    tooloop_model::ToolInput::Valid(object) => object.get(),
                    tooloop_model::ToolInput::Invalid { raw, .. } => raw,
                };
                let deltas = pieces(json).map(|json| StreamEvent::InputDelta { index, json });
                events.extend(deltas);
                tool_use.vendor.clone()
            }
            ContentBlock::Vendor(data) => {
                begin(BlockStart::Vendor(data.clone()));
                None
            }
        };
        if let Some(data) = vendor {
            events.push(StreamEvent::VendorDelta { index, data });
        }
        events.push(StreamEvent::BlockStop { index });
    }
    if !message.usage.is_empty() {
        events.push(StreamEvent::Usage(message.usage));
    }
    let has_call = message.tool_uses().next().is_some();
    events.push(StreamEvent::MessageStop {
        stop_reason: message.stop_reason.clone().unwrap_or(if has_call {
            StopReason::ToolUse
        } else {
            StopReason::EndTurn
        }),
    });
    events
}

/// Cuts text at the first word's end after [`PIECE`] bytes, and so on.
fn pieces(text: &str) -> impl Iterator<Item = String> {
    text.split_inclusive(' ')
        .fold(Vec::<String>::new(), |mut pieces, word| {
            match pieces.last_mut() {
                Some(last) if last.len() < PIECE => last.push_str(word),
                _ => pieces.push(word.to_owned()),
            }
            pieces
        })
        .into_iter()
}

#[cfg(test)]
mod tests {
    use tooloop_model::{Message, MessageBuilder};

    use super::*;
    use crate::request;

    const RECORDING: &str = r#"[
        {"content": [
            {"thinking": {"text": "I should look at it first.", "vendor": {"owner": "x", "data": "sig"}}},
            {"text": {"text": "Let me look at what there is in the folder."}},
            {"tool_use": {"id": "t1", "name": "bash", "input": {"valid": {"command": "ls -l"}}}}
        ], "stop_reason": "tool_use", "usage": {"input_tokens": 10, "output_tokens": 5}},
        {"content": [{"text": {"text": "done"}}]}
    ]"#;

    #[tokio::test]
    async fn messages_come_back_as_they_were_and_then_no_more() {
        let provider = ReplayProvider::from_json(RECORDING)
            .unwrap()
            .with_pace(Duration::from_micros(1));
        let recorded: Vec<AssistantMessage> = serde_json::from_str(RECORDING).unwrap();
        let ask = || request("m", [Message::user("hi")]);
        for (at, recorded) in recorded.into_iter().enumerate() {
            let mut stream = provider
                .stream(ask(), CancellationToken::new())
                .await
                .unwrap();
            let mut builder = MessageBuilder::new();
            let mut count = 0;
            while let Some(event) = stream.next().await {
                builder.push(event.unwrap()).unwrap();
                count += 1;
            }
            assert!(at == 1 || count > 10, "only {count} pieces");
            let message = builder.finish().unwrap();
            assert_eq!(message.content, recorded.content);
            assert_eq!(message.usage, recorded.usage);
        }
        assert_eq!(provider.remaining(), 0);
        let over = provider.stream(ask(), CancellationToken::new()).await;
        assert_eq!(
            over.err().unwrap().message,
            "the recording is over after 2 replies"
        );
    }

    #[tokio::test]
    async fn it_can_be_cancelled() {
        let provider = ReplayProvider::from_json(RECORDING)
            .unwrap()
            .with_pace(Duration::from_secs(3600));
        let cancel = CancellationToken::new();
        let mut stream = provider
            .stream(request("m", []), cancel.clone())
            .await
            .unwrap();
        cancel.cancel();
        let error = stream.next().await.unwrap().unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Cancelled);
        assert!(stream.next().await.is_none());
    }
}
