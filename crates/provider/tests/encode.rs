//! What requests look like, and that no history whatever makes one that a strict server refuses.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may fail anywhere"
)]

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use tooloop_model::{
    AssistantMessage, Content, ContentBlock, Document, Image, Message, ModelInfo, RawJson, Request,
    ToolChoice, ToolDefinition, ToolInput, ToolResult, ToolUse, VendorData,
};
use tooloop_provider::{
    AnthropicCodec, ChatSettings, Codec, Echo, OpenAiChatCodec, OutputCapField, ReasoningEcho,
    request,
};
use tooloop_testkit::oracle::{self, Options};

const INFO: ModelInfo = ModelInfo {
    context_window: 200_000,
    max_output_tokens: 4_096,
    price: None,
    images: true,
    structured_output: false,
};

/// The smallest picture there is.
const DOT: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn chat_with(echo: Echo) -> OpenAiChatCodec {
    let settings = ChatSettings {
        reasoning_echo: echo,
        max_completion_tokens: false,
        null_content: true,
    };
    OpenAiChatCodec::new(settings, &serde_json::Map::new())
}

fn chat() -> OpenAiChatCodec {
    chat_with(Echo::AsReceived)
}

fn body(codec: &dyn Codec, request: &Request) -> Value {
    serde_json::from_slice(&codec.encode(request, &INFO)).unwrap()
}

fn text(text: &str) -> ContentBlock {
    ContentBlock::Text {
        text: text.into(),
        vendor: None,
    }
}

fn call(id: &str, name: &str, input: &str) -> ContentBlock {
    ContentBlock::ToolUse(ToolUse {
        id: id.into(),
        name: name.into(),
        input: ToolInput::parse(input),
        vendor: None,
    })
}

fn vendor(owner: &str, data: &Value) -> VendorData {
    VendorData {
        owner: owner.into(),
        data: RawJson::from_value(data),
    }
}

fn thinking(thought: &str, owner: &str, data: &Value) -> ContentBlock {
    ContentBlock::Thinking {
        text: thought.into(),
        vendor: Some(vendor(owner, data)),
    }
}

fn assistant(content: Vec<ContentBlock>) -> Message {
    Message::Assistant(AssistantMessage {
        content,
        ..AssistantMessage::default()
    })
}

fn tools(names: &[&str]) -> Arc<[ToolDefinition]> {
    let tool = |name: &&str| ToolDefinition {
        name: (*name).into(),
        description: format!("Does {name}"),
        input_schema: RawJson::parse(r#"{"type":"object","properties":{}}"#).unwrap(),
    };
    names.iter().map(tool).collect()
}

fn image() -> Content {
    Content::Image(Image {
        media_type: "image/png".into(),
        data: DOT.into(),
    })
}

/// A conversation with a bit of everything.
fn everything() -> Request {
    let mut request = request(
        "m",
        [
            Message::User(vec![Content::Text("look".into()), image()]),
            assistant(vec![
                thinking("plan", "anthropic", &json!("sig")),
                text(" "),
                text("I look."),
                call("t1", "read", r#"{"path": "a",  "n": 1.50}"#),
                call("t2", "bash", "{\"command\": \"ls"),
            ]),
            Message::ToolResults(vec![
                ToolResult::text("t1".into(), "hello"),
                ToolResult::error("t2".into(), "not a JSON object"),
            ]),
            Message::user("only touch src"),
            assistant(vec![text("done")]),
            Message::user("  "),
            Message::user("go on"),
        ],
    );
    request.system = Arc::from("Be brief.");
    request.tools = tools(&["bash", "read"]);
    request
}

#[test]
fn messages_with_a_bit_of_everything() {
    let mark = json!({"type": "ephemeral"});
    let tool = |name: &str| json!({"name": name, "description": format!("Does {name}"), "input_schema": {"type": "object", "properties": {}}});
    let mut last = tool("read");
    last["cache_control"] = mark.clone();
    assert_eq!(
        body(&AnthropicCodec::default(), &everything()),
        json!({
            "model": "m",
            "max_tokens": 4096,
            "stream": true,
            "tools": [tool("bash"), last],
            "system": [{"type": "text", "text": "Be brief.", "cache_control": mark}],
            "messages": [
                {"role": "user", "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DOT}},
                ]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "plan", "signature": "sig"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a", "n": 1.5}},
                    {"type": "tool_use", "id": "t2", "name": "bash", "input": {}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": "hello"},
                    {"type": "tool_result", "tool_use_id": "t2", "content": "not a JSON object", "is_error": true},
                    {"type": "text", "text": "only touch src", "cache_control": mark},
                ]},
                {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
                {"role": "user", "content": [{"type": "text", "text": "go on", "cache_control": mark}]},
            ],
        })
    );
}

#[test]
fn chat_with_a_bit_of_everything() {
    let tool = |name: &str| json!({"type": "function", "function": {"name": name, "description": format!("Does {name}"), "parameters": {"type": "object", "properties": {}}}});
    let called = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let mut request = everything();
    request.max_output_tokens = Some(99);
    request.tool_choice = ToolChoice::Required;
    assert_eq!(
        body(&chat(), &request),
        json!({
            "model": "m",
            "max_tokens": 99,
            "stream": true,
            "stream_options": {"include_usage": true},
            "tools": [tool("bash"), tool("read")],
            "tool_choice": "required",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{DOT}")}},
                ]},
                {"role": "assistant", "content": " I look.", "tool_calls": [
                    called("t1", "read", r#"{"path": "a",  "n": 1.50}"#),
                    called("t2", "bash", "{}"),
                ]},
                {"role": "tool", "tool_call_id": "t1", "content": "hello"},
                {"role": "tool", "tool_call_id": "t2", "content": "Error: not a JSON object"},
                {"role": "user", "content": "only touch src"},
                {"role": "assistant", "content": "done"},
                {"role": "user", "content": "go on"},
            ],
        })
    );
}

