//! A turn under way: what its report will need.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tooloop_kernel::{Continue, Entry, Permission, TurnEnd};
use tooloop_model::{Message, Price, ToolInput, ToolUseId, Usage};

use crate::{Denial, SessionError, TurnReport};

/// Who waits for the report of a turn.
pub(crate) type ReportSender = oneshot::Sender<Result<TurnReport, SessionError>>;

/// A turn under way.
pub(crate) struct TurnUnderWay {
    pub(crate) reply: ReportSender,
    begun: Instant,
    model_time: Duration,
    steps: u32,
    usage_before: Usage,
    text: String,
    continued: bool,
    /// The next model call is an earlier one made again.
    again: bool,
    denials: Vec<Denial>,
    /// The names and inputs of calls that have no answer yet.
    calls: HashMap<ToolUseId, (String, String)>,
}

impl TurnUnderWay {
    pub(crate) fn begin(reply: ReportSender, usage_before: Usage) -> Self {
        Self {
            reply,
            begun: Instant::now(),
            model_time: Duration::ZERO,
            steps: 0,
            usage_before,
            text: String::new(),
            continued: false,
            again: false,
            denials: Vec::new(),
            calls: HashMap::new(),
        }
    }

    pub(crate) fn model_called(&mut self) {
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
            Entry::CallFinished(result) => {
                // What was said before a tool use is not the answer.
                self.text.clear();
                self.calls.remove(&result.tool_use_id);
            }
            Entry::Permission {
                tool_use_id,
                permission: Permission::Denied { reason },
            } => {
                let call = self.calls.get(tool_use_id).cloned();
                let (tool, input) = call.unwrap_or_default();
                self.denials.push(Denial {
                    tool_use_id: tool_use_id.clone(),
                    tool,
                    input,
                    reason: reason.clone(),
                });
            }
            Entry::Continue(reason) => match reason {
                Continue::ContinueOutput => self.continued = true,
                Continue::Retry | Continue::EscalateOutput => self.again = true,
                Continue::NextStep
                | Continue::Steered
                | Continue::FollowUp
                | Continue::Reminder => {}
            },
            Entry::Permission {
                permission: Permission::Allowed { .. },
                ..
            }
            | Entry::CallStarted { .. }
            | Entry::Retry { .. }
            | Entry::Discarded { .. }
            | Entry::TurnEnd(_) => {}
        }
    }

    /// What it came to, without what only the session knows, and who is to be told.
    pub(crate) fn end(
        self,
        end: TurnEnd,
        usage: Usage,
        price: Option<Price>,
    ) -> (ReportSender, TurnReport) {
        let usage = usage.since(self.usage_before);
        let report = TurnReport {
            end,
            text: self.text,
            steps: self.steps,
            usage,
            cost_usd: price.map(|price| price.cost(usage)),
            duration: self.begun.elapsed(),
            model_duration: self.model_time,
            denials: self.denials,
            unsent: Vec::new(),
            background: Vec::new(),
        };
        (self.reply, report)
    }
}
