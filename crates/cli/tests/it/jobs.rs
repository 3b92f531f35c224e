//! Commands that go on in the background of a run.

use serde_json::json;
use tooloop_testkit::run::Stdin;
use tooloop_testkit::{Gate, ModelServer, Reply, Scratch, wait_for};

use crate::support::{
    Api, LONG, asking, both, end, finish, front_end, said, speak, told, tooloop, wait_for_result,
};

fn job(command: &str) -> serde_json::Value {
    json!({"command": command, "run_in_background": true})
}

/// Text output says on standard error, once and at the end, what had to end with the run.
#[test]
fn text_output_names_what_ended_with_the_run() {
    for lines in [false, true] {
        let scratch = Scratch::new();
        let api = Api::Messages;
        let terminal = json!({"action": "start", "command": "cat -v", "wait_ms": 0});
        let server = ModelServer::start([
            api.call("c_1", "bash", &job("exec sleep 876542")),
            api.call("c_2", "terminal", &terminal),
            api.say("one"),
            api.say("two"),
        ]);
        let mode = ("TOOLOOP_PERMISSION_MODE", "bypassPermissions");
        let run = asking(&scratch, &server, api)
            .env(mode.0, mode.1)
            .env("TOOLOOP_BACKGROUND_WAIT_MS", "0");
        let (running, expected) = if lines {
            let run = run
                .args(["--input-format", "stream-json"])
                .stdin(Stdin::Silent);
            let running = run.start();
            speak(&running, "go");
            server.wait_for_requests(3, LONG).unwrap();
            // The next turn does not say it again, nor had the first.
            running.wait_for_line(LONG, |line| line == "one").unwrap();
            speak(&running, "on");
            running.wait_for_line(LONG, |line| line == "two").unwrap();
            running.close_stdin();
            (running, "one\ntwo\n")
        } else {
            (run.arg("go").start(), "one\n")
        };
        let finished = end(&running);
        finished.assert_code(61);
        assert_eq!(finished.stdout.text(), expected);
        assert_eq!(
            finished.stderr.text(),
            "tooloop: sandbox: off, commands run as you\n\
             tooloop: ended with this run while it was running: job_1: exec sleep 876542\n\
             tooloop: ended with this run while it was running: term_1: cat -v\n\
             tooloop: the run waited 0 s (background_wait_ms), and ended while background work \
             was running: job_1: exec sleep 876542\n"
        );
    }
}

