//! A tool as its registry sees it.

use schemars::JsonSchema;
use serde::Deserialize;
use tooloop_model::JsonObject;
use tooloop_policy::{Access, AccessEffect};
use tooloop_tool::{Registry, RegistryError, Tool, ToolContext, ToolError, ToolOutput, tool};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Greet {
    /// Whom to greet.
    name: String,
}

struct Greeter(&'static str);

impl Tool for Greeter {
    type Input = Greet;
    fn name(&self) -> &str {
        self.0
    }
    fn description(&self) -> &str {
        "Greets."
    }
    fn access(&self, _: &Greet) -> Access {
        Access::read_only()
    }
    async fn run(&self, input: Greet, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text(format!("hello {}", input.name)))
    }
}

#[test]
fn the_schema_is_what_a_provider_takes() {
    let definition = tool(Greeter("greet")).definition();
    assert_eq!(
        definition.input_schema.get(),
        r#"{"type":"object","additionalProperties":false,"properties":{"name":{"type":"string","description":"Whom to greet."}},"required":["name"]}"#
    );
}

/// Built without somebody to name.
struct Short;

impl Tool for Short {
    type Input = Greet;
    fn name(&self) -> &str {
        "short"
    }
    fn description(&self) -> &str {
        "Greets."
    }
    fn withheld_fields(&self) -> &[&str] {
        &["name"]
    }
    fn access(&self, _: &Greet) -> Access {
        Access::read_only()
    }
    async fn run(&self, _: Greet, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text("hello"))
    }
}

#[test]
fn what_is_withheld_is_not_in_the_schema() {
    let definition = tool(Short).definition();
    assert_eq!(
        definition.input_schema.get(),
        r#"{"type":"object","additionalProperties":false,"properties":{},"required":[]}"#
    );
}

#[tokio::test]
async fn a_call_is_parsed_judged_and_run() {
    let greeter = tool(Greeter("greet"));
    let context = ToolContext::new("/");
    let input = JsonObject::parse(r#"{"name":"Ada"}"#).unwrap();
    assert_eq!(
        greeter.access(&input).unwrap().effect,
        AccessEffect::ReadOnly
    );
    let output = greeter.run(&input, &context).await.unwrap();
    assert_eq!(output, ToolOutput::text("hello Ada"));
}

#[test]
fn a_missing_field_is_named() {
    let greeter = tool(Greeter("greet"));
    for (input, problem) in [
        ("{}", "missing field `name`"),
        (r#"{"nam":"x"}"#, "unknown field `nam`, expected `name`"),
    ] {
        let error = greeter
            .access(&JsonObject::parse(input).unwrap())
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("invalid input for greet: {problem}")
        );
    }
}

#[test]
fn names_that_a_provider_would_refuse_are_refused() {
    let mut registry = Registry::new();
    registry.add(tool(Greeter("b"))).unwrap();
    registry.add(tool(Greeter("a"))).unwrap();
    assert_eq!(
        registry.add(tool(Greeter("a"))),
        Err(RegistryError::Duplicate("a".into()))
    );
    assert_eq!(
        registry.add(tool(Greeter("a b"))),
        Err(RegistryError::BadName("a b".into()))
    );
    assert_eq!(registry.names().collect::<Vec<_>>(), ["a", "b"]);
}
