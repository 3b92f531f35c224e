//! The plan of a session: a short list of what is to be done.
//!
//! It lives in memory, and its newest state stands in the conversation as the newest result.

use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::Deserialize;
use tooloop_policy::Access;
use tooloop_tool::{Carried, Scope, Tool, ToolContext, ToolError, ToolOutput, Withheld};

/// The most items of a list.
const MAX_ITEMS: usize = 20;

/// The most characters of an item.
const MAX_CHARACTERS: usize = 200;

/// After so many steps without it the plan is recalled, and again after so many more.
const REMIND_AFTER: u32 = 3;

/// Keeps the list of what is to be done: one for each session.
#[derive(Debug, Default)]
pub struct Todo {
    items: Mutex<Vec<TodoItem>>,
}

/// What the model passes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TodoInput {
    /// The whole list; it replaces the old one.
    #[schemars(length(max = 20))]
    pub items: Vec<TodoItem>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TodoItem {
    /// What is to be done.
    pub content: String,
    /// How far it is. At most one item is in progress.
    pub status: TodoStatus,
}

/// How far an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum TodoStatus {
    // Without docs of their own the values go to the model as one short list.
    #[expect(
        missing_docs,
        reason = "docs would be sent to the model with each request"
    )]
    Pending,
    #[expect(
        missing_docs,
        reason = "docs would be sent to the model with each request"
    )]
    InProgress,
    #[expect(
        missing_docs,
        reason = "docs would be sent to the model with each request"
    )]
    Completed,
}

impl Todo {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The list as it stands.
    #[must_use]
    pub fn items(&self) -> Vec<TodoItem> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<TodoItem>> {
        // A list is replaced whole: a panic elsewhere cannot have left it half changed.
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tool for Todo {
    type Input = TodoInput;

    fn name(&self) -> &'static str {
        "todo"
    }

    fn description(&self) -> &'static str {
        "Keeps your plan for work of three steps or more: pass the whole list each time, mark an \
         item in_progress before you begin it and completed as soon as it is done."
    }

    fn access(&self, _: &TodoInput) -> Access {
        Access::session()
    }

    async fn run(&self, input: TodoInput, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        if let Some(problem) = problem(&input.items) {
            return Err(ToolError::Failed(format!(
                "{problem}; the list is unchanged"
            )));
        }
        let text = checklist(&input.items);
        *self.lock() = input.items;
        Ok(ToolOutput::text(text))
    }

    async fn carried(&self, _: &Withheld) -> Vec<Carried> {
        let items = self.lock();
        let is_open = |item: &TodoItem| item.status != TodoStatus::Completed;
        let plan = items.iter().any(is_open).then(|| Carried {
            title: "the plan".into(),
            text: checklist(&items),
        });
        plan.into_iter().collect()
    }

    fn reminder(&self, steps: u32) -> Option<String> {
        if !steps.is_multiple_of(REMIND_AFTER) {
            return None;
        }
        let items = self.lock();
        let open = items
            .iter()
            .filter(|item| item.status != TodoStatus::Completed)
            .count();
        (open > 0).then(|| {
            format!(
                "Your plan was not touched for {steps} steps, and {open} of its {} items are open. \
                 Bring it up to date if it has changed; if not, go on.\n{}",
                items.len(),
                checklist(&items)
            )
        })
    }

    fn for_session(&self, _: &Scope) -> Option<Self> {
        Some(Self::new())
    }
}

/// What is wrong with a list, and what to do about it.
fn problem(items: &[TodoItem]) -> Option<String> {
    if items.len() > MAX_ITEMS {
        return Some(format!(
            "there are {} items, and {MAX_ITEMS} is the most: join small ones, or leave out what \
             is completed",
            items.len()
        ));
    }
    for (place, item) in (1..).zip(items) {
        if item.content.trim().is_empty() {
            return Some(format!("item {place} is blank: say what is to be done"));
        }
        let characters = item.content.trim().chars().count();
        if characters > MAX_CHARACTERS {
            return Some(format!(
                "item {place} has {characters} characters, and {MAX_CHARACTERS} is the most: say \
                 it in a few words"
            ));
        }
    }
    let begun: Vec<String> = (1_usize..)
        .zip(items)
        .filter(|(_, item)| item.status == TodoStatus::InProgress)
        .map(|(place, _)| place.to_string())
        .collect();
    (begun.len() > 1).then(|| {
        format!(
            "items {} are all in_progress, and one is the most: mark the others pending or \
             completed",
            begun.join(", ")
        )
    })
}

fn checklist(items: &[TodoItem]) -> String {
    if items.is_empty() {
        return "the list is empty".into();
    }
    let mut text = String::new();
    for item in items {
        let mark = match item.status {
            TodoStatus::Pending => ' ',
            TodoStatus::InProgress => '>',
            TodoStatus::Completed => 'x',
        };
        // One line each, whatever the content.
        let words: Vec<&str> = item.content.split_whitespace().collect();
        text.push_str(&format!("[{mark}] {}\n", words.join(" ")));
    }
    let count = |status| items.iter().filter(|item| item.status == status).count();
    text.push_str(&format!(
        "({} completed, {} in progress, {} pending)",
        count(TodoStatus::Completed),
        count(TodoStatus::InProgress),
        count(TodoStatus::Pending)
    ));
    text
}
