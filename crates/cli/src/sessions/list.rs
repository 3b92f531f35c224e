//! `tooloop sessions list`.

use std::io::{self, Write};

use tooloop::journal::Catalog;

use crate::exit::{Failure, Status};
use crate::print::complain;

/// Shows a list. Broken pipes end it quietly.
pub(crate) fn list(catalog: &Catalog, limit: usize, json: bool) -> Result<Status, Failure> {
    let (summaries, all, errors) = catalog.list(limit);
    for error in errors {
        complain(&error.to_string());
    }
    let mut out = io::stdout().lock();
    for summary in &summaries {
        let modified = jiff::Timestamp::try_from(summary.modified).unwrap_or_default();
        let line = if json {
            serde_json::json!({
                "session_id": summary.header.session,
                "created": summary.header.created,
                "modified": modified,
                "workspace": summary.header.workspace,
                "bytes": summary.bytes,
                "prompt": summary.prompt,
                "path": summary.path,
            })
            .to_string()
        } else {
            let time = modified
                .to_zoned_datetime(jiff::tz::TimeZone::system())
                .strftime("%Y-%m-%d %H:%M");
            format!("{}  {time}  {}", summary.header.session, summary.prompt)
        };
        if writeln!(out, "{line}").is_err() {
            return Ok(Status::BrokenPipe);
        }
    }
    if summaries.is_empty() {
        complain(&format!(
            "no sessions of this folder in {}",
            catalog.folder().display()
        ));
    } else if summaries.len() < all {
        complain(&format!(
            "{} older ones are not shown; -n N shows more",
            all - summaries.len()
        ));
    }
    Ok(Status::Done)
}
