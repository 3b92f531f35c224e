//! The widespread JSON settings as a source.

use tooloop::hooks::HookEvent;

use super::*;

const DENY: &str = "{\n  \"permissions\": {\n    \"deny\": [\"Bash(touch *)\"]\n  }\n}\n";

/// C44: the forms in which people save them.
#[test]
fn a_rule_that_denies_is_obeyed_or_the_run_is_refused() {
    let crlf = format!("\u{feff}{}", DENY.replace('\n', "\r\n"));
    let commented = DENY.replace("]\n", "], // not here\n    /* nor */\n");
    for path in [JSON_USER, JSON_PROJECT, JSON_LOCAL, JSON_MANAGED] {
        for text in [DENY, &crlf, &commented] {
            let loaded = World::new().file(path, text).load().unwrap();
            assert_eq!(
                loaded.settings.disallowed_tools,
                rules(&["Bash(touch *)"]),
                "{text}"
            );
            assert_eq!(loaded.warnings, [""; 0]);
            assert_eq!(loaded.rules[0].place.to_string(), format!("{path}:3:14"));
            assert_eq!(
                described(&loaded, "disallowed_tools").1,
                format!("{path}:3")
            );
        }
        let table = [
            (
                DENY.replace("deny", "denny"),
                "3:5: `permissions` has an unknown key `denny`, which may be meant to deny: the nearest valid key is `deny`",
            ),
            (
                DENY.replace("deny", "Deny"),
                "3:5: `permissions` has an unknown key `Deny`, which may be meant to deny: the nearest valid key is `deny`",
            ),
            (
                DENY.replace("deny", "disallow"),
                "3:5: `permissions` has an unknown key `disallow`, which may be meant to deny: the nearest valid key is `deny`",
            ),
            (
                DENY.replace("deny", "never"),
                "3:5: `permissions` has an unknown key `never`, which may be meant to deny: the valid keys are allow, deny, ask, defaultMode, additionalDirectories, disableBypassPermissionsMode",
            ),
            (
                DENY.replace("permissions", "permisions"),
                "2:3: `permissions` is missing, but there is `permisions`: write `permissions`",
            ),
            (
                DENY.replace("permissions", "Permissions"),
                "2:3: `permissions` is missing, but there is `Permissions`: write `permissions`",
            ),
            (
                "{\"deny\": [\"Bash(touch *)\"]}".to_owned(),
                "1:2: `permissions` is where rules stand: put `deny` into it",
            ),
            (
                DENY[..45].to_owned(),
                "3:14: not valid JSON: unterminated string literal",
            ),
            (
                DENY.replace("[\"Bash(touch *)\"]", "\"Bash(touch *)\""),
                "3:13: `permissions.deny` must be a list of rules, not the string \"Bash(touch *)\"",
            ),
            (
                DENY.replace("[\"Bash(touch *)\"]", "7"),
                "3:13: `permissions.deny` must be a list of rules, not the number 7",
            ),
            (
                DENY.replace("\"Bash(touch *)\"", "\"Bash(touch *\""),
                "3:14: `permissions.deny` has a wrong rule: the rule `Bash(touch *` does not end with the closing bracket of its specifier",
            ),
            (
                DENY.replace("\"Bash(touch *)\"", "\"Read\", null"),
                "3:22: `permissions.deny` must hold strings only, not null",
            ),
            (
                "{\"permissions\": [\"Bash(touch *)\"]}".to_owned(),
                "1:17: `permissions` must be an object, not a list",
            ),
            ("[]".to_owned(), "1:1: `settings` must be an object"),
            (
                "{\"permissions\": {\"deny\": [\"Bash(touch *)\"]}, \"permissions\": {}}"
                    .to_owned(),
                "1:46: `settings` has `permissions` twice",
            ),
            (
                "{\"permissions\": {\"deny\": [\"Bash(touch *)\"], \"deny\": []}}".to_owned(),
                "1:45: `permissions` has `deny` twice",
            ),
            (
                "{\"permissions\": {\"defaultMode\": \"plann\"}}".to_owned(),
                "1:33: `permissions.defaultMode` must be one of default, acceptEdits, plan, dontAsk, bypassPermissions, not \"plann\"",
            ),
        ];
        for (text, expected) in table {
            let error = World::new().file(path, text.as_str()).error();
            let mut lines = error.lines();
            assert_eq!(lines.next(), Some(&*format!("{path}:{expected}")), "{text}");
            assert!(lines.next().unwrap().contains("json_settings = false"));
            // Whoever does not want such files says so.
            let world = World::new().file(path, text.as_str());
            assert_eq!(
                world
                    .variable("TOOLOOP_JSON_SETTINGS", "false")
                    .settings()
                    .disallowed_tools,
                []
            );
        }
        for text in ["", "\u{feff}", "{}", "null", "// nothing\n"] {
            assert_eq!(
                World::new().file(path, text).settings(),
                Settings::default(),
                "{text:?}"
            );
        }
    }
}