#[test]
fn what_a_model_wrote_goes_back_byte_for_byte() {
    let bytes = AnthropicCodec::default().encode(&everything(), &INFO);
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.contains(r#""input":{"path": "a",  "n": 1.50}"#));
}

#[test]
fn a_longer_conversation_begins_with_the_same_bytes() {
    let whole = everything();
    let codecs: [&dyn Codec; 2] = [&AnthropicCodec::default(), &chat()];
    for codec in codecs {
        let full = body(codec, &whole);
        let mut shorter = whole.clone();
        shorter.messages.truncate(3);
        let prefix = body(codec, &shorter);
        let strip = |value: &Value| {
            let mut text = value.to_string();
            text = text.replace(r#","cache_control":{"type":"ephemeral"}"#, "");
            text.trim_end_matches("]}")
                .trim_end_matches(['}', ']'])
                .to_owned()
        };
        assert!(
            strip(&full).starts_with(&strip(&prefix)),
            "{}",
            codec.name()
        );
        // A second time, and from a journal, it is the same.
        let again = body(codec, &whole);
        assert_eq!(full, again);
        let resumed = request(
            "m",
            whole.messages.iter().map(|message| {
                let line = serde_json::to_string(message.message()).unwrap();
                serde_json::from_str(&line).unwrap()
            }),
        );
        let resumed = Request {
            messages: resumed.messages,
            ..whole.clone()
        };
        assert_eq!(codec.encode(&resumed, &INFO), codec.encode(&whole, &INFO));
    }
}

#[test]
fn one_history_for_two_formats() {
    let history = everything();
    let (messages, chat) = (AnthropicCodec::default(), chat());
    let fresh = (
        messages.encode(&everything(), &INFO),
        chat.encode(&everything(), &INFO),
    );
    for _ in 0..2 {
        assert_eq!(messages.encode(&history, &INFO), fresh.0);
        assert_eq!(chat.encode(&history, &INFO), fresh.1);
    }
}

#[test]
fn blocks_of_other_owners_are_left_out() {
    let request = request(
        "m",
        [
            Message::user("go"),
            assistant(vec![
                thinking(
                    "theirs",
                    "openai-chat",
                    &json!({"field": "reasoning_content"}),
                ),
                thinking("unsigned", "anthropic", &json!("")),
                ContentBlock::Thinking {
                    text: "bare".into(),
                    vendor: None,
                },
                ContentBlock::RedactedThinking(vendor("other", &json!("x"))),
                ContentBlock::Vendor(vendor("other", &json!({"type": "x"}))),
                ContentBlock::Vendor(vendor(
                    "anthropic",
                    &json!({"type": "server_tool_use", "id": "s", "name": "w", "input": {"q": 1}}),
                )),
                ContentBlock::RedactedThinking(vendor("anthropic", &json!("sealed"))),
                text("said"),
                thinking("trailing", "anthropic", &json!("sig")),
            ]),
            Message::user("on"),
            assistant(vec![thinking("alone", "anthropic", &json!("sig"))]),
            Message::user("further"),
        ],
    );
    let ours = body(&AnthropicCodec::default(), &request);
    assert_eq!(
        ours["messages"][1]["content"],
        json!([
            {"type": "server_tool_use", "id": "s", "name": "w", "input": {"q": 1}},
            {"type": "redacted_thinking", "data": "sealed"},
            {"type": "text", "text": "said"},
        ])
    );
    // The message of thinking alone is gone, and its neighbours are one.
    assert_eq!(ours["messages"].as_array().unwrap().len(), 3);
    assert_eq!(ours["messages"][2]["content"].as_array().unwrap().len(), 2);
    let theirs = body(&chat(), &request);
    assert_eq!(
        theirs["messages"],
        json!([
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "said", "reasoning_content": "theirs"},
            {"role": "user", "content": "on\n\nfurther"},
        ])
    );
}

#[test]
fn reasoning_of_every_shape_goes_back() {
    let of = |blocks: Vec<ContentBlock>, echo: Echo| {
        let request = request(
            "m",
            [Message::user("go"), assistant(blocks), Message::user("on")],
        );
        body(&chat_with(echo), &request)["messages"][1].clone()
    };
    let details = json!([
        {"type": "reasoning.text", "text": "The user", "index": 0},
    ]);
    let signature = json!([{"type": "reasoning.text", "signature": "sig", "index": 0}]);
    let blocks = || {
        vec![
            thinking(
                "The user",
                "openai-chat",
                &json!({"field": "reasoning", "details": details}),
            ),
            call("c", "bash", "{}"),
            thinking("", "openai-chat", &json!({"details": signature})),
        ]
    };
    let calls =
        json!([{"id": "c", "type": "function", "function": {"name": "bash", "arguments": "{}"}}]);
    let merged =
        json!([{"type": "reasoning.text", "text": "The user", "index": 0, "signature": "sig"}]);
    assert_eq!(
        of(blocks(), Echo::AsReceived),
        json!({"role": "assistant", "content": null, "reasoning": "The user", "reasoning_details": merged, "tool_calls": calls})
    );
    assert_eq!(
        of(blocks(), Echo::Field("thoughts".into())),
        json!({"role": "assistant", "content": null, "thoughts": "The user", "reasoning_details": merged, "tool_calls": calls})
    );
    assert_eq!(
        of(blocks(), Echo::Never),
        json!({"role": "assistant", "content": null, "tool_calls": calls})
    );
    let parts = || {
        vec![
            thinking("hm", "openai-chat", &json!({"field": "content"})),
            text("so"),
        ]
    };
    assert_eq!(
        of(parts(), Echo::AsReceived)["content"],
        json!([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "so"}])
    );
    assert_eq!(of(parts(), Echo::Never)["content"], json!("so"));
    let signed = ContentBlock::ToolUse(ToolUse {
        id: "c".into(),
        name: "bash".into(),
        input: ToolInput::parse(""),
        vendor: Some(vendor(
            "openai-chat",
            &json!({"google": {"thought_signature": "s"}}),
        )),
    });
    assert_eq!(
        of(vec![signed], Echo::Never)["tool_calls"][0]["extra_content"],
        json!({"google": {"thought_signature": "s"}})
    );
}

