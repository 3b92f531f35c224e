//! The server against a client made of a bare socket: each verb, each refusal, and its end.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use serde_json::{Value, json};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tooloop_testkit::oracle::{Rule, Violation, Window};
use tooloop_testkit::sse::{Event, Reader};
use tooloop_testkit::{
    AfterLast, Cuts, Format, Framing, Gate, Judge, ModelServer, Newline, Outcome, Reply, Wire,
    anthropic, bytes, close, cut, hold, open_gate, openai_chat, pause, reset, sse, wait_for,
};

/// A bound for waits that a working server never reaches.
const LONG: Duration = Duration::from_secs(60);
const MESSAGES: &str = "/v1/messages";
const CHAT: &str = "/v1/chat/completions";

/// An HTTP client that shows what the wire shows.
struct Client {
    socket: TcpStream,
    ahead: Vec<u8>,
}

struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
    /// The sizes of the chunks, the last apart.
    chunks: Vec<usize>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn events(&self) -> Vec<Event> {
        Reader::default().feed(&self.body)
    }
}

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        Self {
            socket,
            ahead: Vec::new(),
        }
    }

    fn to(server: &ModelServer) -> Self {
        Self::connect(server.address())
    }

    fn send(&mut self, text: &str) {
        self.socket.write_all(text.as_bytes()).unwrap();
    }

    fn post(&mut self, path: &str, body: &Value) {
        self.post_text(path, &body.to_string());
    }

    fn post_text(&mut self, path: &str, body: &str) {
        let length = body.len();
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}"
        ));
    }

    /// Reads more; false at the end of the stream.
    fn more(&mut self) -> std::io::Result<bool> {
        let mut buffer = [0; 4096];
        let count = self.socket.read(&mut buffer)?;
        self.ahead.extend_from_slice(&buffer[..count]);
        Ok(count > 0)
    }

    fn take(&mut self, count: usize) -> std::io::Result<Vec<u8>> {
        while self.ahead.len() < count {
            if !self.more()? {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.ahead.drain(..count).collect())
    }

    fn take_line(&mut self, end: &str) -> std::io::Result<String> {
        loop {
            if let Some(at) = self
                .ahead
                .windows(end.len())
                .position(|window| window == end.as_bytes())
            {
                let line = self.take(at + end.len())?;
                return Ok(String::from_utf8_lossy(&line[..at]).into_owned());
            }
            if !self.more()? {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn head(&mut self) -> std::io::Result<(u16, String)> {
        let head = self.take_line("\r\n\r\n")?.to_ascii_lowercase();
        Ok((head.split(' ').nth(1).unwrap().parse().unwrap(), head))
    }

    fn chunk(&mut self) -> std::io::Result<Vec<u8>> {
        let size = usize::from_str_radix(&self.take_line("\r\n")?, 16).unwrap();
        let chunk = self.take(size)?;
        assert_eq!(self.take(2)?, b"\r\n");
        Ok(chunk)
    }

    fn answer(&mut self) -> std::io::Result<Answer> {
        let (status, head) = self.head()?;
        let mut answer = Answer {
            status,
            head,
            body: Vec::new(),
            chunks: Vec::new(),
        };
        if answer.head.contains("transfer-encoding: chunked") {
            loop {
                let chunk = self.chunk()?;
                if chunk.is_empty() {
                    return Ok(answer);
                }
                answer.chunks.push(chunk.len());
                answer.body.extend(chunk);
            }
        }
        match answer.head.split("content-length: ").nth(1) {
            Some(rest) => {
                let length = rest.split("\r\n").next().unwrap().parse().unwrap();
                answer.body = self.take(length)?;
            }
            None => {
                while self.more()? {}
                answer.body = std::mem::take(&mut self.ahead);
            }
        }
        Ok(answer)
    }

    fn ask(&mut self, path: &str, body: &Value) -> Answer {
        self.post(path, body);
        self.answer().unwrap()
    }

    fn get(&mut self, path: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
        self.answer().unwrap()
    }

    /// Reads to the end of the connection and says how it ended.
    fn end(&mut self) -> Option<ErrorKind> {
        loop {
            match self.more() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(error.kind()),
            }
        }
    }
}

fn ask(server: &ModelServer, path: &str, body: &Value) -> Answer {
    Client::to(server).ask(path, body)
}

fn messages(messages: Value) -> Value {
    json!({"model": "m", "max_tokens": 100, "stream": true, "messages": messages})
}

fn hello() -> Value {
    messages(json!([{"role": "user", "content": "hello"}]))
}

/// The texts of a stream of Messages, joined.
fn said(answer: &Answer) -> String {
    answer
        .events()
        .iter()
        .filter_map(|event| {
            serde_json::from_str::<Value>(&event.data).ok()?["delta"]["text"]
                .as_str()
                .map(str::to_owned)
        })
        .collect()
}

#[test]
fn replies_come_in_order_over_one_connection_and_requests_are_kept() {
    let server = ModelServer::start([anthropic::say("one"), openai_chat::say("two")]);
    let mut client = Client::to(&server);
    let first = client.ask("/v1/messages?beta=true", &hello());
    assert_eq!((first.status, said(&first).as_str()), (200, "one"));
    assert!(first.head.contains("content-type: text/event-stream"));
    let names: Vec<_> = first.events().into_iter().map(|event| event.name).collect();
    assert_eq!(
        names,
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
    let second = client.ask("/chat/completions", &hello());
    assert_eq!(second.events().last().unwrap().data, "[DONE]");

    server.wait_for_requests(2, LONG).unwrap();
    server.assert_clean();
    assert_eq!((server.connections(), server.replies_left()), (1, 0));
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    let request = &requests[0];
    assert_eq!(
        (request.index, request.connection, request.method.as_str()),
        (0, 1, "POST")
    );
    assert_eq!(
        (request.path.as_str(), request.query.as_str()),
        (MESSAGES, "beta=true")
    );
    assert_eq!(request.header("Host"), Some("x"));
    assert_eq!(*request.body, hello());
    assert_eq!(*request.raw, *hello().to_string().as_bytes());
    assert_eq!(request.format, Format::AnthropicMessages);
    assert_eq!(requests[1].format, Format::OpenAiChat);
    assert!(requests[0].arrived < requests[1].arrived);
    let exchange = &server.exchanges()[0];
    assert!(exchange.head_sent.unwrap() >= request.arrived);
    assert_eq!(exchange.ended.unwrap().0, Outcome::Completed);
}

#[test]
fn the_number_of_the_request_stands_in_for_ids() {
    let server = ModelServer::builder()
        .replies([anthropic::call("tu_{#n}", "bash", "{}")])
        .after_last(AfterLast::Repeat)
        .start();
    for number in 1..=3 {
        let events = ask(&server, MESSAGES, &hello()).events();
        assert!(
            events[0].data.contains(&format!("\"msg_{number}\"")),
            "{}",
            events[0].data
        );
        assert!(
            events[1].data.contains(&format!("\"tu_{number}\"")),
            "{}",
            events[1].data
        );
    }
}

#[test]
fn writes_are_cut_as_said() {
    let text = "Qué 日本 👩‍👩‍👧 fin";
    let whole = ask(
        &ModelServer::start([anthropic::say(text)]),
        MESSAGES,
        &hello(),
    );
    assert_eq!(whole.chunks.len(), 6, "one write a step");
    for (cuts, count) in [
        (Cuts::Nowhere, 1),
        (Cuts::Every(1), whole.body.len()),
        (Cuts::At(vec![3, 10, whole.body.len() + 5]), 3),
        (
            Cuts::InsideChars,
            1 + text.bytes().filter(|byte| byte & 0xC0 == 0x80).count(),
        ),
    ] {
        let wire = Wire::default().cuts(cuts.clone());
        let answer = ask(
            &ModelServer::start([Reply::stream(anthropic::say(text)).wire(wire)]),
            MESSAGES,
            &hello(),
        );
        assert_eq!(answer.chunks.len(), count, "{cuts:?}");
        assert_eq!(answer.body, whole.body, "{cuts:?}");
        assert_eq!(said(&answer), text);
    }
}

#[test]
fn every_legal_spelling_says_the_same() {
    let wires = [
        Wire::default()
            .newline(Newline::CrLf)
            .cuts(Cuts::InsideCrLf),
        Wire::default().newline(Newline::Cr),
        Wire::default().no_space(),
        Wire::default().byte_order_mark(),
        Wire::default().split_data(),
    ];
    let server = ModelServer::start(wires.map(|wire| {
        Reply::stream(anthropic::say("plain"))
            .interleave(anthropic::noise())
            .wire(wire)
    }));
    let mut client = Client::to(&server);
    let plain = ask(
        &ModelServer::start([anthropic::say("plain")]),
        MESSAGES,
        &hello(),
    );
    let mut bodies = Vec::new();
    for number in 1..=5 {
        let answer = client.ask(MESSAGES, &hello());
        assert_eq!(said(&answer), "plain");
        let kept: Vec<_> = answer
            .events()
            .into_iter()
            .filter(|event| !matches!(event.name.as_str(), "ping" | "shiny_new"))
            .map(|event| serde_json::from_str::<Value>(&event.data).unwrap())
            .collect();
        let expected: Vec<Value> = plain
            .events()
            .iter()
            .map(|event| {
                serde_json::from_str(&event.data.replace("msg_1", &format!("msg_{number}")))
                    .unwrap()
            })
            .collect();
        assert_eq!(kept, expected);
        assert!(answer.events().len() > expected.len());
        bodies.push(answer.body);
    }
    assert!(bodies[0].windows(2).any(|pair| pair == b"\r\n"));
    assert!(!bodies[1].contains(&b'\n'));
    assert!(bodies[3].starts_with(b"\xef\xbb\xbf"));
}

#[test]
fn an_orderly_end_leaves_the_connection_open() {
    let server = ModelServer::start([
        anthropic::open()
            .then(close())
            .then(anthropic::message_stop()),
        anthropic::say("next"),
    ]);
    let mut client = Client::to(&server);
    assert_eq!(
        client.ask(MESSAGES, &hello()).events().len(),
        1,
        "nothing after the end"
    );
    assert_eq!(said(&client.ask(MESSAGES, &hello())), "next");
    assert_eq!(server.connections(), 1);
}

#[test]
fn cuts_and_resets() {
    let server = ModelServer::start([
        Reply::stream([anthropic::open(), cut()]),
        Reply::stream([anthropic::open(), reset()]),
        Reply::reset(),
        Reply::steps_of(cut()),
    ]);
    let ends = [
        (true, None),
        (true, Some(ErrorKind::ConnectionReset)),
        (false, Some(ErrorKind::ConnectionReset)),
        (false, None),
    ];
    for (index, (begins, end)) in ends.into_iter().enumerate() {
        let mut client = Client::to(&server);
        client.post(MESSAGES, &hello());
        if begins {
            assert_eq!(client.head().unwrap().0, 200);
            assert!(client.chunk().unwrap().starts_with(b"event: message_start"));
        }
        assert_eq!(client.end(), end, "{index}");
        assert_eq!(client.ahead, b"");
        let outcome = if end.is_some() {
            Outcome::Reset
        } else {
            Outcome::Cut
        };
        assert_eq!(server.wait_ended(index, LONG), Ok(outcome));
    }
}

#[test]
fn a_client_that_goes_away_is_noticed_in_every_wait() {
    let gate = Gate::new();
    let endless = anthropic::text_delta(0, &"x".repeat(1 << 20)).times(64);
    let server = ModelServer::start([
        Reply::stream([anthropic::open(), hold()]),
        Reply::silence(),
        Reply::stream([anthropic::open(), wait_for(&gate)]),
        Reply::stream([anthropic::open(), pause(LONG)]),
        Reply::stream([anthropic::open(), endless]),
    ]);
    for index in 0..5 {
        let mut client = Client::to(&server);
        client.post(MESSAGES, &hello());
        server.wait_for_requests(index + 1, LONG).unwrap();
        if index != 1 {
            assert_eq!(client.head().unwrap().0, 200);
        }
        assert!(server.wait_client_gone(index, Duration::ZERO).is_err());
        drop(client);
        server.wait_client_gone(index, LONG).unwrap();
    }
    let mut client = Client::to(&server);
    assert_eq!(client.ask(MESSAGES, &hello()).status, 400);
    let error = server.wait_client_gone(5, LONG).unwrap_err();
    assert!(
        error.to_string().contains("its answer ended: Completed"),
        "{error}"
    );
}

#[test]
fn a_test_and_a_reply_take_turns_at_gates() {
    let (go, reached) = (Gate::new(), Gate::new());
    let server = ModelServer::start([Reply::stream([
        anthropic::open(),
        anthropic::text_start(0),
        open_gate(&reached),
        wait_for(&go),
        anthropic::text_delta(0, "late"),
    ])]);
    let mut client = Client::to(&server);
    client.post(MESSAGES, &hello());
    assert!(reached.wait(LONG));
    client.head().unwrap();
    client.chunk().unwrap();
    client.chunk().unwrap();
    client
        .socket
        .set_read_timeout(Some(Duration::from_millis(30)))
        .unwrap();
    assert!(
        client.more().is_err(),
        "nothing comes while the gate is closed"
    );
    client.socket.set_read_timeout(Some(LONG)).unwrap();
    go.open();
    assert!(
        String::from_utf8(client.chunk().unwrap())
            .unwrap()
            .contains("late")
    );
    assert_eq!(client.chunk().unwrap(), b"");
}

#[test]
fn heads_can_be_late_and_comments_keep_a_stream_alive() {
    let gate = Gate::new();
    let ticks = sse::comment("tick")
        .then(pause(Duration::from_millis(1)))
        .times(3);
    let server = ModelServer::start([
        Reply::stream(anthropic::say("x")).before_head(wait_for(&gate)),
        Reply::stream([ticks, anthropic::say("late")]),
    ]);
    let mut client = Client::to(&server);
    client.post(MESSAGES, &hello());
    server.wait_for_requests(1, LONG).unwrap();
    assert_eq!(server.exchanges()[0].head_sent, None);
    gate.open();
    assert_eq!(said(&client.answer().unwrap()), "x");
    let answer = client.ask(MESSAGES, &hello());
    assert!(
        answer
            .body
            .starts_with(b": tick\n\n: tick\n\n: tick\n\nevent:")
    );
    assert_eq!(said(&answer), "late");
}

#[test]
fn a_pause_lasts() {
    let length = Duration::from_millis(50);
    let server =
        ModelServer::start([Reply::stream(anthropic::say("x")).before_head(pause(length))]);
    ask(&server, MESSAGES, &hello());
    let exchange = &server.exchanges()[0];
    assert!(exchange.head_sent.unwrap() - exchange.request.arrived >= length);
}

#[test]
fn plain_answers() {
    let server = ModelServer::start([
        Reply::http(502, &[("content-type", "text/html")], "<html>down</html>")
            .header("retry-after", "2"),
        anthropic::http_error(529, "overloaded_error", "busy"),
        Reply::http(200, &[("content-type", "text/event-stream")], ""),
        Reply::http(500, &[("content-type", "application/json")], "{\"error\":"),
        Reply::json(
            200,
            &anthropic::message(&json!([{"type": "text", "text": "hi"}]), "end_turn"),
        ),
    ]);
    let mut client = Client::to(&server);
    let down = client.ask(MESSAGES, &hello());
    assert_eq!(
        (down.status, down.body.as_slice()),
        (502, b"<html>down</html>".as_slice())
    );
    assert!(down.head.contains("\r\nretry-after: 2\r\n"));
    let busy = client.ask(MESSAGES, &hello());
    assert_eq!(
        busy.json(),
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}})
    );
    assert!(busy.head.starts_with("http/1.1 529 overloaded"));
    assert_eq!(client.ask(MESSAGES, &hello()).body, b"");
    assert_eq!(client.ask(MESSAGES, &hello()).body, b"{\"error\":");
    assert_eq!(
        client.ask(MESSAGES, &hello()).json()["content"][0]["text"],
        "hi"
    );
    assert_eq!(server.connections(), 1);
}

