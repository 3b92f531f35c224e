//! Files by name.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::room::{Room, rerun};

#[tokio::test]
async fn patterns_match_as_people_expect() {
    let room = Room::new();
    room.touch(&[
        "Cargo.toml",
        "src/lib.rs",
        "src/a/b/deep.rs",
        "src/a/mod.rs",
        "crates/x/Cargo.toml",
        "crates/x/src/main.rs",
        "web/app.tsx",
        "web/app.ts",
        "web/[id].ts",
    ]);
    for (pattern, files) in [
        ("src/**/*.rs", "src/lib.rs\nsrc/a/b/deep.rs\nsrc/a/mod.rs"),
        ("src/*.rs", "src/lib.rs"),
        ("src/*/*.rs", "src/a/mod.rs"),
        ("*.toml", "Cargo.toml\ncrates/x/Cargo.toml"),
        ("Cargo.toml", "Cargo.toml\ncrates/x/Cargo.toml"),
        ("./*.toml", "Cargo.toml"),
        ("/*.toml", "no files match"),
        ("**/main.rs", "crates/x/src/main.rs"),
        ("*.{ts,tsx}", "web/app.tsx\nweb/app.ts\nweb/[id].ts"),
        (
            "{src,crates}/**/{main,mod}.rs",
            "src/a/mod.rs\ncrates/x/src/main.rs",
        ),
        ("{src/*.rs,*.tsx}", "src/lib.rs\nweb/app.tsx"),
        ("app.ts{,x}", "web/app.tsx\nweb/app.ts"),
        (
            "src/a/",
            "no files match src/a/ in the workspace; folders do: src/a/",
        ),
        ("a", "no files match a in the workspace; folders do: src/a/"),
        ("[[]id].ts", "web/[id].ts"),
        (r"\[id\].ts", "web/[id].ts"),
        ("src//a/./mod.rs", "src/a/mod.rs"),
        ("app.?s", "web/app.ts"),
        ("app.[!x]s", "web/app.ts"),
        ("*/*/*", "src/a/mod.rs\ncrates/x/Cargo.toml"),
    ] {
        let found = room.glob(json!({ "pattern": pattern })).await;
        if files.starts_with("no files") {
            assert!(found.starts_with(files), "{pattern}: {found}");
        } else {
            assert_eq!(found, files, "{pattern}");
        }
    }
}

#[tokio::test]
async fn the_newest_come_first_and_ties_go_by_path() {
    let room = Room::new();
    let base = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    room.touch(&["a", "b", "c/d", "c/e"])
        .age("c/e", base + Duration::from_nanos(1))
        .age("b", base)
        .age("a", base)
        .age("c/d", base);
    assert_eq!(room.glob(json!({ "pattern": "*" })).await, "c/e\na\nb\nc/d");
}

#[tokio::test]
async fn at_most_200_are_listed_and_the_rest_is_counted() {
    let room = Room::new();
    let paths: Vec<String> = (0..1234).map(|number| format!("{number:04}.c")).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    room.touch(&paths);
    let expected = format!(
        "{}\n(200 of 1,234 files shown, the newest; 1,034 left out: narrow the pattern or give a path)",
        paths[..200].join("\n")
    );
    assert_eq!(room.glob(json!({ "pattern": "*.c" })).await, expected);
}

#[tokio::test]
async fn the_answer_is_bounded_whatever_the_names() {
    let room = Room::new();
    let folder = vec!["n".repeat(250); 14].join("/");
    let paths: Vec<String> = (0..100)
        .map(|number| format!("{folder}/{number:02}"))
        .collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    room.touch(&paths);
    let found = room.glob(json!({ "pattern": "**" })).await;
    assert!(found.chars().count() < 50_000);
    let end =
        "\n(13 of 100 files shown, the newest; 87 left out: narrow the pattern or give a path)";
    assert!(found.ends_with(end), "{}", &found[found.len() - 200..]);
}

