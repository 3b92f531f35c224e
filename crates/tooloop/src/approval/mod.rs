//! Who is asked about calls that no rule decides.

mod answer;
mod tool;

pub use answer::{Destination, PermissionAnswer, PermissionChange, PermissionUpdate};
pub use tool::ToolApprover;

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tooloop_model::{JsonObject, ToolUse};
use tooloop_policy::{AskCause, Rule};

/// A call that somebody must decide about.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Its number within the session and its subagents.
    pub ask: u64,
    /// The subagent that makes the call, if it is one.
    pub agent: Option<String>,
    /// The call.
    pub tool_use: ToolUse,
    /// Why it is asked.
    pub reason: String,
    /// What kind of reason that is; `None` if it is not the policy that asks.
    pub cause: Option<AskCause>,
    /// The exact rules that [`Reply::AllowForSession`] adds; empty if there are none that would
    /// cover just this. Who answers may keep them for later sessions: the library keeps nothing.
    pub rules: Vec<Rule>,
    /// The rules that a no adds to those that deny, for the rest of the session; empty if a no holds
    /// for this call alone.
    pub denying: Vec<Rule>,
}

/// What is said to a [`Question`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// This once.
    Allow,
    /// This call, and the very same ones for the rest of the session.
    AllowForSession,
    /// This call, in the way that is said there.
    AllowWith(Allowance),
    /// No, with a reason that reaches the model.
    Deny {
        /// Why not.
        reason: String,
    },
    /// No, with a reason that reaches the model; and the turn ends.
    DenyAndStop {
        /// Why not.
        reason: String,
    },
}

/// What goes along with a yes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowance {
    /// What the call runs with in place of what the model wrote. It is judged again: what a rule
    /// denies stays denied. It is on record beside what the model wrote.
    pub input: Option<JsonObject>,
    /// Rules that allow later calls of the session.
    pub rules: Vec<Rule>,
}

/// Answers questions. A person at a terminal, a rule engine and another model are all of this kind.
pub trait Approver: Send + Sync {
    /// Decides. Dropped without an answer if the turn is interrupted meanwhile.
    fn decide(&self, question: Question) -> BoxFuture<'static, Reply>;
}

/// Who is asked.
#[derive(Clone, Default)]
pub enum Approval {
    /// Nobody: what would be asked is denied, with words.
    #[default]
    Nobody,
    /// Somebody.
    By(Arc<dyn Approver>),
}

impl Approval {
    /// The future that brings the reply.
    pub(crate) fn ask(&self, question: Question) -> BoxFuture<'static, Reply> {
        match self {
            Self::Nobody => Box::pin(std::future::ready(Reply::Deny {
                reason: format!("{}, and there is nobody to ask", question.reason),
            })),
            Self::By(approver) => approver.decide(question),
        }
    }
}

impl fmt::Debug for Approval {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Nobody => "Nobody",
            Self::By(_) => "By(..)",
        })
    }
}
