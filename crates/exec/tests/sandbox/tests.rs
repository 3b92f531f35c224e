//! What must hold with every mechanism.

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tooloop_exec::{
    End, Gap, Mechanism, Processes, Sandbox, SandboxNetwork, SandboxOptions, SandboxProfile,
    StartError, Terminal, TerminalSize, hide_memory, own_process,
};

use crate::acts::{ACTS, DONE, MEANINGLESS, REFUSED};
use crate::support::{SOON, alive, assert_gone, await_alive, long_time};
use crate::world::{Stage, only};

type Test = fn(&mut Stage);

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("table", table),
    ("gaps", gaps),
    ("statuses", statuses),
    ("directories", directories),
    ("starts that fail", failing_starts),
    ("a time limit", time_limit),
    ("a patient end", patient_end),
    ("cancellation", cancellation),
    ("leftovers", leftovers),
    ("a program on a terminal", terminal),
    ("a shell on a terminal", job_control),
    ("a harness that is killed", killed_harness),
    ("what is needed is missing", missing_features),
    ("an older Landlock", older_landlock),
    ("commits in a linked worktree", worktree),
    ("a proxy", proxy),
    ("a folder of another user", other_owner),
    ("everything may be written", everything),
];

/// Acts that can be done in every sandbox.
const FREE: &[&str] = &[
    "write inside",
    "read outside",
    "write to the private folder",
    "write to /dev/null",
    "write to standard output by its name",
    "make a new terminal",
    "ask for the own addresses",
    "have a pair of sockets",
    "unshare its descriptors",
    "start threads and processes",
];

/// Acts that can be done where a command has namespaces of its own, and harm nobody there.
const FREE_WITH_NAMESPACES: &[&str] = &[
    "write to /tmp",
    "write to /var/tmp",
    "serve itself",
    "serve itself on a Unix socket",
    "serve itself with packets",
    "serve itself on an abstract socket",
    "have shared memory",
    "attach shared memory by its number",
];

/// Acts that can be done where a gap says so, and nowhere else.
const OPEN: &[(&str, Gap)] = &[
    ("leave a setuid program", Gap::SetuidFiles),
    ("connect to a service in the workspace", Gap::InnerSockets),
    ("chmod outside", Gap::Attributes),
    ("chown outside", Gap::Attributes),
    ("touch outside", Gap::Attributes),
    ("give an attribute outside", Gap::Attributes),
    ("set a hook", Gap::Protected),
    ("remove the hooks", Gap::Protected),
    ("write the configuration of git", Gap::Protected),
    ("replace the configuration of git", Gap::Protected),
    ("put another folder in place of .git", Gap::Protected),
    ("list what is hidden", Gap::HiddenNames),
    ("see the harness", Gap::ProcessesSeen),
];

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future)
}

fn with_processes<F: Future<Output = ()>>(test: impl FnOnce(Processes) -> F) {
    block_on(async {
        let processes = Processes::new().unwrap();
        test(processes.clone()).await;
        processes.end_all(Duration::from_millis(100)).await;
    });
}

/// Every act, and what came of it, and whether the world is as it was.
fn table(stage: &mut Stage) {
    let gaps = stage.sandbox.gaps(&stage.profile());
    let has_mounts = stage.has_mounts();
    let mut expected = BTreeMap::new();
    let mut found = BTreeMap::new();
    with_processes(async |processes| {
        for (name, _) in ACTS {
            let gap = OPEN.iter().find(|(other, _)| other == name);
            let is_seen = *name != "read outside" || !stage.is_covered();
            let is_free = FREE.contains(name) && is_seen
                || has_mounts && FREE_WITH_NAMESPACES.contains(name)
                // What is open is told.
                || gap.is_some_and(|(_, gap)| gaps.contains(gap));
            expected.insert(*name, (if is_free { DONE } else { REFUSED }, Vec::new()));
            stage.reset();
            let outcome = stage
                .run(&processes, &format!("\"$PROGRAM\" act '{name}'"))
                .await;
            let status = match outcome.end {
                End::Exited(MEANINGLESS) => {
                    expected.remove(name);
                    continue;
                }
                End::Exited(status) => status,
                end => panic!("{name}: {end:?}"),
            };
            if status != DONE && status != REFUSED {
                println!("{name}: {}", outcome.output.text());
            }
            found.insert(*name, (status, stage.damage()));
        }
    });
    let tried = found.len();
    let differ = |name: &&str| expected.get(*name) != found.get(*name);
    let differ: Vec<_> = ACTS
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| differ(name))
        .collect();
    for name in &differ {
        println!(
            "{name}: {:?}, not {:?}",
            found.get(name),
            expected.get(name)
        );
    }
    assert_eq!(differ, [""; 0]);
    println!("{tried} acts");
    assert!(tried >= 80);
}

