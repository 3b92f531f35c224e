//! The HTTP provider against real sockets.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may fail anywhere"
)]

mod failures;
mod network;
mod streams;
mod tls;

use std::time::Duration;

use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;
use tooloop_model::{AssistantMessage, Message, MessageBuilder, ModelError, Request};
use tooloop_provider::{
    Auth, HttpProvider, ModelStream, Provider, ProviderConfig, Secret, WireFormat, request,
};
use tooloop_testkit::ModelServer;

/// Longer than anything here may take on the slowest machine: a bound, never waited for.
const SOON: Duration = Duration::from_secs(60);

fn config(base_url: &str, format: WireFormat) -> ProviderConfig {
    ProviderConfig::new(
        "test",
        format,
        base_url,
        Auth::Key(Secret::new("sk-test-key")),
    )
}

fn anthropic(server: &ModelServer) -> HttpProvider {
    provider(config(&server.base_url(), WireFormat::AnthropicMessages))
}

fn chat(server: &ModelServer) -> HttpProvider {
    provider(config(&server.base_url_v1(), WireFormat::OpenAiChat))
}

fn provider(config: ProviderConfig) -> HttpProvider {
    HttpProvider::new(config).unwrap()
}

fn hello() -> Request {
    request("m", [Message::user("hello")])
}

async fn ask(provider: &HttpProvider, request: Request) -> Result<AssistantMessage, ModelError> {
    let stream = provider.stream(request, CancellationToken::new()).await?;
    read(stream).await
}

/// Reads a stream to its end, which must be one.
async fn read(mut stream: ModelStream) -> Result<AssistantMessage, ModelError> {
    let mut builder = MessageBuilder::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => {
                builder.push(event).unwrap();
            }
            Err(error) => {
                assert!(
                    stream.next().await.is_none(),
                    "something came after {error}"
                );
                return Err(error);
            }
        }
    }
    Ok(builder.finish().unwrap())
}

/// The error of a call that must fail.
async fn fail(provider: &HttpProvider) -> ModelError {
    match ask(provider, hello()).await {
        Ok(message) => panic!("it succeeded: {message:?}"),
        Err(error) => error,
    }
}
