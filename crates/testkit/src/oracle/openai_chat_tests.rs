//! Good and bad bodies for each rule.

use super::super::Window;
use super::super::image::tests::{encode_base64, png};
use super::*;
use crate::oracle::estimate_tokens;
use serde_json::json;

fn body(messages: Value) -> Value {
    json!({"model": "m", "messages": messages})
}

fn broken_with(body: &Value, options: &Options<'_>) -> Vec<&'static str> {
    check_openai_chat(body, options)
        .iter()
        .map(|violation| violation.rule.id())
        .collect()
}

fn broken(messages: Value) -> Vec<&'static str> {
    broken_with(&body(messages), &Options::default())
}

fn says(role: &str, content: &str) -> Value {
    json!({"role": role, "content": content})
}

fn calls(ids: &[&str]) -> Value {
    let calls: Vec<Value> = ids
        .iter()
        .map(|id| json!({"id": id, "type": "function", "function": {"name": "bash", "arguments": "{\"a\":1}"}}))
        .collect();
    json!({"role": "assistant", "content": null, "tool_calls": calls})
}

fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "ok"})
}

const NONE: [&str; 0] = [];

#[test]
fn whole_conversations_pass() {
    for messages in [
        json!([says("user", "hi")]),
        json!([
            says("system", "s"),
            says("developer", "d"),
            says("user", "hi"),
            says("user", "again")
        ]),
        json!([
            says("user", "hi"),
            says("assistant", "hello"),
            says("system", "note"),
            says("user", "bye")
        ]),
        json!([
            says("user", "go"),
            calls(&["a", "b"]),
            result("b"),
            result("a")
        ]),
        json!([
            says("user", "go"),
            calls(&["a"]),
            result("a"),
            says("user", "and"),
            calls(&["b"]),
            result("b")
        ]),
        json!([
            says("user", "go"),
            calls(&["a"]),
            result("a"),
            says("assistant", "done"),
            says("user", "next")
        ]),
    ] {
        assert_eq!(broken(messages.clone()), NONE, "{messages}");
    }
}

#[test]
fn v1_turns() {
    assert_eq!(broken(json!([])), ["V1"]);
    assert_eq!(broken(json!([says("system", "s")])), ["V1"]);
    assert_eq!(
        broken(json!([
            says("system", "s"),
            says("assistant", "x"),
            says("user", "y")
        ])),
        ["V1"]
    );
    assert_eq!(
        broken(json!([says("user", "x"), says("assistant", "y")])),
        ["V1"]
    );
    assert_eq!(
        broken(json!([
            says("user", "x"),
            says("assistant", "y"),
            says("system", "s")
        ])),
        ["V1"]
    );
    let two = json!([
        says("user", "x"),
        says("assistant", "y"),
        says("assistant", "z"),
        says("user", "w")
    ]);
    assert_eq!(broken(two), ["V1"]);
    let prefill = body(json!([says("user", "x"), says("assistant", "y")]));
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
    for (messages, words) in [
        (
            json!([says("user", "go"), calls(&["a"]), says("user", "what?")]),
            "\"a\" has no result",
        ),
        (
            json!([
                says("user", "go"),
                calls(&["a", "b"]),
                result("a"),
                says("user", "?")
            ]),
            "\"b\" has no result",
        ),
        (
            json!([
                says("user", "go"),
                calls(&["a"]),
                says("user", "?"),
                result("a")
            ]),
            "did not ask for",
        ),
        (
            json!([
                says("user", "go"),
                calls(&["a"]),
                says("system", "?"),
                result("a")
            ]),
            "has no result",
        ),
        (
            json!([says("user", "go"), calls(&["a"]), result("a"), result("a")]),
            "a second result",
        ),
        (
            json!([says("user", "go"), calls(&["a"]), result("a"), result("z")]),
            "\"z\", which",
        ),
        (json!([says("user", "go"), result("z")]), "did not ask for"),
        (
            json!([
                says("user", "go"),
                calls(&["a"]),
                result("a"),
                says("assistant", "x"),
                result("a")
            ]),
            "did not ask for",
        ),
    ] {
        let violations = check_openai_chat(&body(messages.clone()), &Options::default());
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
        broken(json!([says("user", "go"), calls(&["a"])])),
        ["V1", "V2"]
    );
}

#[test]
fn v3_blank_text() {
    let parts = |parts: Value| json!({"role": "user", "content": parts});
    for messages in [
        json!([says("user", "")]),
        json!([says("user", " \n")]),
        json!([{"role": "user", "content": null}]),
        json!([{"role": "user"}]),
        json!([parts(json!([]))]),
        json!([parts(json!([{"type": "text", "text": " "}]))]),
        json!([says("system", ""), says("user", "x")]),
        json!([says("user", "x"), says("assistant", ""), says("user", "y")]),
        json!([says("user", "x"), {"role": "assistant", "content": null}, says("user", "y")]),
        json!([says("user", "x"), calls(&["a"]), {"role": "tool", "tool_call_id": "a", "content": ""}]),
        json!([says("user", "x"), calls(&["a"]), {"role": "tool", "tool_call_id": "a"}]),
    ] {
        assert_eq!(broken(messages.clone()), ["V3"], "{messages}");
    }
    let mut blank = calls(&["a"]);
    blank["content"] = "".into();
    assert_eq!(
        broken(json!([says("user", "x"), blank, result("a")])),
        ["V3"]
    );
    let mut bare = calls(&["a"]);
    bare.as_object_mut().unwrap().remove("content");
    assert_eq!(broken(json!([says("user", "x"), bare, result("a")])), NONE);
}