fn gaps(stage: &mut Stage) {
    let of = |profile: &SandboxProfile| stage.sandbox.gaps(profile);
    let profile = stage.profile();
    let mut wide = profile.clone();
    wide.read_only.push(stage.world.at("work/none"));
    wide.hidden.push(stage.world.at("work/.git"));
    if stage.has_mounts() {
        let is_root = rustix::process::geteuid().is_root();
        let root = [Gap::SetuidFiles].into_iter().filter(|_| is_root);
        let expected: Vec<Gap> = [Gap::InnerSockets].into_iter().chain(root).collect();
        assert_eq!(of(&profile), expected);
        assert_eq!(of(&wide), [&[Gap::NewProtected], &expected[..]].concat());
        assert!(stage.sandbox.enforced().process_namespace);
    } else {
        assert!(!of(&profile).contains(&Gap::HiddenInside));
        assert!(of(&wide).contains(&Gap::HiddenInside));
        let bare = SandboxProfile {
            read_only: Vec::new(),
            hidden: Vec::new(),
            ..profile
        };
        let of_bare = of(&bare);
        assert!(!of_bare.contains(&Gap::Protected) && !of_bare.contains(&Gap::HiddenNames));
    }
    for gap in &stage.sandbox.enforced().gaps {
        assert!(gap.to_string().len() > 10);
    }
}

fn statuses(stage: &mut Stage) {
    with_processes(async |processes| {
        for (text, output, end) in [
            ("exit 7", "", End::Exited(7)),
            ("bash -c 'exit 300'", "", End::Exited(44)),
            ("exit 137", "", End::Exited(137)),
            ("kill -9 $$", "", End::Signaled(9)),
            ("kill -TERM $$", "", End::Signaled(15)),
            ("kill -INT $$", "", End::Signaled(2)),
            ("kill -PIPE $$", "", End::Signaled(13)),
            ("yes | head -1", "y\n", End::Exited(0)),
            (
                "nosuchcommand-1",
                "bash: line 1: nosuchcommand-1: command not found\n",
                End::Exited(127),
            ),
            (
                "echo out; echo err >&2; echo \"$0 $#\"",
                "out\nerr\nbash 0\n",
                End::Exited(0),
            ),
            ("trap; ls /proc/self/fd | wc -l", "4\n", End::Exited(0)),
            ("(exit 3) & wait $!", "", End::Exited(3)),
            (
                "set -m; (exit 4) & wait %1; echo $?",
                "[1]+  Exit 4                  ( exit 4 )\n4\n",
                End::Exited(0),
            ),
            (
                "test \"$TMPDIR\" && test -d \"$TMPDIR\" && echo yes",
                "yes\n",
                End::Exited(0),
            ),
            ("read x || echo end", "end\n", End::Exited(0)),
        ] {
            let outcome = stage.run(&processes, text).await;
            assert_eq!(
                (outcome.output.text().as_str(), outcome.end),
                (output, end),
                "{text}"
            );
            assert_eq!(outcome.leftovers, [], "{text}");
        }
        let long = format!("cat <<'EOF' | wc -c\n{}\nEOF\n", "x".repeat(300_000));
        let outcome = stage.run(&processes, &long).await;
        assert_eq!(outcome.output.text(), "300001\n");
    });
}

