//! The tool that looks at a background job.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::sleep;
use tooloop_policy::Access;
use tooloop_tool::{Scope, Tool, ToolContext, ToolError, ToolOutput};

use super::{Jobs, look};
use crate::Wait;

/// Shows how a background job is doing and what it has printed since the last look.
#[derive(Debug, Default)]
pub struct JobOutput {
    jobs: Arc<Jobs>,
}

/// What the model passes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobOutputInput {
    /// The job, such as job_1.
    pub id: String,
    /// How long to wait for its end first.
    #[serde(default)]
    pub wait_ms: Option<Wait<600_000>>,
}

impl JobOutput {
    /// The tool. It sees the jobs of the session that it is made for.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Tool for JobOutput {
    type Input = JobOutputInput;

    fn name(&self) -> &str {
        "job_output"
    }

    fn description(&self) -> &str {
        "Shows whether a background job runs or how it ended, and what it has printed since the \
         last look. No need to poll: its end is told by a notice."
    }

    /// What has been shown counts as seen, so a look that is thrown away would lose it.
    fn access(&self, _: &JobOutputInput) -> Access {
        Access::session()
    }

    async fn run(
        &self,
        input: JobOutputInput,
        context: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let job = self.jobs.find(&input.id)?;
        let look = job.look();
        if let Some(wait) = input.wait_ms {
            tokio::select! {
                () = job.has_ended.cancelled() => {}
                () = sleep(wait.0) => {}
                () = context.cancellation.cancelled() => return Err(ToolError::Cancelled),
            }
        }
        look::answer(&job, look, context).await
    }

    fn for_session(&self, scope: &Scope) -> Option<Self> {
        Some(Self {
            jobs: scope.shared(Jobs::default),
        })
    }
}