#[tokio::test]
async fn hidden_files_are_found_if_the_pattern_names_them() {
    let room = Room::new();
    room.touch(&[
        ".github/workflows/ci.yml",
        ".github/.cache/x.yml",
        "docs/.vale/a.yml",
        ".env.local",
        "app/.env",
        "app/b.yml",
    ]);
    for (pattern, files) in [
        ("*.yml", "app/b.yml"),
        ("**/*.yml", "app/b.yml"),
        (".github/**/*.yml", ".github/workflows/ci.yml"),
        (".github/**", ".github/workflows/ci.yml"),
        (".env*", ".env.local\napp/.env"),
        ("**/.env", "app/.env"),
        (
            "{app,.github}/**/*.yml",
            ".github/workflows/ci.yml\napp/b.yml",
        ),
        ("docs/.*/*.yml", "docs/.vale/a.yml"),
        (
            ".*/**/*.yml",
            ".github/workflows/ci.yml\n.github/.cache/x.yml",
        ),
    ] {
        let found = room.glob(json!({ "pattern": pattern })).await;
        assert_eq!(found, files, "{pattern}");
    }
    let all = room.glob(json!({ "pattern": "*.yml", "all": true })).await;
    assert_eq!(all.lines().count(), 4, "{all}");
    let inside = json!({ "pattern": "*.yml", "path": ".github/.cache" });
    assert_eq!(room.glob(inside).await, ".github/.cache/x.yml");
}

#[tokio::test]
async fn ignored_files_are_left_out_and_the_answer_says_how_to_get_them() {
    let room = Room::new();
    room.touch(&[
        "src/a.rs",
        "src/gen.rs",
        "src/own.rs",
        "target/b.rs",
        "secret.rs",
        "deep/keep.rs",
        "deep/skip.rs",
    ])
    .write(".gitignore", "target/\n/src/gen.rs\n*.log\n")
    .write(".ignore", "own.rs\n")
    .write("deep/.gitignore", "*.rs\n!keep.rs\n")
    .write(".git/info/exclude", "secret.rs\n")
    .write(".git/HEAD", "ref: refs/heads/main\n");
    let every = json!({ "pattern": "*.rs" });
    assert_eq!(room.glob(every.clone()).await, "src/a.rs\ndeep/keep.rs");
    // The rules above the folder hold too.
    let below = json!({ "pattern": "*.rs", "path": "src" });
    assert_eq!(room.glob(below).await, "src/a.rs");
    assert_eq!(
        room.glob(json!({ "pattern": "target/*.rs" })).await,
        "no files match target/*.rs in the workspace (hidden and ignored files were left out; \
         all: true takes them in)"
    );
    let all = json!({ "pattern": "*.rs", "all": true });
    assert_eq!(room.glob(all).await.lines().count(), 7);
    let none = json!({ "pattern": "*.py", "all": true });
    assert_eq!(
        room.glob(none).await,
        "no files match *.py in the workspace"
    );
    // A folder that is asked for by name is looked at.
    let ignored = json!({ "pattern": "*.rs", "path": "target" });
    assert_eq!(room.glob(ignored).await, "target/b.rs");
    // Rules without a repository are meant all the same, but for git's own.
    fs::remove_dir_all(room.workspace.join(".git")).unwrap();
    let found = room.glob(every).await;
    assert_eq!(found, "src/a.rs\nsecret.rs\ndeep/keep.rs");
}

#[test]
fn the_rules_of_the_user_hold_too() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("git")).unwrap();
    fs::write(home.path().join("git/ignore"), "*.bak\n").unwrap();
    let variables = [("XDG_CONFIG_HOME", home.path().to_str().unwrap())];
    let test = "glob::the_rules_of_the_user_hold_too";
    if rerun(test, false, &variables).is_some() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let room = Room::new();
        room.touch(&["a.txt", "a.bak"]).write(".git/HEAD", "");
        assert_eq!(room.glob(json!({ "pattern": "a.*" })).await, "a.txt");
    });
}

#[tokio::test]
async fn the_folder_of_git_is_never_entered() {
    let room = Room::new();
    room.touch(&[".git/config", "sub/.git/config", "config"]);
    for pattern in ["**/config", ".git/config", "**/.git/**", "config"] {
        let all = room.glob(json!({ "pattern": pattern, "all": true })).await;
        assert!(
            all == "config" || all.starts_with("no files"),
            "{pattern}: {all}"
        );
    }
}

