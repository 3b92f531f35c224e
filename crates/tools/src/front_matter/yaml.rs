//! From YAML events to fields, without recursion: what is open lies on a stack of few places.

use std::collections::BTreeSet;
use std::ops::Range;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle};

use super::{Field, FrontMatterError, Value};

/// The most levels of lists and mappings.
const MAX_LEVELS: usize = 8;

/// Why fields cannot be had.
pub(super) enum Fault {
    /// It is no YAML.
    Syntax(FrontMatterError),
    /// It is YAML that we do not take.
    Sense(FrontMatterError),
}

/// A list or mapping that is not at its end yet.
enum Open {
    List(Vec<Value>),
    Map {
        entries: Vec<(String, Value)>,
        seen: BTreeSet<String>,
        key: Option<String>,
    },
}

/// The fields of a text that is a mapping, or nothing at all.
pub(super) fn fields(yaml: &str) -> Result<Vec<Field>, Fault> {
    let options = granit_parser::options! {
        disallow_directives: true,
        emit_comments: false,
        flow_nesting_limit: 64,
        block_nesting_limit: 64,
    };
    let mut reading = Reading {
        yaml,
        ..Reading::default()
    };
    for next in Parser::new_from_str_with_options(yaml, options) {
        let (event, span) = next.map_err(|error| {
            let found = at(error.marker().line(), error.info());
            match error.kind() {
                ErrorKind::RecursionLimitExceeded => Fault::Sense(found),
                _ => Fault::Syntax(found),
            }
        })?;
        let line = span.start.line();
        let range = span.byte_range().unwrap_or_default();
        reading
            .take(event, line, range)
            .map_err(|problem| Fault::Sense(at(line, problem)))?;
    }
    Ok(reading.fields)
}

/// The mark is the first line of the file.
fn at(line: usize, problem: String) -> FrontMatterError {
    FrontMatterError {
        line: line + 1,
        problem,
    }
}

#[derive(Default)]
struct Reading<'a> {
    yaml: &'a str,
    documents: usize,
    open: Vec<Open>,
    fields: Vec<Field>,
    /// The line of the newest key of the outermost mapping.
    key_line: usize,
    /// Where the value of that key begins.
    value_start: usize,
}

impl Reading<'_> {
    fn take(&mut self, event: Event<'_>, line: usize, range: Range<usize>) -> Result<(), String> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err("a second YAML document begins".into());
                }
                Ok(())
            }
            Event::Scalar(text, style, ..) => {
                let empty = style == ScalarStyle::Plain
                    && (matches!(&*text, "" | "~") || text.eq_ignore_ascii_case("null"));
                let value = if empty {
                    Value::Empty
                } else {
                    Value::Text(text.into_owned())
                };
                self.value(value, line, range.end)
            }
            Event::SequenceStart(..) => self.begin(Open::List(Vec::new()), range.start),
            Event::MappingStart(..) => self.begin(
                Open::Map {
                    entries: Vec::new(),
                    seen: BTreeSet::new(),
                    key: None,
                },
                range.start,
            ),
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::List(values)) => self.value(Value::List(values), line, range.end),
                Some(Open::Map { entries, .. }) if !self.open.is_empty() => {
                    self.value(Value::Map(entries), line, range.end)
                }
                Some(Open::Map { .. }) | None => Ok(()),
            },
            Event::Alias(_) => Err("aliases are not taken".into()),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, open: Open, start: usize) -> Result<(), String> {
        match (&open, self.open.last()) {
            (_, Some(Open::Map { key: None, .. })) => return Err("a key has to be a text".into()),
            (Open::List(_), None) => return Err(NO_MAPPING.into()),
            _ => {}
        }
        if self.open.len() >= MAX_LEVELS {
            return Err(format!(
                "lists and mappings are more than {MAX_LEVELS} deep"
            ));
        }
        if self.open.len() == 1 {
            self.value_start = start;
        }
        self.open.push(open);
        Ok(())
    }

    fn value(&mut self, value: Value, line: usize, end: usize) -> Result<(), String> {
        let outermost = self.open.len() == 1;
        match self.open.last_mut() {
            None if value == Value::Empty => Ok(()),
            None => Err(NO_MAPPING.into()),
            Some(Open::List(values)) => {
                values.push(value);
                Ok(())
            }
            Some(Open::Map { entries, seen, key }) => match (key.take(), value) {
                (None, Value::Text(text)) => {
                    if !seen.insert(text.clone()) {
                        return Err(format!("the key `{text}` is there twice"));
                    }
                    if outermost {
                        self.key_line = line;
                    }
                    *key = Some(text);
                    Ok(())
                }
                (None, _) => Err("a key has to be a text".into()),
                (Some(key), value) if outermost => {
                    let written = self.yaml.get(self.value_start..end);
                    let written = match value {
                        Value::List(_) | Value::Map(_) => written
                            .map(str::trim)
                            .filter(|text| text.starts_with(['[', '{']))
                            .map(str::to_owned),
                        Value::Empty | Value::Text(_) => None,
                    };
                    self.fields.push(Field {
                        key,
                        value,
                        line: self.key_line + 1,
                        written,
                    });
                    Ok(())
                }
                (Some(key), value) => {
                    entries.push((key, value));
                    Ok(())
                }
            },
        }
    }
}

const NO_MAPPING: &str = "the front matter has to be fields, `key: value`";
