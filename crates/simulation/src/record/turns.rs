//! Whether a turn may go on, and end, as its record says.

use std::collections::BTreeSet;
use std::time::Duration;

use tooloop_kernel::{Budget, Continue, RetryPolicy, TurnEnd};
use tooloop_model::{ModelError, ModelErrorKind, StopReason, Usage};

use crate::law::Law;
use crate::script::{Form, ToolKind};
use crate::tools;
use crate::world::{LATE, World};

impl World {
    pub(super) fn retries(
        &mut self,
        attempt: u32,
        error: &ModelError,
        wait: Duration,
        voided: bool,
    ) {
        let policy = RetryPolicy::default();
        self.record.failures += 1;
        let failures = self.record.failures;
        let most = self.script.knobs.attempts;
        self.require(Law::Bounds, attempt == failures && attempt < most, || {
            format!("try {attempt} of {most} is recorded, {failures} have failed")
        });
        let now = self.now();
        if failures == 1 {
            self.record.first_failure = Some(now);
            self.record.timed_failure = None;
        }
        // Nobody tells the machine the time when it finds by itself that a reply makes no sense.
        let found = [ModelErrorKind::Decode, ModelErrorKind::EmptyReply];
        if !found.contains(&error.kind) {
            self.record.timed_failure.get_or_insert(now);
        }
        let Some((kind, asked)) = self.life.newest_fault else {
            return self.break_law(Law::Truth, "a failure is recorded that was none");
        };
        self.require(
            Law::Truth,
            kind == error.kind && kind.is_retryable(),
            || {
                format!(
                    "the call failed with {kind:?}, recorded is {:?}",
                    error.kind
                )
            },
        );
        let longest = match asked {
            Some(asked) => asked.min(policy.max_server_wait),
            None => policy.max_wait + policy.max_wait * policy.jitter_percent / 100,
        };
        let shortest = asked.unwrap_or_default();
        self.require(Law::Bounds, (shortest..=longest).contains(&wait), || {
            format!("the wait of {wait:?} is not within {shortest:?} and {longest:?}")
        });
        if let Some(first) = self.record.timed_failure.filter(|_| failures > 1) {
            let total = now.saturating_sub(first) + wait;
            self.require(Law::Bounds, total <= policy.max_total + LATE, || {
                format!("it is tried for {total:?}")
            });
        }
        let shown = self.life.served.as_ref().is_some_and(|served| served.shown);
        self.require(Law::Truth, voided == shown, || {
            format!("something was shown: {shown}, it is said to be void: {voided}")
        });
        self.record.retry_at = Some(now + wait);
    }

    pub(super) fn discards(&mut self, usage: Usage) {
        let told = self.life.served.as_ref().map(|served| served.usage);
        self.require(Law::Truth, told == Some(usage), || {
            format!("the call used {told:?}, recorded is {usage:?}")
        });
    }

    pub(super) fn continues(&mut self, reason: &Continue) {
        let open = self.folded.open_calls().len();
        let in_turn = self.record.in_turn;
        self.require(Law::Pairing, open == 0 && in_turn, || {
            format!("it goes on with {open} open calls, in a turn: {in_turn}")
        });
        self.record.going_on = true;
        match reason {
            Continue::Retry => {
                self.steps += 1;
                self.see("continue: retry");
                // Where room was made first, the try was due before that.
                if self.record.retry_at.is_some() || !std::mem::take(&mut self.record.owes_retry) {
                    self.is_due();
                }
                self.record.again = true;
                self.record.is_retry = true;
            }
            Continue::EscalateOutput => {
                self.see("continue: escalate");
                let once = !std::mem::replace(&mut self.record.escalated, true);
                let served = self.life.served.as_ref();
                let stop = match served.filter(|served| !served.is_summary) {
                    Some(served) => &served.stop,
                    // Room was made before.
                    None => &self.life.stop_before_summary,
                };
                let cut = *stop == Some(StopReason::MaxTokens);
                self.require(Law::Truth, once && cut, || {
                    format!("more output is asked for, once {once}, cut {cut}")
                });
                self.record.failures = 0;
                self.record.again = true;
            }
            Continue::ContinueOutput => {
                self.see("continue: output");
                self.record.continued += 1;
                let most = self.record.continued;
                self.require(Law::Bounds, most <= 3, || {
                    format!("a cut reply is continued {most} times")
                });
            }
            Continue::FallbackModel { model } => {
                self.see("continue: fallback");
                let overloads = std::mem::take(&mut self.life.overloads);
                let first = !std::mem::replace(&mut self.record.fell_back, true);
                let there = self.script.knobs.fallback && model == "fallback";
                self.require(Law::Truth, there && first && overloads >= 3, || {
                    format!("after {overloads} overloads {model} is asked")
                });
                self.record.failures = 0;
                self.record.escalated = false;
                self.record.again = true;
            }
            Continue::Compact => {
                self.see("continue: compact");
                self.sums_up();
            }
            Continue::PauseTurn => {
                self.see("continue: pause");
                self.record.pauses += 1;
                let pauses = self.record.pauses;
                self.require(Law::Bounds, pauses <= 10, || format!("{pauses} pauses"));
            }
            Continue::SchemaRetry => self.see("continue: form"),
            Continue::StopHookBlocked => {
                self.see("continue: hook");
                self.record.objected += 1;
                let times = self.record.objected;
                self.require(Law::Bounds, times <= 8, || format!("{times} objections"));
            }
            Continue::NextStep => self.see("continue: results"),
            Continue::Steered => self.see("continue: steered"),
            Continue::FollowUp => self.see("continue: follow-up"),
            Continue::Reminder => self.see("continue: reminder"),
        }
    }

