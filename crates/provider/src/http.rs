//! The provider behind an HTTP server.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures_util::future::BoxFuture;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Certificate, Url};
use tokio_util::sync::CancellationToken;
use tooloop_model::{ModelError, ModelInfo, Request};

use crate::anthropic::AnthropicCodec;
use crate::client::PooledClient;
use crate::config::{Auth, ProviderConfig, WireFormat};
use crate::models::ModelTable;
use crate::openai_chat::{ChatSettings, OpenAiChatCodec};
use crate::transport::{self, Call};
use crate::{Codec, ModelStream, Provider, client, endpoint};

/// A configuration that no provider can be built from.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The base URL is none.
    #[error("the base URL {url:?} is not usable: {reason}")]
    BaseUrl {
        /// The URL as given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The file of certificates is none.
    #[error("the certificates in {} cannot be used: {reason}", path.display())]
    ExtraCa {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A header, or a key that belongs into one, holds what a header must not hold.
    #[error("the header {name:?} cannot be sent: it holds characters that no header may hold")]
    Header {
        /// Its name.
        name: String,
    },
    /// The model data is no table of models.
    #[error("the model data cannot be used: {reason}")]
    ModelData {
        /// What is wrong with it, with line and column.
        reason: String,
    },
}

/// A model server spoken to over HTTP, with one client and so one set of connections for all calls.
pub struct HttpProvider {
    name: String,
    local: bool,
    codec: Box<dyn Codec>,
    url: Url,
    headers: HeaderMap,
    /// What must not show in an error, whatever a server says.
    secrets: Vec<crate::Secret>,
    certificates: Vec<Certificate>,
    client: OnceLock<PooledClient>,
    /// Held while the client is built, so that it is built once.
    building: Mutex<()>,
    models: ModelTable,
    config: ProviderConfig,
}

impl fmt::Debug for HttpProvider {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("HttpProvider")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl HttpProvider {
    /// Makes a provider. Opens no connection and reads no root certificate.
    ///
    /// # Errors
    /// If the configuration is not usable.
    pub fn new(config: ProviderConfig) -> Result<Self, BuildError> {
        let codec = codec(&config);
        let url = endpoint::endpoint(&config.base_url, codec.path())?;
        let headers = headers(&config, codec.as_ref())?;
        let certificates = match &config.transport.extra_ca {
            Some(path) => client::read_certificates(path)?,
            None => Vec::new(),
        };
        let mut secrets = match &config.auth {
            Auth::None => Vec::new(),
            Auth::Key(secret) | Auth::Bearer(secret) => vec![secret.clone()],
        };
        // A header of one's own may hold a key as well. Short values are words, not keys.
        let values = config.headers.iter().map(|(_, value)| value.trim());
        secrets.extend(
            values
                .filter(|value| value.len() >= 12)
                .map(crate::Secret::new),
        );
        let models = ModelTable::new(config.model_data.as_deref())
            .map_err(|reason| BuildError::ModelData { reason })?;
        Ok(Self {
            name: config.name.clone(),
            local: endpoint::is_local_host(url.host_str().unwrap_or_default()),
            codec,
            url,
            headers,
            secrets,
            certificates,
            client: OnceLock::new(),
            building: Mutex::new(()),
            models,
            config,
        })
    }

    /// The configuration it was made from.
    #[must_use]
    pub const fn config(&self) -> &ProviderConfig {
        &self.config
    }

    /// The codec it speaks with.
    #[must_use]
    pub fn codec(&self) -> &dyn Codec {
        self.codec.as_ref()
    }

    fn client(&self) -> Result<PooledClient, ModelError> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let _building = self.building.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let client = client::build(&self.url, &self.config.transport, &self.certificates)?;
        Ok(self.client.get_or_init(|| client).clone())
    }
}

impl Provider for HttpProvider {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self, model: &str) -> ModelInfo {
        let mut info = self.models.info(model, self.local);
        let overrides = self.config.overrides;
        if let Some(window) = overrides.context_window {
            info.context_window = window;
            info.max_output_tokens = info.max_output_tokens.min((window / 4).max(1));
        }
        if let Some(cap) = overrides.max_output_tokens {
            info.max_output_tokens = cap;
        }
        info
    }

    fn stream(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        Box::pin(async move {
            let body = self.codec.encode(&request, &self.info(&request.model));
            // What the history holds is not needed while the reply comes.
            drop(request);
            let call = Call {
                client: self.client()?,
                url: self.url.clone(),
                headers: self.headers.clone(),
                body,
                timers: transport::Timers::from(&self.config.transport),
                secrets: Arc::from(self.secrets.as_slice()),
                cancel,
            };
            transport::stream(call, self.codec.as_ref()).await
        })
    }
}

fn codec(config: &ProviderConfig) -> Box<dyn Codec> {
    match config.format {
        WireFormat::AnthropicMessages => Box::new(AnthropicCodec::new(&config.extra_body)),
        WireFormat::OpenAiChat => {
            let host = Url::parse(config.base_url.trim())
                .ok()
                .and_then(|url| url.host_str().map(str::to_owned))
                .unwrap_or_default();
            let settings = ChatSettings {
                null_content: config.null_content,
                ..ChatSettings::for_host(&host, &config.reasoning_echo, config.output_cap_field)
            };
            Box::new(OpenAiChatCodec::new(settings, &config.extra_body))
        }
    }
}

fn headers(config: &ProviderConfig, codec: &dyn Codec) -> Result<HeaderMap, BuildError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    let own = codec.headers(&config.auth).into_iter();
    let own = own.map(|(name, value)| (name.to_owned(), value));
    for (name, value) in own.chain(config.headers.iter().cloned()) {
        let refuse = || BuildError::Header { name: name.clone() };
        let header = HeaderName::try_from(name.as_str()).map_err(|_| refuse())?;
        let mut value = HeaderValue::try_from(value.trim()).map_err(|_| refuse())?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}
