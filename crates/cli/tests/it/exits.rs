//! Why a turn ends and why it goes on: each way through the real binary.

use serde_json::{Value, json};
use tooloop_testkit::anthropic::Usage;
use tooloop_testkit::run::Stdin;
use tooloop_testkit::{ModelServer, Reply, Scratch, Steps, anthropic, hold, openai_chat};

use crate::support::{
    Api, Done, asking, both, finish, front_end, said, speak, told, tooloop, wait_for_result,
};

/// One dollar for a million tokens sent, ten for a million written.
const PRICES: &str = "[[model]]\nname = \"m\"\nprice = [1.0, 10.0, 0.1, 1.25]\n";

impl Api {
    /// A reply that used so much.
    fn used(self, text: &str, input: u64, output: u64) -> Steps {
        match self {
            Self::Messages => anthropic::open_with(Usage {
                input,
                ..Usage::default()
            })
            .then(anthropic::text(0, text))
            .then(anthropic::end_with(Some("end_turn"), output)),
            Self::Chat => openai_chat::content(text)
                .then(openai_chat::finish("stop"))
                .then(openai_chat::usage(input, output))
                .then(openai_chat::done()),
        }
    }

    /// The output cap of a request.
    fn cap(self, body: &Value) -> u64 {
        body["max_tokens"]
            .as_u64()
            .or_else(|| body["max_completion_tokens"].as_u64())
            .unwrap()
    }
}

fn priced(scratch: &Scratch) -> String {
    scratch.write("models.toml", PRICES).display().to_string()
}

/// A model that calls a command, another one each time, whatever it is told.
fn restless(api: Api) -> ModelServer {
    ModelServer::start_with(move |request| {
        let number = request.index;
        api.bash(&format!("c_{number}"), &format!("echo {number} >> log"))
            .into()
    })
}

fn run(scratch: &Scratch, server: &ModelServer, api: Api, flags: &[&str]) -> Done {
    let run = tooloop(scratch, server, api)
        .args(["--tools", "none"])
        .args(flags.to_vec())
        .arg("go");
    finish(&run.start())
}

/// The reasons for which the model was called again.
fn reasons(done: &Done) -> Vec<&str> {
    done.system("continue")
        .iter()
        .map(|record| record["reason"].as_str().unwrap())
        .collect()
}

/// The schemas of a request: those of the tools, and that of the answer.
fn schemas(body: &Value) -> Vec<&Value> {
    let tools = body["tools"].as_array().into_iter().flatten();
    let tools = tools.flat_map(|tool| {
        [
            tool.get("input_schema"),
            tool.pointer("/function/parameters"),
        ]
    });
    let answer = [
        "/response_format/json_schema/schema",
        "/output_format/schema",
    ];
    let answer = answer.map(|pointer| body.pointer(pointer));
    tools.chain(answer).flatten().collect()
}

/// How many references a schema holds. Fails if one points at nothing.
fn references(part: &Value, root: &Value) -> usize {
    match part {
        Value::Object(fields) => {
            let own = fields.get("$ref").and_then(Value::as_str).map(|reference| {
                let pointer = reference.strip_prefix('#').unwrap();
                assert!(root.pointer(pointer).is_some(), "{reference}: {root}");
            });
            let below = fields.values().map(|part| references(part, root));
            usize::from(own.is_some()) + below.sum::<usize>()
        }
        Value::Array(parts) => parts.iter().map(|part| references(part, root)).sum(),
        _ => 0,
    }
}

