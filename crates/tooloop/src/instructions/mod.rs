//! What people have written down for agents that work in a folder: files of well-known names.
//!
//! The user's own files come first, then those of each folder from the root of the repository down to
//! the folder that is worked in: what comes later is nearer to the work and counts more. Files of
//! folders further down are told when something in them is touched ([`NestedInstructions`]).
//!
//! Such files come with a repository, so they are read with care: only regular files, only so much of
//! them, nothing that lies outside of the repository, nothing that rules withhold. This module must
//! not know how the files are called: their names are handed in.

mod decode;
mod imports;
mod load;
mod nested;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tooloop_tool::Withheld;

use crate::prompt::{PromptSection, on_one_line};
use load::{Loader, Owner};
pub(crate) use nested::{FoundInstructions, NestedBlock, NestedInstructions};

/// The most bytes of instructions in a prompt, and again of those told later in a session.
pub const MOST_INSTRUCTION_BYTES: usize = 32 * 1024;

/// Where instructions are looked for.
#[derive(Debug, Clone)]
pub struct InstructionSources {
    /// What the files of a folder are called, the weaker first.
    pub names: Vec<String>,
    /// Folders in a folder whose Markdown files are read before those of `names`.
    pub rules: Vec<String>,
    /// Files and folders with instructions for others, which a warning names.
    pub unread: Vec<String>,
    /// The user's own files and folders of rules, the weaker first.
    pub user: Vec<PathBuf>,
    /// The folder that is worked in: absolute, links resolved.
    pub workspace: PathBuf,
    /// The root of the repository that it is in; nothing outside of it is read, and without one
    /// nothing outside of the folder.
    pub root: Option<PathBuf>,
    /// What `~` means in the user's own files.
    pub home: Option<PathBuf>,
    /// What is not read, whoever names it.
    pub withheld: Withheld,
}

/// A file with instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstructionFile {
    /// Where it lies, links resolved.
    pub path: PathBuf,
    /// What it is called towards the model: a path from the root on, or the whole path.
    pub name: String,
    /// What is told of it.
    pub text: String,
    /// How many bytes it has.
    pub bytes: u64,
}

/// The instructions for a folder.
#[derive(Debug, Clone)]
pub struct Instructions {
    sources: Arc<InstructionSources>,
    files: Vec<InstructionFile>,
    warnings: Vec<String>,
    /// The files that were read, by device and number.
    read: HashSet<(u64, u64)>,
}

impl Instructions {
    /// Reads the files.
    #[must_use]
    pub fn load(sources: InstructionSources) -> Self {
        let sources = Arc::new(sources);
        let mut loader = Loader::new(&sources, HashSet::new());
        for path in &sources.user {
            loader.file_or_folder(path, Owner::User);
        }
        for folder in chain(sources.border(), &sources.workspace) {
            loader.folder(folder);
        }
        let Loader {
            mut files,
            mut warnings,
            read,
            ..
        } = loader;
        fit(&mut files, MOST_INSTRUCTION_BYTES, &mut warnings);
        Self {
            sources,
            files,
            warnings,
            read,
        }
    }

    /// The files whose text is told, the weakest first.
    #[must_use]
    pub fn files(&self) -> &[InstructionFile] {
        &self.files
    }

    /// What a person should know: what was cut, refused or not found.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The section of the system prompt; it says nothing if there are no instructions.
    #[must_use]
    pub fn section(&self) -> PromptSection {
        let text = if self.files.is_empty() {
            String::new()
        } else {
            let heading = include_str!("../prompt/texts/instructions.md").trim_end();
            format!("{heading}\n\n{}", quoted(&self.files))
        };
        PromptSection::new("instructions", text)
    }
}

impl InstructionSources {
    /// The folder that files of the project must be in.
    fn border(&self) -> &Path {
        let root = self.root.as_deref();
        root.filter(|root| self.workspace.starts_with(root))
            .unwrap_or(&self.workspace)
    }

    /// What a file is called.
    fn name(&self, path: &Path) -> String {
        let name = match path.strip_prefix(self.border()) {
            Ok(name) if !name.as_os_str().is_empty() => name,
            Ok(_) | Err(_) => path,
        };
        on_one_line(&name.display().to_string()).replace(['"', '<', '>'], "'")
    }
}

/// The folders from `top` down to `folder`, both included.
fn chain<'f>(top: &Path, folder: &'f Path) -> Vec<&'f Path> {
    let mut folders: Vec<_> = folder
        .ancestors()
        .take_while(|folder| folder.starts_with(top))
        .collect();
    folders.reverse();
    folders
}

/// Files as the model reads them.
fn quoted(files: &[InstructionFile]) -> String {
    let quoted = files.iter().map(|file| {
        // What stands in a file does not end it.
        let text = file.text.replace("</instructions", "&lt;/instructions");
        format!(
            "<instructions file=\"{}\">\n{text}\n</instructions>",
            file.name
        )
    });
    quoted.collect::<Vec<_>>().join("\n")
}

/// Cuts files so that they have no more than so many bytes in all: what is nearest to the work is
/// kept, at the expense of what is farther.
fn fit(files: &mut Vec<InstructionFile>, most: usize, warnings: &mut Vec<String>) {
    /// Less than this is of no use.
    const LEAST: usize = 200;
    let mut left = most;
    let mut warned = Vec::new();
    for file in files.iter_mut().rev() {
        let whole = u64::try_from(file.text.len()).is_ok_and(|told| told >= file.bytes);
        if file.text.len() <= left && whole {
            left -= file.text.len();
            continue;
        }
        let kept = head(&file.text, left);
        let (name, bytes) = (&file.name, file.bytes);
        if kept.len() < LEAST {
            warned.push(format!(
                "instructions: {name} ({bytes} bytes) is left out: all files together may have \
                 {most} bytes, and nearer ones come first"
            ));
            file.text.clear();
            continue;
        }
        let shown = kept.len();
        warned.push(format!(
            "instructions: {name} is cut to its first {shown} of {bytes} bytes: all files \
             together may have {most}"
        ));
        left = left.saturating_sub(shown);
        file.text = format!("{kept}\n[cut: these are {shown} of {bytes} bytes]");
    }
    files.retain(|file| !file.text.is_empty());
    warned.reverse();
    warnings.extend(warned);
}

/// The whole lines that fit into so many bytes.
fn head(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let head = text.get(..end).unwrap_or_default();
    // A line that is longer than all there may be is cut.
    let line = head.rfind('\n').and_then(|end| head.get(..end));
    line.filter(|line| !line.is_empty()).unwrap_or(head)
}
