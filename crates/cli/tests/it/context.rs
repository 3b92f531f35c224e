//! Conversations that fill the model's window, at the real binary: what is sent, what stays, what a
//! person is told.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use tooloop_testkit::oracle::{Rule, Window, estimate_tokens};
use tooloop_testkit::run::{Run, Stdin};
use tooloop_testkit::{
    CapturedRequest, ModelServer, Reply, Scratch, Steps, anthropic, openai_chat,
};

use super::support::{
    Api, Done, ask, asking, damages_journals, end, finish, journal, resume, tooloop,
};

const API: Api = Api::Messages;

/// What the user wants, and must not be lost.
const KEEP: &str = "KEEP-7731";

/// What stands in the instructions.
const RULE: &str = "Never touch the lock file.";

/// So many bytes make a token, as the harness estimates it.
const ESTIMATE: f64 = 3.5;

/// Whether it asks for a summary.
fn is_summary(request: &CapturedRequest) -> bool {
    let texts = request.texts();
    texts
        .last()
        .is_some_and(|(_, text)| text.contains("is about to be summed up"))
}

/// A reply with counts of the request as a tokenizer of that many bytes a token has them.
fn counted(request: &CapturedRequest, bytes: f64, reply: Steps, stop: &str) -> Reply {
    let input = estimate_tokens(&request.body, bytes);
    Reply::stream([
        anthropic::open_with(anthropic::Usage {
            input,
            ..anthropic::Usage::default()
        }),
        reply,
        anthropic::end(stop),
    ])
}

fn says(request: &CapturedRequest, bytes: f64, text: &str) -> Reply {
    counted(request, bytes, anthropic::text(0, text), "end_turn")
}

/// A call that prints 1 kB.
fn step(request: &CapturedRequest, bytes: f64, number: u64) -> Reply {
    let command = format!("echo {number}; head -c 1000 /dev/zero | tr '\\0' a");
    let input = json!({ "command": command }).to_string();
    let id = format!("tu_{number}");
    counted(
        request,
        bytes,
        anthropic::tool_use(0, &id, "bash", &[&input]),
        "tool_use",
    )
}

/// A server with a window of 8,000 tokens that has so many steps made in each turn. `bytes` make a
/// token there.
fn stepping(steps: u64, bytes: f64) -> ModelServer {
    let made = AtomicU64::new(0);
    ModelServer::builder()
        .window(Window {
            tokens: 8_000,
            bytes_per_token: bytes,
        })
        .choose(move |request| {
            if is_summary(request) {
                return says(
                    request,
                    bytes,
                    "## Task\nWhat was asked for.\n\n## Next step\nGo on.",
                );
            }
            let number = made.fetch_add(1, Ordering::Relaxed) + 1;
            if number.is_multiple_of(steps + 1) {
                return says(request, bytes, "done");
            }
            step(request, bytes, number)
        })
        .start()
}

/// A server that says these texts, with honest counts.
fn saying(texts: &[&str]) -> ModelServer {
    let mut texts: Vec<String> = texts.iter().rev().map(|text| (*text).to_owned()).collect();
    ModelServer::builder()
        .choose(move |request| says(request, ESTIMATE, &texts.pop().unwrap_or_default()))
        .start()
}

fn small(run: Run) -> Run {
    run.env("TOOLOOP_CONTEXT_WINDOW", "8000")
        .env("TOOLOOP_MAX_OUTPUT_TOKENS", "1000")
}

fn run(scratch: &Scratch, server: &ModelServer, prompt: &str) -> Done {
    finish(&small(tooloop(scratch, server, API)).arg(prompt).start())
}

fn run_in(scratch: &Scratch, server: &ModelServer, session: &str, prompt: &str) -> Done {
    let run = small(tooloop(scratch, server, API)).args(["--resume", session, prompt]);
    finish(&run.start())
}

/// How many requests there are between those that ask for a summary.
fn between_summaries(requests: &[CapturedRequest]) -> Vec<usize> {
    let places = requests
        .iter()
        .enumerate()
        .filter(|(_, one)| is_summary(one));
    let places: Vec<usize> = places.map(|(place, _)| place).collect();
    let pairs = places.iter().zip(places.iter().skip(1));
    pairs.map(|(one, next)| next - one - 1).collect()
}

