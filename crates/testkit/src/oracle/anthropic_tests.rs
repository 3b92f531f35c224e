//! Good and bad bodies for each rule.

use super::super::image::tests::{encode_base64, png};
use super::super::{Sent, SentBlock, SentMessage, Window};
use super::*;
use crate::oracle::estimate_tokens;
use serde_json::json;

fn body(messages: Value) -> Value {
    json!({"model": "m", "max_tokens": 100, "messages": messages})
}

/// The rules broken, in order, each once for each time.
fn broken_with(body: &Value, options: &Options<'_>) -> Vec<&'static str> {
    check_anthropic(body, options)
        .iter()
        .map(|violation| violation.rule.id())
        .collect()
}

fn broken(messages: Value) -> Vec<&'static str> {
    broken_with(&body(messages), &Options::default())
}

fn user(content: Value) -> Value {
    json!({"role": "user", "content": content})
}

fn assistant(content: Value) -> Value {
    json!({"role": "assistant", "content": content})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn tool_use(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "bash", "input": {"command": "ls"}})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "ok"})
}

fn thinking(text: &str, signature: &str) -> Value {
    json!({"type": "thinking", "thinking": text, "signature": signature})
}

const NONE: [&str; 0] = [];

#[test]
fn whole_conversations_pass() {
    for messages in [
        json!([user("hi".into())]),
        json!([user("hi".into()), user(json!([text("again")]))]),
        json!([
            user("hi".into()),
            assistant("hello".into()),
            user("bye".into())
        ]),
        json!([
            user("go".into()),
            assistant(json!([text("ok"), tool_use("a"), tool_use("b")])),
            user(json!([result("b"), result("a"), text("and now this")])),
            assistant(json!([thinking("hm", "sig"), tool_use("c")])),
            user(json!([result("c")])),
        ]),
    ] {
        assert_eq!(broken(messages.clone()), NONE, "{messages}");
    }
}

#[test]
fn v1_turns() {
    assert_eq!(broken(json!([])), ["V1"]);
    assert_eq!(
        broken(json!([assistant("x".into()), user("y".into())])),
        ["V1"]
    );
    assert_eq!(
        broken(json!([user("x".into()), assistant("y".into())])),
        ["V1"]
    );
    assert_eq!(
        broken(json!([
            user("x".into()),
            assistant("y".into()),
            assistant("z".into()),
            user("w".into())
        ])),
        ["V1"]
    );
    let prefill = body(json!([user("x".into()), assistant("y".into())]));
    assert_eq!(
        broken_with(
            &prefill,
            &Options {
                allow_prefill: true,
                ..Options::default()
            }
        ),
        NONE
    );
}

#[test]
fn v2_results() {
    let go = || user("go".into());
    for (messages, words) in [
        (
            json!([
                go(),
                assistant(json!([tool_use("a")])),
                user("what?".into())
            ]),
            "no result in the next message",
        ),
        (
            json!([
                go(),
                assistant(json!([tool_use("a")])),
                go(),
                user(json!([result("a")]))
            ]),
            "no result in the next message",
        ),
        (
            json!([
                go(),
                assistant(json!([tool_use("a"), tool_use("b")])),
                user(json!([result("a")]))
            ]),
            "\"b\"",
        ),
        (
            json!([
                go(),
                assistant(json!([tool_use("a")])),
                user(json!([result("a"), result("a")]))
            ]),
            "2 results",
        ),
        (
            json!([
                go(),
                assistant(json!([tool_use("a")])),
                user(json!([text("first"), result("a")]))
            ]),
            "before any other",
        ),
        (
            json!([
                go(),
                assistant(json!([tool_use("a")])),
                user(json!([result("a"), result("z")]))
            ]),
            "did not ask for",
        ),
        (json!([user(json!([result("a")]))]), "did not ask for"),
        (
            json!([
                go(),
                assistant(json!([tool_use("a")])),
                user(json!([result("a")])),
                assistant("ok".into()),
                user(json!([result("a")]))
            ]),
            "did not ask for",
        ),
    ] {
        let violations = check_anthropic(&body(messages.clone()), &Options::default());
        assert!(
            violations
                .iter()
                .any(|one| one.rule == Rule::Results && one.message.contains(words)),
            "{messages}: {violations:?}"
        );
        assert!(
            violations.iter().all(|one| one.rule == Rule::Results),
            "{violations:?}"
        );
    }
    assert_eq!(
        broken(json!([go(), assistant(json!([tool_use("a")]))])),
        ["V1", "V2"]
    );
    assert_eq!(
        broken(json!([
            go(),
            assistant(json!([tool_use("a"), result("a")])),
            user(json!([result("a")]))
        ])),
        ["V2", "V2"],
        "in the wrong message, and not first in it"
    );
}

