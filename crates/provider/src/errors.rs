//! One table that says what a failure means.
//!
//! Every format's error answers and in-band errors are classified here, by status, by the
//! provider's code and, where those say too little, by its words. It knows no transport.

use std::time::{Duration, SystemTime};

use serde_json::Value;
use tooloop_model::{ModelError, ModelErrorKind};

use crate::codec::Failure;
use crate::words;

/// What a provider said about a failure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// Its codes, the most telling first: `error.code`, `error.type`, as far as they are words.
    pub(crate) codes: Vec<String>,
    /// A status, where its code is a number.
    pub(crate) status: Option<u16>,
    /// Its words.
    pub(crate) message: String,
}

/// Classifies an answer that is not a reply.
pub(crate) fn classify(failure: &Failure<'_>) -> ModelError {
    let told = told_by_body(failure.body);
    let status = failure.status;
    let (codes, said) = match &told {
        Some(told) => (told.codes.as_slice(), told.message.clone()),
        None => (&[][..], words::plain(failure.body)),
    };
    // A reply that claims to be good and holds an error is judged by what the error says.
    let judged = if (200..300).contains(&status) {
        told.as_ref().and_then(|told| told.status)
    } else {
        Some(status)
    };
    let kind = kind(judged, codes, &said);
    let mut message = format!("{} answered {status}", failure.host);
    if let Some(code) = codes.first() {
        message.push_str(&format!(" ({})", words::short(code, 60)));
    }
    if !said.is_empty() {
        message.push_str(": ");
        message.push_str(&words::short(&said, words::LIMIT));
    }
    if status == 407 {
        message.push_str("; the proxy asks for a login: put it into HTTP_PROXY or HTTPS_PROXY");
    }
    ModelError {
        kind,
        message,
        status: Some(status),
        code: codes.first().cloned(),
        retry_after: retry_after(failure.retry_after_ms, failure.retry_after, failure.now),
    }
}

/// Classifies an error that came inside a reply. `error` is the error object (or string) itself.
pub(crate) fn in_band(error: &Value) -> ModelError {
    let told = told_by_error(error);
    let mut message = String::from("the reply holds an error");
    if let Some(code) = told.codes.first() {
        message.push_str(&format!(" ({})", words::short(code, 60)));
    } else if let Some(status) = told.status {
        message.push_str(&format!(" ({status})"));
    }
    if !told.message.is_empty() {
        message.push_str(": ");
        message.push_str(&words::short(
            &words::plain_text(&told.message),
            words::LIMIT,
        ));
    }
    ModelError {
        kind: kind(told.status, &told.codes, &told.message),
        message,
        status: told.status,
        code: told.codes.first().cloned(),
        retry_after: None,
    }
}

/// Whether a body tells of an error, whatever its status says.
pub(crate) fn holds_error(body: &[u8]) -> bool {
    told_by_body(body).is_some()
}

fn told_by_body(body: &[u8]) -> Option<Told> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let value = match value {
        Value::Array(values) => values.into_iter().next()?,
        value => value,
    };
    if let Some(error) = value.get("error").filter(|error| !error.is_null()) {
        let mut told = told_by_error(error);
        // Some put the words beside the error rather than into it.
        if told.message.is_empty()
            && let Some(message) = text(&value, "message")
        {
            told.message = words::plain_text(&message);
        }
        return Some(told);
    }
    ["message", "detail", "errors", "error_message", "msg"]
        .iter()
        .any(|key| value.get(key).is_some_and(|value| !value.is_null()))
        .then(|| told_by_error(&value))
}

fn told_by_error(error: &Value) -> Told {
    let mut told = Told::default();
    match error {
        Value::String(message) => message.clone_into(&mut told.message),
        Value::Object(_) => {
            for key in ["code", "type", "status", "status_code"] {
                match error.get(key) {
                    Some(Value::String(code)) => match code.parse::<u16>() {
                        Ok(status) => told.status = told.status.or(real_status(status.into())),
                        Err(_) if key == "type" && code == "error" => {}
                        Err(_) if !code.is_empty() => told.codes.push(code.clone()),
                        Err(_) => {}
                    },
                    Some(Value::Number(status)) => {
                        told.status = told.status.or(status.as_u64().and_then(real_status));
                    }
                    _ => {}
                }
            }
            for key in [
                "message",
                "detail",
                "msg",
                "error_message",
                "error",
                "errors",
            ] {
                if let Some(message) = text(error, key) {
                    told.message = message;
                    break;
                }
            }
            // A router puts the words of the provider behind it into a corner of its own.
            if let Some(raw) = error.pointer("/metadata/raw").and_then(Value::as_str)
                && !raw.is_empty()
            {
                told.message = format!("{}: {raw}", told.message);
            }
        }
        _ => {}
    }
    told.message = words::plain_text(&told.message);
    told
}

