//! `tooloop prompt`: what a model would be told here before anybody says a word, without a session
//! and without a model.

use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tooloop::journal::SessionId;
use tooloop::provider::ScriptedProvider;
use tooloop::{Agent, PromptSection};

use crate::args::{PromptArgs, RunArgs};
use crate::exit::{Failure, Status};
use crate::print::complain;
use crate::setup::{self, Asked, Open, Setup};
use crate::wall::{Attempt, Tried};

/// Prints the prompt, or the table of its sections.
pub(crate) async fn run(args: PromptArgs) -> Result<Status, Failure> {
    let PromptArgs {
        sections,
        json,
        run,
    } = args;
    let run = RunArgs {
        no_session_persistence: true,
        ..run
    };
    let workspace = setup::workspace(run.directory.as_deref())?;
    let mut loaded = setup::load_settings(&run, &workspace)?;
    // Never asked.
    let provider = Arc::new(ScriptedProvider::new());
    let (provider, agents, more) = setup::agents(&run, &loaded.settings, &workspace, provider);
    loaded.warnings.extend(more);
    let asked = Asked {
        provider,
        model: "none".into(),
        fallback: None,
        agents,
    };
    let open = Open::New(SessionId::generate());
    let tried = Attempt::begin(&loaded.settings).end(&loaded.settings).await;
    let tried = tried.unwrap_or_else(|failure| Tried::Missing(failure.message));
    let Setup {
        agent,
        processes,
        warnings,
        // Held until all has ended.
        temp: _temp,
        ..
    } = setup::assemble(&run, &workspace, loaded, open, asked, tried)?;
    warnings.iter().for_each(|warning| complain(warning));
    let agent = agent
        .build()
        .map_err(|error| Failure::settings(error.to_string()))?;
    let text = match (json, sections) {
        (true, _) => format!("{}\n", as_json(&agent, !sections)),
        (false, true) => table(&agent),
        (false, false) => format!("{}\n", agent.system_prompt().text()),
    };
    let mut out = crate::output::stdout();
    let written = out.write_all(text.as_bytes());
    drop(out);
    processes.end_all(Duration::from_secs(2)).await;
    match written {
        Ok(()) => Ok(Status::Done),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Status::BrokenPipe),
        Err(error) => Err(Failure::new(
            Status::Internal,
            format!("cannot write to standard output: {error}"),
        )),
    }
}

/// How many tokens that many bytes come to, by the estimate of 3.5 bytes a token.
const fn tokens(bytes: usize) -> usize {
    bytes.saturating_mul(2).div_ceil(7)
}

/// The bytes of the definitions of tools: names, descriptions and schemas.
fn tool_bytes(agent: &Agent) -> usize {
    let definitions = agent.tool_definitions();
    let bytes = definitions
        .iter()
        .map(|tool| tool.name.len() + tool.description.len() + tool.input_schema.get().len());
    bytes.sum()
}

fn bytes_of(section: &PromptSection) -> usize {
    section.text.trim().len()
}

fn table(agent: &Agent) -> String {
    let prompt = agent.system_prompt();
    let mut rows: Vec<(String, usize)> = prompt
        .sections()
        .iter()
        .map(|section| (section.name.to_string(), bytes_of(section)))
        .collect();
    let whole = prompt.text().len();
    let tools = tool_bytes(agent);
    rows.push(("system prompt".into(), whole));
    let count = agent.tool_definitions().len();
    rows.push((format!("definitions of {count} tools"), tools));
    rows.push(("together".into(), whole.saturating_add(tools)));
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut table = format!("{:width$}  {:>8}  {:>8}\n", "section", "bytes", "tokens");
    for (name, bytes) in rows {
        // Writing into a string does not fail.
        writeln!(table, "{name:width$}  {bytes:>8}  {:>8}", tokens(bytes)).unwrap_or_default();
    }
    table
}

fn as_json(agent: &Agent, with_text: bool) -> Value {
    let prompt = agent.system_prompt();
    let size = |bytes: usize| json!({ "bytes": bytes, "tokens": tokens(bytes) });
    let sections: Vec<_> = prompt
        .sections()
        .iter()
        .map(|section| {
            let bytes = bytes_of(section);
            let mut row = json!({
                "name": section.name,
                "bytes": bytes,
                "tokens": tokens(bytes),
            });
            if let (true, Some(row)) = (with_text, row.as_object_mut()) {
                row.insert("text".into(), section.text.trim().into());
            }
            row
        })
        .collect();
    let whole = prompt.text().len();
    let tools = tool_bytes(agent);
    let mut told = json!({
        "sections": sections,
        "system_prompt": size(whole),
        "tools": {
            "names": agent.tool_names(),
            "bytes": tools,
            "tokens": tokens(tools),
        },
        "together": size(whole.saturating_add(tools)),
    });
    if let (true, Some(told)) = (with_text, told.as_object_mut()) {
        told.insert("text".into(), prompt.text().into());
    }
    told
}