#[test]
fn v3_blank_text_and_cache_marks() {
    let marked =
        |text: &str| json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}});
    for messages in [
        json!([user("".into())]),
        json!([user("\n \u{a0}".into())]),
        json!([user(json!([]))]),
        json!([user(json!([text("x"), text(" ")]))]),
        json!([user(json!([marked("")]))]),
        json!([user("x".into()), assistant("".into()), user("y".into())]),
        json!([user("x".into()), assistant(json!([])), user("y".into())]),
    ] {
        assert_eq!(broken(messages.clone()), ["V3"], "{messages}");
    }
    for content in [json!(""), json!("\n"), json!([]), json!([text("")])] {
        let mut blank = result("a");
        blank["content"] = content;
        assert_eq!(
            broken(json!([
                user("x".into()),
                assistant(json!([tool_use("a")])),
                user(json!([blank]))
            ])),
            ["V3"]
        );
    }
    let mut silent = result("a");
    silent.as_object_mut().unwrap().remove("content");
    assert_eq!(
        broken(json!([
            user("x".into()),
            assistant(json!([tool_use("a")])),
            user(json!([silent]))
        ])),
        ["V3"]
    );

    for system in [
        json!(""),
        json!([text("")]),
        json!([text("x"), marked(" ")]),
    ] {
        let mut body = body(json!([user("x".into())]));
        body["system"] = system;
        assert_eq!(broken_with(&body, &Options::default()), ["V3"]);
    }

    let mut full = body(json!([user(json!([marked("x"), marked("y")]))]));
    full["system"] = json!([marked("s")]);
    full["tools"] = json!([{"name": "t", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}]);
    assert_eq!(broken_with(&full, &Options::default()), NONE);
    full["messages"][0]["content"]
        .as_array_mut()
        .unwrap()
        .push(marked("z"));
    assert_eq!(broken_with(&full, &Options::default()), ["V3"]);

    let mut mark_on_thinking = thinking("hm", "sig");
    mark_on_thinking["cache_control"] = json!({"type": "ephemeral"});
    assert_eq!(
        broken(json!([
            user("x".into()),
            assistant(json!([mark_on_thinking, text("y")])),
            user("z".into())
        ])),
        ["V3"]
    );
}

#[test]
fn v4_trailing_space() {
    for last in [
        assistant("so \n".into()),
        assistant(json!([text("x"), text("so ")])),
    ] {
        let body = body(json!([user("x".into()), last]));
        assert_eq!(
            broken_with(
                &body,
                &Options {
                    allow_prefill: true,
                    ..Options::default()
                }
            ),
            ["V4"]
        );
    }
    assert_eq!(
        broken(json!([
            user("x".into()),
            assistant("so ".into()),
            user("y".into())
        ])),
        NONE
    );
}

#[test]
fn v5_thinking_without_memory() {
    let with = |content: Value| {
        broken(json!([
            user("x".into()),
            assistant(content),
            user("y".into())
        ]))
    };
    assert_eq!(with(json!([thinking("a", "s"), text("b")])), NONE);
    assert_eq!(with(json!([thinking("", "s"), text("b")])), NONE);
    assert_eq!(with(json!([thinking("a", ""), text("b")])), ["V5"]);
    assert_eq!(
        with(json!([{"type": "thinking", "thinking": "a"}, text("b")])),
        ["V5"]
    );
    assert_eq!(
        with(json!([{"type": "redacted_thinking", "data": ""}, text("b")])),
        ["V5"]
    );
    assert_eq!(with(json!([text("b"), thinking("a", "s")])), ["V5"]);
    assert_eq!(
        with(json!([{"type": "redacted_thinking", "data": "zz"}])),
        ["V5"]
    );
    assert_eq!(
        broken(json!([user(json!([thinking("a", "s"), text("x")]))])),
        ["V5"]
    );
}

