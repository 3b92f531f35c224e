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
use super::call::Call;
use super::chunk::{self, CallDelta, Choice, Chunk, Delta, normal, parse, read, stop_reason, text};
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
    /// The id of the first chunk, and whether other chunks had others from the beginning.
    id: Option<String>,
    ids_vary: bool,
    /// Where the answer stands in the chunks; `None` before any of it has come.
    place: Option<Place>,
    /// A part of the answer came without a role.
    without_role: bool,
    /// How many calls there were when a role was announced in the middle of the reply.
    restart: Option<usize>,
    /// The chunks changed their id and announced a role: another reply begins.
    restarted: bool,
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

/// Which call a piece belongs to.
enum Found {
    /// This one.
    Call(usize),
    /// None: another one begins.
    New,
    /// This one is complete and comes again.
    Repeated(usize),
}

/// Where a chunk holds its part of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Delta,
    Message,
    Text,
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
        // What follows the end is no part of the reply, whatever is wrong with it. After the reason
        // to stop the provider may still report an error; bytes that make no sense change nothing.
        if let Err(error) = &fed
            && error.kind == ModelErrorKind::Decode
            && reply.finish_reason.is_some()
            && !reply.ended
        {
            reply.stop(out);
        }
        if reply.ended { Ok(()) } else { fed }
    }

    fn finish(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), ModelError> {
        let Self { framer, reply } = self;
        let finished = reading::finish(framer, |event| reply.event(event, out));
        if reply.ended {
            return Ok(());
        }
        if reply.finish_reason.is_none() {
            finished?;
            return Err(cut(reply.content_events));
        }
        reply.stop(out);
        Ok(())
    }

    fn ended(&self) -> bool {
        self.reply.ended
    }

    fn complete(&self) -> bool {
        self.reply.ended || self.reply.finish_reason.is_some()
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
            self.answer(chunk, choice, out)?;
            if let Some(reason) = choice.finish_reason.map(text).transpose()?.flatten() {
                self.end(reason, out)?;
            }
        }
        Ok(())
    }

    /// The part of the answer that a chunk holds, wherever it stands.
    fn answer(
        &mut self,
        chunk: &Chunk<'_>,
        choice: &Choice<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ModelError> {
        let completion = choice.text.map(text).transpose()?.flatten();
        let in_place = |place| self.place.is_none_or(|known| known == place);
        let delta = choice.delta.as_ref().filter(|one| one.says_something());
        let message = choice.message.as_ref().filter(|one| one.says_something());
        let place = if delta.is_some() {
            Place::Delta
        } else if message.is_some() && in_place(Place::Message) {
            Place::Message
        } else if completion.is_some() && in_place(Place::Text) {
            Place::Text
        } else {
            return self.note_role(chunk, choice, false);
        };
        // What comes after the reason to stop is no part of the reply, unless nothing came before.
        if self.finish_reason.is_some() && self.place.is_some() {
            return Ok(());
        }
        self.note_role(chunk, choice, true)?;
        self.place.get_or_insert(place);
        match (place, delta.or(message), completion) {
            (Place::Text, _, Some(completion)) => {
                self.prose(ProseKind::Text, completion, out);
                Ok(())
            }
            (_, Some(delta), _) => self.delta(delta, out),
            (_, None, _) => Ok(()),
        }
    }

    /// Looks for a second reply in the stream. `says` tells that the chunk holds a part of the
    /// answer.
    fn note_role(
        &mut self,
        chunk: &Chunk<'_>,
        choice: &Choice<'_>,
        says: bool,
    ) -> Result<(), ModelError> {
        let role = choice.delta.as_ref().and_then(|delta| delta.role);
        let has_role = role.map(text).transpose()?.flatten().is_some();
        let id = chunk.id.map(text).transpose()?.flatten();
        if let Some(id) = id
            && self.finish_reason.is_none()
        {
            let same = self.id.get_or_insert_with(|| id.clone()) == &id;
            if !same && !self.ids_vary {
                self.restarted |= has_role && self.place.is_some();
                // Some servers give each chunk an id of its own.
                self.ids_vary = !self.restarted;
            }
        }
        if has_role && self.without_role && self.finish_reason.is_none() {
            self.restart = Some(self.calls.len());
            self.without_role = false;
        }
        if self.restarted && says {
            return Err(reading::restarted());
        }
        self.without_role |= says && !has_role;
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
        if let Some(function) = delta.function_call {
            // There is at most one, and it has no index: one that no other call has.
            let call = CallDelta {
                index: Some(u64::MAX),
                id: None,
                function: Some(function),
                extra_content: None,
            };
            self.call(&call, out)?;
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
        let id = delta.id.map(chunk::id).transpose()?.flatten();
        let id = id.unwrap_or_default();
        let function = delta.function.as_ref();
        let name = function.and_then(|function| function.name);
        let name = name.map(text).transpose()?.flatten().unwrap_or_default();
        let name = name.trim();
        let arguments = match function.and_then(|function| function.arguments) {
            Some(arguments) => chunk::arguments(arguments)?,
            None => String::new(),
        };
        let at = match self.find(delta.index, &id, name, &arguments) {
            Found::Call(at) => at,
            Found::Repeated(at) => {
                let (id, name) = match self.calls.get(at) {
                    Some(call) => (call.id.clone(), call.name.clone()),
                    None => return Ok(()),
                };
                self.new_call(Call::repeated(id, name), out)
            }
            Found::New if id.is_empty() && name.is_empty() && delta.index.is_none() => {
                if arguments.trim().is_empty() {
                    return Ok(());
                }
                return Err(ModelError::new(
                    ModelErrorKind::Decode,
                    "arguments came for a call that has not begun",
                ));
            }
            Found::New => self.new_call(Call::default(), out),
        };
        let Some(call) = self.calls.get_mut(at) else {
            return Ok(());
        };
        call.announce(delta.index, id, name);
        call.push(&arguments, out)?;
        if let Some(extra) = delta.extra_content
            && extra.get().starts_with('{')
            && call.open
            && let Ok(data) = RawJson::parse(extra.get())
        {
            let owner = NAME.into();
            call.attach(VendorData { owner, data }, out);
        }
        self.begin_ready((!name.is_empty()).then_some(at), out);
        Ok(())
    }

    fn new_call(&mut self, call: Call, out: &mut Vec<StreamEvent>) -> usize {
        self.end_prose(out);
        self.end_complete_calls(out);
        self.calls.push(call);
        self.calls.len() - 1
    }

    /// Which call a piece belongs to.
    fn find(&self, theirs: Option<u64>, id: &str, name: &str, arguments: &str) -> Found {
        let position = |matches: &dyn Fn(&Call) -> bool| {
            let at = self.calls.iter().rposition(matches)?;
            Some((at, self.calls.get(at)?))
        };
        let whole = arguments.trim_start().starts_with('{');
        // An id that was seen belongs to its call, whatever the index.
        if !id.is_empty()
            && let Some((at, call)) = position(&|call| call.id == id)
        {
            let elsewhere = theirs.is_some_and(|theirs| !call.theirs.contains(&theirs));
            let again = call.json.complete && (whole || (elsewhere && !name.is_empty()));
            return if again {
                Found::Repeated(at)
            } else {
                Found::Call(at)
            };
        }
        let found = match theirs {
            Some(theirs) => position(&|call| call.theirs.contains(&theirs)),
            None => self.calls.len().checked_sub(1).zip(self.calls.last()),
        };
        let Some((at, call)) = found else {
            return Found::New;
        };
        if name.is_empty() {
            // Some give each piece an id of its own; only the first one counts.
            let is_late = theirs.is_some() || id.is_empty() || call.id.is_empty();
            return match (is_late, call.json.complete && whole) {
                (false, _) => Found::New,
                (true, true) => Found::Repeated(at),
                (true, false) => Found::Call(at),
            };
        }
        // Some give every call the index 0: a name with another id begins another call, and so does
        // a name with whole arguments, or another name, where there are no ids.
        let another = (!id.is_empty() && !call.id.is_empty())
            || (call.json.complete && !call.name.is_empty() && (whole || call.name != name))
            || (theirs.is_none() && !call.name.is_empty());
        if another { Found::New } else { Found::Call(at) }
    }

    /// Begins the blocks of the calls that are known well enough, in the order of the calls.
    /// `named` is a call of which a piece of the name has just come: more of it may follow.
    fn begin_ready(&mut self, named: Option<usize>, out: &mut Vec<StreamEvent>) {
        for (at, call) in self.calls.iter_mut().enumerate() {
            if call.index.is_some() {
                continue;
            }
            if named == Some(at) || !call.is_known() || call.text.trim().is_empty() {
                return;
            }
            call.begin(self.next, out);
            self.next += 1;
        }
    }

    /// Another call begins, so those whose arguments are whole are complete. One whose id may still
    /// come stays open.
    fn end_complete_calls(&mut self, out: &mut Vec<StreamEvent>) {
        for call in &mut self.calls {
            if call.index.is_none() {
                if !call.is_known() || !call.json.complete {
                    return;
                }
                call.begin(self.next, out);
                self.next += 1;
            }
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
        if self.finish_reason.is_some() {
            return Ok(());
        }
        self.end_prose(out);
        let cut = matches!(stop_reason(&reason), StopReason::MaxTokens);
        if self.repeats_itself() {
            return Err(reading::restarted());
        }
        self.begin_rest(out);
        for call in &mut self.calls {
            // The output cap may have cut the last one: nobody is told that it is complete.
            if call.open && (!cut || call.json.complete) {
                call.end(out);
            }
        }
        self.finish_reason = Some(reason);
        Ok(())
    }

    /// Whether a role was announced in the middle of the reply and a call from before it came again
    /// after it.
    fn repeats_itself(&self) -> bool {
        let Some((before, after)) = self.restart.and_then(|at| self.calls.split_at_checked(at))
        else {
            return false;
        };
        after.iter().any(|call| {
            let mut before = before.iter();
            before.any(|other| other.name == call.name && other.text == call.text)
        })
    }

    /// A call that never got an id or a name still has to be answered.
    fn begin_rest(&mut self, out: &mut Vec<StreamEvent>) {
        // A repetition of which nothing but the name came says nothing new.
        self.calls
            .retain(|call| !(call.repeated && call.text.trim().is_empty()));
        for call in self.calls.iter_mut().filter(|call| call.index.is_none()) {
            call.begin(self.next, out);
            self.next += 1;
        }
    }

    fn stop(&mut self, out: &mut Vec<StreamEvent>) {
        self.end_prose(out);
        self.begin_rest(out);
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
