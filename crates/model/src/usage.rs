//! Token counts.

use serde::{Deserialize, Serialize};

/// What one or more model calls used, in tokens.
///
/// `input_tokens` counts the whole prompt: what was read from the provider's cache and what was
/// written to it are parts of it, not additions to it. `output_tokens` counts all that the model
/// wrote, reasoning included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// The whole prompt.
    pub input_tokens: u64,
    /// All that was written.
    pub output_tokens: u64,
    /// The part of the prompt that the provider had in its cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_read_tokens: u64,
    /// The part of the prompt that the provider put into its cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
    /// The part of the output that is reasoning, where the provider says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde asks for"
)]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Usage {
    /// Adds another call's counts.
    pub fn add(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cache_read_tokens = self
            .cache_read_tokens
            .saturating_add(other.cache_read_tokens);
        self.cache_write_tokens = self
            .cache_write_tokens
            .saturating_add(other.cache_write_tokens);
        self.reasoning_tokens = match (self.reasoning_tokens, other.reasoning_tokens) {
            (Some(one), Some(two)) => Some(one.saturating_add(two)),
            (one, two) => one.or(two),
        };
    }

    /// What came on top of an earlier sum.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(earlier.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(earlier.output_tokens),
            cache_read_tokens: self
                .cache_read_tokens
                .saturating_sub(earlier.cache_read_tokens),
            cache_write_tokens: self
                .cache_write_tokens
                .saturating_sub(earlier.cache_write_tokens),
            reasoning_tokens: match (self.reasoning_tokens, earlier.reasoning_tokens) {
                (Some(all), Some(before)) => Some(all.saturating_sub(before)),
                (all, _) => all,
            },
        }
    }

    /// The part of the prompt that the provider had in its cache, in percent; `None` if there was no
    /// prompt.
    #[must_use]
    pub fn cache_hit_percent(&self) -> Option<u64> {
        let hits = u128::from(self.cache_read_tokens.min(self.input_tokens)) * 100;
        let percent = hits.checked_div(self.input_tokens.into())?;
        u64::try_from(percent).ok()
    }

    /// Whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_a_part_of_the_prompt() {
        let usage = |input_tokens, cache_read_tokens| Usage {
            input_tokens,
            cache_read_tokens,
            ..Usage::default()
        };
        assert_eq!(usage(0, 0).cache_hit_percent(), None);
        assert_eq!(usage(1000, 999).cache_hit_percent(), Some(99));
        assert_eq!(usage(u64::MAX, u64::MAX).cache_hit_percent(), Some(100));
    }
}
