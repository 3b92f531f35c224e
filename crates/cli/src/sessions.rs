//! `tooloop sessions`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tooloop::journal::{Catalog, Record, read_records};
use tooloop::{Content, ContentBlock, Entry, Message, Permission};

use crate::exit::{self, Failure, Status};
use crate::print::complain;
use crate::text::clean;

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

/// Shows what was said and done.
pub(crate) fn show(catalog: &Catalog, session: &str, json: bool) -> Result<Status, Failure> {
    let path = catalog.find(session).map_err(tooloop::SessionError::from)?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut broken = false;
    let (header, warnings) = read_records(&path, |record| {
        let text = if json {
            serde_json::to_string(&record).unwrap_or_default() + "\n"
        } else {
            tell(&record)
        };
        broken = broken || out.write_all(text.as_bytes()).is_err();
    })
    .map_err(tooloop::SessionError::from)?;
    broken = broken || out.flush().is_err();
    for warning in warnings {
        complain(&warning);
    }
    if broken {
        return Ok(Status::BrokenPipe);
    }
    complain(&format!(
        "session {}, begun {} in {}; go on with: tooloop --resume {0}",
        header.session,
        header.created,
        header.workspace.display()
    ));
    Ok(Status::Done)
}

fn tell(record: &Record) -> String {
    let text = match &record.entry {
        Entry::Message(message) => match message.message() {
            Message::User(content) => format!("> {}\n", parts(content).replace('\n', "\n> ")),
            Message::Assistant(reply) => reply.content.iter().map(block).collect(),
            Message::ToolResults(_) => String::new(),
        },
        Entry::CallFinished(result) => {
            let mark = if result.is_error { "✗" } else { "→" };
            format!(
                "  {mark} {}\n",
                parts(&result.content).replace('\n', "\n    ")
            )
        }
        Entry::Permission {
            permission: Permission::Denied { reason },
            ..
        } => format!("  (denied: {reason})\n"),
        Entry::Retry { error, wait_ms, .. } => {
            format!(
                "  (failed, tried again after {wait_ms} ms: {})\n",
                error.message
            )
        }
        Entry::TurnEnd(end) => {
            exit::words(end).map_or_else(String::new, |words| format!("  ({words})\n"))
        }
        Entry::Rewound { turn } => format!("  (taken back to before turn {turn})\n"),
        Entry::Permission {
            permission: Permission::Allowed { .. },
            ..
        }
        | Entry::CallStarted { .. }
        | Entry::Discarded { .. }
        | Entry::Spent { .. }
        | Entry::Continue(_) => String::new(),
    };
    clean(&text)
}

fn block(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text { text, .. } => format!("{}\n", text.trim_end()),
        ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking(_) => {
            "  (thinking)\n".into()
        }
        ContentBlock::ToolUse(tool_use) => {
            format!("● {} {}\n", tool_use.name, tool_use.input.json())
        }
        ContentBlock::Vendor(_) => String::new(),
    }
}

fn parts(content: &[Content]) -> String {
    content
        .iter()
        .map(|part| match part {
            Content::Text(text) => text.as_str(),
            Content::Image(_) => "(a picture)",
            Content::Document(_) => "(a document)",
        })
        .collect()
}

/// Where sessions are kept: below the data folder of the user.
pub(crate) fn root(environment: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let absolute = |path: String| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    environment("XDG_DATA_HOME")
        .and_then(absolute)
        .or_else(|| {
            let home = environment("HOME").and_then(absolute)?;
            Some(home.join(".local/share"))
        })
        .map(|data| data.join("tooloop/sessions"))
}

/// The sessions of a folder.
pub(crate) fn catalog(root: Option<PathBuf>, workspace: &Path) -> Result<Catalog, Failure> {
    let root = root.ok_or_else(|| {
        Failure::settings("there is no folder for sessions: set HOME or XDG_DATA_HOME")
    })?;
    let workspace = std::fs::canonicalize(workspace)
        .map_err(|error| Failure::usage(format!("{}: {error}", workspace.display())))?;
    Ok(Catalog::new(root, &workspace))
}
