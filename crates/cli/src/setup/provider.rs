//! Who writes the replies.

use std::sync::Arc;

use tooloop::provider::{
    HttpProvider, LOCAL_SERVERS, ModelOverrides, NO_MODEL_HELP, Provider, ProviderConfig,
    ResolveError, Resolved, RoutedProvider, Secret, TransportConfig, Wanted, detect_local,
    first_model_of, names_provider, resolve,
};

use super::environment;
use crate::exit::{Failure, Status};
use crate::settings::Settings;

/// Who writes the replies, and the model's name there.
pub(super) async fn provider(settings: &Settings) -> Result<(Arc<dyn Provider>, String), Failure> {
    let wanted = wanted(settings, settings.model.clone());
    let (mut config, model) = match resolve(&wanted, &environment) {
        Ok(Resolved { config, model }) => (config, model),
        Err(ResolveError::NothingConfigured) => match detect_local(LOCAL_SERVERS).await {
            Some((config, model)) => (config, Some(model)),
            None => return Err(Failure::new(Status::Auth, NO_MODEL_HELP)),
        },
        Err(error @ ResolveError::NoKey { .. }) => {
            return Err(Failure::new(Status::Auth, error.to_string()));
        }
        Err(error @ ResolveError::UnknownModel { .. }) => {
            return Err(Failure::settings(error.to_string()));
        }
    };
    configure(&mut config, settings)?;
    let model = match model {
        Some(model) => model,
        None => first_model_of(&config).await.ok_or_else(|| {
            Failure::settings(format!(
                "the server at {} does not say which models it has: name one with --model",
                config.base_url
            ))
        })?,
    };
    let provider =
        HttpProvider::new(config).map_err(|error| Failure::settings(error.to_string()))?;
    Ok((Arc::new(provider), model))
}

/// Who writes the replies, those of another model included, and that model's name there. `what` says
/// what that model is for.
pub(super) fn with_model(
    settings: &Settings,
    provider: Arc<dyn Provider>,
    what: &str,
    name: &str,
) -> Result<(Arc<dyn Provider>, String), Failure> {
    if !names_provider(name) {
        return Ok((provider, name.to_owned()));
    }
    let wanted = wanted(settings, Some(name.to_owned()));
    let told = |error: &dyn std::fmt::Display| format!("{what} {name}: {error}");
    let Resolved { mut config, model } = resolve(&wanted, &environment).map_err(|error| {
        let status = match error {
            ResolveError::NoKey { .. } => Status::Auth,
            ResolveError::NothingConfigured | ResolveError::UnknownModel { .. } => Status::Settings,
        };
        Failure::new(status, told(&error))
    })?;
    let name = model.unwrap_or_else(|| name.to_owned());
    configure(&mut config, settings)?;
    let other = HttpProvider::new(config).map_err(|error| Failure::settings(told(&error)))?;
    if other.name() == provider.name() {
        return Ok((provider, name));
    }
    let routed = RoutedProvider::new(provider).route(name.clone(), Arc::new(other));
    Ok((Arc::new(routed), name))
}

/// What the settings say of who writes the replies of a model.
fn wanted(settings: &Settings, model: Option<String>) -> Wanted {
    Wanted {
        model,
        base_url: settings.base_url.clone(),
        format: settings.api,
        api_key: settings
            .key_variable
            .as_deref()
            .and_then(environment)
            .map(Secret::new),
    }
}

fn configure(config: &mut ProviderConfig, settings: &Settings) -> Result<(), Failure> {
    config.transport = TransportConfig {
        first_byte: settings.stream_first_byte_timeout,
        idle: settings.stream_idle_timeout,
        content: settings.stream_content_timeout,
        extra_ca: settings.extra_ca_file.clone(),
        ..TransportConfig::default()
    };
    config.overrides = ModelOverrides {
        context_window: settings.context_window,
        max_output_tokens: settings.max_output_tokens,
    };
    config.reasoning_echo = settings.reasoning_echo.clone();
    if let Some(path) = &settings.models_file {
        let data = std::fs::read_to_string(path).map_err(|error| {
            Failure::settings(format!(
                "models_file: cannot read {}: {error}",
                path.display()
            ))
        })?;
        config.model_data = Some(data);
    }
    Ok(())
}
