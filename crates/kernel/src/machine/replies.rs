//! The machine's side that faces the model: calls, replies, failures.

use std::sync::Arc;
use std::time::Duration;

use tooloop_model::{
    AssistantMessage, BlockStart, ContentBlock, HistoryMessage, Message, MessageBuilder,
    ModelError, ModelErrorKind, RawJson, Request, StopReason, StreamEvent, ToolChoice, ToolInput,
    ToolUse, ToolUseId, Usage,
};

use super::stopping::{MAX_PAUSES, filtered};
use super::{Calling, Kernel, Phase, Repeated, Turn};
use crate::batch::{Batch, Call, CallState, Move, SAME_ID, Way};
use crate::ledger::Reservation;
use crate::{Continue, Effect, Entry, LeftOut, OutputWay, Retry, Sync, TurnEnd, attachments};

/// So often the model is asked again when its reply is empty.
const EMPTY_REPLIES: u32 = 1;

/// So many overloads in a row, and the fallback model is asked.
const OVERLOADS: u32 = 3;

impl Kernel {
    pub(super) fn first_call(&mut self, out: &mut Vec<Effect>) {
        self.turn = Turn::default();
        self.interrupted = false;
        if let Some(limit) = self.spent_turns() {
            return self.end(TurnEnd::MaxTurns { limit }, out);
        }
        if let Some(after) = self.settings.limits.time {
            self.newest.timer = self.newest.timer.saturating_add(1);
            let timer = self.newest.timer;
            self.turn.deadline = Some(timer);
            out.push(Effect::StartTimer { timer, after });
        }
        self.turn.steps = self.turn.steps.saturating_add(1);
        self.call_model(None, out);
    }

    pub(super) fn spent_turns(&self) -> Option<u32> {
        self.settings
            .max_turns
            .filter(|limit| self.turn.steps >= *limit)
    }

    /// Calls the model for what it was called for before.
    pub(super) fn call_again(&mut self, reason: Continue, out: &mut Vec<Effect>) {
        if self.compaction.is_some() {
            self.ask_summary(reason, out);
        } else {
            self.call_model(Some(reason), out);
        }
    }

    /// Sends the conversation, if the ledger lets it.
    pub(super) fn send(&mut self, reason: Option<Continue>, out: &mut Vec<Effect>) {
        let cap = self.cap();
        let fits = self.fitting_cap(cap);
        let mut reservation = match self.reserve(fits, &[]) {
            Ok(reservation) => reservation,
            Err(budget) => return self.end(TurnEnd::Budget(*budget), out),
        };
        reservation.shrunk |= fits < cap;
        if let Some(reason) = reason {
            self.record(Entry::Continue(reason), Sync::Soon, out);
        }
        let output_schema = self
            .settings
            .output
            .as_ref()
            .and_then(|form| match &form.way {
                OutputWay::Native(schema) => Some(schema.clone()),
                OutputWay::Tool(_) => None,
            });
        let messages = attachments::fitting(self.transcript.messages());
        self.request(messages, output_schema, reservation, false, out);
    }

    /// Sends these messages.
    pub(super) fn request(
        &mut self,
        messages: Vec<Arc<HistoryMessage>>,
        output_schema: Option<RawJson>,
        reservation: Reservation,
        is_summary: bool,
        out: &mut Vec<Effect>,
    ) {
        self.newest.call = self.newest.call.saturating_add(1);
        let call = self.newest.call;
        out.push(Effect::CallModel {
            call,
            request: Box::new(Request {
                model: self.asked().model.to_owned(),
                system: Arc::clone(&self.settings.system),
                tools: Arc::clone(&self.settings.tools),
                // The same for a summary: another choice would be another prefix to a cache.
                tool_choice: ToolChoice::Auto,
                messages,
                output_schema,
                max_output_tokens: reservation.cap,
            }),
        });
        self.phase = Phase::Calling(Box::new(Calling {
            call,
            builder: MessageBuilder::new(),
            reservation,
            is_summary,
            begins: false,
            begun: Vec::new(),
            repeated: Vec::new(),
            early: Batch::default(),
        }));
    }

