//! What comes over the wire: framing, faults inside a stream, silence, labels that lie.

use std::time::Duration;

use serde_json::{Value, json};
use tooloop_testkit::{
    AfterLast, Cuts, ModelServer, Newline, Reply, Scratch, Steps, Wire, anthropic, bytes, close,
    hold, openai_chat, pause, sse,
};

use crate::support::{Api, Done, LONG, ask, both, finish, said, told, tooloop};

/// Plays the replies against one prompt.
fn play(api: Api, replies: Vec<Reply>) -> (Done, ModelServer, Scratch) {
    let (scratch, server) = (Scratch::new(), ModelServer::start(replies));
    let done = ask(&scratch, &server, api, "go");
    server.assert_clean();
    (done, server, scratch)
}

const TEXT: &str = "Qué 日本 👩‍👩‍👧 fin";
const FRAGMENTS: [&str; 3] = [
    r#"{"command":"printf '%s' '\u65"#,
    r"e5 \ud83d",
    r#"\ude00'"}"#,
];

fn text_and_call(api: Api) -> Steps {
    match api {
        Api::Messages => Steps::from([
            anthropic::open(),
            anthropic::text(0, TEXT),
            anthropic::tool_use(1, "tu_1", "bash", &FRAGMENTS),
            anthropic::end("tool_use"),
        ]),
        Api::Chat => Steps::from([
            openai_chat::content(TEXT),
            openai_chat::tool_delta(0, "tu_1", "bash", FRAGMENTS[0]),
            openai_chat::arguments_delta(0, FRAGMENTS[1]),
            openai_chat::arguments_delta(0, FRAGMENTS[2]),
            openai_chat::finish("tool_calls"),
            openai_chat::done(),
        ]),
    }
}

/// The beginning of a reply whose text stands open.
fn begun(api: Api, text: &str) -> Steps {
    match api {
        Api::Messages => Steps::from([
            anthropic::open(),
            anthropic::text_start(0),
            anthropic::text_delta(0, text),
        ]),
        Api::Chat => openai_chat::content(text),
    }
}

