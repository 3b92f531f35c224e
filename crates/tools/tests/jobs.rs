//! Background jobs as a model meets them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "shared test code may panic"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tooloop_exec::{Environment, EnvironmentRules, Processes};
use tooloop_model::{Content, JsonObject};
use tooloop_policy::{AccessEffect, Mode, Policy};
use tooloop_tool::{DynTool, Scope, ToolContext, ToolError, ToolOutput, tool};
use tooloop_tools::{Bash, BashSettings, JobOutput, JobStop, LocalOps};

/// A bound for what must happen, not a time to wait.
const SOON: Duration = Duration::from_secs(30);

/// A session with its workspace.
struct Room {
    bash: Arc<dyn DynTool>,
    output: Arc<dyn DynTool>,
    stop: Arc<dyn DynTool>,
    processes: Processes,
    workspace: PathBuf,
    context: ToolContext,
    folder: tempfile::TempDir,
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
        change(&mut settings);
        let scope = Scope::with_outputs(folder.path().join("outputs"));
        Self {
            bash: tool(Bash::new(settings)).for_session(&scope).unwrap(),
            output: tool(JobOutput::new()).for_session(&scope).unwrap(),
            stop: tool(JobStop::new()).for_session(&scope).unwrap(),
            processes,
            context: ToolContext::new(&workspace),
            workspace,
            folder,
        }
    }

    async fn start(&self, command: &str) -> Result<ToolOutput, ToolError> {
        let input = json!({ "command": command, "run_in_background": true });
        call(&self.bash, input, &self.context).await
    }

    /// Starts a job and gives its file.
    async fn job(&self, command: &str) -> PathBuf {
        let output = self.start(command).await.unwrap();
        let (_, rest) = text(&output).split_once("its output goes to ").unwrap();
        rest.lines().next().unwrap().into()
    }

    async fn look(&self, id: &str, wait_ms: u32) -> String {
        let input = json!({ "id": id, "wait_ms": wait_ms });
        without_times(text(
            &call(&self.output, input, &self.context).await.unwrap(),
        ))
    }

    async fn stop(&self, id: &str) -> String {
        let input = json!({ "id": id });
        without_times(text(&call(&self.stop, input, &self.context).await.unwrap()))
    }

    async fn notice(&self) -> String {
        let notice = timeout(SOON, self.context.background.notice()).await;
        without_times(&notice.unwrap())
    }

    /// What a look shows once a job has printed that.
    async fn look_until(&self, id: &str, part: &str) -> String {
        let looking = async {
            let mut seen = String::new();
            while !seen.contains(part) {
                seen.push_str(&self.look(id, 10).await);
            }
            seen
        };
        timeout(SOON, looking).await.unwrap()
    }

    /// The tools of the session go; the owner of all processes stays.
    fn end_session(self) -> (Processes, tempfile::TempDir) {
        (self.processes, self.folder)
    }
}

async fn call(
    tool: &Arc<dyn DynTool>,
    input: Value,
    context: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let input = JsonObject::parse(&input.to_string()).unwrap();
    tool.run(&input, context).await
}

fn text(output: &ToolOutput) -> &str {
    match output.content.as_slice() {
        [Content::Text(text)] => text,
        other => panic!("{other:?}"),
    }
}

/// Puts T for seconds, and F for the files of outputs.
fn without_times(text: &str) -> String {
    let words = text.split_inclusive([' ', '\n']).map(|word| {
        let bare = word.trim_end_matches([' ', '\n', ')', ';', ',']);
        let after = word.strip_prefix(bare).unwrap_or_default();
        let is_time = bare.len() > 2
            && bare.split_once('.').is_some_and(|(whole, part)| {
                part.len() == 1 && [whole, part].concat().parse::<u32>().is_ok()
            });
        match bare {
            _ if is_time => format!("T{after}"),
            _ if bare.starts_with('/') && bare.contains("/job_") => format!("F{after}"),
            _ => word.to_owned(),
        }
    });
    words.collect()
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
    format!("5000.{}{number:03}", std::process::id())
}

fn fifo(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success());
}

