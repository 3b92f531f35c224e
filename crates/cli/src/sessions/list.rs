//! `tooloop sessions list`.

use std::io::Write;
use std::path::Path;

use tooloop::journal::{Catalog, Summary, subagents_of};

use crate::exit::{Failure, Status};
use crate::print::complain;
use crate::text::clean;

/// Shows a list; with subagents, each below the one that it works for. Broken pipes end it quietly.
pub(crate) fn list(
    catalog: &Catalog,
    workspace: &Path,
    limit: usize,
    with_agents: bool,
    json: bool,
) -> Result<Status, Failure> {
    let (summaries, all, errors) = catalog.list(limit);
    for error in errors {
        complain(&error.to_string());
    }
    let mut lines = Vec::new();
    for summary in &summaries {
        tell(summary, 0, with_agents, json, &mut lines);
    }
    let mut out = crate::output::stdout();
    for line in lines {
        if writeln!(out, "{line}").is_err() {
            return Ok(Status::BrokenPipe);
        }
    }
    if summaries.is_empty() {
        complain(&format!(
            "no sessions of this folder in {}{}",
            catalog.folder().display(),
            super::misplaced(catalog, workspace)
        ));
    } else if summaries.len() < all {
        complain(&format!(
            "{} older ones are not shown; -n N shows more",
            all - summaries.len()
        ));
    }
    Ok(Status::Done)
}

fn tell(summary: &Summary, depth: usize, with_agents: bool, json: bool, lines: &mut Vec<String>) {
    let modified = jiff::Timestamp::try_from(summary.modified).unwrap_or_default();
    let works_for = summary.header.works_for.as_ref();
    lines.push(if json {
        let mut line = serde_json::json!({
            "session_id": summary.header.session,
            "created": summary.header.created,
            "modified": modified,
            "workspace": summary.header.workspace,
            "bytes": summary.bytes,
            "prompt": summary.prompt,
            "path": summary.path,
        });
        if let (Some(works_for), Some(line)) = (works_for, line.as_object_mut()) {
            line.insert("works_for".into(), serde_json::json!(works_for));
        }
        line.to_string()
    } else {
        let time = modified
            .to_zoned_datetime(jiff::tz::TimeZone::system())
            .strftime("%Y-%m-%d %H:%M");
        let agent = works_for.map_or_else(String::new, |works_for| {
            format!("[{}] ", clean(&works_for.agent))
        });
        let indent = "  ".repeat(depth);
        format!(
            "{indent}{}  {time}  {agent}{}",
            summary.header.session, summary.prompt
        )
    });
    if with_agents {
        for agent in subagents_of(&summary.path) {
            tell(&agent, depth.saturating_add(1), with_agents, json, lines);
        }
    }
}
