//! What a run tells of itself beside its output: traces that a collector gets, and the debug file.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use tooloop_testkit::run::{Run, Signal};
use tooloop_testkit::{ModelServer, Reply, Scratch, Steps, openai_chat};

use crate::collector::{Collector, Manner, Span, attributes, tree};
use crate::support::{Api, asking, both, end, finish, tooloop, wait_for_file};

fn exporting(run: Run, collector: &Collector) -> Run {
    run.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url())
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
}

/// A reply with token counts, which one of the formats has only on request.
fn counted(api: Api, steps: Steps) -> Steps {
    match api {
        Api::Messages => steps,
        Api::Chat => openai_chat::usage(100, 7).then(steps),
    }
}

fn debug_file(scratch: &Scratch) -> std::path::PathBuf {
    scratch.root().join("debug.log")
}

both! {
    fn a_run_is_one_trace(api) {
        let (scratch, collector) = (Scratch::new(), Collector::start(Manner::Answers(200)));
        let server = ModelServer::start([
            Reply::from(counted(api, api.bash("t1", "echo hi"))),
            api.error(529, "overloaded_error", "not now"),
            counted(api, api.say("done")).into(),
        ]);
        let run = exporting(tooloop(&scratch, &server, api), &collector)
            .env("OTEL_SERVICE_NAME", "mine")
            .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test%20bed,service.name=no")
            .env("OTEL_EXPORTER_OTLP_HEADERS", "x-team=a%20b");
        let done = finish(&run.arg("go").start());
        assert_eq!(done.answer(), "done");

        let posts = collector.posts();
        assert_eq!(posts.len(), 1);
        assert!(posts[0].head.starts_with("post /v1/traces http/1.1\r\n"), "{}", posts[0].head);
        assert!(posts[0].head.contains("x-team: a b\r\n"), "{}", posts[0].head);
        let request: Value = serde_json::from_slice(&posts[0].body).unwrap();
        let resource = attributes(&request["resourceSpans"][0]["resource"]["attributes"]);
        assert_eq!(resource["service.name"], "mine");
        assert_eq!(resource["deployment.environment.name"], "test bed");

        let spans = collector.spans();
        assert_eq!(
            tree(&spans),
            "invoke_agent\n  step 1\n    chat m\n      POST\n    execute_tool bash\n  step 2\n    \
             chat m\n      POST\n      POST\n"
        );
        let traces: BTreeSet<_> = spans.iter().map(|span| span.0["traceId"].as_str()).collect();
        assert_eq!(traces.len(), 1, "{traces:?}");

        let named = |name: &str| spans.iter().filter(|span| span.name() == name).cloned().collect::<Vec<_>>();
        let turn = &named("invoke_agent")[0];
        let result = done.result();
        assert_eq!(turn.get("gen_ai.operation.name"), "invoke_agent");
        assert_eq!(turn.get("gen_ai.conversation.id"), done.session());
        assert_eq!(turn.get("gen_ai.usage.output_tokens"), result["usage"]["output_tokens"].to_string());
        assert_eq!(turn.get("tooloop.turn.end"), "completed");
        assert_eq!((turn.get("tooloop.turn.number"), turn.get("tooloop.turn.steps")), ("1".into(), "2".into()));
        assert!(!turn.failed());

        let chats = named("chat m");
        let sum: u64 = chats.iter().map(|chat| chat.get("gen_ai.usage.output_tokens").parse::<u64>().unwrap()).sum();
        assert_eq!(sum.to_string(), turn.get("gen_ai.usage.output_tokens"));
        let finished: Vec<_> = chats.iter().map(|chat| chat.get("gen_ai.response.finish_reasons")).collect();
        assert_eq!(finished, ["tool_call", "stop"]);
        for chat in &chats {
            assert_eq!(chat.0["kind"], 3);
            assert_eq!(chat.get("gen_ai.operation.name"), "chat");
            assert_eq!(chat.get("gen_ai.provider.name"), api.model().split('/').next().unwrap());
            assert_eq!(chat.get("gen_ai.request.model"), "m");
            assert_eq!(chat.get("gen_ai.request.stream"), "true");
            assert!(chat.attributes().contains_key("gen_ai.response.time_to_first_chunk"));
            assert!(!chat.failed() && !chat.attributes().contains_key("error.type"));
        }
        let (name, retry) = chats[1].events().remove(0);
        assert_eq!(name, "retry");
        assert_eq!((&*retry["error.type"], &*retry["http.response.status_code"], &*retry["attempt"]), ("overloaded", "529", "1"));
        let statuses: Vec<_> = named("POST").iter().map(|post| (post.get("http.response.status_code"), post.failed())).collect();
        assert_eq!(statuses, [("200".into(), false), ("529".into(), true), ("200".into(), false)]);

        let tool = &named("execute_tool bash")[0];
        assert_eq!(tool.get("gen_ai.tool.name"), "bash");
        assert_eq!(tool.get("gen_ai.tool.call.id"), "t1");
        assert!(!tool.failed());
        // What was said stays here.
        let body = String::from_utf8(posts[0].body.clone()).unwrap();
        assert!(!body.contains("echo hi") && !body.contains("gen_ai.input.messages"), "{body}");
        server.assert_clean();
    }
}

