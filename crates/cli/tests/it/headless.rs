//! The headless run: how prompts come in, what goes out, and how it ends.

use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use serde_json::{Value, json};
use tooloop_testkit::run::{Finished, Output, Run, Signal, Stdin};
use tooloop_testkit::{Gate, ModelServer, Reply, Scratch, hold, wait_for, wait_until};

use crate::support::{
    Api, LONG, ask, asking, bare, both, end, finish, front_end, interrupt, journal, journals, said,
    send, speak, told, tooloop, wait_for_file, wait_for_piece, wait_for_result,
};

/// One record and nothing else.
fn only_record(finished: &Finished) -> Value {
    let mut records = finished.json_lines().unwrap();
    assert_eq!(records.len(), 1, "{finished}");
    let record = records.remove(0);
    assert_eq!(record["type"], "result", "{finished}");
    assert_eq!(
        record["exit_status"].as_i64(),
        finished.code.map(i64::from),
        "{finished}"
    );
    record
}

// ---- formats

both! {
    fn the_answer_is_all_that_text_output_holds(api) {
        let (scratch, server) = (Scratch::new(), ModelServer::start([api.bash("c", "ls"), api.say("the answer")]));
        let finished = end(&asking(&scratch, &server, api).arg("go").start());
        finished.assert_code(0);
        assert_eq!(finished.stdout.text(), "the answer\n");
        assert_eq!(finished.stderr.text(), "tooloop: sandbox: off, commands run as you\n");
        server.assert_clean();
    }

    fn json_output_is_one_result(api) {
        let (scratch, server) = (Scratch::new(), ModelServer::start([api.bash("c", "ls"), api.say("the answer")]));
        let run = asking(&scratch, &server, api).args(["--output-format", "json", "go"]);
        let finished = end(&run.start());
        finished.assert_code(0);
        let record = only_record(&finished);
        assert_eq!(record["subtype"], "success");
        assert_eq!(record["is_error"], false);
        assert_eq!(record["result"], "the answer");
        assert_eq!(record["reason"], "completed");
        assert_eq!(record["num_turns"], 2);
        assert_eq!(record["permission_denials"], json!([]));
        assert!(record["usage"]["output_tokens"].is_u64());
        assert_eq!(journals(&scratch).len(), 1);
    }

    fn records_tell_the_whole_turn_in_order(api) {
        let (scratch, server) = (Scratch::new(), ModelServer::start([api.bash("c_1", "echo hi"), api.say("bye")]));
        let done = ask(&scratch, &server, api, "go");
        assert_eq!(done.answer(), "bye");
        let kinds: Vec<_> = done.records.iter().map(|record| {
            let subtype = record["subtype"].as_str().unwrap_or_default();
            format!("{} {subtype}", record["type"].as_str().unwrap())
        }).collect();
        assert_eq!(kinds, ["system init", "assistant ", "user ", "system continue", "assistant ", "result success"]);
        let init = &done.records[0];
        assert_eq!(init["schema_version"], 1);
        assert_eq!(init["cwd"], scratch.workspace().to_str().unwrap());
        assert_eq!(init["model"], "m");
        let tools = init["tools"].as_array().unwrap();
        assert!(tools.contains(&json!("bash")) && tools.contains(&json!("read")), "{tools:?}");
        assert_eq!(init["permissionMode"], "bypassPermissions");
        assert_eq!((&init["sandbox"]["profile"], &init["resumed"]), (&json!("off"), &json!(false)));
        let call = &done.records[1]["message"]["content"][0];
        assert_eq!(call, &json!({"type": "tool_use", "id": "c_1", "name": "bash", "input": {"command": "echo hi"}}));
        assert_eq!(done.records[3]["reason"], "next_step");
        let (text, is_error) = done.tool_result("c_1");
        assert!(text.starts_with("hi\n(exit status 0, ") && !is_error, "{text}");
    }

    fn pieces_come_only_where_they_are_wanted(api) {
        for wanted in [true, false] {
            let (scratch, server) = (Scratch::new(), ModelServer::start([api.say("piece by piece")]));
            let run = tooloop(&scratch, &server, api);
            let run = if wanted { run.arg("--include-partial-messages") } else { run };
            let done = finish(&run.arg("go").start());
            assert_eq!(done.answer(), "piece by piece");
            let pieces: String = done.of("stream_event").iter()
                .filter_map(|record| record["event"]["delta"]["text"].as_str())
                .collect();
            assert_eq!(pieces, if wanted { "piece by piece" } else { "" });
        }
    }

    /// C38 a, as a consumer of pieces sees it.
    fn pieces_of_a_cut_reply_are_voided(api) {
        let first = match api {
            Api::Messages => tooloop_testkit::Steps::from([
                tooloop_testkit::anthropic::open(),
                tooloop_testkit::anthropic::text_start(0),
                tooloop_testkit::anthropic::text_delta(0, "Hello wor"),
            ]),
            Api::Chat => tooloop_testkit::openai_chat::content("Hello wor"),
        };
        let server = ModelServer::start([first.then(tooloop_testkit::reset()), api.say("Hello world")]);
        let scratch = Scratch::new();
        let run = tooloop(&scratch, &server, api).args(["--include-partial-messages", "go"]);
        let done = finish(&run.start());
        assert_eq!(done.answer(), "Hello world");
        let mut shown = String::new();
        for record in &done.records {
            if record["subtype"] == "message_voided" {
                assert_eq!(shown, "Hello wor");
                shown.clear();
            }
            shown.push_str(record["event"]["delta"]["text"].as_str().unwrap_or_default());
        }
        assert_eq!(shown, "Hello world");
    }
}

