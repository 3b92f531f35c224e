//! Hooks as real commands, at the real binary.

use serde_json::{Value, json};
use tooloop_testkit::run::Run;
use tooloop_testkit::{ModelServer, Scratch};

use super::support::{Api, Done, ask, asking, end, finish, journal, told, tooloop};

const API: Api = Api::Messages;

/// One hook in the user's settings: event, matcher, command, and what else is set.
struct Hook<'a>(&'a str, &'a str, &'a str, &'a str);

fn with(hooks: &[Hook<'_>]) -> Scratch {
    let scratch = Scratch::new();
    let mut text = String::new();
    for Hook(event, matcher, command, more) in hooks {
        // A text in JSON is one in TOML.
        let (matcher, command) = (json!(matcher), json!(command));
        let matcher = match matcher.as_str() {
            Some("") => String::new(),
            _ => format!("matcher = {matcher}\n"),
        };
        text += &format!("[[hooks]]\nevent = \"{event}\"\n{matcher}command = {command}\n{more}\n");
    }
    let folder = scratch.config().join("tooloop");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), text).unwrap();
    scratch
}

fn warnings(done: &Done) -> Vec<String> {
    let warnings = done.system("warning").into_iter();
    let words = warnings.map(|record| record["message"].as_str().unwrap().to_owned());
    words.filter(|words| words.contains("hook")).collect()
}

/// The first line of what the model was told of a call.
fn first_line(done: &Done, id: &str) -> String {
    let told = done.tool_result(id).0;
    told.lines().next().unwrap_or_default().to_owned()
}

/// What a hook was told that keeps it in a file.
fn kept(scratch: &Scratch, name: &str) -> Value {
    let text = std::fs::read_to_string(scratch.workspace().join(name)).unwrap();
    assert_eq!(text.lines().count(), 1);
    serde_json::from_str(&text).unwrap()
}

#[test]
fn c16_a_call_that_a_hook_refuses_takes_no_neighbour_down() {
    let guard = r#"grep -q 'rm -rf' && { echo "no rm here" >&2; exit 2; }; exit 0"#;
    let scratch = with(&[Hook("PreToolUse", "Bash", guard, "")]);
    let server = ModelServer::start([
        API.bashes(&[("a", "exit 3"), ("b", "rm -rf x"), ("c", "echo c")]),
        API.say("done"),
    ]);
    let done = ask(&scratch, &server, API, "go");
    assert_eq!(done.answer(), "done");
    assert!(done.tool_result("a").0.contains('3'));
    let refused = ("permission denied, not run: no rm here".to_owned(), true);
    assert_eq!(done.tool_result("b"), refused);
    assert_eq!(first_line(&done, "c"), "c");
    let denial = &done.result()["permission_denials"][0];
    assert_eq!(denial["reason"], "no rm here");
    assert_eq!(denial["decided_by"], "hook");
    assert_eq!(warnings(&done), Vec::<String>::new());
    server.assert_clean();
}

