//! A program at the other end that is asked about calls, by the control protocol; and runs in which
//! nobody is.

use serde_json::{Value, json};
use tooloop_testkit::run::{Run, Running, Signal, Stdin};
use tooloop_testkit::{ModelServer, Scratch};

use crate::support::{
    Api, LONG, asking, both, finish, front_end, interrupt, send, speak, told, tooloop,
    wait_for_result,
};

/// A run whose host is asked.
pub(crate) fn host(scratch: &Scratch, server: &ModelServer, api: Api) -> Run {
    unasked(scratch, server, api)
        .args(["--input-format", "stream-json"])
        .args(["--permission-prompt-tool", "stdio"])
        .stdin(Stdin::Silent)
}

/// A run with the permissions that there are by default, and no sandbox that makes some needless.
fn unasked(scratch: &Scratch, server: &ModelServer, api: Api) -> Run {
    asking(scratch, server, api)
        .env("TOOLOOP_SANDBOX", "off")
        .args(["--output-format", "stream-json"])
}

/// Waits for the n-th question (from 1).
pub(crate) fn question(running: &Running, count: usize) -> Value {
    let mut seen = 0;
    let asked = running.wait_for_record(LONG, |record| {
        seen += usize::from(record["request"]["subtype"] == "can_use_tool");
        seen == count
    });
    let (record, _) = asked.unwrap();
    assert_eq!(record["type"], "control_request");
    record
}

pub(crate) fn answer(running: &Running, question: &Value, answer: Value) {
    respond(
        running,
        &json!({
            "subtype": "success",
            "request_id": question["request_id"],
            "response": answer,
        }),
    );
}

fn respond(running: &Running, response: &Value) {
    send(
        running,
        &json!({ "type": "control_response", "response": response }),
    );
}

fn warning(running: &Running, words: &str) {
    let told = running.wait_for_record(LONG, |record| {
        record["subtype"] == "warning" && record["message"].as_str().unwrap().contains(words)
    });
    told.unwrap();
}

pub(crate) fn no(message: &str) -> Value {
    json!({ "behavior": "deny", "message": message })
}

/// A yes with the suggestion for this destination.
pub(crate) fn always(question: &Value, destination: &str) -> Value {
    let suggestions = question["request"]["permission_suggestions"]
        .as_array()
        .unwrap();
    let suggestion = suggestions
        .iter()
        .find(|suggestion| suggestion["destination"] == destination);
    json!({ "behavior": "allow", "updatedPermissions": [suggestion.unwrap()] })
}

