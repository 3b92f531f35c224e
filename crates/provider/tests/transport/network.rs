//! Proxies and what the environment says. The environment of a test cannot be changed safely while
//! others run, so those tests run this very binary again, with another environment.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc;
use std::thread::JoinHandle;

use tooloop_model::ModelErrorKind;
use tooloop_provider::{Proxy, WireFormat};
use tooloop_testkit::{ModelServer, anthropic as messages};

use crate::tls::{TlsServer, fixture};
use crate::{ask, config, fail, hello, provider};

/// A proxy that answers every request in the same way, or builds the tunnel that it is asked for to
/// a port of this machine; it tells what it was asked.
struct StubProxy {
    address: SocketAddr,
    heads: mpsc::Receiver<String>,
    thread: Option<JoinHandle<()>>,
}

impl StubProxy {
    fn start(tunnel_to: Option<u16>, answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, heads) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            for socket in listener.incoming() {
                let mut socket = socket.unwrap();
                let mut lines = BufReader::new(socket.try_clone().unwrap()).lines();
                let Some(Ok(first)) = lines.next() else {
                    return;
                };
                let rest: Vec<String> = lines
                    .map_while(Result::ok)
                    .take_while(|line| !line.is_empty())
                    .collect();
                sender
                    .send(format!("{first}\n{}", rest.join("\n")))
                    .unwrap();
                socket.write_all(answer.as_bytes()).unwrap();
                if let Some(port) = tunnel_to {
                    tunnel(socket, port);
                }
            }
        });
        Self {
            address,
            heads,
            thread: Some(thread),
        }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends the proxy and says what it was asked.
    fn end(mut self) -> Vec<String> {
        drop(TcpStream::connect(self.address).unwrap());
        self.thread.take().unwrap().join().unwrap();
        self.heads.try_iter().collect()
    }
}

fn tunnel(client: TcpStream, port: u16) {
    let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let (mut from_client, mut to_server) =
        (client.try_clone().unwrap(), server.try_clone().unwrap());
    let up = std::thread::spawn(move || {
        drop(std::io::copy(&mut from_client, &mut to_server));
        drop(to_server.shutdown(std::net::Shutdown::Write));
    });
    let (mut from_server, mut to_client) = (server, client);
    drop(std::io::copy(&mut from_server, &mut to_client));
    drop(to_client.shutdown(std::net::Shutdown::Both));
    up.join().unwrap();
}

const TUNNEL: &str = "HTTP/1.1 200 Connection established\r\n\r\n";
const LOGIN: &str =
    "HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn a_proxy_sees_one_connect_and_no_request() {
    let server = TlsServer::start();
    let stub = StubProxy::start(Some(server.port()), TUNNEL);
    let mut config = config("https://model.test", WireFormat::AnthropicMessages);
    config.transport.proxy = Proxy::Url(stub.url());
    config.transport.extra_ca = Some(fixture("ca.pem"));
    let provider = provider(config);
    assert_eq!(ask(&provider, hello()).await.unwrap().text(), "safe");
    drop(provider);
    let heads = stub.end();
    assert_eq!(heads.len(), 1, "{heads:?}");
    let head = heads.concat();
    assert!(
        head.starts_with("CONNECT model.test:443 HTTP/1.1\n"),
        "{head}"
    );
    assert!(
        !head.contains("sk-test-key") && !head.contains("messages"),
        "{head}"
    );
    assert_eq!(server.end(), 1);
}

#[tokio::test]
async fn a_proxy_that_asks_for_a_login() {
    for base in ["https://model.test", "http://model.test"] {
        let stub = StubProxy::start(None, LOGIN);
        let mut config = config(base, WireFormat::AnthropicMessages);
        config.transport.proxy = Proxy::Url(stub.url());
        let error = fail(&provider(config)).await;
        assert_eq!(error.kind, ModelErrorKind::Proxy, "{base}: {error}");
        assert!(error.message.contains("login"), "{error}");
        assert_eq!(stub.end().len(), 1);
    }
}

#[tokio::test]
async fn a_proxy_setting_that_is_none() {
    let mut config = config("http://model.test", WireFormat::AnthropicMessages);
    config.transport.proxy = Proxy::Url("::".into());
    let error = fail(&provider(config)).await;
    assert_eq!(error.kind, ModelErrorKind::Proxy, "{error}");
}

/// Runs one test of this binary again, with these variables.
fn again(test: &str, variables: &[(&str, &str)]) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1");
    for name in [
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
    ] {
        command
            .env_remove(name)
            .env_remove(name.to_ascii_lowercase());
    }
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{shown}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(shown.contains("1 passed"), "{shown}");
}

