//! What providers have counted of a conversation, and how far the estimate of the rest is out.

use std::sync::Arc;

use tooloop_model::HistoryMessage;

use crate::estimate;

/// What a provider has counted of a conversation, and what has changed in it since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count {
    /// The tokens that it told.
    pub(crate) tokens: u64,
    /// For how many messages from the beginning, as they are now.
    pub(crate) messages: usize,
    /// The tokens that what is no part of it any more likely had.
    removed: u64,
    /// The tokens that what stands in its place likely has, and has at most.
    added: u64,
    added_most: u64,
}

impl Count {
    pub(crate) const fn new(tokens: u64, messages: usize) -> Self {
        Self {
            tokens,
            messages,
            removed: 0,
            added: 0,
            added_most: 0,
        }
    }

    /// The oldest `cut` messages, which likely had `removed` tokens, have another one in their place.
    /// `None` if more is gone than was counted.
    pub(crate) fn replaced(
        self,
        cut: usize,
        removed: u64,
        instead: &Arc<HistoryMessage>,
    ) -> Option<Self> {
        let left = self.messages.checked_sub(cut)?;
        let instead = std::slice::from_ref(instead);
        Some(Self {
            messages: left.saturating_add(1),
            removed: self.removed.saturating_add(removed),
            added: self.added.saturating_add(estimate::messages(instead)),
            added_most: self.added_most.saturating_add(estimate::most(instead)),
            ..self
        })
    }

    /// Of what was counted, this much is gone.
    pub(crate) const fn shortened(self, removed: u64) -> Self {
        Self {
            removed: self.removed.saturating_add(removed),
            ..self
        }
    }

    /// What was counted likely had so many tokens, if it likely has so many now.
    pub(crate) const fn estimated_then(&self, now: u64) -> u64 {
        now.saturating_add(self.removed).saturating_sub(self.added)
    }

    /// Whether nothing has changed since it was counted.
    pub(crate) const fn is_exact(&self) -> bool {
        self.removed == 0 && self.added == 0
    }

    /// The tokens that what was counted likely has now.
    pub(crate) fn likely(&self, calibration: Calibration) -> u64 {
        self.tokens
            .saturating_sub(calibration.apply(self.removed))
            .saturating_add(calibration.apply(self.added))
    }

    /// The tokens that it has at most.
    pub(crate) const fn most(&self) -> u64 {
        self.tokens.saturating_add(self.added_most)
    }
}

/// How far the estimate is out: what providers counted, against what was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calibration {
    /// What an estimated token is in the provider's tokens, in thousandths.
    per_mille: u64,
    /// It is not taken to be less than this.
    least: u64,
    /// The sum of how far each expectation was out, and of what was counted.
    error: u64,
    counted: u64,
}

impl Default for Calibration {
    fn default() -> Self {
        Self {
            per_mille: 1000,
            least: 0,
            error: 0,
            counted: 0,
        }
    }
}

/// Too little to learn from.
const LEAST: u64 = 100;

impl Calibration {
    /// The estimate, corrected by what was learnt.
    #[must_use]
    pub const fn apply(self, estimated: u64) -> u64 {
        estimated.saturating_mul(self.in_force()) / 1000
    }

    const fn in_force(self) -> u64 {
        if self.per_mille < self.least {
            self.least
        } else {
            self.per_mille
        }
    }

    /// A provider refused a request as too long: what it counts is less than what it takes, and no
    /// estimate is lowered by it from now on.
    pub(crate) const fn raise(&mut self) {
        self.least = 1000;
    }

    /// Whether a provider has refused a request as too long.
    pub(crate) const fn is_raised(self) -> bool {
        self.least > 0
    }

    /// What comes to so many tokens once it is corrected.
    pub(crate) fn undo(self, tokens: u64) -> u64 {
        let scaled = tokens.saturating_mul(1000).checked_div(self.in_force());
        scaled.unwrap_or(tokens)
    }

