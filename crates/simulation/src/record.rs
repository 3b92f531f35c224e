//! What is on record, and whether it may be.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tooloop_kernel::{Budget, Continue, Delivery, Entry, Permission, RetryPolicy, TurnEnd};
use tooloop_model::{
    AssistantMessage, Content, Message, ModelError, ModelErrorKind, StopReason, ToolUse, ToolUseId,
    Usage,
};

use crate::bills::Bill;
use crate::law::Law;
use crate::script::{Form, ToolKind};
use crate::tools;
use crate::world::{Ended, LATE, World};

/// What the entries say about the newest turn and the newest message.
#[derive(Default)]
pub(crate) struct Record {
    pub(crate) in_turn: bool,
    pub(crate) calls: Vec<ToolUse>,
    /// Where the entry ends that says that a call begins.
    pub(crate) started: BTreeMap<ToolUseId, usize>,
    pub(crate) answered: BTreeSet<ToolUseId>,
    pub(crate) allowed: BTreeSet<ToolUseId>,
    pub(crate) denied: BTreeSet<ToolUseId>,
    newest_stop: Option<StopReason>,
    /// Model calls, those not counted that are made again.
    pub(crate) steps: u32,
    /// The next one is made again.
    pub(crate) again: bool,
    pub(crate) escalated: bool,
    continued: u32,
    /// Requests that failed in a row, and when the first of them did.
    pub(crate) failures: u32,
    first_failure: Option<Duration>,
    pub(crate) retry_at: Option<Duration>,
    /// What was called in each reply of the turn.
    signatures: Vec<String>,
    usage_before: Usage,
    /// When the turn began.
    pub(crate) began: Duration,
    pub(crate) fell_back: bool,
    /// Calls that ran in the turn, and whether one was too many.
    pub(crate) ran: u32,
    pub(crate) refused: bool,
    objected: u32,
    pauses: u32,
    /// What each model has used in the turn.
    pub(crate) by_model: BTreeMap<String, Usage>,
    /// A process died in a turn.
    died_in_turn: bool,
    /// The newest end is that of a dead process's turn.
    closes_the_past: bool,
    /// Why the model may be called.
    pub(crate) going_on: bool,
}

impl Record {
    /// What matters of it to another process.
    pub(crate) fn of_the_dead(&mut self) {
        self.died_in_turn = std::mem::take(&mut self.in_turn);
        self.going_on = false;
        self.retry_at = None;
        self.failures = 0;
    }

    /// What each model has used, those apart that used nothing.
    fn used_by(&self) -> BTreeMap<String, Usage> {
        let used = self.by_model.iter().filter(|(_, usage)| !usage.is_empty());
        used.map(|(model, usage)| (model.clone(), *usage)).collect()
    }

    fn position(&self, id: &ToolUseId) -> Option<usize> {
        self.calls.iter().position(|call| call.id == *id)
    }

    pub(crate) fn call(&self, id: &ToolUseId) -> Option<&ToolUse> {
        self.calls.iter().find(|call| call.id == *id)
    }

    /// Whether all calls before this one are answered.
    pub(crate) fn is_in_order(&self, id: &ToolUseId) -> bool {
        let before = self.position(id).unwrap_or(0);
        let mut before = self.calls.iter().take(before);
        before.all(|call| self.answered.contains(&call.id))
    }

    /// Takes an entry in without a question: it was judged in another life.
    pub(crate) fn note(&mut self, entry: &Entry, end: usize) {
        match entry {
            Entry::Message(message) => match message.message() {
                Message::User(_) => {
                    self.say_nothing();
                    self.in_turn = true;
                }
                Message::Assistant(reply) => {
                    self.say_nothing();
                    self.newest_stop.clone_from(&reply.stop_reason);
                    self.calls = reply.tool_uses().cloned().collect();
                }
                Message::ToolResults(_) => {}
            },
            Entry::CallStarted { tool_use_id } => {
                self.started.insert(tool_use_id.clone(), end);
            }
            Entry::CallFinished(result) => {
                self.answered.insert(result.tool_use_id.clone());
            }
            Entry::Permission {
                tool_use_id,
                permission,
            } => {
                let set = match permission {
                    Permission::Allowed { .. } => &mut self.allowed,
                    Permission::Denied { .. } => &mut self.denied,
                };
                set.insert(tool_use_id.clone());
            }
            Entry::TurnEnd(_) => self.in_turn = false,
            Entry::Rewound { .. } => {
                self.say_nothing();
                self.in_turn = false;
            }
            Entry::Retry { .. }
            | Entry::Discarded { .. }
            | Entry::Spent { .. }
            | Entry::Continue(_) => {}
        }
    }