fn text(value: &Value, key: &str) -> Option<String> {
    match value.get(key)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        value @ (Value::Object(_) | Value::Array(_)) => Some(value.to_string()),
        _ => None,
    }
}

fn real_status(status: u64) -> Option<u16> {
    u16::try_from(status)
        .ok()
        .filter(|status| (400..600).contains(status))
}

/// Words of a failure that the length of the conversation explains.
const TOO_LONG: &[&str] = &[
    "prompt is too long",
    "exceed_context_size",
    "exceeds the available context size",
    "context_length_exceeded",
    "maximum context length",
    "exceed context limit",
    "exceeds the context window",
    "exceeds the model's context",
    "exceeds the maximum number of tokens",
    "exceeds maximum allowed number of tokens",
    "larger than the context",
    "greater than the context length",
    "context window exceeds",
    "contextwindowexceeded",
    "input is too long for requested model",
    "input length exceeds",
    "too large for model with",
    "model's context length",
    "context size has been exceeded",
];

/// Words of a failure that only money mends.
const NO_MONEY: &[&str] = &[
    "credit balance is too low",
    "exceeded your current quota",
    "insufficient balance",
    "insufficient credits",
    "insufficient_quota",
    "billing",
];

/// Words of a failure that the reasoning in the request explains.
const THINKING: &[&str] = &[
    "thinking` block",
    "thinking block",
    "redacted_thinking",
    ".thinking",
    "signature",
    "encrypted content",
    "encrypted_content",
    "reasoning_content",
    "reasoning item",
    "reasoning_details",
];

/// Words of a failure that an image or a document in the request explains.
const ATTACHMENT: &[&str] = &[
    "image",
    "picture",
    "pdf",
    "document",
    "multimodal",
    "multi-modal",
    "vision",
    "media type",
    "media_type",
    "attachment",
];

/// Whether a request was refused for a part that the conversation can go on without.
fn refused_part(status: Option<u16>, codes: &[String], message: &str) -> Option<ModelErrorKind> {
    let invalid = ["invalid_request_error", "bad_request", "invalid_request"];
    let refused = match status {
        Some(400 | 415 | 422) => true,
        // Where nothing can take an image, some say that they found nothing.
        Some(404 | 501) => message.contains("support"),
        Some(500) => has_any(message, REQUEST_TO_BLAME) || message.contains("could not process"),
        Some(_) => false,
        None => codes.iter().any(|code| invalid.contains(&code.as_str())),
    };
    if !refused {
        return None;
    }
    // A budget for reasoning is a setting, and no part of the conversation.
    if has_any(message, THINKING) && !message.contains("budget") {
        return Some(ModelErrorKind::ThinkingRefused);
    }
    let message = message.replace("documentation", "");
    has_any(&message, ATTACHMENT).then_some(ModelErrorKind::AttachmentRefused)
}

/// Words of a failure that a local server reports as its own though the request is to blame.
const REQUEST_TO_BLAME: &[&str] = &[
    "failed to parse",
    "is not supported",
    "' is required",
    "unable to generate parser",
    "must provide",
    "cannot have 2 or more assistant messages",
    "conversation roles must alternate",
    "invalid message",
    "unsupported content",
    "json schema",
];

fn has_any(text: &str, needles: &[&str]) -> bool {
    needles.iter().any(|needle| text.contains(needle))
}