#[tokio::test]
async fn a_job_is_started_told_of_and_looked_at() {
    use std::os::unix::fs::PermissionsExt;

    let room = Room::new();
    fifo(&room.workspace.join("go"));
    let started = room
        .start("echo one; read x <go; echo two; exit 7")
        .await
        .unwrap();
    assert_eq!(
        without_times(text(&started)),
        "job_1 runs in the background; its output goes to F\nA notice comes when it ends. \
         job_output shows what it prints, job_stop ends it."
    );
    assert!(!started.is_error);
    let (_, rest) = text(&started).split_once("goes to ").unwrap();
    let file = PathBuf::from(rest.lines().next().unwrap());
    assert_eq!(file.parent().unwrap(), room.folder.path().join("outputs"));
    assert_eq!(
        room.context.background.under_way(),
        ["job_1: echo one; read x <go; echo two; exit 7"]
    );
    let seen = room.look_until("job_1", "one\n").await;
    assert!(
        seen.ends_with("one\n(job_1 is running, T s; output in F)"),
        "{seen}"
    );
    assert_eq!(
        room.look("job_1", 0).await,
        "(no new output)\n(job_1 is running, T s; output in F)"
    );
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    fs::write(room.workspace.join("go"), "\n").unwrap();
    assert_eq!(
        room.notice().await,
        "(background job job_1 ended: exit status 7, T s; output in F; its last lines follow)\n\
         one\ntwo"
    );
    assert!(room.context.background.under_way().is_empty());
    assert_eq!(fs::read(&file).unwrap(), b"one\ntwo\n");
    // The notice does not count as a look.
    assert_eq!(
        room.look("job_1", 0).await,
        "two\n(job_1 had ended: exit status 7, T s; output in F)"
    );
    assert_eq!(
        room.stop("job_1").await,
        "(no new output)\n(job_1 had ended: exit status 7, T s; output in F)"
    );
    assert_eq!(room.context.background.try_notice(), None);
}

#[tokio::test]
async fn statuses_are_those_of_the_foreground() {
    let room = Room::new();
    for (number, (command, output, end)) in (1..).zip([
        ("printf '%s' ' != '", " != ", "exit status 0"),
        (
            "echo a | cat; { echo b; }; echo $(( $$ > 1 ))",
            "a\nb\n1",
            "exit status 0",
        ),
        (
            "cat <<'END-1'\n$HOME \\n \"x\"\nEND-1",
            "$HOME \\n \"x\"",
            "exit status 0",
        ),
        ("echo x # tail", "x", "exit status 0"),
        ("exit 7", "", "exit status 7"),
        ("kill -9 $$", "", "killed by signal 9, SIGKILL"),
        ("bash -c 'exit 300'", "", "exit status 44"),
        ("false | true", "", "exit status 0"),
        (
            "head -c 4096 /dev/urandom",
            "(binary output, 4096 bytes)",
            "exit status 0",
        ),
        // Nobody is there to answer.
        ("cat", "", "exit status 0"),
        ("cat /dev/stdin", "", "exit status 0"),
        ("read -p '? ' x; echo \"[$x]\"", "[]", "exit status 0"),
    ]) {
        room.start(command).await.unwrap();
        let (head, tail) = match output {
            "" => ("; it printed nothing)", String::new()),
            output => ("; its last lines follow)\n", output.trim_end().to_owned()),
        };
        assert_eq!(
            room.notice().await,
            format!("(background job job_{number} ended: {end}, T s; output in F{head}{tail}"),
            "{command}"
        );
        let looked = room.look(&format!("job_{number}"), 0).await;
        assert!(
            looked.contains(&format!("had ended: {end}, T s")),
            "{looked}"
        );
    }
    room.start("echo 'unclosed").await.unwrap();
    let notice = room.notice().await;
    assert!(
        notice.contains("exit status 2") && notice.contains("unexpected EOF"),
        "{notice}"
    );
}

#[tokio::test]
async fn what_a_job_leaves_behind_is_named_and_ended() {
    let room = Room::new();
    let [first, second] = [long_time(), long_time()];
    room.start(&format!("(sleep {first}; echo late) & echo started"))
        .await
        .unwrap();
    let notice = room.notice().await;
    let (head, left) = notice.split_once("follow)\nstarted\n").unwrap();
    assert!(
        head.starts_with("(background job job_1 ended: exit status 0"),
        "{head}"
    );
    assert!(
        left.starts_with("(still running, until this session ends at the latest: ")
            && left.contains(&format!("(sleep {first})")),
        "{left}"
    );
    assert!(alive(&first));
    let looked = room.look("job_1", 0).await;
    assert!(looked.contains("still running"), "{looked}");
    assert_eq!(
        room.stop("job_1").await,
        "(no new output)\n(what it left behind is ended too)\n\
         (job_1 had ended: exit status 0, T s; output in F)"
    );
    await_true("the first is gone", || !alive(&first)).await;

    for text in [
        format!("nohup sleep {first} & disown; echo started"),
        format!("sh -c 'sleep {first} & exec true'; echo started"),
    ] {
        room.start(&text).await.unwrap();
        let notice = room.notice().await;
        assert!(
            notice.contains("exit status 0") && notice.contains(&format!("(sleep {first})")),
            "{notice}"
        );
    }

    // One that cut all ties ends with the session.
    let cut = format!(
        "setsid sleep {second} >/dev/null 2>&1 & \
         until [ \"$(cat /proc/$!/comm)\" = sleep ]; do :; done; echo started"
    );
    room.start(&cut).await.unwrap();
    let notice = room.notice().await;
    assert!(notice.contains(&second), "{notice}");
    let _kept = room.end_session();
    for time in [&first, &second] {
        await_true("both are gone", || !alive(time)).await;
    }
}