both! {
    /// C01 a, b
    fn characters_cut_by_the_network_are_whole(api) {
        for cuts in [Cuts::Every(1), Cuts::InsideChars] {
            let first = Reply::stream(text_and_call(api)).wire(Wire::default().cuts(cuts));
            let (done, server, scratch) = play(api, vec![first, api.say("ok").into()]);
            assert_eq!(done.answer(), "ok");
            assert_eq!(done.texts()[0], TEXT);
            assert!(done.tool_result("tu_1").0.starts_with("日 😀\n"), "{}", done.finished);
            assert_eq!(said(&server.request(1))[1], ("assistant".into(), TEXT.into()));
            assert!(told(&server.request(1), "tu_1").starts_with("日 😀\n"));
            let journal = scratch.read(crate::support::journal(&scratch, &done.session()));
            assert!(journal.contains(TEXT) && !journal.contains('\u{fffd}'), "{journal}");
            assert!(!done.finished.stdout.text().contains('\u{fffd}'));
        }
    }

    /// C01 c
    fn half_a_character_at_the_end_is_an_error(api) {
        let event: &[u8] = match api {
            Api::Messages => b"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\
                \"delta\":{\"type\":\"text_delta\",\"text\":\"half \xe6\x97",
            Api::Chat => b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half \xe6\x97",
        };
        let ends: [&[u8]; 2] = [b"", b"\"}}]}\n\n"];
        for end in ends {
            let first = begun(api, "Qu").then(bytes(event)).then(bytes(end)).then(close());
            let (done, server, scratch) = play(api, vec![first.into(), api.say("ok").into()]);
            assert_eq!(done.answer(), "ok");
            assert_eq!(done.retries().len(), 1, "{}", done.finished);
            assert_eq!(server.request(0).body, server.request(1).body);
            let journal = scratch.read(crate::support::journal(&scratch, &done.session()));
            assert!(!journal.contains('\u{fffd}') && !journal.contains("half"), "{journal}");
        }
    }

    /// C02
    fn unusual_framing(api) {
        let noise = match api {
            Api::Messages => anthropic::noise(),
            Api::Chat => sse::noise(),
        };
        let wires = [
            Wire::default().newline(Newline::CrLf).cuts(Cuts::InsideCrLf),
            Wire::default().newline(Newline::Cr),
            Wire::default().no_space(),
            Wire::default().byte_order_mark(),
            Wire::default().split_data(),
        ];
        for wire in wires {
            let reply = Reply::stream(api.say("plain")).interleave(noise.clone()).wire(wire.clone());
            let (done, server, _scratch) = play(api, vec![reply]);
            assert_eq!(done.answer(), "plain", "{wire:?}");
            assert_eq!(server.requests().len(), 1, "{wire:?}");
        }
    }

    /// C03
    fn an_error_inside_a_stream_is_tried_again(api) {
        let failing = match api {
            Api::Messages => anthropic::error("overloaded_error", "Overloaded"),
            Api::Chat => openai_chat::error(502, "upstream gone"),
        };
        let first = begun(api, "Working on").then(failing).then(close());
        let (done, server, _scratch) = play(api, vec![first.clone().into(), api.say("done").into()]);
        assert_eq!(done.answer(), "done");
        assert_eq!(done.texts(), ["done"]);
        assert_eq!(server.request(0).body, server.request(1).body);
        assert_eq!(done.retries().len(), 1);
        assert_eq!(done.retries()[0]["voided"], true);

        let (scratch, server) = (Scratch::new(), ModelServer::builder()
            .replies([first])
            .after_last(AfterLast::Repeat)
            .start());
        let done = ask(&scratch, &server, api, "go");
        let words = done.failed(1, "model_error");
        let named = match api {
            Api::Messages => "overloaded_error",
            Api::Chat => "502",
        };
        assert!(words.contains(named), "{words}");
        assert_eq!(server.requests().len(), 4);
        server.assert_clean();
    }

    /// C04
    fn a_cut_stream_runs_nothing(api) {
        let scratch = Scratch::new();
        let command = format!("echo ran >> {}", scratch.marker().display());
        let input = json!({ "command": command }).to_string();
        let first = match api {
            Api::Messages => anthropic::open().then(anthropic::tool_use(0, "tu_1", "bash", &[&input])),
            Api::Chat => openai_chat::tool_delta(0, "tu_1", "bash", &input),
        };
        let server = ModelServer::start([first.then(close()), api.say("ok")]);
        let done = ask(&scratch, &server, api, "go");
        assert_eq!(done.answer(), "ok");
        assert!(!scratch.marker().exists());
        assert_eq!(done.retries().len(), 1);
        assert_eq!(done.retries()[0]["error_kind"], "cut_stream");
        assert_eq!(server.request(0).body, server.request(1).body);
        server.assert_clean();
    }

    /// C05 a, b
    fn silence_is_given_up_and_tried_again(api) {
        let limits = [
            ("TOOLOOP_STREAM_IDLE_TIMEOUT_MS", begun(api, "Hm").then(hold()).into(), "idle_timeout"),
            ("TOOLOOP_STREAM_FIRST_BYTE_TIMEOUT_MS", Reply::silence(), "first_byte_timeout"),
        ];
        for (variable, reply, kind) in limits {
            let scratch = Scratch::new();
            let server = ModelServer::builder().choose({
                let mut reply = Some(reply);
                move |_| reply.take().unwrap_or_else(|| api.say("ok").into())
            }).start();
            // The second try must come through on the slowest machine too, so its limit is the
            // same but its reply comes at once.
            let done = finish(&tooloop(&scratch, &server, api).env(variable, "1500").arg("go").start());
            assert_eq!(done.answer(), "ok");
            assert_eq!(done.retries()[0]["error_kind"], kind, "{}", done.finished);
            let first = server.exchanges().remove(0);
            let ended = first.ended.unwrap().1;
            assert!(ended - first.request.arrived >= Duration::from_millis(1400));
            server.assert_clean();
        }
    }

    /// C05 c, d
    fn a_slow_stream_that_lives_is_heard_to_its_end(api) {
        let sign = match api {
            Api::Messages => vec![sse::comment("still here"), anthropic::ping()],
            Api::Chat => vec![sse::comment("still here")],
        };
        for sign in sign {
            let signs = sign.then(pause(Duration::from_millis(150))).times(20);
            let (scratch, server) = (Scratch::new(), ModelServer::start([signs.then(api.say("late"))]));
            let run = tooloop(&scratch, &server, api).env("TOOLOOP_STREAM_IDLE_TIMEOUT_MS", "2000");
            let done = finish(&run.arg("go").start());
            assert_eq!(done.answer(), "late");
            assert_eq!(server.requests().len(), 1, "{}", done.finished);
        }
    }

    fn signs_of_life_without_content_are_not_waited_for_without_end(api) {
        let signs = sse::comment("still here").then(pause(Duration::from_millis(100))).times(600);
        let server = ModelServer::builder().choose({
            let mut signs = Some(signs);
            move |_| signs.take().unwrap_or_else(|| api.say("ok")).into()
        }).start();
        let scratch = Scratch::new();
        let run = tooloop(&scratch, &server, api).env("TOOLOOP_STREAM_CONTENT_TIMEOUT_MS", "1500");
        let done = finish(&run.arg("go").start());
        assert_eq!(done.answer(), "ok");
        assert_eq!(done.retries()[0]["error_kind"], "content_timeout", "{}", done.finished);
    }

    /// C06
    fn a_call_without_arguments_has_an_empty_object(api) {
        let uses = match api {
            Api::Messages => Steps::from([
                anthropic::open(),
                anthropic::tool_use(0, "c_a", "clock", &[]),
                anthropic::tool_use(1, "c_b", "clock", &[""]),
                anthropic::tool_use(2, "c_f", "bash", &[]),
                anthropic::end("tool_use"),
            ]),
            Api::Chat => Steps::from([
                openai_chat::tool_delta(0, "c_a", "clock", ""),
                openai_chat::delta(&json!({"tool_calls": [
                    {"index": 1, "id": "c_b", "type": "function", "function": {"name": "clock"}}]})),
                openai_chat::tool_delta(2, "c_e", "clock", "null"),
                openai_chat::tool_delta(3, "c_f", "bash", ""),
                openai_chat::finish("tool_calls"),
                openai_chat::done(),
            ]),
        };
        let (done, server, _scratch) = play(api, vec![uses.into(), api.say("ok").into()]);
        assert_eq!(done.answer(), "ok");
        let request = server.request(1);
        let calls = request.messages().iter().find(|message| message["role"] == "assistant").unwrap();
        match api {
            Api::Messages => {
                let inputs: Vec<_> = calls["content"].as_array().unwrap().iter().map(|call| &call["input"]).collect();
                assert_eq!(inputs, [&json!({}), &json!({}), &json!({})]);
            }
            Api::Chat => {
                let calls = calls["tool_calls"].as_array().unwrap().iter();
                let inputs: Vec<_> = calls.map(|call| call["function"]["arguments"].as_str().unwrap()).collect();
                assert_eq!(inputs, ["{}"; 4]);
            }
        }
        // There is no such tool here, which the model is told; its empty input is no fault.
        for id in ["c_a", "c_b"] {
            assert!(told(&request, id).contains("there is no tool named \"clock\""), "{}", told(&request, id));
        }
        let (words, is_error) = done.tool_result("c_f");
        assert!(is_error && words.contains("command"), "{words}");
    }

    /// C07 a to c
    fn a_call_runs_whatever_the_stop_label_says(api) {
        let scratch = Scratch::new();
        let command = "echo hi >> ran";
        let input = json!({ "command": command }).to_string();
        let replies: Vec<Steps> = match api {
            Api::Messages => [Some("end_turn"), None]
                .map(|label| Steps::from([
                    anthropic::open(),
                    anthropic::tool_use(0, "tu_{#n}", "bash", &[&input]),
                    anthropic::end_with(label, 20),
                ]))
                .into(),
            Api::Chat => vec![Steps::from([
                openai_chat::tool_delta(0, "c_{#n}", "bash", &input),
                openai_chat::finish("stop"),
                openai_chat::done(),
            ])],
        };
        for (index, reply) in replies.into_iter().enumerate() {
            let server = ModelServer::start([reply, api.say("bye")]);
            let done = ask(&scratch, &server, api, "go");
            assert_eq!(done.answer(), "bye");
            assert_eq!(server.requests().len(), 2);
            assert_eq!(scratch.read("ran").lines().count(), index + 1);
            server.assert_clean();
        }
    }

    /// C11
    fn what_is_no_stream_is_an_error(api) {
        let html = format!("<html><body><h1>down</h1>{}</body></html>", "<p>x</p>".repeat(2_500));
        let replies = [
            (200, "application/json", r#"{"error":{"message":"no capacity"}}"#.to_owned()),
            (200, "text/html", "<html>down</html>".to_owned()),
            (200, "text/event-stream", String::new()),
            (502, "text/html", html),
            (500, "application/json", r#"{"error":"#.to_owned()),
        ];
        for (status, kind, body) in replies {
            let reply = Reply::http(status, &[("content-type", kind)], body);
            let (done, server, _scratch) = play(api, vec![reply.clone(), api.say("ok").into()]);
            assert_eq!(done.answer(), "ok", "{status} {kind}");
            assert_eq!(server.requests().len(), 2);
            assert_eq!(done.retries().len(), 1);

            let server = ModelServer::builder().replies([reply]).after_last(AfterLast::Repeat).start();
            let scratch = Scratch::new();
            let run = tooloop(&scratch, &server, api).env("TOOLOOP_RETRY_MAX_ATTEMPTS", "2").arg("go");
            let done = finish(&run.start());
            let words = done.failed(1, "model_error");
            assert!(words.contains(&status.to_string()), "{words}");
            assert!(!words.contains('<'), "{words}");
            // The body's part is at most 300 characters; host, status and attempts stand beside it.
            assert!(words.chars().count() < 450, "{words}");
            assert_eq!(server.requests().len(), 2);
        }
    }
}

/// C07 d
#[test]
fn a_label_that_tells_of_calls_that_are_not_there_ends_the_turn() {
    let reply = Steps::from([
        openai_chat::content("finished"),
        openai_chat::finish("tool_calls"),
        openai_chat::done(),
    ]);
    let (done, server, _scratch) = play(Api::Chat, vec![reply.into()]);
    assert_eq!(done.answer(), "finished");
    assert_eq!(server.requests().len(), 1);
}

fn tool_calls(calls: &Value) -> Steps {
    openai_chat::delta(&json!({ "tool_calls": calls }))
}

/// C08
#[test]
fn parallel_calls_without_an_index_are_told_apart() {
    let start = |id: &str, arguments: &str| {
        tool_calls(
            &json!([{"id": id, "type": "function", "function": {"name": "bash", "arguments": arguments}}]),
        )
    };
    let more = |arguments: &str| tool_calls(&json!([{"function": {"arguments": arguments}}]));
    let reply = Steps::from([
        start("a", r#"{"command":"#),
        more(r#""echo A"}"#),
        start("b", r#"{"command""#),
        more(r#":"echo "#),
        more(r#"B"}"#),
        openai_chat::finish("tool_calls"),
        openai_chat::done(),
    ]);
    let (done, server, _scratch) = play(Api::Chat, vec![reply.into(), Api::Chat.say("ok").into()]);
    assert_eq!(done.answer(), "ok");
    let request = server.request(1);
    let results = request.tool_results();
    assert_eq!(
        results
            .iter()
            .map(|result| result.id.as_str())
            .collect::<Vec<_>>(),
        ["a", "b"]
    );
    assert!(told(&request, "a").starts_with("A\n") && told(&request, "b").starts_with("B\n"));
}

fn odd_chunks(usage: impl Fn(&mut Value, u64), fourth: Steps) -> Steps {
    let chunk = |number: u64, choices: Value| {
        let mut chunk =
            json!({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": choices});
        usage(&mut chunk, number);
        openai_chat::chunk(&chunk)
    };
    let delta = |number, delta: Value| {
        chunk(
            number,
            json!([{"index": 0, "delta": delta, "finish_reason": null}]),
        )
    };
    Steps::from([
        delta(1, json!({"role": "assistant", "content": null})),
        delta(
            2,
            json!({"tool_calls": [{"index": 0, "id": "c_9", "type": "function",
                "function": {"name": "bash", "arguments": "{\"command\""}}]}),
        ),
        delta(
            3,
            json!({"tool_calls": [{"index": 0, "id": "", "type": "function",
                "function": {"name": null, "arguments": null}}]}),
        ),
        fourth,
        delta(
            4,
            json!({"tool_calls": [{"index": 0, "function": {"arguments": ":\"echo ok\"}"}}]}),
        ),
        chunk(
            5,
            json!([{"index": 0, "finish_reason": null, "filter": {}}]),
        ),
        chunk(
            6,
            json!([{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]),
        ),
        openai_chat::usage(100, 7),
        openai_chat::done(),
    ])
}

/// C09
#[test]
fn odd_chunks_do_no_harm() {
    let null = |chunk: &mut Value, _: u64| chunk["usage"] = Value::Null;
    let growing = |chunk: &mut Value, number: u64| {
        chunk["usage"] = json!({"prompt_tokens": 100, "completion_tokens": number, "total_tokens": 100 + number});
    };
    for steps in [
        odd_chunks(null, Steps::default()),
        odd_chunks(growing, Steps::default()),
    ] {
        let (done, _server, _scratch) =
            play(Api::Chat, vec![steps.into(), Api::Chat.say("fin").into()]);
        assert_eq!(done.answer(), "fin");
        assert!(done.tool_result("c_9").0.starts_with("ok\n"));
        let usage = &done.of("assistant")[0]["message"]["usage"];
        assert_eq!(
            (&usage["input_tokens"], &usage["output_tokens"]),
            (&json!(100), &json!(7))
        );
        let sum = &done.result()["usage"];
        assert_eq!(
            (&sum["input_tokens"], &sum["output_tokens"]),
            (&json!(100), &json!(7))
        );
    }

    let broken = odd_chunks(null, bytes("data: {\"choi\n\n"));
    let good = odd_chunks(null, Steps::default());
    let (done, server, _scratch) = play(
        Api::Chat,
        vec![broken.into(), good.into(), Api::Chat.say("fin").into()],
    );
    assert_eq!(done.answer(), "fin");
    assert_eq!(
        done.retries()[0]["error_kind"],
        "decode",
        "{}",
        done.finished
    );
    assert_eq!(server.request(0).body, server.request(1).body);
    server.wait_for_requests(3, LONG).unwrap();
}

/// What small servers make of a call: chunks of a reply, in order.
fn small_server_calls() -> Vec<(&'static str, Vec<Value>)> {
    let arguments = json!({"command": "echo a >> M"}).to_string();
    let delta = |delta: Value| json!([{"index": 0, "delta": delta, "finish_reason": null}]);
    let call = |call: Value| delta(json!({"tool_calls": [call]}));
    let function = |arguments: Value| json!({"name": "bash", "arguments": arguments});
    let named = |name: &str| json!({"name": name, "arguments": arguments});
    let whole = |function: Value| {
        vec![call(
            json!({"index": 0, "id": "c", "type": "function", "function": function}),
        )]
    };
    let (begin, end) = arguments.split_at(9);
    let text = function(arguments.clone().into());
    let second = json!({"name": "bash", "arguments": "{\"command\":\"echo b >> N\"}"});
    let piece = |id: &str, arguments: &str| {
        call(
            json!({"index": 0, "id": id, "type": "function", "function": function(arguments.into())}),
        )
    };
    vec![
        (
            "an object",
            whole(function(json!({"command": "echo a >> M"}))),
        ),
        ("repeated", vec![piece("c", begin), piece("c", end)]),
        (
            "indexes",
            vec![delta(json!({"tool_calls": [
            {"index": 3, "id": "c", "type": "function", "function": text},
            {"index": 7, "id": "d", "type": "function", "function": second}]}))],
        ),
        (
            "a number",
            vec![call(
                json!({"index": 0, "id": 12, "type": "function", "function": text}),
            )],
        ),
        (
            "no id",
            vec![call(
                json!({"index": 0, "type": "function", "function": text}),
            )],
        ),
        (
            "no ids",
            vec![delta(json!({"tool_calls": [
            {"index": 0, "type": "function", "function": text},
            {"index": 1, "type": "function", "function": second}]}))],
        ),
        (
            "one id",
            vec![delta(json!({"tool_calls": [
            {"index": 0, "id": "", "function": text},
            {"index": 1, "id": "", "function": second}]}))],
        ),
        (
            "no type",
            vec![call(json!({"index": 0, "id": "c", "function": text}))],
        ),
        (
            "one chunk",
            vec![json!([{"index": 0, "finish_reason": "tool_calls",
            "delta": {"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": text}]}}])],
        ),
        (
            "parts",
            vec![delta(
                json!({"content": [{"type": "text", "text": "I look"}], "tool_calls": [
            {"index": 0, "id": "c", "type": "function", "function": text}]}),
            )],
        ),
        (
            "reasoning",
            vec![
                delta(
                    json!({"role": "assistant", "content": null, "reasoning_content": "I think"}),
                ),
                delta(json!({"content": null, "tool_calls": [
                {"index": 0, "id": "c", "type": "function", "function": text}]})),
            ],
        ),
        (
            "an index as text",
            vec![call(
                json!({"index": "0", "id": "c", "type": "function", "function": text}),
            )],
        ),
        ("blanks", whole(named(" bash "))),
        ("a namespace", whole(named("functions.bash"))),
        (
            "a fence",
            whole(function(format!("```json\n{arguments}\n```").into())),
        ),
        (
            "a stray brace",
            whole(function(format!("{arguments}}}").into())),
        ),
        (
            "a raw newline",
            whole(function("{\"command\":\"echo a\n>> M\"}".into())),
        ),
        (
            "twice",
            whole(function(json!(arguments).to_string().into())),
        ),
    ]
}

/// Each form runs once, or its result says what is wrong with it.
#[test]
fn calls_of_small_servers_run_once() {
    let errors = [
        ("a namespace", "no tool named \"functions.bash\""),
        ("a fence", "not a JSON object"),
        ("a stray brace", "trailing characters"),
        ("a raw newline", "control character"),
        ("twice", "a JSON object is needed"),
    ];
    for (name, chunks) in small_server_calls() {
        let reply = chunks.into_iter().map(|choices| {
            let chunk = json!({"id": "x", "object": "chat.completion.chunk", "model": "m", "choices": choices});
            openai_chat::chunk(&chunk)
        });
        let reply = reply.fold(Steps::default(), Steps::then);
        let end = openai_chat::finish("tool_calls").then(openai_chat::done());
        let (done, server, scratch) = play(
            Api::Chat,
            vec![reply.then(end).into(), Api::Chat.say("fin").into()],
        );
        assert_eq!(done.answer(), "fin", "{name}");
        assert_eq!(server.requests().len(), 2, "{name}");
        let request = server.request(1);
        let calls: Vec<&Value> = request
            .messages()
            .iter()
            .filter_map(|message| message["tool_calls"].as_array())
            .flatten()
            .collect();
        let mut ids: Vec<_> = calls
            .iter()
            .map(|call| call["id"].as_str().unwrap())
            .collect();
        assert!(ids.iter().all(|id| !id.is_empty()), "{name}: {ids:?}");
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), calls.len(), "{name}");
        for call in &calls {
            let arguments = call["function"]["arguments"].as_str().unwrap();
            let arguments: Value = serde_json::from_str(arguments).unwrap();
            assert!(arguments.is_object(), "{name}: {arguments}");
        }
        let results = request.tool_results();
        assert_eq!(results.len(), calls.len(), "{name}");
        let written = std::fs::read_to_string(scratch.workspace().join("M")).ok();
        if let Some((_, error)) = errors.iter().find(|(form, _)| *form == name) {
            assert!(
                results[0].text.contains(error),
                "{name}: {}",
                results[0].text
            );
            assert_eq!(written, None, "{name}");
        } else {
            assert_eq!(written.as_deref(), Some("a\n"), "{name}");
            let second = scratch.workspace().join("N").exists();
            assert_eq!(second, calls.len() == 2, "{name}");
        }
    }
}