both! {
    /// C16: the answer is waited for, its reason reaches the model, and no neighbour suffers.
    fn a_no_with_a_reason_reaches_the_model(api) {
        let scratch = Scratch::new();
        let marker = format!("touch {}", scratch.marker().display());
        let calls = [("a", "exit 3"), ("b", "cat missing.txt"), ("c", "echo c"), ("d", marker.as_str())];
        let server = ModelServer::start([api.bashes(&calls), api.say("ok")]);
        let running = host(&scratch, &server, api).args(["--allowedTools", "Bash(exit *)"]).start();
        speak(&running, "go");
        let asked = question(&running, 1);
        let request = &asked["request"];
        assert_eq!((&request["tool_name"], &request["tool_use_id"]), (&json!("bash"), &json!("d")));
        assert_eq!(request["input"]["command"], marker.as_str());
        assert_eq!(request["cause"], "uncovered");
        assert!(!scratch.marker().exists());
        answer(&running, &asked, no("not today"));
        wait_for_result(&running, 1);
        running.close_stdin();
        let done = finish(&running);
        assert_eq!(done.answer(), "ok");
        let request = server.request(1);
        let ids: Vec<_> = request.tool_results().into_iter().map(|result| result.id).collect();
        assert_eq!(ids, ["a", "b", "c", "d"]);
        assert!(told(&request, "a").contains("exit status 3"), "{}", told(&request, "a"));
        assert!(told(&request, "c").starts_with("c\n"));
        assert!(told(&request, "d").contains("not today"), "{}", told(&request, "d"));
        assert_eq!(["a", "b", "c", "d"].map(|id| done.tool_result(id).1), [true, true, false, true]);
        let denials = &done.result()["permission_denials"];
        assert_eq!(denials[0]["reason"], "not today");
        assert_eq!(denials[0]["decided_by"], "answer");
        assert_eq!(denials[0]["cause"], "uncovered");
        assert_eq!(denials[0]["tool_input"]["command"], marker.as_str());
        assert!(!scratch.marker().exists());
        server.assert_clean();
    }

    /// C34: always for this session means the very same call, and nothing else.
    fn always_for_the_session_covers_the_same_call_alone(api) {
        let scratch = Scratch::new();
        let server = ModelServer::start([
            api.bash("c1", "touch 1.txt"),
            api.bash("c2", "touch 1.txt"),
            api.bash("c3", "rm 1.txt"),
            api.say("ok"),
        ]);
        let running = host(&scratch, &server, api).start();
        speak(&running, "go");
        let asked = question(&running, 1);
        answer(&running, &asked, always(&asked, "session"));
        let asked = question(&running, 2);
        assert_eq!(asked["request"]["tool_use_id"], "c3");
        answer(&running, &asked, no("keep it"));
        wait_for_result(&running, 1);
        running.close_stdin();
        let done = finish(&running);
        assert_eq!(done.answer(), "ok");
        assert_eq!(["c1", "c2", "c3"].map(|id| done.tool_result(id).1), [false, false, true]);
        assert!(scratch.workspace().join("1.txt").exists());
        server.assert_clean();
    }
}

#[test]
fn always_for_the_project_lasts_and_holds_there_alone() {
    let api = Api::Messages;
    let scratch = Scratch::new();
    let replies = |id: &str| [api.bash(id, "touch 1.txt"), api.say("ok")];
    let server = ModelServer::start([replies("c1"), replies("c2"), replies("c3")].concat());
    let running = host(&scratch, &server, api).start();
    speak(&running, "go");
    let asked = question(&running, 1);
    answer(&running, &asked, always(&asked, "localSettings"));
    wait_for_result(&running, 1);
    running.close_stdin();
    finish(&running).answer();
    let saved = scratch.config().join("tooloop/projects.toml");
    let text = scratch.read(&saved);
    assert!(text.contains("\"Bash(touch 1.txt)\""), "{text}");
    assert!(!scratch.workspace().join(".tooloop").exists());

    let again = finish(&unasked(&scratch, &server, api).arg("go").start());
    again.answer();
    assert!(!again.tool_result("c2").1, "{}", again.finished);

    // Not in another folder, and not from a file of the folder's own.
    let other = scratch.outside();
    let own = format!("[\"{}\"]\nallowed_tools = [\"Bash\"]\n", other.display());
    scratch.write(other.join(".tooloop/projects.toml"), own);
    let elsewhere = unasked(&scratch, &server, api).directory(&other).arg("go");
    let elsewhere = finish(&elsewhere.start());
    assert!(elsewhere.tool_result("c3").1, "{}", elsewhere.finished);
    server.assert_clean();
}

#[test]
fn saved_rules_that_cannot_be_understood_are_told_and_not_touched() {
    let (scratch, server) = (Scratch::new(), ModelServer::start([Api::Chat.say("never")]));
    let text = "[\"/w\"]\nallowed_tools = [\"Bash(\"]\n";
    let saved = scratch.write(scratch.config().join("tooloop/projects.toml"), text);
    let done = finish(&unasked(&scratch, &server, Api::Chat).arg("go").start());
    let words = done.failed(52, "not_run");
    assert!(words.contains("projects.toml:2:18: "), "{words}");
    assert_eq!(scratch.read(&saved), text);
    assert_eq!(server.requests().len(), 0);
}

/// One call that is asked about, and what is said after it.
fn one_call(scratch: &Scratch, api: Api) -> ModelServer {
    let marker = format!("touch {}", scratch.marker().display());
    ModelServer::start([api.bash("c1", &marker), api.say("ok")])
}

