//! A provider made of several.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tooloop_model::{ModelError, ModelInfo, Request};

use crate::{ModelStream, Provider};

/// Asks one provider for some models and another one for all others: for a fallback model that
/// somebody else serves.
#[derive(Debug)]
pub struct RoutedProvider {
    rest: Arc<dyn Provider>,
    routes: Vec<(String, Arc<dyn Provider>)>,
}

impl RoutedProvider {
    /// Asks `rest` for everything.
    #[must_use]
    pub const fn new(rest: Arc<dyn Provider>) -> Self {
        Self {
            rest,
            routes: Vec::new(),
        }
    }

    /// Asks `provider` for this model.
    #[must_use]
    pub fn route(mut self, model: impl Into<String>, provider: Arc<dyn Provider>) -> Self {
        self.routes.push((model.into(), provider));
        self
    }

    fn of(&self, model: &str) -> &Arc<dyn Provider> {
        let mut routes = self.routes.iter();
        routes
            .find(|(name, _)| name == model)
            .map_or(&self.rest, |(_, provider)| provider)
    }
}

impl Provider for RoutedProvider {
    fn name(&self) -> &str {
        self.rest.name()
    }

    fn info(&self, model: &str) -> ModelInfo {
        self.of(model).info(model)
    }

    fn stream(
        &self,
        request: Request,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        self.of(&request.model).stream(request, cancel)
    }
}
