//! The machine's side that faces the ledger: what may be asked, and what it came to.

use std::sync::Arc;

use tooloop_model::{HistoryMessage, MessageBuilder, Price, Usage};

use super::Kernel;
use crate::count::Count;
use crate::ledger::{Amount, Reservation, Worst};
use crate::{Budget, Effect, Entry, Fallback, Sync, estimate};

/// Who is asked.
pub(super) struct Asked<'a> {
    pub(super) model: &'a str,
    pub(super) price: Option<Price>,
    pub(super) window: Option<u64>,
    default_cap: Option<u64>,
    escalated_cap: Option<u64>,
}

impl Kernel {
    /// Who is asked at present.
    pub(super) fn asked(&self) -> Asked<'_> {
        match (&self.settings.fallback, self.turn.fell_back) {
            (Some(fallback), true) => {
                let Fallback {
                    model,
                    max_output_tokens,
                    escalated_output_tokens,
                    window,
                    price,
                } = fallback;
                Asked {
                    model,
                    price: *price,
                    window: *window,
                    default_cap: *max_output_tokens,
                    escalated_cap: *escalated_output_tokens,
                }
            }
            (None, _) | (_, false) => Asked {
                model: &self.settings.model,
                price: self.settings.price,
                window: self.settings.window,
                default_cap: self.settings.max_output_tokens,
                escalated_cap: self.settings.escalated_output_tokens,
            },
        }
    }

    /// Whether there is a larger cap to try.
    pub(super) fn may_escalate(&self) -> bool {
        let asked = self.asked();
        !self.turn.escalated
            && asked.default_cap.is_some()
            && asked.escalated_cap > asked.default_cap
    }

    /// The output cap of the next request, as it is set.
    pub(super) fn cap(&self) -> Option<u64> {
        let asked = self.asked();
        if self.turn.escalated {
            asked.escalated_cap
        } else {
            asked.default_cap
        }
    }

    /// Sets aside what the next request can come to, with this output cap. `beside` is what it has
    /// that is no part of the conversation.
    pub(super) fn reserve(
        &self,
        cap: Option<u64>,
        beside: &[Arc<HistoryMessage>],
    ) -> Result<Reservation, Box<Budget>> {
        let asked = self.asked();
        let limits = &self.settings.limits;
        let input = if limits.spending() {
            self.most_input().saturating_add(estimate::most(beside))
        } else {
            0
        };
        let worst = Worst {
            model: asked.model,
            price: asked.price,
            input,
            cap,
        };
        self.ledger.reserve(limits, worst)
    }

    /// The tokens that a provider has counted of what the next request sends, if nothing of that has
    /// changed since.
    #[must_use]
    pub fn counted_input(&self) -> Option<u64> {
        let count = self.count().filter(Count::is_exact)?;
        Some(count.tokens)
    }

    /// The tokens that the next request likely sends.
    #[must_use]
    pub fn likely_input(&self) -> u64 {
        let messages = self.transcript.messages();
        let calibration = self.transcript.calibration();
        let rest = |from: usize| {
            let rest = messages.get(from..).unwrap_or_default();
            calibration.apply(estimate::messages(rest))
        };
        let estimated = || self.fixed().saturating_add(rest(0));
        match self.count() {
            Some(count) => {
                let counted = count
                    .likely(calibration)
                    .saturating_add(rest(count.messages));
                // A provider that found a request too long counts less than it takes.
                if calibration.is_raised() {
                    counted.max(estimated())
                } else {
                    counted
                }
            }
            None => estimated(),
        }
    }

    /// The tokens that the system prompt and the tools likely have.
    pub(super) fn fixed(&self) -> u64 {
        estimate::fixed(&self.settings.system, &self.settings.tools)
    }

    /// The most tokens that the next request can send.
    fn most_input(&self) -> u64 {
        let messages = self.transcript.messages();
        let fixed = || estimate::fixed(&self.settings.system, &self.settings.tools);
        let rest = |from: usize| estimate::most(messages.get(from..).unwrap_or_default());
        // What is spent is what the provider counts, so its count holds here even where it is
        // implausible.
        let same = self.counted_by == self.asked().model;
        match self.transcript.count().filter(|_| same) {
            Some(count) => {
                // The count is that of a request with these very definitions, or of one before the
                // resume with others.
                let anew = if self.counted { 0 } else { fixed() };
                let rest = rest(count.messages);
                count.most().saturating_add(anew).saturating_add(rest)
            }
            // Another model counts in another way.
            None => fixed().saturating_add(rest(0)),
        }
    }

    /// Books what a request came to. `whole` tells that its reply came to its end, so that what the
    /// provider says it used is all.
    pub(super) fn settle(
        &mut self,
        reservation: Reservation,
        usage: Usage,
        written: u64,
        whole: bool,
        out: &mut Vec<Effect>,
    ) {
        let input = match usage.input_tokens {
            0 => reservation.input,
            told => told,
        };
        let output = match usage.output_tokens {
            told if whole && told > 0 => told,
            told => told.max(reservation.cap.map_or(written, |cap| cap.min(written))),
        };
        self.counted |= usage.input_tokens > 0;
        let price = reservation.price;
        let limited = self.settings.limits.spending();
        let cost = price.map(|price| {
            if usage.input_tokens == 0 {
                let output = price.cost(Usage {
                    output_tokens: output,
                    ..Usage::default()
                });
                return price.dearest_input(input).saturating_add(output);
            }
            price.cost(Usage {
                output_tokens: output,
                ..usage
            })
        });
        let amount = Amount {
            tokens: input.saturating_add(output),
            cost: cost.unwrap_or_default(),
        };
        self.ledger.settle(reservation, amount);
        if amount != Amount::default() && (limited || cost.is_some()) {
            let tokens = amount.tokens;
            self.record(Entry::Spent { tokens, cost }, Sync::Soon, out);
        }
    }

    /// A reply is on record whose usage tells what the conversation comes to.
    pub(super) fn note_count(&mut self, usage: Usage, model: &str) {
        if usage.input_tokens > 0 {
            model.clone_into(&mut self.counted_by);
        }
    }

    /// Books a request of whose reply nothing is kept: what had come of it counts. `whole` tells that
    /// it came to its end.
    pub(super) fn settle_broken(
        &mut self,
        reservation: Reservation,
        builder: &MessageBuilder,
        whole: bool,
        out: &mut Vec<Effect>,
    ) {
        let written = u64::try_from(builder.written()).unwrap_or(u64::MAX);
        self.settle(reservation, builder.usage(), written, whole, out);
    }

    /// What a provider has counted of the conversation, if the model that is asked now has counted it
    /// and the count can be true.
    fn count(&self) -> Option<Count> {
        let count = self.transcript.count()?;
        (self.counted_by == self.asked().model && self.is_plausible(&count)).then_some(count)
    }

    /// Whether a count agrees with the estimate from the bytes, within a factor of four. Some servers
    /// count a part of the request only, or something else.
    fn is_plausible(&self, count: &Count) -> bool {
        let messages = self.transcript.messages();
        let counted = messages.get(..count.messages).unwrap_or(messages);
        let expected = self
            .fixed()
            .saturating_add(count.estimated_then(estimate::messages(counted)));
        let least = expected / 4;
        // Providers add words of their own.
        let most = expected.saturating_mul(4).saturating_add(2_000);
        (least..=most).contains(&count.tokens)
    }

    /// Returns the newest count of the model that is asked if it cannot be true and decides about
    /// compaction: estimates are used in its place. Below a quarter of the context window neither the
    /// count nor the estimate matters.
    #[must_use]
    pub fn implausible_count(&self) -> Option<u64> {
        let count = self.transcript.count()?;
        let same = self.counted_by == self.asked().model;
        let window = self.asked().window?;
        let estimate = self
            .fixed()
            .saturating_add(count.estimated_then(estimate::messages(self.transcript.messages())));
        let matters = count.tokens.max(estimate) >= window / 4;
        (same && matters && !self.is_plausible(&count)).then_some(count.tokens)
    }
}
