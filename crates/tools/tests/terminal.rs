//! Programs on terminals as a model meets them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "shared test code may panic"
)]

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use tooloop_exec::{Environment, EnvironmentRules, Processes};
use tooloop_model::{Content, JsonObject};
use tooloop_policy::{AccessEffect, Policy, Rule};
use tooloop_tool::{DynTool, Scope, ToolContext, ToolError, ToolOutput, tool};
use tooloop_tools::{LocalOps, Terminal, TerminalSettings};

/// A bound for what must happen, not a time to wait.
const SOON: Duration = Duration::from_secs(30);

/// A session with its workspace.
struct Room {
    terminal: Arc<dyn DynTool>,
    processes: Processes,
    workspace: PathBuf,
    context: ToolContext,
    folder: tempfile::TempDir,
}

impl Room {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut TerminalSettings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap().join("work");
        fs::create_dir(&workspace).unwrap();
        let processes = Processes::new().unwrap();
        let variables = std::env::vars_os().chain([
            (
                OsString::from("ANTHROPIC_API_KEY"),
                OsString::from("kk-AAA"),
            ),
            ("HISTFILE".into(), "/dev/null".into()),
        ]);
        let environment = Environment::fit_terminal(variables, &EnvironmentRules::default());
        let ops = Arc::new(LocalOps::new(processes.clone()));
        let mut settings = TerminalSettings::new(ops, environment);
        change(&mut settings);
        Self {
            terminal: tool(Terminal::new(settings))
                .for_session(&Scope::new())
                .unwrap(),
            processes,
            context: ToolContext::new(&workspace),
            workspace,
            folder,
        }
    }

    async fn call(&self, input: Value) -> Result<ToolOutput, ToolError> {
        let input = JsonObject::parse(&input.to_string()).unwrap();
        timeout(SOON, self.terminal.run(&input, &self.context))
            .await
            .unwrap()
    }

    async fn text(&self, input: Value) -> String {
        let output = self.call(input).await.unwrap();
        match output.content.as_slice() {
            [Content::Text(text)] => text.clone(),
            other => panic!("{other:?}"),
        }
    }

    async fn start(&self, command: &str) -> String {
        self.text(json!({ "action": "start", "command": command }))
            .await
    }

    async fn send(&self, input: &str) -> String {
        self.text(json!({ "action": "send", "id": "term_1", "input": input }))
            .await
    }

    async fn keys(&self, keys: &[&str]) -> String {
        self.text(json!({ "action": "send", "id": "term_1", "keys": keys }))
            .await
    }

    /// The screen once it shows that.
    async fn until(&self, part: &str) -> String {
        let reading = async {
            let mut seen = String::new();
            while !seen.contains(part) {
                seen = self
                    .text(json!({ "action": "read", "id": "term_1", "wait_ms": 100 }))
                    .await;
            }
            seen
        };
        match timeout(SOON, reading).await {
            Ok(seen) => seen,
            Err(_) => panic!(
                "no {part:?}: {}",
                self.text(json!({ "action": "read", "id": "term_1" })).await
            ),
        }
    }

    /// The tools of the session go; the owner of all processes stays.
    fn end_session(self) -> (Processes, tempfile::TempDir) {
        (self.processes, self.folder)
    }
}

fn alive(text: &str) -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line)
            .split('\0')
            .any(|argument| argument.starts_with(text))
    })
}

async fn await_true(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(SOON, waiting).await.is_ok(), "not in time: {what}");
}

/// A length for `sleep` that no other process has in its arguments.
fn long_time() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("6000.{}{number:03}", std::process::id())
}

#[tokio::test]
async fn a_question_is_shown_and_answered() {
    let room = Room::new();
    room.start("read -p 'Name? ' x; echo \"hello $x\"; exit 7")
        .await;
    assert_eq!(
        room.until("Name?").await,
        "--- screen of term_1, 24x80 ---\nName?\n---\n(term_1 is running; cursor at row 1, column 7)"
    );
    room.send("Ada\n").await;
    assert_eq!(
        room.until("has ended").await,
        "--- screen of term_1, 24x80 ---\nName? Ada\nhello Ada\n---\n\
         (term_1 has ended: exit status 7; cursor at row 3, column 1)"
    );
    let input = json!({ "action": "send", "id": "term_1", "input": "x" });
    assert_eq!(
        room.call(input).await.unwrap_err().to_string(),
        "term_1 has ended: exit status 7; start another one"
    );
}

