//! The form that an answer must have.

mod references;

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use tooloop_kernel::{OutputCheck, OutputForm, OutputWay};
use tooloop_model::{JsonObject, RawJson, ToolDefinition};
use tooloop_policy::Access;
use tooloop_tool::{DynTool, ToolContext, ToolError, ToolFuture, ToolOutput};

/// How many answers are judged in a turn.
const TRIES: u32 = 5;

/// The tool that takes the answer where the provider holds nobody to a schema.
pub(crate) const TOOL: &str = "structured_output";

/// The field of its input that holds an answer which is no object.
const ANSWER: &str = "answer";

/// The most problems that are told at once.
const MOST_PROBLEMS: usize = 5;

/// A JSON schema (drafts 4 to 2020-12) that the answer of each turn must match.
///
/// Where the provider can hold the model to it, it does; else the model is given a tool that takes
/// the answer. Either way the answer is judged here, and what is wrong is told to the model, which
/// has five tries.
#[derive(Clone)]
pub struct OutputSchema(Arc<Compiled>);

struct Compiled {
    json: Value,
    schemas: boon::Schemas,
    index: boon::SchemaIndex,
}

/// A schema that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// It is no JSON.
    #[error("the schema is not JSON: {0}")]
    Json(String),
    /// It is JSON, and no schema.
    #[error("this is not a JSON schema: {0}")]
    Schema(String),
}

impl fmt::Debug for OutputSchema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.json, formatter)
    }
}

impl OutputSchema {
    /// Takes a schema. References to other files or hosts are refused: nothing is fetched.
    ///
    /// ```
    /// # use tooloop::OutputSchema;
    /// let schema = OutputSchema::parse(r#"{"type": "object", "required": ["name"]}"#)?;
    /// assert!(schema.answer_in(r#"{"name": "tooloop"}"#).is_ok());
    /// let problem = schema.answer_in("{}").unwrap_err();
    /// assert_eq!(problem, "at the top: missing properties 'name'");
    /// # Ok::<(), tooloop::SchemaError>(())
    /// ```
    ///
    /// # Errors
    /// If it is no JSON or no schema.
    pub fn parse(text: &str) -> Result<Self, SchemaError> {
        const PLACE: &str = "schema:/answer";
        let json: Value =
            serde_json::from_str(text).map_err(|error| SchemaError::Json(error.to_string()))?;
        if !json.is_object() {
            return Err(SchemaError::Schema("it is not an object".into()));
        }
        let refused = |error: boon::CompileError| SchemaError::Schema(whole(&error));
        let mut compiler = boon::Compiler::new();
        compiler.use_loader(Box::new(boon::SchemeUrlLoader::new()));
        compiler
            .add_resource(PLACE, json.clone())
            .map_err(refused)?;
        let mut schemas = boon::Schemas::new();
        let index = compiler.compile(PLACE, &mut schemas).map_err(refused)?;
        Ok(Self(Arc::new(Compiled {
            json,
            schemas,
            index,
        })))
    }

    /// The answer in a text: all of it, or what stands between a pair of code fences.
    ///
    /// # Errors
    /// What is wrong with it, in words for the model.
    pub fn answer_in(&self, text: &str) -> Result<RawJson, String> {
        let text = text.trim();
        let parsed = serde_json::from_str::<Value>(text);
        let value = match (parsed, fenced(text)) {
            (Ok(value), _) => value,
            (Err(_), Some(inner)) if serde_json::from_str::<Value>(inner).is_ok() => {
                return self.answer_in(inner);
            }
            (Err(error), _) => return Err(format!("it is not JSON: {error}")),
        };
        self.judge(&value)?;
        Ok(RawJson::from_value(&value))
    }

    /// The answer in the input of a call of the tool that takes it.
    pub(crate) fn answer_of(&self, input: &Value) -> Result<RawJson, String> {
        let value = if self.takes_object() {
            input
        } else {
            let missing = || format!("the field {ANSWER} is missing");
            input.get(ANSWER).ok_or_else(missing)?
        };
        self.judge(value)?;
        Ok(RawJson::from_value(value))
    }

    fn judge(&self, value: &Value) -> Result<(), String> {
        let result = self.0.schemas.validate(value, self.0.index);
        result.map_err(|error| {
            let mut problems = Vec::new();
            leaves(&error, &mut problems);
            problems.dedup();
            let left = problems.len().saturating_sub(MOST_PROBLEMS);
            problems.truncate(MOST_PROBLEMS);
            if left > 0 {
                problems.push(format!("and {left} more"));
            }
            problems.join("; ")
        })
    }

    fn takes_object(&self) -> bool {
        self.0.json.get("type").and_then(Value::as_str) == Some("object")
    }

    /// The form for a session; `native` tells that the provider can hold the model to a schema.
    pub(crate) fn form(&self, native: bool) -> OutputForm {
        let way = if native && is_strict(&self.0.json) {
            OutputWay::Native(RawJson::from_value(&self.0.json))
        } else {
            OutputWay::Tool(TOOL.into())
        };
        OutputForm {
            check: Arc::new(self.clone()),
            way,
            tries: TRIES,
        }
    }
}

impl OutputCheck for OutputSchema {
    fn check(&self, text: &str) -> Result<RawJson, String> {
        self.answer_in(text)
    }
}

/// What stands between the first pair of code fences.
fn fenced(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("```")?;
    let (_, body) = rest.split_once('\n')?;
    let (inner, _) = body.split_once("```")?;
    Some(inner.trim())
}

