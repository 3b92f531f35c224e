//! A session watched while it runs, and steered.
//!
//! `cargo run -p tooloop --example events -- http://127.0.0.1:8080/v1 "list the files here"`

use std::error::Error;
use std::io::Write;
use std::sync::Arc;

use tooloop::exec::{Environment, EnvironmentRules, Processes};
use tooloop::provider::{Auth, HttpProvider, ProviderConfig, WireFormat};
use tooloop::tools::{Bash, BashSettings, LocalOps};
use tooloop::{Agent, Event, StreamEvent};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(prompt)) = (arguments.next(), arguments.next()) else {
        return Err("give the address of a model server and a prompt".into());
    };
    let config = ProviderConfig::new("local", WireFormat::OpenAiChat, url, Auth::None);
    let processes = Processes::new()?;
    let environment = Environment::of_this_process(&EnvironmentRules::default());
    let agent = Agent::builder()
        .provider(Arc::new(HttpProvider::new(config)?))
        .model("any")
        // What only reads runs; all else would be asked about, and here nobody is there to ask.
        .tool(Bash::new(BashSettings::new(
            Arc::new(LocalOps::new(processes.clone())),
            environment,
        )))
        .build()?;
    let session = agent.session()?;
    let mut events = session.events();
    let mut out = std::io::stdout();
    let mut turn = Box::pin(session.prompt(prompt));
    let report = loop {
        tokio::select! {
            biased;
            Some(event) = events.next() => match event {
                Event::Delta { event: StreamEvent::TextDelta { text, .. }, .. } => {
                    write!(out, "{text}")?;
                    out.flush()?;
                }
                Event::ToolStarted { tool_use } => {
                    writeln!(out, "\n● {} {}", tool_use.name, tool_use.input.json())?;
                    session.steer("Be brief.").await?;
                }
                _ => {}
            },
            report = &mut turn => break report?,
        }
    };
    drop(turn);
    writeln!(out, "\n({:?}, {} steps)", report.end, report.steps)?;
    session.close().await?;
    processes.end_all(std::time::Duration::from_secs(1)).await;
    Ok(())
}