#[tokio::test]
async fn a_shell_keeps_its_state() {
    let room = Room::new();
    for shell in ["sh -i", "bash --norc --noprofile -i"] {
        let room = if shell == "sh -i" {
            &room
        } else {
            &Room::new()
        };
        room.start(shell).await;
        room.send("X=42; cd /\n").await;
        room.send("echo \"[$X] $PWD {a} $((1 + 1))\"\n").await;
        let seen = room.until("[42] / {a} 2").await;
        assert!(seen.contains("(term_1 is running"), "{seen}");
        room.keys(&["ctrl-d"]).await;
        room.until("has ended: exit status 0").await;
    }
}

#[tokio::test]
async fn a_repl_takes_lines() {
    let python = std::process::Command::new("python3").arg("-V").output();
    if python.is_err() {
        println!("skipped: there is no python3 here");
        return;
    }
    let room = Room::new();
    room.start("python3 -q").await;
    room.until(">>>").await;
    room.send("x = {'a': 1}\nprint('sum', x['a'] + 41)\n").await;
    room.until("sum 42").await;
    room.send("input('more? ')\n").await;
    room.until("more?").await;
    room.send("yes\n").await;
    room.until("'yes'").await;
    room.send("exit(3)\n").await;
    room.until("has ended: exit status 3").await;
}

#[tokio::test]
async fn a_full_screen_program_is_seen_as_a_person_sees_it() {
    let room = Room::new();
    let program = "printf 'before\\n\\033[?1049h\\033[2J\\033[5;10Hmiddle\\033[1;1Htop\\033[24;1H'; \
                   read -p '> ' x; printf '\\033[?1049l'; echo \"after $x\"";
    room.start(program).await;
    let seen = room.until("\n>\n").await;
    assert_eq!(
        seen,
        format!(
            "--- screen of term_1, 24x80 ---\ntop\n\n\n\n         middle\n{}>\n---\n\
             (term_1 is running; cursor at row 24, column 3; alternate screen)",
            "\n".repeat(18)
        )
    );
    room.send("x\n").await;
    assert_eq!(
        room.until("has ended").await,
        "--- screen of term_1, 24x80 ---\nbefore\nafter x\n---\n\
         (term_1 has ended: exit status 0; cursor at row 3, column 1)"
    );
    // A pager, where there is one.
    if std::process::Command::new("less")
        .arg("-V")
        .output()
        .is_ok()
    {
        let room = Room::new();
        let lines: String = (1..=100).map(|number| format!("line {number}\n")).collect();
        fs::write(room.workspace.join("file"), lines).unwrap();
        room.start("LESS= less file").await;
        room.until("line 1\n").await;
        room.keys(&["space"]).await;
        let seen = room.until("line 40").await;
        assert!(
            !seen.contains("line 1\n") && seen.contains("alternate screen"),
            "{seen}"
        );
        room.send("q").await;
        room.until("has ended: exit status 0").await;
    }
}

#[tokio::test]
async fn an_editor_edits() {
    if std::process::Command::new("vi")
        .arg("--version")
        .output()
        .is_err()
    {
        return;
    }
    let room = Room::new();
    room.start("vi -u NONE note.txt").await;
    room.until("note.txt").await;
    room.send("ihello from vi").await;
    room.until("hello from vi").await;
    room.keys(&["esc"]).await;
    room.send(":wq\n").await;
    room.until("has ended: exit status 0").await;
    let written = fs::read_to_string(room.workspace.join("note.txt")).unwrap();
    assert_eq!(written, "hello from vi\n");
}

#[tokio::test]
async fn what_scrolls_off_comes_before_the_screen() {
    let room = Room::new();
    // All that scrolled off, over all looks, and the last screen.
    let gather = async |first: String, last: &str| {
        let (mut all, mut answer) = (String::new(), first);
        loop {
            let (scrolled, screen) = answer
                .split_once("--- screen of term_1, 24x80 ---\n")
                .unwrap();
            all.push_str(scrolled);
            if screen.contains(last) {
                return (all, screen.to_owned());
            }
            let read = json!({ "action": "read", "id": "term_1", "wait_ms": 100 });
            answer = room.text(read).await;
        }
    };
    let numbers = |range: std::ops::RangeInclusive<u32>| -> String {
        range.map(|number| format!("{number}\n")).collect()
    };
    room.start("stty -echo; echo ready; read x; seq 1 30; read x; seq 31 1000; read x")
        .await;
    room.until("ready").await;
    let first = room.send("\n").await;
    let (all, screen) = timeout(SOON, gather(first, "\n30\n---")).await.unwrap();
    assert_eq!(all, format!("ready\n{}", numbers(1..=7)));
    assert!(screen.starts_with("8\n9\n"), "{screen}");
    let again = room.text(json!({ "action": "read", "id": "term_1" })).await;
    assert!(again.starts_with("--- screen"), "{again}");

    let first = room.send("\n").await;
    assert!(first.lines().count() < 240, "{first}");
    let (all, screen) = timeout(SOON, gather(first, "\n1000\n---")).await.unwrap();
    assert!(screen.starts_with("978\n"), "{screen}");
    assert!(all.ends_with(&numbers(900..=977)), "{all}");
}

