//! Shell lines taken apart.

/// What a shell line would run.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Analysis {}

impl Analysis {
    /// Tells whether the line provably changes nothing.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        false
    }
}

/// Takes a shell line apart.
#[must_use]
pub const fn analyse(_line: &str) -> Analysis {
    Analysis {}
}
