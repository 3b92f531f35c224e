//! What hooks say, as a table.

use serde_json::json;

use super::*;

fn said(event: HookEvent, outcome: &HookOutcome) -> Answer {
    let rule = HookRule {
        source: "s.toml:3".into(),
        ..HookRule::new(event, "./hook")
    };
    read(&rule, outcome, Some("bash"), &input())
}

fn input() -> Value {
    json!({ "hook_event_name": "PreToolUse", "tool_input": { "command": "ls" } })
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
fn failed_hook_refuses_only_what_it_refused() {
    let failed = |end, stdout: &str| {
        let outcome = HookOutcome {
            end,
            ..HookOutcome::exited(0, stdout, "")
        };
        said(HookEvent::PreToolUse, &outcome)
    };
    let reason = || "no shell".to_owned();
    let block = "{\"decision\":\"block\",\"reason\":\"r\"}";
    let answer = failed(HookEnd::Failed { reason: reason() }, block);
    assert!(answer.warnings[0].contains("failed: no shell"));
    assert_eq!(answer.decided, None);
    let answer = failed(HookEnd::TimedOut, block);
    assert!(answer.warnings[0].contains("took longer than 60 s and was ended"));
    assert_eq!(answer.decided, Some(Decided::Deny("r".into())));
    let answer = failed(HookEnd::TimedOut, "{\"decision\":\"approve\"}");
    assert_eq!((answer.decided, answer.warnings.len()), (None, 1));
}

const DENY: &str = r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no"}}"#;

#[test]
fn decision_is_found_among_other_output() {
    let indented = serde_json::to_string_pretty(&serde_json::from_str::<Value>(DENY).unwrap());
    let indented = indented.unwrap();
    let sequence = "\u{1b}[1;32mok\u{1b}[0m \u{1b}]0;title\u{7}";
    let coloured = DENY.replace('"', "\u{1b}[34m\"\u{1b}[0m");
    for (name, stdout) in [
        ("a line before", format!("Now using node v20\n{DENY}\n")),
        ("lines before", format!("a\nb {{}} {{ x }}\n\n{DENY}")),
        ("no line break before", format!("v20{DENY}")),
        ("a line after", format!("{DENY}\nbye\n")),
        ("indented", format!("v20\n{indented}\nbye")),
        (
            "another object before",
            format!("{{\"type\":\"message\"}}\n{DENY}"),
        ),
        (
            "another object after",
            format!("{DENY}\n{{\"type\":\"message\"}}"),
        ),
        ("its input before", format!("{}\n{DENY}", input())),
        (
            "a consent before",
            format!("{{\"decision\":\"approve\"}}\n{DENY}"),
        ),
        (
            "a consent after",
            format!("{DENY}\n{{\"decision\":\"approve\"}}"),
        ),
        ("in a list", format!("[{DENY}]")),
        ("async", format!("{{\"async\":true}}\n{DENY}")),
        ("a byte order mark", format!("\u{feff}{DENY}")),
        ("a byte order mark inside", format!("v20\n\u{feff}{DENY}")),
        ("CRLF", format!("v20\r\n{DENY}\r\n")),
        ("a carriage return", format!("{DENY}\rdone")),
        ("colours before", format!("{sequence}{DENY}")),
        ("colours inside", coloured),
        ("an open title", format!("\u{1b}]0;title\n{DENY}")),
        ("NULs", DENY.chars().flat_map(|c| [c, '\0']).collect()),
    ] {
        let answer = prints(HookEvent::PreToolUse, &stdout);
        assert_eq!(answer.decided, Some(Decided::Deny("no".into())), "{name}");
        let stdout = stdout.replace(DENY, "{\"decision\":\"block\",\"reason\":\"no\"}");
        if stdout.contains("block") {
            for event in [HookEvent::UserPromptSubmit, HookEvent::Stop] {
                let answer = prints(event, &stdout);
                assert_eq!(answer.block.as_deref(), Some("no"), "{name}: {event}");
                assert_eq!(answer.context, [""; 0], "{name}");
            }
        }
    }
}

#[test]
fn unreadable_decision_has_the_careful_outcome() {
    let cut = |stdout: &str| HookOutcome {
        is_cut: true,
        ..HookOutcome::exited(0, stdout, "")
    };
    let exited = |stdout: &str| HookOutcome::exited(0, stdout, "");
    for outcome in [
        exited("{\"decision\": \"approve\""),
        exited("v20\n{\"decision\": \"block\""),
        exited("v20\n{'decision': 'block'}"),
        exited("\"{\\\"decision\\\":\\\"block\\\"}\""),
        exited("{decision: block}"),
        exited("{\"permissionDecision\": \"deny\"}"),
        exited("{\"decision\": \"refuse\"}"),
        exited("{\"decision\": false}"),
        exited("{\"continue\": \"no\"}"),
        exited("{\"hookSpecificOutput\": 3}"),
        exited("{\"hookSpecificOutput\": {\"hookEventName\": \"Notification\"}}"),
        exited("v20\n{\0\"\0\u{fffd}"),
        cut("{}"),
        cut("chatter"),
        HookOutcome::exited(0, "v20", DENY),
    ] {
        let text = &outcome.stdout;
        let answer = said(HookEvent::PreToolUse, &outcome);
        assert!(matches!(answer.decided, Some(Decided::Ask(_))), "{text}");
        assert_eq!(answer.warnings.len(), 1, "{text}: {:?}", answer.warnings);
        let answer = said(HookEvent::PermissionRequest, &outcome);
        assert!(matches!(answer.decided, Some(Decided::Ask(_))), "{text}");
        for event in [
            HookEvent::UserPromptSubmit,
            HookEvent::Stop,
            HookEvent::SubagentStop,
            HookEvent::PreCompact,
            HookEvent::PostToolUse,
        ] {
            let answer = said(event, &outcome);
            assert!(answer.block.is_some(), "{event}: {text}");
            assert!(!answer.warnings.is_empty(), "{event}: {text}");
            assert_eq!(answer.context, [""; 0], "{event}: {text}");
        }
        let answer = said(HookEvent::SessionStart, &outcome);
        assert_eq!((answer.block, answer.context), (None, Vec::new()), "{text}");
        assert!(!answer.warnings.is_empty(), "{text}");
    }
    // A turn is kept going once at most.
    let rule = HookRule::new(HookEvent::Stop, "./hook");
    let again = json!({ "stop_hook_active": true });
    let answer = read(&rule, &cut(""), None, &again);
    assert_eq!((answer.block, answer.warnings.len()), (None, 1));
}

#[test]
fn hook_that_prints_its_input_decides_nothing() {
    let echo = input().to_string();
    let start = echo.split_at(20).0;
    for (stdout, stderr, is_cut) in [
        (format!("{echo}\n"), String::new(), false),
        (start.to_owned(), String::new(), true),
        (String::new(), echo.clone(), false),
        (
            serde_json::to_string_pretty(&input()).unwrap(),
            String::new(),
            false,
        ),
    ] {
        for event in HookEvent::ALL {
            let outcome = HookOutcome {
                is_cut,
                ..HookOutcome::exited(0, stdout.as_str(), stderr.as_str())
            };
            assert_eq!(
                said(event, &outcome),
                Answer::default(),
                "{event}: {stdout}"
            );
        }
    }
}

#[test]
fn consent_among_other_output_is_not_used() {
    let repeated = "checking: echo\n{\"decision\":\"approve\"}\n";
    let answer = prints(HookEvent::PreToolUse, repeated);
    assert_eq!((answer.decided, answer.warnings.len()), (None, 1));
    let alone = "{\"type\":\"message\"}\n{\"decision\":\"approve\"}\n";
    let answer = prints(HookEvent::PreToolUse, alone);
    assert_eq!(
        (answer.decided, answer.warnings.len()),
        (Some(Decided::Allow), 0)
    );
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
    let odd = decide(json!({ "behavior": "perhaps" })).decided;
    assert!(matches!(odd, Some(Decided::Ask(_))));
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
    let code = "fn a() { b: 1 }\n[{\"a\": 1}]";
    assert_eq!(prints(HookEvent::UserPromptSubmit, code).context, [code]);
    let coloured = prints(HookEvent::UserPromptSubmit, "\u{1b}[31mmain\u{1b}[0m");
    assert_eq!(coloured.context, ["main"]);
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
