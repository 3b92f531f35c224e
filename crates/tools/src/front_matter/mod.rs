//! The YAML front matter of a Markdown file: `---`, fields, `---`, and then the text.
//!
//! Such files come from anywhere, so nothing in one may cost more than its size: 64 KiB, a few levels, no
//! aliases, each key once. Values stay text; what a field has to be is asked for by the reader of it.
//!
//! A line that is no YAML by itself is taken as text (`description: Use when: asked`,
//! `argument-hint: [file] [line]`), since that is how people write them.
//!
//! ```
//! use tooloop_tools::front_matter::parse;
//!
//! let file = parse(b"---\nname: release\ndescription: |\n  Makes a release.\n---\nFirst ...\n")?;
//! assert_eq!(file.text("name")?, Some("release"));
//! assert_eq!(file.text("description")?, Some("Makes a release.\n"));
//! assert_eq!(file.body, "First ...\n");
//! # Ok::<(), tooloop_tools::front_matter::FrontMatterError>(())
//! ```

mod yaml;

use std::borrow::Cow;

use tooloop_model::{NotText, decode_text};

use yaml::Fault;

/// The most bytes of a front matter.
pub const MAX_BYTES: usize = 64 * 1024;

/// A Markdown file, taken apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrontMatter {
    /// The fields in the order of the file; none where it has no front matter.
    pub fields: Vec<Field>,
    /// What follows the front matter, with `\n` at the ends of lines.
    pub body: String,
    /// The line of the file on which the body begins, from 1.
    pub body_line: usize,
}

/// A field of a front matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its key.
    pub key: String,
    /// What it holds.
    pub value: Value,
    /// The line of the file that its key stands on, from 1.
    pub line: usize,
    /// A value in brackets or braces as it is written.
    pub written: Option<String>,
}

/// What a field holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Nothing, `~` or `null`.
    Empty,
    /// A text, a number, true or false: as it is written, without quotes.
    Text(String),
    /// A list.
    List(Vec<Self>),
    /// A mapping.
    Map(Vec<(String, Self)>),
}

/// What is wrong with a front matter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct FrontMatterError {
    /// The line of the file, from 1.
    pub line: usize,
    /// What is wrong there.
    pub problem: String,
}

/// Takes a file apart. One that does not begin with `---` is all body.
///
/// # Errors
/// Bytes that are no UTF-8, a front matter without an end or over [`MAX_BYTES`], and YAML that is not
/// understood or that asks for too much.
pub fn parse(bytes: &[u8]) -> Result<FrontMatter, FrontMatterError> {
    let not_text = |at: usize| {
        let before = bytes.get(..at.saturating_sub(1)).unwrap_or_default();
        FrontMatterError {
            line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
            problem: "the file is not UTF-8 text".into(),
        }
    };
    let decoded = decode_text(bytes).map_err(|NotText::Nul(at)| not_text(at))?;
    if let Some(at) = decoded.first_bad_byte {
        return Err(not_text(at));
    }
    let text = decoded.text.as_str();
    let text: Cow<'_, str> = if text.contains("\r\n") {
        text.replace("\r\n", "\n").into()
    } else {
        text.into()
    };
    let Some((yaml, body)) = split(&text)? else {
        return Ok(FrontMatter {
            fields: Vec::new(),
            body: text.into_owned(),
            body_line: 1,
        });
    };
    let fields = match yaml::fields(yaml) {
        Ok(fields) => fields,
        Err(Fault::Syntax(error)) => match mended(yaml).map(|yaml| yaml::fields(&yaml)) {
            Some(Ok(fields)) => fields,
            Some(Err(Fault::Sense(error))) => return Err(error),
            Some(Err(Fault::Syntax(_))) | None => return Err(error),
        },
        Err(Fault::Sense(error)) => return Err(error),
    };
    Ok(FrontMatter {
        fields,
        body: body.to_owned(),
        body_line: yaml.matches('\n').count() + 3,
    })
}

/// The lines between the marks, and what follows.
fn split(text: &str) -> Result<Option<(&str, &str)>, FrontMatterError> {
    let Some((first, rest)) = text.split_once('\n') else {
        return Ok(None);
    };
    if first.trim_end() != "---" {
        return Ok(None);
    }
    let mut end = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            let yaml = rest.get(..end).unwrap_or_default();
            let body = rest.get(end + line.len()..).unwrap_or_default();
            return Ok(Some((yaml, body)));
        }
        end += line.len();
        if end > MAX_BYTES {
            return Err(FrontMatterError {
                line: 1,
                problem: format!("the front matter has more than {MAX_BYTES} bytes"),
            });
        }
    }
    Err(FrontMatterError {
        line: 1,
        problem: "no second line `---` ends the front matter".into(),
    })
}

