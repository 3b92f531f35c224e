//! What a run tells of itself beside its output: a debug file, and traces for OpenTelemetry.
//!
//! Both listen to the spans and events of `tracing` that the rooms below give. Unless one of them
//! is asked for nothing listens and nothing is made. Neither may fail a run, hold up a step, or
//! show a secret: whatever leaves through this module goes through the `Redactor` of `provider`.
//!
//! It must not know what a session does, nor decide anything about a run. `docs/traces.md` tells
//! its users what comes out.

mod debug_file;
mod export;
mod fields;
mod otel;
mod otlp;
mod tap;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tracing_subscriber::layer::SubscriberExt as _;

use self::debug_file::DebugFile;
use self::export::Exporter;
use self::otel::Otel;
use self::tap::Tap;
use crate::exit::Failure;
use crate::print::complain;
use crate::secrets;
use crate::settings::Settings;
use crate::signals::Signals;

/// Variables with keys or ids that are meant for this process alone.
pub(crate) const WITHHELD: [&str; 4] = [
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "TRACEPARENT",
    "TRACESTATE",
];

/// The longest time that the end of a run waits for the last traces to be taken.
const LAST_EXPORT: Duration = Duration::from_secs(2);

/// What listens to a run.
#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    file: Option<Arc<DebugFile>>,
    exporter: Option<Exporter>,
}

/// Begins to listen, if that is asked for; told with it is what was asked for and cannot be had.
/// Must be called within a runtime.
///
/// # Errors
/// If the debug file cannot be written, or its filter is none.
pub(crate) fn start(
    settings: &Settings,
    look: &dyn Fn(&str) -> Option<String>,
) -> Result<(Telemetry, Vec<String>), Failure> {
    let mut warnings = Vec::new();
    let mut otel = otel::read(settings.otlp_endpoint.as_deref(), look, &mut warnings);
    if settings.debug_file.is_none() && otel.is_none() {
        return Ok((Telemetry::default(), warnings));
    }
    // All keys that this process has been given.
    let headers = otel.iter().flat_map(|otel| otel.secrets());
    let redactor = secrets::for_records(settings).with(headers);
    let file = match &settings.debug_file {
        None => None,
        Some(path) => {
            let filter = settings.log.as_deref();
            Some(Arc::new(DebugFile::open(path, filter, redactor.clone())?))
        }
    };
    if let Some(words) = otel.as_mut().and_then(Otel::connect) {
        warnings.push(words);
        otel = None;
    }
    let exporter = otel.map(|otel| Exporter::start(otel, redactor));
    let tap = Tap::new(
        file.clone(),
        exporter.as_ref().map(|exporter| exporter.queue()),
    );
    let subscriber = tracing_subscriber::registry().with(tap);
    if tracing::subscriber::set_global_default(subscriber).is_err() {
        warnings.push("nothing can be traced: something else in this process does".into());
    }
    tracing::debug!(
        version = env!("CARGO_PKG_VERSION"),
        process = std::process::id(),
        "tooloop begins"
    );
    Ok((Telemetry { file, exporter }, warnings))
}

impl Telemetry {
    /// Sends out what waits, for two seconds at most, and says once what went wrong.
    pub(crate) async fn finish(self, is_verbose: bool) {
        let Self { file, exporter } = self;
        if let Some(exporter) = exporter
            && let Some(words) = last_export(exporter).await
        {
            tracing::debug!(words, "traces");
            if is_verbose {
                complain(&words);
            }
        }
        if let Some(words) = file.and_then(|file| file.failure()) {
            complain(&words);
        }
    }
}

/// A signal has no patience.
async fn last_export(exporter: Exporter) -> Option<String> {
    let Ok(mut signals) = Signals::new() else {
        return exporter.finish(LAST_EXPORT, std::future::pending()).await;
    };
    let impatient = async move {
        signals.next().await;
    };
    exporter.finish(LAST_EXPORT, impatient).await
}
