//! The fields of spans and events, kept as values.

use std::borrow::Cow;
use std::fmt;

use tooloop::provider::Redactor;
use tracing::field::{Field, Visit};

/// A value of a field.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Bool(bool),
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Quoted where a reader would lose its end.
            Self::Text(text)
                if text.is_empty()
                    || text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '"') =>
            {
                write!(formatter, "{text:?}")
            }
            Self::Text(text) => formatter.write_str(text),
            Self::Integer(number) => write!(formatter, "{number}"),
            Self::Float(number) => write!(formatter, "{number:.6}"),
            Self::Bool(flag) => write!(formatter, "{flag}"),
        }
    }
}

/// Whether a field holds what was said, in JSON.
pub(super) fn is_content(name: &str) -> bool {
    [
        "gen_ai.system_instructions",
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
    ]
    .contains(&name)
}

/// Takes secrets out of values.
pub(super) fn clean(redactor: &Redactor, values: &mut [(&'static str, Value)]) {
    for (name, value) in values {
        let Value::Text(text) = value else { continue };
        let clean = if is_content(name) {
            redactor.redact_json_text(text)
        } else {
            redactor.redact(text)
        };
        if let Cow::Owned(clean) = clean {
            *text = clean;
        }
    }
}

/// Fields by name; the newest value of a name counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields {
    pub(super) message: String,
    pub(super) values: Vec<(&'static str, Value)>,
}

impl Fields {
    /// The text of a field, which is then no more among the values.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        let at = self.values.iter().position(|(other, _)| *other == name)?;
        match self.values.remove(at).1 {
            Value::Text(text) => Some(text),
            other => Some(other.to_string()),
        }
    }

    pub(super) fn put(&mut self, name: &'static str, value: Value) {
        match self.values.iter_mut().find(|(other, _)| *other == name) {
            Some((_, old)) => *old = value,
            None => self.values.push((name, value)),
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), Value::Float(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), Value::Integer(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        self.put(field.name(), Value::Integer(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), Value::Bool(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field.name(), Value::Text(value.to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        if field.name() == "message" {
            self.message = text;
        } else {
            self.put(field.name(), Value::Text(text));
        }
    }
}
