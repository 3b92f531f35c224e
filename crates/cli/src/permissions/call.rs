//! A call as a person writes it down to ask about it.

use serde_json::{Value, json};
use tooloop::{ToolInput, ToolUse};

/// The call of a tool with this: a command, a path, a pattern, an address; or, for any tool, its
/// whole input as a JSON object.
pub(crate) fn tool_use(tool: &str, text: &str) -> Result<ToolUse, String> {
    let name = match tool.to_ascii_lowercase().as_str() {
        "webfetch" => "web_fetch".to_owned(),
        "applypatch" => "apply_patch".to_owned(),
        // Names of other tools are as they are.
        lower if input(lower, "").is_some() => lower.to_owned(),
        _ => tool.to_owned(),
    };
    let whole = serde_json::from_str(text).ok().filter(Value::is_object);
    let input = match whole {
        Some(whole) => whole,
        None => input(&name, text).ok_or_else(|| {
            format!("for the tool {name} give its input as JSON, such as '{{\"name\": \"value\"}}'")
        })?,
    };
    Ok(ToolUse {
        id: "explained".into(),
        name,
        input: ToolInput::parse(&input.to_string()),
        vendor: None,
    })
}

/// What a tool with one main field is called with.
fn input(tool: &str, text: &str) -> Option<Value> {
    Some(match tool {
        "bash" => json!({ "command": text }),
        "read" => json!({ "path": text }),
        "write" => json!({ "path": text, "content": "" }),
        "edit" => json!({ "path": text, "old": "a", "new": "b" }),
        "glob" => json!({ "pattern": text }),
        "grep" => json!({ "pattern": ".", "path": text }),
        "web_fetch" if text.contains("://") => json!({ "url": text }),
        "web_fetch" => json!({ "url": format!("https://{text}/") }),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_becomes_a_call() {
        let written = |tool: &str, text: &str| {
            let call = tool_use(tool, text).unwrap();
            format!("{} {}", call.name, call.input.json())
        };
        assert_eq!(written("bash", "ls -l"), r#"bash {"command":"ls -l"}"#);
        assert_eq!(written("Bash", "{ ls; }"), r#"bash {"command":"{ ls; }"}"#);
        assert_eq!(written("Read", "a b"), r#"read {"path":"a b"}"#);
        assert_eq!(
            written("WebFetch", "docs.rs"),
            r#"web_fetch {"url":"https://docs.rs/"}"#
        );
        assert_eq!(written("mine", r#"{"depth": 3}"#), r#"mine {"depth":3}"#);
        assert!(tool_use("mine", "3").unwrap_err().contains("JSON"));
    }
}
