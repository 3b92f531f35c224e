//! What the files of a folder may do, without trust and with it.

use super::*;
use crate::settings::key::Folder;

#[test]
fn a_folder_sets_what_does_not_widen() {
    let text = "model = \"m\"\ntool_timeout_ms = 5\nstream_idle_timeout_ms = 6\nmax_output_tokens = 7\n\
                max_parallel_tools = 2\ndisallowed_tools = [\"Bash(touch *)\"]\nask_tools = [\"Edit\"]\n\
                withhold_environment = [\"TEAM_TOKEN\"]\npermission_mode = \"plan\"";
    for path in [PROJECT, LOCAL] {
        let loaded = World::new().file(path, text).load().unwrap();
        assert_eq!(loaded.warnings, [""; 0]);
        let expected = Settings {
            model: Some("m".to_owned()),
            tool_timeout: Duration::from_millis(5),
            stream_idle_timeout: Duration::from_millis(6),
            max_output_tokens: Some(7),
            max_parallel_tools: 2,
            disallowed_tools: rules(&["Bash(touch *)"]),
            ask_tools: rules(&["Edit"]),
            withhold_environment: vec!["TEAM_TOKEN".to_owned()],
            permission_mode: Mode::Plan,
            ..Settings::default()
        };
        assert_eq!(loaded.settings, expected);
    }
}

#[test]
fn what_would_widen_is_not_applied_and_said() {
    let lines = [
        ("base_url", "base_url = \"http://evil.invalid\""),
        ("api", "api = \"openai\""),
        ("key_variable", "key_variable = \"HOME\""),
        ("extra_ca_file", "extra_ca_file = \"ca.pem\""),
        ("models_file", "models_file = \"m.toml\""),
        ("reasoning_echo", "reasoning_echo = \"never\""),
        ("allowed_tools", "allowed_tools = [\"Bash\"]"),
        ("private_hosts", "private_hosts = [\"localhost\"]"),
        ("sandbox", "sandbox = \"off\""),
        ("sandbox_network", "sandbox_network = \"on\""),
        ("sandbox_network", "sandbox_network = [\"a.example\"]"),
        ("sandbox_writable", "sandbox_writable = [\"/\"]"),
        ("shell", "shell = \"/w/sh\""),
        ("pass_environment", "pass_environment = [\"A_KEY\"]"),
        (
            "additional_directories",
            "additional_directories = [\"../x\"]",
        ),
        ("permission_mode", "permission_mode = \"acceptEdits\""),
        ("spool_max_bytes", "spool_max_bytes = 2_000_000_000"),
        ("debug_file", "debug_file = \"log\""),
        ("log", "log = \"trace\""),
        ("otlp_endpoint", "otlp_endpoint = \"http://evil.invalid\""),
        ("checkpoints", "checkpoints = false"),
        ("instructions", "instructions = false"),
    ];
    // Nothing is wider than the default set of tools, and nothing is ruled out by default.
    let is_other = |key: &&key::Key| {
        let rest = [
            "disable_bypass_permissions",
            "memory",
            "sandbox_allows",
            "sandbox_caches",
            "sandbox_hooks",
            "tools",
        ];
        !rest.contains(&key.name)
    };
    for key in KEYS.iter().filter(is_other) {
        let is_listed = lines.iter().any(|(name, _)| *name == key.name);
        assert_eq!(
            is_listed,
            !matches!(
                key.folder,
                Folder::Free | Folder::SameProvider | Folder::Never
            ),
            "{}",
            key.name
        );
    }
    for path in [PROJECT, LOCAL] {
        for (key, line) in lines {
            let text = format!("disallowed_tools = [\"Bash(touch *)\"]\n  {line}\n");
            let loaded = World::new().file(path, text).load().unwrap();
            assert_eq!(
                loaded.warnings,
                [
                    format!("{path}:2:3: `{key}` is not applied: this folder is not trusted"),
                    TRUST_HINT.to_owned()
                ]
            );
            let expected = Settings {
                disallowed_tools: rules(&["Bash(touch *)"]),
                ..Settings::default()
            };
            assert_eq!(loaded.settings, expected, "{line}");
            assert_eq!(described(&loaded, key).1, "default");
            assert_eq!(loaded.trust, Trust::Untrusted);
            // With trust it is as if the person had written it.
            let trusted = World::new().file(path, line).trusting().load().unwrap();
            assert_eq!(trusted.warnings, [""; 0], "{line}");
            assert_eq!(trusted.trust, Trust::Trusted);
            let own = World::new().file(path, "").file(EXPLICIT, "");
            let own = own.instead(EXPLICIT, line.replace("../x", "/w/.tooloop/../x"));
            let own = own.settings();
            if !["extra_ca_file", "models_file", "debug_file"].contains(&key) {
                assert_eq!(trusted.settings, own, "{line}");
            }
            assert_eq!(described(&trusted, key).1, format!("{path}:1"));
        }
    }
}