const CHILD: &str = "TOOLOOP_TEST_CHILD";
const URL: &str = "TOOLOOP_TEST_URL";

/// What a test is told by the one that runs it again; nothing where it is not run again.
fn told() -> Option<String> {
    std::env::var_os(CHILD)?;
    std::env::var(URL).ok()
}

/// Not a test of its own: asks the server that it is told of.
#[tokio::test]
async fn child_asks() {
    let Some(url) = told() else { return };
    let text = ask(
        &provider(config(&url, WireFormat::AnthropicMessages)),
        hello(),
    )
    .await;
    assert_eq!(text.unwrap().text(), "safe");
}

#[test]
fn the_loopback_needs_no_proxy_and_no_certificates() {
    let server = ModelServer::start([messages::say("safe")]);
    let stub = StubProxy::start(None, LOGIN);
    // Whoever opens a pipe that nobody writes to hangs.
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("certificates");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    again(
        "network::child_asks",
        &[
            (URL, &server.base_url()),
            ("HTTP_PROXY", &stub.url()),
            ("ALL_PROXY", &stub.url()),
            ("SSL_CERT_FILE", pipe.to_str().unwrap()),
        ],
    );
    assert_eq!(stub.end(), [""; 0]);
}

#[test]
fn certificates_from_the_environment() {
    let server = TlsServer::start();
    let ca = fixture("ca.pem");
    again(
        "network::child_asks",
        &[
            (URL, &server.base_url()),
            ("SSL_CERT_FILE", ca.to_str().unwrap()),
        ],
    );
    assert_eq!(server.end(), 1);
}

#[test]
fn a_proxy_from_the_environment() {
    let server = TlsServer::start();
    let stub = StubProxy::start(Some(server.port()), TUNNEL);
    let ca = fixture("ca.pem");
    again(
        "network::child_asks",
        &[
            (URL, "https://model.test"),
            ("HTTPS_PROXY", &stub.url()),
            ("SSL_CERT_FILE", ca.to_str().unwrap()),
        ],
    );
    assert_eq!(stub.end().len(), 1);
    assert_eq!(server.end(), 1);
}

/// Not a test of its own: nothing is sent where the proxy cannot be used.
#[tokio::test]
async fn child_has_no_usable_proxy() {
    let Some(url) = told() else { return };
    let error = fail(&provider(config(&url, WireFormat::AnthropicMessages))).await;
    assert_eq!(error.kind, ModelErrorKind::Proxy, "{error}");
    assert!(error.to_string().contains("http_proxy"), "{error}");
}

#[test]
fn an_unusable_proxy_is_an_error() {
    for value in ["gopher://127.0.0.1:9", "http://p:99999"] {
        let url = "http://model.invalid";
        again(
            "network::child_has_no_usable_proxy",
            &[(URL, url), ("http_proxy", value)],
        );
    }
}

/// Not a test of its own: a host in `NO_PROXY` is asked directly, which cannot work for this one.
#[tokio::test]
async fn child_goes_around_the_proxy() {
    let Some(url) = told() else { return };
    let error = fail(&provider(config(&url, WireFormat::AnthropicMessages))).await;
    assert_eq!(error.kind, ModelErrorKind::Connection, "{error}");
}

#[test]
fn a_host_that_needs_no_proxy() {
    let stub = StubProxy::start(None, LOGIN);
    again(
        "network::child_goes_around_the_proxy",
        &[
            (URL, "http://model.invalid"),
            ("HTTP_PROXY", &stub.url()),
            ("NO_PROXY", "model.invalid"),
        ],
    );
    again(
        "network::child_goes_around_the_proxy",
        &[
            (URL, "http://api.model.invalid:8080"),
            ("http_proxy", &stub.url()),
            ("no_proxy", "other; *.model.invalid:8080"),
        ],
    );
    assert_eq!(stub.end(), [""; 0]);
}

#[tokio::test]
async fn local_servers_are_found() {
    use tooloop_provider::{LocalServer, detect_local, first_model_of};
    let server = ModelServer::builder()
        .models(&["embedder-embed", "qwen"])
        .start();
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let place = |name, port| LocalServer { name, port };
    let port = server.address().port();
    assert_eq!(
        detect_local(&[place("none", closed)])
            .await
            .map(|found| found.1),
        None
    );
    let found = detect_local(&[place("none", closed), place("here", port)]).await;
    let (found, model) = found.unwrap();
    assert_eq!((found.name.as_str(), model.as_str()), ("here", "qwen"));
    assert_eq!(found.base_url, format!("http://127.0.0.1:{port}"));
    assert_eq!(first_model_of(&found).await.as_deref(), Some("qwen"));
}