#[test]
fn each_event_is_told_its_facts() {
    let keep = |name: &str| format!("cat > {name}");
    let events = [
        ("SessionStart", "start"),
        ("UserPromptSubmit", "prompt"),
        ("PreToolUse", "pre"),
        ("PostToolUse", "post"),
        ("PostToolUseFailure", "failure"),
        ("Stop", "stop"),
        ("SessionEnd", "end"),
        ("PermissionRequest", "request"),
    ];
    let commands = events.map(|(event, name)| (event, keep(name)));
    let hooks: Vec<_> = commands
        .iter()
        .map(|(event, command)| Hook(event, "*", command, ""))
        .collect();
    let scratch = with(&hooks);
    let server = ModelServer::start([
        API.bash("a", "echo hi"),
        API.call("b", "read", &json!({ "path": "missing" })),
        API.bash("c", "touch asked"),
        API.say("done"),
    ]);
    let run = asking(&scratch, &server, API).args(["--output-format", "stream-json", "go"]);
    let done = finish(&run.start());
    let session = done.session();
    let path = journal(&scratch, &session);
    for (event, name) in events {
        let told = kept(&scratch, name);
        assert_eq!(told["hook_event_name"], event);
        assert_eq!(told["session_id"], session.as_str());
        assert_eq!(told["transcript_path"], path.display().to_string());
        assert_eq!(told["cwd"], scratch.workspace().display().to_string());
        assert_eq!(told["permission_mode"], "default");
    }
    assert_eq!(kept(&scratch, "start")["source"], "startup");
    assert_eq!(kept(&scratch, "end")["reason"], "other");
    assert_eq!(kept(&scratch, "prompt")["prompt"], "go");
    // Of several calls the last is in the file.
    let pre = kept(&scratch, "pre");
    assert_eq!(pre["tool_name"], "Bash");
    assert_eq!(pre["tooloop_tool"], "bash");
    assert_eq!(pre["tool_input"], json!({ "command": "touch asked" }));
    assert_eq!(pre["tool_use_id"], "c");
    assert_eq!(kept(&scratch, "request")["tool_use_id"], "c");
    let post = kept(&scratch, "post");
    assert_eq!(post["tool_use_id"], "a");
    let response = post["tool_response"].as_object().unwrap();
    assert_eq!(response.keys().collect::<Vec<_>>(), ["content", "is_error"]);
    assert!(response["content"].as_str().unwrap().contains("hi"));
    assert_eq!(response["is_error"], false);
    let failure = kept(&scratch, "failure");
    let file = scratch.workspace().join("missing").display().to_string();
    assert_eq!(
        failure["tool_input"],
        json!({ "path": "missing", "file_path": file })
    );
    assert_eq!(failure["tool_response"]["is_error"], true);
    assert_eq!(failure["error"], failure["tool_response"]["content"]);
    assert_eq!(kept(&scratch, "stop")["stop_hook_active"], false);
    assert_eq!(kept(&scratch, "stop")["last_assistant_message"], "done");
    assert_eq!(kept(&scratch, "end")["reason"], "other");
    // A session that is gone on with begins in another way.
    let again = ModelServer::start([API.say("more")]);
    let run = tooloop(&scratch, &again, API).args(["--resume", &session, "more"]);
    finish(&run.start());
    assert_eq!(kept(&scratch, "start")["source"], "resume");
}

#[test]
fn statuses_deadlines_and_bad_words_are_seen_and_stop_nothing() {
    let scratch = with(&[
        Hook("PreToolUse", "Bash", "echo it is broken >&2; exit 1", ""),
        Hook("PreToolUse", "Bash", "sleep 3000.77", "timeout_ms = 300"),
        Hook("PreToolUse", "Bash", "echo '{\"continue\": false'", ""),
        Hook("PreToolUse", "Bash", "/no/such/program", ""),
        Hook("PreToolUse", "Read", "exit 2", ""),
    ]);
    let server = || ModelServer::start([API.bash("a", "echo hi"), API.say("done")]);
    let done = ask(&scratch, &server(), API, "go");
    assert_eq!(done.answer(), "done");
    assert_eq!(first_line(&done, "a"), "hi");
    let warnings = warnings(&done);
    let file = scratch
        .config()
        .join("tooloop/config.toml")
        .display()
        .to_string();
    let expected = [
        "ended with status 1: it is broken",
        "took longer than 0.3 s and was ended",
        "begins like JSON and is none",
        "ended with status 127: ",
    ];
    assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
    for (warning, words) in warnings.iter().zip(expected) {
        assert!(
            warning.contains(words) && warning.contains(&file),
            "{warning}"
        );
    }
    // The same where people read.
    let server = server();
    let run = asking(&scratch, &server, API).args(["--permission-mode", "bypassPermissions"]);
    let finished = end(&run.arg("go").start());
    let said = finished.stderr.text();
    assert_eq!(said.matches("PreToolUse hook").count(), 4, "{said}");
}