#[test]
fn where_standard_input_ends_nobody_answers_any_more() {
    let scratch = Scratch::new();
    let server = one_call(&scratch, Api::Messages);
    let running = host(&scratch, &server, Api::Messages).start();
    speak(&running, "go");
    let asked = question(&running, 1);
    running.close_stdin();
    let done = finish(&running);
    assert_eq!(done.answer(), "ok");
    let (words, is_error) = done.tool_result("c1");
    assert!(
        is_error && words.contains("standard input has ended"),
        "{words}"
    );
    let cancelled = done.of("control_cancel_request");
    assert_eq!(cancelled[0]["request_id"], asked["request_id"]);
    assert!(!scratch.marker().exists());
}

#[test]
fn what_is_no_answer_is_a_no() {
    for response in [
        json!({ "subtype": "success", "response": { "behavior": "perhaps" } }),
        json!({ "subtype": "success" }),
        json!({ "subtype": "error", "error": "the host has a fault" }),
        json!({}),
    ] {
        let scratch = Scratch::new();
        let server = one_call(&scratch, Api::Messages);
        let running = host(&scratch, &server, Api::Messages).start();
        speak(&running, "go");
        let asked = question(&running, 1);
        let mut response = response;
        response["request_id"] = asked["request_id"].clone();
        respond(&running, &response);
        wait_for_result(&running, 1);
        running.close_stdin();
        let done = finish(&running);
        assert_eq!(done.answer(), "ok");
        let (words, _) = done.tool_result("c1");
        assert!(words.contains("gave no usable answer"), "{words}");
        assert!(!scratch.marker().exists());
    }
}

#[test]
fn an_answer_for_nobody_and_a_second_one_change_nothing() {
    let scratch = Scratch::new();
    let server = one_call(&scratch, Api::Messages);
    let running = host(&scratch, &server, Api::Messages).start();
    respond(
        &running,
        &json!({ "subtype": "success", "request_id": "early" }),
    );
    warning(&running, "\"early\"");
    speak(&running, "go");
    let asked = question(&running, 1);
    let mut wrong = asked.clone();
    wrong["request_id"] = json!("wrong");
    answer(&running, &wrong, json!({ "behavior": "allow" }));
    warning(&running, "\"wrong\"");
    send(&running, &json!({ "type": "control_response" }));
    assert!(!scratch.marker().exists());
    answer(&running, &asked, no("first"));
    answer(&running, &asked, json!({ "behavior": "allow" }));
    wait_for_result(&running, 1);
    running.close_stdin();
    let done = finish(&running);
    assert_eq!(done.answer(), "ok");
    assert!(done.tool_result("c1").0.contains("first"));
    assert!(!scratch.marker().exists());
}

#[test]
fn a_question_that_is_void_is_taken_back() {
    // A signal, a request, and the end of the time.
    for (how, status) in [("signal", 130), ("request", 130), ("time", 61)] {
        let scratch = Scratch::new();
        let server = one_call(&scratch, Api::Messages);
        let run = host(&scratch, &server, Api::Messages);
        let run = if how == "time" {
            run.args(["--max-time", "700ms"])
        } else {
            run
        };
        let running = run.start();
        speak(&running, "go");
        let asked = question(&running, 1);
        match how {
            "signal" => assert!(running.signal(Signal::Interrupt)),
            "request" => interrupt(&running),
            _ => {}
        }
        let cancelled =
            running.wait_for_record(LONG, |record| record["type"] == "control_cancel_request");
        assert_eq!(cancelled.unwrap().0["request_id"], asked["request_id"]);
        // It comes too late.
        let yes = json!({ "subtype": "success", "request_id": asked["request_id"],
            "response": { "behavior": "allow" } });
        let line = json!({ "type": "control_response", "response": yes });
        drop(running.write_stdin(format!("{line}\n").as_bytes()));
        running.close_stdin();
        let done = finish(&running);
        assert_eq!(done.finished.code, Some(status), "{how}: {}", done.finished);
        assert!(done.tool_result("c1").1);
        assert!(!scratch.marker().exists());
    }
}

