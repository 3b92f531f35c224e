//! Parts of the export that need no run: what variables mean, and how spans are written.

use std::collections::BTreeMap;
use std::time::Duration;

use tooloop::provider::Redactor;

use super::export::Exporter;
use super::fields::Value;
use super::otel::{self, Otel, Parent, Protocol};
use super::otlp::{self, Event, Span};

fn read(variables: &[(&str, &str)], setting: Option<&str>) -> (Option<Otel>, Vec<String>) {
    let variables: BTreeMap<_, _> = variables.iter().copied().collect();
    let look = |name: &str| variables.get(name).map(|&value| value.to_owned());
    let mut warnings = Vec::new();
    let otel = otel::read(setting, &look, &mut warnings);
    (otel, warnings)
}

const AT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/");

#[test]
fn nothing_is_exported_unless_somebody_says_where() {
    assert!(read(&[], None).0.is_none());
    assert!(read(&[("OTEL_SERVICE_NAME", "x")], None).0.is_none());
    assert!(read(&[], Some("http://c")).0.is_some());
    assert!(read(&[AT, ("OTEL_SDK_DISABLED", "TRUE")], None).0.is_none());
}

#[test]
fn variables_mean_what_the_standard_says() {
    let (otel, warnings) = read(
        &[
            AT,
            (
                "OTEL_EXPORTER_OTLP_HEADERS",
                "a=1, b=x%3Dy%2Cz,broken,c=%zz",
            ),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "3000"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "70"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            (
                "OTEL_RESOURCE_ATTRIBUTES",
                "service.name=theirs,host.name=h",
            ),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "7"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "no number"),
        ],
        Some("http://elsewhere"),
    );
    assert_eq!(warnings, Vec::<String>::new());
    let otel = otel.unwrap();
    assert_eq!(otel.timeout, Duration::from_millis(70));
    assert_eq!(otel.protocol, Protocol::Json);
    assert_eq!((otel.batch, otel.queue), (512, 512));
    let owned = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        otel.resource,
        [
            owned("service.version", env!("CARGO_PKG_VERSION")),
            owned("service.name", "theirs"),
            owned("host.name", "h"),
        ]
    );
    let secrets: Vec<_> = otel.secrets().collect();
    assert_eq!(secrets, ["1", "1", "x=y,z", "x=y,z", "%zz", "%zz"]);
}

#[test]
fn a_parent_is_taken_only_if_it_is_one() {
    let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let parent = Parent::parse(good).unwrap();
    assert_eq!(
        (parent.trace[0], parent.span[7], parent.is_sampled),
        (0x0a, 0x31, true)
    );
    // A later version may say more.
    assert!(Parent::parse(&good.replacen("00", "cc", 1).replace("-01", "-01-x")).is_some());
    for bad in [
        "",
        "00",
        &good[1..],
        &good.replacen("00", "ff", 1),
        &good.replace("0af7", "0AF7"),
        &good.replace("-01", "-01-x"),
        &good.replace("b7ad6b7169203331", "0000000000000000"),
        &good.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
        &good.replace("-01", "-é"),
    ] {
        assert_eq!(Parent::parse(bad), None, "{bad}");
    }
}

fn span() -> Span {
    Span {
        trace: [0xab; 16],
        id: [1; 8],
        parent: Some([2; 8]),
        is_parent_remote: true,
        name: "chat m".into(),
        is_client: true,
        began: 1_700_000_000_000_000_001,
        ended: 1_700_000_000_300_000_002,
        attributes: vec![
            ("text", Value::Text("é\"".into())),
            ("gen_ai.response.finish_reasons", Value::Text("stop".into())),
            ("count", Value::Integer(300)),
            ("below", Value::Integer(-1)),
            ("cost", Value::Float(0.25)),
            ("flag", Value::Bool(true)),
        ],
        events: vec![Event {
            at: 1_700_000_000_100_000_000,
            name: "retry".into(),
            attributes: vec![("attempt", Value::Integer(1))],
        }],
        events_left_out: 3,
        failed: true,
    }
}

#[test]
fn spans_in_json() {
    let json = otlp::json(&[("service.name".into(), "s".into())], &[span()]);
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let expected = serde_json::json!({ "resourceSpans": [{
        "resource": { "attributes": [{ "key": "service.name", "value": { "stringValue": "s" } }] },
        "scopeSpans": [{
            "scope": { "name": "tooloop", "version": env!("CARGO_PKG_VERSION") },
            "spans": [{
                "traceId": "ab".repeat(16),
                "spanId": "01".repeat(8),
                "parentSpanId": "02".repeat(8),
                "flags": 0x301,
                "name": "chat m",
                "kind": 3,
                "startTimeUnixNano": "1700000000000000001",
                "endTimeUnixNano": "1700000000300000002",
                "attributes": [
                    { "key": "text", "value": { "stringValue": "é\"" } },
                    { "key": "gen_ai.response.finish_reasons",
                      "value": { "arrayValue": { "values": [{ "stringValue": "stop" }] } } },
                    { "key": "count", "value": { "intValue": "300" } },
                    { "key": "below", "value": { "intValue": "-1" } },
                    { "key": "cost", "value": { "doubleValue": 0.25 } },
                    { "key": "flag", "value": { "boolValue": true } },
                ],
                "events": [{
                    "timeUnixNano": "1700000000100000000",
                    "name": "retry",
                    "attributes": [{ "key": "attempt", "value": { "intValue": "1" } }],
                }],
                "droppedEventsCount": 3,
                "status": { "code": 2 },
            }],
        }],
    }] });
    assert_eq!(json, expected);
}

