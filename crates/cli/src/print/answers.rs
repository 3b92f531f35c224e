//! Prompts of a headless run that are for us and not for the model: `/compact`, `/context`, `/cost`.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tooloop::{Compacted, CostReport, Session, SessionError, Usage};

use crate::output::Output;
use crate::window::{self, Asked};

/// What such a prompt came to.
pub(crate) struct Answer {
    /// In words.
    pub(crate) text: String,
    /// What its record has beside.
    pub(crate) fields: Map<String, Value>,
    /// What it used of a model.
    pub(crate) usage: Usage,
    /// What that cost; `None` if the price is not known.
    pub(crate) cost_usd: Option<f64>,
    pub(crate) duration: Duration,
}

impl Answer {
    /// Does what was asked for. Summing up ends by itself, or by an interrupt of the session.
    pub(super) async fn to(asked: Asked, session: &Session) -> Result<Self, SessionError> {
        let begun = Instant::now();
        let mut before = None;
        let (text, key, value) = match asked {
            Asked::Compact(focus) => {
                before = Some(session.cost().await?);
                let done = session.compact(focus).await?;
                let Compacted { before, after } = done;
                let tokens = json!({ "pre_tokens": before, "post_tokens": after });
                (window::compacted(done), "compaction", tokens)
            }
            Asked::Context => {
                let context = session.context().await?;
                let lines = window::context_lines(&context).join("\n");
                (lines, "context", window::context_json(&context))
            }
            Asked::Cost => {
                let cost = session.cost().await?;
                let lines = window::cost_lines(&cost).join("\n");
                (lines, "cost", window::cost_json(&cost))
            }
        };
        let (usage, cost_usd) = match before {
            Some(before) => since(&before, &session.cost().await?),
            None => (Usage::default(), Some(0.0)),
        };
        Ok(Self {
            text,
            fields: Map::from_iter([(key.to_owned(), value)]),
            usage,
            cost_usd,
            duration: begun.elapsed(),
        })
    }

    pub(super) async fn tell(self, output: &Output) {
        output.write((self.text + "\n").into_bytes()).await;
    }
}

fn since(before: &CostReport, after: &CostReport) -> (Usage, Option<f64>) {
    let cost = match (before.cost_usd, after.cost_usd) {
        (Some(before), Some(after)) => Some((after - before).max(0.0)),
        (None, _) | (_, None) => None,
    };
    (after.usage.since(before.usage), cost)
}
