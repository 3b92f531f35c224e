//! Codecs for model APIs over one HTTP and SSE transport.
//!
//! A [`Provider`] turns a [`tooloop_model::Request`] into a stream of events. [`HttpProvider`] does
//! so over HTTP with one [`Codec`] for each wire format; [`ScriptedProvider`], [`ReplayProvider`] and
//! [`CassetteProvider`] do so without any network. The vocabulary of vendors ends here: nothing above
//! this crate knows a header, a field or an error word of theirs.
//!
//! ```
//! use tooloop_model::{Message, MessageBuilder, StreamEvent};
//! use tooloop_provider::{Provider, ScriptedProvider, request};
//! use futures_util::StreamExt;
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let provider = ScriptedProvider::new().say("hello");
//! let request = request("any", [Message::user("hi")]);
//! let mut stream = provider.stream(request, Default::default()).await?;
//! let mut builder = MessageBuilder::new();
//! while let Some(event) = stream.next().await {
//!     builder.push(event?).expect("a scripted reply makes sense");
//! }
//! assert_eq!(builder.finish().expect("it has ended").text(), "hello");
//! # Ok::<(), tooloop_model::ModelError>(())
//! # }).unwrap();
//! ```

#![warn(missing_docs)]

mod anthropic;
mod cassette;
mod client;
mod codec;
pub mod compat;
mod config;
mod detect;
mod endpoint;
mod errors;
mod help;
mod history;
mod http;
mod json_text;
mod models;
mod openai_chat;
mod post;
mod provider;
mod reading;
mod redact;
mod replay;
mod resolve;
mod routed;
mod scripted;
mod secret;
pub mod sse;
mod transport;
mod words;

pub use anthropic::AnthropicCodec;
pub use cassette::{
    CASSETTE_VERSION, Cassette, CassetteContent, CassetteError, CassetteProvider, RecordedCall,
    RecordedReply, RecordedRequest, RecordingProvider, ValueDifference, first_difference,
};
pub use codec::{Codec, Decoder, Failure};
pub use config::{
    Auth, ModelOverrides, OutputCapField, ProviderConfig, Proxy, ReasoningEcho, TransportConfig,
    WireFormat,
};
pub use detect::{LOCAL_SERVERS, LocalServer, detect_local, first_model_of};
pub use help::{MODEL_HELP, NO_MODEL_HELP};
pub use http::{BuildError, HttpProvider};
pub use openai_chat::{ChatSettings, Echo, OpenAiChatCodec};
pub use post::{Post, PostError};
pub use provider::{ModelStream, Provider, request};
pub use redact::Redactor;
pub use replay::{ReplayError, ReplayProvider};
pub use resolve::{KEY_VARIABLES, ResolveError, Resolved, Wanted, names_provider, resolve};
pub use routed::RoutedProvider;
pub use scripted::{Reply, ScriptedProvider};
pub use secret::Secret;
