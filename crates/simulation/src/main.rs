//! `simulate [--seeds N] [--steps N] [--from S] [--seed S]`: plays the worlds of many seeds, or
//! tells the story of one.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use tooloop_simulation::{Found, Script, explain, play, run};

struct Arguments {
    seeds: u64,
    steps: Option<u64>,
    from: u64,
    seed: Option<u64>,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = read(std::env::args().skip(1))?;
    let mut out = io::stdout().lock();
    if let Some(seed) = arguments.seed {
        return one(&mut out, seed);
    }
    let began = Instant::now();
    let seeds = arguments.from..arguments.from.saturating_add(arguments.seeds);
    let (sum, found) = run(seeds, arguments.steps)?;
    let seconds = began.elapsed().as_secs_f64();
    for (what, times) in &sum.seen {
        writeln!(out, "{times:>10}  {what}")?;
    }
    writeln!(
        out,
        "{} seeds, {} steps in {seconds:.1} s, fingerprint {:016x}",
        sum.seeds, sum.steps, sum.fingerprint
    )?;
    match found {
        None => Ok(ExitCode::SUCCESS),
        Some(found) => {
            // The shortest script may take its time.
            writeln!(out, "\nseed {}: {}", found.seed, found.broken)?;
            out.flush()?;
            writeln!(out, "\n{}", explain(&found)?)?;
            Ok(ExitCode::FAILURE)
        }
    }
}

fn one(out: &mut impl Write, seed: u64) -> anyhow::Result<ExitCode> {
    let script = Script::draw(seed);
    let outcome = play(&script, true)?;
    if let Some(broken) = outcome.broken {
        write!(out, "{}", explain(&Found { seed, broken })?)?;
        return Ok(ExitCode::FAILURE);
    }
    writeln!(out, "{script}")?;
    for line in &outcome.story {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "{} steps, no law is broken", outcome.steps)?;
    Ok(ExitCode::SUCCESS)
}

fn read(mut words: impl Iterator<Item = String>) -> anyhow::Result<Arguments> {
    let mut arguments = Arguments {
        seeds: 1_000,
        steps: None,
        from: 0,
        seed: None,
    };
    while let Some(flag) = words.next() {
        let value = words
            .next()
            .with_context(|| format!("{flag} needs a number"))?;
        let number: u64 = value
            .parse()
            .with_context(|| format!("{flag} needs a number, not {value}"))?;
        match flag.as_str() {
            "--seeds" => arguments.seeds = number,
            "--steps" => arguments.steps = Some(number),
            "--from" => arguments.from = number,
            "--seed" => arguments.seed = Some(number),
            _ => anyhow::bail!(
                "the flags are --seeds N, --steps N, --from SEED and --seed SEED, not {flag}"
            ),
        }
    }
    Ok(arguments)
}
