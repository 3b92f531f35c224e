//! Signals in each phase of a run: it ends by itself with its status and its last record, nothing
//! is left, and the session goes on.

use std::time::Duration;

use serde_json::json;
use tooloop_testkit::run::{Run, Running, Signal, Stdin};
use tooloop_testkit::{
    Gate, ModelServer, Reply, Scratch, anthropic, hold, open_gate, processes_with, wait_for,
    wait_until,
};

use super::{API, unique_sleep};
use crate::support::{
    Api, Done, LONG, Random, both, end, finish, front_end, is_ignored_here, journals, resume,
    rounds, session_of, speak, told, tooloop, wait_for_file, wait_for_piece, wait_for_result,
};

/// The signals that end a run, and the status that says so.
const ENDING: [(Signal, i32); 3] = [
    (Signal::Interrupt, 130),
    (Signal::Terminate, 143),
    (Signal::HangUp, 129),
];

/// Those that are not ignored here from the beginning, as a hang-up is below `nohup`.
fn ending() -> Vec<(Signal, i32)> {
    ENDING
        .into_iter()
        .filter(|(signal, _)| *signal != Signal::HangUp || !is_ignored_here("HUP", 1))
        .collect()
}

/// A moment in the life of a run.
struct Phase {
    name: &'static str,
    /// What the model says first; afterwards it says "ok".
    replies: fn(&str) -> Vec<Reply>,
    /// Waits until the run is there.
    arrives: fn(&Scratch, &ModelServer, &Running, &str),
}

fn stream(steps: tooloop_testkit::Steps) -> Reply {
    Reply::stream(steps)
}

fn begun(scratch: &Scratch, _: &ModelServer, _: &Running, _: &str) {
    wait_for_file(&scratch.workspace().join("begun"));
}

fn asked(_: &Scratch, server: &ModelServer, _: &Running, _: &str) {
    server.wait_for_requests(1, LONG).unwrap();
}

const PHASES: &[Phase] = &[
    Phase {
        name: "before the first byte",
        replies: |_| vec![Reply::silence()],
        arrives: asked,
    },
    Phase {
        name: "behind the head of the answer",
        replies: |_| vec![stream(anthropic::open().then(hold()))],
        arrives: asked,
    },
    Phase {
        name: "in a text",
        replies: |_| {
            let begins = anthropic::open().then(anthropic::text_start(0));
            vec![stream(
                begins.then(anthropic::text_delta(0, "Hello ")).then(hold()),
            )]
        },
        arrives: |_, _, running, _| wait_for_piece(running, "text_delta"),
    },
    Phase {
        name: "in thinking without a signature",
        replies: |_| {
            let begins = anthropic::open().then(anthropic::thinking_start(0));
            vec![stream(
                begins.then(anthropic::thinking_delta(0, "hm")).then(hold()),
            )]
        },
        arrives: |_, _, running, _| wait_for_piece(running, "thinking_delta"),
    },
    Phase {
        name: "in the input of a call",
        replies: |_| {
            let begins = anthropic::open().then(anthropic::tool_use_start(0, "c_1", "bash"));
            let half = anthropic::input_delta(0, "{\"command\":\"touch never");
            vec![stream(begins.then(half).then(hold()))]
        },
        arrives: |_, _, running, _| wait_for_piece(running, "input_json_delta"),
    },
    Phase {
        name: "in a call that runs while its message is written",
        replies: |sleep| {
            let input = json!({ "command": sleep }).to_string();
            let call = anthropic::tool_use(0, "c_1", "bash", &[&input]);
            vec![stream(anthropic::open().then(call).then(hold()))]
        },
        arrives: |_, _, _, sleep| {
            assert!(wait_until(LONG, || !processes_with(sleep).is_empty()));
        },
    },
    Phase {
        name: "in a command with a tree",
        replies: |sleep| {
            let tree =
                format!("setsid {sleep} & (setsid {sleep} &) ; {sleep} & touch begun; {sleep}");
            vec![API.bash("c_1", &tree).into()]
        },
        arrives: begun,
    },
    Phase {
        name: "in a command that will not hear",
        replies: |sleep| {
            let stubborn =
                format!("trap '' INT TERM HUP QUIT; touch begun; while :; do {sleep}; done");
            vec![API.bash("c_1", &stubborn).into()]
        },
        arrives: begun,
    },
    Phase {
        name: "beside a job",
        replies: |sleep| {
            let job =
                json!({"command": format!("touch begun; exec {sleep}"), "run_in_background": true});
            vec![API.call("c_1", "bash", &job).into(), Reply::silence()]
        },
        arrives: begun,
    },
    Phase {
        name: "beside a program on a terminal",
        replies: |sleep| {
            let command = format!("touch begun; trap '' HUP; setsid {sleep} & {sleep}");
            let start = json!({"action": "start", "command": command, "wait_ms": 100});
            vec![API.call("c_1", "terminal", &start).into(), Reply::silence()]
        },
        arrives: begun,
    },
    Phase {
        name: "while a retry is awaited",
        replies: |_| {
            let body = anthropic::error_body("overloaded_error", "busy").to_string();
            vec![Reply::http(529, &[("retry-after", "55")], body)]
        },
        arrives: |_, _, running, _| {
            let waits = |record: &serde_json::Value| record["subtype"] == "api_retry";
            running.wait_for_record(LONG, waits).unwrap();
        },
    },
];

