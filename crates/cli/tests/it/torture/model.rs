//! A model that asks for everything there is, each thing once, over a bad line.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tooloop_testkit::{
    CapturedRequest, Reply, Scratch, Step, Steps, anthropic, cut, openai_chat, reset,
};

use crate::support::{Api, Random};

/// How many calls the model wants to see answered.
const CALLS: usize = 24;

/// Lines of the file that is edited as a whole.
const LINES: usize = 12_000;

/// Lines of a file that is written.
const WRITTEN: usize = 8_000;

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    /// Adds its line to the log, outside of the workspace.
    Logs,
    /// Makes the file `f-N`.
    Writes,
    /// Changes what is there already, or reads.
    Other,
}

/// A call that was asked for.
#[derive(Debug, Clone)]
pub(super) struct Issued {
    pub(super) id: String,
    pub(super) does: Does,
    /// The message ended before its end: the call must not run.
    pub(super) is_cut: bool,
}

#[derive(Debug)]
pub(super) struct Model {
    api: Api,
    random: Random,
    workspace: PathBuf,
    log: PathBuf,
    sleep: String,
    pub(super) issued: Vec<Issued>,
    /// Failures in a row.
    failures: usize,
}

impl Model {
    /// `sleep` is the program that everything runs that is to outlive its call.
    pub(super) fn new(api: Api, scratch: &Scratch, sleep: &str) -> Self {
        scratch.write("state.txt", whole_state(0));
        for name in ["a.txt", "b.txt"] {
            scratch.write(name, whole_pair(0));
        }
        Self {
            api,
            random: Random::new(),
            workspace: scratch.workspace(),
            log: log(scratch),
            sleep: sleep.to_owned(),
            issued: Vec::new(),
            failures: 0,
        }
    }

    pub(super) fn reply(&mut self, request: &CapturedRequest) -> Reply {
        let is_done = request.tool_results().len() >= CALLS;
        if self.failures < 2 && self.random.below(7) == 0 {
            self.failures += 1;
            return match self.random.below(3) {
                0 => self.api.error(529, "overloaded_error", "busy"),
                1 => Reply::reset(),
                _ => self.cut_reply(),
            };
        }
        self.failures = 0;
        let steps = if is_done {
            self.api.say("done")
        } else {
            let calls = self.calls(false);
            self.message(&calls)
        };
        Reply::stream(self.hesitant(steps))
    }

    /// A reply that ends before it has told how.
    fn cut_reply(&mut self) -> Reply {
        let calls = self.calls(true);
        let mut steps = self.message(&calls);
        let most = steps.0.len() as u64 - 3;
        steps.0.truncate(1 + self.random.below(most) as usize);
        let end = if self.random.below(2) == 0 {
            cut()
        } else {
            reset()
        };
        Reply::stream(self.hesitant(steps).then(end))
    }

    fn hesitant(&mut self, steps: Steps) -> Steps {
        let mut slow = Vec::new();
        for step in steps.0 {
            if self.random.below(3) == 0 {
                slow.push(Step::Pause(Duration::from_micros(self.random.below(6_000))));
            }
            slow.push(step);
        }
        Steps(slow)
    }

