//! Where the rules of a policy are written.

use std::path::Path;

use tooloop::{Policy, Rule, RuleList};

use crate::project_rules::SavedRule;
use crate::settings::{Loaded, RuleKind};

/// The rules of all sources, and where each stands.
#[derive(Debug, Clone, Default)]
pub(crate) struct RuleSources(Vec<Written>);

#[derive(Debug, Clone)]
struct Written {
    list: RuleList,
    /// As the policy has it.
    rule: Rule,
    origin: Origin,
}

/// Where a rule comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The kind of place, in a word.
    pub(crate) source: &'static str,
    /// File, line and column, or the variable or flag; empty if it is written nowhere.
    pub(crate) place: String,
    /// As somebody wrote it.
    pub(crate) written: String,
}

impl RuleSources {
    /// Those of the settings, and those that were saved for the project in `file`.
    pub(crate) fn new(
        loaded: &Loaded,
        saved: &[SavedRule],
        file: Option<&Path>,
        workspace: &Path,
        home: Option<&Path>,
    ) -> Self {
        let settings = loaded.rules.iter().map(|sourced| Written {
            list: match sourced.kind {
                RuleKind::Deny => RuleList::Deny,
                RuleKind::Ask => RuleList::Ask,
                RuleKind::Allow => RuleList::Allow,
            },
            rule: sourced.rule.anchored(workspace, home),
            origin: Origin {
                source: sourced.source.name(),
                place: sourced.place.to_string(),
                written: sourced.written.clone(),
            },
        });
        let saved = saved.iter().map(|saved| {
            let (line, column) = saved.at;
            let file = file.unwrap_or(Path::new("")).display();
            Written {
                list: RuleList::Allow,
                rule: saved.rule.anchored(workspace, home),
                origin: Origin {
                    source: "saved",
                    place: format!("{file}:{line}:{column}"),
                    written: saved.rule.to_string(),
                },
            }
        });
        Self(settings.chain(saved).collect())
    }

    /// All places that a rule of a list stands in. None: it was added while the program runs.
    pub(crate) fn of(&self, list: RuleList, rule: &Rule) -> Vec<&Origin> {
        let same = |written: &&Written| written.list == list && written.rule == *rule;
        let written = self.0.iter().filter(same);
        written.map(|written| &written.origin).collect()
    }
}

/// The rules of one list of a policy.
pub(super) fn rules(policy: &Policy, list: RuleList) -> &[Rule] {
    match list {
        RuleList::Deny => &policy.deny,
        RuleList::Ask => &policy.ask,
        RuleList::Allow => &policy.allow,
    }
}
