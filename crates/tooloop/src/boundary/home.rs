//! What in a home directory the agent must not write because programs run or obey it.
//!
//! It is not on the list of what is writable. It counts where the home directory, or a directory in
//! it, was made writable as a whole.

use std::path::{Path, PathBuf};

use tooloop_policy::protected::{HOME_PROGRAM_ENTRIES, HOME_STARTUP_ENTRIES};

/// Returns the entries of a home directory that are never written.
pub(super) fn protected(home: &Path) -> impl Iterator<Item = PathBuf> + '_ {
    let entries = HOME_STARTUP_ENTRIES.iter().chain(&HOME_PROGRAM_ENTRIES);
    entries.map(|name| home.join(name))
}
