//! The shell as a model meets it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "shared test code may panic"
)]

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tooloop_exec::{Environment, EnvironmentRules, Processes};
use tooloop_model::{Content, JsonObject};
use tooloop_policy::{AccessEffect, Policy, Touch};
use tooloop_tool::{DynTool, Progress, Scope, ToolContext, ToolError, ToolOutput, tool};
use tooloop_tools::{Bash, BashSettings, LocalOps};

/// A bound for what must happen, not a time to wait.
const SOON: Duration = Duration::from_secs(20);

/// A shell in a workspace of its own.
struct Room {
    bash: Arc<dyn DynTool>,
    processes: Processes,
    workspace: PathBuf,
    context: ToolContext,
    _folder: tempfile::TempDir,
}

impl Room {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut BashSettings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap().join("work");
        fs::create_dir(&workspace).unwrap();
        let processes = Processes::new().unwrap();
        let environment = Environment::of_this_process(&EnvironmentRules::default());
        let mut settings =
            BashSettings::new(Arc::new(LocalOps::new(processes.clone())), environment);
        settings.spool_folder = folder.path().join("spool");
        change(&mut settings);
        Self {
            bash: tool(Bash::new(settings))
                .for_session(&Scope::new())
                .unwrap(),
            processes,
            context: ToolContext::new(&workspace),
            workspace,
            _folder: folder,
        }
    }

    async fn call(&self, input: Value) -> Result<ToolOutput, ToolError> {
        let input = JsonObject::parse(&input.to_string()).unwrap();
        self.bash.run(&input, &self.context).await
    }

    /// The result as the model reads it, with its last line apart and without the time in that.
    async fn run(&self, command: &str) -> (String, String) {
        let output = self.call(json!({ "command": command })).await.unwrap();
        split(&output)
    }

    async fn text(&self, command: &str) -> String {
        self.run(command).await.0
    }
}

fn text(output: &ToolOutput) -> &str {
    match output.content.as_slice() {
        [Content::Text(text)] => text,
        other => panic!("{other:?}"),
    }
}

fn split(output: &ToolOutput) -> (String, String) {
    let text = text(output);
    let (body, last) = text.rsplit_once('\n').unwrap();
    let end = last.strip_prefix('(').unwrap().strip_suffix(" s)").unwrap();
    let (end, seconds) = end.rsplit_once(", ").unwrap();
    let (_, decimals) = seconds.split_once('.').unwrap();
    assert_eq!(decimals.len(), 1, "{last}");
    assert_eq!(output.is_error, end != "exit status 0", "{last}");
    (format!("{body}\n"), end.to_owned())
}

fn alive(text: &str) -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line)
            .split('\0')
            .any(|argument| argument.starts_with(text))
    })
}

/// A length for `sleep` that no other process has in its arguments.
fn long_time() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("4000.{}{number:03}", std::process::id())
}

#[tokio::test]
async fn output_and_status_are_stated() {
    let room = Room::new();
    for (command, output, end) in [
        ("printf '%s' ' != '", " != \n", "exit status 0"),
        (
            "echo a | cat; { echo b; }; echo $(( $$ > 1 ))",
            "a\nb\n1\n",
            "exit status 0",
        ),
        (
            "cat <<'END-1'\n$HOME \\n \"x\"\nEND-1",
            "$HOME \\n \"x\"\n",
            "exit status 0",
        ),
        ("echo x # tail", "x\n", "exit status 0"),
        ("exit 7", "(no output)\n", "exit status 7"),
        ("kill -9 $$", "(no output)\n", "killed by signal 9, SIGKILL"),
        ("bash -c 'exit 300'", "(no output)\n", "exit status 44"),
        ("false | true", "(no output)\n", "exit status 0"),
        (
            "printf 'a\\377\\376\\000b \\033[31mred\\033[0m\\r\\nc\\200'",
            "a\\xff\\xfe\\x00b red\nc\\x80\n",
            "exit status 0",
        ),
        (
            "head -c 4096 /dev/urandom",
            "(binary output, 4096 bytes)\n",
            "exit status 0",
        ),
    ] {
        let expected = (output.to_owned(), end.to_owned());
        assert_eq!(room.run(command).await, expected, "{command}");
    }
    let (output, end) = room.run("echo 'unclosed").await;
    assert!(output.contains("unexpected EOF"), "{output}");
    assert_eq!(end, "exit status 2");
}

