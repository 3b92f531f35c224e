//! Repositories whose files lie in several places: what commands may write there, and which project
//! the agent works in.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tooloop_testkit::{ModelServer, Scratch};

use crate::sandbox::{Outside, git, has_git, missing};
use crate::support::{Api, bare, end, finish, tooloop};

const API: Api = Api::Messages;

const COMMIT: &str =
    "echo y >> n; git add n && git -c user.name=a -c user.email=a@b commit -qm x && echo made";

const HOOK: &str = "touch \"$(git rev-parse --git-path hooks)/post-commit\"; echo ran";

const CONFIG: &str = "git config core.pager x; echo ran";

/// A workspace, and the directory in it that the commands work in.
struct Layout {
    workspace: PathBuf,
    directory: PathBuf,
    environment: Vec<(&'static str, PathBuf)>,
}

impl Layout {
    fn new(workspace: PathBuf, below: &str) -> Self {
        let directory = workspace.join(below);
        Self {
            workspace,
            directory,
            environment: Vec::new(),
        }
    }

    /// An absolute path that git names.
    fn git_path(&self, name: &str) -> PathBuf {
        let path = git(&self.directory, &["rev-parse", "--git-path", name]);
        self.directory.join(path.trim()).canonicalize().unwrap()
    }
}

fn repository(folder: &Path) {
    git(folder, &["init", "-q"]);
    fs::write(folder.join("n"), "one\n").unwrap();
    git(folder, &["add", "n"]);
    git(folder, &["commit", "-q", "-m", "first"]);
}

fn move_to(from: &Path, to: &Path) {
    fs::rename(from, to).unwrap();
    symlink(to, from).unwrap();
}

/// A repository with the submodule `lib/m`.
fn with_submodule(base: &Path) -> PathBuf {
    let (module, work) = (base.join("m"), base.join("w"));
    repository(&module);
    repository(&work);
    let from = module.to_str().unwrap();
    git(
        &work,
        &[
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "--quiet",
            "add",
            from,
            "lib/m",
        ],
    );
    git(&work, &["commit", "-q", "-m", "second"]);
    work
}

type Make = fn(&Path) -> Layout;

const LAYOUTS: [(&str, Make); 15] = [
    ("plain", |base| {
        repository(&base.join("w"));
        Layout::new(base.join("w"), "")
    }),
    ("subdirectory", |base| {
        repository(&base.join("w"));
        fs::create_dir_all(base.join("w/a/b")).unwrap();
        Layout::new(base.join("w/a/b"), "")
    }),
    ("separate git directory", |base| {
        repository(&base.join("w"));
        git(
            &base.join("w"),
            &["init", "-q", "--separate-git-dir", "../store"],
        );
        Layout::new(base.join("w"), "")
    }),
    ("linked git directory", |base| {
        repository(&base.join("w"));
        move_to(&base.join("w/.git"), &base.join("store"));
        Layout::new(base.join("w"), "")
    }),
    ("linked objects and hooks", |base| {
        repository(&base.join("w"));
        move_to(&base.join("w/.git/objects"), &base.join("objects"));
        move_to(&base.join("w/.git/hooks"), &base.join("hooks"));
        Layout::new(base.join("w"), "")
    }),
    ("tracked hooks", |base| {
        let work = base.join("w");
        repository(&work);
        fs::remove_dir_all(work.join(".git/hooks")).unwrap();
        fs::create_dir(work.join("githooks")).unwrap();
        fs::write(work.join("githooks/notes"), "x").unwrap();
        git(&work, &["add", "githooks"]);
        git(&work, &["commit", "-q", "-m", "second"]);
        symlink("../githooks", work.join(".git/hooks")).unwrap();
        Layout::new(work, "")
    }),
    ("directory of repositories", |base| {
        repository(&base.join("w/one"));
        repository(&base.join("w/two"));
        Layout::new(base.join("w"), "two")
    }),
    ("alternates", |base| {
        repository(&base.join("from"));
        git(base, &["clone", "-q", "--shared", "from", "w"]);
        Layout::new(base.join("w"), "")
    }),
    ("stores of objects that variables name", |base| {
        let work = base.join("w");
        repository(&work);
        fs::create_dir_all(base.join("objects/pack")).unwrap();
        let mut layout = Layout::new(work, "");
        fs::rename(base.join("w/.git/objects"), base.join("old")).unwrap();
        fs::create_dir(base.join("w/.git/objects")).unwrap();
        layout.environment = vec![
            ("GIT_OBJECT_DIRECTORY", base.join("objects")),
            ("GIT_ALTERNATE_OBJECT_DIRECTORIES", base.join("old")),
        ];
        layout
    }),
    ("worktree of a bare repository", |base| {
        repository(&base.join("from"));
        git(base, &["clone", "-q", "--bare", "from", "bare.git"]);
        git(&base.join("bare.git"), &["worktree", "add", "-q", "../w"]);
        Layout::new(base.join("w"), "")
    }),
    ("repository with a submodule", |base| {
        Layout::new(with_submodule(base), "")
    }),
    ("submodule in the workspace", |base| {
        Layout::new(with_submodule(base), "lib/m")
    }),
    ("submodule", |base| {
        Layout::new(with_submodule(base).join("lib/m"), "")
    }),
    ("worktree of a submodule", |base| {
        let tree = with_submodule(base).join("lib/m");
        git(&tree, &["worktree", "add", "-q", "../../../t"]);
        Layout::new(base.join("t"), "")
    }),
    ("worktree of a repository with a submodule", |base| {
        git(&with_submodule(base), &["worktree", "add", "-q", "../t"]);
        Layout::new(base.join("t"), "")
    }),
];

#[test]
fn commits_work_and_hooks_stay_in_every_layout() {
    if let Some(missing) = missing() {
        println!("skipped: no sandbox can be set up here: {missing}");
        return;
    }
    if !has_git() {
        return;
    }
    let outside = Outside::new();
    // Once below the system's temporary directory, of which commands have one of their own.
    let scratch = Scratch::new();
    let bases = [
        Some(scratch.outside()),
        outside.as_ref().map(|outside| outside.path().to_owned()),
    ];
    let mut wrong = Vec::new();
    for base in bases.into_iter().flatten() {
        for (number, (name, make)) in LAYOUTS.into_iter().enumerate() {
            let base = base.canonicalize().unwrap().join(number.to_string());
            fs::create_dir(&base).unwrap();
            let layout = make(&base);
            if let Err(seen) = check_layout(&layout) {
                wrong.push(format!("{name} in {}: {seen}", base.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Commits and writes to hooks and settings. `Err`: what went wrong.
fn check_layout(layout: &Layout) -> Result<(), String> {
    // Each run is replayed with all that its home holds.
    let scratch = Scratch::new();
    let state = || {
        let (hooks, config) = (layout.git_path("hooks"), layout.git_path("config"));
        (contents(&hooks), fs::read_to_string(config).unwrap())
    };
    let head = || git(&layout.directory, &["rev-parse", "HEAD"]);
    let before = (state(), head());
    let calls = [("commit", COMMIT), ("hook", HOOK), ("config", CONFIG)];
    let directory = layout.directory.display();
    let replies = calls.map(|(id, line)| API.bash(id, &format!("cd '{directory}' && {line}")));
    let server = ModelServer::start(replies.into_iter().chain([API.say("done")]));
    let run = |server: &ModelServer, sandbox: &str| {
        let run = tooloop(&scratch, server, API)
            .env("TOOLOOP_SANDBOX", sandbox)
            .args(["-C", layout.workspace.to_str().unwrap(), "go"]);
        let environment = layout.environment.iter();
        environment.fold(run, |run, (name, path)| {
            run.env(name, path.to_str().unwrap())
        })
    };
    let done = finish(&run(&server, "required").start());
    assert_eq!(done.answer(), "done");
    server.assert_clean();
    let texts = calls.map(|(id, _)| done.tool_result(id).0);
    let after = (state(), head());
    // What is only read is seen there too.
    let show = format!("cd '{directory}' && git cat-file -e HEAD^{{tree}} && echo shown");
    let server = ModelServer::start([API.bash("show", &show), API.say("done")]);
    let shown = finish(&run(&server, "read-only").start())
        .tool_result("show")
        .0;
    let ran = ["made", "ran", "ran"];
    let hook = layout.git_path("hooks").join("post-commit");
    let config = layout.git_path("config");
    let is_right = std::iter::zip(&texts, ran).all(|(text, word)| text.contains(word))
        && texts[1].contains(hook.to_str().unwrap())
        && texts[2].contains(config.to_str().unwrap())
        && after.0 == before.0
        && after.1 != before.1;
    (is_right && shown.contains("shown"))
        .then_some(())
        .ok_or_else(|| format!("{texts:#?} {shown}"))
}

fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .map(|path| (path.clone(), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

/// A repository with instructions of its own, on a branch.
fn project(folder: &Path, branch: &str) {
    git(folder, &["init", "-q", "-b", branch]);
    fs::write(folder.join("n"), "one\n").unwrap();
    fs::write(folder.join("AGENTS.md"), format!("INSTRUCTIONS-{branch}\n")).unwrap();
    git(folder, &["add", "."]);
    git(folder, &["commit", "-q", "-m", "first"]);
}

#[test]
fn each_layout_has_its_own_project() {
    if !has_git() {
        return;
    }
    let scratch = Scratch::new();
    let base = scratch.outside().canonicalize().unwrap();
    fs::write(base.join("AGENTS.md"), "INSTRUCTIONS-none\n").unwrap();
    let at = |name: &str| base.join(name);
    project(&at("m"), "part");
    project(&at("w"), "whole");
    let part = at("m").display().to_string();
    let add = ["submodule", "--quiet", "add", &part, "lib/m"];
    git(
        &at("w"),
        &[&["-c", "protocol.file.allow=always"][..], &add].concat(),
    );
    git(&at("w"), &["commit", "-q", "-m", "second"]);
    git(&at("w"), &["worktree", "add", "-q", "../tree"]);
    git(
        &at("w/lib/m"),
        &["worktree", "add", "-q", "../../../part-tree"],
    );
    git(&base, &["clone", "-q", "--bare", "w", "bare.git"]);
    git(&at("bare.git"), &["worktree", "add", "-q", "../bare-tree"]);
    project(&at("apart"), "apart");
    git(
        &at("apart"),
        &["init", "-q", "--separate-git-dir", "../store"],
    );
    fs::create_dir(at("apart/sub")).unwrap();
    fs::write(at("apart/sub/n"), "one\n").unwrap();
    git(&at("apart"), &["add", "sub"]);
    git(&at("apart"), &["commit", "-q", "-m", "second"]);
    let home = Scratch::new();
    let notes = |directory: &str| {
        let run = bare(&home)
            .args(["memory", "path"])
            .directory(at(directory));
        end(&run.start()).stdout.text()
    };
    // Directory, branch, instructions, and the directory that has the same notes.
    let table = [
        ("w", "whole", "whole", "w"),
        ("w/lib/m", "part", "part", "w/lib/m"),
        ("tree", "tree", "whole", "w"),
        ("part-tree", "part-tree", "part", "w/lib/m"),
        ("bare-tree", "bare-tree", "whole", "bare.git"),
        ("apart/sub", "apart", "apart", "apart"),
    ];
    for (directory, branch, instructions, project) in table {
        assert_eq!(notes(directory), notes(project), "{directory}");
        let home = Scratch::new();
        let line = "git branch --show-current; echo two > n";
        let server = ModelServer::start([API.bash("a", line), API.say("done")]);
        let place = at(directory);
        let run = tooloop(&home, &server, API).args(["-C", place.to_str().unwrap(), "go"]);
        let done = finish(&run.start());
        assert_eq!(done.answer(), "done", "{directory}");
        assert!(done.tool_result("a").0.starts_with(branch), "{directory}");
        let request = server.request(0);
        let named = ["whole", "part", "apart", "none"]
            .into_iter()
            .filter(|name| request.mentions(&format!("INSTRUCTIONS-{name}")));
        assert_eq!(named.collect::<Vec<_>>(), [instructions], "{directory}");
        assert!(
            request.mentions(&format!("Git branch: {branch}\n")),
            "{directory}: {}",
            request.body
        );
        let file = place.join("n");
        assert_eq!(fs::read_to_string(&file).unwrap(), "two\n", "{directory}");
        let arguments = ["sessions", "rewind", &done.session(), "1"];
        let rewound = end(&bare(&home).args(arguments).start());
        assert_eq!(rewound.code, Some(0), "{directory}: {rewound}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "one\n", "{directory}");
    }
}
