//! Any bytes as a reply in each wire format: events that make sense, the same however they come.
//!
//! Input: a byte that says how the rest is cut; the reply.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tooloop_fuzz::parts;
use tooloop_model::{MessageBuilder, ModelError, StreamEvent};
use tooloop_provider::{AnthropicCodec, ChatSettings, Codec, Echo, OpenAiChatCodec};

static CODECS: LazyLock<[Box<dyn Codec>; 2]> = LazyLock::new(|| {
    let settings = ChatSettings {
        reasoning_echo: Echo::AsReceived,
        max_completion_tokens: false,
        null_content: true,
    };
    let chat = OpenAiChatCodec::new(settings, &serde_json::Map::new());
    [Box::new(AnthropicCodec::default()), Box::new(chat)]
});

fuzz_target!(|data: &[u8]| {
    let Some((seed, bytes)) = data.split_first() else {
        return;
    };
    for codec in CODECS.iter() {
        let whole = decode(&**codec, [bytes]);
        assert_eq!(decode(&**codec, parts(bytes, *seed)), whole);
        let (events, error) = whole;
        let mut builder = MessageBuilder::new();
        for event in events {
            builder.push(event).expect("events that make sense");
        }
        assert_eq!(builder.finish().is_ok(), error.is_none(), "{error:?}");
    }
});

fn decode<'a>(
    codec: &dyn Codec,
    parts: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<StreamEvent>, Option<ModelError>) {
    let mut decoder = codec.decoder();
    let mut events = Vec::new();
    for part in parts {
        if let Err(error) = decoder.feed(part, &mut events) {
            return (events, Some(error));
        }
    }
    let error = decoder.finish(&mut events).err();
    (events, error)
}
