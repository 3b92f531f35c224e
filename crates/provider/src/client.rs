//! One HTTP client for a whole run.
//!
//! Root certificates are read only where they are needed: never for `http://`, and for `https://`
//! when the first call is made.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::task::{Context, Poll};
use std::time::Duration;

use reqwest::{Certificate, Client, ClientBuilder, Request, Response, Url};
use tooloop_model::{ModelError, ModelErrorKind, ProxySettings};
use tower_layer::Layer;
use tower_service::Service;

use crate::config::{Proxy, TransportConfig};
use crate::endpoint;
use crate::http::BuildError;
use crate::words;

/// How long a connection without use is kept. Tools may run for minutes between two calls.
const KEEP_IDLE: Duration = Duration::from_secs(600);
/// How often a silent connection is probed, so that a dead one is found.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

const AGENT: &str = concat!("tooloop/", env!("CARGO_PKG_VERSION"));

/// Certificates from a file, checked to be some.
pub(crate) fn read_certificates(path: &Path) -> Result<Vec<Certificate>, BuildError> {
    let refuse = |reason: String| BuildError::ExtraCa {
        path: PathBuf::from(path),
        reason,
    };
    let bytes = std::fs::read(path).map_err(|error| refuse(error.to_string()))?;
    let certificates =
        Certificate::from_pem_bundle(&bytes).map_err(|error| refuse(root_cause(&error)))?;
    if certificates.is_empty() {
        return Err(refuse("there is no certificate in it".into()));
    }
    Ok(certificates)
}

/// A client that knows how often it has connected.
#[derive(Debug, Clone)]
pub(crate) struct PooledClient {
    client: Client,
    connects: Connects,
}

impl PooledClient {
    /// Sends a request, and sends it again, once, if the connection turns out to have been closed
    /// by the server since its last use. Many servers close a connection after so many seconds, and
    /// nobody can tell before something is sent; no part of an answer has come then.
    pub(crate) async fn send(&self, request: Request) -> Result<Response, reqwest::Error> {
        let again = request.try_clone();
        let before = self.connects.count();
        let error = match self.client.execute(request).await {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        let was_kept = self.connects.count() == before;
        match again {
            Some(again) if was_kept && is_closed(&error) => {
                tracing::debug!("the kept connection was closed: sent again on a new one");
                self.client.execute(again).await
            }
            _ => Err(error),
        }
    }

    /// The client itself.
    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }
}

/// Whether a connection was closed or reset.
fn is_closed(error: &reqwest::Error) -> bool {
    use std::io::ErrorKind;
    if error.is_timeout() || error.is_connect() || error.is_builder() {
        return false;
    }
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            return matches!(
                error.kind(),
                ErrorKind::ConnectionReset
                    | ErrorKind::BrokenPipe
                    | ErrorKind::ConnectionAborted
                    | ErrorKind::UnexpectedEof
                    | ErrorKind::NotConnected
            );
        }
        next = error.source();
    }
    // The client's own word for an end of the stream where an answer should begin.
    root_cause(error).contains("closed before message completed")
}

/// Counts connections.
#[derive(Debug, Clone, Default)]
struct Connects(Arc<AtomicU64>);

impl Connects {
    fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl<S> Layer<S> for Connects {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted {
            inner,
            connects: self.clone(),
        }
    }
}

/// A connector whose connections are counted.
#[derive(Debug, Clone)]
struct Counted<S> {
    inner: S,
    connects: Connects,
}

impl<S: Service<R>, R> Service<R> for Counted<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, destination: R) -> S::Future {
        self.connects.0.fetch_add(1, Ordering::SeqCst);
        self.inner.call(destination)
    }
}

/// Builds the client for calls to `url`.
pub(crate) fn build(
    url: &Url,
    config: &TransportConfig,
    extra: &[Certificate],
) -> Result<PooledClient, ModelError> {
    let connects = Connects::default();
    let builder = Client::builder()
        .user_agent(AGENT)
        // A key must never follow a redirect to another host.
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        // Compression would hold events back.
        .gzip(false)
        .tcp_nodelay(true)
        .tcp_keepalive(KEEP_ALIVE)
        .pool_idle_timeout(KEEP_IDLE)
        .connector_layer(connects.clone())
        .retry(reqwest::retry::never());
    let proxy = proxy_address(url, &config.proxy)?;
    let builder = through(builder, proxy.as_deref())?;
    // The way to a plain server needs certificates if the proxy does.
    let has_tls = proxy.is_some_and(|address| address.starts_with("https"));
    let builder = if url.scheme() == "https" || has_tls {
        install_crypto();
        builder.tls_certs_merge(extra.iter().cloned())
    } else {
        builder.http1_only().tls_backend_preconfigured(no_tls()?)
    };
    let client = builder.build().map_err(|error| {
        let cause = root_cause(&error);
        if cause.contains("CA certificates") {
            certificate_error(url, &cause)
        } else {
            ModelError::new(
                ModelErrorKind::BadRequest,
                format!("the HTTP client cannot be built: {cause}"),
            )
        }
    })?;
    Ok(PooledClient { client, connects })
}