/// The innermost problems, each with its place.
fn leaves(error: &boon::ValidationError<'_, '_>, problems: &mut Vec<String>) {
    if error.causes.is_empty() {
        let place = error.instance_location.to_string();
        let place = if place.is_empty() {
            "the top".to_owned()
        } else {
            place
        };
        problems.push(format!("at {place}: {}", error.kind));
    }
    for cause in &error.causes {
        leaves(cause, problems);
    }
}

/// An error with what caused it.
fn whole(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words.push_str(&format!(": {error}"));
        cause = error.source();
    }
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether providers take the schema: objects name all their fields, want all of them and allow no
/// others, and nothing is asked that they do not know.
fn is_strict(schema: &Value) -> bool {
    const KNOWN: [&str; 11] = [
        "$schema",
        "type",
        "title",
        "description",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "const",
        "anyOf",
    ];
    let Some(schema) = schema.as_object() else {
        return false;
    };
    if schema.keys().any(|key| !KNOWN.contains(&key.as_str())) {
        return false;
    }
    let kind = schema.get("type").and_then(Value::as_str);
    if kind == Some("object") {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return false;
        };
        let required: Vec<_> = schema
            .get("required")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        let all = properties.keys().all(|name| required.contains(&&**name));
        if !closed || !all || !properties.values().all(is_strict) {
            return false;
        }
    } else if kind.is_none()
        && !["enum", "const", "anyOf"]
            .iter()
            .any(|key| schema.contains_key(*key))
    {
        return false;
    }
    let items = schema.get("items").is_none_or(is_strict);
    let choices = schema.get("anyOf").is_none_or(|choices| {
        let choices = choices.as_array();
        choices.is_some_and(|choices| choices.iter().all(is_strict))
    });
    items && choices
}

/// The tool that takes the answer.
pub(crate) struct AnswerTool(pub(crate) OutputSchema);

impl DynTool for AnswerTool {
    fn definition(&self) -> ToolDefinition {
        let schema = if self.0.takes_object() {
            references::from_the_top(&self.0.0.json)
        } else {
            references::under_a_field(&self.0.0.json, ANSWER)
        };
        ToolDefinition {
            name: TOOL.into(),
            description: "Takes your final answer, in the form that it must have. Call it once, \
                          when all else is done; that ends your work."
                .into(),
            input_schema: RawJson::from_value(&schema),
        }
    }

    fn access(&self, _: &JsonObject) -> Result<Access, ToolError> {
        Ok(Access::session())
    }

    fn run<'a>(&'a self, input: &'a JsonObject, _: &'a ToolContext) -> ToolFuture<'a> {
        Box::pin(async move {
            let input = serde_json::from_str(input.get()).unwrap_or(Value::Null);
            match self.0.answer_of(&input) {
                Ok(_) => Ok(ToolOutput::text("The answer is taken.")),
                Err(problem) => Err(ToolError::Failed(format!(
                    "the answer does not have its form: {problem}"
                ))),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERSON: &str = r#"{
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
        "required": ["name"]
    }"#;

    #[test]
    fn answers_are_judged_with_their_places() {
        let schema = OutputSchema::parse(PERSON).unwrap();
        let answer = schema
            .answer_in(" {\"name\": \"Ada\", \"age\": 36}\n")
            .unwrap();
        assert_eq!(answer.to_value()["age"], 36);
        let fenced = "Here it is:\n```json\n{\"name\": \"Ada\"}\n```\n";
        assert!(schema.answer_in(fenced).is_ok());
        let problem = schema.answer_in(r#"{"name": 7, "age": -1}"#).unwrap_err();
        assert!(
            problem.contains("/name") && problem.contains("/age"),
            "{problem}"
        );
        let problem = schema.answer_in("no").unwrap_err();
        assert!(problem.starts_with("it is not JSON"), "{problem}");
    }

    #[test]
    fn what_is_no_schema_is_refused_and_nothing_is_fetched() {
        for (text, words) in [
            ("{", "not JSON"),
            ("7", "not an object"),
            (r#"{"type": "objekt"}"#, "not a JSON schema"),
            (r#"{"$ref": "file:///etc/passwd"}"#, "not a JSON schema"),
            (
                r#"{"$ref": "https://example.org/a.json"}"#,
                "not a JSON schema",
            ),
        ] {
            let error = OutputSchema::parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn providers_get_schemas_that_they_take() {
        let way = |text: &str| OutputSchema::parse(text).unwrap().form(true).way;
        let strict = r#"{"type": "object", "additionalProperties": false, "required": ["a"],
            "properties": {"a": {"type": "array", "items": {"enum": ["x"]}}}}"#;
        assert!(matches!(way(strict), OutputWay::Native(_)));
        for text in [PERSON, r#"{"type": "array", "minItems": 2}"#] {
            assert_eq!(way(text), OutputWay::Tool(TOOL.into()));
        }
    }

    #[test]
    fn an_answer_that_is_no_object_is_a_field_of_the_tools_input() {
        let schema = OutputSchema::parse(r#"{"type": "integer"}"#).unwrap();
        let tool = AnswerTool(schema.clone());
        let told = tool.definition().input_schema.to_value();
        assert_eq!(told["properties"]["answer"]["type"], "integer");
        let answer = schema.answer_of(&serde_json::json!({"answer": 7}));
        assert_eq!(answer.unwrap().get(), "7");
        assert!(
            schema
                .answer_of(&serde_json::json!({"answer": "7"}))
                .is_err()
        );
    }
}
