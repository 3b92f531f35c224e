//! How a reply is read.
//!
//! The format has one description and a hundred dialects, so fields are read late and leniently:
//! what is missing, null or of another type where that does no harm is no error. What is no error
//! in any dialect is also never the end: only a reason to finish or the end mark is.

use serde_json::Value;
use serde_json::value::RawValue;
use tooloop_model::{
    BlockStart, ModelError, ModelErrorKind, RawJson, StopReason, StreamEvent, Usage, VendorData,
};

use super::NAME;
use super::call::{Call, JsonEnd};
use super::chunk::{self, CallDelta, Chunk, Delta, normal, parse, read, stop_reason, text};
use super::reasoning::{self, Kept};
use crate::codec::Decoder;
use crate::errors;
use crate::reading::{self, cut};
use crate::sse::{Event, Framer};

/// Reads one reply.
#[derive(Debug, Default)]
pub(super) struct ChatDecoder {
    framer: Framer,
    reply: Reply,
}

#[derive(Debug, Default)]
struct Reply {
    started: bool,
    next: usize,
    /// The text, refusal or thinking that grows now.
    prose: Option<Prose>,
    calls: Vec<Call>,
    refused: bool,
    usage: Option<Usage>,
    finish_reason: Option<String>,
    ended: bool,
    content_events: u64,
}

#[derive(Debug)]
struct Prose {
    index: usize,
    kind: ProseKind,
}

#[derive(Debug)]
enum ProseKind {
    Text,
    Refusal,
    Thinking(Kept),
}

