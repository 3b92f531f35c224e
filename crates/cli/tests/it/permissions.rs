//! What is allowed: shell lines through the real binary, and what it says about them.

use serde_json::{Value, json};
use tooloop_testkit::run::Finished;
use tooloop_testkit::{ModelServer, Scratch};

use crate::support::{Api, asking, bare, both, end, finish};

const API: Api = Api::Messages;

/// C33: lines that go beyond what their beginning is allowed to; M is the marker.
const BEYOND: [&str; 13] = [
    "git log; touch M",
    "git log && touch M",
    "git log\ntouch M",
    "git log | tee M",
    "git log & touch M",
    "git log `touch M`",
    "ls $(touch M)",
    "ls <(touch M)",
    "git log > M",
    "echo x >> M",
    "echo x >| M",
    "{ ls; touch M; }",
    "if ls; then touch M; fi",
];

/// C33: lines that are covered.
const COVERED: [&str; 5] = [
    "git log -n 1",
    "ls -l && echo done",
    "echo \"a; b && c > d\"",
    "ls 2>/dev/null",
    "git log 2>&1",
];

/// C34: `git push` in other words.
const PUSHES: [&str; 15] = [
    "git push",
    "A=1 git push",
    "env git push",
    "command git push",
    "timeout 5 git push",
    "nice -n 5 git push",
    "sh -c 'git push'",
    "bash -lc \"git push\"",
    "eval git push",
    "git -C . push",
    "git --no-pager push",
    "g\\it push",
    "\"git\" push",
    "find . -maxdepth 0 -exec git push \\;",
    "echo push | xargs git",
];

fn calls<'l>(lines: &'l [String], ids: &'l [String]) -> Vec<(&'l str, &'l str)> {
    let ids = ids.iter().map(String::as_str);
    ids.zip(lines.iter().map(String::as_str)).collect()
}

fn ids(lines: &[String]) -> Vec<String> {
    (0..lines.len())
        .map(|number| format!("c_{number}"))
        .collect()
}

both! {
    /// C33
    fn an_allowed_beginning_is_no_blank_cheque(api) {
        let scratch = Scratch::new();
        let marker = scratch.marker().display().to_string();
        let lines: Vec<String> = BEYOND.iter().map(|line| line.replace('M', &marker))
            .chain(COVERED.iter().map(ToString::to_string))
            .collect();
        let ids = ids(&lines);
        let server = ModelServer::start([api.bashes(&calls(&lines, &ids)), api.say("ok")]);
        let run = asking(&scratch, &server, api)
            .env("TOOLOOP_SANDBOX", "off")
            .args(["--output-format", "stream-json"])
            .args(["--allowedTools", "Bash(git log *), Bash(ls *), Bash(echo *)", "go"]);
        let done = finish(&run.start());
        assert_eq!(done.answer(), "ok");
        assert!(!scratch.marker().exists());
        for (number, (line, id)) in lines.iter().zip(&ids).enumerate() {
            let (words, _) = done.tool_result(id);
            let refused = words.starts_with("permission denied");
            assert_eq!(refused, number < BEYOND.len(), "{line:?}: {words}");
            // The part that is not covered is named.
            assert!(!refused || words.contains(&marker), "{line:?}: {words}");
        }
        server.assert_clean();
    }

    /// C34
    fn a_denied_program_is_denied_in_other_words(api) {
        let scratch = Scratch::new();
        let log = scratch.marker();
        let stub = format!("#!/bin/sh\necho \"$@\" >> {}\n", log.display());
        let git = scratch.write("bin/git", stub);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&git, mode).unwrap();
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", git.parent().unwrap().display());
        let lines: Vec<String> = PUSHES.iter().map(ToString::to_string)
            .chain(["git status".into()])
            .collect();
        let ids = ids(&lines);
        let server = ModelServer::start([api.bashes(&calls(&lines, &ids)), api.say("ok")]);
        let run = asking(&scratch, &server, api)
            .env("TOOLOOP_SANDBOX", "off")
            .env("PATH", path)
            .args(["--output-format", "stream-json", "--allowedTools", "Bash"])
            .args(["--disallowedTools", "Bash(git push *)", "go"]);
        let done = finish(&run.start());
        assert_eq!(done.answer(), "ok");
        for (line, id) in lines.iter().zip(&ids).take(PUSHES.len()) {
            let (words, _) = done.tool_result(id);
            assert!(words.starts_with("permission denied"), "{line:?}: {words}");
        }
        assert_eq!(scratch.read(&log), "status\n");
        server.assert_clean();
    }
}