/// The address of the proxy for calls to `url`; `None` if they go there directly.
fn proxy_address(url: &Url, proxy: &Proxy) -> Result<Option<String>, ModelError> {
    match proxy {
        Proxy::Direct => Ok(None),
        Proxy::Url(address) => Ok(Some(address.clone())),
        Proxy::Environment => {
            let settings = ProxySettings::from_environment(|name| {
                std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
            });
            let host = url.host_str().unwrap_or_default();
            let port = url.port_or_known_default().unwrap_or_default();
            let found = settings.proxy_for(url.scheme(), host, port);
            found
                .map(|address| address.map(str::to_owned))
                .map_err(|error| ModelError::new(ModelErrorKind::Proxy, error.to_string()))
        }
    }
}

/// Sends calls through this proxy, or directly. The client itself reads no variable.
fn through(builder: ClientBuilder, address: Option<&str>) -> Result<ClientBuilder, ModelError> {
    let builder = builder.no_proxy();
    let Some(address) = address else {
        return Ok(builder);
    };
    match reqwest::Proxy::all(address) {
        Ok(proxy) => Ok(builder.proxy(proxy)),
        Err(error) => Err(ModelError::new(
            ModelErrorKind::Proxy,
            format!("the proxy setting is not usable: {}", root_cause(&error)),
        )),
    }
}

/// A TLS configuration that trusts nobody, for a client that never speaks TLS: with it no root
/// certificate is read.
fn no_tls() -> Result<rustls::ClientConfig, ModelError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ModelError::new(ModelErrorKind::BadRequest, error.to_string()))?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    Ok(config)
}

/// Makes `ring` the process's crypto provider, unless the program has chosen another.
fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error says that there is one already, which then serves as well.
        drop(rustls::crypto::ring::default_provider().install_default());
    });
}

/// What a failed connection means.
pub(crate) fn connection_error(url: &Url, error: &reqwest::Error) -> ModelError {
    let host = endpoint::host_and_port(url);
    let cause = root_cause(error);
    if let Some(reason) = certificate_reason(error) {
        return certificate_error(url, &reason);
    }
    if cause.contains("proxy authorization required") {
        return ModelError::new(
            ModelErrorKind::Proxy,
            format!(
                "the proxy on the way to {host} asks for a login (407): put it into HTTPS_PROXY, as \
                 in http://user:password@proxy:port, or name {} in NO_PROXY",
                url.host_str().unwrap_or_default()
            ),
        );
    }
    // The port is always named here: a wrong one is the usual reason.
    let port = url.port_or_known_default().unwrap_or_default();
    let address = format!("{}:{port}", url.host_str().unwrap_or_default());
    if error.is_connect() {
        let message = format!("cannot connect to {address}: {cause}");
        return ModelError::new(ModelErrorKind::Connection, message);
    }
    if error.is_builder() || error.is_redirect() {
        let message = format!("the request to {address} cannot be made: {cause}");
        return ModelError::new(ModelErrorKind::BadRequest, message);
    }
    ModelError::new(
        ModelErrorKind::Connection,
        format!("the connection to {address} failed: {cause}"),
    )
}

fn certificate_error(url: &Url, reason: &str) -> ModelError {
    ModelError::new(
        ModelErrorKind::Certificate,
        format!(
            "the certificate of {} is not trusted ({reason}): if it is signed by an authority of \
             your own, set SSL_CERT_FILE or the setting extra_ca to a PEM file that holds it",
            endpoint::host_and_port(url)
        ),
    )
}

/// Why a certificate was refused, if that is what happened.
fn certificate_reason(error: &(dyn Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        match error.downcast_ref::<rustls::Error>() {
            Some(rustls::Error::InvalidCertificate(reason)) => {
                return Some(words::short(&reason.to_string(), 160));
            }
            Some(rustls::Error::NoCertificatesPresented) => return Some("it shows none".into()),
            _ => {}
        }
        // An I/O error hides what it wraps from `source`, and may wrap another of its kind.
        next = match error.downcast_ref::<std::io::Error>() {
            Some(error) => error
                .get_ref()
                .map(|inner| inner as &(dyn Error + 'static))
                .or_else(|| error.source()),
            None => error.source(),
        };
    }
    None
}

/// The innermost reason, which is the one that helps.
pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    words::short(&innermost.to_string(), words::LIMIT)
}