fn directories(stage: &mut Stage) {
    let inner = stage.world.at("work/a b");
    fs::create_dir(&inner).unwrap();
    with_processes(async |processes| {
        let outcome = stage.run(&processes, "cd 'a b'; exit 7").await;
        assert_eq!(
            (outcome.end, outcome.final_directory),
            (End::Exited(7), Some(inner))
        );
        if stage.has_mounts() {
            // What is in the private folder has its real name outside.
            let outcome = stage.run(&processes, "mkdir /tmp/x; cd /tmp/x").await;
            let told = outcome.final_directory.unwrap();
            assert_eq!(told, stage.world.at("temp/x"));
            let mut there = stage.command("pwd; ls -d /tmp/x");
            there.directory = told.clone();
            let outcome = processes.run(there).await.unwrap();
            assert_eq!(
                outcome.output.text(),
                format!("{}\n/tmp/x\n", told.display())
            );
        }
        if stage.is_covered() {
            return;
        }
        // Outside one may be, too.
        let mut there = stage.command("pwd");
        there.directory = stage.world.at("out");
        let outcome = processes.run(there).await.unwrap();
        assert_eq!(
            outcome.output.text(),
            format!("{}\n", stage.world.at("out").display())
        );
    });
}

fn failing_starts(stage: &mut Stage) {
    with_processes(async |processes| {
        let mut nowhere = stage.command("true");
        nowhere.directory = stage.world.at("work/none");
        let error = processes.run(nowhere).await.unwrap_err();
        assert!(matches!(error, StartError::Directory { .. }), "{error:?}");
        let mut shell = stage.command("true");
        shell.shell = tooloop_exec::Shell::at("/none/bash");
        let error = processes.run(shell).await.unwrap_err();
        assert!(matches!(error, StartError::Shell { .. }), "{error:?}");
        let mut profile = stage.profile();
        profile.temp = stage.world.at("none");
        let error = processes
            .run(stage.command_in("true", profile))
            .await
            .unwrap_err();
        assert!(matches!(error, StartError::Sandbox { .. }), "{error:?}");
        // What cannot be entered inside is told by the command.
        let mut hidden = stage.command("true");
        hidden.directory = "/run/lock".into();
        if stage.has_mounts() && hidden.directory.is_dir() {
            let outcome = processes.run(hidden).await.unwrap();
            assert_eq!(outcome.end, End::Exited(126));
            assert!(outcome.output.text().contains("cannot enter /run/lock"));
        }
    });
}

fn time_limit(stage: &mut Stage) {
    with_processes(async |processes| {
        let time = long_time();
        let text = format!("trap '' TERM; setsid sleep {time} & sleep {time}; sleep {time}");
        let mut command = stage.command(&text);
        command.time_limit = Duration::from_millis(500);
        command.grace = Duration::from_millis(100);
        let outcome = processes.run(command).await.unwrap();
        assert!(matches!(outcome.end, End::TimedOut { .. }), "{outcome:?}");
        assert_gone(&time, SOON);
    });
}

/// Who is asked to end has the time to do it.
fn patient_end(stage: &mut Stage) {
    with_processes(async |processes| {
        let time = long_time();
        let text = format!(
            "trap 'sleep 0.2; echo put in order; exit 3' TERM; sleep {time} & wait; wait; echo no"
        );
        let mut command = stage.command(&text);
        command.grace = SOON;
        let cancellation = CancellationToken::new();
        command.cancellation = cancellation.clone();
        let running = processes.start(command).await.unwrap();
        let outcome = tokio::spawn(running.outcome());
        tokio::task::spawn_blocking({
            let time = time.clone();
            move || await_alive(&time, 1)
        })
        .await
        .unwrap();
        cancellation.cancel();
        let outcome = timeout(SOON, outcome).await.unwrap().unwrap();
        assert_eq!(outcome.end, End::Cancelled);
        let text = outcome.output.text();
        assert!(text.ends_with("put in order\n"), "{text}");
        assert_gone(&time, SOON);
    });
}

fn cancellation(stage: &mut Stage) {
    with_processes(async |processes| {
        let time = long_time();
        let mut command = stage.command(&format!("sleep {time}; echo no"));
        let cancellation = CancellationToken::new();
        command.cancellation = cancellation.clone();
        let running = processes.start(command).await.unwrap();
        let outcome = tokio::spawn(running.outcome());
        // Also while it is only about to begin.
        cancellation.cancel();
        let outcome = timeout(SOON, outcome).await.unwrap().unwrap();
        assert_eq!(
            (outcome.end, outcome.output.text().as_str()),
            (End::Cancelled, "")
        );
        assert_gone(&time, SOON);
        let running = processes
            .start(stage.command(&format!("sleep {time}")))
            .await
            .unwrap();
        drop(running);
        assert_gone(&time, SOON);
    });
}

