//! Why a call is decided as it is, for people and for programs.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tooloop::{
    Access, Decision, ExplainedPart, Explanation, Grant, MetRule, PartKind, Policy, Rule, ToolUse,
};

use super::RuleSources;
use crate::control;
use crate::text::reveal;

/// A call, what is decided about it, and why.
#[derive(Debug)]
pub(crate) struct Explained<'e> {
    tool_use: &'e ToolUse,
    pub(crate) explanation: Explanation,
    /// What "always" would add.
    always: Vec<Rule>,
    mode: &'static str,
    sources: &'e RuleSources,
}

impl<'e> Explained<'e> {
    pub(crate) fn new(
        policy: &Policy,
        tool_use: &'e ToolUse,
        access: &Access,
        sources: &'e RuleSources,
    ) -> Self {
        let explanation = policy.explain(&tool_use.name, access);
        let always = match explanation.decision {
            Decision::Ask { .. } => policy.allow_always_rules(&tool_use.name, access),
            Decision::Allow | Decision::Deny { .. } => Vec::new(),
        };
        Self {
            tool_use,
            explanation,
            always,
            mode: policy.mode.name(),
            sources,
        }
    }

    /// For people. What cannot be seen is written out.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut say = |line: &str| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{line}");
        };
        let explanation = &self.explanation;
        say(&format!("{} in mode {}", self.tool_use.name, self.mode));
        for (number, part) in explanation.parts.iter().enumerate() {
            let kind = kind(part.kind);
            let shown = one_line(&part.text);
            say(&format!("  {}. {kind}: {shown}", number.saturating_add(1)));
            if !part.wrappers.is_empty() {
                let wrappers: Vec<_> = part.wrappers.iter().map(|one| one_line(one)).collect();
                say(&format!("     seen through: {}", wrappers.join(", ")));
            }
            let effect = effect(part);
            if !effect.is_empty() {
                say(&format!("     effect: {effect}"));
            }
            let rule = part.rule.as_ref().map_or_else(String::new, |met| {
                format!(", by {}", self.rule_in_words(met))
            });
            say(&format!("     {}{rule}", part.verdict.name()));
        }
        if let Some(problem) = &explanation.problem {
            say(&format!("  not understood: {}", one_line(problem)));
        }
        for hazard in &explanation.hazards {
            say(&format!("  note: {}", one_line(hazard)));
        }
        if !explanation.beyond.is_empty() {
            let beyond = grants(&explanation.beyond).join(", ");
            say(&format!("  beyond the sandbox: {}", one_line(&beyond)));
        }
        say(&match &explanation.decision {
            Decision::Allow => "decision: allow".to_owned(),
            Decision::Ask { reason, .. } => format!("decision: ask: {}", one_line(reason)),
            Decision::Deny { reason } => format!("decision: deny: {}", one_line(reason)),
        });
        for rule in &self.always {
            say(&format!(
                "\"always\" would add: {}",
                one_line(&rule.to_string())
            ));
        }
        text
    }

    /// For programs: one object.
    pub(crate) fn json(&self) -> Value {
        let explanation = &self.explanation;
        let (decision, cause) = match &explanation.decision {
            Decision::Allow => ("allow", None),
            Decision::Ask { cause, .. } => ("ask", Some(control::cause(*cause))),
            Decision::Deny { .. } => ("deny", None),
        };
        json!({
            "tool": self.tool_use.name,
            "input": serde_json::from_str::<Value>(self.tool_use.input.json()).unwrap_or_default(),
            "mode": self.mode,
            "decision": decision,
            "reason": explanation.decision.reason(),
            "cause": cause,
            "parts": explanation.parts.iter().map(|part| self.part(part)).collect::<Vec<_>>(),
            "problem": explanation.problem,
            "hazards": explanation.hazards,
            "beyond": grants(&explanation.beyond),
            "always": self.always.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
    }

    fn part(&self, part: &ExplainedPart) -> Value {
        json!({
            "kind": kind(part.kind),
            "text": part.text,
            "program": part.program,
            "wrappers": part.wrappers,
            "read_only": part.effect.is_read_only,
            "opaque": part.effect.opaque,
            "writes": part.effect.writes,
            "network": part.effect.uses_network,
            "hosts": part.effect.hosts,
            "beyond": grants(&part.beyond),
            "verdict": part.verdict.name(),
            "rule": part.rule.as_ref().map(|met| {
                let origins = self.sources.of(met.list, &met.rule);
                let places = origins.iter().map(|origin| {
                    json!({ "source": origin.source, "place": origin.place })
                });
                json!({
                    "list": met.list.name(),
                    "rule": met.rule.to_string(),
                    "sure": met.is_sure,
                    "places": places.collect::<Vec<_>>(),
                })
            }),
        })
    }

    fn rule_in_words(&self, met: &MetRule) -> String {
        let origins = self.sources.of(met.list, &met.rule);
        let mut places: Vec<_> = origins.iter().map(|origin| origin.place.as_str()).collect();
        if places.is_empty() {
            places.push("of this session");
        }
        let rule = one_line(&met.rule.to_string());
        let sure = if met.is_sure {
            ""
        } else {
            ", which may speak of it"
        };
        format!(
            "the {} rule {rule} ({}){sure}",
            met.list.name(),
            one_line(&places.join(", "))
        )
    }
}

fn kind(kind: PartKind) -> &'static str {
    match kind {
        PartKind::Command => "command",
        PartKind::Redirection => "redirection",
        PartKind::Input => "input",
        PartKind::Read => "read",
        PartKind::Write => "write",
        PartKind::Host => "host",
        PartKind::Grant => "grant",
        PartKind::Call => "call",
    }
}

