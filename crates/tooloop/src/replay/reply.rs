//! The model's part: what a reply must have been for the record to go on as it does.

use std::time::Duration;

use tooloop_kernel::{Continue, Entry, RetryPolicy, TurnEnd};
use tooloop_model::{
    AssistantMessage, BlockStart, ContentBlock, Message, ModelError, ModelErrorKind, StopReason,
    StreamEvent, ToolInput, Usage,
};
use tooloop_provider::RecordedReply;

use super::recording::Recorded;

/// What became of a model call.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outcome<'a> {
    /// A reply that is part of the conversation.
    Reply(&'a AssistantMessage),
    /// What an interrupt left of one.
    Partial(&'a AssistantMessage),
    /// A reply that the default cap cut and that is asked for again with the larger one.
    Escalate,
    /// A failure after which it is tried again.
    Retry {
        error: &'a ModelError,
        wait: Duration,
        voided: bool,
    },
    /// A failure that ends the turn.
    Fail(ModelError),
    /// The last of the overloads after which another model is asked.
    FallBack,
    /// A summary of the conversation; blank if there was none.
    Summary(&'a str),
    /// An end from outside, with nothing worth keeping.
    BreakOff,
}

/// What the record says of a call that was to sum the conversation up.
pub(super) fn summary(records: &[Recorded]) -> Option<(Outcome<'_>, Usage)> {
    let mut usage = Usage::default();
    for record in records {
        let outcome = match &record.entry {
            Entry::Discarded { usage: discarded } => {
                usage = *discarded;
                continue;
            }
            Entry::Spent { .. } => continue,
            Entry::Compacted { summary, .. } => Outcome::Summary(summary),
            Entry::Continue(Continue::Compact) => {
                let kind = ModelErrorKind::ContextTooLong;
                Outcome::Fail(ModelError::new(kind, "(the words are not on record)"))
            }
            Entry::Retry { .. }
            | Entry::Continue(Continue::FallbackModel { .. })
            | Entry::TurnEnd(
                TurnEnd::Interrupted { .. }
                | TurnEnd::Deadline { .. }
                | TurnEnd::HookStopped { .. },
            ) => return outcome(records, 0),
            _ => Outcome::Summary(""),
        };
        return Some((outcome, usage));
    }
    None
}

/// What the record says, with what the discarded reply used. `overloads` is how many calls in a row
/// met an overload before this one.
pub(super) fn outcome(records: &[Recorded], overloads: u32) -> Option<(Outcome<'_>, Usage)> {
    let mut usage = Usage::default();
    // A reply that failed is discarded first and booked then; one that is broken off the other way
    // round.
    let mut failed = false;
    for record in records {
        let outcome = match &record.entry {
            Entry::Discarded { usage: discarded } => {
                usage = *discarded;
                continue;
            }
            Entry::Spent { .. } => {
                failed = !usage.is_empty();
                continue;
            }
            Entry::Message(message) => match message.message() {
                Message::Assistant(reply) if reply.stop_reason.is_some() => Outcome::Reply(reply),
                Message::Assistant(reply) => Outcome::Partial(reply),
                Message::User(_) | Message::ToolResults(_) => return None,
            },
            Entry::Continue(Continue::EscalateOutput) => Outcome::Escalate,
            Entry::Continue(Continue::Compact) => {
                let kind = ModelErrorKind::ContextTooLong;
                Outcome::Fail(ModelError::new(kind, "(the words are not on record)"))
            }
            Entry::Retry {
                error,
                wait_ms,
                voided,
                ..
            } => Outcome::Retry {
                error,
                wait: Duration::from_millis(*wait_ms),
                voided: *voided,
            },
            Entry::TurnEnd(TurnEnd::ModelError { error, .. }) => Outcome::Fail(error.clone()),
            Entry::TurnEnd(TurnEnd::ContextLimit { message }) => {
                let kind = ModelErrorKind::ContextTooLong;
                Outcome::Fail(ModelError::new(kind, message))
            }
            Entry::Continue(Continue::FallbackModel { .. }) => Outcome::FallBack,
            // There was no money for the call that was to follow.
            Entry::TurnEnd(TurnEnd::Budget(_)) if overloads > 1 => Outcome::FallBack,
            Entry::TurnEnd(TurnEnd::Budget(_)) => Outcome::Escalate,
            // The process died before it could record what comes of it.
            Entry::TurnEnd(TurnEnd::Interrupted { .. }) if failed => Outcome::Fail(
                ModelError::new(ModelErrorKind::Connection, "(the words are not on record)"),
            ),
            Entry::TurnEnd(
                TurnEnd::Interrupted { .. }
                | TurnEnd::Deadline { .. }
                | TurnEnd::HookStopped { .. },
            ) => Outcome::BreakOff,
            _ => return None,
        };
        return Some((outcome, usage));
    }
    None
}

impl Outcome<'_> {
    /// The retries that lead to it.
    pub(super) fn policy(&self) -> RetryPolicy {
        let wait = match self {
            Self::Retry { wait, .. } => Some(*wait),
            Self::Reply(_)
            | Self::Partial(_)
            | Self::Escalate
            | Self::Fail(_)
            | Self::FallBack
            | Self::Summary(_)
            | Self::BreakOff => None,
        };
        RetryPolicy {
            base: wait.unwrap_or_default(),
            max_wait: wait.unwrap_or_default(),
            jitter_percent: 0,
            max_attempts: if wait.is_some() { u32::MAX } else { 0 },
            max_total: Duration::MAX,
            max_server_wait: Duration::MAX,
        }
    }

    /// A reply that leads to it, where the real one is not on record.
    ///
    /// `booked` tells that something came of it, which has its price.
    pub(super) fn reply(&self, usage: Usage, booked: bool) -> RecordedReply {
        let mut events = match self {
            Self::Reply(reply) | Self::Partial(reply) => events(reply),
            Self::Summary(summary) if !summary.is_empty() => text(summary),
            Self::Retry { voided: true, .. } => {
                text("(what was shown of this reply is not on record)")
            }
            Self::Escalate
            | Self::Retry { .. }
            | Self::Fail(_)
            | Self::FallBack
            | Self::Summary(_)
            | Self::BreakOff => Vec::new(),
        };
        if !usage.is_empty() {
            events.push(StreamEvent::Usage(usage));
        }
        if booked && events.is_empty() {
            events.push(StreamEvent::MessageStart {
                id: None,
                model: None,
            });
        }
        let stop_reason = match self {
            Self::Reply(reply) => reply.stop_reason.clone(),
            Self::Escalate => Some(StopReason::MaxTokens),
            Self::Summary(_) => Some(StopReason::EndTurn),
            Self::Partial(_)
            | Self::Retry { .. }
            | Self::Fail(_)
            | Self::FallBack
            | Self::BreakOff => None,
        };
        events.extend(stop_reason.map(|stop_reason| StreamEvent::MessageStop { stop_reason }));
        let error = match self {
            Self::Retry { error, .. } => Some((*error).clone()),
            Self::Fail(error) => Some(error.clone()),
            Self::FallBack => Some(ModelError::new(
                ModelErrorKind::Overloaded,
                "overloaded (the words are not on record)",
            )),
            Self::Reply(_)
            | Self::Partial(_)
            | Self::Escalate
            | Self::Summary(_)
            | Self::BreakOff => None,
        };
        RecordedReply {
            cancelled: matches!(self, Self::Partial(_) | Self::BreakOff),
            events,
            error,
        }
    }
}

fn text(words: &str) -> Vec<StreamEvent> {
    vec![
        StreamEvent::BlockStart {
            index: 0,
            block: BlockStart::Text,
        },
        StreamEvent::TextDelta {
            index: 0,
            text: words.into(),
        },
    ]
}

/// A message as events that it could have come in, without its end.
fn events(message: &AssistantMessage) -> Vec<StreamEvent> {
    let mut events = vec![StreamEvent::MessageStart {
        id: message.id.clone(),
        model: message.model.clone(),
    }];
    for (index, block) in message.content.iter().enumerate() {
        let (block, delta, vendor) = match block {
            ContentBlock::Text { text, vendor } => {
                let text = text.clone();
                let delta = StreamEvent::TextDelta { index, text };
                (BlockStart::Text, Some(delta), vendor.clone())
            }
            ContentBlock::Thinking { text, vendor } => {
                let text = text.clone();
                let delta = StreamEvent::ThinkingDelta { index, text };
                (BlockStart::Thinking, Some(delta), vendor.clone())
            }
            ContentBlock::RedactedThinking(data) => {
                (BlockStart::RedactedThinking(data.clone()), None, None)
            }
            ContentBlock::ToolUse(tool_use) => {
                let json = match &tool_use.input {
                    ToolInput::Valid(object) => object.get().to_owned(),
                    ToolInput::Invalid { raw, .. } => raw.clone(),
                };
                let start = BlockStart::ToolUse {
                    id: tool_use.id.clone(),
                    name: tool_use.name.clone(),
                };
                let delta = StreamEvent::InputDelta { index, json };
                (start, Some(delta), tool_use.vendor.clone())
            }
            ContentBlock::Vendor(data) => (BlockStart::Vendor(data.clone()), None, None),
        };
        events.push(StreamEvent::BlockStart { index, block });
        events.extend(delta);
        events.extend(vendor.map(|data| StreamEvent::VendorDelta { index, data }));
        events.push(StreamEvent::BlockStop { index });
    }
    if !message.usage.is_empty() {
        events.push(StreamEvent::Usage(message.usage));
    }
    events
}
