//! Pages as a model meets them, from servers of the test's own.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "shared test code may panic"
)]

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tooloop_model::{Content, JsonObject};
use tooloop_policy::{AccessEffect, Touch};
use tooloop_tool::{DynTool, Scope, ToolContext, ToolError, ToolOutput, tool};
use tooloop_tools::{Names, NamesFuture, WebFetch, WebFetchSettings};

/// A server that answers each request by its path, and keeps the requests.
struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a server says and whether it then stays silent with the connection open.
type Answers = fn(&str, u16) -> (Vec<u8>, bool);

impl Server {
    async fn new(answers: Answers) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        let task = tokio::spawn(async move {
            let mut silent = Vec::new();
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    if socket.read(&mut byte).await.unwrap_or(0) == 0 {
                        break;
                    }
                    request.extend(byte);
                }
                let request = String::from_utf8(request).unwrap();
                let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
                kept.lock().unwrap().push(request);
                let (answer, stays) = answers(&path, port);
                // Who has read enough hangs up.
                drop(socket.write_all(&answer).await);
                if stays {
                    silent.push(socket);
                }
            }
        });
        Self {
            port,
            requests,
            task,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    /// A fetcher that may talk to this server.
    fn fetcher(&self) -> Arc<dyn DynTool> {
        self.fetcher_with(|_| {})
    }

    fn fetcher_with(&self, change: impl FnOnce(&mut WebFetchSettings)) -> Arc<dyn DynTool> {
        let mut settings = WebFetchSettings {
            private_hosts: vec![format!("127.0.0.1:{}", self.port)],
            ..WebFetchSettings::default()
        };
        change(&mut settings);
        tool(WebFetch::new(settings))
            .for_session(&Scope::new())
            .unwrap()
    }
}

fn http(head: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let mut answer =
        format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n")
            .into_bytes();
    answer.extend(body);
    answer
}

fn page(content_type: &str, body: impl AsRef<[u8]>) -> (Vec<u8>, bool) {
    let head = format!("200 OK\r\ncontent-type: {content_type}");
    (http(&head, body.as_ref()), false)
}

fn sends_to(status: u16, to: &str) -> (Vec<u8>, bool) {
    (http(&format!("{status} x\r\nlocation: {to}"), b""), false)
}

async fn run(fetcher: &Arc<dyn DynTool>, input: Value) -> Result<ToolOutput, ToolError> {
    let input = JsonObject::parse(&input.to_string()).unwrap();
    fetcher.run(&input, &ToolContext::new("/")).await
}

async fn fetch(fetcher: &Arc<dyn DynTool>, url: &str) -> Result<ToolOutput, ToolError> {
    run(fetcher, json!({ "url": url })).await
}

async fn refusal(fetcher: &Arc<dyn DynTool>, url: &str) -> String {
    match fetch(fetcher, url).await {
        Err(error) => error.to_string(),
        Ok(output) => panic!("{url}: {output:?}"),
    }
}