#[test]
fn what_was_said_goes_out_on_request_only() {
    let api = Api::Messages;
    let (scratch, collector) = (Scratch::new(), Collector::start(Manner::Answers(200)));
    let server = ModelServer::start([
        api.bash("t1", "echo from-the-tool; exit 3"),
        api.say("done"),
    ]);
    let run = exporting(tooloop(&scratch, &server, api), &collector)
        .env("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
        .env("MY_TOKEN", "sesame-open-1234")
        .env("TOOLOOP_PASS_ENVIRONMENT", "MY_TOKEN")
        .args(["--debug-file", debug_file(&scratch).to_str().unwrap()]);
    let done = finish(
        &run.arg("the password is sesame-open-1234 \"quoted\"")
            .start(),
    );
    assert_eq!(done.answer(), "done");
    let spans = collector.spans();
    let first = |name: &str| spans.iter().find(|span| span.name() == name).unwrap();
    let asked: Value = serde_json::from_str(&first("chat m").get("gen_ai.input.messages")).unwrap();
    let part = &asked[0]["parts"][0];
    assert_eq!(part["content"], "the password is [redacted] \"quoted\"");
    let said: Value = serde_json::from_str(&first("chat m").get("gen_ai.output.messages")).unwrap();
    assert_eq!(
        said[0]["parts"][0]["arguments"]["command"],
        "echo from-the-tool; exit 3"
    );
    let tool = first("execute_tool bash");
    assert!(
        tool.get("gen_ai.tool.call.result")
            .contains("from-the-tool")
    );
    assert_eq!(
        (tool.failed(), &*tool.get("error.type")),
        (true, "tool_error")
    );
    let log = std::fs::read_to_string(debug_file(&scratch)).unwrap();
    assert!(
        !log.contains("from-the-tool") && !log.contains("quoted"),
        "{log}"
    );
}

#[test]
fn a_turn_belongs_to_the_span_it_was_started_from() {
    let api = Api::Chat;
    let (trace, parent) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    let command = "env | grep -c -e '^TRACE' -e '^OTEL_EXPORTER_OTLP_HEADERS'; true";
    for (flags, is_sampled) in [("01", true), ("00", false)] {
        let (scratch, collector) = (Scratch::new(), Collector::start(Manner::Answers(200)));
        let server = ModelServer::start([api.bash("t1", command), api.say("done")]);
        let run = exporting(tooloop(&scratch, &server, api), &collector)
            .env("TRACEPARENT", format!("00-{trace}-{parent}-{flags}"))
            .env("TRACESTATE", "a=b")
            .env("OTEL_EXPORTER_OTLP_HEADERS", "x=y");
        let done = finish(&run.arg("go").start());
        assert_eq!(done.answer(), "done");
        // Nobody else is told of it.
        assert!(
            done.tool_result("t1").0.starts_with("0\n"),
            "{:?}",
            done.tool_result("t1")
        );
        for exchange in server.exchanges() {
            assert_eq!(exchange.request.header("traceparent"), None);
        }
        let spans = collector.spans();
        assert_eq!(!spans.is_empty(), is_sampled);
        for span in &spans {
            assert_eq!(span.0["traceId"], trace);
        }
        let turn = spans.iter().find(|span| span.name() == "invoke_agent");
        assert_eq!(turn.and_then(Span::parent), is_sampled.then_some(parent));
    }
}

#[test]
fn protobuf_is_what_collectors_get_by_default() {
    let api = Api::Messages;
    let (scratch, collector) = (Scratch::new(), Collector::start(Manner::Answers(200)));
    let server = ModelServer::start([api.say("done")]);
    let run = tooloop(&scratch, &server, api).env(
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        format!("{}/mine", collector.url()),
    );
    assert_eq!(finish(&run.arg("go").start()).answer(), "done");
    let posts = collector.posts();
    assert_eq!(posts.len(), 1);
    assert!(
        posts[0].head.starts_with("post /mine http/1.1\r\n"),
        "{}",
        posts[0].head
    );
    assert!(
        posts[0]
            .head
            .contains("content-type: application/x-protobuf"),
        "{}",
        posts[0].head
    );
    let text = String::from_utf8_lossy(&posts[0].body);
    for word in [
        "invoke_agent",
        "chat m",
        "gen_ai.usage.input_tokens",
        "POST",
    ] {
        assert!(text.contains(word), "{word}");
    }
}

#[test]
fn a_bad_collector_costs_the_run_nothing() {
    let api = Api::Messages;
    let dead = {
        // Nobody listens there any more.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let (hangs, refuses) = (
        Collector::start(Manner::Hangs),
        Collector::start(Manner::Answers(401)),
    );
    for (url, why) in [
        (dead, "cannot connect"),
        (hangs.url(), "did not"),
        (refuses.url(), "answered 401"),
    ] {
        let scratch = Scratch::new();
        let server = ModelServer::start([api.bash("t1", "echo hi"), api.say("done")]);
        let run = tooloop(&scratch, &server, api)
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", url)
            .env("OTEL_EXPORTER_OTLP_TIMEOUT", "300")
            .env("OTEL_BSP_SCHEDULE_DELAY", "1")
            .args([
                "--debug-file",
                debug_file(&scratch).to_str().unwrap(),
                "-v",
                "go",
            ]);
        let done = finish(&run.start());
        assert_eq!(done.answer(), "done");
        let complaints = done.finished.stderr.text();
        let told: Vec<_> = complaints
            .lines()
            .filter(|line| line.contains("not exported"))
            .collect();
        assert_eq!(told.len(), 1, "{complaints}");
        assert!(told[0].contains(why), "{complaints}");
        let log = std::fs::read_to_string(debug_file(&scratch)).unwrap();
        assert_eq!(log.matches("not exported").count(), 1, "{log}");
    }
}

#[test]
fn what_cannot_be_exported_is_said_at_the_start() {
    let api = Api::Messages;
    for (name, value, words) in [
        (
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "grpc",
            "\"grpc\" is not known here (http/protobuf or http/json)",
        ),
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "localhost:4317",
            "no traces are exported",
        ),
        (
            "OTEL_TRACES_SAMPLER",
            "jaeger_remote",
            "\"jaeger_remote\" is not known here",
        ),
        ("OTEL_SDK_DISABLED", "true", ""),
        ("OTEL_TRACES_EXPORTER", "none", ""),
    ] {
        let (scratch, collector) = (Scratch::new(), Collector::start(Manner::Answers(200)));
        let server = ModelServer::start([api.say("done")]);
        let run = exporting(asking(&scratch, &server, api), &collector).env(name, value);
        let finished = end(&run.arg("go").start());
        finished.assert_code(0);
        let told = finished.stderr.text();
        let complaints = told.strip_prefix("tooloop: sandbox: off, commands run as you\n");
        let complaints = complaints.unwrap_or(&told);
        assert!(complaints.contains(words), "{name}: {complaints}");
        assert_eq!(complaints.is_empty(), words.is_empty(), "{complaints}");
        assert!(collector.posts().is_empty(), "{name}");
    }
}