    pub(super) fn grow(&mut self, call: u64, mut event: StreamEvent, out: &mut Vec<Effect>) {
        let Phase::Calling(calling) = &mut self.phase else {
            return;
        };
        if calling.call != call {
            return;
        }
        calling.begins = true;
        if let StreamEvent::BlockStart {
            block: BlockStart::ToolUse { id, .. },
            index,
        } = &mut event
        {
            let given = std::mem::replace(id, ToolUseId(String::new()));
            let first = calling.begun.iter().find(|(other, _)| *other == given);
            let first = first.filter(|_| !given.0.is_empty());
            let first = first.map(|(_, first)| first.clone());
            *id = unique_id(given.clone(), |id| {
                self.transcript.knows(id)
                    || calling.begun.iter().any(|(_, other)| other == id)
                    || calling.repeated.iter().any(|other| other.id == *id)
            });
            match first {
                Some(first) => calling.repeated.push(Repeated {
                    block: *index,
                    id: id.clone(),
                    first,
                }),
                None => calling.begun.push((given, id.clone())),
            }
        }
        let stopped = matches!(event, StreamEvent::MessageStop { .. });
        // What was sent before is not shown again.
        let again = event.block().is_some_and(|block| {
            let mut repeated = calling.repeated.iter();
            repeated.any(|repeated| repeated.block == block)
        });
        let shown = !stopped && !calling.is_summary && !again;
        let piece = shown.then(|| event.clone());
        match calling.builder.push(event) {
            Ok(completed) => {
                // Only what fits is shown: the builder knows of it, so that it can be voided.
                out.extend(piece.map(|event| Effect::Show { call, event }));
                if let Some(tool_use) = completed {
                    self.block_complete(tool_use, out);
                } else if stopped {
                    self.message_complete(out);
                }
            }
            Err(error) => {
                out.push(Effect::CancelModel { call });
                let error = ModelError::new(
                    ModelErrorKind::Decode,
                    format!("the provider's stream makes no sense: {error}"),
                );
                // No clock and no chance at hand: no time has passed, and the wait is the plain one.
                self.fail(call, error, None, 0, out);
            }
        }
    }

    /// A tool use is complete while the model is still writing: it may run now if it is read-only
    /// and so are all before it.
    pub(super) fn block_complete(&mut self, tool_use: ToolUse, out: &mut Vec<Effect>) {
        let Phase::Calling(calling) = &mut self.phase else {
            return;
        };
        let next = calling.begun.get(calling.early.calls.len());
        if calling.is_summary
            || next.is_none_or(|(_, next)| *next != tool_use.id)
            || matches!(tool_use.input, ToolInput::Invalid { .. })
            || self.settings.hooked.holds(&tool_use.name)
        {
            return;
        }
        calling.early.calls.push(Call::new(tool_use));
        self.run_early(out);
    }

    pub(super) fn run_early(&mut self, out: &mut Vec<Effect>) {
        let Phase::Calling(calling) = &mut self.phase else {
            return;
        };
        let most = self.settings.max_parallel_tools;
        let limit = self.settings.limits.tool_calls.unwrap_or(u32::MAX);
        while let Some((
            position,
            Move::Run {
                way: Way::Early,
                judgement,
            },
        )) = calling.early.next_move(&*self.gate, most)
        {
            if calling.early.begun().saturating_add(self.turn.calls) >= limit {
                return;
            }
            let Some(call) = calling.early.calls.get_mut(position) else {
                return;
            };
            if self.settings.hooked.holds(&call.tool_use.name) {
                // Others have a say in it since it was complete.
                return;
            }
            self.newest.run = self.newest.run.saturating_add(1);
            let run = self.newest.run;
            call.state = CallState::Running {
                run,
                way: Way::Early,
            };
            let tool_use = call.tool_use.clone();
            out.push(Effect::RunTool {
                run,
                tool_use,
                judgement,
            });
        }
    }

    pub(super) fn message_complete(&mut self, out: &mut Vec<Effect>) {
        if let Phase::Calling(calling) = &self.phase
            && let Some(error) = self.emptiness(calling)
        {
            // No clock and no chance at hand, as above.
            let call = calling.call;
            return self.fail(call, error, None, 0, out);
        }
        let Phase::Calling(calling) = std::mem::replace(&mut self.phase, Phase::Idle) else {
            return;
        };
        let mut calling = *calling;
        let written = u64::try_from(calling.builder.written()).unwrap_or(u64::MAX);
        let Ok(mut message) = std::mem::take(&mut calling.builder).finish() else {
            return;
        };
        settle_repeated(&mut message, &calling.repeated);
        self.turn.failures = 0;
        self.turn.empty_replies = 0;
        self.turn.overloads = 0;
        if calling.is_summary {
            return self.summarised(calling.reservation, &message, written, out);
        }
        self.turn.rescued = false;
        self.upkeep.step();
        let cut = message.stop_reason == Some(StopReason::MaxTokens);
        if cut && !calling.reservation.shrunk && self.may_escalate() {
            return self.escalate(calling, message.usage, written, out);
        }
        if message.stop_reason == Some(StopReason::ContentFilter) {
            return self.filtered(calling, message, written, out);
        }
        let (batch, answers) = calling.early.complete(&message, cut);
        let stop_reason = message.stop_reason.clone();
        let usage = message.usage;
        let text = if batch.calls.is_empty() && self.settings.output.is_some() {
            message.text()
        } else {
            String::new()
        };
        let entry = Entry::message(Message::Assistant(message));
        self.record(entry, Sync::Soon, out);
        self.note_count(usage, &calling.reservation.model);
        self.settle(calling.reservation, usage, written, true, out);
        if batch.calls.is_empty() {
            return self.said_all(stop_reason, &text, out);
        }
        // What was said before a call is not the answer.
        self.turn.said.clear();
        self.turn.calls = self.turn.calls.saturating_add(batch.begun());
        self.phase = Phase::Answering(batch);
        for result in answers {
            self.record(Entry::CallFinished(result), Sync::Soon, out);
        }
        self.consult(out);
        self.advance(out);
    }

