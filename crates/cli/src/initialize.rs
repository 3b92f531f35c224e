//! The `initialize` request of agent SDKs. As the first line of standard input it shapes the session.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value};
use tooloop::OutputSchema;
use tooloop::hooks::{HookEvent, HookRule};

use crate::args::RunArgs;
use crate::callbacks::{COMMAND, Callbacks, SOURCE};

/// Separates parts of a system prompt; it is not sent.
const BOUNDARY: &str = "__SYSTEM_PROMPT_DYNAMIC_BOUNDARY__";

/// Fields without an effect here whose absence opens nothing.
const WITHOUT_EFFECT: [&str; 9] = [
    "agentProgressSummaries",
    "excludeDynamicSections",
    "forwardSubagentText",
    "perTaskStopAffordance",
    "promptSuggestions",
    "sdkMcpServerManifests",
    "supportedDialogKinds",
    "systemPromptSnapshot",
    "title",
];

/// The longest time that a callback may be waited for.
const DAY: f64 = 86_400.0;

/// What an `initialize` request asks for.
#[derive(Debug, Default)]
pub(crate) struct Initialize {
    /// The fields that shape the session, as they were written.
    shaping: Map<String, Value>,
    system_prompt: Option<String>,
    append_system_prompt: Option<String>,
    json_schema: Option<String>,
    pub(crate) hooks: Vec<HookRule>,
    /// The events and callbacks whose failure refuses what they are about.
    pub(crate) blocking: BTreeSet<(&'static str, String)>,
    pub(crate) callbacks: Callbacks,
    pub(crate) warnings: Vec<String>,
}

impl Initialize {
    /// Reads a request.
    ///
    /// # Errors
    /// Names a field that cannot be honoured: an ignored one might be a guard.
    pub(crate) fn parse(request: &Value) -> Result<Self, String> {
        let mut initialize = Self::default();
        let Value::Object(fields) = request else {
            return Err("an \"initialize\" request must be an object".to_owned());
        };
        for (name, value) in fields {
            if name == "subtype" || value.is_null() {
                continue;
            }
            match name.as_str() {
                "systemPrompt" => initialize.system_prompt = prompt(name, value)?,
                "appendSystemPrompt" => initialize.append_system_prompt = prompt(name, value)?,
                "jsonSchema" => initialize.json_schema = schema(value)?,
                "hooks" => initialize.hooks(value)?,
                name if WITHOUT_EFFECT.contains(&name) => {
                    if !is_empty(value) {
                        let words = format!("\"{name}\" of initialize has no effect");
                        initialize.warnings.push(words);
                    }
                    continue;
                }
                _ if is_empty(value) => continue,
                name => return Err(format!("\"{name}\" of initialize is not supported")),
            }
            if !is_empty(value) || name == "systemPrompt" {
                initialize.shaping.insert(name.clone(), value.clone());
            }
        }
        Ok(initialize)
    }

    /// Whether a later request asks for nothing that this one did not ask for.
    pub(crate) fn covers(&self, later: &Self) -> bool {
        let mut fields = later.shaping.iter();
        fields.all(|(name, value)| self.shaping.get(name) == Some(value))
    }

    /// Puts what has a flag in the place of that flag.
    pub(crate) fn apply(&self, args: &mut RunArgs) -> Result<(), String> {
        if let Some(text) = &self.system_prompt {
            args.system_prompt = Some(text.clone());
            args.system_prompt_file = None;
        }
        if let Some(text) = &self.append_system_prompt {
            if args.append_system_prompt_file.is_some() {
                return Err(
                    "\"appendSystemPrompt\" of initialize and --append-system-prompt-file exclude \
                     each other"
                        .to_owned(),
                );
            }
            let flag = args.append_system_prompt.take();
            let joined = flag.map_or_else(|| text.clone(), |flag| format!("{flag}\n\n{text}"));
            args.append_system_prompt = Some(joined);
        }
        if let Some(schema) = &self.json_schema {
            args.json_schema = Some(schema.clone());
        }
        Ok(())
    }

