//! What the tests share: starting the binary, and what must be true of every run.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tooloop_testkit::run::{Finished, Run, Running, Signal, Stdin};
use tooloop_testkit::{
    CapturedRequest, ModelServer, Process, Reply, Scratch, Steps, anthropic, openai_chat,
};

/// A bound for what must happen, never a time to wait.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Two seconds after its end nothing of a run is left. The rest is for a loaded machine.
pub(crate) const GONE: Duration = Duration::from_secs(4);

/// The wire format of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Messages,
    Chat,
}

impl Api {
    /// The model's name for `--model`.
    pub(crate) const fn model(self) -> &'static str {
        match self {
            Self::Messages => "anthropic/m",
            Self::Chat => "openai/m",
        }
    }

    pub(crate) fn say(self, text: &str) -> Steps {
        match self {
            Self::Messages => anthropic::say(text),
            Self::Chat => openai_chat::say(text),
        }
    }

    /// A reply with one bash call.
    pub(crate) fn bash(self, id: &str, command: &str) -> Steps {
        self.call(id, "bash", &json!({ "command": command }))
    }

    /// A reply with several bash calls.
    pub(crate) fn bashes(self, calls: &[(&str, &str)]) -> Steps {
        let calls: Vec<_> = calls
            .iter()
            .map(|(id, command)| (*id, "bash", json!({ "command": command })))
            .collect();
        match self {
            Self::Messages => anthropic::calls(&calls),
            Self::Chat => openai_chat::calls(&calls),
        }
    }

    pub(crate) fn call(self, id: &str, name: &str, input: &Value) -> Steps {
        match self {
            Self::Messages => anthropic::call_json(id, name, input),
            Self::Chat => openai_chat::call_json(id, name, input),
        }
    }

    pub(crate) fn error(self, status: u16, kind: &str, message: &str) -> Reply {
        match self {
            Self::Messages => anthropic::http_error(status, kind, message),
            Self::Chat => openai_chat::http_error(status, kind, message),
        }
    }
}

