//! The erased twin of [`Tool`], which a registry holds and which tools that are known only at run
//! time implement directly.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use schemars::JsonSchema;
use tooloop_model::{JsonObject, RawJson, ToolDefinition};
use tooloop_policy::Access;

use crate::tool::parse_input;
use crate::{Carried, Scope, Tool, ToolContext, ToolError, ToolOutput, Withheld};

/// A running call.
pub type ToolFuture<'a> = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send + 'a>>;

/// What a tool knows that the model should still know.
pub type CarriedFuture<'a> = Pin<Box<dyn Future<Output = Vec<Carried>> + Send + 'a>>;

/// A tool whose input type is not known. See [`Tool`] for what each method must hold to.
pub trait DynTool: Send + Sync + 'static {
    /// What the model is told.
    fn definition(&self) -> ToolDefinition;

    /// What a call with this input would touch.
    ///
    /// # Errors
    /// [`ToolError::InvalidInput`] if the input does not fit.
    fn access(&self, input: &JsonObject) -> Result<Access, ToolError>;

    /// Runs.
    fn run<'a>(&'a self, input: &'a JsonObject, context: &'a ToolContext) -> ToolFuture<'a>;

    /// What the model must still know after the conversation was summed up, without what is
    /// withheld.
    fn carried<'a>(&'a self, withheld: &'a Withheld) -> CarriedFuture<'a> {
        let _ = withheld;
        Box::pin(std::future::ready(Vec::new()))
    }

    /// What the model is to be reminded of when it has not used the tool for so many steps.
    fn reminder(&self, steps: u32) -> Option<String> {
        let _ = steps;
        None
    }

    /// An instance of its own for a new session; `None` if all sessions share this one.
    fn for_session(&self, scope: &Scope) -> Option<Arc<dyn DynTool>> {
        let _ = scope;
        None
    }
}

pub(crate) struct Erased<T> {
    pub(crate) tool: T,
    pub(crate) schema: RawJson,
}

impl<T: Tool> DynTool for Erased<T> {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.tool.name().into(),
            description: self.tool.description().into(),
            input_schema: self.schema.clone(),
        }
    }

    fn access(&self, input: &JsonObject) -> Result<Access, ToolError> {
        let input = parse_input::<T::Input>(self.tool.name(), input.get())?;
        Ok(self.tool.access(&input))
    }

    fn run<'a>(&'a self, input: &'a JsonObject, context: &'a ToolContext) -> ToolFuture<'a> {
        Box::pin(async move {
            let input = parse_input::<T::Input>(self.tool.name(), input.get())?;
            self.tool.run(input, context).await
        })
    }

    fn carried<'a>(&'a self, withheld: &'a Withheld) -> CarriedFuture<'a> {
        Box::pin(self.tool.carried(withheld))
    }

    fn reminder(&self, steps: u32) -> Option<String> {
        self.tool.reminder(steps)
    }

    fn for_session(&self, scope: &Scope) -> Option<Arc<dyn DynTool>> {
        let tool = self.tool.for_session(scope)?;
        Some(Arc::new(Self {
            tool,
            schema: self.schema.clone(),
        }))
    }
}

/// The schema as a provider wants it: an object schema, without the dialect's address and without
/// the Rust type's name, which only cost tokens, and without the fields that are withheld.
pub(crate) fn schema_of<I: JsonSchema>(withheld: &[&str]) -> RawJson {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<I>()
        .to_value();
    if let Some(object) = schema.as_object_mut() {
        object.remove("title");
        object.remove("description");
        object
            .entry("type")
            .or_insert_with(|| serde_json::Value::from("object"));
        if object.get("type").and_then(serde_json::Value::as_str) == Some("object") {
            object
                .entry("properties")
                .or_insert_with(|| serde_json::Value::Object(serde_json::Map::new()));
        }
        if let Some(serde_json::Value::Object(properties)) = object.get_mut("properties") {
            properties.retain(|name, _| !withheld.contains(&name.as_str()));
        }
        if let Some(serde_json::Value::Array(required)) = object.get_mut("required") {
            required.retain(|name| name.as_str().is_none_or(|name| !withheld.contains(&name)));
        }
    }
    RawJson::from_value(&schema)
}

/// serde's words without the position in a text that nobody sees.
pub(crate) fn first_problem(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text.get(..end).unwrap_or(&text).to_owned(),
        None => text,
    }
}
