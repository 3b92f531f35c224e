//! What programs that are asked about calls say, in the common JSON contract.

use std::str::FromStr;

use serde_json::Value;
use tooloop_model::JsonObject;
use tooloop_policy::{Mode, Rule, RuleList};

/// What a program says to a question about a call.
///
/// ```
/// use serde_json::json;
/// use tooloop::PermissionAnswer;
///
/// let said = json!({ "behavior": "deny", "message": "not today" });
/// assert_eq!(
///     PermissionAnswer::parse(&said),
///     Ok(PermissionAnswer::Deny { message: "not today".into(), interrupt: false })
/// );
/// assert!(PermissionAnswer::parse(&json!({ "behavior": "perhaps" })).is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionAnswer {
    /// `{"behavior": "allow", "updatedInput"?: {..}, "updatedPermissions"?: [..]}`
    Allow {
        /// What the call is to be run with in place of what the model wrote.
        input: Option<JsonObject>,
        /// What is to change for later calls.
        updates: Vec<PermissionUpdate>,
    },
    /// `{"behavior": "deny", "message"?: "..", "interrupt"?: bool}`
    Deny {
        /// Why: reaches the model.
        message: String,
        /// Whether the turn is to end.
        interrupt: bool,
    },
}

/// A change of what is allowed, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionUpdate {
    /// What changes.
    pub change: PermissionChange,
    /// Where it is to be kept.
    pub destination: Destination,
}

/// What changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionChange {
    /// Rules come to a list.
    Add(RuleList, Vec<Rule>),
    /// Rules are taken from a list.
    Remove(RuleList, Vec<Rule>),
    /// The mode is another one.
    Mode(Mode),
    /// Something that is not known here, by its name.
    Other(String),
}

/// Where a change is to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// For this session.
    Session,
    /// For this person in this project.
    Local,
    /// For everybody in this project.
    Project,
    /// For this person everywhere.
    User,
}

impl Destination {
    /// The word of the contract.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Local => "localSettings",
            Self::Project => "projectSettings",
            Self::User => "userSettings",
        }
    }
}

impl PermissionAnswer {
    /// Reads an answer.
    ///
    /// # Errors
    /// In words, if it is none. Then it is no yes.
    pub fn parse(answer: &Value) -> Result<Self, String> {
        let field = |name: &str| answer.get(name).filter(|value| !value.is_null());
        match field("behavior").and_then(Value::as_str) {
            Some("allow") => Ok(Self::Allow {
                input: field("updatedInput").map(input).transpose()?,
                updates: match field("updatedPermissions") {
                    None => Vec::new(),
                    Some(Value::Array(updates)) => {
                        updates.iter().map(update).collect::<Result<_, _>>()?
                    }
                    Some(_) => return Err("\"updatedPermissions\" is no list".into()),
                },
            }),
            Some("deny") => Ok(Self::Deny {
                message: match field("message") {
                    None => "denied".into(),
                    Some(Value::String(message)) => message.clone(),
                    Some(_) => return Err("\"message\" is no string".into()),
                },
                interrupt: match field("interrupt") {
                    None => false,
                    Some(Value::Bool(interrupt)) => *interrupt,
                    Some(_) => return Err("\"interrupt\" is neither true nor false".into()),
                },
            }),
            _ => Err("\"behavior\" is neither \"allow\" nor \"deny\"".into()),
        }
    }
}

fn input(input: &Value) -> Result<JsonObject, String> {
    if !input.is_object() {
        return Err("\"updatedInput\" is no object".into());
    }
    JsonObject::parse(&input.to_string()).map_err(|error| format!("\"updatedInput\": {error}"))
}

