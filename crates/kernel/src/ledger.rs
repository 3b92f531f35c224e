//! What may be spent, and what was: a ceiling, not a report.
//!
//! Before each request the most that it can come to is reserved; what it did come to is settled
//! after it. What is reserved counts as spent for everybody else who shares the ledger, so that
//! the sum never passes a limit, however many spend at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tooloop_model::{Money, Price, Usage};

use crate::Budget;

/// A reply shorter than this many tokens is of no use: rather than ask for one, the turn ends.
const LEAST_OUTPUT: u64 = 16;

/// What a session may use up. `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// The most tool calls that run in a turn.
    pub tool_calls: Option<u32>,
    /// The longest that a turn may take.
    pub time: Option<Duration>,
    /// The most tokens, sent and written, of all requests of the session, those before a resume
    /// included.
    pub tokens: Option<u64>,
    /// The most money, likewise. A model whose price is not known is not asked then.
    pub cost: Option<Money>,
}

impl Limits {
    pub(crate) const fn spending(&self) -> bool {
        self.tokens.is_some() || self.cost.is_some()
    }
}

/// What was spent, shared by all who spend it: clones are the same ledger.
#[derive(Debug, Clone, Default)]
pub struct Ledger(Arc<Mutex<Books>>);

#[derive(Debug, Default)]
struct Books {
    spent: Amount,
    reserved: Amount,
}

/// So much.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) tokens: u64,
    pub(crate) cost: Money,
}

impl Amount {
    const fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            cost: self.cost.saturating_add(other.cost),
        }
    }

    const fn minus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(other.tokens),
            cost: self.cost.saturating_sub(other.cost),
        }
    }
}

/// What a request is about to use, at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Worst<'a> {
    pub(crate) model: &'a str,
    pub(crate) price: Option<Price>,
    pub(crate) input: u64,
    /// The output cap; `None` if the provider has the word.
    pub(crate) cap: Option<u64>,
}

/// What is set aside for a request. Given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    ledger: Ledger,
    amount: Amount,
    /// Who is asked, and for what price, whatever the settings are by the time of the reply.
    pub(crate) model: String,
    pub(crate) price: Option<Price>,
    pub(crate) input: u64,
    /// The output cap with which the request keeps to it.
    pub(crate) cap: Option<u64>,
    /// Whether that is less than was wanted.
    pub(crate) shrunk: bool,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut books = self.ledger.books();
        books.reserved = books.reserved.minus(self.amount);
    }
}

impl Ledger {
    /// The tokens and the money that were spent.
    #[must_use]
    pub fn spent(&self) -> (u64, Money) {
        let spent = self.books().spent;
        (spent.tokens, spent.cost)
    }

    /// Books what was spent without this ledger: it counts as spent from now on.
    pub fn book(&self, tokens: u64, cost: Money) {
        self.charge(Amount { tokens, cost });
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn charge(&self, amount: Amount) {
        let mut books = self.books();
        books.spent = books.spent.plus(amount);
    }

    /// Sets aside what the request can come to, its output cap made smaller if need be.
    pub(crate) fn reserve(
        &self,
        limits: &Limits,
        worst: Worst<'_>,
    ) -> Result<Reservation, Box<Budget>> {
        let mut books = self.books();
        let taken = books.spent.plus(books.reserved);
        let Worst { price, input, .. } = worst;
        let least = worst.cap.unwrap_or(u64::MAX).min(LEAST_OUTPUT);
        let mut cap = worst.cap;
        if let Some(limit) = limits.tokens {
            let left = limit.saturating_sub(taken.tokens);
            let next = input.saturating_add(least);
            if next > left {
                let spent = taken.tokens;
                return Err(Box::new(Budget::Tokens { limit, spent, next }));
            }
            let fits = left.saturating_sub(input);
            cap = Some(cap.map_or(fits, |cap| cap.min(fits)));
        }
        if let Some(limit) = limits.cost {
            let Some(price) = price else {
                let model = worst.model.to_owned();
                return Err(Box::new(Budget::UnknownPrice { model }));
            };
            let left = limit.saturating_sub(taken.cost);
            let next = most(&price, input, least);
            if next > left {
                let spent = taken.cost;
                return Err(Box::new(Budget::Cost { limit, spent, next }));
            }
            // What rounding up may add is left out of it.
            let for_output = left
                .saturating_sub(price.dearest_input(input))
                .saturating_sub(Money(1));
            if let Some(fits) = price.output_for(for_output) {
                let fits = fits.max(least);
                cap = Some(cap.map_or(fits, |cap| cap.min(fits)));
            }
        }
        let output = cap.unwrap_or(0);
        let amount = Amount {
            tokens: input.saturating_add(output),
            cost: price.map_or(Money(0), |price| most(&price, input, output)),
        };
        books.reserved = books.reserved.plus(amount);
        drop(books);
        Ok(Reservation {
            ledger: self.clone(),
            amount,
            model: worst.model.to_owned(),
            price,
            input,
            cap,
            shrunk: cap < worst.cap || (worst.cap.is_none() && cap.is_some()),
        })
    }

    /// Gives the reservation back and books what the request came to.
    pub(crate) fn settle(&self, mut reservation: Reservation, amount: Amount) {
        let mut books = self.books();
        books.spent = books.spent.plus(amount);
        // In one go: nobody else sees neither of the two.
        books.reserved = books
            .reserved
            .minus(std::mem::take(&mut reservation.amount));
    }
}

/// The most that so many tokens can cost.
fn most(price: &Price, input: u64, output: u64) -> Money {
    let output = price.cost(Usage {
        output_tokens: output,
        ..Usage::default()
    });
    price.dearest_input(input).saturating_add(output)
}

#[cfg(test)]
mod tests {
    use tooloop_model::{Money, Price};