    /// What is wrong with a complete reply that holds neither text nor a tool use, if something is.
    fn emptiness(&self, calling: &Calling) -> Option<ModelError> {
        let builder = &calling.builder;
        let stop_reason = builder.stop_reason()?;
        let explained = match stop_reason {
            StopReason::MaxTokens
            | StopReason::Refusal
            | StopReason::ContentFilter
            | StopReason::ContextWindow => true,
            StopReason::Pause => !calling.is_summary && self.turn.pauses < MAX_PAUSES,
            StopReason::EndTurn
            | StopReason::ToolUse
            | StopReason::StopSequence
            | StopReason::Other(_) => false,
        };
        if explained || !builder.is_blank() {
            return None;
        }
        let mut words = if builder.has_thinking() {
            "the model returned only reasoning: no text and no tool call".to_owned()
        } else {
            "the model returned nothing: no text and no tool call".to_owned()
        };
        if let StopReason::Other(word) = stop_reason
            && !word.is_empty()
        {
            let word: String = word.chars().take(60).flat_map(char::escape_debug).collect();
            words.push_str(&format!(" (it stopped with the reason \"{word}\")"));
        }
        Some(ModelError::new(ModelErrorKind::EmptyReply, words))
    }

    /// A content filter stopped the reply: its text is kept, its calls are not, since one of them may
    /// be half of what it was to be.
    fn filtered(
        &mut self,
        calling: Calling,
        mut message: AssistantMessage,
        written: u64,
        out: &mut Vec<Effect>,
    ) {
        out.extend(calling.early.runs().map(|run| Effect::CancelTool { run }));
        message
            .content
            .retain(|block| !matches!(block, ContentBlock::ToolUse(_)));
        let usage = message.usage;
        if message.has_substance() {
            let entry = Entry::message(Message::Assistant(message));
            self.record(entry, Sync::Soon, out);
            self.note_count(usage, &calling.reservation.model);
        } else {
            self.discard(usage, out);
        }
        self.settle(calling.reservation, usage, written, true, out);
        self.end(filtered(), out);
    }

    /// The reply is discarded, and asked for once more with the larger cap.
    fn escalate(&mut self, calling: Calling, usage: Usage, written: u64, out: &mut Vec<Effect>) {
        self.turn.escalated = true;
        let runs = calling.early.runs();
        out.extend(runs.map(|run| Effect::CancelTool { run }));
        out.push(Effect::Void { call: calling.call });
        self.discard(usage, out);
        self.settle(calling.reservation, usage, written, true, out);
        self.call_model(Some(Continue::EscalateOutput), out);
    }

    pub(super) fn go_on(&mut self, reason: Continue, out: &mut Vec<Effect>) {
        self.turn.steps = self.turn.steps.saturating_add(1);
        self.call_model(Some(reason), out);
    }