    /// What an estimated token is in the provider's tokens.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "at most a few thousand thousandths"
    )]
    pub const fn factor(self) -> f64 {
        self.in_force() as f64 / 1000.0
    }

    /// How far expectations were out, in percent of what was counted; `None` before the first.
    #[must_use]
    pub fn error_percent(self) -> Option<u64> {
        self.error.saturating_mul(100).checked_div(self.counted)
    }

    /// What was estimated at so many tokens, uncorrected, was counted as so many.
    pub(crate) fn learn(&mut self, estimated: u64, counted: u64) {
        // What is far from any estimate is no count of these messages.
        let plausible = estimated / 4..=estimated.saturating_mul(4);
        if estimated < LEAST || counted == 0 || !plausible.contains(&counted) {
            return;
        }
        self.error = self
            .error
            .saturating_add(self.apply(estimated).abs_diff(counted));
        self.counted = self.counted.saturating_add(counted);
        let ratio = (counted.saturating_mul(1000) / estimated).clamp(400, 4_000);
        self.per_mille = self.per_mille.saturating_mul(3).saturating_add(ratio) / 4;
    }
}

#[cfg(test)]
mod tests {
    use tooloop_model::{Content, Message};

    use super::*;

    fn learnt(pairs: &[(u64, u64)]) -> Calibration {
        let mut calibration = Calibration::default();
        for (estimated, counted) in pairs {
            calibration.learn(*estimated, *counted);
        }
        calibration
    }

    #[test]
    fn a_count_moves_the_factor_by_a_quarter() {
        let calibration = learnt(&[(1000, 2000)]);
        assert!((calibration.factor() - 1.25).abs() < f64::EPSILON);
        assert_eq!(calibration.apply(1000), 1250);
        assert_eq!(calibration.undo(1250), 1000);
        assert_eq!(calibration.error_percent(), Some(50));
        // The error is that of the corrected estimate: 750 of 4000 counted in all.
        let calibration = learnt(&[(1000, 2000), (1000, 2000)]);
        assert_eq!(calibration.error_percent(), Some(43));
    }

    #[test]
    fn implausible_counts_teach_nothing() {
        for pair in [(99, 100), (1000, 0), (1000, 249), (1000, 4001)] {
            assert_eq!(learnt(&[pair]), Calibration::default(), "{pair:?}");
            assert_eq!(learnt(&[pair]).error_percent(), None);
        }
        for pair in [(100, 100), (1000, 250), (1000, 4000)] {
            assert!(learnt(&[pair]).error_percent().is_some(), "{pair:?}");
        }
    }

    #[test]
    fn a_refused_request_lowers_no_estimate() {
        let mut calibration = learnt(&[(1000, 500)]);
        assert!((calibration.factor() - 0.875).abs() < f64::EPSILON);
        assert!(!calibration.is_raised());
        calibration.raise();
        assert!(calibration.is_raised());
        assert!((calibration.factor() - 1.0).abs() < f64::EPSILON);
        assert_eq!(calibration.apply(1000), 1000);
    }

    #[test]
    fn a_count_follows_what_is_replaced() {
        let text = vec![Content::Text("a".repeat(350))];
        let instead = Arc::new(HistoryMessage::new(Message::User(text)));
        let one = std::slice::from_ref(&instead);
        let (likely, most) = (estimate::messages(one), estimate::most(one));
        let count = Count::new(1000, 5);
        assert!(count.is_exact());
        assert_eq!(count.replaced(6, 1, &instead), None);
        let replaced = count.replaced(3, 200, &instead).unwrap_or(count);
        assert_eq!(replaced.messages, 3);
        assert!(!replaced.is_exact());
        assert_eq!(replaced.likely(Calibration::default()), 800 + likely);
        assert_eq!(replaced.most(), 1000 + most);
        assert_eq!(replaced.estimated_then(500), 700 - likely);
        let shortened = count.shortened(50).shortened(10);
        assert!(!shortened.is_exact());
        assert_eq!(shortened.likely(Calibration::default()), 940);
        let added = count.replaced(0, 0, &instead);
        assert!(added.is_some_and(|added| !added.is_exact()));
        let twice = replaced.replaced(1, 100, &instead).unwrap_or(count);
        assert_eq!(twice.likely(Calibration::default()), 700 + 2 * likely);
        assert_eq!(twice.most(), 1000 + 2 * most);
    }
}
