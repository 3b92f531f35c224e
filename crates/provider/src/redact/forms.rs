//! Other forms in which a secret goes about.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// What is left of a value wherever it stands in something that was written in base64: the
/// characters at either end depend on what is before and after it.
pub(super) fn base64(value: &str) -> Vec<String> {
    let mut forms = Vec::new();
    for before in 0..3_usize {
        let mut bytes = vec![0; before];
        bytes.extend(value.as_bytes());
        // A character holds six bits.
        let from = before.saturating_mul(8).div_ceil(6);
        let to = bytes.len().saturating_mul(8) / 6;
        for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            let text = engine.encode(&bytes);
            if let Some(inner) = text.get(from..to)
                && inner.len() >= super::SHORTEST
                && !forms.iter().any(|form| form == inner)
            {
                forms.push(inner.to_owned());
            }
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_in_base64_wherever_it_stands() {
        let secret = "hunter2~hunter2?";
        for (before, after) in [
            ("", ""),
            ("u:", ""),
            ("user:", "x"),
            ("me:", "xy"),
            ("a", "xyz"),
        ] {
            for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
                let text = engine.encode(format!("{before}{secret}{after}"));
                assert!(
                    base64(secret)
                        .iter()
                        .any(|form| text.contains(form.as_str())),
                    "{before} {after} {text}"
                );
            }
        }
    }
}
