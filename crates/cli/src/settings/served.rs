//! Which server a model is asked on.

use tooloop::provider::{ResolveError, Wanted, WireFormat, resolve};

use super::Settings;

/// A server, as far as the settings name one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// The provider, and the address and wire format if there is a key.
    By(String, Option<(String, WireFormat)>),
    /// The settings name none: the only local server is asked.
    Unknown,
}

/// The server that a request for `model` goes to with these settings.
pub(crate) fn served(
    settings: &Settings,
    model: Option<&str>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Served {
    let wanted = Wanted {
        model: model.map(str::to_owned),
        base_url: settings.base_url.clone(),
        format: settings.api,
        api_key: None,
    };
    match resolve(&wanted, environment) {
        Ok(resolved) => {
            let config = resolved.config;
            Served::By(config.name, Some((config.base_url, config.format)))
        }
        // A key may come from elsewhere, so the name alone counts.
        Err(ResolveError::NoKey { provider, .. }) => Served::By(provider, None),
        Err(ResolveError::NothingConfigured | ResolveError::UnknownModel { .. }) => Served::Unknown,
    }
}