    fn say_nothing(&mut self) {
        self.calls.clear();
        self.started.clear();
        self.answered.clear();
        self.allowed.clear();
        self.denied.clear();
    }
}

impl World {
    /// An entry is recorded; its line will end there.
    pub(crate) fn entry(&mut self, entry: &Entry, end: usize) {
        self.tell(|| format!("  record {}", crate::words::entry(entry)));
        match entry {
            Entry::Message(message) => match message.message() {
                Message::User(content) => self.user_says(content),
                Message::Assistant(reply) => self.model_says(reply),
                Message::ToolResults(_) => {
                    self.break_law(Law::Pairing, "results are never said as such");
                }
            },
            Entry::CallStarted { tool_use_id } => self.starts(tool_use_id),
            Entry::CallFinished(result) => self.answers(result),
            Entry::Permission {
                tool_use_id,
                permission,
            } => self.permits(tool_use_id, permission),
            Entry::Retry {
                attempt,
                error,
                wait_ms,
                voided,
                ..
            } => self.retries(*attempt, error, Duration::from_millis(*wait_ms), *voided),
            Entry::Discarded { usage } => self.discards(*usage),
            Entry::Spent { tokens, cost } => self.life.spent.add(Bill {
                tokens: *tokens,
                cost: cost.unwrap_or_default().0,
            }),
            Entry::Rewound { .. } => {
                self.see("rewound");
                let in_turn = self.record.in_turn;
                self.require(Law::Report, !in_turn, || "it goes back in a turn".into());
            }
            Entry::Continue(reason) => self.continues(reason),
            Entry::TurnEnd(why) => self.ends(why),
        }
        self.record.note(entry, end);
        self.folded.apply(entry);
        let resumed = std::mem::take(&mut self.record.closes_the_past);
        if let Entry::TurnEnd(why) = entry
            && !resumed
        {
            let newest = self.folded.messages().last().map(|last| last.message());
            let ended = Ended {
                text: match newest {
                    Some(Message::Assistant(reply)) => reply.text(),
                    Some(Message::User(_) | Message::ToolResults(_)) | None => String::new(),
                },
                end: why.clone(),
                steps: self.record.steps,
                usage: self.folded.usage().since(self.record.usage_before),
                by_model: self.record.used_by(),
            };
            self.life.ends.push_back(ended);
        }
    }

    fn user_says(&mut self, content: &[Content]) {
        let open = self.folded.open_calls().len();
        self.require(Law::Pairing, open == 0, || {
            format!("the user speaks while {open} calls are open")
        });
        if !self.record.in_turn {
            self.life.turns += 1;
            self.record = Record {
                in_turn: true,
                going_on: true,
                began: self.now(),
                usage_before: self.folded.usage(),
                ..Record::default()
            };
        }
        let [Content::Text(text)] = content else {
            return self.break_law(Law::Truth, format!("nobody said {content:?}"));
        };
        let ours = [
            "Reminder: ",
            "Your reply was cut",
            "Go on.",
            "Your answer does not have the form",
            "You have not given your answer",
        ];
        if ours.iter().any(|ours| text.starts_with(ours)) {
            return;
        }
        let objections = &mut self.life.objections;
        if let Some(place) = objections.iter().position(|words| words == text) {
            objections.remove(place);
            return;
        }
        let said = &mut self.life.said;
        let Some(place) = said.iter().position(|words| words.text == *text) else {
            return self.break_law(
                Law::Truth,
                format!("nobody said {text:?}, or it is on record already"),
            );
        };
        let words = said.remove(place);
        // What was said when no turn was under way may never have been taken in.
        let now = Some(self.life.turns);
        let overtaken = said.iter().take(place).any(|other| {
            other.delivery == words.delivery && other.turn == now && words.turn == now
        });
        self.require(Law::Truth, !overtaken, || {
            format!("{text:?} has overtaken what was said before it")
        });
        if words.delivery == Delivery::Notice {
            self.see("notice");
        }
    }

