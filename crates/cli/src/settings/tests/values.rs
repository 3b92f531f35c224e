//! What each key takes, and what is said about all else.

use super::*;
use crate::settings::key::{find, nearest};

/// A key, a good value in TOML, the same for a variable, and how it is shown.
const GOOD: [(&str, &str, &str, &str); 51] = [
    ("model", "\"m-1\"", "m-1", "\"m-1\""),
    ("fallback_model", "'other'", "other", "\"other\""),
    ("explore_model", "'small'", "small", "\"small\""),
    (
        "models_file",
        "'/etc/models.toml'",
        "/etc/models.toml",
        "\"/etc/models.toml\"",
    ),
    (
        "base_url",
        "\"http://localhost:1/v1\"",
        "http://localhost:1/v1",
        "\"http://localhost:1/v1\"",
    ),
    ("api", "\"openai\"", "openai", "\"openai\""),
    (
        "key_variable",
        "\"TEAM_TOKEN\"",
        "TEAM_TOKEN",
        "\"TEAM_TOKEN\"",
    ),
    (
        "extra_ca_file",
        "\"/etc/ca.pem\"",
        "/etc/ca.pem",
        "\"/etc/ca.pem\"",
    ),
    (
        "reasoning_echo",
        "'reasoning_content'",
        "reasoning_content",
        "\"reasoning_content\"",
    ),
    ("context_window", "200_000", "200_000", "200000"),
    ("max_output_tokens", "0x1000", "4096", "4096"),
    ("compaction", "false", "false", "false"),
    ("stream_first_byte_timeout_ms", "1", "1", "1"),
    ("stream_idle_timeout_ms", "3000", " 3000 ", "3000"),
    (
        "stream_content_timeout_ms",
        "86400000",
        "86400000",
        "86400000",
    ),
    ("retry_base_ms", "0", "0", "0"),
    ("retry_max_wait_ms", "200", "200", "200"),
    ("retry_max_attempts", "4", "4", "4"),
    ("retry_max_total_ms", "5", "5", "5"),
    ("retry_after_max_ms", "6", "6", "6"),
    ("tool_timeout_ms", "600000", "600000", "600000"),
    ("background_wait_ms", "0", "0", "0"),
    ("max_parallel_tools", "1", "1", "1"),
    ("tools", "\"Read, bash\"", "Read bash", "\"bash,read\""),
    (
        "permission_mode",
        "\"acceptEdits\"",
        "acceptEdits",
        "\"acceptEdits\"",
    ),
    (
        "allowed_tools",
        "['Read', 'Bash(a b)']",
        "Read Bash(a b)",
        "[\"Read\", \"Bash(a b)\"]",
    ),
    (
        "ask_tools",
        "['Edit(src/**)']",
        "['Edit(src/**)']",
        "[\"Edit(src/**)\"]",
    ),
    (
        "disallowed_tools",
        "['mcp__a__*',]",
        "mcp__a__*",
        "[\"mcp__a__*\"]",
    ),
    (
        "additional_directories",
        "['/srv/x', '~/y']",
        "/srv/x, ~/y",
        "[\"/srv/x\", \"/home/me/y\"]",
    ),
    ("disable_bypass_permissions", "true", "true", "true"),
    ("allow_managed_rules_only", "true", "true", "true"),
    ("allow_managed_hooks_only", "true", "true", "true"),
    ("json_settings", "false", "false", "false"),
    (
        "private_hosts",
        "['localhost:8080', 'docs.local']",
        "localhost:8080 docs.local",
        "[\"localhost:8080\", \"docs.local\"]",
    ),
    ("sandbox", "\"off\"", "off", "\"off\""),
    (
        "sandbox_network",
        "[\"a.example\"]",
        "a.example",
        "\"a.example\"",
    ),
    ("sandbox_allows", "false", "false", "false"),
    ("sandbox_writable", "[\"/srv\"]", "/srv", "[\"/srv\"]"),
    ("sandbox_hidden", "[\"/keys\"]", "/keys", "[\"/keys\"]"),
    ("sandbox_caches", "false", "false", "false"),
    ("sandbox_hooks", "false", "false", "false"),
    ("instructions", "false", "false", "false"),
    ("shell", "\"/bin/zsh\"", "/bin/zsh", "\"/bin/zsh\""),
    ("spool_max_bytes", "1000", "1000", "1000"),
    ("checkpoints", "false", "false", "false"),
    ("memory", "false", "false", "false"),
    (
        "pass_environment",
        "['A_KEY', '_b']",
        "A_KEY,_b",
        "[\"A_KEY\", \"_b\"]",
    ),
    (
        "withhold_environment",
        "['TEAM_TOKEN']",
        "TEAM_TOKEN",
        "[\"TEAM_TOKEN\"]",
    ),
    ("debug_file", "'/tmp/a b'", "/tmp/a b", "\"/tmp/a b\""),
    ("log", "'tooloop=info'", "tooloop=info", "\"tooloop=info\""),
    (
        "otlp_endpoint",
        "'http://localhost:4318'",
        "http://localhost:4318",
        "\"http://localhost:4318\"",
    ),
];