#[test]
fn pictures_and_documents() {
    let pdf = Content::Document(Document {
        media_type: "application/pdf".into(),
        data: "JVBERi0=".into(),
        title: Some("a.pdf".into()),
    });
    let plain = Content::Document(Document {
        media_type: "text/markdown".into(),
        data: "IyBow6k=".into(),
        title: None,
    });
    let result = ToolResult {
        tool_use_id: "t1".into(),
        content: vec![Content::Text("seen".into()), image()],
        is_error: false,
    };
    let request = request(
        "m",
        [
            Message::User(vec![pdf, plain]),
            assistant(vec![call("t1", "read", "{}"), call("t2", "read", "{}")]),
            Message::ToolResults(vec![result, ToolResult::text("t2".into(), "\n")]),
        ],
    );
    let ours = body(&AnthropicCodec::default(), &request);
    assert_eq!(
        ours["messages"][0]["content"],
        json!([
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}, "title": "a.pdf"},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "# hé"}, "cache_control": {"type": "ephemeral"}},
        ])
    );
    assert_eq!(
        ours["messages"][2]["content"][0]["content"][1]["type"],
        "image"
    );
    assert_eq!(ours["messages"][2]["content"][1]["content"], "(no output)");
    let theirs = body(&chat(), &request);
    assert_eq!(
        theirs["messages"][0]["content"],
        json!([
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}},
            {"type": "text", "text": "document:\n# hé"},
        ])
    );
    assert_eq!(
        theirs["messages"][2]["content"],
        "seen\n(1 attachment(s) in the next message)"
    );
    assert_eq!(theirs["messages"][3]["content"], "(no output)");
    let picture = &theirs["messages"][4]["content"];
    assert_eq!(picture[0]["text"], "Attached to the result of t1:");
    assert_eq!(picture[1]["type"], "image_url");
}

