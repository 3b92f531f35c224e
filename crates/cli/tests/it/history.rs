//! What a provider is sent stays a history that it accepts, whatever happened before.

use serde_json::json;
use tooloop_testkit::{ModelServer, Reply, Scratch, Steps, anthropic, hold, openai_chat};

use crate::support::{
    Api, Done, ask, both, finish, front_end, interrupt, journal, kill, resume, said, session_of,
    speak, told, tooloop, wait_for_file, wait_for_piece, wait_for_result,
};

/// A command that says when it has begun, and would do harm if it ever came to its end.
fn long_command(scratch: &Scratch) -> String {
    let marker = scratch.marker();
    format!("touch begun; sleep 60; echo x >> {}", marker.display())
}

fn begun_call(api: Api) -> Steps {
    match api {
        Api::Messages => Steps::from([
            anthropic::open(),
            anthropic::tool_use_start(0, "tu_1", "bash"),
            anthropic::input_delta(0, "{\"command\":\"echo x"),
        ]),
        Api::Chat => openai_chat::tool_delta(0, "tu_1", "bash", "{\"command\":")
            .then(openai_chat::arguments_delta(0, "\"echo x")),
    }
}

both! {
    /// C12 a
    fn a_tool_that_was_interrupted_has_an_answer(api) {
        let scratch = Scratch::new();
        let server = ModelServer::start([api.bash("tu_1", &long_command(&scratch)), api.say("ok")]);
        let running = front_end(&scratch, &server, api).start();
        speak(&running, "first");
        wait_for_file(&scratch.workspace().join("begun"));
        interrupt(&running);
        let result = wait_for_result(&running, 1);
        assert_eq!((&result["reason"], &result["exit_status"]), (&json!("interrupted"), &json!(130)));
        speak(&running, "next");
        assert_eq!(wait_for_result(&running, 2)["result"], "ok");
        running.close_stdin();
        finish(&running).answer();
        let request = server.request(1);
        let words = told(&request, "tu_1");
        assert!(words.contains("interrupted") && words.contains("unknown"), "{words}");
        let last = request.messages().last().unwrap().to_string();
        assert!(last.contains("next"), "{last}");
        assert!(!scratch.marker().exists());
        server.assert_clean();
    }

    /// C12 b
    fn a_tool_that_died_with_the_program_has_an_answer(api) {
        let scratch = Scratch::new();
        let server = ModelServer::start([api.bash("tu_1", &long_command(&scratch)), api.say("ok"), api.say("still ok")]);
        let running = tooloop(&scratch, &server, api).arg("first").start();
        let session = session_of(&running);
        wait_for_file(&scratch.workspace().join("begun"));
        assert!(kill(&running));
        let done = resume(&scratch, &server, api, &session, "next");
        assert_eq!(done.answer(), "ok");
        assert_eq!(done.session(), session);
        assert_eq!(done.records[0]["resumed"], true);
        let words = told(&server.request(1), "tu_1");
        assert!(words.contains("interrupted") && words.contains("unknown"), "{words}");
        assert!(!scratch.marker().exists());
        // And so once more: what was closed stays closed.
        assert_eq!(resume(&scratch, &server, api, &session, "again").answer(), "still ok");
        assert_eq!(told(&server.request(2), "tu_1"), words);
        server.assert_clean();
    }

    /// C12 c
    fn a_call_that_was_being_written_is_gone(api) {
        let scratch = Scratch::new();
        let server = ModelServer::start([begun_call(api).then(hold()), api.say("ok")]);
        let running = front_end(&scratch, &server, api).start();
        speak(&running, "first");
        wait_for_piece(&running, "input_json_delta");
        interrupt(&running);
        assert_eq!(wait_for_result(&running, 1)["reason"], "interrupted");
        speak(&running, "next");
        assert_eq!(wait_for_result(&running, 2)["result"], "ok");
        running.close_stdin();
        finish(&running).answer();
        assert!(server.request(1).tool_results().is_empty());
        server.assert_clean();
    }

    /// C13
    fn blank_text_never_reaches_the_provider(api) {
        let (first, second) = match api {
            Api::Messages => (
                Steps::from([
                    anthropic::open(),
                    anthropic::text(0, ""),
                    anthropic::tool_use(1, "tu_1", "bash", &["{\"command\":\"true\"}"]),
                    anthropic::end("tool_use"),
                ]),
                Steps::from([anthropic::open(), anthropic::text(0, "\n \n"), anthropic::end("end_turn")]),
            ),
            Api::Chat => (
                openai_chat::content("").then(openai_chat::call("tu_1", "bash", "{\"command\":\"true\"}")),
                openai_chat::say("\n \n"),
            ),
        };
        let (scratch, server) = (Scratch::new(), ModelServer::start([first, second, api.say("words"), api.say("ok"), api.say("fine")]));
        let done = ask(&scratch, &server, api, "first");
        // An empty reply is asked for once more.
        assert_eq!(done.answer(), "words");
        assert!(told(&server.request(1), "tu_1").contains("(no output)"));
        let session = done.session();
        resume(&scratch, &server, api, &session, "   ").failed(42, "not_run");
        assert_eq!(resume(&scratch, &server, api, &session, "go on").answer(), "ok");
        assert_eq!(resume(&scratch, &server, api, &session, "once more").answer(), "fine");
        assert_eq!(server.requests().len(), 5);
        assert!(!server.request(4).mentions("   "));
        server.assert_clean();
    }

    /// C16
    fn each_of_several_calls_has_its_own_answer(api) {
        let scratch = Scratch::new();
        let marker = format!("touch {}", scratch.marker().display());
        let calls = [("a", "exit 3"), ("b", "cat missing.txt"), ("c", "echo c"), ("d", marker.as_str())];
        let server = ModelServer::start([api.bashes(&calls), api.say("ok")]);
        let run = tooloop(&scratch, &server, api).args(["--disallowedTools", "Bash(touch *)", "go"]);
        let done = finish(&run.start());
        assert_eq!(done.answer(), "ok");
        let request = server.request(1);
        let ids: Vec<_> = request.tool_results().into_iter().map(|result| result.id).collect();
        assert_eq!(ids, ["a", "b", "c", "d"]);
        let result_messages = request.messages().iter()
            .filter(|message| message.to_string().contains("missing.txt: No such file"));
        assert_eq!(result_messages.count(), 1);
        assert!(told(&request, "a").contains("exit status 3"), "{}", told(&request, "a"));
        assert!(told(&request, "c").starts_with("c\n"));
        let denial = &done.result()["permission_denials"][0];
        assert_eq!(denial["tool_use_id"], "d");
        assert!(told(&request, "d").contains(denial["reason"].as_str().unwrap()), "{denial}");
        assert_eq!(["a", "b", "c", "d"].map(|id| done.tool_result(id).1), [true, true, false, true]);
        assert!(!scratch.marker().exists());
        server.assert_clean();
    }

    /// C16, where nobody can be asked: the neighbours that only read run.
    fn a_call_that_nobody_allows_takes_no_neighbour_down(api) {
        let scratch = Scratch::new();
        let marker = format!("touch {}", scratch.marker().display());
        let calls = [("a", "ls -d ."), ("d", marker.as_str()), ("c", "echo c")];
        let server = ModelServer::start([api.bashes(&calls), api.say("ok")]);
        let run = tooloop(&scratch, &server, api).env("TOOLOOP_PERMISSION_MODE", "default").arg("go");
        let done = finish(&run.start());
        assert_eq!(done.answer(), "ok");
        assert_eq!(["a", "d", "c"].map(|id| done.tool_result(id).1), [false, true, false]);
        assert!(done.tool_result("d").0.contains("permission denied"));
        assert!(!scratch.marker().exists());
        server.assert_clean();
    }

    /// C43
    fn a_tool_that_is_no_longer_there(api) {
        let (scratch, server) = (Scratch::new(), ModelServer::start([
            api.bash("tu_1", "echo found"),
            api.say("there"),
            api.call("tu_9", "mcp__gone__find", &json!({})),
            api.call("tu_10", "Bash", &json!({"command": "echo z"})),
            api.say("ok"),
        ]));
        let session = ask(&scratch, &server, api, "first").session();
        let path = journal(&scratch, &session);
        let old = scratch.read(&path);
        let renamed = old.replace("\"name\":\"bash\"", "\"name\":\"mcp__gone__find\"");
        assert_ne!(renamed, old);
        scratch.write(&path, renamed);
        let done = resume(&scratch, &server, api, &session, "next");
        assert_eq!(done.answer(), "ok");
        assert!(server.request(2).body.to_string().contains("mcp__gone__find"));
        assert!(told(&server.request(2), "tu_1").starts_with("found\n"));
        let (words, is_error) = done.tool_result("tu_9");
        assert!(is_error && words.contains("The tools are: apply_patch, bash, "), "{words}");
        let (words, is_error) = done.tool_result("tu_10");
        assert!(is_error && words.contains("Did you mean bash?"), "{words}");
        server.assert_clean();
    }
}

