//! `tooloop sessions verify`.

use std::io::{self, Write};
use std::path::Path;

use serde_json::json;
use tooloop::SessionError;
use tooloop::journal::{self, Fault, Verified};

use crate::exit::{Failure, Status};
use crate::text::clean;

/// Names every fault of a journal. Nothing is changed.
pub(crate) fn verify(path: &Path, workspace: &Path, json: bool) -> Result<Status, Failure> {
    // Told one by one: a large file may have many.
    let mut out = io::BufWriter::new(crate::output::stdout());
    let mut written = if json {
        write!(out, "{{\"path\":{},\"faults\":[", json!(path))
    } else {
        Ok(())
    };
    let mut count = 0_u64;
    let verified = journal::verify(path, Some(workspace), |fault| {
        let text = if json {
            let comma = if count == 0 { "" } else { "," };
            format!("{comma}{}", as_json(&fault))
        } else {
            as_text(&fault)
        };
        count = count.saturating_add(1);
        if written.is_ok() {
            written = out.write_all(text.as_bytes());
        }
    })
    .map_err(SessionError::from)?;
    let last = if json {
        end_of_json(&verified, journal::holder(path))
    } else {
        summary(path, &verified, journal::holder(path))
    };
    let written = written
        .and_then(|()| out.write_all(last.as_bytes()))
        .and_then(|()| out.flush());
    if written.is_err() {
        return Ok(Status::BrokenPipe);
    }
    Ok(if verified.faults == 0 {
        Status::Done
    } else {
        Status::Input
    })
}

/// A fault and what is done about it, for a person.
pub(super) fn as_text(fault: &Fault) -> String {
    clean(&format!("{fault}\n    {}\n", fault.kind.remedy()))
}

fn as_json(fault: &Fault) -> serde_json::Value {
    json!({
        "line": fault.line,
        "offset": fault.offset,
        "kind": fault.kind.name(),
        "is_note": fault.kind.is_note(),
        "message": fault.kind.to_string(),
        "on_resume": fault.kind.remedy(),
    })
}

fn end_of_json(verified: &Verified, holder: Option<u32>) -> String {
    let rest = json!({
        "session_id": verified.header.session,
        "records": verified.records,
        "fault_count": verified.faults,
        "note_count": verified.notes,
        "is_clean": verified.faults == 0,
        "in_use_by": holder,
    })
    .to_string();
    // The object goes on behind the list of faults.
    format!("],{}\n", rest.strip_prefix('{').unwrap_or(&rest))
}

fn summary(path: &Path, verified: &Verified, holder: Option<u32>) -> String {
    let Verified {
        header,
        records,
        faults,
        notes,
    } = verified;
    let mut words = format!("{}: {records} records", path.display());
    match faults {
        0 => words.push_str(", no fault"),
        1 => words.push_str(", one fault"),
        many => words.push_str(&format!(", {many} faults")),
    }
    if *notes > 0 {
        words.push_str(&format!(
            ", {notes} entries that this version does not know"
        ));
    }
    words.push('\n');
    if let Some(pid) = holder {
        words.push_str(&format!(
            "process {pid} writes to it: its last line may have been under way\n"
        ));
    }
    if *faults > 0 {
        words.push_str(&format!(
            "resuming reads it all the same; to mend the file: tooloop sessions repair {}\n",
            header.session
        ));
    }
    clean(&words)
}