/// Reads a message of protobuf: each field's number and its value.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut number = 0;
        for shift in (0..).step_by(7) {
            let (&byte, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        number
    }
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let take = |length: usize, bytes: &mut &[u8]| {
            let (taken, rest) = bytes.split_at(length);
            let taken: Vec<u8> = taken.to_vec();
            *bytes = rest;
            taken
        };
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => Field::Number(u64::from_le_bytes(take(8, &mut bytes).try_into().unwrap())),
            5 => Field::Number(u32::from_le_bytes(take(4, &mut bytes).try_into().unwrap()).into()),
            2 => {
                let length = usize::try_from(varint(&mut bytes)).unwrap();
                let (taken, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(taken)
            }
            other => panic!("no wire type {other}"),
        };
        all.push((tag >> 3, field));
    }
    all
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The messages and strings of a field.
fn all(message: &[u8], number: u64) -> Vec<&[u8]> {
    let found = fields(message)
        .into_iter()
        .filter(|(field, _)| *field == number);
    found
        .map(|(_, field)| match field {
            Field::Bytes(bytes) => bytes,
            Field::Number(number) => panic!("{number} is no message"),
        })
        .collect()
}

fn number(message: &[u8], wanted: u64) -> u64 {
    match fields(message)
        .into_iter()
        .find(|(field, _)| *field == wanted)
    {
        Some((_, Field::Number(number))) => number,
        other => panic!("{wanted}: {other:?}"),
    }
}

#[test]
fn spans_in_protobuf() {
    let bytes = otlp::protobuf(&[("service.name".into(), "s".into())], &[span(), span()]);
    let of_resource = all(&bytes, 1)[0];
    let pair = all(all(of_resource, 1)[0], 1)[0];
    assert_eq!(
        (all(pair, 1)[0], all(all(pair, 2)[0], 1)[0]),
        (&b"service.name"[..], &b"s"[..])
    );
    let of_scope = all(of_resource, 2)[0];
    assert_eq!(all(all(of_scope, 1)[0], 1), [b"tooloop"]);
    let spans = all(of_scope, 2);
    assert_eq!(spans.len(), 2);
    let one = spans[1];
    assert_eq!(all(one, 1), [&[0xab; 16]]);
    assert_eq!(
        (all(one, 2), all(one, 4)),
        (vec![&[1; 8][..]], vec![&[2; 8][..]])
    );
    assert_eq!(all(one, 5), [b"chat m"]);
    assert_eq!((number(one, 6), number(one, 16)), (3, 0x301));
    assert_eq!(number(one, 7), 1_700_000_000_000_000_001);
    assert_eq!(number(one, 8), 1_700_000_000_300_000_002);
    assert_eq!((number(one, 12), number(all(one, 15)[0], 3)), (3, 2));
    let values: Vec<_> = all(one, 9)
        .into_iter()
        .map(|pair| fields(all(pair, 2)[0])[0])
        .collect();
    assert_eq!(values[0], (1, Field::Bytes("é\"".as_bytes())));
    let (list, Field::Bytes(items)) = values[1] else {
        panic!("{values:?}")
    };
    assert_eq!((list, all(all(items, 1)[0], 1)), (5, vec![&b"stop"[..]]));
    assert_eq!(values[2], (3, Field::Number(300)));
    assert_eq!(values[3], (3, Field::Number(u64::MAX)));
    assert_eq!(values[4], (4, Field::Number(0.25_f64.to_bits())));
    assert_eq!(values[5], (2, Field::Number(1)));
    let event = all(one, 11)[0];
    assert_eq!(number(event, 1), 1_700_000_000_100_000_000);
    assert_eq!(all(event, 2), [b"retry"]);
    assert_eq!(all(all(event, 3)[0], 1), [b"attempt"]);
}

/// Nobody listens: a queue with a bound loses what does not fit, and counts it.
#[tokio::test]
async fn what_does_not_fit_is_lost_and_counted() {
    let (otel, _) = read(
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "4"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4"),
        ],
        None,
    );
    let mut otel = otel.unwrap();
    assert_eq!(otel.connect(), None);
    let exporter = Exporter::start(otel, Redactor::default());
    let queue = exporter.queue();
    for _ in 0..10 {
        queue.push(span());
    }
    let mut huge = span();
    huge.name = "huge".into();
    huge.attributes = vec![("text", Value::Text("x".repeat(17 << 20)))];
    queue.push(huge);
    let words = exporter
        .finish(Duration::from_secs(2), std::future::pending())
        .await;
    assert!(words.unwrap().starts_with("11 spans were not exported: "));
}