#[test]
fn what_is_not_asked_for_is_not_there() {
    let bare = request("m", [Message::user("hi")]);
    let keys = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    let ours = body(&AnthropicCodec::default(), &bare);
    assert_eq!(keys(&ours), ["model", "max_tokens", "stream", "messages"]);
    let theirs = body(&chat(), &bare);
    assert_eq!(
        keys(&theirs),
        ["model", "stream", "stream_options", "messages"]
    );
    let mut quiet = everything();
    quiet.tool_choice = ToolChoice::None;
    quiet.max_output_tokens = Some(7);
    let ours = body(&AnthropicCodec::default(), &quiet);
    assert_eq!(
        (&ours["tool_choice"], &ours["max_tokens"]),
        (&json!({"type": "none"}), &json!(7))
    );
    assert_eq!(body(&chat(), &quiet)["tool_choice"], "none");
}

#[test]
fn settings_reach_the_body() {
    let extra = json!({"thinking": {"type": "enabled"}, "model": "evil", "stream": false});
    let Value::Object(extra) = extra else {
        unreachable!()
    };
    let bare = request("m", [Message::user("hi")]);
    let ours = body(&AnthropicCodec::new(&extra), &bare);
    assert_eq!(
        (&ours["thinking"], &ours["model"]),
        (&json!({"type": "enabled"}), &json!("m"))
    );
    let settings =
        |host: &str| ChatSettings::for_host(host, &ReasoningEcho::Auto, OutputCapField::Auto);
    assert!(settings("api.openai.com").max_completion_tokens);
    assert!(settings("mine.openai.azure.com").max_completion_tokens);
    assert!(!settings("notopenai.com").max_completion_tokens);
    assert_eq!(settings("api.groq.com").reasoning_echo, Echo::Never);
    assert_eq!(
        settings("api.deepseek.com").reasoning_echo,
        Echo::AsReceived
    );
    let mut capped = bare;
    capped.max_output_tokens = Some(5);
    let newer = OpenAiChatCodec::new(settings("api.openai.com"), &extra);
    let theirs = body(&newer, &capped);
    assert_eq!(theirs["max_completion_tokens"], 5);
    assert_eq!(theirs.get("max_tokens"), None);
    assert_eq!(theirs["stream"], true);
}

#[test]
fn odd_ids_and_names_stay_valid_and_apart() {
    let ids = ["functions.bash:0", "functions_bash:0", "functions-bash:0"];
    let request = request(
        "m",
        [
            Message::user("go"),
            assistant(ids.iter().map(|id| call(id, "my tool!", "{}")).collect()),
            Message::ToolResults(
                ids.iter()
                    .map(|id| ToolResult::text((*id).into(), "x"))
                    .collect(),
            ),
        ],
    );
    let ours = body(&AnthropicCodec::default(), &request);
    let mut seen = std::collections::HashSet::new();
    for index in 0..3 {
        let call = &ours["messages"][1]["content"][index];
        let id = call["id"].as_str().unwrap();
        assert!(
            id.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
        );
        assert!(seen.insert(id.to_owned()));
        assert_eq!(ours["messages"][2]["content"][index]["tool_use_id"], id);
        assert_eq!(call["name"], "my_tool_");
    }
    assert_eq!(
        body(&chat(), &request)["messages"][1]["tool_calls"][0]["id"],
        ids[0]
    );
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just(" \n\t ".to_owned()),
        "[a-z \"\\\\é日\u{1}\n]{0,12}",
    ]
}

fn any_content() -> impl Strategy<Value = Content> {
    prop_oneof![
        4 => any_text().prop_map(Content::Text),
        1 => Just(image()),
        1 => Just(Content::Document(Document {
            media_type: "text/plain".into(),
            data: "IA==".into(),
            title: None,
        })),
    ]
}

