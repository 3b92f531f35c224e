//! The calls of one message: which may run now.
//!
//! A read-only call may run beside others; a call with effects runs alone, in order, and only when
//! the message is complete. A read-only call waits for the calls with effects before it, since the
//! model wrote them in that order. A call that has others work runs beside others as well, though
//! only when the message is complete.
//!
//! A call is judged in the step in which it begins or in which a question about it is asked, never
//! behind a call with effects that is not done. The judgement goes with the call.

use std::collections::BTreeSet;
use std::sync::Arc;

use tooloop_model::{
    AssistantMessage, ContentBlock, JsonObject, ToolInput, ToolResult, ToolUse, ToolUseId,
};
use tooloop_policy::{AccessEffect, AskCause};

use crate::{AdvisedVerdict, Entry, Gate, Judgement, Verdict};

/// Why a call has no input that can be used whose id is that of another call.
pub(crate) const SAME_ID: &str = "this call came with the id of an earlier call of the same reply, \
                                  and with another input. Make it again if it is still needed.";

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
    /// Those who have a say are asked, before it is judged. `seen` is what it would have touched
    /// then.
    Consulting { consult: u64, seen: Arc<Judgement> },
    /// They have said what they have to say. Not judged yet.
    Advised {
        verdict: Option<AdvisedVerdict>,
        seen: Arc<Judgement>,
    },
    /// Somebody is asked.
    Asking { ask: u64, judgement: Arc<Judgement> },
    /// The question about it was answered with yes. Holds the judgement that was asked about.
    Approved { judgement: Arc<Judgement> },
    /// Under way.
    Running { run: u64, way: Way },
    /// Answered. The outcome is what the detection of loops compares.
    Done { outcome: String, is_error: bool },
}

/// What is to be done about a call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Move {
    /// Run it.
    Run { way: Way, judgement: Arc<Judgement> },
    /// Ask about it.
    Ask {
        reason: String,
        cause: AskCause,
        judgement: Arc<Judgement>,
    },
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

    /// The calls that are not judged yet, that could be run, and whose tool is one of these, each
    /// with what it would touch as things are.
    pub(crate) fn unjudged<'a>(
        &'a mut self,
        gate: &'a dyn Gate,
        tools: &'a BTreeSet<String>,
    ) -> impl Iterator<Item = (&'a mut Call, Judgement)> {
        self.calls.iter_mut().filter_map(move |call| {
            let is_open = call.state == CallState::New
                && tools.contains(&call.tool_use.name)
                && matches!(call.tool_use.input, ToolInput::Valid(_));
            if !is_open {
                return None;
            }
            let seen = gate.judge(&call.tool_use);
            (!matches!(seen.verdict, Verdict::Invalid { .. })).then_some((call, seen))
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
                | CallState::Asking { .. }
                | CallState::Approved { .. }
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
                | CallState::Asking { .. }
                | CallState::Approved { .. }
                | CallState::Running { .. } => None,
            })
            .collect()
    }

    /// The next move, and the position of the call that it is about; `None` if all wait for
    /// something under way, or all are done.
    pub(crate) fn next_move(&self, gate: &dyn Gate, max_parallel: usize) -> Option<(usize, Move)> {
        let has_room = self.running() < max_parallel.max(1);
        let mut undone = false;
        for (position, call) in self.calls.iter().enumerate() {
            let next = match &call.state {
                CallState::Done { .. } => continue,
                // What it changes may change the answer about the calls behind it.
                CallState::Running {
                    way: Way::Alone, ..
                } => return None,
                CallState::Running {
                    way: Way::Early | Way::Beside,
                    ..
                } => {
                    undone = true;
                    continue;
                }
                // They are judged in order, and one question is asked at a time: the answer may bring
                // a rule for the calls behind it.
                CallState::Consulting { .. } | CallState::Asking { .. } => return None,
                CallState::New => judge(gate, &call.tool_use, self.cut, None),
                CallState::Advised { verdict, seen } => {
                    let advised = verdict.as_ref().map(|verdict| (verdict, &**seen));
                    judge(gate, &call.tool_use, self.cut, advised)
                }
                CallState::Approved { judgement } => judge_again(gate, &call.tool_use, judgement),
            };
            let may_begin = match &next {
                Move::Run { way, .. } => match way {
                    Way::Early => has_room,
                    Way::Beside => self.complete && has_room,
                    Way::Alone => self.complete && !undone,
                },
                Move::Ask { .. } | Move::Deny { .. } | Move::Reject { .. } => self.complete,
            };
            return may_begin.then_some((position, next));
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
            | CallState::Asking { .. }
            | CallState::Approved { .. }
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
            |call| matches!(call.state, CallState::Consulting { consult, .. } if consult == wanted),
        )
    }

    pub(crate) fn by_ask(&mut self, wanted: u64) -> Option<&mut Call> {
        self.calls
            .iter_mut()
            .find(|call| matches!(call.state, CallState::Asking { ask, .. } if ask == wanted))
    }
}

