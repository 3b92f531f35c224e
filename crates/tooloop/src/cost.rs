//! The cost of a session.

use std::path::Path;

use tooloop_kernel::{Entry, Transcript};
use tooloop_model::{Message, Usage};
use tooloop_session::{Line, StoreError, read_lines, subagents_of};

use crate::CacheLedger;

/// Tokens and money spent on model calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spending {
    /// The tokens that the provider reported.
    pub usage: Usage,
    /// The cost in US dollars; `None` if the price of a model is not known.
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
    /// Returns the spending of one transcript. `is_priced` says whether the price of its model is
    /// known.
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

    /// Adds other spending. The sum has no cost if one side has none.
    pub fn add(&mut self, other: Self) {
        self.usage.add(other.usage);
        self.cost_usd = match (self.cost_usd, other.cost_usd) {
            (Some(before), Some(cost)) => Some(before + cost),
            (None, _) | (_, None) => None,
        };
    }

    /// Returns what was spent since `before`.
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

    /// Sums the spending of all subagents below the session with this journal. Journals that cannot
    /// be read are left out.
    pub(crate) fn of_subagents(journal: &Path) -> Self {
        let mut spent = Self::default();
        each_subagent(journal, &mut |transcript, is_priced| {
            spent.add(Self::of(transcript, is_priced));
        });
        spent
    }
}

/// Calls `take` for each subagent below the session with this journal, nested ones included, with its
/// transcript and whether the price of its model is known.
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

/// The cost of a session, earlier runs included.
#[derive(Debug, Clone)]
pub struct CostReport {
    /// The session's own model calls, summaries included.
    pub own: Spending,
    /// The model calls of its subagents, nested ones included.
    pub subagents: Spending,
    /// The use of the provider's cache by the session's own calls.
    pub cache: CacheLedger,
}

impl CostReport {
    /// Reads the cost from a journal. Returns it with warnings about damage in the journal.
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

    /// Returns the sum of own calls and subagents.
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
