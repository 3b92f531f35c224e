//! Many seeds, one after the other.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::law::Broken;
use crate::script::Script;
use crate::shrink::shrink;
use crate::simulate::play;

/// How many scripts are tried to make a failing one smaller.
const TRIES: u32 = 3_000;

/// What many worlds came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many there were.
    pub seeds: u64,
    /// What they took in.
    pub steps: u64,
    /// The same whenever the same happens in all of them.
    pub fingerprint: u64,
    /// How often each kind of thing happened.
    pub seen: BTreeMap<&'static str, u64>,
}

/// A seed in whose world a law was broken.
#[derive(Debug, Clone)]
pub struct Found {
    /// The seed.
    pub seed: u64,
    /// The law.
    pub broken: Broken,
}

/// Plays the scripts of these seeds until a law is broken, or so many steps are taken.
///
/// # Errors
/// If no runtime or no agent can be made.
pub fn run(
    seeds: impl Iterator<Item = u64>,
    steps: Option<u64>,
) -> anyhow::Result<(Sum, Option<Found>)> {
    let mut sum = Sum::default();
    for seed in seeds {
        let outcome = play(&Script::draw(seed), false)?;
        sum.seeds += 1;
        sum.steps += outcome.steps;
        sum.fingerprint = sum.fingerprint.rotate_left(1) ^ outcome.fingerprint;
        for (what, times) in outcome.seen {
            *sum.seen.entry(what).or_default() += times;
        }
        if let Some(broken) = outcome.broken {
            return Ok((sum, Some(Found { seed, broken })));
        }
        if steps.is_some_and(|steps| sum.steps >= steps) {
            break;
        }
    }
    Ok((sum, None))
}

/// What happened in a world where a law was broken: the smallest script that breaks it, and its
/// story.
///
/// # Errors
/// If no runtime or no agent can be made.
pub fn explain(found: &Found) -> anyhow::Result<String> {
    let script = Script::draw(found.seed);
    let least = shrink(&script, found.broken.law, TRIES, |script| {
        let broken = play(script, false).ok()?.broken?;
        Some(broken.law)
    });
    let outcome = play(&least, true)?;
    let mut words = String::new();
    writeln!(words, "seed {}: {}", found.seed, found.broken)?;
    writeln!(
        words,
        "\nthe shortest script, {} of {} things:\n{least}",
        least.len(),
        script.len()
    )?;
    writeln!(words, "what happens:")?;
    for line in &outcome.story {
        writeln!(words, "{line}")?;
    }
    if let Some(broken) = outcome.broken {
        writeln!(words, "{broken}")?;
    }
    Ok(words)
}
