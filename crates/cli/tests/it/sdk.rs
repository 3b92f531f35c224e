//! The protocol of agent SDKs: `initialize`, hook callbacks, and what their readers need of records.

use serde_json::{Value, json};
use tooloop_testkit::run::{Running, Stdin};
use tooloop_testkit::{ModelServer, Scratch};

use crate::asking::{answer, host, question};
use crate::support::{
    Api, Done, LONG, finish, front_end, said, send, speak, told, tooloop, wait_for_result,
};

const API: Api = Api::Messages;

fn initialize(running: &Running, mut fields: Value) {
    fields["subtype"] = "initialize".into();
    send(
        running,
        &json!({ "type": "control_request", "request_id": "i", "request": fields }),
    );
}

fn response(done: &Done) -> Value {
    done.of("control_response")[0]["response"].clone()
}

/// Waits for the n-th callback (from 1).
fn callback(running: &Running, count: usize) -> Value {
    let mut seen = 0;
    let called = running.wait_for_record(LONG, |record| {
        seen += usize::from(record["request"]["subtype"] == "hook_callback");
        seen == count
    });
    called.unwrap().0
}

#[test]
fn callback_of_the_program_denies_a_call() {
    for how in ["deny", "error", "gone", "closed"] {
        let scratch = Scratch::new();
        let server = ModelServer::start([API.bash("a", "touch ran"), API.say("ok")]);
        let running = front_end(&scratch, &server, API).start();
        let hook = json!({ "matcher": null, "hookCallbackIds": ["h1"], "onFailure": "block" });
        initialize(&running, json!({ "hooks": { "PreToolUse": [hook] } }));
        speak(&running, "go");
        if how == "closed" {
            running.close_stdin();
        } else {
            let called = callback(&running, 1);
            let request = &called["request"];
            assert_eq!(request["callback_id"], "h1");
            assert_eq!(request["tool_use_id"], "a");
            assert_eq!(request["input"]["tool_name"], "Bash");
            assert_eq!(request["input"]["tool_input"]["command"], "touch ran");
            let id = &called["request_id"];
            let said = match how {
                "deny" => json!({ "subtype": "success", "request_id": id, "response": {
                    "hookSpecificOutput": {
                        "hookEventName": "PreToolUse", "permissionDecision": "deny",
                        "permissionDecisionReason": "no",
                    },
                }}),
                _ => json!({ "subtype": "error", "request_id": id, "error": "broken" }),
            };
            if how != "gone" {
                send(
                    &running,
                    &json!({ "type": "control_response", "response": said }),
                );
            }
            running.close_stdin();
        }
        let done = finish(&running);
        assert_eq!(done.answer(), "ok", "{how}");
        assert!(!scratch.workspace().join("ran").exists(), "{how}");
        let answered = response(&done);
        assert_eq!(answered["subtype"], "success");
        assert_eq!(answered["response"]["hooks_applied"], true);
        let denial = &done.result()["permission_denials"][0];
        assert_eq!(denial["decided_by"], "hook", "{how}");
    }
}

