//! Replies that come, slowly or not, and calls that are given up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;
use tooloop_model::{Message, ModelErrorKind, StreamEvent};
use tooloop_provider::{Auth, Provider, Secret, WireFormat, request};
use tooloop_testkit::{
    Cuts, Gate, ModelServer, Newline, Reply, Steps, Wire, anthropic as messages, bytes, cut, hold,
    open_gate, openai_chat, pause, wait_for,
};

use crate::{SOON, anthropic, ask, chat, config, fail, hello, provider};

/// Waits until the client of an exchange has closed its side. The runtime goes on meanwhile, since
/// a connection is closed by the task that drives it.
async fn wait_gone(server: &Arc<ModelServer>, index: usize) {
    let server = Arc::clone(server);
    let gone = tokio::task::spawn_blocking(move || server.wait_client_gone(index, SOON));
    gone.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_reply_of_each_format() {
    let server = ModelServer::start([messages::say("Qué 日本")]);
    let message = ask(&anthropic(&server), hello()).await.unwrap();
    assert_eq!(message.text(), "Qué 日本");
    let captured = server.request(0);
    assert_eq!(captured.path, "/v1/messages");
    assert_eq!(captured.header("x-api-key"), Some("sk-test-key"));
    assert_eq!(captured.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(captured.header("content-type"), Some("application/json"));
    let agent = concat!("tooloop/", env!("CARGO_PKG_VERSION"));
    assert_eq!(captured.header("user-agent"), Some(agent));
    server.assert_clean();

    let server = ModelServer::start([openai_chat::say("plain")]);
    let message = ask(&chat(&server), hello()).await.unwrap();
    assert_eq!(message.text(), "plain");
    let captured = server.request(0);
    assert_eq!(captured.path, "/v1/chat/completions");
    assert_eq!(captured.header("authorization"), Some("Bearer sk-test-key"));
    server.assert_clean();
}

#[tokio::test]
async fn keys_in_every_place() {
    let server = ModelServer::start([messages::say("a"), messages::say("b")]);
    let mut bearer = config(&server.base_url(), WireFormat::AnthropicMessages);
    bearer.auth = Auth::Bearer(Secret::new("token"));
    bearer.headers = vec![("x-extra".into(), "yes".into())];
    ask(&provider(bearer), hello()).await.unwrap();
    assert_eq!(
        server.request(0).header("authorization"),
        Some("Bearer token")
    );
    assert_eq!(server.request(0).header("x-api-key"), None);
    assert_eq!(server.request(0).header("x-extra"), Some("yes"));
    let mut open = config(&server.base_url(), WireFormat::AnthropicMessages);
    open.auth = Auth::None;
    ask(&provider(open), hello()).await.unwrap();
    assert_eq!(server.request(1).header("authorization"), None);
    assert_eq!(server.request(1).header("x-api-key"), None);
}

#[tokio::test]
async fn one_connection_serves_a_whole_run() {
    for is_chat in [false, true] {
        let reply = move || {
            if is_chat {
                openai_chat::say("ok")
            } else {
                messages::say("ok")
            }
        };
        let server = ModelServer::start((0..20).map(|_| reply()));
        let provider = if is_chat {
            chat(&server)
        } else {
            anthropic(&server)
        };
        for _ in 0..20 {
            assert_eq!(ask(&provider, hello()).await.unwrap().text(), "ok");
        }
        assert_eq!(server.connections(), 1, "chat: {is_chat}");
    }
}

#[tokio::test]
async fn a_refused_call_costs_no_connection() {
    let refusal = || messages::http_error(529, "overloaded_error", "Overloaded");
    let server = ModelServer::start([refusal(), refusal(), messages::say("ok").into()]);
    let provider = anthropic(&server);
    fail(&provider).await;
    fail(&provider).await;
    ask(&provider, hello()).await.unwrap();
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_connection_that_the_server_has_closed_is_no_failure() {
    // The server takes the second request on the old connection and hangs up without a word, as
    // one does whose time for idle connections has just run out.
    let hang_up = || Reply::steps_of(cut());
    let server = ModelServer::start([
        messages::say("one").into(),
        hang_up(),
        messages::say("two").into(),
        Reply::reset(),
        messages::say("three").into(),
    ]);
    let provider = anthropic(&server);
    for text in ["one", "two", "three"] {
        assert_eq!(ask(&provider, hello()).await.unwrap().text(), text);
    }
    assert_eq!(server.connections(), 3);
    server.assert_clean();
}

#[tokio::test]
async fn a_new_connection_that_fails_is_a_failure() {
    let replies = [
        Reply::steps_of(cut()),
        Reply::reset(),
        Reply::steps_of(cut()),
    ];
    let server = ModelServer::start(replies);
    let provider = anthropic(&server);
    for index in 0..3 {
        assert_eq!(fail(&provider).await.kind, ModelErrorKind::Connection);
        assert_eq!(server.requests().len(), index + 1);
    }
}

#[tokio::test]
async fn text_spelled_and_cut_in_every_legal_way() {
    let wires = [
        Wire::bytewise(),
        Wire::default().cuts(Cuts::InsideChars),
        Wire::default()
            .newline(Newline::CrLf)
            .cuts(Cuts::InsideCrLf),
        Wire::default().newline(Newline::Cr),
        Wire::default().no_space(),
        Wire::default().byte_order_mark(),
        Wire::default().split_data(),
    ];
    let say = || Reply::from(messages::say("👩‍👩‍👧 fin")).interleave(messages::noise());
    let server = ModelServer::start(wires.iter().map(|wire| say().wire(wire.clone())));
    let provider = anthropic(&server);
    for wire in &wires {
        let message = ask(&provider, hello()).await.unwrap();
        assert_eq!(message.text(), "👩‍👩‍👧 fin", "{wire:?}");
    }
}

#[tokio::test]
async fn events_come_as_they_are_sent() {
    let gate = Gate::new();
    let steps: Steps = [
        messages::open(),
        messages::text_start(0),
        messages::text_delta(0, "one"),
        wait_for(&gate),
        messages::text_delta(0, "two"),
        messages::block_stop(0),
        messages::end("end_turn"),
    ]
    .into();
    let server = ModelServer::start([steps]);
    let provider = anthropic(&server);
    let mut stream = provider
        .stream(hello(), CancellationToken::new())
        .await
        .unwrap();
    let mut texts = Vec::new();
    while let Some(event) = stream.next().await {
        if let StreamEvent::TextDelta { text, .. } = event.unwrap() {
            texts.push(text);
            // Had the first delta been held back, the gate would never open.
            gate.open();
        }
    }
    assert_eq!(texts, ["one", "two"]);
}

#[tokio::test]
async fn the_end_of_the_reply_is_not_the_end_of_the_body() {
    // Some servers keep the body open after the last event.
    let server = ModelServer::start([messages::say("ok").then(hold()), messages::say("ok")]);
    let provider = anthropic(&server);
    for _ in 0..2 {
        assert_eq!(ask(&provider, hello()).await.unwrap().text(), "ok");
    }
}

#[tokio::test]
async fn a_finished_chat_reply_needs_no_end_mark() {
    let chunk = |choice: &str, usage: &str| {
        format!("data: {{\"id\":\"c\",\"choices\":[{choice}],\"usage\":{usage}}}\n\n")
    };
    let said = chunk(r#"{"index":0,"delta":{"content":"ok"}}"#, "null");
    let end = chunk(r#"{"index":0,"delta":{},"finish_reason":"stop"}"#, "null");
    let usage = chunk("", r#"{"prompt_tokens":10,"completion_tokens":2}"#);
    let whole = || bytes(format!("{said}{end}{usage}"));
    // The connection stays open, breaks, and ends in the middle of an event.
    let server = ModelServer::start([
        whole().then(hold()),
        whole().then(cut()),
        whole().then(bytes("data: {\"id\"")),
    ]);
    let provider = chat(&server);
    for _ in 0..3 {
        let message = ask(&provider, hello()).await.unwrap();
        assert_eq!(message.text(), "ok");
        assert_eq!(message.usage.input_tokens, 10);
    }
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn no_first_byte() {
    let server = Arc::new(ModelServer::start([
        Reply::silence(),
        Reply::stream(hold()),
    ]));
    let mut config = config(&server.base_url(), WireFormat::AnthropicMessages);
    config.transport.first_byte = Duration::from_millis(300);
    let provider = provider(config);
    for index in 0..2 {
        let begun = Instant::now();
        let error = fail(&provider).await;
        assert_eq!(error.kind, ModelErrorKind::FirstByteTimeout, "{error}");
        assert!(
            error.message.ends_with("sent no byte within 0.3 s"),
            "{error}"
        );
        assert!(begun.elapsed() >= Duration::from_millis(300));
        wait_gone(&server, index).await;
    }
}

#[tokio::test]
async fn a_reply_that_falls_silent() {
    let steps: Steps = [messages::open(), messages::text_start(0), hold()].into();
    let server = Arc::new(ModelServer::start([steps]));
    let mut config = config(&server.base_url(), WireFormat::AnthropicMessages);
    config.transport.idle = Duration::from_millis(300);
    let error = fail(&provider(config)).await;
    assert_eq!(error.kind, ModelErrorKind::IdleTimeout, "{error}");
    wait_gone(&server, 0).await;
}

#[tokio::test]
async fn signs_of_life_keep_a_slow_reply_alive() {
    for sign in [bytes(": still here\n\n"), messages::ping()] {
        let slow = sign.then(pause(Duration::from_millis(500))).times(8);
        let server = ModelServer::start([slow.then(messages::say("late"))]);
        let mut config = config(&server.base_url(), WireFormat::AnthropicMessages);
        config.transport.idle = Duration::from_secs(3);
        let message = ask(&provider(config), hello()).await.unwrap();
        assert_eq!(message.text(), "late");
    }
}

#[tokio::test]
async fn signs_of_life_alone_are_no_reply() {
    for sign in [bytes(": still here\n\n"), messages::ping()] {
        // Oftener than the last look at a reply whose time is up is long.
        let endless = sign.then(pause(Duration::from_millis(10))).times(3000);
        let server = Arc::new(ModelServer::start([messages::open().then(endless)]));
        let mut config = config(&server.base_url(), WireFormat::AnthropicMessages);
        config.transport.content = Duration::from_millis(400);
        let error = fail(&provider(config)).await;
        assert_eq!(error.kind, ModelErrorKind::ContentTimeout, "{error}");
        wait_gone(&server, 0).await;
    }
}

#[tokio::test]
async fn cancelling_closes_the_socket() {
    let begun = Gate::new();
    let steps: Steps = [
        messages::open(),
        messages::text_start(0),
        open_gate(&begun),
        hold(),
    ]
    .into();
    let server = Arc::new(ModelServer::start([Reply::silence(), Reply::stream(steps)]));
    let provider = anthropic(&server);

    // While the status line is awaited.
    let cancel = CancellationToken::new();
    let call = provider.stream(hello(), cancel.clone());
    let asked = {
        let server = Arc::clone(&server);
        tokio::task::spawn_blocking(move || server.wait_for_requests(1, SOON))
    };
    let (result, ()) = tokio::join!(call, async {
        asked.await.unwrap().unwrap();
        cancel.cancel();
    });
    assert_eq!(result.err().unwrap().kind, ModelErrorKind::Cancelled);
    wait_gone(&server, 0).await;

    // In the middle of a reply.
    let cancel = CancellationToken::new();
    let mut stream = provider.stream(hello(), cancel.clone()).await.unwrap();
    stream.next().await.unwrap().unwrap();
    cancel.cancel();
    let mut last = None;
    while let Some(event) = stream.next().await {
        last = Some(event);
    }
    assert_eq!(last.unwrap().unwrap_err().kind, ModelErrorKind::Cancelled);
    wait_gone(&server, 1).await;
}

#[tokio::test]
async fn dropping_the_stream_closes_the_socket() {
    let steps: Steps = [messages::open(), messages::text_start(0), hold()].into();
    let server = Arc::new(ModelServer::start([steps]));
    let provider = anthropic(&server);
    let mut stream = provider
        .stream(hello(), CancellationToken::new())
        .await
        .unwrap();
    stream.next().await.unwrap().unwrap();
    drop(stream);
    wait_gone(&server, 0).await;
}

#[tokio::test]
async fn what_a_conversation_sends_back_is_accepted() {
    let server = ModelServer::builder()
        .replies([
            messages::open()
                .then(messages::thinking(0, "let me see", "sig_1"))
                .then(messages::text(1, " \n"))
                .then(messages::tool_use(
                    2,
                    "tu_1",
                    "bash",
                    &["{\"command\":", "\"ls\"}"],
                ))
                .then(messages::end("tool_use")),
            messages::say("done"),
        ])
        .start();
    let provider = anthropic(&server);
    let first = ask(&provider, hello()).await.unwrap();
    let results = first
        .tool_uses()
        .map(|tool_use| tooloop_model::ToolResult::text(tool_use.id.clone(), ""))
        .collect();
    let conversation = [
        Message::user("hello"),
        Message::Assistant(first),
        Message::ToolResults(results),
        Message::user("only touch src"),
    ];
    let second = ask(&provider, request("m", conversation)).await.unwrap();
    assert_eq!(second.text(), "done");
    server.assert_clean();
    assert!(server.request(1).mentions("sig_1"));
    assert!(server.request(1).mentions("(no output)"));
}

#[tokio::test]
async fn reasoning_goes_back_as_the_setting_says() {
    use tooloop_provider::ReasoningEcho;
    for field in ["reasoning_content", "reasoning"] {
        for (echo, needs) in [
            (ReasoningEcho::Auto, true),
            (ReasoningEcho::AsReceived, true),
            (ReasoningEcho::Field(field.into()), true),
            (ReasoningEcho::Never, false),
        ] {
            let builder = ModelServer::builder();
            let builder = if needs {
                builder.needs_reasoning(field)
            } else {
                builder.refuses_reasoning()
            };
            let server = builder
                .replies([
                    openai_chat::reasoning(field, "plan A")
                        .then(openai_chat::tool_delta(0, "c_1", "bash", "{}"))
                        .then(openai_chat::finish("tool_calls"))
                        .then(openai_chat::done()),
                    openai_chat::say("done"),
                ])
                .start();
            let mut config = config(&server.base_url(), WireFormat::OpenAiChat);
            config.reasoning_echo = echo.clone();
            let provider = provider(config);
            let first = ask(&provider, hello()).await.unwrap();
            assert_eq!(first.text(), "");
            // As it would come back from a journal.
            let journal = serde_json::to_string(&Message::Assistant(first)).unwrap();
            let result = tooloop_model::ToolResult::text("c_1".into(), "x");
            let conversation = [
                Message::user("hello"),
                serde_json::from_str(&journal).unwrap(),
                Message::ToolResults(vec![result]),
            ];
            let second = ask(&provider, request("m", conversation)).await;
            assert_eq!(second.unwrap().text(), "done", "{field} {echo:?}");
            server.assert_clean();
        }
    }
}