fn update(update: &Value) -> Result<PermissionUpdate, String> {
    let text = |name: &str| update.get(name).and_then(Value::as_str);
    let destination = match text("destination") {
        None | Some("session" | "cliArg") => Destination::Session,
        Some("localSettings") => Destination::Local,
        Some("projectSettings") => Destination::Project,
        Some("userSettings") => Destination::User,
        Some(other) => return Err(format!("a permission update is for {other:?}")),
    };
    let kind = text("type").ok_or("a permission update has no \"type\"")?;
    let change = match kind {
        "addRules" => PermissionChange::Add(list(text("behavior"))?, rules(update)?),
        "removeRules" => PermissionChange::Remove(list(text("behavior"))?, rules(update)?),
        "setMode" => {
            let mode = text("mode").unwrap_or_default();
            PermissionChange::Mode(Mode::from_str(mode).map_err(|error| error.to_string())?)
        }
        other => PermissionChange::Other(other.to_owned()),
    };
    Ok(PermissionUpdate {
        change,
        destination,
    })
}

fn list(behavior: Option<&str>) -> Result<RuleList, String> {
    match behavior {
        Some("allow") => Ok(RuleList::Allow),
        Some("ask") => Ok(RuleList::Ask),
        Some("deny") => Ok(RuleList::Deny),
        _ => Err("a permission update does not say what its rules do".into()),
    }
}

fn rules(update: &Value) -> Result<Vec<Rule>, String> {
    let rules = update.get("rules").and_then(Value::as_array);
    let rules = rules.ok_or("a permission update has no \"rules\"")?;
    rules
        .iter()
        .map(|rule| {
            let text = |name: &str| rule.get(name).and_then(Value::as_str);
            let tool = text("toolName").ok_or("a rule has no \"toolName\"")?;
            Rule::new(tool, text("ruleContent")).map_err(|error| error.to_string())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn updates_are_read_one_by_one() {
        let rules = json!([{ "toolName": "Bash", "ruleContent": "touch a" }]);
        let add = |destination: &str| {
            json!({
                "behavior": "allow",
                "updatedPermissions": [{
                    "type": "addRules",
                    "rules": rules,
                    "behavior": "allow",
                    "destination": destination,
                }],
            })
        };
        for destination in [
            Destination::Session,
            Destination::Local,
            Destination::Project,
            Destination::User,
        ] {
            let update = PermissionUpdate {
                change: PermissionChange::Add(
                    RuleList::Allow,
                    vec!["Bash(touch a)".parse().unwrap()],
                ),
                destination,
            };
            let expected = PermissionAnswer::Allow {
                input: None,
                updates: vec![update],
            };
            let read = PermissionAnswer::parse(&add(destination.name()));
            assert_eq!(read, Ok(expected));
        }
        assert!(PermissionAnswer::parse(&add("elsewhere")).is_err());
    }

    #[test]
    fn what_is_malformed_is_never_a_yes() {
        for answer in [
            json!(null),
            json!("allow"),
            json!({}),
            json!({ "behavior": true }),
            json!({ "behavior": "allow", "updatedInput": "ls" }),
            json!({ "behavior": "allow", "updatedPermissions": {} }),
            json!({ "behavior": "allow", "updatedPermissions": [{}] }),
            json!({ "behavior": "allow", "updatedPermissions": [{ "type": "addRules" }] }),
            json!({ "behavior": "allow", "updatedPermissions": [
                { "type": "addRules", "behavior": "allow", "rules": [{ "toolName": "B sh" }] }
            ] }),
            json!({ "behavior": "allow", "updatedPermissions": [
                { "type": "setMode", "mode": "yolo" }
            ] }),
            json!({ "behavior": "deny", "message": 5 }),
            json!({ "behavior": "deny", "interrupt": "yes" }),
        ] {
            assert!(PermissionAnswer::parse(&answer).is_err(), "{answer}");
        }
    }

    #[test]
    fn what_is_not_known_is_named() {
        let answer = json!({ "behavior": "allow", "updatedInput": { "command": "ls" },
            "updatedPermissions": [{ "type": "addDirectories", "directories": ["/"] }] });
        let expected = PermissionAnswer::Allow {
            input: Some(JsonObject::parse("{\"command\":\"ls\"}").unwrap()),
            updates: vec![PermissionUpdate {
                change: PermissionChange::Other("addDirectories".into()),
                destination: Destination::Session,
            }],
        };
        assert_eq!(PermissionAnswer::parse(&answer), Ok(expected));
    }
}