    /// A whole message with thinking, where the format has it, text and calls in pieces.
    fn message(&self, calls: &[(String, &'static str, Value)]) -> Steps {
        let text = format!("step {}-", self.issued.len());
        let halves = |input: &Value| {
            let input = input.to_string();
            let (first, second) = input.split_at(input.len() / 2);
            (first.to_owned(), second.to_owned())
        };
        match self.api {
            Api::Messages => {
                let blocks: Steps = calls
                    .iter()
                    .enumerate()
                    .map(|(index, (id, name, input))| {
                        let (first, second) = halves(input);
                        anthropic::tool_use(index + 2, id, name, &[&first, &second])
                    })
                    .collect();
                anthropic::open()
                    .then(anthropic::thinking(0, "let me see", "signed-{#n}"))
                    .then(anthropic::text(1, &text))
                    .then(blocks)
                    .then(anthropic::end("tool_use"))
            }
            Api::Chat => {
                let deltas: Steps = calls
                    .iter()
                    .enumerate()
                    .map(|(index, (id, name, input))| {
                        let (first, second) = halves(input);
                        openai_chat::tool_delta(index, id, name, &first)
                            .then(openai_chat::arguments_delta(index, &second))
                    })
                    .collect();
                openai_chat::delta(&json!({"role": "assistant", "content": text}))
                    .then(deltas)
                    .then(openai_chat::finish("tool_calls"))
                    .then(openai_chat::done())
            }
        }
    }

    /// What the next message asks for.
    fn calls(&mut self, is_cut: bool) -> Vec<(String, &'static str, Value)> {
        let kind = if is_cut {
            self.random.below(4)
        } else {
            self.random.below(11)
        };
        let number = self.issued.len() + 1;
        let log = format!("echo line-{number} >> {}", self.log.display());
        let sleep = &self.sleep;
        let bash = |command: String| ("bash", json!({ "command": command }));
        let logs = |command: String| vec![(Does::Logs, bash(command))];
        let wanted = match kind {
            0 => logs(log),
            // A tree of processes while it runs and after.
            1 => logs(format!(
                "{sleep} >/dev/null 2>&1 & setsid {sleep} >/dev/null 2>&1 & \
                 (setsid setsid {sleep} >/dev/null 2>&1 &) ; env -i {sleep} >/dev/null 2>&1 & \
                 {log}; sleep 0.02"
            )),
            2 => {
                let command = format!("{log}; (trap '' TERM HUP INT; {sleep}); true");
                let job = json!({"command": command, "run_in_background": true});
                vec![(Does::Logs, ("bash", job))]
            }
            3 => {
                let command = format!("{log}; setsid {sleep} & exec {sleep}");
                let start = json!({"action": "start", "command": command, "wait_ms": 100});
                vec![(Does::Logs, ("terminal", start))]
            }
            // More than is shown: the rest goes into a file.
            4 => logs(format!("{log}; seq 1 60000; sleep 0.01")),
            5 => {
                let content = format!("{number}\n").repeat(WRITTEN);
                let write = json!({"path": format!("f-{number}"), "content": content});
                vec![(Does::Writes, ("write", write))]
            }
            6 | 9 => {
                let old = state_line(&self.read("state.txt"));
                let edit = json!({
                    "path": "state.txt", "old": old, "new": format!("v{number:05}"), "all": true,
                });
                vec![(Does::Other, ("edit", edit))]
            }
            7 | 10 => {
                let change = |name: &str| {
                    let old = state_line(&self.read(name));
                    format!("*** Update File: {name}\n@@\n-{old}\n+v{number:05}\n between\n")
                };
                let (a, b) = (change("a.txt"), change("b.txt"));
                let patch = format!("*** Begin Patch\n{a}{b}*** End Patch\n");
                vec![(Does::Other, ("apply_patch", json!({ "patch": patch })))]
            }
            // Calls that run side by side, while the message is being written, and one behind them.
            _ => vec![
                (
                    Does::Other,
                    ("read", json!({"path": "state.txt", "limit": number})),
                ),
                (Does::Other, bash(format!("sleep 0.01; echo {number}"))),
                (
                    Does::Other,
                    ("grep", json!({"pattern": format!("v{number:05}")})),
                ),
                (
                    Does::Logs,
                    bash(format!(
                        "echo line-{} >> {}",
                        number + 3,
                        self.log.display()
                    )),
                ),
            ],
        };
        wanted
            .into_iter()
            .map(|(does, (name, input))| {
                let id = format!("call-{}-", self.issued.len() + 1);
                self.issued.push(Issued {
                    id: id.clone(),
                    does,
                    is_cut,
                });
                (id, name, input)
            })
            .collect()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.workspace.join(name)).unwrap()
    }
}

/// Where calls leave their lines.
pub(super) fn log(scratch: &Scratch) -> PathBuf {
    scratch.outside().join("log")
}

fn state_line(content: &str) -> String {
    content.lines().next().unwrap().to_owned()
}

fn whole_state(version: usize) -> String {
    format!("v{version:05}\n").repeat(LINES)
}

fn whole_pair(version: usize) -> String {
    format!("v{version:05}\nbetween\n{}", "padding\n".repeat(4_000))
}

/// What changes when one of the files changes that are there from the beginning.
pub(super) fn traces(scratch: &Scratch) -> Vec<Option<(u64, SystemTime)>> {
    let trace = |name| {
        let file = std::fs::metadata(scratch.workspace().join(name)).ok()?;
        Some((file.ino(), file.modified().ok()?))
    };
    CHANGED.map(|(name, _)| trace(name)).into()
}

/// Returns the content of a version of a file.
type Whole = fn(usize) -> String;

/// The files that are there from the beginning, and what a version of each has in it.
const CHANGED: [(&str, Whole); 3] = [
    ("state.txt", whole_state),
    ("a.txt", whole_pair),
    ("b.txt", whole_pair),
];

/// The version that a file says it is.
fn version(content: &str) -> Option<usize> {
    let line = content.lines().next()?;
    line.strip_prefix('v')?.parse().ok()
}

/// Files of the workspace that are neither as they were nor as they were to be, and temporary ones.
pub(super) fn torn_files(scratch: &Scratch, issued: &[Issued]) -> Vec<String> {
    let mut torn = Vec::new();
    for (name, whole) in CHANGED {
        let content = scratch.read(name);
        if version(&content).is_none_or(|version| content != whole(version)) {
            torn.push(name.to_owned());
        }
    }
    for number in 1..=issued.len() {
        let name = format!("f-{number}");
        let whole = format!("{number}\n").repeat(WRITTEN);
        match std::fs::read_to_string(scratch.workspace().join(&name)) {
            Ok(content) if content == whole => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            _ => torn.push(name),
        }
    }
    torn
}

/// Names in the workspace that belong to no call. A death in the instant before a file is moved to
/// its place leaves the whole new file under a temporary name, until the next write of the file.
pub(super) fn strange_files(scratch: &Scratch) -> Vec<String> {
    let is_whole = |name: &str| {
        let stem = name
            .strip_prefix('.')
            .and_then(|name| name.split_once(".tooloop-"));
        let changed = stem.and_then(|(stem, _)| CHANGED.iter().find(|(name, _)| *name == stem));
        changed.is_some_and(|(_, whole)| {
            let content = scratch.read(name);
            version(&content).is_some_and(|version| content == whole(version))
        })
    };
    let known =
        |name: &str| CHANGED.iter().any(|(known, _)| *known == name) || name.starts_with("f-");
    std::fs::read_dir(scratch.workspace())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| !known(name) && !is_whole(name))
        .collect()
}