/// Where lines are no YAML by themselves: the same text with those lines' values quoted.
fn mended(yaml: &str) -> Option<String> {
    let mut mended = String::new();
    let mut changed = false;
    let mut lines = yaml.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let goes_on = lines
            .peek()
            .is_some_and(|next| next.starts_with([' ', '\t', '-']));
        match line.split_once(": ") {
            Some((key, value))
                if !goes_on
                    && !key.is_empty()
                    && may_be_text(value)
                    && key.chars().all(|c| c.is_alphanumeric() || "-_".contains(c))
                    && matches!(yaml::fields(line), Err(Fault::Syntax(_))) =>
            {
                changed = true;
                let value = value.trim().replace('\'', "''");
                mended.push_str(&format!("{key}: '{value}'\n"));
            }
            _ => mended.push_str(line),
        }
    }
    changed.then_some(mended)
}

/// Whether a value may be meant as text: what was begun and not closed is better told.
fn may_be_text(value: &str) -> bool {
    let value = value.trim();
    !value.starts_with(['\'', '"', '|', '>', '&', '!', '{'])
        && (!value.starts_with('[') || value.contains(']'))
}

impl FrontMatter {
    /// The field of that key.
    #[must_use]
    pub fn field(&self, key: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.key == key)
    }

    /// A text; an empty value is none.
    ///
    /// # Errors
    /// If it is a list or a mapping.
    pub fn text(&self, key: &str) -> Result<Option<&str>, FrontMatterError> {
        match self.field(key) {
            None => Ok(None),
            Some(field) => match &field.value {
                Value::Empty => Ok(None),
                Value::Text(text) => Ok(Some(text)),
                Value::List(_) | Value::Map(_) => Err(field.problem("has to be a text")),
            },
        }
    }

    /// A text, or what stands in brackets as it is written (`argument-hint: [file]`).
    ///
    /// # Errors
    /// If it is a list or mapping over several lines.
    pub fn as_written(&self, key: &str) -> Result<Option<&str>, FrontMatterError> {
        match self.field(key).and_then(|field| field.written.as_deref()) {
            Some(written) if !written.contains('\n') => Ok(Some(written)),
            _ => self.text(key),
        }
    }

    /// True or false.
    ///
    /// # Errors
    /// If it is anything else.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, FrontMatterError> {
        let Some(field) = self.field(key) else {
            return Ok(None);
        };
        match &field.value {
            Value::Empty => Ok(None),
            Value::Text(text) if text.eq_ignore_ascii_case("true") => Ok(Some(true)),
            Value::Text(text) if text.eq_ignore_ascii_case("false") => Ok(Some(false)),
            _ => Err(field.problem("has to be true or false")),
        }
    }

    /// Names: a list, or a text with commas or blanks between them; those in parentheses do not part
    /// (`Read, Bash(git add:*)`).
    ///
    /// # Errors
    /// If it is a mapping, or a list of anything but texts.
    pub fn names(&self, key: &str) -> Result<Option<Vec<String>>, FrontMatterError> {
        let Some(field) = self.field(key) else {
            return Ok(None);
        };
        match &field.value {
            Value::Empty => Ok(None),
            Value::Text(text) => Ok(Some(parted(text))),
            Value::List(values) => {
                let mut names = Vec::new();
                for value in values {
                    match value {
                        Value::Text(text) if !text.trim().is_empty() => {
                            names.push(text.trim().to_owned());
                        }
                        _ => return Err(field.problem("has to be a list of names")),
                    }
                }
                Ok(Some(names))
            }
            Value::Map(_) => Err(field.problem("has to be a list of names")),
        }
    }
}

impl Field {
    /// An error that names this field and its line.
    #[must_use]
    pub fn problem(&self, problem: &str) -> FrontMatterError {
        FrontMatterError {
            line: self.line,
            problem: format!("`{}` {problem}", self.key),
        }
    }
}

fn parted(text: &str) -> Vec<String> {
    let at = |is_mark: fn(char) -> bool| {
        let mut depth = 0_usize;
        text.split(move |c: char| {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && is_mark(c)
        })
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect::<Vec<_>>()
    };
    let by_commas = at(|c| c == ',');
    if by_commas.len() > 1 {
        by_commas
    } else {
        at(|c| c == ',' || c.is_whitespace())
    }
}

#[cfg(test)]
mod tests;