    pub(super) fn fail(
        &mut self,
        call: u64,
        error: ModelError,
        now: Option<Duration>,
        chance: u16,
        out: &mut Vec<Effect>,
    ) {
        if !matches!(&self.phase, Phase::Calling(calling) if calling.call == call) {
            return;
        }
        let Phase::Calling(calling) = std::mem::replace(&mut self.phase, Phase::Idle) else {
            return;
        };
        let calling = *calling;
        // What ran early was speculation: nobody will ask for its results.
        out.extend(calling.early.runs().map(|run| Effect::CancelTool { run }));
        self.turn.overloads = if error.kind == ModelErrorKind::Overloaded {
            self.turn.overloads.saturating_add(1)
        } else {
            0
        };
        let voided = calling.builder.has_shown() && !calling.is_summary;
        if voided {
            out.push(Effect::Void { call });
        }
        self.discard(calling.builder.usage(), out);
        let empty = error.kind == ModelErrorKind::EmptyReply;
        if calling.begins {
            self.settle_broken(calling.reservation, &calling.builder, empty, out);
        }
        if self.turn.overloads >= OVERLOADS && !self.turn.fell_back {
            let fallback = self.settings.fallback.as_ref();
            if let Some(model) = fallback.map(|fallback| fallback.model.clone()) {
                return self.fall_back(model, out);
            }
        }
        let left_out = self.refused_part(&error);
        if error.kind == ModelErrorKind::ContextTooLong && left_out.is_none() {
            return self.too_long(error, calling.is_summary, out);
        }
        self.turn.failures = self.turn.failures.saturating_add(1);
        let attempts = self.turn.failures;
        if attempts == 1 {
            self.turn.first_failure = None;
        }
        self.turn.first_failure = self.turn.first_failure.or(now);
        let spent = match (now, self.turn.first_failure) {
            (Some(now), Some(first)) => now.saturating_sub(first),
            (None, _) | (_, None) => Duration::ZERO,
        };
        self.turn.empty_replies = self.turn.empty_replies.saturating_add(u32::from(empty));
        let retry = if left_out.is_some() {
            // Each time something is left out, so this comes to an end.
            Retry::After(Duration::ZERO)
        } else if empty && self.turn.empty_replies > EMPTY_REPLIES {
            Retry::No
        } else {
            self.settings.retry.decide(&error, attempts, spent, chance)
        };
        match retry {
            Retry::After(wait) => {
                self.newest.timer = self.newest.timer.saturating_add(1);
                let timer = self.newest.timer;
                let entry = Entry::Retry {
                    call,
                    attempt: attempts,
                    error,
                    wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                    voided,
                    left_out,
                };
                self.record(entry, Sync::Soon, out);
                out.push(Effect::StartTimer { timer, after: wait });
                self.phase = Phase::Waiting { timer };
            }
            Retry::No if calling.is_summary => {
                // What is asked next is asked for the first time.
                self.turn.failures = 0;
                self.turn.empty_replies = 0;
                self.compaction_failed(format!("no summary was written: {error}"), out);
            }
            Retry::No => self.end(TurnEnd::ModelError { error, attempts }, out),
        }
    }

    /// What the provider refused, if the conversation can go on without it: what is new first.
    fn refused_part(&self, error: &ModelError) -> Option<LeftOut> {
        if error.kind == ModelErrorKind::ThinkingRefused {
            return self.transcript.has_thinking().then_some(LeftOut::Thinking);
        }
        // With the status 413 the request has too many bytes, whatever its tokens are.
        let is_large = error.kind == ModelErrorKind::ContextTooLong && error.status == Some(413);
        if !is_large && error.kind != ModelErrorKind::AttachmentRefused {
            return None;
        }
        match self.transcript.attachments() {
            (true, true) if is_large => Some(LeftOut::OldAttachments),
            (true, true) => Some(LeftOut::NewAttachments),
            (true, false) | (false, true) => Some(LeftOut::Attachments),
            (false, false) => None,
        }
    }

    /// The model is overloaded again and again: the other one takes over, with tries of its own.
    fn fall_back(&mut self, model: String, out: &mut Vec<Effect>) {
        self.turn.fell_back = true;
        self.turn.failures = 0;
        self.turn.overloads = 0;
        self.turn.escalated = false;
        self.call_again(Continue::FallbackModel { model }, out);
    }
}

/// A call under an id that an earlier call of the reply has is the same call sent twice, and goes. If
/// it is not the same, its meaning is unknown: it is answered with an error.
fn settle_repeated(message: &mut AssistantMessage, repeated: &[Repeated]) {
    for again in repeated {
        let find = |id: &ToolUseId| {
            let mut calls = message.tool_uses();
            calls.find(|call| call.id == *id).cloned()
        };
        let (Some(first), Some(call)) = (find(&again.first), find(&again.id)) else {
            continue;
        };
        let same_input = match (&first.input, &call.input) {
            (ToolInput::Valid(one), ToolInput::Valid(other)) => one.to_value() == other.to_value(),
            (one, other) => one == other,
        };
        let same = first.name == call.name && same_input;
        message.content.retain_mut(|block| {
            let ContentBlock::ToolUse(block) = block else {
                return true;
            };
            if block.id == again.id && !same {
                block.input = ToolInput::Invalid {
                    raw: call.input.json().to_owned(),
                    reason: SAME_ID.into(),
                };
            }
            block.id != again.id || !same
        });
    }
}

/// The longest id that a provider gives back. Some providers put data of their own into ids.
const LONGEST_ID: usize = 64 << 10;

/// The provider's id where it can be used, else a new one. An id must be new in the conversation.
/// What its format can carry, its provider gets back byte for byte.
fn unique_id(id: ToolUseId, taken: impl Fn(&ToolUseId) -> bool) -> ToolUseId {
    let fits = !id.0.trim().is_empty() && id.0.len() <= LONGEST_ID;
    if fits && !taken(&id) {
        return id;
    }
    let mut number = 1_u64;
    loop {
        let ours = ToolUseId(format!("call_{number}"));
        if !taken(&ours) {
            return ours;
        }
        number = number.saturating_add(1);
    }
}
