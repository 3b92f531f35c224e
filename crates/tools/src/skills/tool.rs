//! The tool by which the model reads a skill.

use std::sync::{Arc, Mutex, PoisonError};

use schemars::JsonSchema;
use serde::Deserialize;
use tooloop_policy::Access;
use tooloop_tool::{Carried, Scope, Tool, ToolContext, ToolError, ToolOutput, Withheld};

use super::SkillSet;

/// The most skills that are kept in mind over a summary.
const MAX_CARRIED: usize = 5;

/// The most names that are told where one is not known.
const MAX_CHOICES: usize = 200;

/// Gives the model the text of a skill.
#[derive(Debug)]
pub struct SkillTool {
    skills: Arc<SkillSet>,
    /// The names and texts that this session has read, the newest last.
    loaded: Mutex<Vec<(String, String)>>,
}

/// What the model passes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SkillInput {
    /// A name from the list of skills.
    pub name: String,
    /// What the skill is to work on, if it takes that.
    #[serde(default)]
    pub args: Option<String>,
}

impl SkillTool {
    /// A tool for these skills.
    #[must_use]
    pub const fn new(skills: Arc<SkillSet>) -> Self {
        Self {
            skills,
            loaded: Mutex::new(Vec::new()),
        }
    }

    fn unknown(&self, name: &str) -> ToolError {
        let names: Vec<&str> = self
            .skills
            .iter()
            .filter(|skill| skill.for_model)
            .map(|skill| skill.name.as_str())
            .take(MAX_CHOICES)
            .collect();
        ToolError::Failed(format!(
            "there is no skill {name:?}; there are: {}",
            names.join(", ")
        ))
    }
}

impl Tool for SkillTool {
    type Input = SkillInput;

    fn name(&self) -> &'static str {
        "skill"
    }

    fn description(&self) -> &'static str {
        "Reads a skill, instructions for one kind of task, by its name in the list of skills."
    }

    fn access(&self, _: &SkillInput) -> Access {
        Access::read_only()
    }

    async fn run(&self, input: SkillInput, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        let SkillInput { name, args } = input;
        let name = name.trim().trim_start_matches('/');
        let skill = match self.skills.get(name) {
            None => return Err(self.unknown(name)),
            Some(skill) if !skill.for_model => {
                return Err(ToolError::Failed(format!(
                    "the skill {name} is for the user alone to call"
                )));
            }
            Some(skill) => skill.clone(),
        };
        let key = skill.name.clone();
        let read = tokio::task::spawn_blocking(move || skill.text(&args.unwrap_or_default()));
        let text = read
            .await
            .map_err(|error| ToolError::Failed(error.to_string()))?
            .map_err(ToolError::Failed)?;
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.retain(|(name, _)| *name != key);
        loaded.push((key, text.clone()));
        if loaded.len() > MAX_CARRIED {
            loaded.remove(0);
        }
        Ok(ToolOutput::text(text))
    }

    async fn carried(&self, _: &Withheld) -> Vec<Carried> {
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let newest_first = loaded.iter().rev();
        newest_first
            .map(|(name, text)| Carried {
                title: format!("skill {name}"),
                text: text.clone(),
            })
            .collect()
    }

    fn for_session(&self, _: &Scope) -> Option<Self> {
        Some(Self::new(Arc::clone(&self.skills)))
    }
}