#[tokio::test]
async fn keys_interrupt_and_suspend() {
    let room = Room::new();
    let time = long_time();
    room.start(&format!(
        "trap 'echo caught' INT; sleep {time}; read x; echo \"got $x\""
    ))
    .await;
    await_true("it sleeps", || alive(&time)).await;
    room.keys(&["ctrl-c"]).await;
    room.until("caught").await;
    assert!(!alive(&time));
    room.text(json!({ "action": "send", "id": "term_1", "input": "it", "keys": ["enter"] }))
        .await;
    room.until("got it").await;
}

#[tokio::test]
async fn a_new_size_is_seen_by_the_program_and_on_the_screen() {
    let room = Room::new();
    let command = "trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done";
    let start = json!({ "action": "start", "command": command, "rows": 5, "cols": 20 });
    let seen = room.text(start).await;
    assert!(seen.contains("--- screen of term_1, 5x20 ---"), "{seen}");
    room.until("ready").await;
    room.text(json!({ "action": "read", "id": "term_1", "rows": 40, "cols": 132 }))
        .await;
    let seen = room.until("40 132").await;
    assert!(seen.contains("--- screen of term_1, 40x132 ---"), "{seen}");
}

#[tokio::test]
async fn wide_characters_take_two_columns() {
    let room = Room::new();
    room.start("printf '\\346\\227\\245\\346\\234\\254 e\\314\\201 \\360\\237\\230\\200>'; read x")
        .await;
    let seen = room.until(">").await;
    assert!(
        seen.contains("\u{65e5}\u{672c} e\u{301} \u{1f600}>\n---\n(term_1 is running; cursor at row 1, column 11)"),
        "{seen}"
    );
}

#[tokio::test]
async fn questions_to_the_terminal_are_answered() {
    let room = Room::new();
    // Each answer ends in a letter of its own; without one it would wait for ever.
    let program = "stty -echo raw; \
        printf 'ab\\033[6n'; IFS= read -rd R p; printf '\\033[c'; IFS= read -rd c d; \
        printf '\\033]11;?\\007'; IFS= read -rd '\\' o; stty sane; \
        printf '%s %s %s' \"${p#?}\" \"${d#?}\" \"${o#?}\" | tr -d '\\033'; echo; echo done";
    room.start(program).await;
    let seen = room.until("done").await;
    assert!(
        seen.contains("[1;3 [?62;22 ]11;rgb:0000/0000/0000"),
        "{seen}"
    );
}

#[tokio::test]
async fn input_that_nobody_reads_blocks_nothing() {
    let room = Room::with(|settings| settings.typing = Duration::from_millis(200));
    let time = long_time();
    room.start(&format!("stty raw -echo; echo ready; sleep {time}"))
        .await;
    room.until("ready").await;
    let big = "x".repeat(60_000);
    let input = json!({ "action": "send", "id": "term_1", "input": big, "wait_ms": 0 });
    let seen = room.text(input).await;
    assert!(
        seen.contains("(the program took only the first ") && seen.contains(" of 60000 bytes)"),
        "{seen}"
    );
    let input = json!({ "action": "send", "id": "term_1", "input": "x".repeat(70_000) });
    let error = room.call(input).await.unwrap_err().to_string();
    assert!(error.contains("70000 bytes, and at most 65536"), "{error}");

    // One that reads gets it all, though it prints meanwhile.
    let room = Room::new();
    room.start("stty raw -echo; echo ready; head -c 60000 | tee copy; wc -c <copy")
        .await;
    room.until("ready").await;
    let input = json!({ "action": "send", "id": "term_1", "input": big, "wait_ms": 0 });
    let seen = room.text(input).await;
    assert!(!seen.contains("took only"), "{seen}");
    room.until("60000").await;
}

