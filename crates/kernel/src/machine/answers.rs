//! The machine's side that faces the tools: runs, questions, answers.

use std::sync::Arc;

use tooloop_model::{Content, ToolResult, ToolUseId};

use super::{Kernel, MAX_CONTINUATIONS, Phase};
use crate::batch::{CallState, Move, Way};
use crate::{
    Advice, AdvisedVerdict, Answer, Continue, Effect, Entry, Interrupter, OutputWay, Permission,
    Sync, TurnEnd, Verdict,
};

impl Kernel {
    /// Tells those who have a say of all calls that they have one in.
    pub(super) fn consult(&mut self, out: &mut Vec<Effect>) {
        let Phase::Answering(batch) = &mut self.phase else {
            return;
        };
        let before = &self.settings.hooked.before;
        for (call, seen) in batch.unjudged(&*self.gate, before) {
            self.newest.consult = self.newest.consult.saturating_add(1);
            let consult = self.newest.consult;
            let seen = Arc::new(seen);
            call.state = CallState::Consulting { consult, seen };
            let tool_use = call.tool_use.clone();
            out.push(Effect::Consult { consult, tool_use });
        }
    }

    pub(super) fn consulted(&mut self, consult: u64, advice: Advice, out: &mut Vec<Effect>) {
        let Phase::Answering(batch) = &mut self.phase else {
            return;
        };
        let Some(call) = batch.by_consult(consult) else {
            return;
        };
        let Advice {
            verdict,
            input,
            context,
            stop,
        } = advice;
        let CallState::Consulting { seen, .. } = &call.state else {
            return;
        };
        let mut seen = Arc::clone(seen);
        call.context = context;
        let denied = matches!(verdict, Some(AdvisedVerdict::Deny { .. }));
        // A stop closes the calls as the model wrote them.
        let input = input.filter(|_| !denied && stop.is_none());
        let rewritten = input.map(|input| call.rewrite(input));
        if rewritten.is_some() {
            seen = Arc::new(self.gate.judge(&call.tool_use));
        }
        call.state = CallState::Advised { verdict, seen };
        if let Some(reason) = stop {
            return self.hook_stopped(reason, out);
        }
        if let Some(entry) = rewritten {
            self.record(entry, Sync::Soon, out);
        }
        self.advance(out);
    }

    /// Makes every move that can be made, then goes on if all calls are answered.
    pub(super) fn advance(&mut self, out: &mut Vec<Effect>) {
        let most = self.settings.max_parallel_tools;
        let limit = self.settings.limits.tool_calls.unwrap_or(u32::MAX);
        loop {
            let Phase::Answering(batch) = &mut self.phase else {
                return;
            };
            let Some((position, next)) = batch.next_move(&*self.gate, most) else {
                break;
            };
            let Some(call) = batch.calls.get_mut(position) else {
                break;
            };
            let id = call.tool_use.id.clone();
            match next {
                Move::Run { .. } if self.turn.calls >= limit => {
                    self.turn.refused_calls = true;
                    // What was to be told with its result is about a call that ran.
                    call.context.clear();
                    let words = format!("not run: the limit of {limit} tool calls is reached");
                    let outcome = words.clone();
                    self.finish(ToolResult::error(id, words), outcome, out);
                }
                Move::Run { way, judgement } => {
                    self.turn.calls = self.turn.calls.saturating_add(1);
                    self.newest.run = self.newest.run.saturating_add(1);
                    let run = self.newest.run;
                    call.state = CallState::Running { run, way };
                    let tool_use = call.tool_use.clone();
                    if way != Way::Early {
                        let entry = Entry::CallStarted { tool_use_id: id };
                        self.record(entry, Sync::Now, out);
                    }
                    out.push(Effect::RunTool {
                        run,
                        tool_use,
                        judgement,
                    });
                }
                Move::Ask {
                    reason,
                    cause,
                    judgement,
                } => {
                    self.newest.ask = self.newest.ask.saturating_add(1);
                    let ask = self.newest.ask;
                    call.state = CallState::Asking {
                        ask,
                        judgement: Arc::clone(&judgement),
                    };
                    let tool_use = call.tool_use.clone();
                    out.push(Effect::Ask {
                        ask,
                        tool_use,
                        reason,
                        cause,
                        judgement,
                    });
                }
                Move::Deny { reason } => self.deny(&id, reason, false, out),
                Move::Reject { message } => {
                    let outcome = message.clone();
                    self.finish(ToolResult::error(id, message), outcome, out);
                }
            }
        }
        let done = matches!(&self.phase, Phase::Answering(batch) if batch.is_done());
        if done {
            self.all_answered(out);
        }
    }

    pub(super) fn deny(
        &mut self,
        id: &ToolUseId,
        reason: String,
        stops: bool,
        out: &mut Vec<Effect>,
    ) {
        let words = format!("permission denied, not run: {reason}");
        let entry = Entry::Permission {
            tool_use_id: id.clone(),
            permission: Permission::Denied { reason, stops },
        };
        self.record(entry, Sync::Soon, out);
        let outcome = words.clone();
        self.finish(ToolResult::error(id.clone(), words), outcome, out);
    }

    pub(super) fn finish(
        &mut self,
        mut result: ToolResult,
        outcome: String,
        out: &mut Vec<Effect>,
    ) {
        if let Phase::Answering(batch) = &mut self.phase {
            let context = batch.done(&result.tool_use_id, outcome, result.is_error);
            let context = context.into_iter().map(Content::Text);
            result
                .content
                .extend(context.filter(|part| !part.is_blank()));
        }
        self.record(Entry::CallFinished(result), Sync::Soon, out);
    }

