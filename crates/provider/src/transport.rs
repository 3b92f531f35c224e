//! One call over HTTP: timers, cancellation, and the bytes of the reply fed to a decoder.
//!
//! It knows nothing of any format. Nothing runs in the background: the connection is driven by
//! whoever polls the stream, and is closed when the stream is dropped.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::stream;
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Response, Url};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;
use tooloop_model::{ModelError, ModelErrorKind, StreamEvent};
use tracing::{Instrument, Span, debug, debug_span, field::Empty};

use crate::client::{PooledClient, connection_error, root_cause};
use crate::codec::Failure;
use crate::{Codec, Decoder, ModelStream, Secret, TransportConfig, endpoint, redact, words};

/// The most bytes of an answer that is not a reply.
const FAILURE_LIMIT: usize = 256 << 10;
/// How long the rest of such an answer may take.
const FAILURE_TIME: Duration = Duration::from_secs(5);
/// How long the end of the body may lag behind the end of the reply. The connection serves the next
/// call if the body has been read to its end.
const END_LAG: Duration = Duration::from_millis(100);

/// How long more of a reply is waited for when its reason to stop has come and its end mark has not:
/// the usage may follow.
const REST: Duration = Duration::from_secs(2);

/// For how long an answer is still looked for when its time is up. A process that was stopped for a
/// while, as by a terminal, wakes with its alarm rung and what has come meanwhile unread.
const LAST_LOOK: Duration = Duration::from_millis(50);

/// A time that nobody waits out.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The timers of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timers {
    first_byte: Duration,
    idle: Duration,
    content: Duration,
}

impl From<&TransportConfig> for Timers {
    fn from(config: &TransportConfig) -> Self {
        // What is longer than a year is for ever, and cannot be added to a time safely.
        let bounded = |time: Duration| time.min(FOR_EVER);
        Self {
            first_byte: bounded(config.first_byte),
            idle: bounded(config.idle),
            content: bounded(config.content),
        }
    }
}

/// All that a call needs.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) client: PooledClient,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) timers: Timers,
    pub(crate) secrets: Arc<[Secret]>,
    pub(crate) cancel: CancellationToken,
}

/// Makes the call. Resolves with the first bytes of the reply.
pub(crate) async fn stream(call: Call, codec: &dyn Codec) -> Result<ModelStream, ModelError> {
    let secrets = Arc::clone(&call.secrets);
    let span = span(&call);
    let started = start(call, codec).instrument(span.clone()).await;
    started.map_err(|mut error| {
        without_keys(&mut error, &secrets);
        failed(&span, &error);
        error
    })
}

/// A request, from its sending to the end of the answer.
fn span(call: &Call) -> Span {
    debug_span!(
        "http",
        otel.name = "POST",
        otel.kind = "CLIENT",
        otel.status_code = Empty,
        http.request.method = "POST",
        http.request.body.size = call.body.len(),
        http.response.status_code = Empty,
        server.address = call.url.host_str(),
        server.port = call.url.port_or_known_default(),
        url.full = endpoint::without_secrets(&call.url),
        error.r#type = Empty,
    )
}

fn failed(span: &Span, error: &ModelError) {
    let status = error.status.map(|status| status.to_string());
    let kind = status.as_deref().unwrap_or(error.kind.name());
    span.record("error.type", kind);
    span.record("otel.status_code", "ERROR");
}

async fn start(call: Call, codec: &dyn Codec) -> Result<ModelStream, ModelError> {
    let Call {
        client,
        url,
        headers,
        body,
        timers,
        secrets,
        cancel,
    } = call;
    let host = endpoint::host_and_port(&url);
    let begin = async {
        // Bytes that are shared, so that sending them a second time copies nothing.
        let request = client.client().post(url.clone()).headers(headers);
        let failed = |error| connection_error(&url, &error);
        let request = request.body(Bytes::from(body)).build().map_err(failed)?;
        let mut response = client.send(request).await.map_err(failed)?;
        let status = response.status().as_u16();
        Span::current().record("http.response.status_code", status);
        debug!(status, "answered");
        if response.status() != reqwest::StatusCode::OK {
            return Err(refused(response, &host, codec).await);
        }
        let mut head = Vec::new();
        // Leading blanks tell nothing of what follows.
        loop {
            match response.chunk().await {
                Err(error) => return Err(broken(&host, &error)),
                Ok(None) => return Err(not_a_stream(response, &host, codec, head).await),
                Ok(Some(chunk)) => head.extend_from_slice(&chunk),
            }
            match head.iter().find(|byte| !byte.is_ascii_whitespace()) {
                // Neither JSON nor HTML is ever the beginning of an event stream.
                Some(b'{' | b'[' | b'<') => {
                    return Err(not_a_stream(response, &host, codec, head).await);
                }
                Some(_) => break,
                None if head.len() > FAILURE_LIMIT => break,
                None => {}
            }
        }
        Ok((response, head))
    };
    let begun = tokio::select! {
        biased;
        () = cancel.cancelled() => return Err(crate::scripted::cancelled()),
        begun = begin => begun,
        () = rung(tokio::time::sleep(timers.first_byte), LAST_LOOK) => {
            return Err(ModelError::new(
                ModelErrorKind::FirstByteTimeout,
                format!("{host} sent no byte within {}", shown(timers.first_byte)),
            ));
        }
    };
    let (response, head) = begun?;
    debug!("the reply begins");
    let reading = Reading {
        span: Span::current(),
        host,
        response: Some(response),
        decoder: codec.decoder(),
        secrets,
        cancel,
        timers,
        without_content: Duration::ZERO,
        content_events: 0,
        alarm: Box::pin(tokio::time::sleep(timers.idle)),
        complete_at: None,
        queue: VecDeque::new(),
        scratch: Vec::new(),
        failure: None,
        over: false,
    };
    Ok(reading.into_stream(&head))
}

