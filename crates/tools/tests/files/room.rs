//! The file tools of a session, in a workspace of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tooloop_exec::Processes;
use tooloop_model::{Content, JsonObject};
use tooloop_tool::{DynTool, Registry, Scope, ToolContext, ToolError, ToolOutput, tool};
use tooloop_tools::{ApplyPatch, Edit, LocalOps, Ops, Read, Write};

pub(crate) struct Room {
    tools: Registry,
    pub(crate) context: ToolContext,
    pub(crate) workspace: PathBuf,
    _folder: Option<tempfile::TempDir>,
}

pub(crate) fn registry(ops: &Arc<dyn Ops>) -> Registry {
    let mut tools = Registry::new();
    tools.add(tool(Read::new(ops.clone()))).unwrap();
    tools.add(tool(Write::new(ops.clone()))).unwrap();
    tools.add(tool(Edit::new(ops.clone()))).unwrap();
    tools.add(tool(ApplyPatch::new(ops.clone()))).unwrap();
    tools
}

pub(crate) fn local() -> Arc<dyn Ops> {
    Arc::new(LocalOps::new(Processes::new().unwrap()))
}

impl Room {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        let mut room = Self::on(local(), &workspace);
        room._folder = Some(folder);
        room
    }

    pub(crate) fn on(ops: Arc<dyn Ops>, workspace: &Path) -> Self {
        Self {
            tools: registry(&ops).for_session(&Scope::new()),
            context: ToolContext::new(workspace),
            workspace: workspace.to_owned(),
            _folder: None,
        }
    }

    pub(crate) fn tool(&self, name: &str) -> &Arc<dyn DynTool> {
        self.tools.get(name).unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.workspace.join(name)
    }

    pub(crate) fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.workspace)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    pub(crate) async fn call(&self, name: &str, input: Value) -> Result<ToolOutput, ToolError> {
        let input = JsonObject::parse(&input.to_string()).unwrap();
        self.tool(name).run(&input, &self.context).await
    }

    pub(crate) async fn ok(&self, name: &str, input: Value) -> String {
        let output = self.call(name, input).await.unwrap();
        assert!(!output.is_error);
        text(&output).to_owned()
    }

    pub(crate) async fn fail(&self, name: &str, input: Value) -> String {
        self.call(name, input).await.unwrap_err().to_string()
    }

    pub(crate) async fn read(&self, path: &str) -> String {
        self.ok("read", json!({ "path": path })).await
    }

    pub(crate) async fn write(&self, path: &str, content: &str) -> String {
        self.ok("write", json!({ "path": path, "content": content }))
            .await
    }

    pub(crate) async fn edit(&self, path: &str, old: &str, new: &str) -> String {
        self.ok("edit", json!({ "path": path, "old": old, "new": new }))
            .await
    }

    /// The error of an edit, which must not have touched the file.
    pub(crate) async fn no_edit(&self, path: &str, old: &str, new: &str) -> String {
        let state = |path: &str| {
            let metadata = fs::metadata(self.path(path)).unwrap();
            (self.bytes(path), metadata.modified().unwrap())
        };
        let before = state(path);
        let error = self
            .fail("edit", json!({ "path": path, "old": old, "new": new }))
            .await;
        assert!(before == state(path), "{path} is touched");
        error
    }

    pub(crate) async fn patch(&self, patch: &str) -> String {
        self.ok("apply_patch", json!({ "patch": patch })).await
    }

    pub(crate) async fn no_patch(&self, patch: &str) -> String {
        self.fail("apply_patch", json!({ "patch": patch })).await
    }
}

pub(crate) fn text(output: &ToolOutput) -> &str {
    match output.content.as_slice() {
        [Content::Text(text)] => text,
        other => panic!("{other:?}"),
    }
}