#[test]
fn v5_thinking_against_what_was_sent() {
    let sent_thinking = |text: &str| SentBlock::Thinking {
        thinking: text.to_owned(),
        signature: format!("sig {text}"),
    };
    let sent = Sent {
        messages: vec![
            SentMessage {
                blocks: vec![
                    sent_thinking("one"),
                    SentBlock::Redacted("zz".to_owned()),
                    SentBlock::Text("hi".to_owned()),
                    sent_thinking("two"),
                    SentBlock::Call("a".to_owned()),
                ],
                ..SentMessage::default()
            },
            SentMessage {
                blocks: vec![sent_thinking("cut")],
                ..SentMessage::default()
            },
        ],
    };
    let one = || thinking("one", "sig one");
    let two = || thinking("two", "sig two");
    let redacted = |data: &str| json!({"type": "redacted_thinking", "data": data});
    let with = |content: Value| {
        let messages = json!([
            user("x".into()),
            assistant(content),
            user(json!([result("a")]))
        ]);
        broken_with(
            &body(messages),
            &Options {
                sent: Some(&sent),
                ..Options::default()
            },
        )
        .into_iter()
        .filter(|rule| *rule != "V2")
        .collect::<Vec<_>>()
    };
    assert_eq!(
        with(json!([
            one(),
            redacted("zz"),
            text("hi"),
            two(),
            tool_use("a")
        ])),
        NONE
    );
    assert_eq!(with(json!([text("hi"), tool_use("a")])), NONE, "not at all");
    assert_eq!(
        with(json!([one(), redacted("zz"), text("hi"), tool_use("a")])),
        ["V5"],
        "the second is missing"
    );
    assert_eq!(
        with(json!([one(), text("hi"), two(), tool_use("a")])),
        ["V5"],
        "the redacted is missing"
    );
    assert_eq!(
        with(json!([
            text("hi"),
            one(),
            redacted("zz"),
            two(),
            tool_use("a")
        ])),
        ["V5"],
        "moved"
    );
    assert_eq!(
        with(json!([
            redacted("zz"),
            one(),
            text("hi"),
            two(),
            tool_use("a")
        ])),
        ["V5"],
        "swapped"
    );
    assert_eq!(
        with(json!([
            thinking("one ", "sig one"),
            redacted("zz"),
            text("hi"),
            two(),
            tool_use("a")
        ])),
        ["V5"],
        "altered"
    );
    assert_eq!(
        with(json!([
            one(),
            redacted("zy"),
            text("hi"),
            two(),
            tool_use("a")
        ])),
        ["V5"],
        "never sent"
    );
    assert_eq!(
        with(json!([thinking("cut", "sig cut"), text("[interrupted]")])),
        NONE,
        "followed by something new"
    );
    assert_eq!(with(json!([thinking("cut", "sig cut")])), ["V5"], "last");
    assert_eq!(
        with(json!([thinking("cut", "sig cut"), text(" ")])),
        ["V3", "V5"],
        "blank text follows"
    );
}

#[test]
fn v6_tools() {
    let with = |tools: Value| {
        let mut body = body(json!([user("x".into())]));
        body["tools"] = tools;
        broken_with(&body, &Options::default())
    };
    let tool = |name: &str, schema: Value| json!({"name": name, "input_schema": schema});
    let object = || json!({"type": "object"});
    assert_eq!(
        with(json!([
            tool("a-B_9", object()),
            tool(&"x".repeat(64), object())
        ])),
        NONE
    );
    for name in ["", "a b", "a.b", "é", &"x".repeat(65)] {
        assert_eq!(with(json!([tool(name, object())])), ["V6"], "{name:?}");
    }
    assert_eq!(
        with(json!([tool("a", object()), tool("a", object())])),
        ["V6"]
    );
    assert_eq!(with(json!([{"input_schema": {"type": "object"}}])), ["V6"]);
    assert_eq!(with(json!([{"name": "a"}])), ["V6"]);
    assert_eq!(with(json!([tool("a", json!({"type": "string"}))])), ["V6"]);
    assert_eq!(with(json!([tool("a", json!({"properties": {}}))])), ["V6"]);
    assert_eq!(
        with(json!([tool(
            "a",
            json!({"type": "object", "properties": {"a.b-c_1": {}}})
        )])),
        NONE
    );
    for key in ["$x", "", "a b", &"k".repeat(65)] {
        assert_eq!(
            with(json!([tool(
                "a",
                json!({"type": "object", "properties": {key: {}}})
            )])),
            ["V6"],
            "{key:?}"
        );
    }
    let nested = json!({"type": "object", "properties": {"list": {"type": "array", "items":
        {"type": "object", "properties": {"$x": {"type": "string"}}}}}});
    assert_eq!(with(json!([tool("a", nested)])), ["V6"]);
    let data =
        json!({"type": "object", "properties": {"a": {"default": {"properties": {"$x": 1}}}}});
    assert_eq!(with(json!([tool("a", data)])), NONE);
    assert_eq!(
        with(json!([{"type": "web_search_20250305", "name": "web_search"}])),
        NONE
    );

    let mut used = tool_use("a");
    used["name"] = "no such name!".into();
    assert_eq!(
        broken(json!([
            user("x".into()),
            assistant(json!([used])),
            user(json!([result("a")]))
        ])),
        ["V6"]
    );
}

