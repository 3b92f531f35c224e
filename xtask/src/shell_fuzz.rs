//! Runs random shell lines by a real bash among stubs for as long as is wanted, against what the
//! policy says of them. The work is done by a test of `policy`, which is told to go on for longer.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};

/// Goes on for so many minutes. Fails if a line ran what was not foreseen, or what a policy that
/// allowed it does not cover, and prints the smallest such line.
pub(crate) fn shell_fuzz(options: &[&str]) -> anyhow::Result<()> {
    let (mut minutes, mut seed) = (1.0_f64, 1_u64);
    let mut words = options.iter();
    while let Some(option) = words.next() {
        let value = words
            .next()
            .with_context(|| format!("{option} needs a number"))?;
        match *option {
            "--minutes" => minutes = value.parse().context("--minutes")?,
            "--seed" => seed = value.parse().context("--seed")?,
            other => bail!("unknown option {other}, expected --minutes or --seed"),
        }
    }
    ensure!(
        (0.0..=10_000.0).contains(&minutes),
        "--minutes is out of range: {minutes}"
    );
    let seconds = format!("{:.0}", minutes * 60.0);
    let status = Command::new(env!("CARGO"))
        .args([
            "test",
            "--quiet",
            "-p",
            "tooloop-policy",
            "--test",
            "differential",
        ])
        .args(["--", "--nocapture"])
        .env("SHELL_FUZZ_SECONDS", seconds)
        .env("SHELL_FUZZ_SEED", seed.to_string())
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .status()
        .context("cargo could not be run")?;
    ensure!(status.success(), "a line came out wrong: see above");
    Ok(())
}
