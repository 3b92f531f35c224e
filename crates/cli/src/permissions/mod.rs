//! `tooloop permissions`: what is allowed here and why, without a session and without a model.
//!
//! The same words are shown by `/permissions` in a session. This module judges nothing: it shows
//! what the policy says, with where each rule stands.

mod call;
mod explain;
mod list;
mod sources;

pub(crate) use call::tool_use;
pub(crate) use explain::Explained;
pub(crate) use list::List;
pub(crate) use sources::RuleSources;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use tooloop::exec::Processes;
use tooloop::journal::SessionId;
use tooloop::provider::ScriptedProvider;
use tooloop::{Agent, Decision};

use crate::args::{PermissionsCommand, RuleArgs};
use crate::exit::{Failure, Status};
use crate::print::complain;
use crate::setup::{self, Asked, Open, Setup};
use crate::wall::{Attempt, Tried};

/// Runs one of the commands.
pub(crate) async fn run(command: PermissionsCommand) -> Result<Status, Failure> {
    match command {
        PermissionsCommand::Explain {
            call,
            tool,
            json,
            rules,
        } => {
            let bench = Bench::new(&rules).await?;
            let tool_use = tool_use(&tool, &call).map_err(Failure::usage)?;
            let policy = bench.agent.policy();
            let access = bench.agent.access(&tool_use).map_err(Failure::usage)?;
            let explained = Explained::new(&policy, &tool_use, &access, &bench.sources);
            let decision = explained.explanation.decision.clone();
            let text = if json {
                format!("{}\n", explained.json())
            } else {
                explained.text()
            };
            bench.tell(&text, status(&decision)).await
        }
        PermissionsCommand::List { json, rules } => {
            let bench = Bench::new(&rules).await?;
            let policy = bench.agent.policy();
            let list = List::new(&policy, &bench.sources, None);
            let text = if json {
                format!("{}\n", list.json())
            } else {
                list.text()
            };
            bench.tell(&text, Status::Done).await
        }
    }
}

/// The exit status that tells a decision.
const fn status(decision: &Decision) -> Status {
    match decision {
        Decision::Allow => Status::Done,
        Decision::Ask { .. } => Status::WouldAsk,
        Decision::Deny { .. } => Status::WouldDeny,
    }
}

/// An agent as a session here would have it, that is never asked anything.
struct Bench {
    agent: Agent,
    sources: RuleSources,
    processes: Processes,
}

impl Bench {
    async fn new(rules: &RuleArgs) -> Result<Self, Failure> {
        let workspace = setup::workspace(rules.directory.as_deref())?;
        let args = rules.run()?;
        let loaded = setup::load_settings(&args, &workspace)?;
        let asked = Asked {
            provider: Arc::new(ScriptedProvider::new()),
            model: "none".into(),
            fallback: None,
            agents: tooloop::AgentTypes::default(),
        };
        let open = Open::New(SessionId::generate());
        // What is decided depends on whether there is a wall; whether there must be one does not
        // matter here.
        let tried = Attempt::begin(&loaded.settings).end(&loaded.settings).await;
        let tried = match tried {
            Ok(Tried::Works(sandbox)) => Tried::Unused(sandbox),
            Ok(tried) => tried,
            Err(failure) => Tried::Missing(failure.message),
        };
        let Setup {
            agent,
            processes,
            warnings,
            rule_sources,
            ..
        } = setup::assemble(&args, &workspace, loaded, open, asked, tried)?;
        warnings.iter().for_each(|warning| complain(warning));
        let agent = agent.build();
        Ok(Self {
            agent: agent.map_err(|error| Failure::settings(error.to_string()))?,
            sources: rule_sources,
            processes,
        })
    }

    async fn tell(self, text: &str, status: Status) -> Result<Status, Failure> {
        let written = crate::output::stdout().write_all(text.as_bytes());
        self.processes
            .end_all(std::time::Duration::from_secs(2))
            .await;
        match written {
            Ok(()) => Ok(status),
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Status::BrokenPipe),
            Err(error) => Err(Failure::new(
                Status::Internal,
                format!("cannot write to standard output: {error}"),
            )),
        }
    }
}

/// A path as it is shown.
fn shown(path: &std::path::Path) -> String {
    crate::text::reveal(&path.display().to_string())
}

/// Folders on one line.
fn folders(folders: &[PathBuf]) -> String {
    let shown: Vec<_> = folders.iter().map(|folder| shown(folder)).collect();
    shown.join(", ")
}
