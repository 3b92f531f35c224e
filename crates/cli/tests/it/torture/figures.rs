//! What many deaths came to, in numbers.

use std::collections::BTreeSet;
use std::fmt;
use std::io::Write as _;
use std::time::Duration;

use serde_json::json;

/// Two seconds after a death nothing may be left; the law's bound, which figures are held against.
const LAW: Duration = Duration::from_secs(2);

/// More than this is not told of what went wrong.
const TOLD: usize = 20;

/// Counts of deaths and of what became of them. All but the first two are to stay zero.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) kills: usize,
    pub(super) resumes: usize,
    /// Sessions of which the strict judge refused a request, or that could not be gone on with.
    pub(super) refused: usize,
    pub(super) twice: usize,
    pub(super) lost: usize,
    /// Files that were neither as before nor as after.
    pub(super) torn: usize,
    /// Deaths after which something was alive for longer than two seconds.
    pub(super) late: usize,
    pub(super) slowest: Duration,
    seen: BTreeSet<&'static str>,
    wrong: Vec<String>,
}

impl Figures {
    pub(super) fn gone_after(&mut self, time: Duration) {
        self.slowest = self.slowest.max(time);
        self.late += usize::from(time > LAW);
    }

    /// Notes what a death found under way, to tell how wide the net was.
    pub(super) fn saw(&mut self, what: &'static str) {
        self.seen.insert(what);
    }

    pub(super) fn wrong(&mut self, words: impl Into<String>) {
        if self.wrong.len() < TOLD {
            let words: String = words.into();
            self.wrong.push(words.chars().take(2_000).collect());
        }
    }

    /// Fails with all that went wrong. Lateness does not count here: a machine may be loaded.
    pub(super) fn assert_clean(&self) {
        let counts = [self.refused, self.twice, self.lost, self.torn];
        assert!(counts == [0; 4] && self.wrong.is_empty(), "{self}");
    }

    /// Adds a line to the file that `TOOLOOP_TORTURE_FIGURES` names, for who sums them up.
    pub(super) fn tell(&self) {
        let Some(path) = std::env::var_os("TOOLOOP_TORTURE_FIGURES") else {
            return;
        };
        let line = json!({
            "kills": self.kills,
            "resumes": self.resumes,
            "refused": self.refused,
            "twice": self.twice,
            "lost": self.lost,
            "torn": self.torn,
            "late": self.late,
            "slowest_ms": self.slowest.as_millis() as u64,
            "seen": self.seen,
            "wrong": self.wrong,
        });
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "{} kills, {} resumes, {} refused, {} twice, {} lost, {} torn, {} late (slowest {} ms)",
            self.kills,
            self.resumes,
            self.refused,
            self.twice,
            self.lost,
            self.torn,
            self.late,
            self.slowest.as_millis()
        )?;
        for words in &self.wrong {
            writeln!(formatter, "- {words}")?;
        }
        Ok(())
    }
}