/// A model that says these things, and "ok" once they are said or where it hears "next".
fn server_that_says(replies: Vec<Reply>) -> ModelServer {
    let mut replies = replies.into_iter();
    ModelServer::start_with(move |request| {
        let next = replies.next().filter(|_| !request.mentions("next"));
        next.unwrap_or_else(|| request.format.say("ok").into())
    })
}

/// Brings a run to a phase, does something to it, and checks its end and all that is left of it.
fn ends(phase: &Phase, status: i32, strike: impl Fn(&Running)) {
    let (scratch, sleep) = (Scratch::new(), unique_sleep());
    let server = server_that_says((phase.replies)(&sleep));
    let running = tooloop(&scratch, &server, API)
        .args(["--include-partial-messages", "go"])
        .start();
    (phase.arrives)(&scratch, &server, &running, &sleep);
    strike(&running);
    let done = finish(&running);
    done.failed(status, "interrupted");
    assert!(processes_with(&sleep).is_empty(), "{}", phase.name);
    assert!(!scratch.workspace().join("never").exists());
    goes_on(&scratch, &server, &done);
}

fn goes_on(scratch: &Scratch, server: &ModelServer, done: &Done) {
    let next = resume(scratch, server, API, &done.session(), "next");
    assert_eq!(next.answer(), "ok");
    assert!(next.system("warning").is_empty(), "{}", next.finished);
    server.assert_clean();
}

/// Each phase with the next of some things to do, or with all of them where there is time.
fn each<T: Copy>(things: &[T], mut act: impl FnMut(&Phase, T)) {
    let at_once = if rounds() > 10 { things.len() } else { 1 };
    for (index, phase) in PHASES.iter().enumerate() {
        for thing in things.iter().cycle().skip(index).take(at_once) {
            act(phase, *thing);
        }
    }
}

#[test]
fn one_signal_ends_a_run_in_any_phase() {
    each(&ending(), |phase, (signal, status)| {
        ends(phase, status, |running| assert!(running.signal(signal)));
    });
}

/// The first one counts, however many come, and the last record is written all the same.
#[test]
fn more_signals_do_no_harm_in_any_phase() {
    let at_once: fn(&Running) = |running| {
        running.signal(Signal::Interrupt);
        running.signal(Signal::Interrupt);
    };
    let after_a_while: fn(&Running) = |running| {
        running.signal(Signal::Interrupt);
        std::thread::sleep(Duration::from_millis(300));
        running.signal(Signal::Interrupt);
    };
    let many: fn(&Running) = |running| {
        for _ in 0..20 {
            running.signal(Signal::Interrupt);
        }
    };
    each(&[at_once, after_a_while, many], |phase, strike| {
        ends(phase, 130, strike);
    });
}

/// Others that come while it ends change nothing: which one is the first is told by the command
/// that was asked to end.
#[test]
fn other_signals_while_it_ends_do_no_harm() {
    let (scratch, sleep) = (Scratch::new(), unique_sleep());
    let stubborn = format!("trap 'touch asked' TERM; touch begun; while :; do {sleep}; done");
    let server = server_that_says(vec![API.bash("c_1", &stubborn).into()]);
    let running = tooloop(&scratch, &server, API).arg("go").start();
    wait_for_file(&scratch.workspace().join("begun"));
    assert!(running.signal(Signal::Terminate));
    let told =
        |record: &serde_json::Value| record["message"]["content"][0]["type"] == "tool_result";
    running.wait_for_record(LONG, told).unwrap();
    for signal in [Signal::Interrupt, Signal::HangUp, Signal::Terminate] {
        running.signal(signal);
    }
    let done = finish(&running);
    done.failed(143, "interrupted");
    assert!(processes_with(&sleep).is_empty());
    goes_on(&scratch, &server, &done);
}

/// As a terminal does it, for all that is in the foreground.
#[test]
fn a_signal_to_the_whole_group() {
    each(&ending(), |phase, (signal, status)| {
        ends(phase, status, |running| {
            assert!(running.signal_group(signal))
        });
    });
}

