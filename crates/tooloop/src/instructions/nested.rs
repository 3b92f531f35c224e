//! The instructions of folders below the one that is worked in, for when they are touched.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tooloop_kernel::Transcript;
use tooloop_model::{Content, Message};

use super::load::Loader;
use super::{Instructions, MOST_INSTRUCTION_BYTES, fit, quoted};

/// Folders in which others' work is kept: what is written there is for those who work on that.
const OTHERS: [&str; 7] = [
    ".git",
    ".venv",
    "node_modules",
    "site-packages",
    "target",
    "vendor",
    "venv",
];

/// The most folders that are looked into in a session.
const MOST_FOLDERS: usize = 10_000;

/// Finds the instructions of folders as they are touched.
#[derive(Debug)]
pub(crate) struct NestedInstructions {
    instructions: Instructions,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// What was found in each folder that was looked into.
    folders: BTreeMap<PathBuf, Option<Arc<NestedBlock>>>,
    /// How many bytes may still be told.
    left: usize,
}

/// The instructions of one folder.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NestedBlock {
    /// The first line, by which it is known again.
    title: String,
    /// What is told.
    pub(crate) text: String,
}

/// What was found where something was touched.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FoundInstructions {
    /// The instructions of each folder, the outermost first.
    pub(crate) blocks: Vec<Arc<NestedBlock>>,
    /// What a person should know, said once.
    pub(crate) warnings: Vec<String>,
}

impl NestedBlock {
    /// Whether the model has been told already, as far as that is still in its history.
    #[must_use]
    pub(crate) fn is_told(&self, transcript: &Transcript) -> bool {
        let is_it = |part: &Content| {
            let words = part.as_reminder();
            let title = words.and_then(|words| words.lines().next());
            title == Some(self.title.as_str())
        };
        let mut messages = transcript.messages().iter().rev();
        messages.any(|message| match message.message() {
            Message::User(content) => content.iter().any(is_it),
            Message::Assistant(_) | Message::ToolResults(_) => false,
        })
    }
}

impl NestedInstructions {
    /// For a session that begins with these instructions.
    #[must_use]
    pub(crate) fn new(instructions: Instructions) -> Self {
        Self {
            instructions,
            state: Mutex::new(State {
                folders: BTreeMap::new(),
                left: MOST_INSTRUCTION_BYTES,
            }),
        }
    }

    /// Whether all folders that these paths are in have been looked into: then [`Self::of`] reads
    /// nothing.
    #[must_use]
    pub(crate) fn knows(&self, paths: &[PathBuf]) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut folders = paths.iter().flat_map(|path| self.folders(path));
        folders.all(|folder| state.folders.contains_key(folder))
    }

    /// The instructions of the folders that these absolute paths are in or are. Reads files.
    #[must_use]
    pub(crate) fn of(&self, paths: &[PathBuf]) -> FoundInstructions {
        let mut found = FoundInstructions::default();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for folder in paths.iter().flat_map(|path| self.folders(path)) {
            let known = state.folders.get(folder).cloned();
            let block = match known {
                Some(block) => block,
                None if state.folders.len() >= MOST_FOLDERS => None,
                None => {
                    let warnings = &mut found.warnings;
                    let block = self.look(folder, &mut state.left, warnings).map(Arc::new);
                    state.folders.insert(folder.to_owned(), block.clone());
                    block
                }
            };
            let blocks = &mut found.blocks;
            blocks.extend(block.filter(|block| !blocks.contains(block)));
        }
        found
    }

    /// The folders on the way to a path that are not told at the session's beginning.
    fn folders<'p>(&self, path: &'p Path) -> Vec<&'p Path> {
        let sources = &self.instructions.sources;
        let border = sources.border();
        let Ok(below) = path.strip_prefix(border) else {
            return Vec::new();
        };
        let is_others = |part: &OsStr| OTHERS.iter().any(|name| part == *name);
        if below.iter().any(is_others) {
            return Vec::new();
        }
        let mut folders = super::chain(border, path);
        folders.retain(|folder| !sources.workspace.starts_with(folder));
        folders
    }

    fn look(
        &self,
        folder: &Path,
        left: &mut usize,
        warnings: &mut Vec<String>,
    ) -> Option<NestedBlock> {
        let sources = &self.instructions.sources;
        let mut loader = Loader::new(sources, self.instructions.read.clone());
        loader.folder(folder);
        let mut files = loader.files;
        warnings.append(&mut loader.warnings);
        let is_known = |text: &str| self.instructions.files.iter().any(|file| file.text == text);
        files.retain(|file| !is_known(&file.text));
        fit(&mut files, *left, warnings);
        if files.is_empty() {
            return None;
        }
        let told: usize = files.iter().map(|file| file.text.len()).sum();
        *left = left.saturating_sub(told);
        let title = format!("Instructions for what is below {}:", sources.name(folder));
        let text = format!("{title}\n{}", quoted(&files));
        Some(NestedBlock { title, text })
    }
}
