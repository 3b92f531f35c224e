//! The calls of one message: which may run now.
//!
//! A read-only call may run beside others; a call with effects runs alone, in order, and only when
//! the message is complete. A read-only call waits for the calls with effects before it, since the
//! model wrote them in that order. A call that has others work runs beside others as well, though
//! only when the message is complete.

use std::collections::BTreeSet;

use tooloop_model::{
    AssistantMessage, ContentBlock, JsonObject, ToolInput, ToolResult, ToolUse, ToolUseId,
};
use tooloop_policy::{AccessEffect, AskCause};

use crate::{AdvisedVerdict, Entry, Gate, Verdict};

#[derive(Debug, Clone, Default)]
pub(crate) struct Batch {
    pub(crate) calls: Vec<Call>,
    /// The answers of calls that were done before their message was.
    pub(crate) answers: Vec<ToolResult>,
    /// Whether the message is complete. Until then only read-only calls run, as speculation.
    complete: bool,
    /// Whether the message was cut by the output cap, and a call with it.
    cut: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// As it is judged and run.
    pub(crate) tool_use: ToolUse,
    pub(crate) state: CallState,
    /// What the model is told with its result.
    pub(crate) context: Vec<String>,
}

impl Call {
    pub(crate) const fn new(tool_use: ToolUse) -> Self {
        Self {
            tool_use,
            state: CallState::New,
            context: Vec::new(),
        }
    }

    /// Puts another input in the place of the one that the model wrote. What it runs with is to be
    /// on record.
    pub(crate) fn rewrite(&mut self, input: JsonObject) -> Entry {
        self.tool_use.input = ToolInput::Valid(input.clone());
        Entry::CallRewritten {
            tool_use_id: self.tool_use.id.clone(),
            input,
        }
    }

    /// How it runs if somebody who was asked lets it: what is read-only is not run early then.
    pub(crate) fn allowed(&self, gate: &dyn Gate) -> CallState {
        let way = match Way::of(gate.judge(&self.tool_use).effect) {
            Way::Beside => Way::Beside,
            Way::Early | Way::Alone => Way::Alone,
        };
        CallState::Ready { way }
    }

    /// What the gate has against it, as it is now.
    pub(crate) fn refused(&self, gate: &dyn Gate) -> Option<Verdict> {
        let verdict = gate.judge(&self.tool_use).verdict;
        matches!(verdict, Verdict::Deny { .. } | Verdict::Invalid { .. }).then_some(verdict)
    }
}

/// How a call runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Beside others, and before its message is complete if need be: it changes nothing.
    Early,
    /// Beside others, once, and only of a message that is complete.
    Beside,
    /// Alone, once, and only of a message that is complete.
    Alone,
}

