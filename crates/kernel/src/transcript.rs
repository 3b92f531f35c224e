//! The fold over entries.

mod room;

use std::collections::BTreeSet;
use std::sync::Arc;

use tooloop_model::{Content, HistoryMessage, Message, Money, ToolResult, ToolUseId, Usage};

use self::room::Past;
use crate::count::{Calibration, Count};
use crate::{CompactionTrigger, Entry, TurnEnd};

/// What the entries of a session come to: the conversation as a model may be sent it, the calls
/// that are still to be answered, and the sums.
///
/// Whatever the entries are, [`Transcript::messages`] is a history that a provider accepts: it
/// begins with a user message, every tool use is answered once, in order, in the message after it,
/// and no message is empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Transcript {
    messages: Vec<Arc<HistoryMessage>>,
    open: Vec<OpenCall>,
    ids: BTreeSet<ToolUseId>,
    usage: Usage,
    newest_usage: Usage,
    spent: Money,
    spent_tokens: u64,
    /// What the newest reply and all before it come to.
    count: Option<Count>,
    calibration: Calibration,
    newest_end: Option<TurnEnd>,
    /// How many messages there are before each turn.
    turns: Vec<usize>,
    /// How many of the first turns have begun in what was summed up.
    summed_up: usize,
    /// How often the conversation was summed up.
    compactions: u32,
    /// What the user wants now: what began the turn, and what was said to it since.
    request: Vec<Arc<HistoryMessage>>,
    /// What the conversation began with.
    opening: Vec<Arc<HistoryMessage>>,
    past: Past,
}

/// A call of the newest message that has no place in the history yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCall {
    /// The tool use.
    pub id: ToolUseId,
    /// Whether it is on record that it was about to run.
    pub started: bool,
    /// Its answer, kept until its neighbours have theirs.
    pub result: Option<ToolResult>,
}

