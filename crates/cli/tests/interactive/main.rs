//! A person at the real binary: a pseudo terminal on one side, a scripted model server on the other.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail anywhere"
)]

mod asking;
#[path = "../it/collector.rs"]
#[expect(dead_code, reason = "the tests of headless runs look closer")]
mod collector;
mod pty;
mod rewind;
mod terminal;
mod trust;
mod window;

use rustix::process::Signal;
use tooloop_testkit::{
    Gate, ModelServer, Reply, Scratch, anthropic, cut, hold, processes_in, processes_with,
    wait_for, wait_until,
};

use collector::{Collector, Manner, tree};
use pty::{LONG, Pty};

const ENTER: &str = "\r";
const ESCAPE: &str = "\x1b";
const CONTROL_C: &str = "\x03";
const CONTROL_D: &str = "\x04";
/// The end of a row of choices: from then on a question takes keys.
const CHOICES: &str = "allow? y once";

fn bash(id: &str, command: &str) -> tooloop_testkit::Steps {
    anthropic::call_json(id, "bash", &serde_json::json!({ "command": command }))
}

/// A reply that has begun with this text and does not go on.
fn begun(text: &str) -> Reply {
    Reply::stream(
        anthropic::open()
            .then(anthropic::text_start(0))
            .then(anthropic::text_delta(0, text))
            .then(hold()),
    )
}

#[test]
fn a_prompt_is_answered_and_the_session_can_be_gone_on_with() {
    let server = ModelServer::start([anthropic::say("Good day, 世界."), anthropic::say("Again.")]);
    let scratch = Scratch::new();
    let mut person = Pty::start(&scratch, &server, &[]);
    person.shows("sandbox off");
    person.keys("hello 世界");
    person.keys(ENTER);
    person.shows("Good day, 世界.");
    person.is_asked();
    person.keys(CONTROL_D);
    person.shows("Resume with: tooloop --resume ");
    assert_eq!(person.ends(), 0);
    assert!(person.is_restored());
    let text = person.text();
    let id = text.split("--resume ").nth(1).unwrap().trim();

    let mut person = Pty::start(&scratch, &server, &["--resume", id, "and again"]);
    person.shows("> hello 世界");
    person.shows("Good day, 世界.");
    person.shows("> and again");
    person.shows("Again.");
    person.is_asked();
    person.keys("/exit\r");
    assert_eq!(person.ends(), 0);
    assert_eq!(
        said(&server.request(1)),
        [
            ("user".into(), "hello 世界".into()),
            ("assistant".into(), "Good day, 世界.".into()),
            ("user".into(), "and again".into())
        ]
    );
    server.assert_clean();
}

#[test]
fn a_question_is_answered_once_always_or_with_a_reason() {
    let server = ModelServer::start([
        bash("c1", "touch one"),
        bash("c2", "touch two"),
        bash("c3", "touch two"),
        bash("c4", "touch three"),
        anthropic::say("All done."),
    ]);
    let scratch = Scratch::new();
    let mut person = Pty::start(&scratch, &server, &["go"]);
    person.shows("│ touch one");
    person.shows("asks: ");
    person.shows(CHOICES);
    assert!(!scratch.workspace().join("one").exists());
    person.keys("y");
    person.shows("✓ allowed once");
    person.shows("│ touch two");
    person.shows("the rule Bash(touch two)");
    person.shows(CHOICES);
    person.keys("a");
    person.shows("✓ allowed for this session by the rule Bash(touch two)");
    // The same again is not asked about.
    person.shows("● bash  touch two");
    person.shows("│ touch three");
    person.shows(CHOICES);
    person.keys("d");
    person.shows("why not: ");
    person.keys("two are enough");
    person.keys(ENTER);
    person.shows("✗ denied: two are enough");
    person.shows("All done.");
    assert!(scratch.workspace().join("one").exists());
    assert!(scratch.workspace().join("two").exists());
    assert!(!scratch.workspace().join("three").exists());
    let answer = server.request(4).tool_result("c4").unwrap();
    assert!(answer.text.contains("two are enough"), "{answer:?}");
    person.is_asked();
    person.keys(CONTROL_D);
    assert_eq!(person.ends(), 0);
    server.assert_clean();
}

