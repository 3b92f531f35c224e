//! Skills: instructions for one kind of work, in a file `NAME/SKILL.md`, which the model is told of in a
//! line and reads when it has such work.

mod arguments;
mod catalogue;
mod command;
mod tool;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use arguments::with_arguments;
pub use catalogue::Catalogue;
pub use command::{CommandSet, CustomCommand, Expanded};
pub use tool::{SkillInput, SkillTool};

use crate::front_matter::{self, FrontMatter};
use crate::places::Place;

/// The most bytes of a skill's text that are shown.
pub const MAX_BODY_BYTES: usize = 32 * 1024;

/// The most bytes of a file that is read for a skill or a command.
const MAX_FILE_BYTES: usize = front_matter::MAX_BYTES + 1024 * 1024;

/// The most skills of one folder.
const MAX_SKILLS: usize = 500;

/// The most characters of a name.
const MAX_NAME: usize = 64;

/// Reads of a skill what a list of skills needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// What it is called by.
    pub name: String,
    /// What it is for and when, in one line.
    pub description: String,
    /// What may follow its name, for a person.
    pub argument_hint: Option<String>,
    /// Whether the model may call it.
    pub for_model: bool,
    /// Whether a person may, as `/name`.
    pub for_user: bool,
    /// Its file.
    pub path: PathBuf,
    place: Place,
}

/// The skills that there are, by name.
#[derive(Debug, Clone, Default)]
pub struct SkillSet {
    skills: BTreeMap<String, Skill>,
    /// The names, the strongest place first.
    order: Vec<String>,
    warnings: Vec<String>,
}

impl Skill {
    /// The folder of the skill, where the files are that its text names.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// Its text with the arguments put in, headed by its name and folder. Read anew each time.
    ///
    /// # Errors
    /// Words that name the file.
    pub fn text(&self, arguments: &str) -> Result<String, String> {
        let file = self.place.read_markdown(&self.path, MAX_FILE_BYTES)?;
        let body = file.body.trim();
        let mut end = body.len().min(MAX_BODY_BYTES);
        while !body.is_char_boundary(end) {
            end -= 1;
        }
        let shown = body.get(..end).unwrap_or_default();
        let mut text = format!(
            "Skill {}. Paths in it are relative to {}\n\n{}",
            self.name,
            self.folder().display(),
            with_arguments(shown, arguments)
        );
        if end < body.len() {
            let left = body.len() - end;
            let path = self.path.display();
            text.push_str(&format!("\n[{left} bytes more are in {path}]"));
        }
        Ok(text)
    }
}

impl SkillSet {
    /// Looks into folders of skills. Of skills with the same name that of the earlier folder counts;
    /// one that is not in order is left out with a warning.
    #[must_use]
    pub fn discover(places: &[Place]) -> Self {
        let mut set = Self::default();
        for place in places {
            let Ok(entries) = std::fs::read_dir(&place.path) else {
                continue;
            };
            let mut files: Vec<PathBuf> = entries
                .flatten()
                .map(|entry| entry.path().join("SKILL.md"))
                .filter(|path| path.symlink_metadata().is_ok())
                .take(MAX_SKILLS + 1)
                .collect();
            files.sort();
            if files.len() > MAX_SKILLS {
                set.warnings.push(format!(
                    "{}: only {MAX_SKILLS} skills are taken from one folder",
                    place.path.display()
                ));
                files.truncate(MAX_SKILLS);
            }
            for path in files {
                match read(place, path) {
                    Ok(skill) => set.add(skill),
                    Err(words) => set.warnings.push(format!("skill left out: {words}")),
                }
            }
        }
        set
    }

    fn add(&mut self, skill: Skill) {
        if !self.skills.contains_key(&skill.name) {
            self.order.push(skill.name.clone());
            self.skills.insert(skill.name.clone(), skill);
        }
    }

    /// Whether the model may call none.
    #[must_use]
    pub fn is_empty_for_model(&self) -> bool {
        !self.skills.values().any(|skill| skill.for_model)
    }

    /// The skill of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Skill> {
        self.skills.get(name)
    }

    /// All of them, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &Skill> {
        self.skills.values()
    }

    /// What was left out, and why: each names its file.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What the model is told of them, in at most `bytes`.
    #[must_use]
    pub fn catalogue(&self, bytes: usize) -> Option<Catalogue> {
        let skills = self.order.iter().filter_map(|name| self.skills.get(name));
        catalogue::catalogue(skills.filter(|skill| skill.for_model).collect(), bytes)
    }
}

fn read(place: &Place, path: PathBuf) -> Result<Skill, String> {
    let file = place.read_markdown(&path, MAX_FILE_BYTES)?;
    if file.fields.is_empty() {
        return Err(format!("{}:1: there is no front matter", path.display()));
    }
    let told = |error: front_matter::FrontMatterError| {
        let (line, problem) = (error.line, error.problem);
        format!("{}:{line}: {problem}", path.display())
    };
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
    let name = match file.text("name").map_err(told)? {
        Some(name) => name.trim().to_owned(),
        None => folder.to_string_lossy().into_owned(),
    };
    if !is_name(&name) {
        let line = file.field("name").map_or(1, |field| field.line);
        return Err(format!(
            "{}:{line}: {name:?} is no name: it may have letters, digits, `-`, `_`, `.` and `:`, at most \
             {MAX_NAME}",
            path.display()
        ));
    }
    let mut description = match file.text("description").map_err(told)? {
        Some(text) => one_line(text),
        None => first_words(&file),
    };
    if let Some(when) = file.text("when_to_use").map_err(told)? {
        description = one_line(&format!("{description} {when}"));
    }
    if description.is_empty() {
        return Err(format!("{}:1: there is no `description`", path.display()));
    }
    let argument_hint = file.as_written("argument-hint").map_err(told)?;
    Ok(Skill {
        argument_hint: argument_hint.map(one_line),
        for_model: !file
            .flag("disable-model-invocation")
            .map_err(told)?
            .unwrap_or(false),
        for_user: file.flag("user-invocable").map_err(told)?.unwrap_or(true),
        name,
        description,
        path,
        place: place.clone(),
    })
}

/// The first line of a text that says something.
fn first_words(file: &FrontMatter) -> String {
    let lines = file.body.lines().map(|line| line.trim_start_matches('#'));
    let mut lines = lines.map(str::trim).filter(|line| !line.is_empty());
    one_line(lines.next().unwrap_or_default())
}

/// A text in one line, without what acts on terminals.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    line.chars().filter(|c| !c.is_control()).collect()
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.chars().count() <= MAX_NAME
        && !name.starts_with(['.', ':', '-'])
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || "-_.:".contains(c))
}