fn leftovers(stage: &mut Stage) {
    with_processes(async |processes| {
        let [kept, cut] = [long_time(), long_time()];
        let text = format!("sleep {kept} & setsid sleep {cut} >/dev/null 2>&1 & echo on");
        let outcome = stage.run(&processes, &text).await;
        assert_eq!(
            (outcome.end, outcome.output.text().as_str()),
            (End::Exited(0), "on\n")
        );
        assert_eq!(outcome.leftovers.len(), 2, "{:?}", outcome.leftovers);
        await_alive(&kept, 1);
        await_alive(&cut, 1);
        processes.end_all(Duration::from_millis(100)).await;
        assert!(alive(&kept).is_empty() && alive(&cut).is_empty());

        // They end when their owner says so.
        let mut command = stage.command(&format!("sleep {kept} & sleep {cut} &"));
        let ends = CancellationToken::new();
        command.leftovers = Some(ends.clone());
        let outcome = processes.run(command).await.unwrap();
        assert_eq!(outcome.leftovers.len(), 2);
        ends.cancel();
        assert_gone(&kept, SOON);
        assert_gone(&cut, SOON);

        // Those that cut all ties cannot leave their namespace.
        if stage.has_mounts() {
            stage
                .run(
                    &processes,
                    &format!("(env -i setsid sleep {cut} &) >/dev/null 2>&1"),
                )
                .await;
            await_alive(&cut, 1);
            processes.end_all(Duration::from_millis(100)).await;
            assert!(alive(&cut).is_empty());
        }
    });
}

const SIZE: TerminalSize = TerminalSize {
    rows: 24,
    columns: 80,
};

/// A terminal, and what was read of it and not looked at.
struct Screen<'a>(&'a Terminal, String);

impl Screen<'_> {
    /// What is printed up to a part and with it.
    async fn until(&mut self, part: &str) -> String {
        let Self(terminal, seen) = self;
        let reading = async {
            let mut buffer = [0; 1000];
            loop {
                if let Some(at) = seen.find(part) {
                    let rest = seen.split_off(at + part.len());
                    return std::mem::replace(seen, rest);
                }
                let length = terminal.read(&mut buffer).await.unwrap();
                assert!(length > 0, "{part:?} did not come: {seen:?}");
                seen.push_str(&String::from_utf8_lossy(buffer.split_at(length).0));
            }
        };
        match timeout(SOON, reading).await {
            Ok(text) => text,
            Err(_) => panic!("{part:?} did not come: {seen:?}"),
        }
    }
}

async fn type_all(terminal: &Terminal, text: &str) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let written = timeout(SOON, terminal.write(rest)).await.unwrap().unwrap();
        rest = rest.split_at(written).1;
    }
}

fn terminal(stage: &mut Stage) {
    with_processes(async |processes| {
        let time = long_time();
        let text = format!(
            "stty size; test -t 0 -a -t 1 -a -t 2; echo \"all $?\"; (: </dev/tty) && echo controlled; \
             echo x >/dev/stdout; read -p 'name? ' x; echo \"[$x]\"; sleep {time}; echo no"
        );
        let command = stage.command(&text);
        let terminal = processes.open_terminal(command, SIZE).await.unwrap();
        let mut screen = Screen(&terminal, String::new());
        let seen = screen.until("name? ").await;
        assert_eq!(seen, "24 80\r\nall 0\r\ncontrolled\r\nx\r\nname? ");
        type_all(&terminal, "Ada\r").await;
        screen.until("[Ada]\r\n").await;
        await_alive(&time, 1);
        type_all(&terminal, "\x03").await;
        let end = timeout(SOON, terminal.exited()).await.unwrap();
        assert_eq!(end, End::Signaled(2));
        assert_gone(&time, SOON);

        let text = format!(
            "(trap '' TERM HUP; sleep {time}; sleep {time}) & setsid sleep {time} & sleep {time}"
        );
        let mut command = stage.command(&text);
        command.grace = Duration::from_millis(200);
        let terminal = processes.open_terminal(command, SIZE).await.unwrap();
        await_alive(&time, 3);
        let end = timeout(SOON, terminal.end()).await.unwrap();
        assert!(matches!(end, End::Signaled(1 | 9 | 15)), "{end:?}");
        assert_gone(&time, SOON);
    });
}

