//! Where a record stands among the others, in bounded memory.

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

/// How many records back an id is known. What is older and comes again is told by its number.
const KNOWN: usize = 8_192;

/// The records that there were.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// The largest number so far.
    largest: u64,
    newest: Option<String>,
    /// The hashes of the ids of the newest records, oldest first.
    ids: VecDeque<u64>,
    known: HashSet<u64>,
}

/// How a record stands to those before it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Behind the one before it.
    Next,
    /// Somewhere else.
    Apart { expected: u64, has_parent: bool },
    /// It was there before.
    Again,
}

impl Order {
    /// Takes a record in, unless it was there before.
    pub(crate) fn take(&mut self, seq: u64, id: &str, parent: Option<&str>) -> Standing {
        let expected = self.largest.saturating_add(1);
        let has_parent = parent == self.newest.as_deref();
        let is_old = !has_parent && seq.saturating_add(KNOWN as u64) <= self.largest;
        let hash = hash(id);
        if self.known.contains(&hash) || is_old {
            return Standing::Again;
        }
        // A number that is far too large is damaged, and says nothing about those that follow.
        let is_near = seq <= expected.saturating_add(1 << 20);
        if is_near {
            self.largest = self.largest.max(seq);
        }
        id.clone_into(self.newest.get_or_insert_default());
        self.ids.push_back(hash);
        self.known.insert(hash);
        if self.ids.len() > KNOWN
            && let Some(oldest) = self.ids.pop_front()
        {
            self.known.remove(&oldest);
        }
        if seq == expected && has_parent {
            Standing::Next
        } else {
            Standing::Apart {
                expected,
                has_parent,
            }
        }
    }

    pub(crate) const fn largest(&self) -> u64 {
        self.largest
    }

    pub(crate) fn newest(self) -> Option<String> {
        self.newest
    }
}

fn hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_stand_in_a_chain() {
        let mut order = Order::default();
        assert_eq!(order.take(1, "a", None), Standing::Next);
        assert_eq!(order.take(2, "b", Some("a")), Standing::Next);
        assert_eq!(order.take(2, "b", Some("a")), Standing::Again);
        assert_eq!(order.take(1, "a", None), Standing::Again);
        let apart = |expected, has_parent| Standing::Apart {
            expected,
            has_parent,
        };
        assert_eq!(order.take(5, "e", Some("d")), apart(3, false));
        // Of another writer, not the same again.
        assert_eq!(order.take(5, "x", Some("d")), apart(6, false));
        // A number that cannot be.
        assert_eq!(order.take(u64::MAX, "f", Some("x")), apart(6, true));
        assert_eq!(order.take(6, "g", Some("f")), Standing::Next);
        assert_eq!(order.largest(), 6);
    }

    #[test]
    fn old_ones_are_known_by_their_number() {
        let mut order = Order::default();
        let mut parent = None;
        for seq in 1..=20_000_u64 {
            let id = seq.to_string();
            assert_eq!(order.take(seq, &id, parent.as_deref()), Standing::Next);
            parent = Some(id);
        }
        assert!(order.ids.len() <= KNOWN && order.known.len() <= KNOWN);
        for seq in [1, 2, 19_000, 20_000_u64] {
            let parent = (seq - 1).to_string();
            assert_eq!(
                order.take(seq, &seq.to_string(), Some(&parent)),
                Standing::Again
            );
        }
    }
}
