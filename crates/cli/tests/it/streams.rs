//! Faulty replies where nobody looks at first: in a session that is resumed, in a subagent, and in the
//! reply to a request for a summary.

use serde_json::json;
use tooloop_testkit::{ModelServer, Scratch, Steps, anthropic, openai_chat};

use crate::support::{Api, Done, ask, both, damages_journals, resume};

/// A reply that starts again after its call: the second call has another id.
fn restarted(api: Api, command: &str) -> Steps {
    let input = json!({ "command": command }).to_string();
    match api {
        Api::Messages => {
            let part = |id| {
                Steps::from([
                    anthropic::open(),
                    anthropic::text(0, "On it."),
                    anthropic::tool_use(1, id, "bash", &[&input]),
                ])
            };
            part("r_1")
                .then(part("r_2"))
                .then(anthropic::end("tool_use"))
        }
        Api::Chat => {
            let part = |id| {
                let start = json!({"role": "assistant", "content": "On it."});
                openai_chat::delta(&start).then(openai_chat::tool_delta(0, id, "bash", &input))
            };
            let end = openai_chat::finish("tool_calls").then(openai_chat::done());
            part("r_1").then(part("r_2")).then(end)
        }
    }
}

/// A reply of two texts, each with a beginning.
fn restarted_text(api: Api) -> Steps {
    match api {
        Api::Messages => Steps::from([
            anthropic::open(),
            anthropic::text(0, "## Task\nvoid"),
            anthropic::open(),
            anthropic::text(0, "## Task\nvoid"),
            anthropic::end("end_turn"),
        ]),
        Api::Chat => {
            let part = |id: &str| {
                let choice = openai_chat::chunk_value(
                    &json!({"role": "assistant", "content": "## Task\nvoid"}),
                    &json!(null),
                );
                let mut chunk = choice;
                chunk["id"] = id.into();
                openai_chat::chunk(&chunk)
            };
            let end = openai_chat::finish("stop").then(openai_chat::done());
            part("one").then(part("two")).then(end)
        }
    }
}

fn empty(api: Api) -> Steps {
    match api {
        Api::Messages => anthropic::open().then(anthropic::end("end_turn")),
        Api::Chat => openai_chat::content("")
            .then(openai_chat::finish("stop"))
            .then(openai_chat::done()),
    }
}

/// Replies that hold neither text nor a call, in every form.
fn all_empty(api: Api) -> Vec<(&'static str, Steps)> {
    let mut forms = vec![("nothing", empty(api))];
    match api {
        Api::Messages => {
            let thinking = anthropic::thinking(0, "hm", "c2ln");
            let thinking = anthropic::open()
                .then(thinking)
                .then(anthropic::end("end_turn"));
            let blank = anthropic::open().then(anthropic::text(0, " \n"));
            forms.push(("reasoning", thinking));
            forms.push(("a blank text", blank.then(anthropic::end("end_turn"))));
        }
        Api::Chat => {
            let end = |reason: &str| openai_chat::finish(reason).then(openai_chat::done());
            let reasoning = openai_chat::reasoning("reasoning_content", "hm");
            forms.push(("reasoning", reasoning.then(end("stop"))));
            forms.push((
                "a stop for calls",
                openai_chat::content("").then(end("tool_calls")),
            ));
            forms.push((
                "an unknown stop",
                openai_chat::content("").then(end("because")),
            ));
        }
    }
    forms
}

fn task(api: Api) -> Steps {
    let input = json!({ "description": "look", "prompt": "work", "agent_type": "general" });
    api.call("task_1", "task", &input)
}

/// Where a reply goes wrong.
#[derive(Debug, Clone, Copy)]
enum Place {
    Resumed,
    Subagent,
}

const PLACES: [Place; 2] = [Place::Resumed, Place::Subagent];

impl Place {
    /// Plays the replies in this place, and "done" at the end.
    fn play(self, api: Api, replies: Vec<Steps>) -> (Done, ModelServer, Scratch) {
        let scratch = Scratch::new();
        let replies = replies.into_iter();
        let server = match self {
            Self::Resumed => ModelServer::start(
                [api.bash("p", "echo first >> L"), api.say("first")]
                    .into_iter()
                    .chain(replies)
                    .chain([api.say("done")]),
            ),
            Self::Subagent => ModelServer::start(
                [task(api)]
                    .into_iter()
                    .chain(replies)
                    .chain([api.say("worked"), api.say("done")]),
            ),
        };
        let done = match self {
            Self::Resumed => {
                let session = ask(&scratch, &server, api, "begin").session();
                resume(&scratch, &server, api, &session, "go")
            }
            Self::Subagent => ask(&scratch, &server, api, "go"),
        };
        (done, server, scratch)
    }

    /// What the calls of the faulty replies have written.
    fn written(self, scratch: &Scratch) -> String {
        let text = std::fs::read_to_string(scratch.workspace().join("L")).unwrap_or_default();
        match self {
            Self::Resumed => text.strip_prefix("first\n").unwrap().to_owned(),
            Self::Subagent => text,
        }
    }
}

