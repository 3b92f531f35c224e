//! The machine's side that faces the model: calls, replies, failures.

use std::sync::Arc;
use std::time::Duration;

use tooloop_model::{
    BlockStart, HistoryMessage, Message, MessageBuilder, ModelError, ModelErrorKind, RawJson,
    Request, StopReason, StreamEvent, ToolChoice, ToolInput, ToolUse, ToolUseId, Usage,
};

use super::{Calling, Kernel, Phase, Turn};
use crate::batch::{Batch, Call, CallState, Move, Way};
use crate::ledger::Reservation;
use crate::{Continue, Effect, Entry, OutputWay, Retry, Sync, TurnEnd};

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
        let messages = self.transcript.messages().to_vec();
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
            ..
        } = &mut event
        {
            *id = unique_id(std::mem::replace(id, ToolUseId(String::new())), |id| {
                self.transcript.knows(id) || calling.begun.contains(id)
            });
            calling.begun.push(id.clone());
        }
        let stopped = matches!(event, StreamEvent::MessageStop { .. });
        let shown = !stopped && !calling.is_summary;
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
            || next != Some(&tool_use.id)
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
        let Phase::Calling(calling) = std::mem::replace(&mut self.phase, Phase::Idle) else {
            return;
        };
        let mut calling = *calling;
        let written = u64::try_from(calling.builder.written()).unwrap_or(u64::MAX);
        let Ok(message) = std::mem::take(&mut calling.builder).finish() else {
            return;
        };
        self.turn.failures = 0;
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
        self.settle_broken(calling.reservation, calling.begins, &calling.builder, out);
        if self.turn.overloads >= OVERLOADS && !self.turn.fell_back {
            let fallback = self.settings.fallback.as_ref();
            if let Some(model) = fallback.map(|fallback| fallback.model.clone()) {
                return self.fall_back(model, out);
            }
        }
        if error.kind == ModelErrorKind::ContextTooLong {
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
        match self.settings.retry.decide(&error, attempts, spent, chance) {
            Retry::After(wait) => {
                self.newest.timer = self.newest.timer.saturating_add(1);
                let timer = self.newest.timer;
                let entry = Entry::Retry {
                    call,
                    attempt: attempts,
                    error,
                    wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                    voided,
                };
                self.record(entry, Sync::Soon, out);
                out.push(Effect::StartTimer { timer, after: wait });
                self.phase = Phase::Waiting { timer };
            }
            Retry::No if calling.is_summary => {
                // What is asked next is asked for the first time.
                self.turn.failures = 0;
                self.compaction_failed(format!("no summary was written: {error}"), out);
            }
            Retry::No => self.end(TurnEnd::ModelError { error, attempts }, out),
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

/// The provider's id where it can be used, else one of ours. An id must be new in the conversation
/// and made of what every provider accepts.
fn unique_id(id: ToolUseId, taken: impl Fn(&ToolUseId) -> bool) -> ToolUseId {
    let fits = (1..=64).contains(&id.0.len())
        && id
            .0
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
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