#[tokio::test]
async fn stopping_ends_the_whole_tree() {
    let room = Room::new();
    let time = long_time();
    room.start(&format!(
        "echo first; bash -c 'trap : TERM; sleep {time} & sleep {time}1; sleep {time}2'; echo no"
    ))
    .await
    .unwrap();
    await_true("it is at work", || alive(&format!("{time}1"))).await;
    let stopped = room.stop("job_1").await;
    // What a shell says to the end of its children comes in between.
    assert!(
        stopped.starts_with("first\n")
            && stopped.ends_with(
                "(job_1 ended: stopped and ended with all its processes, T s; output in F)"
            ),
        "{stopped}"
    );
    assert!(!alive(&time));
    assert!(room.context.background.under_way().is_empty());
    assert_eq!(room.context.background.try_notice(), None);
    let again = room.stop("job_1").await;
    assert!(again.contains("job_1 had ended: stopped"), "{again}");
    // Another one has another number and another file.
    let started = room.start("true").await.unwrap();
    assert!(text(&started).starts_with("job_2 "), "{started:?}");
}

#[tokio::test]
async fn waiting_ends_with_the_job_and_tells_its_end() {
    let room = Room::new();
    fifo(&room.workspace.join("go"));
    room.start("read x <go; echo done").await.unwrap();
    let go = room.workspace.join("go");
    let open = tokio::task::spawn_blocking(move || fs::write(go, "\n"));
    assert_eq!(
        room.look("job_1", 600_000).await,
        "done\n(job_1 ended: exit status 0, T s; output in F)"
    );
    open.await.unwrap().unwrap();
    assert_eq!(room.context.background.try_notice(), None);
    assert!(room.context.background.under_way().is_empty());
}

#[tokio::test]
async fn cancelling_a_wait_leaves_the_job_alone() {
    let mut room = Room::new();
    let time = long_time();
    let file = room.job(&format!("echo one; sleep {time}")).await;
    await_true("it is at work", || {
        fs::read(&file).is_ok_and(|text| {
            text == b"one
"
        })
    })
    .await;
    await_true("it sleeps", || alive(&time)).await;
    let cancelled = room.context.cancellation.clone();
    let input = json!({ "id": "job_1", "wait_ms": 600_000 });
    let (looked, ()) = tokio::join!(call(&room.output, input, &room.context), async {
        tokio::task::yield_now().await;
        cancelled.cancel();
    });
    assert!(matches!(looked, Err(ToolError::Cancelled)), "{looked:?}");
    assert!(alive(&time));
    room.context.cancellation = CancellationToken::new();
    // What it had printed has not been claimed by the call that came to nothing.
    let seen = room.look("job_1", 0).await;
    assert!(seen.starts_with("one\n(job_1 is running"), "{seen}");
    let _kept = room.end_session();
    await_true("it is gone", || !alive(&time)).await;
}