/// The table. `status` is the HTTP status, or what the provider says it would have been.
pub(crate) fn kind(status: Option<u16>, codes: &[String], message: &str) -> ModelErrorKind {
    let message = message.to_ascii_lowercase();
    let codes: Vec<String> = codes.iter().map(|code| code.to_ascii_lowercase()).collect();
    let code_is = |names: &[&str]| codes.iter().any(|code| names.contains(&code.as_str()));

    if code_is(&[
        "exceed_context_size_error",
        "context_length_exceeded",
        "context_window_exceeded",
        "model_context_window_exceeded",
        "request_too_large",
    ]) || status == Some(413)
        || (status != Some(429) && has_any(&message, TOO_LONG))
    {
        return ModelErrorKind::ContextTooLong;
    }
    if code_is(&[
        "insufficient_quota",
        "billing_error",
        "billing_not_active",
        "quota_exceeded",
    ]) || status == Some(402)
        || (status.is_some_and(|status| status < 500) && has_any(&message, NO_MONEY))
    {
        return ModelErrorKind::BadRequest;
    }
    if code_is(&[
        "content_filter",
        "content_policy_violation",
        "responsibleaipolicyviolation",
        "data_inspection_failed",
        "moderation_blocked",
    ]) {
        return ModelErrorKind::ContentRefused;
    }
    if let Some(kind) = refused_part(status, &codes, &message) {
        return kind;
    }
    if code_is(&[
        "overloaded_error",
        "overloaded",
        "engine_overloaded",
        "server_overloaded",
    ]) {
        return ModelErrorKind::Overloaded;
    }
    // The provider could not read what its own model wrote: another try writes something else.
    if code_is(&["tool_use_failed"]) {
        return ModelErrorKind::Decode;
    }
    match status {
        Some(401 | 403) => return ModelErrorKind::Auth,
        Some(404) => return ModelErrorKind::NotFound,
        Some(407) => return ModelErrorKind::Proxy,
        Some(429) => return ModelErrorKind::RateLimited,
        Some(503 | 529) => return ModelErrorKind::Overloaded,
        Some(408 | 409 | 425) => return ModelErrorKind::Server,
        Some(300..=499) => {
            return if code_is(&["rate_limit_error", "rate_limit_exceeded"]) {
                ModelErrorKind::RateLimited
            } else if code_is(&["authentication_error", "invalid_api_key"]) {
                ModelErrorKind::Auth
            } else if code_is(&["not_found_error", "model_not_found"]) {
                ModelErrorKind::NotFound
            } else {
                ModelErrorKind::BadRequest
            };
        }
        Some(500) if has_any(&message, REQUEST_TO_BLAME) => return ModelErrorKind::BadRequest,
        Some(_) => return ModelErrorKind::Server,
        None => {}
    }
    if code_is(&[
        "rate_limit_error",
        "rate_limit_exceeded",
        "too_many_requests",
    ]) {
        ModelErrorKind::RateLimited
    } else if code_is(&[
        "authentication_error",
        "permission_error",
        "invalid_api_key",
    ]) {
        ModelErrorKind::Auth
    } else if code_is(&["not_found_error", "model_not_found"]) {
        ModelErrorKind::NotFound
    } else if code_is(&["invalid_request_error", "bad_request", "invalid_request"]) {
        ModelErrorKind::BadRequest
    } else {
        ModelErrorKind::Server
    }
}

/// How long to wait, if a header says so in a way that makes sense.
pub(crate) fn retry_after(
    milliseconds: Option<&str>,
    seconds_or_date: Option<&str>,
    now: SystemTime,
) -> Option<Duration> {
    if let Some(wait) = milliseconds.and_then(|text| number(text, 1000)) {
        return Some(wait);
    }
    let text = seconds_or_date?.trim();
    number(text, 1).or_else(|| {
        let date = httpdate::parse_http_date(text).ok()?;
        Some(date.duration_since(now).unwrap_or(Duration::ZERO))
    })
}

