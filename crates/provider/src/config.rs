//! What an [`crate::HttpProvider`] is built from.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::{Secret, endpoint};

/// Everything that an [`crate::HttpProvider`] needs to know. `Debug` shows no key, wherever one may
/// stand.
#[derive(Clone)]
pub struct ProviderConfig {
    /// A name to show, such as `anthropic` or `ollama`.
    pub name: String,
    /// The format that the server speaks.
    pub format: WireFormat,
    /// Where the server is, with or without a trailing `/v1`.
    pub base_url: String,
    /// How the harness shows who it is.
    pub auth: Auth,
    /// Further headers, name and value.
    pub headers: Vec<(String, String)>,
    /// Further members of each request's body, such as a reasoning effort. What the codec writes
    /// itself cannot be replaced.
    pub extra_body: serde_json::Map<String, serde_json::Value>,
    /// Whether reasoning of earlier replies is sent back, where the format has no rule of its own.
    pub reasoning_echo: ReasoningEcho,
    /// How the output cap is named, where the format has two names for it.
    pub output_cap_field: OutputCapField,
    /// Whether an assistant message of tool calls alone has `null` for content, where the format
    /// has one; else it is the empty string.
    pub null_content: bool,
    /// Timers and the way to the network.
    pub transport: TransportConfig,
    /// Numbers that beat what the model table says.
    pub overrides: ModelOverrides,
    /// Model data in TOML that beats the table compiled in.
    pub model_data: Option<String>,
}

impl ProviderConfig {
    /// A configuration with defaults for all but the essentials.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        format: WireFormat,
        base_url: impl Into<String>,
        auth: Auth,
    ) -> Self {
        Self {
            name: name.into(),
            format,
            base_url: base_url.into(),
            auth,
            headers: Vec::new(),
            extra_body: serde_json::Map::new(),
            reasoning_echo: ReasoningEcho::default(),
            output_cap_field: OutputCapField::default(),
            null_content: true,
            transport: TransportConfig::default(),
            overrides: ModelOverrides::default(),
            model_data: None,
        }
    }
}

impl fmt::Debug for ProviderConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        formatter
            .debug_struct("ProviderConfig")
            .field("name", &self.name)
            .field("format", &self.format)
            .field("base_url", &endpoint::shown(&self.base_url))
            .field("auth", &self.auth)
            .field("headers", &headers)
            .field("reasoning_echo", &self.reasoning_echo)
            .field("output_cap_field", &self.output_cap_field)
            .field("transport", &self.transport)
            .field("overrides", &self.overrides)
            .finish_non_exhaustive()
    }
}

/// A wire format that a codec speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireFormat {
    /// Anthropic Messages.
    AnthropicMessages,
    /// OpenAI Chat Completions, and what imitates it.
    OpenAiChat,
}

impl WireFormat {
    /// All formats.
    pub const ALL: [Self; 2] = [Self::AnthropicMessages, Self::OpenAiChat];

    /// The name that a setting uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AnthropicMessages => "anthropic",
            Self::OpenAiChat => "openai",
        }
    }

    /// The names that a setting may use, and what they mean.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "anthropic" | "anthropic-messages" | "messages" => Some(Self::AnthropicMessages),
            "openai" | "openai-chat" | "chat" | "chat-completions" => Some(Self::OpenAiChat),
            _ => None,
        }
    }
}

/// How the harness shows who it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Auth {
    /// Not at all: a local server.
    #[default]
    None,
    /// With a key in the format's own header.
    Key(Secret),
    /// With a bearer token.
    Bearer(Secret),
}

/// Whether reasoning that came in a field of its own is sent back with the history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ReasoningEcho {
    /// As received, except to hosts that are known to refuse it. Some providers refuse a
    /// conversation without the reasoning that they sent; a server that sends none gets none.
    #[default]
    Auto,
    /// Under the field in which it came, whatever the host.
    AsReceived,
    /// Never.
    Never,
    /// Under this field.
    Field(String),
}

/// How the output cap is named on the wire, where there is a choice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OutputCapField {
    /// By the host.
    #[default]
    Auto,
    /// `max_tokens`.
    MaxTokens,
    /// `max_completion_tokens`.
    MaxCompletionTokens,
}

/// Timers and the way to the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportConfig {
    /// From the request to the first byte of the reply's body.
    pub first_byte: Duration,
    /// The longest silence of the socket; comments and pings are not silence.
    pub idle: Duration,
    /// The longest time with nothing but comments and pings.
    pub content: Duration,
    /// A file of certificates (PEM) trusted besides the system's.
    pub extra_ca: Option<PathBuf>,
    /// Which proxy to use.
    pub proxy: Proxy,
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self {
            first_byte: Duration::from_secs(60),
            idle: Duration::from_secs(90),
            content: Duration::from_secs(300),
            extra_ca: None,
            proxy: Proxy::Environment,
        }
    }
}

/// Which proxy to use.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Proxy {
    /// What `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` say; the loopback always
    /// directly. A setting that cannot be used is an error.
    #[default]
    Environment,
    /// None.
    Direct,
    /// This one, for every host, the loopback included.
    Url(String),
}

impl fmt::Debug for Proxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment => formatter.write_str("Environment"),
            Self::Direct => formatter.write_str("Direct"),
            Self::Url(url) => write!(formatter, "Url({:?})", endpoint::shown(url)),
        }
    }
}

/// Numbers that beat what the model table says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelOverrides {
    /// The whole window in tokens.
    pub context_window: Option<u64>,
    /// The most tokens of one reply.
    pub max_output_tokens: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_shows() {
        let auth = Auth::Key(Secret::new("hidden-1"));
        let base = "http://user:hidden-2@box/v1";
        let mut config = ProviderConfig::new("x", WireFormat::OpenAiChat, base, auth);
        config.headers = vec![("x-key".into(), "hidden-3".into())];
        config.transport.proxy = Proxy::Url("http://user:hidden-4@proxy:1".into());
        let provider = crate::HttpProvider::new(config.clone()).unwrap();
        for shown in [format!("{config:?}"), format!("{provider:?}")] {
            assert!(!shown.contains("hidden"), "{shown}");
            assert!(shown.contains("x-key"), "{shown}");
        }
    }
}