#[test]
fn what_runs_is_what_a_hook_has_written() {
    let printed = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "updatedInput": { "command": "touch made; echo other" },
        "additionalContext": "made safe",
    } });
    let rewrite = format!("echo '{printed}'");
    let scratch = with(&[Hook("PreToolUse", "Bash", &rewrite, "")]);
    let server = ModelServer::start([API.bash("a", "echo one"), API.say("done")]);
    let done = ask(&scratch, &server, API, "go");
    let (told, failed) = done.tool_result("a");
    assert!(
        told.starts_with("other\n") && told.ends_with("made safe") && !failed,
        "{told}"
    );
    // The model sees what it wrote, with the one result of it.
    let request = server.request(1);
    assert!(request.mentions("echo one") && !request.mentions("echo other"));
    assert_eq!(request.tool_results().len(), 1);
    let rewritten = done.system("call_rewritten");
    assert_eq!(
        rewritten[0]["input"],
        json!({ "command": "touch made; echo other" })
    );
    let record = std::fs::read_to_string(journal(&scratch, &done.session())).unwrap();
    let place = |words: &str| record.find(words).unwrap();
    assert!(place("call_rewritten") < place("call_started"));
    assert!(place("call_started") < place("call_finished"));
}

#[test]
fn a_prompt_is_blocked_with_a_status_of_its_own() {
    let guard = "grep -q secret && { echo no secrets >&2; exit 2; }; echo the branch is main";
    let scratch = with(&[
        Hook("UserPromptSubmit", "", guard, ""),
        Hook("SessionStart", "startup", "echo it is Friday", ""),
        Hook("SessionStart", "resume", "echo not this", ""),
    ]);
    let server = ModelServer::start([API.say("done")]);
    let done = finish(&tooloop(&scratch, &server, API).arg("a secret").start());
    let words = done.failed(43, "hook_stopped");
    assert!(
        words.contains("the prompt was not sent: no secrets"),
        "{words}"
    );
    assert_eq!(done.result()["num_turns"], 0);
    assert_eq!(done.result()["unsent"][0][0]["text"], "a secret");
    assert!(server.requests().is_empty());

    let done = ask(&scratch, &server, API, "go");
    assert_eq!(done.answer(), "done");
    let request = server.request(0);
    assert!(request.mentions("it is Friday") && request.mentions("the branch is main"));
    assert!(!request.mentions("not this"));
}

#[test]
fn hooks_of_an_event_run_at_once() {
    let meet = |own: &str, other: &str| {
        let wait = format!("until [ -e {other} ]; do sleep 0.01; done");
        format!("touch {own}; {wait}; echo {own} >> met")
    };
    let (one, two) = (meet("one", "two"), meet("two", "one"));
    let scratch = with(&[
        Hook("PreToolUse", "", &one, ""),
        Hook("PreToolUse", "bash", &two, ""),
        // The same again is run once.
        Hook("PreToolUse", "Bash|Read", &two, ""),
    ]);
    let server = ModelServer::start([API.bash("a", "cat met | wc -l"), API.say("done")]);
    let done = ask(&scratch, &server, API, "go");
    assert_eq!(first_line(&done, "a"), "2");
}

#[test]
fn a_consent_beats_neither_a_denial_nor_a_rule() {
    let prints = |fields: Value| format!("echo '{}'", json!({ "hookSpecificOutput": fields }));
    let allow = prints(json!({ "permissionDecision": "allow" }));
    let request = prints(json!({ "decision": { "behavior": "allow" } }));
    let run = |hooks: &[Hook<'_>], arguments: &[&str], asks: bool| {
        let scratch = with(hooks);
        let server = ModelServer::start([API.bash("a", "touch made"), API.say("done")]);
        let mut run = asking(&scratch, &server, API).args(["--output-format", "stream-json"]);
        if asks {
            run = run.env("TOOLOOP_ASK_TOOLS", "Bash(touch *)");
        }
        let done = finish(&run.args(arguments).arg("go").start());
        let made = scratch.workspace().join("made").exists();
        (made, done.tool_result("a").0)
    };
    let pre = || Hook("PreToolUse", "Bash", &allow, "");
    let asked = || Hook("PermissionRequest", "Bash", &request, "");
    let none: &[&str] = &[];
    assert!(!run(&[], none, false).0);
    assert!(run(&[pre()], none, false).0);
    assert!(run(&[asked()], none, false).0);
    let denies: &[&str] = &["--disallowedTools", "Bash(touch *)"];
    let (made, told) = run(&[pre(), asked()], denies, false);
    assert!(!made && told.starts_with("permission denied"), "{told}");
    let (made, told) = run(&[pre(), asked()], none, true);
    assert!(!made && told.contains("nobody to ask"), "{told}");
    let no = Hook("PreToolUse", "", "echo no >&2; exit 2", "");
    let (made, told) = run(&[pre(), no], none, false);
    assert!(!made && told.ends_with(": no"), "{told}");
}