/// Waits for an alarm, and a last look longer.
async fn rung(alarm: impl Future<Output = ()>, look: Duration) {
    alarm.await;
    tokio::time::sleep(look).await;
}

/// A reply that is being read.
struct Reading {
    /// Ends with the reading.
    span: Span,
    host: String,
    /// Gone once the body has ended or is of no more interest.
    response: Option<Response>,
    decoder: Box<dyn Decoder>,
    secrets: Arc<[Secret]>,
    cancel: CancellationToken,
    timers: Timers,
    /// How long has been waited since the last event that says something. Time in which nobody
    /// asked for more does not count.
    without_content: Duration,
    content_events: u64,
    alarm: Pin<Box<Sleep>>,
    /// When a reply whose stop reason has come counts as complete.
    complete_at: Option<Instant>,
    /// Events that nobody has asked for yet: those of one read at most.
    queue: VecDeque<StreamEvent>,
    scratch: Vec<StreamEvent>,
    /// What ends the stream after the queue.
    failure: Option<ModelError>,
    over: bool,
}

impl Reading {
    fn into_stream(mut self, head: &[u8]) -> ModelStream {
        self.take(head);
        Box::pin(stream::unfold(self, |mut reading| async move {
            let item = reading.next().await?;
            Some((item, reading))
        }))
    }

    async fn next(&mut self) -> Option<Result<StreamEvent, ModelError>> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                if matches!(event, StreamEvent::MessageStop { .. }) {
                    self.drain().await;
                }
                return Some(Ok(event));
            }
            if self.over {
                return None;
            }
            if let Some(mut error) = self.failure.take() {
                self.over = true;
                self.response = None;
                without_keys(&mut error, &self.secrets);
                failed(&self.span, &error);
                return Some(Err(error));
            }
            if self.decoder.ended() {
                self.over = true;
                return None;
            }
            if let Err(error) = self.read().await {
                self.failure = Some(error);
            }
        }
    }

    /// Waits for more of the body and decodes it.
    async fn read(&mut self) -> Result<(), ModelError> {
        let Some(response) = &mut self.response else {
            self.end();
            return Ok(());
        };
        let begun = Instant::now();
        let idle = self.timers.idle;
        let content = self.timers.content.saturating_sub(self.without_content);
        // One last look in all: signs of life that come within it do not bring another one.
        let late = self.without_content.saturating_sub(self.timers.content);
        let look = LAST_LOOK.saturating_sub(late);
        let complete = self.decoder.complete();
        let silent = begun + idle.min(content);
        self.alarm.as_mut().reset(if complete {
            let end = *self.complete_at.get_or_insert_with(|| begun + REST);
            if end <= begun {
                self.response = None;
                self.end();
                return Ok(());
            }
            end.min(silent)
        } else {
            silent
        });
        let chunk = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Err(crate::scripted::cancelled()),
            chunk = response.chunk() => chunk,
            () = rung(self.alarm.as_mut(), look) => {
                if complete {
                    self.response = None;
                    self.end();
                    return Ok(());
                }
                return Err(self.too_silent(idle <= content));
            }
        };
        self.without_content = self.without_content.saturating_add(begun.elapsed());
        match chunk {
            Ok(Some(chunk)) => self.take(&chunk),
            Ok(None) => {
                self.response = None;
                self.end();
            }
            Err(_) if complete => {
                self.response = None;
                self.end();
            }
            Err(error) => return Err(broken(&self.host, &error)),
        }
        Ok(())
    }

    /// Decodes bytes.
    fn take(&mut self, bytes: &[u8]) {
        let decoded = self.decoder.feed(bytes, &mut self.scratch);
        self.queue.extend(self.scratch.drain(..));
        if self.decoder.content_events() != self.content_events {
            self.content_events = self.decoder.content_events();
            self.without_content = Duration::ZERO;
        }
        if let Err(error) = decoded {
            self.failure = Some(from_host(&self.host, error));
        }
    }

    /// The body has ended.
    fn end(&mut self) {
        let finished = self.decoder.finish(&mut self.scratch);
        self.queue.extend(self.scratch.drain(..));
        match finished {
            Ok(()) => self.over = true,
            Err(error) => self.failure = Some(from_host(&self.host, error)),
        }
    }

    /// Reads the body to its end, so that the connection can serve the next call.
    async fn drain(&mut self) {
        let Some(mut response) = self.response.take() else {
            return;
        };
        let rest = async {
            while let Ok(Some(chunk)) = response.chunk().await {
                drop::<Bytes>(chunk);
            }
        };
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => {}
            () = rest => {
                // Lets the connection go back to where the next call finds it.
                tokio::task::yield_now().await;
            }
            () = tokio::time::sleep(END_LAG) => {}
        }
    }

    fn too_silent(&self, no_bytes: bool) -> ModelError {
        let host = &self.host;
        if no_bytes {
            let idle = shown(self.timers.idle);
            ModelError::new(
                ModelErrorKind::IdleTimeout,
                format!("{host} sent nothing for {idle} in the middle of a reply"),
            )
        } else {
            let content = shown(self.timers.content);
            ModelError::new(
                ModelErrorKind::ContentTimeout,
                format!("{host} sent nothing but signs of life for {content}"),
            )
        }
    }
}

