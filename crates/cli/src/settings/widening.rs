//! What a folder's files would widen, one thing at a time, and what of it a person has approved.

use std::collections::BTreeSet;

use super::{Place, Source};

/// One thing that a folder's file would widen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Widening {
    pub(crate) source: Source,
    pub(crate) place: Place,
    pub(crate) key: &'static str,
    /// What is wanted, for a person.
    pub(crate) shown: String,
    /// Tells it from any other, and changes with it; an error in words if nobody can vouch for it.
    pub(crate) fingerprint: Result<String, String>,
    pub(crate) approved: bool,
}

/// What a person has approved of a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Approvals {
    /// The folder is not known.
    #[default]
    Nothing,
    /// Things with these fingerprints.
    These(BTreeSet<String>),
    /// Whatever there is.
    Everything,
}

impl Approvals {
    pub(super) fn cover(&self, fingerprint: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::These(fingerprints) => fingerprints.contains(fingerprint),
            Self::Everything => true,
        }
    }
}

/// The fingerprint of a value for a key. Where it stands makes no difference.
pub(super) fn fingerprint(key: &str, value: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(key.as_bytes());
    hasher.update(&[0]);
    hasher.update(value.as_bytes());
    hasher.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::fingerprint;

    #[test]
    fn fingerprints_tell_keys_and_values_apart() {
        let all = [
            fingerprint("shell", "/bin/sh"),
            fingerprint("shell/", "bin/sh"),
            fingerprint("shell", "/bin/sh "),
            fingerprint("", "shell/bin/sh"),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(all.iter().skip(index + 1).all(|other| other != one));
        }
        assert_eq!(all[0], fingerprint("shell", "/bin/sh"));
    }
}