#[test]
fn a_folder_chooses_no_other_server() {
    let keys = [("XAI_API_KEY", "k"), ("GROQ_API_KEY", "k")];
    let world = |own: &str| {
        let world = World::new().file(USER, own.to_owned());
        keys.iter()
            .fold(world, |world, (name, value)| world.variable(name, value))
    };
    for (own, wanted, applies) in [
        ("model = \"xai/a\"", "xai/b", true),
        ("model = \"xai/a\"", "b", false),
        ("model = \"xai/a\"", "groq/b", false),
        ("model = \"groq/a\"", "xai/b", false),
        ("model = \"xai/a\"", "mistral/b", false),
        ("base_url = \"http://h.invalid\"", "b", true),
        ("base_url = \"http://h.invalid\"", "xai/b", false),
    ] {
        for key in ["model", "fallback_model", "explore_model"] {
            for path in [PROJECT, LOCAL] {
                let line = format!("{key} = \"{wanted}\"");
                let loaded = world(own).file(path, line.clone()).load().unwrap();
                let said =
                    format!("{path}:1:1: `{key}` is not applied: this folder is not trusted");
                let warnings: &[String] = &loaded.warnings;
                let applies = applies || key != "model" && wanted == "b";
                assert_eq!(warnings.contains(&said), !applies, "{own} {line}");
                let trusted = world(own).file(path, line).trusting().load().unwrap();
                assert_eq!(trusted.warnings, [""; 0], "{own} {key} {wanted}");
            }
        }
    }
    // A flag and a variable count too, and a name that no server has yet is as before.
    let flag = world("")
        .flag("model", "groq/a")
        .file(PROJECT, "fallback_model = \"groq/b\"");
    assert_eq!(flag.load().unwrap().warnings, [""; 0]);
    let variable = world("").variable("TOOLOOP_MODEL", "groq/a");
    let variable = variable.file(PROJECT, "fallback_model = \"xai/b\"");
    assert_eq!(variable.load().unwrap().warnings.len(), 2);
    let nothing = World::new().file(PROJECT, "model = \"xai/b\"");
    assert_eq!(nothing.load().unwrap().settings.model, None);
}

#[test]
fn a_person_may_set_all_of_it() {
    for path in [USER, EXPLICIT] {
        let text = "allowed_tools = [\"Bash\"]\npermission_mode = \"bypassPermissions\"\nspool_max_bytes = 2_000_000_000";
        let loaded = World::new().file(path, text).load().unwrap();
        assert_eq!(loaded.warnings, [""; 0]);
        assert_eq!(loaded.settings.permission_mode, Mode::BypassPermissions);
        assert_eq!(loaded.settings.allowed_tools, rules(&["Bash"]));
        assert_eq!(loaded.settings.spool_max_bytes, 2_000_000_000);
    }
}

#[test]
fn a_folder_only_takes_tools_away() {
    let table = [
        ("default", "read", "read"),
        ("default", "bash-only", "bash-only"),
        ("read", "default", "read"),
        ("read,grep", "grep", "grep"),
        ("read", "grep", "read"),
        ("bash-only", "none", "none"),
    ];
    for (before, after, expected) in table {
        let loaded = World::new()
            .file(USER, format!("tools = \"{before}\""))
            .file(PROJECT, format!("tools = \"{after}\""))
            .load()
            .unwrap();
        assert_eq!(
            loaded.settings.tools.to_string(),
            expected,
            "{before} {after}"
        );
        assert_eq!(
            loaded.warnings.is_empty(),
            after == expected,
            "{before} {after}"
        );
    }
}

#[test]
fn a_folder_only_narrows_the_mode() {
    for before in Mode::ALL {
        for after in Mode::ALL {
            let loaded = World::new()
                .file(USER, format!("permission_mode = \"{before}\""))
                .file(PROJECT, format!("permission_mode = \"{after}\""))
                .load()
                .unwrap();
            let narrows = match after {
                Mode::Plan => true,
                Mode::DontAsk => before != Mode::Plan,
                Mode::Default | Mode::AcceptEdits | Mode::BypassPermissions => false,
            };
            let expected = if narrows { after } else { before };
            assert_eq!(
                loaded.settings.permission_mode, expected,
                "{before} {after}"
            );
            // To say what is so anyway is nothing.
            let is_quiet = narrows || before == after;
            assert_eq!(loaded.warnings.is_empty(), is_quiet, "{before} {after}");
            // What no trust can do is not asked about.
            let is_asked_about = !is_quiet && after != Mode::BypassPermissions;
            assert_eq!(
                loaded.widenings.is_empty(),
                !is_asked_about,
                "{before} {after}"
            );
        }
    }
}

#[test]
fn no_trust_switches_all_questions_off() {
    let text = "permission_mode = \"bypassPermissions\"";
    let mut world = World::new().file(PROJECT, text);
    world.sources.approvals = Approvals::Everything;
    let loaded = world.load().unwrap();
    assert_eq!(loaded.settings.permission_mode, Mode::Default);
    assert_eq!(
        loaded.warnings,
        [format!(
            "{PROJECT}:1:1: `permission_mode` is not applied: no folder's file can switch all questions off"
        )]
    );
}

