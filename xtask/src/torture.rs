//! Kills the program again and again, and tells in figures what became of it.

use std::fs;
use std::io::{self, Write};
use std::process::Command;

use anyhow::Context;
use serde_json::Value;

/// How often the program is killed where nobody says.
const KILLS: u32 = 500;

/// Figures that are to be zero, and what they count.
const ZEROES: [(&str, &str); 5] = [
    ("refused", "sessions refused by the judge"),
    ("twice", "commands run twice"),
    ("lost", "commands or records lost"),
    ("torn", "files left half"),
    ("late", "deaths with processes left after 2 s"),
];

/// Runs the deaths of the tests of the binary, so many of them, and prints the sums.
pub(crate) fn torture(words: &[&str]) -> anyhow::Result<()> {
    let kills = match words {
        [] => KILLS,
        ["--kills", kills] => kills.parse().context("--kills takes a number")?,
        _ => anyhow::bail!("torture takes --kills N"),
    };
    let file = std::env::temp_dir().join(format!("torture-{}.jsonl", std::process::id()));
    let status = Command::new(env!("CARGO"))
        .args([
            "test",
            "-p",
            "tooloop-cli",
            "--test",
            "it",
            "torture::kills",
        ])
        .env("TOOLOOP_KILLS", kills.to_string())
        .env("TOOLOOP_TORTURE_FIGURES", &file)
        .status()
        .context("cargo cannot be run")?;
    let lines = fs::read_to_string(&file).unwrap_or_default();
    // What cannot be removed is a few lines in a folder for such.
    drop(fs::remove_file(&file));
    let figures: Vec<Value> = lines
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    let sum = |name: &str| -> u64 { figures.iter().filter_map(|line| line[name].as_u64()).sum() };
    let slowest = figures
        .iter()
        .filter_map(|line| line["slowest_ms"].as_u64())
        .max();
    let mut out = io::stdout().lock();
    writeln!(out, "{:>6} kills", sum("kills"))?;
    writeln!(out, "{:>6} resumes", sum("resumes"))?;
    for (name, words) in ZEROES {
        writeln!(out, "{:>6} {words}", sum(name))?;
    }
    if let Some(slowest) = slowest {
        writeln!(out, "{slowest:>6} ms until nothing was left, at most")?;
    }
    let wrong: Vec<_> = ZEROES.iter().filter(|(name, _)| sum(name) > 0).collect();
    anyhow::ensure!(status.success(), "the tests failed");
    anyhow::ensure!(wrong.is_empty(), "not as it must be: {wrong:?}");
    anyhow::ensure!(sum("kills") >= u64::from(kills), "too few kills");
    Ok(())
}
