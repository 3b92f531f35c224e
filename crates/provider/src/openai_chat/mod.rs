//! OpenAI Chat Completions, and the many servers that imitate it.

mod call;
mod chunk;
mod decode;
mod encode;
mod reasoning;

use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value};
use tooloop_model::{ModelInfo, Request};

use crate::{Auth, Codec, Decoder, OutputCapField, ReasoningEcho};

/// The owner of the vendor data of this format.
const NAME: &str = "openai-chat";

/// The codec for Chat Completions.
#[derive(Debug, Clone)]
pub struct OpenAiChatCodec {
    settings: ChatSettings,
    extra_body: String,
    /// Names the settings that a message's bytes depend on.
    wire_key: &'static str,
}

/// What differs between servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatSettings {
    /// Whether reasoning goes back.
    pub reasoning_echo: Echo,
    /// Whether the output cap is called `max_completion_tokens`.
    pub max_completion_tokens: bool,
    /// Whether an assistant message of calls alone has `null` for content, as the format says, or
    /// else the empty string, for servers that trip over `null`.
    pub null_content: bool,
}

/// Whether reasoning goes back, once the host is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Echo {
    /// Under the field in which it came.
    AsReceived,
    /// Not at all.
    Never,
    /// Under this field.
    Field(String),
}

impl ChatSettings {
    /// Settings for a host, where nothing else is said: OpenAI's own models want the newer name of
    /// the output cap, and Groq refuses reasoning that comes back, though it sends it.
    #[must_use]
    pub fn for_host(host: &str, echo: &ReasoningEcho, cap: OutputCapField) -> Self {
        let within = |domain: &str| {
            host == domain
                || host
                    .strip_suffix(domain)
                    .is_some_and(|rest| rest.ends_with('.'))
        };
        Self {
            reasoning_echo: match echo {
                ReasoningEcho::Auto if within("groq.com") => Echo::Never,
                ReasoningEcho::Auto | ReasoningEcho::AsReceived => Echo::AsReceived,
                ReasoningEcho::Never => Echo::Never,
                ReasoningEcho::Field(name) => Echo::Field(name.clone()),
            },
            max_completion_tokens: match cap {
                OutputCapField::Auto => within("openai.com") || within("openai.azure.com"),
                OutputCapField::MaxTokens => false,
                OutputCapField::MaxCompletionTokens => true,
            },
            null_content: true,
        }
    }
}

impl OpenAiChatCodec {
    /// A codec that adds `extra_body` to each request, such as a reasoning effort. Members that the
    /// codec writes itself are left out.
    #[must_use]
    pub fn new(settings: ChatSettings, extra_body: &Map<String, Value>) -> Self {
        let wire_key = wire_key(&settings);
        Self {
            extra_body: crate::codec::extra_members(extra_body, encode::OWN_MEMBERS),
            settings,
            wire_key,
        }
    }
}

impl Codec for OpenAiChatCodec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn path(&self) -> &'static str {
        "chat/completions"
    }

    fn headers(&self, auth: &Auth) -> Vec<(&'static str, String)> {
        match auth {
            Auth::None => Vec::new(),
            Auth::Key(key) | Auth::Bearer(key) => {
                vec![("authorization", format!("Bearer {}", key.expose()))]
            }
        }
    }

    fn encode(&self, request: &Request, _info: &ModelInfo) -> Vec<u8> {
        encode::body(request, &self.settings, self.wire_key, &self.extra_body)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::ChatDecoder::default())
    }
}

/// A name for these settings that lives as long as the program, the same for the same settings.
/// There are as many as a program has different settings, which is a handful.
fn wire_key(settings: &ChatSettings) -> &'static str {
    static KEYS: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let echo = match &settings.reasoning_echo {
        Echo::AsReceived => "received",
        Echo::Never => "never",
        Echo::Field(name) => &format!("field={name}"),
    };
    let key = format!("{NAME}/{echo}/{}", settings.null_content);
    let mut keys = KEYS.lock().unwrap_or_else(PoisonError::into_inner);
    match keys.iter().find(|known| **known == key) {
        Some(known) => known,
        None => {
            let known: &'static str = Box::leak(key.into_boxed_str());
            keys.push(known);
            known
        }
    }
}
