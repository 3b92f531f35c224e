//! The tool by which the model keeps its notes.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use schemars::JsonSchema;
use serde::Deserialize;
use tooloop_policy::Access;
use tooloop_tool::{Scope, Tool, ToolContext, ToolError, ToolOutput};

use super::store::{MemoryError, MemoryStore, Seen, hash};

/// Takes secrets out of a text.
type Mask = dyn Fn(&str) -> String + Send + Sync;

/// Reads and writes the notes of a project.
///
/// It asks nobody: by names it reaches nothing but the notes, which a person can look at and take away.
pub struct MemoryTool {
    store: MemoryStore,
    mask: Arc<Mask>,
    /// The notes as this session has seen them.
    seen: Arc<Mutex<HashMap<String, Seen>>>,
}

/// What the model passes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryInput {
    /// What to do.
    pub action: MemoryAction,
    /// The note, such as `build`; not for list.
    #[serde(default)]
    pub name: Option<String>,
    /// For write: one line for the index. For edit: a new one.
    #[serde(default)]
    pub about: Option<String>,
    /// For write: the whole note.
    #[serde(default)]
    pub text: Option<String>,
    /// For edit: a text that is there once.
    #[serde(default)]
    pub old: Option<String>,
    /// For edit: what takes its place.
    #[serde(default)]
    pub new: Option<String>,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
#[expect(
    missing_docs,
    reason = "docs would be sent to the model with each request"
)]
pub enum MemoryAction {
    List,
    View,
    Write,
    Edit,
    Delete,
}

impl fmt::Debug for MemoryTool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("MemoryTool")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

impl MemoryTool {
    /// A tool for these notes. `mask` takes secrets out of all that is written.
    pub fn new(store: MemoryStore, mask: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self {
            store,
            mask: Arc::new(mask),
            seen: Arc::default(),
        }
    }
}

impl Tool for MemoryTool {
    type Input = MemoryInput;

    fn name(&self) -> &'static str {
        "memory"
    }

    fn description(&self) -> &'static str {
        "Your notes on this project, kept for later sessions; the index of them is in the system prompt. View \
         a note before you rely on it. Write down what later work needs and files do not say, such as what \
         the user prefers; never secrets. Mend or delete what is wrong."
    }

    fn access(&self, input: &MemoryInput) -> Access {
        match input.action {
            MemoryAction::List | MemoryAction::View => Access::read_only(),
            MemoryAction::Write | MemoryAction::Edit | MemoryAction::Delete => Access::session(),
        }
    }

    async fn run(&self, input: MemoryInput, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        let work = Work {
            store: self.store.clone(),
            mask: Arc::clone(&self.mask),
            seen: Arc::clone(&self.seen),
        };
        let done = tokio::task::spawn_blocking(move || work.run(input)).await;
        let done = done.map_err(|error| ToolError::Failed(error.to_string()))?;
        done.map(ToolOutput::text)
    }

    fn for_session(&self, _: &Scope) -> Option<Self> {
        Some(Self {
            store: self.store.clone(),
            mask: Arc::clone(&self.mask),
            seen: Arc::default(),
        })
    }
}

/// A call, on a thread of its own.
struct Work {
    store: MemoryStore,
    mask: Arc<Mask>,
    seen: Arc<Mutex<HashMap<String, Seen>>>,
}

impl Work {
    fn run(&self, input: MemoryInput) -> Result<String, ToolError> {
        let MemoryInput {
            action,
            name,
            about,
            text,
            old,
            new,
        } = input;
        let told = |error: MemoryError| ToolError::Failed(error.to_string());
        if action == MemoryAction::List {
            return self.list().map_err(told);
        }
        let name = needed("name", name)?;
        match action {
            MemoryAction::List => self.list().map_err(told),
            MemoryAction::View => {
                let text = self.store.view(&name).map_err(told)?;
                self.see(&name, hash(&text));
                Ok(text)
            }
            MemoryAction::Write => {
                let text = (self.mask)(&needed("text", text)?);
                let about = (self.mask)(&needed("about", about)?);
                let seen = self.seen(&name);
                let seen = self.store.write(&name, &text, &about, seen).map_err(told)?;
                self.see(&name, seen);
                Ok(format!("the note {name} is written"))
            }
            MemoryAction::Edit => {
                let (old, new) = (needed("old", old)?, (self.mask)(&needed("new", new)?));
                let about = about.map(|about| (self.mask)(&about));
                let seen = self.store.edit(&name, &old, &new, about.as_deref());
                self.see(&name, seen.map_err(told)?);
                Ok(format!("the note {name} is changed"))
            }
            MemoryAction::Delete => {
                self.store
                    .delete_seen(&name, self.seen(&name))
                    .map_err(told)?;
                Ok(format!("the note {name} is deleted"))
            }
        }
    }

    fn list(&self) -> Result<String, MemoryError> {
        let notes = self.store.list()?;
        if notes.is_empty() {
            return Ok("there are no notes".into());
        }
        let lines = notes
            .iter()
            .map(|note| format!("{}: {}\n", note.name, note.about));
        Ok(lines.collect())
    }

    fn seen(&self, name: &str) -> Option<Seen> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(name).copied()
    }

    fn see(&self, name: &str, state: Seen) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(name.to_owned(), state);
    }
}

fn needed(field: &str, value: Option<String>) -> Result<String, ToolError> {
    value.ok_or_else(|| ToolError::InvalidInput {
        tool: "memory".into(),
        problem: format!("missing field `{field}` for this action"),
    })
}
