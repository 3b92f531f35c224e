//! What a real bash runs was foreseen, and what a policy allows runs nothing else.
//!
//! Random lines are run among stubs that write down that they ran. Whatever ran must be among the
//! commands that the analysis found, unless it says of the line that it does not know; and a line
//! that a policy allows must run nothing that the policy denies or does not cover.
//!
//! `SHELL_FUZZ_SECONDS` and `SHELL_FUZZ_SEED` make it go on for longer: `cargo xtask shell-fuzz`.
#![expect(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the crate is pure, and this looks at it from outside"
)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a ground that cannot be laid is to fail, and figures are to be seen"
)]

mod check;
mod generate;
mod run;

use std::time::{Duration, Instant};

use check::{Checker, Verdict};
use generate::{Generator, Numbers};
use run::Ground;

/// How many lines are run where nothing else is said.
const CASES: u64 = 300;

#[derive(Debug, Default)]
struct Figures {
    lines: u64,
    ran: u64,
    allowed: u64,
    programs: u64,
    stopped: u64,
}

impl Figures {
    fn add(&mut self, other: &Self) {
        self.lines += other.lines;
        self.ran += other.ran;
        self.allowed += other.allowed;
        self.programs += other.programs;
        self.stopped += other.stopped;
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn what_bash_runs_was_foreseen_and_allowed() {
    let seed = setting("SHELL_FUZZ_SEED").unwrap_or(1);
    let limit = match setting("SHELL_FUZZ_SECONDS") {
        Some(seconds) => Limit::Time(Duration::from_secs(seconds)),
        None => Limit::Cases(CASES),
    };
    let workers = match limit {
        Limit::Time(_) => std::thread::available_parallelism().map_or(1, usize::from),
        Limit::Cases(_) => 1,
    };
    let begin = Instant::now();
    let mut all = Figures::default();
    let workers: Vec<_> = (0..workers as u64)
        .map(|worker| std::thread::spawn(move || work(seed.wrapping_add(worker << 32), limit)))
        .collect();
    for worker in workers {
        match worker.join().unwrap() {
            Ok(figures) => all.add(&figures),
            Err(reason) => {
                println!("skipped: {reason}");
                return;
            }
        }
    }
    tell(&all, begin);
    // Lines of which nothing is known show nothing.
    assert!(all.ran * 10 > all.lines, "{all:?}");
    assert!(all.allowed * 10 > all.ran, "{all:?}");
}

/// How long to go on.
#[derive(Clone, Copy, Debug)]
enum Limit {
    Time(Duration),
    Cases(u64),
}

impl Limit {
    fn is_reached(self, begin: Instant, figures: &Figures) -> bool {
        match self {
            Self::Time(time) => begin.elapsed() >= time,
            Self::Cases(cases) => figures.ran >= cases,
        }
    }
}

/// Runs lines on a ground of its own. An error says why it cannot.
fn work(seed: u64, limit: Limit) -> Result<Figures, String> {
    let folder = tempfile::tempdir().unwrap();
    let ground = Ground::new(folder.path())?;
    let checker = Checker::new();
    let begin = Instant::now();
    let mut told = begin;
    let mut figures = Figures::default();
    let mut numbers = Numbers(seed);
    while !limit.is_reached(begin, &figures) {
        if told.elapsed() > Duration::from_secs(60) {
            told = Instant::now();
            tell(&figures, begin);
        }
        let line = Generator::new(&mut numbers, &ground.bin()).line();
        figures.lines += 1;
        let Some(expectations) = checker.expectations(&line) else {
            continue;
        };
        let ran = ground.run(&line);
        figures.ran += 1;
        figures.allowed += u64::from(expectations.is_allowed());
        figures.programs += ran.commands.len() as u64;
        figures.stopped += u64::from(ran.was_stopped);
        if let Verdict::Wrong(words) = expectations.verdict(&ran) {
            let smallest = smallest(&checker, &ground, &line);
            let again = checker.expectations(&smallest);
            let again = again.map(|expected| expected.verdict(&ground.run(&smallest)));
            panic!(
                "seed {seed}, {figures:?}\n{words}\n{line}\nthe smallest line:\n{smallest}\n{again:?}"
            );
        }
    }
    Ok(figures)
}

fn tell(figures: &Figures, begin: Instant) {
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{} lines, {} of them run ({:.0} a second), {} of these allowed by a policy, {} programs started, {} stopped, 0 false allows",
        figures.lines,
        figures.ran,
        figures.ran as f64 / seconds,
        figures.allowed,
        figures.programs,
        figures.stopped
    );
}

/// Leaves words out for as long as the line stays wrong.
fn smallest(checker: &Checker, ground: &Ground, line: &str) -> String {
    let is_wrong = |line: &str| {
        is_fit(line, &ground.bin())
            && checker
                .expectations(line)
                .is_some_and(|e| matches!(e.verdict(&ground.run(line)), Verdict::Wrong(_)))
    };
    let mut pieces: Vec<String> = line
        .split_inclusive([' ', '\n', ';'])
        .map(str::to_owned)
        .collect();
    let mut size = pieces.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < pieces.len() {
            let mut fewer = pieces.clone();
            fewer.drain(at..(at + size).min(pieces.len()));
            if is_wrong(&fewer.concat()) {
                pieces = fewer;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    pieces.concat()
}

/// Tells whether a line that was cut about still leads nowhere else.
fn is_fit(line: &str, bin: &str) -> bool {
    let rest = line.replace(&format!("{bin}/"), "");
    !rest.contains('/') && !line.contains(&format!(">{bin}")) && !line.contains(&format!("> {bin}"))
}
