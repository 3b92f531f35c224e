//! What is told of a session to whoever listens through `tracing`.
//!
//! A turn is a span. Within it each step is one, and within the step its model call, retries
//! included, and its tool calls; what else happens are events. Names and fields are those of the
//! GenAI semantic conventions of OpenTelemetry, version 0.1.0; fields that begin with `otel.` are
//! the ones that bridges from `tracing` to OpenTelemetry know. `docs/traces.md` lists them all.
//!
//! What was said goes only to those who enable the target [`CONTENT`] at the level TRACE. It must
//! not know: who listens, and where spans go.

mod content;

use std::time::Instant;

use tooloop_kernel::{Continue, During, Entry, Permission, TurnEnd};
use tooloop_model::{
    Message, ModelError, ModelErrorKind, Price, Request, StopReason, StreamEvent, ToolUse, Usage,
};
use tooloop_session::SessionId;
use tooloop_tool::ToolOutput;
use tracing::{Level, Span, debug, enabled, field::Empty, info, info_span, trace};

use crate::TurnReport;
use crate::hooks::{HookEnd, HookOutcome, HookRule};

/// The target of events that hold what was said.
const CONTENT: &str = "tooloop::content";

/// The spans of a session that are open, and what the next ones will say.
#[derive(Debug)]
pub(crate) struct Trace {
    session: SessionId,
    turns: u32,
    steps: u32,
    /// The next model call belongs to the step under way.
    same_step: bool,
    turn: Span,
    step: Span,
    call: Call,
}

/// The model call under way, or the last one.
#[derive(Debug)]
struct Call {
    span: Span,
    begun: Instant,
    usage: Usage,
    price: Option<Price>,
    failure: Option<ModelErrorKind>,
    /// Whether anything has come yet.
    answered: bool,
    /// The next request is this call tried again.
    again: bool,
}

impl Call {
    fn none() -> Self {
        Self {
            span: Span::none(),
            begun: Instant::now(),
            usage: Usage::default(),
            price: None,
            failure: None,
            answered: false,
            again: false,
        }
    }

    fn end(&mut self) {
        if let Some(kind) = self.failure.take() {
            failed(&self.span, kind.name());
            self.span.record("gen_ai.response.finish_reasons", "error");
        }
        self.span = Span::none();
        self.again = false;
    }
}

impl Trace {
    pub(crate) fn new(session: SessionId) -> Self {
        Self {
            session,
            turns: 0,
            steps: 0,
            same_step: false,
            turn: Span::none(),
            step: Span::none(),
            call: Call::none(),
        }
    }

    /// A turn begins, within the span that whoever prompted was in.
    pub(crate) fn turn_begins(&mut self, within: &Span, provider: &str, model: &str) {
        self.turns = self.turns.saturating_add(1);
        self.steps = 0;
        self.same_step = false;
        self.turn = info_span!(
            parent: within,
            "invoke_agent",
            otel.kind = "INTERNAL",
            otel.status_code = Empty,
            gen_ai.operation.name = "invoke_agent",
            gen_ai.provider.name = provider,
            gen_ai.request.model = model,
            gen_ai.conversation.id = %self.session,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            gen_ai.usage.cache_read.input_tokens = Empty,
            gen_ai.usage.cache_write.input_tokens = Empty,
            gen_ai.usage.reasoning.output_tokens = Empty,
            error.r#type = Empty,
            tooloop.turn.number = self.turns,
            tooloop.turn.end = Empty,
            tooloop.turn.steps = Empty,
            tooloop.cost_usd = Empty,
        );
    }

