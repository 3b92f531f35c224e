//! Looks for a model server on this machine, where nothing is configured.

use std::net::Ipv4Addr;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;

use crate::{Auth, ProviderConfig, Proxy, TransportConfig, WireFormat, client};

/// A place where a model server usually listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalServer {
    /// What usually listens there.
    pub name: &'static str,
    /// The port on 127.0.0.1.
    pub port: u16,
}

/// Where model servers usually listen, the preferred first.
pub const LOCAL_SERVERS: &[LocalServer] = &[
    LocalServer {
        name: "ollama",
        port: 11434,
    },
    LocalServer {
        name: "llama.cpp",
        port: 8080,
    },
    LocalServer {
        name: "lmstudio",
        port: 1234,
    },
    LocalServer {
        name: "vllm",
        port: 8000,
    },
];

/// How long a server on this machine may take to answer.
const DEADLINE: Duration = Duration::from_millis(300);
/// The most bytes of a list of models.
const LIMIT: usize = 1 << 20;

/// Asks all of `servers` at once which models they have, and takes the first model of the first
/// that has any. Waits 300 ms at most.
pub async fn detect_local(servers: &[LocalServer]) -> Option<(ProviderConfig, String)> {
    let asked = servers.iter().map(|server| async move {
        let base_url = format!("http://{}:{}", Ipv4Addr::LOCALHOST, server.port);
        let model = tokio::time::timeout(DEADLINE, first_model(&base_url)).await;
        Some((server, base_url, model.ok()??))
    });
    let (server, base_url, model) = join_all(asked).await.into_iter().flatten().next()?;
    let config = ProviderConfig::new(server.name, WireFormat::OpenAiChat, base_url, Auth::None);
    Some((config, model))
}

/// Asks a server which model it has, if it is there and has one. With `None` for a key none is
/// sent. For servers that are configured without a model's name.
pub async fn first_model_of(config: &ProviderConfig) -> Option<String> {
    let url = crate::endpoint::endpoint(&config.base_url, "models").ok()?;
    let client = client::build(&url, &config.transport, &[]).ok()?;
    let mut request = client.client().get(url);
    if let Auth::Key(key) | Auth::Bearer(key) = &config.auth {
        request = request.bearer_auth(key.expose());
    }
    tokio::time::timeout(config.transport.first_byte, read_first_model(request))
        .await
        .ok()?
}

async fn first_model(base_url: &str) -> Option<String> {
    let url = crate::endpoint::endpoint(base_url, "models").ok()?;
    let config = TransportConfig {
        proxy: Proxy::Direct,
        ..TransportConfig::default()
    };
    let client = client::build(&url, &config, &[]).ok()?;
    read_first_model(client.client().get(url)).await
}

async fn read_first_model(request: reqwest::RequestBuilder) -> Option<String> {
    let mut response = request.send().await.ok()?;
    if response.status() != reqwest::StatusCode::OK {
        return None;
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.ok()? {
        body.extend_from_slice(&chunk);
        if body.len() > LIMIT {
            return None;
        }
    }
    let list: Value = serde_json::from_slice(&body).ok()?;
    list.get("data")?
        .as_array()?
        .iter()
        .filter_map(|model| model.get("id").and_then(Value::as_str))
        // Servers list models that make no text as well.
        .find(|id| !id.contains("embed"))
        .map(str::to_owned)
}
