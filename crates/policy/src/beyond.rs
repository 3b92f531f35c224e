//! What a shell line is known to need beyond the sandbox.

use std::path::Path;

use crate::{Confinement, Grant};

/// Names what a line is known to need beyond the sandbox, each once.
///
/// It sees what stands in the line: paths that are written, hosts, programs that need the network
/// or cannot work inside. What it does not see the sandbox refuses. The policy asks about these,
/// and whoever runs an allowed line widens the sandbox by the very same list.
#[must_use]
pub fn beyond(
    _line: &str,
    _directory: &Path,
    _home: Option<&Path>,
    _confinement: &Confinement,
) -> Vec<Grant> {
    Vec::new()
}
