//! A session of 2,000 steps whose window is full again and again: the whole program against a
//! scripted server. For every 200 steps it prints how long a step takes beside the model (the
//! median from a reply's end to the next request), and the memory that the program has then. Both
//! are to stay as they are: it says so if memory grows by more than a tenth. Another number of
//! steps is its argument.
//!
//! `cargo bench -p tooloop-cli --bench soak -- 2000`
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark may fail where it stands, and prints"
)]

use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use tooloop_testkit::{CapturedRequest, ModelServer, Reply, Steps, anthropic};

/// The model's window, in tokens.
const WINDOW: usize = 32_000;

/// How many bytes of a request the model takes for a token.
const TOKEN: usize = 4;

/// In how many parts it is told.
const PARTS: usize = 10;

/// What a run shows.
#[derive(Default)]
struct Shown {
    /// The program's memory in kB as each step is asked for.
    memory: Vec<u64>,
    summaries: usize,
    /// The exchanges that were for a step.
    steps: Vec<usize>,
}

fn main() {
    let steps = std::env::args().find_map(|word| word.parse().ok());
    let steps = steps.unwrap_or(2_000);
    let home = TempDir::new().expect("a folder");
    for number in 0..20 {
        let text = format!("a line of the file {number}\n").repeat(150);
        std::fs::write(home.path().join(format!("file-{number}")), text).expect("a file");
    }
    let shown = Arc::new(Mutex::new(Shown::default()));
    let pid = Arc::new(OnceLock::new());
    let server = serve(steps, Arc::clone(&shown), Arc::clone(&pid));
    let mut child = program(&home, &server).spawn().expect("the program starts");
    pid.set(child.id()).expect("set once");
    let begun = Instant::now();
    let status = child.wait().expect("it ends");
    let took = begun.elapsed();
    assert!(status.success(), "{status}");
    server.assert_clean();
    let exchanges = server.exchanges();
    let shown = shown.lock().expect("what was shown");
    let waits: Vec<Duration> = shown
        .steps
        .iter()
        .filter_map(|step| {
            let before = exchanges.get(step.checked_sub(1)?)?.ended.as_ref()?.1;
            let arrived = exchanges.get(*step)?.request.arrived;
            Some(arrived.saturating_duration_since(before))
        })
        .collect();
    let part = steps.div_ceil(PARTS);
    let parts = waits.chunks(part).zip(shown.memory.chunks(part));
    let mut peaks = Vec::new();
    for (number, (waits, memory)) in parts.enumerate() {
        let peak = memory.iter().max().copied().unwrap_or(0);
        println!(
            "steps {:>5} to {:>5}   {:>9.2?} a step   {peak:>7} kB at most",
            number * part + 1,
            number * part + waits.len(),
            median(waits),
        );
        peaks.push(peak);
    }
    println!("{steps} steps in {took:.1?}, {} summaries", shown.summaries);
    let (third, last) = (peaks.get(2).copied(), peaks.last().copied());
    if let (Some(third), Some(last)) = (third, last) {
        let percent = last.saturating_mul(100) / third.max(1);
        let words = if percent > 110 {
            "it grows"
        } else {
            "it is flat"
        };
        println!("memory: the last part has {percent} % of the third: {words}");
    }
}

/// A model that reads files one after the other, sums up what it is asked to, and counts.
fn serve(steps: usize, shown: Arc<Mutex<Shown>>, pid: Arc<OnceLock<u32>>) -> ModelServer {
    let mut seen = 0;
    ModelServer::start_with(move |request| {
        let mut shown = shown.lock().expect("what was shown");
        let exchange = seen;
        seen += 1;
        let usage = anthropic::Usage {
            input: (request.raw.len() / TOKEN) as u64,
            ..anthropic::Usage::default()
        };
        let open = anthropic::open_with(usage);
        if is_for_a_summary(request) {
            shown.summaries += 1;
            let summary = "The files are read one after the other. ".repeat(20);
            return stream(open.then(anthropic::text(0, &summary)), "end_turn");
        }
        let step = shown.memory.len();
        shown.memory.push(memory_of(pid.get().copied()));
        shown.steps.push(exchange);
        if step >= steps {
            return stream(open.then(anthropic::text(0, "All are read.")), "end_turn");
        }
        let input = json!({ "path": format!("file-{}", step % 20), "offset": 1 + step % 7 });
        let id = format!("tu_{step}");
        let call = anthropic::tool_use(1, &id, "read", &[&input.to_string()]);
        let text = anthropic::text(0, &format!("I read file {step}."));
        stream(open.then(text).then(call), "tool_use")
    })
}

fn stream(steps: Steps, stop_reason: &str) -> Reply {
    Reply::stream(steps.then(anthropic::end(stop_reason)))
}

fn is_for_a_summary(request: &CapturedRequest) -> bool {
    let words = b"is about to be summed up";
    request
        .raw
        .windows(words.len())
        .any(|window| window == words)
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
        .env("TOOLOOP_CONTEXT_WINDOW", WINDOW.to_string())
        .current_dir(home.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    program
}

/// The memory of a process in kB.
fn memory_of(pid: Option<u32>) -> u64 {
    let path = format!("/proc/{}/status", pid.unwrap_or(0));
    let status = std::fs::read_to_string(path).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok())
        .unwrap_or(0)
}

fn median(values: &[Duration]) -> Duration {
    let mut values = values.to_vec();
    values.sort();
    values.get(values.len() / 2).copied().unwrap_or_default()
}
