//! The laws, and what it looks like when one is broken.

use std::fmt;

/// A law of the house.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Law {
    /// Each tool use is answered once, in order, in the next message.
    Pairing,
    /// Nothing is done that is not on record, and nothing with effects that is not durable.
    RecordFirst,
    /// What is live is the fold of what is stored.
    OneFold,
    /// What is stale changes nothing.
    Stale,
    /// A call with effects runs once, in its place, from a message that is complete.
    OnceOnly,
    /// What is not allowed does not run.
    Permission,
    /// A call gets no more access than it was judged with.
    Access,
    /// No more is spent than was allowed.
    Ceiling,
    /// What is told is true: to the model, to the user, on record.
    Truth,
    /// Every wait has a bound, and nothing is left behind.
    Bounds,
    /// Each turn has one end and one report.
    Report,
    /// Nothing of ours panics.
    Panic,
    /// A law that is broken on purpose, to see that it is found.
    Planted,
}

impl fmt::Display for Law {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Pairing => "each tool use is answered once, in order, in the next message",
            Self::RecordFirst => "record before act, and durable before an effect",
            Self::OneFold => "what is live is the fold of what is stored",
            Self::Stale => "what is stale changes nothing",
            Self::OnceOnly => "a call with effects runs once, from a message that is complete",
            Self::Permission => "what is not allowed does not run",
            Self::Access => "a call gets no more access than it was judged with",
            Self::Ceiling => "no more is spent than was allowed",
            Self::Truth => "what is told is true",
            Self::Bounds => "every wait has a bound, and nothing is left behind",
            Self::Report => "each turn has one end and one report",
            Self::Panic => "nothing of ours panics",
            Self::Planted => "a law for a test",
        })
    }
}

/// A law that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Which.
    pub law: Law,
    /// How.
    pub words: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "broken: {}: {}", self.law, self.words)
    }
}
