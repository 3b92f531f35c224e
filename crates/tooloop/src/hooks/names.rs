//! The names that tools and their fields go by in the hooks that people have.
//!
//! Scripts that guard something compare `tool_name` with `Bash` and look into `file_path`; told other
//! names they would let everything pass. So they are told theirs beside ours.

use std::path::Path;

use serde_json::{Map, Value};

/// Our tools, and what each is called elsewhere. The first other name is what hooks are told.
const TOOLS: [(&str, &[&str]); 16] = [
    ("apply_patch", &["ApplyPatch", "Edit", "Write", "MultiEdit"]),
    ("bash", &["Bash"]),
    ("edit", &["Edit", "MultiEdit"]),
    ("exit_plan", &["ExitPlanMode"]),
    ("glob", &["Glob"]),
    ("grep", &["Grep"]),
    ("job_output", &["JobOutput", "BashOutput"]),
    ("job_stop", &["JobStop", "KillShell"]),
    ("memory", &["Memory"]),
    ("read", &["Read"]),
    ("skill", &["Skill"]),
    ("task", &["Task", "Agent"]),
    ("terminal", &["Terminal", "Bash"]),
    ("todo", &["TodoWrite", "Todo"]),
    ("web_fetch", &["WebFetch"]),
    ("write", &["Write"]),
];

/// Our fields, and what each is called elsewhere.
const FIELDS: [(&str, &[(&str, &str)]); 3] = [
    (
        "edit",
        &[
            ("path", "file_path"),
            ("old", "old_string"),
            ("new", "new_string"),
        ],
    ),
    ("read", &[("path", "file_path")]),
    ("write", &[("path", "file_path")]),
];

/// What else a tool is called.
pub(super) fn others(tool: &str) -> &'static [&'static str] {
    let mut tools = TOOLS.iter();
    tools
        .find(|(ours, _)| *ours == tool)
        .map_or(&[], |(_, others)| others)
}

/// What hooks are told that a tool is called.
pub(super) fn told(tool: &str) -> &str {
    others(tool).first().copied().unwrap_or(tool)
}

fn fields(tool: &str) -> &'static [(&'static str, &'static str)] {
    let mut fields = FIELDS.iter();
    fields
        .find(|(ours, _)| *ours == tool)
        .map_or(&[], |(_, fields)| fields)
}

/// The input of a call with the other names of its fields beside ours. Files have their whole path
/// under the other name.
pub(super) fn with_other_fields(tool: &str, input: Value, directory: &Path) -> Value {
    let Value::Object(mut input) = input else {
        return input;
    };
    for (ours, theirs) in fields(tool) {
        let value = match input.get(*ours) {
            Some(Value::String(path)) if *ours == "path" => {
                Value::from(directory.join(path).display().to_string())
            }
            Some(value) => value.clone(),
            None => continue,
        };
        input.entry(*theirs).or_insert(value);
    }
    Value::Object(input)
}

/// An input that a hook has written, with our names alone. `told` is what the hook was told: what it
/// has changed counts, under whichever name.
pub(super) fn with_our_fields(
    tool: &str,
    mut input: Map<String, Value>,
    told: &Value,
) -> Map<String, Value> {
    for (ours, theirs) in fields(tool) {
        let Some(value) = input.remove(*theirs) else {
            continue;
        };
        let changed = told.get(*theirs) != Some(&value);
        let ours_changed = input
            .get(*ours)
            .is_some_and(|ours_now| told.get(*ours) != Some(ours_now));
        if !input.contains_key(*ours) || changed && !ours_changed {
            input.insert((*ours).to_owned(), value);
        }
    }
    input
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_told_by_both_names_and_taken_by_either() {
        let input = json!({ "path": "a.rs", "old": "x", "new": "y" });
        let told = with_other_fields("edit", input, Path::new("/work"));
        let expected = json!({
            "path": "a.rs", "old": "x", "new": "y",
            "file_path": "/work/a.rs", "old_string": "x", "new_string": "y",
        });
        assert_eq!(told, expected);
        let taken = |change: Value| {
            let mut input = told.as_object().unwrap().clone();
            input.extend(change.as_object().unwrap().clone());
            Value::Object(with_our_fields("edit", input, &told))
        };
        assert_eq!(
            taken(json!({})),
            json!({ "path": "a.rs", "old": "x", "new": "y" })
        );
        assert_eq!(taken(json!({ "new_string": "z" }))["new"], "z");
        assert_eq!(taken(json!({ "new": "z" }))["new"], "z");
        assert_eq!(taken(json!({ "file_path": "/b" }))["path"], "/b");
        let theirs = json!({ "file_path": "/work/a.rs", "old_string": "x", "new_string": "z" });
        let theirs = with_our_fields("edit", theirs.as_object().unwrap().clone(), &told);
        assert_eq!(
            Value::Object(theirs),
            json!({ "path": "/work/a.rs", "old": "x", "new": "z" })
        );
        assert_eq!(told.get("command"), None);
    }

    #[test]
    fn tools_are_told_by_the_names_that_scripts_know() {
        assert_eq!(super::told("bash"), "Bash");
        assert_eq!(super::told("todo"), "TodoWrite");
        assert_eq!(super::told("mcp__a__b"), "mcp__a__b");
    }
}