#[test]
fn other_framings() {
    let server = ModelServer::start([
        Reply::stream(anthropic::say("x")).framing(Framing::UntilClose),
        Reply::http(200, &[], "short").framing(Framing::Length(100)),
        Reply::steps_of([
            tooloop_testkit::Step::Raw(b"HTTP/1.1 banana\r\n\r\n".to_vec()).into(),
            bytes("body"),
        ]),
    ]);
    let first = ask(&server, MESSAGES, &hello());
    assert!(first.head.contains("connection: close") && !first.head.contains("chunked"));
    assert_eq!(said(&first), "x");
    let mut client = Client::to(&server);
    client.post(MESSAGES, &hello());
    assert_eq!(
        client.answer().err().map(|error| error.kind()),
        Some(ErrorKind::UnexpectedEof)
    );
    let mut client = Client::to(&server);
    client.post(MESSAGES, &hello());
    assert_eq!(client.end(), None);
    assert_eq!(client.ahead, b"HTTP/1.1 banana\r\n\r\nbody");
}

#[test]
fn refusals_have_the_shape_of_the_format_and_take_no_reply() {
    let server = ModelServer::start([anthropic::say("ok")]);
    let bad = messages(json!([{"role": "user", "content": ""}]));
    let mut client = Client::to(&server);
    let refused = client.ask(MESSAGES, &bad);
    assert_eq!(refused.status, 400);
    assert_eq!(
        refused.json(),
        json!({"type": "error", "error": {"type": "invalid_request_error",
            "message": "V3 at messages[0].content: the message has no content"}})
    );
    let refused = client.ask(CHAT, &bad);
    assert_eq!(
        refused.json(),
        json!({"error": {"message": "V3 at messages[0].content: the text is blank",
            "type": "invalid_request_error", "param": null, "code": null}})
    );
    client.post_text(MESSAGES, "{\"a\":\"\\ud83d\"}");
    assert_eq!(client.answer().unwrap().status, 400);
    let rules: Vec<_> = server
        .violations()
        .into_iter()
        .map(|(index, violation)| (index, violation.rule))
        .collect();
    assert_eq!(
        rules,
        [(0, Rule::Blank), (1, Rule::Blank), (2, Rule::Encoding)]
    );
    assert_eq!(server.replies_left(), 1);
    assert_eq!(said(&client.ask(MESSAGES, &hello())), "ok");

    let panic = std::panic::catch_unwind(|| server.assert_clean()).unwrap_err();
    let words = panic.downcast_ref::<String>().unwrap();
    assert!(
        words.contains("model request 0 (POST /v1/messages) breaks the rules:\n  V3 at"),
        "{words}"
    );
    assert!(words.contains("body: {\"model\""), "{words}");
    server.assert_clean_except(&[Rule::Blank, Rule::Encoding]);
    assert_eq!(server.report(&[Rule::Blank]).lines().count(), 3);
}