#[test]
fn every_key_takes_a_good_value_from_every_kind_of_source() {
    let names = GOOD.map(|(key, ..)| key);
    assert_eq!(names, KEYS.each_ref().map(|key| key.name));
    // Some are for the managed file alone.
    let for_all = |key: &str| !key.starts_with("allow_managed_");
    for (key, toml, text, shown) in GOOD.into_iter().filter(|(key, ..)| for_all(key)) {
        let (_, known) = find(key).unwrap();
        let worlds = [
            World::new().file(USER, format!("{key} = {toml}")),
            World::new().variable(&known.variable(), text),
            World::new().flag(known.name, text),
        ];
        let loaded = worlds.map(|world| world.load().unwrap());
        for (loaded, origin) in loaded.iter().zip([
            format!("{USER}:1"),
            known.variable(),
            format!("--{}", key.replace('_', "-")),
        ]) {
            assert_eq!(described(loaded, key), (shown.to_owned(), origin), "{key}");
            let changed = loaded
                .describe()
                .iter()
                .filter(|(.., origin, _)| origin != "default")
                .count();
            assert_eq!(changed, if key == "key_variable" { 2 } else { 1 }, "{key}");
        }
        assert_eq!(loaded[0].settings, loaded[1].settings, "{key}");
        assert_eq!(loaded[0].settings, loaded[2].settings, "{key}");
    }
}

#[test]
fn typed_fields_hold_what_was_written() {
    let settings = World::new()
        .file(
            USER,
            "api = \"anthropic\"\nreasoning_echo = \"never\"\nretry_base_ms = 200\n\
             retry_max_attempts = 4\nmax_parallel_tools = 3\npermission_mode = \"bypassPermissions\"\n\
             context_window = 32000\ntool_timeout_ms = 10_000\nshell = \"~/bin/sh\"",
        )
        .settings();
    let expected = Settings {
        api: Some(WireFormat::AnthropicMessages),
        reasoning_echo: ReasoningEcho::Never,
        retry_base: Duration::from_millis(200),
        retry_max_attempts: 4,
        max_parallel_tools: 3,
        permission_mode: Mode::BypassPermissions,
        context_window: Some(32_000),
        tool_timeout: Duration::from_secs(10),
        shell: Some("/home/me/bin/sh".into()),
        ..Settings::default()
    };
    assert_eq!(settings, expected);
}

#[test]
fn reasoning_echo_takes_words_and_fields_but_no_slips() {
    let echo = |word: &str| {
        let loaded = World::new().flag("reasoning_echo", word).load();
        loaded.ok().map(|loaded| loaded.settings.reasoning_echo)
    };
    assert_eq!(echo("auto"), Some(ReasoningEcho::Auto));
    assert_eq!(echo("as_received"), Some(ReasoningEcho::AsReceived));
    assert_eq!(
        echo("reasoning"),
        Some(ReasoningEcho::Field("reasoning".to_owned()))
    );
    for word in ["", "Auto", "nevr", "as-received", "a b", "x.y", "NEVER"] {
        assert_eq!(echo(word), None, "{word:?}");
    }
}