impl Decoder for ChatDecoder {
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
        if finished? || reply.finish_reason.is_none() {
            return Err(cut(reply.content_events));
        }
        reply.stop(out);
        Ok(())
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
        if data.is_empty() {
            return Ok(());
        }
        if data == "[DONE]" {
            // Without a single chunk before it, it ends nothing.
            if self.started {
                self.stop(out);
            }
            return Ok(());
        }
        if event.name == "ping" {
            return Ok(());
        }
        self.content_events += 1;
        if event.name == "error" {
            return Err(reading::error_event(data));
        }
        let chunk: Chunk<'_> = parse(data)?;
        self.chunk(&chunk, data, out)
    }

    fn chunk(
        &mut self,
        chunk: &Chunk<'_>,
        data: &str,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ModelError> {
        if chunk.choices.is_some() || chunk.usage.is_some() {
            self.start(chunk, out)?;
        }
        self.count(chunk, out)?;
        if let Some(error) = chunk.error.filter(|error| error.get() != "null") {
            return Err(errors::in_band(&read(error)?));
        }
        if let Some(object) = chunk.object
            && text(object)?.as_deref() == Some("error")
        {
            return Err(reading::error_event(data));
        }
        for choice in chunk.choices.iter().flatten() {
            if choice.index.unwrap_or_default() != 0 {
                continue;
            }
            if let Some(delta) = &choice.delta {
                self.delta(delta, out)?;
            }
            if let Some(reason) = choice.finish_reason.map(text).transpose()?.flatten() {
                self.end(reason, out)?;
            }
        }
        Ok(())
    }

    fn start(&mut self, chunk: &Chunk<'_>, out: &mut Vec<StreamEvent>) -> Result<(), ModelError> {
        if self.started {
            return Ok(());
        }
        self.started = true;
        out.push(StreamEvent::MessageStart {
            id: chunk.id.map(text).transpose()?.flatten(),
            model: chunk.model.map(text).transpose()?.flatten(),
        });
        Ok(())
    }

    fn count(&mut self, chunk: &Chunk<'_>, out: &mut Vec<StreamEvent>) -> Result<(), ModelError> {
        let mut usage: Value = match chunk.usage {
            Some(usage) => read(usage)?,
            None => Value::Null,
        };
        if !usage.is_object()
            && let Some(corner) = chunk.x_groq
        {
            let corner: Value = read(corner)?;
            usage = corner.get("usage").cloned().unwrap_or_default();
        }
        if let Some(usage) = normal(&usage)
            && self.usage != Some(usage)
        {
            self.usage = Some(usage);
            out.push(StreamEvent::Usage(usage));
        }
        Ok(())
    }

    fn delta(&mut self, delta: &Delta<'_>, out: &mut Vec<StreamEvent>) -> Result<(), ModelError> {
        self.reasoning(delta, out)?;
        match delta.content.map(RawValue::get) {
            None | Some("null" | "\"\"") => {}
            Some(content) if content.starts_with('"') => {
                let text: String = parse(content)?;
                self.prose(ProseKind::Text, text, out);
            }
            Some(content) if content.starts_with('[') => {
                let parts: Vec<Value> = parse(content)?;
                for part in &parts {
                    self.part(part, out);
                }
            }
            Some(_) => {}
        }
        if let Some(refusal) = delta.refusal.map(text).transpose()?.flatten() {
            self.refused = true;
            self.prose(ProseKind::Refusal, refusal, out);
        }
        for call in delta.tool_calls.iter().flatten() {
            self.call(call, out)?;
        }
        Ok(())
    }

    fn reasoning(
        &mut self,
        delta: &Delta<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ModelError> {
        // Some send one text under both names.
        let mut told = None;
        for (field, raw) in [
            ("reasoning_content", delta.reasoning_content),
            ("reasoning", delta.reasoning),
        ] {
            if let Some(text) = raw.map(text).transpose()?.flatten() {
                told = Some((field, text));
                break;
            }
        }
        let details: Vec<Value> = match delta.reasoning_details.map(RawValue::get) {
            Some(details) if details.starts_with('[') => parse(details)?,
            _ => Vec::new(),
        };
        if told.is_none() && details.is_empty() {
            return Ok(());
        }
        let (field, text) = match told {
            Some((field, text)) => (field, text),
            None => ("", details.iter().filter_map(reasoning::shown).collect()),
        };
        let kept = Kept {
            field: field.into(),
            details: Vec::new(),
        };
        self.prose(ProseKind::Thinking(kept), text, out);
        if let Some(Prose {
            kind: ProseKind::Thinking(kept),
            ..
        }) = &mut self.prose
        {
            if kept.field.is_empty() {
                field.clone_into(&mut kept.field);
            }
            for detail in details {
                reasoning::merge(&mut kept.details, detail);
            }
        }
        Ok(())
    }

    /// One part of a content that is a list.
    fn part(&mut self, part: &Value, out: &mut Vec<StreamEvent>) {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Array(parts) => parts
                .iter()
                .filter_map(|part| part.get("text").and_then(Value::as_str))
                .collect(),
            _ => String::new(),
        };
        match part.get("type").and_then(Value::as_str) {
            Some("thinking") => {
                let kept = Kept {
                    field: reasoning::IN_CONTENT.into(),
                    details: Vec::new(),
                };
                let text = part.get("thinking").map(text).unwrap_or_default();
                if !text.is_empty() {
                    self.prose(ProseKind::Thinking(kept), text, out);
                }
            }
            _ => {
                let text = part.get("text").map(text).unwrap_or_default();
                if !text.is_empty() {
                    self.prose(ProseKind::Text, text, out);
                }
            }
        }
    }

    /// Appends to what grows now, or begins anew.
    fn prose(&mut self, kind: ProseKind, text: String, out: &mut Vec<StreamEvent>) {
        let fits = self.prose.as_ref().is_some_and(|prose| {
            std::mem::discriminant(&prose.kind) == std::mem::discriminant(&kind)
        });
        if !fits {
            self.end_prose(out);
        }
        let is_thinking = matches!(kind, ProseKind::Thinking(_));
        let index = match &self.prose {
            Some(prose) => prose.index,
            None => {
                let index = self.take_index();
                self.prose = Some(Prose { index, kind });
                out.push(StreamEvent::BlockStart {
                    index,
                    block: if is_thinking {
                        BlockStart::Thinking
                    } else {
                        BlockStart::Text
                    },
                });
                index
            }
        };
        if text.is_empty() {
            return;
        }
        out.push(if is_thinking {
            StreamEvent::ThinkingDelta { index, text }
        } else {
            StreamEvent::TextDelta { index, text }
        });
    }

    fn end_prose(&mut self, out: &mut Vec<StreamEvent>) {
        let Some(Prose { index, kind }) = self.prose.take() else {
            return;
        };
        if let ProseKind::Thinking(kept) = kind {
            let data = kept.store();
            out.push(StreamEvent::VendorDelta { index, data });
        }
        out.push(StreamEvent::BlockStop { index });
    }

    const fn take_index(&mut self) -> usize {
        let index = self.next;
        self.next += 1;
        index
    }

    fn call(
        &mut self,
        delta: &CallDelta<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ModelError> {
        let id = delta
            .id
            .map(text)
            .transpose()?
            .flatten()
            .unwrap_or_default();
        let function = delta.function.as_ref();
        let name = function.and_then(|function| function.name);
        let name = name.map(text).transpose()?.flatten().unwrap_or_default();
        let arguments = match function.and_then(|function| function.arguments) {
            Some(arguments) => chunk::arguments(arguments)?,
            None => String::new(),
        };
        let at = match self.find(delta.index, &id, &name, &arguments) {
            Some(at) => at,
            None if id.is_empty() && name.is_empty() && delta.index.is_none() => {
                if arguments.trim().is_empty() {
                    return Ok(());
                }
                return Err(ModelError::new(
                    ModelErrorKind::Decode,
                    "arguments came for a call that has not begun",
                ));
            }
            None => {
                self.end_prose(out);
                self.end_complete_calls(out);
                self.calls.push(Call {
                    theirs: delta.index,
                    id,
                    index: None,
                    early: String::new(),
                    json: JsonEnd::default(),
                    open: true,
                });
                self.calls.len() - 1
            }
        };
        let Some(call) = self.calls.get_mut(at) else {
            return Ok(());
        };
        if call.index.is_none() && !name.is_empty() {
            call.begin(self.next, name, out);
            self.next += 1;
        }
        call.push(&arguments, out)?;
        if let Some(extra) = delta.extra_content
            && extra.get().starts_with('{')
            && let Some(index) = call.index
            && call.open
            && let Ok(data) = RawJson::parse(extra.get())
        {
            out.push(StreamEvent::VendorDelta {
                index,
                data: VendorData {
                    owner: NAME.into(),
                    data,
                },
            });
        }
        Ok(())
    }

    /// Which call a piece belongs to, if it has begun.
    fn find(&self, theirs: Option<u64>, id: &str, name: &str, arguments: &str) -> Option<usize> {
        let position = |matches: &dyn Fn(&Call) -> bool| self.calls.iter().rposition(matches);
        match theirs {
            Some(theirs) => {
                let at = position(&|call| call.theirs == Some(theirs))?;
                let call = self.calls.get(at)?;
                if name.is_empty() {
                    return Some(at);
                }
                // Some give every call the index 0: a name with another id begins another call, and
                // so does a name with whole arguments where there are no ids.
                if !id.is_empty() && !call.id.is_empty() {
                    return position(&|call| call.theirs == Some(theirs) && call.id == id);
                }
                let again = call.json.complete && arguments.trim_start().starts_with('{');
                (!again).then_some(at)
            }
            None if !id.is_empty() => position(&|call| call.id == id),
            None if !name.is_empty() => None,
            None => self.calls.len().checked_sub(1),
        }
    }

    /// Another call begins, so those whose arguments are whole are complete.
    fn end_complete_calls(&mut self, out: &mut Vec<StreamEvent>) {
        for call in &mut self.calls {
            if call.open && call.json.complete {
                call.end(out);
            }
        }
    }

    fn end(&mut self, reason: String, out: &mut Vec<StreamEvent>) -> Result<(), ModelError> {
        if reason == "error" && self.finish_reason.is_none() {
            return Err(ModelError::new(
                ModelErrorKind::Server,
                "the provider ended the reply with an error and did not say which",
            ));
        }
        self.end_prose(out);
        let cut = matches!(stop_reason(&reason), StopReason::MaxTokens);
        self.name_the_nameless(out);
        for call in &mut self.calls {
            // The output cap may have cut the last one: nobody is told that it is complete.
            if call.open && (!cut || call.json.complete) {
                call.end(out);
            }
        }
        self.finish_reason = Some(reason);
        Ok(())
    }

    /// A call that never got a name still has to be answered.
    fn name_the_nameless(&mut self, out: &mut Vec<StreamEvent>) {
        for call in self.calls.iter_mut().filter(|call| call.index.is_none()) {
            call.begin(self.next, String::new(), out);
            self.next += 1;
        }
    }

    fn stop(&mut self, out: &mut Vec<StreamEvent>) {
        self.end_prose(out);
        self.name_the_nameless(out);
        if self.finish_reason.is_none() {
            self.end_complete_calls(out);
        }
        self.ended = true;
        let stop_reason = if self.refused {
            StopReason::Refusal
        } else {
            stop_reason(self.finish_reason.as_deref().unwrap_or_default())
        };
        out.push(StreamEvent::MessageStop { stop_reason });
    }
}