/// Waits until such a process is not stopped any more.
fn await_going_on(text: &str) {
    let start = Instant::now();
    let stopped = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| rest.starts_with(" T"))
    };
    while alive(text).iter().any(stopped) {
        assert!(start.elapsed() < SOON, "still stopped");
        thread::sleep(Duration::from_millis(5));
    }
}

fn job_control(stage: &mut Stage) {
    with_processes(async |processes| {
        let time = long_time();
        let command = stage.command("PS1='ready> ' exec bash --norc --noprofile -i");
        let terminal = processes.open_terminal(command, SIZE).await.unwrap();
        let mut screen = Screen(&terminal, String::new());
        let seen = screen.until("ready> ").await;
        assert!(!seen.contains("no job control"), "{seen}");
        type_all(&terminal, &format!("sleep {time}\r")).await;
        await_alive(&time, 1);
        type_all(&terminal, "\x1a").await;
        screen.until("Stopped").await;
        screen.until("ready> ").await;
        type_all(&terminal, "fg\r").await;
        screen.until("sleep").await;
        // It has the terminal by then: whoever stops does not hear the key.
        await_going_on(&time);
        type_all(&terminal, "\x03").await;
        screen.until("ready> ").await;
        assert_gone(&time, SOON);
        type_all(&terminal, "exit 9\r").await;
        assert_eq!(
            timeout(SOON, terminal.exited()).await.unwrap(),
            End::Exited(9)
        );
    });
}

/// Not a test: the harness that another one kills.
pub(crate) fn harness(mechanism: &str, text: &str) {
    own_process().unwrap();
    hide_memory().unwrap();
    let mechanisms = [
        Mechanism::Namespaces,
        Mechanism::Bubblewrap,
        Mechanism::Landlock,
    ];
    let mut named = mechanisms.iter().filter(|one| one.to_string() == mechanism);
    let sandbox = Sandbox::probe(&only(*named.next().unwrap())).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let profile = SandboxProfile {
        writable: Vec::new(),
        read_only: Vec::new(),
        hidden: Vec::new(),
        temp: folder.path().into(),
        staged: Vec::new(),
        network: SandboxNetwork::Off,
    };
    let sandbox = Some(tooloop_exec::Confined {
        sandbox,
        profile: profile.into(),
    });
    with_processes(async |processes| {
        let mut command = crate::support::command(text, Path::new("/"));
        command.sandbox = sandbox;
        println!("at work");
        let outcome = processes.run(command).await.unwrap();
        println!("{outcome:?}");
    });
}