both! {
    fn no_more_tools_run_than_may(api) {
        let (scratch, server) = (Scratch::new(), restless(api));
        let limited = tooloop(&scratch, &server, api).args(["--max-tool-calls", "3", "go"]);
        let done = finish(&limited.start());
        let words = done.failed(59, "max_tool_calls");
        assert!(words.contains("--max-tool-calls"), "{words}");
        assert_eq!(done.result()["subtype"], "error_max_tool_calls");
        assert_eq!(scratch.read("log").lines().count(), 3);
        let (text, is_error) = done.tool_result("c_3");
        assert!(is_error && text.contains("not run"), "{text}");
        server.assert_clean();
    }

    fn a_run_ends_when_its_time_is_over(api) {
        // While the model writes, and while a command runs.
        let writes = match api {
            Api::Messages => anthropic::open().then(anthropic::text_start(0)),
            Api::Chat => openai_chat::content("x"),
        };
        for reply in [writes.then(hold()), api.bash("c_1", "sleep 300")] {
            let (scratch, server) = (Scratch::new(), ModelServer::start([reply]));
            let limited = tooloop(&scratch, &server, api).args(["--max-time", "300ms", "go"]);
            let done = finish(&limited.start());
            let words = done.failed(61, "max_time");
            assert!(words.contains("--max-time"), "{words}");
            assert_eq!(done.result()["subtype"], "error_max_time");
            // It can be gone on with.
            let server = ModelServer::start([api.say("ok")]);
            let more = tooloop(&scratch, &server, api).args(["--continue", "go on"]);
            assert_eq!(finish(&more.start()).answer(), "ok");
            server.assert_clean();
        }
    }

    fn tokens_end_before_their_limit_is_passed(api) {
        let server = ModelServer::start([
            api.used("first", 1000, 200),
            api.used("second", 1300, 200),
        ]);
        let scratch = Scratch::new();
        let running = front_end(&scratch, &server, api)
            .args(["--tools", "none", "--max-tokens", "3000", "--system-prompt", "x"])
            .start();
        speak(&running, "one");
        wait_for_result(&running, 1);
        speak(&running, "two");
        wait_for_result(&running, 2);
        // What is left is less than what was sent before.
        speak(&running, "three");
        running.close_stdin();
        let done = finish(&running);
        let words = done.failed(60, "max_tokens");
        assert!(words.contains("3000 tokens") && words.contains("2700 are spent"), "{words}");
        assert_eq!(done.result()["subtype"], "error_max_tokens");
        assert_eq!(server.requests().len(), 2);
        // The second request could have taken all that was left, and no more.
        let caps: Vec<_> = server.requests().iter().map(|request| api.cap(&request.body)).collect();
        assert!(caps[1] < 3000 - 1200 - 1200 && caps[1] > 400, "{caps:?}");
        server.assert_clean();
    }

    /// A turn that costs more than is left is the last one, and a resumed session knows what it
    /// has spent.
    fn money_ends_before_its_limit_is_passed(api) {
        let scratch = Scratch::new();
        let prices = priced(&scratch);
        let limited = |server: &ModelServer, flags: &[&str]| {
            let run = tooloop(&scratch, server, api)
                .env("TOOLOOP_MODELS_FILE", &prices)
                .args(["--tools", "none", "--max-budget-usd", "0.01"])
                .args(flags.to_vec());
            finish(&run.start())
        };
        let server = ModelServer::start([api.used("done", 5000, 400)]);
        let done = limited(&server, &["go"]);
        assert_eq!(done.answer(), "done");
        assert_eq!(done.result()["total_cost_usd"], 0.009);
        let server = ModelServer::start::<Steps>([]);
        let done = limited(&server, &["--continue", "go on"]);
        let words = done.failed(60, "max_budget_usd");
        assert!(words.contains("$0.01") && words.contains("$0.009 is spent"), "{words}");
        assert_eq!(done.result()["subtype"], "error_max_budget_usd");
        assert_eq!(server.requests().len(), 0);
    }

    fn a_price_that_nobody_knows_is_refused_under_a_limit_on_money(api) {
        let (scratch, server) = (Scratch::new(), ModelServer::start([api.say("ok")]));
        let done = run(&scratch, &server, api, &["--max-budget-usd", "5"]);
        let words = done.failed(60, "max_budget_usd");
        assert!(words.contains("price of m is not known"), "{words}");
        assert!(words.contains("models_file"), "{words}");
        assert_eq!(server.requests().len(), 0);
    }

    fn another_model_takes_over_after_three_overloads(api) {
        let busy = api.error(529, "overloaded_error", "busy");
        let server = ModelServer::start([
            busy.clone(), busy.clone(), busy,
            api.call("c_1", "bash", &json!({"command": "true"})).into(),
            Reply::from(api.say("ok")),
        ]);
        let scratch = Scratch::new();
        let run = tooloop(&scratch, &server, api).args(["--fallback-model", "other", "go"]);
        let done = finish(&run.start());
        assert_eq!(done.answer(), "ok");
        let models: Vec<_> = server.requests().iter().map(|request| request.body["model"].clone()).collect();
        assert_eq!(models, ["m", "m", "m", "other", "other"]);
        assert_eq!(reasons(&done), ["retry", "retry", "fallback_model", "next_step"]);
        assert_eq!(done.system("continue")[2]["model"], "other");
        assert!(done.result()["modelUsage"]["other"].is_object());
    }

    fn an_answer_of_another_form_goes_back(api) {
        let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
        let server = ModelServer::start([
            api.say("seven"),
            api.call("c_1", "structured_output", &json!({"n": "seven"})),
            api.call("c_2", "structured_output", &json!({"n": 7})),
        ]);
        let scratch = Scratch::new();
        let done = run(&scratch, &server, api, &["--json-schema", schema]);
        assert_eq!(done.answer(), r#"{"n":7}"#);
        assert_eq!(done.result()["structured_output"], json!({"n": 7}));
        assert_eq!(reasons(&done), ["schema_retry", "schema_retry"]);
        let requests = server.requests();
        assert!(told(&requests[2], "c_1").contains("/n"), "{}", requests[2].body);
        server.assert_clean();

        // From a file, as plain text.
        let path = scratch.write("schema.json", schema);
        let server = ModelServer::start([api.say("```json\n{\"n\": 8}\n```")]);
        let path = format!("@{}", path.display());
        let plain = asking(&scratch, &server, api).args(["--json-schema", &path, "go"]);
        let finished = crate::support::end(&plain.start());
        finished.assert_code(0);
        assert_eq!(finished.stdout.text(), "{\"n\":8}\n");
    }

    fn references_of_a_schema_resolve_where_they_are_sent(api) {
        let record = json!({"type": "object", "properties": {"v": {"type": "integer"}}, "required": ["v"]});
        let to_record = json!({"$ref": "#/$defs/K"});
        let (good, bad) = (json!({"v": 1}), json!({"v": "x"}));
        let list = |one: &Value| json!([one]);
        let table = [
            (json!({"$defs": {"K": record}, "type": "array", "items": to_record}), list(&good), list(&bad)),
            (json!({"$defs": {"K": record}, "$ref": "#/$defs/K"}), good.clone(), bad.clone()),
            (json!({"definitions": {"K": record}, "$ref": "#/definitions/K"}), good.clone(), bad.clone()),
            (json!({"$defs": {"K": record}, "anyOf": [to_record, {"type": "null"}]}), Value::Null, bad.clone()),
            (json!({"type": "array", "items": {"$ref": "#"}}), json!([[[]]]), json!([{"answer": []}])),
            (
                json!({"type": "object", "$defs": {"K": record}, "properties": {"k": to_record}, "required": ["k"]}),
                json!({"k": good}),
                json!({"k": bad}),
            ),
        ];
        for (schema, good, bad) in table {
            let is_wrapped = schema["type"] != "object";
            let answer = |id: &str, value: &Value| {
                let input = if is_wrapped { json!({ "answer": value }) } else { value.clone() };
                api.call(id, "structured_output", &input)
            };
            let server = ModelServer::start([answer("c_1", &bad), answer("c_2", &good)]);
            let done = run(&Scratch::new(), &server, api, &["--json-schema", &schema.to_string()]);
            done.finished.assert_code(0);
            assert_eq!(done.result()["structured_output"], good, "{schema}");
            let requests = server.requests();
            assert_eq!(requests.len(), 2, "{schema}");
            for request in &requests {
                let sent = schemas(&request.body).into_iter();
                let count: usize = sent.map(|sent| references(sent, sent)).sum();
                assert!(count > 0, "{schema}: {}", request.body);
            }
            server.assert_clean();
        }
    }

    fn five_answers_are_judged_and_no_more(api) {
        let server = ModelServer::start_with(move |_| api.say("seven").into());
        let scratch = Scratch::new();
        let done = run(&scratch, &server, api, &["--json-schema", r#"{"type":"integer"}"#]);
        let words = done.failed(62, "structured_output_failed");
        assert!(words.contains("no answer of 5"), "{words}");
        assert_eq!(done.result()["subtype"], "error_max_structured_output_retries");
        assert_eq!(server.requests().len(), 5);
        server.assert_clean();
    }

    fn what_is_no_schema_is_refused(api) {
        let (scratch, server) = (Scratch::new(), ModelServer::start([api.say("ok")]));
        for schema in ["{", r#"{"type":"objekt"}"#, "@no-such-file"] {
            let run = tooloop(&scratch, &server, api).args(["--json-schema", schema, "go"]);
            let words = finish(&run.start()).failed(2, "not_run");
            assert!(words.contains("--json-schema"), "{words}");
        }
        assert_eq!(server.requests().len(), 0);
    }

    /// The provider says that it is too long: one request, and an end with words.
    fn a_conversation_that_does_not_fit_ends(api) {
        let reply = api.error(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum");
        let (scratch, server) = (Scratch::new(), ModelServer::start([reply]));
        let done = run(&scratch, &server, api, &[]);
        let words = done.failed(1, "context_limit");
        assert!(words.contains("prompt is too long"), "{words}");
        assert_eq!(server.requests().len(), 1);
    }

    /// The default cap cut the reply: it is thrown away and asked for once with the model's own.
    fn a_cut_reply_is_asked_for_with_a_larger_cap(api) {
        let model = match api {
            Api::Messages => "anthropic/claude-sonnet-5-5",
            Api::Chat => "openai/gpt-5.6",
        };
        let cut = match api {
            Api::Messages => anthropic::open()
                .then(anthropic::text(0, "half"))
                .then(anthropic::end("max_tokens")),
            Api::Chat => openai_chat::content("half")
                .then(openai_chat::finish("length"))
                .then(openai_chat::done()),
        };
        let server = ModelServer::start([cut, api.say("whole")]);
        let scratch = Scratch::new();
        let done = run(&scratch, &server, api, &["--model", model]);
        assert_eq!(done.answer(), "whole");
        assert_eq!(reasons(&done), ["escalate_output"]);
        let requests = server.requests();
        assert_eq!(requests[0].body["messages"], requests[1].body["messages"]);
        assert!(api.cap(&requests[1].body) > api.cap(&requests[0].body));
    }

    fn the_time_of_the_run_is_over_while_it_waits(api) {
        let (scratch, server) = (Scratch::new(), ModelServer::start([api.say("ok")]));
        let running = tooloop(&scratch, &server, api)
            .args(["--input-format", "stream-json", "--max-time", "1s"])
            .stdin(Stdin::Silent)
            .start();
        let done = finish(&running);
        done.failed(61, "not_run");
        assert_eq!(done.result()["subtype"], "error_max_time");
    }
}

/// A strict schema is told to the provider, who holds the model to it.
#[test]
fn a_provider_that_holds_answers_to_a_schema_is_told_it() {
    let schema = json!({
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": false,
    });
    for (api, model, place) in [
        (
            Api::Messages,
            "anthropic/claude-sonnet-5-5",
            "/output_config/format/schema",
        ),
        (
            Api::Chat,
            "openai/gpt-5.6",
            "/response_format/json_schema/schema",
        ),
    ] {
        let server = ModelServer::start([api.say("{\"n\": \"7\"}"), api.say("{\"n\": 7}")]);
        let scratch = Scratch::new();
        let run = tooloop(&scratch, &server, api).args([
            "--model",
            model,
            "--json-schema",
            &schema.to_string(),
            "go",
        ]);
        let done = finish(&run.start());
        assert_eq!(done.answer(), "{\"n\":7}");
        assert_eq!(reasons(&done), ["schema_retry"]);
        let body = &server.requests()[0].body;
        assert_eq!(body.pointer(place), Some(&schema), "{body:#}");
        assert!(!body["tools"].to_string().contains("structured_output"));
        server.assert_clean();
    }
}

#[test]
fn a_paused_reply_goes_on() {
    let api = Api::Messages;
    let paused = anthropic::open()
        .then(anthropic::text(0, "half "))
        .then(anthropic::end("pause_turn"));
    let server = ModelServer::start([paused, api.say("whole")]);
    let scratch = Scratch::new();
    let done = run(&scratch, &server, api, &[]);
    assert_eq!(done.answer(), "half whole");
    assert_eq!(reasons(&done), ["pause_turn"]);
    let (role, _) = said(&server.requests()[1]).pop().unwrap();
    assert_eq!(role, "user");
    server.assert_clean();
}

/// What a provider had in its cache is told.
#[test]
fn the_part_from_the_cache_is_told() {
    let reply = || {
        anthropic::open_with(Usage {
            input: 100,
            cache_read: Some(900),
            ..Usage::default()
        })
        .then(anthropic::text(0, "ok"))
        .then(anthropic::end("end_turn"))
    };
    let server = ModelServer::start([reply(), reply()]);
    let scratch = Scratch::new();
    let done = run(&scratch, &server, Api::Messages, &[]);
    assert_eq!(done.result()["cache_hit_percent"], 90);
    let verbose = asking(&scratch, &server, Api::Messages).args(["-v", "go"]);
    let finished = crate::support::end(&verbose.start());
    let told = finished.stderr.text();
    assert!(told.contains("1.0k in (90 % from cache)"), "{told}");
}