#[test]
fn a_judge_that_only_records_or_does_not_look() {
    for (judge, violations) in [(Judge::Record, 2), (Judge::Off, 0)] {
        let server = ModelServer::builder()
            .replies([anthropic::say("ok"), anthropic::say("ok")])
            .judge(judge)
            .start();
        assert_eq!(
            said(&ask(
                &server,
                MESSAGES,
                &messages(json!([{"role": "user", "content": ""}]))
            )),
            "ok"
        );
        let mut client = Client::to(&server);
        client.post_text(MESSAGES, "nonsense");
        assert_eq!(said(&client.answer().unwrap()), "ok");
        assert_eq!(server.violations().len(), violations);
        assert_eq!(*server.request(1).body, Value::Null);
    }
}

#[test]
fn a_window_refuses_what_is_too_long_whoever_judges() {
    for judge in [Judge::Refuse, Judge::Off] {
        let server = ModelServer::builder()
            .replies([anthropic::say("ok")])
            .judge(judge)
            .window(Window {
                tokens: 1_000,
                bytes_per_token: 2.0,
            })
            .start();
        let long = messages(json!([{"role": "user", "content": "x".repeat(3_000)}]));
        let refused = ask(&server, MESSAGES, &long);
        assert_eq!(refused.status, 400);
        let words = refused.json()["error"]["message"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(
            words.starts_with("prompt is too long: ") && words.ends_with("> 1000 maximum"),
            "{words}"
        );
        assert_eq!(
            ask(&server, CHAT, &long).json()["error"]["code"],
            "context_length_exceeded"
        );
        assert_eq!(said(&ask(&server, MESSAGES, &hello())), "ok");
        server.assert_clean_except(&[Rule::Window]);
        assert_eq!(server.violations().len(), 2);
    }
}

#[test]
fn thinking_is_held_against_what_was_sent() {
    let turn = || {
        Reply::stream([
            anthropic::open(),
            anthropic::thinking(0, "plan", "sig1"),
            anthropic::tool_use(1, "tu_1", "bash", &["{}"]),
            anthropic::end("tool_use"),
        ])
    };
    let next = |thinking: &str| {
        messages(json!([
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": thinking, "signature": "sig1"},
                {"type": "tool_use", "id": "tu_1", "name": "bash", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "tu_1", "content": "x"}]}]))
    };
    let server = ModelServer::start([turn(), anthropic::say("ok").into()]);
    assert_eq!(
        ask(&server, MESSAGES, &next("plan")).status,
        400,
        "it was not sent yet"
    );
    ask(&server, MESSAGES, &hello());
    assert_eq!(ask(&server, MESSAGES, &next("plans")).status, 400);
    assert_eq!(ask(&server, MESSAGES, &next("plan")).status, 200);

    let later = ModelServer::builder()
        .replies([anthropic::say("ok")])
        .sent_before(server.sent())
        .start();
    assert_eq!(ask(&later, MESSAGES, &next("plan")).status, 200);
    let careless = ModelServer::builder()
        .replies([anthropic::say("ok")])
        .forget_thinking()
        .start();
    assert_eq!(ask(&careless, MESSAGES, &next("anything")).status, 200);
}

