//! When a model call is tried again, how long it waits, and when it all ends.

use std::time::Duration;

use serde_json::json;
use tooloop_testkit::run::Signal;
use tooloop_testkit::{
    AfterLast, ModelServer, Reply, Scratch, Steps, anthropic, openai_chat, reset,
};

use crate::support::{Api, Done, LONG, both, finish, said, tooloop};

fn refused(api: Api, status: u16, retry_after: Option<&str>) -> Reply {
    let kind = match status {
        429 => "rate_limit_error",
        _ => "overloaded_error",
    };
    let reply = api.error(status, kind, "not now");
    match retry_after {
        Some(value) => reply.header("retry-after", value),
        None => reply,
    }
}

struct Played {
    done: Done,
    server: ModelServer,
    scratch: Scratch,
}

fn play(api: Api, replies: Vec<Reply>, environment: &[(&str, &str)]) -> Played {
    let (scratch, server) = (Scratch::new(), ModelServer::start(replies));
    let mut run = tooloop(&scratch, &server, api).arg("go");
    for (name, value) in environment {
        run = run.env(*name, *value);
    }
    let done = finish(&run.start());
    server.assert_clean();
    Played {
        done,
        server,
        scratch,
    }
}

impl Played {
    /// The time from each failed request's answer to the next request.
    fn waits(&self) -> Vec<Duration> {
        let exchanges = self.server.exchanges();
        exchanges
            .windows(2)
            .map(|pair| pair[1].request.arrived - pair[0].ended.unwrap().1)
            .collect()
    }

    /// The waits as they were told.
    fn told_waits(&self) -> Vec<u64> {
        let retries = self.done.retries().into_iter();
        retries
            .map(|record| record["retry_delay_ms"].as_u64().unwrap())
            .collect()
    }
}

