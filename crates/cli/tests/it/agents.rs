//! Subagents, plans and reminders.

use serde_json::{Value, json};
use tooloop_testkit::run::Signal;
use tooloop_testkit::{CapturedRequest, ModelServer, Reply, Scratch, hold};

use crate::asking::{answer, no, question};
use crate::support::{
    Api, Done, LONG, asking, bare, both, end, finish, said, speak, tooloop, wait_for_result,
};

fn task(prompt: &str, kind: &str) -> Value {
    json!({ "description": "look", "prompt": prompt, "agent_type": kind })
}

/// Answers each request by the first prompt of its conversation and by how many replies it has had.
fn by_prompt(choose: impl Fn(&str, usize) -> Reply + Send + 'static) -> ModelServer {
    ModelServer::start_with(move |request: &CapturedRequest| {
        let said = said(request);
        let is_user = |(role, _): &&(String, String)| role == "user";
        let first = said
            .iter()
            .find(is_user)
            .map_or("", |(_, text)| text.as_str());
        let messages = request.body["messages"].as_array().unwrap();
        let replies = messages
            .iter()
            .filter(|one| one["role"] == "assistant")
            .count();
        choose(first.lines().next().unwrap_or_default(), replies)
    })
}

/// The records that a subagent's call has brought.
fn below<'a>(done: &'a Done, call: &str) -> Vec<&'a Value> {
    let of = |record: &&Value| record["parent_tool_use_id"] == call;
    done.records.iter().filter(of).collect()
}

