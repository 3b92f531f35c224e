//! Commands that people write: a Markdown file that becomes a prompt when they type its name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{MAX_FILE_BYTES, first_words, is_name, one_line, with_arguments};
use crate::places::Place;

/// How many folders deep commands are looked for.
const MAX_DEPTH: usize = 4;

/// The most commands.
const MAX_COMMANDS: usize = 1_000;

/// A command that somebody has written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomCommand {
    /// Its name without the slash: `review`, or `git:tidy` for `git/tidy.md`.
    pub name: String,
    /// What it does, in one line; may be empty.
    pub description: String,
    /// What may follow its name.
    pub argument_hint: Option<String>,
    /// Its file.
    pub path: PathBuf,
    place: Place,
}

/// The prompt that a command makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expanded {
    /// The prompt.
    pub text: String,
    /// What the user should know of it.
    pub notes: Vec<String>,
}

/// The commands that there are, by name.
#[derive(Debug, Clone, Default)]
pub struct CommandSet {
    commands: BTreeMap<String, CustomCommand>,
    warnings: Vec<String>,
}

impl CommandSet {
    /// Looks into folders of commands. Of commands with the same name that of the earlier folder
    /// counts; one that is not in order is left out with a warning.
    #[must_use]
    pub fn discover(places: &[Place]) -> Self {
        let mut set = Self::default();
        for place in places {
            let mut found = Vec::new();
            walk(&place.path, "", MAX_DEPTH, &mut found);
            found.sort();
            for (name, path) in found {
                if set.commands.contains_key(&name) || set.commands.len() >= MAX_COMMANDS {
                    continue;
                }
                match read(place, name, path) {
                    Ok(command) => {
                        set.commands.insert(command.name.clone(), command);
                    }
                    Err(words) => set.warnings.push(format!("command left out: {words}")),
                }
            }
        }
        set
    }

    /// The command of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&CustomCommand> {
        self.commands.get(name)
    }

    /// All of them, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &CustomCommand> {
        self.commands.values()
    }

    /// What was left out, and why: each names its file.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl CustomCommand {
    /// The prompt that it makes. Shell lines in it (`` !`date` ``) are not run: they stay as they are,
    /// the model is told so, and so is the user.
    ///
    /// # Errors
    /// Words that name the file.
    pub fn expand(&self, arguments: &str) -> Result<Expanded, String> {
        let file = self.place.read_markdown(&self.path, MAX_FILE_BYTES)?;
        let body = file.body.trim();
        let mut text = with_arguments(body, arguments);
        let mut notes = Vec::new();
        let first = file.body_line
            + file
                .body
                .lines()
                .take_while(|line| line.trim().is_empty())
                .count();
        let line = (first..)
            .zip(body.lines())
            .find(|(_, line)| line.contains("!`"));
        if let Some((number, line)) = line {
            let (path, line) = (self.path.display(), one_line(line));
            notes.push(format!(
                "{path}:{number}: shell lines in commands are not run; the model sees them as text: {line}"
            ));
            text.push_str(
                "\n\n(Commands written as !`command` above were not run: run those whose output is needed.)",
            );
        }
        if text.trim().is_empty() {
            return Err(format!("{}: there is no text in it", self.path.display()));
        }
        Ok(Expanded { text, notes })
    }
}

fn walk(folder: &Path, prefix: &str, depth: usize, found: &mut Vec<(String, PathBuf)>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        if found.len() >= MAX_COMMANDS {
            return;
        }
        let (path, name) = (entry.path(), entry.file_name());
        let Some(name) = name.to_str() else { continue };
        // A link to a folder is not followed: it may lead round.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if depth > 1 && !name.starts_with('.') {
                walk(&path, &format!("{prefix}{name}:"), depth - 1, found);
            }
        } else if let Some(name) = name.strip_suffix(".md") {
            found.push((format!("{prefix}{name}"), path));
        }
    }
}

fn read(place: &Place, name: String, path: PathBuf) -> Result<CustomCommand, String> {
    if !is_name(&name) {
        return Err(format!("{}: {name:?} is no name", path.display()));
    }
    let file = place.read_markdown(&path, MAX_FILE_BYTES)?;
    let told = |error: crate::front_matter::FrontMatterError| {
        let (line, problem) = (error.line, error.problem);
        format!("{}:{line}: {problem}", path.display())
    };
    let description = match file.text("description").map_err(told)? {
        Some(text) => one_line(text),
        None => first_words(&file),
    };
    let argument_hint = file.as_written("argument-hint").map_err(told)?;
    Ok(CustomCommand {
        argument_hint: argument_hint.map(one_line),
        name,
        description,
        path,
        place: place.clone(),
    })
}
