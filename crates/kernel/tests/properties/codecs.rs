//! Requests as real codecs write them, before a judge who refuses what any server refuses.

use tooloop_model::{ModelInfo, Request};
use tooloop_provider::{AnthropicCodec, ChatSettings, Codec, Echo, OpenAiChatCodec};
use tooloop_testkit::oracle::{self, Options};

const INFO: ModelInfo = ModelInfo {
    context_window: 200_000,
    max_output_tokens: 4_096,
    price: None,
    images: true,
    structured_output: false,
};

/// The owners of the vendor data that the codecs send back.
pub(crate) fn owners() -> [&'static str; 2] {
    [AnthropicCodec::default().name(), chat().name()]
}

pub(crate) fn accepted(request: &Request) {
    // The kernel is given none here, and a server asks for one.
    let request = Request {
        model: "m".into(),
        ..request.clone()
    };
    let options = Options::default();
    let body = oracle::parse_body(&AnthropicCodec::default().encode(&request, &INFO)).unwrap();
    let violations = oracle::check_anthropic(&body, &options);
    assert_eq!(violations, [], "{body:#}");
    let body = oracle::parse_body(&chat().encode(&request, &INFO)).unwrap();
    let violations = oracle::check_openai_chat(&body, &options);
    assert_eq!(violations, [], "{body:#}");
}

fn chat() -> OpenAiChatCodec {
    let settings = ChatSettings {
        reasoning_echo: Echo::AsReceived,
        max_completion_tokens: false,
        null_content: true,
    };
    OpenAiChatCodec::new(settings, &serde_json::Map::new())
}