// ---- exit statuses, each with its result record

/// Runs with records and gives the words of the failure.
fn fails(run: Run, status: i32, reason: &str) -> String {
    let words = |finished: &Finished| {
        finished.assert_code(status);
        let records = finished.json_lines().unwrap();
        let last = records.last().unwrap().clone();
        assert_eq!(last["type"], "result", "{finished}");
        assert_eq!(last["reason"], reason, "{finished}");
        assert_eq!(last["exit_status"], status, "{finished}");
        assert_eq!(last["is_error"], true, "{finished}");
        last["errors"][0].as_str().unwrap().to_owned()
    };
    let as_json = end(&run.clone().args(["--output-format", "json"]).start());
    assert_eq!(as_json.stdout.lines.len(), 1, "{as_json}");
    let first = words(&as_json);
    let second = words(&end(&run
        .clone()
        .args(["--output-format=stream-json"])
        .start()));
    assert_eq!(first, second);
    // As text: nothing on standard output, the words on standard error.
    let as_text = end(&run.start());
    as_text.assert_code(status);
    assert_eq!(as_text.stdout.text(), "", "{as_text}");
    let line = first.lines().next().unwrap();
    assert!(as_text.stderr.text().contains(line), "{line}; {as_text}");
    first
}

fn server_that(status: u16, kind: &'static str, message: &'static str) -> ModelServer {
    ModelServer::start_with(move |request| request.format.error(status, kind, message))
}

both! {
    fn status_1_the_model_fails(api) {
        let (scratch, server) = (Scratch::new(), server_that(400, "invalid_request_error", "no such thing"));
        let words = fails(asking(&scratch, &server, api).arg("go"), 1, "model_error");
        assert!(words.contains("400") && words.contains("no such thing"), "{words}");
        assert_eq!(server.requests().len(), 3, "a bad request is not tried again");
    }

    fn status_41_the_key_is_wrong(api) {
        let (scratch, server) = (Scratch::new(), server_that(401, "authentication_error", "invalid key"));
        let words = fails(asking(&scratch, &server, api).arg("go"), 41, "model_error");
        assert!(words.contains("401") && words.contains("invalid key"), "{words}");
        assert_eq!(server.requests().len(), 3);
    }

    fn status_53_the_limit_of_turns(api) {
        let server = ModelServer::start_with(move |request| {
            api.bash("c_{#n}", &format!("echo {}", request.index)).into()
        });
        let scratch = Scratch::new();
        let run = asking(&scratch, &server, api).args(["--max-turns", "2", "go"]);
        let words = fails(run, 53, "max_turns");
        assert!(words.contains("--max-turns"), "{words}");
        assert_eq!(server.requests().len(), 6);
        server.assert_clean();

        let run = tooloop(&scratch, &server, api).args(["--max-turns", "3", "go"]);
        let done = finish(&run.start());
        assert_eq!(done.result()["subtype"], "error_max_turns");
        assert_eq!(done.result()["num_turns"], 3);
        // All calls have their answers, so that it can be gone on with.
        let server = ModelServer::start([api.say("ok")]);
        let done = finish(&tooloop(&scratch, &server, api).args(["--continue", "go on"]).start());
        assert_eq!(done.answer(), "ok");
        server.assert_clean();
    }
}

#[test]
fn status_1_the_model_refuses() {
    use tooloop_testkit::anthropic;
    let reply = anthropic::open()
        .then(anthropic::text(0, "No."))
        .then(anthropic::end("refusal"));
    let (scratch, server) = (Scratch::new(), ModelServer::start([reply]));
    let done = ask(&scratch, &server, Api::Messages, "go");
    done.failed(1, "refused");
    assert_eq!(done.result()["partial_result"], "No.");
}

#[test]
fn status_2_usage() {
    let scratch = Scratch::new();
    for (arguments, named) in [
        (&["--no-such-flag", "go"][..], "--no-such-flag"),
        (&["--max-turns", "0", "go"], "--max-turns"),
        (&["--continue", "--resume", "x", "go"], "--continue"),
        (&["--fork-session", "go"], "--fork-session"),
        (&["--session-id", "nonsense", "go"], "--session-id"),
        (
            &["--system-prompt", "a", "--system-prompt-file", "b", "go"],
            "--system-prompt",
        ),
        (&["--cd", "no/such/folder", "go"], "no/such/folder"),
        (
            &["--system-prompt-file", "no-such-file", "go"],
            "no-such-file",
        ),
        (&["--resume", "00000000", "go"], "00000000"),
        (&["--continue", "go"], "no session"),
    ] {
        let run = bare(&scratch)
            .env("ANTHROPIC_API_KEY", "k")
            .arg("-p")
            .args(arguments.to_vec());
        let words = fails(run, 2, "not_run");
        assert!(words.contains(named), "{arguments:?}: {words}");
    }
    assert!(journals(&scratch).is_empty());
}

#[test]
fn status_2_a_terminal_is_no_prompt_but_a_closed_input_is_blank() {
    let scratch = Scratch::new();
    let run = bare(&scratch).env("ANTHROPIC_API_KEY", "k").arg("-p");
    let words = fails(run, 42, "not_run");
    assert!(words.contains("blank"), "{words}");
}

