//! A workspace with both tools in it.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tooloop_model::{Content, JsonObject};
use tooloop_tool::{DynTool, ToolContext, ToolError, ToolOutput, tool};
use tooloop_tools::{Glob, Grep, SearchSettings};

/// Both tools in a workspace of their own.
pub(crate) struct Room {
    pub(crate) glob: Arc<dyn DynTool>,
    pub(crate) grep: Arc<dyn DynTool>,
    _folder: tempfile::TempDir,
    pub(crate) workspace: PathBuf,
    pub(crate) context: ToolContext,
}

impl Room {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut SearchSettings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap().join("work");
        fs::create_dir(&workspace).unwrap();
        let mut settings = SearchSettings::default();
        change(&mut settings);
        Self {
            glob: tool(Glob::new(settings.clone())),
            grep: tool(Grep::new(settings)),
            context: ToolContext::new(&workspace),
            workspace,
            _folder: folder,
        }
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.workspace.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    /// Files of no content, each older than the one before it.
    pub(crate) fn touch(&self, paths: &[&str]) -> &Self {
        let newest = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        for (age, path) in (0_u64..).zip(paths) {
            self.write(path, "")
                .age(path, newest - Duration::from_secs(age));
        }
        self
    }

    pub(crate) fn age(&self, path: &str, modified: SystemTime) -> &Self {
        let file = fs::File::options()
            .append(true)
            .open(self.workspace.join(path))
            .unwrap();
        file.set_modified(modified).unwrap();
        self
    }

    pub(crate) async fn call(
        &self,
        tool: &Arc<dyn DynTool>,
        input: Value,
    ) -> Result<ToolOutput, ToolError> {
        let input = JsonObject::parse(&input.to_string()).unwrap();
        tool.run(&input, &self.context).await
    }

    pub(crate) async fn glob(&self, input: Value) -> String {
        text(&self.call(&self.glob, input).await.unwrap())
    }

    pub(crate) async fn grep(&self, input: Value) -> String {
        text(&self.call(&self.grep, input).await.unwrap())
    }

    pub(crate) async fn glob_error(&self, input: Value) -> String {
        self.call(&self.glob, input).await.unwrap_err().to_string()
    }

    pub(crate) async fn grep_error(&self, input: Value) -> String {
        self.call(&self.grep, input).await.unwrap_err().to_string()
    }
}

pub(crate) fn text(output: &ToolOutput) -> String {
    assert!(!output.is_error);
    match output.content.as_slice() {
        [Content::Text(text)] => text.clone(),
        other => panic!("{other:?}"),
    }
}

/// Runs one test of this program once more, in a process of its own: as nobody, whom permissions
/// bind even where the tests run as root, and with these variables. `None` in that process itself.
pub(crate) fn rerun(test: &str, as_nobody: bool, variables: &[(&str, &str)]) -> Option<()> {
    const MARK: &str = "SEARCH_TEST_RERUN";
    if std::env::var_os(MARK).is_some() {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    // Where everybody may run it.
    let program = folder.path().join("test");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(folder.path(), open).unwrap();
    let mut command = Command::new(program);
    command
        .args([test, "--exact", "--nocapture"])
        .env(MARK, "1")
        .env("TMPDIR", folder.path())
        .envs(variables.iter().copied())
        .current_dir(folder.path());
    if as_nobody && rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
    Some(())
}
