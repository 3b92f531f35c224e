//! Runs cargo-mutants on the modules that decide: the kernel, and permission decisions.
//!
//! cargo-mutants changes one expression at a time and runs the crate's own tests. A change that no
//! test notices is printed as missed. It is not part of the gate: the whole set takes hours.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};

/// A crate, its source directory, and the files that are mutated if no file is named.
struct Target {
    package: &'static str,
    directory: &'static str,
    files: &'static [&'static str],
}

const TARGETS: [Target; 2] = [
    Target {
        package: "tooloop-kernel",
        directory: "crates/kernel/src/",
        files: &["crates/kernel/src/**/*.rs"],
    },
    Target {
        package: "tooloop-policy",
        directory: "crates/policy/src/",
        files: &[
            "crates/policy/src/beyond.rs",
            "crates/policy/src/border.rs",
            "crates/policy/src/call.rs",
            "crates/policy/src/command_rule.rs",
            "crates/policy/src/decision.rs",
            "crates/policy/src/path_rule.rs",
            "crates/policy/src/places.rs",
            "crates/policy/src/policy.rs",
            "crates/policy/src/protected.rs",
            "crates/policy/src/rule.rs",
        ],
    },
];

/// Runs `cargo mutants` for each crate. `--shard K/N` takes part K of N of each crate's mutants.
/// Files restrict the run to the mutants of these files.
///
/// # Errors
///
/// Fails if cargo-mutants is not installed, if a word is not understood, or if a mutant is missed.
pub(crate) fn mutants(words: &[&str]) -> anyhow::Result<()> {
    let (shard, files) = match words {
        ["--shard", shard, files @ ..] => (Some(*shard), files),
        files => (None, files),
    };
    if let Some(flag) = files.iter().find(|file| file.starts_with('-')) {
        bail!("mutants does not know {flag}: it takes [--shard K/N] [FILE]...");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()?;
    let mut missed = Vec::new();
    for target in &TARGETS {
        let chosen: Vec<&str> = if files.is_empty() {
            target.files.to_vec()
        } else {
            let of_target = files
                .iter()
                .filter(|file| file.starts_with(target.directory));
            of_target.copied().collect()
        };
        if chosen.is_empty() {
            continue;
        }
        let output = root.join("target/mutants").join(target.package);
        fs::create_dir_all(&output)
            .with_context(|| format!("cannot create {}", output.display()))?;
        let mut command = Command::new(env!("CARGO"));
        command
            .current_dir(&root)
            .args([
                "mutants",
                "--package",
                target.package,
                "--jobs",
                "2",
                "--no-shuffle",
            ])
            .arg("--output")
            .arg(output);
        for file in chosen {
            command.args(["--file", file]);
        }
        if let Some(shard) = shard {
            command.args(["--shard", shard]);
        }
        let status = command.status().context("cargo cannot be run")?;
        match status.code() {
            Some(0) => {}
            // 2: mutants were missed. 3: tests timed out.
            Some(2 | 3) => missed.push(target.package),
            Some(101) => bail!(
                "cargo-mutants is not installed: run `cargo install cargo-mutants --version 27.1.0 --locked`"
            ),
            _ => bail!("cargo mutants failed for {}: {status}", target.package),
        }
    }
    ensure!(
        missed.is_empty(),
        "mutants were missed in {}: see target/mutants",
        missed.join(" and ")
    );
    Ok(())
}
