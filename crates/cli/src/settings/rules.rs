//! Permission rules with where they are written.

use tooloop::Rule;

use super::Place;

/// A permission rule and where it comes from.
///
/// The rules of [`super::Settings`] are the same without their sources and without repetition, in
/// the same order: before [`Rule::anchored`] ties their paths to the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourcedRule {
    pub(crate) kind: RuleKind,
    /// As the policy gets it.
    pub(crate) rule: Rule,
    /// As somebody wrote it.
    pub(crate) written: String,
    pub(crate) source: Source,
    /// File, line and column, or the variable or flag.
    pub(crate) place: Place,
}

/// What a rule does with the calls that it meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RuleKind {
    Deny,
    Ask,
    Allow,
}

impl RuleKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Ask => "ask",
            Self::Allow => "allow",
        }
    }

    /// The key of the settings that holds such rules.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Deny => "disallowed_tools",
            Self::Ask => "ask_tools",
            Self::Allow => "allowed_tools",
        }
    }
}

/// Where settings come from, the strongest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// The files of the person.
    User,
    /// The files of the folder that everybody has who works there.
    Project,
    /// The files of the folder that are not shared.
    Local,
    /// A file that was named for this run.
    Explicit,
    /// A variable.
    Environment,
    /// A flag.
    Flag,
    /// The files of whoever looks after the machine.
    Managed,
}

impl Source {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
            Self::Explicit => "settings",
            Self::Environment => "environment",
            Self::Flag => "flag",
            Self::Managed => "managed",
        }
    }

    /// Tells whether it came with the folder.
    pub(crate) const fn is_folder(self) -> bool {
        matches!(self, Self::Project | Self::Local)
    }
}

/// Whether what the folder's files would widen is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// All of it: a person has said yes to each.
    Trusted,
    /// Some or all of it is left out.
    Untrusted,
    /// They widen nothing.
    NotNeeded,
}
