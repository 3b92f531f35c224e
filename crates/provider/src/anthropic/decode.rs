//! How a reply is read.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tooloop_model::{
    BlockStart, ModelError, ModelErrorKind, RawJson, StopReason, StreamEvent, ToolUseId, Usage,
    VendorData,
};

use super::NAME;
use crate::codec::Decoder;
use crate::errors;
use crate::reading::{self, count, cut, undecodable};
use crate::sse::{Event, Framer};

/// Reads one reply.
#[derive(Debug, Default)]
pub(super) struct AnthropicDecoder {
    framer: Framer,
    reply: Reply,
}

#[derive(Debug, Default)]
struct Reply {
    /// The blocks that have begun and not ended.
    open: Vec<Open>,
    /// The index of the next block on our side.
    next: usize,
    usage: Counts,
    stop_reason: Option<String>,
    /// A second `message_start` came after the first block.
    restarted: bool,
    ended: bool,
    content_events: u64,
}

/// A block that has begun and not ended.
#[derive(Debug)]
struct Open {
    /// The provider's index.
    theirs: u64,
    /// Ours.
    index: usize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Text {
        citations: Vec<Value>,
    },
    Thinking {
        signature: String,
    },
    Redacted,
    ToolUse {
        /// The input that came with the start of the block.
        whole: Option<String>,
        has_delta: bool,
    },
    /// A block of the vendor's own, gathered until it is whole.
    Vendor {
        block: Map<String, Value>,
        input: String,
    },
}

/// The counts as the provider gives them.
#[derive(Debug, Default)]
struct Counts {
    input: u64,
    cache_read: u64,
    cache_write: u64,
    output: u64,
    reasoning: Option<u64>,
}

/// The envelope of an event. What is inside is read only once it is known what it is.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    #[serde(default)]
    index: Option<u64>,
    #[serde(borrow, default)]
    delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// The deltas that come by the thousand.
#[derive(Deserialize)]
struct Delta {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    thinking: Option<String>,
    #[serde(default)]
    signature: Option<String>,
    #[serde(default)]
    partial_json: Option<String>,
}

impl Decoder for AnthropicDecoder {
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<StreamEvent>) -> Result<(), ModelError> {
        let Self { framer, reply } = self;
        let fed = reading::feed(framer, bytes, |event| reply.event(event, out));
        // What follows the end is no part of the reply, whatever is wrong with it.
        if reply.ended { Ok(()) } else { fed }
    }

    fn finish(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), ModelError> {
        let Self { framer, reply } = self;
        let finished = reading::finish(framer, |event| reply.event(event, out));
        if reply.ended {
            return Ok(());
        }
        finished?;
        Err(cut(reply.content_events))
    }

    fn ended(&self) -> bool {
        self.reply.ended
    }

    fn content_events(&self) -> u64 {
        self.reply.content_events
    }
}

impl Reply {
    fn event(&mut self, event: Event<'_>, out: &mut Vec<StreamEvent>) -> Result<(), ModelError> {
        if self.ended {
            return Ok(());
        }
        let data = event.data.trim();
        if data == "[DONE]" {
            // A gateway's mark; it counts where the reason to stop has come.
            if self.stop_reason.is_some() {
                self.stop(out);
            }
            return Ok(());
        }
        if event.name == "error" {
            self.content_events += 1;
            return Err(reading::error_event(data));
        }
        if data.is_empty() {
            return Ok(());
        }
        let envelope: Envelope<'_> =
            serde_json::from_str(data).map_err(|error| undecodable(&error, data))?;
        let kind = envelope.kind.as_deref().unwrap_or(event.name);
        if kind == "ping" {
            return Ok(());
        }
        self.content_events += 1;
        // A restart with nothing after it is harmless. With content after it, the stream holds two
        // replies, and running the calls of both would run some of them twice.
        if self.restarted && matches!(kind, "content_block_start" | "content_block_delta") {
            return Err(reading::restarted());
        }
        match kind {
            "message_start" => self.message_start(&envelope, out),
            "content_block_start" => self.block_start(&envelope, out),
            "content_block_delta" => self.block_delta(&envelope, out),
            "content_block_stop" => {
                if let Some(at) = self.find(envelope.index) {
                    let open = self.open.remove(at);
                    close(open, true, out);
                }
                Ok(())
            }
            "message_delta" => self.message_delta(&envelope, out),
            "message_stop" => {
                self.stop(out);
                Ok(())
            }
            "error" => Err(match envelope.error {
                Some(error) => errors::in_band(&parse(error)?),
                None => reading::error_event(data),
            }),
            // A proxy's own error, in another provider's shape.
            "" if envelope.error.is_some_and(|error| error.get() != "null") => {
                Err(reading::error_event(data))
            }
            _ => Ok(()),
        }
    }