const RULES: &str = "\
# mine
allowed_tools = [
  \"Bash(git log *)\",
  \"Edit(src/**)\",
]
disallowed_tools = [\"Bash(git push *)\"]
ask_tools = [\"Bash(cc *)\"]
";

fn permissions(scratch: &Scratch, arguments: &[&str]) -> Finished {
    scratch.write(scratch.config().join("tooloop/config.toml"), RULES);
    let run = bare(scratch)
        .env("TOOLOOP_SANDBOX", "off")
        .arg("permissions")
        .args(arguments.to_vec());
    end(&run.start())
}

#[test]
fn the_exit_status_tells_the_decision() {
    let scratch = Scratch::new();
    for (arguments, status, words) in [
        (&["git log -n 1 | head"][..], 0, "decision: allow"),
        (
            &["git log; touch M"][..],
            3,
            "decision: ask: `touch M` is not covered",
        ),
        (
            &["cc all"][..],
            3,
            "decision: ask: the rule Bash(cc *) asks",
        ),
        (&["env A=1 sh -c 'git push'"][..], 4, "decision: deny: "),
        (&["if ["][..], 3, "decision: ask: "),
        (&["--tool", "edit", "src/main.rs"][..], 0, "decision: allow"),
        (
            &["--tool", "Edit", "other.rs"][..],
            3,
            "decision: ask: writing ",
        ),
        (
            &["--tool", "read", "/etc/hosts"][..],
            3,
            "outside of the workspace",
        ),
        (
            &["--tool", "read", r#"{"path":"a"}"#][..],
            0,
            "decision: allow",
        ),
        (&["--tool", "web_fetch", "docs.rs"][..], 3, "docs.rs"),
        (&["--tool", "nothing", "{}"][..], 2, ""),
        (&["--tool", "todo", "x"][..], 2, ""),
    ] {
        let all: Vec<_> = ["explain"].iter().chain(arguments).copied().collect();
        let finished = permissions(&scratch, &all);
        finished.assert_code(status);
        assert!(finished.stdout.text().contains(words), "{finished}");
    }
}

#[test]
fn an_explanation_names_the_rule_and_its_place() {
    let scratch = Scratch::new();
    let finished = permissions(&scratch, &["explain", "--json", "git log; env git push"]);
    finished.assert_code(4);
    let told: Value = serde_json::from_str(&finished.stdout.text()).unwrap();
    assert_eq!(told["decision"], "deny");
    assert!(
        told["reason"].as_str().unwrap().contains("git push"),
        "{told}"
    );
    let parts = told["parts"].as_array().unwrap();
    let met = |rule: &str| {
        let part = parts.iter().find(|part| part["rule"]["rule"] == rule);
        let part = part.unwrap_or_else(|| panic!("{rule} in {told}"));
        let place = &part["rule"]["places"][0];
        assert_eq!(place["source"], "user");
        (
            part["text"].clone(),
            place["place"].as_str().unwrap().to_owned(),
        )
    };
    let (text, place) = met("Bash(git log *)");
    assert_eq!(text, "git log");
    assert!(place.ends_with("tooloop/config.toml:3:3"), "{place}");
    let (_, place) = met("Bash(git push *)");
    assert!(place.ends_with("tooloop/config.toml:6:21"), "{place}");
    let finished = permissions(&scratch, &["explain", "git log; env git push"]);
    let words = "denied, by the deny rule Bash(git push *) (";
    assert!(finished.stdout.text().contains(words), "{finished}");
}

#[test]
fn the_list_has_all_rules_the_strongest_first() {
    let scratch = Scratch::new();
    let saved = format!(
        "[{:?}]\nallowed_tools = [\"Bash(touch a)\"]\n",
        scratch.workspace()
    );
    scratch.write(scratch.config().join("tooloop/projects.toml"), saved);
    let finished = permissions(&scratch, &["list", "--json"]);
    finished.assert_code(0);
    let told: Value = serde_json::from_str(&finished.stdout.text()).unwrap();
    let rules: Vec<_> = told["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| {
            format!(
                "{} {}",
                rule["list"].as_str().unwrap(),
                rule["rule"].as_str().unwrap()
            )
        })
        .collect();
    let first = [
        "deny Bash(git push *)",
        "ask Bash(cc *)",
        "allow Bash(git log *)",
    ];
    assert_eq!(rules[..3], first, "{told}");
    let place = told["rules"]
        .as_array()
        .unwrap()
        .iter()
        .find(|rule| rule["rule"] == "Bash(touch a)")
        .map(|rule| rule["places"][0]["place"].as_str().unwrap().to_owned())
        .unwrap();
    assert!(place.ends_with("tooloop/projects.toml:2:18"), "{place}");
    let finished = permissions(&scratch, &["list"]);
    let text = finished.stdout.text();
    assert!(
        text.starts_with("mode: default\n") && text.contains("  Bash(cc *)\n"),
        "{text}"
    );
}

/// Names that programs outside of a sandbox obey, and commands that write them.
#[test]
fn files_that_start_programs_are_asked_about() {
    let (scratch, added) = (Scratch::new(), tempfile::tempdir().unwrap());
    scratch.write("x", "x\n");
    std::fs::create_dir(scratch.workspace().join(".git")).unwrap();
    std::os::unix::fs::symlink(".git", scratch.workspace().join("link")).unwrap();
    let other = format!("{}/sub/.mcp.json", added.path().display());
    let paths = [
        ".git/commondir",
        "link/info/attributes",
        "sub/.git",
        ".git/modules/a/config",
        ".gitmodules",
        ".mcp.json",
        "a/b/.claude/settings.json",
        ".vscode/tasks.json",
        ".cursor/mcp.json",
        other.as_str(),
    ];
    let mut calls: Vec<(&str, Value)> = Vec::new();
    for path in paths {
        calls.push(("write", json!({"path": path, "content": "x\n"})));
        let patch = format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch\n");
        calls.push(("apply_patch", json!({ "patch": patch })));
        // Lines are judged by the paths that they name.
        if path.starts_with("link/") {
            continue;
        }
        calls.push(("bash", json!({"command": format!("cp x {path}")})));
        calls.push(("bash", json!({"command": format!("echo x > {path}")})));
    }
    let ids: Vec<String> = (0..=calls.len())
        .map(|index| format!("c_{index}"))
        .collect();
    calls.push(("write", json!({"path": "fine", "content": "x\n"})));
    let replies: Vec<_> = ids
        .iter()
        .zip(&calls)
        .map(|(id, (name, input))| API.call(id, name, input))
        .chain([API.say("ok")])
        .collect();
    let server = ModelServer::start(replies);
    let run = asking(&scratch, &server, API)
        .args(["--output-format", "stream-json"])
        .args(["--permission-mode", "acceptEdits"])
        .args(["--allowed-tools", "Edit,Write,Bash(cp *),Bash(echo *)"])
        .args(["--max-turns", "100"])
        .arg("--add-dir")
        .arg(added.path())
        .arg("go");
    let done = finish(&run.start());
    assert_eq!(done.answer(), "ok");
    for (id, call) in ids.iter().zip(&calls) {
        let (words, is_error) = done.tool_result(id);
        let is_fine = call.1["path"] == "fine";
        assert_eq!(is_error, !is_fine, "{call:?}: {words}");
        assert!(is_fine || words.contains("protected"), "{call:?}: {words}");
    }
    assert!(!scratch.workspace().join(".mcp.json").exists());
}

/// The results of these lines, one call a reply, without a sandbox and without rules: whether each
/// was refused, and its words.
fn without_sandbox(scratch: &Scratch, mode: &str, lines: &[&str]) -> Vec<(bool, String)> {
    let api = Api::Messages;
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    let ids = ids(&lines);
    let calls = calls(&lines, &ids);
    let mut replies: Vec<_> = calls.iter().map(|(id, line)| api.bash(id, line)).collect();
    replies.push(api.say("ok"));
    let server = ModelServer::start(replies);
    let run = asking(scratch, &server, api)
        .env("TOOLOOP_SANDBOX", "off")
        .args([
            "--output-format",
            "stream-json",
            "--permission-mode",
            mode,
            "go",
        ]);
    let done = finish(&run.start());
    assert_eq!(done.answer(), "ok");
    server.assert_clean();
    let results = ids.iter().map(|id| done.tool_result(id).0);
    results
        .map(|words| (words.starts_with("permission denied"), words))
        .collect()
}

/// A repository in the workspace, with these settings added.
fn init_repository(scratch: &Scratch, settings: &str) {
    let status = std::process::Command::new("git")
        .args(["init", "-q"])
        .current_dir(scratch.workspace())
        .status();
    assert!(status.unwrap().success());
    let path = scratch.workspace().join(".git/config");
    let before = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{before}{settings}")).unwrap();
}

#[test]
fn git_reads_without_a_question_only_in_the_workspaces_own_repository() {
    for mode in ["default", "plan", "dontAsk"] {
        let scratch = Scratch::new();
        init_repository(&scratch, "");
        let marker = scratch.marker();
        let inner = scratch.workspace().join("docs/x/r");
        for folder in ["objects", "refs"] {
            std::fs::create_dir_all(inner.join(folder)).unwrap();
        }
        std::fs::write(inner.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        let config = format!(
            "[core]\nrepositoryformatversion = 0\nbare = false\nworktree = ..\n\
             fsmonitor = \"touch {}; false\"\n",
            marker.display()
        );
        std::fs::write(inner.join("config"), config).unwrap();
        let lines = [
            "git status",
            "cd docs",
            "git status",
            "cd x/r",
            "git status",
            "git log",
        ];
        let results = without_sandbox(&scratch, mode, &lines);
        let refused: Vec<bool> = results.iter().map(|(refused, _)| *refused).collect();
        assert_eq!(
            refused,
            [false, false, false, false, true, true],
            "{mode}: {results:?}"
        );
        assert!(!marker.exists(), "{mode}");
    }
}

#[test]
fn git_is_asked_about_where_the_settings_name_a_program() {
    let scratch = Scratch::new();
    let marker = scratch.marker();
    let setting = format!(
        "[core]\nfsmonitor = \"touch {}; false\"\n",
        marker.display()
    );
    init_repository(&scratch, &setting);
    let lines = ["git status", "git diff", "ls"];
    let results = without_sandbox(&scratch, "default", &lines);
    let refused: Vec<bool> = results.iter().map(|(refused, _)| *refused).collect();
    assert_eq!(refused, [true, true, false], "{results:?}");
    assert!(results[0].1.contains("core.fsmonitor"), "{results:?}");
    assert!(!marker.exists());
}

#[test]
fn commands_that_read_outside_of_the_workspace_are_asked_about() {
    let scratch = Scratch::new();
    let key = scratch.outside().join("key");
    std::fs::write(&key, "OUTSIDE\n").unwrap();
    std::fs::write(scratch.workspace().join("f"), "inside\n").unwrap();
    std::os::unix::fs::symlink(&key, scratch.workspace().join("link")).unwrap();
    let cat = format!("cat {}", key.display());
    let variable = format!("x={}; cat $x", key.display());
    let lines = [
        "cat f",
        &cat,
        "cat link",
        "cat < link",
        &variable,
        "cat < f",
    ];
    let results = without_sandbox(&scratch, "default", &lines);
    let refused: Vec<bool> = results.iter().map(|(refused, _)| *refused).collect();
    assert_eq!(
        refused,
        [false, true, true, true, true, false],
        "{results:?}"
    );
    assert!(results.iter().all(|(_, words)| !words.contains("OUTSIDE")));
}
