//! Whether and when a failed model call is tried again.

use std::time::Duration;

use tooloop_model::ModelError;

/// How failed model calls are tried again. Bounded by the number of requests and by the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The first wait; doubles with each failure.
    pub base: Duration,
    /// The longest wait of our own choosing.
    pub max_wait: Duration,
    /// How much longer a wait may be made by chance, in percent of it.
    pub jitter_percent: u32,
    /// The most requests, the first included.
    pub max_attempts: u32,
    /// The most time from the first failure to the start of the last request.
    pub max_total: Duration,
    /// The longest wait that a provider may ask for; a longer one ends the turn.
    pub max_server_wait: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(500),
            max_wait: Duration::from_secs(32),
            jitter_percent: 25,
            max_attempts: 10,
            max_total: Duration::from_secs(300),
            max_server_wait: Duration::from_secs(60),
        }
    }
}

/// What is to be done about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Try again after this time.
    After(Duration),
    /// Give up.
    No,
}

impl RetryPolicy {
    /// Decides about the failure of the request number `attempt` (from 1), `spent` after the first
    /// failure. `chance` spreads the waits.
    #[must_use]
    pub fn decide(&self, error: &ModelError, attempt: u32, spent: Duration, chance: u16) -> Retry {
        if !error.kind.is_retryable() || attempt >= self.max_attempts {
            return Retry::No;
        }
        let wait = match error.retry_after {
            Some(asked) if asked > self.max_server_wait => return Retry::No,
            Some(asked) => asked,
            None => self.own_wait(attempt, chance),
        };
        if spent.saturating_add(wait) > self.max_total {
            return Retry::No;
        }
        Retry::After(wait)
    }

    fn own_wait(&self, attempt: u32, chance: u16) -> Duration {
        let doublings = attempt.saturating_sub(1).min(31);
        let wait = self
            .base
            .saturating_mul(1_u32 << doublings)
            .min(self.max_wait);
        let most = wait.saturating_mul(self.jitter_percent) / 100;
        wait.saturating_add(most.saturating_mul(u32::from(chance)) / u32::from(u16::MAX))
    }
}

#[cfg(test)]
mod tests {
    use tooloop_model::ModelErrorKind;

    use super::*;

    fn failure(kind: ModelErrorKind, retry_after: Option<u64>) -> ModelError {
        ModelError {
            retry_after: retry_after.map(Duration::from_secs),
            ..ModelError::new(kind, "x")
        }
    }

    fn waits(chance: u16) -> Vec<u128> {
        let policy = RetryPolicy::default();
        let error = failure(ModelErrorKind::Overloaded, None);
        (1..=10)
            .map_while(
                |attempt| match policy.decide(&error, attempt, Duration::ZERO, chance) {
                    Retry::After(wait) => Some(wait.as_millis()),
                    Retry::No => None,
                },
            )
            .collect()
    }

    #[test]
    fn waits_double_to_a_cap_and_ten_requests_are_all() {
        let plain = [500, 1000, 2000, 4000, 8000, 16000, 32000, 32000, 32000];
        assert_eq!(waits(0), plain);
        assert_eq!(waits(u16::MAX), plain.map(|wait| wait * 5 / 4));
    }

    #[test]
    fn the_provider_decides_up_to_its_cap() {
        let policy = RetryPolicy::default();
        let decide = |seconds| {
            let error = failure(ModelErrorKind::RateLimited, Some(seconds));
            policy.decide(&error, 1, Duration::ZERO, 9)
        };
        assert_eq!(decide(0), Retry::After(Duration::ZERO));
        assert_eq!(decide(60), Retry::After(Duration::from_secs(60)));
        assert_eq!(decide(61), Retry::No);
        assert_eq!(decide(u64::MAX), Retry::No);
    }

    #[test]
    fn the_whole_time_is_bounded() {
        let policy = RetryPolicy::default();
        let error = failure(ModelErrorKind::Server, None);
        let spent = Duration::from_millis(299_600);
        assert_eq!(policy.decide(&error, 1, spent, 0), Retry::No);
    }

    #[test]
    fn what_cannot_get_better_is_not_tried_again() {
        let policy = RetryPolicy::default();
        for kind in [
            ModelErrorKind::Auth,
            ModelErrorKind::BadRequest,
            ModelErrorKind::Certificate,
            ModelErrorKind::ContextTooLong,
        ] {
            assert_eq!(
                policy.decide(&failure(kind, None), 1, Duration::ZERO, 0),
                Retry::No
            );
        }
    }
}
