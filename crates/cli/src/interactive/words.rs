//! Ends, costs and counts in words.

use tooloop::{During, TurnEnd, TurnReport, Usage};

use super::paint::Style;
use super::text;
use crate::exit;

/// Why a turn ended, unless all is said.
pub(crate) fn end(end: &TurnEnd) -> Option<(Style, String)> {
    Some(match end {
        TurnEnd::Completed => return None,
        TurnEnd::MaxTurns { limit } => (
            Style::Notice,
            format!("Stopped at the limit of {limit} model calls. Say \"go on\" to go on."),
        ),
        TurnEnd::ContextLimit { message } => (
            Style::Bad,
            format!(
                "The conversation does not fit the model's window any more ({message}). /clear \
                 begins a new one."
            ),
        ),
        TurnEnd::ModelError { error, attempts } => {
            let tries = match attempts {
                0 | 1 => String::new(),
                many => format!(" Given up after {many} attempts."),
            };
            let later = error.retry_after.map_or_else(String::new, |wait| {
                format!(" The provider asks to come back in {}.", text::span(wait))
            });
            let message = error.message.trim_end_matches('.');
            (
                Style::Bad,
                format!("The model call failed: {message}.{tries}{later}"),
            )
        }
        TurnEnd::OutputLimit => (
            Style::Bad,
            "The reply was cut by the output limit, again and again.".into(),
        ),
        TurnEnd::Interrupted { during, .. } => {
            let what = match during {
                During::Model => "while the model was at work",
                During::Tools => "while tools were at work",
            };
            (Style::Notice, format!("Interrupted {what}."))
        }
        TurnEnd::Refused => (Style::Bad, "The model refused to answer.".into()),
        TurnEnd::MaxToolCalls { .. }
        | TurnEnd::Budget(_)
        | TurnEnd::Deadline { .. }
        | TurnEnd::StructuredOutputFailed { .. }
        | TurnEnd::HookStopped { .. }
        | TurnEnd::StopHookPrevented { .. } => (
            Style::Notice,
            sentence(&exit::words(end).unwrap_or_default()),
        ),
        TurnEnd::LoopDetected { times } => (
            Style::Bad,
            format!("Stopped: the same call had the same outcome {times} times in a row."),
        ),
    })
}

/// Words as a sentence.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first: String = letters
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .collect();
    format!("{first}{}.", letters.as_str())
}

/// What a turn took.
pub(crate) fn took(report: &TurnReport) -> String {
    let mut parts = vec![steps(report.steps)];
    if !report.usage.is_empty() {
        parts.push(tokens(report.usage));
    }
    if let Some(cost) = report.cost_usd {
        parts.push(text::money(cost));
    }
    parts.push(text::span(report.duration));
    format!("  {}", parts.join(" · "))
}

fn steps(steps: u32) -> String {
    match steps {
        1 => "1 step".into(),
        many => format!("{many} steps"),
    }
}

/// Tokens in words.
pub(crate) fn tokens(usage: Usage) -> String {
    let cached = match usage.cache_read_tokens {
        0 => String::new(),
        _ => {
            let percent = usage.cache_hit_percent().unwrap_or_default();
            format!(" ({percent} % from cache)")
        }
    };
    format!(
        "{} in{cached}, {} out",
        text::count(usage.input_tokens),
        text::count(usage.output_tokens)
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tooloop::{ModelError, ModelErrorKind};

    use tooloop::Interrupter;

    use super::*;

    fn report(end: TurnEnd, cost_usd: Option<f64>) -> TurnReport {
        TurnReport {
            end,
            structured_output: None,
            model_usage: Vec::new(),
            text: String::new(),
            steps: 3,
            usage: Usage {
                input_tokens: 12_345,
                output_tokens: 678,
                cache_read_tokens: 10_000,
                ..Usage::default()
            },
            cost_usd,
            duration: Duration::from_millis(12_300),
            model_duration: Duration::ZERO,
            denials: Vec::new(),
            unsent: Vec::new(),
            background: Vec::new(),
        }
    }

    #[test]
    fn a_plain_end_needs_no_words() {
        assert_eq!(end(&TurnEnd::Completed), None);
        assert_eq!(
            took(&report(TurnEnd::Completed, Some(0.0123))),
            "  3 steps · 12.3k in (81 % from cache), 678 out · $0.0123 · 12 s"
        );
        assert!(!took(&report(TurnEnd::Completed, None)).contains('$'));
    }

    #[test]
    fn every_other_end_has_words() {
        let error = ModelError {
            retry_after: Some(Duration::from_secs(90)),
            ..ModelError::new(ModelErrorKind::RateLimited, "slow down.")
        };
        let ends = [
            (TurnEnd::MaxTurns { limit: 5 }, "limit of 5 model calls"),
            (
                TurnEnd::ContextLimit {
                    message: "too long".into(),
                },
                "(too long). /clear",
            ),
            (
                TurnEnd::ModelError { error, attempts: 3 },
                "slow down. Given up after 3 attempts. The provider asks to come back in 1 min 30 s.",
            ),
            (TurnEnd::OutputLimit, "output limit"),
            (
                TurnEnd::Interrupted {
                    during: During::Model,
                    by: Interrupter::User,
                },
                "Interrupted while the model",
            ),
            (
                TurnEnd::Interrupted {
                    during: During::Tools,
                    by: Interrupter::User,
                },
                "Interrupted while tools",
            ),
            (TurnEnd::Refused, "refused"),
            (TurnEnd::LoopDetected { times: 6 }, "6 times in a row"),
        ];
        for (turn_end, words) in ends {
            let (_, shown) = end(&turn_end).unwrap();
            assert!(shown.contains(words), "{shown:?}");
        }
    }
}
