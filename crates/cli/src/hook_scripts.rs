//! Hooks whose scripts have changed since the run began are not run: a command could otherwise choose
//! what runs as a hook.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tooloop::hooks::{HookEnd, HookEvent, HookOutcome, HookRule, HookRunner};

use crate::settings;

/// The largest script in bytes, as for trust.
const LARGEST: u64 = 64 << 20;

/// Endings of files that an interpreter runs without a mark of their own.
const SCRIPT_ENDINGS: [&str; 14] = [
    "sh", "bash", "zsh", "fish", "py", "js", "mjs", "cjs", "ts", "rb", "pl", "php", "lua", "ps1",
];

/// What a named file is: `None` if it is no script, else its hash, or none if it cannot be read.
type Found = Option<Option<blake3::Hash>>;

/// Runs the hooks of a runner while the scripts that they name stay as they were at the start.
#[derive(Debug)]
pub(crate) struct KnownScripts {
    commands: Arc<dyn HookRunner>,
    /// By the command of a hook: the files of the workspace that it names.
    scripts: BTreeMap<String, BTreeMap<PathBuf, Found>>,
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
            (rule.command.clone(), found.collect())
        });
        let scripts = scripts.collect();
        Self { commands, scripts }
    }

    fn changed(&self, rule: &HookRule) -> Option<&Path> {
        let mut scripts = self.scripts.get(&rule.command)?.iter();
        let changed = scripts.find(|(path, before)| look(path) != **before);
        changed.map(|(path, _)| path.as_path())
    }
}

impl HookRunner for KnownScripts {
    fn run(&self, rule: &HookRule, input: Value) -> BoxFuture<'static, HookOutcome> {
        let Some(path) = self.changed(rule) else {
            return self.commands.run(rule, input);
        };
        let reason = format!(
            "the hook of {} was not run: its script {} has changed since this run began. Start a new \
             run to use the changed script.",
            rule.source,
            path.display()
        );
        let outcome = match rule.event {
            // What the hook might have refused is refused.
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
        };
        std::future::ready(outcome).boxed()
    }
}

/// Reads what a path names now. Links are followed.
fn look(path: &Path) -> Found {
    let file = File::open(path).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() {
        return None;
    }
    if metadata.len() > LARGEST {
        return Some(None);
    }
    let mut bytes = Vec::new();
    if file.take(LARGEST).read_to_end(&mut bytes).is_err() {
        return Some(None);
    }
    let ending = path.extension().and_then(|ending| ending.to_str());
    let is_script = is_executable(&metadata)
        || bytes.starts_with(b"#!")
        || ending.is_some_and(|ending| SCRIPT_ENDINGS.contains(&ending));
    is_script.then(|| Some(blake3::hash(&bytes)))
}

fn is_executable(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o111 != 0
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

    fn outcome(scripts: &KnownScripts, rule: &HookRule) -> HookOutcome {
        let outcome = scripts.run(rule, Value::Null).now_or_never();
        outcome.unwrap()
    }

    #[test]
    fn changed_scripts_are_not_run() {
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
            assert_eq!(outcome(&scripts, &rule).stdout, "ran", "{command}");
            write("data.json", "{\"changed\": 1}");
            assert_eq!(outcome(&scripts, &rule).stdout, "ran", "{command}");
            write(changes, &format!("echo {command}\n"));
            let refused = outcome(&scripts, &rule);
            assert_eq!(refused.end, HookEnd::Exited(2), "{command}");
            assert!(refused.stderr.contains("has changed"), "{}", refused.stderr);
        }
        let rule = HookRule::new(HookEvent::Stop, "./a.sh < data.json");
        let scripts = KnownScripts::new(Arc::new(Ran), std::slice::from_ref(&rule), &workspace);
        fs::remove_file(workspace.join("a.sh")).unwrap();
        let outcome = outcome(&scripts, &rule);
        assert!(matches!(outcome.end, HookEnd::Failed { .. }), "{outcome:?}");
    }

    #[test]
    fn links_to_scripts_count_as_scripts() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        fs::write(workspace.join("one.sh"), "exit 0\n").unwrap();
        fs::write(workspace.join("two.sh"), "exit 1\n").unwrap();
        let link = workspace.join("hook.sh");
        std::os::unix::fs::symlink("one.sh", &link).unwrap();
        let rule = HookRule::new(HookEvent::PreToolUse, "./hook.sh");
        let scripts = KnownScripts::new(Arc::new(Ran), std::slice::from_ref(&rule), &workspace);
        assert_eq!(outcome(&scripts, &rule).stdout, "ran");
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("two.sh", &link).unwrap();
        assert_eq!(outcome(&scripts, &rule).end, HookEnd::Exited(2));
    }
}
