//! What a wire format is: how a request is written, how a reply is read, what an error means.
//!
//! Codecs are pure: they know no socket, no clock and no environment.

use std::fmt;
use std::time::SystemTime;

use tooloop_model::{ModelError, ModelInfo, Request, StreamEvent};

use crate::Auth;

/// A wire format.
pub trait Codec: Send + Sync + fmt::Debug {
    /// Its name; also the owner of the vendor data that its decoder makes.
    fn name(&self) -> &'static str;

    /// What comes after the version part of a URL, such as `messages`.
    fn path(&self) -> &'static str;

    /// The headers of a request besides the content type, name and value.
    fn headers(&self, auth: &Auth) -> Vec<(&'static str, String)>;

    /// The body of a request. The same history gives the same bytes.
    fn encode(&self, request: &Request, info: &ModelInfo) -> Vec<u8>;

    /// A reader for one reply.
    fn decoder(&self) -> Box<dyn Decoder>;

    /// What an answer means that is not a reply. All formats share one table; a codec overrides
    /// this only where its words mean something else.
    fn classify_error(&self, failure: &Failure<'_>) -> ModelError {
        crate::errors::classify(failure)
    }
}

/// Reads one reply.
pub trait Decoder: Send + fmt::Debug {
    /// Takes bytes in and appends the events that they complete.
    ///
    /// # Errors
    /// If the bytes are no reply, or the reply tells of an error. What came before it is in `out`.
    /// The decoder is not to be used further then.
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<StreamEvent>) -> Result<(), ModelError>;

    /// Ends the reply, since no more bytes will come.
    ///
    /// # Errors
    /// If the reply was not complete.
    fn finish(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), ModelError>;

    /// Whether the format's own end has been seen, so that nothing of interest can follow.
    fn ended(&self) -> bool;

    /// Whether the reply is complete although its end mark has not come: the reason to stop has.
    /// [`Decoder::finish`] succeeds from then on.
    fn complete(&self) -> bool {
        self.ended()
    }

    /// How many events have come that say something: pings and comments do not.
    fn content_events(&self) -> u64;
}

/// An answer that is not a reply.
#[derive(Debug, Clone, Copy)]
pub struct Failure<'a> {
    /// The host that answered, for the message.
    pub host: &'a str,
    /// The status.
    pub status: u16,
    /// The `retry-after-ms` header.
    pub retry_after_ms: Option<&'a str>,
    /// The `retry-after` header.
    pub retry_after: Option<&'a str>,
    /// The body, or as much of it as was read.
    pub body: &'a [u8],
    /// The time by the clock of who answered, if they told it: a date in `retry-after` is measured
    /// against it.
    pub now: SystemTime,
}

/// Further members of a body as `"key":value` pairs joined by commas, without those that the codec
/// writes itself.
pub(crate) fn extra_members(
    extra: &serde_json::Map<String, serde_json::Value>,
    own: &[&str],
) -> String {
    let mut out = Vec::new();
    for (key, value) in extra {
        if !own.contains(&key.as_str()) {
            crate::json_text::push_raw_field(&mut out, key, &value.to_string());
        }
    }
    String::from_utf8(out).unwrap_or_default()
}