    fn is_due(&mut self) {
        let now = self.now();
        let due = self.record.retry_at.take();
        let holds = due.is_some_and(|due| (due..=due + LATE).contains(&now));
        self.require(Law::Bounds, holds, || {
            format!("the next try was due at {due:?} and is made at {now:?}")
        });
    }

    /// A summary is asked for by nobody: what comes after it is on record then.
    fn sums_up(&mut self) {
        let small = self.script.knobs.window.is_some() || self.life.too_long;
        self.require(Law::Truth, small, || {
            "room is made where there is enough".into()
        });
        if self.record.retry_at.is_some() {
            self.is_due();
            self.record.owes_retry = true;
        }
        self.record.owes_retry |= self.life.too_long;
        if !self.life.too_long {
            self.record.sums_up = true;
            let failed = self.life.failed_summaries;
            self.require(Law::Bounds, failed < 3, || {
                format!("{failed} summaries in a row have failed, and there is another one")
            });
        }
    }

    /// The model is asked for the next step.
    pub(crate) fn steps_on(&mut self) {
        if std::mem::take(&mut self.record.sums_up) {
            self.see("summary failed");
            self.life.failed_summaries += 1;
            self.life.since_room = Some(0);
        }
        if self
            .life
            .served
            .as_ref()
            .is_some_and(|served| served.is_summary)
        {
            // What was tried in vain was another request.
            self.record.failures = 0;
        }
        let is_retry = std::mem::take(&mut self.record.is_retry);
        // A step that was first tried before room was made counts from its next try on.
        if let Some(steps) = &mut self.life.since_room
            && (!is_retry || *steps == 0)
        {
            *steps += 1;
        }
    }

    pub(super) fn ends(&mut self, end: &TurnEnd) {
        let open = self.folded.open_calls().len();
        self.require(Law::Pairing, open == 0, || {
            format!("the turn ends with {open} open calls")
        });
        let in_turn = std::mem::replace(&mut self.record.in_turn, false);
        let died = std::mem::take(&mut self.record.died_in_turn);
        if self.life.resuming && died && matches!(end, TurnEnd::Interrupted { .. }) {
            self.record.closes_the_past = true;
            return;
        }
        self.require(Law::Report, in_turn, || {
            format!("a turn ends that is not under way: {end:?}")
        });
        let why = self.justifies(end);
        self.require(Law::Truth, why, || {
            format!("the turn did not end so: {end:?}")
        });
        match self.life.more_interrupts.checked_sub(1) {
            Some(left) => self.life.more_interrupts = left,
            None => self.life.interrupt_wanted = false,
        }
        self.record.going_on = false;
    }