/// A number of seconds, or of parts of a second, that is not negative. Too large ones stay large.
fn number(text: &str, per_second: u32) -> Option<Duration> {
    let text = text.trim();
    let starts_well = text.as_bytes().first().is_some_and(u8::is_ascii_digit);
    if !starts_well {
        return None;
    }
    let number: f64 = text.parse().ok()?;
    let seconds = number / f64::from(per_second);
    Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure<'a>(status: u16, body: &'a str) -> Failure<'a> {
        Failure {
            host: "api.test",
            status,
            retry_after_ms: None,
            retry_after: None,
            body: body.as_bytes(),
            now: SystemTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn statuses_and_codes() {
        use ModelErrorKind as Kind;
        let typed = |kind: &str, words: &str| {
            format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"{words}"}}}}"#)
        };
        let coded = |code: &str, words: &str| {
            format!(
                r#"{{"error":{{"message":"{words}","type":"invalid_request_error","code":"{code}"}}}}"#
            )
        };
        let cases = [
            (400, typed("invalid_request_error", "max_tokens: must be positive"), Kind::BadRequest),
            (401, typed("authentication_error", "invalid x-api-key"), Kind::Auth),
            (403, typed("permission_error", "not for you"), Kind::Auth),
            (404, typed("not_found_error", "model: claude-0"), Kind::NotFound),
            (405, String::new(), Kind::BadRequest),
            (408, String::new(), Kind::Server),
            (409, String::new(), Kind::Server),
            (413, typed("request_too_large", "Request exceeds the maximum size"), Kind::ContextTooLong),
            (422, typed("invalid_request_error", "extra field"), Kind::BadRequest),
            (429, typed("rate_limit_error", "slow down"), Kind::RateLimited),
            (429, typed("rate_limit_error", "prompt is too long for this tier, per minute"), Kind::RateLimited),
            (429, coded("insufficient_quota", "You exceeded your current quota"), Kind::BadRequest),
            (402, coded("", "Insufficient Balance"), Kind::BadRequest),
            (400, typed("invalid_request_error", "Your credit balance is too low to access the API"), Kind::BadRequest),
            (500, typed("api_error", "Internal server error"), Kind::Server),
            (502, "<html>bad gateway</html>".into(), Kind::Server),
            (503, r#"{"error":{"message":"Loading model","type":"unavailable_error","code":503}}"#.into(), Kind::Overloaded),
            (504, String::new(), Kind::Server),
            (529, typed("overloaded_error", "Overloaded"), Kind::Overloaded),
            (400, typed("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"), Kind::ContextTooLong),
            (400, coded("context_length_exceeded", "This model's maximum context length is 8192 tokens"), Kind::ContextTooLong),
            (500, coded("", "the request exceeds the available context size"), Kind::ContextTooLong),
            (400, coded("content_filter", "filtered"), Kind::ContentRefused),
            (500, r#"{"error":{"code":500,"message":"Failed to parse tool call arguments as JSON: x","type":"server_error"}}"#.into(), Kind::BadRequest),
            (500, r#"{"error":{"code":500,"message":"image input is not supported","type":"server_error"}}"#.into(), Kind::AttachmentRefused),
            (400, typed("invalid_request_error", "Could not process image"), Kind::AttachmentRefused),
            (400, typed("invalid_request_error", "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum"), Kind::AttachmentRefused),
            (400, typed("invalid_request_error", "At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels"), Kind::AttachmentRefused),
            (400, typed("invalid_request_error", "The PDF specified was not valid."), Kind::AttachmentRefused),
            (400, coded("", "unknown variant `image_url`, expected `text`"), Kind::AttachmentRefused),
            (404, coded("", "No endpoints found that support image input"), Kind::AttachmentRefused),
            (400, coded("", "max_tokens is too large, see the documentation"), Kind::BadRequest),
            (400, typed("invalid_request_error", "messages.1.content.0: `thinking` blocks in the latest assistant message cannot be modified"), Kind::ThinkingRefused),
            (400, typed("invalid_request_error", "messages.1.content.0: Invalid `signature` in `thinking` block"), Kind::ThinkingRefused),
            (400, typed("invalid_request_error", "messages.3.content.0: Invalid `data` in `redacted_thinking` block"), Kind::ThinkingRefused),
            (400, coded("invalid_encrypted_content", "The encrypted content gAAA could not be verified"), Kind::ThinkingRefused),
            (400, coded("", "Corrupted thought signature."), Kind::ThinkingRefused),
            (400, typed("invalid_request_error", "max_tokens must be greater than thinking.budget_tokens"), Kind::BadRequest),
            (200, r#"{"error":{"message":"no capacity"}}"#.into(), Kind::Server),
            (200, r#"{"error":{"code":401,"message":"no"}}"#.into(), Kind::Auth),
            (302, String::new(), Kind::BadRequest),
        ];
        for (status, body, kind) in cases {
            let error = classify(&failure(status, &body));
            assert_eq!(error.kind, kind, "{status} {body}");
            assert_eq!(error.status, Some(status));
        }
    }

    #[test]
    fn errors_inside_a_reply() {
        use ModelErrorKind as Kind;
        let cases = [
            (
                r#"{"type":"overloaded_error","message":"Overloaded"}"#,
                Kind::Overloaded,
            ),
            (r#"{"type":"api_error","message":"x"}"#, Kind::Server),
            (
                r#"{"type":"rate_limit_error","message":"x"}"#,
                Kind::RateLimited,
            ),
            (
                r#"{"type":"invalid_request_error","message":"x"}"#,
                Kind::BadRequest,
            ),
            (
                r#"{"type":"invalid_request_error","message":"prompt is too long: 1 > 0"}"#,
                Kind::ContextTooLong,
            ),
            (r#"{"code":502,"message":"upstream gone"}"#, Kind::Server),
            (r#"{"code":"502","message":"upstream gone"}"#, Kind::Server),
            (
                r#"{"code":400,"message":"Token limit reached"}"#,
                Kind::BadRequest,
            ),
            (
                r#"{"code":"tool_use_failed","type":"invalid_request_error","message":"x"}"#,
                Kind::Decode,
            ),
            (r#""llama runner process has terminated""#, Kind::Server),
        ];
        for (error, kind) in cases {
            let value: Value = serde_json::from_str(error).unwrap();
            assert_eq!(in_band(&value).kind, kind, "{error}");
        }
        let value = serde_json::json!({"type": "overloaded_error", "message": "Overloaded"});
        assert_eq!(
            in_band(&value).message,
            "the reply holds an error (overloaded_error): Overloaded"
        );
    }

    #[test]
    fn messages_name_host_status_and_words() {
        let body =
            r#"{"error":{"type":"rate_limit_error","message":"too <b>many</b>\nrequests\u0007"}}"#;
        assert_eq!(
            classify(&failure(429, body)).message,
            "api.test answered 429 (rate_limit_error): too many requests"
        );
        let long = format!(
            "<html><style>p{{}}</style><p>{}</p></html>",
            "down ".repeat(5000)
        );
        let message = classify(&failure(502, &long)).message;
        assert!(message.chars().count() < 340, "{message}");
        assert!(message.starts_with("api.test answered 502: down down"));
        assert!(!message.contains('<'));
        assert_eq!(
            classify(&failure(500, "{\"error\":")).message,
            "api.test answered 500: {\"error\":"
        );
        assert_eq!(classify(&failure(500, "")).message, "api.test answered 500");
    }

    #[test]
    fn odd_bodies() {
        let told = |body: &str| classify(&failure(400, body)).message;
        assert_eq!(
            told(r#"{"detail":"Not here"}"#),
            "api.test answered 400: Not here"
        );
        assert_eq!(
            told(r#"[{"error":{"message":"in a list"}}]"#),
            "api.test answered 400: in a list"
        );
        assert_eq!(told(r#"{"error":"plain"}"#), "api.test answered 400: plain");
        assert_eq!(
            told(
                r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"deep"}}}"#
            ),
            "api.test answered 400: Provider returned error: deep"
        );
        assert_eq!(told("[]"), "api.test answered 400: []");
    }

    #[test]
    fn how_long_to_wait() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let seconds = |text| retry_after(None, Some(text), now);
        assert_eq!(seconds("2"), Some(Duration::from_secs(2)));
        assert_eq!(seconds(" 2.5 "), Some(Duration::from_millis(2500)));
        assert_eq!(seconds("0"), Some(Duration::ZERO));
        assert_eq!(seconds("-5"), None);
        assert_eq!(seconds("soon"), None);
        assert_eq!(seconds(""), None);
        assert_eq!(
            seconds("99999999999"),
            Some(Duration::from_secs(99_999_999_999))
        );
        assert_eq!(seconds("1e300"), Some(Duration::MAX));
        assert_eq!(
            seconds("Sun, 06 Nov 1994 08:49:40 GMT"),
            Some(Duration::from_secs(3))
        );
        assert_eq!(
            seconds("Sun, 06 Nov 1994 08:49:00 GMT"),
            Some(Duration::ZERO)
        );
        assert_eq!(
            retry_after(Some("1500"), Some("9"), now),
            Some(Duration::from_millis(1500))
        );
        assert_eq!(
            retry_after(Some("-1"), Some("9"), now),
            Some(Duration::from_secs(9))
        );
    }
}
