//! A turn under way: what its report will need.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tooloop_kernel::{Continue, Entry, Permission, Transcript, TurnEnd};
use tooloop_model::{Message, Money, RawJson, ToolInput, ToolUseId, Usage};
use tooloop_policy::AskCause;

use crate::agents::EXIT_PLAN;
use crate::output_schema::{self, OutputSchema};
use crate::{Denial, DeniedBy, SessionError, TurnReport};

/// Who waits for the report of a turn.
pub(crate) type ReportSender = oneshot::Sender<Result<TurnReport, SessionError>>;

/// A turn under way.
pub(crate) struct TurnUnderWay {
    pub(crate) reply: ReportSender,
    begun: Instant,
    model_time: Duration,
    steps: u32,
    usage_before: Usage,
    spent_before: Money,
    schema: Option<OutputSchema>,
    /// Who is asked.
    model: String,
    model_usage: Vec<(String, Usage)>,
    answer: Option<RawJson>,
    text: String,
    continued: bool,
    /// The next model call is an earlier one made again.
    again: bool,
    denials: Vec<Denial>,
    /// The calls that somebody had a say in, and why they were to be asked.
    asked: HashMap<ToolUseId, (DeniedBy, Option<AskCause>)>,
    /// The names and inputs of calls that have no answer yet.
    calls: HashMap<ToolUseId, (String, String)>,
}

impl TurnUnderWay {
    pub(crate) fn begin(
        reply: ReportSender,
        before: &Transcript,
        schema: Option<OutputSchema>,
        model: String,
    ) -> Self {
        Self {
            reply,
            begun: Instant::now(),
            model_time: Duration::ZERO,
            steps: 0,
            usage_before: before.usage(),
            spent_before: before.spent(),
            schema,
            model,
            model_usage: Vec::new(),
            answer: None,
            text: String::new(),
            continued: false,
            again: false,
            denials: Vec::new(),
            asked: HashMap::new(),
            calls: HashMap::new(),
        }
    }

    /// What went on until now was no part of it.
    pub(crate) fn begins_now(&mut self, transcript: &Transcript) {
        self.usage_before = transcript.usage();
        self.spent_before = transcript.spent();
        self.model_usage.clear();
        self.model_time = Duration::ZERO;
        self.steps = 0;
    }

    /// Somebody has a say in a call; a no is theirs from then on.
    pub(crate) fn asked(&mut self, id: ToolUseId, by: DeniedBy, cause: Option<AskCause>) {
        self.asked.insert(id, (by, cause));
    }

    /// It was a hook that answered.
    pub(crate) fn answered_by_hook(&mut self, id: &ToolUseId) {
        if let Some((by, _)) = self.asked.get_mut(id) {
            *by = DeniedBy::Hook;
        }
    }

    fn used(&mut self, usage: Usage) {
        let mut known = self.model_usage.iter_mut();
        match known.find(|(model, _)| *model == self.model) {
            Some((_, used)) => used.add(usage),
            None => self.model_usage.push((self.model.clone(), usage)),
        }
    }

    /// What the model said last.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn model_called(&mut self, model: &str) {
        model.clone_into(&mut self.model);
        if !std::mem::take(&mut self.again) {
            self.steps = self.steps.saturating_add(1);
        }
    }

    pub(crate) const fn model_done(&mut self, took: Duration) {
        self.model_time = self.model_time.saturating_add(took);
    }

    /// Keeps what the turn's report will need.
    pub(crate) fn note(&mut self, entry: &Entry) {
        match entry {
            Entry::Message(message) => {
                if let Message::Assistant(reply) = message.message() {
                    if !std::mem::take(&mut self.continued) {
                        self.text.clear();
                    }
                    self.text.push_str(&reply.text());
                    self.used(reply.usage);
                    for tool_use in reply.tool_uses() {
                        let input = match &tool_use.input {
                            ToolInput::Valid(input) => input.get().to_owned(),
                            ToolInput::Invalid { raw, .. } => raw.clone(),
                        };
                        let call = (tool_use.name.clone(), input);
                        self.calls.insert(tool_use.id.clone(), call);
                    }
                }
            }
            // What was not allowed is what was asked about.
            Entry::CallRewritten { tool_use_id, input } => {
                if let Some((_, known)) = self.calls.get_mut(tool_use_id) {
                    input.get().clone_into(known);
                }
            }
            Entry::CallFinished(result) => {
                // What was said before a tool use is not the answer.
                self.text.clear();
                let call = self.calls.remove(&result.tool_use_id);
                // If nobody is asked about it, that is the answer.
                let plan = call
                    .as_ref()
                    .filter(|(tool, _)| tool == EXIT_PLAN && !result.is_error)
                    .and_then(|(_, input)| {
                        let input: serde_json::Value = serde_json::from_str(input).ok()?;
                        Some(input.get("plan")?.as_str()?.to_owned())
                    });
                if let (Some(schema), Some((tool, input))) = (&self.schema, call)
                    && tool == output_schema::TOOL
                    && !result.is_error
                {
                    let input = serde_json::from_str(&input).unwrap_or_default();
                    self.answer = schema.answer_of(&input).ok();
                }
                if let Some(plan) = plan {
                    self.text = plan;
                }
            }
            Entry::Permission {
                tool_use_id,
                permission: Permission::Denied { reason, .. },
            } => {
                let call = self.calls.get(tool_use_id).cloned();
                let (tool, input) = call.unwrap_or_default();
                let asked = self.asked.get(tool_use_id).copied();
                let (by, cause) = asked.unwrap_or((DeniedBy::Policy, None));
                self.denials.push(Denial {
                    by,
                    cause,
                    tool_use_id: tool_use_id.clone(),
                    tool,
                    input,
                    reason: reason.clone(),
                });
            }
            Entry::Discarded { usage } => self.used(*usage),
            Entry::Continue(reason) => match reason {
                Continue::ContinueOutput | Continue::PauseTurn => self.continued = true,
                Continue::Retry
                | Continue::EscalateOutput
                | Continue::FallbackModel { .. }
                | Continue::Compact => {
                    self.again = true;
                }
                Continue::NextStep
                | Continue::Steered
                | Continue::FollowUp
                | Continue::SchemaRetry
                | Continue::StopHookBlocked
                | Continue::Reminder => {}
            },
            Entry::Permission {
                permission: Permission::Allowed { .. },
                ..
            }
            | Entry::CallStarted { .. }
            | Entry::Retry { .. }
            | Entry::Spent { .. }
            | Entry::Shortened { .. }
            | Entry::Compacted { .. }
            | Entry::Rewound { .. }
            | Entry::TurnEnd(_) => {}
        }
    }

    /// What it came to, without what only the session knows, and who is to be told.
    pub(crate) fn end(
        self,
        end: TurnEnd,
        after: &Transcript,
        priced: bool,
    ) -> (ReportSender, TurnReport) {
        let usage = after.usage().since(self.usage_before);
        let spent = after.spent().saturating_sub(self.spent_before);
        let done = matches!(end, TurnEnd::Completed | TurnEnd::StopHookPrevented { .. });
        let structured_output = self.schema.filter(|_| done).and_then(|schema| {
            let said = || schema.answer_in(&self.text).ok();
            self.answer.or_else(said)
        });
        let report = TurnReport {
            end,
            text: self.text,
            structured_output,
            model_usage: self.model_usage,
            steps: self.steps,
            usage,
            cost_usd: priced.then(|| spent.as_usd()),
            duration: self.begun.elapsed(),
            model_duration: self.model_time,
            denials: self.denials,
            unsent: Vec::new(),
            background: Vec::new(),
        };
        (self.reply, report)
    }
}
