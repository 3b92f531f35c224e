//! `tooloop sessions cost`.

use std::io::Write;
use std::path::Path;

use tooloop::{CostReport, SessionError};

use crate::exit::{Failure, Status};
use crate::print::complain;
use crate::window::{cost_json, cost_lines};

/// Shows what a session has cost.
pub(crate) fn cost(path: &Path, json: bool) -> Result<Status, Failure> {
    let (report, warnings) = CostReport::read(path).map_err(SessionError::from)?;
    for warning in warnings {
        complain(&warning);
    }
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
