//! Names, schemas, inputs and ids of tools: V6 and V7, for every format.

use super::{Report, Rule};
use serde_json::Value;
use std::collections::HashSet;

fn is_name(text: &str, extra: &str) -> bool {
    (1..=64).contains(&text.len())
        && text
            .chars()
            .all(|one| one.is_ascii_alphanumeric() || extra.contains(one))
}

/// Looks at the name of a tool, offered or used.
pub(super) fn check_name(name: Option<&str>, path: &str, report: &mut Report) {
    match name {
        None => report.add(Rule::Tools, path, "a tool needs a name"),
        Some(name) if !is_name(name, "_-") => {
            report.add(
                Rule::Tools,
                path,
                format!("tool name {name:?} does not match ^[A-Za-z0-9_-]{{1,64}}$"),
            );
        }
        Some(_) => {}
    }
}

/// Looks at the names of all tools that are offered.
#[derive(Debug, Default)]
pub(super) struct Names<'a>(HashSet<&'a str>);

impl<'a> Names<'a> {
    pub(super) fn add(&mut self, name: Option<&'a str>, path: &str, report: &mut Report) {
        check_name(name, path, report);
        if let Some(name) = name
            && !self.0.insert(name)
        {
            report.add(
                Rule::Tools,
                path,
                format!("tool name {name:?} is there twice"),
            );
        }
    }
}

/// Looks at the schema of a tool's input: one of an object, its keys and those of objects within well formed.
pub(super) fn check_schema(schema: &Value, path: &str, report: &mut Report) {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        report.add(
            Rule::Tools,
            path,
            "the schema must have the type \"object\"",
        );
    }
    check_keys(schema, path, report);
}

fn check_keys(schema: &Value, path: &str, report: &mut Report) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                let at = format!("{path}.{name}");
                match (name.as_str(), value) {
                    ("properties", Value::Object(properties)) => {
                        for (key, property) in properties {
                            if !is_name(key, "_.-") {
                                report.add(
                                    Rule::Tools,
                                    at.as_str(),
                                    format!("property key {key:?} does not match ^[A-Za-z0-9_.-]{{1,64}}$"),
                                );
                            }
                            check_keys(property, &format!("{at}.{key}"), report);
                        }
                    }
                    // Data, not schemas.
                    ("enum" | "const" | "default" | "examples", _) => {}
                    _ => check_keys(value, &at, report),
                }
            }
        }
        Value::Array(schemas) => {
            for (index, schema) in schemas.iter().enumerate() {
                check_keys(schema, &format!("{path}[{index}]"), report);
            }
        }
        _ => {}
    }
}

/// Looks at the ids of all calls of a conversation.
#[derive(Debug, Default)]
pub(super) struct CallIds<'a>(HashSet<&'a str>);

impl<'a> CallIds<'a> {
    pub(super) fn add(&mut self, id: Option<&'a str>, path: &str, report: &mut Report) {
        match id {
            None | Some("") => report.add(Rule::Calls, path, "a tool call needs an id"),
            Some(id) => {
                if !self.0.insert(id) {
                    report.add(
                        Rule::Calls,
                        path,
                        format!("the id {id:?} was used before in this conversation"),
                    );
                }
            }
        }
    }
}