#[tokio::test]
async fn stopping_and_the_end_of_the_session_leave_nothing() {
    let room = Room::new();
    let times = [long_time(), long_time()];
    let [first, second] = &times;
    for time in &times {
        let command = format!(
            "(trap '' TERM HUP INT; sleep {time}; true) & setsid sleep {time}1 & sleep {time}2; echo no"
        );
        room.start(&command).await;
        for suffix in ["", "1", "2"] {
            await_true("it is at work", || alive(&format!("{time}{suffix}"))).await;
        }
    }
    let seen = room.text(json!({ "action": "stop", "id": "term_1" })).await;
    assert!(
        seen.contains("(term_1 has ended: stopped with all its processes; cursor"),
        "{seen}"
    );
    assert!(!alive(first));
    let again = room.text(json!({ "action": "stop", "id": "term_1" })).await;
    assert_eq!(again, seen);
    assert!(alive(second));
    let _kept = room.end_session();
    await_true("the second is gone", || !alive(second)).await;
}

#[tokio::test]
async fn an_interactive_shell_with_jobs_ends() {
    let room = Room::new();
    let time = long_time();
    room.start("bash --norc --noprofile -i").await;
    room.send(&format!(
        "sleep {time} & sleep {time}1 & nohup sleep {time}2 &\n"
    ))
    .await;
    await_true("all are at work", || alive(&format!("{time}2"))).await;
    let seen = room.text(json!({ "action": "stop", "id": "term_1" })).await;
    assert!(seen.contains("stopped with all its processes"), "{seen}");
    assert!(!alive(&time));
}

#[tokio::test]
async fn the_environment_is_that_of_a_terminal_without_secrets() {
    let room = Room::new();
    room.start("echo \"$TERM [$ANTHROPIC_API_KEY] [$NO_COLOR] [$GIT_TERMINAL_PROMPT] $PWD\"")
        .await;
    let seen = room.until("has ended").await;
    let workspace = room.workspace.display();
    let first_line = format!("xterm-256color [] [] [] {workspace}");
    // It may be longer than the screen is wide.
    assert!(seen.replace('\n', "").contains(&first_line), "{seen}");
}

#[tokio::test]
async fn only_so_many_run_at_once() {
    let room = Room::with(|settings| settings.running = 1);
    let seen = room.call(json!({ "action": "read", "id": "term_1" })).await;
    assert_eq!(
        seen.unwrap_err().to_string(),
        "there is no terminal \"term_1\": there are none; terminals end with the session that \
         started them"
    );
    room.start("cat").await;
    let more = json!({ "action": "start", "command": "sh -i" });
    assert_eq!(
        room.call(more.clone()).await.unwrap_err().to_string(),
        "1 terminals are in use, and no more may be: term_1 (cat); stop one first"
    );
    room.keys(&["ctrl-d"]).await;
    room.until("has ended").await;
    let seen = room.text(more).await;
    assert!(seen.contains("screen of term_2"), "{seen}");
    let unknown = room.call(json!({ "action": "read", "id": "term_9" })).await;
    assert_eq!(
        unknown.unwrap_err().to_string(),
        "there is no terminal \"term_9\": there are term_1 (ended), term_2 (running); terminals \
         end with the session that started them"
    );
}

#[tokio::test]
async fn who_is_forgotten_leaves_nothing() {
    let room = Room::new();
    let time = long_time();
    room.start(&format!("trap '' HUP; sleep {time} & echo started"))
        .await;
    room.until("has ended: exit status 0").await;
    assert!(alive(&time));
    for _ in 0..9 {
        room.start("true").await;
    }
    let forgotten = room.call(json!({ "action": "read", "id": "term_1" })).await;
    assert!(
        forgotten
            .unwrap_err()
            .to_string()
            .contains("there is no terminal")
    );
    await_true("it is gone", || !alive(&time)).await;
}