#[test]
fn what_is_said_meanwhile_reaches_the_model_with_the_results() {
    let server = ModelServer::start([
        bash("c1", "until [ -e go ]; do sleep 0.05; done; echo through"),
        anthropic::say("Only src, then."),
        anthropic::say("Committed."),
    ]);
    let scratch = Scratch::new();
    let mut person = Pty::start(&scratch, &server, &["--allowedTools", "Bash", "fix it"]);
    person.shows("● bash  until");
    person.keys("only srcx\x7f");
    person.shows("> only src");
    person.keys(ENTER);
    person.shows("1 queued");
    person.keys("then commit\t");
    person.shows("2 queued");
    scratch.write("go", "");
    person.shows("through");
    person.shows("> only src");
    person.shows("Only src, then.");
    person.shows("> then commit");
    person.shows("Committed.");
    person.is_asked();
    person.keys(CONTROL_D);
    assert_eq!(person.ends(), 0);
    let texts = said(&server.request(1));
    assert_eq!(texts.last().unwrap().1, "only src", "{texts:?}");
    let texts = said(&server.request(2));
    assert_eq!(texts.last().unwrap().1, "then commit", "{texts:?}");
    server.assert_clean();
}

#[test]
fn an_interrupt_gives_back_what_was_not_heard() {
    let server = ModelServer::start([begun("I shall now"), Reply::stream(anthropic::say("Yes."))]);
    let scratch = Scratch::new();
    let mut person = Pty::start(&scratch, &server, &["go"]);
    person.shows("I shall now");
    person.keys("first");
    person.keys(ENTER);
    person.shows("1 queued");
    person.keys("second");
    person.shows("> second");
    person.keys(ESCAPE);
    person.shows("Interrupted while the model was at work.");
    person.shows("> first");
    person.shows("second");
    person.keys(ENTER);
    person.shows("Yes.");
    person.is_asked();
    person.keys(CONTROL_D);
    assert_eq!(person.ends(), 0);
    let texts = said(&server.request(1));
    assert_eq!(texts.last().unwrap().1, "first\nsecond", "{texts:?}");
    server.assert_clean();
}

