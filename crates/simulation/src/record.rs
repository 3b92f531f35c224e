//! What is on record, and whether it may be.

mod room;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tooloop_kernel::{Delivery, Entry, Permission};
use tooloop_model::{
    AssistantMessage, Content, JsonObject, Message, StopReason, ToolInput, ToolUse, ToolUseId,
    Usage,
};

use crate::bills::Bill;
use crate::law::Law;
use crate::world::{Ended, ServedCall, World};

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
    /// What calls run with in place of what the model wrote.
    pub(crate) rewritten: BTreeMap<ToolUseId, JsonObject>,
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
    /// When the first of them did of which the machine was told the time.
    timed_failure: Option<Duration>,
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
    pub(crate) died_in_turn: bool,
    /// The newest end is that of a dead process's turn.
    closes_the_past: bool,
    /// Why the model may be called.
    pub(crate) going_on: bool,
    /// What the user wants now, word for word.
    pub(crate) wanted: Vec<String>,
    /// A summary is made so that the turn can go on.
    pub(crate) sums_up: bool,
    /// What is tried again is tried when room was made.
    owes_retry: bool,
    /// The next request is tried again.
    pub(crate) is_retry: bool,
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

    /// What a call runs with.
    pub(crate) fn input(&self, call: &ToolUse) -> ToolInput {
        let rewritten = self.rewritten.get(&call.id).cloned();
        rewritten.map_or_else(|| call.input.clone(), ToolInput::Valid)
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
            Entry::CallRewritten { tool_use_id, input } => {
                self.rewritten.insert(tool_use_id.clone(), input.clone());
            }
            Entry::Retry { .. }
            | Entry::Discarded { .. }
            | Entry::Spent { .. }
            | Entry::Shortened { .. }
            | Entry::Compacted { .. }
            | Entry::Continue(_) => {}
        }
    }

    fn say_nothing(&mut self) {
        self.calls.clear();
        self.started.clear();
        self.rewritten.clear();
        self.answered.clear();
        self.allowed.clear();
        self.denied.clear();
    }
}

impl World {
    /// A call is to run with another input than the model wrote: only before it does, and only if
    /// somebody has said so.
    fn rewrites(&mut self, id: &ToolUseId, input: &JsonObject) {
        self.see("call rewritten");
        let open = self.record.call(id).is_some()
            && !self.record.answered.contains(id)
            && !self.record.started.contains_key(id);
        self.require(Law::RecordFirst, open, || {
            format!("{id} gets another input and is no open call")
        });
        let said = self.life.rewritten.get(id) == Some(input);
        self.require(Law::Truth, said, || {
            format!("nobody has given {id} the input {}", input.get())
        });
    }

    /// An entry is recorded; its line will end there.
    pub(crate) fn entry(&mut self, entry: &Entry, end: usize) {
        self.tell(|| format!("  record {}", crate::words::entry(entry)));
        let mut kept = None;
        let mut rest = None;
        match entry {
            Entry::Message(message) => match message.message() {
                Message::User(content) => self.user_says(content),
                Message::Assistant(reply) => self.model_says(reply),
                Message::ToolResults(_) => {
                    self.break_law(Law::Pairing, "results are never said as such");
                }
            },
            Entry::CallStarted { tool_use_id } => self.starts(tool_use_id),
            Entry::CallRewritten { tool_use_id, input } => self.rewrites(tool_use_id, input),
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
            Entry::Rewound { turn } => {
                self.see("rewound");
                let in_turn = self.record.in_turn;
                self.require(Law::Report, !in_turn, || "it goes back in a turn".into());
                let begins = turn.checked_sub(1);
                let begins = begins.and_then(|place| self.folded.turns().get(place).copied());
                let known = begins.is_some();
                if *turn > self.folded.summed_up() {
                    kept = begins.and_then(|messages| {
                        self.folded.messages().get(..messages).map(<[_]>::to_vec)
                    });
                } else {
                    self.see("rewound to before a summary");
                }
                self.require(Law::Truth, known, || format!("there is no turn {turn}"));
            }
            Entry::Shortened {
                results,
                before,
                after,
            } => self.cuts_short(results, *before, *after),
            Entry::Compacted {
                cut,
                summary,
                trigger,
                before,
                after,
                ..
            } => {
                self.is_summed_up(*cut, summary, *trigger, (*before, *after));
                rest = self.folded.messages().get(*cut..).map(<[_]>::to_vec);
            }
            Entry::Continue(reason) => self.continues(reason),
            Entry::TurnEnd(why) => self.ends(why),
        }
        self.record.note(entry, end);
        if let Entry::Shortened { .. } | Entry::Compacted { .. } = entry {
            self.before_room = self.folded.messages().to_vec();
        }
        self.folded.apply(entry);
        if let Some(kept) = kept {
            let same = self.folded.messages() == kept;
            self.require(Law::OneFold, same, || {
                "it went back too far, or not far enough".into()
            });
        }
        if let Some(rest) = rest {
            let same = self.folded.messages().get(1..) == Some(&rest);
            self.require(Law::OneFold, same, || {
                "a summary stands for more or less than it says".into()
            });
        }
        if let Entry::Rewound { turn } = entry {
            let turns = self.folded.turns().len() + 1;
            let back = *turn == turns && self.folded.summed_up() < *turn;
            self.require(Law::OneFold, back, || {
                format!("it went back to turn {turns}, not to {turn}")
            });
        }
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
        let begins = !self.record.in_turn;
        if begins {
            self.life.turns += 1;
            self.life.hook_stops = false;
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
        let text = words.text;
        match words.delivery {
            Delivery::Notice | Delivery::Aside => self.see("notice"),
            Delivery::Steer => self.record.wanted.push(text),
            Delivery::FollowUp => self.record.wanted = vec![text],
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
        let expected = expected_calls(&served.calls);
        let same_calls = reply.tool_uses().count() == expected.len()
            && reply
                .tool_uses()
                .zip(&expected)
                .all(|(tool_use, (served, is_valid))| {
                    let input = ToolInput::parse(&served.input);
                    let is_error = matches!(tool_use.input, ToolInput::Invalid { .. });
                    tool_use.name == crate::tools::name(served.tool)
                        && if *is_valid {
                            tool_use.input == input
                        } else {
                            is_error
                        }
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
}

/// The calls of a reply that are recorded, and whether each keeps its input. A second call under one id
/// is dropped if it is the same call; if it is another one, it is recorded as invalid.
pub(crate) fn expected_calls(served: &[ServedCall]) -> Vec<(&ServedCall, bool)> {
    let mut expected = Vec::new();
    for (place, call) in served.iter().enumerate() {
        let mut before = served.iter().take(place);
        let first = before.find(|other| !call.id.0.is_empty() && other.id == call.id);
        match first {
            None => expected.push((call, true)),
            Some(first) if first.tool == call.tool && first.input == call.input => {}
            Some(_) => expected.push((call, false)),
        }
    }
    expected
}