#[test]
fn a_signal_ends_the_trace_too() {
    let api = Api::Messages;
    let (scratch, collector) = (Scratch::new(), Collector::start(Manner::Answers(200)));
    let mark = scratch.workspace().join("mark");
    let server = ModelServer::start([api.bash("t1", "touch mark; sleep 600")]);
    let run = exporting(tooloop(&scratch, &server, api), &collector);
    let running = run.arg("go").start();
    wait_for_file(&mark);
    running.signal(Signal::Terminate);
    finish(&running).finished.assert_code(143);
    let spans = collector.spans();
    assert_eq!(
        tree(&spans),
        "invoke_agent\n  step 1\n    chat m\n      POST\n    execute_tool bash\n"
    );
    let turn = spans
        .iter()
        .find(|span| span.name() == "invoke_agent")
        .unwrap();
    assert_eq!(
        (turn.get("error.type"), turn.failed()),
        ("interrupted".into(), true)
    );
    assert_eq!(turn.events()[0].0, "interrupted");
    let tool = spans
        .iter()
        .find(|span| span.name() == "execute_tool bash")
        .unwrap();
    assert_eq!(tool.get("error.type"), "cancelled");
}

#[test]
fn a_failed_call_is_a_failed_span() {
    let api = Api::Chat;
    let (scratch, collector) = (Scratch::new(), Collector::start(Manner::Answers(200)));
    let server = ModelServer::start([api.error(401, "invalid_api_key", "wrong key")]);
    let run = exporting(tooloop(&scratch, &server, api), &collector);
    finish(&run.arg("go").start()).failed(41, "model_error");
    let spans = collector.spans();
    assert_eq!(
        tree(&spans),
        "invoke_agent\n  step 1\n    chat m\n      POST\n"
    );
    let types: BTreeMap<_, _> = spans
        .iter()
        .filter(|span| span.failed())
        .map(|span| (span.name().to_owned(), span.get("error.type")))
        .collect();
    let expected = [
        ("POST", "401"),
        ("chat m", "auth"),
        ("invoke_agent", "auth"),
    ];
    assert_eq!(
        types,
        expected
            .map(|(name, kind)| (name.into(), kind.into()))
            .into()
    );
}

