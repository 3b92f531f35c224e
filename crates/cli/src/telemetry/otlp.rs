//! Spans as OTLP 1 writes them: in protobuf, and in JSON.

use serde_json::{Map, Value as Json, json};
use tooloop::provider::Redactor;

use super::fields::{self, Value};

/// A span that is over.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Span {
    pub(super) trace: [u8; 16],
    pub(super) id: [u8; 8],
    pub(super) parent: Option<[u8; 8]>,
    /// The parent is of another process.
    pub(super) is_parent_remote: bool,
    pub(super) name: String,
    pub(super) is_client: bool,
    pub(super) began: u64,
    pub(super) ended: u64,
    pub(super) attributes: Vec<(&'static str, Value)>,
    pub(super) events: Vec<Event>,
    pub(super) events_left_out: u32,
    pub(super) failed: bool,
}

/// A moment of a span.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Event {
    pub(super) at: u64,
    pub(super) name: String,
    pub(super) attributes: Vec<(&'static str, Value)>,
}

/// Who speaks: the attributes of the resource.
pub(super) type Resource = [(String, String)];

/// Of this attribute the conventions want a list.
const LIST: &str = "gen_ai.response.finish_reasons";
const SCOPE: &str = "tooloop";
const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Span {
    const fn kind(&self) -> u64 {
        if self.is_client { 3 } else { 1 }
    }

    /// Sampled, and where the parent is.
    const fn flags(&self) -> u32 {
        if self.is_parent_remote { 0x301 } else { 0x101 }
    }

    /// Takes secrets out.
    pub(super) fn clean(&mut self, redactor: &Redactor) {
        self.name = redactor.redact(&self.name).into_owned();
        fields::clean(redactor, &mut self.attributes);
        for event in &mut self.events {
            fields::clean(redactor, &mut event.attributes);
        }
    }

    /// About how much memory it takes.
    pub(super) fn size(&self) -> usize {
        let own = size(&self.attributes);
        let events = self.events.iter().map(|event| size(&event.attributes));
        events
            .sum::<usize>()
            .saturating_add(own)
            .saturating_add(512)
    }
}

fn size(attributes: &[(&'static str, Value)]) -> usize {
    let sizes = attributes.iter().map(|(_, value)| match value {
        Value::Text(text) => text.len().saturating_add(64),
        Value::Integer(_) | Value::Float(_) | Value::Bool(_) => 64,
    });
    sizes.sum()
}

/// A request of spans, in JSON.
pub(super) fn json(resource: &Resource, spans: &[Span]) -> Vec<u8> {
    let resource: Vec<Json> = resource
        .iter()
        .map(|(name, value)| json!({ "key": name, "value": { "stringValue": value } }))
        .collect();
    let spans: Vec<Json> = spans.iter().map(json_span).collect();
    let request = json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{ "scope": { "name": SCOPE, "version": VERSION }, "spans": spans }],
    }] });
    request.to_string().into_bytes()
}

fn json_span(span: &Span) -> Json {
    let events: Vec<Json> = span
        .events
        .iter()
        .map(|event| {
            json!({
                "timeUnixNano": event.at.to_string(),
                "name": event.name,
                "attributes": json_attributes(&event.attributes),
            })
        })
        .collect();
    let mut map = Map::new();
    map.insert("traceId".into(), hex(&span.trace).into());
    map.insert("spanId".into(), hex(&span.id).into());
    if let Some(parent) = span.parent {
        map.insert("parentSpanId".into(), hex(&parent).into());
    }
    map.insert("flags".into(), span.flags().into());
    map.insert("name".into(), span.name.as_str().into());
    map.insert("kind".into(), span.kind().into());
    map.insert("startTimeUnixNano".into(), span.began.to_string().into());
    map.insert("endTimeUnixNano".into(), span.ended.to_string().into());
    map.insert("attributes".into(), json_attributes(&span.attributes));
    map.insert("events".into(), events.into());
    if span.events_left_out > 0 {
        let count = span.events_left_out.into();
        map.insert("droppedEventsCount".into(), count);
    }
    let status = if span.failed {
        json!({ "code": 2 })
    } else {
        json!({})
    };
    map.insert("status".into(), status);
    Json::Object(map)
}

