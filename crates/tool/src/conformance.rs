//! What a [`DynTool`] must hold to, as a test that any tool can run.
//!
//! Give it the tool, a folder of the test's own, and a few calls as a model would make them. It
//! asks the tool about these and about many that are wrong, runs those that may be run, and tells
//! of everything that an agent could not rely on. It needs no runtime beside the one that the tool
//! itself may want.
//!
//! ```
//! # use schemars::JsonSchema;
//! # use serde::Deserialize;
//! # use tooloop_policy::Access;
//! # use tooloop_tool::{Tool, ToolContext, ToolError, ToolOutput};
//! use tooloop_tool::conformance::{Sample, check};
//! # /// What the model passes.
//! # #[derive(Deserialize, JsonSchema)]
//! # #[serde(deny_unknown_fields)]
//! # struct Sum { numbers: Vec<f64> }
//! # struct Adder;
//! # impl Tool for Adder {
//! #     type Input = Sum;
//! #     fn name(&self) -> &str { "add" }
//! #     fn description(&self) -> &str { "Adds numbers." }
//! #     fn access(&self, _: &Sum) -> Access { Access::read_only() }
//! #     async fn run(&self, input: Sum, _: &ToolContext) -> Result<ToolOutput, ToolError> {
//! #         Ok(ToolOutput::text(input.numbers.iter().sum::<f64>().to_string()))
//! #     }
//! # }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let folder = std::env::temp_dir().join("adder-conformance");
//! std::fs::create_dir_all(&folder).unwrap();
//! let adder = tooloop_tool::tool(Adder);
//! let samples = [Sample::run(r#"{"numbers": [1, 2]}"#)];
//! assert_eq!(check(&*adder, &folder, &samples).await, Ok(()));
//! # }
//! ```

mod fault;
mod folder;
mod probe;
#[cfg(test)]
mod tests;
mod wait;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tooloop_model::{Content, JsonObject};
use tooloop_policy::{Access, AccessEffect};

pub use fault::Fault;

use crate::{DynTool, Scope, ToolContext, ToolError, ToolOutput};

/// How long a call may go on after it was cancelled, and a hundred questions about access may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many times as long a call may take that is run to its end.
const LONGER: u32 = 12;

/// The longest description in characters: some providers take no longer ones.
pub(crate) const MAX_DESCRIPTION: usize = 1_024;

/// How often a tool is asked about the access of one call.
const QUESTIONS: usize = 100;

/// A call as a model would make it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The input: a JSON object.
    pub input: String,
    /// What is done with it.
    pub trial: Trial,
}

/// What is done with a [`Sample`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trial {
    /// The tool is asked about it, and it is not run: it would reach out of the folder.
    Ask,
    /// It is run, cancelled from the start and to its end.
    Run,
    /// It is run and cancelled under way: it would go on for long.
    Cancel,
}

impl Sample {
    /// A call that the tool is asked about and that is not run.
    #[must_use]
    pub fn ask(input: impl Into<String>) -> Self {
        Self::new(input, Trial::Ask)
    }

    /// A call that is run. If it changes nothing, it must answer the same in each new session;
    /// where the content holds what differs each time, a fingerprint says what does not.
    #[must_use]
    pub fn run(input: impl Into<String>) -> Self {
        Self::new(input, Trial::Run)
    }

    /// A call that would go on for long, and is cancelled under way.
    #[must_use]
    pub fn cancel(input: impl Into<String>) -> Self {
        Self::new(input, Trial::Cancel)
    }

    fn new(input: impl Into<String>, trial: Trial) -> Self {
        let input = input.into();
        Self { input, trial }
    }
}

/// Checks a tool with these calls, which run in this folder.
///
/// # Errors
/// All that does not hold.
pub async fn check(
    tool: &dyn DynTool,
    folder: &Path,
    samples: &[Sample],
) -> Result<(), Vec<Fault>> {
    check_within(PATIENCE, tool, folder, samples).await
}

async fn check_within(
    patience: Duration,
    tool: &dyn DynTool,
    folder: &Path,
    samples: &[Sample],
) -> Result<(), Vec<Fault>> {
    let mut check = Check {
        tool,
        folder,
        patience,
        faults: Vec::new(),
    };
    check.definition();
    for sample in samples {
        check.sample(sample);
    }
    check.odd_inputs();
    for sample in samples {
        check.trial(sample).await;
    }
    check.sessions(samples).await;
    // One fault may show in many inputs.
    let mut faults: Vec<Fault> = Vec::new();
    for fault in check.faults {
        if !faults.contains(&fault) {
            faults.push(fault);
        }
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(faults)
    }
}

