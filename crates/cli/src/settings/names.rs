//! Names of tools in rules: those that mean something, here or elsewhere, and slips.

use crate::toolset::Builtin;

/// Names in rules that are none of our tools' own.
const KINDS: [&str; 7] = [
    "Bash",
    "Read",
    "Edit",
    "Write",
    "WebFetch",
    "MultiEdit",
    "Sandbox",
];

/// Tools that other products have. Rules about them are kept, and there is nothing for them to do.
const OTHERS: [&str; 18] = [
    "Agent",
    "AskUserQuestion",
    "BashOutput",
    "ExitPlanMode",
    "KillShell",
    "LS",
    "Monitor",
    "NotebookEdit",
    "NotebookRead",
    "PowerShell",
    "Skill",
    "SlashCommand",
    "Task",
    "TaskOutput",
    "TodoRead",
    "TodoWrite",
    "ToolSearch",
    "WebSearch",
];

/// The name that was probably meant by one that names nothing.
pub(super) fn meant(name: &str) -> Option<&'static str> {
    if name.contains('*') || name.to_ascii_lowercase().starts_with("mcp__") {
        return None;
    }
    let ours = || KINDS.into_iter().chain(Builtin::ALL.map(Builtin::name));
    let is_known = ours()
        .chain(OTHERS)
        .any(|known| known.eq_ignore_ascii_case(name));
    if is_known {
        return None;
    }
    let folded = name.to_ascii_lowercase();
    let most = if folded.len() > 4 { 2 } else { 1 };
    ours()
        .map(|known| {
            let distance = strsim::damerau_levenshtein(&known.to_ascii_lowercase(), &folded);
            (distance, known)
        })
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= most)
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::meant;

    #[test]
    fn slips_are_told_from_names_that_mean_something_elsewhere() {
        for (name, expected) in [
            ("Bsh", Some("Bash")),
            ("Baash", Some("Bash")),
            ("Raed", Some("Read")),
            ("web-fetch", Some("WebFetch")),
            ("Edits", Some("Edit")),
            ("bash", None),
            ("job_output", None),
            ("LS", None),
            ("Task", None),
            ("mcp__bsh", None),
            ("Ba*", None),
            ("Deploy", None),
        ] {
            assert_eq!(meant(name), expected, "{name}");
        }
    }
}