fn json_attributes(attributes: &[(&'static str, Value)]) -> Json {
    let attributes = attributes.iter().map(|(name, value)| {
        let value = match value {
            Value::Text(text) if *name == LIST => {
                json!({ "arrayValue": { "values": [{ "stringValue": text }] } })
            }
            Value::Text(text) => json!({ "stringValue": text }),
            Value::Integer(number) => json!({ "intValue": number.to_string() }),
            Value::Float(number) => json!({ "doubleValue": number }),
            Value::Bool(flag) => json!({ "boolValue": flag }),
        };
        json!({ "key": name, "value": value })
    });
    attributes.collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A request of spans, in protobuf.
pub(super) fn protobuf(resource: &Resource, spans: &[Span]) -> Vec<u8> {
    let mut who = Wire::default();
    for (name, value) in resource {
        let mut any = Wire::default();
        any.bytes(1, value.as_bytes());
        who.message(1, &key_value(name, &any));
    }
    let mut scope = Wire::default();
    scope.bytes(1, SCOPE.as_bytes());
    scope.bytes(2, VERSION.as_bytes());
    let mut of_scope = Wire::default();
    of_scope.message(1, &scope);
    for span in spans {
        of_scope.message(2, &protobuf_span(span));
    }
    let mut of_resource = Wire::default();
    of_resource.message(1, &who);
    of_resource.message(2, &of_scope);
    let mut request = Wire::default();
    request.message(1, &of_resource);
    request.0
}

fn protobuf_span(span: &Span) -> Wire {
    let mut wire = Wire::default();
    wire.bytes(1, &span.trace);
    wire.bytes(2, &span.id);
    if let Some(parent) = span.parent {
        wire.bytes(4, &parent);
    }
    wire.bytes(5, span.name.as_bytes());
    wire.number(6, span.kind());
    wire.fixed64(7, span.began);
    wire.fixed64(8, span.ended);
    attributes(&mut wire, 9, &span.attributes);
    for event in &span.events {
        let mut inner = Wire::default();
        inner.fixed64(1, event.at);
        inner.bytes(2, event.name.as_bytes());
        attributes(&mut inner, 3, &event.attributes);
        wire.message(11, &inner);
    }
    if span.events_left_out > 0 {
        wire.number(12, span.events_left_out.into());
    }
    if span.failed {
        let mut status = Wire::default();
        status.number(3, 2);
        wire.message(15, &status);
    }
    wire.fixed32(16, span.flags());
    wire
}

fn attributes(wire: &mut Wire, field: u64, attributes: &[(&'static str, Value)]) {
    for (name, value) in attributes {
        let mut any = Wire::default();
        match value {
            Value::Text(text) if *name == LIST => {
                let (mut item, mut list) = (Wire::default(), Wire::default());
                item.bytes(1, text.as_bytes());
                list.message(1, &item);
                any.message(5, &list);
            }
            Value::Text(text) => any.bytes(1, text.as_bytes()),
            Value::Bool(flag) => any.number(2, u64::from(*flag)),
            Value::Integer(number) => any.number(3, number.cast_unsigned()),
            Value::Float(number) => any.fixed64(4, number.to_bits()),
        }
        wire.message(field, &key_value(name, &any));
    }
}

fn key_value(name: &str, any: &Wire) -> Wire {
    let mut pair = Wire::default();
    pair.bytes(1, name.as_bytes());
    pair.message(2, any);
    pair
}

/// A message of protobuf as it grows.
#[derive(Debug, Default)]
struct Wire(Vec<u8>);

impl Wire {
    fn varint(&mut self, mut number: u64) {
        loop {
            let [low, ..] = number.to_le_bytes();
            number >>= 7;
            if number == 0 {
                self.0.push(low & 0x7f);
                return;
            }
            self.0.push(low | 0x80);
        }
    }

    fn number(&mut self, field: u64, number: u64) {
        self.varint(field << 3);
        self.varint(number);
    }

    fn fixed64(&mut self, field: u64, number: u64) {
        self.varint(field << 3 | 1);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn fixed32(&mut self, field: u64, number: u32) {
        self.varint(field << 3 | 5);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(u64::try_from(bytes.len()).unwrap_or_default());
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, inner: &Self) {
        self.bytes(field, &inner.0);
    }
}