#[test]
fn v4_trailing_space() {
    let prefill = Options {
        allow_prefill: true,
        ..Options::default()
    };
    let with = |last: Value| broken_with(&body(json!([says("user", "x"), last])), &prefill);
    assert_eq!(with(says("assistant", "so ")), ["V4"]);
    assert_eq!(
        with(json!({"role": "assistant", "content": [{"type": "text", "text": "so\n"}]})),
        ["V4"]
    );
    assert_eq!(with(says("assistant", "so")), NONE);
}

#[test]
fn v6_tools() {
    let with = |tools: Value| {
        let mut body = body(json!([says("user", "x")]));
        body["tools"] = tools;
        broken_with(&body, &Options::default())
    };
    let tool = |name: &str, schema: Value| json!({"type": "function", "function": {"name": name, "parameters": schema}});
    let object = || json!({"type": "object", "properties": {"a.b": {}}});
    assert_eq!(
        with(json!([tool("a", object()), {"type": "function", "function": {"name": "bare"}}])),
        NONE
    );
    assert_eq!(
        with(json!([tool("a", object()), tool("a", object())])),
        ["V6"]
    );
    assert_eq!(with(json!([tool("a.b", object())])), ["V6"]);
    assert_eq!(with(json!([tool(&"x".repeat(90), object())])), ["V6"]);
    assert_eq!(with(json!([tool("a", json!({"type": "string"}))])), ["V6"]);
    assert_eq!(
        with(json!([tool(
            "a",
            json!({"type": "object", "properties": {"$x": {}}})
        )])),
        ["V6"]
    );
    assert_eq!(with(json!([{"function": {"name": "a"}}])), ["shape"]);
    let mut used = calls(&["a"]);
    used["tool_calls"][0]["function"]["name"] = "what is this".into();
    assert_eq!(
        broken(json!([says("user", "x"), used, result("a")])),
        ["V6"]
    );
}

#[test]
fn v7_calls() {
    for arguments in [
        json!(""),
        json!("{"),
        json!("null"),
        json!("[]"),
        json!("1"),
        json!({}),
        json!(null),
    ] {
        let mut used = calls(&["a"]);
        used["tool_calls"][0]["function"]["arguments"] = arguments.clone();
        assert_eq!(
            broken(json!([says("user", "x"), used, result("a")])),
            ["V7"],
            "{arguments}"
        );
    }
    assert_eq!(
        broken(json!([says("user", "x"), calls(&[""]), result("")])),
        ["V7"]
    );
    assert_eq!(
        broken(json!([
            says("user", "x"),
            calls(&["a"]),
            result("a"),
            calls(&["a"]),
            result("a")
        ])),
        ["V7"]
    );
}

#[test]
fn v8_images() {
    let image = |bytes: &[u8]| {
        json!({"type": "image_url",
            "image_url": {"url": format!("data:image/png;base64,{}", encode_base64(bytes))}})
    };
    let many = |count: usize, image: Value| {
        broken(json!([{"role": "user", "content": Value::Array(vec![image; count])}]))
    };
    assert_eq!(many(1, image(&png(8_000, 8_000))), NONE);
    assert_eq!(many(1, image(&png(8_001, 1))), ["V8"]);
    assert_eq!(many(21, image(&png(2_001, 1))), ["V8"; 21]);
    assert_eq!(many(1, image(&vec![0; 5 * 1024 * 1024 + 1])), ["V8"]);
    assert_eq!(
        many(
            1,
            json!({"type": "image_url", "image_url": {"url": "data:image/png,x"}})
        ),
        ["V8"]
    );
    assert_eq!(
        many(
            1,
            json!({"type": "image_url", "image_url": {"url": "https://x.invalid/a.png"}})
        ),
        NONE
    );
}

#[test]
fn v9_window() {
    let long = body(json!([says("user", &"x".repeat(4_000))]));
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
        ["shape", "shape"]
    );
    assert_eq!(
        broken(json!([
            says("user", "x"),
            says("robot", "y"),
            says("user", "z")
        ])),
        ["shape"]
    );
    assert_eq!(broken(json!([{"role": "user", "content": 1}])), ["shape"]);
    assert_eq!(
        broken(json!([{"role": "user", "content": [{"type": "text"}]}])),
        ["shape"]
    );
    assert_eq!(
        broken(json!([{"role": "user", "content": [{"text": "x"}]}])),
        ["shape"]
    );
    let mut none = calls(&[]);
    none["content"] = "x".into();
    assert_eq!(
        broken(json!([says("user", "x"), none, says("user", "y")])),
        ["shape"]
    );
    let mut untyped = calls(&["a"]);
    untyped["tool_calls"][0]
        .as_object_mut()
        .unwrap()
        .remove("type");
    assert_eq!(
        broken(json!([says("user", "x"), untyped, result("a")])),
        ["shape"]
    );
}
