//! What a provider's prompt cache has saved, and why it did not where it did not.
//!
//! A fold over entries: it works on a session that is under way, where it is told of each call too,
//! and on a journal. It knows no provider; what it says of one is what the counts of the replies and
//! the entries between them show.
//!
//! ```
//! use tooloop::CacheLedger;
//! # let entries: Vec<tooloop::Entry> = Vec::new();
//!
//! let mut ledger = CacheLedger::default();
//! for entry in &entries {
//!     ledger.take(entry, None);
//! }
//! assert_eq!(ledger.calls(), 0);
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tooloop_kernel::Entry;
use tooloop_model::{Message, Request, ToolDefinition, Usage};

/// A call is a miss if less than so much of what was expected came from the cache, in percent.
const HIT: u64 = 90;

/// No provider is known to cache a prompt that is shorter.
const LEAST: u64 = 1_024;

/// For how long providers keep a prompt at least.
const KEPT: SignedDuration = SignedDuration::from_mins(5);

/// So many misses are kept, the newest.
const MOST: usize = 100;

/// What came from a provider's prompt cache, call by call.
#[derive(Debug, Clone, Default)]
pub struct CacheLedger {
    calls: u64,
    missed: u64,
    usage: Usage,
    misses: VecDeque<CacheMiss>,
    previous: Option<Previous>,
    /// What has happened since that a cache does not survive.
    since: Option<MissReason>,
    /// The model that is asked, where that is told.
    asked: Option<String>,
    prefix: Option<Prefix>,
    /// When the newest entry was written.
    newest: Option<Timestamp>,
}

/// A call that found less in the cache than what was sent before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheMiss {
    /// The number of the call, from 1.
    pub call: u64,
    /// When it was made, as far as that is known.
    pub time: Option<Timestamp>,
    /// The tokens that the call before had sent.
    pub expected: u64,
    /// The tokens that came from the cache.
    pub read: u64,
    /// Why, as far as entries show it.
    pub reason: MissReason,
}

/// Why a call found less in the cache than what was sent before. If there are several reasons, the
/// first of this list is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MissReason {
    /// Nothing was sent before.
    FirstCall,
    /// Another model has the cache.
    OtherModel,
    /// The system prompt or the tools are others.
    OtherPrefix,
    /// The conversation was summed up.
    SummedUp,
    /// The conversation was taken back.
    TakenBack,
    /// Results were cut short.
    CutShort,
    /// The call before was more than five minutes earlier.
    TooLongAgo,
    /// The session was gone on with, perhaps with another system prompt or other tools.
    Resumed,
    /// The provider tells of no cache, neither here nor before.
    NoCache,
    /// The provider gave no reason.
    NotTold,
}

impl MissReason {
    /// Its name, as in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FirstCall => "first_call",
            Self::OtherModel => "other_model",
            Self::OtherPrefix => "other_prefix",
            Self::SummedUp => "summed_up",
            Self::TakenBack => "taken_back",
            Self::CutShort => "cut_short",
            Self::TooLongAgo => "too_long_ago",
            Self::Resumed => "resumed",
            Self::NoCache => "no_cache",
            Self::NotTold => "not_told",
        }
    }

    /// The same in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::FirstCall => "the first call",
            Self::OtherModel => "another model was asked",
            Self::OtherPrefix => "the system prompt or the tools have changed",
            Self::SummedUp => "the conversation was summed up",
            Self::TakenBack => "the conversation was taken back",
            Self::CutShort => "old results were cut short",
            Self::TooLongAgo => "the call before was more than five minutes earlier",
            Self::Resumed => "the session was gone on with",
            Self::NoCache => "the provider tells of no cache",
            Self::NotTold => "not told: the provider gave no reason",
        }
    }
}

#[derive(Debug, Clone)]
struct Previous {
    input: u64,
    model: Option<String>,
    prefix: Option<Prefix>,
    time: Option<Timestamp>,
}

