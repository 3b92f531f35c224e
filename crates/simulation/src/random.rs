//! Chance that comes out the same twice.

use std::cell::Cell;

/// Random numbers from a seed (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        self.next() % if bound == 0 { 1 } else { bound }
    }

    /// A number from `low` to `high`, both included.
    pub(crate) const fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Whether something happens that does so in `percent` of a hundred cases.
    pub(crate) const fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of several, each as often as its weight says.
    pub(crate) fn weighted<T: Clone>(&mut self, choices: &[(u64, T)]) -> T {
        let sum = choices.iter().map(|(weight, _)| weight).sum();
        let mut place = self.below(sum);
        for (weight, choice) in choices {
            if place < *weight {
                return choice.clone();
            }
            place -= weight;
        }
        unreachable!("the place is below the sum of the weights")
    }

    /// Several of a kind.
    pub(crate) fn many<T>(
        &mut self,
        low: u64,
        high: u64,
        mut make: impl FnMut(&mut Self) -> T,
    ) -> Vec<T> {
        (0..self.range(low, high)).map(|_| make(self)).collect()
    }
}

thread_local! {
    static CHANCE: Cell<u64> = const { Cell::new(0) };
}

/// Begins the numbers of [`chance`] anew.
pub(crate) fn begin_chance(seed: u64) {
    CHANCE.set(seed);
}

/// What spreads the retries in a simulated world. A world is one thread.
pub(crate) fn chance() -> u16 {
    let mut random = Random::new(CHANCE.get());
    let number = random.next();
    CHANCE.set(random.0);
    u16::try_from(number >> 48).unwrap_or(0)
}
