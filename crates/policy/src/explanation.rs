//! Why a call is decided as it is, part by part: plain data for whoever shows it.

use crate::{Decision, Grant, Rule};

/// A call taken apart, with what was made of each part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The decision about the whole call.
    pub decision: Decision,
    /// Everything that the call would touch, each command of a line by itself.
    pub parts: Vec<ExplainedPart>,
    /// Why a line could not be taken apart, if one could not.
    pub problem: Option<String>,
    /// What no single command of a line shows, such as a job in the background.
    pub hazards: Vec<String>,
    /// What the call is known to need beyond the sandbox.
    pub beyond: Vec<Grant>,
}

/// One part of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedPart {
    /// What it is.
    pub kind: PartKind,
    /// The part as it was written.
    pub text: String,
    /// The program that would run, if that is known.
    pub program: Option<String>,
    /// What the program was found behind, from the outside in, such as `env` or `sh -c`.
    pub wrappers: Vec<String>,
    /// What it does, as far as it is known.
    pub effect: PartEffect,
    /// What it is known to need beyond the sandbox.
    pub beyond: Vec<Grant>,
    /// The rule that decided about it, if one did.
    pub rule: Option<MetRule>,
    /// What comes of it.
    pub verdict: PartVerdict,
}

/// What a part of a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartKind {
    /// A command of a shell line.
    Command,
    /// A redirection of a shell line.
    Redirection,
    /// Text for a program on a terminal.
    Input,
    /// A file that is read.
    Read,
    /// A file that is written.
    Write,
    /// A host that is talked to.
    Host,
    /// Something beyond the sandbox that is asked for.
    Grant,
    /// The call as a whole, where it touches nothing that is known.
    Call,
}

/// What a part does, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PartEffect {
    /// It provably changes nothing.
    pub is_read_only: bool,
    /// It runs what is only known when it runs; here is why.
    pub opaque: Option<&'static str>,
    /// The paths that it is known to write, as they were written.
    pub writes: Vec<String>,
    /// Whether it talks to other machines, as far as its program is known.
    pub uses_network: bool,
    /// The hosts that it is known to talk to.
    pub hosts: Vec<String>,
}

/// A rule that decided about a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetRule {
    /// In which list it stands.
    pub list: RuleList,
    /// Where in that list, from 0.
    pub index: usize,
    /// The rule itself.
    pub rule: Rule,
    /// Whether it surely speaks of the part; if not, it may.
    pub is_sure: bool,
}

/// The lists of rules of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuleList {
    /// What may never run.
    Deny,
    /// What is asked about.
    Ask,
    /// What runs without a question.
    Allow,
}

impl RuleList {
    /// Gives the word by which settings call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Ask => "ask",
            Self::Allow => "allow",
        }
    }
}

/// What comes of one part by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartVerdict {
    /// An allow rule covers it.
    Allowed,
    /// It changes nothing, or only runs what is judged by itself.
    Harmless,
    /// It stays within the sandbox.
    Confined,
    /// The mode lets it run.
    Mode,
    /// Somebody has to be asked because of a rule.
    Asked,
    /// Nothing covers it.
    Uncovered,
    /// It goes beyond the sandbox.
    Beyond,
    /// It may not run.
    Denied,
}

impl PartVerdict {
    /// Gives a word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Harmless => "harmless",
            Self::Confined => "within the sandbox",
            Self::Mode => "allowed by the mode",
            Self::Asked => "asked",
            Self::Uncovered => "not covered",
            Self::Beyond => "beyond the sandbox",
            Self::Denied => "denied",
        }
    }
}
