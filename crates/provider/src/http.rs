//! The provider behind an HTTP server.

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tooloop_model::{ModelError, ModelErrorKind, ModelInfo, Request};

use crate::{ModelStream, Provider, ProviderConfig};

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
}

/// A model server spoken to over HTTP, with one client and so one set of connections for all calls.
#[derive(Debug)]
pub struct HttpProvider {
    config: ProviderConfig,
}

impl HttpProvider {
    /// Builds the client. Opens no connection.
    ///
    /// # Errors
    /// If the configuration is not usable.
    pub fn new(config: ProviderConfig) -> Result<Self, BuildError> {
        Ok(Self { config })
    }
}

impl Provider for HttpProvider {
    fn name(&self) -> &str {
        &self.config.name
    }

    fn info(&self, _model: &str) -> ModelInfo {
        ModelInfo {
            context_window: 128_000,
            max_output_tokens: 8_192,
            price: None,
            images: false,
        }
    }

    fn stream(
        &self,
        _request: Request,
        _cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        Box::pin(async {
            Err(ModelError::new(
                ModelErrorKind::BadRequest,
                "the transport is not there yet",
            ))
        })
    }
}
