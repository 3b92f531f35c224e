//! Settings files as people save them, at the real binary.

use tooloop_testkit::run::Run;
use tooloop_testkit::{ModelServer, Scratch};

use super::support::{Api, ask, asking, end, finish};

const RULE: &str = "Bash(touch *)";
const OWN: &str = ".tooloop/config.toml";
const JSON: &str = ".claude/settings.json";

/// C44 in both kinds of files: what is saved, and what is said if that is refused.
fn forms() -> Vec<(&'static str, Vec<u8>, &'static [&'static str])> {
    let own = format!("# rules\ndisallowed_tools = [\"{RULE}\"]\n");
    let json = format!("{{\n  \"permissions\": {{\"deny\": [\"{RULE}\"]}}\n}}\n");
    let crlf = |text: &str| format!("\u{feff}{}", text.replace('\n', "\r\n"));
    let half = |text: &str| text[..text.len() * 2 / 3].to_owned();
    vec![
        (OWN, crlf(&own).into(), &[][..]),
        (OWN, own.replace(']', ", ] # a note").into(), &[]),
        (
            OWN,
            own.replace("disallowed_tools", "disalowed_tools").into(),
            &[
                "config.toml:2:1: ",
                "`disalowed_tools`",
                "`disallowed_tools`",
            ],
        ),
        (
            OWN,
            half(&own).into(),
            &["config.toml:2:", "not valid TOML"],
        ),
        (
            OWN,
            own.replace(&format!("[\"{RULE}\"]"), "true").into(),
            &["config.toml:2:20: ", "`disallowed_tools`"],
        ),
        (OWN, Vec::new(), &[]),
        (JSON, crlf(&json).into(), &[]),
        (JSON, json.replace("]}", "], // a note\n}").into(), &[]),
        (
            JSON,
            json.replace("deny", "denny").into(),
            &["settings.json:2:19: ", "`denny`", "`deny`"],
        ),
        (
            JSON,
            json.replace("permissions", "permission").into(),
            &["settings.json:2:3: ", "`permission`", "`permissions`"],
        ),
        (
            JSON,
            half(&json).into(),
            &["settings.json:", "not valid JSON"],
        ),
        (
            JSON,
            json.replace(&format!("[\"{RULE}\"]"), "true").into(),
            &["settings.json:2:27: ", "`permissions.deny`"],
        ),
        (JSON, Vec::new(), &[]),
    ]
}

/// C44
#[test]
fn a_rule_that_denies_holds_or_nothing_is_run() {
    for (name, content, refused) in forms() {
        let scratch = Scratch::new();
        let path = scratch.write(name, &content);
        let command = format!("touch {}", scratch.marker().display());
        let server =
            ModelServer::start([Api::Messages.bash("c", &command), Api::Messages.say("ok")]);
        // An empty file forbids nothing: then the usual question, which nobody is asked, holds.
        let mode = if content.is_empty() {
            "default"
        } else {
            "bypassPermissions"
        };
        let run = asking(&scratch, &server, Api::Messages).args(["--permission-mode", mode, "go"]);
        let finished = end(&run.start());
        let said = finished.stderr.text();
        let shown = String::from_utf8_lossy(&content);
        if refused.is_empty() {
            finished.assert_code(0);
            assert_eq!(server.requests().len(), 2, "{shown}");
            let answer = server.request(1).tool_result("c").unwrap().text;
            assert!(answer.contains("touch"), "{answer}");
        } else {
            finished.assert_code(52);
            assert!(server.requests().is_empty(), "{shown}");
            for word in refused {
                assert!(said.contains(word), "{word}: {said}");
            }
        }
        assert!(!scratch.marker().exists(), "{shown}");
        assert_eq!(std::fs::read(&path).unwrap(), content);
    }
}

/// C44, mode 000
#[test]
fn a_file_that_cannot_be_read_stops_the_run() {
    for name in [OWN, JSON] {
        let content = match name {
            OWN => format!("disallowed_tools = [\"{RULE}\"]"),
            _ => format!("{{\"permissions\": {{\"deny\": [\"{RULE}\"]}}}}"),
        };
        let scratch = Scratch::new();
        let path = scratch.write(name, &content);
        let mode = |bits| std::os::unix::fs::PermissionsExt::from_mode(bits);
        std::fs::set_permissions(&path, mode(0o000)).unwrap();
        // The superuser reads it all the same, and then it is obeyed.
        let is_readable = std::fs::read(&path).is_ok();
        let command = format!("touch {}", scratch.marker().display());
        let server =
            ModelServer::start([Api::Messages.bash("c", &command), Api::Messages.say("ok")]);
        let run = asking(&scratch, &server, Api::Messages).args([
            "--permission-mode",
            "bypassPermissions",
            "go",
        ]);
        let finished = end(&run.start());
        if is_readable {
            finished.assert_code(0);
        } else {
            finished.assert_code(52);
            let said = finished.stderr.text();
            assert!(
                said.contains(name) && said.contains("permission denied"),
                "{said}"
            );
        }
        assert!(!scratch.marker().exists());
        std::fs::set_permissions(&path, mode(0o600)).unwrap();
        assert_eq!(scratch.read(&path), content);
    }
}

/// C24: what a pass list lets through, and nothing else.
#[test]
fn keys_reach_no_command_unless_they_are_named() {
    let scratch = Scratch::new();
    scratch.write(
        scratch.config().join("tooloop/config.toml"),
        "key_variable = \"TEAM_TOKEN\"\npass_environment = [\"OTHER_TOKEN\"]\n",
    );
    let server = ModelServer::start([
        Api::Messages.bash(
            "c",
            "env | grep -o 'kk-.*' | sort | tr '\\n' ' '; echo $FOO",
        ),
        Api::Messages.say("ok"),
    ]);
    let run = asking(&scratch, &server, Api::Messages)
        .env("TEAM_TOKEN", "kk-CCC")
        .env("ANTHROPIC_API_KEY", "kk-AAA")
        .env("OPENAI_API_KEY", "kk-BBB")
        .env("OTHER_TOKEN", "kk-DDD")
        .env("FOO", "bar")
        .args([
            "--allowedTools",
            "Bash",
            "--output-format",
            "stream-json",
            "go",
        ]);
    let done = finish(&run.start());
    let (words, _) = done.tool_result("c");
    assert!(words.starts_with("kk-DDD bar\n"), "{words}");
    // A folder cannot open that door.
    let scratch = Scratch::new();
    scratch.write(OWN, "pass_environment = [\"OPENAI_API_KEY\"]\n");
    let server = ModelServer::start([
        Api::Messages.bash("c", "env | grep -c kk-; echo $FOO"),
        Api::Messages.say("ok"),
    ]);
    let run = asking(&scratch, &server, Api::Messages)
        .env("OPENAI_API_KEY", "kk-BBB")
        .env("FOO", "bar")
        .args([
            "--allowedTools",
            "Bash",
            "--output-format",
            "stream-json",
            "go",
        ]);
    let done = finish(&run.start());
    let (words, _) = done.tool_result("c");
    assert!(words.starts_with("0\nbar\n"), "{words}");
    assert!(done.finished.stderr.text().contains("pass_environment"));
}

/// Rules as they are spelled in the widespread files mean here what they mean there.
#[test]
fn the_rules_of_a_project_hold_in_its_spelling() {
    let scratch = Scratch::new();
    let secret = scratch.write("secrets/key", "s3cret");
    scratch.write(
        JSON,
        "{\"permissions\": {\"deny\": [\"Read(/secrets/**)\", \"Bash(npm run test:*)\", \
         \"NotebookEdit(x)\", \"mcp__srv\", \"WebFetch(domain:x.invalid)\"]}}",
    );
    let server = ModelServer::start([
        Api::Messages.call("c1", "read", &serde_json::json!({"path": secret})),
        Api::Messages.bash("c2", "cd . && npm run test -- --watch"),
        Api::Messages.say("ok"),
    ]);
    let done = ask(&scratch, &server, Api::Messages, "go");
    for (call, rule) in [("c1", "/secrets/**)"), ("c2", "Bash(npm run test:*)")] {
        let (words, is_error) = done.tool_result(call);
        assert!(is_error && words.contains(rule), "{words}");
    }
}

/// The managed file has one place, which no flag and no variable moves: a mount does.
#[test]
fn what_the_managed_file_says_holds() {
    let scratch = Scratch::new();
    let managed = scratch.outside().join("managed.toml");
    let rules = "allow_managed_rules_only = true\ndisallowed_tools = [\"Bash(rm *)\"]\n\
                 allowed_tools = [\"Bash(touch a)\"]\ndisable_bypass_permissions = true\n";
    std::fs::write(&managed, rules).unwrap();
    let mounted = |arguments: &[&str]| {
        Run::new("bwrap")
            .home(&scratch)
            .env("TOOLOOP_SANDBOX", "off")
            .args([
                "--dev-bind",
                "/",
                "/",
                "--tmpfs",
                "/etc",
                "--dir",
                "/etc/tooloop",
            ])
            .arg("--ro-bind")
            .arg(&managed)
            .arg("/etc/tooloop/config.toml")
            .args(arguments)
    };
    let tried = mounted(&["true"]).try_start();
    if !tried.is_ok_and(|running| end(&running).code == Some(0)) {
        println!("skipped: no file can be mounted over another one here");
        return;
    }
    let server = ModelServer::start([
        Api::Messages.bash("a", "touch a"),
        Api::Messages.bash("b", "touch b"),
        Api::Messages.bash("c", "rm a"),
        Api::Messages.say("done"),
    ]);
    let run = mounted(&[env!("CARGO_BIN_EXE_tooloop"), "-p"])
        .model(&server)
        .env("TOOLOOP_MODEL", Api::Messages.model())
        .env("TOOLOOP_PERMISSION_MODE", "bypassPermissions")
        .args([
            "--allowedTools",
            "Bash",
            "--output-format",
            "stream-json",
            "go",
        ]);
    let done = finish(&run.start());
    assert_eq!(done.answer(), "done");
    let failed = ["a", "b", "c"].map(|id| done.tool_result(id).1);
    assert_eq!(failed, [false, true, true]);
    let told = done.tool_result("c").0;
    assert!(told.contains("denied by the rule Bash(rm *)"), "{told}");
    let words = "bypassPermissions is ruled out by /etc/tooloop/config.toml:4";
    let warnings = done.system("warning");
    assert!(
        warnings
            .iter()
            .any(|record| record["message"].as_str().unwrap().contains(words)),
        "{warnings:?}"
    );
    server.assert_clean();
}
