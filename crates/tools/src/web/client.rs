//! One GET over HTTP, within bounds, to hosts of the public internet alone.
//!
//! Names are resolved by a resolver of our own, which gives away only addresses that may be talked
//! to: what was checked is what is connected to. Behind a proxy the resolving is the proxy's.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Once};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use reqwest::{Certificate, Client, ClientBuilder, Response, Url};
use tokio::sync::OnceCell;
use tooloop_model::ProxySettings;

use super::address::{self, Exceptions};
use super::location::{WebUrl, shown};
use super::{MAX_BODY, WebFetchSettings};

/// How often the same host may send elsewhere.
const MAX_REDIRECTS: usize = 10;

const AGENT: &str = concat!("tooloop/", env!("CARGO_PKG_VERSION"));

/// What is liked best first: many documentation servers have Markdown for who asks.
const LIKED: &str = "text/markdown, text/html;q=0.9, text/plain;q=0.8, */*;q=0.5";

/// The addresses of a name.
pub type NamesFuture = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Tells the addresses of names.
pub trait Names: Send + Sync + fmt::Debug + 'static {
    /// The addresses of a name, private ones among them: they are sorted out elsewhere.
    fn addresses(&self, name: &str) -> NamesFuture;
}

/// The names that this system knows.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemNames;

impl Names for SystemNames {
    fn addresses(&self, name: &str) -> NamesFuture {
        let name = name.to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) enum Fetched {
    /// An answer.
    Answer(Answer),
    /// A redirect to another host.
    Elsewhere { status: u16, from: Url, to: String },
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) url: Url,
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) body: Vec<u8>,
    /// Whether the body was longer than what is read of one.
    pub(crate) cut: bool,
}

/// The clients, each made when it is first needed: certificates take a while to read.
#[derive(Debug)]
pub(crate) struct Clients {
    names: Arc<dyn Names>,
    exceptions: Exceptions,
    extra_ca: Option<PathBuf>,
    public: OnceCell<Client>,
    /// For public hosts behind a proxy.
    proxied: OnceCell<Client>,
    private: OnceCell<Client>,
}

impl Clients {
    pub(crate) fn new(settings: &WebFetchSettings) -> Self {
        Self {
            names: Arc::clone(&settings.names),
            exceptions: Exceptions::new(&settings.private_hosts),
            extra_ca: settings.extra_ca.clone(),
            public: OnceCell::new(),
            proxied: OnceCell::new(),
            private: OnceCell::new(),
        }
    }

    /// Asks, and follows redirects within the same place.
    pub(crate) async fn get(
        &self,
        url: &WebUrl,
        settings: &WebFetchSettings,
    ) -> Result<Fetched, String> {
        let mut at = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let client = self.client_for(&at, settings).await?;
            let request = client.get(at.url().clone()).header(ACCEPT, LIKED);
            let response = request.send().await.map_err(|error| failed(&at, &error))?;
            let Some(to) = redirect(&response) else {
                let answer = read(&at, response).await?;
                return Ok(Fetched::Answer(answer));
            };
            let status = response.status().as_u16();
            let next = at.url().join(&to).ok().and_then(|url| WebUrl::of(url).ok());
            match next {
                Some(next) if at.is_same_place(&next) => at = next,
                next => {
                    let to = next.map_or_else(|| shown(&to), |next| next.url().to_string());
                    let from = at.url().clone();
                    return Ok(Fetched::Elsewhere { status, from, to });
                }
            }
        }
        Err(format!(
            "{} sends from one address to the next more than {MAX_REDIRECTS} times",
            at.host()
        ))
    }

    async fn client_for(
        &self,
        url: &WebUrl,
        settings: &WebFetchSettings,
    ) -> Result<&Client, String> {
        let host = url.host();
        if self.exceptions.contain(host, url.port()) {
            let made = self
                .private
                .get_or_try_init(|| self.make(settings, Way::Private));
            return made.await;
        }
        if let Some(address) = url.address() {
            if !address::is_public(address) {
                return Err(private(host, address));
            }
        } else if address::is_local_name(host) || proxy_hosts().any(|proxy| proxy == host) {
            return Err(format!(
                "{host} is a name of this machine or its network, and only public hosts may be \
                 fetched"
            ));
        }
        let proxies = proxies();
        let proxy = proxies.proxy_for(url.url().scheme(), host, url.port());
        if proxy.map_err(|error| error.to_string())?.is_some() {
            let made = self
                .proxied
                .get_or_try_init(|| self.make(settings, Way::Proxied));
            return made.await;
        }
        self.public
            .get_or_try_init(|| self.make(settings, Way::Public))
            .await
    }

    async fn make(&self, settings: &WebFetchSettings, way: Way) -> Result<Client, String> {
        let resolver = Resolver {
            names: Arc::clone(&self.names),
            only_public: way != Way::Private,
        };
        let extra_ca = self.extra_ca.clone();
        let connect_limit = settings.connect_limit;
        let make = move || {
            install_crypto();
            let builder = Client::builder()
                .user_agent(AGENT)
                // A new host is a new question to the policy.
                .redirect(reqwest::redirect::Policy::none())
                .referer(false)
                .connect_timeout(connect_limit)
                .pool_max_idle_per_host(1)
                .dns_resolver(Arc::new(resolver))
                .tls_certs_merge(certificates(extra_ca)?);
            let builder = match way {
                Way::Private | Way::Public => builder.no_proxy(),
                Way::Proxied => through_proxies(builder)?,
            };
            let made = builder.build();
            made.map_err(|error| format!("the HTTP client cannot be built: {}", cause(&error)))
        };
        let made = tokio::task::spawn_blocking(make).await;
        made.unwrap_or_else(|_| Err("the HTTP client cannot be built".into()))
    }
}

