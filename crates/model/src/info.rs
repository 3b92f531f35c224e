//! What is known of a model.

/// A model's window, caps and prices.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    /// The whole window in tokens, input and output together.
    pub context_window: u64,
    /// The most tokens that one reply may have.
    pub max_output_tokens: u64,
    /// What a token costs; `None` if that is not known.
    pub price: Option<Price>,
    /// Whether it takes pictures.
    pub images: bool,
}

/// Prices in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Input that no cache holds.
    pub input: f64,
    /// Output, reasoning included.
    pub output: f64,
    /// Input read from the provider's cache.
    pub cache_read: f64,
    /// Input written to the provider's cache.
    pub cache_write: f64,
}

impl Price {
    /// What `usage` costs, in US dollars.
    #[must_use]
    pub fn cost(&self, usage: crate::Usage) -> f64 {
        let fresh = usage
            .input_tokens
            .saturating_sub(usage.cache_read_tokens)
            .saturating_sub(usage.cache_write_tokens);
        let parts = [
            (fresh, self.input),
            (usage.cache_read_tokens, self.cache_read),
            (usage.cache_write_tokens, self.cache_write),
            (usage.output_tokens, self.output),
        ];
        parts
            .iter()
            .map(|&(tokens, price)| as_float(tokens) * price / 1e6)
            .sum()
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "token counts stay far below 2^52"
)]
const fn as_float(tokens: u64) -> f64 {
    tokens as f64
}
