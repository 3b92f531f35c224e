//! What a policy decides, as tables in files: `data/*.txt`.
//!
//! A line is a verdict, a blank and a shell line, in which `␤` stands for the end of a line. `ask`,
//! `rule` and `beyond` are questions by their cause. A line that begins with `@` sets the policy up;
//! one with `#` says what comes.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a table that cannot be read is to fail"
)]

use tooloop_policy::{
    Access, AskCause, Confinement, Decision, PartVerdict, Policy, Reach, Rule, beyond,
};

const RULES: &str = include_str!("data/rules.txt");
const CONFINED: &str = include_str!("data/confined.txt");
const EVERYDAY: &str = include_str!("data/everyday.txt");

fn plain() -> Policy {
    Policy {
        roots: vec!["/w".into(), "/added".into()],
        home: Some("/home/u".into()),
        protected_names: vec![".agent/start.json".into()],
        ..Policy::default()
    }
}

fn confined() -> Policy {
    Policy {
        confinement: Some(Confinement {
            writable: vec!["/w".into(), "/added".into()],
            temp: vec!["/tmp".into(), "/var/tmp".into()],
            network: Reach::Nothing,
        }),
        protected: vec!["/w/vendor".into()],
        ..plain()
    }
}

fn word(decision: &Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Deny { .. } => "deny",
        Decision::Ask { cause, .. } => match cause {
            AskCause::Rule => "rule",
            AskCause::Uncovered => "ask",
            AskCause::Beyond => "beyond",
        },
    }
}

/// Sets a policy up as a line that begins with `@` says.
fn set_up(policy: &mut Policy, text: &str) {
    let (key, value) = text.split_once(' ').unwrap_or((text, ""));
    let rule = || -> Rule {
        let rule: Rule = value.parse().unwrap();
        rule.anchored("/w".as_ref(), Some("/home/u".as_ref()))
    };
    match key {
        "plain" => *policy = plain(),
        "confined" => *policy = confined(),
        "mode" => policy.mode = value.parse().unwrap(),
        "allow" => policy.allow.push(rule()),
        "ask" => policy.ask.push(rule()),
        "deny" => policy.deny.push(rule()),
        "network" => {
            let hosts = value.split(' ').map(str::to_owned).collect();
            let reach = if value == "*" {
                Reach::Everything
            } else {
                Reach::Hosts(hosts)
            };
            policy.confinement.as_mut().unwrap().network = reach;
        }
        _ => panic!("{text}"),
    }
}

/// Goes over a table: the policy, the verdict that is expected, the line.
fn each(table: &str, mut look: impl FnMut(&Policy, &str, &str)) -> usize {
    let mut policy = plain();
    let mut count = 0;
    for text in table.lines() {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if let Some(text) = text.strip_prefix("@ ") {
            set_up(&mut policy, text);
            continue;
        }
        let (verdict, line) = text.split_once(' ').unwrap();
        look(&policy, verdict, &line.replace('␤', "\n"));
        count += 1;
    }
    count
}

fn check(table: &str) -> usize {
    let mut wrong = Vec::new();
    let count = each(table, |policy, expected, line| {
        let decision = policy.decide("bash", &Access::command(line));
        if word(&decision) != expected {
            wrong.push(format!("{line:?}: expected {expected}, found {decision:?}"));
        }
        assert_ne!(decision.reason(), Some(""));
    });
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    count
}

#[test]
fn rules_decide_as_the_table_says() {
    assert!(check(RULES) > 400);
}

#[test]
fn the_sandbox_saves_questions_as_the_table_says() {
    assert!(check(CONFINED) > 400);
}

#[test]
fn an_explanation_agrees_with_the_decision() {
    for table in [RULES, CONFINED] {
        each(table, |policy, expected, line| {
            let access = Access::command(line);
            let explanation = policy.explain("bash", &access);
            assert_eq!(explanation.decision, policy.decide("bash", &access));
            let some = |wanted: &[PartVerdict]| {
                let mut parts = explanation.parts.iter();
                parts.any(|part| wanted.contains(&part.verdict))
            };
            let asks = [
                PartVerdict::Asked,
                PartVerdict::Uncovered,
                PartVerdict::Beyond,
            ];
            let all_harmless = explanation
                .parts
                .iter()
                .all(|part| !asks.contains(&part.verdict) && part.verdict != PartVerdict::Denied);
            match expected {
                // Protected paths and hazards are no part's own.
                "deny" | "rule" => {}
                "allow" => assert!(all_harmless, "{line:?}: {explanation:#?}"),
                "ask" => assert!(
                    some(&asks) || !explanation.hazards.is_empty(),
                    "{line:?}: {explanation:#?}"
                ),
                "beyond" => {
                    // A neighbour of the part that goes beyond may be what no rule covers.
                    assert!(some(&asks), "{line:?}: {explanation:#?}");
                    // Without a sandbox it may be a path outside of the folders that is read.
                    let is_confined = policy.confinement.is_some();
                    assert!(!is_confined || !explanation.beyond.is_empty(), "{line:?}");
                }
                _ => panic!("{expected}"),
            }
        });
    }
}

/// Whoever runs a line widens the sandbox by what the policy asked about, and by nothing else.
#[test]
fn what_is_asked_about_is_what_is_given() {
    each(CONFINED, |policy, expected, line| {
        let within = policy.confinement.as_ref().unwrap();
        let given = beyond(line, "/w".as_ref(), policy.home.as_deref(), within);
        let explained = policy.explain("bash", &Access::command(line)).beyond;
        assert_eq!(given, explained, "{line:?}");
        if expected == "beyond" {
            assert!(!given.is_empty(), "{line:?}");
        }
        if expected == "allow" && policy.allow.is_empty() && policy.mode.name() == "default" {
            assert_eq!(given, [], "{line:?}");
        }
    });
}

#[test]
fn everyday_commands_ask_little() {
    let lines: Vec<_> = EVERYDAY
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once('\t').unwrap().1.replace('␤', "\n"))
        .collect();
    assert_eq!(lines.len(), 50);
    let decided = lines.iter().map(|line| {
        (
            line,
            confined().decide("bash", &Access::command(line.as_str())),
        )
    });
    let stopped: Vec<_> = decided
        .filter(|(_, decision)| !decision.is_allow())
        .collect();
    assert!(stopped.len() <= 5, "{stopped:#?}");
    assert!(
        stopped.iter().all(|(_, decision)| decision.is_ask()),
        "{stopped:#?}"
    );
}