/// What a part does, in words; empty if nothing more is known than its text says.
fn effect(part: &ExplainedPart) -> String {
    let effect = &part.effect;
    let mut words = Vec::new();
    if effect.is_read_only {
        words.push("changes nothing".to_owned());
    }
    if let Some(why) = effect.opaque {
        words.push(format!("not known before it runs ({why})"));
    }
    if !effect.writes.is_empty() {
        words.push(format!("writes {}", one_line(&effect.writes.join(", "))));
    }
    if !effect.hosts.is_empty() {
        words.push(format!("talks to {}", one_line(&effect.hosts.join(", "))));
    } else if effect.uses_network {
        words.push("uses the network".to_owned());
    }
    if !part.beyond.is_empty() {
        let beyond = grants(&part.beyond).join(", ");
        words.push(format!("beyond the sandbox: {}", one_line(&beyond)));
    }
    words.join("; ")
}

fn grants(grants: &[Grant]) -> Vec<String> {
    grants.iter().map(ToString::to_string).collect()
}

/// All of it, on one line.
fn one_line(text: &str) -> String {
    reveal(text).replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permissions::tool_use;

    fn explained(line: &str) -> (String, Value) {
        let policy = Policy {
            allow: vec!["Bash(git log *)".parse().unwrap()],
            deny: vec!["Bash(git push *)".parse().unwrap()],
            ..Policy::default()
        };
        let call = tool_use("bash", line).unwrap();
        let sources = RuleSources::default();
        let explained = Explained::new(&policy, &call, &Access::command(line), &sources);
        (explained.text(), explained.json())
    }

    #[test]
    fn the_decision_is_told_with_its_reason() {
        let (text, json) = explained("git log; touch M");
        assert!(
            text.contains("decision: ask: `touch M` is not covered"),
            "{text}"
        );
        assert!(text.contains("\"always\" would add: "), "{text}");
        assert_eq!(
            (&json["decision"], &json["cause"]),
            (&json!("ask"), &json!("uncovered"))
        );
        let (text, json) = explained("env git push");
        assert!(text.contains("decision: deny: "), "{text}");
        assert_eq!(json["decision"], "deny");
        let (text, json) = explained("git log -n 1");
        assert!(text.ends_with("decision: allow\n"), "{text}");
        assert_eq!(json["reason"], Value::Null);
    }

    #[test]
    fn nothing_of_it_acts_on_a_terminal() {
        let (text, _) = explained("touch 'a\u{1b}[2Jb\u{202e}c'\ntouch d");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
    }
}
