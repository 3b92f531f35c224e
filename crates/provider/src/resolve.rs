//! From what a user says, and what the environment holds, to the configuration of a provider.
//!
//! Pure: the environment is a function that is handed in. Nobody is asked over the network;
//! [`crate::detect_local`] does that, where nothing is configured.

use crate::{Auth, ProviderConfig, Secret, WireFormat, models};

/// The environment variables that hold a provider's key. A harness keeps them from the commands
/// that it runs.
pub const KEY_VARIABLES: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "DEEPSEEK_API_KEY",
    "XAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "OLLAMA_API_KEY",
];

/// What a user says.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// `provider/model`, or a model's name.
    pub model: Option<String>,
    /// Where the server is.
    pub base_url: Option<String>,
    /// The format that the server speaks.
    pub format: Option<WireFormat>,
    /// A key that beats the environment's.
    pub api_key: Option<Secret>,
}

/// What was meant.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// How to reach the model.
    pub config: ProviderConfig,
    /// The model's name as its provider knows it; `None` if the server is to be asked which it has.
    pub model: Option<String>,
}

/// What cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// Neither a model nor a key nor a base URL is there.
    #[error(
        "no model is configured: set ANTHROPIC_API_KEY or OPENAI_API_KEY, or name a local server \
         with a base URL"
    )]
    NothingConfigured,
    /// The provider's key is not there.
    #[error("there is no key for {provider}: set {variable}")]
    NoKey {
        /// The provider.
        provider: String,
        /// The variable that would hold it.
        variable: &'static str,
    },
    /// The model's name does not tell who serves it.
    #[error(
        "nobody knows who serves the model {model:?}: write provider/{model}, or give a base URL"
    )]
    UnknownModel {
        /// The model.
        model: String,
    },
}

/// A provider that a model's name may begin with.
#[derive(Debug, Clone, Copy)]
struct Known {
    name: &'static str,
    format: WireFormat,
    base_url: &'static str,
    base_variable: &'static str,
    key_variable: &'static str,
    needs_key: bool,
}

const ANTHROPIC: Known = Known {
    name: "anthropic",
    format: WireFormat::AnthropicMessages,
    base_url: "https://api.anthropic.com",
    base_variable: "ANTHROPIC_BASE_URL",
    key_variable: "ANTHROPIC_API_KEY",
    needs_key: true,
};

const OPENAI: Known = Known {
    name: "openai",
    format: WireFormat::OpenAiChat,
    base_url: "https://api.openai.com/v1",
    base_variable: "OPENAI_BASE_URL",
    key_variable: "OPENAI_API_KEY",
    needs_key: true,
};

const KNOWN: &[Known] = &[
    ANTHROPIC,
    OPENAI,
    Known {
        name: "ollama",
        format: WireFormat::OpenAiChat,
        base_url: "http://127.0.0.1:11434",
        base_variable: "OLLAMA_HOST",
        key_variable: "OLLAMA_API_KEY",
        needs_key: false,
    },
    chat(
        "openrouter",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_BASE_URL",
        "OPENROUTER_API_KEY",
    ),
    chat(
        "groq",
        "https://api.groq.com/openai/v1",
        "GROQ_BASE_URL",
        "GROQ_API_KEY",
    ),
    chat(
        "mistral",
        "https://api.mistral.ai/v1",
        "MISTRAL_BASE_URL",
        "MISTRAL_API_KEY",
    ),
    chat(
        "deepseek",
        "https://api.deepseek.com/v1",
        "DEEPSEEK_BASE_URL",
        "DEEPSEEK_API_KEY",
    ),
    chat("xai", "https://api.x.ai/v1", "XAI_BASE_URL", "XAI_API_KEY"),
    chat(
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "GEMINI_BASE_URL",
        "GEMINI_API_KEY",
    ),
];

