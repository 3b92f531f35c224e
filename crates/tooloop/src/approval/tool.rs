//! A tool that is asked about calls.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tooloop_model::{Content, JsonObject};
use tooloop_policy::RuleList;
use tooloop_tool::{Background, DynTool, JudgedPaths, Progress, ToolContext, Withheld};

use super::{
    Allowance, Approver, Destination, PermissionAnswer, PermissionChange, Question, Reply,
};

/// Asks a tool about calls: it is run with `{"tool_name", "input", "tool_use_id"}` and answers
/// with the text of a [`PermissionAnswer`].
///
/// What it says goes for the session alone; an answer that wants more, or that is none, is a no.
/// It has as long as it takes: whoever interrupts the turn ends it.
#[derive(Clone)]
pub struct ToolApprover {
    tool: Arc<dyn DynTool>,
    workspace: PathBuf,
}

impl fmt::Debug for ToolApprover {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ToolApprover({})", self.tool.definition().name)
    }
}

impl ToolApprover {
    /// Asks this tool, which works in that folder.
    pub fn new(tool: Arc<dyn DynTool>, workspace: impl Into<PathBuf>) -> Self {
        Self {
            tool,
            workspace: workspace.into(),
        }
    }

    async fn ask(&self, question: &Question) -> Result<Reply, String> {
        let tool_use = &question.tool_use;
        let written = serde_json::from_str::<Value>(tool_use.input.json()).unwrap_or_default();
        let input = json!({
            "tool_name": tool_use.name,
            "input": written,
            "tool_use_id": tool_use.id,
        });
        let input = JsonObject::parse(&input.to_string()).map_err(|error| error.to_string())?;
        let cancellation = CancellationToken::new();
        let _ends_with_us = cancellation.clone().drop_guard();
        let context = ToolContext {
            tool_use_id: tool_use.id.clone(),
            working_directory: self.workspace.clone(),
            cancellation,
            progress: Progress::none(),
            background: Background::default(),
            withheld: Withheld::nothing(),
            judged: JudgedPaths::unchecked(),
            grants: Vec::new(),
            is_read_only: false,
            room: usize::MAX,
        };
        let run = AssertUnwindSafe(self.tool.run(&input, &context)).catch_unwind();
        let output = run.await.map_err(|_| "it failed inside".to_owned())?;
        let output = output.map_err(|error| error.to_string())?;
        let texts = output.content.iter().filter_map(|part| match part {
            Content::Text(text) => Some(text.as_str()),
            Content::Image(_) | Content::Document(_) => None,
        });
        let text: String = texts.collect();
        if output.is_error {
            return Err(text);
        }
        let answer: Value = serde_json::from_str(text.trim())
            .map_err(|error| format!("its answer is no JSON: {error}"))?;
        reply(PermissionAnswer::parse(&answer)?)
    }
}

fn reply(answer: PermissionAnswer) -> Result<Reply, String> {
    let (input, updates) = match answer {
        PermissionAnswer::Deny { message, interrupt } if interrupt => {
            return Ok(Reply::DenyAndStop { reason: message });
        }
        PermissionAnswer::Deny { message, .. } => return Ok(Reply::Deny { reason: message }),
        PermissionAnswer::Allow { input, updates } => (input, updates),
    };
    let mut allowance = Allowance {
        input,
        rules: Vec::new(),
    };
    for update in updates {
        match (update.change, update.destination) {
            (PermissionChange::Add(RuleList::Allow, rules), Destination::Session) => {
                allowance.rules.extend(rules);
            }
            _ => return Err("it asks for a change that only a front end can make".into()),
        }
    }
    Ok(Reply::AllowWith(allowance))
}

impl Approver for ToolApprover {
    fn decide(&self, question: Question) -> BoxFuture<'static, Reply> {
        let asked = self.clone();
        let answer = async move {
            let reply = asked.ask(&question).await;
            reply.unwrap_or_else(|problem| Reply::Deny {
                reason: format!(
                    "{}, and {}, which is asked about that, gave no answer: {problem}",
                    question.reason,
                    asked.tool.definition().name
                ),
            })
        };
        answer.boxed()
    }
}