#[test]
fn no_prompt_is_taken_after_a_refused_initialize() {
    for field in [
        "agents",
        "sdkMcpServers",
        "skills",
        "planModeInstructions",
        "newGuard",
    ] {
        let scratch = Scratch::new();
        let server = ModelServer::start([API.bash("a", "touch ran"), API.say("ok")]);
        let running = front_end(&scratch, &server, API).start();
        initialize(&running, json!({ field: { "a": "b" } }));
        speak(&running, "go");
        speak(&running, "again");
        wait_for_result(&running, 2);
        running.close_stdin();
        let done = finish(&running);
        let words = done.failed(42, "not_run");
        assert!(words.contains(field), "{words}");
        assert_eq!(response(&done)["subtype"], "error");
        assert_eq!(server.requests().len(), 0);
        assert!(!scratch.workspace().join("ran").exists());
    }
    // Too late to shape the session.
    let scratch = Scratch::new();
    let server = ModelServer::start([API.say("one"), API.say("two")]);
    let running = front_end(&scratch, &server, API).start();
    speak(&running, "go");
    wait_for_result(&running, 1);
    initialize(&running, json!({ "systemPrompt": ["late"] }));
    speak(&running, "on");
    wait_for_result(&running, 2);
    running.close_stdin();
    finish(&running).failed(42, "not_run");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn initialize_sets_the_system_prompt() {
    for (fields, expected) in [
        (json!({ "systemPrompt": [""] }), None),
        (
            json!({ "systemPrompt": ["alpha", "beta"], "appendSystemPrompt": "gamma" }),
            Some("alpha\n\nbeta"),
        ),
        (
            json!({ "hooks": null, "agents": null, "systemPrompt": ["alpha"], "jsonSchema": null }),
            Some("alpha"),
        ),
    ] {
        let scratch = Scratch::new();
        let server = ModelServer::start([API.say("ok")]);
        let running = front_end(&scratch, &server, API).start();
        initialize(&running, fields.clone());
        speak(&running, "go");
        running.close_stdin();
        let done = finish(&running);
        assert_eq!(done.answer(), "ok", "{fields}");
        assert_eq!(response(&done)["subtype"], "success");
        let system = server.request(0).body["system"].to_string();
        let expected = json!(expected.unwrap_or_default()).to_string();
        assert!(system.contains(expected.trim_matches('"')), "{system}");
        assert!(!system.contains("You work in the folder"), "{system}");
        let appended = fields.get("appendSystemPrompt").is_some();
        assert_eq!(system.contains("gamma"), appended, "{system}");
    }
}

#[test]
fn records_have_the_fields_that_readers_need() {
    let scratch = Scratch::new();
    let server = ModelServer::start([API.bash("a", "echo hi"), API.say("ok")]);
    let running = front_end(&scratch, &server, API).start();
    speak(&running, "go");
    running.close_stdin();
    let done = finish(&running);
    let mut ids = std::collections::BTreeSet::new();
    for record in &done.records {
        let id = record["uuid"]
            .as_str()
            .unwrap_or_else(|| panic!("{record}"));
        assert!(ids.insert(id.to_owned()), "{record}");
    }
    let events: Vec<_> = done
        .of("stream_event")
        .into_iter()
        .map(|record| &record["event"])
        .collect();
    let start = events
        .iter()
        .find(|event| event["type"] == "message_start")
        .unwrap();
    for field in ["id", "type", "role", "model", "content", "usage"] {
        assert!(!start["message"][field].is_null(), "{field}: {start}");
    }
    let ends: Vec<_> = events
        .iter()
        .filter(|event| event["type"] == "message_delta")
        .collect();
    assert_eq!(ends[0]["delta"]["stop_reason"], "tool_use");
    assert_eq!(ends[1]["delta"]["stop_reason"], "end_turn");
    assert!(ends[1]["usage"]["output_tokens"].is_u64(), "{}", ends[1]);
}

#[test]
fn prompts_are_echoed_only_on_request() {
    for echo in [false, true] {
        let scratch = Scratch::new();
        let server = ModelServer::start([API.say("ok")]);
        let run = front_end(&scratch, &server, API);
        let run = if echo {
            run.arg("--replay-user-messages")
        } else {
            run
        };
        let running = run.start();
        send(
            &running,
            &json!({
                "type": "user", "message": { "role": "user", "content": "go" },
                "uuid": "0199aaaa-0000-7000-8000-000000000001",
            }),
        );
        running.close_stdin();
        let done = finish(&running);
        let users = done.of("user");
        assert_eq!(users.len(), usize::from(echo), "{users:?}");
        if let Some(user) = users.first() {
            assert_eq!(user["uuid"], "0199aaaa-0000-7000-8000-000000000001");
        }
    }
}

#[test]
fn no_line_of_a_run_is_too_long() {
    let scratch = Scratch::new();
    let text = "x".repeat(2_000_000);
    let server = ModelServer::start([
        API.call("a", "write", &json!({ "path": "big.txt", "content": text })),
        API.say(&"y".repeat(1_500_000)),
    ]);
    let run = front_end(&scratch, &server, API).env("TOOLOOP_CONTEXT_WINDOW", "4000000");
    let running = run.start();
    speak(&running, &"z".repeat(1_200_000));
    running.close_stdin();
    let done = finish(&running);
    assert!(done.answer().starts_with("yyy"));
    let longest = done
        .finished
        .stdout
        .text()
        .lines()
        .map(str::len)
        .max()
        .unwrap();
    assert!(longest < 1_000_000, "{longest}");
    let written = std::fs::read_to_string(scratch.workspace().join("big.txt")).unwrap();
    assert_eq!(written.len(), 2_000_000);
}

#[test]
fn equal_input_is_no_change() {
    for (input, is_change) in [
        (
            json!({ "timeout_ms": 60000.0, "command": "echo hi" }),
            false,
        ),
        (
            json!({ "command": "echo hi", "timeout_ms": 60000, "run_in_background": false }),
            false,
        ),
        (
            json!({ "command": "echo hi", "timeout_ms": 60000, "grant": null }),
            false,
        ),
        (json!({ "command": "echo ho", "timeout_ms": 60000 }), true),
    ] {
        let scratch = Scratch::new();
        let call = json!({ "command": "echo hi", "timeout_ms": 60000 });
        let server = ModelServer::start([API.call("a", "bash", &call), API.say("ok")]);
        let run = host(&scratch, &server, API).env("TOOLOOP_ASK_TOOLS", "Bash");
        let running = run.start();
        speak(&running, "go");
        let asked = question(&running, 1);
        answer(
            &running,
            &asked,
            json!({ "behavior": "allow", "updatedInput": input }),
        );
        wait_for_result(&running, 1);
        running.close_stdin();
        let done = finish(&running);
        assert_eq!(
            done.system("call_rewritten").len(),
            usize::from(is_change),
            "{input}"
        );
        let told = told(&server.request(1), "a");
        assert_eq!(told.contains("changed its input"), is_change, "{told}");
    }
}

/// What a program is shown shortened it cannot change.
#[test]
fn shortened_question_can_be_allowed_unchanged() {
    for changes in [false, true] {
        let scratch = Scratch::new();
        let input = json!({ "path": "big.txt", "content": "x".repeat(2_000_000) });
        let server = ModelServer::start([API.call("a", "write", &input), API.say("ok")]);
        let running = host(&scratch, &server, API)
            .env("TOOLOOP_ASK_TOOLS", "Write")
            .start();
        speak(&running, "go");
        let asked = question(&running, 1);
        let mut shown = asked["request"]["input"].clone();
        if changes {
            shown["path"] = "other.txt".into();
        }
        answer(
            &running,
            &asked,
            json!({ "behavior": "allow", "updatedInput": shown }),
        );
        wait_for_result(&running, 1);
        running.close_stdin();
        finish(&running);
        let size = std::fs::metadata(scratch.workspace().join("big.txt")).map(|file| file.len());
        assert_eq!(size.ok(), (!changes).then_some(2_000_000));
        assert!(!scratch.workspace().join("other.txt").exists());
    }
}

/// A prompt that follows at once still has the whole of what was asked for before it.
#[test]
fn first_line_may_be_a_prompt() {
    let scratch = Scratch::new();
    let server = ModelServer::start([API.say("ok")]);
    let line = json!({ "type": "user", "message": { "role": "user", "content": "go" } });
    let run = tooloop(&scratch, &server, API).args(["--input-format", "stream-json"]);
    let done = finish(&run.stdin(Stdin::Bytes(format!("{line}\n").into())).start());
    assert_eq!(done.answer(), "ok");
    assert!(
        said(&server.request(0))
            .iter()
            .any(|(_, text)| text == "go")
    );
}