impl Transcript {
    /// Takes an entry in. Entries that do not fit (an answer to no call, a second answer) change
    /// nothing.
    pub fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::Message(message) => self.say(message),
            Entry::CallStarted { tool_use_id } => {
                if let Some(call) = self.open.iter_mut().find(|call| call.id == *tool_use_id) {
                    call.started = true;
                }
            }
            Entry::CallFinished(result) => self.answer(result),
            Entry::Discarded { usage } => self.usage.add(*usage),
            Entry::TurnEnd(end) => self.newest_end = Some(end.clone()),
            Entry::Spent { tokens, cost } => {
                self.spent_tokens = self.spent_tokens.saturating_add(*tokens);
                self.spent = self.spent.saturating_add(cost.unwrap_or_default());
            }
            Entry::Rewound { turn } => self.rewind(*turn),
            Entry::Shortened { results, .. } => self.shorten(results),
            Entry::Compacted {
                cut,
                summary,
                request,
                carried,
                trigger,
                ..
            } => {
                if *trigger == CompactionTrigger::TooLong {
                    self.calibration.raise();
                }
                self.compact(*cut, summary, request, carried);
            }
            Entry::Continue(reason) => self.goes_on(reason),
            // What the model wrote is what it sees again.
            Entry::CallRewritten { .. } | Entry::Permission { .. } => {}
            Entry::Retry { left_out, .. } => {
                if let Some(what) = left_out {
                    self.leave_out(*what);
                }
            }
        }
    }

    /// The conversation, ready to be sent once a user message or tool results stand at its end.
    #[must_use]
    pub fn messages(&self) -> &[Arc<HistoryMessage>] {
        &self.messages
    }

    /// The calls that are to be answered before anything else can be said.
    #[must_use]
    pub fn open_calls(&self) -> &[OpenCall] {
        &self.open
    }

    /// Whether the id was used in this conversation.
    #[must_use]
    pub fn knows(&self, id: &ToolUseId) -> bool {
        self.ids.contains(id)
    }

    /// How many tool uses there were.
    #[must_use]
    pub fn tool_uses(&self) -> usize {
        self.ids.len()
    }

    /// For each turn of the conversation, how many messages there are before it: the first message
    /// of turn number `n`, counted from 1, is `messages()[turns()[n - 1]]`, unless it is one of the
    /// first [`Transcript::summed_up`] turns.
    #[must_use]
    pub fn turns(&self) -> &[usize] {
        &self.turns
    }

    /// What all replies used.
    #[must_use]
    pub const fn usage(&self) -> Usage {
        self.usage
    }

    /// What all replies cost, as far as their price was known.
    #[must_use]
    pub const fn spent(&self) -> Money {
        self.spent
    }

    /// The tokens, sent and written, that all requests came to, those that failed included.
    #[must_use]
    pub fn spent_tokens(&self) -> u64 {
        // Sessions without a limit or a price keep no account beside the providers' counts.
        let counted = self
            .usage
            .input_tokens
            .saturating_add(self.usage.output_tokens);
        self.spent_tokens.max(counted)
    }

    pub(crate) const fn count(&self) -> Option<Count> {
        self.count
    }

    /// What the newest reply used: its input is what the conversation comes to.
    #[must_use]
    pub const fn newest_usage(&self) -> Usage {
        self.newest_usage
    }

    /// Why the newest turn ended; `None` while it is under way and before the first.
    #[must_use]
    pub const fn newest_end(&self) -> Option<&TurnEnd> {
        self.newest_end.as_ref()
    }

    fn say(&mut self, message: &Arc<HistoryMessage>) {
        match message.message() {
            Message::User(content) => {
                self.close(
                    "not answered: the record of this call is incomplete, its outcome is unknown",
                );
                if content.iter().all(Content::is_blank) {
                    return;
                }
                if self.newest_end.take().is_some() || self.turns.is_empty() {
                    self.turns.push(self.messages.len());
                    self.request = vec![Arc::clone(message)];
                } else if self.begins_turn() {
                    // A notice may come before what the user says.
                    self.request.push(Arc::clone(message));
                }
                if self.turns.len() == 1 {
                    self.opening.clone_from(&self.request);
                }
            }
            Message::Assistant(reply) => {
                self.close(
                    "not answered: the record of this call is incomplete, its outcome is unknown",
                );
                self.usage.add(reply.usage);
                if !reply.usage.is_empty() {
                    self.newest_usage = reply.usage;
                }
                if !reply.has_substance() {
                    return;
                }
                match self.messages.last().map(|last| last.message()) {
                    Some(Message::User(_) | Message::ToolResults(_)) => {}
                    // Only a damaged record has a reply to nothing: what it answered is lost.
                    Some(Message::Assistant(_)) | None => {
                        self.messages
                            .push(Arc::new(HistoryMessage::new(Message::user(
                                "(a part of the record is missing here)",
                            ))))
                    }
                }
                let calls = reply.tool_uses().map(|tool_use| tool_use.id.clone());
                for id in calls {
                    self.ids.insert(id.clone());
                    self.open.push(OpenCall {
                        id,
                        started: false,
                        result: None,
                    });
                }
            }
            // Results are the sum of the answers and are never said as such.
            Message::ToolResults(results) => {
                for result in results {
                    self.answer(result);
                }
                return;
            }
        }
        self.messages.push(Arc::clone(message));
        if let Message::Assistant(reply) = message.message()
            && reply.usage.input_tokens > 0
        {
            let usage = reply.usage;
            let messages = self.messages.len();
            self.learn(usage.input_tokens, messages.saturating_sub(1));
            // What is told of a reply that was broken off need not be all that is kept of it.
            self.count = Some(if reply.stop_reason.is_some() && usage.output_tokens > 0 {
                let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
                Count::new(tokens, messages)
            } else {
                Count::new(usage.input_tokens, messages.saturating_sub(1))
            });
        }
    }

    fn answer(&mut self, result: &ToolResult) {
        let open = self
            .open
            .iter_mut()
            .find(|call| call.id == result.tool_use_id && call.result.is_none());
        let Some(call) = open else { return };
        call.result = Some(result.clone());
        if self.open.iter().all(|call| call.result.is_some()) {
            self.pair("");
        }
    }

    fn rewind(&mut self, turn: usize) {
        let before = turn.checked_sub(1);
        if before.is_some_and(|at| at < self.summed_up) && !self.restore(turn) {
            return;
        }
        let Some(messages) = before.and_then(|at| self.turns.get(at).copied()) else {
            return;
        };
        self.open.clear();
        self.messages.truncate(messages);
        self.turns.truncate(turn.saturating_sub(1));
        self.count = self.count.filter(|count| count.messages <= messages);
        // What the next message begins is a turn.
        self.newest_end = self.newest_end.take().or(Some(TurnEnd::Completed));
    }

    fn close(&mut self, words: &str) {
        if !self.open.is_empty() {
            self.pair(words);
        }
    }

    /// The one place where tool uses get their answers: every open call, in order, in one message
    /// right behind the tool uses. A call without an answer is answered with `words`.
    fn pair(&mut self, words: &str) {
        let results = std::mem::take(&mut self.open)
            .into_iter()
            .map(|call| {
                call.result
                    .unwrap_or_else(|| ToolResult::error(call.id, words))
            })
            .collect();
        self.messages
            .push(Arc::new(HistoryMessage::new(Message::ToolResults(results))));
    }
}

