//! Builds the fuzz targets and runs each for a bounded time.
//!
//! The stable compiler can put in the marks that guide a fuzzer; only the sanitizers want another.
//! Our code has hardly a use for these: what is looked for is a panic, or a check of the target's
//! own that fails.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// What the compiler is told, so that a target sees which of its branches an input takes.
const FLAGS: &[&str] = &[
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// How long one input may take, in seconds: far more than any should, for the machine may be busy.
const LONGEST: u32 = 30;

/// How much memory a target may take, in MiB.
const MEMORY: u32 = 1024;

/// The largest input in bytes.
const LARGEST: u32 = 4096;

/// Runs targets, all or those that are named, for so many seconds each: as many at once as there
/// are processors. Fails if an input breaks one, and prints the input.
pub(crate) fn fuzz(seconds: u32, names: &[&str]) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()?;
    let all = targets(&root.join("fuzz/targets"))?;
    for name in names {
        ensure!(
            all.iter().any(|known| known == name),
            "the targets are: {}",
            all.join(", ")
        );
    }
    let chosen = all
        .iter()
        .filter(|name| names.is_empty() || names.contains(&name.as_str()));
    let binaries = build(&root)?;
    let waiting = Mutex::new(chosen);
    let next = || {
        waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .next()
    };
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(name) = next() {
                    if let Err(error) = run(&root, &binaries, name, seconds) {
                        let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
                        failures.push(format!("{name}: {error:#}"));
                    }
                }
            });
        }
    });
    let failures = failures
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    ensure!(failures.is_empty(), "{}", failures.join("\n\n"));
    Ok(())
}

fn targets(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().context("a target has a name")?;
        names.push(name.to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Builds all targets, and returns the folder that they are in.
fn build(root: &Path) -> anyhow::Result<PathBuf> {
    let host = Command::new("rustc")
        .args(["--print", "host-tuple"])
        .output()?;
    ensure!(host.status.success(), "rustc does not name its host");
    let host = String::from_utf8(host.stdout)?;
    let target_folder = root.join("target/fuzz");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--locked", "--manifest-path"])
        .arg(root.join("fuzz/Cargo.toml"))
        // With a target named, what runs while building is built without the marks.
        .args(["--target", host.trim(), "--target-dir"])
        .arg(&target_folder)
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f"))
        .status()?;
    ensure!(status.success(), "the fuzz targets cannot be built");
    Ok(target_folder.join(host.trim()).join("release"))
}

/// Runs one target, on from what it came to in earlier runs.
fn run(root: &Path, binaries: &Path, name: &str, seconds: u32) -> anyhow::Result<()> {
    let corpus = root.join("target/fuzz/corpus").join(name);
    let found = root.join("target/fuzz/found").join(name);
    for folder in [&corpus, &found] {
        fs::create_dir_all(folder)?;
    }
    let output = Command::new(binaries.join(name))
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-timeout={LONGEST}"))
        .arg(format!("-rss_limit_mb={MEMORY}"))
        .arg(format!("-max_len={LARGEST}"))
        .arg(format!("-artifact_prefix={}/", found.display()))
        .arg("-print_final_stats=1")
        .arg(&corpus)
        .arg(root.join("fuzz/seeds").join(name))
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    let log = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        let figure = |key: &str| {
            let line = log.lines().rev().find_map(|line| line.strip_prefix(key));
            line.map_or("?", str::trim).to_owned()
        };
        writeln!(
            io::stdout().lock(),
            "{name}: {} inputs, {} a second",
            figure("stat::number_of_executed_units:"),
            figure("stat::average_exec_per_sec:"),
        )?;
        return Ok(());
    }
    failure(&output, &log, root)
}

/// Tells what broke a target, with the input so that a test can be made of it.
fn failure(output: &Output, log: &str, root: &Path) -> anyhow::Result<()> {
    let lines: Vec<&str> = log.lines().collect();
    let last = lines.split_at(lines.len().saturating_sub(60)).1;
    let mut words = format!("{}\n{}", output.status, last.join("\n"));
    let written = lines
        .iter()
        .find_map(|line| line.split_once("Test unit written to "));
    if let Some((_, path)) = written {
        let input = fs::read(root.join(path))?;
        words.push_str(&format!(
            "\nthe input, {} bytes in base64: {}",
            input.len(),
            STANDARD.encode(&input)
        ));
    }
    bail!(words)
}