const fn chat(
    name: &'static str,
    base_url: &'static str,
    base_variable: &'static str,
    key_variable: &'static str,
) -> Known {
    Known {
        name,
        format: WireFormat::OpenAiChat,
        base_url,
        base_variable,
        key_variable,
        needs_key: true,
    }
}

/// Finds out what was meant. `environment` looks a variable up.
///
/// # Errors
/// If nothing is configured, a key is missing, or the model's name tells nobody who serves it.
pub fn resolve(
    wanted: &Wanted,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Resolved, ResolveError> {
    let look = |name: &str| environment(name).filter(|value| !value.trim().is_empty());
    let model = wanted
        .model
        .as_deref()
        .map(str::trim)
        .filter(|model| !model.is_empty());
    let (named, model) = match model {
        Some(model) => split(model),
        None => (None, None),
    };
    let base_url = wanted
        .base_url
        .as_deref()
        .map(str::trim)
        .filter(|url| !url.is_empty());
    if let Some(base_url) = base_url {
        return Ok(at_base_url(wanted, base_url, named, model, &look));
    }
    let provider = match named {
        Some(provider) => provider,
        None => by_model_and_environment(wanted, model, &look)?,
    };
    let (auth, has_base) = (
        auth(wanted, &provider, &look),
        look(provider.base_variable).is_some(),
    );
    // A server that somebody has set up by hand may do without a key.
    if provider.needs_key && auth == Auth::None && !has_base {
        return Err(ResolveError::NoKey {
            provider: provider.name.into(),
            variable: provider.key_variable,
        });
    }
    let base_url = look(provider.base_variable).map_or_else(
        || provider.base_url.to_owned(),
        |url| with_scheme(&url, provider.base_variable),
    );
    let format = wanted.format.unwrap_or(provider.format);
    let model = match model {
        Some(model) => Some(model.to_owned()),
        // A server that imitates one of the formats has models of its own. Messages are mostly
        // imitated by proxies, which know the names.
        None if provider.format == WireFormat::OpenAiChat && !is_own(&provider, &base_url) => None,
        None => models::default_model(provider.name),
    };
    Ok(Resolved {
        config: ProviderConfig::new(provider.name, format, base_url, auth),
        model,
    })
}

/// Whether a model's name tells who serves it.
#[must_use]
pub fn names_provider(model: &str) -> bool {
    split(model).0.is_some() || models::provider_of(model).is_some()
}

/// Splits `provider/model`. A name with a slash that begins with no provider is a model's name.
fn split(model: &str) -> (Option<Known>, Option<&str>) {
    if let Some((first, rest)) = model.split_once('/') {
        let known = KNOWN.iter().find(|known| known.name == first);
        if let Some(known) = known {
            return (Some(*known), Some(rest).filter(|rest| !rest.is_empty()));
        }
    }
    (None, Some(model))
}

/// A server that the user points at.
fn at_base_url(
    wanted: &Wanted,
    base_url: &str,
    named: Option<Known>,
    model: Option<&str>,
    look: &dyn Fn(&str) -> Option<String>,
) -> Resolved {
    let base_url = with_scheme(base_url, "");
    let format = wanted.format.unwrap_or_else(|| {
        let by_url =
            base_url.contains("anthropic") || base_url.trim_end_matches('/').ends_with("/messages");
        let by_name = model.is_some_and(|model| model.starts_with("claude-"));
        match named {
            Some(known) => known.format,
            None if by_url || by_name => WireFormat::AnthropicMessages,
            None => WireFormat::OpenAiChat,
        }
    });
    let provider = named.unwrap_or(match format {
        WireFormat::AnthropicMessages => ANTHROPIC,
        WireFormat::OpenAiChat => OPENAI,
    });
    let own_server = is_own(&provider, &base_url);
    let name = if named.is_some() || own_server {
        provider.name.to_owned()
    } else {
        host_of(&base_url)
    };
    let auth = auth(wanted, &provider, look);
    let model = model.map(str::to_owned);
    let model = model.or_else(|| own_server.then(|| models::default_model(provider.name))?);
    Resolved {
        config: ProviderConfig::new(name, format, base_url, auth),
        model,
    }
}

/// Whether a base URL is the provider's own.
fn is_own(provider: &Known, base_url: &str) -> bool {
    host_of(base_url) == host_of(provider.base_url)
}

/// Who is meant, where nobody is named.
fn by_model_and_environment(
    wanted: &Wanted,
    model: Option<&str>,
    look: &dyn Fn(&str) -> Option<String>,
) -> Result<Known, ResolveError> {
    if let Some(format) = wanted.format {
        return Ok(match format {
            WireFormat::AnthropicMessages => ANTHROPIC,
            WireFormat::OpenAiChat => OPENAI,
        });
    }
    let is_there = |known: &Known| {
        look(known.key_variable).is_some()
            || look(known.base_variable).is_some()
            || (known.name == "anthropic" && look("ANTHROPIC_AUTH_TOKEN").is_some())
    };
    if let Some(model) = model {
        let by_table = models::provider_of(model);
        let by_table = by_table.and_then(|name| KNOWN.iter().find(|known| known.name == name));
        if let Some(known) = by_table {
            // A proxy for one format may serve the models of another.
            let other = [ANTHROPIC, OPENAI]
                .into_iter()
                .find(|other| other.name != known.name && look(other.base_variable).is_some());
            return Ok(match other {
                Some(other) if !is_there(known) => other,
                _ => *known,
            });
        }
    }
    // A server set up by hand beats a key alone, which many people just have lying about.
    let bases = [ANTHROPIC, OPENAI, KNOWN.get(2).copied().unwrap_or(OPENAI)];
    let by_base: Vec<Known> = bases
        .into_iter()
        .filter(|known| look(known.base_variable).is_some())
        .collect();
    if let [only] = by_base.as_slice() {
        return Ok(*only);
    }
    if let Some(known) = by_base
        .iter()
        .find(|known| look(known.key_variable).is_some())
    {
        return Ok(*known);
    }
    if let Some(known) = by_base.first() {
        return Ok(*known);
    }
    let first = KNOWN.iter().find(|known| is_there(known)).copied();
    match (model, first) {
        (None, Some(known)) => Ok(known),
        (Some(model), Some(_)) => Err(ResolveError::UnknownModel {
            model: model.to_owned(),
        }),
        (Some(model), None) if model.contains('/') => Err(ResolveError::UnknownModel {
            model: model.to_owned(),
        }),
        (_, None) => Err(ResolveError::NothingConfigured),
    }
}

fn auth(wanted: &Wanted, provider: &Known, look: &dyn Fn(&str) -> Option<String>) -> Auth {
    if let Some(key) = &wanted.api_key {
        return Auth::Key(key.clone());
    }
    let secret = |name: &str| look(name).map(|value| Secret::new(value.trim()));
    if let Some(key) = secret(provider.key_variable) {
        return Auth::Key(key);
    }
    if provider.name == "anthropic"
        && let Some(token) = secret("ANTHROPIC_AUTH_TOKEN")
    {
        return Auth::Bearer(token);
    }
    Auth::None
}

/// A base URL with a scheme. `OLLAMA_HOST` may be a mere address to listen on.
fn with_scheme(url: &str, variable: &str) -> String {
    let url = url.trim();
    let url = if url.contains("://") {
        url.to_owned()
    } else if variable == "OLLAMA_HOST" && !url.contains(':') {
        format!("http://{url}:11434")
    } else {
        format!("http://{url}")
    };
    // An address to listen on everywhere is no address to connect to.
    url.replacen("://0.0.0.0", "://127.0.0.1", 1)
}

fn host_of(url: &str) -> String {
    reqwest::Url::parse(url).ok().map_or_else(
        || "custom".to_owned(),
        |url| crate::endpoint::host_and_port(&url),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resolves a model flag and a base URL flag against an environment, to one line.
    fn shown(model: &str, base_url: &str, environment: &[(&str, &str)]) -> String {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let wanted = Wanted {
            model: some(model),
            base_url: some(base_url),
            ..Wanted::default()
        };
        let look = |name: &str| {
            let found = environment.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        match resolve(&wanted, &look) {
            Err(error) => format!("error: {error}"),
            Ok(resolved) => {
                let format = match resolved.config.format {
                    WireFormat::AnthropicMessages => "messages",
                    WireFormat::OpenAiChat => "chat",
                };
                let auth = match &resolved.config.auth {
                    Auth::None => "none".to_owned(),
                    Auth::Key(key) => format!("key {}", key.expose()),
                    Auth::Bearer(key) => format!("bearer {}", key.expose()),
                };
                let model = resolved.model.as_deref().unwrap_or("?");
                let config = &resolved.config;
                format!(
                    "{} {format} {} {auth} {model}",
                    config.name, config.base_url
                )
            }
        }
    }

    const A: (&str, &str) = ("ANTHROPIC_API_KEY", "ka");
    const O: (&str, &str) = ("OPENAI_API_KEY", "ko");
    const AB: (&str, &str) = ("ANTHROPIC_BASE_URL", "http://127.0.0.1:9");
    const OB: (&str, &str) = ("OPENAI_BASE_URL", "http://127.0.0.1:8/v1");

    #[test]
    fn models_with_a_provider() {
        let own = "https://api.anthropic.com";
        assert_eq!(
            shown("anthropic/claude-x", "", &[A]),
            format!("anthropic messages {own} key ka claude-x")
        );
        assert_eq!(
            shown("anthropic/claude-x", "", &[("ANTHROPIC_AUTH_TOKEN", "t")]),
            format!("anthropic messages {own} bearer t claude-x")
        );
        assert_eq!(
            shown("openai/gpt-x", "", &[A, O]),
            "openai chat https://api.openai.com/v1 key ko gpt-x"
        );
        assert_eq!(
            shown("openai/gpt-x", "", &[A]),
            "error: there is no key for openai: set OPENAI_API_KEY"
        );
        assert_eq!(
            shown("ollama/qwen3:8b", "", &[A]),
            "ollama chat http://127.0.0.1:11434 none qwen3:8b"
        );
        assert_eq!(
            shown("ollama/qwen3", "", &[("OLLAMA_HOST", "0.0.0.0")]),
            "ollama chat http://127.0.0.1:11434 none qwen3"
        );
        assert_eq!(
            shown("ollama/qwen3", "", &[("OLLAMA_HOST", "box:1234")]),
            "ollama chat http://box:1234 none qwen3"
        );
        assert_eq!(
            shown(
                "openrouter/anthropic/claude-sonnet-5.5",
                "",
                &[("OPENROUTER_API_KEY", "k")]
            ),
            "openrouter chat https://openrouter.ai/api/v1 key k anthropic/claude-sonnet-5.5"
        );
        assert_eq!(
            shown("anthropic/", "", &[A]),
            format!("anthropic messages {own} key ka claude-sonnet-5-5")
        );
    }

    #[test]
    fn models_without_a_provider() {
        let own = "https://api.anthropic.com";
        assert_eq!(
            shown("claude-haiku-4-5", "", &[A, O]),
            format!("anthropic messages {own} key ka claude-haiku-4-5")
        );
        assert_eq!(
            shown("gpt-5", "", &[A, O]),
            "openai chat https://api.openai.com/v1 key ko gpt-5"
        );
        assert_eq!(
            shown("gpt-5", "", &[A]),
            "error: there is no key for openai: set OPENAI_API_KEY"
        );
        assert_eq!(
            shown("rig-model", "", &[A, AB]),
            "anthropic messages http://127.0.0.1:9 key ka rig-model"
        );
        assert_eq!(
            shown("rig-model", "", &[O, OB]),
            "openai chat http://127.0.0.1:8/v1 key ko rig-model"
        );
        assert_eq!(
            shown("rig-model", "", &[A, AB, OB]),
            "anthropic messages http://127.0.0.1:9 key ka rig-model"
        );
        assert_eq!(
            shown("gpt-5", "", &[A, AB]),
            "anthropic messages http://127.0.0.1:9 key ka gpt-5"
        );
        assert_eq!(
            shown("rig-model", "", &[A]),
            "error: nobody knows who serves the model \"rig-model\": write provider/rig-model, or give a base URL"
        );
        assert!(shown("rig-model", "", &[]).starts_with("error: no model is configured"));
    }

    #[test]
    fn no_model_at_all() {
        assert_eq!(
            shown("", "", &[A, AB]),
            "anthropic messages http://127.0.0.1:9 key ka claude-sonnet-5-5"
        );
        assert_eq!(
            shown("", "", &[O]),
            "openai chat https://api.openai.com/v1 key ko gpt-5.6"
        );
        assert_eq!(
            shown("", "", &[O, A]),
            "anthropic messages https://api.anthropic.com key ka claude-sonnet-5-5"
        );
        assert_eq!(
            shown("", "", &[A, O, OB]),
            "openai chat http://127.0.0.1:8/v1 key ko ?"
        );
        assert_eq!(
            shown("", "", &[("ANTHROPIC_API_KEY", " ")]),
            shown("", "", &[])
        );
        assert!(shown("", "", &[]).starts_with("error: no model is configured"));
    }

    #[test]
    fn a_base_url_by_hand() {
        let local = "http://127.0.0.1:8080";
        assert_eq!(
            shown("qwen", local, &[]),
            format!("127.0.0.1:8080 chat {local} none qwen")
        );
        assert_eq!(
            shown("qwen", "127.0.0.1:8080/v1", &[]),
            format!("127.0.0.1:8080 chat {local}/v1 none qwen")
        );
        assert_eq!(
            shown("claude-sonnet-5-5", local, &[A]),
            format!("127.0.0.1:8080 messages {local} key ka claude-sonnet-5-5")
        );
        assert_eq!(
            shown("anthropic/qwen", local, &[]),
            format!("anthropic messages {local} none qwen")
        );
        assert_eq!(
            shown("m", "https://api.z.ai/api/anthropic", &[A]),
            "api.z.ai messages https://api.z.ai/api/anthropic key ka m"
        );
        assert_eq!(
            shown("", local, &[O]),
            format!("127.0.0.1:8080 chat {local} key ko ?")
        );
        assert_eq!(
            shown("", "https://api.openai.com/v1/", &[O]),
            "openai chat https://api.openai.com/v1/ key ko gpt-5.6"
        );
        assert_eq!(
            shown("some/model", local, &[]),
            format!("127.0.0.1:8080 chat {local} none some/model")
        );
    }

    #[test]
    fn a_format_and_a_key_by_hand() {
        let wanted = Wanted {
            model: Some("m".into()),
            base_url: Some("http://127.0.0.1:1".into()),
            format: Some(WireFormat::AnthropicMessages),
            api_key: Some(Secret::new("mine")),
        };
        let resolved = resolve(&wanted, &|name| {
            (name == "ANTHROPIC_API_KEY").then(|| "env".into())
        })
        .unwrap();
        assert_eq!(resolved.config.format, WireFormat::AnthropicMessages);
        assert_eq!(resolved.config.auth, Auth::Key(Secret::new("mine")));
        assert!(!format!("{resolved:?}").contains("mine"));
    }

    #[test]
    fn every_key_is_in_the_list() {
        for known in KNOWN {
            assert!(
                KEY_VARIABLES.contains(&known.key_variable),
                "{}",
                known.name
            );
        }
    }
}