fn text(output: &ToolOutput) -> &str {
    match output.content.first() {
        Some(Content::Text(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_page_is_told_as_markdown() {
    let server = Server::new(|_, _| {
        page(
            "text/html; charset=utf-8",
            "<title>Start</title><h1>Hello</h1><p>See <a href='b.html'>b</a>.",
        )
    })
    .await;
    let url = server.url("/docs/a.html");
    let output = fetch(&server.fetcher(), &format!("{url}#part"))
        .await
        .unwrap();
    assert!(!output.is_error);
    assert_eq!(
        text(&output),
        format!(
            "{url}\nstatus 200, text/html; charset=utf-8, 64 bytes\ntitle: Start\n\n# Hello\n\n\
             See [b]({}).",
            server.url("/docs/b.html")
        )
    );
    let request = server.requests.lock().unwrap().join("").to_lowercase();
    assert!(
        request.starts_with("get /docs/a.html http/1.1\r\n"),
        "{request}"
    );
    assert!(
        request.contains("\r\naccept: text/markdown, text/html"),
        "{request}"
    );
    assert!(request.contains("\r\nuser-agent: tooloop/"), "{request}");
    assert!(
        !request.contains("cookie") && !request.contains("referer"),
        "{request}"
    );
}

#[tokio::test]
async fn other_kinds_are_told_as_they_are() {
    let server = Server::new(|path, _| match path {
        "/json" => page("application/json", "{\"a\": [1,  2]}"),
        "/latin" => page("text/plain; charset=iso-8859-1", b"caf\xe9"),
        "/picture" => page("image/gif", b"GIF89a\x10\0\x20\0"),
        "/binary" => page("application/zip", b"PK\x03\x04"),
        _ => page("text/plain", ""),
    })
    .await;
    let fetcher = server.fetcher();
    for (path, body, is_error) in [
        ("/json", "{\"a\": [1,  2]}", false),
        ("/latin", "café", false),
        ("/empty", "(the body is empty)", false),
        (
            "/binary",
            "(not text, and not a picture that can be shown: it was not read)",
            true,
        ),
    ] {
        let output = fetch(&fetcher, &server.url(path)).await.unwrap();
        let (head, told) = text(&output).split_once("\n\n").unwrap();
        assert_eq!((told, output.is_error), (body, is_error), "{head}");
    }
    let output = fetch(&fetcher, &server.url("/picture")).await.unwrap();
    assert!(text(&output).ends_with("status 200, image/gif, 10 bytes\n"));
    let [_, Content::Image(image)] = output.content.as_slice() else {
        panic!("{output:?}");
    };
    assert_eq!(
        (image.media_type.as_str(), image.data.as_str()),
        ("image/gif", "R0lGODlhEAAgAA==")
    );
}

#[tokio::test]
async fn a_failure_is_told_with_its_beginning() {
    let server = Server::new(|path, _| match path {
        "/long" => (
            http(
                "500 x\r\ncontent-type: text/plain",
                "é".repeat(3_000).as_bytes(),
            ),
            false,
        ),
        _ => (http("404 x\r\ncontent-type: text/html", b"<h1>Gone"), false),
    })
    .await;
    let fetcher = server.fetcher();
    let output = fetch(&fetcher, &server.url("/a")).await.unwrap();
    assert!(output.is_error);
    assert!(text(&output).contains("status 404, text/html, 8 bytes\n\n# Gone"));
    let output = fetch(&fetcher, &server.url("/long")).await.unwrap();
    assert_eq!(text(&output).matches('é').count(), 2_000);
    assert!(text(&output).ends_with("\n\n(characters 0 to 2000 of 3000)"));
}

#[tokio::test]
async fn a_long_page_comes_in_pieces_and_is_fetched_once() {
    let server = Server::new(|_, _| {
        let lines: String = (0..12_000)
            .map(|number| format!("line {number}\n"))
            .collect();
        page("text/plain", lines)
    })
    .await;
    let fetcher = server.fetcher();
    let url = server.url("/");
    let mut whole = String::new();
    let mut offset = 0;
    loop {
        let output = run(&fetcher, json!({ "url": url, "offset": offset }))
            .await
            .unwrap();
        let told = text(&output);
        assert!(told.chars().count() <= 50_000);
        let (_, body) = told.split_once("\n\n").unwrap();
        let Some((body, end)) = body.rsplit_once("\n\n(characters ") else {
            whole.push_str(body);
            break;
        };
        whole.push_str(body);
        whole.push('\n');
        let next = end.rsplit_once("go on with offset ").unwrap().1;
        offset = next.trim_end_matches(')').parse().unwrap();
    }
    let expected: Vec<_> = (0..12_000).map(|number| format!("line {number}")).collect();
    assert_eq!(whole, expected.join("\n"));
    assert_eq!(server.count(), 1);

    let error = run(&fetcher, json!({ "url": url, "offset": 4_000_000 }))
        .await
        .unwrap_err();
    let words = "offset 4000000 is past the end: the page has 120890 characters";
    assert_eq!(error.to_string(), words);
    // From the start it is asked for anew; another session keeps pages of its own.
    fetch(&fetcher, &url).await.unwrap();
    assert_eq!(server.count(), 2);
    let other = fetcher.for_session(&Scope::new()).unwrap();
    run(&other, json!({ "url": url, "offset": 10 }))
        .await
        .unwrap();
    assert_eq!(server.count(), 3);
}

#[tokio::test]
async fn redirects_stay_in_their_place() {
    let server = Server::new(|path, port| match path {
        "/1" => sends_to(301, "/2"),
        "/2" => sends_to(307, &format!("http://127.0.0.1:{port}/3")),
        "/3" => page("text/plain", "here"),
        "/away" => sends_to(302, "https://other.test/x?y=1#z"),
        "/port" => sends_to(302, "http://127.0.0.1:1/"),
        "/file" => sends_to(302, "file:///etc/passwd"),
        "/login" => sends_to(302, "http://me:pw@127.0.0.1/"),
        "/none" => (http("302 x", b"nowhere"), false),
        _ => sends_to(302, &format!("{path}x")),
    })
    .await;
    let fetcher = server.fetcher();
    let output = fetch(&fetcher, &server.url("/1")).await.unwrap();
    assert!(text(&output).starts_with(&format!("{}\nstatus 200", server.url("/3"))));
    for (path, to) in [
        ("/away", "https://other.test/x?y=1"),
        ("/port", "http://127.0.0.1:1/"),
        ("/file", "\"file:///etc/passwd\""),
        ("/login", "\"http://me:pw@127.0.0.1/\""),
    ] {
        let output = fetch(&fetcher, &server.url(path)).await.unwrap();
        let expected = format!(
            "{}\nstatus 302: it sends to another place, which was not fetched:\n{to}\nIf you want \
             that, fetch it with a call of its own.",
            server.url(path)
        );
        assert_eq!((text(&output), output.is_error), (expected.as_str(), false));
    }
    let output = fetch(&fetcher, &server.url("/none")).await.unwrap();
    assert!(text(&output).contains("status 302"), "{}", text(&output));
    let before = server.count();
    let words = "127.0.0.1 sends from one address to the next more than 10 times";
    assert_eq!(refusal(&fetcher, &server.url("/r")).await, words);
    assert_eq!(server.count() - before, 11);
}

#[tokio::test]
async fn a_body_is_read_up_to_its_limit() {
    let server = Server::new(|_, _| {
        // No length, and more than anybody reads.
        let mut answer = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n".to_vec();
        answer.extend(vec![b'a'; (5 << 20) + 1]);
        (answer, true)
    })
    .await;
    let fetcher = server.fetcher();
    let output = fetch(&fetcher, &server.url("/")).await.unwrap();
    assert!(text(&output).contains("text/plain, more than 5242880 bytes"));
    let last = run(
        &fetcher,
        json!({ "url": server.url("/"), "offset": 5_242_800 }),
    )
    .await;
    let last = last.unwrap();
    assert!(
        text(&last).ends_with("(the body is larger than what is read of one: its end is missing)")
    );
}

#[tokio::test]
async fn who_says_nothing_is_not_waited_for() {
    let server = Server::new(|_, _| (Vec::new(), true)).await;
    let fetcher = server.fetcher_with(|settings| settings.time_limit = Duration::from_millis(50));
    let words = "127.0.0.1 did not answer in full within 0.05 s";
    assert_eq!(refusal(&fetcher, &server.url("/")).await, words);
    let server = Server::new(|_, _| {
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\na".to_vec(),
            true,
        )
    })
    .await;
    let fetcher = server.fetcher_with(|settings| settings.time_limit = Duration::from_millis(50));
    assert_eq!(refusal(&fetcher, &server.url("/")).await, words);
}

#[tokio::test]
async fn a_cancelled_call_ends() {
    let server = Server::new(|_, _| (Vec::new(), true)).await;
    let fetcher = server.fetcher();
    let context = ToolContext::new("/");
    let input = JsonObject::parse(&json!({ "url": server.url("/") }).to_string()).unwrap();
    let call = fetcher.run(&input, &context);
    let cancel = async {
        while server.count() == 0 {
            tokio::task::yield_now().await;
        }
        context.cancellation.cancel();
    };
    let (result, ()) = tokio::join!(call, cancel);
    assert!(matches!(result, Err(ToolError::Cancelled)), "{result:?}");
}

#[tokio::test]
async fn a_broken_connection_is_told() {
    let server = Server::new(|_, _| {
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\na".to_vec(),
            false,
        )
    })
    .await;
    let words = refusal(&server.fetcher(), &server.url("/")).await;
    let start = format!("the connection to 127.0.0.1:{} failed: ", server.port);
    assert!(words.starts_with(&start), "{words}");
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().port()
    };
    let fetcher = server.fetcher_with(|settings| settings.private_hosts = vec!["127.0.0.1".into()]);
    let words = refusal(&fetcher, &format!("http://127.0.0.1:{closed}/")).await;
    let start = format!("cannot connect to 127.0.0.1:{closed}: ");
    assert!(
        words.starts_with(&start) && words.contains("refused"),
        "{words}"
    );
}

#[tokio::test]
async fn private_places_are_refused_before_anything_is_sent() {
    let server = Server::new(|_, _| page("text/plain", "secret")).await;
    let fetcher = server.fetcher_with(|settings| settings.private_hosts.clear());
    let port = server.port;
    for host in [
        "127.0.0.1",
        "127.1",
        "0177.0.0.1",
        "0x7f.0.0.1",
        "0x7f000001",
        "2130706433",
        "127.0.0.1.",
        "１２７.0.0.1",
        "0.0.0.0",
        "0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[2002:7f00:1::]",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "[fd00:ec2::254]",
        "100.64.0.1",
        "224.0.0.1",
        "[fe80::1]",
    ] {
        let words = refusal(&fetcher, &format!("http://{host}:{port}/")).await;
        assert!(
            words.ends_with(
                "is not an address of the public internet, and only those may be fetched"
            ),
            "{host}: {words}"
        );
    }
    for host in [
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "metadata.google.internal",
    ] {
        let words = refusal(&fetcher, &format!("http://{host}:{port}/")).await;
        assert!(
            words.contains("a name of this machine or its network"),
            "{words}"
        );
    }
    assert_eq!(server.count(), 0);
}

/// Names that mean what the test says.
#[derive(Debug)]
struct Stub(&'static [&'static str], Mutex<Vec<String>>);

