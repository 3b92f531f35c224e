//! The trait that tools implement.

use std::future::Future;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use tooloop_policy::Access;

use crate::dynamic::{Erased, first_problem, schema_of};
use crate::{DynTool, Scope, ToolContext, ToolError, ToolOutput, Withheld};

/// Something that a model can ask for by name.
pub trait Tool: Send + Sync + 'static {
    /// What the model passes. Its JSON schema, with the doc comments of its fields, is told to the
    /// model; put `#[serde(deny_unknown_fields)]` on it, so that a misspelt field is an error that
    /// the model can mend, not a wish that is overheard.
    type Input: DeserializeOwned + JsonSchema + Send;

    /// The name: `^[A-Za-z0-9_-]{1,64}$`, unique in a registry.
    fn name(&self) -> &str;

    /// What the tool does and when to use it, for the model. Short: it is sent with each request.
    fn description(&self) -> &str;

    /// Fields of the input that the model is not told of, where an instance is built without what
    /// they ask for. [`Tool::run`] answers a call that has one all the same.
    fn withheld_fields(&self) -> &[&str] {
        &[]
    }

    /// What a call with this input would touch. Pure and quick: it may be asked more than once for
    /// a call, and while the model is still writing. A call whose access is read-only may run
    /// beside others, may start before the message is complete, and may then be thrown away.
    fn access(&self, input: &Self::Input) -> Access;

    /// Runs. When [`ToolContext::cancellation`] fires, it ends what it started and returns soon.
    ///
    /// # Errors
    /// [`ToolError`] is told to the model as a failed result; the conversation goes on.
    fn run(
        &self,
        input: Self::Input,
        context: &ToolContext,
    ) -> impl Future<Output = Result<ToolOutput, ToolError>> + Send;

    /// What of its state the model must still know after the conversation was summed up: the plan,
    /// the files that it has read lately. Asked for whenever that happens. The most important
    /// first: what is too long is cut, and what is too much is left out. No call is made for it, and
    /// nobody is asked: what `withheld` holds must not be in it.
    fn carried(&self, withheld: &Withheld) -> impl Future<Output = Vec<Carried>> + Send {
        let _ = withheld;
        std::future::ready(Vec::new())
    }

    /// What the model is to be reminded of when it has made `steps` steps since it last used the
    /// tool, if anything. Asked once after each step that did not use it, from 1 on.
    fn reminder(&self, steps: u32) -> Option<String> {
        let _ = steps;
        None
    }

    /// An instance of its own for a new session, for tools that keep state between the calls of a
    /// session (a shell keeps its working directory). What several tools of a session share is in
    /// the [`Scope`]. `None`: all sessions share this one.
    fn for_session(&self, scope: &Scope) -> Option<Self>
    where
        Self: Sized,
    {
        let _ = scope;
        None
    }
}

/// Something that a tool knows and the model should still know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carried {
    /// What it is, in a few words: `plan`, the path of a file.
    pub title: String,
    /// The text itself.
    pub text: String,
}

/// Erases a tool's type.
pub fn tool<T: Tool>(tool: T) -> Arc<dyn DynTool> {
    let schema = schema_of::<T::Input>(tool.withheld_fields());
    Arc::new(Erased { tool, schema })
}

pub(crate) fn parse_input<I: DeserializeOwned + JsonSchema>(
    name: &str,
    json: &str,
) -> Result<I, ToolError> {
    serde_json::from_str(json).map_err(|error| ToolError::InvalidInput {
        tool: name.into(),
        problem: first_problem(&error),
    })
}
