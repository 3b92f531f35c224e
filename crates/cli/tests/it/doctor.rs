//! `tooloop doctor` in worlds that are well and in worlds that are not.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tooloop_testkit::run::{Finished, Run};
use tooloop_testkit::{ModelServer, Scratch};

use crate::support::{Api, ask, bare, end, journal};

const KEY: &str = "kk-SECRET-4711";

fn well(scratch: &Scratch) -> Run {
    bare(scratch)
        .env("OPENAI_API_KEY", KEY)
        .env("TOOLOOP_MODEL", "openai/m")
        .arg("doctor")
}

/// The report as an object, and how the program ended.
fn examined(run: Run) -> (Value, Finished) {
    let finished = end(&run.arg("--json").start());
    assert_eq!(finished.stderr.text(), "", "{finished}");
    let report: Value = serde_json::from_str(&finished.stdout.text()).unwrap();
    assert_eq!(report["type"], "doctor");
    assert_eq!(
        report["ok"].as_bool(),
        Some(finished.code == Some(0)),
        "{finished}"
    );
    assert!(matches!(finished.code, Some(0 | 1)), "{finished}");
    (report, finished)
}

fn checks(report: &Value) -> &Vec<Value> {
    report["checks"].as_array().unwrap()
}

/// The texts of the checks of that name and status.
fn texts(report: &Value, name: &str, status: &str) -> Vec<String> {
    let named = checks(report)
        .iter()
        .filter(|check| check["name"] == name && check["status"] == status);
    named
        .map(|check| check["text"].as_str().unwrap().to_owned())
        .collect()
}

fn problems(report: &Value) -> Vec<&str> {
    let problems = checks(report)
        .iter()
        .filter(|check| check["status"] == "problem");
    problems
        .map(|check| check["name"].as_str().unwrap())
        .collect()
}

/// All that is there.
fn all_below(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(all_below(&path));
        }
        found.insert(path);
    }
    found
}

#[test]
fn all_is_well_and_nothing_is_changed() {
    let scratch = Scratch::new();
    let before = all_below(scratch.root());
    let (report, finished) = examined(well(&scratch));
    assert_eq!(problems(&report), [""; 0], "{finished}");
    finished.assert_code(0);
    for name in [
        "version",
        "platform",
        "user",
        "clock",
        "open files",
        "memory",
        "terminal",
        "proxies",
        "mechanism",
        "folder",
        "source",
        "settings",
        "shell",
        "git",
        "keys",
        "withheld",
        "local servers",
        "trust",
        "setting",
        "model",
        "sessions",
        "disk",
    ] {
        let found = checks(&report).iter().any(|check| check["name"] == name);
        assert!(found, "{name} in {finished}");
    }
    assert_eq!(texts(&report, "keys", "ok"), ["set: OPENAI_API_KEY"]);
    assert!(!finished.stdout.text().contains(KEY));
    assert_eq!(all_below(scratch.root()), before);

    let told = end(&well(&scratch).start());
    told.assert_code(0);
    let text = told.stdout.text();
    assert!(!text.contains(KEY) && !text.contains('\u{1b}'), "{text}");
    let last = text.lines().last().unwrap();
    assert!(
        last == "All is well." || last.starts_with("No problem; "),
        "{last}"
    );
    // A path may be longer; all else fits.
    let too_wide = text.lines().filter(|line| line.chars().count() > 80);
    let wide: Vec<_> = too_wide.filter(|line| !line.contains('/')).collect();
    assert_eq!(wide, [""; 0], "{text}");
    assert_eq!(all_below(scratch.root()), before);
}

#[test]
fn each_fault_of_the_settings_is_named_by_its_place() {
    let scratch = Scratch::new();
    let user = scratch.write(
        scratch.config().join("tooloop/config.toml"),
        "modle = \"x\"\nmax_parallel_tools = \"many\"\n",
    );
    scratch.write(".tooloop/local.toml", "= broken\n");
    let (report, finished) = examined(well(&scratch).env("TOOLOOP_TOOL_TIMEOUT_MS", "soon"));
    finished.assert_code(1);
    let problems = texts(&report, "settings", "problem");
    assert_eq!(problems.len(), 4, "{problems:?}");
    assert!(problems[0].starts_with(&format!("{}:1:1: unknown key `modle`", user.display())));
    assert!(
        problems[1].starts_with(&format!("{}:2:22: ", user.display())),
        "{problems:?}"
    );
    assert!(
        problems[2].contains("local.toml:1:1: not valid TOML"),
        "{problems:?}"
    );
    assert!(
        problems[3].starts_with("TOOLOOP_TOOL_TIMEOUT_MS: "),
        "{problems:?}"
    );
    // The rest was looked at all the same.
    assert_eq!(texts(&report, "shell", "ok").len(), 1, "{finished}");
}

