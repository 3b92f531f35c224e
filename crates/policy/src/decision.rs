//! The answer of the policy.

/// What may happen to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may run.
    Allow,
    /// Somebody has to be asked; where there is nobody, this is a deny.
    Ask {
        /// Why, in words that name the part in question.
        reason: String,
        /// What kind of reason it is.
        cause: AskCause,
    },
    /// It may not run.
    Deny {
        /// Why, in words that name the part in question.
        reason: String,
    },
}

/// What kind of reason there is to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AskCause {
    /// A rule asks, or one that denies may speak of the call.
    Rule,
    /// No rule covers the call.
    Uncovered,
    /// The call goes beyond the sandbox.
    Beyond,
}

impl Decision {
    /// Tells whether the call may run.
    #[must_use]
    pub const fn is_allow(&self) -> bool {
        matches!(self, Self::Allow)
    }

    /// Tells whether somebody has to be asked.
    #[must_use]
    pub const fn is_ask(&self) -> bool {
        matches!(self, Self::Ask { .. })
    }

    /// Tells whether the call may not run.
    #[must_use]
    pub const fn is_deny(&self) -> bool {
        matches!(self, Self::Deny { .. })
    }

    /// Gives the reason of an ask or a deny.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Allow => None,
            Self::Ask { reason, .. } | Self::Deny { reason } => Some(reason),
        }
    }
}
