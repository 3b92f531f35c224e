//! Answers that are no replies, and replies that break off.

use std::time::Duration;

use tooloop_model::ModelErrorKind as Kind;
use tooloop_provider::WireFormat;
use tooloop_testkit::{
    ModelServer, Reply, Step, Steps, anthropic as messages, bytes, close, cut, openai_chat, reset,
};

use crate::{anthropic, ask, chat, config, fail, hello, provider};

/// What one reply gives, of a server that speaks Messages.
async fn of(reply: impl Into<Reply>) -> tooloop_model::ModelError {
    let server = ModelServer::start([reply.into()]);
    fail(&anthropic(&server)).await
}

async fn of_chat(reply: impl Into<Reply>) -> tooloop_model::ModelError {
    let server = ModelServer::start([reply.into()]);
    fail(&chat(&server)).await
}

#[tokio::test]
async fn not_a_stream_at_all() {
    let json = [("content-type", "application/json")];
    let html = [("content-type", "text/html")];
    let events = [("content-type", "text/event-stream")];

    let error = of(Reply::http(
        200,
        &json,
        "{\"error\":{\"message\":\"no capacity\"}}",
    ))
    .await;
    assert_eq!(error.kind, Kind::Server);
    assert!(
        error.message.ends_with("answered 200: no capacity"),
        "{error}"
    );

    let error = of(Reply::http(
        200,
        &json,
        "{\"error\":{\"type\":\"authentication_error\",\"message\":\"no\"}}",
    ))
    .await;
    assert_eq!(error.kind, Kind::Auth);

    let error = of(Reply::http(200, &json, "{\"content\":[]}")).await;
    assert_eq!(error.kind, Kind::Decode);

    let error = of(Reply::http(200, &html, "<html>down</html>")).await;
    assert_eq!(error.kind, Kind::Decode);
    assert!(
        error.message.ends_with("no event stream (text/html): down"),
        "{error}"
    );

    let error = of(Reply::http(200, &events, "")).await;
    assert_eq!(error.kind, Kind::Decode);
    assert!(error.message.contains("empty body"), "{error}");

    let page = format!("<html><p>{}</p></html>", "down ".repeat(4096));
    let error = of(Reply::http(502, &html, page)).await;
    assert_eq!((error.kind, error.status), (Kind::Server, Some(502)));
    assert!(
        error.message.chars().count() < 360 && !error.message.contains('<'),
        "{error}"
    );

    let error = of(Reply::http(500, &json, "{\"error\":")).await;
    assert_eq!(error.kind, Kind::Server);

    for error in [
        of(Reply::http(200, &events, " \n")).await,
        of(Reply::http(200, &html, "<a")).await,
    ] {
        assert!(error.kind.is_retryable(), "{error}");
    }
}