    fn hooks(&mut self, hooks: &Value) -> Result<(), String> {
        let Value::Object(events) = hooks else {
            return Err("\"hooks\" of initialize must be an object".to_owned());
        };
        for (name, matchers) in events {
            let Some(matchers) = list(matchers) else {
                return Err(format!("\"hooks\".\"{name}\" must be a list"));
            };
            let Ok(event) = name.parse::<HookEvent>() else {
                let words =
                    format!("hooks of the event {name:?} are never called: there is no such event");
                self.warnings.push(words);
                continue;
            };
            for matcher in matchers {
                self.matcher(event, matcher)
                    .map_err(|problem| format!("\"hooks\".\"{name}\": {problem}"))?;
            }
        }
        Ok(())
    }

    fn matcher(&mut self, event: HookEvent, entry: &Value) -> Result<(), String> {
        let Value::Object(fields) = entry else {
            return Err("its items must be objects".to_owned());
        };
        let mut rule = HookRule {
            source: SOURCE.to_owned(),
            ..HookRule::new(event, "")
        };
        let mut blocks = false;
        let mut ids: &[Value] = &[];
        for (name, value) in fields {
            match (name.as_str(), value) {
                (_, Value::Null) => {}
                ("matcher", Value::String(pattern)) => rule.matcher = Some(pattern.clone()),
                ("hookCallbackIds", Value::Array(list)) => ids = list,
                ("timeout", Value::Number(seconds)) => {
                    let seconds = seconds.as_f64().filter(|seconds| *seconds > 0.0);
                    let seconds = seconds.ok_or("\"timeout\" must be more than 0")?.min(DAY);
                    rule.timeout = Duration::from_secs_f64(seconds);
                }
                ("onFailure", Value::String(word)) => blocks = word != "continue",
                ("onFailure", _) => blocks = true,
                (name, _) => return Err(format!("\"{name}\" is not understood")),
            }
        }
        rule.parsed_matcher().map_err(|error| error.to_string())?;
        for id in ids {
            let id = id.as_str().ok_or("\"hookCallbackIds\" must be texts")?;
            if blocks {
                self.blocking.insert((event.name(), id.to_owned()));
            }
            self.hooks.push(HookRule {
                command: format!("{COMMAND}{id}"),
                ..rule.clone()
            });
        }
        Ok(())
    }
}

fn list(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Null => Some(&[]),
        Value::Array(items) => Some(items),
        _ => None,
    }
}

/// Whether a value asks for nothing.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

/// A prompt: a text, or a list of texts. An empty list sets none.
fn prompt(name: &str, value: &Value) -> Result<Option<String>, String> {
    let wrong = || format!("\"{name}\" of initialize must be a text or a list of texts");
    match value {
        Value::String(text) => Ok(Some(text.clone())),
        Value::Array(parts) => {
            let texts = parts.iter().map(|part| part.as_str().ok_or_else(wrong));
            let texts: Vec<&str> = texts.collect::<Result<_, _>>()?;
            if texts.is_empty() {
                return Ok(None);
            }
            let texts = texts.into_iter().filter(|text| *text != BOUNDARY);
            Ok(Some(texts.collect::<Vec<_>>().join("\n\n")))
        }
        _ => Err(wrong()),
    }
}