/// C14
#[test]
fn thinking_that_was_cut_is_not_sent_back() {
    let api = Api::Messages;
    let unsigned = Steps::from([
        anthropic::open(),
        anthropic::thinking_start(0),
        anthropic::thinking_delta(0, "let me"),
    ]);
    let trailing = anthropic::open().then(anthropic::thinking(0, "plan", "sig1"));
    let with_text = trailing
        .clone()
        .then(anthropic::text_start(1))
        .then(anthropic::text_delta(1, "So: "));
    for (begun, kind) in [
        (unsigned, "thinking_delta"),
        (trailing, "thinking_delta"),
        (with_text, "text_delta"),
    ] {
        let scratch = Scratch::new();
        let server = ModelServer::start([begun.then(hold()), api.say("ok"), api.say("fine")]);
        let running = front_end(&scratch, &server, api).start();
        speak(&running, "first");
        wait_for_piece(&running, kind);
        interrupt(&running);
        let result = wait_for_result(&running, 1);
        assert_eq!(result["reason"], "interrupted");
        running.close_stdin();
        let done = finish(&running);
        let session = done.session();
        assert_eq!(
            resume(&scratch, &server, api, &session, "go").answer(),
            "ok"
        );
        assert_eq!(
            resume(&scratch, &server, api, &session, "on").answer(),
            "fine"
        );
        server.assert_clean();
    }
}