/// What all requests of a session begin with.
#[derive(Debug, Clone)]
struct Prefix {
    system: Arc<str>,
    tools: Arc<[ToolDefinition]>,
}

impl PartialEq for Prefix {
    /// Mostly it is the very same.
    fn eq(&self, other: &Self) -> bool {
        let system = Arc::ptr_eq(&self.system, &other.system) || self.system == other.system;
        system && (Arc::ptr_eq(&self.tools, &other.tools) || self.tools == other.tools)
    }
}

impl CacheLedger {
    /// Continues the ledger of earlier runs in a resumed session.
    #[must_use]
    pub fn resumed(mut self) -> Self {
        if let Some(previous) = &mut self.previous {
            // A reply may name the model in another form than the request does.
            previous.model = None;
            self.changed(MissReason::Resumed);
        }
        self
    }

    /// How many calls were counted: those whose provider told what they used.
    #[must_use]
    pub const fn calls(&self) -> u64 {
        self.calls
    }

    /// What these calls used.
    #[must_use]
    pub const fn usage(&self) -> Usage {
        self.usage
    }

    /// How many calls found less in the cache than nine tenths of what was sent before, the first
    /// call among them.
    #[must_use]
    pub const fn missed(&self) -> u64 {
        self.missed
    }

    /// The newest hundred of them, oldest first.
    pub fn misses(&self) -> impl DoubleEndedIterator<Item = &CacheMiss> + ExactSizeIterator {
        self.misses.iter()
    }

    /// The model is called.
    pub fn calling(&mut self, request: &Request) {
        self.asked = Some(request.model.clone());
        self.prefix = Some(Prefix {
            system: Arc::clone(&request.system),
            tools: Arc::clone(&request.tools),
        });
    }

    /// Takes an entry in, and when it was written.
    pub fn take(&mut self, entry: &Entry, time: Option<Timestamp>) {
        match entry {
            Entry::Message(message) => {
                if let Message::Assistant(reply) = message.message() {
                    let model = self.asked.clone().or_else(|| reply.model.clone());
                    self.count(reply.usage, model, time);
                }
            }
            Entry::Discarded { usage } => {
                let model = self.asked.clone();
                self.count(*usage, model, time);
            }
            Entry::Shortened { .. } => self.changed(MissReason::CutShort),
            Entry::Compacted { .. } => self.changed(MissReason::SummedUp),
            Entry::Rewound { .. } => self.changed(MissReason::TakenBack),
            Entry::CallStarted { .. }
            | Entry::CallRewritten { .. }
            | Entry::CallFinished(_)
            | Entry::Permission { .. }
            | Entry::Retry { .. }
            | Entry::Spent { .. }
            | Entry::Continue(_)
            | Entry::TurnEnd(_) => {}
        }
        self.newest = time.or(self.newest);
    }

    fn changed(&mut self, reason: MissReason) {
        let before = self.since.unwrap_or(reason);
        self.since = Some(before.min(reason));
    }

    fn count(&mut self, usage: Usage, model: Option<String>, time: Option<Timestamp>) {
        if usage.input_tokens == 0 {
            return;
        }
        self.calls = self.calls.saturating_add(1);
        // The entry before the reply is what the request went out on.
        let sent = self.newest;
        let expected = self.previous.as_ref().map_or(0, |previous| previous.input);
        let reason = match &self.previous {
            None => Some(MissReason::FirstCall),
            // A shorter request, as after the conversation was taken back, cannot hit more than all.
            Some(previous) => {
                let possible = previous.input.min(usage.input_tokens);
                let hit = u128::from(usage.cache_read_tokens) * 100
                    >= u128::from(possible) * u128::from(HIT);
                (!hit && expected >= LEAST)
                    .then(|| self.reason(previous, usage, model.as_deref(), sent))
            }
        };
        if let Some(reason) = reason {
            self.missed = self.missed.saturating_add(1);
            if self.misses.len() >= MOST {
                self.misses.pop_front();
            }
            self.misses.push_back(CacheMiss {
                call: self.calls,
                time: sent.or(time),
                expected,
                read: usage.cache_read_tokens,
                reason,
            });
        }
        self.usage.add(usage);
        self.since = None;
        self.previous = Some(Previous {
            input: usage.input_tokens,
            model,
            prefix: self.prefix.clone(),
            time,
        });
    }

