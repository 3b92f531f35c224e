//! Runs the tests in which a directory and a link are exchanged while file tools work, for longer.

use std::process::Command;

use anyhow::Context;

/// The default duration of each test.
const MINUTES: u64 = 10;

/// The tests: a package, its test binary, and a filter.
const TESTS: [[&str; 3]; 2] = [
    ["tooloop-tools", "files", "races::"],
    ["tooloop-cli", "it", "race::file_tools"],
];

/// Runs each test binary for so many minutes.
pub(crate) fn race(words: &[&str]) -> anyhow::Result<()> {
    let minutes = match words {
        [] => MINUTES,
        ["--minutes", minutes] => minutes.parse().context("--minutes takes a number")?,
        _ => anyhow::bail!("race takes --minutes N"),
    };
    for [package, test, filter] in TESTS {
        let status = Command::new(env!("CARGO"))
            .args(["test", "-p", package, "--test", test, filter])
            .env("TOOLOOP_RACE_SECONDS", (minutes * 60).to_string())
            .status()
            .context("cargo cannot be run")?;
        anyhow::ensure!(status.success(), "the tests of {package} failed");
    }
    Ok(())
}