#[test]
fn thinking_comes_back_as_it_was() {
    let api = Api::Messages;
    let first = Steps::from([
        anthropic::open(),
        anthropic::thinking(0, "plan\u{2028} é", "c2lnbmF0dXJl"),
        anthropic::redacted_thinking(1, "b3BhcXVl"),
        anthropic::tool_use(2, "tu_1", "bash", &["{\"command\":\"echo hi\"}"]),
        anthropic::end("tool_use"),
    ]);
    let (scratch, server) = (
        Scratch::new(),
        ModelServer::start([first, api.say("ok"), api.say("fine")]),
    );
    let done = ask(&scratch, &server, api, "first");
    assert_eq!(done.answer(), "ok");
    assert_eq!(
        resume(&scratch, &server, api, &done.session(), "go").answer(),
        "fine"
    );
    for request in [server.request(1), server.request(2)] {
        let content = &request.messages()[1]["content"];
        assert_eq!(content[0]["thinking"], "plan\u{2028} é");
        assert_eq!(content[0]["signature"], "c2lnbmF0dXJl");
        assert_eq!(content[1]["data"], "b3BhcXVl");
    }
    server.assert_clean();
}

/// C15
#[test]
fn reasoning_is_passed_back_where_it_is_needed() {
    let api = Api::Chat;
    for field in ["reasoning_content", "reasoning"] {
        let replies = || -> Vec<Reply> {
            let first = openai_chat::reasoning(field, "plan ")
                .then(openai_chat::reasoning(field, "A"))
                .then(openai_chat::call(
                    "c_1",
                    "bash",
                    "{\"command\":\"echo hi\"}",
                ));
            vec![first.into(), api.say("ok").into(), api.say("fine").into()]
        };
        let needs = || {
            ModelServer::builder()
                .needs_reasoning(field)
                .replies(replies())
                .start()
        };
        let plain = || {
            ModelServer::builder()
                .refuses_reasoning()
                .replies(replies())
                .start()
        };
        for (server, setting) in [
            (needs(), "auto"),
            (needs(), "as_received"),
            (needs(), field),
            (plain(), "never"),
        ] {
            let scratch = Scratch::new();
            let run = |arguments: &[&str]| -> Done {
                let run = tooloop(&scratch, &server, api)
                    .env("TOOLOOP_REASONING_ECHO", setting)
                    .args(arguments.to_vec());
                finish(&run.start())
            };
            let done = run(&["first"]);
            assert_eq!(done.answer(), "ok", "{field} {setting}");
            assert!(
                done.texts().iter().all(|text| !text.contains("plan")),
                "{:?}",
                done.texts()
            );
            assert_eq!(run(&["--resume", &done.session(), "next"]).answer(), "fine");
            let on_wire = server.request(2).body.to_string().contains("plan A");
            assert_eq!(on_wire, setting != "never", "{field} {setting}");
            assert_eq!(said(&server.request(2)).len(), 5);
            server.assert_clean();
        }
    }
}

/// C15 with a death between the call and its answer
#[test]
fn reasoning_survives_a_death() {
    let api = Api::Chat;
    let scratch = Scratch::new();
    let command = json!({ "command": long_command(&scratch) }).to_string();
    let first = openai_chat::reasoning("reasoning_content", "plan A")
        .then(openai_chat::call("c_1", "bash", &command));
    let server = ModelServer::builder()
        .needs_reasoning("reasoning_content")
        .replies([first, api.say("ok")])
        .start();
    let running = tooloop(&scratch, &server, api).arg("first").start();
    let session = session_of(&running);
    wait_for_file(&scratch.workspace().join("begun"));
    assert!(kill(&running));
    assert_eq!(
        resume(&scratch, &server, api, &session, "next").answer(),
        "ok"
    );
    server.assert_clean();
}