struct Check<'a> {
    tool: &'a dyn DynTool,
    folder: &'a Path,
    patience: Duration,
    faults: Vec<Fault>,
}

impl Check<'_> {
    fn definition(&mut self) {
        let definition = self.tool.definition();
        let name = &definition.name;
        let fits = (1..=64).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        if !fits {
            self.faults.push(Fault::Name(name.clone()));
        }
        let characters = definition.description.trim().chars().count();
        if !(1..=MAX_DESCRIPTION).contains(&characters) {
            self.faults.push(Fault::Description(characters));
        }
        let schema = definition.input_schema.to_value();
        let problems = probe::schema_problems(&schema);
        self.faults.extend(problems.into_iter().map(Fault::Schema));
        let again = self.tool.definition();
        let other = self.tool.for_session(&Scope::new());
        let other = other.map_or_else(|| again.clone(), |other| other.definition());
        if again != definition || other != definition {
            self.faults.push(Fault::DefinitionChanges);
        }
    }

    /// A call as it is, and the ways in which it could be wrong.
    fn sample(&mut self, sample: &Sample) {
        let input = &sample.input;
        match self.access(input) {
            Some(Ok(_)) => {}
            Some(Err(problem)) => self.faults.push(Fault::SampleRefused {
                input: input.clone(),
                problem,
            }),
            None => return,
        }
        let schema = self.tool.definition().input_schema.to_value();
        let surplus = probe::with_unknown_field(input);
        match self.access(&surplus) {
            Some(Ok(_)) => self.faults.push(Fault::UnknownField(surplus)),
            Some(Err(words)) => self.words(&surplus, &words),
            None => {}
        }
        for (field, without) in probe::without_required(&schema, input) {
            match self.access(&without) {
                Some(Ok(_)) => self.faults.push(Fault::NotRequired(field)),
                Some(Err(problem)) if !problem.contains(&field) => {
                    self.faults.push(Fault::Unnamed { field, problem });
                }
                Some(Err(_)) | None => {}
            }
        }
        for wrong in probe::of_wrong_types(&schema, input) {
            match self.access(&wrong) {
                Some(Ok(_)) => self.faults.push(Fault::WrongType(wrong)),
                Some(Err(words)) => self.words(&wrong, &words),
                None => {}
            }
        }
        let begun = Instant::now();
        for _ in 0..QUESTIONS {
            if begun.elapsed() > self.patience {
                return self.faults.push(Fault::AccessSlow(input.clone()));
            }
            self.access(input);
        }
    }

    fn odd_inputs(&mut self) {
        let schema = self.tool.definition().input_schema.to_value();
        for input in probe::odd_inputs(&schema) {
            if let Some(Err(words)) = self.access(&input) {
                self.words(&input, &words);
            }
        }
    }

    /// Asks twice. `None`: a fault of its own was found, or it is no input at all.
    fn access(&mut self, input: &str) -> Option<Result<Access, String>> {
        let Ok(object) = JsonObject::parse(input) else {
            self.faults.push(Fault::SampleRefused {
                input: input.into(),
                problem: "it is not a JSON object".into(),
            });
            return None;
        };
        let ask = || self.tool.access(&object).map_err(|error| error.to_string());
        let Some(first) = wait::unless_panic(ask) else {
            self.faults.push(Fault::AccessPanics(short(input)));
            return None;
        };
        if wait::unless_panic(ask).as_ref() != Some(&first) {
            self.faults.push(Fault::AccessChanges(short(input)));
        }
        Some(first)
    }

    fn words(&mut self, input: &str, words: &str) {
        if words.split_whitespace().count() < 2 {
            self.faults.push(Fault::NoWords {
                input: short(input),
                words: words.into(),
            });
        }
    }

    fn effect(&self, sample: &Sample) -> Option<AccessEffect> {
        let input = JsonObject::parse(&sample.input).ok()?;
        let access = wait::unless_panic(|| self.tool.access(&input))?.ok()?;
        Some(access.effect)
    }

    async fn trial(&mut self, sample: &Sample) {
        let Some(effect) = self.effect(sample) else {
            return;
        };
        let tool = self.tool.for_session(&Scope::new());
        let tool = tool.as_deref().unwrap_or(self.tool);
        let before = self.look();
        match sample.trial {
            Trial::Ask => return,
            Trial::Run => {
                let context = ToolContext::new(self.folder);
                context.cancellation.cancel();
                // Whatever comes of it: it is the end that counts.
                self.call(tool, sample, &context, true).await;
                // Twice, for what is done the first time may be all there is to do.
                for _ in 0..2 {
                    let context = ToolContext::new(self.folder);
                    if let Some(result) = self.call(tool, sample, &context, false).await {
                        self.answer(sample, &result);
                    }
                    if effect.reaches_outside() {
                        break;
                    }
                }
            }
            Trial::Cancel => {
                let context = ToolContext::new(self.folder);
                let cancellation = context.cancellation.clone();
                let ended = self.call(tool, sample, &context, true);
                wait::after_first_poll(ended, move || cancellation.cancel()).await;
            }
        }
        if effect.reaches_outside() {
            return;
        }
        let after = self.look();
        if let (Some(before), Some(after)) = (before, after)
            && let Some(path) = folder::difference(&before, &after)
        {
            let input = short(&sample.input);
            self.faults.push(Fault::Changes { input, path });
        }
    }

    /// Makes a call. `None`: it did not come to its end.
    async fn call(
        &mut self,
        tool: &dyn DynTool,
        sample: &Sample,
        context: &ToolContext,
        is_cancelled: bool,
    ) -> Option<Result<ToolOutput, ToolError>> {
        let input = JsonObject::parse(&sample.input).ok()?;
        let patience = if is_cancelled {
            self.patience
        } else {
            self.patience.saturating_mul(LONGER)
        };
        match wait::run(tool.run(&input, context), patience).await {
            wait::Ended::Done(result) => Some(result),
            wait::Ended::Panicked => {
                self.faults.push(Fault::RunPanics(short(&sample.input)));
                None
            }
            wait::Ended::TooLate => {
                let input = short(&sample.input);
                self.faults.push(if is_cancelled {
                    Fault::NotCancelled(input)
                } else {
                    Fault::Endless(input)
                });
                None
            }
        }
    }

    fn answer(&mut self, sample: &Sample, result: &Result<ToolOutput, ToolError>) {
        match result {
            Err(error) => self.words(&sample.input, &error.to_string()),
            Ok(output) if output.content.iter().all(Content::is_blank) => {
                self.faults.push(Fault::Blank(short(&sample.input)));
            }
            Ok(_) => {}
        }
    }

    fn look(&mut self) -> Option<folder::Tree> {
        match folder::look(self.folder) {
            Ok(tree) => Some(tree),
            Err(error) => {
                self.faults.push(Fault::Folder(error.to_string()));
                None
            }
        }
    }

    /// Each call that changes nothing outside must come to the same in a session that follows
    /// another one as in the first.
    async fn sessions(&mut self, samples: &[Sample]) {
        let inside: Vec<_> = samples
            .iter()
            .filter(|sample| sample.trial == Trial::Run)
            .filter_map(|sample| Some((sample, self.effect(sample)?)))
            .filter(|(_, effect)| !effect.reaches_outside())
            .collect();
        let session = |tool: &dyn DynTool| tool.for_session(&Scope::new());
        for (sample, effect) in &inside {
            let (Some(first), Some(second)) = (session(self.tool), session(self.tool)) else {
                if *effect == AccessEffect::Session {
                    self.faults.push(Fault::SharedState(short(&sample.input)));
                }
                continue;
            };
            let before = self.told(&first, sample).await;
            for (other, _) in &inside {
                self.told(&first, other).await;
            }
            if self.told(&second, sample).await != before {
                self.faults.push(Fault::SharedState(short(&sample.input)));
            }
        }
    }

    async fn told(&mut self, tool: &Arc<dyn DynTool>, sample: &Sample) -> Option<String> {
        let context = ToolContext::new(self.folder);
        let result = self.call(&**tool, sample, &context, false).await?;
        Some(match result {
            Ok(output) => {
                let told = format!("{:?}", output.content);
                format!("{} {}", output.is_error, output.fingerprint.unwrap_or(told))
            }
            Err(error) => error.to_string(),
        })
    }
}

/// An input as it is told: odd ones are long.
fn short(input: &str) -> String {
    input.chars().take(200).collect()
}