#[test]
fn consent_does_not_hold_for_another_file() {
    let outside = tempfile::tempdir().unwrap();
    let folder = outside.path().display();
    let answer = json!({"hookSpecificOutput": {
        "hookEventName": "PermissionRequest",
        "decision": { "behavior": "allow" },
    }});
    let changes = [
        format!("rm -r new && ln -s {folder} new"),
        format!("ln -s {folder}/x new/x"),
    ];
    for change in changes {
        let hook = format!("{change} && echo '{answer}'");
        let scratch = with(&[Hook("PermissionRequest", "", &hook, "")]);
        std::fs::create_dir(scratch.workspace().join("new")).unwrap();
        let input = json!({ "path": "new/x", "content": "x" });
        let server = ModelServer::start([API.call("a", "write", &input), API.say("done")]);
        let run = asking(&scratch, &server, API).args(["--output-format", "stream-json", "go"]);
        let done = finish(&run.start());
        let (text, is_error) = done.tool_result("a");
        let is_told = text.contains("has changed since it was approved");
        assert!(is_error && is_told, "{change}: {text}");
        assert!(!outside.path().join("x").exists(), "{change}");
    }
}

#[test]
fn a_hook_may_treat_its_input_and_output_as_it_likes() {
    let much = "head -c 5000000 /dev/zero | tr '\\0' x";
    let (out, errors) = (format!("{much}; exit 0"), format!("{much} >&2; exit 0"));
    let daemon = "(setsid sleep 3000.78 > /dev/null 2>&1 &) ; exit 0";
    let scratch = with(&[
        Hook("PreToolUse", "", "exec <&-; exit 0", ""),
        Hook("PreToolUse", "", "true", ""),
        Hook("PreToolUse", "", &out, ""),
        Hook("PreToolUse", "", &errors, ""),
        Hook("PostToolUse", "", daemon, ""),
        Hook("PostToolUse", "", "sleep 3000.79 & exit 0", ""),
    ]);
    let gone = "while cat /proc/[0-9]*/cmdline 2> /dev/null | tr '\\0' ' ' | grep -q \
                'sleep 3000[.]7[89]'; do sleep 0.05; done; echo gone";
    let server = ModelServer::start([
        API.bash("a", "echo hi"),
        API.bash("b", gone),
        API.say("done"),
    ]);
    let done = ask(&scratch, &server, API, "go");
    assert_eq!(done.answer(), "done");
    assert_eq!(first_line(&done, "a"), "hi");
    // What the hooks of the first call left ends with them.
    assert_eq!(first_line(&done, "b"), "gone");
    // A decision may be in what is not read of the output, of each call.
    let warnings = warnings(&done);
    let is_much = |words: &&String| words.contains("printed more than 64 KiB");
    assert_eq!(warnings.iter().filter(is_much).count(), 2, "{warnings:?}");
    assert_eq!(warnings.len(), 2, "{warnings:?}");
}

#[test]
fn a_large_input_that_a_hook_does_not_read_is_no_error() {
    let content = "x".repeat(1_000_000);
    let table = [
        ("exit 0", None),
        ("echo stop-it >&2; exit 2", Some("stop-it")),
        ("exec 0<&-; sleep 0.2; exit 0", None),
        ("sleep 300.81 & exit 0", None),
        ("head -c 10 > /dev/null; exit 0", None),
        ("sleep 300.82 & echo stop-it >&2; exit 2", Some("stop-it")),
    ];
    for (command, reason) in table {
        let scratch = with(&[Hook("PreToolUse", "Write", command, "")]);
        let input = json!({ "path": "large", "content": content });
        let server = ModelServer::start([API.call("a", "write", &input), API.say("done")]);
        let run = tooloop(&scratch, &server, API).env("TOOLOOP_CONTEXT_WINDOW", "4000000");
        let done = finish(&run.arg("go").start());
        assert_eq!(done.answer(), "done", "{command}");
        let file = scratch.workspace().join("large");
        let (text, failed) = done.tool_result("a");
        if let Some(reason) = reason {
            assert!(failed && text.contains(reason), "{command}: {text}");
            assert!(!file.exists(), "{command}");
        } else {
            assert!(!failed, "{command}: {text}");
            assert_eq!(
                std::fs::metadata(file).unwrap().len(),
                content.len() as u64,
                "{command}"
            );
        }
        assert_eq!(warnings(&done), [""; 0], "{command}");
        server.assert_clean();
    }
}

