//! Chores of the project that are more than three lines of shell.
//!
//! `cargo xtask lines` counts the lines of each room, tests apart. `cargo xtask fuzz SECONDS` runs
//! each fuzz target for so long. `cargo xtask torture [--kills N]` kills the program so often and tells
//! in figures what became of its sessions, its commands and its processes. `cargo xtask race [--minutes
//! N]` exchanges a directory and a link while file tools work, for so long. `cargo xtask simulate
//! [--seeds N] [--steps N] [--from SEED] [--seed SEED]` plays simulated worlds until a law is broken,
//! and tells the shortest story of it. `cargo xtask shell-fuzz [--minutes N] [--seed SEED]` has a real
//! bash run random lines among stubs, and compares with what the policy says of them. `cargo xtask
//! mutants [--shard K/N] [FILE]...` runs cargo-mutants on the kernel and on permission decisions.

mod fuzz;
mod mutants;
mod race;
mod shell_fuzz;
mod simulate;
mod torture;

use std::fs;
use std::io::{self, Write};
use std::path::Path;

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["lines"] => lines(),
        ["fuzz", seconds, names @ ..] => fuzz::fuzz(seconds.parse()?, names),
        ["race", options @ ..] => race::race(options),
        ["torture", options @ ..] => torture::torture(options),
        ["simulate", flags @ ..] => simulate::simulate(flags),
        ["shell-fuzz", options @ ..] => shell_fuzz::shell_fuzz(options),
        ["mutants", words @ ..] => mutants::mutants(words),
        _ => anyhow::bail!(
            "the chores are: lines, fuzz SECONDS [TARGET]..., simulate [FLAG N]..., torture [--kills N], race [--minutes N], shell-fuzz [--minutes N] [--seed SEED], mutants [--shard K/N] [FILE]..."
        ),
    }
}

/// Lines of source, of tests and of benchmarks by room.
fn lines() -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut rooms: Vec<_> = fs::read_dir(root)?.collect::<Result<_, _>>()?;
    rooms.sort_by_key(fs::DirEntry::file_name);
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{:<10} {:>7} {:>7} {:>7}",
        "room", "source", "tests", "others"
    )?;
    let mut sums = [0; 3];
    for room in rooms {
        let mut counts = [0; 3];
        count(&room.path(), &mut counts)?;
        let [source, tests, others] = counts;
        let name = room.file_name();
        writeln!(
            out,
            "{:<10} {source:>7} {tests:>7} {others:>7}",
            name.to_string_lossy()
        )?;
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum += count;
        }
    }
    let [source, tests, others] = sums;
    writeln!(out, "{:<10} {source:>7} {tests:>7} {others:>7}", "all")?;
    Ok(())
}

fn count(folder: &Path, counts: &mut [usize; 3]) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            count(&path, counts)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)?;
            let place = path.to_string_lossy().into_owned();
            let [source, tests, others] = counts;
            if place.contains("/tests/") || place.ends_with("tests.rs") {
                *tests += text.lines().count();
            } else if place.contains("/src/") {
                // Tests stand at the end of a file.
                let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
                let (code, tested) = text.split_at(end);
                *source += code.lines().count();
                *tests += tested.lines().count();
            } else {
                *others += text.lines().count();
            }
        }
    }
    Ok(())
}