/// A run that dies of it at once says nothing, and leaves nothing.
#[test]
fn a_signal_that_is_not_heard_leaves_nothing() {
    if is_ignored_here("QUIT", 3) {
        return;
    }
    for phase in PHASES {
        let (scratch, sleep) = (Scratch::new(), unique_sleep());
        let server = server_that_says((phase.replies)(&sleep));
        let running = tooloop(&scratch, &server, API)
            .args(["--include-partial-messages", "go"])
            .start();
        (phase.arrives)(&scratch, &server, &running, &sleep);
        let session = session_of(&running);
        assert!(running.signal(Signal::Quit));
        let finished = end(&running);
        assert_eq!(finished.shell_status(), Some(131), "{finished}");
        assert!(wait_until(LONG, || processes_with(&sleep).is_empty()));
        let next = resume(&scratch, &server, API, &session, "next");
        assert_eq!(next.answer(), "ok", "{}", phase.name);
        server.assert_clean();
    }
}

/// Between two messages nothing runs but jobs.
#[test]
fn a_signal_while_the_next_message_is_awaited() {
    for (signal, status) in ending() {
        let (scratch, sleep) = (Scratch::new(), unique_sleep());
        let job = json!({"command": sleep, "run_in_background": true});
        let server = server_that_says(vec![API.call("c_1", "bash", &job).into()]);
        let running = front_end(&scratch, &server, API).start();
        speak(&running, "first");
        wait_for_result(&running, 1);
        assert!(running.signal(signal));
        let done = finish(&running);
        done.failed(status, "not_run");
        assert!(processes_with(&sleep).is_empty());
        goes_on(&scratch, &server, &done);
    }
}

/// Before the first message of a front end, and while the prompt is still being piped in.
#[test]
fn a_signal_while_the_prompt_is_awaited() {
    for (signal, status) in ending() {
        let (scratch, server) = (Scratch::new(), server_that_says(Vec::new()));
        let front = front_end(&scratch, &server, API).start();
        let piped = tooloop(&scratch, &server, API).stdin(Stdin::Silent).start();
        piped.write_stdin(b"half a ").unwrap();
        for running in [&piped, &front] {
            assert!(wait_until(LONG, || catches(running.pid(), signal)));
        }
        for running in [piped, front] {
            assert!(running.signal(signal));
            finish(&running).failed(status, "not_run");
        }
        assert!(server.requests().is_empty());
        assert!(journals(&scratch).is_empty());
    }
}