/// How hosts are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Directly, at any address.
    Private,
    /// Directly, at public addresses.
    Public,
    Proxied,
}

/// What the environment says of proxies.
fn proxies() -> ProxySettings {
    ProxySettings::from_environment(|name| {
        std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    })
}

fn through_proxies(builder: ClientBuilder) -> Result<ClientBuilder, String> {
    let proxies = proxies();
    let mut builder = builder.no_proxy();
    for scheme in ["http", "https"] {
        let Some(Ok(address)) = proxies.named(scheme) else {
            continue;
        };
        let proxy = match scheme {
            "https" => reqwest::Proxy::https(address.as_str()),
            _ => reqwest::Proxy::http(address.as_str()),
        };
        let told = |error: reqwest::Error| format!("the proxy cannot be used: {}", cause(&error));
        builder = builder.proxy(proxy.map_err(told)?);
    }
    Ok(builder)
}

fn certificates(path: Option<PathBuf>) -> Result<Vec<Certificate>, String> {
    let Some(path) = path else {
        return Ok(Vec::new());
    };
    let told = |reason: &dyn fmt::Display| {
        format!(
            "the certificates in {} cannot be used: {reason}",
            path.display()
        )
    };
    let bytes = std::fs::read(&path).map_err(|error| told(&error))?;
    Certificate::from_pem_bundle(&bytes).map_err(|error| told(&cause(&error)))
}

/// Makes `ring` the process's crypto provider, unless the program has chosen another.
fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error says that there is one already, which then serves as well.
        drop(rustls::crypto::ring::default_provider().install_default());
    });
}

/// The hosts of the proxies that the environment names. They may well be private.
fn proxy_hosts() -> impl Iterator<Item = String> {
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"]
        .into_iter()
        .flat_map(|name| [name.to_owned(), name.to_ascii_lowercase()])
        .filter_map(|name| std::env::var(name).ok())
        .filter_map(|value| proxy_host(&value))
}

fn proxy_host(value: &str) -> Option<String> {
    let with_scheme = if value.contains("://") {
        value.to_owned()
    } else {
        format!("http://{value}")
    };
    let url = Url::parse(&with_scheme).ok()?;
    let host = url.host_str()?.trim_end_matches('.');
    Some(host.to_ascii_lowercase())
}

/// A resolver that gives away only what may be talked to.
#[derive(Debug)]
struct Resolver {
    names: Arc<dyn Names>,
    only_public: bool,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().trim_end_matches('.').to_ascii_lowercase();
        let only_public = self.only_public && !proxy_hosts().any(|proxy| proxy == host);
        let found = self.names.addresses(name.as_str());
        Box::pin(async move {
            let found = found.await?;
            let first = found.first().copied();
            let mut may: Vec<SocketAddr> = Vec::new();
            for address in found {
                if !only_public || address::is_public(address) {
                    may.push(SocketAddr::new(address, 0));
                }
            }
            match first {
                Some(first) if may.is_empty() => Err(NotPublic(private(&host, first)).into()),
                _ => Ok(Box::new(may.into_iter()) as Addrs),
            }
        })
    }
}

/// A name whose addresses are all private.
#[derive(Debug)]
struct NotPublic(String);

impl fmt::Display for NotPublic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Error for NotPublic {}

fn private(host: &str, address: IpAddr) -> String {
    let at = if address::literal(host).is_some() {
        host.to_owned()
    } else {
        format!("{host} is at {address}, which")
    };
    format!("{at} is not an address of the public internet, and only those may be fetched")
}

/// Where an answer sends, if it does.
fn redirect(response: &Response) -> Option<String> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let to = response.headers().get(LOCATION)?;
    Some(String::from_utf8_lossy(to.as_bytes()).into_owned())
}

async fn read(url: &WebUrl, mut response: Response) -> Result<Answer, String> {
    let content_type = response.headers().get(CONTENT_TYPE);
    let content_type = content_type.map_or_else(String::new, |value| {
        String::from_utf8_lossy(value.as_bytes()).trim().to_owned()
    });
    let mut answer = Answer {
        url: url.url().clone(),
        status: response.status().as_u16(),
        content_type,
        body: Vec::new(),
        cut: false,
    };
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| failed(url, &error))?
    {
        // Chunks come decompressed: a small answer that unfolds is bounded here too.
        let room = MAX_BODY.saturating_sub(answer.body.len());
        answer.cut = chunk.len() > room;
        answer
            .body
            .extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
        if answer.cut {
            break;
        }
    }
    Ok(answer)
}

fn failed(url: &WebUrl, error: &reqwest::Error) -> String {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(refused) = error.downcast_ref::<NotPublic>() {
            return refused.0.clone();
        }
        next = error.source();
    }
    let (host, port) = (url.host(), url.port());
    let cause = cause(error);
    if error.is_connect() && error.is_timeout() {
        return format!("cannot connect to {host}:{port}: it does not answer");
    }
    if error.is_connect() {
        return format!("cannot connect to {host}:{port}: {cause}");
    }
    format!("the connection to {host}:{port} failed: {cause}")
}

/// The innermost reason, which is the one that helps.
fn cause(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string().chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::proxy_host;

    #[test]
    fn proxies_are_known_by_their_hosts() {
        for (value, host) in [
            ("http://me:pw@Proxy.corp:3128", Some("proxy.corp")),
            ("proxy.corp:3128", Some("proxy.corp")),
            ("socks5h://proxy.corp.", Some("proxy.corp")),
            ("10.0.0.1:8080", Some("10.0.0.1")),
            ("", None),
        ] {
            assert_eq!(proxy_host(value).as_deref(), host, "{value}");
        }
    }
}