both! {
    fn a_reply_that_starts_again_runs_its_call_once(api) {
        for place in PLACES {
            let replies = vec![restarted(api, "echo x >> L"), api.bash("c", "echo x >> L")];
            let (done, server, scratch) = place.play(api, replies);
            assert_eq!(done.answer(), "done", "{place:?}");
            assert_eq!(place.written(&scratch), "x\n", "{place:?}");
            assert_eq!(server.replies_left(), 0, "{place:?}");
            server.assert_clean();
        }
    }

    fn a_call_under_an_id_that_came_before_runs_once(api) {
        for place in PLACES {
            let calls = [("p", "echo X >> L"), ("q", "echo Y >> L"), ("p", "echo X >> L")];
            // The id comes again in a later reply, with another call.
            let replies = vec![api.bashes(&calls), api.bash("p", "echo Z >> L")];
            let (done, server, scratch) = place.play(api, replies);
            assert_eq!(done.answer(), "done", "{place:?}");
            assert_eq!(place.written(&scratch), "X\nY\nZ\n", "{place:?}");
            assert_eq!(server.replies_left(), 0, "{place:?}");
            server.assert_clean();
        }
    }

    fn one_empty_reply_is_asked_for_again(api) {
        for place in PLACES {
            for replies in [
                vec![empty(api)],
                vec![api.bash("c", "echo x >> L"), empty(api)],
            ] {
                let (done, server, _scratch) = place.play(api, replies);
                assert_eq!(done.answer(), "done", "{place:?}");
                assert_eq!(server.replies_left(), 0, "{place:?}");
                server.assert_clean();
            }
        }
    }

    fn each_empty_form_is_asked_for_again(api) {
        for (name, form) in all_empty(api) {
            let (scratch, server) = (Scratch::new(), ModelServer::start([form.clone(), api.say("second")]));
            let done = ask(&scratch, &server, api, "go");
            assert_eq!(done.answer(), "second", "{name}");
            server.assert_clean();

            let (scratch, server) = (Scratch::new(), ModelServer::start([form.clone(), form]));
            let words = ask(&scratch, &server, api, "go").failed(1, "model_error");
            let expected = if name == "reasoning" { "only reasoning" } else { "the model returned nothing" };
            assert!(words.contains(expected), "{name}: {words}");
            assert_eq!(words.contains("because"), name == "an unknown stop", "{words}");
            assert_eq!(server.requests().len(), 2, "{name}");
            server.assert_clean();
        }
    }

    fn two_empty_replies_are_no_answer(api) {
        let scratch = Scratch::new();
        let server = ModelServer::start([api.say("first"), empty(api), empty(api), api.say("on")]);
        let session = ask(&scratch, &server, api, "begin").session();
        let done = resume(&scratch, &server, api, &session, "go");
        let words = done.failed(1, "model_error");
        assert!(words.contains("nothing"), "{words}");
        assert_eq!(resume(&scratch, &server, api, &session, "on").answer(), "on");
        server.assert_clean();

        let scratch = Scratch::new();
        let server = ModelServer::start([task(api), empty(api), empty(api), api.say("done")]);
        let done = ask(&scratch, &server, api, "go");
        assert_eq!(done.answer(), "done");
        let (words, is_error) = done.tool_result("task_1");
        assert!(is_error && words.contains("nothing"), "{words}");
        server.assert_clean();
    }

    fn a_faulty_summary_is_asked_for_again(api) {
        damages_journals();
        let calls = [("p", "echo X >> L"), ("p", "echo X >> L")];
        for (name, faulty, is_asked_again) in [
            ("empty", vec![empty(api)], true),
            ("restarted", vec![restarted_text(api)], true),
            ("restarted call", vec![restarted(api, "echo X >> L")], true),
            ("empty twice", vec![empty(api), empty(api)], false),
            ("calls", vec![api.bashes(&calls)], false),
        ] {
            let scratch = Scratch::new();
            let mut replies = vec![api.say(&"a long answer ".repeat(400)), api.say("yes")];
            replies.extend(faulty);
            if is_asked_again {
                replies.push(api.say("## Task\nthe parser"));
            }
            replies.push(api.say("after"));
            let server = ModelServer::start(replies);
            let session = ask(&scratch, &server, api, "look").session();
            resume(&scratch, &server, api, &session, "is that all?").answer();
            let done = resume(&scratch, &server, api, &session, "/compact");
            if is_asked_again {
                assert!(done.answer().contains("summed up"), "{name}");
            } else {
                let words = done.failed(64, "not_run");
                assert!(words.contains("no summary"), "{name}: {words}");
            }
            let after = resume(&scratch, &server, api, &session, "go on");
            assert_eq!(after.answer(), "after", "{name}");
            let last = server.requests().pop().unwrap();
            assert_eq!(last.mentions("the parser"), is_asked_again, "{name}");
            assert!(!last.mentions("void"), "{name}");
            assert!(!scratch.workspace().join("L").exists(), "{name}");
            assert_eq!(server.replies_left(), 0, "{name}");
            server.assert_clean();
        }
    }
}