#[test]
fn a_hook_that_breaks_is_named_with_its_status() {
    let table = [
        ("sleep 300.83 & echo nope >&2; exit 2", true, None),
        ("kill -9 $$", false, Some("SIGKILL")),
        ("kill -TERM $$; sleep 300.84", false, Some("SIGTERM")),
        ("/no/such/program", false, Some("status 127")),
        ("./not-executable", false, Some("status 126")),
    ];
    for (command, is_refused, status) in table {
        let scratch = with(&[Hook("PreToolUse", "Bash", command, "")]);
        scratch.write("not-executable", "x");
        let server = ModelServer::start([API.bash("a", "echo ran >> M"), API.say("done")]);
        let done = ask(&scratch, &server, API, "go");
        assert_eq!(done.answer(), "done", "{command}");
        assert_eq!(
            scratch.workspace().join("M").exists(),
            !is_refused,
            "{command}"
        );
        let (text, _) = done.tool_result("a");
        assert_eq!(text.contains("nope"), is_refused, "{command}: {text}");
        let warnings = warnings(&done);
        let file = scratch
            .config()
            .join("tooloop/config.toml")
            .display()
            .to_string();
        match status {
            None => assert_eq!(warnings, [""; 0]),
            Some(status) => {
                let is_told = |warning: &String| {
                    [command, status, &file]
                        .iter()
                        .all(|part| warning.contains(part))
                };
                assert!(
                    warnings.len() == 1 && warnings.iter().all(is_told),
                    "{warnings:?}"
                );
            }
        }
        server.assert_clean();
    }
}

#[test]
fn hooks_find_the_folder_and_no_keys() {
    let keep = "env > environment; pwd >> environment";
    let scratch = with(&[Hook("SessionStart", "", keep, "")]);
    let server = ModelServer::start([API.say("done")]);
    ask(&scratch, &server, API, "go");
    let found = scratch.read("environment");
    let workspace = scratch.workspace().display().to_string();
    let folder = format!("TOOLOOP_PROJECT_DIR={workspace}\n");
    assert!(found.contains(&folder), "{found}");
    assert!(found.ends_with(&format!("{workspace}\n")), "{found}");
    assert!(!found.contains("_KEY="), "{found}");
}

#[test]
fn a_stop_hook_objects_eight_times() {
    let scratch = with(&[Hook("Stop", "", "echo the tests fail >&2; exit 2", "")]);
    let replies: Vec<_> = (0..9).map(|_| API.say("done")).collect();
    let server = ModelServer::start(replies);
    let done = ask(&scratch, &server, API, "go");
    assert_eq!(done.answer(), "done");
    assert_eq!(server.requests().len(), 9);
    assert_eq!(done.system("continue").len(), 8);
    assert!(warnings(&done)[0].contains("objected eight times"));
    server.assert_clean();
}

#[test]
fn a_hook_ends_the_turn_after_a_call() {
    let stop = r#"echo '{"continue": false, "stopReason": "enough"}'"#;
    let scratch = with(&[Hook("PostToolUse", "Bash", stop, "")]);
    let calls = API.bashes(&[("a", "touch a"), ("b", "touch b")]);
    let server = ModelServer::start([calls]);
    let done = ask(&scratch, &server, API, "go");
    assert!(done.failed(43, "hook_stopped").contains("enough"));
    let told = done.tool_result("b").0;
    assert_eq!(
        told,
        "not run: a hook ended the turn before this call began"
    );
    let made = |name: &str| scratch.workspace().join(name).exists();
    assert!(made("a") && !made("b"));
}