impl Way {
    const fn of(effect: AccessEffect) -> Self {
        match effect {
            AccessEffect::ReadOnly => Self::Early,
            AccessEffect::Delegated => Self::Beside,
            AccessEffect::Session | AccessEffect::Idempotent | AccessEffect::Effectful => {
                Self::Alone
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CallState {
    /// Not judged yet.
    New,
    /// Those who have a say are asked, before it is judged.
    Consulting { consult: u64 },
    /// They have said what they have to say. Not judged yet.
    Advised { verdict: Option<AdvisedVerdict> },
    /// Allowed, not begun.
    Ready { way: Way },
    /// Somebody is asked.
    Asking { ask: u64 },
    /// Under way.
    Running { run: u64, way: Way },
    /// Answered. The outcome is what the detection of loops compares.
    Done { outcome: String, is_error: bool },
}

/// What is to be done about a call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Move {
    /// Run it.
    Run { way: Way },
    /// Ask about it.
    Ask { reason: String, cause: AskCause },
    /// Answer it without running: a rule refuses it.
    Deny { reason: String },
    /// Answer it without running: there is nothing to run.
    Reject { message: String },
}

impl Batch {
    /// The calls of the complete message, those that ran early as they stand, and the answers that
    /// there are already. `cut` tells that the output cap ended the message.
    pub(crate) fn complete(
        mut self,
        message: &AssistantMessage,
        cut: bool,
    ) -> (Self, Vec<ToolResult>) {
        let mut calls: Vec<_> = message
            .tool_uses()
            .map(|tool_use| {
                self.take(&tool_use.id)
                    .unwrap_or_else(|| Call::new(tool_use.clone()))
            })
            .collect();
        // The cap may have cut the last call before the first piece of its input. No text at all is
        // read as the empty object elsewhere; here it is half a call.
        if cut
            && let Some(ContentBlock::ToolUse(_)) = message.content.last()
            && let Some(last) = calls.last_mut()
            && last.state == CallState::New
            && last.tool_use.input.json() == "{}"
        {
            last.tool_use.input = ToolInput::Invalid {
                raw: String::new(),
                reason: "it is missing".into(),
            };
        }
        let broken = |call: &Call| matches!(call.tool_use.input, ToolInput::Invalid { .. });
        let batch = Self {
            cut: cut && calls.iter().any(broken),
            calls,
            answers: Vec::new(),
            complete: true,
        };
        (batch, self.answers)
    }

    fn take(&mut self, id: &ToolUseId) -> Option<Call> {
        let position = self.calls.iter().position(|call| call.tool_use.id == *id)?;
        Some(self.calls.remove(position))
    }

    /// Whether the output cap cut a call.
    pub(crate) const fn was_cut(&self) -> bool {
        self.cut
    }

    /// Marks a call as answered. Returns what the model is told with the answer.
    pub(crate) fn done(&mut self, id: &ToolUseId, outcome: String, is_error: bool) -> Vec<String> {
        let Some(call) = self.calls.iter_mut().find(|call| call.tool_use.id == *id) else {
            return Vec::new();
        };
        call.state = CallState::Done { outcome, is_error };
        std::mem::take(&mut call.context)
    }

    /// The calls that are not judged yet, that could be run, and whose tool is one of these.
    pub(crate) fn unjudged<'a>(
        &'a mut self,
        gate: &'a dyn Gate,
        tools: &'a BTreeSet<String>,
    ) -> impl Iterator<Item = &'a mut Call> {
        self.calls.iter_mut().filter(move |call| {
            call.state == CallState::New
                && tools.contains(&call.tool_use.name)
                && matches!(call.tool_use.input, ToolInput::Valid(_))
                && !matches!(gate.judge(&call.tool_use).verdict, Verdict::Invalid { .. })
        })
    }

    /// How many of the calls run or have run.
    pub(crate) fn begun(&self) -> u32 {
        let begun = self.calls.iter().filter(|call| {
            matches!(
                call.state,
                CallState::Running { .. } | CallState::Done { .. }
            )
        });
        u32::try_from(begun.count()).unwrap_or(u32::MAX)
    }

    /// Whether a call of this tool was answered, and whether one of them without an error.
    pub(crate) fn called(&self, name: &str) -> Option<bool> {
        let calls = self.calls.iter();
        calls
            .filter(|call| call.tool_use.name == name)
            .filter_map(|call| match &call.state {
                CallState::Done { is_error, .. } => Some(!is_error),
                CallState::New
                | CallState::Consulting { .. }
                | CallState::Advised { .. }
                | CallState::Ready { .. }
                | CallState::Asking { .. }
                | CallState::Running { .. } => None,
            })
            .reduce(|one, other| one || other)
    }

    /// What was called and what came of it, for the detection of loops.
    pub(crate) fn outcomes(&self) -> Vec<String> {
        let calls = self.calls.iter();
        calls
            .filter_map(|call| match &call.state {
                CallState::Done { outcome, .. } => {
                    let tool_use = &call.tool_use;
                    let input = tool_use.input.json();
                    Some(format!("{}\n{input}\n{outcome}", tool_use.name))
                }
                CallState::New
                | CallState::Consulting { .. }
                | CallState::Advised { .. }
                | CallState::Ready { .. }
                | CallState::Asking { .. }
                | CallState::Running { .. } => None,
            })
            .collect()
    }

    /// The next move, and the position of the call that it is about; `None` if all wait for
    /// something under way, or all are done.
    pub(crate) fn next_move(
        &mut self,
        gate: &dyn Gate,
        max_parallel: usize,
    ) -> Option<(usize, Move)> {
        let running = self.running();
        // Of the calls before the one that is looked at: whether one is not done, and whether one
        // with effects is not done.
        let mut undone = false;
        let mut blocked = false;
        for (position, call) in self.calls.iter_mut().enumerate() {
            let advised = match &mut call.state {
                CallState::New => Some(None),
                CallState::Advised { verdict } => Some(verdict.take()),
                CallState::Consulting { .. }
                | CallState::Ready { .. }
                | CallState::Asking { .. }
                | CallState::Running { .. }
                | CallState::Done { .. } => None,
            };
            if let Some(advised) = advised {
                match judge(gate, &call.tool_use, self.cut, advised) {
                    Ok(way) if way == Way::Early || self.complete => {
                        call.state = CallState::Ready { way };
                    }
                    Err(refused) if self.complete => return Some((position, refused)),
                    Ok(_) | Err(_) => return None,
                }
            }
            match call.state {
                CallState::Done { .. } => continue,
                // They are judged in order, and one question is asked at a time: the answer may bring
                // a rule for the calls behind it.
                CallState::New
                | CallState::Consulting { .. }
                | CallState::Advised { .. }
                | CallState::Asking { .. } => return None,
                CallState::Ready {
                    way: way @ (Way::Early | Way::Beside),
                } => {
                    let may_begin = way == Way::Early || self.complete;
                    if may_begin && !blocked && running < max_parallel.max(1) {
                        return Some((position, Move::Run { way }));
                    }
                }
                CallState::Ready { way: Way::Alone } => {
                    if self.complete && !undone {
                        return Some((position, Move::Run { way: Way::Alone }));
                    }
                    blocked = true;
                }
                CallState::Running { way, .. } => blocked |= way == Way::Alone,
            }
            undone = true;
        }
        None
    }

    pub(crate) fn running(&self) -> usize {
        self.calls
            .iter()
            .filter(|call| matches!(call.state, CallState::Running { .. }))
            .count()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.complete
            && self
                .calls
                .iter()
                .all(|call| matches!(call.state, CallState::Done { .. }))
    }

    pub(crate) fn runs(&self) -> impl Iterator<Item = u64> {
        self.calls.iter().filter_map(|call| match call.state {
            CallState::Running { run, .. } => Some(run),
            CallState::New
            | CallState::Consulting { .. }
            | CallState::Advised { .. }
            | CallState::Ready { .. }
            | CallState::Asking { .. }
            | CallState::Done { .. } => None,
        })
    }

    pub(crate) fn by_run(&mut self, wanted: u64) -> Option<&mut Call> {
        self.calls
            .iter_mut()
            .find(|call| matches!(call.state, CallState::Running { run, .. } if run == wanted))
    }

    pub(crate) fn by_consult(&mut self, wanted: u64) -> Option<&mut Call> {
        self.calls.iter_mut().find(
            |call| matches!(call.state, CallState::Consulting { consult } if consult == wanted),
        )
    }

    pub(crate) fn by_ask(&mut self, wanted: u64) -> Option<&mut Call> {
        self.calls
            .iter_mut()
            .find(|call| matches!(call.state, CallState::Asking { ask } if ask == wanted))
    }
}

/// How the call may run, or what is to be done in place of running it.
fn judge(
    gate: &dyn Gate,
    tool_use: &ToolUse,
    cut: bool,
    advised: Option<AdvisedVerdict>,
) -> Result<Way, Move> {
    if let ToolInput::Invalid { reason, .. } = &tool_use.input {
        let message = if cut {
            "your output was cut by the output limit before the input of this call was complete, \
             so nothing was run. Write less at once: split the work into smaller calls."
                .into()
        } else {
            format!("the input of this call is not a JSON object, so nothing was run: {reason}")
        };
        return Err(Move::Reject { message });
    }
    let judgement = gate.judge(tool_use);
    match advise(judgement.verdict, advised) {
        Verdict::Allow => Ok(Way::of(judgement.effect)),
        Verdict::Ask { reason, cause } => Err(Move::Ask { reason, cause }),
        Verdict::Deny { reason } => Err(Move::Deny { reason }),
        Verdict::Invalid { message } => Err(Move::Reject { message }),
    }
}

/// What the gate says, and what is left of it in the light of the advice: the stricter of both, but
/// for a question that nobody's rule wants asked.
fn advise(verdict: Verdict, advised: Option<AdvisedVerdict>) -> Verdict {
    match (verdict, advised) {
        (verdict @ (Verdict::Invalid { .. } | Verdict::Deny { .. }), _) | (verdict, None) => {
            verdict
        }
        (_, Some(AdvisedVerdict::Deny { reason })) => Verdict::Deny { reason },
        // A hook that asks wants a person to look: that is as good as a rule.
        (Verdict::Allow, Some(AdvisedVerdict::Ask { reason })) => Verdict::Ask {
            reason,
            cause: AskCause::Rule,
        },
        (Verdict::Ask { reason, .. }, Some(AdvisedVerdict::Ask { reason: more })) => Verdict::Ask {
            reason: format!("{reason}; {more}"),
            cause: AskCause::Rule,
        },
        (
            Verdict::Ask {
                cause: AskCause::Uncovered | AskCause::Beyond,
                ..
            },
            Some(AdvisedVerdict::Allow),
        ) => Verdict::Allow,
        (verdict @ (Verdict::Allow | Verdict::Ask { .. }), Some(AdvisedVerdict::Allow)) => verdict,
    }
}
