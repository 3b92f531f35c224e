//! The first place where two JSON values differ.

use std::fmt;

use serde_json::Value;

/// How much of a value is shown.
const SHOWN: usize = 160;

/// The first place where two JSON values differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueDifference {
    /// The place, as a JSON pointer.
    pub pointer: String,
    /// What was expected there, as JSON, shortened; `None` if nothing was.
    pub expected: Option<String>,
    /// What came, as JSON, shortened; `None` if nothing did.
    pub came: Option<String>,
}

impl fmt::Display for ValueDifference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".into());
        let place = if self.pointer.is_empty() {
            "the whole"
        } else {
            &self.pointer
        };
        let (expected, came) = (shown(&self.expected), shown(&self.came));
        write!(formatter, "at {place}: expected {expected}, came {came}")
    }
}

/// The first place where `came` is another value than `expected`, in the order of `expected`.
///
/// ```
/// # use serde_json::json;
/// # use tooloop_provider::first_difference;
/// let difference = first_difference(&json!({"a": [1, 2]}), &json!({"a": [1, 3]})).unwrap();
/// assert_eq!(difference.to_string(), "at /a/1: expected 2, came 3");
/// ```
#[must_use]
pub fn first_difference(expected: &Value, came: &Value) -> Option<ValueDifference> {
    let mut pointer = String::new();
    let (expected, came) = differing(Some(expected), Some(came), &mut pointer)?;
    let (expected, came) = shown(expected, came);
    Some(ValueDifference {
        pointer,
        expected,
        came,
    })
}

type Pair<'a> = (Option<&'a Value>, Option<&'a Value>);

/// JSON is at most 128 deep where it was read; what was made here is flatter.
fn differing<'a>(
    expected: Option<&'a Value>,
    came: Option<&'a Value>,
    pointer: &mut String,
) -> Option<Pair<'a>> {
    if expected == came {
        return None;
    }
    let length = pointer.len();
    match (expected, came) {
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            for at in 0..one.len().max(other.len()) {
                pointer.push_str(&format!("/{at}"));
                if let Some(pair) = differing(one.get(at), other.get(at), pointer) {
                    return Some(pair);
                }
                pointer.truncate(length);
            }
            None
        }
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            let more = other.keys().filter(|name| !one.contains_key(*name));
            for name in one.keys().chain(more) {
                pointer.push('/');
                pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
                if let Some(pair) = differing(one.get(name), other.get(name), pointer) {
                    return Some(pair);
                }
                pointer.truncate(length);
            }
            None
        }
        (expected, came) => Some((expected, came)),
    }
}

/// Both values, shortened, from a little before the place where they begin to differ.
fn shown(expected: Option<&Value>, came: Option<&Value>) -> (Option<String>, Option<String>) {
    let text = |value: Option<&Value>| value.map(Value::to_string);
    let (expected, came) = (text(expected), text(came));
    let same = match (&expected, &came) {
        (Some(one), Some(other)) => one
            .chars()
            .zip(other.chars())
            .take_while(|(one, other)| one == other)
            .count(),
        (Some(_), None) | (None, Some(_) | None) => 0,
    };
    let from = if same > SHOWN / 2 {
        same.saturating_sub(SHOWN / 4)
    } else {
        0
    };
    let short = |text: String| {
        let mut short = String::new();
        if from > 0 {
            short.push('…');
        }
        short.extend(text.chars().skip(from).take(SHOWN));
        if text.chars().nth(from.saturating_add(SHOWN)).is_some() {
            short.push('…');
        }
        short
    };
    (expected.map(short), came.map(short))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_place_and_both_values() {
        for (expected, came, words) in [
            (json!([1]), json!([1, 2]), "at /1: expected nothing, came 2"),
            (
                json!({"a/b": {"c": 1}}),
                json!({"a/b": {}}),
                "at /a~1b/c: expected 1, came nothing",
            ),
            (
                json!({"a": 1}),
                json!({"b": 1}),
                "at /a: expected 1, came nothing",
            ),
            (
                json!("a"),
                json!(["a"]),
                "at the whole: expected \"a\", came [\"a\"]",
            ),
        ] {
            let difference = first_difference(&expected, &came).unwrap();
            assert_eq!(difference.to_string(), words);
        }
        let (one, other) = (json!({"a": 1, "b": 2}), json!({"b": 2, "a": 1}));
        assert_eq!(first_difference(&one, &other), None);
    }

    #[test]
    fn long_values_are_shown_where_they_differ() {
        let text = |end: &str| json!("x".repeat(1000) + end + &"y".repeat(1000));
        let difference = first_difference(&text("one"), &text("two")).unwrap();
        let expected = difference.expected.unwrap();
        let length = expected.chars().count();
        assert!(length <= SHOWN + 2, "{expected}");
        assert!(expected.contains("one"), "{expected}");
        assert!(difference.came.unwrap().contains("two"));
    }
}