/// Judges a call for the first time.
fn judge(
    gate: &dyn Gate,
    tool_use: &ToolUse,
    cut: bool,
    advised: Option<(&AdvisedVerdict, &Judgement)>,
) -> Move {
    if let ToolInput::Invalid { reason, .. } = &tool_use.input {
        let message = if reason == SAME_ID {
            format!("nothing was run: {reason}")
        } else if cut {
            "your output was cut by the output limit before the input of this call was complete, \
             so nothing was run. Write less at once: split the work into smaller calls."
                .into()
        } else {
            format!("the input of this call is not a JSON object, so nothing was run: {reason}")
        };
        return Move::Reject { message };
    }
    let judgement = Arc::new(gate.judge(tool_use));
    // Consent counts for what the call touched when it was given.
    let advised = advised.and_then(|(verdict, seen)| {
        let is_stale = *verdict == AdvisedVerdict::Allow && !judgement.reaches_the_same(seen);
        (!is_stale).then(|| verdict.clone())
    });
    match advise(judgement.verdict.clone(), advised) {
        Verdict::Allow => Move::Run {
            way: Way::of(judgement.effect()),
            judgement,
        },
        Verdict::Ask { reason, cause } => Move::Ask {
            reason,
            cause,
            judgement,
        },
        Verdict::Deny { reason } => Move::Deny { reason },
        Verdict::Invalid { message } => Move::Reject { message },
    }
}

/// Judges an approved call again: the approval counts for the judgement that was asked about.
/// What is read-only does not run early.
fn judge_again(gate: &dyn Gate, tool_use: &ToolUse, approved: &Judgement) -> Move {
    let judgement = gate.judge(tool_use);
    match judgement.why_not_approved(approved) {
        Some(Verdict::Invalid { message }) => Move::Reject { message },
        Some(Verdict::Deny { reason } | Verdict::Ask { reason, .. }) => Move::Deny { reason },
        Some(Verdict::Allow) | None => Move::Run {
            way: match Way::of(judgement.effect()) {
                Way::Beside => Way::Beside,
                Way::Early | Way::Alone => Way::Alone,
            },
            judgement: Arc::new(judgement),
        },
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

#[cfg(test)]
mod tests {
    use tooloop_policy::Access;

    use super::*;

    #[derive(Debug)]
    struct Fixed(Verdict);

    impl Gate for Fixed {
        fn judge(&self, _: &ToolUse) -> Judgement {
            Judgement {
                verdict: self.0.clone(),
                access: Access::read_only(),
                grants: Vec::new(),
                rules: Vec::new(),
            }
        }
    }

    fn call(name: &str, state: CallState) -> Call {
        let mut call = Call::new(ToolUse {
            id: ToolUseId(format!("{name}_1")),
            name: name.into(),
            input: ToolInput::Valid(JsonObject::default()),
            vendor: None,
        });
        call.state = state;
        call
    }

    fn batch(complete: bool, calls: Vec<Call>) -> Batch {
        Batch {
            calls,
            complete,
            ..Batch::default()
        }
    }

    #[test]
    fn only_complete_messages_get_refusals_and_questions() {
        let reason = String::from("no");
        for verdict in [
            Verdict::Deny {
                reason: reason.clone(),
            },
            Verdict::Ask {
                reason: reason.clone(),
                cause: AskCause::Rule,
            },
            Verdict::Invalid { message: reason },
        ] {
            let gate = Fixed(verdict);
            let calls = vec![call("look", CallState::New)];
            assert_eq!(batch(false, calls.clone()).next_move(&gate, 8), None);
            assert!(batch(true, calls).next_move(&gate, 8).is_some());
        }
        let calls = vec![call("look", CallState::New)];
        let next = batch(false, calls).next_move(&Fixed(Verdict::Allow), 8);
        assert!(matches!(next, Some((0, Move::Run { .. }))), "{next:?}");
    }

    #[derive(Debug)]
    struct Delegating;

    impl Gate for Delegating {
        fn judge(&self, _: &ToolUse) -> Judgement {
            Judgement {
                verdict: Verdict::Allow,
                access: Access::delegated(),
                grants: Vec::new(),
                rules: Vec::new(),
            }
        }
    }

    #[test]
    fn delegated_calls_need_a_complete_message_and_room() {
        let running = CallState::Running {
            run: 1,
            way: Way::Beside,
        };
        for (complete, max_parallel, begins) in [
            (true, 2, true),
            (true, 1, false),
            (false, 2, false),
            (false, 1, false),
        ] {
            let calls = vec![call("task", running.clone()), call("task", CallState::New)];
            let next = batch(complete, calls).next_move(&Delegating, max_parallel);
            assert_eq!(next.is_some(), begins, "{complete}, {max_parallel}");
        }
    }

    #[test]
    fn one_successful_call_of_a_tool_is_enough() {
        let done = |is_error| CallState::Done {
            outcome: String::new(),
            is_error,
        };
        for (errors, expected) in [
            (&[][..], None),
            (&[false], Some(true)),
            (&[true], Some(false)),
            (&[true, false], Some(true)),
            (&[false, true], Some(true)),
            (&[true, true], Some(false)),
        ] {
            let mut calls = vec![call("todo", CallState::New), call("look", done(false))];
            calls.extend(errors.iter().map(|error| call("todo", done(*error))));
            assert_eq!(batch(true, calls).called("todo"), expected, "{errors:?}");
        }
    }
}
