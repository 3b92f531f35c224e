//! The tools of an agent, by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tooloop_model::ToolDefinition;

use crate::{DynTool, Scope};

/// The tools of an agent. Told to the model sorted by name, so that the same tools are the same
/// bytes whatever the order in which they were added.
#[derive(Clone, Default)]
pub struct Registry {
    tools: BTreeMap<String, Arc<dyn DynTool>>,
    definitions: Arc<[ToolDefinition]>,
}

/// A tool that cannot be taken in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Providers accept only names of 1 to 64 letters, digits, `_` and `-`.
    #[error("tool name {0:?} is not made of 1 to 64 letters, digits, '_' and '-'")]
    BadName(String),
    /// Two tools of one name.
    #[error("there are two tools named {0:?}")]
    Duplicate(String),
    /// Providers accept only object schemas.
    #[error("the input schema of tool {0:?} is not an object schema")]
    BadSchema(String),
}

impl Registry {
    /// No tools.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool.
    ///
    /// # Errors
    /// If a provider would refuse its name or schema, or the name is taken.
    pub fn add(&mut self, tool: Arc<dyn DynTool>) -> Result<(), RegistryError> {
        let definition = tool.definition();
        let name = definition.name.clone();
        let fits = (1..=64).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        if !fits {
            return Err(RegistryError::BadName(name));
        }
        let schema = definition.input_schema.to_value();
        if schema.get("type").and_then(serde_json::Value::as_str) != Some("object") {
            return Err(RegistryError::BadSchema(name));
        }
        if self.tools.contains_key(&name) {
            return Err(RegistryError::Duplicate(name));
        }
        let mut definitions = self.definitions.to_vec();
        let place = definitions.partition_point(|other| other.name < name);
        definitions.insert(place, definition);
        self.definitions = definitions.into();
        self.tools.insert(name, tool);
        Ok(())
    }

    /// The tool of that very name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn DynTool>> {
        self.tools.get(name)
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    /// What the model is told, sorted by name.
    #[must_use]
    pub fn definitions(&self) -> Arc<[ToolDefinition]> {
        Arc::clone(&self.definitions)
    }

    /// Those of the tools whose names fit.
    #[must_use]
    pub fn only(&self, fits: impl Fn(&str) -> bool) -> Self {
        let tools = self.tools.iter().filter(|(name, _)| fits(name));
        let definitions = self.definitions.iter().filter(|tool| fits(&tool.name));
        Self {
            tools: tools
                .map(|(name, tool)| (name.clone(), Arc::clone(tool)))
                .collect(),
            definitions: definitions.cloned().collect(),
        }
    }

    /// The same tools for a new session: those that keep state get an instance of their own.
    #[must_use]
    pub fn for_session(&self, scope: &Scope) -> Self {
        Self {
            tools: self
                .tools
                .iter()
                .map(|(name, tool)| {
                    let tool = tool.for_session(scope).unwrap_or_else(|| Arc::clone(tool));
                    (name.clone(), tool)
                })
                .collect(),
            definitions: Arc::clone(&self.definitions),
        }
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.names()).finish()
    }
}