#[tokio::test]
async fn replies_that_break_off() {
    let begun = || messages::open().then(messages::text_start(0));
    for (steps, kind) in [
        (begun().then(close()), Kind::CutStream),
        (begun().then(cut()), Kind::Connection),
        (begun().then(reset()), Kind::Connection),
        (messages::open().then(bytes(": x\n\n")), Kind::CutStream),
        (bytes(": only a comment\n\n"), Kind::CutStream),
        (begun().then(messages::error("overloaded_error", "Overloaded")), Kind::Overloaded),
        (begun().then(bytes("data: {\"type\":\n\n")), Kind::Decode),
        (begun().then(bytes(b"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"\xe6\x97".to_vec())), Kind::CutStream),
        (begun().then(bytes(b"data: \xe6\x97\n\n".to_vec())), Kind::Decode),
    ] {
        let shown = format!("{steps:?}");
        let error = of(Reply::stream(steps)).await;
        assert_eq!(error.kind, kind, "{error} of {shown}");
        assert!(error.message.contains("127.0.0.1:"), "{error}");
        assert!(error.kind.is_retryable());
    }
    let error = of(Reply::reset()).await;
    assert_eq!(error.kind, Kind::Connection, "{error}");
}

#[tokio::test]
async fn chat_replies_that_break_off() {
    let word = || openai_chat::content("Working on");
    for (steps, kind) in [
        (word().then(close()), Kind::CutStream),
        (openai_chat::tool_delta(0, "c_1", "bash", "{}").then(close()), Kind::CutStream),
        (word().then(openai_chat::error(502, "upstream gone")), Kind::Server),
        (word().then(bytes("event: error\ndata: {\"error\":{\"message\":\"x\",\"type\":\"invalid_request_error\",\"code\":\"context_length_exceeded\"}}\n\n")), Kind::ContextTooLong),
        (word().then(bytes("data: {\"choi\n\n")), Kind::Decode),
        (openai_chat::done(), Kind::CutStream),
    ] {
        let shown = format!("{steps:?}");
        let error = of_chat(Reply::stream(steps)).await;
        assert_eq!(error.kind, kind, "{error} of {shown}");
    }
}

#[tokio::test]
async fn how_long_the_server_asks_to_wait() {
    let limited = || messages::http_error(429, "rate_limit_error", "slow down");
    for (header, value, wait) in [
        ("retry-after", "2", Some(Duration::from_secs(2))),
        ("retry-after", "0", Some(Duration::ZERO)),
        ("retry-after", "-5", None),
        ("retry-after", "soon", None),
        (
            "retry-after",
            "99999999999",
            Some(Duration::from_secs(99_999_999_999)),
        ),
        ("retry-after-ms", "250", Some(Duration::from_millis(250))),
        ("x-other", "2", None),
    ] {
        let error = of(limited().header(header, value)).await;
        assert_eq!(error.kind, Kind::RateLimited);
        assert_eq!(error.retry_after, wait, "{header}: {value}");
    }
    let later = std::time::SystemTime::now() + Duration::from_secs(600);
    let error = of(limited().header("retry-after", &httpdate::fmt_http_date(later))).await;
    let wait = error.retry_after.unwrap();
    assert!(
        wait > Duration::from_secs(300) && wait <= Duration::from_secs(600),
        "{wait:?}"
    );
}

#[tokio::test]
async fn a_key_that_is_echoed_does_not_show() {
    let error = of(messages::http_error(
        401,
        "sk-test-key",
        "the key sk-test-key is wrong",
    ))
    .await;
    assert!(!format!("{error:?}").contains("sk-test-key"), "{error:?}");
    assert!(error.message.contains("the key [key] is wrong"), "{error}");
    let steps = messages::open().then(messages::error("api_error", "your sk-test-key failed"));
    let error = of(Reply::stream(steps)).await;
    assert!(
        error.message.contains("[key]") && !error.message.contains("sk-test-key"),
        "{error}"
    );
}

#[tokio::test]
async fn a_key_follows_no_redirect() {
    let other = ModelServer::start([messages::say("stolen")]);
    let to = format!("{}/v1/messages", other.base_url());
    let server = ModelServer::start([Reply::http(307, &[("location", &to)], "")]);
    let error = fail(&anthropic(&server)).await;
    assert_eq!((error.kind, error.status), (Kind::BadRequest, Some(307)));
    assert!(error.message.contains("redirects to 127.0.0.1"), "{error}");
    assert!(other.requests().is_empty());
}

#[tokio::test]
async fn nothing_listens() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let base = format!("http://127.0.0.1:{port}");
    let error = fail(&provider(config(&base, WireFormat::AnthropicMessages))).await;
    assert_eq!(error.kind, Kind::Connection);
    let begins = format!("cannot connect to 127.0.0.1:{port}: Connection refused");
    assert!(error.message.starts_with(&begins), "{error}");
    let nowhere = config(
        "http://no-such-host.invalid:81",
        WireFormat::AnthropicMessages,
    );
    let error = fail(&provider(nowhere)).await;
    assert_eq!(error.kind, Kind::Connection);
    assert!(error.message.contains("no-such-host.invalid:81"), "{error}");
}

#[tokio::test]
async fn no_http_at_all() {
    let server = ModelServer::start(
        [Steps::from(Step::Raw(b"SSH-2.0-x\r\n\r\n".to_vec())).then(close())].map(Reply::steps_of),
    );
    let error = fail(&anthropic(&server)).await;
    assert_eq!(error.kind, Kind::Connection, "{error}");
}

#[tokio::test]
async fn a_window_that_is_full() {
    let refused = messages::http_error(
        400,
        "invalid_request_error",
        "prompt is too long: 9 tokens > 8 maximum",
    );
    let error = of(refused).await;
    assert_eq!(error.kind, Kind::ContextTooLong);
    assert_eq!(error.code.as_deref(), Some("invalid_request_error"));
    let ok = ModelServer::start([messages::say("ok")]);
    ask(&anthropic(&ok), hello()).await.unwrap();
}
