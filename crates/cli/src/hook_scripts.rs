//! Hooks whose scripts have changed since the run began are not run: a command could otherwise choose
//! what runs as a hook.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde_json::Value;
use tooloop::hooks::{HookEnd, HookEvent, HookOutcome, HookRule, HookRunner};

use crate::settings;

/// The largest script in bytes whose content is compared, as for trust.
const LARGEST: u64 = 64 << 20;

/// Endings of files that an interpreter runs without a mark of their own.
const SCRIPT_ENDINGS: [&str; 14] = [
    "sh", "bash", "zsh", "fish", "py", "js", "mjs", "cjs", "ts", "rb", "pl", "php", "lua", "ps1",
];

/// What a named file is.
#[derive(Debug, PartialEq)]
enum Found {
    NoScript,
    Unreadable,
    Script(blake3::Hash),
    /// Too large to be read before each start: its length, inode and last change
    /// (`st_size`, `st_ino`, `st_ctime` with nanoseconds).
    Large(u64, u64, (i64, i64)),
}

/// Runs the hooks of a runner while the scripts that they name stay unchanged.
#[derive(Debug)]
pub(crate) struct KnownScripts {
    commands: Arc<dyn HookRunner>,
    /// By the command of a hook: the files of the workspace that it names.
    scripts: BTreeMap<String, Arc<BTreeMap<PathBuf, Found>>>,
}

impl KnownScripts {
    /// Reads the scripts of the workspace that these hooks name.
    pub(crate) fn new(commands: Arc<dyn HookRunner>, rules: &[HookRule], workspace: &Path) -> Self {
        let scripts = rules.iter().map(|rule| {
            let paths = settings::named_scripts(&rule.command, workspace);
            let found = paths.into_iter().map(|path| {
                let script = look(&path);
                (path, script)
            });
            (rule.command.clone(), Arc::new(found.collect()))
        });
        let scripts = scripts.collect();
        Self { commands, scripts }
    }
}

impl HookRunner for KnownScripts {
    fn run(&self, rule: &HookRule, input: Value) -> BoxFuture<'static, HookOutcome> {
        let run = self.commands.run(rule, input);
        let scripts = match self.scripts.get(&rule.command) {
            Some(scripts) if !scripts.is_empty() => Arc::clone(scripts),
            _ => return run,
        };
        let (event, source) = (rule.event, rule.source.clone());
        async move {
            // Files are read where they hold up no other work.
            let changed = tokio::task::spawn_blocking(move || changed(&scripts)).await;
            let why = match changed {
                Ok(None) => return run.await,
                Ok(Some(path)) => {
                    format!("{} has changed since this run began", path.display())
                }
                Err(error) => format!("it could not be compared: {error}"),
            };
            refused(event, format!(
                "the hook of {source} was not run: its script {why}. Start a new run to use the \
                 changed script."
            ))
        }
        .boxed()
    }
}

fn changed(scripts: &BTreeMap<PathBuf, Found>) -> Option<PathBuf> {
    let mut scripts = scripts.iter();
    let changed = scripts.find(|(path, before)| look(path) != **before);
    changed.map(|(path, _)| path.clone())
}

/// The outcome of a hook that is not run: what it might have refused is refused.
fn refused(event: HookEvent, reason: String) -> HookOutcome {
    match event {
        HookEvent::PreToolUse | HookEvent::PermissionRequest | HookEvent::UserPromptSubmit => {
            HookOutcome::exited(2, "", reason)
        }
        HookEvent::PostToolUse
        | HookEvent::PostToolUseFailure
        | HookEvent::Stop
        | HookEvent::SubagentStart
        | HookEvent::SubagentStop
        | HookEvent::SessionStart
        | HookEvent::SessionEnd
        | HookEvent::PreCompact
        | HookEvent::Notification => HookOutcome {
            end: HookEnd::Failed { reason },
            ..HookOutcome::exited(0, "", "")
        },
    }
}

