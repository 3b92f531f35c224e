//! What the driver does about questions: whether a call may run, and whether the model is done.

use std::sync::Arc;

use futures_util::FutureExt;
use tooloop_kernel::{Answer, Input, Judgement};
use tooloop_model::{JsonObject, ToolInput, ToolUse};
use tooloop_policy::AskCause;

use super::Driver;
use super::hooking::Answered;
use crate::{Allowance, Approval, DeniedBy, Event, Question, Reply, Stopping};

impl Driver {
    pub(super) fn ask_about(
        &mut self,
        ask: u64,
        tool_use: ToolUse,
        reason: String,
        cause: AskCause,
        judgement: Arc<Judgement>,
    ) {
        let question = Question {
            ask: self.asks | ask,
            agent: self.gate.agent.as_deref().map(str::to_owned),
            cause: Some(cause),
            rules: judgement.rules.clone(),
            denying: match self.approval {
                Approval::Nobody => Vec::new(),
                Approval::By(_) => self.gate.denying(&tool_use.name, &judgement, true),
            },
            tool_use: tool_use.clone(),
            reason,
        };
        if let Some(turn) = &mut self.turn {
            let by = match self.approval {
                Approval::Nobody => DeniedBy::Nobody,
                Approval::By(_) => DeniedBy::Answer,
            };
            turn.asked(tool_use.id.clone(), by, question.cause);
        }
        self.trace.asked(&tool_use);
        self.asked.insert(ask, (tool_use, judgement));
        self.events.send(&Event::Asked(question.clone()));
        let reply = self.ask(question, cause);
        self.questions
            .push(reply.map(move |reply| (ask, reply)).boxed());
    }

    pub(super) fn replied(&mut self, ask: u64, answered: Answered) -> Option<Input> {
        let (tool_use, judgement) = self.asked.remove(&ask)?;
        let Answered { mut reply, by_hook } = answered;
        if let Reply::Deny { reason } | Reply::DenyAndStop { reason } = &mut reply {
            let by_a_person = !by_hook && matches!(self.approval, Approval::By(_));
            let denied = self.gate.refused(&tool_use.name, &judgement, by_a_person);
            if let Some(rules) = denied.filter(|_| by_a_person) {
                reason.push_str(&format!(
                    " (for the rest of the session too: {rules} is now denied)"
                ));
            }
            if let Some(turn) = self.turn.as_mut().filter(|_| by_hook) {
                turn.answered_by_hook(&tool_use.id);
            }
        }
        let answer = match reply {
            Reply::Allow => Answer::Allow {
                rule: None,
                input: None,
            },
            Reply::AllowForSession => {
                let rule = self.gate.allow(judgement.rules.clone());
                Answer::Allow { rule, input: None }
            }
            Reply::AllowWith(Allowance { input, rules }) => {
                let input = input.filter(|input| self.changes(&tool_use, input));
                if input.is_some() {
                    self.changed.insert(tool_use.id);
                }
                let rule = self.gate.allow(rules);
                Answer::Allow { rule, input }
            }
            Reply::Deny { reason } => Answer::Deny {
                reason,
                stops: false,
            },
            Reply::DenyAndStop { reason } => Answer::Deny {
                reason,
                stops: true,
            },
        };
        Some(Input::Answered { ask, answer })
    }

    /// Whether an input is another one than the model wrote.
    pub(super) fn changes(&self, tool_use: &ToolUse, input: &JsonObject) -> bool {
        let ToolInput::Valid(written) = &tool_use.input else {
            return true;
        };
        let tool = self.registry.get(&tool_use.name);
        let schema = tool.map(|tool| tool.definition().input_schema.to_value());
        !written.is_same(input, &schema.unwrap_or_default())
    }

    pub(super) fn ask_stop(&mut self, stop: u64, active: bool) {
        let text = self.turn.as_ref().map_or("", |turn| turn.text()).into();
        let stopping = Stopping {
            text,
            stop_hook_active: active,
        };
        let judgement = self.judge_stop(stopping);
        let judgement = tokio::time::timeout(self.stop_limit(), judgement);
        self.judging = Some((stop, judgement.map(Result::ok).boxed()));
    }
}