#[test]
fn wrong_values_are_named_with_place_and_what_is_allowed() {
    let table = [
        (
            "modle = \"x\"",
            "1:1: unknown key `modle`, the nearest valid key is `model`",
        ),
        (
            "\n\n  'permisson mode' = 1",
            "3:3: unknown key `permisson mode`, the nearest valid key is `permission_mode`",
        ),
        (
            "xyzzy = 1",
            "1:1: unknown key `xyzzy`, `tooloop config` lists the keys there are",
        ),
        (
            "[permissions]\ndeny = []",
            "1:2: unknown key `permissions`, the nearest valid key is `disallowed_tools` \
             (only hooks are tables: other keys stand at the top)",
        ),
        (
            "model.name = \"x\"",
            "1:1: `model` must be a string that is not empty, not a table",
        ),
        (
            "model = \" \"",
            "1:9: `model` must be a string that is not empty, not \" \"",
        ),
        (
            "model = 5",
            "1:9: `model` must be a string that is not empty, not the number 5",
        ),
        (
            "# ä\nmodel = true",
            "2:9: `model` must be a string that is not empty, not true",
        ),
        (
            "tool_timeout_ms = 600001",
            "1:19: `tool_timeout_ms` must be a whole number from 1 to 600000, not 600001",
        ),
        (
            "tool_timeout_ms = -1",
            "1:19: `tool_timeout_ms` must be a whole number from 1 to 600000, not -1",
        ),
        (
            "tool_timeout_ms = 0",
            "1:19: `tool_timeout_ms` must be a whole number from 1 to 600000, not 0",
        ),
        (
            "tool_timeout_ms = \"5000\"",
            "1:19: `tool_timeout_ms` must be a whole number from 1 to 600000, not the string \"5000\"",
        ),
        (
            "tool_timeout_ms = 1.5",
            "1:19: `tool_timeout_ms` must be a whole number from 1 to 600000, not the number 1.5",
        ),
        (
            "tool_timeout_ms = 99999999999999999999999999999999999999999",
            "1:19: `tool_timeout_ms` must be a whole number from 1 to 600000, not a number of that size",
        ),
        (
            "tool_timeout_ms = 2026-01-01",
            "1:19: `tool_timeout_ms` must be a whole number from 1 to 600000, not a date",
        ),
        (
            "retry_max_attempts = 0",
            "1:22: `retry_max_attempts` must be a whole number from 1 to 1000, not 0",
        ),
        (
            "permission_mode = \"yolo\"",
            "1:19: `permission_mode` must be one of default, acceptEdits, plan, dontAsk, \
             bypassPermissions, not \"yolo\"",
        ),
        (
            "api = \"smoke\"",
            "1:7: `api` must be one of anthropic, openai, not \"smoke\"",
        ),
        (
            "sandbox = \"none\"",
            "1:11: `sandbox` must be one of auto, workspace, read-only, required, off, not \"none\"",
        ),
        (
            "sandbox = false",
            "1:11: `sandbox` must be one of auto, workspace, read-only, required, off, not false",
        ),
        (
            "shell = \"zsh\"",
            "1:9: `shell` must be an absolute path of a program, not \"zsh\"",
        ),
        (
            "disallowed_tools = \"Bash(touch *)\"",
            "1:20: `disallowed_tools` must be a list of rules such as [\"Bash(git log *)\"], \
             not the string \"Bash(touch *)\"",
        ),
        (
            "disallowed_tools = [\"Read\",\n  \"Bash(touch *\",\n]",
            "2:3: `disallowed_tools` has a wrong rule: the rule `Bash(touch *` does not end with \
             the closing bracket of its specifier",
        ),
        (
            "ask_tools = [[\"Read\"]]",
            "1:14: `ask_tools` must hold strings only, not a list",
        ),
        (
            "pass_environment = [\"A=kk-B\"]",
            "1:21: `pass_environment` must hold names of environment variables only: letters, digits and `_`",
        ),
        (
            "model = \"a\"\nmodel = \"b\"",
            "2:1: not valid TOML: duplicate key",
        ),
        (
            "extra_ca_file = \"\"",
            "1:17: `extra_ca_file` must be a path, not \"\"",
        ),
    ];
    for (text, expected) in table {
        assert_eq!(
            World::new().file(USER, text).error(),
            format!("{USER}:{expected}"),
            "{text:?}"
        );
    }
}

