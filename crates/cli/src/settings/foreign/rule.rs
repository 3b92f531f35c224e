//! Rules as the widespread files spell them, in the words of our policy.

use std::path::Path;
use std::str::FromStr;

use tooloop::Rule;

use super::{Ground, RuleKind};

/// Tools whose specifiers are paths. Paths that begin with one slash are counted from the folder
/// there, those that begin with two from the root of the machine.
const ABOUT_FILES: [&str; 9] = [
    "Read",
    "Edit",
    "Write",
    "MultiEdit",
    "NotebookRead",
    "NotebookEdit",
    "Glob",
    "Grep",
    "LS",
];

/// Gives the rules that mean the same here.
///
/// A path with one slash in a rule that holds back is taken both ways, since people also write it
/// for the root of the machine; in one that allows, only as it is meant there.
pub(super) fn translate(
    written: &str,
    kind: RuleKind,
    ground: Ground<'_>,
) -> Result<Vec<Rule>, <Rule as FromStr>::Err> {
    let rule: Rule = written.parse()?;
    let Some(specifier) = rule.specifier().map(str::trim) else {
        return Ok(vec![rule]);
    };
    let is_about_files = ABOUT_FILES
        .iter()
        .any(|tool| tool.eq_ignore_ascii_case(rule.tool()));
    if !is_about_files || !specifier.starts_with('/') {
        return Ok(vec![rule]);
    }
    if specifier.starts_with("//") {
        let path = format!("/{}", specifier.trim_start_matches('/'));
        return Ok(vec![Rule::new(rule.tool(), Some(&path))?]);
    }
    let mut rules = Vec::new();
    if let Some(path) = below(ground.root, specifier) {
        rules.push(Rule::new(rule.tool(), Some(&path))?);
    }
    match kind {
        RuleKind::Deny | RuleKind::Ask => rules.push(rule),
        RuleKind::Allow => {}
    }
    Ok(rules)
}

/// The pattern for a path below a folder whose name is no pattern; `None` if its name is no text.
fn below(root: &Path, path: &str) -> Option<String> {
    let root = root.to_str()?.trim_end_matches('/');
    let mut pattern = String::with_capacity(root.len() + path.len());
    for character in root.chars() {
        if matches!(character, '*' | '?' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push_str(path);
    Some(pattern)
}