#[test]
fn what_is_another_products_affair_is_passed_over_and_what_is_odd_is_said() {
    let text = r#"{
  "$schema": "https://json.invalid/x", "model": "other", "env": {"A": "b"}, "tasks": ["Bash(x)"],
  "permissions": {
    "allow": ["Bash(", 3, "Read(docs/**)", "NotebookEdit(x)", "Agent(Explore)"],
    "alow": ["Bash"],
    "somethingNew": true,
    "defaultMode": "auto"
  },
  "hook": {"Stop": []}
}"#;
    let loaded = World::new().file(JSON_USER, text).load().unwrap();
    assert_eq!(
        loaded.settings.allowed_tools,
        rules(&["Read(docs/**)", "NotebookEdit(x)", "Agent(Explore)"])
    );
    assert_eq!(loaded.settings.model, None);
    let warnings: Vec<_> = loaded
        .warnings
        .iter()
        .map(|one| one.trim_start_matches(JSON_USER))
        .collect();
    assert_eq!(
        warnings,
        [
            ":4:15: `permissions.allow` has a wrong rule: the rule `Bash(` does not end with the closing bracket of its specifier; it is not applied",
            ":4:24: `permissions.allow` must hold strings only, not the number 3; it is not applied",
            ":5:5: `permissions.alow` is no key that is known here, the nearest valid key is `allow`",
            ":6:5: `permissions.somethingNew` is no key that is known here, the valid keys are allow, deny, ask, defaultMode, additionalDirectories, disableBypassPermissionsMode",
            ":7:20: `permissions.defaultMode` is not applied: there is no mode \"auto\" here",
            ":9:3: `hook` is not read: `hooks` is the nearest valid key",
        ]
    );
}

#[test]
fn paths_in_rules_mean_what_they_mean_there() {
    let table: [(&str, &[&str], &[&str]); 12] = [
        ("Read(//etc/**)", &["Read(/etc/**)"], &["Read(/etc/**)"]),
        (
            "Edit(/src/**)",
            &["Edit(/w/src/**)", "Edit(/src/**)"],
            &["Edit(/w/src/**)"],
        ),
        ("Write(/a)", &["Write(/w/a)", "Write(/a)"], &["Write(/w/a)"]),
        ("Read(~/x)", &["Read(~/x)"], &["Read(~/x)"]),
        ("Read(./x)", &["Read(./x)"], &["Read(./x)"]),
        ("Read(.env)", &["Read(.env)"], &["Read(.env)"]),
        ("Edit", &["Edit"], &["Edit"]),
        (
            "Bash(/bin/ls:*)",
            &["Bash(/bin/ls:*)"],
            &["Bash(/bin/ls:*)"],
        ),
        (
            "Bash(npm run test:*)",
            &["Bash(npm run test:*)"],
            &["Bash(npm run test:*)"],
        ),
        ("mcp__server", &["mcp__server"], &["mcp__server"]),
        ("mcp__server__*", &["mcp__server__*"], &["mcp__server__*"]),
        (
            "WebFetch(domain:x.org)",
            &["WebFetch(domain:x.org)"],
            &["WebFetch(domain:x.org)"],
        ),
    ];
    for (written, denied, allowed) in table {
        let text = |key: &str| format!("{{\"permissions\": {{\"{key}\": [\"{written}\"]}}}}");
        let loaded = World::new()
            .file(JSON_PROJECT, text("deny"))
            .load()
            .unwrap();
        assert_eq!(texts(&loaded.settings.disallowed_tools), denied);
        assert!(loaded.rules.iter().all(|rule| rule.written == written));
        assert_eq!(loaded.rules.len(), denied.len());
        let world = World::new().file(JSON_PROJECT, text("ask"));
        assert_eq!(texts(&world.settings().ask_tools), denied);
        let world = World::new().file(JSON_USER, text("allow"));
        assert_eq!(texts(&world.settings().allowed_tools), allowed);
    }
    // A folder whose name is a pattern is no pattern.
    let mut world = World::new();
    world.sources.project = Some("/w*".into());
    world.sources.json_user = None;
    let text = "{\"permissions\": {\"deny\": [\"Edit(/a)\"]}}";
    let world = world.file("/w*/.claude/settings.json", text);
    assert_eq!(
        texts(&world.settings().disallowed_tools),
        ["Edit(/w\\*/a)", "Edit(/a)"]
    );
}