#[test]
fn a_no_may_end_the_turn_before_a_neighbour_begins() {
    let (scratch, api) = (Scratch::new(), Api::Messages);
    let marker = format!("touch {}", scratch.marker().display());
    let calls = [("c1", "touch first"), ("c2", marker.as_str())];
    let server = ModelServer::start([api.bashes(&calls), api.say("again")]);
    let rule = format!("Bash({marker})");
    let running = host(&scratch, &server, api)
        .args(["--allowedTools", &rule])
        .start();
    speak(&running, "go");
    let asked = question(&running, 1);
    answer(
        &running,
        &asked,
        json!({ "behavior": "deny", "message": "leave it", "interrupt": true }),
    );
    let result = wait_for_result(&running, 1);
    assert_eq!(result["reason"], "interrupted");
    speak(&running, "go on");
    wait_for_result(&running, 2);
    running.close_stdin();
    let done = finish(&running);
    assert_eq!(done.answer(), "again");
    assert!(told(&server.request(1), "c1").contains("leave it"));
    assert!(!scratch.marker().exists());
    server.assert_clean();
}

#[test]
fn a_changed_input_is_what_runs_and_is_on_record() {
    let (scratch, api) = (Scratch::new(), Api::Messages);
    let calls = [("c1", "touch first"), ("c2", "touch third")];
    let server = ModelServer::start([api.bashes(&calls), api.say("ok")]);
    let run = host(&scratch, &server, api).args(["--disallowedTools", "Bash(touch denied)"]);
    let running = run.start();
    speak(&running, "go");
    let with =
        |command: &str| json!({ "behavior": "allow", "updatedInput": { "command": command } });
    let asked = question(&running, 1);
    answer(&running, &asked, with("touch second"));
    let asked = question(&running, 2);
    answer(&running, &asked, with("touch denied"));
    wait_for_result(&running, 1);
    running.close_stdin();
    let done = finish(&running);
    assert_eq!(done.answer(), "ok");
    let exists = |name: &str| scratch.workspace().join(name).exists();
    let there = ["first", "second", "third", "denied"].map(exists);
    assert_eq!(there, [false, true, false, false]);
    let (words, _) = done.tool_result("c1");
    assert!(
        words.contains("ran with {\"command\":\"touch second\"}"),
        "{words}"
    );
    // What a rule denies stays denied.
    let (words, _) = done.tool_result("c2");
    assert!(
        words.contains("`touch denied` is denied by the rule"),
        "{words}"
    );
    let recorded = scratch.read(crate::support::journal(&scratch, &done.session()));
    assert!(
        recorded.contains(
            r#""call_rewritten":{"tool_use_id":"c1","input":{"command":"touch second"}}"#
        ),
        "{recorded}"
    );
    server.assert_clean();
}

#[test]
fn what_a_host_asks_for_is_done_or_refused_with_words() {
    let (scratch, api) = (Scratch::new(), Api::Messages);
    let write = json!({ "path": "a.txt", "content": "a\n" });
    let server = ModelServer::start([api.call("c1", "write", &write), api.say("ok")]);
    let running = host(&scratch, &server, api).start();
    let control = |id: &str, request: Value| {
        let request = json!({ "type": "control_request", "request_id": id, "request": request });
        send(&running, &request);
        let answered =
            running.wait_for_record(LONG, |record| record["response"]["request_id"] == id);
        answered.unwrap().0["response"].clone()
    };
    let begun = control("a", json!({ "subtype": "initialize", "hooks": null }));
    assert_eq!(begun["response"]["models"][0]["value"], "m");
    let again = json!({ "subtype": "initialize", "agents": {} });
    assert_eq!(control("b", again)["subtype"], "success");
    for (id, mode, subtype) in [
        ("c", "bypassPermissions", "error"),
        ("d", "yolo", "error"),
        ("e", "acceptEdits", "success"),
    ] {
        let set = json!({ "subtype": "set_permission_mode", "mode": mode });
        assert_eq!(control(id, set)["subtype"], subtype, "{mode}");
    }
    assert_eq!(control("f", json!({}))["subtype"], "error");
    speak(&running, "go");
    wait_for_result(&running, 1);
    running.close_stdin();
    let done = finish(&running);
    assert_eq!(done.answer(), "ok");
    // The mode has let it through.
    assert!(done.of("control_request").is_empty());
    assert!(scratch.workspace().join("a.txt").exists());
}

