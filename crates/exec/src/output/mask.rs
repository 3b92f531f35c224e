//! Hides values in what a command prints, before anything is kept or shown of it.
//!
//! Pieces come as the pipe gives them, so a value may come in two. What may be the beginning of one
//! is held back until more comes; all else passes at once. A value is covered by as many bytes as it
//! has, so that places in an output stay what they are.

use std::fmt;
use std::sync::Arc;

use aho_corasick::AhoCorasick;

/// How the mark begins that covers a value. Stars and a bracket follow, up to the value's length.
const MARK: &[u8] = b"[masked";

/// The values to be hidden. Cheap to clone.
#[derive(Clone)]
pub struct Mask(Arc<Values>);

struct Values {
    search: AhoCorasick,
    /// In order, so that those with a beginning are found by halving.
    sorted: Vec<Vec<u8>>,
    longest: usize,
}

impl Mask {
    /// Hides these values; `None` if there is nothing to hide.
    #[must_use]
    pub fn new(values: impl IntoIterator<Item = String>) -> Option<Self> {
        let values = values.into_iter().map(String::into_bytes);
        let mut sorted: Vec<_> = values.filter(|value| !value.is_empty()).collect();
        sorted.sort_unstable();
        let longest = sorted.iter().map(Vec::len).max()?;
        let search = AhoCorasick::new(&sorted).ok()?;
        Some(Self(Arc::new(Values {
            search,
            sorted,
            longest,
        })))
    }

    /// Returns a text with the values hidden.
    #[must_use]
    pub fn cover(&self, text: &str) -> String {
        let mut masking = Masking::new(self.clone());
        let mut bytes = masking.feed(text.as_bytes());
        bytes.extend(masking.finish());
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Mask of {}", self.0.sorted.len())
    }
}

impl PartialEq for Mask {
    fn eq(&self, other: &Self) -> bool {
        self.0.sorted == other.0.sorted
    }
}

impl Eq for Mask {}

impl Values {
    /// How many bytes of the end may be the beginning of a value.
    fn open(&self, bytes: &[u8]) -> usize {
        let most = self.longest.saturating_sub(1).min(bytes.len());
        let begins = |end: &[u8]| {
            let at = self.sorted.partition_point(|value| value.as_slice() < end);
            self.sorted
                .get(at)
                .is_some_and(|value| value.starts_with(end))
        };
        let end = |length: usize| bytes.get(bytes.len().saturating_sub(length)..);
        let mut lengths = (1..=most).rev();
        lengths
            .find(|&length| end(length).is_some_and(begins))
            .unwrap_or(0)
    }
}

/// Writes the mark over a value: `[masked**]`. A value with fewer than 8 bytes becomes stars.
///
/// Tool results hide values in the same way, so that one mark is known everywhere.
fn cover(place: &mut [u8]) {
    place.fill(b'*');
    if place.len() > MARK.len()
        && let Some((last, rest)) = place.split_last_mut()
        && let Some(start) = rest.get_mut(..MARK.len())
    {
        start.copy_from_slice(MARK);
        *last = b']';
    }
}

/// Hides values in bytes that come in pieces.
#[derive(Debug)]
pub(super) struct Masking {
    mask: Mask,
    /// What is held back, as it came and as it may be shown.
    came: Vec<u8>,
    shown: Vec<u8>,
}

impl Masking {
    pub(super) const fn new(mask: Mask) -> Self {
        Self {
            mask,
            came: Vec::new(),
            shown: Vec::new(),
        }
    }

    pub(super) fn held(&self) -> usize {
        self.came.len()
    }

    /// Takes the next bytes and gives what is safe by now.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.came.extend_from_slice(bytes);
        self.shown.extend_from_slice(bytes);
        for found in self.mask.0.search.find_overlapping_iter(&self.came) {
            if let Some(place) = self.shown.get_mut(found.range()) {
                cover(place);
            }
        }
        let open = self.mask.0.open(&self.came);
        let safe = self.came.len().saturating_sub(open);
        self.came.drain(..safe);
        let held = self.shown.split_off(safe);
        std::mem::replace(&mut self.shown, held)
    }

    /// What was held back and is no value after all.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        self.came.clear();
        std::mem::take(&mut self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(values: &[&str], pieces: &[&[u8]]) -> String {
        let mask = Mask::new(values.iter().map(|&value| value.to_owned())).unwrap();
        let mut masking = Masking::new(mask);
        let mut all = Vec::new();
        for piece in pieces {
            all.extend(masking.feed(piece));
        }
        all.extend(masking.finish());
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn values_are_covered_however_they_come() {
        let values = ["hunter2hunter2", "short", "hunger", "rtshor"];
        for (text, expected) in [
            ("a hunter2hunter2 b", "a [masked******] b"),
            ("short", "*****"),
            ("shorshort", "shor*****"),
            ("hunhunger", "hun******"),
            ("hunter2hunter", "hunter2hunter"),
            // One in another's end, and the end of one that begins like another.
            ("shortshort", "**********"),
            ("hunter2hunter2short!", "[masked***********]!"),
            ("shortshox", "*****shox"),
            ("shortshorx", "*********x"),
            ("", ""),
        ] {
            let whole = masked(&values, &[text.as_bytes()]);
            assert_eq!(whole.len(), text.len());
            // Where two lie over each other, which cover is written last is no matter.
            let plain = |text: &str| text.replace(|mark| "[masked]".contains(mark), "*");
            assert_eq!(plain(&whole), plain(expected), "{text}");
            let single: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            assert_eq!(plain(&masked(&values, &single)), plain(expected), "{text}");
            for at in 0..text.len() {
                let (one, other) = text.as_bytes().split_at(at);
                assert_eq!(
                    plain(&masked(&values, &[one, other])),
                    plain(expected),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn only_what_may_go_on_is_held_back() {
        let mask = Mask::new(["secret-value".to_owned()]).unwrap();
        let mut masking = Masking::new(mask);
        assert_eq!(masking.feed(b"go on? "), b"go on? ");
        assert_eq!(masking.feed(b"se"), b"");
        assert_eq!((masking.held(), masking.feed(b"e")), (2, b"see".to_vec()));
        assert_eq!(masking.held(), 0);
        assert!(Mask::new([]).is_none() && Mask::new([String::new()]).is_none());
    }
}
