//! Takes secrets out of text that is to be kept or shown.
//!
//! A [`Redactor`] knows some secrets by their value (keys, values of variables) and others by their
//! look. It takes time in proportion to the text whatever the text is, and changes nothing else.

mod forms;
mod messages;
mod patterns;
mod worth;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use aho_corasick::AhoCorasick;
use memchr::memmem;
use serde_json::{Map, Value};

use crate::Secret;

/// What stands in place of a secret.
const REDACTED: &str = "[redacted]";

/// Shorter values are no secrets worth the name, and occur by chance.
const SHORTEST: usize = 8;

/// How the mark begins that covers a known secret in text that a model works with. Stars and a
/// bracket follow, up to the length of the secret: `[masked****]`.
const MARK: &str = "[masked";

/// Takes secrets out of text. Cheap to clone.
///
/// ```
/// use tooloop_provider::Redactor;
///
/// let redactor = Redactor::new(["correct horse".to_owned()]);
/// let text = "login: correct horse, Authorization: Bearer abcdef0123456789";
/// assert_eq!(
///     redactor.redact(text),
///     "login: [redacted], Authorization: Bearer [redacted]"
/// );
/// ```
#[derive(Clone, Default)]
pub struct Redactor {
    known: Option<Arc<Known>>,
    off: bool,
}

/// The secrets that are known by their value.
struct Known {
    values: BTreeSet<String>,
    /// The lengths of the values, in bytes: a mark of another length covers none of them.
    lengths: BTreeSet<usize>,
    search: AhoCorasick,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.known.as_ref().map_or(0, |known| known.values.len());
        formatter
            .debug_struct("Redactor")
            .field("known", &known)
            .field("off", &self.off)
            .finish()
    }
}