    /// The model is asked. The span is the one for the request to run in.
    pub(crate) fn model_called(
        &mut self,
        call: u64,
        request: &Request,
        provider: &str,
        price: impl FnOnce() -> Option<Price>,
    ) -> Span {
        if std::mem::take(&mut self.call.again) {
            self.same_step = false;
            self.call.span.record("tooloop.call.number", call);
            return self.call.span.clone();
        }
        self.call.end();
        if !std::mem::take(&mut self.same_step) {
            self.step_begins();
        }
        let span = info_span!(
            parent: &self.step,
            "chat",
            otel.name = %format_args!("chat {}", request.model),
            otel.kind = "CLIENT",
            otel.status_code = Empty,
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = provider,
            gen_ai.request.model = request.model,
            gen_ai.request.stream = true,
            gen_ai.request.max_tokens = request.max_output_tokens,
            gen_ai.conversation.id = %self.session,
            gen_ai.response.id = Empty,
            gen_ai.response.model = Empty,
            gen_ai.response.finish_reasons = Empty,
            gen_ai.response.time_to_first_chunk = Empty,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            gen_ai.usage.cache_read.input_tokens = Empty,
            gen_ai.usage.cache_write.input_tokens = Empty,
            gen_ai.usage.reasoning.output_tokens = Empty,
            error.r#type = Empty,
            tooloop.call.number = call,
            tooloop.cost_usd = Empty,
        );
        if !span.is_disabled() {
            self.call = Call {
                span: span.clone(),
                price: price(),
                ..Call::none()
            };
            if enabled!(target: CONTENT, Level::TRACE) {
                let system = content::system(&request.system);
                let messages = content::messages(&request.messages);
                trace!(
                    target: CONTENT,
                    parent: &span,
                    { gen_ai.system_instructions = system, gen_ai.input.messages = messages },
                    "asked"
                );
            }
        }
        span
    }

    fn step_begins(&mut self) {
        self.steps = self.steps.saturating_add(1);
        // The one before ends first.
        self.step = Span::none();
        self.step = info_span!(
            parent: &self.turn,
            "step",
            otel.name = %format_args!("step {}", self.steps),
            otel.kind = "INTERNAL",
            gen_ai.conversation.id = %self.session,
            tooloop.step.number = self.steps,
        );
    }

    /// Something of the reply has come, or it has failed.
    pub(crate) fn model_event(&mut self, event: &Result<StreamEvent, ModelError>) {
        let call = &mut self.call;
        if call.span.is_disabled() {
            return;
        }
        match event {
            Ok(event) => {
                if !std::mem::replace(&mut call.answered, true) {
                    let first = call.begun.elapsed().as_secs_f64();
                    let name = "gen_ai.response.time_to_first_chunk";
                    call.span.record(name, first);
                }
                call.failure = None;
                call.event(event);
            }
            Err(error) => {
                call.failure = Some(error.kind);
                let (kind, status) = (error.kind.name(), error.status);
                debug!(
                    parent: &call.span,
                    error.r#type = kind,
                    http.response.status_code = status,
                    error = %error.message,
                    "the model call failed",
                );
            }
        }
    }

    /// A tool is about to run. The span is the one for it to run in.
    pub(crate) fn tool_begins(&self, tool_use: &ToolUse) -> Span {
        let span = info_span!(
            parent: &self.step,
            "execute_tool",
            otel.name = %format_args!("execute_tool {}", tool_use.name),
            otel.kind = "INTERNAL",
            otel.status_code = Empty,
            gen_ai.operation.name = "execute_tool",
            gen_ai.tool.name = tool_use.name,
            gen_ai.tool.r#type = "function",
            gen_ai.tool.call.id = tool_use.id.0,
            gen_ai.conversation.id = %self.session,
            error.r#type = Empty,
        );
        if !span.is_disabled() && enabled!(target: CONTENT, Level::TRACE) {
            let arguments = content::short(tool_use.input.json());
            trace!(target: CONTENT, parent: &span, { gen_ai.tool.call.arguments = arguments }, "called");
        }
        span
    }

    /// What a tool came to.
    pub(crate) fn tool_ended(span: &Span, output: &ToolOutput) {
        if span.is_disabled() {
            return;
        }
        if output.is_error {
            failed(span, "tool_error");
        }
        if enabled!(target: CONTENT, Level::TRACE) {
            let result = content::result(&output.content);
            trace!(target: CONTENT, parent: span, { gen_ai.tool.call.result = result }, "answered");
        }
    }

    /// A tool is broken off; nobody waits for what it comes to.
    pub(crate) fn tool_cancelled(span: &Span) {
        failed(span, "cancelled");
    }

