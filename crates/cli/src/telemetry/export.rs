//! Sends spans to a collector, beside the run and never in its way.
//!
//! Spans that are over wait in a queue with a bound. One task takes them from there in batches; it
//! is ended, and waited for, by [`Exporter::finish`].

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tooloop::provider::Redactor;

use super::otel::{Otel, Parent, Protocol};
use super::otlp::{self, Span};

/// The most bytes of spans that wait.
const WAITING: usize = 16 << 20;
/// How often a batch is sent while the run goes on.
const ATTEMPTS: u32 = 3;

/// Spans that wait to be sent.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// There is something to send.
    some: Notify,
    /// There is a whole batch.
    batch: Notify,
    most: usize,
    batch_size: usize,
    pub(super) redactor: Redactor,
    pub(super) parent: Option<Parent>,
    pub(super) content: bool,
}

#[derive(Debug, Default)]
struct State {
    spans: VecDeque<Span>,
    bytes: usize,
    /// On their way.
    sending: usize,
    lost: usize,
    why: Option<String>,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, span: Span) {
        let mut state = self.lock();
        let bytes = state.bytes.saturating_add(span.size());
        if state.spans.len() >= self.most || bytes > WAITING {
            state.lost = state.lost.saturating_add(1);
            let why = "more spans came than could be sent";
            state.why.get_or_insert_with(|| why.to_owned());
            return;
        }
        state.bytes = bytes;
        state.spans.push_back(span);
        self.some.notify_one();
        if state.spans.len() >= self.batch_size {
            self.batch.notify_one();
        }
    }

    fn take(&self) -> Vec<Span> {
        let mut state = self.lock();
        let count = state.spans.len().min(self.batch_size);
        let batch: Vec<Span> = state.spans.drain(..count).collect();
        let bytes: usize = batch.iter().map(Span::size).sum();
        state.bytes = state.bytes.saturating_sub(bytes);
        state.sending = batch.len();
        batch
    }

    fn sent(&self, failure: Option<String>) {
        let mut state = self.lock();
        let count = std::mem::take(&mut state.sending);
        if let Some(why) = failure {
            state.lost = state.lost.saturating_add(count);
            state.why = Some(why);
        }
    }
}

/// The sending of spans.
#[derive(Debug)]
pub(super) struct Exporter {
    queue: Arc<Queue>,
    stop: CancellationToken,
    timeout: Duration,
    task: JoinHandle<()>,
}

impl Exporter {
    pub(super) fn start(otel: Otel, redactor: Redactor) -> Self {
        let queue = Arc::new(Queue {
            state: Mutex::default(),
            some: Notify::new(),
            batch: Notify::new(),
            most: otel.queue,
            batch_size: otel.batch,
            redactor,
            parent: otel.parent,
            content: otel.content,
        });
        let stop = CancellationToken::new();
        let timeout = otel.timeout;
        let task = tokio::spawn(run(Arc::clone(&queue), otel, stop.clone()));
        Self {
            queue,
            stop,
            timeout,
            task,
        }
    }

    pub(super) fn queue(&self) -> Arc<Queue> {
        Arc::clone(&self.queue)
    }

    /// Sends what waits, within `limit`, unless `impatient` comes first. Words if some is lost.
    pub(super) async fn finish(
        mut self,
        limit: Duration,
        impatient: impl Future<Output = ()>,
    ) -> Option<String> {
        self.stop.cancel();
        let limit = limit.min(self.timeout);
        let cut = tokio::select! {
            done = tokio::time::timeout(limit, &mut self.task) => match done {
                Ok(_) => None,
                Err(_) => Some(format!("the collector did not take them within {limit:?}")),
            },
            () = impatient => Some("the run was told to end".to_owned()),
        };
        self.task.abort();
        let state = self.queue.lock();
        let lost = state
            .lost
            .saturating_add(state.sending)
            .saturating_add(state.spans.len());
        let why = state.why.clone().or(cut).unwrap_or_default();
        (lost > 0).then(|| format!("{lost} spans were not exported: {why}"))
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(queue: Arc<Queue>, otel: Otel, stop: CancellationToken) {
    let resource: Arc<otlp::Resource> = otel
        .resource
        .iter()
        .map(|(name, value)| (name.clone(), queue.redactor.redact(value).into_owned()))
        .collect();
    while !stop.is_cancelled() {
        tokio::select! {
            () = stop.cancelled() => break,
            () = queue.some.notified() => {}
        }
        // What comes together goes together.
        tokio::select! {
            () = stop.cancelled() => break,
            () = queue.batch.notified() => {}
            () = tokio::time::sleep(otel.delay) => {}
        }
        send(&queue, &otel, &resource, &stop).await;
    }
    while !queue.lock().spans.is_empty() {
        send(&queue, &otel, &resource, &stop).await;
    }
}

/// Sends a batch; again if that may help and the run goes on.
async fn send(
    queue: &Arc<Queue>,
    otel: &Otel,
    resource: &Arc<otlp::Resource>,
    stop: &CancellationToken,
) {
    let batch = queue.take();
    let Some(post) = otel.post.as_ref().filter(|_| !batch.is_empty()) else {
        return;
    };
    // What was said may be long: it is worked on where no step waits for it.
    let written = {
        let (queue, resource, protocol) = (Arc::clone(queue), Arc::clone(resource), otel.protocol);
        tokio::task::spawn_blocking(move || write(&queue.redactor, &resource, batch, protocol))
    };
    let (kind, body) = match written.await {
        Ok(written) => written,
        Err(error) => return queue.sent(Some(error.to_string())),
    };
    let mut attempt = 1;
    let failure = loop {
        match post.send(kind, body.clone(), otel.timeout).await {
            Ok(()) => break None,
            Err(error) if !error.is_passing || attempt >= ATTEMPTS || stop.is_cancelled() => {
                break Some(queue.redactor.redact(&error.message).into_owned());
            }
            Err(_) => attempt += 1,
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(otel.delay) => {}
        }
    };
    queue.sent(failure);
}

/// Spans without secrets, as they are sent, and what that is called.
fn write(
    redactor: &Redactor,
    resource: &otlp::Resource,
    mut spans: Vec<Span>,
    protocol: Protocol,
) -> (&'static str, Vec<u8>) {
    spans.iter_mut().for_each(|span| span.clean(redactor));
    match protocol {
        Protocol::Protobuf => ("application/x-protobuf", otlp::protobuf(resource, &spans)),
        Protocol::Json => ("application/json", otlp::json(resource, &spans)),
    }
}
