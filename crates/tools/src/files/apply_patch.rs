//! Changing several files at once.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use tooloop_policy::Access;
use tooloop_tool::{Scope, Tool, ToolContext, ToolError, ToolOutput};

use super::call::{Call, Files, failed};
use super::carry_out::carry_out;
use super::patch::{Change, Patch};
use super::plan::plan;
use crate::Ops;

/// How many bytes of differences are shown.
const SHOWN: usize = 64 << 10;

/// Applies patches to files.
#[derive(Debug, Clone)]
pub struct ApplyPatch {
    files: Files,
}

/// What the model passes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyPatchInput {
    /// The patch.
    pub patch: String,
}

impl ApplyPatch {
    /// A tool that applies patches on this machine.
    #[must_use]
    pub fn new(ops: Arc<dyn Ops>) -> Self {
        Self {
            files: Files::new(ops),
        }
    }
}

impl Tool for ApplyPatch {
    type Input = ApplyPatchInput;

    fn name(&self) -> &str {
        "apply_patch"
    }

    fn description(&self) -> &str {
        "Changes several files, all or none. Takes a unified diff, or `*** Begin Patch`, then \
         `*** Add File: PATH` (lines with +), `*** Delete File: PATH`, or `*** Update File: PATH` \
         with `*** Move to: PATH` if it moves and for each change `@@` or `@@ LINE ABOVE` and lines \
         with blank, - or +; then `*** End Patch`."
    }

    fn access(&self, input: &ApplyPatchInput) -> Access {
        let mut access = Access::effectful();
        // What is no patch touches nothing: running it says what is wrong.
        let Ok(patch) = Patch::parse(&input.patch) else {
            return access;
        };
        for section in patch.sections {
            if let Change::Update { to: Some(to), .. } = &section.change {
                access = access.writing(to);
            }
            if !matches!(section.change, Change::Add(_)) {
                access = access.reading(&section.path);
            }
            access = access.writing(section.path);
        }
        access
    }

    async fn run(
        &self,
        input: ApplyPatchInput,
        context: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        self.files.run(context, move |call| run(call, &input)).await
    }

    fn for_session(&self, scope: &Scope) -> Option<Self> {
        Some(Self {
            files: self.files.for_session(scope),
        })
    }
}

fn run(call: &Call, input: &ApplyPatchInput) -> Result<ToolOutput, ToolError> {
    let patch = match Patch::parse(&input.patch) {
        Ok(patch) => patch,
        Err(error) => return failed(format!("{error}; nothing is changed")),
    };
    let steps = plan(call, patch.sections)?;
    call.check()?;
    let notes = carry_out(call, &steps)?;
    let mut text = String::from("the patch is applied:");
    let mut details = String::new();
    for step in &steps {
        text.push_str(&format!("\n{}", step.summary));
        for note in &step.notes {
            text.push_str(&format!("\n({note})"));
        }
        match &step.diff {
            Some(diff) if details.len() + diff.len() <= SHOWN => details.push_str(diff),
            Some(_) => details.push_str(&format!("({} is not shown)\n", step.summary)),
            None => details.push_str(&format!("{}\n", step.summary)),
        }
    }
    for note in notes {
        text.push_str(&format!("\n({note})"));
    }
    if patch.has_modes {
        text.push_str("\n(modes in the patch are passed over; use chmod)");
    }
    Ok(ToolOutput {
        details: Some(details),
        ..ToolOutput::text(text)
    })
}