#[test]
fn who_may_be_asked_is_told() {
    let (scratch, server) = (Scratch::new(), ModelServer::start([Api::Chat.say("never")]));
    let run = |flags: &[&str]| {
        let run = asking(&scratch, &server, Api::Chat).args(flags.to_vec());
        crate::support::end(&run.arg("go").start())
    };
    for (flags, words) in [
        (
            &["--permission-prompt-tool", "mcp__auth__ask"][..],
            "\"stdio\" asks",
        ),
        (
            &["--permission-prompt-tool", "stdio"][..],
            "needs --input-format stream-json",
        ),
    ] {
        let finished = run(flags);
        finished.assert_code(2);
        assert!(finished.stderr.text().contains(words), "{finished}");
    }
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn without_a_host_that_is_asked_a_call_is_refused() {
    let scratch = Scratch::new();
    let server = one_call(&scratch, Api::Messages);
    let running = front_end(&scratch, &server, Api::Messages)
        .env("TOOLOOP_PERMISSION_MODE", "default")
        .env("TOOLOOP_SANDBOX", "off")
        .start();
    speak(&running, "go");
    wait_for_result(&running, 1);
    running.close_stdin();
    let done = finish(&running);
    assert_eq!(done.answer(), "ok");
    let denial = &done.result()["permission_denials"][0];
    assert_eq!(
        (&denial["decided_by"], &denial["cause"]),
        (&json!("nobody"), &json!("uncovered"))
    );
    assert!(!scratch.marker().exists());
}

#[test]
fn a_rule_that_denies_is_told_as_the_policy() {
    let scratch = Scratch::new();
    let server = one_call(&scratch, Api::Messages);
    let run = tooloop(&scratch, &server, Api::Messages);
    let done = finish(
        &run.args(["--disallowedTools", "Bash(touch *)", "go"])
            .start(),
    );
    let denial = &done.result()["permission_denials"][0];
    assert_eq!(
        (&denial["decided_by"], &denial["cause"]),
        (&json!("policy"), &Value::Null)
    );
}

#[test]
fn a_strict_run_ends_where_somebody_would_have_to_be_asked() {
    let (scratch, api) = (Scratch::new(), Api::Messages);
    let marker = format!("touch {}", scratch.marker().display());
    let calls = [("c1", "touch first"), ("c2", marker.as_str())];
    for format in ["stream-json", "text"] {
        let server = ModelServer::start([api.bashes(&calls), api.say("never")]);
        let rule = format!("Bash({marker})");
        let run = asking(&scratch, &server, api)
            .env("TOOLOOP_SANDBOX", "off")
            .args(["--strict-permissions", "--output-format", format])
            .args(["--allowedTools", &rule, "go"]);
        let running = run.start();
        if format == "text" {
            let finished = crate::support::end(&running);
            finished.assert_code(63);
            assert!(
                finished
                    .stderr
                    .text()
                    .contains("permission was needed for a call of bash")
            );
        } else {
            let done = finish(&running);
            let words = done.failed(63, "permission_needed");
            assert!(words.contains("`touch first` is not covered"), "{words}");
            assert_eq!(done.result()["subtype"], "error_permission_needed");
            assert_eq!(done.result()["permission_denials"][0]["tool_use_id"], "c1");
        }
        assert_eq!(server.requests().len(), 1);
        assert!(!scratch.marker().exists());
    }
}