#[test]
fn what_hooks_say_reaches_the_next_request() {
    let context = json!({ "hookSpecificOutput": { "additionalContext": "lint is clean" } });
    let context = format!("echo '{context}'");
    let scratch = with(&[
        Hook("PostToolUse", "Bash", &context, ""),
        Hook("PostToolUse", "Read", "echo two errors >&2; exit 2", ""),
    ]);
    scratch.write("file", "content");
    let server = ModelServer::start([
        API.bash("a", "echo hi"),
        API.call("b", "read", &json!({ "path": "file" })),
        API.say("done"),
    ]);
    ask(&scratch, &server, API, "go");
    assert!(told(&server.request(1), "a").contains("lint is clean"));
    let read = told(&server.request(2), "b");
    assert!(
        read.contains("content") && read.contains("a hook objects: two errors"),
        "{read}"
    );
    server.assert_clean();
}

#[test]
fn records_of_hooks_come_when_they_are_asked_for() {
    let command = "echo '{\"systemMessage\": \"look\"}'";
    let scratch = with(&[Hook("PreToolUse", "Bash", command, "")]);
    let run = |more: &[&str]| {
        let server = ModelServer::start([API.bash("a", "echo hi"), API.say("done")]);
        let run: Run = tooloop(&scratch, &server, API).args(more).arg("go");
        finish(&run.start())
    };
    let done = run(&["--include-hook-events"]);
    let (started, response) = (done.system("hook_started"), done.system("hook_response"));
    assert_eq!((started.len(), response.len()), (1, 1), "{}", done.finished);
    assert_eq!(started[0]["hook_name"], "PreToolUse:a");
    assert_eq!(response[0]["hook_id"], started[0]["hook_id"]);
    assert_eq!(response[0]["exit_code"], 0);
    assert_eq!(response[0]["outcome"], "success");
    assert!(
        response[0]["stdout"]
            .as_str()
            .unwrap()
            .contains("systemMessage")
    );
    assert!(warnings(&done)[0].ends_with("says: look"));
    let done = run(&[]);
    assert!(done.system("hook_started").is_empty());
}

#[test]
fn hooks_run_in_the_sandbox_unless_the_user_says_otherwise() {
    let outside = Scratch::new();
    let made = outside.workspace().join("made");
    let touch = format!("touch {}", made.display());
    let scratch = with(&[Hook("SessionStart", "", &touch, "")]);
    let run = |hooks: &str| {
        let server = ModelServer::start([API.say("done")]);
        let run = asking(&scratch, &server, API).env("TOOLOOP_SANDBOX_HOOKS", hooks);
        let run = run.args(["--sandbox", "required", "--output-format", "stream-json"]);
        finish(&run.arg("go").start())
    };
    let done = run("true");
    if done.finished.code == Some(44) {
        return println!("skipped: no sandbox can be set up here: {}", done.finished);
    }
    assert_eq!(done.answer(), "done");
    assert!(!made.exists());
    assert!(
        warnings(&done)[0].contains("ended with status 1: touch: "),
        "{:?}",
        warnings(&done)
    );
    assert_eq!(run("false").answer(), "done");
    assert!(made.exists());
}

/// A subagent has the hooks of the session that it works for, and two of its own.
#[test]
fn hooks_follow_a_subagent() {
    let objects =
        "cat >> stopped; [ \"$(wc -l < stopped)\" -gt 1 ] || { echo 'look again' >&2; exit 2; }";
    let scratch = with(&[
        Hook(
            "SubagentStart",
            "general",
            "cat > begun; echo 'It is Friday.'",
            "",
        ),
        Hook("SubagentStop", "", &format!("{objects}; echo"), ""),
        Hook("PreToolUse", "Bash", "cat > called", ""),
        Hook("SubagentStart", "explore", "touch never", ""),
    ]);
    let task = json!({ "description": "d", "prompt": "look", "agent_type": "general" });
    let server = ModelServer::start([
        API.call("c_1", "task", &task),
        API.bash("s_1", "echo here"),
        API.say("too early"),
        API.say("it is here"),
        API.say("done"),
    ]);
    let done = ask(&scratch, &server, API, "go");
    assert_eq!(done.answer(), "done");
    assert_eq!(done.tool_result("c_1").0, "it is here");
    assert!(server.request(1).mentions("It is Friday."));
    assert!(server.request(3).mentions("look again"));
    assert_eq!(kept(&scratch, "begun")["agent_type"], "general");
    assert_eq!(
        kept(&scratch, "called")["tool_input"]["command"],
        "echo here"
    );
    assert!(!scratch.workspace().join("never").exists());
    server.assert_clean();
}

