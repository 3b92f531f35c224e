//! What a program wrote and how it ended.

use crate::pipes::Captured;
use serde_json::Value;
use std::fmt;
use std::time::Duration;

/// What a program wrote and how it ended.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Its exit code, if it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// It had to be killed because it did not end in time.
    pub timed_out: bool,
    /// From its start to its end.
    pub elapsed: Duration,
    /// Its output was still held open, by a process that it left behind.
    pub output_open: bool,
    /// Its standard output.
    pub stdout: Captured,
    /// Its standard error.
    pub stderr: Captured,
}

/// A line that was to be JSON.
#[derive(Debug, thiserror::Error)]
#[error("line {number} is not JSON ({source}): {text}")]
pub struct BadLine {
    /// Its number, counted from 1.
    pub number: usize,
    /// The line.
    pub text: String,
    /// What is wrong with it.
    pub source: serde_json::Error,
}

impl Finished {
    /// The exit status as a shell tells it: the code, or 128 and the signal.
    pub fn shell_status(&self) -> Option<i32> {
        self.code.or_else(|| self.signal.map(|signal| 128 + signal))
    }

    /// The lines of standard output as JSON, empty lines left out.
    ///
    /// # Errors
    /// If a line is not JSON.
    pub fn json_lines(&self) -> Result<Vec<Value>, BadLine> {
        self.stdout
            .lines
            .iter()
            .enumerate()
            .filter(|(_, line)| !line.text.trim().is_empty())
            .map(|(index, line)| {
                serde_json::from_str(&line.text).map_err(|source| BadLine {
                    number: index + 1,
                    text: line.text.clone(),
                    source,
                })
            })
            .collect()
    }

    /// Asserts that it ended by itself with this code, and gives itself back.
    ///
    /// # Panics
    /// With all that it wrote, if it did not.
    pub fn assert_code(&self, code: i32) -> &Self {
        #[expect(clippy::panic, reason = "an assertion of the test")]
        if self.code != Some(code) || self.timed_out {
            panic!("the program was to end with code {code}; {self}");
        }
        self
    }
}

impl fmt::Display for Finished {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.timed_out, self.code, self.signal) {
            (true, ..) => write!(
                formatter,
                "it was killed after {} ms",
                self.elapsed.as_millis()
            )?,
            (_, Some(code), _) => write!(formatter, "it ended with code {code}")?,
            (_, _, Some(signal)) => write!(formatter, "it was ended by signal {signal}")?,
            (_, None, None) => write!(formatter, "it runs")?,
        }
        for (name, output) in [
            ("standard output", &self.stdout),
            ("standard error", &self.stderr),
        ] {
            write!(
                formatter,
                "\n{name} ({} bytes): {}",
                output.bytes.len(),
                output.tail(4_000)
            )?;
        }
        Ok(())
    }
}
