//! Which rule meets which part of a call, as an explanation shows it.
#![expect(clippy::unwrap_used, reason = "a rule that cannot be read is to fail")]

use tooloop_policy::{Access, Confinement, Policy, Reach, Rule};

/// The rules of a policy, each behind the name of its list.
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

/// Each part of a line with what comes of it and the rule that decided, `?` behind one that may
/// speak of the part.
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
fn a_rule_without_brackets_speaks_of_every_command_of_its_tool() {
    for tool in ["bash", "shell"] {
        let met = parts(&policy(&["deny Bash"]), tool, "a; b");
        assert_eq!(met, ["a: denied, deny Bash", "b: denied, deny Bash"]);
    }
    let met = parts(&policy(&["deny shell"]), "shell", "a");
    assert_eq!(met, ["a: denied, deny shell"]);
    // Rules of other tools and of files do not.
    for rule in ["deny other", "deny Read", "deny Edit"] {
        assert_eq!(parts(&policy(&[rule]), "bash", "a"), ["a: not covered"]);
    }
}

#[test]
fn a_rule_with_brackets_speaks_of_the_command_it_names() {
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
    // The name of another tool before the brackets speaks of no command here.
    for list in ["deny", "ask", "allow"] {
        let rules = policy(&[&*format!("{list} other(a *)")]);
        assert_eq!(parts(&rules, "bash", "a x"), ["a x: not covered"]);
        assert!(rules.decide("bash", &Access::command("a x")).is_ask());
    }
}

#[test]
fn a_rule_about_files_speaks_of_the_part_that_touches_them() {
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
fn a_rule_about_the_sandbox_speaks_of_the_part_that_needs_it() {
    let line = "touch /opt/x; touch y";
    for rules in [policy, confined] {
        let met = parts(&rules(&["deny Sandbox(write:/opt/**)"]), "bash", line);
        assert_eq!(met[0], "touch /opt/x: denied, deny Sandbox(write:/opt/**)");
        assert!(!met[1].contains("deny"), "{met:?}");
        // What the sandbox gives anyway is no grant.
        let met = parts(&rules(&["deny Sandbox(write:/w/**)"]), "bash", line);
        assert!(!met.concat().contains("deny"), "{met:?}");
    }
}

#[test]
fn the_first_doubt_is_told() {
    let rules = policy(&["deny Bash(git push *)"]);
    let decision = rules.decide("bash", &Access::command("$A; $B"));
    let reason = decision.reason().unwrap();
    assert!(reason.contains("$A") && !reason.contains("$B"), "{reason}");
}

#[test]
fn reading_outside_needs_no_question_without_folders_or_with_a_rule_for_all() {
    let decide = |policy: &Policy| policy.decide("bash", &Access::command("cat /out/key"));
    assert!(decide(&policy(&[])).is_ask());
    assert!(decide(&policy(&["allow Bash"])).is_allow());
    assert!(decide(&policy(&["allow Bash(*)"])).is_allow());
    assert!(decide(&confined(&[])).is_allow());
    assert!(decide(&Policy::default()).is_allow());
}

#[test]
fn a_rule_covers_a_redirection_only_with_the_whole_command() {
    let rules = policy(&["allow Bash(git log *)"]);
    let met = parts(&rules, "bash", "git log > M");
    let first = "git log > M: allowed, allow Bash(git log *)";
    assert_eq!(met, [first, "> M: not covered"]);
    let rules = policy(&["allow Bash(git log > M)"]);
    let met = parts(&rules, "bash", "git log > M");
    assert!(met[1].starts_with("> M: allowed"), "{met:?}");
}

#[test]
fn a_command_that_is_only_known_when_it_runs_may_touch_any_file() {
    for rule in ["Edit(/w/secret)", "Read(/w/secret)", "Bash(git push *)"] {
        let met = parts(&policy(&[&*format!("deny {rule}")]), "bash", "$A; touch b");
        let first = format!("$A: asked, deny {rule}?");
        assert_eq!(met, [&*first, "touch b: not covered"]);
    }
}