#[test]
fn what_changes_nothing_needs_no_trust() {
    for (own, folder) in [
        (
            "",
            "permission_mode = \"default\"\nallowed_tools = []\ncheckpoints = true",
        ),
        (
            "base_url = \"http://a\"\nallowed_tools = [\"Edit\"]",
            "base_url = \"http://a\"\nallowed_tools = [\"Edit\"]",
        ),
    ] {
        let loaded = World::new()
            .file(USER, own)
            .file(PROJECT, folder)
            .load()
            .unwrap();
        assert_eq!(loaded.trust, Trust::NotNeeded, "{folder}");
        assert_eq!(loaded.warnings, [""; 0]);
    }
    let json = "{\"permissions\": {\"defaultMode\": \"default\", \"allow\": []}}";
    let loaded = World::new().file(JSON_PROJECT, json).load().unwrap();
    assert_eq!(loaded.trust, Trust::NotNeeded);
}

#[test]
fn a_list_has_an_end() {
    let own = |count| format!("disallowed_tools = [{}]", "\"Edit\",".repeat(count));
    let json = |count| {
        let rules = vec!["\"Edit\""; count].join(",");
        format!("{{\"permissions\": {{\"deny\": [{rules}]}}}}")
    };
    for text in [own(2_000), json(2_000)] {
        let path = if text.starts_with('{') {
            JSON_PROJECT
        } else {
            PROJECT
        };
        assert_eq!(
            World::new().file(path, text).settings().disallowed_tools,
            rules(&["Edit"])
        );
    }
    for text in [own(2_001), json(2_001)] {
        let path = if text.starts_with('{') {
            JSON_PROJECT
        } else {
            PROJECT
        };
        let error = World::new().file(path, text).error();
        assert!(error.contains("holds more than 2000 items"), "{error}");
    }
}

#[test]
fn whether_json_is_read_is_no_affair_of_a_folder() {
    let mut world = World::new().file(PROJECT, "json_settings = false");
    world.sources.approvals = Approvals::Everything;
    let loaded = world.load().unwrap();
    assert!(loaded.settings.json_settings);
    assert_eq!(
        loaded.warnings,
        [format!(
            "{PROJECT}:1:1: `json_settings` is not applied: no folder's file can set it"
        )]
    );
}

#[test]
fn what_is_new_or_has_changed_since_needs_trust_again() {
    let hooks = |command: &str| format!("\n[[hooks]]\nevent = \"Stop\"\ncommand = \"{command}\"\n");
    let text = format!(
        "allowed_tools = [\"Read\", \"Edit\"]\nlog = \"info\"{}",
        hooks("one")
    );
    let world = World::new().file(PROJECT, text).trusting();
    assert_eq!(world.load().unwrap().trust, Trust::Trusted);
    // Less, in another order and in another file is no news.
    let text = format!("log = \"info\"\nallowed_tools = [\"Edit\"]{}", hooks("one"));
    let world = world.instead(PROJECT, "").file(LOCAL, text);
    assert_eq!(world.load().unwrap().trust, Trust::Trusted);
    let text = format!(
        "log = \"trace\"\nallowed_tools = [\"Edit\", \"Bash\"]{}{}",
        hooks("one"),
        hooks("two")
    );
    let loaded = world.instead(LOCAL, text).load().unwrap();
    assert_eq!(loaded.trust, Trust::Untrusted);
    assert_eq!(loaded.settings.log, None);
    assert_eq!(loaded.settings.allowed_tools, rules(&["Edit"]));
    let commands: Vec<_> = loaded
        .settings
        .hooks
        .iter()
        .map(|hook| &*hook.command)
        .collect();
    assert_eq!(commands, ["one"]);
    let news = "is not applied: it is new, or has changed since this folder was trusted";
    assert_eq!(
        loaded.warnings,
        [
            format!("{LOCAL}:1:1: `log` {news}"),
            format!("{LOCAL}:2:26: `allowed_tools` (Bash) {news}"),
            format!("{LOCAL}:7:1: `hooks` (Stop: two) {news}"),
            TRUST_HINT.to_owned(),
        ]
    );
    let left_out: Vec<_> = loaded
        .widenings
        .iter()
        .filter(|one| !one.approved)
        .collect();
    assert_eq!(left_out.len(), 3);
}

#[test]
fn a_flag_beats_the_mode_of_a_folder() {
    let world = World::new()
        .file(PROJECT, "permission_mode = \"plan\"")
        .flag("permission_mode", "acceptEdits");
    assert_eq!(world.settings().permission_mode, Mode::AcceptEdits);
}

#[test]
fn a_folder_lowers_the_spool_and_does_not_raise_it() {
    let spool = |folder: &str| {
        World::new()
            .file(USER, "spool_max_bytes = 1000")
            .file(PROJECT, format!("spool_max_bytes = {folder}"))
            .settings()
            .spool_max_bytes
    };
    assert_eq!(spool("999"), 999);
    assert_eq!(spool("1001"), 1000);
}

#[test]
fn wrong_values_in_a_folder_are_errors_even_where_they_would_not_be_applied() {
    let world = World::new().file(PROJECT, "allowed_tools = 3\nbase_url = 4");
    assert_eq!(world.error().lines().count(), 2);
}
