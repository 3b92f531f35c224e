//! The place of one value within the settings: what may be put there, and how it is shown.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::DeValue;
use tooloop::Rule;

use super::choice::{Choice, Refusal};
use super::error::shortened;
use super::list;
use super::number::Number;

/// The place of one value within the settings.
pub(super) enum Slot<'s> {
    /// Any text but an empty one.
    Text(&'s mut Option<String>),
    /// An address of a server.
    Url(&'s mut Option<String>),
    /// A path of a file.
    Path(&'s mut Option<PathBuf>),
    /// Paths of folders; each source adds to them.
    Paths(&'s mut Vec<PathBuf>),
    /// An absolute path of a program.
    Program(&'s mut Option<PathBuf>),
    /// A name of an environment variable.
    Variable(&'s mut Option<String>),
    /// A number in a range.
    Number(&'s mut dyn Number, RangeInclusive<u64>),
    /// Yes or no.
    Flag(&'s mut bool),
    /// One of a few words.
    Choice(&'s mut dyn Choice),
    /// Permission rules; each source adds to them.
    Rules(&'s mut Vec<Rule>),
    /// Names of environment variables; each source adds to them.
    Variables(&'s mut Vec<String>),
    /// Names of hosts, perhaps with a port; each source adds to them.
    Hosts(&'s mut Vec<String>),
}

/// What paths start from.
#[derive(Clone, Copy)]
pub(super) struct Base<'b> {
    pub(super) folder: &'b Path,
    pub(super) home: Option<&'b Path>,
}

/// A value that cannot be put where it was meant to go.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    /// Where in the source, as an offset in bytes; 0 if it is not a file.
    pub(super) at: usize,
    /// To be read after the key.
    pub(super) what: String,
}

impl Slot<'_> {
    /// Tells whether sources add to the value instead of replacing it.
    pub(super) const fn is_list(&self) -> bool {
        matches!(
            self,
            Self::Rules(_) | Self::Variables(_) | Self::Hosts(_) | Self::Paths(_)
        )
    }

    /// Puts a value from a file there.
    pub(super) fn assign(&mut self, value: &Spanned<DeValue<'_>>, base: Base<'_>) -> Vec<Wrong> {
        let at = value.span().start;
        let result = match value.get_ref() {
            DeValue::Array(items) if self.is_list() => {
                return items
                    .iter()
                    .filter_map(|item| self.assign_item(item, base).err())
                    .collect();
            }
            DeValue::Array(items) if self.takes_list() => {
                let texts = items.iter().map(|item| match item.get_ref() {
                    DeValue::String(text) => Ok(text.as_ref()),
                    other => Err(self.wrong(&found(other, true))),
                });
                let texts: Result<Vec<_>, _> = texts.collect();
                texts.and_then(|texts| self.put(&texts.join(","), base))
            }
            DeValue::Boolean(value) if matches!(self, Self::Flag(_)) => {
                self.put(if *value { "true" } else { "false" }, base)
            }
            DeValue::String(_) if matches!(self, Self::Flag(_)) => {
                Err(self.wrong(&found(value.get_ref(), true)))
            }
            DeValue::String(text) if !self.is_list() && !self.is_number() => self.put(text, base),
            DeValue::Integer(number) if self.is_number() => {
                match i128::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) => self.put_number(number),
                    Err(_) => Err(self.wrong("a number of that size")),
                }
            }
            other => Err(self.wrong(&found(other, !self.is_discreet()))),
        };
        result
            .err()
            .map(|what| Wrong { at, what })
            .into_iter()
            .collect()
    }

    /// Adds one item of a list in a file.
    pub(super) fn assign_item(
        &mut self,
        item: &Spanned<DeValue<'_>>,
        base: Base<'_>,
    ) -> Result<(), Wrong> {
        let added = match item.get_ref() {
            DeValue::String(text) => self.add(text, base),
            other => Err(format!(
                "must hold strings only, not {}",
                found(other, true)
            )),
        };
        added.map_err(|what| Wrong {
            at: item.span().start,
            what,
        })
    }

    /// Puts a value from a variable or flag there.
    pub(super) fn assign_text(&mut self, text: &str, base: Base<'_>) -> Vec<Wrong> {
        let wrong = |what| Wrong { at: 0, what };
        if self.is_list() {
            return match list::items(text) {
                Ok(items) => items
                    .iter()
                    .filter_map(|item| self.add(item, base).err())
                    .map(wrong)
                    .collect(),
                Err(what) => vec![wrong(what)],
            };
        }
        let result = if self.is_number() {
            match text.trim().replace('_', "").parse() {
                Ok(number) => self.put_number(number),
                Err(_) => Err(self.wrong(&format!("{:?}", shortened(text)))),
            }
        } else {
            self.put(text, base)
        };
        result.err().map(wrong).into_iter().collect()
    }

    fn takes_list(&self) -> bool {
        matches!(self, Self::Choice(place) if place.takes_list())
    }

    const fn is_number(&self) -> bool {
        matches!(self, Self::Number(..))
    }

    /// Tells whether a value that does not fit may be a secret that went astray.
    const fn is_discreet(&self) -> bool {
        matches!(self, Self::Url(_) | Self::Variable(_) | Self::Variables(_))
    }

    fn wrong(&self, found: &str) -> String {
        format!("must be {}, not {found}", self.allowed())
    }

    fn put(&mut self, text: &str, base: Base<'_>) -> Result<(), String> {
        let fits = match self {
            Self::Text(_) => !text.trim().is_empty() && !text.chars().any(char::is_control),
            Self::Url(_) => is_url(text),
            Self::Path(_) => !text.is_empty() && (!text.starts_with("~/") || base.home.is_some()),
            Self::Program(_) => {
                text.starts_with('/') || (text.starts_with("~/") && base.home.is_some())
            }
            Self::Variable(_) => is_variable(text),
            Self::Flag(place) => match text.trim() {
                "true" => {
                    **place = true;
                    return Ok(());
                }
                "false" => {
                    **place = false;
                    return Ok(());
                }
                _ => false,
            },
            Self::Choice(place) => {
                return place.choose(text).map_err(|refusal| match refusal {
                    Refusal::NoSuchWord => self.wrong(&format!("{:?}", shortened(text))),
                    Refusal::Because(what) => what,
                });
            }
            Self::Number(..)
            | Self::Rules(_)
            | Self::Variables(_)
            | Self::Hosts(_)
            | Self::Paths(_) => false,
        };
        if !fits {
            let found = if self.is_discreet() {
                "this text".to_owned()
            } else {
                format!("{:?}", shortened(text))
            };
            return Err(self.wrong(&found));
        }
        match self {
            Self::Text(place) | Self::Url(place) | Self::Variable(place) => {
                **place = Some(text.to_owned());
            }
            Self::Path(place) | Self::Program(place) => **place = Some(path(text, base)),
            Self::Number(..)
            | Self::Flag(_)
            | Self::Choice(_)
            | Self::Rules(_)
            | Self::Variables(_)
            | Self::Hosts(_)
            | Self::Paths(_) => {}
        }
        Ok(())
    }

    fn put_number(&mut self, number: i128) -> Result<(), String> {
        if let Self::Number(place, range) = self
            && let Ok(number) = u64::try_from(number)
            && range.contains(&number)
            && place.set(number)
        {
            return Ok(());
        }
        Err(self.wrong(&number.to_string()))
    }

    fn add(&mut self, item: &str, base: Base<'_>) -> Result<(), String> {
        match self {
            Self::Choice(place) if place.takes_list() => {
                // To what is there, unless that is one word.
                let mut text = place.word().unwrap_or_default();
                if !text.contains('.') {
                    text.clear();
                }
                text.push(',');
                text.push_str(item);
                return self.put(&text, base);
            }
            Self::Rules(rules) => {
                let rule = item
                    .parse()
                    .map_err(|error| format!("has a wrong rule: {error}"))?;
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
            Self::Hosts(hosts) => {
                let fits =
                    |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
                if item.is_empty() || !item.chars().all(fits) {
                    return Err("must hold hosts such as docs.local or localhost:8080".to_owned());
                }
                if !hosts.iter().any(|host| host == item) {
                    hosts.push(item.to_owned());
                }
            }
            Self::Paths(paths) => {
                if item.trim().is_empty() || (item.starts_with("~/") && base.home.is_none()) {
                    return Err("must hold paths of folders".to_owned());
                }
                let path = path(item, base);
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
            Self::Variables(names) => {
                if !is_variable(item) {
                    return Err(
                        "must hold names of environment variables only: letters, digits and `_`"
                            .to_owned(),
                    );
                }
                if !names.iter().any(|name| name == item) {
                    names.push(item.to_owned());
                }
            }
            Self::Text(_)
            | Self::Url(_)
            | Self::Path(_)
            | Self::Program(_)
            | Self::Variable(_)
            | Self::Number(..)
            | Self::Flag(_)
            | Self::Choice(_) => return Err(self.wrong("a list")),
        }
        Ok(())
    }

    /// What may be put there, to be read after `must be`.
    pub(super) fn allowed(&self) -> String {
        match self {
            Self::Text(_) => "a string that is not empty".to_owned(),
            Self::Url(_) => "an address that starts with http:// or https://".to_owned(),
            Self::Path(_) => "a path".to_owned(),
            Self::Program(_) => "an absolute path of a program".to_owned(),
            Self::Variable(_) => "the name of an environment variable".to_owned(),
            Self::Number(_, range) => {
                format!("a whole number from {} to {}", range.start(), range.end())
            }
            Self::Flag(_) => "true or false".to_owned(),
            Self::Choice(place) => place.words(),
            Self::Rules(_) => "a list of rules such as [\"Bash(git log *)\"]".to_owned(),
            Self::Paths(_) => "a list of folders such as [\"../docs\"]".to_owned(),
            Self::Variables(_) => "a list of names of environment variables".to_owned(),
            Self::Hosts(_) => "a list of hosts such as [\"localhost:8080\"]".to_owned(),
        }
    }

    /// The value as a person would write it.
    pub(super) fn show(&self) -> String {
        let quote = |text: &str| format!("{text:?}");
        let shown = match self {
            Self::Text(place) | Self::Variable(place) => place.as_deref().map(quote),
            Self::Url(place) => place.as_deref().map(|url| quote(&without_secrets(url))),
            Self::Path(place) | Self::Program(place) => place
                .as_ref()
                .map(|path| format!("{:?}", path.display().to_string())),
            Self::Number(place, _) => place.get().map(|number| number.to_string()),
            Self::Flag(place) => Some(place.to_string()),
            Self::Choice(place) => place.word().map(|word| quote(&word)),
            Self::Rules(rules) => {
                let rules: Vec<String> = rules.iter().map(Rule::to_string).collect();
                Some(format!("{rules:?}"))
            }
            Self::Paths(paths) => {
                let paths: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
                Some(format!("{paths:?}"))
            }
            Self::Variables(names) | Self::Hosts(names) => Some(format!("{names:?}")),
        };
        shown.unwrap_or_else(|| "not set".to_owned())
    }
}

fn found(value: &DeValue<'_>, may_show: bool) -> String {
    match value {
        DeValue::String(text) if may_show => format!("the string {:?}", shortened(text)),
        DeValue::String(_) => "this string".to_owned(),
        DeValue::Integer(number) => format!("the number {}", shortened(number.as_str())),
        DeValue::Float(number) => format!("the number {}", shortened(number.as_str())),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

fn is_url(text: &str) -> bool {
    let is_scheme =
        |scheme: &str| scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    text.split_once("://").is_some_and(|(scheme, rest)| {
        is_scheme(scheme)
            && !rest.is_empty()
            && !rest.starts_with(['/', '?', '#', ':'])
            && !rest.chars().any(|c| c.is_whitespace() || c.is_control())
    })
}

/// An address without a login and without what a query holds.
fn without_secrets(url: &str) -> String {
    let (url, query) = match url.split_once('?') {
        Some((url, _)) => (url, "?..."),
        None => (url, ""),
    };
    let Some((scheme, rest)) = url.split_once("://") else {
        return format!("{url}{query}");
    };
    let authority_end = rest.find('/').unwrap_or(rest.len());
    match rest
        .get(..authority_end)
        .and_then(|authority| authority.rfind('@'))
    {
        Some(at) => format!(
            "{scheme}://...{}{query}",
            rest.get(at..).unwrap_or_default()
        ),
        None => format!("{url}{query}"),
    }
}

/// Tells whether a text is a plain name: letters, digits and `_`.
pub(super) fn is_variable(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn path(text: &str, base: Base<'_>) -> PathBuf {
    match (text.strip_prefix("~/"), base.home) {
        (Some(rest), Some(home)) => home.join(rest),
        (Some(_) | None, _) => base.folder.join(text),
    }
}
