//! The sandbox as the binary puts it up: what commands and file tools can do, and what is said.
//!
//! Where no sandbox can be set up, the tests that need one say that they are skipped.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};
use tooloop_testkit::run::{Run, Stdin};
use tooloop_testkit::{ModelServer, Scratch, Steps};

use crate::asking::{always, answer, no, question};
use crate::support::{
    Api, Done, LONG, asking, bare, end, finish, kill, no_leftovers, send, speak, tooloop,
    wait_for_file, wait_for_result,
};

const API: Api = Api::Messages;

/// Whether there is a sandbox here, and why not.
pub(crate) fn missing() -> Option<&'static str> {
    static MISSING: OnceLock<Option<String>> = OnceLock::new();
    let missing = MISSING.get_or_init(|| {
        let (scratch, server) = (Scratch::new(), ModelServer::start([API.say("ok")]));
        let run = tooloop(&scratch, &server, API).env("TOOLOOP_SANDBOX", "required");
        let finished = end(&run.arg("go").start());
        (finished.code != Some(0)).then(|| finished.stdout.text())
    });
    missing.as_deref()
}

/// Leaves a test where there is no sandbox; and where there is no folder outside of it, if that is
/// named.
macro_rules! needs_sandbox {
    ($outside:ident) => {
        needs_sandbox!();
        let Some($outside) = Outside::new() else {
            return;
        };
    };
    () => {
        if let Some(missing) = missing() {
            println!("skipped: no sandbox can be set up here: {missing}");
            return;
        }
    };
}

/// A folder that is neither in the workspace nor below what commands have a folder of their own for.
pub(crate) struct Outside(tempfile::TempDir);