#[tokio::test]
async fn a_call_that_is_cancelled_leaves_the_telling_to_the_notice() {
    let room = Room::new();
    fifo(&room.workspace.join("go"));
    room.start("read x <go").await.unwrap();
    let mut other = room.context.clone();
    other.cancellation = CancellationToken::new();
    let cancelled = other.cancellation.clone();
    let input = json!({ "id": "job_1", "wait_ms": 600_000 });
    let (looked, ()) = tokio::join!(call(&room.output, input, &other), async {
        tokio::task::yield_now().await;
        cancelled.cancel();
    });
    assert!(matches!(looked, Err(ToolError::Cancelled)));
    let go = room.workspace.join("go");
    let open = tokio::task::spawn_blocking(move || fs::write(go, "\n"));
    assert!(room.notice().await.contains("job_1 ended: exit status 0"));
    open.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_end_of_the_session_ends_all_jobs() {
    let room = Room::new();
    let times: Vec<String> = (0..4).map(|_| long_time()).collect();
    for time in &times {
        let stubborn = format!("trap '' TERM; (sleep {time}; true) & sleep {time}1; echo no");
        room.start(&stubborn).await.unwrap();
    }
    for time in &times {
        await_true("it is at work", || alive(&format!("{time}1"))).await;
    }
    let background = room.context.background.clone();
    let _kept = room.end_session();
    for time in &times {
        await_true("it is gone", || !alive(time)).await;
    }
    assert_eq!(background.try_notice(), None);
    assert!(background.under_way().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_is_told_exactly_once() {
    let room = Arc::new(Room::new());
    for round in 1..=60_u64 {
        let id = format!("job_{round}");
        // From one that has ended before the call to one that runs longer.
        let pause = (round % 12) as f64 / 1000.0;
        room.start(&format!("sleep {pause}; exit 3")).await.unwrap();
        let calls: Vec<_> = (0..3)
            .map(|number| {
                let (room, id) = (Arc::clone(&room), id.clone());
                tokio::spawn(async move {
                    match (number, round % 3) {
                        (0, 0) => room.stop(&id).await,
                        (1, 2) => room.look(&id, 600_000).await,
                        _ => room.look(&id, 0).await,
                    }
                })
            })
            .collect();
        let mut told = 0;
        for answer in calls {
            told += usize::from(answer.await.unwrap().contains(&format!("({id} ended: ")));
        }
        if told == 0 {
            let notice = room.notice().await;
            assert!(
                notice.starts_with(&format!("(background job {id} ended: ")),
                "{notice}"
            );
            told += 1;
        }
        assert_eq!(told, 1, "round {round}");
        assert_eq!(room.context.background.try_notice(), None, "round {round}");
        let looked = room.look(&id, 0).await;
        assert!(looked.contains(&format!("({id} had ended: ")), "{looked}");
        assert!(room.context.background.under_way().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_looks_at_once_never_show_the_same() {
    let room = Arc::new(Room::new());
    room.start("for i in $(seq 1 5000); do printf 'line-%05d-end\\n' $i; done")
        .await
        .unwrap();
    let lookers: Vec<_> = (0..3)
        .map(|_| {
            let room = Arc::clone(&room);
            tokio::spawn(async move {
                let mut lines = Vec::new();
                loop {
                    let seen = room.look("job_1", 0).await;
                    // A line may be cut in two by a look: then it is seen nowhere whole.
                    let is_whole = |line: &&str| {
                        line.len() == 14 && line.starts_with("line-") && line.ends_with("-end")
                    };
                    lines.extend(seen.lines().filter(is_whole).map(str::to_owned));
                    if seen.contains("ended: ") {
                        return lines;
                    }
                }
            })
        })
        .collect();
    let mut lines = Vec::new();
    for looker in lookers {
        lines.extend(looker.await.unwrap());
    }
    let seen = lines.len();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), seen);
    assert!(seen > 1000, "{seen}");
}

#[tokio::test]
async fn characters_are_not_torn() {
    let room = Room::new();
    for name in ["go", "on"] {
        fifo(&room.workspace.join(name));
    }
    room.start(
        "printf 'a\\303'; read x <go; printf '\\251b\\033[3'; read x <on; printf '1mred\\n'",
    )
    .await
    .unwrap();
    let seen = room.look_until("job_1", "a").await;
    assert!(
        seen.ends_with("a\n(job_1 is running, T s; output in F)"),
        "{seen}"
    );
    fs::write(room.workspace.join("go"), "\n").unwrap();
    let seen = room.look_until("job_1", "\u{e9}b").await;
    assert!(seen.contains("\u{e9}b\n(job_1 is running"), "{seen}");
    fs::write(room.workspace.join("on"), "\n").unwrap();
    let seen = room.look("job_1", 600_000).await;
    assert!(seen.starts_with("red\n(job_1 ended"), "{seen}");
}

#[tokio::test]
async fn a_job_starts_where_bash_is_and_does_not_move_it() {
    let room = Room::new();
    let workspace = room.workspace.display();
    let run = async |command: &str| {
        let output = call(&room.bash, json!({ "command": command }), &room.context).await;
        text(&output.unwrap()).to_owned()
    };
    run("mkdir -p d/e && cd d").await;
    room.start("pwd; cd e; pwd").await.unwrap();
    let notice = room.notice().await;
    assert!(
        notice.ends_with(&format!("{workspace}/d\n{workspace}/d/e")),
        "{notice}"
    );
    let now = run("pwd").await;
    assert!(now.starts_with(&format!("{workspace}/d\n")), "{now}");
    run("rm -r ../d").await;
    let started = room.start("pwd").await.unwrap();
    assert!(
        text(&started).starts_with(&format!(
            "(the working directory {workspace}/d is gone; this ran in {workspace})\njob_2 "
        )),
        "{started:?}"
    );
    assert!(room.notice().await.ends_with(&workspace.to_string()));
}

#[tokio::test]
async fn what_cannot_start_is_told_by_the_call() {
    let room = Room::new();
    let error = room.start("a\0b").await.unwrap_err().to_string();
    assert!(
        error.contains("did not start") && error.contains("NUL"),
        "{error}"
    );
    assert!(room.context.background.under_way().is_empty());
    assert_eq!(room.context.background.try_notice(), None);
    let error = call(&room.output, json!({ "id": "job_1" }), &room.context).await;
    assert_eq!(
        error.unwrap_err().to_string(),
        "there is no job \"job_1\": there are none; jobs end with the session that started them"
    );
}

#[tokio::test]
async fn only_so_many_run_and_are_remembered() {
    let room = Room::with(|settings| {
        let jobs = settings.jobs.as_mut().unwrap();
        (jobs.running, jobs.kept) = (2, 1);
    });
    let time = long_time();
    room.start(&format!("sleep {time}")).await.unwrap();
    room.start("true").await.unwrap();
    room.notice().await;
    room.start(&format!("sleep {time}; echo never"))
        .await
        .unwrap();
    assert_eq!(
        room.start("true").await.unwrap_err().to_string(),
        format!(
            "2 background jobs are running, and no more may: job_1 (sleep {time}), job_3 (sleep \
             {time}; echo never); end one with job_stop, or wait for one with job_output"
        )
    );
    room.stop("job_3").await;
    // Of those that have ended only the newest is known.
    room.start("true").await.unwrap();
    room.notice().await;
    for (id, known) in [
        ("job_2", false),
        ("job_3", true),
        ("job_4", true),
        ("x", false),
    ] {
        let looked = call(&room.output, json!({ "id": id }), &room.context).await;
        assert_eq!(looked.is_ok(), known, "{id}");
        if let Err(error) = looked {
            assert_eq!(
                error.to_string(),
                format!(
                    "there is no job {id:?}: there are job_1 (running), job_3 (ended), job_4 \
                     (ended); jobs end with the session that started them"
                )
            );
        }
    }
    let _kept = room.end_session();
}

#[tokio::test]
async fn a_limit_may_be_set() {
    let room = Room::with(|settings| {
        settings.jobs.as_mut().unwrap().time_limit = Duration::from_millis(300);
    });
    let description = room.bash.definition().description;
    assert!(
        description.contains("A background job has a time limit of 0.3 s;"),
        "{description}"
    );
    let time = long_time();
    room.start(&format!("echo one; sleep {time}"))
        .await
        .unwrap();
    let notice = room.notice().await;
    assert!(
        notice.contains("ended: timed out after T s and ended with all its processes"),
        "{notice}"
    );
    assert!(!alive(&time));
    let room = Room::new();
    let input = json!({
        "command": format!("sleep {time}"), "run_in_background": true, "timeout_ms": 200
    });
    call(&room.bash, input, &room.context).await.unwrap();
    assert!(room.notice().await.contains("timed out after T s"));
}

#[tokio::test]
async fn a_job_that_waits_for_an_answer_is_told_of() {
    let room = Room::with(|settings| {
        settings.jobs.as_mut().unwrap().stall_after = Duration::from_millis(50);
    });
    for name in ["a", "b", "c", "d", "e"] {
        fifo(&room.workspace.join(name));
    }
    // A silence after work is none; then four questions, of which three are told.
    room.start(
        "echo working; read x <a; printf 'One? '; read x <b; printf 'Two? '; read x <c; \
         printf 'Three? '; read x <d; printf 'Four? '; read x <e; exit 5",
    )
    .await
    .unwrap();
    let go = |name: &'static str| {
        let path = room.workspace.join(name);
        async move {
            let written = tokio::task::spawn_blocking(move || fs::write(path, "\n"));
            written.await.unwrap().unwrap();
        }
    };
    for (name, shown) in [("a", "One?"), ("b", "One? Two?"), ("c", "One? Two? Three?")] {
        go(name).await;
        assert_eq!(
            room.notice().await,
            format!(
                "(background job job_1 has printed nothing for 0.05 s and seems to wait for an \
                 answer: {shown:?}; it has no input: end it with job_stop, or run it again with \
                 the input piped in)"
            )
        );
    }
    go("d").await;
    room.look_until("job_1", "Four?").await;
    // As long as another one takes to be told of, which asked later.
    fifo(&room.workspace.join("f"));
    room.start("printf 'Other? '; read x <f").await.unwrap();
    let notice = room.notice().await;
    assert!(notice.starts_with("(background job job_2"), "{notice}");
    go("e").await;
    assert!(room.notice().await.contains("job_1 ended: exit status 5"));
}

#[tokio::test]
async fn long_output_is_cut_and_memory_stays_bounded() {
    let room = Room::with(|settings| settings.spool_bytes = 1_000_000);
    let file = room
        .job("seq 1 100000; yes 0123456789 | head -c 400000000; echo; echo last")
        .await;
    let seen = room.look("job_1", 600_000).await;
    assert!(seen.chars().count() < 31_500, "{}", seen.chars().count());
    assert!(seen.starts_with("1\n2\n"));
    assert!(
        seen.contains(" bytes left out; whole output in F"),
        "{seen}"
    );
    assert!(
        seen.contains("[... only the newest is kept of what came after the first 1000000 bytes"),
        "{seen}"
    );
    assert!(
        seen.ends_with(
            "last\n(job_1 ended: exit status 0, T s; the first 1000000 bytes of output in F)"
        ),
        "{seen}"
    );
    assert_eq!(fs::metadata(&file).unwrap().len(), 1_000_000);
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 128 * 1024, "{peak} kB");
}

#[tokio::test]
async fn the_last_lines_of_a_notice_are_few() {
    let room = Room::new();
    room.start("seq 1 100000").await.unwrap();
    let notice = room.notice().await;
    assert!(notice.ends_with(
        "follow)\n99991\n99992\n99993\n99994\n99995\n99996\n99997\n99998\n99999\n100000"
    ));
    room.start("head -c 5000 /dev/zero | tr '\\0' x")
        .await
        .unwrap();
    let notice = room.notice().await;
    let (_, lines) = notice.split_once("follow)\n...").unwrap();
    assert_eq!(lines, "x".repeat(1000));
}

#[tokio::test]
async fn odd_input_is_refused_in_words() {
    let room = Room::new();
    for wait in [json!(-1), json!(600_001), json!("soon"), json!(1.5)] {
        let input = json!({ "id": "job_1", "wait_ms": wait });
        let error = call(&room.output, input, &room.context).await.unwrap_err();
        assert!(
            error
                .to_string()
                .contains("wait_ms must be a whole number from 0 to 600000")
        );
    }
    let error = call(&room.stop, json!({}), &room.context)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("missing field `id`"), "{error}");
}

#[tokio::test]
async fn the_same_outcome_has_the_same_fingerprint() {
    let room = Room::new();
    let time = long_time();
    room.start(&format!("sleep {time}")).await.unwrap();
    let look = async || {
        let input = json!({ "id": "job_1" });
        let output = call(&room.output, input, &room.context).await.unwrap();
        (text(&output).to_owned(), output.fingerprint.unwrap())
    };
    let (first_text, first) = look().await;
    let first_text_again = async {
        loop {
            let (text, again) = look().await;
            assert_eq!(first, again);
            if text != first_text {
                return;
            }
        }
    };
    timeout(SOON, first_text_again).await.unwrap();
    room.stop("job_1").await;
    assert_ne!(look().await.1, first);
}

#[tokio::test]
async fn no_question_is_asked_about_looking_and_ending() {
    let room = Room::new();
    let input = JsonObject::parse(r#"{"id":"job_1"}"#).unwrap();
    for (tool, name) in [(&room.output, "job_output"), (&room.stop, "job_stop")] {
        let access = tool.access(&input).unwrap();
        // Neither may be run early and thrown away.
        assert_eq!(access.effect, AccessEffect::Session);
        for mode in [Mode::Default, Mode::Plan, Mode::DontAsk] {
            let policy = Policy {
                mode,
                ..Policy::default()
            };
            assert!(policy.decide(name, &access).is_allow(), "{name} {mode}");
        }
        let definition = tool.definition();
        assert_eq!(definition.name, name);
        assert_eq!(
            definition.input_schema.to_value()["additionalProperties"],
            json!(false)
        );
    }
}
