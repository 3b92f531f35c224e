//! What comes in, as the next record tells it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tooloop_kernel::{
    Answer, Continue, Delivery, Entry, Input, Permission, StopJudgement, TurnEnd, Verdict,
};
use tooloop_model::{HistoryMessage, Request, StreamEvent, ToolResult, ToolUseId};
use tooloop_provider::{RecordedCall, RecordedReply, first_difference};

use super::Difference;
use super::foresight::{self, Queued};
use super::player::{Player, Step, Stop, kernel};
use super::recording::Recorded;
use super::reply::{self, Outcome};
use super::words::{self, Closed};
use crate::turn::TurnUnderWay;

impl Player<'_> {
    pub(super) fn go_on(&mut self) -> Step {
        if !std::mem::replace(&mut self.resumed, true) {
            return self.step(Input::Resumed);
        }
        let Some(expected) = self.expected() else {
            self.over = true;
            return Ok(());
        };
        let records = self.left();
        self.configure(|settings| {
            foresight::spending(settings, records);
            settings.planned = foresight::room(records);
        })?;
        if self.kernel.is_idle() {
            return self.begin(expected);
        }
        if let Some(stop) = self.stop {
            return self.stopping(stop, expected);
        }
        if self.model.is_some() {
            return self.model();
        }
        if let Some(timer) = self.timer {
            return match &expected.entry {
                Entry::Continue(Continue::Retry) | Entry::TurnEnd(TurnEnd::Budget(_)) => {
                    self.timer = None;
                    self.step(Input::TimerFired { timer })
                }
                _ => self.break_off("a failed model call is to be tried again"),
            };
        }
        self.tools(expected)
    }

    /// Ends the turn from outside, if the next record says so.
    fn break_off(&mut self, waits: &str) -> Step {
        let end = match self.expected().map(|record| &record.entry) {
            Some(Entry::TurnEnd(end)) => foresight::breaks_off(end, self.deadline),
            _ => None,
        };
        match end {
            Some(input) => self.step(input),
            None => Err(self.stuck(waits)),
        }
    }

    /// The model is done, and that is judged.
    fn stopping(&mut self, stop: u64, expected: &Recorded) -> Step {
        let judgement = match &expected.entry {
            Entry::Message(message) => {
                let said = words::said(message.message()).and_then(|said| words::only_text(said));
                said.map(|reason| StopJudgement::GoOn {
                    reason: reason.into(),
                })
            }
            Entry::TurnEnd(TurnEnd::StopHookPrevented { reason }) => Some(StopJudgement::End {
                reason: reason.clone(),
            }),
            Entry::TurnEnd(TurnEnd::Completed) => Some(StopJudgement::Done),
            _ => None,
        };
        let Some(judgement) = judgement else {
            return self.break_off("somebody judges whether the model is done");
        };
        self.stop = None;
        self.step(Input::StopJudged { stop, judgement })
    }

    /// A turn, or what else may happen between turns.
    fn begin(&mut self, expected: &Recorded) -> Step {
        match &expected.entry {
            Entry::Rewound { turn } => self.step(Input::Rewind {
                turn: *turn,
                past: None,
            }),
            _ if self.closes_a_death(expected) => Err(self.died("no turn is under way")),
            Entry::Discarded { .. } | Entry::Spent { .. } | Entry::Compacted { .. } => {
                self.step(Input::Compact { focus: None })
            }
            Entry::Message(message) if words::said(message.message()).is_some() => self.prompt(),
            _ => Err(self.stuck("no turn is under way")),
        }
    }

    /// The prompt, and before it what background work had to say meanwhile.
    fn prompt(&mut self) -> Step {
        let records = self.left();
        let said = records.iter().map_while(|record| match &record.entry {
            Entry::Message(message) => words::said(message.message()),
            _ => None,
        });
        let mut said: Vec<_> = said.cloned().collect();
        let Some(prompt) = said.pop() else {
            return Err(self.stuck("no turn is under way"));
        };
        self.compare.turn_begins();
        self.configure(|settings| {
            foresight::limits(settings, records);
            foresight::spending(settings, records);
        })?;
        self.overloads = 0;
        let remind_after = self.kernel.settings().remind_after_repeats;
        self.repeats = foresight::repeats(records, remind_after);
        self.answer_tool = foresight::answer_tool(records);
        self.batches = 0;
        self.answered = false;
        // Nobody waits for the report here: it is told as an event.
        let (reply, _) = oneshot::channel();
        let model = foresight::model(records).unwrap_or("recording").to_owned();
        self.turn = Some(TurnUnderWay::begin(reply, &self.transcript, None, model));
        for notice in said {
            self.step(Input::User {
                content: notice,
                delivery: Delivery::Notice,
            })?;
        }
        self.step(Input::User {
            content: prompt,
            delivery: Delivery::Steer,
        })
    }

    fn model(&mut self) -> Step {
        let records = self.left();
        let Some((call, request)) = self.model.take() else {
            return Ok(());
        };
        let outcome = if self.sums_up {
            reply::summary(records)
        } else {
            reply::outcome(records, self.overloads)
        };
        let Some((outcome, usage)) = outcome else {
            // Nothing but Discarded is left: the process died in between.
            let discarded = |record: &Recorded| {
                matches!(record.entry, Entry::Discarded { .. } | Entry::Spent { .. })
            };
            if records.iter().all(discarded) {
                self.over = true;
                self.cursor = self.records.len();
                return Ok(());
            }
            return Err(self.stuck("the model has been asked"));
        };
        let reply = if self.has_calls {
            self.recorded_reply(&request)?
        } else {
            outcome.reply(usage, foresight::books(records))
        };
        // What is there to be judged and said stands behind the reply.
        let behind = records.get(1..).unwrap_or_default();
        let message = match &outcome {
            Outcome::Reply(message) => Some(*message),
            Outcome::Partial(_)
            | Outcome::Escalate
            | Outcome::Retry { .. }
            | Outcome::Fail(_)
            | Outcome::FallBack
            | Outcome::Summary(_)
            | Outcome::BreakOff => None,
        };
        let escalated = (outcome == Outcome::Escalate).then_some(foresight::CAP + 1);
        let tool = self.answer_tool.clone();
        let falls_back = outcome == Outcome::FallBack;
        let retry = outcome.policy();
        self.configure(|settings| {
            settings.retry = retry;
            settings.escalated_output_tokens = escalated;
            if falls_back && settings.fallback.is_none() {
                settings.fallback = Some(foresight::fallback("(not on record)"));
            }
            if let Some(fallback) = &mut settings.fallback {
                fallback.escalated_output_tokens = escalated;
            }
            settings.stop_hook =
                message.is_some_and(|message| foresight::stop_hook(message, behind));
            settings.output =
                message.and_then(|message| foresight::output(message, behind, tool.as_ref()));
        })?;
        let ids = message.into_iter().flat_map(|message| message.tool_uses());
        let ids = ids.map(|tool_use| tool_use.id.clone());
        self.gate.know(foresight::judgements(ids, behind));
        let calls = || message.into_iter().flat_map(|message| message.tool_uses());
        self.advice = foresight::advice(calls(), behind);
        let told = calls().filter(|call| self.advice.contains_key(&call.id));
        let told = told.map(|call| call.name.clone()).collect();
        self.configure(|settings| settings.hooked.before = told)?;
        let queued = if message.is_some() {
            foresight::queued(behind)
        } else {
            Vec::new()
        };
        self.feed(call, reply, queued, behind)
    }

    /// Has the model say its part.
    fn feed(
        &mut self,
        call: u64,
        reply: RecordedReply,
        queued: Vec<Queued>,
        behind: &[Recorded],
    ) -> Step {
        for event in reply.events {
            let stops = matches!(event, StreamEvent::MessageStop { .. });
            if stops {
                for Queued { content, delivery } in &queued {
                    self.step(Input::User {
                        content: content.clone(),
                        delivery: *delivery,
                    })?;
                }
                self.early(behind)?;
            }
            self.step(Input::Stream { call, event })?;
            if stops {
                return Ok(());
            }
        }
        match reply.error {
            Some(error) => self.step(Input::StreamFailed {
                call,
                error,
                now: Duration::ZERO,
                chance: 0,
            }),
            None => {
                let end = foresight::turn_end(self.left());
                let input = end.and_then(|end| foresight::breaks_off(end, self.deadline));
                self.step(input.unwrap_or(Input::Interrupt))
            }
        }
    }

    /// The calls whose answers stand right behind their message may have been answered before it
    /// was complete, and are.
    fn early(&mut self, behind: &[Recorded]) -> Step {
        for record in behind {
            let Entry::CallFinished(result) = &record.entry else {
                break;
            };
            if words::closed(result).is_some() || !self.runs.contains_key(&result.tool_use_id) {
                break;
            }
            self.finish(result)?;
        }
        Ok(())
    }

    /// A tool answers.
    fn finish(&mut self, result: &ToolResult) -> Step {
        let Some(run) = self.runs.remove(&result.tool_use_id) else {
            return Err(self.stuck("the call that this answers does not run"));
        };
        let label = self.repeats.get(self.batches);
        self.step(Input::ToolFinished {
            run,
            content: result.content.clone(),
            is_error: result.is_error,
            fingerprint: label.map(ToString::to_string),
        })
    }

    /// Those who have a say in the call that a record is about say it now. Only the order in which
    /// records came of it is known.
    fn advise(&mut self, id: &ToolUseId) -> Option<Step> {
        let consult = self.consults.remove(id)?;
        let advice = self.advice.remove(id).unwrap_or_default();
        Some(self.step(Input::Consulted { consult, advice }))
    }

    /// What a hook has ended the turn with, if it has by the time that this is answered.
    fn stopped(&self) -> Option<Input> {
        let end = foresight::turn_end(self.left());
        let TurnEnd::HookStopped { reason } = end? else {
            return None;
        };
        let after = self.left().get(1).map(|record| &record.entry);
        let stops = match after? {
            Entry::TurnEnd(_) => true,
            Entry::CallFinished(result) => words::is_stopped_by_a_hook(result),
            _ => false,
        };
        let reason = reason.clone();
        stops.then_some(Input::HookStop { reason })
    }

    fn tools(&mut self, expected: &Recorded) -> Step {
        let waits = "calls have not been answered";
        let about = match &expected.entry {
            Entry::CallFinished(result) if words::closed(result).is_none() => {
                Some(&result.tool_use_id)
            }
            Entry::CallRewritten { tool_use_id, .. }
            | Entry::CallStarted { tool_use_id }
            | Entry::Permission { tool_use_id, .. } => Some(tool_use_id),
            _ => None,
        };
        if let Some(id) = about
            && let Some(step) = self.advise(id)
        {
            return step;
        }
        match &expected.entry {
            Entry::CallFinished(result) => match words::closed(result) {
                Some(Closed::Dead) => Err(self.died(waits)),
                Some(Closed::NotBegun | Closed::NotAllowed)
                    if words::is_stopped_by_a_hook(result) =>
                {
                    let end = foresight::turn_end(self.left());
                    let reason = match end {
                        Some(TurnEnd::HookStopped { reason }) => reason.clone(),
                        // Something else has ended the turn after it.
                        _ => "(not on record)".into(),
                    };
                    self.step(Input::HookStop { reason })
                }
                Some(Closed::NotBegun | Closed::NotAllowed | Closed::Running) => {
                    let end = foresight::turn_end(self.left());
                    let input = end.and_then(|end| foresight::breaks_off(end, self.deadline));
                    self.step(input.unwrap_or(Input::Interrupt))
                }
                None => {
                    if let Some(stop) = self.stopped() {
                        self.step(stop)?;
                    }
                    self.finish(result)
                }
            },
            // Whoever was asked has put another input in the place.
            Entry::CallRewritten { tool_use_id, input } => {
                let next = self.left().get(1).map(|record| &record.entry);
                let Some(ask) = self.asks.remove(tool_use_id) else {
                    return Err(self.stuck("nobody had a say in this call"));
                };
                let mut rule = None;
                match next {
                    Some(Entry::Permission {
                        permission: Permission::Allowed { rule: added },
                        ..
                    }) => rule.clone_from(added),
                    // With this input a rule denies it, whoever has said yes.
                    Some(Entry::Permission {
                        permission: Permission::Denied { reason, .. },
                        tool_use_id: id,
                    }) if id == tool_use_id => {
                        let reason = reason.clone();
                        self.gate.learn(id.clone(), Verdict::Deny { reason });
                    }
                    _ => {}
                }
                let input = Some(input.clone());
                let answer = Answer::Allow { rule, input };
                self.step(Input::Answered { ask, answer })
            }
            Entry::Permission {
                tool_use_id,
                permission,
            } => {
                let Some(ask) = self.asks.remove(tool_use_id) else {
                    return Err(self.stuck("nobody is asked about this call"));
                };
                let answer = match permission.clone() {
                    Permission::Allowed { rule } => Answer::Allow { rule, input: None },
                    Permission::Denied { reason, stops } => Answer::Deny { reason, stops },
                };
                self.step(Input::Answered { ask, answer })
            }
            Entry::TurnEnd(TurnEnd::Interrupted { .. }) => Err(self.died(waits)),
            _ => Err(self.stuck(waits)),
        }
    }

    /// The process has died, and another one goes on. The same death twice is none.
    pub(super) fn die(&mut self, difference: Difference) {
        if self.died.replace(self.cursor) == Some(self.cursor) {
            return self.differs(difference);
        }
        self.kernel = kernel(&self.gate, &self.transcript);
        self.model = None;
        self.timer = None;
        self.deadline = None;
        self.stop = None;
        self.runs.clear();
        self.asks.clear();
        self.consults.clear();
        self.compare.turn_begins();
        match self.step(Input::Resumed) {
            Ok(()) => self.turn = None,
            // It died as well, before it had recorded all of this.
            Err(Stop::Died(difference)) if self.died == Some(self.cursor) => {
                self.differs(difference);
            }
            Err(Stop::Died(_)) => {}
            Err(Stop::Differs(difference)) => self.differs(difference),
        }
    }

    /// Keeps the messages of a request as JSON. Those of the request before need not be made again.
    fn ask(&mut self, messages: &[Arc<HistoryMessage>]) {
        let pairs = self.asked.iter().zip(messages);
        let kept = pairs.take_while(|((one, _), other)| Arc::ptr_eq(one, other));
        let kept = kept.count();
        self.asked.truncate(kept);
        for message in messages.iter().skip(kept) {
            let json = serde_json::to_value(message.message()).unwrap_or_default();
            self.asked.push((Arc::clone(message), json));
        }
    }

    /// What the model answered to this request.
    fn recorded_reply(&mut self, request: &Request) -> Result<RecordedReply, Stop> {
        self.ask(&request.messages);
        let messages = || self.asked.iter().map(|(_, json)| json);
        let same = |call: &&RecordedCall| {
            let recorded = call.request.messages.iter().map(|message| &**message);
            recorded.eq(messages())
        };
        if let Some(at) = self.calls.iter().position(same) {
            return Ok(self.calls.remove(at).reply.clone());
        }
        let words = match self.calls.first() {
            None => "the model is asked once more than was recorded".into(),
            Some(call) => {
                let recorded = call
                    .request
                    .messages
                    .iter()
                    .map(|message| (**message).clone());
                let difference =
                    first_difference(&recorded.collect(), &messages().cloned().collect());
                let difference = difference.map_or_else(String::new, |found| found.to_string());
                format!(
                    "the messages of the request differ from those of call {} {difference}",
                    call.number
                )
            }
        };
        Err(Stop::Differs(Difference {
            record: self.expected().map(|record| record.seq),
            words,
        }))
    }
}
