//! The system prompt that the harness brings: sections made of texts that are files, and of what is
//! really so.
//!
//! Nothing here may differ from one day or process to the next while what it speaks of is the same:
//! no clock, no chance, no order of a hash table. What changes by itself is told with a prompt
//! ([`facts`]). This module knows no settings and no flags.
//!
//! ```
//! use tooloop::{PromptState, SystemPrompt};
//!
//! let state = PromptState::new("/work/garden").tools(["bash", "read"]);
//! let prompt = SystemPrompt::new(state.sections());
//! assert!(prompt.text().contains("- Folder: /work/garden"));
//! assert!(!prompt.text().contains("`apply_patch`"));
//! ```

pub(crate) mod facts;
mod repository;
mod section;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

pub use repository::Repository;
pub use section::{PromptSection, SystemPrompt};

/// How much the prompt takes for granted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PromptProfile {
    /// For whatever tools there are.
    #[default]
    Default,
    /// For an agent that has the shell and nothing else: it tells how to work with it, as a baseline
    /// that other tools are measured by.
    BashOnly,
}

/// What the harness's own sections are made of.
#[derive(Debug, Clone)]
#[must_use]
pub struct PromptState {
    profile: PromptProfile,
    tools: BTreeSet<String>,
    workspace: PathBuf,
    folders: Vec<PathBuf>,
    repository: Option<PathBuf>,
    shell: Option<String>,
}

impl PromptState {
    /// For work in this folder, without tools.
    pub fn new(workspace: impl Into<PathBuf>) -> Self {
        Self {
            profile: PromptProfile::default(),
            tools: BTreeSet::new(),
            workspace: workspace.into(),
            folders: Vec::new(),
            repository: None,
            shell: None,
        }
    }

    /// Which texts are taken.
    pub const fn profile(mut self, profile: PromptProfile) -> Self {
        self.profile = profile;
        self
    }

    /// The tools that are there; advice on others is left out.
    pub fn tools<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.tools = names.into_iter().map(Into::into).collect();
        self
    }

    /// Further folders that may be worked in.
    pub fn folders(mut self, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        self.folders = folders.into_iter().collect();
        self
    }

    /// The root of the git repository that the folder is in.
    pub fn repository(mut self, root: Option<PathBuf>) -> Self {
        self.repository = root;
        self
    }

    /// The shell that commands are given to.
    pub fn shell(mut self, shell: &Path) -> Self {
        let name = shell.file_name().unwrap_or(shell.as_os_str());
        self.shell = Some(on_one_line(&name.to_string_lossy()));
        self
    }

    /// The sections `identity`, `work`, `tools` and `environment`.
    #[must_use]
    pub fn sections(&self) -> Vec<PromptSection> {
        let (identity, work, tools) = match self.profile {
            PromptProfile::Default => (
                include_str!("texts/identity.md"),
                include_str!("texts/work.md"),
                include_str!("texts/tools.md"),
            ),
            PromptProfile::BashOnly => (
                include_str!("texts/identity-bash.md"),
                include_str!("texts/work-bash.md"),
                include_str!("texts/tools-bash.md"),
            ),
        };
        vec![
            PromptSection::new("identity", identity.trim_end()),
            PromptSection::new("work", work.trim_end()),
            PromptSection::new("tools", advice(tools, &self.tools)),
            PromptSection::new("environment", self.environment()),
        ]
    }

    fn environment(&self) -> String {
        let mut text = "# Environment".to_owned();
        let mut say = |what: &str, value: &str| {
            // Writing into a string does not fail.
            write!(text, "\n- {what}: {value}").unwrap_or_default();
        };
        let workspace = shown(&self.workspace);
        say(
            "Folder",
            &format!("{workspace} (relative paths start here)"),
        );
        for folder in &self.folders {
            say("Further folder", &shown(folder));
        }
        match &self.repository {
            Some(root) if *root == self.workspace => {
                say("Git repository", "yes, the folder is its root")
            }
            Some(root) => say(
                "Git repository",
                &format!("yes, its root is {}", shown(root)),
            ),
            None => say("Git repository", "no"),
        }
        let (system, machine) = (std::env::consts::OS, std::env::consts::ARCH);
        say("Platform", &format!("{system} on {machine}"));
        if let Some(shell) = &self.shell {
            say("Shell", shell);
        }
        text
    }
}

/// The lines of a text whose tools are there, without the marks in front; nothing if only its heading
/// would be left. A mark names tools, with `!` those that must be missing; `any` means that there are
/// some.
fn advice(text: &str, tools: &BTreeSet<String>) -> String {
    let is_met = |word: &str| match (word, word.strip_prefix('!')) {
        ("any", _) => !tools.is_empty(),
        (_, Some(missing)) => !tools.contains(missing),
        (tool, None) => tools.contains(tool),
    };
    let mut lines = Vec::new();
    let mut advises = false;
    for line in text.lines() {
        let marked = line
            .strip_prefix("- [")
            .and_then(|rest| rest.split_once("] "));
        match marked {
            None => lines.push(line.to_owned()),
            Some((mark, words)) if mark.split(' ').all(is_met) => {
                advises = true;
                lines.push(format!("- {words}"));
            }
            Some(_) => {}
        }
    }
    if advises {
        lines.join("\n")
    } else {
        String::new()
    }
}

/// A path as it is told.
pub(crate) fn shown(path: &Path) -> String {
    on_one_line(&path.display().to_string())
}

/// The same on one line, so that a name cannot pass for a part of the prompt.
pub(crate) fn on_one_line(text: &str) -> String {
    let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(plain).collect()
}