#[test]
fn a_second_interrupt_leaves_and_nothing_is_left_behind() {
    let server = ModelServer::start([bash("c1", "echo begun; sleep 311")]);
    let scratch = Scratch::new();
    let mut person = Pty::start(&scratch, &server, &["--allowedTools", "Bash", "go"]);
    person.shows("● bash  echo begun; sleep 311");
    person.keys(CONTROL_C);
    person.keys(CONTROL_C);
    assert_eq!(person.ends(), 130);
    assert!(person.is_restored());
    let left = processes_in(&scratch.workspace());
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn signals_end_it_wherever_it_is() {
    let server = ModelServer::start([bash("c1", "touch x"), bash("c2", "sleep 312")]);
    let scratch = Scratch::new();
    let mut person = Pty::start(&scratch, &server, &[]);
    person.shows("> ");
    person.keys("half a line");
    person.shows("half a line");
    person.signal(Signal::TERM);
    assert_eq!(person.ends(), 143);
    assert!(person.is_restored());

    let mut person = Pty::start(&scratch, &server, &["go"]);
    person.shows(CHOICES);
    person.signal(Signal::TERM);
    person.shows("Resume with: ");
    assert_eq!(person.ends(), 143);
    assert!(person.is_restored());
    assert!(!scratch.workspace().join("x").exists());

    let mut person = Pty::start(&scratch, &server, &["--allowedTools", "Bash", "go"]);
    person.shows("● bash  sleep 312");
    person.signal(Signal::TERM);
    assert_eq!(person.ends(), 143);
    assert!(person.is_restored());
    let left = processes_in(&scratch.workspace());
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_paste_is_one_prompt_and_control_c_throws_a_line_away() {
    let server = ModelServer::start([anthropic::say("Three lines.")]);
    let scratch = Scratch::new();
    let mut person = Pty::start(&scratch, &server, &[]);
    person.shows("> ");
    person.keys("not this");
    person.shows("not this");
    person.keys(CONTROL_C);
    person.shows("> ");
    person.keys("\x1b[200~one\rtwo \\\r\tthree\x1b[201~");
    person.shows("three");
    person.keys(ENTER);
    person.shows("Three lines.");
    person.is_asked();
    person.keys(CONTROL_C);
    person.shows("Press Ctrl-C again to leave.");
    person.keys(CONTROL_C);
    assert_eq!(person.ends(), 0);
    assert_eq!(
        said(&server.request(0)),
        [("user".to_owned(), "one\ntwo \\\n\tthree".to_owned())]
    );
}

#[test]
fn commands_are_ours_and_paths_are_not() {
    let server = ModelServer::start([anthropic::say("A file."), anthropic::say("New.")]);
    let scratch = Scratch::new();
    let mut person = Pty::start(&scratch, &server, &[]);
    person.shows("> ");
    person.keys("/etc/hosts what is this\r");
    person.shows("A file.");
    person.is_asked();
    person.keys("/csot\r");
    person.shows("There is no command /csot: /cost is the nearest.");
    person.keys("/cost\r");
    person.shows("this session: ");
    person.shows("price unknown");
    person.keys("/help\r");
    person.shows("/model");
    person.shows("Ctrl-C twice");
    person.keys("/model other\r");
    person.shows("other writes from now on.");
    person.keys("/clear\r");
    person.shows("A new session. The old one can be resumed:");
    person.shows("tooloop --resume ");
    person.keys("fresh\r");
    person.shows("New.");
    person.is_asked();
    person.keys("/quit\r");
    assert_eq!(person.ends(), 0);
    assert_eq!(
        said(&server.request(1)),
        [("user".to_owned(), "fresh".to_owned())]
    );
    assert_eq!(server.request(1).body["model"], "other");
}

#[test]
fn hooks_are_told_why_a_session_ends() {
    let scratch = Scratch::new();
    let folder = scratch.config().join("tooloop");
    std::fs::create_dir_all(&folder).unwrap();
    let hooks = [
        ("clear", "cleared"),
        ("prompt_input_exit", "left"),
        ("other", "else"),
    ];
    let hooks = hooks.map(|(reason, name)| {
        format!(
            "[[hooks]]\nevent = 'SessionEnd'\nmatcher = '{reason}'\ncommand = 'cat >> {name}'\n"
        )
    });
    std::fs::write(folder.join("config.toml"), hooks.concat()).unwrap();
    let told = |name: &str| {
        let text = std::fs::read_to_string(scratch.workspace().join(name)).unwrap_or_default();
        let records = text.lines().map(|line| {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            record["reason"].as_str().unwrap().to_owned()
        });
        records.collect::<Vec<_>>()
    };

    let server = ModelServer::start(Vec::<Reply>::new());
    let mut person = Pty::start(&scratch, &server, &[]);
    person.shows("> ");
    person.keys("/clear\r");
    person.shows("A new session.");
    person.shows("> ");
    assert_eq!(told("cleared"), ["clear"]);
    person.keys(CONTROL_D);
    assert_eq!(person.ends(), 0);
    assert_eq!(told("left"), ["prompt_input_exit"]);

    let mut person = Pty::start(&scratch, &server, &[]);
    person.shows("> ");
    person.signal(Signal::TERM);
    assert_eq!(person.ends(), 143);
    assert_eq!(told("else"), ["other"]);
    assert_eq!(told("left").len(), 1);
}

#[test]
fn a_reply_that_breaks_off_is_told_to_be_void() {
    let server = ModelServer::start([
        Reply::stream(
            anthropic::open()
                .then(anthropic::text_start(0))
                .then(anthropic::text_delta(0, "Half of"))
                .then(cut()),
        ),
        Reply::stream(anthropic::say("The whole of it.")),
    ]);
    let scratch = Scratch::new();
    let mut person = Pty::start(&scratch, &server, &["go"]);
    person.shows("Half of");
    person.shows("✗ the reply was cut: what it said above is void; starting again");
    person.shows("attempt 1 failed");
    person.shows("The whole of it.");
    person.is_asked();
    person.keys(CONTROL_D);
    assert_eq!(person.ends(), 0);
}

#[test]
fn nothing_that_the_model_or_a_tool_says_acts_on_the_terminal() {
    let gate = Gate::new();
    let evil = "a\u{1b}]0;title\u{7}b\u{1b}[2Jc\u{9b}5md";
    let server = ModelServer::start([
        Reply::stream(
            anthropic::open()
                .then(anthropic::text_start(0))
                .then(anthropic::text_delta(0, "a\u{1b}]0;ti"))
                .then(wait_for(&gate))
                .then(anthropic::text_delta(0, "tle\u{7}b\u{1b}"))
                .then(anthropic::text_delta(0, "[2Jc\n"))
                .then(anthropic::block_stop(0))
                .then(anthropic::tool_use(
                    1,
                    "c1",
                    "bash",
                    &[
                        &serde_json::json!({ "command": format!("touch x; echo '{evil}'") })
                            .to_string(),
                    ],
                ))
                .then(anthropic::end("tool_use")),
        ),
        Reply::stream(anthropic::say("Done.")),
    ]);
    let scratch = Scratch::new();
    let mut person = Pty::start_with(&scratch, &server, &["go"], &[("NO_COLOR", "1")]);
    person.shows("> go");
    gate.open();
    person.shows("abc");
    person.shows(CHOICES);
    person.keys("n");
    person.shows("Done.");
    person.is_asked();
    person.keys(CONTROL_D);
    assert_eq!(person.ends(), 0);
    let raw = String::from_utf8(person.raw()).unwrap();
    for sequence in ["\u{1b}]", "\u{1b}[2J", "\u{9b}", "\u{7}"] {
        assert!(!raw.contains(sequence), "{sequence:?} in {raw:?}");
    }
    assert!(raw.contains("\\u{1b}[2J"), "{raw:?}");
    // No colour was wanted: no sequence that ends with m but the resets of the line editor.
    let colors: Vec<_> = raw
        .match_indices("\u{1b}[")
        .filter_map(|(at, _)| {
            let rest = &raw[at + 2..];
            let end = rest.find(|letter: char| letter.is_ascii_alphabetic())?;
            rest[..=end].ends_with('m').then_some(&rest[..=end])
        })
        .filter(|sequence| *sequence != "0m" && *sequence != "m")
        .collect();
    assert!(colors.is_empty(), "{colors:?}");
}

#[test]
fn another_size_changes_nothing_but_the_rows() {
    let gate = Gate::new();
    let server = ModelServer::start([Reply::stream(
        anthropic::open()
            .then(anthropic::text_start(0))
            .then(anthropic::text_delta(0, "Before "))
            .then(wait_for(&gate))
            .then(anthropic::text_delta(0, "and after."))
            .then(anthropic::block_stop(0))
            .then(anthropic::end("end_turn")),
    )]);
    let scratch = Scratch::new();
    let mut person = Pty::start(&scratch, &server, &["go"]);
    person.shows("Before");
    person.keys("typed");
    person.shows("> typed");
    person.resize(30, 10);
    // The row is cut to the new width now.
    person.shows("↓1\n> typed");
    gate.open();
    person.shows("and after.");
    person.shows("1 step");
    person.shows("> typed");
    person.keys("\x15");
    person.keys(CONTROL_D);
    assert_eq!(person.ends(), 0);
}

#[test]
fn without_a_terminal_that_can_be_drawn_on_it_says_so() {
    let server = ModelServer::start([anthropic::say("never")]);
    let scratch = Scratch::new();
    let mut person = Pty::start_with(&scratch, &server, &[], &[("TERM", "dumb")]);
    person.shows("this terminal cannot move its cursor");
    assert_eq!(person.ends(), 2);
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn the_screen_keeps_up_with_a_long_reply() {
    let lines: String = (0..3_000).map(|n| format!("line {n} of many\n")).collect();
    let server = ModelServer::start([anthropic::say(&lines)]);
    let scratch = Scratch::new();
    let mut person = Pty::start(&scratch, &server, &["go"]);
    person.shows("line 2999 of many");
    let text = person.text();
    for n in 0..3_000 {
        assert!(text.contains(&format!("line {n} of many")), "{n}");
    }
    person.is_asked();
    person.keys(CONTROL_D);
    assert_eq!(person.ends(), 0);
    server.wait_for_requests(1, LONG).unwrap();
}

#[test]
fn a_job_that_ends_wakes_the_session_of_a_person_who_waits() {
    let server = ModelServer::start_with(|request| {
        let until = |file: &str| {
            let command = format!("until [ -e {file} ]; do sleep 0.01; done; echo $((6*7)) {file}");
            serde_json::json!({ "command": command, "run_in_background": true })
        };
        let reply = if request.mentions("job_3") {
            anthropic::say("It runs.")
        } else if request.mentions("a third one") {
            anthropic::calls(&[("c3", "bash", until("three"))])
        } else if request.mentions("42 two") {
            anthropic::say("The second is built.")
        } else if request.mentions("what of it") {
            anthropic::say("Not yet.")
        } else if request.mentions("42 one") {
            anthropic::say("The first is built.")
        } else if request.mentions("job_2") {
            anthropic::say("Both have begun.")
        } else {
            anthropic::calls(&[("c1", "bash", until("one")), ("c2", "bash", until("two"))])
        };
        reply.into()
    });
    let scratch = Scratch::new();
    let mut person = Pty::start(&scratch, &server, &["--allowedTools", "Bash", "go"]);
    person.shows("Both have begun.");
    person.is_asked();
    scratch.write("one", "");
    person.shows("job_1 ended");
    person.shows("The first is built.");
    person.is_asked();
    // Who has begun to type is left alone; what there is to say goes with the prompt, or follows.
    person.keys("what of it");
    person.shows("what of it");
    scratch.write("two", "");
    let ended = || processes_with("until [ -e two ]").is_empty();
    assert!(wait_until(LONG, ended));
    assert!(
        !server
            .requests()
            .iter()
            .any(|request| request.mentions("42 two"))
    );
    person.keys(ENTER);
    // What had not been shown yet is now.
    person.shows("job_2 ended");
    person.shows("The second is built.");
    person.is_asked();
    person.keys("a third one");
    person.keys(ENTER);
    person.shows("It runs.");
    person.is_asked();
    // What ends with a session is named.
    person.keys("/clear");
    person.keys(ENTER);
    person.shows("Ended with the session: job_3");
    person.shows("> ");
    person.keys(CONTROL_D);
    assert_eq!(person.ends(), 0);
    assert!(person.is_restored());
    server.assert_clean();
}

#[test]
fn traces_and_a_debug_file_show_nothing_on_the_screen() {
    let server = ModelServer::start([bash("c1", "touch one"), anthropic::say("All done.")]);
    let (scratch, collector) = (Scratch::new(), Collector::start(Manner::Answers(200)));
    let log = scratch.root().join("debug.log");
    let mut person = Pty::start_with(
        &scratch,
        &server,
        &["--debug-file", log.to_str().unwrap(), "go"],
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url()),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
        ],
    );
    person.shows(CHOICES);
    person.keys("y");
    person.shows("All done.");
    person.is_asked();
    person.keys(CONTROL_D);
    assert_eq!(person.ends(), 0);
    assert!(person.is_restored());
    let text = person.text();
    assert!(
        !text.contains("journal:") && !text.contains("invoke_agent"),
        "{text}"
    );

    let spans = collector.spans();
    assert_eq!(
        tree(&spans),
        "invoke_agent\n  step 1\n    chat m\n      POST\n    execute_tool bash\n  step 2\n    \
         chat m\n      POST\n"
    );
    let step = spans.iter().find(|span| span.name() == "step 1").unwrap();
    let events: Vec<_> = step.events().into_iter().map(|(name, _)| name).collect();
    assert_eq!(events, ["permission is asked for", "permission"]);
    let log = std::fs::read_to_string(log).unwrap();
    for words in [
        "permission is asked for",
        "a command starts",
        "a command has ended",
    ] {
        assert!(log.contains(words), "{log}");
    }
}

/// What was said, without what the model is reminded of.
fn said(request: &tooloop_testkit::CapturedRequest) -> Vec<(String, String)> {
    let texts = request.texts().into_iter();
    let plain = |text: String| {
        text.split("\n<reminder>")
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    texts.map(|(role, text)| (role, plain(text))).collect()
}
