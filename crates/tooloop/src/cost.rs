//! What a session has cost.

use std::path::Path;

use tooloop_kernel::{Entry, Transcript};
use tooloop_model::{Message, Usage};
use tooloop_session::{Line, StoreError, read_lines, subagents_of};

use crate::CacheLedger;

/// What replies of a model used, and what that cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spending {
    /// The tokens.
    pub usage: Usage,
    /// The same in US dollars; `None` if the price of a model is not known.
    pub cost_usd: Option<f64>,
}

impl Default for Spending {
    fn default() -> Self {
        Self {
            usage: Usage::default(),
            cost_usd: Some(0.0),
        }
    }
}

impl Spending {
    /// `is_priced`: whether the price of its replies is known.
    pub(crate) fn of(transcript: &Transcript, is_priced: bool) -> Self {
        let is_reply = |message: &Message| matches!(message, Message::Assistant(_));
        let mut messages = transcript.messages().iter();
        let has_replies = messages.any(|message| is_reply(message.message()));
        if transcript.spent_tokens() == 0 && !has_replies {
            return Self::default();
        }
        Self {
            usage: transcript.usage(),
            cost_usd: is_priced.then(|| transcript.spent().as_usd()),
        }
    }

    /// Adds another.
    pub fn add(&mut self, other: Self) {
        self.usage.add(other.usage);
        self.cost_usd = match (self.cost_usd, other.cost_usd) {
            (Some(before), Some(cost)) => Some(before + cost),
            (None, _) | (_, None) => None,
        };
    }

    /// What was spent since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let cost_usd = match (before.cost_usd, self.cost_usd) {
            (Some(before), Some(after)) => Some((after - before).max(0.0)),
            (None, _) | (_, None) => None,
        };
        Self {
            usage: self.usage.since(before.usage),
            cost_usd,
        }
    }

    /// What the subagents of the session with this journal have spent, and theirs. A journal that
    /// cannot be read counts as nothing.
    pub(crate) fn of_subagents(journal: &Path) -> Self {
        let mut spent = Self::default();
        each_subagent(journal, &mut |transcript, is_priced| {
            spent.add(Self::of(transcript, is_priced));
        });
        spent
    }
}

/// Takes the transcript of each subagent that works for the session with this journal, and of
/// theirs, and whether its replies had a price.
pub(crate) fn each_subagent(journal: &Path, take: &mut dyn FnMut(&Transcript, bool)) {
    for subagent in subagents_of(journal) {
        let mut is_priced = false;
        let read = read_lines(&subagent.path, |line| is_priced |= has_price(&line));
        if let Ok(read) = read {
            take(&read.transcript, is_priced);
        }
        each_subagent(&subagent.path, take);
    }
}

/// What a session has cost.
#[derive(Debug, Clone)]
pub struct CostReport {
    /// What the replies of the session itself used, those of earlier runs and summaries included.
    pub own: Spending,
    /// What the replies of its subagents used, and of theirs.
    pub subagents: Spending,
    /// What came from the provider's cache, of the session itself.
    pub cache: CacheLedger,
}

impl CostReport {
    /// What the session with this journal has cost, and what was wrong with the journal, for a
    /// person.
    ///
    /// # Errors
    /// If the file cannot be read or is no journal of this version.
    pub fn read(journal: &Path) -> Result<(Self, Vec<String>), StoreError> {
        let mut cache = CacheLedger::default();
        let mut is_priced = false;
        let read = read_lines(journal, |line| {
            is_priced |= has_price(&line);
            if let Line::Record(record) = line {
                cache.take(&record.entry, Some(record.time));
            }
        })?;
        let report = Self {
            own: Spending::of(&read.transcript, is_priced),
            subagents: Spending::of_subagents(journal),
            cache,
        };
        Ok((report, read.warnings))
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> Spending {
        let mut total = self.own;
        total.add(self.subagents);
        total
    }
}

fn has_price(line: &Line) -> bool {
    match line {
        Line::Record(record) => matches!(record.entry, Entry::Spent { cost: Some(_), .. }),
        Line::Unknown(_) => false,
    }
}
