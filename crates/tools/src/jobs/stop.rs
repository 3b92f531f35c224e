//! The tool that ends a background job.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::sleep;
use tooloop_policy::Access;
use tooloop_tool::{Scope, Tool, ToolContext, ToolError, ToolOutput};

use super::{Jobs, look};

/// For how long the end of a job is waited for: it is asked to end, and killed soon after.
const END: Duration = Duration::from_secs(15);

/// Ends a background job with all its processes.
#[derive(Debug, Default)]
pub struct JobStop {
    jobs: Arc<Jobs>,
}

/// What the model passes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobStopInput {
    /// The job, such as job_1.
    pub id: String,
}

impl JobStop {
    /// The tool. It sees the jobs of the session that it is made for.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Tool for JobStop {
    type Input = JobStopInput;

    fn name(&self) -> &str {
        "job_stop"
    }

    fn description(&self) -> &str {
        "Ends a background job with all its processes and shows its newest output."
    }

    fn access(&self, _: &JobStopInput) -> Access {
        Access::session()
    }

    async fn run(
        &self,
        input: JobStopInput,
        context: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let job = self.jobs.find(&input.id)?;
        let look = job.look();
        job.stop();
        tokio::select! {
            () = job.has_ended.cancelled() => {}
            () = sleep(END) => return Err(ToolError::Failed(format!(
                "{} has not ended yet, though it was killed: a notice comes when it has", job.id
            ))),
            () = context.cancellation.cancelled() => return Err(ToolError::Cancelled),
        }
        look::answer(&job, look, context).await
    }

    fn for_session(&self, scope: &Scope) -> Option<Self> {
        Some(Self {
            jobs: scope.shared(Jobs::default),
        })
    }
}