    /// Somebody is asked about a call.
    pub(crate) fn asked(&self, tool_use: &ToolUse) {
        info!(
            parent: &self.step,
            gen_ai.tool.name = tool_use.name,
            gen_ai.tool.call.id = tool_use.id.0,
            "permission is asked for",
        );
    }

    /// The span that hooks belong into: of the step, or of the turn if there is none.
    pub(crate) fn around_hooks(&self) -> Span {
        if self.step.is_none() {
            self.turn.clone()
        } else {
            self.step.clone()
        }
    }

    /// A hook is about to run. The span is the one for it to run in.
    pub(crate) fn hook_begins(within: &Span, rule: &HookRule) -> Span {
        info_span!(
            parent: within,
            "hook",
            otel.name = %format_args!("hook {}", rule.event),
            otel.kind = "INTERNAL",
            otel.status_code = Empty,
            tooloop.hook.event = rule.event.name(),
            tooloop.hook.source = rule.source,
            tooloop.hook.status = Empty,
            error.r#type = Empty,
        )
    }

    /// What a hook came to.
    pub(crate) fn hook_ended(span: &Span, outcome: &HookOutcome) {
        match &outcome.end {
            HookEnd::Exited(status) => {
                span.record("tooloop.hook.status", *status);
                // Two is a word of the contract, not a failure.
                if !matches!(status, 0 | 2) {
                    failed(span, "hook_failed");
                }
            }
            HookEnd::TimedOut => failed(span, "timeout"),
            HookEnd::Failed { .. } => failed(span, "hook_failed"),
        }
    }

    /// These are about to be recorded.
    pub(crate) fn entries(&mut self, entries: &[Entry]) {
        if self.turn.is_disabled() {
            return;
        }
        for entry in entries {
            self.entry(entry);
        }
    }

    fn entry(&mut self, entry: &Entry) {
        match entry {
            Entry::Message(message) => {
                if let Message::Assistant(_) = message.message() {
                    if enabled!(target: CONTENT, Level::TRACE) {
                        let messages = content::messages(std::slice::from_ref(message));
                        let span = &self.call.span;
                        trace!(target: CONTENT, parent: span, { gen_ai.output.messages = messages }, "replied");
                    }
                    self.call.end();
                }
            }
            Entry::Retry {
                call,
                attempt,
                error,
                wait_ms,
                voided,
                ..
            } => {
                let (kind, status) = (error.kind.name(), error.status);
                info!(
                    parent: &self.call.span,
                    tooloop.call.number = call,
                    attempt,
                    wait_ms,
                    voided,
                    error.r#type = kind,
                    http.response.status_code = status,
                    "retry",
                );
            }
            Entry::Permission {
                tool_use_id,
                permission,
            } => {
                let decision = match permission {
                    Permission::Allowed { .. } => "allowed",
                    Permission::Denied { .. } => "denied",
                };
                let id = &tool_use_id.0;
                info!(parent: &self.step, gen_ai.tool.call.id = id, decision, "permission");
            }
            Entry::CallStarted { tool_use_id } => {
                let id = &tool_use_id.0;
                debug!(parent: &self.step, gen_ai.tool.call.id = id, "a call with effects starts");
            }
            Entry::CallRewritten { tool_use_id, .. } => {
                let id = &tool_use_id.0;
                info!(parent: &self.step, gen_ai.tool.call.id = id, "a call has another input now");
            }
            Entry::CallFinished(result) => {
                let (id, is_error) = (&result.tool_use_id.0, result.is_error);
                debug!(parent: &self.step, gen_ai.tool.call.id = id, is_error, "a call is answered");
            }
            Entry::Discarded { .. } => info!(parent: &self.call.span, "the reply is discarded"),
            Entry::Continue(reason) => {
                self.call.again = *reason == Continue::Retry;
                self.same_step = matches!(reason, Continue::Retry | Continue::EscalateOutput);
                debug!(parent: &self.step, reason = reason.name(), "goes on");
            }
            Entry::TurnEnd(TurnEnd::Interrupted { during, .. }) => {
                let during = match during {
                    During::Model => "model",
                    During::Tools => "tools",
                };
                info!(parent: &self.turn, during, "interrupted");
            }
            Entry::Shortened {
                results,
                before,
                after,
            } => {
                let results = results.len();
                info!(parent: &self.turn, results, before, after, "results are cut short");
            }
            Entry::Compacted {
                cut,
                trigger,
                before,
                after,
                ..
            } => {
                let trigger = trigger.name();
                info!(parent: &self.turn, cut, trigger, before, after, "summed up");
            }
            Entry::TurnEnd(_) | Entry::Spent { .. } | Entry::Rewound { .. } => {}
        }
    }