impl Redactor {
    /// Knows these secrets, and those that show by their look. Values of less than 8 bytes are left
    /// out: they would occur by chance.
    #[must_use]
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        Self::default().with(values)
    }

    /// Takes nothing out.
    #[must_use]
    pub const fn off() -> Self {
        Self {
            known: None,
            off: true,
        }
    }

    /// Knows the secrets among the values of these variables, and the secrets inside them: the
    /// password of an address, what looks like a key, the lines of a longer text. A plain word, a
    /// number, an address without a login and the path of a file that exists are no secrets.
    #[must_use]
    pub fn of_variables(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut values = Vec::new();
        for (_, value) in variables {
            // What is not text cannot stand in a text.
            let Ok(value) = value.into_string() else {
                continue;
            };
            if !worth::is_secret(&value) {
                continue;
            }
            values.extend(worth::password(&value).map(str::to_owned));
            let keys = patterns::find(&value).into_iter();
            values.extend(keys.filter_map(|span| value.get(span).map(str::to_owned)));
            values.extend(worth::lines(&value).map(str::to_owned));
            values.push(value);
        }
        Self::new(values)
    }

    /// Whether a value looks like a key, or like an address that works as one.
    #[must_use]
    pub fn recognizes(value: &str) -> bool {
        worth::is_key_address(value) || !patterns::find(value).is_empty()
    }

    /// The values that it knows, in all forms that it looks for: for who must hide them by other
    /// means.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        let values = self.known.iter().flat_map(|known| &known.values);
        values.map(String::as_str)
    }

    /// Whether it knows no secret by its value.
    #[must_use]
    pub const fn knows_nothing(&self) -> bool {
        self.known.is_none()
    }

    /// The same, knowing more.
    #[must_use]
    pub fn with(self, values: impl IntoIterator<Item = String>) -> Self {
        let mut all = self
            .known
            .as_ref()
            .map(|known| known.values.clone())
            .unwrap_or_default();
        for value in values {
            let value = value.trim();
            // What stands in for a secret must stay as it is when it is met again.
            let is_mark = value.bytes().all(|byte| byte == b'*');
            if value.len() >= SHORTEST && !REDACTED.contains(value) && !is_mark {
                all.extend(escaped(value));
                all.extend(forms::base64(value));
                all.insert(value.to_owned());
            }
        }
        if all.is_empty() || self.off {
            return self;
        }
        let known = AhoCorasick::new(&all).ok().map(|search| {
            Arc::new(Known {
                lengths: all.iter().map(String::len).collect(),
                values: all,
                search,
            })
        });
        Self { known, ..self }
    }

    /// The same, knowing a key.
    #[must_use]
    pub fn with_key(self, key: &Secret) -> Self {
        self.with([key.expose().to_owned()])
    }

    /// The text without secrets: `[redacted]` stands in their place. All else stays byte for byte.
    #[must_use]
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.off || text.len() < SHORTEST {
            return Cow::Borrowed(text);
        }
        let mut spans = self.known_in(text);
        spans.extend(patterns::find(text));
        spans.sort_unstable_by_key(|span| span.end);
        without(text, spans)
    }

    /// The text without the secrets that are known by their value. What only looks like one stays:
    /// this is for text that a model works with, such as a file.
    ///
    /// A mark of the same length covers each secret. [`Redactor::mark_in`] recognizes the mark when
    /// the model writes it back.
    #[must_use]
    pub fn redact_known<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(known) = self.known.as_ref().filter(|_| text.len() >= SHORTEST) else {
            return Cow::Borrowed(text);
        };
        let mut clean: Option<Vec<u8>> = None;
        for found in known.search.find_overlapping_iter(text) {
            let clean = clean.get_or_insert_with(|| text.as_bytes().to_vec());
            if let Some(place) = clean.get_mut(found.range()) {
                cover(place);
            }
        }
        // Values and marks are text, so what is left is text too.
        clean.map_or(Cow::Borrowed(text), |clean| {
            Cow::Owned(String::from_utf8_lossy(&clean).into_owned())
        })
    }

    /// The first mark in the text that covers a secret, if there is one.
    #[must_use]
    pub fn mark_in<'a>(&self, text: &'a str) -> Option<&'a str> {
        let known = self.known.as_ref()?;
        memmem::find_iter(text.as_bytes(), MARK).find_map(|start| {
            let rest = text.get(start..)?;
            let stars = rest
                .bytes()
                .skip(MARK.len())
                .take_while(|byte| *byte == b'*');
            let end = MARK.len().saturating_add(stars.count());
            let length = end.saturating_add(1);
            let mark = rest.get(..length)?;
            (mark.ends_with(']') && known.lengths.contains(&length)).then_some(mark)
        })
    }

    fn known_in(&self, text: &str) -> Vec<Range<usize>> {
        self.known.as_ref().map_or_else(Vec::new, |known| {
            let found = known.search.find_overlapping_iter(text);
            joined(found.map(|found| found.range()))
        })
    }

    /// Takes secrets out of the strings, names and numbers of a JSON value. A number that is a
    /// secret becomes a string.
    pub fn redact_json(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(clean) = self.redact(text) {
                    *text = clean;
                }
            }
            Value::Number(number) => {
                if self.known.is_some()
                    && let Cow::Owned(clean) = self.redact(&number.to_string())
                {
                    *value = Value::String(clean);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_json(item)),
            Value::Object(members) => {
                members
                    .values_mut()
                    .for_each(|member| self.redact_json(member));
                let named = |name: &String| matches!(self.redact(name), Cow::Owned(_));
                if members.keys().any(named) {
                    self.redact_names(members);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn redact_names(&self, members: &mut Map<String, Value>) {
        for (name, member) in std::mem::take(members) {
            let clean = self.redact(&name).into_owned();
            let mut unique = clean.clone();
            let mut count = 1_usize;
            while members.contains_key(&unique) {
                count = count.saturating_add(1);
                unique = format!("{clean} {count}");
            }
            members.insert(unique, member);
        }
    }

    /// Takes secrets out of a text that is JSON, so that it still is. Where there are none it stays
    /// as it is written.
    #[must_use]
    pub fn redact_json_text<'a>(&self, json: &'a str) -> Cow<'a, str> {
        let clean = self.redact(json);
        let Ok(mut value) = serde_json::from_str::<Value>(json) else {
            return clean;
        };
        let before = value.clone();
        self.redact_json(&mut value);
        match clean {
            // An escape may hide a secret from the look at the text.
            Cow::Borrowed(_) if value == before => Cow::Borrowed(json),
            Cow::Owned(clean)
                if serde_json::from_str::<Value>(&clean).ok().as_ref() == Some(&value) =>
            {
                Cow::Owned(clean)
            }
            Cow::Borrowed(_) | Cow::Owned(_) => Cow::Owned(value.to_string()),
        }
    }
}

/// The text without these spans, whose ends never go back.
fn without(text: &str, spans: Vec<Range<usize>>) -> Cow<'_, str> {
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut kept = 0;
    for span in joined(spans) {
        clean.push_str(text.get(kept..span.start).unwrap_or_default());
        clean.push_str(REDACTED);
        kept = span.end;
    }
    clean.push_str(text.get(kept..).unwrap_or_default());
    Cow::Owned(clean)
}

/// Writes the mark over a secret. What commands print is covered in the same way.
fn cover(place: &mut [u8]) {
    place.fill(b'*');
    if place.len() > MARK.len()
        && let Some((last, rest)) = place.split_last_mut()
        && let Some(start) = rest.get_mut(..MARK.len())
    {
        start.copy_from_slice(MARK.as_bytes());
        *last = b']';
    }
}

/// Whether a key can be told from ordinary text.
pub(crate) fn is_searched_for(key: &str) -> bool {
    key.len() >= SHORTEST && !worth::is_plain_word(key)
}

/// The value as it stands in a JSON string, if that is another text.
fn escaped(value: &str) -> Option<String> {
    let json = Value::from(value).to_string();
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    (inner != value).then(|| inner.to_owned())
}

/// Joins spans that touch or overlap. They come with ends that never go back.
fn joined(spans: impl IntoIterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut joined: Vec<Range<usize>> = Vec::new();
    for mut span in spans {
        while let Some(last) = joined.pop_if(|last| last.end >= span.start) {
            span.start = span.start.min(last.start);
            span.end = span.end.max(last.end);
        }
        joined.push(span);
    }
    joined
}

#[cfg(test)]
mod tests;