    fn message_start(
        &mut self,
        envelope: &Envelope<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ModelError> {
        let message: Value = match envelope.message {
            Some(message) => parse(message)?,
            None => Value::Null,
        };
        if self.next > 0 {
            self.restarted = true;
            return Ok(());
        }
        let text = |key: &str| {
            let text = message.get(key).and_then(Value::as_str);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        out.push(StreamEvent::MessageStart {
            id: text("id"),
            model: text("model"),
        });
        if let Some(usage) = message.get("usage") {
            self.count(usage, out);
        }
        Ok(())
    }

    fn count(&mut self, usage: &Value, out: &mut Vec<StreamEvent>) {
        let input = count(usage.get("input_tokens"));
        let read = count(usage.get("cache_read_input_tokens"));
        let write = count(usage.get("cache_creation_input_tokens"));
        let counts = &mut self.usage;
        // The later counts hold. Some imitators know the input in one of the two places only, and
        // say zero in the other: zeros all over take nothing back.
        if [input, read, write]
            .iter()
            .flatten()
            .any(|count| *count > 0)
        {
            counts.input = input.unwrap_or(counts.input);
            counts.cache_read = read.unwrap_or(counts.cache_read);
            counts.cache_write = write.unwrap_or(counts.cache_write);
        }
        if let Some(output) = count(usage.get("output_tokens")).filter(|count| *count > 0) {
            counts.output = output;
        }
        if let Some(value) = count(usage.pointer("/output_tokens_details/thinking_tokens")) {
            counts.reasoning = Some(value);
        }
        out.push(StreamEvent::Usage(self.usage.normal()));
    }

    /// Where the block with the provider's index is. Without an index, the newest is meant.
    fn find(&self, theirs: Option<u64>) -> Option<usize> {
        match theirs {
            Some(theirs) => self.open.iter().rposition(|open| open.theirs == theirs),
            None => self.open.len().checked_sub(1),
        }
    }

    fn begin(&mut self, theirs: u64, kind: Kind) -> usize {
        let index = self.next;
        self.next += 1;
        self.open.push(Open {
            theirs,
            index,
            kind,
        });
        index
    }

    fn block_start(
        &mut self,
        envelope: &Envelope<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ModelError> {
        let block: Value = match envelope.content_block {
            Some(block) => parse(block)?,
            None => Value::Null,
        };
        let Value::Object(block) = block else {
            return Err(ModelError::new(
                ModelErrorKind::Decode,
                "a block of the reply has no content",
            ));
        };
        // Some imitators never end a block: the next one with its index does.
        if envelope.index.is_some()
            && let Some(at) = self.find(envelope.index)
        {
            let open = self.open.remove(at);
            close(open, false, out);
        }
        let theirs = envelope.index.unwrap_or(u64::MAX);
        let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "text" => {
                let citations = match block.get("citations") {
                    Some(Value::Array(citations)) => citations.clone(),
                    _ => Vec::new(),
                };
                let index = self.begin(theirs, Kind::Text { citations });
                out.push(StreamEvent::BlockStart {
                    index,
                    block: BlockStart::Text,
                });
                if !text("text").is_empty() {
                    out.push(StreamEvent::TextDelta {
                        index,
                        text: text("text").into(),
                    });
                }
            }
            "thinking" => {
                let signature = text("signature").to_owned();
                let index = self.begin(theirs, Kind::Thinking { signature });
                out.push(StreamEvent::BlockStart {
                    index,
                    block: BlockStart::Thinking,
                });
                if !text("thinking").is_empty() {
                    out.push(StreamEvent::ThinkingDelta {
                        index,
                        text: text("thinking").into(),
                    });
                }
            }
            "redacted_thinking" => {
                let data = owned(RawJson::string(text("data")));
                let index = self.begin(theirs, Kind::Redacted);
                out.push(StreamEvent::BlockStart {
                    index,
                    block: BlockStart::RedactedThinking(data),
                });
            }
            "tool_use" => {
                let whole = block
                    .get("input")
                    .filter(|input| input.as_object().is_some_and(|input| !input.is_empty()))
                    .map(Value::to_string);
                let kind = Kind::ToolUse {
                    whole,
                    has_delta: false,
                };
                let index = self.begin(theirs, kind);
                out.push(StreamEvent::BlockStart {
                    index,
                    block: BlockStart::ToolUse {
                        id: ToolUseId(text("id").into()),
                        name: text("name").into(),
                    },
                });
            }
            _ => {
                let input = String::new();
                self.begin(theirs, Kind::Vendor { block, input });
            }
        }
        Ok(())
    }

    fn block_delta(
        &mut self,
        envelope: &Envelope<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ModelError> {
        let Some(raw) = envelope.delta else {
            return Ok(());
        };
        let at = self.find(envelope.index);
        if let Some(Open {
            kind: Kind::Vendor { block, input },
            ..
        }) = at.and_then(|at| self.open.get_mut(at))
        {
            gather(block, input, parse(raw)?);
            return Ok(());
        }
        let delta: Delta = read(raw)?;
        match delta.kind.as_deref().unwrap_or_default() {
            "text_delta" => {
                let text = delta.text.unwrap_or_default();
                let index = match at.and_then(|at| self.open.get(at)) {
                    Some(open) if matches!(open.kind, Kind::Text { .. }) => open.index,
                    Some(_) => return Err(misplaced("text")),
                    // An imitator that never says that a block begins.
                    None => {
                        let theirs = envelope.index.unwrap_or(u64::MAX);
                        let citations = Vec::new();
                        let index = self.begin(theirs, Kind::Text { citations });
                        out.push(StreamEvent::BlockStart {
                            index,
                            block: BlockStart::Text,
                        });
                        index
                    }
                };
                if !text.is_empty() {
                    out.push(StreamEvent::TextDelta { index, text });
                }
                Ok(())
            }
            "thinking_delta" => match at.and_then(|at| self.open.get(at)) {
                Some(open) if matches!(open.kind, Kind::Thinking { .. }) => {
                    let text = delta.thinking.unwrap_or_default();
                    if !text.is_empty() {
                        let index = open.index;
                        out.push(StreamEvent::ThinkingDelta { index, text });
                    }
                    Ok(())
                }
                _ => Err(misplaced("thinking")),
            },
            "signature_delta" => match at.and_then(|at| self.open.get_mut(at)) {
                Some(Open {
                    kind: Kind::Thinking { signature },
                    ..
                }) => {
                    signature.push_str(&delta.signature.unwrap_or_default());
                    Ok(())
                }
                _ => Err(misplaced("a signature")),
            },
            "input_json_delta" => match at.and_then(|at| self.open.get_mut(at)) {
                Some(Open {
                    kind: Kind::ToolUse { has_delta, .. },
                    index,
                    ..
                }) => {
                    let json = delta.partial_json.unwrap_or_default();
                    if !json.is_empty() {
                        *has_delta = true;
                        let index = *index;
                        out.push(StreamEvent::InputDelta { index, json });
                    }
                    Ok(())
                }
                _ => Err(misplaced("tool input")),
            },
            "citations_delta" => {
                if let Some(Open {
                    kind: Kind::Text { citations },
                    ..
                }) = at.and_then(|at| self.open.get_mut(at))
                    && let Value::Object(mut delta) = parse(raw)?
                {
                    citations.extend(delta.remove("citation"));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn message_delta(
        &mut self,
        envelope: &Envelope<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ModelError> {
        if let Some(raw) = envelope.delta
            && let Some(reason) = parse(raw)?.get("stop_reason").and_then(Value::as_str)
        {
            self.stop_reason = Some(reason.to_owned());
        }
        if let Some(raw) = envelope.usage {
            let usage = parse(raw)?;
            if usage.is_object() {
                self.count(&usage, out);
            }
        }
        Ok(())
    }

    fn stop(&mut self, out: &mut Vec<StreamEvent>) {
        for open in self.open.drain(..) {
            close(open, false, out);
        }
        self.ended = true;
        let reason = self.stop_reason.take().unwrap_or_default();
        out.push(StreamEvent::MessageStop {
            stop_reason: match reason.as_str() {
                "end_turn" => StopReason::EndTurn,
                "tool_use" => StopReason::ToolUse,
                "max_tokens" => StopReason::MaxTokens,
                "stop_sequence" => StopReason::StopSequence,
                "refusal" => StopReason::Refusal,
                word if reading::is_filter(word) => StopReason::ContentFilter,
                "pause_turn" => StopReason::Pause,
                "model_context_window_exceeded" => StopReason::ContextWindow,
                _ => StopReason::Other(reason),
            },
        });
    }
}

impl Counts {
    const fn normal(&self) -> Usage {
        Usage {
            input_tokens: self
                .input
                .saturating_add(self.cache_read)
                .saturating_add(self.cache_write),
            output_tokens: self.output,
            cache_read_tokens: self.cache_read,
            cache_write_tokens: self.cache_write,
            reasoning_tokens: self.reasoning,
        }
    }
}

/// Ends a block. One that the provider did not end itself may be cut, so nobody is told that it is
/// complete; the end of the message closes it.
fn close(open: Open, complete: bool, out: &mut Vec<StreamEvent>) {
    let index = open.index;
    match open.kind {
        Kind::Text { citations } => {
            if !citations.is_empty() {
                let mut data = Map::new();
                data.insert("citations".into(), Value::Array(citations));
                out.push(StreamEvent::VendorDelta {
                    index,
                    data: owned(RawJson::from_value(&Value::Object(data))),
                });
            }
        }
        Kind::Thinking { signature } => {
            if !signature.is_empty() {
                out.push(StreamEvent::VendorDelta {
                    index,
                    data: owned(RawJson::string(&signature)),
                });
            }
        }
        Kind::Redacted => {}
        Kind::ToolUse { whole, has_delta } => {
            if let Some(json) = whole
                && !has_delta
            {
                out.push(StreamEvent::InputDelta { index, json });
            }
        }
        Kind::Vendor { mut block, input } => {
            if !input.trim().is_empty() {
                let Ok(input) = serde_json::from_str(&input) else {
                    // Cut by the output cap: half a block is of no use to anyone.
                    return;
                };
                block.insert("input".into(), input);
            }
            let data = owned(RawJson::from_value(&Value::Object(block)));
            out.push(StreamEvent::BlockStart {
                index,
                block: BlockStart::Vendor(data),
            });
        }
    }
    if complete {
        out.push(StreamEvent::BlockStop { index });
    }
}

/// Puts a delta into a block that nobody here knows: texts grow, lists grow, the rest is replaced.
fn gather(block: &mut Map<String, Value>, input: &mut String, delta: Value) {
    let Value::Object(delta) = delta else {
        return;
    };
    for (key, value) in delta {
        match (key.as_str(), value) {
            ("type", _) => {}
            ("partial_json", Value::String(piece)) => input.push_str(&piece),
            ("citation", citation) => match block.get_mut("citations") {
                Some(Value::Array(citations)) => citations.push(citation),
                _ => {
                    block.insert("citations".into(), Value::Array(vec![citation]));
                }
            },
            (_, value) => match (block.get_mut(&key), value) {
                (Some(Value::String(so_far)), Value::String(more)) => so_far.push_str(&more),
                (Some(Value::Array(so_far)), Value::Array(more)) => so_far.extend(more),
                (_, value) => {
                    block.insert(key, value);
                }
            },
        }
    }
}

fn owned(data: RawJson) -> VendorData {
    VendorData {
        owner: NAME.into(),
        data,
    }
}

fn misplaced(what: &str) -> ModelError {
    ModelError::new(
        ModelErrorKind::Decode,
        format!("{what} came for a block that is not open for it"),
    )
}

fn parse(raw: &RawValue) -> Result<Value, ModelError> {
    read(raw)
}

fn read<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T, ModelError> {
    serde_json::from_str(raw.get()).map_err(|error| undecodable(&error, raw.get()))
}