#[test]
fn v7_calls() {
    for input in [json!("{}"), json!(null), json!([]), json!(1)] {
        let mut used = tool_use("a");
        used["input"] = input;
        assert_eq!(
            broken(json!([
                user("x".into()),
                assistant(json!([used])),
                user(json!([result("a")]))
            ])),
            ["V7"]
        );
    }
    let mut used = tool_use("a");
    used.as_object_mut().unwrap().remove("input");
    assert_eq!(
        broken(json!([
            user("x".into()),
            assistant(json!([used])),
            user(json!([result("a")]))
        ])),
        ["V7"]
    );
    assert_eq!(
        broken(json!([
            user("x".into()),
            assistant(json!([tool_use("")])),
            user(json!([result("")]))
        ])),
        ["V7"]
    );
    assert_eq!(
        broken(json!([
            user("x".into()),
            assistant(json!([tool_use("a")])),
            user(json!([result("a")])),
            assistant(json!([tool_use("a")])),
            user(json!([result("a")]))
        ])),
        ["V7"]
    );
}

#[test]
fn v8_encoding_and_images() {
    for bad in [
        b"".as_slice(),
        b"{",
        b"{\"a\":\"\xff\"}",
        b"{\"a\":\"\\ud83d\"}",
        b"{} x",
    ] {
        assert_eq!(
            super::super::parse_body(bad).unwrap_err().rule,
            Rule::Encoding
        );
    }
    assert_eq!(
        super::super::parse_body(b"{\"a\":\"\\ud83d\\ude00\"}"),
        Ok(json!({"a": "😀"}))
    );

    let image = |bytes: &[u8]| json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": encode_base64(bytes)}});
    let many = |count: usize, image: Value| broken(json!([user(Value::Array(vec![image; count]))]));
    assert_eq!(many(1, image(&png(8_000, 10))), NONE);
    assert_eq!(many(1, image(&png(10, 8_001))), ["V8"]);
    assert_eq!(many(20, image(&png(2_001, 10))), NONE);
    assert_eq!(many(21, image(&png(2_000, 10))), NONE);
    assert_eq!(many(21, image(&png(2_001, 10))), ["V8"; 21]);
    assert_eq!(many(1, image(&vec![0; 5 * 1024 * 1024])), NONE);
    assert_eq!(many(1, image(&vec![0; 5 * 1024 * 1024 + 1])), ["V8"]);
    assert_eq!(many(1, image(b"")), ["V8"]);
    let mut broken_data = image(b"x");
    broken_data["source"]["data"] = "not base64!".into();
    assert_eq!(many(1, broken_data), ["V8"]);
    let mut in_result = result("a");
    in_result["content"] = json!([image(&png(9_000, 1))]);
    assert_eq!(
        broken(json!([
            user("x".into()),
            assistant(json!([tool_use("a")])),
            user(json!([in_result]))
        ])),
        ["V8"]
    );
}

#[test]
fn v9_window() {
    let long = body(json!([user("x".repeat(4_000).into())]));
    let tokens = estimate_tokens(&long, 4.0);
    let with = |tokens| {
        broken_with(
            &long,
            &Options {
                window: Some(Window::of(tokens)),
                ..Options::default()
            },
        )
    };
    assert_eq!(with(tokens), NONE);
    assert_eq!(with(tokens - 1), ["V9"]);
}

#[test]
fn shape() {
    assert_eq!(
        broken_with(&json!({}), &Options::default()),
        ["shape", "shape", "shape"]
    );
    assert_eq!(
        broken(json!([{"role": "system", "content": "x"}, user("y".into())])),
        ["shape", "V1"]
    );
    assert_eq!(broken(json!([{"role": "user"}])), ["shape"]);
    assert_eq!(broken(json!([user(json!(["x"]))])), ["shape"]);
    assert_eq!(broken(json!([user(json!([{"type": "text"}]))])), ["shape"]);
    let mut odd = result("a");
    odd["is_error"] = "yes".into();
    assert_eq!(
        broken(json!([
            user("x".into()),
            assistant(json!([tool_use("a")])),
            user(json!([odd]))
        ])),
        ["shape"]
    );
    assert_eq!(broken(json!([user(json!([tool_use("a")]))])), ["shape"]);
}
