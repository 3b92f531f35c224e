//! The tool that begins subagents.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use tooloop_policy::Access;
use tooloop_tool::{Scope, Tool, ToolContext, ToolError, ToolOutput};

use super::working;
use super::{AgentTypes, Subagents};

/// The name of the tool.
pub const TASK: &str = "task";

/// The type that works if none is named.
const USUAL: &str = "general";

/// Begins subagents.
pub(crate) struct Task {
    types: Arc<AgentTypes>,
    description: Arc<str>,
    subagents: Arc<Subagents>,
}

/// What the model passes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TaskInput {
    /// The work in three to six words, for the user.
    description: String,
    /// The whole task: the subagent knows nothing of this conversation.
    prompt: String,
    /// Who works: general if left out.
    #[serde(default)]
    agent_type: Option<String>,
    /// Answer at once, and tell the result later.
    #[serde(default)]
    run_in_background: bool,
}

impl Task {
    pub(crate) fn new(types: AgentTypes) -> Self {
        let description = format!(
            "Has a subagent do a piece of work with a history of its own; you get its last message. \
             For searches that would fill your context, and for pieces that can be done side by \
             side: calls in one message run at once. Types:{}",
            types.told()
        );
        Self {
            types: Arc::new(types),
            description: description.into(),
            subagents: Arc::default(),
        }
    }
}

impl Tool for Task {
    type Input = TaskInput;

    fn name(&self) -> &'static str {
        TASK
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn access(&self, _: &TaskInput) -> Access {
        Access::delegated()
    }

    async fn run(&self, input: TaskInput, context: &ToolContext) -> Result<ToolOutput, ToolError> {
        let name = input.agent_type.as_deref().unwrap_or(USUAL);
        let kind = self.types.find(name).map_err(ToolError::Failed)?;
        if input.prompt.trim().is_empty() {
            let words = "the prompt is blank: say what is to be done";
            return Err(ToolError::Failed(words.into()));
        }
        let parent = self.subagents.parent().ok_or_else(|| {
            ToolError::Failed("there is no session that a subagent could work for".into())
        })?;
        let prompt = self.types.prompt(kind);
        if input.run_in_background {
            return Ok(working::in_background(
                &parent,
                kind,
                prompt,
                input.prompt,
                &input.description,
                context,
            ));
        }
        let session = parent.begin(kind, prompt, &context.tool_use_id, false);
        working::work(&parent, session, input.prompt, context).await
    }

    fn for_session(&self, scope: &Scope) -> Option<Self> {
        Some(Self {
            types: Arc::clone(&self.types),
            description: Arc::clone(&self.description),
            subagents: scope.shared(Subagents::default),
        })
    }
}