#[tokio::test]
async fn paths_are_relative_to_the_workspace_or_absolute() {
    let room = Room::new();
    room.touch(&["src/a.rs", "../other/b.rs"]);
    let outside = room.workspace.parent().unwrap().join("other");
    let outside = outside.to_str().unwrap();
    let inside = room.workspace.to_str().unwrap();
    for (pattern, path, found) in [
        ("*.rs", "src", "src/a.rs".into()),
        ("*.rs", "./src/", "src/a.rs".into()),
        ("*.rs", "src/../src", "src/a.rs".into()),
        ("*.rs", "../work", "src/a.rs".into()),
        ("*.rs", &format!("{inside}/src"), "src/a.rs".into()),
        (&format!("{inside}/src/*.rs"), ".", "src/a.rs".into()),
        ("*.rs", "../other", format!("{outside}/b.rs")),
        ("*.rs", outside, format!("{outside}/b.rs")),
        ("../other/*.rs", ".", format!("{outside}/b.rs")),
        (&format!("{outside}/*.rs"), ".", format!("{outside}/b.rs")),
    ] {
        let input = json!({ "pattern": pattern, "path": path });
        assert_eq!(room.glob(input).await, found, "{pattern} in {path}");
    }
}

#[tokio::test]
async fn links_are_not_followed_but_as_the_path_itself() {
    let room = Room::new();
    room.touch(&["real/a.rs", "../other/b.rs"]);
    let link = |target: &str, name: &str| symlink(target, room.workspace.join(name)).unwrap();
    link("../other", "away");
    link(".", "real/loop");
    link("real/a.rs", "c.rs");
    link("nowhere", "d.rs");
    let found = room.glob(json!({ "pattern": "*.rs" })).await;
    // A link to a file is a file by another name.
    assert_eq!(found, "c.rs\nreal/a.rs");
    let found = room
        .glob(json!({ "pattern": "*.rs", "path": "away" }))
        .await;
    assert_eq!(found, "away/b.rs");
    let found = room.glob(json!({ "pattern": "away/*.rs" })).await;
    assert!(found.starts_with("no files match"), "{found}");
}

#[tokio::test]
async fn what_is_wrong_is_said() {
    let room = Room::new();
    room.touch(&["src/a.rs"]);
    let workspace = room.workspace.display();
    for (input, error) in [
        (
            json!({ "pattern": "src/{a" }),
            "invalid pattern: a { is not closed (write [{] to find a { itself)\n    src/{a\n        ^"
                .to_owned(),
        ),
        (
            json!({ "pattern": "*", "path": "lib" }),
            format!("there is no file or folder lib (paths are relative to {workspace})"),
        ),
        (
            json!({ "pattern": "*", "path": "src/a.rs/b" }),
            format!("there is no file or folder src/a.rs/b (paths are relative to {workspace})"),
        ),
        (
            json!({ "pattern": "*", "path": "src/a.rs" }),
            "src/a.rs is a file: give the folder to look in as path".into(),
        ),
        (
            json!({ "pattern": "*", "path": "/dev/null" }),
            "/dev/null is neither a file nor a folder (a pipe, a socket or a device) and is not \
             searched"
                .into(),
        ),
        (
            json!({ "pattern": "" }),
            "the pattern is empty: ** stands for every file".into(),
        ),
        (
            json!({ "pattern": "x".repeat(5000) }),
            "the pattern is longer than 4096 bytes".into(),
        ),
        (
            json!({ "patern": "x" }),
            "invalid input for glob: unknown field `patern`, expected one of `pattern`, `path`, \
             `all`"
                .into(),
        ),
    ] {
        assert_eq!(room.glob_error(input.clone()).await, error, "{input}");
    }
}

#[tokio::test]
async fn names_of_any_bytes_do_no_harm() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let room = Room::new();
    room.touch(&["a\nb.c", "e\x1b[31m.c"]);
    fs::write(room.workspace.join(OsStr::from_bytes(b"\xff.c")), "").unwrap();
    let found = room.glob(json!({ "pattern": "*.c" })).await;
    assert_eq!(found, "\u{fffd}.c\na\\x0ab.c\ne\\x1b[31m.c");
}
