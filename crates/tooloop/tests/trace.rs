//! What a program that embeds the library gets to know through `tracing`.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail anywhere"
)]

use std::fmt;
use std::sync::{Arc, Mutex};

use schemars::JsonSchema;
use serde::Deserialize;
use tooloop::provider::ScriptedProvider;
use tooloop::{Access, Agent, ModelError, ModelErrorKind, RetryPolicy, Tool, ToolContext};
use tooloop::{ToolError, ToolOutput};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Instrument as _, Level, Metadata, Subscriber, info_span};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// A tool that fails inside.
struct Faulty;

impl Tool for Faulty {
    type Input = Nothing;
    fn name(&self) -> &'static str {
        "faulty"
    }
    fn description(&self) -> &'static str {
        "Fails."
    }
    fn access(&self, _: &Nothing) -> Access {
        Access::read_only()
    }
    async fn run(&self, _: Nothing, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        // What a tool does belongs into its span.
        tracing::info!(target: "mine", "at work");
        panic!("the tool's own fault")
    }
}

/// Writes down what it hears, a line each.
#[derive(Clone)]
struct Listener {
    lines: Arc<Mutex<Vec<String>>>,
    most: Level,
}

struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let kept = ["message", "error.type", "gen_ai.operation.name", "attempt"];
        if kept.contains(&field.name()) || field.name().contains("messages") {
            self.0.push_str(&format!(" {}={value:?}", field.name()));
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Listener {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        *metadata.level() <= self.most
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut words = Words(String::new());
        attributes.record(&mut words);
        self.tell(context.span_scope(id), &format!(" begins{}", words.0));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let mut words = Words(String::new());
        values.record(&mut words);
        if !words.0.is_empty() {
            self.tell(context.span_scope(id), &words.0);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut words = Words(String::new());
        event.record(&mut words);
        self.tell(context.event_scope(event), &words.0);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        self.tell(context.span_scope(&id), " ends");
    }
}

impl Listener {
    fn tell<'a, S: Subscriber + LookupSpan<'a>>(
        &self,
        scope: Option<tracing_subscriber::registry::Scope<'a, S>>,
        words: &str,
    ) {
        let names: Vec<_> = scope.map_or_else(Vec::new, |scope| {
            scope.from_root().map(|span| span.name()).collect()
        });
        let line = format!("{}:{words}", names.join(">"));
        self.lines.lock().unwrap().push(line);
    }
}

/// What is heard of a session with a call that fails once and a tool that fails inside.
fn heard(most: Level) -> Vec<String> {
    let listener = Listener {
        lines: Arc::default(),
        most,
    };
    let lines = Arc::clone(&listener.lines);
    let subscriber = tracing_subscriber::registry().with(listener);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    tracing::subscriber::with_default(subscriber, || {
        runtime.block_on(async {
            let provider = ScriptedProvider::new()
                .fail(ModelError::new(ModelErrorKind::Overloaded, "not now"))
                .call("t1", "faulty", "{}")
                .say("done");
            let agent = Agent::builder()
                .provider(Arc::new(provider))
                .model("scripted")
                .retry(RetryPolicy {
                    base: std::time::Duration::ZERO,
                    ..RetryPolicy::default()
                })
                .tool(Faulty)
                .build()
                .unwrap();
            let session = agent.session().unwrap();
            let turn = session.prompt("what was said");
            turn.instrument(info_span!("app")).await.expect("a report");
            session.close().await.unwrap();
        });
    });
    lines.lock().unwrap().clone()
}

#[test]
fn spans_nest_in_the_span_of_whoever_prompts() {
    assert_eq!(
        heard(Level::INFO),
        [
            "app: begins",
            "app>invoke_agent: begins gen_ai.operation.name=\"invoke_agent\"",
            "app>invoke_agent>step: begins",
            "app>invoke_agent>step>chat: begins gen_ai.operation.name=\"chat\"",
            "app>invoke_agent>step>chat: message=retry attempt=1 error.type=\"overloaded\"",
            "app>invoke_agent>step>execute_tool: begins gen_ai.operation.name=\"execute_tool\"",
            "app>invoke_agent>step>chat: ends",
            "app>invoke_agent>step>execute_tool: message=at work",
            "app>invoke_agent>step>execute_tool: error.type=\"tool_error\"",
            "app>invoke_agent>step>execute_tool: ends",
            "app>invoke_agent>step: ends",
            "app>invoke_agent>step: begins",
            "app>invoke_agent>step>chat: begins gen_ai.operation.name=\"chat\"",
            "app>invoke_agent>step>chat: ends",
            "app>invoke_agent>step: ends",
            "app>invoke_agent: ends",
            "app: ends",
        ]
    );
}

#[test]
fn what_was_said_is_told_only_to_those_who_ask_for_it() {
    let debug = heard(Level::DEBUG).join("\n");
    assert!(
        !debug.contains("what was said") && !debug.contains("done"),
        "{debug}"
    );
    let trace = heard(Level::TRACE).join("\n");
    assert!(
        trace.contains("what was said") && trace.contains("done"),
        "{trace}"
    );
}
