//! The hooks of such a file. What is not understood draws a warning that names it.

use std::time::Duration;

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::Ranged as _;
use tooloop::hooks::{HookEvent, HookRule, Matcher};

use super::{Foreign, Ground, found, parts};
use crate::settings::error::shortened;
use crate::settings::hook::{self, DEFAULT_TIMEOUT, MOST_MILLIS};

/// Events of the other product that nothing here corresponds to.
const OTHER_EVENTS: [&str; 7] = [
    "PostCompact",
    "ConfigChange",
    "TaskCompleted",
    "TeammateIdle",
    "InstructionsLoaded",
    "WorktreeCreate",
    "WorktreeRemove",
];

impl Foreign {
    pub(super) fn hooks(&mut self, value: &Value<'_>, ground: Ground<'_>) {
        let Value::Object(events) = value else {
            let words = format!(
                "`hooks` is not applied: it must be an object, not {}",
                found(value)
            );
            return self.doubt(value.start(), words);
        };
        for property in &events.properties {
            let (name, at, value) = parts(property);
            if OTHER_EVENTS.contains(&name) {
                self.doubt(
                    at,
                    format!("`hooks.{name}` is not applied: there is no such event here"),
                );
                continue;
            }
            if name.parse::<HookEvent>().is_err() && self.is_full_of_doubts() {
                continue;
            }
            match hook::event(name) {
                Ok(event) => self.groups(event, value, ground),
                Err(what) => self.doubt(at, format!("`hooks` {what}; it is not applied")),
            }
        }
    }

    fn groups(&mut self, event: HookEvent, value: &Value<'_>, ground: Ground<'_>) {
        let name = event.name();
        let Value::Array(groups) = value else {
            let words = format!("`hooks.{name}` is not applied: it must be a list");
            return self.doubt(value.start(), words);
        };
        for group in &groups.elements {
            let Value::Object(group) = group else {
                self.doubt(
                    group.start(),
                    format!("`hooks.{name}` holds what is no object; it is not applied"),
                );
                continue;
            };
            self.group(event, group, ground);
        }
    }

    fn group(&mut self, event: HookEvent, group: &Object<'_>, ground: Ground<'_>) {
        let name = event.name();
        let mut matcher = None;
        let mut entries = None;
        for property in &group.properties {
            let (key, at, value) = parts(property);
            match (key, value) {
                // Both mean whatever there is.
                ("matcher", Value::StringLit(text)) if matches!(&*text.value, "" | "*") => {}
                ("matcher", Value::StringLit(text)) => match Matcher::parse(&text.value) {
                    Ok(_) => matcher = Some(text.value.to_string()),
                    Err(error) => {
                        let words = format!("`hooks.{name}` is not applied: {error}");
                        return self.doubt(text.start(), words);
                    }
                },
                ("matcher", Value::NullKeyword(_)) => {}
                ("matcher", other) => {
                    // Without it the hook would be run where it is not meant to be.
                    self.doubt(
                        other.start(),
                        format!(
                            "`hooks.{name}` is not applied: its `matcher` is {}",
                            found(other)
                        ),
                    );
                    return;
                }
                ("hooks", Value::Array(array)) => entries = Some(array),
                ("description", _) => {}
                (other, _) => self.unknown_key(name, other, at, &["matcher", "hooks"]),
            }
        }
        let Some(entries) = entries else {
            let words = format!("`hooks.{name}` is not applied: it has no list `hooks`");
            return self.doubt(group.start(), words);
        };
        for entry in &entries.elements {
            let Value::Object(entry) = entry else {
                self.doubt(
                    entry.start(),
                    format!("`hooks.{name}` holds what is no object; it is not applied"),
                );
                continue;
            };
            if let Some((command, timeout)) = self.entry(name, entry) {
                let at = entry.start();
                if self.is_endless(at, "hooks", self.hooks.len() + 1) {
                    return;
                }
                let rule = HookRule {
                    event,
                    matcher: matcher.clone(),
                    command,
                    timeout,
                    source: (ground.place)(at),
                };
                self.hooks.push((at, rule));
            }
        }
    }

    fn entry(&mut self, name: &str, entry: &Object<'_>) -> Option<(String, Duration)> {
        let kind = entry.get_string("type").map(|kind| kind.value.to_string());
        if let Some(kind) = kind.filter(|kind| kind != "command") {
            let words = format!(
                "`hooks.{name}` is not applied: hooks of type {:?} are not run here, only commands",
                shortened(&kind)
            );
            self.doubt(entry.start(), words);
            return None;
        }
        let mut command = None;
        let mut timeout = DEFAULT_TIMEOUT;
        for property in &entry.properties {
            let (key, at, value) = parts(property);
            match (key, value) {
                ("command", Value::StringLit(text)) if !text.value.trim().is_empty() => {
                    command = Some(text.value.to_string());
                }
                ("timeout", Value::NumberLit(number)) if seconds(number.value).is_some() => {
                    timeout = seconds(number.value).unwrap_or(DEFAULT_TIMEOUT);
                }
                ("timeout", other) => self.doubt(
                    other.start(),
                    format!("`hooks.{name}` has a `timeout` that is no number of seconds up to a day; it is 60"),
                ),
                ("statusMessage" | "description", _) => {}
                ("async" | "asyncRewake", Value::BooleanLit(truth)) if !truth.value => {}
                ("if" | "async" | "asyncRewake" | "once" | "shell" | "args", _) => self.doubt(
                    at,
                    format!("`{key}` of a hook is not known here: it is run whenever its matcher fits, and waited for"),
                ),
                ("type" | "command", _) => {}
                (other, _) => self.unknown_key(name, other, at, &["type", "command", "timeout"]),
            }
        }
        if command.is_none() {
            let words = format!("`hooks.{name}` is not applied: it has no `command`");
            self.doubt(entry.start(), words);
        }
        Some((command?, timeout))
    }

    fn unknown_key(&mut self, name: &str, key: &str, at: usize, keys: &[&str]) {
        let folded = key.to_ascii_lowercase();
        let nearest = keys
            .iter()
            .map(|known| (strsim::jaro_winkler(known, &folded), known))
            .max_by(|(one, _), (other, _)| one.total_cmp(other))
            .filter(|(likeness, _)| *likeness >= 0.7);
        let key = shortened(key);
        self.doubt(
            at,
            match nearest {
                Some((_, nearest)) => format!(
                    "`hooks.{name}` has an unknown key `{key}`, the nearest valid key is `{nearest}`"
                ),
                None => format!("`hooks.{name}` has an unknown key `{key}`"),
            },
        );
    }
}

/// A number of seconds, also a part of one.
fn seconds(number: &str) -> Option<Duration> {
    let duration = Duration::try_from_secs_f64(number.parse().ok()?).ok()?;
    let most = Duration::from_millis(MOST_MILLIS);
    (duration >= Duration::from_millis(1) && duration <= most).then_some(duration)
}
