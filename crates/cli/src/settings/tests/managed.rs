//! The file of whoever looks after the machine.

use super::*;

#[test]
fn nothing_loosens_what_it_says() {
    let loaded = World::new()
        .file(
            MANAGED_FILE,
            "permission_mode = \"plan\"\ndisallowed_tools = [\"Bash(curl *)\"]\nask_tools = [\"Edit\"]",
        )
        .file(USER, "permission_mode = \"acceptEdits\"\nallowed_tools = [\"Bash(curl *)\", \"Edit\"]")
        .variable("TOOLOOP_PERMISSION_MODE", "default")
        .flag("permission_mode", "bypassPermissions")
        .load()
        .unwrap();
    assert_eq!(loaded.settings.permission_mode, Mode::Plan);
    assert_eq!(loaded.settings.disallowed_tools, rules(&["Bash(curl *)"]));
    assert_eq!(loaded.settings.ask_tools, rules(&["Edit"]));
    assert_eq!(described(&loaded, "permission_mode").1, "/etc/m.toml:1");
    assert_eq!(
        loaded.warnings,
        ["--permission-mode is not applied: /etc/m.toml:1 says what `permission_mode` is"]
    );
    let sources: Vec<_> = loaded
        .rules
        .iter()
        .map(|rule| {
            (
                rule.kind.name(),
                rule.source.name(),
                rule.written.as_str(),
                rule.place.to_string(),
            )
        })
        .collect();
    assert_eq!(
        sources,
        [
            (
                "allow",
                "user",
                "Bash(curl *)",
                "/u/config.toml:2:18".to_owned()
            ),
            ("allow", "user", "Edit", "/u/config.toml:2:34".to_owned()),
            (
                "deny",
                "managed",
                "Bash(curl *)",
                "/etc/m.toml:2:21".to_owned()
            ),
            ("ask", "managed", "Edit", "/etc/m.toml:3:14".to_owned()),
        ]
    );
}

#[test]
fn bypassing_can_be_ruled_out() {
    for (path, text) in [
        (MANAGED_FILE, "disable_bypass_permissions = true"),
        (PROJECT, "disable_bypass_permissions = true"),
        (
            JSON_MANAGED,
            "{\"permissions\": {\"disableBypassPermissionsMode\": \"disable\"}}",
        ),
        (
            JSON_PROJECT,
            "{\"permissions\": {\"disableBypassPermissionsMode\": \"disable\"}}",
        ),
    ] {
        let world = World::new()
            .file(path, text)
            .flag("permission_mode", "bypassPermissions");
        let loaded = world.load().unwrap();
        assert_eq!(loaded.settings.permission_mode, Mode::Default, "{path}");
        let expected =
            format!("`permission_mode` is default: bypassPermissions is ruled out by {path}:1");
        assert_eq!(loaded.warnings, [expected]);
        let loaded = world.flag("permission_mode", "acceptEdits").load().unwrap();
        assert_eq!(loaded.settings.permission_mode, Mode::AcceptEdits);
        assert_eq!(loaded.warnings, [""; 0]);
    }
    // A folder cannot rule it in again.
    let world = World::new()
        .file(
            USER,
            "disable_bypass_permissions = true\npermission_mode = \"bypassPermissions\"",
        )
        .file(PROJECT, "disable_bypass_permissions = false");
    assert_eq!(world.settings().permission_mode, Mode::Default);
}

#[test]
fn it_may_have_the_only_rules_that_allow() {
    let loaded = World::new()
        .file(MANAGED_FILE, "allow_managed_rules_only = true\nallowed_tools = [\"Bash(ls *)\"]")
        .file(USER, "allowed_tools = [\"Bash\"]\ndisallowed_tools = [\"Bash(rm *)\"]\nask_tools = [\"Read\"]")
        .flag("allowed_tools", "Edit")
        .load()
        .unwrap();
    assert_eq!(loaded.settings.allowed_tools, rules(&["Bash(ls *)"]));
    assert_eq!(loaded.settings.disallowed_tools, rules(&["Bash(rm *)"]));
    assert_eq!(loaded.settings.ask_tools, rules(&["Read"]));
    let json = "{\"allowManagedPermissionRulesOnly\": true}";
    let world = |path| World::new().file(path, json).flag("allowed_tools", "Edit");
    assert_eq!(world(JSON_MANAGED).settings().allowed_tools, []);
    assert_eq!(world(JSON_USER).settings().allowed_tools, rules(&["Edit"]));
}

#[test]
fn nobody_else_can_say_what_it_alone_may() {
    for key in ["allow_managed_rules_only", "allow_managed_hooks_only"] {
        let text = format!("{key} = true");
        for path in [USER, PROJECT, EXPLICIT] {
            let error = World::new().file(path, text.as_str()).error();
            assert_eq!(
                error,
                format!("{path}:1:1: `{key}` can be set in /etc/m.toml only")
            );
        }
        let error = World::new().flag(key, "true").error();
        assert!(error.ends_with("can be set in /etc/m.toml only"), "{error}");
    }
}
