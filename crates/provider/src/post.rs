//! Posts finished bytes to one address: what is no model call and still has to go out.
//!
//! It shares how connections are made with the [`crate::HttpProvider`]: proxies, certificates, no
//! redirects. It tells nobody about itself, so that what is sent by it may be traces.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Certificate, Url};

use crate::client::{self, PooledClient};
use crate::http::BuildError;
use crate::{TransportConfig, endpoint, words};

/// The most bytes of an answer that are looked at.
const ANSWER_LIMIT: usize = 1 << 10;

/// An address that bytes are posted to, over connections that are kept.
#[derive(Debug, Clone)]
pub struct Post(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    url: Url,
    headers: HeaderMap,
    certificates: Vec<Certificate>,
    client: OnceLock<PooledClient>,
}

/// Why bytes were not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PostError {
    /// What happened, with the host.
    pub message: String,
    /// Whether the same bytes may be taken later.
    pub is_passing: bool,
}

impl PostError {
    fn passing(message: String) -> Self {
        Self {
            message,
            is_passing: true,
        }
    }
}

impl Post {
    /// Takes the address and what each post carries. Opens no connection.
    ///
    /// # Errors
    /// If the address, a header or the file of certificates is not usable.
    pub fn new(
        url: &str,
        headers: &[(String, String)],
        extra_ca: Option<&Path>,
    ) -> Result<Self, BuildError> {
        let refuse = |reason: String| BuildError::BaseUrl {
            url: endpoint::shown(url),
            reason,
        };
        let parsed = Url::parse(url.trim()).map_err(|error| refuse(error.to_string()))?;
        if !matches!(parsed.scheme(), "http" | "https") || !parsed.has_host() {
            return Err(refuse("it is no address of the web".into()));
        }
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let refuse = || BuildError::Header { name: name.clone() };
            let header = HeaderName::try_from(name.as_str()).map_err(|_| refuse())?;
            let mut value = HeaderValue::try_from(value.trim()).map_err(|_| refuse())?;
            value.set_sensitive(true);
            map.insert(header, value);
        }
        Ok(Self(Arc::new(Inner {
            url: parsed,
            headers: map,
            certificates: extra_ca.map_or_else(|| Ok(Vec::new()), client::read_certificates)?,
            client: OnceLock::new(),
        })))
    }

    /// The host, and the port where it is not the usual one.
    #[must_use]
    pub fn host(&self) -> String {
        endpoint::host_and_port(&self.0.url)
    }

    /// Posts, and waits no longer than `limit` for the answer.
    ///
    /// # Errors
    /// If the bytes were not taken, for whatever reason.
    pub async fn send(
        &self,
        content_type: &'static str,
        body: Vec<u8>,
        limit: Duration,
    ) -> Result<(), PostError> {
        let sent = tokio::time::timeout(limit, self.send_now(content_type, body));
        sent.await.unwrap_or_else(|_| {
            Err(PostError::passing(format!(
                "{} did not answer within {:.1} s",
                self.host(),
                limit.as_secs_f64()
            )))
        })
    }

    async fn send_now(&self, content_type: &'static str, body: Vec<u8>) -> Result<(), PostError> {
        let client = self.client().await?;
        let failed =
            |error| PostError::passing(client::connection_error(&self.0.url, &error).message);
        let request = client.client().post(self.0.url.clone());
        let request = request
            .headers(self.0.headers.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static(content_type))
            .body(bytes::Bytes::from(body))
            .build()
            .map_err(failed)?;
        let mut response = client.send(request).await.map_err(failed)?;
        let status = response.status();
        let mut answer = Vec::new();
        while answer.len() < ANSWER_LIMIT
            && let Ok(Some(chunk)) = response.chunk().await
        {
            answer.extend_from_slice(&chunk);
        }
        if status.is_success() {
            return Ok(());
        }
        answer.truncate(ANSWER_LIMIT);
        let said = words::short(&words::plain(&answer), words::LIMIT);
        Err(PostError {
            message: format!("{} answered {}: {said}", self.host(), status.as_u16()),
            is_passing: matches!(status.as_u16(), 429 | 502 | 503 | 504),
        })
    }

    /// Root certificates are files, so the client is built where files may take their time.
    async fn client(&self) -> Result<PooledClient, PostError> {
        if let Some(client) = self.0.client.get() {
            return Ok(client.clone());
        }
        let inner = Arc::clone(&self.0);
        let built = tokio::task::spawn_blocking(move || {
            let transport = TransportConfig::default();
            client::build(&inner.url, &transport, &inner.certificates)
        });
        match built.await {
            Ok(Ok(client)) => Ok(self.0.client.get_or_init(|| client).clone()),
            Ok(Err(error)) => Err(PostError::passing(error.message)),
            Err(error) => Err(PostError::passing(error.to_string())),
        }
    }
}
