//! `tooloop sessions show`.

use std::io::{self, Write};
use std::path::Path;

use tooloop::journal::{Line, read_lines};
use tooloop::{Content, ContentBlock, Entry, Message, Permission};

use crate::exit::{self, Failure, Status};
use crate::print::complain;
use crate::text::clean;

/// Shows what was said and done.
pub(crate) fn show(path: &Path, json: bool) -> Result<Status, Failure> {
    let mut out = io::BufWriter::new(crate::output::stdout());
    let mut broken = false;
    let read = read_lines(path, |line| {
        let text = if json {
            serde_json::to_string(&line).unwrap_or_default() + "\n"
        } else {
            match &line {
                Line::Record(record) => tell(&record.entry),
                Line::Unknown(_) => String::new(),
            }
        };
        broken = broken || out.write_all(text.as_bytes()).is_err();
    })
    .map_err(tooloop::SessionError::from)?;
    broken = broken || out.flush().is_err();
    for warning in read.warnings {
        complain(&warning);
    }
    if broken {
        return Ok(Status::BrokenPipe);
    }
    let header = read.header;
    complain(&format!(
        "session {}, begun {} in {}; go on with: tooloop --resume {0}",
        header.session,
        header.created,
        header.workspace.display()
    ));
    Ok(Status::Done)
}

/// An entry as a person is told it.
pub(crate) fn tell(entry: &Entry) -> String {
    let text = match entry {
        Entry::Message(message) => match message.message() {
            Message::User(content) => {
                let said: Vec<_> = Content::said(content).cloned().collect();
                if said.is_empty() {
                    String::new()
                } else {
                    format!("> {}\n", parts(&said).replace('\n', "\n> "))
                }
            }
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
            permission: Permission::Denied { reason, .. },
            ..
        } => format!("  (denied: {reason})\n"),
        Entry::CallRewritten { input, .. } => format!("  (run with {})\n", input.get()),
        Entry::Retry { error, wait_ms, .. } => {
            format!(
                "  (failed, tried again after {wait_ms} ms: {})\n",
                error.message
            )
        }
        Entry::TurnEnd(end) => {
            exit::words(end).map_or_else(String::new, |words| format!("  ({words})\n"))
        }
        Entry::Shortened { results, .. } => {
            format!("  ({} old results cut short to make room)\n", results.len())
        }
        Entry::Compacted {
            summary,
            before,
            after,
            ..
        } => format!(
            "  (summed up: about {before} tokens, now {after})\n  {}\n",
            summary.replace('\n', "\n  ")
        ),
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

pub(crate) fn parts(content: &[Content]) -> String {
    content
        .iter()
        .map(|part| match part {
            Content::Text(text) => text.as_str(),
            Content::Image(_) => "(a picture)",
            Content::Document(_) => "(a document)",
        })
        .collect()
}