#[test]
fn words_of_the_network_are_not_taken_for_hosts() {
    for (text, expected) in [
        ("\"off\"", Ok("\"off\"")),
        ("\"on\"", Ok("\"on\"")),
        ("[]", Ok("\"off\"")),
        (
            "[\"a.example\", \"*.b.example\"]",
            Ok("\"a.example, *.b.example\""),
        ),
        ("\"of\"", Err("must be off, on, or a list of hosts")),
        (
            "[\"on\", \"x\"]",
            Err("must be off, on, or a list of hosts"),
        ),
        ("[\"a/b.c\"]", Err("has a wrong host")),
        ("[1]", Err("must be off, on, or a list of hosts")),
    ] {
        let world = World::new().file(USER, format!("sandbox_network = {text}"));
        match expected {
            Ok(shown) => {
                let described = world.load().unwrap().describe();
                let found = described.iter().find(|(key, ..)| *key == "sandbox_network");
                assert_eq!(found.unwrap().1, shown, "{text}");
            }
            Err(words) => {
                let error = world.error();
                assert!(error.contains(words), "{text}: {error}");
            }
        }
    }
}

#[test]
fn wrong_values_of_variables_and_flags_are_named() {
    let world = World::new()
        .variable("TOOLOOP_TOOL_TIMEOUT_MS", "2 min")
        .variable("TOOLOOP_ALLOWED_TOOLS", "Bash(ls")
        .flag("model", "")
        .flag("ask_tools", "Read, (x)");
    assert_eq!(
        world.error(),
        "TOOLOOP_ALLOWED_TOOLS: `allowed_tools` has a bracket that is not closed; write a list like \
         [\"Bash(git log *)\", \"Read\"] if a rule holds a single bracket\n\
         TOOLOOP_TOOL_TIMEOUT_MS: `tool_timeout_ms` must be a whole number from 1 to 600000, not \"2 min\"\n\
         --model: `model` must be a string that is not empty, not \"\"\n\
         --ask-tools: `ask_tools` has a wrong rule: a permission rule starts with the name of a tool"
    );
}

#[test]
fn a_secret_in_the_wrong_place_is_not_repeated() {
    let texts = [
        "base_url = \"kk-SECRET\"",
        "base_url = \"https://a b:kk-SECRET@host\"",
        "key_variable = \"kk-SECRET\"",
        "key_variable = [\"kk-SECRET\"]",
        "pass_environment = [\"TOKEN=kk-SECRET\"]",
        "withhold_environment = \"kk-SECRET\"",
        "api_key = \"kk-SECRET\"",
        "model = kk-SECRET",
    ];
    for text in texts {
        let error = World::new().file(USER, text).error();
        assert!(!error.contains("kk-"), "{error}");
    }
    for (key, value) in [
        ("base_url", "kk-SECRET"),
        ("key_variable", "kk-SECRET"),
        ("pass_environment", "kk-SECRET"),
    ] {
        let error = World::new().flag(key, value).error();
        assert!(!error.contains("kk-"), "{error}");
    }
}

#[test]
fn what_a_file_says_cannot_steer_a_terminal() {
    let texts = [
        "\"\\u001b[2Jx\" = 1",
        "model = \"\\u001b[2J\"",
        "permission_mode = \"\\u0007\\n\"",
        "disallowed_tools = [\"Bash(\\u001b[2J\"]",
        "disallowed_tools = [\"B\\u009b(x)\"]",
    ];
    for text in texts {
        let error = World::new().file(USER, text).error();
        assert!(!error.chars().any(char::is_control), "{error:?}");
    }
}

#[test]
fn the_nearest_key_is_the_one_that_was_meant() {
    let table = [
        ("modle", "model"),
        ("Model", "model"),
        ("baseurl", "base_url"),
        ("baseUrl", "base_url"),
        ("disallowedTools", "disallowed_tools"),
        ("disallowed-tools", "disallowed_tools"),
        ("dissallow", "disallowed_tools"),
        ("disallow_tools", "disallowed_tools"),
        ("deny", "disallowed_tools"),
        ("allowedTools", "allowed_tools"),
        ("allow_tools", "allowed_tools"),
        ("permissionMode", "permission_mode"),
        ("retry_attempts", "retry_max_attempts"),
        ("stream_idle_timeout", "stream_idle_timeout_ms"),
        ("tool_timeout", "tool_timeout_ms"),
        ("api_key", "key_variable"),
        ("max_parallel", "max_parallel_tools"),
        ("sandox", "sandbox"),
    ];
    for (wrong, right) in table {
        assert_eq!(nearest(wrong), Some(right), "{wrong}");
    }
    for wrong in ["", "q", "xyzzy", "日本"] {
        assert_eq!(nearest(wrong), None, "{wrong}");
    }
}