#[test]
fn hooks_are_read_and_what_is_odd_about_them_is_said() {
    let text = r#"{ "hooks": {
  "PreToolUse": [
    {"matcher": "Bash|Edit", "hooks": [
      {"type": "command", "command": "./check.sh", "timeout": 5},
      {"type": "command", "command": "b", "timeout": 0.5}]},
    {"matcher": "*", "hooks": [{"type": "prompt", "prompt": "x"}, {"command": "c", "tiemout": 3}]}
  ],
  "Stop": [{"hooks": [{"type": "command", "command": "d", "timeout": "x"}, {"type": "command"}]}],
  "PreTolUse": [{"hooks": []}],
  "PostCompact": [],
  "Stop2": 7
}}"#;
    let loaded = World::new().file(JSON_USER, text).load().unwrap();
    let hooks: Vec<_> = loaded
        .settings
        .hooks
        .iter()
        .map(|hook| {
            (
                hook.event,
                hook.matcher.as_deref(),
                &*hook.command,
                hook.timeout.as_millis(),
                &*hook.source,
            )
        })
        .collect();
    assert_eq!(
        hooks,
        [
            (
                HookEvent::PreToolUse,
                Some("Bash|Edit"),
                "./check.sh",
                5_000,
                "/u/settings.json:4"
            ),
            (
                HookEvent::PreToolUse,
                Some("Bash|Edit"),
                "b",
                500,
                "/u/settings.json:5"
            ),
            (
                HookEvent::PreToolUse,
                None,
                "c",
                60_000,
                "/u/settings.json:6"
            ),
            (HookEvent::Stop, None, "d", 60_000, "/u/settings.json:8"),
        ]
    );
    let warnings: Vec<_> = loaded
        .warnings
        .iter()
        .map(|one| one.trim_start_matches(JSON_USER))
        .collect();
    assert_eq!(
        warnings,
        [
            ":6:32: `hooks.PreToolUse` is not applied: hooks of type \"prompt\" are not run here, only commands",
            ":6:84: `hooks.PreToolUse` has an unknown key `tiemout`, the nearest valid key is `timeout`",
            ":8:70: `hooks.Stop` has a `timeout` that is no number of seconds up to a day; it is 60",
            ":8:76: `hooks.Stop` is not applied: it has no `command`",
            ":9:3: `hooks` names no event with \"PreTolUse\": the nearest is `PreToolUse`; it is not applied",
            ":10:3: `hooks.PostCompact` is not applied: there is no such event here",
            ":11:3: `hooks` names no event with \"Stop2\": the nearest is `Stop`; it is not applied",
        ]
    );
    let off = text.replacen("{ \"hooks\"", "{ \"disableAllHooks\": true, \"hooks\"", 1);
    assert_eq!(World::new().file(JSON_USER, off).settings().hooks, []);
}