#[test]
fn no_secret_leaves_by_a_trace_or_a_debug_file() {
    const SECRETS: [(&str, &str); 4] = [
        ("ANTHROPIC_API_KEY", "sk-ant-model-0123456789"),
        ("DEPLOY_TOKEN", "deploy-token-0123456789"),
        ("MY_OWN", "withheld-value-0123456789"),
        (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "authorization=Bearer%20collector-0123456789",
        ),
    ];
    let api = Api::Messages;
    let command = "echo $DEPLOY_TOKEN $MY_OWN collector-0123456789 sk-ant-model-0123456789";
    // At every level, and with what the HTTP client says of itself.
    for filter in [
        "debug",
        "trace",
        "trace,tooloop::content=trace,hyper=trace,h2=trace,reqwest=trace,rustls=trace,hyper_util=trace",
    ] {
        let (scratch, collector) = (Scratch::new(), Collector::start(Manner::Answers(200)));
        let server = ModelServer::start([
            Reply::from(api.bash("t1", command)),
            api.error(529, "overloaded_error", "no, sk-ant-model-0123456789"),
            api.say("the key is deploy-token-0123456789").into(),
        ]);
        let mut run = exporting(tooloop(&scratch, &server, api), &collector)
            .env("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
            .env("TOOLOOP_PASS_ENVIRONMENT", "DEPLOY_TOKEN")
            .env("TOOLOOP_WITHHOLD_ENVIRONMENT", "MY_OWN")
            .env("TOOLOOP_LOG", filter)
            .env("TOOLOOP_DEBUG_FILE", debug_file(&scratch));
        for (name, value) in SECRETS {
            run = run.env(name, value);
        }
        let done = finish(&run.arg("use withheld-value-0123456789").start());
        assert!(done.answer().contains("deploy-token"));
        let log = std::fs::read_to_string(debug_file(&scratch)).unwrap();
        assert!(log.contains("POST"), "{log}");
        assert_eq!(
            log.contains("gen_ai.input.messages"),
            filter.contains("content"),
            "{log}"
        );
        let mut out = log;
        for post in collector.posts() {
            assert!(
                post.head
                    .contains("authorization: bearer collector-0123456789")
            );
            out.push_str(&String::from_utf8(post.body).unwrap());
        }
        assert!(out.contains("[redacted]"));
        for secret in [
            "sk-ant-model",
            "deploy-token",
            "withheld-value",
            "collector-0123456789",
        ] {
            assert!(!out.contains(secret), "{filter}: {secret} in {out}");
        }
    }
}

#[test]
fn the_debug_file_tells_what_happened() {
    let api = Api::Chat;
    let scratch = Scratch::new();
    for round in 1..=2 {
        let server = ModelServer::start([
            Reply::from(api.bash("t1", "echo hi")),
            api.error(503, "server_error", "not now"),
            api.say("done").into(),
        ]);
        let run = tooloop(&scratch, &server, api).env("TOOLOOP_DEBUG_FILE", debug_file(&scratch));
        let done = finish(&run.arg("go").start());
        assert_eq!(done.answer(), "done");
        assert_eq!(done.finished.stderr.text().matches("debug").count(), 0);
        let log = std::fs::read_to_string(debug_file(&scratch)).unwrap();
        assert_eq!(log.matches("tooloop begins").count(), round, "{log}");
    }
    let mode = std::fs::metadata(debug_file(&scratch))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let log = std::fs::read_to_string(debug_file(&scratch)).unwrap();
    for words in [
        "invoke_agent > step 1 > chat m > POST: begins",
        "invoke_agent > step 2 > chat m > POST: answered status=503",
        "invoke_agent > step 2 > chat m: retry",
        "wait_ms=",
        "invoke_agent > step 1 > execute_tool bash: ends seconds=0.",
        "journal: flushed",
        "url.full=http://127.0.0.1",
    ] {
        assert!(log.contains(words), "{words:?} is not in {log}");
    }
}

#[test]
fn a_debug_file_that_cannot_be_written_is_refused() {
    let api = Api::Chat;
    let scratch = Scratch::new();
    let closed = scratch.root().join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o555)).unwrap();
    let pipe = scratch.root().join("pipe");
    let made = std::process::Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .unwrap();
    assert!(made.success());
    let mut paths = vec![
        scratch.root().join("no/such/log"),
        scratch.root().into(),
        pipe,
        "/dev/null".into(),
    ];
    // To root nothing is closed.
    let probe = std::fs::File::create(closed.join("probe"));
    if probe.is_err() {
        paths.push(closed.join("log"));
    }
    for path in paths {
        let server = ModelServer::start([api.say("never")]);
        let run =
            asking(&scratch, &server, api).args(["--debug-file", path.to_str().unwrap(), "go"]);
        let finished = end(&run.start());
        finished.assert_code(52);
        let words = format!("cannot write to the debug file {}: ", path.display());
        assert!(finished.stderr.text().contains(&words), "{finished}");
        assert!(server.exchanges().is_empty());
    }
    let server = ModelServer::start([api.say("never")]);
    let run = asking(&scratch, &server, api)
        .env("TOOLOOP_DEBUG_FILE", debug_file(&scratch))
        .env("TOOLOOP_LOG", "tooloop=loud");
    let finished = end(&run.arg("go").start());
    finished.assert_code(52);
    assert!(
        finished
            .stderr
            .text()
            .contains("the setting log must be a level"),
        "{finished}"
    );
}

