//! Which source wins, and what is said about where a value came from.

use std::cell::RefCell;
use std::os::unix::ffi::OsStringExt as _;

use super::*;

#[test]
fn without_any_source_all_is_default_and_only_the_files_are_asked_for() {
    let asked = RefCell::new(Vec::new());
    let world = World::new();
    let loaded = load_with(&world.sources, &|path: &Path, demand| {
        assert_eq!(demand, Demand::Optional);
        asked.borrow_mut().push(path.to_owned());
        Err(io::ErrorKind::NotFound.into())
    })
    .unwrap();
    assert_eq!(loaded.settings, Settings::default());
    assert_eq!(loaded.warnings, [""; 0]);
    assert!(
        loaded
            .describe()
            .iter()
            .all(|(.., origin, _)| origin == "default")
    );
    let expected = [
        USER,
        PROJECT,
        LOCAL,
        MANAGED_FILE,
        JSON_USER,
        JSON_PROJECT,
        JSON_LOCAL,
        JSON_MANAGED,
    ];
    assert_eq!(asked.take(), expected.map(PathBuf::from));
}

#[test]
fn a_later_source_replaces_a_value() {
    type Add = fn(World) -> World;
    let steps: [(&str, Add); 8] = [
        ("default", |world| world),
        ("/u/config.toml:2", |world| {
            world.file(USER, "\nmodel = \"m1\"")
        }),
        ("/w/.tooloop/config.toml:1", |world| {
            world.file(PROJECT, "model = \"m2\"")
        }),
        ("/w/.tooloop/local.toml:1", |world| {
            world.file(LOCAL, "model = \"m3\"")
        }),
        ("/x/extra.toml:1", |world| {
            world.file(EXPLICIT, "model = \"m4\"")
        }),
        ("TOOLOOP_MODEL", |world| {
            world.variable("TOOLOOP_MODEL", "m5")
        }),
        ("--model", |world| world.flag("model", "m6")),
        ("/etc/m.toml:1", |world| {
            world.file(MANAGED_FILE, "model = \"m7\"")
        }),
    ];
    let mut world = World::new();
    for (number, (origin, add)) in steps.into_iter().enumerate() {
        world = add(world);
        let loaded = world.load().unwrap();
        let (value, from) = described(&loaded, "model");
        assert_eq!(from, origin);
        match number {
            0 => assert_eq!((loaded.settings.model, value), (None, "not set".to_owned())),
            _ => assert_eq!(value, format!("\"m{number}\"")),
        }
    }
}

#[test]
fn lists_add_up_over_all_sources() {
    let loaded = World::new()
        .file(
            USER,
            "disallowed_tools = [\"Bash(a)\"]\nallowed_tools = [\"Read\"]",
        )
        .file(PROJECT, "disallowed_tools = [\"Bash(b)\", \"Bash(a)\"]")
        .file(LOCAL, "disallowed_tools = []")
        .file(EXPLICIT, "# deny\ndisallowed_tools = [\"Bash(c)\"]")
        .variable("TOOLOOP_DISALLOWED_TOOLS", "Bash(d) Bash(a)")
        .flag("disallowed_tools", "Bash(e), Edit")
        .flag("disallowed_tools", "Write")
        .flag("allowed_tools", "Bash(git log *)")
        .load()
        .unwrap();
    assert_eq!(
        loaded.settings.disallowed_tools,
        rules(&[
            "Bash(a)", "Bash(b)", "Bash(c)", "Bash(d)", "Bash(e)", "Edit", "Write"
        ])
    );
    assert_eq!(
        loaded.settings.allowed_tools,
        rules(&["Read", "Bash(git log *)"])
    );
    assert_eq!(
        described(&loaded, "disallowed_tools"),
        (
            r#"["Bash(a)", "Bash(b)", "Bash(c)", "Bash(d)", "Bash(e)", "Edit", "Write"]"#
                .to_owned(),
            "/u/config.toml:1, /w/.tooloop/config.toml:1, /w/.tooloop/local.toml:1, \
             /x/extra.toml:2, TOOLOOP_DISALLOWED_TOOLS, --disallowed-tools"
                .to_owned()
        )
    );
}

