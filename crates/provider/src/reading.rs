//! What the decoders of all formats share.

use serde_json::Value;
use tooloop_model::{ModelError, ModelErrorKind};

use crate::errors;
use crate::sse::{Event, Framer, SseError};
use crate::words;

/// Why a framer stopped.
enum Stop {
    Sse(SseError),
    Model(ModelError),
}

impl From<SseError> for Stop {
    fn from(error: SseError) -> Self {
        Self::Sse(error)
    }
}

impl From<Stop> for ModelError {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Sse(error) => Self::new(ModelErrorKind::Decode, error.to_string()),
            Stop::Model(error) => error,
        }
    }
}

/// Feeds bytes to a framer and its events to a decoder.
pub(crate) fn feed(
    framer: &mut Framer,
    bytes: &[u8],
    mut event: impl FnMut(Event<'_>) -> Result<(), ModelError>,
) -> Result<(), ModelError> {
    framer.feed(bytes, &mut |it| event(it).map_err(Stop::Model))?;
    Ok(())
}

/// Offers a decoder what a framer still holds. What cannot be decoded there was cut: the answer
/// says whether there was such a thing.
pub(crate) fn finish(
    framer: &mut Framer,
    mut event: impl FnMut(Event<'_>) -> Result<(), ModelError>,
) -> Result<bool, ModelError> {
    match framer.finish(&mut |it| event(it).map_err(Stop::Model)) {
        Ok(()) => Ok(false),
        Err(Stop::Sse(_)) => Ok(true),
        Err(Stop::Model(error)) if error.kind == ModelErrorKind::Decode && error.code.is_none() => {
            Ok(true)
        }
        Err(Stop::Model(error)) => Err(error),
    }
}

/// The stream ended before its end.
pub(crate) fn cut(content_events: u64) -> ModelError {
    ModelError::new(
        ModelErrorKind::CutStream,
        if content_events == 0 {
            "the reply is empty"
        } else {
            "the reply ended before its end"
        },
    )
}

/// The stream began a second reply before the first one ended.
pub(crate) fn restarted() -> ModelError {
    ModelError::new(
        ModelErrorKind::Decode,
        "the stream started the reply again before its end",
    )
}

/// Whether this reason to stop names a content filter of the provider.
pub(crate) fn is_filter(reason: &str) -> bool {
    const FILTERS: &[&str] = &[
        "content_filter",
        "content_filtered",
        "safety",
        "recitation",
        "blocklist",
        "prohibited_content",
        "spii",
        "image_safety",
        "guardrail_intervened",
        "sensitive",
    ];
    FILTERS.iter().any(|word| reason.eq_ignore_ascii_case(word))
}

/// An event that is not JSON.
pub(crate) fn undecodable(error: &serde_json::Error, data: &str) -> ModelError {
    ModelError::new(
        ModelErrorKind::Decode,
        format!(
            "an event of the reply cannot be decoded ({error}): {}",
            words::short(&words::plain_text(data), 120)
        ),
    )
}

/// An event that says of itself that it is an error.
pub(crate) fn error_event(data: &str) -> ModelError {
    let value: Value = serde_json::from_str(data).unwrap_or_else(|_| Value::from(data));
    match value.get("error").filter(|error| !error.is_null()) {
        Some(error) => errors::in_band(error),
        None => errors::in_band(&value),
    }
}

/// A count, however it is written.
pub(crate) fn count(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    value.as_u64().or_else(|| {
        let number = value.as_f64().filter(|number| *number >= 0.0)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and a cast from a float saturates"
        )]
        Some(number as u64)
    })
}
