//! Builds the simulation and plays it.

use std::process::Command;

use anyhow::ensure;

/// Plays simulated worlds. The flags are those of the simulation's own program. It is built as
/// tests are, with all their checks: that is fast enough for some 30,000 steps a second.
pub(crate) fn simulate(flags: &[&str]) -> anyhow::Result<()> {
    let status = Command::new(env!("CARGO"))
        .args([
            "run",
            "--quiet",
            "--locked",
            "--package",
            "tooloop-simulation",
            "--",
        ])
        .args(flags)
        .status()?;
    ensure!(
        status.success(),
        "the simulation found something, or could not be run"
    );
    Ok(())
}
