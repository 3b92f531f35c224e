//! Certificates, against a server of our own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tooloop_model::ModelErrorKind;
use tooloop_provider::{BuildError, HttpProvider, WireFormat};

use crate::{ask, config, fail, hello, provider};

const REPLY: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"safe\"}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

pub(crate) fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/tls")
        .join(name)
}

/// A server that speaks TLS, says one thing to everyone, and counts who came.
pub(crate) struct TlsServer {
    address: SocketAddr,
    thread: Option<JoinHandle<usize>>,
}

impl TlsServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let certificate = CertificateDer::from_pem_file(fixture("server.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(fixture("server.key")).unwrap();
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(ring)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let config = Arc::new(config);
        let thread = std::thread::spawn(move || {
            let mut count = 0;
            for socket in listener.incoming() {
                let mut socket = socket.unwrap();
                let mut first = [0];
                // A connection that is closed at once ends the server.
                if socket.peek(&mut first).unwrap_or_default() == 0 {
                    return count;
                }
                count += 1;
                // A handshake that the client refuses is what some tests are about.
                drop(serve(&config, &mut socket));
            }
            count
        });
        Self {
            address,
            thread: Some(thread),
        }
    }

    pub(crate) fn base_url(&self) -> String {
        format!("https://{}", self.address)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Ends the server and says how many connections it had.
    pub(crate) fn end(mut self) -> usize {
        drop(TcpStream::connect(self.address).unwrap());
        self.thread.take().unwrap().join().unwrap()
    }
}

fn serve(config: &Arc<rustls::ServerConfig>, socket: &mut TcpStream) -> std::io::Result<()> {
    let mut tls = rustls::ServerConnection::new(Arc::clone(config)).unwrap();
    let mut stream = rustls::Stream::new(&mut tls, socket);
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        request.extend_from_slice(&byte);
    }
    let head = String::from_utf8_lossy(&request).to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.trim().parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{REPLY}",
        REPLY.len()
    );
    stream.write_all(answer.as_bytes())?;
    stream.conn.send_close_notify();
    stream.flush()
}

#[tokio::test]
async fn a_certificate_that_nobody_knows() {
    let server = TlsServer::start();
    let provider = provider(config(&server.base_url(), WireFormat::AnthropicMessages));
    let error = fail(&provider).await;
    assert_eq!(error.kind, ModelErrorKind::Certificate, "{error}");
    assert!(!error.kind.is_retryable());
    for word in ["certificate", "SSL_CERT_FILE", "extra_ca", "127.0.0.1"] {
        assert!(error.message.contains(word), "{error}");
    }
    assert!(server.end() <= 1);
}

#[tokio::test]
async fn an_authority_of_ones_own() {
    let server = TlsServer::start();
    let mut config = config(&server.base_url(), WireFormat::AnthropicMessages);
    config.transport.extra_ca = Some(fixture("ca.pem"));
    let message = ask(&provider(config), hello()).await.unwrap();
    assert_eq!(message.text(), "safe");
    assert_eq!(server.end(), 1);
}

#[test]
fn a_file_that_holds_no_certificate() {
    for name in ["server.key", "nothing.pem"] {
        let mut config = config("https://model.test", WireFormat::AnthropicMessages);
        config.transport.extra_ca = Some(fixture(name));
        let error = HttpProvider::new(config).unwrap_err();
        assert!(matches!(error, BuildError::ExtraCa { .. }), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}
