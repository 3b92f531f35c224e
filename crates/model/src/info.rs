//! What is known of a model.

use std::fmt;

use serde::{Deserialize, Serialize};

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
    /// Whether its provider can hold an answer to a JSON schema ([`crate::Request::output_schema`]).
    pub structured_output: bool,
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
    /// What `usage` costs, rounded up.
    #[must_use]
    pub fn cost(&self, usage: crate::Usage) -> Money {
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
        let cost = parts.iter().fold(0_u128, |sum, &(tokens, price)| {
            let part = u128::from(tokens).saturating_mul(pico_per_token(price).into());
            sum.saturating_add(part)
        });
        Money(u64::try_from(cost.div_ceil(1000)).unwrap_or(u64::MAX))
    }

    /// The dearest that this many tokens of input can be, whatever the caches do.
    #[must_use]
    pub fn dearest_input(&self, tokens: u64) -> Money {
        let dearest = self.input.max(self.cache_write).max(self.cache_read);
        let price = Self {
            input: dearest,
            ..*self
        };
        price.cost(crate::Usage {
            input_tokens: tokens,
            ..crate::Usage::default()
        })
    }

    /// How many tokens of output this much pays for; `None` if output is free.
    #[must_use]
    pub fn output_for(&self, money: Money) -> Option<u64> {
        let price = pico_per_token(self.output);
        let tokens = (u128::from(money.0) * 1000).checked_div(price.into())?;
        Some(u64::try_from(tokens).unwrap_or(u64::MAX))
    }
}

/// A millionth of a dollar for a million tokens is a millionth of a millionth for one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a price out of range becomes the nearest one that is in it"
)]
const fn pico_per_token(dollars_per_million: f64) -> u64 {
    (dollars_per_million * 1e6).round() as u64
}

/// An amount of money in billionths of a US dollar.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Money(pub u64);

impl Money {
    /// An amount in dollars, to the nearest billionth; `None` if it is negative, no number, or
    /// beyond some eighteen billion.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is looked at"
    )]
    pub fn usd(dollars: f64) -> Option<Self> {
        let nano = (dollars * 1e9).round();
        (0.0..1.8e19).contains(&nano).then_some(Self(nano as u64))
    }

    /// In dollars.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "what is lost beyond four million dollars is less than a billionth of them"
    )]
    pub const fn as_usd(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The sum, at most the largest amount.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, at least nothing.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Money {
    /// `$0.0123`: at least two places, at most six, rounded up so that what is left is never
    /// overstated.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micro = self.0.div_ceil(1000);
        let (dollars, micro) = (micro / 1_000_000, micro % 1_000_000);
        let places = format!("{micro:06}");
        let kept = places.trim_end_matches('0').len().max(2);
        let places: String = places.chars().take(kept).collect();
        write!(formatter, "${dollars}.{places}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Usage;

    const PRICE: Price = Price {
        input: 3.0,
        output: 15.0,
        cache_read: 0.3,
        cache_write: 3.75,
    };

    #[test]
    fn each_part_of_the_input_has_its_price() {
        let usage = Usage {
            input_tokens: 1_000,
            output_tokens: 100,
            cache_read_tokens: 600,
            cache_write_tokens: 300,
            ..Usage::default()
        };
        // 100 x 3 + 600 x 0.3 + 300 x 3.75 + 100 x 15, in millionths.
        assert_eq!(PRICE.cost(usage), Money(3_105_000));
        assert_eq!(PRICE.dearest_input(1_000), Money(3_750_000));
    }

    #[test]
    fn what_output_it_pays_for_costs_no_more() {
        let tokens = PRICE.output_for(Money(1_000_000)).unwrap();
        assert_eq!(tokens, 66);
        let free = Price {
            output: 0.0,
            ..PRICE
        };
        assert_eq!(free.output_for(Money(1)), None);
    }

    #[test]
    fn money_reads_as_money() {
        let told = |nano| Money(nano).to_string();
        assert_eq!(told(0), "$0.00");
        assert_eq!(told(1), "$0.000001");
        assert_eq!(told(2_500_000_000), "$2.50");
        assert_eq!(told(10_200_000), "$0.0102");
        assert_eq!(Money::usd(0.02), Some(Money(20_000_000)));
        for none in [-0.01, f64::NAN, f64::INFINITY, 1e30] {
            assert_eq!(Money::usd(none), None);
        }
    }
}
