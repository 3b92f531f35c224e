//! The machine's ways out: when the model is done, and when somebody or something ends the turn.

use tooloop_model::{Content, Message, ModelError, ModelErrorKind, StopReason, ToolResult};

use super::{Kernel, MAX_CONTINUATIONS, Phase};
use crate::batch::{Call, CallState};
use crate::repeats::Repeats;
use crate::{
    Continue, During, Effect, Entry, Interrupter, OutputWay, StopJudgement, Sync, TurnEnd,
};

/// How often a reply that its provider paused is continued.
pub(super) const MAX_PAUSES: u32 = 10;

/// How often somebody may object to the end of a turn.
const MAX_OBJECTIONS: u32 = 8;

/// How a turn ends whose reply a content filter stopped.
pub(super) fn filtered() -> TurnEnd {
    let words = "a content filter of the provider stopped the reply";
    TurnEnd::ModelError {
        error: ModelError::new(ModelErrorKind::ContentRefused, words),
        attempts: 1,
    }
}

impl Kernel {
    /// A finished message without a tool use.
    pub(super) fn said_all(
        &mut self,
        stop_reason: Option<StopReason>,
        text: &str,
        out: &mut Vec<Effect>,
    ) {
        match stop_reason {
            Some(StopReason::MaxTokens) => {
                if self.turn.continuations >= MAX_CONTINUATIONS {
                    return self.end(TurnEnd::OutputLimit, out);
                }
                self.turn.continuations = self.turn.continuations.saturating_add(1);
                self.turn.said.push_str(text);
                let words = "Your reply was cut by the output limit. Go on exactly where it \
                             stopped, without repeating or summing up what you have said.";
                self.go_on_with(words.into(), Continue::ContinueOutput, out);
            }
            Some(StopReason::Pause) if self.turn.pauses < MAX_PAUSES => {
                self.turn.pauses = self.turn.pauses.saturating_add(1);
                self.turn.said.push_str(text);
                // Providers want the last word to be the user's.
                self.go_on_with("Go on.".into(), Continue::PauseTurn, out);
            }
            Some(StopReason::Refusal) => self.end(TurnEnd::Refused, out),
            Some(StopReason::ContentFilter) => self.end(filtered(), out),
            Some(StopReason::ContextWindow)
                if self.room().is_some()
                    && self.settings.compaction
                    && self.turn.continuations < MAX_CONTINUATIONS =>
            {
                self.turn.continuations = self.turn.continuations.saturating_add(1);
                self.turn.said.push_str(text);
                let words = "Your reply was cut, since the conversation filled the window. Go on \
                             exactly where it stopped, without repeating or summing up what you \
                             have said.";
                self.go_on_with(words.into(), Continue::ContinueOutput, out);
            }
            Some(StopReason::ContextWindow) => {
                let message = "the reply was cut: the conversation fills the model's window".into();
                self.end(TurnEnd::ContextLimit { message }, out);
            }
            Some(
                StopReason::EndTurn
                | StopReason::ToolUse
                | StopReason::StopSequence
                | StopReason::Pause
                | StopReason::Other(_),
            )
            | None => {
                let mut said = std::mem::take(&mut self.turn.said);
                said.push_str(text);
                self.drop_asides();
                if self.queue.is_empty() {
                    self.judge_answer(&said, out);
                } else {
                    self.take_up_queued(out);
                }
            }
        }
    }

    /// The model is done, and something is queued.
    fn take_up_queued(&mut self, out: &mut Vec<Effect>) {
        if let Some(limit) = self.spent_turns() {
            return self.end(TurnEnd::MaxTurns { limit }, out);
        }
        // What the user asks for now may well be the same again.
        self.turn.repeats = Repeats::default();
        let reason = self.say_queued(out).unwrap_or_else(|| {
            // Each follow-up is a task of its own.
            if let Some(queued) = self.queue.pop_front() {
                self.say(queued.content, out);
            }
            Continue::FollowUp
        });
        self.go_on(reason, out);
    }

