//! The mode: what happens to a call that no rule speaks about.

use std::{fmt, str::FromStr};

use thiserror::Error;

/// What happens to a call that no rule speaks about. A mode never beats a deny.
///
/// ```
/// use tooloop_policy::Mode;
///
/// assert_eq!("acceptEdits".parse::<Mode>()?, Mode::AcceptEdits);
/// assert_eq!(Mode::BypassPermissions.to_string(), "bypassPermissions");
/// # Ok::<(), tooloop_policy::ModeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Read-only calls run, all others ask.
    #[default]
    Default,
    /// Also file edits run; shell lines as in `Default`.
    AcceptEdits,
    /// Nothing outside of the session is changed: what might is denied, whatever the rules allow.
    Plan,
    /// As `Default`, but what would ask is denied.
    DontAsk,
    /// Everything runs that is not denied.
    BypassPermissions,
}

impl Mode {
    /// All modes, in the order in which they are offered.
    pub const ALL: [Self; 5] = [
        Self::Default,
        Self::AcceptEdits,
        Self::Plan,
        Self::DontAsk,
        Self::BypassPermissions,
    ];

    /// Gives the name by which flags and settings call the mode.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Plan => "plan",
            Self::DontAsk => "dontAsk",
            Self::BypassPermissions => "bypassPermissions",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Mode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.name() == text)
            .ok_or_else(|| ModeError {
                found: text.to_owned(),
            })
    }
}

/// A text that names no mode.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "unknown permission mode `{found}`, expected one of default, acceptEdits, plan, dontAsk, bypassPermissions"
)]
pub struct ModeError {
    /// What was found instead of a mode.
    pub found: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_reads_back_from_its_name() {
        for mode in Mode::ALL {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
    }

    #[test]
    fn other_words_are_refused_and_named() {
        for text in ["", "Default", "acceptedits", "bypass", " plan"] {
            let error = text.parse::<Mode>().unwrap_err();
            assert_eq!(error.found, text);
            assert!(error.to_string().contains("acceptEdits"));
        }
    }
}
