//! What was found, and how it is told.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::text;

/// How well a thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Ok,
    /// It works, but not as well as it could.
    Warning,
    /// Something will fail.
    Problem,
}

impl Level {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) level: Level,
    /// What was found.
    pub(super) text: String,
    /// What to do about it.
    pub(super) advice: Option<String>,
    /// The same for programs, where there is more to say.
    pub(super) details: Value,
}

impl Check {
    pub(super) fn ok(name: &'static str, text: impl Into<String>) -> Self {
        Self {
            name,
            level: Level::Ok,
            text: text.into(),
            advice: None,
            details: Value::Null,
        }
    }

    pub(super) fn warning(
        name: &'static str,
        text: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            level: Level::Warning,
            advice: Some(advice.into()),
            ..Self::ok(name, text)
        }
    }

    pub(super) fn problem(
        name: &'static str,
        text: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            level: Level::Problem,
            ..Self::warning(name, text, advice)
        }
    }

    pub(super) fn with(self, details: Value) -> Self {
        Self { details, ..self }
    }
}

/// Things of a kind.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: &'static str,
    pub(super) checks: Vec<Check>,
}

/// All that was looked at.
#[derive(Debug, Default)]
pub(super) struct Report(pub(super) Vec<Group>);

/// The columns of what stands before a text.
const LEVEL: usize = 9;
const NAME: usize = 14;
const INDENT: usize = 2 + LEVEL + NAME;

impl Report {
    fn count(&self, level: Level) -> usize {
        let checks = self.0.iter().flat_map(|group| &group.checks);
        checks.filter(|check| check.level == level).count()
    }

    pub(super) fn has_problem(&self) -> bool {
        self.count(Level::Problem) > 0
    }

    /// For a person, in lines of so many columns.
    pub(super) fn text(&self, columns: usize) -> String {
        let room = columns.saturating_sub(INDENT).max(30);
        let mut out = String::new();
        let mut line = |line: std::fmt::Arguments<'_>| {
            // Writing to a string does not fail.
            out.write_fmt(line).unwrap_or_default();
            out.push('\n');
        };
        for group in &self.0 {
            line(format_args!("{}", group.name));
            for check in &group.checks {
                let mut lines = text::wrap(&text::clean(&check.text), room);
                if let Some(advice) = &check.advice {
                    lines.extend(text::wrap(&text::clean(&format!("-> {advice}")), room));
                }
                let head = format!("  {:LEVEL$}{:NAME$}", check.level.word(), check.name);
                for (nth, words) in lines.iter().enumerate() {
                    let before = if nth == 0 { head.as_str() } else { "" };
                    line(format_args!(
                        "{}",
                        format!("{before:INDENT$}{words}").trim_end()
                    ));
                }
            }
            line(format_args!(""));
        }
        let (warnings, problems) = (self.count(Level::Warning), self.count(Level::Problem));
        let sum = match (problems, warnings) {
            (0, 0) => "All is well.".to_owned(),
            (0, _) => format!("No problem; {}.", counted(warnings, "warning")),
            (_, 0) => format!("{}.", counted(problems, "problem")),
            _ => format!(
                "{}, {}.",
                counted(problems, "problem"),
                counted(warnings, "warning")
            ),
        };
        line(format_args!("{sum}"));
        out
    }

    /// For a program: one object.
    pub(super) fn json(&self) -> Value {
        let checks = self.0.iter().flat_map(|group| {
            group.checks.iter().map(|check| {
                let mut object = Map::new();
                object.insert("group".into(), group.name.into());
                object.insert("name".into(), check.name.into());
                object.insert("status".into(), check.level.word().into());
                object.insert("text".into(), check.text.as_str().into());
                if let Some(advice) = &check.advice {
                    object.insert("advice".into(), advice.as_str().into());
                }
                if !check.details.is_null() {
                    object.insert("details".into(), check.details.clone());
                }
                Value::Object(object)
            })
        });
        json!({
            "type": "doctor",
            "format": 1,
            "tooloop_version": env!("CARGO_PKG_VERSION"),
            "ok": !self.has_problem(),
            "warnings": self.count(Level::Warning),
            "problems": self.count(Level::Problem),
            "checks": checks.collect::<Vec<_>>(),
        })
    }
}

fn counted(count: usize, word: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {word}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_told_in_lines_and_as_an_object() {
        let report = Report(vec![Group {
            name: "system",
            checks: vec![
                Check::ok("version", "tooloop 1.0"),
                Check::warning(
                    "disk",
                    "a text that is too long to stand on one line of this screen",
                    "make room",
                )
                .with(json!({"free": 1})),
                Check::problem("clock", "it is 1970", "set the clock"),
            ],
        }]);
        let expected = "system
  ok       version       tooloop 1.0
  warning  disk          a text that is too long to stand
                         on one line of this screen
                         -> make room
  problem  clock         it is 1970
                         -> set the clock

1 problem, 1 warning.
";
        assert_eq!(report.text(58), expected);
        let json = report.json();
        assert_eq!((&json["ok"], &json["problems"]), (&json!(false), &json!(1)));
        assert_eq!(
            json["checks"][1],
            json!({
                "group": "system",
                "name": "disk",
                "status": "warning",
                "text": "a text that is too long to stand on one line of this screen",
                "advice": "make room",
                "details": {"free": 1},
            })
        );
        assert!(Report::default().text(80).ends_with("All is well.\n"));
    }
}
