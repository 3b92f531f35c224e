//! Prompts of a headless run that are for us and not for the model: `/compact`, `/context`, `/cost`.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tooloop::{Compacted, Session, SessionError, Spending};

use super::complain;
use crate::exit::Status;
use crate::output::Output;
use crate::window::{self, Asked};

/// What such a prompt came to.
pub(crate) struct Answer {
    /// In words; why it was not done, if it was not.
    pub(crate) words: Result<String, String>,
    /// What its record has beside.
    pub(crate) fields: Map<String, Value>,
    /// What it spent on model calls.
    pub(crate) spent: Spending,
    pub(crate) duration: Duration,
}

impl Answer {
    /// Does what was asked for. Summing up ends by itself, or by an interrupt of the session.
    pub(super) async fn to(asked: Asked, session: &Session) -> Result<Self, SessionError> {
        let begun = Instant::now();
        let mut before = None;
        let (words, key, value) = match asked {
            Asked::Compact(focus) => {
                before = Some(session.own_cost().await?);
                match session.compact(focus).await {
                    Ok(done) => {
                        let Compacted { before, after } = done;
                        let tokens = json!({ "pre_tokens": before, "post_tokens": after });
                        (Ok(window::compacted(done)), "compaction", tokens)
                    }
                    // A summary that is of no use is paid for too.
                    Err(error @ SessionError::NotCompacted(_)) => {
                        (Err(error.to_string()), "compaction", Value::Null)
                    }
                    Err(error) => return Err(error),
                }
            }
            Asked::Context => {
                let context = session.context().await?;
                let lines = window::context_lines(&context).join("\n");
                (Ok(lines), "context", window::context_json(&context))
            }
            Asked::Cost => {
                let cost = session.cost().await?;
                let lines = window::cost_lines(&cost).join("\n");
                (Ok(lines), "cost", window::cost_json(&cost))
            }
        };
        let spent = match before {
            Some(before) => session.own_cost().await?.since(before),
            None => Spending::default(),
        };
        Ok(Self {
            words,
            fields: Map::from_iter([(key.to_owned(), value)]),
            spent,
            duration: begun.elapsed(),
        })
    }

    pub(super) const fn status(&self) -> Status {
        match self.words {
            Ok(_) => Status::Done,
            Err(_) => Status::NotCompacted,
        }
    }

    pub(super) async fn tell(self, output: &Output) {
        match self.words {
            Ok(text) => output.write((text + "\n").into_bytes()).await,
            Err(words) => complain(&words),
        }
    }
}