#[test]
fn without_a_home_or_a_key_it_says_what_is_missing() {
    let scratch = Scratch::new();
    let mut run = bare(&scratch).arg("doctor");
    for name in [
        "HOME",
        "XDG_DATA_HOME",
        "XDG_CONFIG_HOME",
        "XDG_STATE_HOME",
        "XDG_CACHE_HOME",
    ] {
        run = run.env_remove(name);
    }
    let (report, finished) = examined(run.env("TOOLOOP_MODEL", "openai/m"));
    finished.assert_code(1);
    assert_eq!(problems(&report), ["model", "sessions"], "{finished}");
    assert_eq!(texts(&report, "keys", "ok"), ["none is set"]);
    let model = &texts(&report, "model", "problem")[0];
    assert!(model.contains("set OPENAI_API_KEY"), "{model}");
}

#[test]
fn what_cannot_be_used_is_named() {
    let scratch = Scratch::new();
    scratch.write(scratch.data().join("tooloop/sessions"), "no folder");
    let run = well(&scratch)
        .env(
            "TOOLOOP_SHELL",
            scratch.root().join("no-shell").display().to_string(),
        )
        .env("HTTPS_PROXY", "http://me:proxy-password@proxy:port")
        .env("TEAM_LOGIN", "kk with blanks\n")
        .env("TOOLOOP_KEY_VARIABLE", "TEAM_LOGIN")
        .args(["--cd", "no/such/folder"]);
    let (report, finished) = examined(run);
    finished.assert_code(1);
    let expected = ["proxies", "folder", "shell", "sessions"];
    assert_eq!(problems(&report), expected, "{finished}");
    assert!(
        texts(&report, "sessions", "problem")[0].ends_with("is no folder"),
        "{finished}"
    );
    assert_eq!(
        texts(&report, "keys", "warning"),
        ["there are blanks or line ends in TEAM_LOGIN"]
    );
    let text = finished.stdout.text();
    assert!(
        !text.contains("proxy-password") && !text.contains("kk with"),
        "{text}"
    );
}

#[test]
fn damaged_sessions_and_an_open_folder_are_found() {
    let api = Api::Messages;
    let scratch = Scratch::new();
    let server = ModelServer::start([api.say("one"), api.say("two")]);
    let whole = ask(&scratch, &server, api, "go").session();
    let torn = ask(&scratch, &server, api, "go").session();
    let (report, _) = examined(well(&scratch));
    assert_eq!(texts(&report, "damage", "ok"), ["none in the newest 2"]);

    crate::support::damages_journals();
    let path = journal(&scratch, &torn);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 20]).unwrap();
    let root = scratch.data().join("tooloop/sessions");
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
    let before = fs::read(&path).unwrap();
    let (report, finished) = examined(well(&scratch));
    finished.assert_code(0);
    assert_eq!(texts(&report, "damage", "warning"), [format!("in {torn}")]);
    assert!(!finished.stdout.text().contains(&whole));
    assert!(
        texts(&report, "sessions", "warning")[0].contains("(mode 755)"),
        "{finished}"
    );
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn few_descriptors_and_a_reader_that_is_gone_are_no_trouble() {
    let scratch = Scratch::new();
    let binary = env!("CARGO_BIN_EXE_tooloop");
    let run = |line: &str| {
        let run = Run::new("/bin/sh")
            .home(&scratch)
            .env("OPENAI_API_KEY", KEY);
        end(&run
            .env("TOOLOOP_MODEL", "openai/m")
            .args(["-c", line, binary])
            .start())
    };
    let finished = run("ulimit -n 100; exec \"$0\" doctor --json");
    finished.assert_code(0);
    let report: Value = serde_json::from_str(&finished.stdout.text()).unwrap();
    assert_eq!(texts(&report, "open files", "warning"), ["100 (ulimit -n)"]);
    if Path::new("/dev/full").exists() {
        let finished = run("exec \"$0\" doctor > /dev/full");
        finished.assert_code(54);
        assert!(
            finished
                .stderr
                .text()
                .contains("cannot write to standard output"),
            "{finished}"
        );
    } else {
        println!("skipped: there is no /dev/full here");
    }
}