    fn reason(
        &self,
        previous: &Previous,
        usage: Usage,
        model: Option<&str>,
        sent: Option<Timestamp>,
    ) -> MissReason {
        let other = |one: Option<&str>, two: Option<&str>| matches!((one, two), (Some(one), Some(two)) if one != two);
        let mut reasons = Vec::new();
        reasons.extend(self.since);
        if other(previous.model.as_deref(), model) {
            reasons.push(MissReason::OtherModel);
        }
        if let (Some(before), Some(now)) = (&previous.prefix, &self.prefix)
            && before != now
        {
            reasons.push(MissReason::OtherPrefix);
        }
        if let (Some(before), Some(sent)) = (previous.time, sent)
            && sent.duration_since(before) > KEPT
        {
            reasons.push(MissReason::TooLongAgo);
        }
        let mut all = self.usage;
        all.add(usage);
        if all.cache_read_tokens == 0 && all.cache_write_tokens == 0 {
            reasons.push(MissReason::NoCache);
        }
        reasons.into_iter().min().unwrap_or(MissReason::NotTold)
    }
}

#[cfg(test)]
mod tests {
    use tooloop_kernel::{CompactionTrigger, TurnEnd};
    use tooloop_model::{AssistantMessage, ContentBlock};

    use super::*;

    fn at(seconds: i64) -> Option<Timestamp> {
        Timestamp::from_second(1_700_000_000 + seconds).ok()
    }

    fn request(system: &str, model: &str) -> Request {
        Request {
            model: model.into(),
            system: system.into(),
            tools: Arc::from([]),
            tool_choice: tooloop_model::ToolChoice::Auto,
            messages: Vec::new(),
            output_schema: None,
            max_output_tokens: None,
        }
    }

    fn reply(model: &str, input: u64, read: u64) -> Entry {
        Entry::message(Message::Assistant(AssistantMessage {
            content: vec![ContentBlock::Text {
                text: "ok".into(),
                vendor: None,
            }],
            stop_reason: None,
            usage: Usage {
                input_tokens: input,
                output_tokens: 10,
                cache_read_tokens: read,
                cache_write_tokens: 1,
                reasoning_tokens: None,
            },
            model: Some(model.into()),
            id: None,
        }))
    }

    fn compacted() -> Entry {
        Entry::Compacted {
            cut: 2,
            summary: "s".into(),
            request: Vec::new(),
            carried: Vec::new(),
            trigger: CompactionTrigger::Auto,
            before: 10,
            after: 5,
        }
    }

    fn reasons(ledger: &CacheLedger) -> Vec<(u64, MissReason)> {
        let each = ledger.misses().map(|miss| (miss.call, miss.reason));
        each.collect()
    }