    pub(super) fn tool_finished(
        &mut self,
        run: u64,
        mut content: Vec<Content>,
        is_error: bool,
        fingerprint: Option<String>,
        out: &mut Vec<Effect>,
    ) {
        content.retain(|part| !part.is_blank());
        if content.is_empty() {
            content.push(Content::Text("(no output)".into()));
        }
        let outcome = fingerprint.unwrap_or_else(|| format!("{is_error} {content:?}"));
        match &mut self.phase {
            Phase::Calling(calling) => {
                if let Some(call) = calling.early.by_run(run) {
                    let result = ToolResult {
                        tool_use_id: call.tool_use.id.clone(),
                        content,
                        is_error,
                    };
                    call.state = CallState::Done { outcome, is_error };
                    calling.early.answers.push(result);
                    // A place is free for the next one.
                    self.run_early(out);
                }
            }
            Phase::Answering(batch) => {
                if let Some(call) = batch.by_run(run) {
                    let result = ToolResult {
                        tool_use_id: call.tool_use.id.clone(),
                        content,
                        is_error,
                    };
                    self.finish(result, outcome, out);
                    self.advance(out);
                }
            }
            Phase::Idle | Phase::Preparing | Phase::Waiting { .. } | Phase::Stopping { .. } => {}
        }
    }

    pub(super) fn answered(&mut self, ask: u64, answer: Answer, out: &mut Vec<Effect>) {
        let Phase::Answering(batch) = &mut self.phase else {
            return;
        };
        let Some(call) = batch.by_ask(ask) else {
            return;
        };
        let id = call.tool_use.id.clone();
        match answer {
            Answer::Allow { rule, input } => {
                let CallState::Asking { judgement, .. } = &call.state else {
                    return;
                };
                let mut approved = Arc::clone(judgement);
                let entry = input.map(|input| call.rewrite(input));
                let judgement = Arc::new(self.gate.judge(&call.tool_use));
                if entry.is_some() {
                    // The yes is for the call with its present input.
                    approved = Arc::clone(&judgement);
                }
                let refused = judgement.why_not_approved(&approved);
                call.state = CallState::Approved {
                    judgement: approved,
                };
                if let Some(entry) = entry {
                    self.record(entry, Sync::Soon, out);
                }
                match refused {
                    Some(Verdict::Deny { reason } | Verdict::Ask { reason, .. }) => {
                        self.deny(&id, reason, false, out);
                    }
                    Some(Verdict::Invalid { message }) => {
                        let outcome = message.clone();
                        self.finish(ToolResult::error(id, message), outcome, out);
                    }
                    Some(Verdict::Allow) | None => {
                        let entry = Entry::Permission {
                            tool_use_id: id,
                            permission: Permission::Allowed { rule },
                        };
                        self.record(entry, Sync::Soon, out);
                    }
                }
            }
            Answer::Deny { reason, stops } => {
                self.deny(&id, reason, stops, out);
                if stops {
                    // Before any neighbour begins.
                    return self.interrupt(Interrupter::User, out);
                }
            }
        }
        self.advance(out);
    }

    pub(super) fn all_answered(&mut self, out: &mut Vec<Effect>) {
        let Phase::Answering(batch) = std::mem::replace(&mut self.phase, Phase::Idle) else {
            return;
        };
        if let Some(reason) = self.turn.stopped.take() {
            return self.end_stopped(reason, out);
        }
        let answered = match self.settings.output.as_ref().map(|form| &form.way) {
            Some(OutputWay::Tool(name)) => batch.called(name),
            Some(OutputWay::Native(_)) | None => None,
        };
        let last_word = self.settings.last_word.as_ref();
        let said = last_word.and_then(|tool| batch.called(tool));
        if answered == Some(true) || said == Some(true) {
            return self.done(out);
        }
        if let (true, Some(limit)) = (self.turn.refused_calls, self.settings.limits.tool_calls) {
            return self.end(TurnEnd::MaxToolCalls { limit }, out);
        }
        let misfit = answered == Some(false);
        if misfit && !self.misfit("the last one was refused by the tool that takes it", out) {
            return;
        }
        if let Some(limit) = self.spent_turns() {
            return self.end(TurnEnd::MaxTurns { limit }, out);
        }
        let times = self.turn.repeats.note(batch.outcomes());
        if times >= self.settings.stop_after_repeats {
            return self.end(TurnEnd::LoopDetected { times }, out);
        }
        let mut reason = if misfit {
            Continue::SchemaRetry
        } else {
            Continue::NextStep
        };
        if batch.was_cut() {
            // One less than for text: the first cut call counts.
            self.turn.continuations = self.turn.continuations.saturating_add(1);
            if self.turn.continuations >= MAX_CONTINUATIONS {
                return self.end(TurnEnd::OutputLimit, out);
            }
            reason = Continue::ContinueOutput;
        }
        if times == self.settings.remind_after_repeats {
            let words = format!(
                "Reminder: you have made the same call with the same outcome {times} times in a \
                 row. Doing it again will not change that. Try another way, or say what keeps you \
                 from going on."
            );
            self.say(vec![Content::Text(words)], out);
            reason = Continue::Reminder;
        }
        let reason = self.say_queued(out).unwrap_or(reason);
        self.go_on(reason, out);
    }
}