    /// The model is done: does its answer have the form that it must have?
    fn judge_answer(&mut self, text: &str, out: &mut Vec<Effect>) {
        let Some(form) = &self.settings.output else {
            return self.done(out);
        };
        let Err(problem) = form.check.check(text) else {
            return self.done(out);
        };
        let words = match &form.way {
            OutputWay::Native(_) => format!(
                "Your answer does not have the form that it must have: {problem}. Answer with JSON \
                 of that form alone."
            ),
            OutputWay::Tool(name) => format!(
                "You have not given your answer in the form that it must have. When you are done, \
                 call the tool {name} with it."
            ),
        };
        if self.misfit(&problem, out) {
            self.go_on_with(words, Continue::SchemaRetry, out);
        }
    }

    /// Counts an answer that does not have its form. Returns whether there may be another one.
    pub(super) fn misfit(&mut self, problem: &str, out: &mut Vec<Effect>) -> bool {
        self.turn.misfits = self.turn.misfits.saturating_add(1);
        let tries = self.settings.output.as_ref().map_or(1, |form| form.tries);
        if self.turn.misfits < tries {
            return true;
        }
        let end = TurnEnd::StructuredOutputFailed {
            tries: self.turn.misfits,
            problem: problem.into(),
        };
        self.end(end, out);
        false
    }

    /// The model is done, and nothing in here objects.
    pub(super) fn done(&mut self, out: &mut Vec<Effect>) {
        if !self.queue.is_empty() {
            return self.take_up_queued(out);
        }
        if !self.settings.stop_hook {
            return self.end(TurnEnd::Completed, out);
        }
        self.newest.stop = self.newest.stop.saturating_add(1);
        let stop = self.newest.stop;
        let active = self.turn.objections > 0;
        out.push(Effect::AskStop { stop, active });
        self.phase = Phase::Stopping { stop };
    }

    pub(super) fn stop_judged(
        &mut self,
        stop: u64,
        judgement: StopJudgement,
        out: &mut Vec<Effect>,
    ) {
        if !matches!(self.phase, Phase::Stopping { stop: current } if current == stop) {
            return;
        }
        self.drop_asides();
        match judgement {
            StopJudgement::End { reason } => self.end(TurnEnd::StopHookPrevented { reason }, out),
            StopJudgement::GoOn { reason }
                if self.turn.objections < MAX_OBJECTIONS && !reason.trim().is_empty() =>
            {
                self.turn.objections = self.turn.objections.saturating_add(1);
                self.go_on_with(reason, Continue::StopHookBlocked, out);
            }
            // What was said while it was judged.
            StopJudgement::Done | StopJudgement::GoOn { .. } if !self.queue.is_empty() => {
                self.take_up_queued(out);
            }
            StopJudgement::Done | StopJudgement::GoOn { .. } => {
                self.end(TurnEnd::Completed, out);
            }
        }
    }

    /// Says something that no user said, and calls the model again.
    fn go_on_with(&mut self, words: String, reason: Continue, out: &mut Vec<Effect>) {
        if let Some(limit) = self.spent_turns() {
            return self.end(TurnEnd::MaxTurns { limit }, out);
        }
        self.say(vec![Content::Text(words)], out);
        self.go_on(reason, out);
    }

    // ---- from outside

    pub(super) fn interrupt(&mut self, by: Interrupter, out: &mut Vec<Effect>) {
        // What waited for a summary has begun a turn by then: it is interrupted too.
        let _ = self.break_off_manual(out);
        let (why, words) = by.words();
        if let Some(during) = self.break_off(why, words, out) {
            self.interrupted = true;
            self.end(TurnEnd::Interrupted { during, by }, out);
        }
    }