#[cfg(test)]
mod tests {
    use tooloop_model::{AssistantMessage, ContentBlock, StopReason};

    use super::*;

    fn user(text: &str) -> Entry {
        Entry::message(Message::user(text))
    }

    fn reply(stop_reason: Option<StopReason>, input_tokens: u64, output_tokens: u64) -> Entry {
        Entry::message(Message::Assistant(AssistantMessage {
            content: vec![ContentBlock::Text {
                text: "reply".into(),
                vendor: None,
            }],
            stop_reason,
            usage: Usage {
                input_tokens,
                output_tokens,
                ..Usage::default()
            },
            ..AssistantMessage::default()
        }))
    }

    fn folded(entries: &[Entry]) -> Transcript {
        let mut transcript = Transcript::default();
        for entry in entries {
            transcript.apply(entry);
        }
        transcript
    }

    #[test]
    fn only_complete_counted_replies_are_in_the_count() {
        let complete = || Some(StopReason::EndTurn);
        for (reply, count) in [
            (reply(complete(), 100, 10), Some(Count::new(110, 2))),
            (reply(complete(), 100, 0), Some(Count::new(100, 1))),
            (reply(None, 100, 10), Some(Count::new(100, 1))),
            (reply(complete(), 0, 10), None),
        ] {
            let transcript = folded(&[user("go"), reply.clone()]);
            assert_eq!(transcript.count(), count, "{reply:?}");
        }
    }

    #[test]
    fn a_count_of_what_is_left_outlives_a_rewind() {
        let counted = reply(Some(StopReason::EndTurn), 100, 10);
        let end = || Entry::TurnEnd(TurnEnd::Completed);
        let mut entries = vec![user("one"), counted.clone(), end(), user("two")];
        let rewound = Entry::Rewound { turn: 2 };
        let uncounted = [reply(None, 0, 0), end(), rewound.clone()];
        let transcript = folded(&[&entries[..], &uncounted].concat());
        assert_eq!(transcript.count(), Some(Count::new(110, 2)));
        entries.extend([counted, end(), rewound]);
        assert_eq!(folded(&entries).count(), None);
    }

    #[test]
    fn a_refused_request_raises_the_estimate_from_then_on() {
        for (trigger, raised) in [
            (CompactionTrigger::Auto, false),
            (CompactionTrigger::Manual, false),
            (CompactionTrigger::TooLong, true),
        ] {
            let compacted = Entry::Compacted {
                cut: 1,
                summary: "summary".into(),
                request: Vec::new(),
                carried: Vec::new(),
                trigger,
                before: 2,
                after: 1,
            };
            let transcript = folded(&[user("go"), compacted]);
            let calibration = transcript.calibration();
            assert_eq!(calibration.is_raised(), raised, "{trigger:?}");
        }
    }
}