impl Outside {
    pub(crate) fn new() -> Option<Self> {
        let bases = [
            Some(env!("CARGO_TARGET_TMPDIR").into()),
            std::env::home_dir(),
            Some("/opt".into()),
        ];
        let own = |path: &PathBuf| {
            ["/tmp", "/var/tmp"]
                .iter()
                .any(|temp| path.starts_with(temp))
        };
        let bases = bases.into_iter().flatten();
        let found = bases
            .filter_map(|base: PathBuf| base.canonicalize().ok())
            .filter(|base| !own(base))
            .find_map(|base| tempfile::tempdir_in(base).ok());
        if found.is_none() {
            println!("skipped: no folder outside of /tmp can be written here");
        }
        found.map(Self)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Everything is allowed, in a sandbox.
fn confined(scratch: &Scratch, server: &ModelServer) -> Run {
    tooloop(scratch, server, API).env("TOOLOOP_SANDBOX", "required")
}

/// What no rule allows is asked about, in a sandbox.
fn careful(scratch: &Scratch, server: &ModelServer) -> Run {
    asking(scratch, server, API)
        .env("TOOLOOP_SANDBOX", "required")
        .args(["--output-format", "stream-json"])
}

fn bash(id: &str, command: &str) -> Steps {
    API.bash(id, command)
}

fn granted(id: &str, command: &str, grants: &[&str]) -> Steps {
    let input = json!({ "command": command, "grant": grants });
    API.call(id, "bash", &input)
}

/// Runs these calls one after another, and gives what became of each.
fn play(run: impl Fn(&Scratch, &ModelServer) -> Run, scratch: &Scratch, calls: &[Steps]) -> Done {
    let replies: Vec<Steps> = calls.iter().cloned().chain([API.say("done")]).collect();
    let server = ModelServer::start(replies);
    let done = finish(&run(scratch, &server).arg("go").start());
    assert_eq!(done.answer(), "done");
    server.assert_clean();
    done
}

pub(crate) fn git(folder: &Path, arguments: &[&str]) -> String {
    std::fs::create_dir_all(folder).unwrap();
    let output = Command::new("git")
        .args(["-c", "user.name=x", "-c", "user.email=x@x"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn has_git() -> bool {
    let has = Command::new("git").arg("--version").output().is_ok();
    if !has {
        println!("skipped: there is no git");
    }
    has
}

/// Names and contents of all below a folder.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                all.push((path.clone(), std::fs::read(&path).unwrap()));
            }
        }
    }
    all.sort();
    all
}

fn refusals(done: &Done) -> Vec<(String, Value)> {
    let refused = done.system("sandbox_refusal");
    let parts = |record: &&Value| {
        let what = record["what"].as_str().unwrap().to_owned();
        (what, record["grant"].clone())
    };
    refused.iter().map(parts).collect()
}

// ---- what is said

#[test]
fn a_run_says_what_holds_it() {
    let (scratch, server) = (
        Scratch::new(),
        ModelServer::start([API.say("ok"), API.say("ok")]),
    );
    let run = asking(&scratch, &server, API).arg("go");
    let off = end(&run.clone().start());
    let first = off.stderr.text();
    assert!(
        first.starts_with("tooloop: sandbox: off, commands run as you\n"),
        "{off}"
    );
    if missing().is_some() {
        println!("skipped: no sandbox can be set up here");
        return;
    }
    let on = end(&run.env("TOOLOOP_SANDBOX", "auto").start());
    let first = on.stderr.text();
    assert!(first.starts_with("tooloop: sandbox: workspace ("), "{on}");
    assert!(first.contains(", network off\n"), "{on}");
}

#[test]
fn the_first_runs_are_held_as_any_run_is_and_say_so() {
    needs_sandbox!(outside);
    let scratch = Scratch::new();
    let first = |command: &str| {
        let run = bare(&scratch).env("TOOLOOP_SANDBOX", "required");
        run.args([command, "--fast"])
    };
    let demo = end(&first("demo").start());
    demo.assert_code(0);
    let told = demo.stderr.text();
    assert!(told.starts_with("tooloop: sandbox: workspace ("), "{demo}");
    // Without a model there is the demo.
    let hello = end(&first("hello").start());
    let told = hello.stderr.text();
    assert!(told.starts_with("tooloop: sandbox: workspace ("), "{hello}");
    assert!(told.contains("so here is the demo:"), "{hello}");
    hello.assert_code(0);

    let records = end(&first("demo")
        .args(["--output-format", "stream-json"])
        .start());
    let sandbox = &records.json_lines().unwrap()[0]["sandbox"];
    assert_eq!(sandbox["profile"], "workspace", "{records}");

    let marker = outside.path().join("M").display().to_string();
    let command = format!("touch within; ls; d={marker}; touch $d");
    let server = ModelServer::start([bash("c", &command), API.say("done")]);
    let run = first("hello")
        .model(&server)
        .env("TOOLOOP_MODEL", API.model());
    let hello = end(&run.start());
    hello.assert_code(0);
    let shown = hello.stdout.text();
    assert!(
        shown.contains("within") && shown.contains("sandbox"),
        "{shown}"
    );
    assert!(!Path::new(&marker).exists());
    server.assert_clean();
    // Its temporary folder is gone with it.
    let left: Vec<_> = std::fs::read_dir(scratch.temporary()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn records_begin_with_what_holds_the_run() {
    needs_sandbox!();
    let scratch = Scratch::new();
    let done = play(confined, &scratch, &[]);
    let sandbox = &done.records[0]["sandbox"];
    assert_eq!(sandbox["profile"], "workspace");
    assert_eq!(sandbox["network"], "off");
    assert!(sandbox["mechanism"].is_string(), "{sandbox}");
    assert!(sandbox["gaps"].is_array(), "{sandbox}");
    let workspace = scratch.workspace().canonicalize().unwrap();
    let writable = sandbox["writable"].as_array().unwrap();
    assert!(writable.contains(&json!(workspace)), "{sandbox}");
    let plan = |scratch: &Scratch, server: &ModelServer| {
        careful(scratch, server).args(["--permission-mode", "plan"])
    };
    let done = play(plan, &scratch, &[]);
    assert_eq!(done.records[0]["sandbox"]["profile"], "read-only");
}

/// C35 a: where the kernel has neither, nothing runs unless it is said that it may.
#[test]
fn status_44_where_the_kernel_has_no_sandbox() {
    let Some(python) = filter() else { return };
    let scratch = Scratch::new();
    for (wanted, code) in [("required", 44), ("workspace", 44), ("read-only", 44)] {
        let server = ModelServer::start_with(|_| bash("c", "touch M").into());
        let run = Run::new(&python)
            .home(&scratch)
            .model(&server)
            .env("TOOLOOP_MODEL", API.model())
            .env("TOOLOOP_PERMISSION_MODE", "bypassPermissions")
            .env("TOOLOOP_SANDBOX", wanted)
            .args(["-c", FILTER, env!("CARGO_BIN_EXE_tooloop"), "-p"])
            .args(["--output-format", "stream-json", "go"]);
        let done = finish(&run.start());
        let words = done.failed(code, "not_run");
        assert!(words.contains("Landlock"), "{words}");
        assert!(words.contains("--sandbox off"), "{words}");
        assert!(!scratch.workspace().join("M").exists());
        assert!(server.requests().is_empty());
    }
    // What goes without says so.
    for (wanted, line) in [
        (
            "auto",
            "sandbox: off, commands run as you: no sandbox can be set up here",
        ),
        ("off", "sandbox: off, commands run as you\n"),
    ] {
        let server = ModelServer::start([bash("c", "touch M"), API.say("ok")]);
        let run = Run::new(&python)
            .home(&scratch)
            .model(&server)
            .env("TOOLOOP_MODEL", API.model())
            .env("TOOLOOP_PERMISSION_MODE", "bypassPermissions")
            .env("TOOLOOP_SANDBOX", wanted)
            .args(["-c", FILTER, env!("CARGO_BIN_EXE_tooloop"), "-p", "go"]);
        let finished = end(&run.start());
        finished.assert_code(0);
        assert!(finished.stderr.text().contains(line), "{finished}");
        assert!(scratch.workspace().join("M").exists());
        std::fs::remove_file(scratch.workspace().join("M")).unwrap();
    }
}

/// Becomes a program for which `unshare`, `clone` with namespaces and the calls of Landlock fail.
const FILTER: &str = r#"
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
arm = os.uname().machine == "aarch64"
unshare, clone, clone3 = (97, 220, 435) if arm else (272, 56, 435)
def op(code, jt, jf, k):
    return struct.pack("HBBI", code, jt, jf, k)
EPERM, ENOSYS = 0x00050001, 0x00050026
program = [
    op(0x20, 0, 0, 0),
    op(0x15, 6, 0, 444), op(0x15, 5, 0, 445), op(0x15, 4, 0, 446),
    op(0x15, 3, 0, clone3), op(0x15, 3, 0, unshare), op(0x15, 3, 0, clone),
    op(0x06, 0, 0, 0x7fff0000),
    op(0x06, 0, 0, ENOSYS),
    op(0x06, 0, 0, EPERM),
    op(0x20, 0, 0, 16), op(0x45, 0, 1, 0x7e020000), op(0x06, 0, 0, EPERM),
    op(0x06, 0, 0, 0x7fff0000),
]
code = ctypes.create_string_buffer(b"".join(program))
class Prog(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
prog = Prog(len(program), ctypes.cast(code, ctypes.c_void_p))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(prog), 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[1], sys.argv[1:])
"#;

/// The program that sets the filter up.
fn filter() -> Option<PathBuf> {
    let found = ["/usr/bin/python3", "/usr/local/bin/python3"]
        .map(PathBuf::from)
        .into_iter()
        .find(|path| path.exists());
    if found.is_none() {
        println!("skipped: there is no python3 to set up a filter with");
    }
    found
}

// ---- what is held

/// C35 b: the same border for the shell and for the tools that know paths.
#[test]
fn nothing_is_written_outside_by_any_tool() {
    needs_sandbox!(outside);
    let scratch = Scratch::new();
    let outside = outside.path();
    let marker = outside.join("M").display().to_string();
    let file = outside.join("file.txt");
    std::fs::write(&file, "old\n").unwrap();
    let path = file.display().to_string();
    let patch = format!("*** Begin Patch\n*** Add File: {marker}\n+x\n*** End Patch");
    let done = play(
        confined,
        &scratch,
        &[
            bash("shell", &format!("touch {marker}")),
            API.call("write", "write", &json!({"path": marker, "content": "x"})),
            API.call("read", "read", &json!({"path": path})),
            API.call(
                "edit",
                "edit",
                &json!({"path": path, "old": "old", "new": "new"}),
            ),
            API.call("patch", "apply_patch", &json!({"patch": patch})),
            bash("inside", "echo yes > inside; cat inside"),
            API.call(
                "file",
                "write",
                &json!({"path": "sub/file", "content": "x"}),
            ),
        ],
    );
    for id in ["shell", "write", "edit", "patch"] {
        let (text, is_error) = done.tool_result(id);
        assert!(is_error && text.contains("sandbox"), "{id}: {text}");
    }
    assert!(!outside.join("M").exists());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "old\n");
    assert!(done.tool_result("inside").0.starts_with("yes\n"));
    assert!(scratch.workspace().join("sub/file").exists());
    let grant = format!("write:{marker}");
    assert_eq!(
        refusals(&done),
        [(format!("writing {marker}"), json!(grant))]
    );
}

/// C31: the border is where links lead.
#[test]
fn links_lead_nobody_out() {
    needs_sandbox!(outside);
    let scratch = Scratch::new();
    let (workspace, outside) = (scratch.workspace(), outside.path().join("o"));
    std::fs::create_dir_all(&outside).unwrap();
    std::fs::create_dir_all(workspace.join("sub")).unwrap();
    std::fs::write(outside.join("secret.txt"), "kk-secret\n").unwrap();
    symlink(&outside, workspace.join("out")).unwrap();
    symlink("sub", workspace.join("in")).unwrap();
    let before = contents(&outside);
    let done = play(
        confined,
        &scratch,
        &[
            API.call(
                "a",
                "write",
                &json!({"path": "out/new.txt", "content": "x"}),
            ),
            API.call(
                "b",
                "edit",
                &json!({"path": "out/secret.txt", "old": "kk", "new": "x"}),
            ),
            bash("c", "echo x > out/new.txt"),
            bash("d", "rm out/secret.txt"),
            bash("e", "ln out/secret.txt hard && echo x >> hard"),
            API.call("f", "write", &json!({"path": "in/ok.txt", "content": "x"})),
            bash("g", "echo x > in/ok2.txt"),
        ],
    );
    for id in ["a", "b", "c", "d", "e"] {
        assert!(done.tool_result(id).1, "{id}: {}", done.tool_result(id).0);
    }
    assert_eq!(contents(&outside), before);
    assert!(workspace.join("sub/ok.txt").exists() && workspace.join("sub/ok2.txt").exists());
}

/// A call that runs without the sandbox, and every call where there is none, is judged by where the
/// links in its line lead.
#[test]
fn links_count_where_no_sandbox_holds() {
    let scratch = Scratch::new();
    let workspace = scratch.workspace();
    scratch.write("secrets/key", "kk-secret\n");
    scratch.write("plain", "kk-plain\n");
    git(&workspace, &["init", "-q"]);
    symlink("secrets", workspace.join("link")).unwrap();
    symlink(".git", workspace.join("repository")).unwrap();
    let config = std::fs::read(workspace.join(".git/config")).unwrap();
    let rules = |run: Run| {
        run.arg("--allowedTools=Sandbox(unconfined),Bash(*)")
            .arg("--disallowedTools=Read(./secrets/**)")
    };
    if missing().is_none() {
        let all = ["unconfined"];
        let done = play(
            |scratch, server| rules(careful(scratch, server)),
            &scratch,
            &[
                granted("a", "cat link/key", &all),
                granted("b", "cat plain", &all),
                granted("c", "cp plain repository/config", &all),
            ],
        );
        assert!(done.tool_result("a").1, "{:?}", done.tool_result("a"));
        assert!(!done.tool_result("a").0.contains("kk-secret"));
        assert!(
            done.tool_result("b").0.contains("kk-plain"),
            "{:?}",
            done.tool_result("b")
        );
        assert!(done.tool_result("c").1, "{:?}", done.tool_result("c"));
    }
    let done = play(
        |scratch, server| rules(careful(scratch, server)).env("TOOLOOP_SANDBOX", "off"),
        &scratch,
        &[
            bash("a", "cat link/key"),
            bash("b", "cat plain"),
            bash("c", "cp plain repository/config"),
        ],
    );
    assert!(done.tool_result("a").1 && done.tool_result("c").1);
    assert!(!done.tool_result("a").0.contains("kk-secret"));
    assert!(done.tool_result("b").0.contains("kk-plain"));
    assert_eq!(
        std::fs::read(workspace.join(".git/config")).unwrap(),
        config
    );
}

/// C36: a linked worktree is committed in, and what git obeys stays as it is.
#[test]
fn a_linked_worktree_is_committed_in() {
    needs_sandbox!();
    if !has_git() {
        return;
    }
    let scratch = Scratch::new();
    let main = scratch.outside().join("r");
    git(&main, &["init", "-q"]);
    git(&main, &["commit", "-q", "--allow-empty", "-m", "first"]);
    let tree = scratch.workspace().join("w2");
    git(&main, &["worktree", "add", "-q", tree.to_str().unwrap()]);
    let hooks = contents(&main.join(".git/hooks"));
    let config = std::fs::read(main.join(".git/config")).unwrap();
    let hook = main.join(".git/hooks/post-commit");
    let identity = "git config user.name || export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x@x \
                    GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x@x";
    let in_tree = |scratch: &Scratch, server: &ModelServer| {
        confined(scratch, server).args(["-C", tree.to_str().unwrap()])
    };
    let done = play(
        in_tree,
        &scratch,
        &[
            bash(
                "commit",
                &format!("{identity}; echo a > a; git add a; git commit -m x"),
            ),
            bash("hook", &format!("touch {}", hook.display())),
            bash("config", "git config core.pager x"),
            bash(
                "lead",
                &format!("p={}; echo ../../w2 > $p/.git/commondir", main.display()),
            ),
            bash(
                "branch",
                "git switch -q -c other && git branch -q third && git gc -q",
            ),
        ],
    );
    let (text, is_error) = done.tool_result("commit");
    assert!(!is_error, "{text}");
    assert_eq!(git(&tree, &["log", "--format=%s", "-n1", "w2"]), "x\n");
    let gaps = done.records[0]["sandbox"]["gaps"].to_string();
    if gaps.contains("protected paths inside of writable folders can be changed") {
        println!("not looked at: this sandbox cannot protect what lies in a writable folder");
        return;
    }
    for id in ["hook", "config"] {
        let (text, is_error) = done.tool_result(id);
        assert!(is_error, "{id}: {text}");
    }
    assert!(!main.join(".git/commondir").exists());
    let (text, _) = done.tool_result("lead");
    assert!(text.contains("the sandbox refused making"), "{text}");
    let (text, is_error) = done.tool_result("branch");
    assert!(!is_error, "{text}");
    assert_eq!(contents(&main.join(".git/hooks")), hooks);
    assert_eq!(std::fs::read(main.join(".git/config")).unwrap(), config);
}

#[test]
fn temporary_files_are_the_session_s_own() {
    needs_sandbox!();
    let scratch = Scratch::new();
    let name = format!("tooloop-test-{}", std::process::id());
    let path = format!("/tmp/{name}");
    let done = play(
        confined,
        &scratch,
        &[
            bash(
                "make",
                "f=$(mktemp) && echo hidden > $f && cat $f && echo $TMPDIR",
            ),
            bash(
                "write",
                &format!("echo from-bash > $TMPDIR/{name}; echo end"),
            ),
            bash("tmp", &format!("echo from-tmp > {path}")),
            API.call("read", "read", &json!({"path": path})),
        ],
    );
    assert!(done.tool_result("make").0.starts_with("hidden\n"));
    if done.records[0]["sandbox"]["mechanism"] != "Landlock" {
        let (text, is_error) = done.tool_result("read");
        assert!(!is_error && text.contains("from-tmp"), "{text}");
    } else {
        println!("the temporary folder of the system is not replaced here");
    }
    assert!(!Path::new(&path).exists());
    let shown = done.tool_result("make").0;
    let private = shown.lines().nth(1).unwrap();
    assert!(
        private.contains("tooloop-private-") && !Path::new(private).exists(),
        "{shown}"
    );
}

#[test]
fn jobs_and_terminals_are_held_too() {
    needs_sandbox!(outside);
    let scratch = Scratch::new();
    let marker = outside.path().join("M").display().to_string();
    let job =
        json!({"command": format!("touch {marker}; touch inside"), "run_in_background": true});
    let terminal =
        json!({"action": "start", "command": format!("touch {marker} inside2; echo over")});
    let done = play(
        confined,
        &scratch,
        &[
            API.call("job", "bash", &job),
            API.call(
                "wait",
                "job_output",
                &json!({"id": "job_1", "wait_ms": 30_000}),
            ),
            API.call("term", "terminal", &terminal),
            API.call(
                "look",
                "terminal",
                &json!({"action": "read", "id": "term_1", "wait_ms": 20_000}),
            ),
        ],
    );
    let (text, _) = done.tool_result("wait");
    assert!(text.contains("the sandbox refused writing"), "{text}");
    wait_for_file(&scratch.workspace().join("inside"));
    wait_for_file(&scratch.workspace().join("inside2"));
    assert!(!outside.path().join("M").exists());
}

#[test]
fn nothing_is_written_in_plan_mode_or_where_all_is_read_only() {
    needs_sandbox!();
    let scratch = Scratch::new();
    let plan = |scratch: &Scratch, server: &ModelServer| {
        careful(scratch, server).args(["--permission-mode", "plan"])
    };
    let calls = [
        bash("shell", "touch M"),
        API.call("write", "write", &json!({"path": "M", "content": "x"})),
        bash("look", "ls -a | wc -l"),
    ];
    let done = play(plan, &scratch, &calls);
    assert!(done.tool_result("shell").1 && done.tool_result("write").1);
    assert!(!done.tool_result("look").1);
    let read_only = |scratch: &Scratch, server: &ModelServer| {
        tooloop(scratch, server, API).env("TOOLOOP_SANDBOX", "read-only")
    };
    let done = play(read_only, &scratch, &calls);
    for id in ["shell", "write"] {
        let (text, is_error) = done.tool_result(id);
        assert!(is_error && text.contains("sandbox"), "{id}: {text}");
    }
    assert!(!scratch.workspace().join("M").exists());
}

// ---- what is asked

#[test]
fn what_stays_within_needs_no_question() {
    needs_sandbox!();
    let scratch = Scratch::new();
    let done = play(
        careful,
        &scratch,
        &[bash("a", "echo x > a && mkdir -p b/c && cp a b/c && rm a")],
    );
    let (text, is_error) = done.tool_result("a");
    assert!(!is_error, "{text}");
    assert!(scratch.workspace().join("b/c/a").exists());
    // Not where it was said that it does.
    let asked = |scratch: &Scratch, server: &ModelServer| {
        careful(scratch, server).env("TOOLOOP_SANDBOX_ALLOWS", "false")
    };
    let done = play(asked, &scratch, &[bash("a", "echo x > a")]);
    let (text, is_error) = done.tool_result("a");
    assert!(is_error && text.contains("not covered"), "{text}");
    assert!(!scratch.workspace().join("a").exists());
}

#[test]
fn what_goes_beyond_is_asked_about_before_it_runs() {
    needs_sandbox!(outside);
    let scratch = Scratch::new();
    let marker = outside.path().join("M").display().to_string();
    let done = play(
        careful,
        &scratch,
        &[
            bash("write", &format!("touch started; touch {marker}")),
            bash("net", "touch started; curl -s http://example.com/"),
            granted("grant", "touch started", &[&format!("write:{marker}")]),
            granted("all", "touch started", &["unconfined"]),
        ],
    );
    for id in ["write", "net", "grant", "all"] {
        let (text, is_error) = done.tool_result(id);
        assert!(is_error, "{id}: {text}");
    }
    // Nobody was there to say yes, and nothing was begun.
    assert!(!scratch.workspace().join("started").exists());
    assert!(!outside.path().join("M").exists());
    let denied = done.result()["permission_denials"].as_array().unwrap();
    assert_eq!(denied.len(), 4, "{denied:?}");
}

/// The same, and a program at the other end is asked and may change the mode.
fn hosted(scratch: &Scratch, server: &ModelServer) -> Run {
    careful(scratch, server)
        .args(["--input-format", "stream-json"])
        .args(["--permission-prompt-tool", "stdio"])
        .stdin(Stdin::Silent)
}

/// A program in the workspace of which nobody knows what it writes: to the file that is named.
fn unforeseen(scratch: &Scratch, folder: &str, name: &str) -> PathBuf {
    let script = "#!/bin/sh\necho x >> \"${1:-$PWD/made}\"\n";
    scratch.write(Path::new(folder).join(name), script);
    let path = scratch.workspace().join(folder).join(name);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn what_a_person_grants_or_refuses_for_the_session_is_not_asked_again() {
    needs_sandbox!();
    let Some(outside) = Outside::new() else {
        return;
    };
    let scratch = Scratch::new();
    unforeseen(&scratch, ".", "w");
    let path = |name: &str| outside.path().join(name).display().to_string();
    let grant = format!("write:{}", outside.path().display());
    let server = ModelServer::start([
        granted("a", &format!("./w {}", path("a")), &[&grant]),
        granted("b", &format!("./w {}", path("b")), &[&grant]),
        bash("c", &format!("touch {}", path("c"))),
        bash("d", &format!("echo x > {}", path("c"))),
        bash("e", &format!("touch {}", path("e"))),
        bash("f", &format!("echo x > {}", path("e"))),
        API.say("done"),
    ]);
    let running = hosted(&scratch, &server).start();
    speak(&running, "go");
    for (count, id, yes) in [(1, "a", true), (2, "c", false), (3, "e", true)] {
        let asked = question(&running, count);
        assert_eq!(asked["request"]["tool_use_id"], id);
        assert_eq!(asked["request"]["cause"], "beyond");
        let said = if yes {
            always(&asked, "session")
        } else {
            no("leave it")
        };
        answer(&running, &asked, said);
    }
    wait_for_result(&running, 1);
    running.close_stdin();
    let done = finish(&running);
    assert_eq!(done.answer(), "done");
    assert_eq!(done.of("control_request").len(), 3);
    let failed = ["a", "b", "c", "d", "e", "f"].map(|id| done.tool_result(id).1);
    assert_eq!(failed, [false, false, true, true, false, false]);
    let told = done.tool_result("d").0;
    assert!(told.contains("Sandbox(write:"), "{told}");
    let there = ["a", "b", "c", "e"].map(|name| outside.path().join(name).exists());
    assert_eq!(there, [true, true, false, true]);
    server.assert_clean();
}

#[test]
fn plan_mode_writes_nothing_as_long_as_it_holds() {
    needs_sandbox!();
    let scratch = Scratch::new();
    // What is known to write nothing is not what runs.
    let fake = unforeseen(&scratch, "fake", "ls");
    let folders = std::env::var("PATH").unwrap();
    let folders = format!("{}:{folders}", fake.parent().unwrap().display());
    let turn = |id: &str| [bash(id, "ls"), API.say("ok")];
    let server = ModelServer::start(["a", "b", "c"].map(turn).concat());
    let running = hosted(&scratch, &server).env("PATH", folders).start();
    let made = || {
        let text = std::fs::read_to_string(scratch.workspace().join("made"));
        text.unwrap_or_default().lines().count()
    };
    for (count, mode, expected) in [(1, "default", 1), (2, "plan", 1), (3, "default", 2)] {
        let id = format!("mode-{count}");
        let set = json!({ "subtype": "set_permission_mode", "mode": mode });
        send(
            &running,
            &json!({ "type": "control_request", "request_id": id, "request": set }),
        );
        let answered =
            running.wait_for_record(LONG, |record| record["response"]["request_id"] == id);
        assert_eq!(answered.unwrap().0["response"]["subtype"], "success");
        speak(&running, "go");
        wait_for_result(&running, count);
        assert_eq!(made(), expected, "{mode}");
    }
    running.close_stdin();
    let done = finish(&running);
    assert_eq!(
        ["a", "b", "c"].map(|id| done.tool_result(id).1),
        [false, true, false]
    );
    server.assert_clean();
}

#[test]
fn a_rule_gives_what_is_beyond_and_nothing_else() {
    needs_sandbox!(outside);
    let scratch = Scratch::new();
    let outside = outside.path();
    std::fs::create_dir_all(outside.join("yes")).unwrap();
    std::fs::create_dir_all(outside.join("no")).unwrap();
    let (yes, no) = (outside.join("yes/M"), outside.join("no/M"));
    let rule = format!("Sandbox(write:{}/**)", outside.join("yes").display());
    let ruled = |scratch: &Scratch, server: &ModelServer| {
        confined(scratch, server).args(["--allowedTools", &rule])
    };
    let open = format!("write:{}", yes.display());
    let done = play(
        ruled,
        &scratch,
        &[
            granted("a", &format!("p={}; echo x > $p", yes.display()), &[&open]),
            granted("b", &format!("p={}; echo x > $p", no.display()), &[&open]),
            granted("c", "true", &["network"]),
        ],
    );
    let (text, is_error) = done.tool_result("a");
    assert!(!is_error, "{text}");
    assert!(yes.exists());
    assert!(done.tool_result("b").1 && !no.exists());
    let (text, is_error) = done.tool_result("c");
    assert!(is_error && text.contains("nobody is asked"), "{text}");
}

/// A script in the workspace that creates a file outside of it.
fn script(scratch: &Scratch, file: &Path) {
    let path = scratch.workspace().join("x.sh");
    std::fs::write(
        &path,
        format!("#!/bin/sh\ntouch {}\necho ran\n", file.display()),
    )
    .unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_grant_for_one_part_widens_no_other() {
    needs_sandbox!(outside);
    let scratch = Scratch::new();
    let made = outside.path().join("made");
    script(&scratch, &made);
    let rules = |scratch: &Scratch, server: &ModelServer| {
        careful(scratch, server).args(["--allowedTools", "Bash(docker ps *)"])
    };
    let calls = [
        bash("alone", "./x.sh; true"),
        bash("list", "docker ps; ./x.sh"),
        bash("background", "docker ps & ./x.sh; wait"),
        bash("path", "PATH=.:$PATH; docker ps; ./x.sh"),
        bash("covered", "docker ps 2>&1 | head -n 1"),
    ];
    let done = play(rules, &scratch, &calls);
    assert!(done.tool_result("alone").0.contains("ran"));
    assert!(!made.exists());
    for id in ["list", "background", "path"] {
        let (text, is_error) = done.tool_result(id);
        assert!(
            is_error && text.starts_with("permission denied"),
            "{id}: {text}"
        );
        assert!(text.contains("to run without the sandbox"), "{id}: {text}");
    }
    let (text, _) = done.tool_result("covered");
    assert!(!text.starts_with("permission denied"), "{text}");
}

#[test]
fn a_rule_for_a_program_brings_no_path() {
    needs_sandbox!(outside);
    let scratch = Scratch::new();
    let (made, named) = (outside.path().join("made"), outside.path().join("named"));
    let named_rule = format!("Bash(sort -o {} *)", named.display());
    let rules = |scratch: &Scratch, server: &ModelServer| {
        let run = careful(scratch, server).args(["--allowedTools", "Bash(sort *)"]);
        run.args(["--allowedTools", &named_rule])
    };
    std::fs::write(scratch.workspace().join("in"), "b\na\n").unwrap();
    let calls = [
        bash("a", &format!("sort in -o {}", made.display())),
        bash("b", &format!("sort -o {} in", named.display())),
    ];
    let done = play(rules, &scratch, &calls);
    assert!(done.tool_result("a").0.starts_with("permission denied"));
    assert!(!made.exists());
    assert!(!done.tool_result("b").1, "{}", done.tool_result("b").0);
    assert_eq!(std::fs::read_to_string(&named).unwrap(), "a\nb\n");
}

#[test]
fn a_call_is_judged_where_the_one_before_it_leads() {
    needs_sandbox!(outside);
    let scratch = Scratch::new();
    let added = outside.path().canonicalize().unwrap().join("added");
    std::fs::create_dir_all(added.join("a/b")).unwrap();
    let (deep, back) = (
        format!("cd {}/a/b", added.display()),
        format!("cd {}", added.display()),
    );
    let server = ModelServer::start([
        bash("enter", &deep),
        API.bashes(&[("back", &back), ("escape", "echo x > ../made")]),
        API.bashes(&[("down", "cd a"), ("inside", "echo x > b/in")]),
        API.say("done"),
    ]);
    let run = careful(&scratch, &server).arg("--add-dir").arg(&added);
    let done = finish(&run.arg("go").start());
    assert_eq!(done.answer(), "done");
    let (text, is_error) = done.tool_result("escape");
    assert!(is_error && text.starts_with("permission denied"), "{text}");
    assert!(!outside.path().join("made").exists());
    assert!(added.join("a/b/in").exists());
}

#[test]
fn what_was_not_foreseen_is_refused_with_words_for_asking() {
    needs_sandbox!(outside);
    let scratch = Scratch::new();
    let marker = outside.path().join("M").display().to_string();
    let (head, tail) = marker.split_at(marker.len() / 2);
    let hidden = format!("a={head}; touch \"${{a}}{tail}\"");
    let done = play(confined, &scratch, &[bash("a", &hidden)]);
    let (text, is_error) = done.tool_result("a");
    assert!(is_error, "{text}");
    let ask = format!("call again with \"grant\": [\"write:{marker}\"]");
    assert!(text.contains("(the sandbox refused writing"), "{text}");
    assert!(text.contains(&ask), "{text}");
    assert_eq!(refusals(&done).len(), 1);
    assert!(!outside.path().join("M").exists());
    // What fails for another reason is no refusal.
    let done = play(
        confined,
        &scratch,
        &[bash("a", "cat nothing; touch none/M")],
    );
    assert_eq!(refusals(&done), []);
}

#[test]
fn the_network_is_off_and_its_absence_is_told() {
    needs_sandbox!();
    let scratch = Scratch::new();
    let server = ModelServer::start([API.say("never")]);
    let address = server.base_url();
    let address = address.trim_start_matches("http://").trim_end_matches('/');
    let (host, port) = address.rsplit_once(':').unwrap();
    let connect = format!("h={host}; exec 3<>/dev/tcp/$h/{port} && echo connected");
    let resolve = "h=example.com; getent hosts $h || echo \"Could not resolve host: $h\"";
    let done = play(
        confined,
        &scratch,
        &[bash("a", &connect), bash("b", resolve)],
    );
    let (text, is_error) = done.tool_result("a");
    assert!(is_error && !text.contains("connected"), "{text}");
    assert!(server.requests().is_empty());
    let refused = refusals(&done);
    assert!(
        refused.contains(&("talking to example.com".into(), json!("host:example.com"))),
        "{refused:?}"
    );
}

// ---- settings

#[test]
fn a_folder_can_narrow_the_sandbox_and_not_widen_it() {
    needs_sandbox!(outside);
    let scratch = Scratch::new();
    let settings = scratch.workspace().join(".tooloop/config.toml");
    std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
    let folder = outside;
    let outside = folder.path().display().to_string();
    std::fs::write(
        &settings,
        format!(
            "sandbox = \"off\"\nsandbox_network = \"on\"\nsandbox_writable = [\"{outside}\"]\n"
        ),
    )
    .unwrap();
    let automatic = |scratch: &Scratch, server: &ModelServer| {
        tooloop(scratch, server, API).env("TOOLOOP_SANDBOX", "")
    };
    let done = play(
        automatic,
        &scratch,
        &[bash("a", &format!("touch {outside}/M; touch .tooloop/x"))],
    );
    let sandbox = &done.records[0]["sandbox"];
    assert_eq!(
        (&sandbox["profile"], &sandbox["network"]),
        (&json!("workspace"), &json!("off"))
    );
    assert!(!folder.path().join("M").exists());
    assert!(!scratch.workspace().join(".tooloop/x").exists());
    std::fs::write(&settings, "sandbox = \"read-only\"\n").unwrap();
    let done = play(automatic, &scratch, &[bash("a", "touch M")]);
    assert_eq!(done.records[0]["sandbox"]["profile"], "read-only");
    assert!(done.tool_result("a").1);
}

#[test]
fn settings_of_a_person_widen_and_hide() {
    needs_sandbox!(outside);
    let scratch = Scratch::new();
    let (open, hidden) = (outside.path().join("open"), outside.path().join("hidden"));
    std::fs::create_dir_all(&open).unwrap();
    std::fs::create_dir_all(&hidden).unwrap();
    std::fs::write(hidden.join("key"), "kk-hidden\n").unwrap();
    let key = hidden.join("key").display().to_string();
    let set = |scratch: &Scratch, server: &ModelServer| {
        confined(scratch, server)
            .env("TOOLOOP_SANDBOX_WRITABLE", &open)
            .env("TOOLOOP_SANDBOX_HIDDEN", &hidden)
    };
    let done = play(
        set,
        &scratch,
        &[
            bash("a", &format!("touch {}/M", open.display())),
            bash("b", &format!("cat {key}")),
            API.call("c", "read", &json!({"path": key})),
            API.call(
                "d",
                "write",
                &json!({"path": open.join("N"), "content": "x"}),
            ),
        ],
    );
    assert!(open.join("M").exists() && open.join("N").exists());
    for id in ["b", "c"] {
        let (text, is_error) = done.tool_result(id);
        assert!(is_error && !text.contains("kk-hidden"), "{id}: {text}");
    }
}

// ---- the end

#[test]
fn nothing_of_a_killed_run_is_left() {
    needs_sandbox!();
    let scratch = Scratch::new();
    let sleep = format!("sleep 8{}", std::process::id());
    let command = format!("env -i setsid {sleep} & (setsid {sleep} &) ; touch started; {sleep}");
    let server = ModelServer::start([bash("a", &command)]);
    let running = confined(&scratch, &server).arg("go").start();
    wait_for_file(&scratch.workspace().join("started"));
    kill(&running);
    no_leftovers(&running);
    let gone = tooloop_testkit::wait_until(LONG, || {
        let listed = Command::new("ps").args(["-eo", "args"]).output().unwrap();
        !String::from_utf8_lossy(&listed.stdout).contains(&sleep)
    });
    assert!(gone, "{sleep} is alive");
    // The next run of anybody clears up what it left.
    let done = play(confined, &scratch, &[]);
    assert_eq!(done.answer(), "done");
}

#[test]
fn a_private_folder_is_nobody_else_s() {
    needs_sandbox!();
    let scratch = Scratch::new();
    let server = ModelServer::start([bash("a", "echo $TMPDIR > where; touch started; sleep 300")]);
    let running = confined(&scratch, &server).arg("go").start();
    wait_for_file(&scratch.workspace().join("started"));
    let path = std::fs::read_to_string(scratch.workspace().join("where")).unwrap();
    let mode = Path::new(path.trim())
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700, "{path}");
    kill(&running);
}

// ---- the library's words

#[test]
fn a_wrong_word_is_a_wrong_setting() {
    let scratch = Scratch::new();
    let run =
        bare(&scratch)
            .env("ANTHROPIC_API_KEY", "k")
            .args(["-p", "--sandbox", "strict", "go"]);
    let finished = end(&run.start());
    finished.assert_code(44);
    let words = finished.stderr.text();
    assert!(
        words.contains("auto, workspace, read-only, required, off"),
        "{words}"
    );
}

// ---- what a command leaves behind

/// A grant for a path that does not exist gives nothing beside it, whatever asks for it.
#[test]
fn a_grant_for_a_new_path_gives_only_that_path() {
    needs_sandbox!(outside);
    let outside = outside.path().canonicalize().unwrap();
    let out = outside.display();
    std::fs::write(outside.join("old"), "old\n").unwrap();
    let scratch = Scratch::new();
    let script = "echo x > $1/other; rm -f $1/old; echo y > $1/old; mkdir $1/more; \
                  mkdir -p $1/a; echo x > $1/a/x";
    std::fs::write(
        scratch.workspace().join("s.sh"),
        format!("exec 2>&-; {script}\n"),
    )
    .unwrap();
    // All of a line has the grant, so the script needs a rule of its own.
    let rule = format!("Sandbox(write:{out}/**), Bash(sh s.sh *)");
    let ruled = |scratch: &Scratch, server: &ModelServer| {
        confined(scratch, server).args(["--allowedTools", &rule, "--allowedTools", "Bash(*)"])
    };
    let done = play(
        ruled,
        &scratch,
        &[
            granted(
                "a",
                &format!("sh s.sh {out}; echo new > {out}/new1"),
                &[&format!("write:{out}/new1")],
            ),
            granted(
                "b",
                &format!("sh s.sh {out}; mkdir {out}/dir && (cd {out}/dir && echo in > in)"),
                &[&format!("write:{out}/dir")],
            ),
            granted(
                "c",
                &format!("sh s.sh {out}; mkdir -p {out}/a/b; echo deep > t && mv t {out}/a/b/c"),
                &[&format!("write:{out}/a/b/c")],
            ),
            granted("d", "true", &[&format!("write:{out}/none")]),
            granted(
                "e",
                &format!("touch {out}/empty"),
                &[&format!("write:{out}/empty")],
            ),
        ],
    );
    let (text, _) = done.tool_result("a");
    assert!(text.contains("was granted, so it was dropped"), "{text}");
    let mut found: Vec<String> = contents(&outside)
        .into_iter()
        .map(|(path, bytes)| {
            let path = path.strip_prefix(&outside).unwrap().display().to_string();
            format!("{path}={}", String::from_utf8(bytes).unwrap().trim())
        })
        .collect();
    found.sort();
    assert_eq!(
        found,
        ["a/b/c=deep", "dir/in=in", "empty=", "new1=new", "old=old"],
        "{:?}",
        ["a", "b", "c", "d", "e"].map(|id| done.tool_result(id))
    );
    assert!(!outside.join("more").exists());
}

#[test]
fn new_protected_files_are_removed_and_named() {
    needs_sandbox!();
    let scratch = Scratch::new();
    let names = [
        ".tooloop/config.toml",
        ".mcp.json",
        "a/b/.vscode/tasks.json",
        ".bash_profile",
        ".local/bin/git",
        ".config/systemd/user/x.service",
        ".config/autostart/x.desktop",
    ];
    let lines = names.map(|name| format!("mkdir -p $(dirname {name}); echo x > {name}"));
    std::fs::write(scratch.workspace().join("s.sh"), lines.join("\n")).unwrap();
    let workspace = scratch.workspace().to_owned();
    let at_home =
        |scratch: &Scratch, server: &ModelServer| confined(scratch, server).env("HOME", &workspace);
    let done = play(at_home, &scratch, &[bash("a", "sh s.sh; echo fine > fine")]);
    let (text, _) = done.tool_result("a");
    for name in names {
        assert!(!scratch.workspace().join(name).exists(), "{name}: {text}");
    }
    assert!(
        text.contains(".mcp.json") && text.contains("removed"),
        "{text}"
    );
    assert!(scratch.workspace().join("fine").exists());
}

#[test]
fn repositories_are_protected_at_any_depth() {
    needs_sandbox!();
    if !has_git() {
        return;
    }
    let scratch = Scratch::new();
    let deep = scratch.workspace().join("a/b/c");
    git(&deep, &["init", "-q"]);
    let config = std::fs::read(deep.join(".git/config")).unwrap();
    // As a script: what a line shows is refused by name.
    let attack = "git -C $1 config core.fsmonitor x; echo x > $1/.git/hooks/post-commit; true";
    std::fs::write(scratch.workspace().join("s.sh"), attack).unwrap();
    let commit = "git -c user.name=a -c user.email=a@b commit -qm x";
    let done = play(
        confined,
        &scratch,
        &[
            bash("a", "sh s.sh a/b/c"),
            bash(
                "b",
                &format!("(cd a/b/c && echo x > f && git add f && {commit} && echo made)"),
            ),
            bash("c", "git init -q n && sh s.sh n"),
            bash("d", "sh s.sh n"),
        ],
    );
    assert!(done.tool_result("b").0.contains("made"));
    assert_eq!(std::fs::read(deep.join(".git/config")).unwrap(), config);
    assert!(!deep.join(".git/hooks/post-commit").exists());
    let new = scratch.workspace().join("n/.git");
    let text = std::fs::read_to_string(new.join("config")).unwrap();
    assert!(
        text.contains("bare") && !text.contains("fsmonitor"),
        "{text}"
    );
    assert!(!new.join("hooks/post-commit").exists());
    assert!(done.tool_result("c").0.contains("core.fsmonitor"));
}

/// A commit needs the repository to be written wherever it lies, and nothing of it that names programs.
#[test]
fn commits_work_where_the_repository_lies_elsewhere() {
    needs_sandbox!(outside);
    if !has_git() {
        return;
    }
    let store = outside.path().canonicalize().unwrap();
    let commit =
        "echo y >> n; git add n && git -c user.name=a -c user.email=a@b commit -qm x && echo made";
    let attack =
        "touch \"$(git rev-parse --git-path hooks)/post-commit\"; git config core.pager x; true";
    for form in ["apart", "linked", "objects"] {
        let scratch = Scratch::new();
        let work = scratch.workspace();
        git(&work, &["init", "-q"]);
        let place = store.join(form);
        match form {
            "apart" => drop(git(
                &work,
                &["init", "-q", "--separate-git-dir", place.to_str().unwrap()],
            )),
            "linked" => {
                std::fs::rename(work.join(".git"), &place).unwrap();
                symlink(&place, work.join(".git")).unwrap();
            }
            _ => {
                std::fs::rename(work.join(".git/objects"), &place).unwrap();
                symlink(&place, work.join(".git/objects")).unwrap();
            }
        }
        let done = play(confined, &scratch, &[bash("a", commit), bash("b", attack)]);
        let (text, _) = done.tool_result("a");
        assert!(text.contains("made"), "{form}: {text}");
        let settings = git(&work, &["config", "--list", "--local"]);
        assert!(!settings.contains("pager"), "{form}: {settings}");
        let hooks = git(&work, &["rev-parse", "--git-path", "hooks"]);
        assert!(
            !work.join(hooks.trim()).join("post-commit").exists(),
            "{form}"
        );
    }
}