/// A disk that fills up while the run goes on is stood in for by the process's own limit.
#[test]
fn a_debug_file_that_fails_later_is_told_of_once() {
    let api = Api::Chat;
    let scratch = Scratch::new();
    let server = ModelServer::start([api.bash("t1", "echo hi"), api.say("done")]);
    let log = debug_file(&scratch);
    // The journal must still fit: only the debug file starts out beyond the limit.
    std::fs::write(&log, vec![b'\n'; 1 << 20]).unwrap();
    let run = Run::new("/bin/sh")
        .home(&scratch)
        .model(&server)
        .args(["-c", "ulimit -f 1024; exec \"$@\"", "sh"])
        .args([env!("CARGO_BIN_EXE_tooloop"), "-p", "go"])
        .env("TOOLOOP_MODEL", api.model())
        .env("TOOLOOP_SANDBOX", "off")
        .env("TOOLOOP_PERMISSION_MODE", "bypassPermissions")
        .env("TOOLOOP_DEBUG_FILE", &log);
    let finished = end(&run.start());
    finished.assert_code(0);
    assert_eq!(finished.stdout.text(), "done\n");
    let complaints = finished.stderr.text();
    assert_eq!(
        complaints.matches("is not complete").count(),
        1,
        "{complaints}"
    );
}