#[tokio::test]
async fn what_is_wrong_is_said() {
    let room = Room::new();
    room.start("cat").await;
    for (input, problem) in [
        (json!({ "action": "start" }), "start needs a command"),
        (
            json!({ "action": "start", "command": " " }),
            "start needs a command",
        ),
        (
            json!({ "action": "read" }),
            "name the terminal in id, such as term_1",
        ),
        (
            json!({ "action": "send", "id": "term_1" }),
            "send needs input or keys",
        ),
        (
            json!({ "action": "send", "id": "term_1", "keys": ["hyper-x"] }),
            "there is no key \"hyper-x\"",
        ),
        (
            json!({ "action": "read", "id": "term_1", "rows": 1 }),
            "rows must be from 2 to 200 and cols from 2 to 400",
        ),
        (
            json!({ "action": "read", "id": "term_1", "wait_ms": 60_001 }),
            "wait_ms must be a whole number from 0 to 60000",
        ),
        (json!({ "action": "look" }), "unknown variant"),
        (
            json!({ "action": "start", "command": "a\0b" }),
            "did not start",
        ),
    ] {
        let error = room.call(input.clone()).await.unwrap_err().to_string();
        assert!(error.contains(problem), "{input}: {error}");
    }
}

#[tokio::test]
async fn cancelling_ends_the_wait_and_a_start() {
    let room = Room::new();
    let time = long_time();
    room.start("cat").await;
    let cancellation = room.context.cancellation.clone();
    let wait = json!({ "action": "read", "id": "term_1", "wait_ms": 60_000 });
    let start = json!({
        "action": "start", "command": format!("sleep {time}"), "wait_ms": 60_000
    });
    let (waited, started, ()) = tokio::join!(room.call(wait), room.call(start), async {
        await_true("it sleeps", || alive(&time)).await;
        cancellation.cancel();
    });
    assert!(matches!(waited, Err(ToolError::Cancelled)), "{waited:?}");
    assert!(matches!(started, Err(ToolError::Cancelled)), "{started:?}");
    await_true("it is gone", || !alive(&time)).await;
}

#[tokio::test]
async fn what_is_typed_is_judged() {
    let room = Room::new();
    let policy = |allow: &[&str], deny: &[&str]| Policy {
        allow: allow
            .iter()
            .map(|rule| rule.parse::<Rule>().unwrap())
            .collect(),
        deny: deny
            .iter()
            .map(|rule| rule.parse::<Rule>().unwrap())
            .collect(),
        ..Policy::default()
    };
    let access = |input: Value| {
        room.terminal
            .access(&JsonObject::parse(&input.to_string()).unwrap())
            .unwrap()
    };
    // A pager may run what a file says, so even a line that reads is asked about.
    let start = access(json!({ "action": "start", "command": "git log" }));
    let send = access(json!({ "action": "send", "id": "term_1", "input": "rm x\n" }));
    let key = access(json!({ "action": "send", "id": "term_1", "keys": ["enter"] }));
    for access in [&start, &send, &key] {
        assert_eq!(access.effect, AccessEffect::Effectful);
        assert!(policy(&[], &[]).decide("terminal", access).is_ask());
        assert!(
            policy(&["Bash(git log)", "Bash(rm *)"], &[])
                .decide("terminal", access)
                .is_ask()
        );
        assert!(
            policy(&["terminal"], &[])
                .decide("terminal", access)
                .is_allow()
        );
        assert!(policy(&["Bash"], &[]).decide("terminal", access).is_allow());
    }
    assert!(
        policy(&["terminal"], &["Bash(rm *)"])
            .decide("terminal", &send)
            .is_deny()
    );
    assert!(
        policy(&["terminal"], &["Bash(git *)"])
            .decide("terminal", &start)
            .is_deny()
    );
    for action in ["read", "stop"] {
        let access = access(json!({ "action": action, "id": "term_1" }));
        assert_eq!(access.effect, AccessEffect::Session);
        assert!(policy(&[], &[]).decide("terminal", &access).is_allow());
    }
}

#[test]
fn the_schema_is_plain() {
    let terminal = tool(Terminal::new(TerminalSettings::new(
        Arc::new(LocalOps::new(Processes::new().unwrap())),
        Environment::empty(),
    )));
    let definition = terminal.definition();
    assert_eq!(definition.name, "terminal");
    let schema = definition.input_schema.to_value();
    assert_eq!(schema["required"], json!(["action"]));
    assert_eq!(schema["additionalProperties"], json!(false));
    assert_eq!(
        schema["properties"]["action"]["enum"],
        json!(["start", "send", "read", "stop"])
    );
}

#[tokio::test]
async fn a_program_is_under_way_until_it_ends() {
    let room = Room::new();
    let background = room.context.background.clone();
    room.start("cat -v").await;
    assert_eq!(background.under_way(), ["term_1: cat -v"]);
    room.text(json!({ "action": "stop", "id": "term_1" })).await;
    assert!(background.under_way().is_empty());
    assert_eq!(background.try_notice(), None);
}
