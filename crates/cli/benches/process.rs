//! The whole program against a scripted server: start to first request, from a reply's end to the
//! next request, exit after the answer, peak memory, 400 MB of output. Prints a table; judges nothing.
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
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use tooloop_testkit::{ModelServer, Reply, anthropic};

/// What one run shows.
struct Shown {
    first_request: Duration,
    steps: Vec<Duration>,
    exit: Duration,
    peak_kb: u64,
}

/// One run whose model asks for `commands`, then says it is done.
fn run(commands: &[String]) -> Shown {
    let home = TempDir::new().expect("a folder");
    let mut replies: Vec<Reply> = commands
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
    replies.push(Reply::stream(anthropic::say("done")));
    let mut replies = replies.into_iter();
    let last = commands.len();
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
    let mut child = Command::new(env!("CARGO_BIN_EXE_tooloop"))
        .args(["--permission-mode", "bypassPermissions", "-p", "go"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home.path())
        .env("TMPDIR", home.path())
        .env("ANTHROPIC_API_KEY", "none")
        .env("ANTHROPIC_BASE_URL", server.base_url())
        .current_dir(home.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("the program starts");
    pid.set(child.id()).expect("set once");
    let status = child.wait().expect("it ends");
    let gone = Instant::now();
    assert!(status.success(), "{status}");
    server.assert_clean();
    let exchanges = server.exchanges();
    let ended = |index: usize| exchanges[index].ended.as_ref().expect("an end").1;
    let arrived = |index: usize| exchanges[index].request.arrived;
    let peak_kb = *peak.lock().expect("a number");
    Shown {
        first_request: arrived(0) - begun,
        steps: (1..exchanges.len())
            .map(|index| arrived(index).saturating_duration_since(ended(index - 1)))
            .collect(),
        exit: gone.saturating_duration_since(ended(exchanges.len() - 1)),
        peak_kb,
    }
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
}
