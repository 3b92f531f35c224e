//! JSON that is kept as text.
//!
//! What a model or a provider wrote travels on as the very text it was, since a provider's prompt
//! cache and a vendor's signature both care about bytes. Both types hold text that has been
//! checked to be JSON, on one line (a line break outside a string is white space and becomes a
//! blank), so that they can stand in a line-based file.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// Says why a text is not the JSON that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct InvalidJson {
    /// What is wrong, with line and column where the parser knows them.
    pub reason: String,
}

/// Any JSON value, as checked text.
#[derive(Clone)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// Checks `text` and keeps it.
    ///
    /// # Errors
    /// If `text` is not one JSON value.
    pub fn parse(text: impl Into<String>) -> Result<Self, InvalidJson> {
        RawValue::from_string(one_line(text.into()))
            .map(Self)
            .map_err(|error| InvalidJson {
                reason: error.to_string(),
            })
    }

    /// Writes a string as a JSON string.
    #[must_use]
    pub fn string(text: &str) -> Self {
        Self::from_value(&serde_json::Value::from(text))
    }

    /// Takes a parsed value.
    #[must_use]
    pub fn from_value(value: &serde_json::Value) -> Self {
        // A `Value` always serialises, and what it serialises to is JSON; `null` stands in for the
        // impossible rest.
        RawValue::from_string(value.to_string()).map_or_else(|_| Self::null(), Self)
    }

    fn null() -> Self {
        Self(RawValue::NULL.to_owned())
    }

    /// The text.
    #[must_use]
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// The parsed value.
    #[must_use]
    pub fn to_value(&self) -> serde_json::Value {
        // The text was checked when it was taken in. Numbers beyond every range are the one thing
        // that `RawValue` lets pass and `Value` does not.
        serde_json::from_str(self.get()).unwrap_or(serde_json::Value::Null)
    }

    /// The text of a JSON string, if it is one.
    #[must_use]
    pub fn as_string(&self) -> Option<String> {
        serde_json::from_str(self.get()).ok()
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for RawJson {}

impl fmt::Debug for RawJson {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.get())
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(if raw.get().contains(['\n', '\r']) {
            Self::parse(raw.get()).map_err(D::Error::custom)?
        } else {
            Self(raw)
        })
    }
}

/// A JSON object, as checked text: what a tool is called with.
#[derive(Clone, PartialEq, Eq)]
pub struct JsonObject(RawJson);

impl JsonObject {
    /// Checks `text` and keeps it. Blank text and `null` are the empty object: that is how some
    /// models write a call without arguments.
    ///
    /// # Errors
    /// If `text` is not one JSON object.
    pub fn parse(text: &str) -> Result<Self, InvalidJson> {
        let trimmed = text.trim();
        if trimmed.is_empty() || trimmed == "null" {
            return Ok(Self::default());
        }
        if !trimmed.starts_with('{') {
            let reason = match serde_json::from_str::<serde::de::IgnoredAny>(trimmed) {
                Ok(_) => "a JSON object is needed, this is another kind of value".into(),
                Err(error) => error.to_string(),
            };
            return Err(InvalidJson { reason });
        }
        // `RawValue` skips over numbers and strings without decoding them; a full parse also
        // refuses what a provider would refuse (a lone surrogate, a number out of range).
        serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(trimmed).map_err(
            |error| InvalidJson {
                reason: error.to_string(),
            },
        )?;
        RawJson::parse(trimmed).map(Self)
    }

    /// The text, beginning with `{`.
    #[must_use]
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// The parsed object.
    #[must_use]
    pub fn to_value(&self) -> serde_json::Value {
        self.0.to_value()
    }

    /// Whether two objects have the same values, whatever the order of their fields and however
    /// numbers are written. A field that is null, or that has its default by `schema`, is as good as
    /// one that is not there.
    #[must_use]
    pub fn is_same(&self, other: &Self, schema: &serde_json::Value) -> bool {
        if self.get() == other.get() {
            return true;
        }
        let (one, other) = (self.to_value(), other.to_value());
        let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else {
            return false;
        };
        let default = |name: &String| schema.get("properties")?.get(name)?.get("default");
        one.keys()
            .chain(other.keys())
            .all(|name| match (one.get(name), other.get(name)) {
                (Some(one), Some(other)) => same_value(one, other),
                (Some(value), None) | (None, Some(value)) => {
                    value.is_null()
                        || default(name).is_some_and(|default| same_value(default, value))
                }
                (None, None) => true,
            })
    }
}

/// Whether two values are the same: `1` and `1.0` are.
fn same_value(one: &serde_json::Value, other: &serde_json::Value) -> bool {
    use serde_json::Value;
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || (one.is_f64() || other.is_f64()) && one.as_f64() == other.as_f64()
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| same_value(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, value)| {
                    other
                        .get(name)
                        .is_some_and(|other| same_value(value, other))
                })
        }
        (one, other) => one == other,
    }
}

impl Default for JsonObject {
    fn default() -> Self {
        Self(RawJson::from_value(&serde_json::Value::Object(
            serde_json::Map::new(),
        )))
    }
}

impl fmt::Debug for JsonObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

impl Serialize for JsonObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawJson::deserialize(deserializer)?;
        Self::parse(raw.get()).map_err(D::Error::custom)
    }
}

fn one_line(text: String) -> String {
    if text.contains(['\n', '\r']) {
        text.replace(['\n', '\r'], " ")
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_keeps_its_text_on_one_line() {
        let object = JsonObject::parse("{\"b\": 1.0,\n \"a\": \"x\\ny\"}").unwrap();
        assert_eq!(object.get(), "{\"b\": 1.0,  \"a\": \"x\\ny\"}");
    }

    #[test]
    fn no_arguments_is_the_empty_object() {
        for text in ["", "  ", "null", "{}"] {
            assert_eq!(JsonObject::parse(text).unwrap().get(), "{}");
        }
    }

    #[test]
    fn what_a_provider_would_refuse_is_refused() {
        for text in [
            "[]",
            "\"x\"",
            "{\"a\":",
            "{} {}",
            "{\"a\":1e999}",
            "{\"a\":\"\\ud83d\"}",
            "1",
        ] {
            assert!(JsonObject::parse(text).is_err(), "{text}");
        }
    }
}
