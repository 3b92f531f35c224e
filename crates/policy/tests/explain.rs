//! Which rule an explanation names for which part of a call.
#![expect(clippy::unwrap_used, reason = "a rule that cannot be read is to fail")]

use tooloop_policy::{Access, Confinement, Policy, Reach, Rule};

/// Builds a policy from rules, each with the name of its list in front.
fn policy(rules: &[&str]) -> Policy {
    let mut policy = Policy {
        roots: vec!["/w".into()],
        ..Policy::default()
    };
    for text in rules {
        let (list, rule) = text.split_once(' ').unwrap();
        let rule: Rule = rule.parse().unwrap();
        match list {
            "allow" => policy.allow.push(rule),
            "ask" => policy.ask.push(rule),
            _ => policy.deny.push(rule),
        }
    }
    policy
}

fn confined(rules: &[&str]) -> Policy {
    Policy {
        confinement: Some(Confinement {
            writable: vec!["/w".into()],
            temp: vec!["/tmp".into()],
            network: Reach::Nothing,
        }),
        ..policy(rules)
    }
}

/// Returns each part of a line with its verdict and the rule that decided; `?` marks a rule that
/// may match.
fn parts(policy: &Policy, tool: &str, line: &str) -> Vec<String> {
    let explanation = policy.explain(tool, &Access::command(line));
    let parts = explanation.parts.iter().map(|part| {
        let rule = part.rule.as_ref().map(|met| {
            let doubt = if met.is_sure { "" } else { "?" };
            format!(", {} {}{doubt}", met.list.name(), met.rule)
        });
        let rule = rule.unwrap_or_default();
        format!("{}: {}{rule}", part.text, part.verdict.name())
    });
    parts.collect()
}

#[test]
fn a_rule_without_brackets_matches_every_command() {
    for tool in ["bash", "shell"] {
        let met = parts(&policy(&["deny Bash"]), tool, "a; b");
        assert_eq!(met, ["a: denied, deny Bash", "b: denied, deny Bash"]);
    }
    let met = parts(&policy(&["deny shell"]), "shell", "a");
    assert_eq!(met, ["a: denied, deny shell"]);
    // Rules for other tools and for files match no command.
    for rule in ["deny other", "deny Read", "deny Edit"] {
        assert_eq!(parts(&policy(&[rule]), "bash", "a"), ["a: not covered"]);
    }
}

#[test]
fn a_rule_with_brackets_matches_the_named_command() {
    for (rule, tool) in [("Bash(a *)", "bash"), ("shell(a *)", "shell")] {
        for (list, verdict) in [("deny", "denied"), ("ask", "asked")] {
            let rules = [&*format!("{list} {rule}")];
            let met = parts(&policy(&rules), tool, "a x; b");
            let first = format!("a x: {verdict}, {list} {rule}");
            assert_eq!(met, [&*first, "b: not covered"]);
        }
        let met = parts(&policy(&[&*format!("allow {rule}")]), tool, "a x; b");
        let first = format!("a x: allowed, allow {rule}");
        assert_eq!(met, [&*first, "b: not covered"]);
    }
    // A rule for another tool matches no command.
    for list in ["deny", "ask", "allow"] {
        let rules = policy(&[&*format!("{list} other(a *)")]);
        assert_eq!(parts(&rules, "bash", "a x"), ["a x: not covered"]);
        assert!(rules.decide("bash", &Access::command("a x")).is_ask());
    }
}

#[test]
fn a_file_rule_matches_the_part_that_touches_it() {
    let rules = policy(&["deny Edit(/w/secret)"]);
    let met = parts(&rules, "bash", "touch secret; touch other");
    assert_eq!(
        met,
        [
            "touch secret: denied, deny Edit(/w/secret)",
            "touch other: not covered"
        ]
    );
    let met = parts(&rules, "bash", "echo x > secret");
    assert_eq!(
        met,
        [
            "echo x > secret: harmless",
            "> secret: denied, deny Edit(/w/secret)"
        ]
    );
    let met = parts(
        &policy(&["deny Read(/w/secret)"]),
        "bash",
        "cat secret; cat other",
    );
    assert_eq!(
        met,
        [
            "cat secret: denied, deny Read(/w/secret)",
            "cat other: harmless"
        ]
    );
}

#[test]
fn a_sandbox_rule_matches_the_part_that_needs_it() {
    let line = "touch /opt/x; touch y";
    for rules in [policy, confined] {
        let met = parts(&rules(&["deny Sandbox(write:/opt/**)"]), "bash", line);
        assert_eq!(met[0], "touch /opt/x: denied, deny Sandbox(write:/opt/**)");
        assert!(!met[1].contains("deny"), "{met:?}");
        // Access that the sandbox already gives is not a grant.
        let met = parts(&rules(&["deny Sandbox(write:/w/**)"]), "bash", line);
        assert!(!met.concat().contains("deny"), "{met:?}");
    }
}

#[test]
fn the_reason_names_the_first_possible_match() {
    let rules = policy(&["deny Bash(git push *)"]);
    let decision = rules.decide("bash", &Access::command("$A; $B"));
    let reason = decision.reason().unwrap();
    assert!(reason.contains("$A") && !reason.contains("$B"), "{reason}");
}

#[test]
fn reads_outside_run_without_roots_or_with_full_rules() {
    let decide = |policy: &Policy| policy.decide("bash", &Access::command("cat /out/key"));
    assert!(decide(&policy(&[])).is_ask());
    assert!(decide(&policy(&["allow Bash"])).is_allow());
    assert!(decide(&policy(&["allow Bash(*)"])).is_allow());
    assert!(decide(&confined(&[])).is_allow());
    assert!(decide(&Policy::default()).is_allow());
}

#[test]
fn a_redirection_needs_a_rule_for_the_whole_command() {
    let rules = policy(&["allow Bash(git log *)"]);
    let met = parts(&rules, "bash", "git log > M");
    let first = "git log > M: allowed, allow Bash(git log *)";
    assert_eq!(met, [first, "> M: not covered"]);
    let rules = policy(&["allow Bash(git log > M)"]);
    let met = parts(&rules, "bash", "git log > M");
    assert!(met[1].starts_with("> M: allowed"), "{met:?}");
}

#[test]
fn an_unknown_command_may_touch_any_file() {
    for rule in ["Edit(/w/secret)", "Read(/w/secret)", "Bash(git push *)"] {
        let met = parts(&policy(&[&*format!("deny {rule}")]), "bash", "$A; touch b");
        let first = format!("$A: asked, deny {rule}?");
        assert_eq!(met, [&*first, "touch b: not covered"]);
    }
}