#[test]
fn status_41_no_key() {
    let scratch = Scratch::new();
    for (model, variable) in [
        ("anthropic/m", "ANTHROPIC_API_KEY"),
        ("openai/m", "OPENAI_API_KEY"),
    ] {
        let words = fails(
            bare(&scratch).args(["-p", "--model", model, "go"]),
            41,
            "not_run",
        );
        assert!(words.contains(variable), "{words}");
    }
}

#[test]
fn status_41_no_model_at_all() {
    for port in [11434_u16, 8080, 1234, 8000] {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            eprintln!("skipped: something listens on port {port}");
            return;
        }
    }
    let scratch = Scratch::new();
    let words = fails(bare(&scratch).args(["-p", "go"]), 41, "not_run");
    assert_eq!(words.lines().count(), 5, "{words}");
    for way in [
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "--base-url",
        "tooloop demo",
    ] {
        assert!(words.contains(way), "{words}");
    }
    assert!(journals(&scratch).is_empty());
}

#[test]
fn status_42_prompts_that_cannot_be_used() {
    let scratch = Scratch::new();
    let run = || bare(&scratch).env("ANTHROPIC_API_KEY", "k").arg("-p");
    for blank in ["", "   ", " \n\t"] {
        assert!(fails(run().arg(blank), 42, "not_run").contains("blank"));
    }
    assert!(
        fails(
            run().arg("-").stdin(Stdin::Bytes(b" \n".to_vec())),
            42,
            "not_run"
        )
        .contains("blank")
    );
    let huge = vec![b'x'; (10 << 20) + 1];
    assert!(fails(run().arg("-").stdin(Stdin::Bytes(huge)), 42, "not_run").contains("10 MB"));

    let lines = |text: &str| {
        run()
            .args(["--input-format", "stream-json"])
            .stdin(Stdin::Bytes(text.into()))
    };
    let words = fails(lines("{\"type\":\"user\"}\n"), 42, "not_run");
    assert!(
        words.contains("line 1") && words.contains("message"),
        "{words}"
    );
    let words = fails(lines("\n{oops\n"), 42, "not_run");
    assert!(words.contains("line 2"), "{words}");
    let words = fails(lines(""), 42, "not_run");
    assert!(words.contains("no message"), "{words}");
    let blank = json!({"type": "user", "message": {"role": "user", "content": "  "}});
    assert!(fails(lines(&format!("{blank}\n")), 42, "not_run").contains("blank"));
}

#[test]
fn status_44_there_is_no_sandbox() {
    let scratch = Scratch::new();
    let run =
        bare(&scratch)
            .env("ANTHROPIC_API_KEY", "k")
            .args(["-p", "--sandbox", "strict", "go"]);
    let words = fails(run, 44, "not_run");
    assert!(words.contains("sandbox"), "{words}");
}