/// Whether a process has said what it does at a signal.
fn catches(pid: i32, signal: Signal) -> bool {
    let number = match signal {
        Signal::HangUp => 1,
        Signal::Interrupt => 2,
        _ => 15,
    };
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status
        .lines()
        .find_map(|line| line.strip_prefix("SigCgt:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & (1 << (number - 1)) != 0)
}

/// A long past takes a moment to read. A signal then is not lost.
#[test]
fn a_signal_while_a_long_session_is_read() {
    let (scratch, server) = (Scratch::new(), server_that_says(Vec::new()));
    let prompt = "word ".repeat(20_000);
    let first = crate::support::ask(&scratch, &server, API, &prompt);
    let path = crate::support::journal(&scratch, &first.session());
    // The same turn again and again, ten megabytes of it.
    let whole = scratch.read(&path);
    let (header, records) = whole.split_once('\n').unwrap();
    let long = format!("{header}\n{}", records.repeat(100));
    scratch.write(&path, long);
    let mut random = Random::new();
    for (signal, status) in ending().into_iter().cycle().take(4) {
        let running = tooloop(&scratch, &server, API)
            .args(["--resume", &first.session(), "next"])
            .start();
        assert!(wait_until(LONG, || catches(running.pid(), signal)
            || !running.is_alive()));
        random.wait_ms(100);
        if running.signal(signal) {
            let done = finish(&running);
            if done.result()["subtype"] != "success" {
                done.finished.assert_code(status);
            }
        }
    }
    assert_eq!(
        resume(&scratch, &server, API, &first.session(), "next").answer(),
        "ok"
    );
}

/// At any moment of the beginning it either has not begun, or it says how it ended.
#[test]
fn a_signal_at_the_beginning() {
    let mut random = Random::new();
    let (scratch, server) = (Scratch::new(), server_that_says(Vec::new()));
    for (signal, status) in ending().into_iter().cycle().take(12) {
        let before = (journals(&scratch).len(), server.requests().len());
        let running = tooloop(&scratch, &server, API).arg("go").start();
        random.wait_ms(60);
        if !running.signal(signal) {
            finish(&running).answer();
            continue;
        }
        let finished = end(&running);
        if finished.signal.is_some() {
            // Before it could hear: nothing was done, nothing was said.
            assert_eq!(finished.shell_status(), Some(status), "{finished}");
            assert_eq!(finished.stdout.text(), "", "{finished}");
            let after = (journals(&scratch).len(), server.requests().len());
            assert_eq!(after, before);
            continue;
        }
        let done = finish(&running);
        if done.result()["subtype"] == "success" {
            done.answer();
        } else {
            done.finished.assert_code(status);
        }
    }
    server.assert_clean();
}

both! {
    /// Stopped and let go on by a person: nothing is lost, nothing is asked twice.
    fn a_run_that_is_stopped_for_a_while(api) {
        let scratch = Scratch::new();
        let (half, rest) = (Gate::new(), Gate::new());
        let steps = api.bash("c_1", "touch begun; until [ -e go ]; do sleep 0.02; done; echo went >> log");
        let said = api.say("it is done");
        let split = said.0.len() / 2;
        let (first, second) = said.0.split_at(split);
        let slow = tooloop_testkit::Steps(first.to_vec())
            .then(open_gate(&half))
            .then(wait_for(&rest))
            .then(second.to_vec());
        let server = ModelServer::start([Reply::stream(steps), Reply::stream(slow)]);
        let running = tooloop(&scratch, &server, api).arg("go").start();
        wait_for_file(&scratch.workspace().join("begun"));
        // In the middle of a command, which itself goes on.
        assert!(running.signal_group(Signal::TerminalStop));
        assert!(wait_until(LONG, || is_stopped(running.pid())));
        scratch.write("go", "");
        wait_for_file(&scratch.workspace().join("log"));
        assert!(running.signal(Signal::Continue));
        // And in the middle of an answer, which arrives meanwhile.
        assert!(half.wait(LONG));
        assert!(running.signal_group(Signal::TerminalStop));
        assert!(wait_until(LONG, || is_stopped(running.pid())));
        rest.open();
        server.wait_ended(1, LONG).unwrap();
        assert!(running.signal(Signal::Continue));
        let done = finish(&running);
        assert_eq!(done.answer(), "it is done");
        assert!(done.retries().is_empty());
        assert_eq!(scratch.read("log"), "went\n");
        assert!(told(&server.request(1), "c_1").contains("exit status 0"));
        server.assert_clean();
    }
}

fn is_stopped(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.starts_with('T')
}

/// What came while it was stopped counts, however long that was: the silence was not the server's.
#[test]
fn a_run_that_is_stopped_for_longer_than_a_silence_may_last() {
    let scratch = Scratch::new();
    let (half, rest) = (Gate::new(), Gate::new());
    let said = API.say("it is done");
    let (first, second) = said.0.split_at(3);
    let slow = tooloop_testkit::Steps(first.to_vec())
        .then(open_gate(&half))
        .then(wait_for(&rest))
        .then(second.to_vec());
    let server = ModelServer::start([Reply::stream(slow)]);
    let running = tooloop(&scratch, &server, Api::Messages)
        .env("TOOLOOP_STREAM_IDLE_TIMEOUT_MS", "1000")
        .env("TOOLOOP_STREAM_CONTENT_TIMEOUT_MS", "1000")
        .arg("go")
        .start();
    assert!(half.wait(LONG));
    assert!(running.signal(Signal::Stop));
    assert!(wait_until(LONG, || is_stopped(running.pid())));
    rest.open();
    server.wait_ended(0, LONG).unwrap();
    // The length of the silence is what is tested.
    std::thread::sleep(Duration::from_millis(1500));
    assert!(running.signal(Signal::Continue));
    let done = finish(&running);
    assert_eq!(done.answer(), "it is done");
    assert!(done.retries().is_empty(), "{}", done.finished);
    server.assert_clean();
}

/// Started as `nohup` starts programs, it does not end with its terminal.
#[test]
fn a_hang_up_that_is_to_be_ignored_is() {
    let (scratch, gate) = (Scratch::new(), Gate::new());
    let server = ModelServer::start([Reply::stream(wait_for(&gate).then(API.say("ok")))]);
    let running = Run::new("sh")
        .home(&scratch)
        .model(&server)
        .env("TOOLOOP_MODEL", API.model())
        .env("TOOLOOP_SANDBOX", "off")
        .args([
            "-c",
            "trap '' HUP; exec \"$0\" -p --output-format stream-json go",
            env!("CARGO_BIN_EXE_tooloop"),
        ])
        .start();
    server.wait_for_requests(1, LONG).unwrap();
    assert!(running.signal(Signal::HangUp));
    gate.open();
    assert_eq!(finish(&running).answer(), "ok");
}