/// Makes a test for each wire format of one function.
macro_rules! both {
    ($($(#[$doc:meta])* fn $name:ident($api:ident) $body:block)+) => {
        $(
            $(#[$doc])*
            mod $name {
                use super::*;

                fn case($api: Api) $body

                #[test]
                fn messages() {
                    case(Api::Messages);
                }

                #[test]
                fn chat() {
                    case(Api::Chat);
                }
            }
        )+
    };
}
pub(crate) use both;

/// The binary, with nothing but its name.
pub(crate) fn bare(scratch: &Scratch) -> Run {
    DATA.set(Some(scratch.data()));
    Run::new(env!("CARGO_BIN_EXE_tooloop"))
        .home(scratch)
        .env("TOOLOOP_SANDBOX", "off")
}

thread_local! {
    /// Where the newest run of this test keeps its journals.
    static DATA: std::cell::RefCell<Option<PathBuf>> = const { std::cell::RefCell::new(None) };
    /// Whether its journals are played again.
    static REPLAYS: std::cell::Cell<bool> = const { std::cell::Cell::new(true) };
}

/// The binary pointed at the server: everything is allowed, records come out, retries are quick.
pub(crate) fn tooloop(scratch: &Scratch, server: &ModelServer, api: Api) -> Run {
    asking(scratch, server, api)
        .env("TOOLOOP_PERMISSION_MODE", "bypassPermissions")
        .args(["--output-format", "stream-json"])
}

/// The binary pointed at the server, its permissions and its output as they are by default.
pub(crate) fn asking(scratch: &Scratch, server: &ModelServer, api: Api) -> Run {
    bare(scratch)
        .model(server)
        .env("TOOLOOP_MODEL", api.model())
        .env("TOOLOOP_RETRY_BASE_MS", "20")
        .env("TOOLOOP_RETRY_MAX_ATTEMPTS", "4")
        .arg("-p")
}

/// Runs one prompt to its end.
pub(crate) fn ask(scratch: &Scratch, server: &ModelServer, api: Api, prompt: &str) -> Done {
    finish(
        &recorded(tooloop(scratch, server, api), scratch)
            .arg(prompt)
            .start(),
    )
}

/// Runs one prompt to its end in the session.
pub(crate) fn resume(
    scratch: &Scratch,
    server: &ModelServer,
    api: Api,
    session: &str,
    prompt: &str,
) -> Done {
    let run = tooloop(scratch, server, api).args(["--resume", session, prompt]);
    finish(&recorded(run, scratch).start())
}

/// The same run, recorded into a file of its own.
fn recorded(run: Run, scratch: &Scratch) -> Run {
    let folder = recordings(&scratch.data());
    std::fs::create_dir_all(&folder).unwrap();
    let count = std::fs::read_dir(&folder).unwrap().count();
    run.arg("--record")
        .arg(folder.join(format!("{count}.jsonl")))
}

fn recordings(data: &std::path::Path) -> PathBuf {
    data.join("recordings")
}

/// A run that has ended, with its records.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) finished: Finished,
    pub(crate) records: Vec<Value>,
}

/// Waits for the end of a run that tells records, and checks what is true of every such run.
pub(crate) fn finish(running: &Running) -> Done {
    let finished = end(running);
    let records = finished.json_lines().unwrap();
    let last = records
        .last()
        .unwrap_or_else(|| panic!("no record; {finished}"));
    assert_eq!(last["type"], "result", "{finished}");
    assert_eq!(
        last["exit_status"].as_i64(),
        finished.code.map(i64::from),
        "{finished}"
    );
    assert_eq!(last["is_error"], last["subtype"] != "success", "{finished}");
    for (index, record) in records.iter().enumerate() {
        assert_eq!(record["seq"], index + 1, "{record}; {finished}");
        assert_eq!(record["session_id"], last["session_id"], "{finished}");
    }
    if REPLAYS.get() {
        DATA.with_borrow(|data| data.iter().for_each(|data| replays(data)));
    }
    Done { finished, records }
}

/// Plays every journal and every recording there is again: each must come to the same entries,
/// without any server.
fn replays(data: &std::path::Path) {
    let recordings = std::fs::read_dir(recordings(data)).into_iter().flatten();
    let recordings = recordings.map(|file| file.unwrap().path());
    for journal in journals_in(data).into_iter().chain(recordings) {
        let run = Run::new(env!("CARGO_BIN_EXE_tooloop")).arg("replay");
        let finished = end(&run.arg(journal.display().to_string()).start());
        // Some tests put files there that are no journals.
        if finished.code != Some(42) {
            let read = String::from_utf8_lossy(&std::fs::read(&journal).unwrap()).into_owned();
            assert_eq!(finished.code, Some(0), "{finished}\n{read}");
        }
    }
}

/// This test damages journals: from here on they need not come to the same when they are played.
pub(crate) fn damages_journals() {
    REPLAYS.set(false);
}

/// Waits for the end of a run and checks what is true of every run: it ends by itself, without a
/// panic, its output is closed, and nothing that it started is left.
pub(crate) fn end(running: &Running) -> Finished {
    let finished = running.wait(LONG);
    assert!(!finished.timed_out, "it did not end; {finished}");
    let complaints = finished.stderr.text();
    assert!(!complaints.contains("panicked"), "{finished}");
    assert!(!finished.output_open, "{finished}");
    no_leftovers(running);
    finished
}

/// Ends the program as nothing can prevent; says false if it had ended by itself. Whatever it
/// started is gone afterwards.
pub(crate) fn kill(running: &Running) -> bool {
    let killed = running.signal(Signal::Kill);
    // Killed is not yet ended: its lock is held until then.
    let ended = tooloop_testkit::wait_until(LONG, || !running.is_alive());
    assert!(ended, "it did not end");
    no_leftovers(running);
    killed
}

pub(crate) fn no_leftovers(running: &Running) {
    let left: Vec<Process> = running.wait_for_no_leftovers(GONE);
    assert!(left.is_empty(), "still alive: {left:#?}");
}

impl Done {
    /// The last record.
    pub(crate) fn result(&self) -> &Value {
        self.records.last().unwrap()
    }

    /// Asserts that the run came to an answer, and gives it.
    pub(crate) fn answer(&self) -> &str {
        self.finished.assert_code(0);
        let result = self.result();
        assert_eq!(result["subtype"], "success", "{}", self.finished);
        result["result"].as_str().unwrap()
    }

    /// Asserts that the run failed with this status and reason, and gives the words.
    pub(crate) fn failed(&self, status: i32, reason: &str) -> String {
        self.finished.assert_code(status);
        let result = self.result();
        assert_eq!(result["reason"], reason, "{}", self.finished);
        let errors = result["errors"].as_array().unwrap();
        errors
            .iter()
            .map(|error| error.as_str().unwrap())
            .collect::<Vec<_>>()
            .join("\n")
    }

    pub(crate) fn session(&self) -> String {
        self.result()["session_id"].as_str().unwrap().to_owned()
    }

    /// The records of one kind.
    pub(crate) fn of(&self, kind: &str) -> Vec<&Value> {
        self.records
            .iter()
            .filter(|record| record["type"] == kind)
            .collect()
    }

    /// The records of type `system` with this subtype.
    pub(crate) fn system(&self, subtype: &str) -> Vec<&Value> {
        self.of("system")
            .into_iter()
            .filter(|record| record["subtype"] == subtype)
            .collect()
    }

    pub(crate) fn retries(&self) -> Vec<&Value> {
        self.system("api_retry")
    }

    /// The texts of the replies on record.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.of("assistant")
            .into_iter()
            .map(|record| text_of(&record["message"]["content"]))
            .collect()
    }

    /// The result of a call as it was told: its text, and whether it is an error.
    pub(crate) fn tool_result(&self, id: &str) -> (String, bool) {
        let of = |record: &Value| {
            let block = &record["message"]["content"][0];
            let found = block["type"] == "tool_result" && block["tool_use_id"] == id;
            found.then(|| {
                let content = &block["content"];
                let text = content
                    .as_str()
                    .map_or_else(|| text_of(content), str::to_owned);
                (text, block["is_error"] == true)
            })
        };
        let mut found: Vec<_> = self.of("user").into_iter().filter_map(of).collect();
        assert_eq!(found.len(), 1, "results of {id}; {}", self.finished);
        found.remove(0)
    }
}

fn text_of(content: &Value) -> String {
    let blocks = content.as_array().map_or(&[][..], Vec::as_slice);
    blocks
        .iter()
        .filter_map(|block| block["text"].as_str())
        .collect()
}

/// The text of a call's result in a request.
pub(crate) fn told(request: &CapturedRequest, id: &str) -> String {
    let result = request.tool_result(id);
    result
        .unwrap_or_else(|| panic!("no result of {id} in {}", request.body))
        .text
}

/// What was said in a request without the system prompt and reminders: role and text.
pub(crate) fn said(request: &CapturedRequest) -> Vec<(String, String)> {
    let mut texts = request.texts();
    texts.retain(|(role, _)| role != "system");
    for (_, text) in &mut texts {
        if let Some(at) = text.find("<reminder>\n") {
            text.truncate(at);
            text.truncate(text.trim_end_matches('\n').len());
        }
    }
    texts
}

/// The journal of a session.
pub(crate) fn journal(scratch: &Scratch, session: &str) -> PathBuf {
    let found: Vec<_> = journals(scratch)
        .into_iter()
        .filter(|path| path.file_stem().is_some_and(|stem| stem == session))
        .collect();
    assert_eq!(found.len(), 1, "journals of {session}");
    found.into_iter().next().unwrap()
}

/// All journals there are.
pub(crate) fn journals(scratch: &Scratch) -> Vec<PathBuf> {
    journals_in(&scratch.data())
}

fn journals_in(data: &std::path::Path) -> Vec<PathBuf> {
    let read = |path: PathBuf| {
        let entries = std::fs::read_dir(path).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path())
    };
    read(data.join("tooloop/sessions"))
        .flat_map(read)
        // A death in the making of one leaves a file that is none.
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "jsonl")
        })
        .collect()
}