#[test]
fn a_folder_widens_nothing_with_them_unless_it_is_trusted() {
    let text = r#"{
  "permissions": {
    "deny": ["Edit"], "ask": ["Read"],
    "allow": ["Bash(make *)", "Bash(npm *)"],
    "defaultMode": "acceptEdits",
    "additionalDirectories": ["../lib", "~/x"]
  },
  "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say"}]}]}
}"#;
    let why = "this folder is not trusted";
    for path in [JSON_PROJECT, JSON_LOCAL] {
        let world = World::new().file(path, text);
        let loaded = world.load().unwrap();
        let narrow = Settings {
            disallowed_tools: rules(&["Edit"]),
            ask_tools: rules(&["Read"]),
            ..Settings::default()
        };
        assert_eq!(loaded.settings, narrow);
        assert_eq!(loaded.rules.len(), 2);
        assert_eq!(loaded.trust, Trust::Untrusted);
        let warnings: Vec<_> = loaded
            .warnings
            .iter()
            .map(|one| one.trim_start_matches(path))
            .collect();
        assert_eq!(
            warnings,
            [
                format!(
                    ":4:15: `permissions.allow` (Bash(make *), Bash(npm *)) is not applied: {why}"
                ),
                format!(":5:20: `permissions.defaultMode` (acceptEdits) is not applied: {why}"),
                format!(
                    ":6:31: `permissions.additionalDirectories` (../lib) is not applied: {why}"
                ),
                format!(":6:41: `permissions.additionalDirectories` (~/x) is not applied: {why}"),
                format!(":8:33: `hooks` (Stop: say) is not applied: {why}"),
                TRUST_HINT.to_owned(),
            ]
        );
        let loaded = world.trusting().load().unwrap();
        assert_eq!(loaded.warnings, [""; 0]);
        assert_eq!(loaded.trust, Trust::Trusted);
        assert_eq!(
            loaded.settings.allowed_tools,
            rules(&["Bash(make *)", "Bash(npm *)"])
        );
        assert_eq!(loaded.settings.permission_mode, Mode::AcceptEdits);
        assert_eq!(
            loaded.settings.additional_directories,
            ["/w/../lib", "/home/me/x"].map(PathBuf::from)
        );
        assert_eq!(loaded.settings.hooks.len(), 1);
    }
    let bypass = "{\"permissions\": {\"defaultMode\": \"bypassPermissions\"}}";
    for path in [JSON_USER, JSON_PROJECT] {
        let mut world = World::new().file(path, bypass);
        world.sources.approvals = Approvals::Everything;
        let loaded = world.load().unwrap();
        assert_eq!(loaded.settings.permission_mode, Mode::Default);
        assert_eq!(loaded.warnings.len(), 1);
    }
}

#[test]
fn ours_are_stronger_than_those_beside_them() {
    let json = |mode: &str| format!("{{\"permissions\": {{\"defaultMode\": \"{mode}\"}}}}");
    let world = World::new()
        .file(JSON_USER, json("plan"))
        .file(USER, "permission_mode = \"acceptEdits\"");
    assert_eq!(world.settings().permission_mode, Mode::AcceptEdits);
    assert_eq!(
        world
            .file(JSON_LOCAL, json("plan"))
            .settings()
            .permission_mode,
        Mode::Plan
    );
}

#[test]
fn a_file_that_is_named_may_be_json_and_is_read_whatever_is_said_of_others() {
    let text = "{\"permissions\": {\"allow\": [\"Edit\"], \"deny\": [\"Read\"]}}";
    let mut world = World::new().file("/x/extra.json", text);
    world.sources.explicit = Some("/x/extra.json".into());
    let world = world.variable("TOOLOOP_JSON_SETTINGS", "false");
    let loaded = world.load().unwrap();
    assert_eq!(loaded.settings.allowed_tools, rules(&["Edit"]));
    assert_eq!(loaded.settings.disallowed_tools, rules(&["Read"]));
    assert!(
        loaded
            .rules
            .iter()
            .all(|rule| rule.source == Source::Explicit)
    );
    let error = world.instead("/x/extra.json", "{").error();
    assert_eq!(
        error,
        "/x/extra.json:1:1: not valid JSON: unterminated object"
    );
}

#[test]
fn a_rule_that_holds_back_and_names_no_tool_is_doubted() {
    let loaded = World::new()
        .file(
            JSON_PROJECT,
            "{\"permissions\": {\"deny\": [\"Bsh(rm *)\", \"Agent(x)\", \"mcp__a\"], \"allow\": [\"Raed\"]}}",
        )
        .file(USER, "ask_tools = [\"web-fetch\"]")
        .load()
        .unwrap();
    let doubts: Vec<_> = loaded
        .warnings
        .iter()
        .filter(|one| one.contains("names no tool"))
        .collect();
    assert_eq!(
        doubts,
        [
            "/u/config.toml:1:14: the ask rule web-fetch names no tool: the nearest is WebFetch",
            "/w/.claude/settings.json:1:27: the deny rule Bsh(rm *) names no tool: the nearest is Bash",
        ]
    );
}