/// C44, the forms that show at the binary
#[test]
fn status_52_settings_that_cannot_be_understood() {
    let scratch = Scratch::new();
    let server = ModelServer::start_with(|_| Api::Messages.bash("c_{#n}", "touch M").into());
    let path = scratch.config().join("tooloop/config.toml");
    for (content, named) in [
        (
            "dissallowed_tools = [\"Bash(touch *)\"]\n",
            &["config.toml:1:1", "dissallowed_tools", "disallowed_tools"][..],
        ),
        (
            "model = \"m\"\ndisallowed_tools = [\"Bash(tou",
            &["config.toml:2:"],
        ),
        (
            "\n\ndisallowed_tools = 7\n",
            &["config.toml:3:", "disallowed_tools"],
        ),
        (
            "disallowed_tools = [\"Bash(touch *)\",] // note\n",
            &["config.toml:1:"],
        ),
    ] {
        scratch.write(&path, content);
        let run = asking(&scratch, &server, Api::Messages).args([
            "--permission-mode",
            "bypassPermissions",
            "go",
        ]);
        let words = fails(run, 52, "not_run");
        for word in named {
            assert!(words.contains(word), "{word}: {words}");
        }
        assert_eq!(scratch.read(&path), content);
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::read(&path).is_err() {
        let run = asking(&scratch, &server, Api::Messages).arg("go");
        assert!(fails(run, 52, "not_run").contains("config.toml"));
    } else {
        eprintln!("skipped: this user may read files of mode 000");
    }
    assert!(server.requests().is_empty());
    assert!(!scratch.workspace().join("M").exists());

    let run = bare(&scratch)
        .env("TOOLOOP_TOOL_TIMEOUT_MS", "soon")
        .args(["-p", "--bare", "go"]);
    std::fs::remove_file(&path).unwrap();
    assert!(fails(run, 52, "not_run").contains("TOOLOOP_TOOL_TIMEOUT_MS"));
}

/// C44, the forms that are obeyed
#[test]
fn a_deny_rule_holds_in_every_form_of_file() {
    let rules = "disallowed_tools = [\n  \"Bash(touch *)\", # not here\n]\n";
    for content in [
        rules.to_owned(),
        format!("\u{feff}{}", rules.replace('\n', "\r\n")),
    ] {
        let scratch = Scratch::new();
        let path = scratch.write(scratch.config().join("tooloop/config.toml"), &content);
        let command = format!("touch {}", scratch.marker().display());
        let server =
            ModelServer::start([Api::Messages.bash("c", &command), Api::Messages.say("ok")]);
        let done = ask(&scratch, &server, Api::Messages, "go");
        assert_eq!(done.answer(), "ok");
        let (words, is_error) = done.tool_result("c");
        assert!(is_error && words.contains("touch"), "{words}");
        assert_eq!(done.result()["permission_denials"][0]["tool_use_id"], "c");
        assert!(!scratch.marker().exists());
        assert_eq!(scratch.read(path), content);
    }
}

// ---- prompts

#[test]
fn standard_input_joins_the_prompt() {
    let (scratch, server) = (
        Scratch::new(),
        ModelServer::start_with(|request| request.format.say("ok").into()),
    );
    let api = Api::Messages;
    let run = || tooloop(&scratch, &server, api);
    let stdin = |text: &str| Stdin::Bytes(text.into());
    for run in [
        run().arg("review this").stdin(stdin("+ a line\n")),
        run().arg("-").stdin(stdin("from a pipe\n")),
        run().stdin(stdin("no argument at all\n")),
        run().arg("alone").stdin(stdin("")),
    ] {
        assert_eq!(finish(&run.start()).answer(), "ok");
    }
    // At the end of a pipe no flag is needed.
    let run = bare(&scratch)
        .model(&server)
        .args(["--model", api.model(), "no flag"])
        .stdin(Stdin::Null);
    end(&run.start()).assert_code(0);
    let prompts: Vec<_> = server
        .requests()
        .iter()
        .map(|request| said(request)[0].1.trim().to_owned())
        .collect();
    assert_eq!(
        prompts,
        [
            "review this\n\n+ a line",
            "from a pipe",
            "no argument at all",
            "alone",
            "no flag"
        ]
    );
}

both! {
    fn each_message_of_a_front_end_is_a_turn(api) {
        let (scratch, server) = (Scratch::new(), ModelServer::start([api.say("one"), api.say("two")]));
        let running = front_end(&scratch, &server, api).start();
        speak(&running, "first");
        assert_eq!(wait_for_result(&running, 1)["result"], "one");
        speak(&running, "second");
        assert_eq!(wait_for_result(&running, 2)["result"], "two");
        running.close_stdin();
        let done = finish(&running);
        assert_eq!(done.answer(), "two");
        assert_eq!(done.of("result").len(), 2);
        assert_eq!(said(&server.request(1)), [("user".into(), "first".into()), ("assistant".into(), "one".into()),
            ("user".into(), "second".into())].map(|(role, text): (String, String)| (role, text)));
        server.assert_clean();
    }

    fn both_messages_of_a_file_get_their_turn(api) {
        let line = |text: &str| json!({"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": text}]}});
        let (scratch, server) = (Scratch::new(), ModelServer::start_with(move |request| {
            api.say(&format!("{} messages", request.messages().len())).into()
        }));
        let input = format!("{}\n\n{}\n", line("first"), line("second"));
        let run = tooloop(&scratch, &server, api).args(["--input-format", "stream-json"]).stdin(Stdin::Bytes(input.into()));
        let done = finish(&run.start());
        done.answer();
        let last = server.requests().pop().unwrap();
        assert!(last.mentions("first") && last.mentions("second"), "{}", last.body);
        server.assert_clean();
    }

    /// What is said while a tool runs reaches the model with its result.
    fn steering(api) {
        let scratch = Scratch::new();
        let command = "touch started; until [ -e go ]; do sleep 0.02; done; echo ran";
        let server = ModelServer::start([api.bash("c_1", command), api.say("ok")]);
        let running = front_end(&scratch, &server, api).start();
        speak(&running, "work");
        wait_for_file(&scratch.workspace().join("started"));
        speak(&running, "only touch src");
        // Lines are taken in order: when this one is answered, the one before has been heard.
        send(&running, &json!({"type": "control_request", "request_id": "r1", "request": {"subtype": "initialize"}}));
        running.wait_for_record(LONG, |record| record["response"]["request_id"] == "r1").unwrap();
        scratch.write("go", "");
        assert_eq!(wait_for_result(&running, 1)["result"], "ok");
        running.close_stdin();
        let done = finish(&running);
        assert_eq!(done.of("result").len(), 1);
        let request = server.request(1);
        assert!(told(&request, "c_1").starts_with("ran\n"));
        let last = request.messages().last().unwrap();
        assert!(last.to_string().contains("only touch src"), "{}", request.body);
        assert!(done.system("continue").iter().any(|record| record["reason"] == "steered"));
        server.assert_clean();
    }

    fn a_model_call_can_be_interrupted_and_the_conversation_goes_on(api) {
        let text = match api {
            Api::Messages => tooloop_testkit::Steps::from([
                tooloop_testkit::anthropic::open(),
                tooloop_testkit::anthropic::text_start(0),
                tooloop_testkit::anthropic::text_delta(0, "Half of "),
            ]),
            Api::Chat => tooloop_testkit::openai_chat::content("Half of "),
        };
        let (scratch, server) = (Scratch::new(), ModelServer::start([text.then(hold()), api.say("ok")]));
        let running = front_end(&scratch, &server, api).start();
        speak(&running, "go");
        wait_for_piece(&running, "text_delta");
        interrupt(&running);
        let result = wait_for_result(&running, 1);
        assert_eq!(result["reason"], "interrupted");
        server.wait_client_gone(0, LONG).unwrap();
        speak(&running, "next");
        assert_eq!(wait_for_result(&running, 2)["result"], "ok");
        running.close_stdin();
        finish(&running).answer();
        server.assert_clean();
    }
}