/// A front end that writes messages to the binary and reads its records.
pub(crate) fn front_end(scratch: &Scratch, server: &ModelServer, api: Api) -> Run {
    tooloop(scratch, server, api)
        .args([
            "--input-format",
            "stream-json",
            "--include-partial-messages",
        ])
        .stdin(Stdin::Silent)
}

/// Says something as a front end does.
pub(crate) fn speak(running: &Running, text: &str) {
    send(
        running,
        &json!({"type": "user", "message": {"role": "user", "content": text}}),
    );
}

/// Asks for the end of the turn as a front end does.
pub(crate) fn interrupt(running: &Running) {
    send(
        running,
        &json!({"type": "control_request", "request_id": "stop", "request": {"subtype": "interrupt"}}),
    );
}

pub(crate) fn send(running: &Running, line: &Value) {
    running.write_stdin(format!("{line}\n").as_bytes()).unwrap();
}

/// Waits for the n-th result record (from 1).
pub(crate) fn wait_for_result(running: &Running, count: usize) -> Value {
    let mut seen = 0;
    let (record, _) = running
        .wait_for_record(LONG, |record| {
            seen += usize::from(record["type"] == "result");
            seen == count
        })
        .unwrap();
    record
}

/// Waits until the piece of a reply with this kind of delta has been told.
pub(crate) fn wait_for_piece(running: &Running, kind: &str) {
    running
        .wait_for_record(LONG, |record| record["event"]["delta"]["type"] == kind)
        .unwrap();
}

/// Waits until a file is there.
pub(crate) fn wait_for_file(path: &std::path::Path) {
    assert!(
        tooloop_testkit::wait_until(LONG, || path.exists()),
        "{} has not come to be",
        path.display()
    );
}

/// The session of a run that has just begun.
pub(crate) fn session_of(running: &Running) -> String {
    let (init, _) = running
        .wait_for_record(LONG, |record| record["subtype"] == "init")
        .unwrap();
    init["session_id"].as_str().unwrap().to_owned()
}

/// How often a death at a random moment is tried.
pub(crate) fn rounds() -> u32 {
    let wanted = std::env::var("TOOLOOP_KILL_ROUNDS").ok();
    wanted.map_or(10, |wanted| wanted.parse().unwrap())
}

/// Random moments. Shown where a test fails, though moments never come again as they were.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new() -> Self {
        use std::hash::{BuildHasher as _, Hasher as _};
        let hasher = std::hash::RandomState::new().build_hasher();
        Self(hasher.finish() | 1)
    }

    /// A number below `most`.
    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }

    /// Waits for a random time below so many milliseconds.
    pub(crate) fn wait_ms(&mut self, most: u64) {
        std::thread::sleep(Duration::from_micros(self.below(most * 1000)));
    }
}

/// Whether what these tests start ignores a signal, since they were started so.
pub(crate) fn is_ignored_here(name: &str, number: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = u64::from_str_radix(mask.unwrap().trim(), 16).unwrap();
    let ignored = mask & (1 << (number - 1)) != 0;
    if ignored {
        println!("not tried: these tests were started with SIG{name} ignored");
    }
    ignored
}