both! {
    /// The end of a job is told once, between two steps, and the job's status is its own.
    fn a_notice_comes_between_steps_exactly_once(api) {
        let scratch = Scratch::new();
        let server = ModelServer::start([
            api.call("c_1", "bash", &job("until [ -e go ]; do sleep 0.01; done; echo done; exit 7")),
            api.bash("c_2", "touch go; until [ -e noticed ]; do sleep 0.01; done"),
            api.bash("c_3", "true"),
            api.say("ok"),
        ]);
        let running = tooloop(&scratch, &server, api).arg("go").start();
        running.wait_for_record(LONG, |record| record["subtype"] == "notice").unwrap();
        scratch.write("noticed", "");
        let done = finish(&running);
        assert_eq!(done.answer(), "ok");
        let (started, is_error) = done.tool_result("c_1");
        assert!(!is_error && started.contains("job_1"), "{started}");
        let of = |index: usize| said(&server.request(index)).into_iter()
            .filter(|(role, text)| role == "user" && text.contains("exit status 7")).count();
        assert_eq!([of(1), of(2), of(3)], [0, 1, 1]);
        let reasons: Vec<_> = done.system("continue").iter().map(|record| record["reason"].clone()).collect();
        assert_eq!(reasons, ["next_step", "reminder", "next_step"]);
        server.assert_clean();
    }

    /// A job that ends while nobody speaks wakes the session; a turn of its own follows.
    fn a_job_that_ends_wakes_a_session_that_waits_for_input(api) {
        let scratch = Scratch::new();
        let gate = Gate::new();
        let server = ModelServer::start([
            Reply::from(api.call("c_1", "bash", &job("until [ -e go ]; do sleep 0.01; done; echo built"))),
            api.say("started").into(),
            wait_for(&gate).then(api.say("it is built")).into(),
        ]);
        let running = front_end(&scratch, &server, api).start();
        speak(&running, "go");
        assert_eq!(wait_for_result(&running, 1)["result"], "started");
        scratch.write("go", "");
        server.wait_for_requests(3, LONG).unwrap();
        gate.open();
        assert_eq!(wait_for_result(&running, 2)["result"], "it is built");
        running.close_stdin();
        let done = finish(&running);
        let results = done.of("result");
        assert_eq!(results.len(), 2);
        assert_eq!(results[0]["background"].as_array().unwrap().len(), 1);
        assert_eq!(results[1]["background"], serde_json::Value::Null);
        let last = said(&server.request(2)).pop().unwrap();
        assert!(last.0 == "user" && last.1.contains("exit status 0") && last.1.contains("built"), "{last:?}");
        server.assert_clean();
    }

    /// What runs when the answer is there ends with the run, and the run says so.
    fn a_job_ends_with_the_run(api) {
        let scratch = Scratch::new();
        let server = ModelServer::start([
            api.call("c_1", "bash", &job("echo up; exec sleep 876543")),
            api.call("c_2", "job_output", &json!({"id": "job_1"})),
            api.call("c_3", "job_output", &json!({"id": "job_9"})),
            api.say("ok"),
        ]);
        let run = tooloop(&scratch, &server, api).env("TOOLOOP_BACKGROUND_WAIT_MS", "0");
        let done = finish(&run.arg("go").start());
        let words = done.failed(61, "background_unfinished");
        assert!(words.contains("sleep 876543"), "{words}");
        assert_eq!(done.result()["partial_result"], "ok");
        // Nothing is promised where nothing waits.
        let (started, _) = done.tool_result("c_1");
        assert!(!started.contains("notice"), "{started}");
        let still = done.result()["background"].to_string();
        assert!(still.contains("sleep 876543"), "{still}");
        assert!(told(&server.request(2), "c_2").contains("running"));
        let (words, is_error) = done.tool_result("c_3");
        assert!(is_error && words.contains("job_1"), "{words}");
        server.assert_clean();
    }

    /// A run waits for the work that it promised a notice of, and the model answers to that.
    fn a_run_waits_for_its_background_work(api) {
        let wait = "until [ -e answered ]; do sleep 0.01; done; echo fin > out";
        for lines in [false, true] {
            let scratch = Scratch::new();
            let server = ModelServer::start([
                api.call("c_1", "bash", &job(wait)),
                api.say("waiting"),
                api.say("seen"),
            ]);
            let run = tooloop(&scratch, &server, api);
            let running = match lines {
                true => {
                    let running = run.args(["--input-format", "stream-json"]).stdin(Stdin::Silent).start();
                    speak(&running, "go");
                    running.close_stdin();
                    running
                }
                false => run.arg("go").start(),
            };
            server.wait_for_requests(2, LONG).unwrap();
            scratch.write("answered", "");
            let done = finish(&running);
            assert_eq!(done.answer(), "seen");
            let out = scratch.workspace().join("out");
            assert_eq!(std::fs::read_to_string(out).unwrap(), "fin\n");
            assert_eq!(server.requests().len(), 3);
            assert_eq!(done.result()["background"], serde_json::Value::Null);
            server.assert_clean();
        }
    }

    /// The same of a subagent in the background.
    fn a_run_waits_for_its_subagents(api) {
        let scratch = Scratch::new();
        let gate = Gate::new();
        let held = gate.clone();
        let task = json!({"description": "look", "prompt": "sub", "run_in_background": true});
        let server = ModelServer::start_with(move |request| {
            let is_sub = said(request).iter().any(|(role, text)| role == "user" && text == "sub");
            let replies = request.messages().iter().filter(|one| one["role"] == "assistant").count();
            match (is_sub, replies) {
                (true, _) => wait_for(&held).then(api.say("sub result 42")).into(),
                (false, 0) => api.call("c_1", "task", &task).into(),
                (false, 1) => api.say("waiting").into(),
                (false, _) => api.say("seen").into(),
            }
        });
        let running = tooloop(&scratch, &server, api).arg("go").start();
        running
            .wait_for_record(LONG, |record| record["message"]["content"][0]["text"] == "waiting")
            .unwrap();
        gate.open();
        let done = finish(&running);
        assert_eq!(done.answer(), "seen");
        assert_eq!(server.requests().len(), 4);
        assert!(server.request(3).mentions("sub result 42"));
        server.assert_clean();
    }

    /// Work that outlasts the wait fails the run, which names it.
    fn a_run_does_not_wait_without_end(api) {
        let scratch = Scratch::new();
        let server = ModelServer::start([
            api.call("c_1", "bash", &job("exec sleep 876547")),
            api.say("waiting"),
        ]);
        let run = tooloop(&scratch, &server, api).env("TOOLOOP_BACKGROUND_WAIT_MS", "300");
        let done = finish(&run.arg("go").start());
        let words = done.failed(61, "background_unfinished");
        assert!(words.contains("0.3 s") && words.contains("876547"), "{words}");
        assert_eq!(done.result()["partial_result"], "waiting");
        assert_eq!(server.requests().len(), 2);
        server.assert_clean();
    }

    /// The time limit of the run holds while it waits.
    fn a_time_limit_ends_the_wait(api) {
        for lines in [false, true] {
            let scratch = Scratch::new();
            let server = ModelServer::start([
                api.call("c_1", "bash", &job("exec sleep 876544")),
                api.say("waiting"),
            ]);
            let run = tooloop(&scratch, &server, api).args(["--max-time", "2s"]);
            let running = match lines {
                true => {
                    let running = run.args(["--input-format", "stream-json"]).stdin(Stdin::Silent).start();
                    speak(&running, "go");
                    running.close_stdin();
                    running
                }
                false => run.arg("go").start(),
            };
            let done = finish(&running);
            let words = done.failed(61, "background_unfinished");
            assert!(words.contains("--max-time") && words.contains("876544"), "{words}");
            assert!(done.result()["background"].to_string().contains("876544"));
            assert_eq!(done.of("result").len(), 1 + usize::from(lines));
        }
    }
}