    /// What entries between two calls, of which the second finds nothing, make of it.
    fn between(entries: &[Entry], model: &str, seconds: i64) -> MissReason {
        let mut ledger = CacheLedger::default();
        ledger.take(&Entry::message(Message::user("go")), at(0));
        ledger.take(&reply("m", 5_000, 0), at(10));
        for entry in entries {
            ledger.take(entry, at(10));
        }
        ledger.take(&Entry::message(Message::user("go on")), at(10 + seconds));
        ledger.take(&reply(model, 6_000, 100), at(20 + seconds));
        match reasons(&ledger).as_slice() {
            [(1, MissReason::FirstCall), (2, reason)] => *reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_miss_has_its_reason() {
        let shortened = Entry::Shortened {
            results: Vec::new(),
            before: 2,
            after: 1,
        };
        let end = Entry::TurnEnd(TurnEnd::Completed);
        let back = Entry::Rewound { turn: 1 };
        assert_eq!(between(&[], "m", 300), MissReason::NotTold);
        assert_eq!(between(&[end], "m", 301), MissReason::TooLongAgo);
        assert_eq!(between(&[], "n", 301), MissReason::OtherModel);
        assert_eq!(
            between(std::slice::from_ref(&shortened), "m", 1),
            MissReason::CutShort
        );
        assert_eq!(between(&[back], "m", 1), MissReason::TakenBack);
        let both = [shortened, compacted()];
        assert_eq!(between(&both, "m", 999), MissReason::SummedUp);
    }

    #[test]
    fn what_was_found_is_no_miss() {
        let mut ledger = CacheLedger::default();
        ledger.take(&reply("m", 2_000, 0), None);
        ledger.take(&reply("m", 3_000, 1_800), None);
        // Less than was sent before, but all that is left of it.
        ledger.take(&compacted(), None);
        ledger.take(&reply("m", 1_500, 1_400), None);
        ledger.take(&reply("m", 1_600, 1_300), None);
        assert_eq!(
            reasons(&ledger),
            [(1, MissReason::FirstCall), (4, MissReason::NotTold)]
        );
        assert_eq!((ledger.calls(), ledger.missed()), (4, 2));
        assert_eq!(ledger.usage().cache_read_tokens, 4_500);
        // What nobody counted, and what is too short for a cache.
        ledger.take(&reply("m", 0, 0), None);
        let mut short = CacheLedger::default();
        short.take(&reply("m", 1_000, 0), None);
        short.take(&reply("m", 1_100, 0), None);
        assert_eq!((ledger.calls(), short.missed()), (4, 1));
    }

    #[test]
    fn a_resumed_session_may_miss() {
        let resumed = |seconds| {
            let mut ledger = CacheLedger::default();
            ledger.take(&reply("m-2026-11-01", 9_000, 0), at(0));
            let mut ledger = ledger.resumed();
            ledger.calling(&request("", "m"));
            ledger.take(&Entry::message(Message::user("go on")), at(seconds));
            ledger.take(&reply("m", 9_100, 0), at(seconds + 1));
            reasons(&ledger)
        };
        let first = (1, MissReason::FirstCall);
        assert_eq!(resumed(60), [first, (2, MissReason::Resumed)]);
        assert_eq!(resumed(600), [first, (2, MissReason::TooLongAgo)]);
        // Without a past it is the first call.
        let mut ledger = CacheLedger::default().resumed();
        ledger.take(&reply("m", 9_100, 0), None);
        assert_eq!(reasons(&ledger), [(1, MissReason::FirstCall)]);
    }

    #[test]
    fn another_prefix_is_seen_where_calls_are_told() {
        let second = |system: &str, model: &str| {
            let mut ledger = CacheLedger::default();
            ledger.calling(&request("one", "m"));
            ledger.take(&reply("m-2025", 5_000, 0), None);
            ledger.calling(&request(system, model));
            ledger.take(&reply("m-2025", 6_000, 0), None);
            reasons(&ledger).pop()
        };
        assert_eq!(second("one", "m"), Some((2, MissReason::NotTold)));
        assert_eq!(second("two", "m"), Some((2, MissReason::OtherPrefix)));
        assert_eq!(second("two", "n"), Some((2, MissReason::OtherModel)));
    }

    #[test]
    fn only_the_newest_misses_are_kept() {
        let mut ledger = CacheLedger::default();
        for _ in 0..300 {
            ledger.take(&reply("m", 5_000, 0), None);
        }
        assert_eq!((ledger.missed(), ledger.misses().len()), (300, MOST));
        assert_eq!(ledger.misses().next().map(|miss| miss.call), Some(201));
    }
}
