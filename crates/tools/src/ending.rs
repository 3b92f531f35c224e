//! How a command ended, in words.

use tooloop_exec::{End, Leftover, Output, StartError, signal_name};
use tooloop_tool::{Omission, ToolError};

/// How many leftover processes are named at most.
const NAMED: usize = 10;

/// What a command printed, and where something of it is left out.
pub(crate) fn printed(output: &Output) -> (String, Option<Omission>) {
    if output.is_binary || output.left_out == 0 {
        return (output.text(), None);
    }
    let Output { head, tail, .. } = output;
    let (text, omission) = Omission::join(head, output.left_out, output.place(), tail);
    (text, Some(omission))
}

/// How it ended in words, and whether that is a failure.
pub(crate) fn end(end: End) -> (String, bool) {
    match end {
        End::Exited(status) => (format!("exit status {status}"), status != 0),
        End::Signaled(signal) => {
            let name = signal_name(signal);
            (format!("killed by signal {signal}, {name}"), true)
        }
        End::TimedOut { limit } => {
            let limit = limit.as_secs_f64();
            let text = format!("timed out after {limit} s and ended with all its processes");
            (text, true)
        }
        End::Cancelled => ("cancelled and ended with all its processes".into(), true),
        End::Unknown => ("its exit status is not known".into(), true),
    }
}

/// The processes that a command left behind.
pub(crate) fn leftovers(leftovers: &[Leftover]) -> String {
    let named: Vec<String> = leftovers
        .iter()
        .take(NAMED)
        .map(|leftover| format!("{} ({})", leftover.pid, leftover.name))
        .collect();
    let mut named = named.join(", ");
    if let Some(more) = leftovers.len().checked_sub(NAMED).filter(|more| *more > 0) {
        named.push_str(&format!(" and {more} more"));
    }
    format!("(still running, until this session ends at the latest: {named})")
}

/// Why a command did not start.
pub(crate) fn not_started(error: &StartError) -> ToolError {
    let source = std::error::Error::source(error);
    ToolError::Failed(match source {
        Some(source) => format!("the command did not start: {error}: {source}"),
        None => format!("the command did not start: {error}"),
    })
}