impl Stub {
    fn of(addresses: &'static [&'static str]) -> Arc<Self> {
        Arc::new(Self(addresses, Mutex::default()))
    }
}

impl Names for Stub {
    fn addresses(&self, name: &str) -> NamesFuture {
        self.1.lock().unwrap().push(name.to_owned());
        let found: io::Result<Vec<IpAddr>> = match self.0 {
            [] => Err(io::Error::other("no such name")),
            addresses => Ok(addresses.iter().map(|one| one.parse().unwrap()).collect()),
        };
        Box::pin(async move { found })
    }
}

#[tokio::test]
async fn a_name_is_what_it_resolves_to() {
    let server = Server::new(|_, _| page("text/plain", "secret")).await;
    let url = format!("http://docs.example:{}/", server.port);
    let private: [&'static [&'static str]; 4] = [
        &["127.0.0.1"],
        &["10.0.0.1", "fd00::1"],
        &["::ffff:127.0.0.1"],
        &["169.254.169.254"],
    ];
    for addresses in private {
        let names = Stub::of(addresses);
        let fetcher = server.fetcher_with(|settings| settings.names = names.clone());
        let first: IpAddr = addresses[0].parse().unwrap();
        let words = format!(
            "docs.example is at {first}, which is not an address of the public internet, and only \
             those may be fetched"
        );
        assert_eq!(refusal(&fetcher, &url).await, words);
        assert_eq!(*names.1.lock().unwrap(), ["docs.example"]);
    }
    let fetcher = server.fetcher_with(|settings| settings.names = Stub::of(&[]));
    let words = format!(
        "cannot connect to docs.example:{}: no such name",
        server.port
    );
    assert_eq!(refusal(&fetcher, &url).await, words);
    assert_eq!(server.count(), 0);

    // A name that the settings except, at its port alone.
    let names = Stub::of(&["127.0.0.1"]);
    let port = server.port;
    let fetcher = server.fetcher_with(|settings| {
        settings.names = names;
        settings.private_hosts = vec![format!("docs.example:{port}")];
    });
    let output = fetch(&fetcher, &url).await.unwrap();
    assert!(text(&output).ends_with("secret"));
    let other = refusal(&fetcher, "http://docs.example:1/").await;
    assert!(other.contains("is at 127.0.0.1, which"), "{other}");
}