both! {
    /// A subagent has a history, a prompt and tools of its own; its last text is the result, its
    /// records name the call, its journal lies beside the session's, and what it used counts.
    fn a_subagent_works_and_tells_its_last_words(api) {
        let scratch = Scratch::new();
        scratch.write("f", "the secret is 7\n");
        let server = ModelServer::start([
            Reply::from(api.call("c_1", "task", &task("find the secret", "explore"))),
            api.call("s_1", "read", &json!({ "path": "f" })).into(),
            api.say("it is 7").into(),
            api.say("seven").into(),
        ]);
        let done = finish(&tooloop(&scratch, &server, api).arg("what is it").start());
        assert_eq!(done.answer(), "seven");
        assert_eq!(done.tool_result("c_1"), ("it is 7".to_owned(), false));
        // Its own request: nothing of the conversation, fewer tools, another prompt.
        let own = server.request(1);
        let text = own.body.to_string();
        assert!(text.contains("find the secret") && !text.contains("what is it"), "{text}");
        assert!(text.contains("You are a scout") && !text.contains("\"apply_patch\""), "{text}");
        let records = below(&done, "c_1");
        let kinds: Vec<_> = records.iter().map(|record| record["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["user", "assistant", "user", "system", "assistant"]);
        assert_eq!(done.result()["num_turns"], 2);
        // The journal.
        let session = done.session();
        let list = |all: bool| {
            let run = bare(&scratch).args(["sessions", "list", "--json"]);
            let run = if all { run.arg("--all") } else { run };
            end(&run.start()).json_lines().unwrap()
        };
        assert_eq!(list(false).len(), 1);
        let all = list(true);
        assert_eq!(all.len(), 2);
        assert_eq!(all[1]["works_for"], json!({ "session": session, "tool_use": "c_1", "agent": "explore" }));
        let child = all[1]["session_id"].as_str().unwrap();
        let shown = end(&bare(&scratch).args(["sessions", "show", child]).start());
        assert!(shown.stdout.text().contains("it is 7"), "{shown}");
        let removed = end(&bare(&scratch).args(["sessions", "rm", "--yes", &session]).start());
        removed.assert_code(0);
        let gone = end(&bare(&scratch).args(["sessions", "show", child]).start());
        assert_ne!(gone.code, Some(0), "{gone}");
        server.assert_clean();
    }

    /// The result, `/cost` after a resume and `sessions cost` report one sum, subagents included.
    fn what_a_session_cost_is_one_sum_everywhere(api) {
        let scratch = Scratch::new();
        let prices = "[[model]]\nname = \"m\"\nprice = [1.0, 10.0, 0.1, 1.25]\n";
        let prices = scratch.write("models.toml", prices).display().to_string();
        let server = ModelServer::start([
            Reply::from(api.call("c_1", "task", &task("look", "explore"))),
            api.say("it is 7").into(),
            api.say("seven").into(),
        ]);
        let run_with = |flags: &[&str], prompt: &str| {
            let run = tooloop(&scratch, &server, api).env("TOOLOOP_MODELS_FILE", &prices);
            finish(&run.args(flags.to_vec()).arg(prompt).start())
        };
        let done = run_with(&[], "what is it");
        let result = done.result().clone();
        assert!(result["total_cost_usd"].as_f64().unwrap() > 0.0, "{result}");
        let session = done.session();
        let cost = run_with(&["--resume", &session], "/cost").result()["cost"].clone();
        assert_eq!(cost["total_cost_usd"], result["total_cost_usd"]);
        assert_eq!(cost["usage"], result["usage"]);
        let of_subagents = cost["subagents"]["total_cost_usd"].as_f64();
        assert!(of_subagents.unwrap() > 0.0, "{cost}");
        let run = bare(&scratch).args(["sessions", "cost", &session, "--json"]);
        let read: Value = serde_json::from_str(&end(&run.start()).stdout.text()).unwrap();
        assert_eq!(read, cost);
        assert_eq!(server.requests().len(), 3, "no model was asked");
    }

    /// Several work at once: none waits for another.
    fn subagents_work_side_by_side(api) {
        let scratch = Scratch::new();
        let two = [("c_1", "task", task("one", "general")), ("c_2", "task", task("two", "general"))];
        let server = by_prompt(move |first, replies| match (first, replies) {
            ("go", 0) => match api {
                Api::Messages => tooloop_testkit::anthropic::calls(&two).into(),
                Api::Chat => tooloop_testkit::openai_chat::calls(&two).into(),
            },
            ("go", _) => api.say("both").into(),
            // Each waits for a file that the other one makes.
            ("one", 0) => api.bash("s_1", "touch one; until [ -e two ]; do sleep 0.01; done").into(),
            ("two", 0) => api.bash("s_2", "touch two; until [ -e one ]; do sleep 0.01; done").into(),
            (first, _) => api.say(&format!("{first} is done")).into(),
        });
        let done = finish(&tooloop(&scratch, &server, api).arg("go").start());
        assert_eq!(done.answer(), "both");
        assert_eq!(done.tool_result("c_1").0, "one is done");
        assert_eq!(done.tool_result("c_2").0, "two is done");
        server.assert_clean();
    }
}

/// One that only reads is held to it, whatever the mode; and it has no subagents without the tool.
#[test]
fn explore_changes_nothing() {
    let scratch = Scratch::new();
    let api = Api::Messages;
    let server = ModelServer::start([
        Reply::from(api.call("c_1", "task", &task("look", "explore"))),
        api.bash("s_1", "touch made").into(),
        api.bash("s_2", "ls").into(),
        api.call("s_3", "task", &task("more", "general")).into(),
        api.say("nothing there").into(),
        api.say("ok").into(),
    ]);
    let done = finish(&tooloop(&scratch, &server, api).arg("go").start());
    assert_eq!(done.answer(), "ok");
    let (refused, is_error) = done.tool_result("s_1");
    assert!(
        is_error && refused.contains("explore only reads"),
        "{refused}"
    );
    assert!(!done.tool_result("s_2").1);
    assert!(
        done.tool_result("s_3").0.contains("there is no tool"),
        "{:?}",
        done.tool_result("s_3")
    );
    assert!(!scratch.workspace().join("made").exists());
    assert_eq!(
        done.result()["permission_denials"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

/// A subagent may have subagents, and those may not.
#[test]
fn subagents_go_two_deep() {
    let scratch = Scratch::new();
    let api = Api::Messages;
    let server = ModelServer::start([
        Reply::from(api.call("c_1", "task", &task("one", "general"))),
        api.call("c_2", "task", &task("two", "general")).into(),
        api.call("c_3", "task", &task("three", "general")).into(),
        api.say("deepest").into(),
        api.say("middle").into(),
        api.say("top").into(),
    ]);
    let done = finish(&tooloop(&scratch, &server, api).arg("go").start());
    assert_eq!(done.answer(), "top");
    assert_eq!(done.tool_result("c_2").0, "deepest");
    assert!(done.tool_result("c_3").0.contains("there is no tool"));
    let text = |index: usize| server.request(index).body.to_string();
    assert!(text(1).contains("\"name\":\"task\"") && !text(2).contains("\"name\":\"task\""));
}

/// 30 model calls, then what was said last goes back with words that say so.
#[test]
fn a_subagent_ends_at_its_limit() {
    let scratch = Scratch::new();
    let api = Api::Messages;
    let server = by_prompt(move |first, replies| match (first, replies) {
        ("go", 0) => api.call("c_1", "task", &task("count", "general")).into(),
        ("count", count) => api
            .bash(&format!("s_{count}"), &format!("echo {count}"))
            .into(),
        (_, _) => api.say("ok").into(),
    });
    let done = finish(&tooloop(&scratch, &server, api).arg("go").start());
    assert_eq!(done.answer(), "ok");
    let (result, is_error) = done.tool_result("c_1");
    assert!(is_error && result.contains("30 model calls"), "{result}");
    assert_eq!(server.requests().len(), 32);
}

/// An unknown type names the choices; so does the tool's description.
#[test]
fn types_come_from_folders_and_are_named() {
    let scratch = Scratch::new();
    let api = Api::Messages;
    scratch.write(
        ".tooloop/agents/critic.md",
        "---\nname: critic\ndescription: finds fault\ntools: Read\n---\nBe harsh.\n",
    );
    scratch.write(".claude/agents/bad.md", "---\nname: bad\n---\nx\n");
    let server = ModelServer::start([
        Reply::from(api.call("c_1", "task", &task("x", "nobody"))),
        api.call("c_2", "task", &task("x", "critic")).into(),
        api.say("bad").into(),
        api.say("ok").into(),
    ]);
    let done = finish(&tooloop(&scratch, &server, api).arg("go").start());
    assert_eq!(done.answer(), "ok");
    let (unknown, is_error) = done.tool_result("c_1");
    assert!(
        is_error && unknown.contains("the types are critic, explore, general"),
        "{unknown}"
    );
    let text = |index: usize| server.request(index).body.to_string();
    assert!(text(0).contains("- critic: finds fault"), "{}", text(0));
    assert!(
        text(2).contains("Be harsh.") && !text(2).contains("\"name\":\"bash\""),
        "{}",
        text(2)
    );
    let warnings = done.system("warning");
    let told = |words: &str| {
        warnings
            .iter()
            .any(|one| one["message"].as_str().unwrap().contains(words))
    };
    assert!(
        told("bad.md is left out: line 1: there is no `description`"),
        "{warnings:?}"
    );
    let listed = end(&bare(&scratch).args(["agents", "--json"]).start());
    let names: Vec<_> = listed
        .json_lines()
        .unwrap()
        .iter()
        .map(|one| one["name"].clone())
        .collect();
    assert_eq!(names, ["critic", "explore", "general"]);
}

/// What a subagent asks, the session's host answers; a rule that comes of it holds for both.
#[test]
fn questions_of_a_subagent_reach_the_host() {
    let scratch = Scratch::new();
    let api = Api::Messages;
    let server = ModelServer::start([
        Reply::from(api.call("c_1", "task", &task("make it", "general"))),
        api.bash("s_1", "touch made").into(),
        api.say("made").into(),
        api.bash("c_2", "touch made").into(),
        api.say("ok").into(),
    ]);
    let running = crate::asking::host(&scratch, &server, api).start();
    speak(&running, "go");
    let asked = question(&running, 1);
    assert_eq!(asked["request"]["agent_type"], "general");
    assert_eq!(asked["request"]["tool_use_id"], "s_1");
    answer(&running, &asked, crate::asking::always(&asked, "session"));
    assert_eq!(wait_for_result(&running, 1)["result"], "ok");
    running.close_stdin();
    let done = finish(&running);
    assert_eq!(done.tool_result("c_1").0, "made");
    assert!(!done.tool_result("c_2").1);
}

/// The limits of the session hold for a subagent: what does not fit is not sent.
#[test]
fn limits_hold_for_a_subagent() {
    let scratch = Scratch::new();
    let api = Api::Messages;
    let server = by_prompt(move |first, replies| match (first, replies) {
        ("go", 0) => api.call("c_1", "task", &task("count", "general")).into(),
        ("count", count) => {
            // Not the same twice.
            let long = format!("echo {count}; head -c 29000 /dev/zero | tr '\\0' x");
            api.bash(&format!("s_{count}"), &long).into()
        }
        (_, _) => api.say("ok").into(),
    });
    let run = tooloop(&scratch, &server, api)
        // Results are told whole.
        .env("TOOLOOP_CONTEXT_WINDOW", "200000")
        .args(["--max-tokens", "29000", "go"]);
    let done = finish(&run.start());
    assert_eq!(done.answer(), "ok");
    let (result, _) = done.tool_result("c_1");
    assert!(result.contains("what may be spent is used up"), "{result}");
    assert_eq!(server.requests().len(), 3);
}

/// An interrupt reaches a subagent, and nothing of it is left.
#[test]
fn an_interrupt_ends_a_subagent_with_all_that_it_started() {
    let scratch = Scratch::new();
    let api = Api::Messages;
    let server = ModelServer::start([
        Reply::from(api.call("c_1", "task", &task("wait", "general"))),
        api.bash("s_1", "touch up; exec sleep 876549").into(),
        hold().into(),
    ]);
    let running = tooloop(&scratch, &server, api).arg("go").start();
    assert!(tooloop_testkit::wait_until(LONG, || scratch
        .workspace()
        .join("up")
        .exists()));
    running.signal(Signal::Interrupt);
    let done = finish(&running);
    assert_eq!(done.result()["reason"], "interrupted");
}

/// In the background: answered at once, one notice at the end.
#[test]
fn a_subagent_in_the_background_is_told_of_once() {
    let scratch = Scratch::new();
    let api = Api::Messages;
    let mut input = task("later", "general");
    input["run_in_background"] = true.into();
    let server = by_prompt(move |first, replies| match (first, replies) {
        ("go", 0) => api.call("c_1", "task", &input).into(),
        ("go", 1) => api
            .bash("c_2", "touch go; until [ -e noticed ]; do sleep 0.01; done")
            .into(),
        ("later", 0) => api
            .bash("s_1", "until [ -e go ]; do sleep 0.01; done")
            .into(),
        ("later", _) => api.say("later it is").into(),
        (_, _) => api.say("ok").into(),
    });
    let running = tooloop(&scratch, &server, api).arg("go").start();
    running
        .wait_for_record(LONG, |record| record["subtype"] == "notice")
        .unwrap();
    scratch.write("noticed", "");
    let done = finish(&running);
    assert_eq!(done.answer(), "ok");
    assert!(
        done.tool_result("c_1")
            .0
            .contains("works in the background")
    );
    let notices = done.system("notice");
    assert_eq!(notices.len(), 1);
    assert!(
        notices[0]["message"]
            .as_str()
            .unwrap()
            .contains("later it is"),
        "{notices:?}"
    );
}

/// A job ends with its subagent, whose result names it, and is promised no notice.
#[test]
fn a_job_of_a_subagent_ends_with_it() {
    let gone =
        "cat /proc/[0-9]*/cmdline 2> /dev/null | tr '\\0' ' ' | grep -c 'sleep 87654[6]'; true";
    for in_background in [false, true] {
        let scratch = Scratch::new();
        let api = Api::Messages;
        let mut input = task("start", "general");
        input["run_in_background"] = in_background.into();
        let server = by_prompt(move |first, replies| match (first, replies) {
            ("go", 0) => api.call("c_1", "task", &input).into(),
            ("go", 1) if in_background => api.say("waiting").into(),
            ("go", 1 | 2) => api.bash("c_2", gone).into(),
            ("start", 0) => {
                let job = json!({"command": "exec sleep 876546", "run_in_background": true});
                api.call("s_1", "bash", &job).into()
            }
            ("start", _) => api.say("begun").into(),
            (_, _) => api.say("ok").into(),
        });
        let done = finish(&tooloop(&scratch, &server, api).arg("go").start());
        assert_eq!(done.answer(), "ok");
        let result = if in_background {
            done.system("notice")[0]["message"]
                .as_str()
                .unwrap()
                .to_owned()
        } else {
            done.tool_result("c_1").0
        };
        for part in [
            "begun",
            "Ended with the subagent while it ran: job_1",
            "sleep 876546",
        ] {
            assert!(result.contains(part), "{part}: {result}");
        }
        let (started, _) = done.tool_result("s_1");
        assert!(!started.contains("A notice comes"), "{started}");
        assert!(done.tool_result("c_2").0.starts_with("0\n"));
        server.assert_clean();
    }
}

/// A job that ends just before its subagent is known to one of the two.
#[test]
fn a_job_that_ends_with_its_subagent_is_accounted_for() {
    let scratch = Scratch::new();
    let api = Api::Messages;
    let input = task("start", "general");
    let server = by_prompt(move |first, replies| match (first, replies) {
        ("go", 0) => api.call("c_1", "task", &input).into(),
        ("start", 0) => {
            let job = "until [ -e go ]; do sleep 0.01; done; echo DONE > M";
            let job = json!({"command": job, "run_in_background": true});
            api.call("s_1", "bash", &job).into()
        }
        ("start", 1) => api
            .bash("s_2", "touch go; until [ -e M ]; do sleep 0.01; done")
            .into(),
        ("start", _) => api.say("begun").into(),
        (_, _) => api.say("ok").into(),
    });
    let done = finish(&tooloop(&scratch, &server, api).arg("go").start());
    assert_eq!(done.answer(), "ok");
    let (result, _) = done.tool_result("c_1");
    let requests = server.requests();
    let is_noticed = requests
        .iter()
        .any(|one| one.mentions("background job job_1 ended"));
    assert!(is_noticed || result.contains("job_1"), "{result}");
    server.assert_clean();
}

/// What a subagent changes is taken back with the turn.
#[test]
fn a_rewind_takes_back_what_a_subagent_did() {
    let scratch = Scratch::new();
    let api = Api::Messages;
    scratch.write("kept", "before\n");
    scratch.write("ran", "before\n");
    let server = ModelServer::start([
        Reply::from(api.call("c_1", "task", &task("change it", "general"))),
        api.call(
            "s_1",
            "write",
            &json!({ "path": "kept", "content": "after\n" }),
        )
        .into(),
        api.bash("s_2", "echo after > ran; echo new > new").into(),
        api.say("changed").into(),
        api.say("ok").into(),
    ]);
    let done = finish(&tooloop(&scratch, &server, api).arg("go").start());
    assert_eq!(done.answer(), "ok");
    assert_eq!(
        std::fs::read_to_string(scratch.workspace().join("ran")).unwrap(),
        "after\n"
    );
    let session = done.session();
    let rewound = end(&bare(&scratch)
        .args(["sessions", "rewind", &session, "1", "--files"])
        .start());
    rewound.assert_code(0);
    let read = |name: &str| std::fs::read_to_string(scratch.workspace().join(name)).ok();
    assert_eq!(read("ran").as_deref(), Some("before\n"), "{rewound}");
    assert_eq!(read("kept").as_deref(), Some("before\n"));
    assert_eq!(read("new"), None);
}

/// In plan mode with nobody to ask, the plan is the answer.
#[test]
fn a_plan_is_the_answer_where_nobody_is_asked() {
    let scratch = Scratch::new();
    let api = Api::Messages;
    let server = ModelServer::start([
        Reply::from(api.bash("c_1", "touch made")),
        api.call("c_2", "exit_plan", &json!({ "plan": "1. Make it." }))
            .into(),
    ]);
    let run = asking(&scratch, &server, api).args([
        "--output-format",
        "stream-json",
        "--permission-mode",
        "plan",
        "make it",
    ]);
    let done = finish(&run.start());
    assert_eq!(done.answer(), "1. Make it.");
    assert!(done.tool_result("c_1").0.contains("plan mode"));
    let text = server.request(0).body.to_string();
    assert_eq!(text.matches("Plan mode is on").count(), 1, "{text}");
    assert!(!scratch.workspace().join("made").exists());
}

/// The host is asked about the plan; a yes ends the mode, a no has reasons.
#[test]
fn a_plan_is_agreed_to_by_the_host() {
    let scratch = Scratch::new();
    let api = Api::Messages;
    let plan = |text: &str| json!({ "plan": text });
    let server = ModelServer::start([
        Reply::from(api.call("c_1", "exit_plan", &plan("one"))),
        api.call("c_2", "exit_plan", &plan("two")).into(),
        api.bash("c_3", "touch made").into(),
        api.call("c_4", "exit_plan", &plan("three")).into(),
        api.say("ok").into(),
        api.say("again").into(),
    ]);
    let running = crate::asking::host(&scratch, &server, api)
        .args(["--permission-mode", "plan"])
        .start();
    speak(&running, "go");
    let asked = question(&running, 1);
    assert_eq!(asked["request"]["tool_name"], "exit_plan");
    assert_eq!(asked["request"]["input"], plan("one"));
    answer(&running, &asked, no("smaller steps"));
    let asked = question(&running, 2);
    answer(&running, &asked, json!({ "behavior": "allow" }));
    // The mode is the usual one now: it is asked.
    let asked = question(&running, 3);
    assert_eq!(asked["request"]["tool_name"], "bash");
    answer(&running, &asked, json!({ "behavior": "allow" }));
    assert_eq!(wait_for_result(&running, 1)["result"], "ok");
    speak(&running, "more");
    assert_eq!(wait_for_result(&running, 2)["result"], "again");
    running.close_stdin();
    let done = finish(&running);
    assert!(done.tool_result("c_1").0.contains("smaller steps"));
    assert!(
        done.tool_result("c_2")
            .0
            .contains("the mode is default now")
    );
    assert!(done.tool_result("c_4").0.contains("is for plan mode"));
    assert!(scratch.workspace().join("made").exists());
    let text = server.request(5).body.to_string();
    assert_eq!(text.matches("Plan mode is").count(), 2, "{text}");
}

/// The plan is recalled after three steps without it, and again after three more.
#[test]
fn an_open_plan_is_recalled_every_third_step() {
    let scratch = Scratch::new();
    let api = Api::Messages;
    let todo = |status: &str| json!({ "items": [{ "content": "build", "status": status }] });
    let step =
        |count: usize| Reply::from(api.bash(&format!("s_{count}"), &format!("touch {count}")));
    let server = ModelServer::start([
        Reply::from(api.call("c_1", "todo", &todo("pending"))),
        step(1),
        step(2),
        step(3),
        step(4),
        step(5),
        step(6),
        api.call("c_2", "todo", &todo("completed")).into(),
        step(7),
        step(8),
        step(9),
        api.say("ok").into(),
    ]);
    let done = finish(&tooloop(&scratch, &server, api).arg("go").start());
    assert_eq!(done.answer(), "ok");
    let recalled = |index: usize| {
        let text = server.request(index).body.to_string();
        text.matches("was not touched for").count()
    };
    let counts: Vec<_> = (0..12).map(recalled).collect();
    assert_eq!(counts, [0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2]);
    server.assert_clean();
}