/// An answer with a status that is not 200.
async fn refused(response: Response, host: &str, codec: &dyn Codec) -> ModelError {
    let status = response.status();
    let headers = response.headers().clone();
    let location = headers.get(LOCATION).and_then(|to| to.to_str().ok());
    if status.is_redirection()
        && let Some(to) = location
    {
        let to = Url::parse(to).ok();
        let to = to.as_ref().and_then(Url::host_str).unwrap_or("elsewhere");
        let mut error = ModelError::new(
            ModelErrorKind::BadRequest,
            format!(
                "{host} answered {}: it redirects to {to}, and redirects are not followed; check \
                 the base URL",
                status.as_u16()
            ),
        );
        error.status = Some(status.as_u16());
        return error;
    }
    let mut body = Vec::new();
    read_rest(response, &mut body).await;
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    codec.classify_error(&Failure {
        host,
        status: status.as_u16(),
        retry_after_ms: header("retry-after-ms"),
        retry_after: header("retry-after"),
        body: &body,
        // A date to come back at is meant by the clock of who wrote it; ours may be wrong by hours.
        now: header("date")
            .and_then(|date| httpdate::parse_http_date(date).ok())
            .unwrap_or_else(SystemTime::now),
    })
}

/// An answer with status 200 that is no event stream.
async fn not_a_stream(
    response: Response,
    host: &str,
    codec: &dyn Codec,
    mut body: Vec<u8>,
) -> ModelError {
    let kind = response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or("no content type")
        .to_owned();
    let empty = body.iter().all(u8::is_ascii_whitespace);
    if !empty {
        read_rest(response, &mut body).await;
        if crate::errors::holds_error(&body) {
            return codec.classify_error(&Failure {
                host,
                status: 200,
                retry_after_ms: None,
                retry_after: None,
                body: &body,
                now: SystemTime::now(),
            });
        }
    }
    let said = words::short(&words::plain(&body), words::LIMIT);
    let message = if empty {
        format!("{host} answered 200 with an empty body ({kind})")
    } else {
        format!("{host} answered 200 with no event stream ({kind}): {said}")
    };
    let mut error = ModelError::new(ModelErrorKind::Decode, message);
    error.status = Some(200);
    error
}

async fn read_rest(mut response: Response, body: &mut Vec<u8>) {
    let rest = async {
        while body.len() < FAILURE_LIMIT
            && let Ok(Some(chunk)) = response.chunk().await
        {
            body.extend_from_slice(&chunk);
        }
    };
    // What has come by then is judged.
    let _: Result<(), _> = tokio::time::timeout(FAILURE_TIME, rest).await;
}

/// The connection broke in the middle of an answer.
fn broken(host: &str, error: &reqwest::Error) -> ModelError {
    let cause = root_cause(error);
    ModelError::new(
        ModelErrorKind::Connection,
        format!("the connection to {host} broke in the middle of a reply: {cause}"),
    )
}

fn from_host(host: &str, mut error: ModelError) -> ModelError {
    error.message = format!("{host}: {}", error.message);
    error
}

/// Takes keys out of an error, should a server have echoed one.
fn without_keys(error: &mut ModelError, secrets: &[Secret]) {
    for secret in secrets {
        let key = secret.expose().trim();
        // A short key or a plain word stands in ordinary text: to hide it would make errors
        // unreadable.
        if !redact::is_searched_for(key) {
            continue;
        }
        for text in [Some(&mut error.message), error.code.as_mut()]
            .into_iter()
            .flatten()
        {
            if text.contains(key) {
                *text = text.replace(key, "[key]");
            }
        }
    }
}

fn shown(time: Duration) -> String {
    if time.subsec_millis() == 0 {
        format!("{} s", time.as_secs())
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}
