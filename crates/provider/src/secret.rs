//! A key that does not show itself.

use std::fmt;

/// A key. Neither `Debug` nor `Display` shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Takes a key in.
    #[must_use]
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into().into_boxed_str())
    }

    /// The key itself, to be put into a header and nowhere else.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(..)")
    }
}
