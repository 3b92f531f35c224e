//! `tooloop sessions repair`.

use std::io::{self, Write};
use std::path::Path;

use tooloop::SessionError;
use tooloop::journal;

use super::verify::as_text;
use crate::exit::{Failure, Status};
use crate::text::clean;

/// Mends a journal and says what was done.
pub(crate) fn repair(path: &Path, workspace: &Path) -> Result<Status, Failure> {
    let mut out = io::BufWriter::new(crate::output::stdout());
    let mut written = Ok(());
    let repaired = journal::repair(path, Some(workspace), |fault| {
        if written.is_ok() {
            written = out.write_all(as_text(fault).as_bytes());
        }
    })
    .map_err(SessionError::from)?;
    let words = match &repaired.original {
        None => format!(
            "{}: {} records, no fault; nothing was done\n",
            path.display(),
            repaired.kept
        ),
        Some(original) => format!(
            "{}: {} faults mended, {} records kept, {} put in\nas it was: {}\n\
             go on with it: tooloop --resume {}\n",
            path.display(),
            repaired.faults,
            repaired.kept,
            repaired.added,
            original.display(),
            repaired.header.session
        ),
    };
    let written = written
        .and_then(|()| out.write_all(clean(&words).as_bytes()))
        .and_then(|()| out.flush());
    Ok(if written.is_ok() {
        Status::Done
    } else {
        Status::BrokenPipe
    })
}
