//! Listens to spans and events, and hands them on.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use super::debug_file::DebugFile;
use super::export::Queue;
use super::fields::{self, Fields, Value};
use super::otlp;

/// The most events of one span that are exported.
const EVENTS: usize = 128;

/// Where what is said in a conversation goes.
const CONTENT: &str = "tooloop::content";

/// The one listener of this process.
#[derive(Debug)]
pub(super) struct Tap {
    file: Option<Arc<DebugFile>>,
    queue: Option<Arc<Queue>>,
}

/// What is kept of a span while it is open.
struct Open {
    name: String,
    fields: Fields,
    is_client: bool,
    failed: bool,
    clock: Instant,
    /// There if it will be exported.
    export: Option<Export>,
}

#[derive(Clone, Copy)]
struct Ids {
    trace: [u8; 16],
    id: [u8; 8],
}

struct Export {
    ids: Ids,
    parent: Option<[u8; 8]>,
    is_parent_remote: bool,
    began: SystemTime,
    events: Vec<otlp::Event>,
    events_left_out: u32,
}

impl Tap {
    pub(super) fn new(file: Option<Arc<DebugFile>>, queue: Option<Arc<Queue>>) -> Self {
        Self { file, queue }
    }

    fn file(&self, metadata: &Metadata<'_>) -> Option<&DebugFile> {
        self.file.as_deref().filter(|file| file.wants(metadata))
    }

    fn queue(&self, metadata: &Metadata<'_>) -> Option<&Queue> {
        let is_exported = |queue: &&Queue| {
            let target = metadata.target();
            if target == CONTENT {
                return queue.content;
            }
            let least = if metadata.is_span() {
                Level::DEBUG
            } else {
                Level::INFO
            };
            is_ours(target) && *metadata.level() <= least
        };
        self.queue.as_deref().filter(is_exported)
    }
}

fn is_ours(target: &str) -> bool {
    let rest = target.strip_prefix("tooloop");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '_']))
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Tap {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.file(metadata).is_some() || self.queue(metadata).is_some()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let file = self
            .file
            .as_ref()
            .map_or(LevelFilter::OFF, |file| file.most());
        let queue = self.queue.as_ref().map_or(LevelFilter::OFF, |queue| {
            if queue.content {
                LevelFilter::TRACE
            } else {
                LevelFilter::DEBUG
            }
        });
        Some(file.max(queue))
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let export = self
            .queue(attributes.metadata())
            .map(|queue| export(queue, &span));
        let open = Open {
            name: fields
                .take("otel.name")
                .unwrap_or_else(|| attributes.metadata().name().to_owned()),
            is_client: fields
                .take("otel.kind")
                .is_some_and(|kind| kind == "CLIENT"),
            failed: false,
            fields,
            clock: Instant::now(),
            export,
        };
        span.extensions_mut().insert(open);
        if let Some(file) = self.file(attributes.metadata()) {
            let fields = Fields {
                message: "begins".into(),
                ..Fields::default()
            };
            file.line(attributes.metadata().level(), &path(Some(&span)), &fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        if let Some(open) = extensions.get_mut::<Open>() {
            values.record(&mut open.fields);
            if let Some(status) = open.fields.take("otel.status_code") {
                open.failed = status == "ERROR";
            }
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        let span = context.event_span(event);
        if let Some(file) = self.file(metadata) {
            file.line(metadata.level(), &path(span.as_ref()), &fields);
        }
        let Some(span) = span.filter(|_| self.queue(metadata).is_some()) else {
            return;
        };
        let mut extensions = span.extensions_mut();
        let Some(open) = extensions.get_mut::<Open>() else {
            return;
        };
        if metadata.target() == CONTENT {
            for (name, value) in fields.values {
                open.fields.put(name, value);
            }
            return;
        }
        let Some(export) = &mut open.export else {
            return;
        };
        if export.events.len() >= EVENTS {
            export.events_left_out = export.events_left_out.saturating_add(1);
            return;
        }
        export.events.push(otlp::Event {
            at: nanos(SystemTime::now()),
            name: fields.message,
            attributes: fields.values,
        });
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else {
            return;
        };
        let Some(open) = span.extensions_mut().remove::<Open>() else {
            return;
        };
        let metadata = span.metadata();
        if let Some(file) = self.file(metadata) {
            let mut fields = open.fields.clone();
            fields.message = "ends".into();
            if !file.has_content() {
                fields.values.retain(|(name, _)| !fields::is_content(name));
            }
            let seconds = Value::Float(open.clock.elapsed().as_secs_f64());
            fields.values.insert(0, ("seconds", seconds));
            let before = path(span.parent().as_ref());
            let path = if before.is_empty() {
                open.name.clone()
            } else {
                format!("{before} > {}", open.name)
            };
            file.line(metadata.level(), &path, &fields);
        }
        let (Some(queue), Some(export)) = (&self.queue, open.export) else {
            return;
        };
        let took = open.clock.elapsed();
        queue.push(otlp::Span {
            trace: export.ids.trace,
            id: export.ids.id,
            parent: export.parent,
            is_parent_remote: export.is_parent_remote,
            name: open.name,
            is_client: open.is_client,
            began: nanos(export.began),
            ended: nanos(export.began.checked_add(took).unwrap_or(export.began)),
            attributes: open.fields.values,
            events: export.events,
            events_left_out: export.events_left_out,
            failed: open.failed,
        });
    }
}

/// Gives a span its ids: a child stays in the trace of its parent, and what has none begins one, or
/// belongs to the span of another process that was named.
fn export<'a, S: Subscriber + LookupSpan<'a>>(queue: &Queue, span: &SpanRef<'a, S>) -> Export {
    let within = span.scope().skip(1).find_map(|parent| {
        let extensions = parent.extensions();
        Some(extensions.get::<Open>()?.export.as_ref()?.ids)
    });
    let remote = queue.parent.filter(|_| within.is_none());
    Export {
        ids: Ids {
            trace: match (within, remote) {
                (Some(within), _) => within.trace,
                (None, Some(remote)) => remote.trace,
                (None, None) => random(),
            },
            id: random(),
        },
        parent: within
            .map(|within| within.id)
            .or(remote.map(|remote| remote.span)),
        is_parent_remote: remote.is_some(),
        began: SystemTime::now(),
        events: Vec::new(),
        events_left_out: 0,
    }
}

/// The names of a span and those that it is in, outermost first.
fn path<'a, S: Subscriber + LookupSpan<'a>>(span: Option<&SpanRef<'a, S>>) -> String {
    let mut path = String::new();
    for span in span.iter().flat_map(|span| span.scope().from_root()) {
        if !path.is_empty() {
            path.push_str(" > ");
        }
        match span.extensions().get::<Open>() {
            Some(open) => path.push_str(&open.name),
            None => path.push_str(span.name()),
        }
    }
    path
}

fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Random bytes, not all zero.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    if filled.is_err() || bytes == [0; N] {
        // No kernel of these years refuses; a name from the clock is better than none.
        let now = nanos(SystemTime::now()).to_le_bytes();
        bytes
            .iter_mut()
            .zip(now.iter().cycle())
            .for_each(|(byte, now)| *byte = *now);
    }
    bytes
}
