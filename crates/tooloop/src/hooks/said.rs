//! What the hooks of one event have said together.

use tooloop_kernel::AdvisedVerdict;
use tooloop_model::JsonObject;

use super::answer::{Answer, Decided};

/// What the hooks of one event have said together.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Said {
    /// Whether a call may run: a denial beats a question, a question beats a consent.
    pub(crate) verdict: Option<AdvisedVerdict>,
    /// What it is to be run with: the first that was said.
    pub(crate) input: Option<JsonObject>,
    /// Somebody objects, and why.
    pub(crate) block: Option<String>,
    /// What the model is to be told.
    pub(crate) context: Vec<String>,
    /// The turn is to end, and why.
    pub(crate) stop: Option<String>,
}

impl Said {
    /// Takes in what the next hook has said, in the order of the rules. Returns what a person should
    /// know of it.
    pub(super) fn add(&mut self, answer: Answer, source: &str) -> Option<String> {
        self.verdict = stricter(self.verdict.take(), answer.decided);
        self.block = joined(self.block.take(), answer.block);
        self.context.extend(answer.context);
        self.stop = joined(self.stop.take(), answer.stop);
        let input = answer.input?;
        match &self.input {
            None => {
                self.input = Some(input);
                None
            }
            Some(first) if first.is_same(&input, &serde_json::Value::Null) => None,
            Some(_) => Some(format!(
                "hook {source}: another hook has rewritten the input of this call already: this \
                 one's is not taken"
            )),
        }
    }
}

fn joined(one: Option<String>, other: Option<String>) -> Option<String> {
    match (one, other) {
        (Some(one), Some(other)) if one != other => Some(format!("{one}\n{other}")),
        (one, other) => one.or(other),
    }
}

fn stricter(one: Option<AdvisedVerdict>, other: Option<Decided>) -> Option<AdvisedVerdict> {
    let other = match other? {
        Decided::Allow => AdvisedVerdict::Allow,
        Decided::Ask(reason) => AdvisedVerdict::Ask { reason },
        Decided::Deny(reason) => AdvisedVerdict::Deny { reason },
    };
    let rank = |verdict: &AdvisedVerdict| match verdict {
        AdvisedVerdict::Allow => 0,
        AdvisedVerdict::Ask { .. } => 1,
        AdvisedVerdict::Deny { .. } => 2,
    };
    Some(match (one, other) {
        (None, other) => other,
        (Some(AdvisedVerdict::Deny { reason }), AdvisedVerdict::Deny { reason: more }) => {
            AdvisedVerdict::Deny {
                reason: joined(Some(reason), Some(more)).unwrap_or_default(),
            }
        }
        (Some(AdvisedVerdict::Ask { reason }), AdvisedVerdict::Ask { reason: more }) => {
            AdvisedVerdict::Ask {
                reason: joined(Some(reason), Some(more)).unwrap_or_default(),
            }
        }
        (Some(one), other) if rank(&one) >= rank(&other) => one,
        (Some(_), other) => other,
    })
}
