//! What a whole step of the library costs beside model and tool: reply in, tool run, results and
//! next request out, by the length of the history. No journal, no network, a tool that does nothing.
#![expect(clippy::expect_used, reason = "a benchmark may fail where it stands")]

use std::sync::Arc;
use std::time::Instant;

use criterion::{Criterion, criterion_group, criterion_main};
use schemars::JsonSchema;
use serde::Deserialize;
use tooloop::journal::MemoryStore;
use tooloop::provider::ScriptedProvider;
use tooloop::{
    Access, Agent, AssistantMessage, Content, ContentBlock, Entry, Message, Tool, ToolContext,
    ToolError, ToolOutput,
};

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

struct Idle;

impl Tool for Idle {
    type Input = Nothing;
    fn name(&self) -> &'static str {
        "idle"
    }
    fn description(&self) -> &'static str {
        "Does nothing."
    }
    fn access(&self, _: &Nothing) -> Access {
        Access::read_only()
    }
    async fn run(&self, _: Nothing, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text("done"))
    }
}

/// A past of that many messages.
fn past(messages: usize) -> Vec<Entry> {
    let say = |number: usize| {
        let text = format!("message {number}: {}", "words ".repeat(30));
        if number.is_multiple_of(2) {
            Message::User(vec![Content::Text(text)])
        } else {
            Message::Assistant(AssistantMessage {
                content: vec![ContentBlock::Text { text, vendor: None }],
                ..AssistantMessage::default()
            })
        }
    };
    (0..messages).map(say).map(Entry::message).collect()
}

fn steps(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let mut group = criterion.benchmark_group("step");
    for messages in [10, 100, 1000] {
        let past = past(messages);
        group.bench_function(format!("{messages} messages"), |bencher| {
            bencher.iter_custom(|rounds| {
                let mut provider = ScriptedProvider::new();
                for round in 0..rounds {
                    provider = provider.call(&format!("t{round}"), "idle", "{}");
                }
                let agent = Agent::builder()
                    .provider(Arc::new(provider.say("done")))
                    .model("scripted")
                    .tool(Idle)
                    // The rounds are all alike on purpose.
                    .stop_after_repeats(u32::MAX)
                    .build()
                    .expect("an agent");
                runtime.block_on(async {
                    let session = agent.session_on(Box::new(MemoryStore::new()), &past);
                    let begun = Instant::now();
                    session.prompt("go").await.expect("a report");
                    let taken = begun.elapsed();
                    session.close().await.expect("an end");
                    taken
                })
            });
        });
    }
    group.finish();
}

criterion_group!(benches, steps);
criterion_main!(benches);