    /// What runs is not broken off: a hook that has seen enough of one call knows nothing of its
    /// neighbours, and nobody knows what is left of a call that was cut short.
    pub(super) fn hook_stopped(&mut self, reason: String, out: &mut Vec<Effect>) {
        let why = "a hook ended the turn";
        if let Phase::Answering(batch) = &mut self.phase {
            self.turn.stopped.get_or_insert(reason);
            let calls = std::mem::take(&mut batch.calls);
            let (runs, closed): (Vec<_>, Vec<_>) = calls.into_iter().partition(|call| {
                matches!(
                    call.state,
                    CallState::Running { .. } | CallState::Done { .. }
                )
            });
            batch.calls = runs;
            self.close_calls(closed, why, "", out);
            if matches!(&self.phase, Phase::Answering(batch) if batch.is_done()) {
                self.all_answered(out);
            }
        } else if !self.break_off_manual(out) && self.break_off(why, "by a hook ", out).is_some() {
            self.end_stopped(reason, out);
        }
    }

    pub(super) fn end_stopped(&mut self, reason: String, out: &mut Vec<Effect>) {
        self.interrupted = true;
        self.end(TurnEnd::HookStopped { reason }, out);
    }

    pub(super) fn deadline_passed(&mut self, out: &mut Vec<Effect>) {
        self.turn.deadline = None;
        let limit = self.settings.limits.time.unwrap_or_default();
        let words = "the time limit was reached";
        if self.break_off(words, "by the time limit ", out).is_some() {
            self.interrupted = true;
            let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
            self.end(TurnEnd::Deadline { limit_ms }, out);
        }
    }

    /// Breaks off whatever is under way and answers what is open. Returns what was under way, if
    /// something was.
    pub(super) fn break_off(
        &mut self,
        why: &str,
        by: &str,
        out: &mut Vec<Effect>,
    ) -> Option<During> {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle => return None,
            Phase::Preparing => {
                let compaction = self.compaction_number().unwrap_or_default();
                out.push(Effect::CancelCompaction { compaction });
            }
            Phase::Waiting { timer } => out.push(Effect::CancelTimer { timer }),
            Phase::Stopping { stop } => out.push(Effect::CancelStop { stop }),
            Phase::Calling(calling) => {
                let calling = *calling;
                out.push(Effect::CancelModel { call: calling.call });
                out.extend(calling.early.runs().map(|run| Effect::CancelTool { run }));
                let model = calling.reservation.model.clone();
                if calling.begins {
                    self.settle_broken(calling.reservation, &calling.builder, false, out);
                }
                let kept = calling.builder.interrupted();
                if kept.has_substance() && !calling.is_summary {
                    let usage = kept.usage;
                    let entry = Entry::message(Message::Assistant(kept));
                    self.record(entry, Sync::Soon, out);
                    self.note_count(usage, &model);
                } else {
                    self.discard(kept.usage, out);
                }
            }
            Phase::Answering(batch) => {
                self.close_calls(batch.calls, why, by, out);
                return Some(During::Tools);
            }
        }
        Some(During::Model)
    }

    /// Answers calls that will not come to their end.
    fn close_calls(&mut self, calls: Vec<Call>, why: &str, by: &str, out: &mut Vec<Effect>) {
        for call in calls {
            let words = match call.state {
                CallState::Done { .. } => continue,
                CallState::New | CallState::Approved { .. } | CallState::Advised { .. } => {
                    format!("not run: {why} before this call began")
                }
                CallState::Consulting { consult, .. } => {
                    out.push(Effect::CancelConsult { consult });
                    format!("not run: {why} before this call began")
                }
                CallState::Asking { ask, .. } => {
                    out.push(Effect::CancelAsk { ask });
                    format!("not run: {why} before this call was allowed")
                }
                CallState::Running { run, .. } => {
                    out.push(Effect::CancelTool { run });
                    format!("interrupted {by}while it ran: its outcome is unknown")
                }
            };
            let result = ToolResult::error(call.tool_use.id, words);
            self.record(Entry::CallFinished(result), Sync::Soon, out);
        }
    }
}