fn killed_harness(stage: &mut Stage) {
    let time = long_time();
    // Without namespaces those that cut all ties are told to be able to outlive it.
    let cut = if stage.has_mounts() {
        "env -i setsid"
    } else {
        "setsid"
    };
    let text = format!("(trap '' TERM HUP; {cut} sleep {time}) & sleep {time} & sleep {time}");
    let mut harness = std::process::Command::new(stage.world.at("work/program"))
        .args(["harness", &stage.name(), &text])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(harness.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "at work\n");
    await_alive(&time, 3);
    harness.kill().unwrap();
    harness.wait().unwrap();
    assert_gone(&time, SOON);
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

/// Not a test: a program under a filter that refuses what sandboxes are made of.
pub(crate) fn without_features() {
    let flag = u64::try_from(libc::CLONE_NEWUSER).unwrap();
    let condition = SeccompCondition::new(
        0,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::MaskedEq(flag),
        flag,
    );
    let rule = SeccompRule::new(vec![condition.unwrap()]).unwrap();
    let rules = [
        (libc::SYS_landlock_create_ruleset, Vec::new()),
        (libc::SYS_unshare, Vec::new()),
        (libc::SYS_clone, vec![rule]),
        (libc::SYS_clone3, Vec::new()),
    ];
    let filter = SeccompFilter::new(
        rules.into_iter().collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS.unsigned_abs()),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let program: seccompiler::BpfProgram = filter.unwrap().try_into().unwrap();
    apply_filter(&program).unwrap();
    match Sandbox::probe(&SandboxOptions::default()) {
        Ok(sandbox) => println!("there is one: {:?}", sandbox.enforced()),
        Err(error) => println!("{error}"),
    }
}

fn missing_features(stage: &mut Stage) {
    let output = std::process::Command::new(stage.world.at("work/program"))
        .arg("without-features")
        .output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    // Bubblewrap may be installed or not.
    for part in [
        "no sandbox can be set up here: ",
        "namespaces: sandbox: no namespaces can be made: ",
        "bubblewrap: ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        text.contains("; Landlock: the kernel refuses it: Function not implemented"),
        "{text}"
    );
}

/// On an older kernel less is closed, and that is said; nothing else changes.
fn older_landlock(stage: &mut Stage) {
    for abi in 0..=7 {
        let options = SandboxOptions {
            landlock_abi: Some(abi),
            ..only(stage.sandbox.enforced().mechanism)
        };
        let sandbox = match Sandbox::probe(&options) {
            Ok(sandbox) => sandbox,
            Err(error) => {
                assert!(abi == 0 && !stage.has_mounts(), "{error}");
                continue;
            }
        };
        let enforced = sandbox.enforced();
        assert!(enforced.landlock_abi <= abi);
        let has = |gap| enforced.gaps.contains(&gap);
        if stage.has_mounts() {
            assert_eq!(has(Gap::AbstractSockets), enforced.landlock_abi < 6);
        } else {
            let said = [has(Gap::Truncate), has(Gap::Devices), has(Gap::Signals)];
            assert_eq!(
                said,
                [3, 5, 6].map(|version| enforced.landlock_abi < version)
            );
        }
        with_processes(async |processes| {
            // Root of a namespace, too, leaves the settings of the system alone.
            let text = format!(
                "echo x > made && ! echo x > {} && ! : > /proc/sys/kernel/core_pattern",
                stage.world.at("out/made").display()
            );
            let mut command = stage.command(&text);
            command.sandbox.as_mut().unwrap().sandbox = sandbox.clone();
            let outcome = processes.run(command).await.unwrap();
            assert_eq!(outcome.end, End::Exited(0), "{}", outcome.output.text());
            assert!(stage.world.at("work/made").exists());
        });
        assert_eq!(stage.damage(), [""; 0]);
    }
}

const COMMIT: &str = "git -c user.name=a -c user.email=a@b commit -qm x";

/// Commits are made, and neither hooks nor the configuration that all worktrees share are changed.
fn worktree(stage: &mut Stage) {
    with_processes(async |processes| {
        let setup = format!(
            "rm -rf .git && git init -q repository && cd repository && {COMMIT} --allow-empty && \
             git worktree add -q ../linked && git init -q ../new && cd ../new && {COMMIT} --allow-empty"
        );
        let mut profile = stage.profile();
        profile.read_only.clear();
        let outcome = processes
            .run(stage.command_in(&setup, profile))
            .await
            .unwrap();
        if outcome.end == End::Exited(127) {
            println!("skipped: there is no git");
            return;
        }
        assert_eq!(outcome.end, End::Exited(0), "{}", outcome.output.text());
        let common = stage.world.at("work/repository/.git");
        let config = fs::read(common.join("config")).unwrap();
        let profile = SandboxProfile {
            writable: vec![stage.world.at("work/linked"), common.clone()],
            read_only: vec![common.join("hooks"), common.join("config")],
            ..stage.profile()
        };
        let run = async |text: &str| {
            let mut command = stage.command_in(text, profile.clone());
            command.directory = stage.world.at("work/linked");
            let outcome = processes.run(command).await.unwrap();
            (outcome.end, outcome.output.text())
        };
        let committed = run(&format!(
            "echo a > a && git add a && {COMMIT} && git status --short"
        ))
        .await;
        assert_eq!(committed, (End::Exited(0), String::new()));
        if !stage.sandbox.gaps(&profile).contains(&Gap::Protected) {
            for text in [
                "touch ../repository/.git/hooks/post-commit",
                "git config core.pager x",
            ] {
                let (end, said) = run(text).await;
                assert!(matches!(end, End::Exited(1..)), "{text}: {said}");
            }
            assert!(!common.join("hooks/post-commit").exists());
            assert_eq!(fs::read(common.join("config")).unwrap(), config);
        }
    });
}

/// Answers every line of every connection, until it is asked for the end.
fn answer(mut stream: impl Read + Write) {
    let mut byte = [0];
    let mut line = Vec::new();
    while matches!(stream.read(&mut byte), Ok(1)) {
        line.push(byte[0]);
        if byte == *b"\n" {
            stream.write_all(b"you said ").unwrap();
            stream.write_all(&line).unwrap();
            line.clear();
        }
    }
}

fn proxy(stage: &mut Stage) {
    let socket = stage.world.at("out/proxy.sock");
    drop(fs::remove_file(&socket));
    let unix = UnixListener::bind(&socket).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    // Both last as long as the test program.
    thread::spawn(move || {
        unix.incoming().flatten().for_each(|stream| {
            thread::spawn(move || answer(stream));
        })
    });
    thread::spawn(move || {
        tcp.incoming().flatten().for_each(|stream| {
            thread::spawn(move || answer(stream));
        })
    });
    let profile = SandboxProfile {
        network: SandboxNetwork::Proxy {
            socket: socket.clone(),
            port: Some(port),
        },
        ..stage.profile()
    };
    with_processes(async |processes| {
        let text = format!(
            "exec 3<>/dev/tcp/127.0.0.1/${{https_proxy##*:}}; echo hello >&3; read x <&3; echo \"$x\"; \
             exec 4<>/dev/tcp/127.0.0.1/${{http_proxy##*:}}; echo again >&4; read x <&4; echo \"$x\"; \
             (: </dev/tcp/127.0.0.1/{}) 2>/dev/null || echo nobody else; \
             (: </dev/udp/127.0.0.1/{}; echo x >/dev/udp/127.0.0.1/{}) 2>/dev/null; \
             echo \"$no_proxy\"",
            stage.world.tcp, stage.world.udp, stage.world.udp
        );
        let outcome = processes
            .run(stage.command_in(&text, profile.clone()))
            .await
            .unwrap();
        let expected = "you said hello\nyou said again\nnobody else\nlocalhost,127.0.0.1,::1\n";
        assert_eq!(outcome.output.text(), expected);
        assert_eq!(outcome.leftovers, []);
        // It also serves what is left behind.
        let time = long_time();
        let text = format!(
            "(sleep 0.3; exec 3<>/dev/tcp/127.0.0.1/${{https_proxy##*:}}; echo late >&3; read x <&3; \
             echo \"$x\" > late; exec sleep {time}) & echo on"
        );
        let mut command = stage.command_in(&text, profile);
        command.leftovers = Some(CancellationToken::new());
        let outcome = processes.run(command).await.unwrap();
        assert_eq!(outcome.output.text(), "on\n");
        await_alive(&time, 1);
        assert_eq!(
            fs::read_to_string(stage.world.at("work/late")).unwrap(),
            "you said late\n"
        );
    });
    assert_eq!(stage.damage(), [""; 0]);
}

fn other_owner(stage: &mut Stage) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = stage.world.at("work/theirs");
    fs::create_dir(&folder).unwrap();
    chown(&folder, Some(1234), Some(1234)).unwrap();
    with_processes(async |processes| {
        let text =
            "cd theirs && touch a && chown 1234 a && chmod 600 a && echo x >> a && stat -c %u a";
        let outcome = stage.run(&processes, text).await;
        assert_eq!(
            (outcome.end, outcome.output.text().as_str()),
            (End::Exited(0), "1234\n")
        );
    });
}

/// The widest profile is one too.
fn everything(stage: &mut Stage) {
    if stage.is_covered() {
        return;
    }
    let profile = SandboxProfile {
        writable: vec!["/".into()],
        read_only: vec![stage.world.at("out")],
        hidden: vec![stage.world.at("hidden")],
        temp: stage.world.at("temp"),
        staged: Vec::new(),
        network: SandboxNetwork::On,
    };
    let has_mounts = stage.has_mounts();
    with_processes(async |processes| {
        let text = format!(
            "touch made /tmp/x && rm /tmp/x && (: </dev/tcp/127.0.0.1/{}) && (: >../out/file) 2>/dev/null; echo $?; ls ../hidden",
            stage.world.tcp
        );
        let outcome = processes
            .run(stage.command_in(&text, profile))
            .await
            .unwrap();
        assert_eq!(
            outcome.output.text(),
            if has_mounts { "1\n" } else { "0\nsecret\n" }
        );
    });
}