    fn justifies(&mut self, end: &TurnEnd) -> bool {
        let stop = self.record.newest_stop.clone();
        let failures = self.record.failures + 1;
        let fault = self.life.newest_fault;
        let last_fault = |kind: ModelErrorKind| fault.is_some_and(|(other, _)| other == kind);
        match end {
            TurnEnd::Completed => {
                self.see("end: completed");
                let answer = tools::name(ToolKind::Answer);
                let answered = self.record.calls.iter().any(|call| call.name == answer);
                answered && self.script.knobs.form == Some(Form::Tool)
                    || self.record.calls.is_empty()
                        && !matches!(
                            stop,
                            None | Some(
                                StopReason::MaxTokens
                                    | StopReason::Refusal
                                    | StopReason::ContextWindow
                            )
                        )
            }
            TurnEnd::MaxTurns { limit } => {
                self.see("end: max turns");
                self.script.knobs.max_turns == Some(*limit) && self.record.steps == *limit
            }
            TurnEnd::ContextLimit { message } => {
                self.see("end: context limit");
                let hopeless = [
                    "making room does not help",
                    "the conversation cannot be made",
                ];
                let hopeless = hopeless.iter().any(|words| message.starts_with(words));
                hopeless && self.script.knobs.window.is_some()
                    || self.life.too_long
                    || last_fault(ModelErrorKind::ContextTooLong)
                    || stop == Some(StopReason::ContextWindow)
            }
            TurnEnd::ModelError { error, attempts } => {
                self.see("end: model error");
                let policy = RetryPolicy::default();
                let now = self.now();
                let asked = fault.and_then(|(_, asked)| asked);
                let spent = self
                    .record
                    .first_failure
                    .filter(|_| failures > 1)
                    .map_or(Duration::ZERO, |first| now.saturating_sub(first));
                let longest = policy.max_wait + policy.max_wait * policy.jitter_percent / 100;
                let hopeless = !error.kind.is_retryable()
                    || *attempts >= self.script.knobs.attempts
                    || error.kind == ModelErrorKind::EmptyReply && *attempts >= 2
                    || asked.is_some_and(|asked| asked > policy.max_server_wait)
                    || spent + asked.unwrap_or(longest) > policy.max_total;
                last_fault(error.kind) && *attempts == failures && hopeless
            }
            TurnEnd::MaxToolCalls { limit } => {
                self.see("end: tool calls");
                self.script.knobs.limits.calls == Some(*limit) && self.record.refused
            }
            TurnEnd::Budget(budget) => {
                self.see("end: budget");
                let limits = self.script.knobs.limits;
                match budget {
                    Budget::Tokens { limit, spent, next } => {
                        limits.tokens == Some(*limit) && spent + next > *limit
                    }
                    Budget::Cost { limit, spent, next } => {
                        limits.cost == Some(limit.0) && spent.0 + next.0 > limit.0
                    }
                    Budget::UnknownPrice { .. } => {
                        limits.cost.is_some() && !self.script.knobs.priced
                    }
                }
            }
            TurnEnd::Deadline { limit_ms } => {
                self.see("end: deadline");
                self.script.knobs.limits.time == Some(*limit_ms) && self.time_is_up(Duration::ZERO)
            }
            TurnEnd::StructuredOutputFailed { tries, .. } => {
                self.see("end: no form");
                self.script.knobs.form.is_some() && *tries == 5
            }
            TurnEnd::HookStopped { .. } => {
                self.see("end: hook stopped");
                std::mem::take(&mut self.life.hook_stops)
            }
            TurnEnd::StopHookPrevented { .. } => {
                self.see("end: hook");
                std::mem::take(&mut self.life.hook_ended)
            }
            TurnEnd::OutputLimit => {
                self.see("end: output limit");
                stop == Some(StopReason::MaxTokens)
            }
            TurnEnd::Interrupted { .. } => {
                self.see("end: interrupted");
                self.wants_an_end()
            }
            TurnEnd::Refused => {
                self.see("end: refused");
                stop == Some(StopReason::Refusal)
            }
            TurnEnd::LoopDetected { times } => {
                self.see("end: loop");
                let times = usize::try_from(*times).unwrap_or(usize::MAX);
                // What a hook puts in the place of others may be the same.
                let rewrites = self.script.knobs.tool_hook;
                let newest = self.record.signatures.iter().rev().take(times);
                let newest: BTreeSet<_> = newest.collect();
                *end == TurnEnd::LoopDetected {
                    times: self.script.knobs.stop_after,
                } && (newest.len() == 1 || rewrites)
                    && self.record.signatures.len() >= times
            }
        }
    }
}