#[test]
fn all_that_is_wrong_is_reported_together_in_the_order_of_the_sources() {
    let world = World::new()
        .file(USER, "zeal = 1\nmodle = \"x\"\napi = \"smoke\"")
        .file(PROJECT, "model = ")
        .file(LOCAL, b"model = \"\xff\"".as_slice())
        .file(EXPLICIT, "disallowed_tools = [\"Bash(\", 3, \"Read\"]")
        .variable("TOOLOOP_TOOL_TIMEOUT_MS", "soon")
        .variable("TOOLOOP_ALLOWED_TOOLS", "Bash(ls Read")
        .flag("permission_mode", "yolo");
    let error = world.load().unwrap_err();
    let places: Vec<String> = error
        .problems
        .iter()
        .map(|problem| problem.place.to_string())
        .collect();
    assert_eq!(
        places,
        [
            "/u/config.toml:1:1",
            "/u/config.toml:2:1",
            "/u/config.toml:3:7",
            "/w/.tooloop/config.toml:1:9",
            "/w/.tooloop/local.toml:1:10",
            "/x/extra.toml:1:21",
            "/x/extra.toml:1:30",
            "TOOLOOP_ALLOWED_TOOLS",
            "TOOLOOP_TOOL_TIMEOUT_MS",
            "--permission-mode",
        ]
    );
    assert_eq!(error.to_string().lines().count(), places.len());
}

#[test]
fn a_missing_file_is_fine_unless_it_was_asked_for() {
    let mut world = World::new();
    world.sources.explicit = Some(EXPLICIT.into());
    assert_eq!(
        world.error(),
        "/x/extra.toml: cannot read settings: there is no such file"
    );
}

#[test]
fn variables_that_mean_nothing_are_named_with_the_nearest() {
    let loaded = World::new()
        .variable("TOOLOOP_MODLE", "kk-SECRET")
        .variable("TOOLOOP_Model", "kk-SECRET")
        .variable("TOOLOOP_QQQ", "kk-SECRET")
        .variable("TOOLOOP_RUN", "kk-SECRET")
        .variable("TOOLOOP_BASH_ENV", "kk-SECRET")
        .variable("TOOLOOP_TRANSCRIPTS", "kk-SECRET")
        .variable("XTOOLOOP_MODEL", "kk-SECRET")
        .variable("tooloop_model", "kk-SECRET")
        .load()
        .unwrap();
    assert_eq!(
        loaded.warnings,
        [
            "TOOLOOP_MODLE is no setting, the nearest is TOOLOOP_MODEL",
            "TOOLOOP_Model is no setting, the nearest is TOOLOOP_MODEL",
            "TOOLOOP_QQQ is no setting",
        ]
    );
    assert_eq!(loaded.settings, Settings::default());
}

#[test]
fn an_empty_variable_is_not_set() {
    let world = World::new()
        .variable("TOOLOOP_MODEL", "")
        .variable("TOOLOOP_TOOL_TIMEOUT_MS", "");
    assert_eq!(world.settings(), Settings::default());
}

#[test]
fn a_variable_that_is_no_text_is_refused_by_name() {
    let mut world = World::new();
    let value = OsString::from_vec(b"Bash(touch \xff)".to_vec());
    world
        .sources
        .environment
        .push(("TOOLOOP_DISALLOWED_TOOLS".into(), value));
    assert_eq!(
        world.error(),
        "TOOLOOP_DISALLOWED_TOOLS: `disallowed_tools` is not UTF-8 text"
    );
}

#[test]
fn an_unknown_flag_key_is_refused() {
    let world = World::new().flag("modle", "x");
    assert_eq!(
        world.error(),
        "--modle: unknown key `modle`, the nearest valid key is `model`"
    );
}