#[test]
fn a_front_end_may_want_text() {
    let (scratch, server) = (
        Scratch::new(),
        ModelServer::start([Api::Messages.say("one"), Api::Messages.say("two")]),
    );
    let running = asking(&scratch, &server, Api::Messages)
        .args(["--input-format", "stream-json"])
        .stdin(Stdin::Silent)
        .start();
    for (prompt, answer) in [("first", "one"), ("second", "two")] {
        speak(&running, prompt);
        running.wait_for_line(LONG, |line| line == answer).unwrap();
    }
    running.close_stdin();
    let finished = end(&running);
    finished.assert_code(0);
    assert_eq!(finished.stdout.text(), "one\ntwo\n");
}

#[test]
fn a_message_that_cannot_be_used_is_told_after_the_turn() {
    let api = Api::Messages;
    let scratch = Scratch::new();
    let command = "touch started; until [ -e go ]; do sleep 0.02; done";
    let server = ModelServer::start([api.bash("c_1", command), api.say("ok")]);
    let running = front_end(&scratch, &server, api).start();
    speak(&running, "work");
    wait_for_file(&scratch.workspace().join("started"));
    send(&running, &json!({"type": "nonsense"}));
    running.close_stdin();
    scratch.write("go", "");
    assert_eq!(wait_for_result(&running, 1)["result"], "ok");
    let words = finish(&running).failed(42, "not_run");
    assert!(
        words.contains("line 2") && words.contains("nonsense"),
        "{words}"
    );
}

#[test]
fn a_signal_between_two_messages_ends_the_run() {
    for (signal, status) in [(Signal::Interrupt, 130), (Signal::Terminate, 143)] {
        let (scratch, server) = (Scratch::new(), ModelServer::start([Api::Chat.say("one")]));
        let running = front_end(&scratch, &server, Api::Chat).start();
        speak(&running, "first");
        wait_for_result(&running, 1);
        assert!(running.signal(signal));
        finish(&running).failed(status, "not_run");
    }
}

#[test]
fn control_requests_are_answered() {
    let (scratch, server) = (
        Scratch::new(),
        ModelServer::start_with(|request| request.format.say("ok").into()),
    );
    let running = front_end(&scratch, &server, Api::Messages).start();
    let control = |id: &str, request: Value| {
        send(
            &running,
            &json!({"type": "control_request", "request_id": id, "request": request}),
        );
        let (record, _) = running
            .wait_for_record(LONG, |record| record["response"]["request_id"] == id)
            .unwrap();
        assert_eq!(record["type"], "control_response");
        record["response"]["subtype"].as_str().unwrap().to_owned()
    };
    assert_eq!(control("a", json!({"subtype": "initialize"})), "success");
    assert_eq!(control("b", json!({"subtype": "make_coffee"})), "error");
    assert_eq!(
        control("c", json!({"subtype": "set_model", "model": "other"})),
        "success"
    );
    // With no turn under way there is nothing to end, which is no fault.
    assert_eq!(control("d", json!({"subtype": "interrupt"})), "success");
    speak(&running, "go");
    wait_for_result(&running, 1);
    running.close_stdin();
    finish(&running).answer();
    assert_eq!(server.request(0).body["model"], "other");
}

#[test]
fn system_prompts() {
    let (scratch, server) = (
        Scratch::new(),
        ModelServer::start_with(|request| request.format.say("ok").into()),
    );
    let (whole, more) = (
        scratch.write("whole.txt", "From a file."),
        scratch.write("more.txt", "More from a file."),
    );
    let (whole, more) = (whole.to_str().unwrap(), more.to_str().unwrap());
    for api in [Api::Messages, Api::Chat] {
        let system = |flags: &[&str]| {
            let run = tooloop(&scratch, &server, api)
                .args(flags.to_vec())
                .arg("go");
            finish(&run.start()).answer();
            server.requests().pop().unwrap().system()
        };
        let default = system(&[]);
        assert!(
            default.contains(scratch.workspace().to_str().unwrap()),
            "{default}"
        );
        assert_eq!(system(&["--system-prompt", "Be brief."]), "Be brief.");
        assert_eq!(system(&["--system-prompt-file", whole]), "From a file.");
        assert_eq!(
            system(&["--append-system-prompt", "Be kind."]),
            format!("{default}\n\nBe kind.")
        );
        assert_eq!(
            system(&[
                "--system-prompt",
                "Be brief.",
                "--append-system-prompt-file",
                more
            ]),
            "Be brief.\n\nMore from a file."
        );
        assert_eq!(system(&["--system-prompt", ""]), "");
    }
    server.assert_clean();
}

// ---- permission

