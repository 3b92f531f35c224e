//! Hooks as they stand in a settings file of ours: a list of tables.

use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use tooloop::hooks::{HookEvent, HookRule, Matcher};

use super::error::shortened;
use super::slot::Wrong;

/// How long a hook may run if it does not say.
pub(super) const DEFAULT_TIMEOUT: Duration = HookRule::TIMEOUT;

/// The longest that it may ask for.
pub(super) const MOST_MILLIS: u64 = 86_400_000;

const KEYS: [&str; 4] = ["event", "matcher", "command", "timeout_ms"];

/// What tells a hook from another one: all but where it stands.
pub(super) fn identity(rule: &HookRule) -> String {
    serde_json::json!([
        rule.event.name(),
        rule.matcher,
        rule.command,
        u64::try_from(rule.timeout.as_millis()).unwrap_or(u64::MAX),
    ])
    .to_string()
}

/// A hook on one line, for a person.
pub(super) fn shown(rule: &HookRule) -> String {
    let event = rule.event.name();
    match &rule.matcher {
        Some(matcher) => format!("{event} of {matcher}: {}", rule.command),
        None => format!("{event}: {}", rule.command),
    }
}

/// The event of this name, or what is wrong with the name.
pub(super) fn event(name: &str) -> Result<HookEvent, String> {
    if let Some(event) = HookEvent::ALL.into_iter().find(|e| e.name() == name) {
        return Ok(event);
    }
    let folded = name.to_ascii_lowercase().replace(['_', '-'], "");
    let nearest = HookEvent::ALL
        .into_iter()
        .map(|event| {
            (
                strsim::jaro_winkler(&event.name().to_ascii_lowercase(), &folded),
                event,
            )
        })
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .filter(|(likeness, _)| *likeness >= 0.8)
        .map_or_else(
            || {
                let all = HookEvent::ALL.map(HookEvent::name).join(", ");
                format!("the events are {all}")
            },
            |(_, event)| format!("the nearest is `{}`", event.name()),
        );
    Err(format!(
        "names no event with {:?}: {nearest}",
        shortened(name)
    ))
}

/// Reads the hooks of a file; each comes with the offset at which it begins.
pub(super) fn read(
    value: &Spanned<DeValue<'_>>,
    place: &dyn Fn(usize) -> String,
) -> Result<Vec<(usize, HookRule)>, Vec<Wrong>> {
    let wrong = |at, what: &str| Wrong {
        at,
        what: what.to_owned(),
    };
    const LIST: &str =
        "must be a list of tables: write [[hooks]], then a line for each of event and command";
    let DeValue::Array(items) = value.get_ref() else {
        return Err(vec![wrong(value.span().start, LIST)]);
    };
    let mut hooks = Vec::new();
    let mut faults = Vec::new();
    for item in items.iter() {
        let at = item.span().start;
        match item.get_ref() {
            DeValue::Table(table) => match one(table, at, place) {
                Ok(hook) => hooks.push((at, hook)),
                Err(more) => faults.extend(more),
            },
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => faults.push(wrong(at, LIST)),
        }
    }
    if faults.is_empty() {
        Ok(hooks)
    } else {
        Err(faults)
    }
}

fn one(
    table: &DeTable<'_>,
    at: usize,
    place: &dyn Fn(usize) -> String,
) -> Result<HookRule, Vec<Wrong>> {
    let mut faults = Vec::new();
    let mut found = (None, None, None, DEFAULT_TIMEOUT);
    for (name, value) in table {
        let at = value.span().start;
        let mut wrong = |at, what: String| faults.push(Wrong { at, what });
        let text = match value.get_ref() {
            DeValue::String(text) if !text.trim().is_empty() => Some(text.clone().into_owned()),
            _ => None,
        };
        match (name.get_ref().as_ref(), text) {
            ("event", Some(text)) => match event(&text) {
                Ok(event) => found.0 = Some(event),
                Err(what) => wrong(at, what),
            },
            ("matcher", Some(text)) => match Matcher::parse(&text) {
                Ok(_) => found.1 = Some(text),
                Err(error) => wrong(at, format!("has a wrong matcher: {error}")),
            },
            ("command", Some(text)) => found.2 = Some(text),
            ("timeout_ms", _) => {
                let millis = match value.get_ref() {
                    DeValue::Integer(number) => {
                        u64::from_str_radix(number.as_str(), number.radix()).ok()
                    }
                    _ => None,
                };
                match millis.filter(|millis| (1..=MOST_MILLIS).contains(millis)) {
                    Some(millis) => found.3 = Duration::from_millis(millis),
                    None => wrong(
                        at,
                        format!(
                            "has a `timeout_ms` that is no whole number from 1 to {MOST_MILLIS}"
                        ),
                    ),
                }
            }
            (key @ ("event" | "matcher" | "command"), None) => {
                wrong(
                    at,
                    format!("has a `{key}` that is no text, or an empty one"),
                );
            }
            (key, _) => {
                let nearest = KEYS
                    .iter()
                    .map(|known| {
                        (
                            strsim::jaro_winkler(known, &key.to_ascii_lowercase()),
                            known,
                        )
                    })
                    .max_by(|(one, _), (other, _)| one.total_cmp(other));
                let nearest = nearest.map_or("event", |(_, nearest)| nearest);
                wrong(
                    name.span().start,
                    format!(
                        "has an unknown key `{}`, the nearest valid key is `{nearest}`",
                        shortened(key)
                    ),
                );
            }
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let (event, matcher, command, timeout) = found;
    match (event, command) {
        (Some(event), Some(command)) => Ok(HookRule {
            event,
            matcher,
            command,
            timeout,
            source: place(at),
        }),
        (None, _) => Err(vec![Wrong {
            at,
            what: "has a hook without `event`".to_owned(),
        }]),
        (Some(_), None) => Err(vec![Wrong {
            at,
            what: "has a hook without `command`".to_owned(),
        }]),
    }
}
