//! `tooloop sessions cost`.

use std::io::Write;
use std::path::Path;

use tooloop::journal::{Line, read_lines};
use tooloop::{CacheLedger, CostReport, Entry, SessionError};

use crate::exit::{Failure, Status};
use crate::print::complain;
use crate::window::{cost_json, cost_lines};

/// Shows what a session has cost.
pub(crate) fn cost(path: &Path, json: bool) -> Result<Status, Failure> {
    let mut cache = CacheLedger::default();
    let mut priced = false;
    let read = read_lines(path, |line| match line {
        Line::Record(record) => {
            priced |= matches!(record.entry, Entry::Spent { cost: Some(_), .. });
            cache.take(&record.entry, Some(record.time));
        }
        Line::Unknown(_) => {}
    })
    .map_err(SessionError::from)?;
    for warning in read.warnings {
        complain(&warning);
    }
    let report = CostReport {
        usage: read.transcript.usage(),
        cost_usd: priced.then(|| read.transcript.spent().as_usd()),
        cache,
    };
    let text = if json {
        cost_json(&report).to_string()
    } else {
        cost_lines(&report).join("\n")
    };
    match writeln!(crate::output::stdout(), "{text}") {
        Ok(()) => Ok(Status::Done),
        Err(_) => Ok(Status::BrokenPipe),
    }
}
