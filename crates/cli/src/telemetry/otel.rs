//! What the standard variables of OpenTelemetry say.

use std::path::PathBuf;
use std::time::Duration;

use tooloop::provider::Post;

/// Where traces go, and how.
#[derive(Debug)]
pub(super) struct Otel {
    url: String,
    headers: Vec<(String, String)>,
    certificate: Option<PathBuf>,
    /// There once [`Otel::connect`] has found the rest usable.
    pub(super) post: Option<Post>,
    pub(super) protocol: Protocol,
    /// The longest time that one export may take.
    pub(super) timeout: Duration,
    pub(super) resource: Vec<(String, String)>,
    /// The span of another process that turns belong into.
    pub(super) parent: Option<Parent>,
    /// Whether what was said is exported too.
    pub(super) content: bool,
    pub(super) queue: usize,
    pub(super) batch: usize,
    pub(super) delay: Duration,
}

/// How spans are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Protobuf,
    Json,
}

/// A span of another process, by W3C's `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parent {
    pub(super) trace: [u8; 16],
    pub(super) span: [u8; 8],
    pub(super) is_sampled: bool,
}

type Look<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads them; `None` if nothing is to be exported.
pub(super) fn read(
    setting: Option<&str>,
    look: Look<'_>,
    warnings: &mut Vec<String>,
) -> Option<Otel> {
    let url = url(setting, look)?;
    if is_true(look("OTEL_SDK_DISABLED")) {
        return None;
    }
    let mut unknown = |name: &str, value: &str, known: &str| {
        warnings.push(format!(
            "{name}={value:?} is not known here ({known}): no traces are exported"
        ));
    };
    match look("OTEL_TRACES_EXPORTER").as_deref() {
        None | Some("otlp") => {}
        Some("none") => return None,
        Some(other) => {
            unknown("OTEL_TRACES_EXPORTER", other, "otlp or none");
            return None;
        }
    }
    let protocol = match specific(look, "PROTOCOL").as_deref() {
        None | Some("http/protobuf") => Protocol::Protobuf,
        Some("http/json") => Protocol::Json,
        Some(other) => {
            let known = "http/protobuf or http/json";
            unknown("OTEL_EXPORTER_OTLP_PROTOCOL", other, known);
            return None;
        }
    };
    let parent = look("TRACEPARENT").and_then(|text| Parent::parse(&text));
    let sampled_by_parent = parent.is_none_or(|parent| parent.is_sampled);
    let is_sampled = match look("OTEL_TRACES_SAMPLER").as_deref() {
        None | Some("parentbased_always_on") => sampled_by_parent,
        Some("always_on") => true,
        Some("always_off") => false,
        Some("parentbased_always_off") => parent.is_some_and(|parent| parent.is_sampled),
        Some(other) => {
            let known = "always_on, always_off, parentbased_always_on or parentbased_always_off";
            unknown("OTEL_TRACES_SAMPLER", other, known);
            return None;
        }
    };
    if !is_sampled {
        return None;
    }
    let batch = number(look("OTEL_BSP_MAX_EXPORT_BATCH_SIZE"), 512, 4_096);
    Some(Otel {
        url,
        headers: specific(look, "HEADERS").map_or_else(Vec::new, |text| pairs(&text)),
        certificate: specific(look, "CERTIFICATE").map(PathBuf::from),
        post: None,
        protocol,
        timeout: millis(specific(look, "TIMEOUT"), 10_000),
        resource: resource(look),
        parent,
        content: is_true(look("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")),
        queue: number(look("OTEL_BSP_MAX_QUEUE_SIZE"), 2_048, 65_536).max(batch),
        batch,
        delay: millis(look("OTEL_BSP_SCHEDULE_DELAY"), 5_000),
    })
}

impl Otel {
    /// Checks address, headers and certificates; words if they are not usable.
    pub(super) fn connect(&mut self) -> Option<String> {
        match Post::new(&self.url, &self.headers, self.certificate.as_deref()) {
            Ok(post) => {
                self.post = Some(post);
                None
            }
            Err(error) => Some(format!("no traces are exported: {error}")),
        }
    }

    /// What must not show.
    pub(super) fn secrets(&self) -> impl Iterator<Item = String> {
        let values = self.headers.iter().map(|(_, value)| value);
        // A scheme, such as `Bearer`, is no part of the key.
        values.flat_map(|value| {
            let bare = value.rsplit(' ').next().unwrap_or_default().to_owned();
            [value.clone(), bare]
        })
    }
}

/// A variable for traces beats the one for everything.
fn specific(look: Look<'_>, name: &str) -> Option<String> {
    look(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"))
        .or_else(|| look(&format!("OTEL_EXPORTER_OTLP_{name}")))
        .map(|value| value.trim().to_owned())
        .filter(|value| !value.is_empty())
}

fn url(setting: Option<&str>, look: Look<'_>) -> Option<String> {
    if let Some(url) = look("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") {
        return Some(url);
    }
    let base = look("OTEL_EXPORTER_OTLP_ENDPOINT").or_else(|| setting.map(str::to_owned))?;
    Some(format!("{}/v1/traces", base.trim().trim_end_matches('/')))
}

fn resource(look: Look<'_>) -> Vec<(String, String)> {
    let given = look("OTEL_RESOURCE_ATTRIBUTES").map_or_else(Vec::new, |text| pairs(&text));
    let has = |name: &str| given.iter().any(|(other, _)| other == name);
    let mut all = Vec::new();
    let name = look("OTEL_SERVICE_NAME");
    if name.is_some() || !has("service.name") {
        let name = name.unwrap_or_else(|| "tooloop".into());
        all.push(("service.name".to_owned(), name));
    }
    if !has("service.version") {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        all.push(("service.version".to_owned(), version));
    }
    for (name, value) in given {
        if !all.iter().any(|(other, _)| *other == name) {
            all.push((name, value));
        }
    }
    all
}

/// `name=value` parted by commas; values may be percent-encoded.
fn pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (name.trim().to_owned(), decoded(value.trim())))
        .filter(|(name, _)| !name.is_empty())
        .collect()
}

/// Without percent-encoding; as it is where that makes no text.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| first == b'%');
        match code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

fn is_true(value: Option<String>) -> bool {
    value.is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
}

fn number(value: Option<String>, default: usize, most: usize) -> usize {
    let value = value.and_then(|value| value.trim().parse().ok());
    value.unwrap_or(default).clamp(1, most)
}

/// A minute at most.
fn millis(value: Option<String>, default: u64) -> Duration {
    let value = value.and_then(|value| value.trim().parse().ok());
    Duration::from_millis(value.unwrap_or(default).min(60_000))
}

impl Parent {
    /// Reads `version-trace-span-flags`; `None` if it is not that.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let version: [u8; 1] = hex(parts.next()?)?;
        let (trace, span) = (hex(parts.next()?)?, hex(parts.next()?)?);
        let flags: [u8; 1] = hex(parts.next()?)?;
        let is_known = version != [0xff] && (version != [0] || parts.next().is_none());
        (is_known && trace != [0; 16] && span != [0; 8]).then_some(Self {
            trace,
            span,
            is_sampled: flags.iter().any(|flags| flags & 1 == 1),
        })
    }
}

/// Bytes from so many lower-case digits.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_lower = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    if text.len() != N * 2 || !text.chars().all(is_lower) {
        return None;
    }
    let mut bytes = [0; N];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok()?;
    }
    Some(bytes)
}