    /// The turn is over.
    pub(crate) fn turn_ends(&mut self, report: &TurnReport) {
        self.call.end();
        self.step = Span::none();
        let turn = std::mem::replace(&mut self.turn, Span::none());
        if turn.is_disabled() {
            return;
        }
        record_usage(&turn, report.usage);
        turn.record("tooloop.turn.end", report.end.name());
        turn.record("tooloop.turn.steps", report.steps);
        if let Some(cost) = report.cost_usd {
            turn.record("tooloop.cost_usd", cost);
        }
        match &report.end {
            TurnEnd::Completed => {}
            TurnEnd::ModelError { error, .. } => failed(&turn, error.kind.name()),
            end => failed(&turn, end.name()),
        }
    }

    /// No turn is under way.
    pub(crate) fn nothing_began(&mut self) {
        self.turn = Span::none();
    }

    /// The session is over. A turn that has not ended by then never will.
    pub(crate) fn close(&mut self) {
        self.call.end();
        self.step = Span::none();
        failed(&self.turn, "closed");
        self.turn = Span::none();
    }
}

impl Call {
    fn event(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::MessageStart { id, model } => {
                if let Some(id) = id {
                    self.span.record("gen_ai.response.id", id.as_str());
                }
                if let Some(model) = model {
                    self.span.record("gen_ai.response.model", model.as_str());
                }
            }
            StreamEvent::Usage(usage) => self.usage = *usage,
            StreamEvent::MessageStop { stop_reason } => {
                let reason = finish_reason(stop_reason);
                self.span.record("gen_ai.response.finish_reasons", reason);
                record_usage(&self.span, self.usage);
                if let Some(price) = self.price {
                    self.span
                        .record("tooloop.cost_usd", price.cost(self.usage).as_usd());
                }
            }
            StreamEvent::BlockStart { .. }
            | StreamEvent::TextDelta { .. }
            | StreamEvent::ThinkingDelta { .. }
            | StreamEvent::InputDelta { .. }
            | StreamEvent::VendorDelta { .. }
            | StreamEvent::BlockStop { .. } => {}
        }
    }
}

fn failed(span: &Span, kind: &str) {
    span.record("error.type", kind);
    span.record("otel.status_code", "ERROR");
}

fn record_usage(span: &Span, usage: Usage) {
    if usage.is_empty() {
        return;
    }
    span.record("gen_ai.usage.input_tokens", usage.input_tokens);
    span.record("gen_ai.usage.output_tokens", usage.output_tokens);
    if usage.cache_read_tokens > 0 {
        let name = "gen_ai.usage.cache_read.input_tokens";
        span.record(name, usage.cache_read_tokens);
    }
    if usage.cache_write_tokens > 0 {
        let name = "gen_ai.usage.cache_write.input_tokens";
        span.record(name, usage.cache_write_tokens);
    }
    if let Some(tokens) = usage.reasoning_tokens {
        span.record("gen_ai.usage.reasoning.output_tokens", tokens);
    }
}

/// In the words that the conventions have for it.
fn finish_reason(reason: &StopReason) -> &str {
    match reason {
        StopReason::EndTurn | StopReason::StopSequence => "stop",
        StopReason::ToolUse => "tool_call",
        StopReason::MaxTokens | StopReason::ContextWindow => "length",
        StopReason::Refusal | StopReason::ContentFilter => "content_filter",
        StopReason::Pause => "pause",
        StopReason::Other(word) => word,
    }
}
