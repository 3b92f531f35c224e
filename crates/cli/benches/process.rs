//! The whole program against a scripted server: start to first request, from a reply's end to the
//! next request, exit after the answer, peak memory, 400 MB of output, calls that overlap, a call
//! that starts while the model writes, an interrupt. Prints a table; judges nothing.
//!
//! `cargo bench -p tooloop-cli --bench process`
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark may fail where it stands, and prints"
)]

use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;
use tempfile::TempDir;
use tooloop_testkit::{Exchange, ModelServer, Reply, anthropic, pause};

/// What one run shows.
struct Shown {
    first_request: Duration,
    steps: Vec<Duration>,
    exit: Duration,
    peak_kb: u64,
}

/// One run whose model asks for `commands`, then says it is done.
fn run(commands: &[String]) -> Shown {
    let replies: Vec<Reply> = commands
        .iter()
        .enumerate()
        .map(|(number, command)| {
            let input = json!({ "command": command });
            Reply::stream(anthropic::call_json(
                &format!("tu_{number}"),
                "bash",
                &input,
            ))
        })
        .collect();
    play(replies).0
}

/// The program in a folder of its own.
fn program(home: &TempDir, server: &ModelServer) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_tooloop"));
    program
        .args(["--permission-mode", "bypassPermissions", "-p", "go"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home.path())
        .env("TMPDIR", home.path())
        .env("ANTHROPIC_API_KEY", "none")
        .env("ANTHROPIC_BASE_URL", server.base_url())
        .current_dir(home.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    program
}

/// One run whose model says these replies, then that it is done.
fn play(mut replies: Vec<Reply>) -> (Shown, Vec<Exchange>) {
    let home = TempDir::new().expect("a folder");
    let last = replies.len();
    replies.push(Reply::stream(anthropic::say("done")));
    let mut replies = replies.into_iter();
    let mut seen = 0;
    let pid = Arc::new(OnceLock::new());
    let peak = Arc::new(Mutex::new(0));
    let (client, memory) = (Arc::clone(&pid), Arc::clone(&peak));
    let server = ModelServer::start_with(move |_| {
        // With the last request all output has passed through; looking earlier would cost the steps.
        if seen == last {
            let pid = client.get().copied().unwrap_or(0);
            *memory.lock().expect("a number") = peak_of(pid);
        }
        seen += 1;
        replies.next().expect("a reply for each request")
    });
    let begun = Instant::now();
    let mut child = program(&home, &server).spawn().expect("the program starts");
    pid.set(child.id()).expect("set once");
    let status = child.wait().expect("it ends");
    let gone = Instant::now();
    assert!(status.success(), "{status}");
    server.assert_clean();
    let exchanges = server.exchanges();
    let ended = |index: usize| exchanges[index].ended.as_ref().expect("an end").1;
    let arrived = |index: usize| exchanges[index].request.arrived;
    let peak_kb = *peak.lock().expect("a number");
    let shown = Shown {
        first_request: arrived(0) - begun,
        steps: (1..exchanges.len())
            .map(|index| arrived(index).saturating_duration_since(ended(index - 1)))
            .collect(),
        exit: gone.saturating_duration_since(ended(exchanges.len() - 1)),
        peak_kb,
    };
    (shown, exchanges)
}

/// From the end of the last of four calls of a second each to the next request.
fn four_sleeps() -> Duration {
    let sleep = json!({ "command": "sleep 1" });
    let calls = ["a", "b", "c", "d"].map(|id| (id, "bash", sleep.clone()));
    let (shown, _) = play(vec![Reply::stream(anthropic::calls(&calls))]);
    shown.steps[0]
}

/// From the end of a call's block to its start, where the model writes on for three seconds.
fn early_start() -> Duration {
    let hold = Duration::from_secs(3);
    let command = r#"{"command":"date +%s%N"}"#;
    let reply = anthropic::open()
        .then(anthropic::tool_use(0, "tu_1", "bash", &[command]))
        .then(pause(hold))
        .then(anthropic::end("tool_use"));
    let (_, exchanges) = play(vec![Reply::stream(reply)]);
    let ended = exchanges[0].ended.as_ref().expect("an end").1;
    let block = SystemTime::now() - ended.elapsed() - hold;
    let told = exchanges[1].request.tool_result("tu_1").expect("a result");
    let nanos = told.text.lines().next().and_then(|line| line.parse().ok());
    let started = UNIX_EPOCH + Duration::from_nanos(nanos.expect("a time"));
    started.duration_since(block).unwrap_or_default()
}

/// From SIGINT to the program's end, while a command runs.
fn interrupt() -> Duration {
    let home = TempDir::new().expect("a folder");
    let command = json!({ "command": "touch up; exec sleep 600" });
    let server = ModelServer::start([anthropic::call_json("tu_1", "bash", &command)]);
    let mut child = program(&home, &server)
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    while !home.path().join("up").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let begun = Instant::now();
    let signalled = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(signalled.is_ok_and(|status| status.success()));
    child.wait().expect("it ends");
    begun.elapsed()
}

/// The peak of a process's memory in kB.
fn peak_of(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok())
        .unwrap_or(0)
}

fn median(mut values: Vec<Duration>) -> Duration {
    values.sort();
    values[values.len() / 2]
}

fn main() {
    let runs = 9;
    let shown: Vec<_> = (0..runs).map(|_| run(&[])).collect();
    let first = shown.iter().map(|shown| shown.first_request).collect();
    let exit = shown.iter().map(|shown| shown.exit).collect();
    println!("start to first request   {:>9.2?}", median(first));
    println!("exit after the answer    {:>9.2?}", median(exit));
    for count in [50, 500] {
        let commands: Vec<_> = (0..count).map(|number| format!("true {number}")).collect();
        let shown = run(&commands);
        let newest = shown.steps[count - count / 10..].to_vec();
        println!(
            "{count:>3} steps of true        {:>9.2?}  last tenth {:.2?}  peak {} kB",
            median(shown.steps),
            median(newest),
            shown.peak_kb,
        );
    }
    let shown = run(&["yes 0123456789 | head -c 400000000".to_owned()]);
    println!(
        "400 MB of output         {:>9.2?}  peak {} kB",
        shown.steps[0], shown.peak_kb
    );
    let median_of = |measure: fn() -> Duration| median((0..5).map(|_| measure()).collect());
    println!("4 calls of 1 s each      {:>9.2?}", median_of(four_sleeps));
    println!("block's end to its call  {:>9.2?}", median_of(early_start));
    println!("SIGINT to the end        {:>9.2?}", median_of(interrupt));
}