#[tokio::test]
async fn what_is_no_url_is_refused_with_words() {
    let fetcher = tool(WebFetch::new(WebFetchSettings::default()));
    for (input, words) in [
        (json!({}), "missing field `url`"),
        (json!({ "url": 1 }), "expected a"),
        (json!({ "url": "example.com" }), "is not a URL"),
        (json!({ "url": "ftp://example.com" }), "only http and https"),
        (json!({ "url": "http://a:b@example.com" }), "holds a login"),
        (
            json!({ "url": "http://a.test", "offset": -1 }),
            "invalid value",
        ),
        (
            json!({ "url": "http://a.test", "method": "POST" }),
            "unknown field `method`",
        ),
    ] {
        let input = JsonObject::parse(&input.to_string()).unwrap();
        let error = fetcher.access(&input).unwrap_err().to_string();
        assert!(
            error.starts_with("invalid input for web_fetch: "),
            "{error}"
        );
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn access_names_the_host_as_rules_do() {
    let fetcher = tool(WebFetch::new(WebFetchSettings::default()));
    for (url, host) in [
        ("https://Docs.Example.com:8443/a", "docs.example.com"),
        ("https://docs.example.com./", "docs.example.com"),
        ("http://0x7f.1/", "127.0.0.1"),
        ("http://[::1]:80/", "[::1]"),
    ] {
        let input = JsonObject::parse(&json!({ "url": url }).to_string()).unwrap();
        let access = fetcher.access(&input).unwrap();
        assert_eq!(access.effect, AccessEffect::ReadOnly);
        assert_eq!(access.touches, [Touch::Host(host.into())]);
        let allow = tooloop_policy::Policy::default().allow_always_rules("web_fetch", &access);
        let policy = tooloop_policy::Policy {
            allow,
            ..tooloop_policy::Policy::default()
        };
        assert!(policy.decide("web_fetch", &access).is_allow(), "{url}");
    }
}

#[test]
fn what_the_model_is_told_is_short() {
    let definition = tool(WebFetch::new(WebFetchSettings::default())).definition();
    let told = definition.description.len() + definition.input_schema.get().len();
    assert!(told < 600, "{told} {}", definition.input_schema.get());
}

/// Set in the process that plays a machine behind a proxy.
const BEHIND_A_PROXY: &str = "TOOLOOP_TEST_BEHIND_A_PROXY";

/// The proxy is named by a name, which is private, and does the resolving.
#[tokio::test]
async fn behind_a_proxy_the_proxy_resolves() {
    if std::env::var_os(BEHIND_A_PROXY).is_some() {
        return fetch_behind_a_proxy().await;
    }
    let server = Server::new(|path, _| page("text/plain", format!("asked for {path}"))).await;
    let proxy = format!("http://proxy.test:{}", server.port);
    let child = tokio::task::spawn_blocking(move || {
        std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "behind_a_proxy_the_proxy_resolves"])
            .env(BEHIND_A_PROXY, "1")
            .env("HTTP_PROXY", proxy)
            .env("NO_PROXY", "direct.test")
            .env_remove("http_proxy")
            .env_remove("no_proxy")
            .env_remove("REQUEST_METHOD")
            .output()
            .unwrap()
    });
    let output = child.await.unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("1 passed"), "{told}");
    assert_eq!(server.count(), 1);
}

async fn fetch_behind_a_proxy() {
    let names = Stub::of(&["127.0.0.1"]);
    let fetcher = tool(WebFetch::new(WebFetchSettings {
        names: names.clone(),
        ..WebFetchSettings::default()
    }));
    let output = fetch(&fetcher, "http://docs.test/a").await.unwrap();
    assert!(text(&output).ends_with("asked for http://docs.test/a"));
    assert_eq!(*names.1.lock().unwrap(), ["proxy.test"]);
    for (url, words) in [
        (
            "http://169.254.169.254/",
            "169.254.169.254 is not an address",
        ),
        ("http://localhost/", "a name of this machine"),
        (
            "http://proxy.test/",
            "a name of this machine or its network",
        ),
        ("http://direct.test/", "direct.test is at 127.0.0.1, which"),
    ] {
        let refused = refusal(&fetcher, url).await;
        assert!(refused.contains(words), "{refused}");
    }
}