/// A decision is found behind other output and in UTF-16, and start-up files add none.
#[test]
fn decisions_of_real_hooks_are_found() {
    let deny =
        r#"{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"no"}}"#;
    let wide: String = deny.chars().map(|c| format!("{c}\\000")).collect();
    let wide = wide.replace('\'', "'\\''");
    for (name, command) in [
        (
            "a line before",
            format!("echo 'Now using node v20'; echo '{deny}'"),
        ),
        ("a line after", format!("echo '{deny}'; echo bye")),
        ("UTF-16", format!("printf '\\377\\376{wide}'")),
        (
            "text, then UTF-16",
            format!("echo v20; printf '\\377\\376{wide}'"),
        ),
        (
            "colours",
            format!("printf '\\033[1mok\\033[0m\\n'; echo '{deny}'"),
        ),
        (
            "another object",
            format!("echo '{{\"type\":\"message\"}}'; echo '{deny}'"),
        ),
        (
            "a byte order mark",
            format!("printf '\\357\\273\\277'; echo '{deny}'"),
        ),
        (
            "several lines",
            format!("echo '{}'", deny.replace(',', ",\n").replace('{', "{\n")),
        ),
    ] {
        let scratch = with(&[Hook("PreToolUse", "Bash", &command, "")]);
        let server = ModelServer::start([API.bash("a", "touch ran"), API.say("done")]);
        let done = ask(&scratch, &server, API, "go");
        assert!(!scratch.workspace().join("ran").exists(), "{name}");
        assert!(done.tool_result("a").0.ends_with("not run: no"), "{name}");
        assert_eq!(warnings(&done), Vec::<String>::new(), "{name}");
    }
    let ask_first = r#"echo chatter; echo '{"hookSpecificOutput":{"permissionDecision":"ask"}}'"#;
    let scratch = with(&[Hook("PreToolUse", "Bash", ask_first, "")]);
    let server = ModelServer::start([API.bash("a", "touch ran"), API.say("done")]);
    let done = ask(&scratch, &server, API, "go");
    assert!(!scratch.workspace().join("ran").exists());
    assert!(done.tool_result("a").1);
    let once = r#"[ -e once ] && exit; touch once; echo chatter; echo '{"decision":"block","reason":"test it"}'"#;
    let scratch = with(&[Hook("Stop", "", once, "")]);
    let server = ModelServer::start([API.say("done"), API.say("tested")]);
    assert_eq!(ask(&scratch, &server, API, "go").answer(), "tested");
    assert!(server.request(1).mentions("test it") && !server.request(1).mentions("chatter"));
    let block = r#"echo chatter; echo '{"decision":"block","reason":"secret in prompt"}'"#;
    let scratch = with(&[Hook("UserPromptSubmit", "", block, "")]);
    let server = ModelServer::start([API.say("done")]);
    let words = ask(&scratch, &server, API, "go").failed(43, "hook_stopped");
    assert!(words.contains("secret in prompt"), "{words}");
    assert_eq!(server.requests().len(), 0);
    let scratch = with(&[Hook("PreToolUse", "Bash", "tee copy", "")]);
    scratch.write("start.sh", "touch started\n");
    let server = ModelServer::start([API.bash("a", "touch ran"), API.say("done")]);
    let start = scratch.workspace().join("start.sh").display().to_string();
    let run = tooloop(&scratch, &server, API)
        .env("BASH_ENV", &start)
        .env("TOOLOOP_PASS_ENVIRONMENT", "BASH_ENV");
    let run = run.env("TOOLOOP_DISALLOWED_TOOLS", "Bash(touch ran)");
    finish(&run.arg("go").start());
    assert!(scratch.workspace().join("copy").exists());
    assert!(!scratch.workspace().join("started").exists());
}