both! {
    /// C37 a
    fn the_provider_says_how_long_to_wait(api) {
        let played = play(api, vec![refused(api, 429, Some("1")), api.say("ok").into()], &[]);
        assert_eq!(played.done.answer(), "ok");
        assert_eq!(played.told_waits(), [1000]);
        assert!(played.waits()[0] >= Duration::from_millis(950), "{:?}", played.waits());
        let record = played.done.retries()[0];
        assert_eq!((&record["error_status"], &record["error_kind"]), (&json!(429), &json!("rate_limited")));
        assert_eq!(record["attempt"], 1);
    }

    /// C37 b
    fn waits_grow_and_vary(api) {
        let mut seen = Vec::new();
        for _ in 0..3 {
            let mut replies = vec![refused(api, 529, None); 3];
            replies.push(api.say("ok").into());
            let played = play(api, replies, &[("TOOLOOP_RETRY_BASE_MS", "100")]);
            assert_eq!(played.done.answer(), "ok");
            let told = played.told_waits();
            for (wait, least) in told.iter().zip([100, 200, 400]) {
                assert!((least..=least * 5 / 4).contains(wait), "{told:?}");
            }
            assert_eq!(told.len(), 3);
            for (waited, told) in played.waits().iter().zip(&told) {
                assert!(*waited + Duration::from_millis(5) >= Duration::from_millis(*told), "{waited:?} {told}");
            }
            seen.push(told);
        }
        assert!(seen[0] != seen[1] || seen[1] != seen[2], "{seen:?}");
    }

    /// C37 c, and the last of g
    fn a_wait_that_is_too_long_ends_the_run(api) {
        for (value, words, environment) in [
            ("43200", "12 h", &[][..]),
            ("99999999999", " h ", &[]),
            ("2", "2 s", &[("TOOLOOP_RETRY_AFTER_MAX_MS", "1000")]),
        ] {
            let played = play(api, vec![refused(api, 429, Some(value))], environment);
            let message = played.done.failed(1, "model_error");
            assert!(message.contains(words), "{message}");
            assert_eq!(played.server.requests().len(), 1);
        }
    }

    /// C37 d, e
    fn what_cannot_get_better_is_asked_once(api) {
        for (status, code) in [(400, 1), (401, 41), (403, 41), (404, 1)] {
            let reply = api.error(status, "some_error", "no");
            let played = play(api, vec![reply], &[]);
            let message = played.done.failed(code, "model_error");
            assert!(message.contains(&status.to_string()), "{message}");
            assert_eq!(played.server.requests().len(), 1);
        }
    }

    /// C37 f
    fn a_bad_moment_passes(api) {
        // The first reset meets the connection that was kept after the refusal: such a one is not
        // told from a connection that had grown old, and the request is sent again without a wait.
        let resets = [Reply::reset(), Reply::reset()];
        let mut replies = vec![refused(api, 503, None)];
        replies.extend(resets);
        replies.push(api.say("ok").into());
        let played = play(api, replies, &[]);
        assert_eq!(played.done.answer(), "ok");
        let kinds: Vec<_> = played.done.retries().into_iter().map(|record| record["error_kind"].clone()).collect();
        assert!(kinds[0] == "overloaded" || kinds[0] == "server", "{kinds:?}");
        assert_eq!((kinds.len(), &kinds[1]), (2, &json!("connection")));
        let texts: Vec<_> = played.server.requests().iter().map(said).collect();
        assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
        assert_eq!(texts.len(), 4);
    }

    /// C37 g
    fn odd_values_of_the_wait(api) {
        let moment = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(4);
        let date = moment.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let wait = |value: &str| {
            let played = play(api, vec![refused(api, 429, Some(value)), api.say("ok").into()], &[]);
            assert_eq!(played.done.answer(), "ok");
            played.told_waits()[0]
        };
        assert_eq!(wait("0"), 0);
        for value in ["-5", "soon", ""] {
            let wait = wait(value);
            assert!((20..=25).contains(&wait), "{value}: {wait}");
        }
        // The start of the program takes some of the four seconds.
        let by_date = wait(&date);
        assert!(by_date <= 4000, "{by_date}");
        assert!(jiff::Timestamp::now() >= moment - jiff::SignedDuration::from_secs(1));
    }

    /// C38 a
    fn what_was_shown_of_a_cut_reply_is_void(api) {
        let first = match api {
            Api::Messages => Steps::from([
                anthropic::open(),
                anthropic::text_start(0),
                anthropic::text_delta(0, "Hello wor"),
            ]),
            Api::Chat => openai_chat::content("Hello wor"),
        };
        let played = play(api, vec![first.then(reset()).into(), api.say("Hello world").into()], &[]);
        assert_eq!(played.done.answer(), "Hello world");
        assert_eq!(played.done.texts(), ["Hello world"]);
        assert_eq!(played.done.retries()[0]["voided"], true);
        assert_eq!(played.done.result()["num_turns"], 1);
        assert_eq!(played.done.system("message_voided").len(), 1);
        assert!(!played.server.request(1).mentions("Hello"));
    }

    /// C38 b
    fn a_call_of_a_cut_reply_does_not_run(api) {
        let command = "{\"command\":\"echo once >> M\"}";
        let half = match api {
            Api::Messages => Steps::from([
                anthropic::open(),
                anthropic::tool_use(0, "tu_1", "bash", &[command]),
                anthropic::tool_use_start(1, "tu_2", "bash"),
                anthropic::input_delta(1, "{\"comm"),
            ]),
            Api::Chat => Steps::from([
                openai_chat::tool_delta(0, "tu_1", "bash", command),
                openai_chat::tool_delta(1, "tu_2", "bash", "{\"comm"),
            ]),
        };
        let again = api.bash("tu_3", "echo once >> M");
        let played = play(api, vec![half.then(reset()).into(), again.into(), api.say("ok").into()], &[]);
        assert_eq!(played.done.answer(), "ok");
        assert_eq!(played.scratch.read("M"), "once\n");
        let ids: Vec<_> = played.server.request(2).tool_results().into_iter().map(|result| result.id).collect();
        assert_eq!(ids, ["tu_3"]);
    }

    /// C40 a
    fn the_same_call_again_and_again(api) {
        let same = || ModelServer::builder()
            .replies([api.bash("c_{#n}", "echo same")])
            .after_last(AfterLast::Repeat)
            .start();
        let (scratch, server) = (Scratch::new(), same());
        let run = tooloop(&scratch, &server, api).args(["--max-turns", "6", "go"]);
        let done = finish(&run.start());
        done.failed(53, "max_turns");
        assert_eq!(server.requests().len(), 6);
        let hints: Vec<_> = server.requests().iter().map(|request| request.mentions("Reminder")).collect();
        assert_eq!(hints, [false, false, false, true, true, true]);
        server.assert_clean();

        // Without a limit it ends all the same.
        let (scratch, server) = (Scratch::new(), same());
        let done = finish(&tooloop(&scratch, &server, api).arg("go").start());
        done.failed(1, "loop_detected");
        assert!(server.requests().len() <= 10, "{}", server.requests().len());
        server.assert_clean();
    }

    /// C40 b, c
    fn failures_without_end_are_failures(api) {
        for (reply, status, requests) in [
            (api.error(401, "authentication_error", "no"), 41, 1),
            (api.error(500, "api_error", "no"), 1, 4),
            (Reply::stream(reset()), 1, 4),
        ] {
            let server = ModelServer::builder().replies([reply]).after_last(AfterLast::Repeat).start();
            let scratch = Scratch::new();
            let done = finish(&tooloop(&scratch, &server, api).arg("go").start());
            let words = done.failed(status, "model_error");
            assert_eq!(server.requests().len(), requests, "{words}");
            assert_eq!(done.retries().len(), requests - 1);
            assert_eq!(words.contains("gave up after 4 attempts"), requests == 4, "{words}");
        }
    }

    fn time_bounds_the_retries_too(api) {
        let server = ModelServer::builder().replies([refused(api, 503, None)]).after_last(AfterLast::Repeat).start();
        let scratch = Scratch::new();
        let run = tooloop(&scratch, &server, api)
            .env("TOOLOOP_RETRY_BASE_MS", "200")
            .env("TOOLOOP_RETRY_MAX_TOTAL_MS", "700")
            .env("TOOLOOP_RETRY_MAX_ATTEMPTS", "1000");
        finish(&run.arg("go").start()).failed(1, "model_error");
        // After waits of 200 and 400 ms at least, the next would end too late.
        assert!((2..=3).contains(&server.requests().len()), "{}", server.requests().len());
    }

    fn a_signal_ends_the_wait(api) {
        let (scratch, server) = (Scratch::new(), ModelServer::start([refused(api, 503, None), api.say("ok").into()]));
        let run = tooloop(&scratch, &server, api)
            .env("TOOLOOP_RETRY_BASE_MS", "300000")
            .env("TOOLOOP_RETRY_MAX_WAIT_MS", "300000")
            .env("TOOLOOP_RETRY_MAX_TOTAL_MS", "900000");
        let running = run.arg("go").start();
        running.wait_for_record(LONG, |record| record["subtype"] == "api_retry").unwrap();
        assert!(running.signal(Signal::Terminate));
        finish(&running).failed(143, "interrupted");
        let done = crate::support::ask(&scratch, &server, api, "again");
        assert_eq!(done.answer(), "ok");
        server.assert_clean();
    }

    /// C40 d
    fn an_answer_after_a_failed_tool_is_an_answer(api) {
        let played = play(api, vec![api.bash("c_1", "exit 9").into(), api.say("ok").into()], &[]);
        assert_eq!(played.done.answer(), "ok");
        assert!(played.done.tool_result("c_1").1);
    }

    /// C10
    fn a_call_cut_by_the_output_limit_does_not_run(api) {
        let fragment = "{\"path\":\"keep.txt\",\"content\":\"line 1\\nli";
        let cut = match api {
            Api::Messages => Steps::from([
                anthropic::open(),
                anthropic::tool_use(0, "tu_{#n}", "write", &[fragment]),
                anthropic::end("max_tokens"),
            ]),
            Api::Chat => Steps::from([
                openai_chat::tool_delta(0, "tu_{#n}", "write", fragment),
                openai_chat::finish("length"),
                openai_chat::done(),
            ]),
        };
        // With a cap that was set there is nothing to try first.
        for (cap, most) in [(Some("500"), 3), (None, 4)] {
            let scratch = Scratch::new();
            let lines: String = (1..=100).map(|number| format!("line {number}\n")).collect();
            scratch.write("keep.txt", &lines);
            let server = ModelServer::builder().replies([cut.clone()]).after_last(AfterLast::Repeat).start();
            let run = tooloop(&scratch, &server, api).arg("go");
            let run = match cap {
                Some(cap) => run.env("TOOLOOP_MAX_OUTPUT_TOKENS", cap),
                None => run,
            };
            let done = finish(&run.start());
            let words = done.failed(1, "output_limit");
            assert!(words.contains("output limit"), "{words}");
            assert_eq!(scratch.read("keep.txt"), lines);
            let count = server.requests().len();
            assert!((2..=most).contains(&count), "{count}");
            let last = server.requests().pop().unwrap();
            let answered = last.tool_results().pop().unwrap();
            assert!(answered.text.contains("cut by the output limit"), "{answered:?}");
            server.assert_clean();
        }
    }

    fn a_text_cut_by_the_output_limit_is_gone_on_with(api) {
        let cut = |text: &str| match api {
            Api::Messages => Steps::from([anthropic::open(), anthropic::text(0, text), anthropic::end("max_tokens")]),
            Api::Chat => Steps::from([openai_chat::content(text), openai_chat::finish("length"), openai_chat::done()]),
        };
        let environment = [("TOOLOOP_MAX_OUTPUT_TOKENS", "500")];
        let played = play(api, vec![cut("Hello ").into(), api.say("world").into()], &environment);
        assert_eq!(played.done.answer(), "Hello world");
        let last = said(&played.server.request(1)).pop().unwrap();
        assert!(last.0 == "user" && last.1.contains("output limit"), "{last:?}");

        let four = (1..=4).map(|number| cut(&format!("{number} ")).into()).collect();
        let played = play(api, four, &environment);
        played.done.failed(1, "output_limit");
        assert_eq!(played.done.result()["partial_result"], "1 2 3 4 ");
    }
}

#[test]
fn waits_are_told_as_text_too() {
    let api = Api::Messages;
    let (scratch, server) = (
        Scratch::new(),
        ModelServer::start([refused(api, 529, None), api.say("ok").into()]),
    );
    let run = crate::support::asking(&scratch, &server, api).arg("go");
    let finished = crate::support::end(&run.start());
    finished.assert_code(0);
    assert_eq!(finished.stdout.text(), "ok\n");
    let complaint = finished.stderr.text();
    assert!(
        complaint.contains("529") && complaint.contains("attempt 2"),
        "{complaint}"
    );
}
