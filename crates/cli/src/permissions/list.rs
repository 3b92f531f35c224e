//! All rules in the order of their strength, with where they stand, and what holds beside them.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tooloop::{Policy, Rule, RuleList};

use super::sources::{Origin, rules};
use super::{RuleSources, folders, shown};
use crate::text::reveal;

/// The lists, the strongest first.
const LISTS: [RuleList; 3] = [RuleList::Deny, RuleList::Ask, RuleList::Allow];

/// What holds, and where it comes from.
#[derive(Debug)]
pub(crate) struct List<'l> {
    policy: &'l Policy,
    sources: &'l RuleSources,
    /// What the session began with; without a session, what it would begin with.
    begun: Option<&'l Policy>,
}

/// A rule that is listed.
struct Listed<'l> {
    rule: &'l Rule,
    origins: Vec<&'l Origin>,
    /// Its number among the rules that answers have added, from 1.
    added: Option<usize>,
}

impl<'l> List<'l> {
    pub(crate) const fn new(
        policy: &'l Policy,
        sources: &'l RuleSources,
        begun: Option<&'l Policy>,
    ) -> Self {
        Self {
            policy,
            sources,
            begun,
        }
    }

    /// The rules that allow and that answers have added, oldest first.
    pub(crate) fn added(&self) -> Vec<Rule> {
        let listed = self.listed(RuleList::Allow).into_iter();
        let added = listed.filter(|listed| listed.added.is_some());
        added.map(|listed| listed.rule.clone()).collect()
    }

    fn listed(&self, list: RuleList) -> Vec<Listed<'l>> {
        let mut count = 0;
        let mut listed: Vec<&Rule> = rules(self.policy, list).iter().collect();
        let mut seen = std::collections::HashSet::new();
        listed.retain(|rule| seen.insert(*rule));
        listed
            .into_iter()
            .map(|rule| {
                let begun = self.begun.unwrap_or(self.policy);
                let is_added = !rules(begun, list).contains(rule);
                count += usize::from(is_added);
                Listed {
                    rule,
                    origins: self.sources.of(list, rule),
                    added: is_added.then_some(count),
                }
            })
            .collect()
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut say = |line: &str| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{line}");
        };
        say(&format!("mode: {}", self.policy.mode));
        say(&match self.policy.roots.as_slice() {
            [] => "folders: all".to_owned(),
            roots => format!("folders: {}", folders(roots)),
        });
        say(&format!("sandbox: {}", self.sandbox()));
        for path in &self.policy.protected {
            say(&format!("protected: {}", shown(path)));
        }
        for list in LISTS {
            let listed = self.listed(list);
            let none = if listed.is_empty() { " (none)" } else { "" };
            say(&format!("{}:{none}", list.name()));
            for Listed {
                rule,
                origins,
                added,
            } in listed
            {
                let rule = reveal(&rule.to_string()).replace('\n', "\\n");
                let number = added.map_or_else(String::new, |number| format!("[{number}] "));
                say(&format!("  {number}{rule}"));
                for origin in &origins {
                    let place = reveal(&origin.place);
                    say(&format!("      {}: {place}", origin.source));
                }
                match (origins.is_empty(), added) {
                    (true, Some(_)) => say("      this session"),
                    (true, None) => {
                        say("      tooloop itself, or where a link of another rule leads")
                    }
                    (false, _) => {}
                }
            }
        }
        text
    }

    /// For programs: one object.
    pub(crate) fn json(&self) -> Value {
        let listed: Vec<_> = LISTS
            .into_iter()
            .flat_map(|list| {
                self.listed(list).into_iter().map(move |listed| {
                    let places = listed.origins.iter().map(|origin| {
                        json!({
                            "source": origin.source,
                            "place": origin.place,
                            "written": origin.written,
                        })
                    });
                    json!({
                        "list": list.name(),
                        "rule": listed.rule.to_string(),
                        "places": places.collect::<Vec<_>>(),
                    })
                })
            })
            .collect();
        json!({
            "mode": self.policy.mode.name(),
            "folders": self.policy.roots,
            "sandbox": self.policy.confinement.is_some(),
            "protected": self.policy.protected,
            "rules": listed,
        })
    }

    fn sandbox(&self) -> String {
        match &self.policy.confinement {
            None => "none that spares a question".to_owned(),
            Some(confinement) => format!(
                "commands that stay within it are not asked about; written may be {}",
                folders(&confinement.writable)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_stand_in_the_order_of_their_strength() {
        let rule = |text: &str| text.parse::<Rule>().unwrap();
        let begun = Policy {
            allow: vec![rule("Bash(ls *)")],
            ask: vec![rule("WebFetch")],
            ..Policy::default()
        };
        let mut now = begun.clone();
        now.allow.push(rule("Bash(touch a)"));
        let sources = RuleSources::default();
        let list = List::new(&now, &sources, Some(&begun));
        assert_eq!(list.added(), [rule("Bash(touch a)")]);
        let text = list.text();
        let places = [
            "deny: (none)",
            "ask:",
            "WebFetch",
            "allow:",
            "Bash(ls *)",
            "[1] Bash(touch a)",
        ]
        .map(|words| {
            text.find(words)
                .unwrap_or_else(|| panic!("{words} in {text}"))
        });
        assert!(places.is_sorted(), "{text}");
        assert_eq!(list.json()["rules"][0]["list"], "ask");
    }
}