/// Settings files as people save them: the deny rule is obeyed, or the file is refused at its place.
#[test]
fn a_deny_rule_never_vanishes() {
    let obeyed: [(&str, &[u8]); 7] = [
        (
            "byte order mark and CRLF",
            b"\xef\xbb\xbfmodel = \"m\"\r\ndisallowed_tools = [\r\n  \"Bash(touch *)\",\r\n]\r\n",
        ),
        (
            "comment and trailing comma",
            b"# rules\ndisallowed_tools = [\n  \"Bash(touch *)\", # no touching\n]\n",
        ),
        (
            "no newline at the end",
            b"disallowed_tools = [\"Bash(touch *)\"]",
        ),
        ("literal string", b"disallowed_tools = ['Bash(touch *)']"),
        ("quoted key", b"\"disallowed_tools\" = [\"Bash(touch *)\"]"),
        (
            "byte order mark only",
            b"\xef\xbb\xbfdisallowed_tools = [\"Bash(touch *)\"]",
        ),
        ("escapes", b"disallowed_tools = [\"Bash(\\u0074ouch *)\"]"),
    ];
    let refused: [(&str, &[u8], &str); 9] = [
        (
            "misspelt key",
            b"disalowed_tools = [\"Bash(touch *)\"]",
            "1:1: unknown key `disalowed_tools`, the nearest valid key is `disallowed_tools`",
        ),
        (
            "cut in the list",
            b"model = \"m\"\ndisallowed_tools = [\"Bash(touch *)\"",
            "2:",
        ),
        ("cut in the string", b"disallowed_tools = [\"Bash(to", "1:"),
        ("cut in the key", b"model = \"m\"\ndisallo", "2:"),
        (
            "wrong type",
            b"disallowed_tools = true",
            "1:20: `disallowed_tools` must be a list",
        ),
        (
            "wrong type beside it",
            b"disallowed_tools = [\"Bash(touch *)\"]\nmodel = 1",
            "2:9: `model` must be",
        ),
        (
            "not UTF-8",
            b"# caf\xe9\ndisallowed_tools = [\"Bash(touch *)\"]",
            "1:6: cannot read settings: it is not UTF-8 text",
        ),
        (
            "UTF-16",
            b"\xff\xfed\0i\0s\0",
            "1:1: cannot read settings: it is not UTF-8 text",
        ),
        (
            "JSON",
            b"{ \"disallowed_tools\": [\"Bash(touch *)\"] }",
            "1:1: not valid TOML",
        ),
    ];
    for path in [USER, PROJECT, LOCAL, EXPLICIT] {
        for (form, bytes) in obeyed {
            let settings = World::new().file(path, bytes).settings();
            assert_eq!(
                settings.disallowed_tools,
                rules(&["Bash(touch *)"]),
                "{form}"
            );
        }
        for (form, bytes, expected) in refused {
            let error = World::new().file(path, bytes).error();
            assert!(
                error.starts_with(&format!("{path}:{expected}")),
                "{form}: {error}"
            );
        }
        for empty in ["", "\u{feff}", "\n", "# nothing\r\n"] {
            assert_eq!(
                World::new().file(path, empty).settings(),
                Settings::default()
            );
        }
    }
}

#[test]
fn a_file_cut_anywhere_is_obeyed_as_far_as_it_goes_or_refused() {
    let whole = "model = \"m\"\ntool_timeout_ms = 90000\ndisallowed_tools = [\"Bash(touch *)\"]\nask_tools = []\n";
    let rule_end = whole.find("]\n").unwrap() + 1;
    let rule_start = whole.find("disallowed").unwrap();
    let mut refused = 0;
    for cut in 0..=whole.len() {
        match World::new().file(USER, &whole[..cut]).load() {
            Ok(loaded) => {
                assert!(cut <= rule_start || cut >= rule_end, "{cut}");
                let is_there = loaded.settings.disallowed_tools == rules(&["Bash(touch *)"]);
                assert_eq!(is_there, cut >= rule_end, "{cut}");
            }
            Err(error) => {
                refused += 1;
                let Place::File {
                    at: Some((line, _)),
                    ..
                } = error.problems[0].place
                else {
                    panic!("no line for a cut at {cut}");
                };
                assert_eq!(
                    line,
                    whole[..cut].matches('\n').count() + 1,
                    "{cut}: {error}"
                );
            }
        }
    }
    assert!(refused > 40, "{refused}");
}
