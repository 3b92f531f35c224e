//! An agent with a tool of its own, driven by a model that says what it is told to.
//!
//! `cargo run -p tooloop --example custom_tool`

use std::error::Error;
use std::io::Write;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use tooloop::provider::ScriptedProvider;
use tooloop::{Access, Agent, Tool, ToolContext, ToolError, ToolOutput};

/// What the model passes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Weather {
    /// The city.
    city: String,
}

struct WeatherStation;

impl Tool for WeatherStation {
    type Input = Weather;

    fn name(&self) -> &'static str {
        "weather"
    }

    fn description(&self) -> &'static str {
        "Tells the weather of a city."
    }

    fn access(&self, _: &Weather) -> Access {
        Access::read_only()
    }

    async fn run(&self, input: Weather, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text(format!("18 °C and dry in {}", input.city)))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let provider = ScriptedProvider::new()
        .call("t1", "weather", r#"{"city":"Lisbon"}"#)
        .say("Take a light jacket: 18 °C and dry.");
    let agent = Agent::builder()
        .provider(Arc::new(provider))
        .model("scripted")
        .tool(WeatherStation)
        .build()?;
    let session = agent.session()?;
    let report = session.prompt("What do I wear in Lisbon today?").await?;
    session.close().await?;
    writeln!(
        std::io::stdout(),
        "{} ({:?}, {} steps)",
        report.text,
        report.end,
        report.steps
    )?;
    Ok(())
}