#[test]
fn reasoning_profiles() {
    let turn = || {
        Reply::stream([
            openai_chat::reasoning("reasoning_content", "plan A"),
            openai_chat::tool_delta(0, "c_1", "bash", "{}"),
            openai_chat::finish("tool_calls"),
            openai_chat::done(),
        ])
    };
    let next = |with: bool| {
        let mut message = json!({"role": "assistant", "content": null, "tool_calls":
            [{"id": "c_1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}]});
        if with {
            message["reasoning_content"] = "plan A".into();
        }
        messages(json!([{"role": "user", "content": "go"}, message,
            {"role": "tool", "tool_call_id": "c_1", "content": "x"}]))
    };
    let needs = ModelServer::builder().needs_reasoning("reasoning_content");
    let refuses = ModelServer::builder().refuses_reasoning();
    for (builder, good) in [(needs, true), (refuses, false)] {
        let server = builder
            .replies([turn(), openai_chat::say("ok").into()])
            .start();
        ask(&server, CHAT, &hello());
        assert_eq!(ask(&server, CHAT, &next(!good)).status, 400);
        assert_eq!(ask(&server, CHAT, &next(good)).status, 200);
        assert_eq!(server.violations()[0].1.rule, Rule::Profile);
    }
}

#[test]
fn checks_of_the_test() {
    let server = ModelServer::builder()
        .replies([anthropic::say("ok")])
        .check(|request, _| match request.header("x-api-key") {
            Some("k") => Vec::new(),
            _ => vec![Violation::new(Rule::Profile, "", "no key")],
        })
        .start();
    let refused = ask(&server, MESSAGES, &hello());
    assert_eq!(
        (refused.status, refused.json()["error"]["message"].as_str()),
        (400, Some("profile: no key"))
    );
    let mut client = Client::to(&server);
    let body = hello().to_string();
    client.send(&format!(
        "POST {MESSAGES} HTTP/1.1\r\nX-Api-Key: k\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ));
    assert_eq!(client.answer().unwrap().status, 200);
}

#[test]
fn replies_chosen_by_the_request() {
    let server = ModelServer::start_with(|request| {
        assert!(request.index < 2, "asked too often");
        request
            .format
            .say(&format!("{} messages", request.messages().len()))
            .into()
    });
    assert_eq!(said(&ask(&server, MESSAGES, &hello())), "1 messages");
    let chat = ask(&server, CHAT, &hello());
    assert!(chat.events()[0].data.contains("1 messages"));
    assert_eq!(ask(&server, MESSAGES, &hello()).status, 400);
    let (index, violation) = server.violations().remove(0);
    assert_eq!((index, violation.rule), (2, Rule::Script));
}

#[test]
fn what_comes_after_the_last_reply() {
    let start = |after_last| {
        ModelServer::builder()
            .replies([anthropic::say("one")])
            .after_last(after_last)
            .start()
    };
    let server = start(AfterLast::Refuse);
    ask(&server, MESSAGES, &hello());
    server.assert_clean();
    assert_eq!(ask(&server, MESSAGES, &hello()).status, 400);
    assert_eq!(
        server.violations(),
        [(
            1,
            Violation::new(
                Rule::Script,
                "",
                "the script has no reply left for model request 1"
            )
        )]
    );
    for (after_last, status, text) in [
        (AfterLast::Repeat, 200, "one"),
        (AfterLast::Say("All done.".into()), 200, "All done."),
        (AfterLast::Error(500), 500, ""),
    ] {
        let server = start(after_last);
        ask(&server, MESSAGES, &hello());
        for _ in 0..2 {
            let answer = ask(&server, MESSAGES, &hello());
            assert_eq!((answer.status, said(&answer).as_str()), (status, text));
        }
        server.assert_clean();
    }
}

#[test]
fn probes_are_answered_and_kept_apart() {
    let server = ModelServer::builder()
        .replies([anthropic::say("ok")])
        .models(&["small", "large"])
        .route(
            "GET",
            "/api/version",
            Reply::json(200, &json!({"version": "1"})),
        )
        .start();
    let mut client = Client::to(&server);
    let list = client.get("/v1/models").json();
    assert_eq!(list["data"][1]["id"], "large");
    assert_eq!(client.get("/api/version").json()["version"], "1");
    assert_eq!(client.get("/api/tags").status, 404);
    assert!(
        client.ask("/v1/messages/count_tokens", &hello()).json()["input_tokens"]
            .as_u64()
            .unwrap()
            > 10
    );
    client.send("HEAD /v1/models HTTP/1.1\r\n\r\n");
    assert_eq!(client.head().unwrap().0, 200);
    assert_eq!(
        said(&client.ask(MESSAGES, &hello())),
        "ok",
        "a head has no body"
    );
    assert_eq!(
        (server.requests().len(), server.other_requests().len()),
        (1, 5)
    );
    assert_eq!(server.other_requests()[2].path, "/api/tags");
    assert_eq!(
        ask(&server, "/v1/responses", &json!({})).status,
        400,
        "a model request of an unknown format"
    );
    assert_eq!(server.request(1).format, Format::Other);
}

#[test]
fn requests_in_chunks_in_pieces_and_with_leave() {
    let server = ModelServer::builder()
        .after_last(AfterLast::Say("ok".into()))
        .start();
    let body = hello().to_string();
    let mut client = Client::to(&server);
    client.send(&format!(
        "POST {MESSAGES} HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
    ));
    for piece in body.as_bytes().chunks(10) {
        client.send(&format!(
            "{:x}\r\n{}\r\n",
            piece.len(),
            std::str::from_utf8(piece).unwrap()
        ));
    }
    client.send("0\r\n\r\n");
    assert_eq!(client.answer().unwrap().status, 200);
    let length = body.len();
    client.send(&format!(
        "POST {MESSAGES} HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
    ));
    assert_eq!(client.head().unwrap().0, 100);
    client.send(&body);
    assert_eq!(client.answer().unwrap().status, 200);
    client.send(&format!(
        "POST {MESSAGES} HTTP/1.1\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    ));
    assert!(client.answer().unwrap().head.contains("connection: close"));
    assert_eq!(client.end(), None);
    let mut client = Client::to(&server);
    client.send("what?\r\n\r\n");
    assert_eq!(client.answer().unwrap().status, 400);
    assert_eq!(
        server
            .requests()
            .iter()
            .filter(|request| *request.body == hello())
            .count(),
        3
    );
}

#[test]
fn many_clients_at_once() {
    let server = ModelServer::builder()
        .after_last(AfterLast::Say("ok".into()))
        .start();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = Client::to(&server);
                for _ in 0..10 {
                    assert_eq!(said(&client.ask(MESSAGES, &hello())), "ok");
                }
            });
        }
    });
    let indices: Vec<_> = server
        .requests()
        .iter()
        .map(|request| request.index)
        .collect();
    assert_eq!(indices, (0..80).collect::<Vec<_>>());
    assert_eq!(server.connections(), 8);
    server.assert_clean();
}

#[test]
fn dropping_the_server_ends_all_that_waits() {
    let gate = Gate::new();
    let endless = anthropic::text_delta(0, &"x".repeat(1 << 20)).times(64);
    let server = ModelServer::start([
        Reply::silence(),
        Reply::stream([anthropic::open(), hold()]),
        Reply::stream([anthropic::open(), wait_for(&gate)]),
        Reply::stream([anthropic::open(), pause(LONG * 10)]),
        Reply::stream([anthropic::open(), endless]),
    ]);
    let address = server.address();
    let mut clients: Vec<_> = (0..6).map(|_| Client::connect(address)).collect();
    for client in clients.iter_mut().take(5) {
        client.post(MESSAGES, &hello());
    }
    clients[5].send("POST /v1/mess");
    server.wait_for_requests(5, LONG).unwrap();
    let start = Instant::now();
    drop(server);
    assert!(start.elapsed() < LONG, "the end waits for nothing");
    for mut client in clients {
        // Unread bytes may turn the end into a reset.
        assert!(matches!(
            client.end(),
            None | Some(ErrorKind::ConnectionReset)
        ));
    }
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn waits_say_what_they_saw() {
    let server = ModelServer::start([anthropic::say("ok")]);
    ask(&server, MESSAGES, &hello());
    let error = server
        .wait_for_requests(2, Duration::from_millis(10))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("waited 10 ms for 2 model requests; seen: 1 model requests; 0: "),
        "{error}"
    );
    let panic = std::panic::catch_unwind(|| server.request(7))
        .err()
        .unwrap();
    assert!(
        panic
            .downcast_ref::<String>()
            .unwrap()
            .contains("no model request 7")
    );
}