/// Has the model run a reading command and a writing one, and tells whether the second ran.
fn writes(api: Api, flags: &[&str]) -> (bool, Value) {
    let scratch = Scratch::new();
    scratch.write("here.txt", "");
    let made = scratch.workspace().join("M");
    let touch = format!("touch {}", made.display());
    let server = ModelServer::start([
        api.bashes(&[("c_r", "ls | sort"), ("c_w", &touch)]),
        api.say("ok"),
    ]);
    let run = asking(&scratch, &server, api)
        .args(["--output-format", "stream-json"])
        .args(flags.to_vec())
        .arg("go");
    let done = finish(&run.start());
    assert_eq!(done.answer(), "ok");
    let (text, is_error) = done.tool_result("c_r");
    assert!(text.starts_with("here.txt\n") && !is_error, "{text}");
    let ran = made.exists();
    let (words, is_error) = done.tool_result("c_w");
    assert_eq!(is_error, !ran, "{words}");
    let denials = done.result()["permission_denials"].clone();
    if ran {
        assert_eq!(denials, json!([]));
    } else {
        assert!(words.contains("permission denied"), "{words}");
        assert_eq!(denials.as_array().unwrap().len(), 1);
        let denial = &denials[0];
        assert_eq!(
            (&denial["tool_name"], &denial["tool_use_id"]),
            (&json!("bash"), &json!("c_w"))
        );
        assert_eq!(denial["tool_input"], json!({ "command": touch }));
        assert!(
            words.contains(denial["reason"].as_str().unwrap()),
            "{words}: {denial}"
        );
        assert_eq!(done.system("permission").len(), 1);
    }
    server.assert_clean();
    (ran, denials)
}

both! {
    fn only_reading_commands_run_where_nobody_can_be_asked(api) {
        let (ran, denials) = writes(api, &[]);
        assert!(!ran);
        assert!(denials[0]["reason"].as_str().unwrap().contains("nobody to ask"), "{denials}");
        for flags in [
            &["--permission-mode", "plan"][..],
            &["--permission-mode", "dontAsk"],
            &["--permission-mode", "bypassPermissions", "--disallowedTools", "Bash(touch *)"],
            &["--allowedTools", "Bash(touch *)", "--disallowedTools", "Bash(touch *)"],
            &["--allowedTools", "Bash(rm *)"],
        ] {
            assert!(!writes(api, flags).0, "{flags:?}");
        }
    }

    fn allowed_calls_run(api) {
        for flags in [
            &["--permission-mode", "bypassPermissions"][..],
            &["--allowedTools", "Bash(touch *)"],
            &["--allowed-tools", "Bash(rm *), Bash(touch *)"],
            &["--allowedTools", "Bash(rm *)", "--allowedTools", "Bash(touch *)"],
        ] {
            assert!(writes(api, flags).0, "{flags:?}");
        }
    }
}

#[test]
fn text_output_tells_what_was_not_run() {
    let api = Api::Messages;
    let (scratch, server) = (
        Scratch::new(),
        ModelServer::start([api.bash("c", "touch M"), api.say("ok")]),
    );
    let finished = end(&asking(&scratch, &server, api).arg("go").start());
    finished.assert_code(0);
    assert_eq!(finished.stdout.text(), "ok\n");
    assert!(
        finished
            .stderr
            .text()
            .contains("not run: bash {\"command\":\"touch M\"}"),
        "{finished}"
    );
    assert!(!scratch.workspace().join("M").exists());
}

#[test]
fn a_folder_cannot_widen_what_is_allowed() {
    let api = Api::Messages;
    let (scratch, server) = (
        Scratch::new(),
        ModelServer::start([api.bash("c", "touch M"), api.say("ok")]),
    );
    scratch.write(
        ".tooloop/config.toml",
        "permission_mode = \"bypassPermissions\"\nallowed_tools = [\"Bash\"]\n",
    );
    let run = asking(&scratch, &server, api).args(["--output-format", "stream-json", "go"]);
    let done = finish(&run.start());
    assert_eq!(done.answer(), "ok");
    assert!(!scratch.workspace().join("M").exists());
    let warnings = done.system("warning");
    for key in ["permission_mode", "allowed_tools"] {
        let named = |record: &&&Value| record["message"].as_str().unwrap().contains(key);
        assert_eq!(
            warnings.iter().filter(named).count(),
            1,
            "{}",
            done.finished
        );
    }
}

// ---- C45: at the end of a pipe

fn large() -> String {
    (0..30_000).map(|number| format!("{number:09}\n")).collect()
}

