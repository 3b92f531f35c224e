//! How large a request is, by estimate.

use super::{Report, Rule};
use serde_json::Value;

/// Tokens that one image counts for, whatever its bytes.
const IMAGE_TOKENS: u64 = 1_600;

/// The largest request that a model takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// How many tokens fit.
    pub tokens: u64,
    /// Bytes of JSON that count as one token. Smaller than 4 makes the server count more than a client that divides
    /// by four.
    pub bytes_per_token: f64,
}

impl Window {
    /// A window of this many tokens at four bytes each.
    pub fn of(tokens: u64) -> Self {
        Self {
            tokens,
            bytes_per_token: 4.0,
        }
    }
}

/// Estimates the tokens of a request: the bytes of its JSON divided, image data counted by the image.
pub fn estimate_tokens(body: &Value, bytes_per_token: f64) -> u64 {
    let mut images = 0;
    let bytes = weigh(body, &mut images);
    let per_token = if bytes_per_token > 0.0 {
        bytes_per_token
    } else {
        4.0
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an estimate; a body in memory is far below the limits"
    )]
    let text = (bytes as f64 / per_token).ceil() as u64;
    text + images * IMAGE_TOKENS
}

fn weigh(value: &Value, images: &mut u64) -> usize {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| {
                let is_data = (name == "data" && fields.contains_key("media_type"))
                    || (name == "url"
                        && value.as_str().is_some_and(|url| url.starts_with("data:")));
                if is_data {
                    *images += 1;
                    return name.len() + 3;
                }
                name.len() + 4 + weigh(value, images)
            })
            .sum::<usize>()
            .saturating_add(2),
        Value::Array(items) => {
            items
                .iter()
                .map(|item| weigh(item, images) + 1)
                .sum::<usize>()
                + 2
        }
        Value::String(text) => text.len() + 2,
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
    }
}

pub(super) fn check_window(body: &Value, window: Option<Window>, report: &mut Report) {
    let Some(window) = window else { return };
    let tokens = estimate_tokens(body, window.bytes_per_token);
    if tokens > window.tokens {
        report.add(
            Rule::Window,
            "",
            format!(
                "prompt is too long: {tokens} tokens > {} maximum",
                window.tokens
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_counts_by_bytes_and_images_by_number() {
        let text = json!({"messages": [{"role": "user", "content": "x".repeat(4_000)}]});
        assert!((1_000..1_030).contains(&estimate_tokens(&text, 4.0)));
        assert!((2_000..2_060).contains(&estimate_tokens(&text, 2.0)));
        let image = json!({"source": {"type": "base64", "media_type": "image/png", "data": "x".repeat(400_000)}});
        assert!((1_600..1_700).contains(&estimate_tokens(&image, 4.0)));
        let url =
            json!({"image_url": {"url": format!("data:image/png;base64,{}", "x".repeat(400_000))}});
        assert!((1_600..1_700).contains(&estimate_tokens(&url, 4.0)));
    }

    #[test]
    fn a_window_is_a_bound() {
        let body = json!({"content": "x".repeat(400)});
        let tokens = estimate_tokens(&body, 4.0);
        for (limit, broken) in [(tokens, 0), (tokens - 1, 1)] {
            let mut report = Report::default();
            check_window(&body, Some(Window::of(limit)), &mut report);
            assert_eq!(report.0.len(), broken);
        }
    }
}