    use super::{Amount, Ledger, Limits, Worst, most};
    use crate::Budget;

    const WORST: Worst<'static> = Worst {
        model: "m",
        price: None,
        input: 60,
        cap: Some(20),
    };

    fn limits(tokens: u64) -> Limits {
        Limits {
            tokens: Some(tokens),
            ..Limits::default()
        }
    }

    #[test]
    fn dropped_reservation_returns_its_tokens() -> Result<(), Box<Budget>> {
        let ledger = Ledger::default();
        let first = ledger.reserve(&limits(100), WORST)?;
        assert!(
            ledger.reserve(&limits(100), WORST).is_err(),
            "the first reservation leaves 20 tokens of 100"
        );
        drop(first);
        let second = ledger.reserve(&limits(100), WORST)?;
        assert_eq!(second.cap, Some(20), "nothing is reserved any more");
        assert_eq!(ledger.spent(), (0, Money(0)));
        Ok(())
    }

    #[test]
    fn a_limit_may_be_reached_exactly() {
        let ledger = Ledger::default();
        // The input and the least output.
        assert!(ledger.reserve(&limits(76), WORST).is_ok());
        assert!(ledger.reserve(&limits(75), WORST).is_err());
        let price = Price {
            input: 1.0,
            output: 2.0,
            cache_read: 1.0,
            cache_write: 1.0,
        };
        let worst = || Worst {
            price: Some(price),
            ..WORST
        };
        let next = most(&price, 60, 16);
        for (cost, fits) in [(next, true), (Money(next.0 - 1), false)] {
            let limits = Limits {
                cost: Some(cost),
                ..Limits::default()
            };
            assert_eq!(ledger.reserve(&limits, worst()).is_ok(), fits, "{cost:?}");
        }
    }

    #[test]
    fn settled_reservation_costs_its_usage_only() -> Result<(), Box<Budget>> {
        let ledger = Ledger::default();
        let reservation = ledger.reserve(&limits(100), WORST)?;
        let usage = Amount {
            tokens: 15,
            cost: Money(3),
        };
        ledger.settle(reservation, usage);
        assert_eq!(ledger.spent(), (15, Money(3)));
        let next = ledger.reserve(&limits(100), WORST)?;
        assert_eq!(next.cap, Some(20), "85 tokens are left");
        Ok(())
    }

    #[test]
    fn booked_usage_counts_against_the_limit() {
        let ledger = Ledger::default();
        ledger.book(30, Money(7));
        ledger.book(10, Money(1));
        assert_eq!(ledger.spent(), (40, Money(8)));
        let budget = ledger.reserve(&limits(100), WORST).err();
        assert_eq!(
            budget,
            Some(Box::new(Budget::Tokens {
                limit: 100,
                spent: 40,
                next: 76
            }))
        );
    }
}