both! {
    /// C45 a
    fn a_slow_reader_gets_every_byte(api) {
        for format in ["text", "json", "stream-json"] {
            let (scratch, server) = (Scratch::new(), ModelServer::start([api.say(&large())]));
            let gate = Gate::new();
            let run = asking(&scratch, &server, api)
                .args(["--output-format", format, "go"])
                .stdout(Output::CollectAfter(gate.clone()));
            let running = run.start();
            server.wait_ended(0, LONG).unwrap();
            assert!(running.is_alive());
            gate.open();
            let finished = end(&running);
            finished.assert_code(0);
            if format == "text" {
                assert_eq!(finished.stdout.text(), large());
            } else {
                let records = finished.json_lines().unwrap();
                assert_eq!(records.last().unwrap()["result"], large());
            }
        }
    }

    /// C45 b
    fn a_reader_that_has_gone_ends_the_run(api) {
        let (scratch, server) = (Scratch::new(), ModelServer::start([api.say(&large())]));
        let run = asking(&scratch, &server, api).arg("go").stdout(Output::CloseAfter(10));
        let finished = end(&run.start());
        finished.assert_code(141);
        assert!(!finished.stderr.text().contains("panic"), "{finished}");

        // While a command runs: it ends with the run.
        let scratch = Scratch::new();
        let server = ModelServer::start([api.bash("c", "touch started; yes | head -c 300000; sleep 300"), api.say("never")]);
        let run = tooloop(&scratch, &server, api).arg("go").stdout(Output::CloseAfter(10));
        let running = run.start();
        let finished = end(&running);
        finished.assert_code(141);
        assert!(server.requests().len() <= 1);
    }

    /// C45 c
    fn an_open_silent_input_is_not_waited_for(api) {
        let (scratch, server) = (Scratch::new(), ModelServer::start([api.say("ok")]));
        let running = tooloop(&scratch, &server, api).arg("go").stdin(Stdin::Silent).start();
        server.wait_for_requests(1, LONG).unwrap();
        let done = finish(&running);
        assert_eq!(done.answer(), "ok");
        assert!(server.request(0).arrived - running.started() < Duration::from_secs(10));
        assert_eq!(done.finished.stderr.text(), "");
    }

    /// C45 f
    fn records_come_as_things_happen(api) {
        let scratch = Scratch::new();
        let gate = Gate::new();
        let command = "touch started; until [ -e go ]; do sleep 0.02; done; echo ran";
        let server = ModelServer::start([
            Reply::stream(api.bash("c_1", command)),
            Reply::stream(wait_for(&gate).then(api.say("ok"))),
        ]);
        let running = tooloop(&scratch, &server, api).arg("go").start();
        wait_for_file(&scratch.workspace().join("started"));
        // Each of these would wait for ever if records came late.
        running.wait_for_record(LONG, |record| record["type"] == "assistant").unwrap();
        scratch.write("go", "");
        running.wait_for_record(LONG, |record| record["message"]["content"][0]["type"] == "tool_result").unwrap();
        gate.open();
        assert_eq!(finish(&running).answer(), "ok");
    }
}

/// C45 d
#[test]
fn files_that_are_closed_at_the_start_do_no_harm() {
    let api = Api::Messages;
    let runs: [fn(Run) -> Run; 4] = [
        |run| run.stdin(Stdin::Closed),
        |run| run.stdout(Output::Closed),
        |run| run.stderr(Output::Closed),
        |run| {
            run.stdin(Stdin::Closed)
                .stdout(Output::Closed)
                .stderr(Output::Closed)
        },
    ];
    for closed in runs {
        let server =
            ModelServer::start([api.bash("c", "cat; echo out; echo err >&2"), api.say("ok")]);
        let scratch = Scratch::new();
        let finished = end(&closed(tooloop(&scratch, &server, api).arg("go")).start());
        finished.assert_code(0);
        assert!(told(&server.request(1), "c").contains("out\nerr\n"));
        for path in journals(&scratch) {
            for line in scratch.read(path).lines() {
                let record: Value = serde_json::from_str(line).unwrap();
                assert!(
                    record
                        .get("entry")
                        .or(record.get("tooloop_session"))
                        .is_some(),
                    "{line}"
                );
            }
        }
        server.assert_clean();
    }
}

/// C45 e
#[test]
fn no_escape_sequences_where_there_is_no_terminal() {
    let api = Api::Messages;
    for format in ["text", "json", "stream-json"] {
        for no_color in [true, false] {
            let (scratch, server) = (
                Scratch::new(),
                ModelServer::start([api.bash("c", "touch x; ls --color=always"), api.say("ok")]),
            );
            let run = asking(&scratch, &server, api).args(["--output-format", format, "go"]);
            let run = if no_color {
                run.env("NO_COLOR", "1")
            } else {
                run
            };
            let finished = end(&run.start());
            finished.assert_code(0);
            assert!(
                !finished.stdout.bytes.contains(&0x1b) && !finished.stderr.bytes.contains(&0x1b),
                "{finished}"
            );
        }
    }
    let scratch = Scratch::new();
    for arguments in [
        &["--help"][..],
        &["--no-such-flag"],
        &["config"],
        &["sessions", "list"],
    ] {
        let finished = end(&bare(&scratch)
            .env("NO_COLOR", "1")
            .args(arguments.to_vec())
            .start());
        assert!(
            !finished.stdout.bytes.contains(&0x1b) && !finished.stderr.bytes.contains(&0x1b),
            "{finished}"
        );
    }
}

// ---- the rest

#[test]
fn secrets_are_nowhere() {
    let key = "kk-SECRET-4711";
    for api in [Api::Messages, Api::Chat] {
        let scratch = Scratch::new();
        let server = ModelServer::start([
            Reply::stream(api.bash("c", "env; echo \"$ANTHROPIC_API_KEY$OPENAI_API_KEY\"")),
            api.error(503, "overloaded_error", "try again"),
            api.error(401, "authentication_error", &format!("invalid key: {key}")),
        ]);
        let run = tooloop(&scratch, &server, api)
            .env("ANTHROPIC_API_KEY", key)
            .env("OPENAI_API_KEY", key)
            .args(["--verbose", "go"]);
        let done = finish(&run.start());
        done.failed(41, "model_error");
        let sent = server.request(0);
        assert!(
            sent.headers.iter().any(|(_, value)| value.contains(key)),
            "the key is sent to the provider"
        );
        let finished = &done.finished;
        assert!(!finished.stdout.text().contains(key), "{finished}");
        assert!(!finished.stderr.text().contains(key), "{finished}");
        let journal = scratch.read(journal(&scratch, &done.session()));
        assert!(!journal.contains(key), "{journal}");
        assert!(!server.request(1).mentions(key));
    }
    let scratch = Scratch::new();
    let run = bare(&scratch).env("OPENAI_API_KEY", key).arg("config");
    let finished = end(&run.start());
    finished.assert_code(0);
    assert!(!finished.stdout.text().contains(key), "{finished}");
}

