//! The rules of the house that a machine can keep.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may fail where it stands"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What each room may import of ours, beside what the tests use.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("policy", &[]),
    ("exec", &[]),
    ("kernel", &["model", "policy"]),
    ("provider", &["model"]),
    ("tool", &["model", "policy"]),
    ("tools", &["tool", "exec", "model", "policy"]),
    ("session", &["kernel", "model"]),
    (
        "",
        &[
            "kernel", "model", "policy", "exec", "provider", "session", "tool", "tools",
        ],
    ),
    ("cli", &[""]),
    ("testkit", &[]),
    (
        "simulation",
        &[
            "", "kernel", "model", "policy", "provider", "session", "tool",
        ],
    ),
];

/// Rooms whose every dependency is listed: they do no I/O, so nothing that does may come in.
const PURE: &[(&str, &[&str])] = &[
    ("model", &["base64", "serde", "serde_json", "thiserror"]),
    ("policy", &["serde", "thiserror"]),
    ("kernel", &["serde", "serde_json", "thiserror"]),
];

/// Words of vendors, which end at the codec.
const VENDORS: &[&str] = &[
    "anthropic",
    "openai",
    "claude",
    "gpt-",
    "gemini",
    "ollama",
    "mistral",
    "deepseek",
    "openrouter",
];

/// Where they may stand all the same: the codecs and what tests them.
const VENDOR_PLACES: &[&str] = &[
    "crates/provider/",
    "crates/testkit/",
    "fuzz/targets/stream.rs",
    "xtask/tests/tidy.rs",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The name of a room: `tooloop-model` is `model`, the library itself is the empty name.
fn room(package: &str) -> Option<&str> {
    if package == "tooloop" {
        return Some("");
    }
    package.strip_prefix("tooloop-")
}

/// Normal and build dependencies by package; those for tests are free.
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    packages
        .iter()
        .map(|package| {
            let names = package["dependencies"].as_array().unwrap().iter();
            let names = names
                .filter(|dependency| dependency["kind"] != "dev")
                .map(|dependency| dependency["name"].as_str().unwrap().to_owned());
            let name = package["name"].as_str().unwrap().to_owned();
            (name, names.collect())
        })
        .collect()
}

#[test]
fn rooms_import_only_downward() {
    let dependencies = dependencies();
    let rules: BTreeMap<_, _> = MAY_IMPORT.iter().copied().collect();
    for (package, names) in &dependencies {
        let Some(own) = room(package) else { continue };
        let allowed = rules.get(own).unwrap_or_else(|| {
            panic!("{package} has no rule: say in MAY_IMPORT what it may import")
        });
        for name in names {
            if let Some(other) = room(name) {
                assert!(allowed.contains(&other), "{package} must not import {name}");
            }
        }
    }
    for (own, _) in MAY_IMPORT {
        let known = dependencies
            .keys()
            .any(|package| room(package) == Some(own));
        assert!(known, "the room {own:?} of the rules is not there");
    }
}

#[test]
fn pure_rooms_have_pure_dependencies() {
    let dependencies = dependencies();
    for (own, allowed) in PURE {
        let names = &dependencies[&format!("tooloop-{own}")];
        for name in names.iter().filter(|name| room(name).is_none()) {
            assert!(
                allowed.contains(&name.as_str()),
                "{own} is pure and must not depend on {name}"
            );
        }
        let bans = fs::read_to_string(root().join(format!("crates/{own}/clippy.toml"))).unwrap();
        for ban in [
            "std::fs",
            "std::env",
            "std::process",
            "std::time",
            "std::thread",
        ] {
            assert!(
                bans.contains(ban),
                "clippy.toml of {own} does not ban {ban}"
            );
        }
    }
}

/// Every file that git knows, as path and text; what is not text is left out.
fn files() -> Vec<(String, String)> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    let listed = String::from_utf8(output.stdout).unwrap();
    let files: Vec<_> = listed
        .split('\0')
        .filter(|path| !path.is_empty())
        .filter_map(|path| {
            let text = fs::read_to_string(root().join(path)).ok()?;
            Some((path.to_owned(), text))
        })
        .collect();
    assert!(files.len() > 20, "git lists hardly any files");
    files
}

fn sources() -> impl Iterator<Item = (String, String)> {
    files()
        .into_iter()
        .filter(|(path, _)| path.ends_with(".rs"))
}

#[test]
fn vendor_words_end_at_the_codecs() {
    for (path, text) in sources() {
        let is_test = path.contains("/tests/")
            || path.ends_with("tests.rs")
            || path.contains("/benches/")
            || path.contains("/examples/");
        if is_test || VENDOR_PLACES.iter().any(|place| path.starts_with(place)) {
            continue;
        }
        // What a test in the file needs is its own affair.
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (number, line) in code.lines().enumerate() {
            let lower = line.to_lowercase();
            for vendor in VENDORS {
                assert!(
                    !lower.contains(vendor),
                    "{path}:{}: {vendor:?} is a vendor's word and belongs into provider",
                    number + 1
                );
            }
        }
    }
}

#[test]
fn unsafe_code_lives_in_exec() {
    let allows = [
        "allow(unsafe_code",
        "expect(unsafe_code",
        "unsafe_code = \"allow\"",
    ];
    for (path, text) in files() {
        if path.starts_with("crates/exec/") || path == "xtask/tests/tidy.rs" {
            continue;
        }
        for allow in allows {
            assert!(!text.contains(allow), "{path} lets unsafe code in");
        }
    }
}

#[test]
fn nothing_is_switched_off_and_no_lint_is_allowed_without_a_reason() {
    let words = [
        "#[ignore",
        "todo!(",
        "unimplemented!(",
        "FIXME",
        "XXX",
        "dbg!(",
    ];
    for (path, text) in sources().filter(|(path, _)| path != "xtask/tests/tidy.rs") {
        for word in words {
            assert!(!text.contains(word), "{path} holds {word}");
        }
        for (at, _) in text.match_indices("[allow(") {
            let attribute = text[at..].split(']').next().unwrap_or_default();
            assert!(
                attribute.contains("reason"),
                "{path}: an allow without a reason: {attribute}"
            );
        }
    }
}

#[test]
fn modules_say_what_they_are_for() {
    // Tests that stand apart from their module say so by their name.
    let speaks = |path: &str| !path.ends_with("tests.rs") && !path.contains("/tests/");
    for (path, text) in sources().filter(|(path, _)| speaks(path)) {
        assert!(
            text.starts_with("//!"),
            "{path} does not begin with a //! doc"
        );
    }
}

#[test]
fn the_project_names_no_registry_and_no_path_of_a_machine() {
    // Spelt apart, so that this file is not its own finding.
    let words = [
        concat!("index.crates", ".io"),
        concat!("static.crates", ".io"),
        concat!("registry.npmjs", ".org"),
        concat!("files.pythonhosted", ".org"),
        concat!("deb.debian", ".org"),
        concat!("/work", "/main"),
        concat!("/work", "/shared"),
        concat!("/root", "/."),
    ];
    for (path, text) in files().into_iter().filter(|(path, _)| path != "Cargo.lock") {
        for word in words {
            assert!(!text.contains(word), "{path} names {word}");
        }
    }
}

#[test]
fn each_dependency_has_its_sentence() {
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for (package, names) in dependencies() {
        for name in names.iter().filter(|name| room(name).is_none()) {
            assert!(
                architecture.contains(&format!("`{name}`")),
                "{package} depends on {name}, which ARCHITECTURE.md does not explain"
            );
        }
    }
}
