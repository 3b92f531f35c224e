//! Hooks in a file of ours.

use tooloop::hooks::HookEvent;

use super::*;

#[test]
fn hooks_are_read_with_their_places() {
    let loaded = World::new()
        .file(
            USER,
            "model = \"m\"\n\n[[hooks]]\nevent = \"PreToolUse\"\nmatcher = \"bash|edit\"\n\
             command = \"./check.sh\"\ntimeout_ms = 5_000\n\n[[hooks]]\ncommand = \"say done\"\nevent = \"Stop\"\n",
        )
        .file(EXPLICIT, "hooks = [{ event = \"SessionEnd\", command = \"bye\" }]")
        .load()
        .unwrap();
    let hook = |event, matcher: Option<&str>, command: &str, seconds, source: &str| HookRule {
        event,
        matcher: matcher.map(str::to_owned),
        command: command.to_owned(),
        timeout: Duration::from_secs(seconds),
        source: source.to_owned(),
    };
    assert_eq!(
        loaded.settings.hooks,
        [
            hook(
                HookEvent::PreToolUse,
                Some("bash|edit"),
                "./check.sh",
                5,
                "/u/config.toml:3"
            ),
            hook(HookEvent::Stop, None, "say done", 60, "/u/config.toml:9"),
            hook(HookEvent::SessionEnd, None, "bye", 60, "/x/extra.toml:1"),
        ]
    );
    assert_eq!(loaded.trust, Trust::NotNeeded);
    assert_eq!(
        described(&loaded, "hooks"),
        (
            r#"["PreToolUse of bash|edit: ./check.sh", "Stop: say done", "SessionEnd: bye"]"#
                .to_owned(),
            "/u/config.toml:3, /u/config.toml:9, /x/extra.toml:1".to_owned()
        )
    );
}

#[test]
fn what_is_wrong_with_a_hook_is_named() {
    let table = [
        (
            "hooks = 3",
            "1:9: `hooks` must be a list of tables: write [[hooks]], then a line for each of event and command",
        ),
        (
            "[hooks]\nevent = \"Stop\"",
            "1:1: `hooks` must be a list of tables: write [[hooks]], then a line for each of event and command",
        ),
        (
            "hooks = [3]",
            "1:10: `hooks` must be a list of tables: write [[hooks]], then a line for each of event and command",
        ),
        (
            "[[hooks]]\nevent = \"PreTolUse\"\ncommand = \"x\"",
            "2:9: `hooks` names no event with \"PreTolUse\": the nearest is `PreToolUse`",
        ),
        (
            "[[hooks]]\nevent = \"pre_tool_use\"\ncommand = \"x\"",
            "2:9: `hooks` names no event with \"pre_tool_use\": the nearest is `PreToolUse`",
        ),
        (
            "[[hooks]]\nevent = \"Stop\"\ncomand = \"x\"",
            "3:1: `hooks` has an unknown key `comand`, the nearest valid key is `command`",
        ),
        (
            "[[hooks]]\nevent = \"Stop\"",
            "1:1: `hooks` has a hook without `command`",
        ),
        (
            "[[hooks]]\ncommand = \"x\"",
            "1:1: `hooks` has a hook without `event`",
        ),
        (
            "[[hooks]]\nevent = \"Stop\"\ncommand = \" \"",
            "3:11: `hooks` has a `command` that is no text, or an empty one",
        ),
        (
            "[[hooks]]\nevent = \"Stop\"\ncommand = \"x\"\ntimeout_ms = 0",
            "4:14: `hooks` has a `timeout_ms` that is no whole number from 1 to 86400000",
        ),
        (
            "[[hoks]]\nevent = \"Stop\"",
            "1:3: unknown key `hoks`, the nearest valid key is `hooks`",
        ),
    ];
    for (text, expected) in table {
        for path in [USER, PROJECT] {
            let error = World::new().file(path, text).error();
            assert_eq!(error, format!("{path}:{expected}"), "{text}");
        }
    }
    let text = "[[hooks]]\nevent = \"PreToolUse\"\nmatcher = \"(\"\ncommand = \"x\"";
    let error = World::new().file(USER, text).error();
    assert!(
        error.starts_with("/u/config.toml:3:11: `hooks` has a wrong matcher: "),
        "{error}"
    );
}

#[test]
fn bare_runs_no_hooks_but_those_of_the_managed_file() {
    let hook = |command: &str| format!("[[hooks]]\nevent = \"Stop\"\ncommand = \"{command}\"\n");
    let mut world = World::new()
        .file(USER, hook("user"))
        .file(PROJECT, hook("project"))
        .file(MANAGED_FILE, hook("managed"));
    let commands = |world: &World| -> Vec<String> {
        let hooks = world.settings().hooks.into_iter();
        hooks.map(|hook| hook.command).collect()
    };
    assert_eq!(commands(&world), ["user", "managed"]);
    world.sources.approvals = Approvals::Everything;
    assert_eq!(commands(&world), ["user", "project", "managed"]);
    world.sources.bare = true;
    assert_eq!(commands(&world), ["managed"]);
    world.sources.bare = false;
    let managed = format!("allow_managed_hooks_only = true\n{}", hook("managed"));
    assert_eq!(commands(&world.instead(MANAGED_FILE, managed)), ["managed"]);
}

#[test]
fn a_script_that_a_hook_of_the_folder_names_is_part_of_it() {
    const SCRIPT: &str = "/w/hooks/x.py";
    let hooks = "[[hooks]]\nevent = \"Stop\"\ncommand = \"python3 hooks/x.py\"\n\
                 [[hooks]]\nevent = \"Stop\"\ncommand = \"say done\"\n";
    let world = World::new()
        .file(PROJECT, hooks)
        .file(SCRIPT, "one")
        .trusting();
    let commands = |world: &World| -> Vec<String> {
        let hooks = world.settings().hooks.into_iter();
        hooks.map(|hook| hook.command).collect()
    };
    assert_eq!(commands(&world), ["python3 hooks/x.py", "say done"]);
    let world = world.instead(SCRIPT, "two");
    assert_eq!(commands(&world), ["say done"]);
    let mut gone = world.instead(SCRIPT, "one");
    assert_eq!(commands(&gone).len(), 2);
    gone.files.retain(|(name, _)| *name != SCRIPT);
    assert_eq!(commands(&gone), ["say done"]);
    // Nor is one trusted that was not there to be looked at.
    let later = gone.trusting();
    assert_eq!(commands(&later).len(), 2);
    assert_eq!(commands(&later.file(SCRIPT, "one")), ["say done"]);
}

#[test]
fn a_hook_that_names_too_much_is_not_trusted() {
    let many: Vec<_> = (0..300).map(|number| number.to_string()).collect();
    let hook = format!(
        "[[hooks]]\nevent = \"Stop\"\ncommand = \"say {}\"\n",
        many.join(" ")
    );
    let mut world = World::new().file(PROJECT, hook);
    let loaded = world.load().unwrap();
    assert!(loaded.settings.hooks.is_empty());
    assert!(loaded.widenings[0].fingerprint.is_err());
    assert!(
        loaded.warnings[0].contains("cannot be trusted: it names more files"),
        "{:?}",
        loaded.warnings
    );
    world.sources.approvals = Approvals::Everything;
    assert_eq!(world.settings().hooks.len(), 1);
}
