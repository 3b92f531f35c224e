//! Anthropic Messages.

mod decode;
mod encode;

use tooloop_model::{ModelInfo, Request};

use crate::{Auth, Codec, Decoder};

/// The owner of the vendor data of this format.
const NAME: &str = "anthropic";

/// The codec for Anthropic Messages.
#[derive(Debug, Clone, Default)]
pub struct AnthropicCodec {
    /// Further members of the request body, as `"key":value` pairs.
    extra_body: String,
}

impl AnthropicCodec {
    /// A codec that adds `extra_body` to each request, such as a thinking budget. Members that the
    /// codec writes itself are left out.
    #[must_use]
    pub fn new(extra_body: &serde_json::Map<String, serde_json::Value>) -> Self {
        Self {
            extra_body: crate::codec::extra_members(extra_body, encode::OWN_MEMBERS),
        }
    }
}

impl Codec for AnthropicCodec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn path(&self) -> &'static str {
        "messages"
    }

    fn headers(&self, auth: &Auth) -> Vec<(&'static str, String)> {
        let mut headers = vec![("anthropic-version", "2023-06-01".to_owned())];
        match auth {
            Auth::None => {}
            Auth::Key(key) => headers.push(("x-api-key", key.expose().to_owned())),
            Auth::Bearer(token) => {
                headers.push(("authorization", format!("Bearer {}", token.expose())));
            }
        }
        headers
    }

    fn encode(&self, request: &Request, info: &ModelInfo) -> Vec<u8> {
        encode::body(request, info, &self.extra_body)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::AnthropicDecoder::default())
    }
}