fn any_vendor() -> impl Strategy<Value = Option<VendorData>> {
    prop_oneof![
        Just(None),
        Just(Some(vendor("anthropic", &json!("signed")))),
        Just(Some(vendor("anthropic", &json!("")))),
        Just(Some(vendor(
            "openai-chat",
            &json!({"field": "reasoning_content"})
        ))),
        Just(Some(vendor(
            "openai-chat",
            &json!({"field": "content", "details": [{"type": "reasoning.encrypted", "data": "x"}]})
        ))),
        Just(Some(vendor("someone", &json!([1])))),
    ]
}

/// A block, with a placeholder for the id of a call.
fn any_block() -> impl Strategy<Value = ContentBlock> {
    let input = prop_oneof![
        Just("{}"),
        Just(""),
        Just("null"),
        Just("{\"a\":"),
        Just("[1]"),
        Just("{\"a\": \"b\"}")
    ];
    let name = prop_oneof![Just("bash"), Just(""), Just("no such tool"), Just("日本")];
    prop_oneof![
        3 => (any_text(), any_vendor()).prop_map(|(text, vendor)| ContentBlock::Text { text, vendor }),
        2 => (any_text(), any_vendor()).prop_map(|(text, vendor)| ContentBlock::Thinking { text, vendor }),
        1 => any_vendor().prop_map(|data| data.map_or_else(|| text("x"), ContentBlock::RedactedThinking)),
        3 => (name, input).prop_map(|(name, input)| call("?", name, input)),
        1 => Just(ContentBlock::Vendor(vendor("anthropic", &json!({"type": "compaction", "content": "x"})))),
        1 => Just(ContentBlock::Vendor(vendor("someone", &json!({"odd": true})))),
    ]
}

#[derive(Debug, Clone)]
enum Turn {
    User(Vec<Content>),
    Model(Vec<ContentBlock>, Vec<Vec<Content>>, bool),
}

fn any_turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        prop::collection::vec(any_content(), 0..3).prop_map(Turn::User),
        (
            prop::collection::vec(any_block(), 0..6),
            prop::collection::vec(prop::collection::vec(any_content(), 0..3), 6),
            any::<bool>(),
        )
            .prop_map(|(blocks, results, is_error)| Turn::Model(blocks, results, is_error)),
    ]
}

/// Turns to a history as the loop keeps it: each call has an id of its own and its answer.
fn history(turns: Vec<Turn>) -> Vec<Message> {
    let mut messages = vec![Message::user("begin")];
    let mut calls = 0;
    for turn in turns {
        match turn {
            Turn::User(contents) => messages.push(Message::User(contents)),
            Turn::Model(mut blocks, outputs, is_error) => {
                let mut results = Vec::new();
                for block in &mut blocks {
                    if let ContentBlock::ToolUse(tool_use) = block {
                        calls += 1;
                        let id = if calls % 2 == 0 {
                            format!("toolu_{calls}")
                        } else {
                            format!("f.{calls}:é")
                        };
                        tool_use.id = id.as_str().into();
                        results.push(ToolResult {
                            tool_use_id: tool_use.id.clone(),
                            content: outputs[results.len()].clone(),
                            is_error,
                        });
                    }
                }
                messages.push(assistant(blocks));
                if !results.is_empty() {
                    messages.push(Message::ToolResults(results));
                }
            }
        }
    }
    messages
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_history_makes_a_request_that_is_refused(
        turns in prop::collection::vec(any_turn(), 0..10),
        echo in prop_oneof![Just(Echo::AsReceived), Just(Echo::Never), Just(Echo::Field("reasoning".into()))],
        system in any_text(),
    ) {
        let mut request = request("m", history(turns));
        request.system = Arc::from(system);
        request.tools = tools(&["bash", "read"]);
        let options = Options::default();
        let bytes = AnthropicCodec::default().encode(&request, &INFO);
        let ours = oracle::parse_body(&bytes).unwrap();
        let violations = oracle::check_anthropic(&ours, &options);
        prop_assert!(violations.is_empty(), "{violations:#?}\n{ours:#}");
        let bytes = chat_with(echo).encode(&request, &INFO);
        let theirs = oracle::parse_body(&bytes).unwrap();
        let violations = oracle::check_openai_chat(&theirs, &options);
        prop_assert!(violations.is_empty(), "{violations:#?}\n{theirs:#}");
    }
}