fn refused(server: &ModelServer) -> usize {
    let violations = server.violations();
    let too_long = violations
        .iter()
        .filter(|(_, one)| one.rule == Rule::Window);
    too_long.count()
}

#[test]
fn c39a_a_conversation_longer_than_the_window_keeps_what_the_user_wants() {
    damages_journals();
    let scratch = Scratch::new();
    scratch.write("AGENTS.md", RULE);
    let server = stepping(30, ESTIMATE);
    let first = run(&scratch, &server, &format!("the task is {KEEP}"));
    assert_eq!(first.answer(), "done");
    let before = server.requests().len();
    assert!(!first.system("compact_boundary").is_empty());
    let second = run_in(&scratch, &server, &first.session(), "and now go on");
    assert_eq!(second.answer(), "done");
    let requests = server.requests();
    for (place, request) in requests.iter().enumerate() {
        assert!(request.mentions(KEEP), "request {place}");
        assert!(request.system().contains(RULE), "request {place}");
    }
    for (place, request) in requests.iter().enumerate().skip(before) {
        assert!(request.mentions("and now go on"), "request {place}");
    }
    let between = between_summaries(&requests);
    assert!(between.iter().all(|steps| *steps >= 5), "{between:?}");
    server.assert_clean();
}

#[test]
fn three_hundred_steps_fit_a_small_window() {
    damages_journals();
    let scratch = Scratch::new();
    let server = stepping(300, ESTIMATE);
    let done = run(&scratch, &server, &format!("the task is {KEEP}"));
    assert_eq!(done.answer(), "done");
    assert_eq!(done.result()["num_turns"], 301);
    let requests = server.requests();
    assert!(requests.len() > 301);
    assert!(requests.iter().all(|request| request.mentions(KEEP)));
    let between = between_summaries(&requests);
    assert!(between.iter().all(|steps| *steps >= 5), "{between:?}");
    assert_eq!(refused(&server), 0);
    server.assert_clean();
}

#[test]
fn c39b_a_huge_result_is_cut_on_entry() {
    let scratch = Scratch::new();
    let command = "head -c 1000000 /dev/zero | tr '\\0' b";
    let server = ModelServer::builder()
        .window(Window {
            tokens: 8_000,
            bytes_per_token: ESTIMATE,
        })
        .replies([API.bash("tu_1", command), API.say("done")])
        .start();
    let done = run(&scratch, &server, "go");
    assert_eq!(done.answer(), "done");
    assert!(done.system("compact_boundary").is_empty());
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    let result = requests[1].tool_result("tu_1").unwrap().text;
    // An eighth of the window, and the mark.
    let (kept, mark) = (result.matches('b').count(), 300);
    assert!(
        kept <= 3_500 && result.len() <= kept + mark,
        "{}",
        result.len()
    );
    server.assert_clean();
}

#[test]
fn c39c_instructions_that_alone_fill_the_window_end_the_run() {
    let scratch = Scratch::new();
    scratch.write("AGENTS.md", "Mind the gap. ".repeat(2_250));
    let server = ModelServer::builder()
        .window(Window {
            tokens: 8_000,
            bytes_per_token: ESTIMATE,
        })
        .choose(|request| says(request, ESTIMATE, "never"))
        .start();
    let done = run(&scratch, &server, KEEP);
    let words = done.failed(1, "context_limit");
    assert!(words.contains("the system prompt 9"), "{words}");
    assert!(server.requests().len() <= 3);
}

/// The harness is not told how much more the server counts, and finds out.
#[test]
fn c39d_a_count_above_the_estimate_costs_one_refusal() {
    damages_journals();
    let scratch = Scratch::new();
    let told = AtomicU64::new(0);
    let server = ModelServer::builder()
        .window(Window {
            tokens: 8_000,
            bytes_per_token: ESTIMATE / 1.15,
        })
        .choose(move |request| {
            if is_summary(request) {
                return says(request, ESTIMATE, "## Task\nWhat was asked for.");
            }
            match told.fetch_add(1, Ordering::Relaxed) {
                0 => says(request, ESTIMATE, "first"),
                _ => says(request, ESTIMATE, "second"),
            }
        })
        .start();
    // Without this the harness would sum up before it is too late.
    let large = |prompt: &str| {
        let run = small(tooloop(&scratch, &server, API)).env("TOOLOOP_CONTEXT_WINDOW", "20000");
        run.arg(prompt)
    };
    let filling = format!("{KEEP} {}", "words ".repeat(1_900));
    let first = finish(&large(&filling).start());
    assert_eq!(first.answer(), "first");
    let more = format!("go on with {KEEP} {}", "words ".repeat(700));
    let second = finish(&large(&more).args(["--resume", &first.session()]).start());
    assert_eq!(second.answer(), "second");
    let boundaries = second.system("compact_boundary");
    assert_eq!(boundaries.len(), 1);
    assert_eq!(boundaries[0]["compact_metadata"]["trigger"], "too_long");
    let requests = server.requests();
    let summaries: Vec<bool> = requests.iter().map(is_summary).collect();
    // Too long; its summary; the same again.
    assert_eq!(summaries, [false, false, true, false]);
    assert_eq!(refused(&server), 1);
    assert!(requests.iter().all(|request| request.mentions(KEEP)));
}

