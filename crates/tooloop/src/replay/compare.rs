//! Whether an entry is the recorded one.

use serde_json::Value;
use tooloop_kernel::{Budget, Entry, TurnEnd};
use tooloop_model::{Message, Usage};
use tooloop_provider::first_difference;

use super::Difference;
use super::recording::Recorded;

/// Compares entries. Numbers of model calls begin anew with each process, which a record does not
/// tell: they may lag behind, but by the same number as long as a turn lasts.
///
/// What is booked and what a budget lacks depends on prices and on the size of what a journal does
/// not hold: it is compared as far as the provider's own counts tell it.
#[derive(Debug, Default)]
pub(super) struct Compare {
    behind: Option<u64>,
    /// What the newest entry says that a reply used.
    usage: Option<Usage>,
}

impl Compare {
    /// A turn begins, maybe in another process.
    pub(super) const fn turn_begins(&mut self) {
        self.behind = None;
    }

    /// Whether `came` is what is on record.
    pub(super) fn check(&mut self, expected: &Recorded, came: &Entry) -> Result<(), Difference> {
        let usage = self.usage.take();
        if let Entry::Message(message) = came
            && let Message::Assistant(reply) = message.message()
            && reply.stop_reason.is_some()
        {
            self.usage = Some(reply.usage);
        }
        if expected.entry == *came {
            return Ok(());
        }
        let came = self.renumbered(&expected.entry, came.clone());
        let came = priced(&expected.entry, came, usage);
        let (one, other) = (value(&expected.entry), value(&came));
        match first_difference(&one, &other) {
            None => Ok(()),
            Some(difference) => Err(Difference {
                record: Some(expected.seq),
                words: difference.to_string(),
            }),
        }
    }

    fn renumbered(&mut self, expected: &Entry, mut came: Entry) -> Entry {
        if let (Entry::Retry { call: wanted, .. }, Entry::Retry { call, .. }) =
            (expected, &mut came)
            && let Some(behind) = call.checked_sub(*wanted)
            && *self.behind.get_or_insert(behind) == behind
        {
            *call = *wanted;
        }
        came
    }
}

/// The entry with the amounts that only the record knows.
fn priced(expected: &Entry, came: Entry, usage: Option<Usage>) -> Entry {
    match (expected, came) {
        (Entry::Spent { tokens, cost }, Entry::Spent { tokens: other, .. }) => {
            let told = usage.is_some_and(|usage| usage.input_tokens > 0 && usage.output_tokens > 0);
            Entry::Spent {
                tokens: if told { other } else { *tokens },
                cost: *cost,
            }
        }
        (Entry::TurnEnd(TurnEnd::Budget(wanted)), Entry::TurnEnd(TurnEnd::Budget(budget))) => {
            let same = match (wanted, &budget) {
                (Budget::Tokens { .. }, Budget::Tokens { .. })
                | (Budget::Cost { .. }, Budget::Cost { .. }) => true,
                (
                    Budget::Tokens { .. } | Budget::Cost { .. } | Budget::UnknownPrice { .. },
                    Budget::Tokens { .. } | Budget::Cost { .. } | Budget::UnknownPrice { .. },
                ) => false,
            };
            let budget = if same { wanted.clone() } else { budget };
            Entry::TurnEnd(TurnEnd::Budget(budget))
        }
        (_, came) => came,
    }
}

pub(super) fn value(entry: &Entry) -> Value {
    serde_json::to_value(entry).unwrap_or_default()
}
