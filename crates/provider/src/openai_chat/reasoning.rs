//! Reasoning that travels beside the content: how it is kept, and how it goes back.

use serde_json::{Map, Value};
use tooloop_model::{RawJson, VendorData};

use super::NAME;

/// What is kept of a piece of reasoning besides its text.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The field in which the text came; empty if it came in none.
    pub(super) field: String,
    /// The structured form that a router sends along, merged.
    pub(super) details: Vec<Value>,
}

/// The field's name for reasoning that came as parts of the content.
pub(super) const IN_CONTENT: &str = "content";

impl Kept {
    /// As vendor data.
    pub(super) fn store(self) -> VendorData {
        let mut data = Map::new();
        if !self.field.is_empty() {
            data.insert("field".into(), self.field.into());
        }
        if !self.details.is_empty() {
            data.insert("details".into(), Value::Array(self.details));
        }
        VendorData {
            owner: NAME.into(),
            data: RawJson::from_value(&Value::Object(data)),
        }
    }

    /// From vendor data, if it is ours.
    pub(super) fn load(data: &VendorData) -> Option<Self> {
        if data.owner != NAME {
            return None;
        }
        let mut value = data.data.to_value();
        let field = value.get("field").and_then(Value::as_str);
        let field = field.unwrap_or_default().to_owned();
        let details = match value.get_mut("details").map(Value::take) {
            Some(Value::Array(details)) => details,
            _ => Vec::new(),
        };
        Some(Self { field, details })
    }
}

/// Adds a detail. Pieces of one text become one text; what the provider needs to know it by again
/// (signatures, encrypted data) is kept as it is.
pub(super) fn merge(details: &mut Vec<Value>, detail: Value) {
    let Value::Object(more) = detail else {
        return;
    };
    if let Some(Value::Object(last)) = details.last_mut()
        && continues(last, &more)
    {
        for (key, value) in more {
            match (last.get_mut(&key), value) {
                (Some(Value::String(so_far)), Value::String(piece))
                    if key == "text" || key == "summary" =>
                {
                    so_far.push_str(&piece);
                }
                (Some(_), Value::Null) => {}
                (_, value) => {
                    last.insert(key, value);
                }
            }
        }
        return;
    }
    details.push(Value::Object(more));
}

/// Whether a detail is the next piece of the one before. Encrypted data comes whole, and what has
/// its signature is complete.
fn continues(last: &Map<String, Value>, more: &Map<String, Value>) -> bool {
    let same = |key: &str| {
        let of = |map: &Map<String, Value>| map.get(key).filter(|value| !value.is_null()).cloned();
        let (one, two) = (of(last), of(more));
        one == two || one.is_none() || two.is_none()
    };
    let kind = more.get("type").and_then(Value::as_str).unwrap_or_default();
    let signed = last
        .get("signature")
        .and_then(Value::as_str)
        .is_some_and(|signature| !signature.is_empty());
    (kind == "reasoning.text" || kind == "reasoning.summary")
        && last.get("type") == more.get("type")
        && same("index")
        && same("id")
        && !signed
}

/// The text of a detail that may be shown.
pub(super) fn shown(detail: &Value) -> Option<&str> {
    ["text", "summary"]
        .iter()
        .find_map(|key| detail.get(key).and_then(Value::as_str))
        .filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pieces_become_one_and_signatures_stay() {
        let mut details = Vec::new();
        for detail in [
            json!({"type": "reasoning.text", "text": "The ", "format": "f", "index": 0}),
            json!({"type": "reasoning.text", "text": "user", "format": "f", "index": 0}),
            json!({"type": "reasoning.text", "signature": "sig", "format": "f", "index": 0}),
            json!({"type": "reasoning.text", "text": "next", "index": 0}),
            json!({"type": "reasoning.encrypted", "data": "a", "index": 0, "id": "t1"}),
            json!({"type": "reasoning.encrypted", "data": "b", "index": 0, "id": "t1"}),
            Value::Null,
        ] {
            merge(&mut details, detail);
        }
        assert_eq!(
            details,
            [
                json!({"type": "reasoning.text", "text": "The user", "format": "f", "index": 0, "signature": "sig"}),
                json!({"type": "reasoning.text", "text": "next", "index": 0}),
                json!({"type": "reasoning.encrypted", "data": "a", "index": 0, "id": "t1"}),
                json!({"type": "reasoning.encrypted", "data": "b", "index": 0, "id": "t1"}),
            ]
        );
    }

    #[test]
    fn what_is_kept_comes_back() {
        let kept = Kept {
            field: "reasoning".into(),
            details: vec![json!({"type": "reasoning.text", "text": "x"})],
        };
        let data = kept.store();
        let kept = Kept::load(&data).unwrap();
        assert_eq!(kept.field, "reasoning");
        assert_eq!(kept.details.len(), 1);
        let foreign = VendorData {
            owner: "other".into(),
            ..data
        };
        assert!(Kept::load(&foreign).is_none());
    }
}