/// What of a request a cache goes by, without its marks.
fn prefix(request: &CapturedRequest) -> String {
    let text = String::from_utf8_lossy(&request.raw).into_owned();
    let text = text.replace(r#","cache_control":{"type":"ephemeral"}"#, "");
    // The cap comes before, and is no part of it.
    let from = text.find(r#""tools":"#).unwrap();
    text[from..].trim_end_matches("]}]}").to_owned()
}

fn marks(request: &CapturedRequest) -> usize {
    let text = String::from_utf8_lossy(&request.raw).into_owned();
    text.matches(r#""cache_control""#).count()
}

#[test]
fn a_summary_is_asked_for_with_the_prefix_that_is_cached() {
    damages_journals();
    let scratch = Scratch::new();
    let server = stepping(30, ESTIMATE);
    let done = run(&scratch, &server, &format!("the task is {KEEP}"));
    assert_eq!(done.answer(), "done");
    let requests = server.requests();
    let mut summaries = 0;
    for (former, request) in requests.iter().zip(requests.iter().skip(1)) {
        // System prompt, tools, and the two newest user messages.
        assert!((3..=4).contains(&marks(request)), "{}", marks(request));
        if is_summary(request) {
            summaries += 1;
            let (former, now) = (prefix(former), prefix(request));
            assert!(now.starts_with(&former), "{former}\n{now}");
        }
    }
    assert!(summaries > 0);
}

#[test]
fn compact_sums_up_and_tells_what_it_came_to() {
    damages_journals();
    let scratch = Scratch::new();
    let long = "a long answer ".repeat(200);
    let server = saying(&[&long, "yes", "## Task\nthe parser", "after"]);
    let first = ask(&scratch, &server, API, "look at the parser");
    let session = first.session();
    resume(&scratch, &server, API, &session, "is that all?").answer();
    let done = resume(
        &scratch,
        &server,
        API,
        &session,
        "/compact the parser's tests",
    );
    assert!(
        done.answer()
            .starts_with("the conversation was summed up: about ")
    );
    let result = done.result();
    assert_eq!(
        (&result["num_turns"], &result["reason"]),
        (&json!(0), &json!("completed"))
    );
    let compaction = &result["compaction"];
    assert!(compaction["post_tokens"].as_u64() < compaction["pre_tokens"].as_u64());
    assert!(result["usage"]["input_tokens"].as_u64() > Some(0));
    let boundary = done.system("compact_boundary");
    assert_eq!(boundary[0]["compact_metadata"]["trigger"], "manual");
    let asked = server.request(2);
    let (_, last) = asked.texts().pop().unwrap();
    assert!(
        last.contains("Look most closely at this: the parser's tests"),
        "{last}"
    );
    let after = resume(&scratch, &server, API, &session, "go on");
    assert_eq!(after.answer(), "after");
    assert!(server.request(3).mentions("the parser"));
    assert!(!server.request(3).mentions("a long answer"));
}

#[test]
fn a_summary_of_no_use_is_paid_for() {
    damages_journals();
    let scratch = Scratch::new();
    let long = "## Task\n".to_owned() + &"more than there was ".repeat(200);
    let server = saying(&["yes", "yes", &long]);
    let session = ask(&scratch, &server, API, "is it so?").session();
    resume(&scratch, &server, API, &session, "is it?").answer();
    let done = resume(&scratch, &server, API, &session, "/compact");
    let words = done.failed(64, "not_run");
    assert!(words.contains("it would not be shorter"), "{words}");
    assert!(done.result()["usage"]["input_tokens"].as_u64() > Some(2_000));
    assert!(done.system("compact_boundary").is_empty());
}

#[test]
fn nothing_to_sum_up_is_told() {
    let scratch = Scratch::new();
    let server = ModelServer::start([API.say("unused")]);
    let done = ask(&scratch, &server, API, "/compact");
    let words = done.failed(64, "not_run");
    assert!(
        words.contains("there is nothing that could be summed up"),
        "{words}"
    );
    let finished = end(&asking(&scratch, &server, API).arg("/compact").start());
    finished.assert_code(64);
    let told = finished.stderr.text();
    assert!(told.contains(&words), "{told}");
    assert!(server.requests().is_empty());
}

#[test]
fn commands_are_messages_too() {
    damages_journals();
    let scratch = Scratch::new();
    let long = "a long answer ".repeat(200);
    let server = saying(&[&long, "yes", "## Task\nnothing much", "after"]);
    let line = |text: &str| {
        let line = json!({ "type": "user", "message": { "role": "user", "content": text } });
        format!("{line}\n")
    };
    let input: String = [
        "/compact",
        "go",
        "/context",
        "/cost",
        "is that all?",
        "/compact",
        "go on",
    ]
    .map(line)
    .concat();
    let run = tooloop(&scratch, &server, API).args(["--input-format", "stream-json"]);
    let done = finish(&run.stdin(Stdin::Bytes(input.into())).start());
    let results = done.of("result");
    let kinds: Vec<_> = results
        .iter()
        .map(|result| {
            let has = |key: &str| !result[key].is_null();
            (
                has("context"),
                has("compaction"),
                has("cost"),
                result["exit_status"].as_u64(),
            )
        })
        .collect();
    assert_eq!(
        kinds,
        [
            (false, false, false, Some(64)),
            (false, false, false, Some(0)),
            (true, false, false, Some(0)),
            (false, false, true, Some(0)),
            (false, false, false, Some(0)),
            (false, true, false, Some(0)),
            (false, false, false, Some(0)),
        ]
    );
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn context_and_cost_are_told() {
    let scratch = Scratch::new();
    let used = |cache_read| anthropic::Usage {
        input: 100,
        cache_write: Some(0),
        cache_read: Some(cache_read),
    };
    let reply = |cache_read, content: Steps, stop| {
        Reply::stream([
            anthropic::open_with(used(cache_read)),
            content,
            anthropic::end(stop),
        ])
    };
    let input = json!({ "command": "echo a" }).to_string();
    let call = anthropic::tool_use(0, "tu_1", "bash", &[&input]);
    let server = ModelServer::start([
        reply(2_900, call, "tool_use"),
        reply(100, anthropic::text(0, "done"), "end_turn"),
    ]);
    scratch.write("AGENTS.md", RULE);
    let first = ask(&scratch, &server, API, "go");
    let session = first.session();
    let context = resume(&scratch, &server, API, &session, "/context");
    let told = &context.result()["context"];
    let rows = told["rows"].as_array().unwrap();
    let sum: u64 = rows.iter().map(|row| row["tokens"].as_u64().unwrap()).sum();
    assert_eq!(told["used"], sum);
    assert!(told["window"].as_u64() > told["used"].as_u64(), "{told}");
    let kinds: Vec<_> = rows
        .iter()
        .map(|row| row["kind"].as_str().unwrap())
        .collect();
    for kind in ["system", "tool", "user", "model", "calls", "results"] {
        assert!(kinds.contains(&kind), "{kind}: {told}");
    }
    let file = rows.iter().find(|row| row["name"] == "AGENTS.md").unwrap();
    assert_eq!(file["kind"], "system");
    let bash = rows.iter().filter(|row| row["name"] == "bash");
    assert_eq!(bash.count(), 2, "its definition and its results");
    // In words.
    let run = asking(&scratch, &server, API).args(["--resume", &session, "/context"]);
    let finished = end(&run.start());
    finished.assert_code(0);
    let table = finished.stdout.text();
    assert!(
        table.contains("results of calls") && table.contains("free"),
        "{table}"
    );
    assert!(
        table.lines().all(|line| line.chars().count() < 80),
        "{table}"
    );
    // The journal knows the cost; a session that is gone on with knows the sums.
    let cost = Run::new(env!("CARGO_BIN_EXE_tooloop"))
        .home(&scratch)
        .args(["sessions", "cost", &session, "--json"]);
    let finished = end(&cost.directory(scratch.workspace()).start());
    finished.assert_code(0);
    let cost: Value = serde_json::from_str(&finished.stdout.text()).unwrap();
    assert_eq!(cost["calls"], 2);
    let misses = cost["cache_misses"].as_array().unwrap();
    let reasons: Vec<_> = misses
        .iter()
        .map(|miss| miss["reason"].as_str().unwrap())
        .collect();
    assert_eq!(reasons, ["first_call", "not_told"]);
    assert_eq!(
        (&misses[1]["read"], &misses[1]["expected"]),
        (&json!(100), &json!(3_000))
    );
    assert_eq!(cost["usage"]["cache_read_input_tokens"], 3_000);
    let cost = resume(&scratch, &server, API, &session, "/cost");
    assert_eq!(
        cost.result()["cost"]["usage"]["cache_read_input_tokens"],
        3_000
    );
    assert_eq!(server.requests().len(), 2, "nobody was asked");
    let journal = std::fs::read_to_string(journal(&scratch, &session)).unwrap();
    assert!(!journal.contains("/cost"));
}

/// Hooks in the user's settings.
fn with_hook(matcher: &str, command: &str) -> Scratch {
    let scratch = Scratch::new();
    let folder = scratch.config().join("tooloop");
    std::fs::create_dir_all(&folder).unwrap();
    let command = json!(command);
    let text = format!(
        "[[hooks]]\nevent = \"PreCompact\"\nmatcher = \"{matcher}\"\ncommand = {command}\n"
    );
    std::fs::write(folder.join("config.toml"), text).unwrap();
    scratch
}

#[test]
fn a_hook_may_refuse_a_summary() {
    damages_journals();
    let scratch = with_hook("manual", "echo 'not on Mondays' >&2; exit 2");
    let server = ModelServer::start([API.say(&"a long answer ".repeat(200))]);
    let first = ask(&scratch, &server, API, "go");
    let done = resume(&scratch, &server, API, &first.session(), "/compact");
    let words = done.failed(64, "not_run");
    assert!(
        words.contains("a hook refused it: not on Mondays"),
        "{words}"
    );
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_hook_may_say_what_a_summary_is_to_hold() {
    damages_journals();
    let said = json!({ "hookSpecificOutput": {
        "hookEventName": "PreCompact", "additionalContext": "the ticket is T-17" } });
    let scratch = with_hook("auto", &format!("cat >> told; echo '{said}'"));
    let server = stepping(30, ESTIMATE);
    let done = run(&scratch, &server, &format!("the task is {KEEP}"));
    assert_eq!(done.answer(), "done");
    let summaries: Vec<_> = server.requests().into_iter().filter(is_summary).collect();
    assert!(!summaries.is_empty());
    assert!(
        summaries
            .iter()
            .all(|summary| summary.mentions("the ticket is T-17"))
    );
    let told = std::fs::read_to_string(scratch.workspace().join("told")).unwrap();
    let told: Value = serde_json::Deserializer::from_str(&told)
        .into_iter()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(told["hook_event_name"], "PreCompact");
    assert_eq!(told["trigger"], "auto");
}

#[test]
fn summing_up_can_be_switched_off() {
    let scratch = Scratch::new();
    let server = stepping(30, ESTIMATE);
    let run = small(tooloop(&scratch, &server, API)).env("TOOLOOP_COMPACTION", "false");
    let done = finish(&run.arg("go").start());
    let words = done.failed(1, "context_limit");
    assert!(words.contains("too long"), "{words}");
    assert!(!server.requests().iter().any(is_summary));
}

/// What a server says that it counted; `None`: nothing.
type Counts = fn(&Value, u64) -> Option<Value>;

fn prompt_tokens(tokens: u64) -> Option<Value> {
    Some(json!({"prompt_tokens": tokens, "completion_tokens": 50}))
}

/// What a server of 26 steps says that it counted, of a body that has so many tokens.
const WRONG_COUNTS: [(&str, Counts, &str); 9] = [
    ("true", |_, tokens| prompt_tokens(tokens), ""),
    ("absent", |_, _| None, ""),
    (
        "zeros",
        |_, _| Some(json!({"prompt_tokens": 0, "completion_tokens": 0})),
        "",
    ),
    (
        "newest messages",
        |body, _| {
            let messages = body["messages"].as_array().unwrap();
            let newest = messages.get(messages.len().saturating_sub(2)..).unwrap();
            prompt_tokens(estimate_tokens(&newest.into(), ESTIMATE))
        },
        "tokens of input",
    ),
    (
        "wrong later",
        |body, tokens| {
            let is_early = body["messages"].as_array().unwrap().len() < 20;
            prompt_tokens(if is_early { tokens } else { 10 })
        },
        "counted 60 tokens",
    ),
    ("half", |_, tokens| prompt_tokens(tokens / 2), ""),
    ("always 10", |_, _| prompt_tokens(10), "counted 60 tokens"),
    (
        "always 100",
        |_, _| prompt_tokens(100),
        "counted 150 tokens",
    ),
    (
        "ten times",
        |_, tokens| prompt_tokens(tokens * 10),
        "tokens of input",
    ),
];

/// A chat server with a window of 16,000 tokens that has 26 calls of 3 kB made.
fn counting(counts: Counts) -> ModelServer {
    let steps = AtomicU64::new(0);
    ModelServer::builder()
        .window(Window {
            tokens: 16_000,
            bytes_per_token: ESTIMATE,
        })
        .choose(move |request| {
            let reply = if is_summary(request) {
                openai_chat::content("## Task\nWhat was asked for.\n\n## Next step\nGo on.")
                    .then(openai_chat::finish("stop"))
            } else {
                match steps.fetch_add(1, Ordering::Relaxed) {
                    step @ 0..26 => {
                        let command = format!("echo {step}; head -c 3000 /dev/zero | tr '\\0' a");
                        let input = json!({ "command": command }).to_string();
                        openai_chat::tool_delta(0, &format!("c_{step}"), "bash", &input)
                            .then(openai_chat::finish("tool_calls"))
                    }
                    _ => openai_chat::content("done").then(openai_chat::finish("stop")),
                }
            };
            let tokens = estimate_tokens(&request.body, ESTIMATE);
            let usage = counts(&request.body, tokens).map(|usage| {
                openai_chat::chunk(
                    &json!({"id": "x", "object": "chat.completion.chunk", "model": "m",
                    "choices": [], "usage": usage}),
                )
            });
            Reply::stream(
                reply
                    .then(usage.unwrap_or_default())
                    .then(openai_chat::done()),
            )
        })
        .start()
}

#[test]
fn servers_that_count_wrong_end_no_session() {
    damages_journals();
    for (name, counts, doubted) in WRONG_COUNTS {
        let (scratch, server) = (Scratch::new(), counting(counts));
        let run = || {
            tooloop(&scratch, &server, Api::Chat)
                .env("TOOLOOP_CONTEXT_WINDOW", "16000")
                .env("TOOLOOP_MAX_OUTPUT_TOKENS", "1000")
        };
        let done = finish(&run().arg(format!("the task is {KEEP}")).start());
        assert_eq!(done.answer(), "done", "{name}");
        let doubts = |done: &Done| {
            let warnings = done.system("warning").into_iter();
            let texts = warnings.map(|warning| warning["message"].as_str().unwrap().to_owned());
            let texts = texts.filter(|text| text.contains("far from any estimate"));
            texts.collect::<Vec<_>>()
        };
        let (warnings, expected) = (doubts(&done), usize::from(!doubted.is_empty()));
        assert_eq!(warnings.len(), expected, "{name}: {warnings:?}");
        assert!(
            warnings.iter().all(|text| text.contains(doubted)),
            "{name}: {warnings:?}"
        );
        // The session can be resumed and compacted.
        let session = done.session();
        for prompt in ["next", "/compact", "and on"] {
            let done = finish(&run().args(["--resume", &session, prompt]).start());
            done.finished.assert_code(0);
            assert!(doubts(&done).len() <= 1, "{name}: {prompt}");
            let kept = server.requests().last().unwrap().mentions(KEEP);
            assert!(
                kept || is_summary(server.requests().last().unwrap()),
                "{name}: {prompt}"
            );
        }
        assert!(refused(&server) <= 2, "{name}: {}", refused(&server));
        assert!(server.requests().iter().any(is_summary), "{name}");
        server.assert_clean_except(&[Rule::Window]);
    }
}