#[test]
fn the_demo_needs_nothing() {
    let scratch = Scratch::new();
    let run = bare(&scratch).args(["demo", "--fast"]);
    let finished = end(&run.start());
    finished.assert_code(0);
    let text = finished.stdout.text();
    assert!(
        text.contains("recording") && text.contains("exit status 0"),
        "{text}"
    );
    assert!(text.contains("(done; "), "{text}");
    let told = finished.stderr.text();
    assert_eq!(told, "tooloop: sandbox: off, commands run as you\n");
    // Its folder is gone, and it is on no record.
    assert!(journals(&scratch).is_empty());
    let left: Vec<_> = std::fs::read_dir(scratch.temporary()).unwrap().collect();
    assert!(
        left.iter().all(|entry| !entry
            .as_ref()
            .unwrap()
            .file_name()
            .to_string_lossy()
            .contains("demo")),
        "{left:?}"
    );

    let finished = end(&bare(&scratch)
        .args(["demo", "--fast", "--output-format", "stream-json"])
        .start());
    finished.assert_code(0);
    let records = finished.json_lines().unwrap();
    assert_eq!(records.last().unwrap()["subtype"], "success", "{finished}");
}

#[test]
fn hello_does_a_small_job_with_the_model_at_hand() {
    let api = Api::Messages;
    let calls = [("c_r", "cat notes.txt"), ("c_w", "touch M")];
    let (scratch, server) = (
        Scratch::new(),
        ModelServer::start([api.bashes(&calls), api.say("two files")]),
    );
    let run = bare(&scratch)
        .model(&server)
        .env("TOOLOOP_MODEL", api.model())
        .args(["hello", "--fast"]);
    let finished = end(&run.start());
    finished.assert_code(0);
    let text = finished.stdout.text();
    assert!(
        text.contains("two files") && text.contains("Buy milk."),
        "{text}"
    );
    assert!(text.contains("permission denied"), "{text}");
    assert!(journals(&scratch).is_empty());
    server.assert_clean();
}

/// The README has a row for each status, and help names them.
#[test]
fn the_statuses_are_documented() {
    let readme = include_str!("../../../../README.md");
    let (_, table) = readme.split_once("## Exit status").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| "));
    let statuses: Vec<u8> = rows
        .filter_map(|row| row.split_once(" |"))
        .flat_map(|(first, _)| first.split(", ").map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|status| status.parse().ok())
        .collect();
    assert_eq!(
        statuses,
        [
            0, 1, 2, 3, 4, 41, 42, 43, 44, 52, 53, 54, 59, 60, 61, 62, 63, 64, 65, 129, 130, 131,
            134, 143, 141
        ]
    );
}

#[test]
fn help_version_and_settings_are_told_on_standard_output() {
    let scratch = Scratch::new();
    for (arguments, named) in [
        (&["--help"][..], "--output-format"),
        (&["--version"], "tooloop "),
        (&["config"], "tool_timeout_ms = "),
        (&["sessions", "--help"], "list"),
    ] {
        let finished = end(&bare(&scratch).args(arguments.to_vec()).start());
        finished.assert_code(0);
        assert!(finished.stdout.text().contains(named), "{finished}");
    }
    let finished = end(&bare(&scratch)
        .env("TOOLOOP_TOOL_TIMEOUT_MS", "1234")
        .args(["config", "--model", "x"])
        .start());
    let text = finished.stdout.text();
    assert!(
        text.contains("tool_timeout_ms = 1234  (TOOLOOP_TOOL_TIMEOUT_MS)"),
        "{text}"
    );
    assert!(text.contains("model = \"x\"  (--model)"), "{text}");
}

#[test]
fn a_folder_can_be_named() {
    let api = Api::Chat;
    let (scratch, server) = (
        Scratch::new(),
        ModelServer::start([api.bash("c", "pwd"), api.say("ok")]),
    );
    scratch.write("deeper/file", "");
    let done = finish(
        &tooloop(&scratch, &server, api)
            .args(["-C", "deeper", "go"])
            .start(),
    );
    assert_eq!(done.answer(), "ok");
    let deeper = scratch.workspace().join("deeper");
    assert!(told(&server.request(1), "c").starts_with(&format!("{}\n", deeper.display())));
    assert_eq!(done.records[0]["cwd"], deeper.to_str().unwrap());
    assert!(wait_until(LONG, || journals(&scratch).len() == 1));
}

#[test]
fn a_server_without_a_named_model_is_asked_which_it_has() {
    let scratch = Scratch::new();
    let server = ModelServer::builder()
        .models(&["only-one"])
        .replies([Api::Chat.say("ok")])
        .start();
    let run = bare(&scratch).args([
        "-p",
        "--output-format",
        "stream-json",
        "--base-url",
        &server.base_url_v1(),
        "go",
    ]);
    let done = finish(&run.start());
    assert_eq!(done.answer(), "ok");
    assert_eq!(server.request(0).body["model"], "only-one");
    assert!(server.request(0).header("authorization").is_none());
}
