//! What hooks say, as a table.

use serde_json::json;

use super::*;

fn said(event: HookEvent, outcome: &HookOutcome) -> Answer {
    let rule = HookRule {
        source: "s.toml:3".into(),
        ..HookRule::new(event, "./hook")
    };
    let told = json!({ "command": "ls" });
    read(&rule, outcome, Some("bash"), &told)
}

fn prints(event: HookEvent, stdout: &str) -> Answer {
    said(event, &HookOutcome::exited(0, stdout, ""))
}

fn specific(event: HookEvent, fields: Value) -> Answer {
    let mut more = fields.as_object().unwrap().clone();
    more.insert("hookEventName".into(), event.name().into());
    let printed = json!({ "hookSpecificOutput": more });
    prints(event, &printed.to_string())
}

#[test]
fn statuses_say_something() {
    let nothing = Answer::default();
    for event in HookEvent::ALL {
        assert_eq!(said(event, &HookOutcome::exited(0, "", "noise")), nothing);
        let failed = said(
            event,
            &HookOutcome::exited(1, "{\"continue\":false}", "a\nb"),
        );
        let words = format!("{event} hook s.toml:3 (./hook): ended with status 1: a; b");
        assert_eq!(failed.warnings, [words]);
        assert_eq!(
            Answer {
                warnings: Vec::new(),
                ..failed
            },
            nothing
        );
    }
    let no = |event| said(event, &HookOutcome::exited(2, "{}", " no \n"));
    let deny = Some(Decided::Deny("no".into()));
    assert_eq!(no(HookEvent::PreToolUse).decided, deny);
    assert_eq!(no(HookEvent::PermissionRequest).decided, deny);
    for event in [
        HookEvent::PostToolUse,
        HookEvent::PostToolUseFailure,
        HookEvent::UserPromptSubmit,
        HookEvent::Stop,
    ] {
        assert_eq!(no(event).block.as_deref(), Some("no"));
    }
    for event in [
        HookEvent::SessionStart,
        HookEvent::SessionEnd,
        HookEvent::Notification,
    ] {
        let answer = no(event);
        assert_eq!((answer.block, answer.warnings.len()), (None, 1));
    }
    let wordless = said(HookEvent::Stop, &HookOutcome::exited(2, "", ""));
    assert!(wordless.block.unwrap().contains("s.toml:3"));
}

#[test]
fn what_fails_is_told_and_says_nothing() {
    for (end, expected) in [
        (HookEnd::TimedOut, "took longer than 60 s and was ended"),
        (
            HookEnd::Failed {
                reason: "no shell".into(),
            },
            "did not run: no shell",
        ),
    ] {
        let outcome = HookOutcome {
            end,
            ..HookOutcome::exited(0, "{\"decision\":\"block\"}", "")
        };
        let answer = said(HookEvent::PreToolUse, &outcome);
        assert!(
            answer.warnings[0].contains(expected),
            "{:?}",
            answer.warnings
        );
        assert_eq!(answer.decided, None);
    }
    for (printed, expected) in [
        ("{\"decision\": \"approve\"", "begins like JSON and is none"),
        ("{\"continue\": \"no\"}", "continue is of the wrong type"),
        ("{\"hookSpecificOutput\": 3}", "is no object"),
        (
            "{\"hookSpecificOutput\": {\"hookEventName\": \"Stop\"}}",
            "about another event",
        ),
    ] {
        let answer = prints(HookEvent::PreToolUse, printed);
        assert!(
            answer.warnings[0].contains(expected),
            "{printed}: {:?}",
            answer.warnings
        );
        assert_eq!((answer.decided, answer.stop), (None, None), "{printed}");
    }
    let cut = HookOutcome {
        is_cut: true,
        ..HookOutcome::exited(0, "{}", "")
    };
    assert_eq!(said(HookEvent::PreToolUse, &cut).warnings.len(), 1);
}

#[test]
fn decisions_about_a_call() {
    let pre = HookEvent::PreToolUse;
    let reason = "because";
    let table = [
        ("allow", Some(Decided::Allow)),
        ("ask", Some(Decided::Ask(reason.into()))),
        ("deny", Some(Decided::Deny(reason.into()))),
    ];
    for (word, expected) in table {
        let answer = specific(
            pre,
            json!({ "permissionDecision": word, "permissionDecisionReason": reason }),
        );
        assert_eq!(
            (answer.decided, answer.warnings.len()),
            (expected, 0),
            "{word}"
        );
    }
    // It wanted something: somebody is to look.
    let odd = specific(pre, json!({ "permissionDecision": "Deny" }));
    assert!(matches!(odd.decided, Some(Decided::Ask(_))));
    assert_eq!(odd.warnings.len(), 1);
    // The older words.
    let older = |word: &str| prints(pre, &json!({ "decision": word, "reason": "r" }).to_string());
    assert_eq!(older("approve").decided, Some(Decided::Allow));
    assert_eq!(older("block").decided, Some(Decided::Deny("r".into())));
    let input = specific(
        pre,
        json!({ "updatedInput": { "command": "true" }, "additionalContext": "c" }),
    );
    assert_eq!(input.input.unwrap().get(), r#"{"command":"true"}"#);
    assert_eq!(input.context, ["c"]);
    assert_eq!(
        specific(pre, json!({ "updatedInput": [1] })).warnings.len(),
        1
    );
}

#[test]
fn answers_to_a_question() {
    let request = HookEvent::PermissionRequest;
    let decide = |decision: Value| specific(request, json!({ "decision": decision }));
    assert_eq!(
        decide(json!({ "behavior": "allow" })).decided,
        Some(Decided::Allow)
    );
    let rewritten = json!({ "behavior": "allow", "updatedInput": { "command": "true" } });
    assert!(decide(rewritten).input.is_some());
    let no = decide(json!({ "behavior": "deny", "message": "no", "interrupt": true }));
    assert_eq!(no.decided, Some(Decided::Deny("no".into())));
    assert_eq!(no.stop.as_deref(), Some("no"));
    assert_eq!(decide(json!({ "behavior": "perhaps" })).decided, None);
}

#[test]
fn what_is_printed_is_context_where_it_may_be() {
    for event in HookEvent::ALL {
        let context = prints(event, "it is Friday\n").context;
        let expected = matches!(
            event,
            HookEvent::UserPromptSubmit | HookEvent::SessionStart | HookEvent::SubagentStart
        );
        assert_eq!(context.is_empty(), !expected, "{event}");
    }
    let long = prints(HookEvent::SessionStart, &"ä".repeat(CONTEXT + 7));
    assert!(long.context[0].ends_with("[... 7 more characters of a hook are left out]"));
}

#[test]
fn what_is_for_everybody() {
    let printed = json!({
        "continue": false, "stopReason": "enough", "suppressOutput": true, "systemMessage": "hm",
    });
    let answer = prints(HookEvent::PostToolUse, &printed.to_string());
    assert_eq!(answer.stop.as_deref(), Some("enough"));
    assert_eq!(answer.message.as_deref(), Some("hm"));
    assert!(answer.is_quiet && answer.warnings.is_empty());
}