    fn model_says(&mut self, reply: &AssistantMessage) {
        let in_turn = self.record.in_turn;
        self.require(Law::Report, in_turn, || {
            "the model speaks outside of a turn".into()
        });
        let Some(served) = &self.life.served else {
            return self.break_law(Law::Truth, "the model said nothing in this life");
        };
        let stopped = served.stop.is_some() && !served.failed;
        let same_calls = reply.tool_uses().count() == served.calls.len()
            && reply
                .tool_uses()
                .zip(&served.calls)
                .all(|(tool_use, served)| {
                    tool_use.name == crate::tools::name(served.tool)
                        && tool_use.input == tooloop_model::ToolInput::parse(&served.input)
                });
        let model = served.model.clone();
        let (text, usage, stop) = (served.text.clone(), served.usage, served.stop.clone());
        if reply.stop_reason.is_some() {
            self.require(Law::OnceOnly, stopped, || {
                "a message is recorded as complete and is not".into()
            });
            self.require(Law::Truth, same_calls, || {
                format!("the model did not ask for {:?}", reply.content)
            });
            self.require(Law::Truth, reply.stop_reason == stop, || {
                "the model stopped for another reason".into()
            });
            self.require(Law::Truth, reply.text() == text, || {
                format!("the model said {text:?}, on record is {:?}", reply.text())
            });
            self.record.failures = 0;
        } else {
            let wanted = self.wants_an_end() || self.time_is_up(Duration::ZERO);
            self.require(Law::Truth, wanted, || {
                "a message is recorded as interrupted and nobody interrupted".into()
            });
            let calls = reply.tool_uses().count();
            self.require(Law::OnceOnly, calls == 0, || {
                "a message that was interrupted has calls".into()
            });
        }
        if usage.input_tokens > 0 {
            self.others_counted |= model != "model";
        }
        self.require(Law::Truth, reply.usage == usage, || {
            format!("the reply used {usage:?}, on record is {:?}", reply.usage)
        });
        let signature: Vec<_> = reply
            .tool_uses()
            .map(|tool_use| format!("{} {}", tool_use.name, tool_use.input.json()))
            .collect();
        if !signature.is_empty() {
            self.record.signatures.push(signature.join("\n"));
        }
        self.record.going_on = false;
    }

    fn starts(&mut self, id: &ToolUseId) {
        let known = self.record.call(id).is_some();
        let again = self.record.started.contains_key(id) || self.record.answered.contains(id);
        self.require(Law::RecordFirst, known && !again, || {
            format!("{id} is recorded as begun, known {known}, again {again}")
        });
        let ordered = self.record.is_in_order(id);
        self.require(Law::OnceOnly, ordered, || {
            format!("{id} begins before those before it are answered")
        });
    }

    fn permits(&mut self, id: &ToolUseId, permission: &Permission) {
        let open = self.record.call(id).is_some() && !self.record.answered.contains(id);
        self.require(Law::Permission, open, || {
            format!("{id} is allowed or denied and is no open call")
        });
        let said = self.life.answers.get(id).copied();
        match permission {
            Permission::Allowed { .. } => {
                self.require(Law::Permission, said == Some(true), || {
                    format!("nobody allowed {id}")
                });
            }
            Permission::Denied { .. } => {
                self.see("denied");
                self.require(Law::Permission, said != Some(true), || {
                    format!("{id} was allowed and is denied")
                });
            }
        }
    }

    fn retries(&mut self, attempt: u32, error: &ModelError, wait: Duration, voided: bool) {
        let policy = RetryPolicy::default();
        self.record.failures += 1;
        let failures = self.record.failures;
        let most = self.script.knobs.attempts;
        self.require(Law::Bounds, attempt == failures && attempt < most, || {
            format!("try {attempt} of {most} is recorded, {failures} have failed")
        });
        let now = self.now();
        let first = *self.record.first_failure.get_or_insert(now);
        if failures == 1 {
            self.record.first_failure = Some(now);
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
        if failures > 1 {
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

    fn discards(&mut self, usage: Usage) {
        let told = self.life.served.as_ref().map(|served| served.usage);
        self.require(Law::Truth, told == Some(usage), || {
            format!("the call used {told:?}, recorded is {usage:?}")
        });
    }

    fn continues(&mut self, reason: &Continue) {
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
                let now = self.now();
                let due = self.record.retry_at.take();
                let holds = due.is_some_and(|due| (due..=due + LATE).contains(&now));
                self.require(Law::Bounds, holds, || {
                    format!("the next try was due at {due:?} and is made at {now:?}")
                });
                self.record.again = true;
            }
            Continue::EscalateOutput => {
                self.see("continue: escalate");
                let once = !std::mem::replace(&mut self.record.escalated, true);
                let stop = self
                    .life
                    .served
                    .as_ref()
                    .and_then(|served| served.stop.clone());
                let cut = stop == Some(StopReason::MaxTokens);
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

    fn ends(&mut self, end: &TurnEnd) {
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
        self.life.interrupt_wanted = false;
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
            TurnEnd::ContextLimit { .. } => {
                self.see("end: context limit");
                last_fault(ModelErrorKind::ContextTooLong)
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
            TurnEnd::HookStopped { .. } => false,
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
                let newest = self.record.signatures.iter().rev().take(times);
                let newest: BTreeSet<_> = newest.collect();
                *end == TurnEnd::LoopDetected {
                    times: self.script.knobs.stop_after,
                } && newest.len() == 1
                    && self.record.signatures.len() >= times
            }
        }
    }
}
