//! Whether an entry is the recorded one.

use serde_json::Value;
use tooloop_kernel::Entry;
use tooloop_provider::first_difference;

use super::Difference;
use super::recording::Recorded;

/// Compares entries. Numbers of model calls begin anew with each process, which a record does not
/// tell: they may lag behind, but by the same number as long as a turn lasts.
#[derive(Debug, Default)]
pub(super) struct Compare {
    behind: Option<u64>,
}

impl Compare {
    /// A turn begins, maybe in another process.
    pub(super) const fn turn_begins(&mut self) {
        self.behind = None;
    }

    /// Whether `came` is what is on record.
    pub(super) fn check(&mut self, expected: &Recorded, came: &Entry) -> Result<(), Difference> {
        if expected.entry == *came {
            return Ok(());
        }
        let came = self.renumbered(&expected.entry, came.clone());
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

pub(super) fn value(entry: &Entry) -> Value {
    serde_json::to_value(entry).unwrap_or_default()
}