#[tokio::test]
async fn odd_time_limits_are_refused_in_words() {
    let room = Room::new();
    for limit in [
        json!(-1),
        json!(0),
        json!(1e12),
        json!("soon"),
        json!(600_001),
        json!(1.5),
    ] {
        let input = json!({ "command": "touch ran", "timeout_ms": limit });
        let error = room.call(input).await.unwrap_err().to_string();
        assert!(error.contains("timeout_ms"), "{error}");
        assert!(error.contains("600000"), "{error}");
    }
    assert!(!room.workspace.join("ran").exists());
    for limit in [json!(600_000), json!("5000"), json!(5000.0), Value::Null] {
        let input =
            json!({ "command": "true", "timeout_ms": limit, "description": "does nothing" });
        assert!(!room.call(input).await.unwrap().is_error);
    }
    let error = room.call(json!({ "command": "true", "timeout": 5 })).await;
    assert!(matches!(error, Err(ToolError::InvalidInput { .. })));
    let error = room.call(json!({})).await.unwrap_err().to_string();
    assert!(error.contains("command"), "{error}");
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended() {
    let room = Room::new();
    let time = long_time();
    let command = format!("echo first; sleep {time}; echo never");
    let input = json!({ "command": command, "timeout_ms": 300 });
    let output = room.call(input).await.unwrap();
    let (text, end) = split(&output);
    assert_eq!(text, "first\n");
    assert_eq!(
        end,
        "timed out after 0.3 s and ended with all its processes"
    );
    assert!(!alive(&time));
    assert_eq!(room.text("echo second").await, "second\n");

    let room = Room::with(|settings| settings.time_limit = Duration::from_millis(200));
    let (_, end) = room.run(&format!("sleep {time}")).await;
    assert!(end.starts_with("timed out after 0.2 s"), "{end}");
    assert!(room.bash.definition().description.contains("0.2 s"));
}

#[tokio::test]
async fn what_still_runs_is_named() {
    let room = Room::new();
    let time = long_time();
    let (text, end) = room.run(&format!("sleep {time} & echo started")).await;
    assert!(
        text.starts_with("started\n(still running, until this session ends at the latest: "),
        "{text}"
    );
    assert!(text.contains(&format!("(sleep {time})")), "{text}");
    assert_eq!(end, "exit status 0");
    assert!(alive(&time));
    room.processes.end_all(Duration::from_secs(1)).await;
    assert!(!alive(&time));
}

#[tokio::test]
async fn cancelling_returns_what_was_printed() {
    let room = Room::new();
    let time = long_time();
    let command = format!("echo first; touch at-work; sleep {time}");
    let cancel = async {
        let begin = Instant::now();
        while !room.workspace.join("at-work").exists() {
            assert!(begin.elapsed() < SOON);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        room.context.cancellation.cancel();
    };
    let ((text, end), ()) = tokio::join!(room.run(&command), cancel);
    assert_eq!(text, "first\n");
    assert_eq!(end, "cancelled and ended with all its processes");
    assert!(!alive(&time));
}

#[tokio::test]
async fn long_output_is_cut_and_kept_whole_in_a_file() {
    let room = Room::new();
    let output = room
        .call(json!({ "command": "seq 1 100000" }))
        .await
        .unwrap();
    let text = text(&output);
    assert!(text.chars().count() < 30_500);
    assert!(text.starts_with("1\n2\n3\n"));
    assert!(text.contains("\n100000\n(exit status 0, "));
    let (_, rest) = text.split_once("[... ").unwrap();
    let (count, rest) = rest
        .split_once(" bytes left out; whole output in ")
        .unwrap();
    let (path, _) = rest.split_once(" ...]").unwrap();
    assert_eq!(count, "558895");
    let whole = fs::read_to_string(path).unwrap();
    assert!(whole.starts_with("1\n2\n") && whole.ends_with("99999\n100000\n"));
    assert_eq!(whole.len(), 588_895);

    let input = json!({ "command": "yes", "timeout_ms": 300 });
    let output = room.call(input).await.unwrap();
    assert!(split(&output).1.starts_with("timed out"));
}

#[tokio::test]
async fn the_directory_persists_inside_the_workspace() {
    let room = Room::new();
    let workspace = room.workspace.display();
    assert_eq!(
        room.text("mkdir d && cd d && pwd").await,
        format!("{workspace}/d\n")
    );
    assert_eq!(room.text("pwd").await, format!("{workspace}/d\n"));
    assert_eq!(room.text("cd ../d; false").await, "(no output)\n");
    assert_eq!(room.text("pwd").await, format!("{workspace}/d\n"));
    // Variables do not.
    assert_eq!(room.text("X=1; export X").await, "(no output)\n");
    assert_eq!(room.text("echo \"[$X]\"").await, "[]\n");

    // It was removed: said once.
    assert_eq!(room.text("rm -rf ../d").await, "(no output)\n");
    assert_eq!(
        room.text("echo alive; pwd").await,
        format!(
            "alive\n{workspace}\n(the working directory {workspace}/d is gone; this ran in {workspace})\n"
        )
    );
    assert_eq!(room.text("pwd").await, format!("{workspace}\n"));

    // By its own command.
    room.text("mkdir -p e/f && cd e/f && rm -r ../f").await;
    let text = room.text("pwd").await;
    assert!(
        text.starts_with(&format!("{workspace}/e\n(the working directory")),
        "{text}"
    );

    // Outside it works, but does not last.
    assert_eq!(
        room.text("cd / && pwd").await,
        format!(
            "/\n(the working directory is {workspace}/e again: / is outside of the workspace)\n"
        )
    );
    assert_eq!(room.text("pwd").await, format!("{workspace}/e\n"));

    // A link does not lead out either.
    let outside = room.workspace.parent().unwrap().join("outside");
    fs::create_dir(&outside).unwrap();
    let text = room.text("ln -s ../../outside link && cd link").await;
    assert!(text.contains("is outside of the workspace"), "{text}");
    assert_eq!(room.text("pwd").await, format!("{workspace}/e\n"));
}

#[tokio::test]
async fn the_directory_may_be_in_an_added_folder() {
    let added = tempfile::tempdir().unwrap();
    let room = Room::with(|settings| settings.folders = vec![added.path().into()]);
    let added = added.path().display().to_string();
    assert_eq!(room.text(&format!("cd {added}")).await, "(no output)\n");
    assert_eq!(room.text("pwd").await, format!("{added}\n"));
}

#[tokio::test]
async fn each_session_has_its_own_directory() {
    let room = Room::new();
    room.text("mkdir d; cd d").await;
    let other = room.bash.for_session(&Scope::new()).unwrap();
    let input = JsonObject::parse(r#"{"command":"pwd"}"#).unwrap();
    let output = other.run(&input, &room.context).await.unwrap();
    assert_eq!(split(&output).0, format!("{}\n", room.workspace.display()));
}

#[tokio::test]
async fn a_directory_that_cannot_be_entered_is_left() {
    if is_root() {
        // No directory is closed to root.
        return;
    }
    let room = Room::new();
    let workspace = room.workspace.display();
    room.text("mkdir d && cd d && chmod 0 .").await;
    assert_eq!(
        room.text("pwd").await,
        format!(
            "{workspace}\n(the working directory {workspace}/d cannot be entered any more; this ran in {workspace})\n"
        )
    );
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[tokio::test]
async fn what_cannot_start_is_told() {
    let room = Room::new();
    let error = room.call(json!({ "command": "a\0b" })).await.unwrap_err();
    assert!(error.to_string().contains("NUL"), "{error}");
    fs::remove_dir(&room.workspace).unwrap();
    let error = room
        .call(json!({ "command": "true" }))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("cannot enter") && error.contains("No such file"),
        "{error}"
    );
}

#[tokio::test]
async fn secrets_do_not_reach_commands() {
    let variables = [
        ("PATH", std::env::var_os("PATH").unwrap()),
        ("ANTHROPIC_API_KEY", "kk-AAA".into()),
        ("OPENAI_API_KEY", "kk-BBB".into()),
        ("OWN_NAME", "kk-CCC".into()),
        ("FOO", "bar".into()),
    ];
    let variables = variables.map(|(name, value)| (OsString::from(name), value));
    let rules = EnvironmentRules {
        withhold: vec!["OWN_NAME".into()],
        ..EnvironmentRules::default()
    };
    let environment = Environment::fit(variables, &rules);
    let room = Room::with(|settings| settings.environment = Arc::new(environment));
    assert_eq!(room.text("env | grep -c kk-; echo $FOO").await, "0\nbar\n");
}

#[tokio::test]
async fn nobody_is_there_to_answer() {
    let room = Room::new();
    room.text("git init -q .; git config user.name a; git config user.email a@b; git config core.pager less").await;
    for command in [
        "cat",
        "cat /dev/stdin",
        "EDITOR=vi git commit --allow-empty",
        "python3 -c 'input()'",
        "git commit --allow-empty -q -m first; git log",
    ] {
        let begin = Instant::now();
        let (_, end) = room.run(command).await;
        assert!(end.starts_with("exit status"), "{command}: {end}");
        assert!(begin.elapsed() < SOON);
    }
    assert_eq!(room.text("read -p '? ' x; echo \"[$x]\"").await, "[]\n");
}

#[test]
fn access_is_what_the_line_would_do() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let _inside = runtime.enter();
    let room = Room::new();
    let access = |command: &str| {
        let input = json!({ "command": command }).to_string();
        room.bash
            .access(&JsonObject::parse(&input).unwrap())
            .unwrap()
    };
    for (command, effect) in [
        ("ls -l | wc -l", AccessEffect::ReadOnly),
        ("touch x", AccessEffect::Effectful),
        ("ls > list", AccessEffect::Effectful),
        // The next call would start elsewhere.
        ("cd sub && ls", AccessEffect::Session),
        ("echo cd", AccessEffect::ReadOnly),
    ] {
        let access = access(command);
        assert_eq!(access.effect, effect, "{command}");
        assert_eq!(access.touches, [Touch::Command(command.into())]);
    }
    // A job must not be started twice or early, though nobody need be asked about this one.
    let input = json!({ "command": "ls", "run_in_background": true }).to_string();
    let access = room
        .bash
        .access(&JsonObject::parse(&input).unwrap())
        .unwrap();
    assert_eq!(access.effect, AccessEffect::Session);
    assert!(Policy::default().decide("bash", &access).is_allow());
    let nothing = JsonObject::parse("{}").unwrap();
    assert!(matches!(
        room.bash.access(&nothing),
        Err(ToolError::InvalidInput { .. })
    ));
}

#[tokio::test]
async fn the_same_outcome_has_the_same_fingerprint() {
    let room = Room::new();
    let fingerprint = async |command: &str| {
        let output = room.call(json!({ "command": command })).await.unwrap();
        output.fingerprint.unwrap()
    };
    for command in ["echo same", "sleep 0.1; false", "seq 1 50000"] {
        assert_eq!(
            fingerprint(command).await,
            fingerprint(command).await,
            "{command}"
        );
    }
    assert_ne!(fingerprint("echo a").await, fingerprint("echo b").await);
    assert_ne!(fingerprint("true").await, fingerprint("false").await);
}

#[tokio::test]
async fn progress_is_reported() {
    let mut room = Room::new();
    let seen = Arc::new(Mutex::new(String::new()));
    let newest = Arc::clone(&seen);
    room.context.progress = Progress::to(move |text| text.clone_into(&mut newest.lock().unwrap()));
    let watch = async {
        let begin = Instant::now();
        while *seen.lock().unwrap() != "one\ntwo\n" {
            assert!(begin.elapsed() < SOON);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        fs::write(room.workspace.join("go"), "\n").unwrap();
    };
    let ((text, _), ()) = tokio::join!(
        room.run("mkfifo go; echo one; echo two; read line <go; echo three"),
        watch
    );
    assert_eq!(text, "one\ntwo\nthree\n");
}

#[test]
fn the_schema_is_plain() {
    let processes = Processes::new().unwrap();
    let bash = tool(Bash::new(BashSettings::new(
        Arc::new(LocalOps::new(processes)),
        Environment::empty(),
    )));
    let definition = bash.definition();
    assert_eq!(definition.name, "bash");
    let schema = definition.input_schema.to_value();
    assert_eq!(schema["required"], json!(["command"]));
    assert_eq!(schema["additionalProperties"], json!(false));
    let properties = schema["properties"].as_object().unwrap();
    let names: Vec<&String> = properties.keys().collect();
    assert_eq!(
        names,
        ["command", "timeout_ms", "run_in_background", "description"]
    );
    assert_eq!(properties["timeout_ms"]["maximum"], 600_000);
}

#[tokio::test]
async fn what_could_not_be_looked_at_is_not_begun() {
    let with = Room::new().bash.definition();
    let room = Room::with(|settings| settings.jobs = None);
    let without = room.bash.definition();
    for (definition, is_offered) in [(with, true), (without, false)] {
        let schema = definition.input_schema.get();
        assert_eq!(schema.contains("run_in_background"), is_offered);
        assert!(schema.contains("timeout_ms"), "{schema}");
        let description = &definition.description;
        assert_eq!(description.contains("background"), is_offered);
    }
    let call = |background: bool| {
        room.call(json!({ "command": "touch M", "run_in_background": background }))
    };
    assert_eq!(
        call(true).await.unwrap_err().to_string(),
        "invalid input for bash: run_in_background is not offered here: run the command without it"
    );
    assert!(!room.workspace.join("M").exists());
    call(false).await.unwrap();
    assert!(room.workspace.join("M").exists());
}
