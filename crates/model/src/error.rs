//! Why a model call failed.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A failed model call, classified once, by the codec and the transport that saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What kind of failure it is: decides whether trying again can help.
    pub kind: ModelErrorKind,
    /// What happened, for a person: host, status, the provider's words (at most 300 characters,
    /// no markup), and the setting that helps where one does.
    pub message: String,
    /// The HTTP status, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's own word for the failure, where it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// How long the provider asks to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
}

impl ModelError {
    /// A failure with words and nothing else.
    #[must_use]
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            status: None,
            code: None,
            retry_after: None,
        }
    }
}

/// The kinds of failure that the loop tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelErrorKind {
    /// No connection, or it broke.
    Connection,
    /// No first byte in time.
    FirstByteTimeout,
    /// The stream fell silent.
    IdleTimeout,
    /// The stream lives but says nothing.
    ContentTimeout,
    /// The stream ended before its end.
    CutStream,
    /// The reply cannot be understood.
    Decode,
    /// The provider has no capacity.
    Overloaded,
    /// Too many requests or tokens.
    RateLimited,
    /// The provider failed.
    Server,
    /// The key is missing or wrong.
    Auth,
    /// The certificate is not trusted.
    Certificate,
    /// A proxy refuses or asks for a login.
    Proxy,
    /// The request is not acceptable.
    BadRequest,
    /// There is no such model or address.
    NotFound,
    /// The conversation does not fit the model's window.
    ContextTooLong,
    /// The provider refuses the content.
    ContentRefused,
    /// The reply is complete and holds neither text nor a tool call.
    EmptyReply,
    /// The provider refuses an image or a document of the request.
    AttachmentRefused,
    /// The provider refuses the reasoning that the request sends back.
    ThinkingRefused,
    /// The call was cancelled from our side.
    Cancelled,
}

impl ModelErrorKind {
    /// Its name, as it stands in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::FirstByteTimeout => "first_byte_timeout",
            Self::IdleTimeout => "idle_timeout",
            Self::ContentTimeout => "content_timeout",
            Self::CutStream => "cut_stream",
            Self::Decode => "decode",
            Self::Overloaded => "overloaded",
            Self::RateLimited => "rate_limited",
            Self::Server => "server",
            Self::Auth => "auth",
            Self::Certificate => "certificate",
            Self::Proxy => "proxy",
            Self::BadRequest => "bad_request",
            Self::NotFound => "not_found",
            Self::ContextTooLong => "context_too_long",
            Self::ContentRefused => "content_refused",
            Self::EmptyReply => "empty_reply",
            Self::AttachmentRefused => "attachment_refused",
            Self::ThinkingRefused => "thinking_refused",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether trying the same request again can help.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        match self {
            Self::Connection
            | Self::FirstByteTimeout
            | Self::IdleTimeout
            | Self::ContentTimeout
            | Self::CutStream
            | Self::Decode
            | Self::Overloaded
            | Self::RateLimited
            | Self::EmptyReply
            | Self::Server => true,
            Self::Auth
            | Self::Certificate
            | Self::Proxy
            | Self::BadRequest
            | Self::NotFound
            | Self::ContextTooLong
            | Self::ContentRefused
            | Self::AttachmentRefused
            | Self::ThinkingRefused
            | Self::Cancelled => false,
        }
    }
}