/// Reads what a path names now. Links are followed.
fn look(path: &Path) -> Found {
    // A pipe without a writer would block the plain call.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut file = match rustix::fs::open(path, flags, rustix::fs::Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL) => {
            return Found::NoScript;
        }
        Err(_) => return Found::Unreadable,
    };
    let Ok(metadata) = file.metadata() else {
        return Found::Unreadable;
    };
    if !metadata.is_file() {
        return Found::NoScript;
    }
    let ending = path.extension().and_then(|ending| ending.to_str());
    let mut first = Vec::new();
    if (&file).take(2).read_to_end(&mut first).is_err() || file.rewind().is_err() {
        return Found::Unreadable;
    }
    let is_script = metadata.mode() & 0o111 != 0
        || first == b"#!"
        || ending.is_some_and(|ending| SCRIPT_ENDINGS.contains(&ending));
    if !is_script {
        return Found::NoScript;
    }
    if metadata.len() > LARGEST {
        let last_change = (metadata.ctime(), metadata.ctime_nsec());
        return Found::Large(metadata.len(), metadata.ino(), last_change);
    }
    let mut hasher = blake3::Hasher::new();
    match hasher.update_reader(file.take(LARGEST)) {
        Ok(_) => Found::Script(hasher.finalize()),
        Err(_) => Found::Unreadable,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[derive(Debug)]
    struct Ran;

    impl HookRunner for Ran {
        fn run(&self, _: &HookRule, _: Value) -> BoxFuture<'static, HookOutcome> {
            std::future::ready(HookOutcome::exited(0, "ran", "")).boxed()
        }
    }

    async fn outcome(scripts: &KnownScripts, rule: &HookRule) -> HookOutcome {
        scripts.run(rule, Value::Null).await
    }

    #[tokio::test]
    async fn changed_scripts_are_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        let write = |name: &str, text: &str| fs::write(workspace.join(name), text).unwrap();
        write("a.sh", "exit 0\n");
        write("data.json", "{}");
        let table = [
            ("./a.sh", "a.sh"),
            ("bash a.sh", "a.sh"),
            ("\"$TOOLOOP_PROJECT_DIR\"/a.sh --quiet", "a.sh"),
            ("./later.sh", "later.sh"),
        ];
        for (command, changes) in table {
            let rule = HookRule::new(HookEvent::PreToolUse, command);
            let scripts = KnownScripts::new(Arc::new(Ran), std::slice::from_ref(&rule), &workspace);
            assert_eq!(outcome(&scripts, &rule).await.stdout, "ran", "{command}");
            write("data.json", "{\"changed\": 1}");
            assert_eq!(outcome(&scripts, &rule).await.stdout, "ran", "{command}");
            write(changes, &format!("echo {command}\n"));
            let refused = outcome(&scripts, &rule).await;
            assert_eq!(refused.end, HookEnd::Exited(2), "{command}");
            assert!(refused.stderr.contains("has changed"), "{}", refused.stderr);
        }
        let rule = HookRule::new(HookEvent::Stop, "./a.sh < data.json");
        let scripts = KnownScripts::new(Arc::new(Ran), std::slice::from_ref(&rule), &workspace);
        fs::remove_file(workspace.join("a.sh")).unwrap();
        let outcome = outcome(&scripts, &rule).await;
        assert!(matches!(outcome.end, HookEnd::Failed { .. }), "{outcome:?}");
    }

    #[tokio::test]
    async fn links_to_scripts_count_as_scripts() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        fs::write(workspace.join("one.sh"), "exit 0\n").unwrap();
        fs::write(workspace.join("two.sh"), "exit 1\n").unwrap();
        let link = workspace.join("hook.sh");
        std::os::unix::fs::symlink("one.sh", &link).unwrap();
        let rule = HookRule::new(HookEvent::PreToolUse, "./hook.sh");
        let scripts = KnownScripts::new(Arc::new(Ran), std::slice::from_ref(&rule), &workspace);
        assert_eq!(outcome(&scripts, &rule).await.stdout, "ran");
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("two.sh", &link).unwrap();
        assert_eq!(outcome(&scripts, &rule).await.end, HookEnd::Exited(2));
    }

    #[tokio::test]
    async fn pipes_and_large_files_are_no_hindrance() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        let pipe = workspace.join("pipe.sh");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        let large = workspace.join("large.sh");
        let file = File::create(&large).unwrap();
        file.set_len(LARGEST + 1).unwrap();
        let rule = HookRule::new(HookEvent::PreToolUse, "./large.sh < pipe.sh");
        let scripts = KnownScripts::new(Arc::new(Ran), std::slice::from_ref(&rule), &workspace);
        assert_eq!(outcome(&scripts, &rule).await.stdout, "ran");
        file.set_len(LARGEST + 2).unwrap();
        assert_eq!(outcome(&scripts, &rule).await.end, HookEnd::Exited(2));
    }
}