fn schema(value: &Value) -> Result<Option<String>, String> {
    if is_empty(value) {
        return Ok(None);
    }
    let text = value.to_string();
    match OutputSchema::parse(&text) {
        Ok(_) if value.is_object() => Ok(Some(text)),
        Ok(_) => Err("\"jsonSchema\" of initialize must be an object".to_owned()),
        Err(error) => Err(format!("\"jsonSchema\" of initialize: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prompts_are_texts_or_lists_of_texts() {
        for (value, expected) in [
            (json!([""]), Some("")),
            (json!(["a", BOUNDARY, "b"]), Some("a\n\nb")),
            (json!([BOUNDARY]), Some("")),
            (json!("a"), Some("a")),
            (json!([]), None),
            (json!(null), None),
        ] {
            let request = json!({ "subtype": "initialize", "systemPrompt": value });
            let read = Initialize::parse(&request).unwrap();
            assert_eq!(read.system_prompt.as_deref(), expected, "{value}");
        }
        let request = json!({ "appendSystemPrompt": "more" });
        let read = Initialize::parse(&request).unwrap();
        assert_eq!(read.append_system_prompt.as_deref(), Some("more"));
        for value in [json!([1]), json!(1), json!({ "type": "preset" })] {
            assert!(Initialize::parse(&json!({ "systemPrompt": value })).is_err());
        }
    }

    #[test]
    fn fields_that_may_be_guards_are_refused() {
        for (name, value) in [
            ("agents", json!({ "a": {} })),
            ("sdkMcpServers", json!(["s"])),
            ("skills", json!(["one"])),
            ("planModeInstructions", json!("Only read.")),
            ("disallowedTools", json!(["Bash"])),
            ("managedSettings", json!({ "a": 1 })),
            ("toolAliases", json!({ "Bash": "x" })),
            ("newGuard", json!(true)),
            ("newGuard", json!(0)),
        ] {
            let error = Initialize::parse(&json!({ name: value })).unwrap_err();
            assert!(error.contains(name), "{error}");
            let none = json!({ name: null });
            assert!(Initialize::parse(&none).is_ok(), "{name}");
        }
        let title = Initialize::parse(&json!({ "title": "t", "agents": {} })).unwrap();
        assert_eq!(title.warnings.len(), 1);
        for schema in [json!("x"), json!({ "type": 3 })] {
            assert!(Initialize::parse(&json!({ "jsonSchema": schema })).is_err());
        }
    }

    #[test]
    fn callbacks_become_rules() {
        let request = json!({ "hooks": {
            "PreToolUse": [
                { "matcher": null, "hookCallbackIds": ["h1", "h2"] },
                { "matcher": "Bash", "hookCallbackIds": ["h3"], "timeout": 5, "onFailure": "block" },
            ],
            "Stop": null,
            "Elicitation": [{ "hookCallbackIds": ["h4"] }],
        }});
        let read = Initialize::parse(&request).unwrap();
        let commands: Vec<_> = read.hooks.iter().map(|rule| &*rule.command).collect();
        assert_eq!(commands, ["callback h1", "callback h2", "callback h3"]);
        assert_eq!(read.hooks[2].timeout, Duration::from_secs(5));
        assert_eq!(read.blocking.len(), 1);
        assert!(read.warnings[0].contains("Elicitation"));
        for wrong in [
            json!([]),
            json!({ "PreToolUse": {} }),
            json!({ "PreToolUse": [1] }),
            json!({ "PreToolUse": [{ "matcher": "(", "hookCallbackIds": ["h"] }] }),
            json!({ "PreToolUse": [{ "matcher": 1, "hookCallbackIds": ["h"] }] }),
            json!({ "PreToolUse": [{ "hookCallbackIds": "h" }] }),
            json!({ "PreToolUse": [{ "hookCallbackIds": [1] }] }),
            json!({ "PreToolUse": [{ "hookCallbackIds": ["h"], "timeout": -1 }] }),
        ] {
            assert!(Initialize::parse(&json!({ "hooks": wrong })).is_err());
        }
    }

    #[test]
    fn a_later_request_may_ask_for_the_same() {
        let read = |request: Value| Initialize::parse(&request).unwrap();
        let first = read(json!({ "systemPrompt": ["a"], "hooks": {} }));
        assert!(first.covers(&read(json!({ "systemPrompt": ["a"], "title": "t" }))));
        assert!(first.covers(&read(json!({}))));
        assert!(!first.covers(&read(json!({ "systemPrompt": ["b"] }))));
        assert!(!first.covers(&read(json!({ "systemPrompt": [""] }))));
    }
}