#[test]
fn the_users_file_is_found_by_absolute_variables_only() {
    let home = ("HOME", "/home/me");
    type Variables = [(&'static str, &'static str)];
    let table: [(&Variables, Option<&str>); 6] = [
        (&[], None),
        (&[home], Some("/home/me/.config/tooloop/config.toml")),
        (
            &[home, ("XDG_CONFIG_HOME", "/c")],
            Some("/c/tooloop/config.toml"),
        ),
        (&[("XDG_CONFIG_HOME", "/c")], Some("/c/tooloop/config.toml")),
        (
            &[home, ("XDG_CONFIG_HOME", "c")],
            Some("/home/me/.config/tooloop/config.toml"),
        ),
        (&[("HOME", ""), ("XDG_CONFIG_HOME", "")], None),
    ];
    for (variables, expected) in table {
        assert_eq!(
            user_of(variables),
            expected.map(PathBuf::from),
            "{variables:?}"
        );
    }
}

#[test]
fn paths_start_from_where_they_are_written() {
    let table: [(World, Option<&str>); 6] = [
        (
            World::new().file(USER, "extra_ca_file = \"ca.pem\""),
            Some("/u/ca.pem"),
        ),
        (
            World::new().file(USER, "extra_ca_file = \"/ca.pem\""),
            Some("/ca.pem"),
        ),
        (
            World::new().file(USER, "extra_ca_file = \"~/ca.pem\""),
            Some("/home/me/ca.pem"),
        ),
        (
            World::new().file(EXPLICIT, "extra_ca_file = \"ca.pem\""),
            Some("/x/ca.pem"),
        ),
        (
            World::new().variable("TOOLOOP_EXTRA_CA_FILE", "ca.pem"),
            Some("/w/ca.pem"),
        ),
        (
            World::new().flag("extra_ca_file", "../ca.pem"),
            Some("/w/../ca.pem"),
        ),
    ];
    for (world, expected) in table {
        assert_eq!(world.settings().extra_ca_file, expected.map(PathBuf::from));
    }
    let mut world = World::new().file("extra.toml", "extra_ca_file = \"ca.pem\"");
    world.sources.explicit = Some("extra.toml".into());
    assert_eq!(world.settings().extra_ca_file, Some("/w/ca.pem".into()));

    let mut homeless = World::new().flag("extra_ca_file", "~/ca.pem");
    homeless.sources.environment.clear();
    assert_eq!(
        homeless.error(),
        "--extra-ca-file: `extra_ca_file` must be a path, not \"~/ca.pem\""
    );
}

#[test]
fn the_key_variable_is_withheld() {
    let loaded = World::new()
        .file(
            USER,
            "key_variable = \"TEAM_WORD\"\nwithhold_environment = [\"OTHER\"]",
        )
        .load()
        .unwrap();
    assert_eq!(loaded.settings.withhold_environment, ["OTHER", "TEAM_WORD"]);
    assert_eq!(
        described(&loaded, "withhold_environment").1,
        "/u/config.toml:2, /u/config.toml:1"
    );
    let again = World::new().file(USER, "key_variable = \"A\"\nwithhold_environment = [\"A\"]");
    assert_eq!(again.settings().withhold_environment, ["A"]);
}

#[test]
fn a_login_within_an_address_is_not_shown() {
    let table = [
        ("https://me:kk-A@host/v1", "\"https://...@host/v1\""),
        ("https://host/v1?key=kk-A", "\"https://host/v1?...\""),
        ("https://host/v1", "\"https://host/v1\""),
        ("http://127.0.0.1:8080", "\"http://127.0.0.1:8080\""),
        ("https://host/a@b", "\"https://host/a@b\""),
    ];
    for (url, expected) in table {
        let loaded = World::new().flag("base_url", url).load().unwrap();
        assert_eq!(loaded.settings.base_url.as_deref(), Some(url));
        assert_eq!(described(&loaded, "base_url").0, expected);
    }
}
