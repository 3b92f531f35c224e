//! Lines such as `/review src`: a command or a skill, called by a person.

use std::sync::Arc;

use tooloop::tools::{CommandSet, Expanded, Place, SkillSet};

use crate::text;

/// What can be called. Commands are looked for anew each time, so that what was just written is there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls {
    skills: Arc<SkillSet>,
    places: Vec<Place>,
}

/// What a line calls.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Called {
    /// Nothing that there is.
    Nothing,
    /// Something that makes this prompt.
    Prompt(Expanded),
    /// Something that cannot be read: why.
    Broken(String),
}

/// Something that can be called, for a list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// `/review [file]`.
    pub(crate) usage: String,
    pub(crate) description: String,
}

impl Calls {
    pub(crate) const fn new(skills: Arc<SkillSet>, places: Vec<Place>) -> Self {
        Self { skills, places }
    }

    /// The prompt that a line stands for. A command beats a skill of the same name.
    pub(crate) fn expand(&self, line: &str) -> Called {
        let Some(rest) = line.strip_prefix('/') else {
            return Called::Nothing;
        };
        let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        if name.is_empty() || name.contains('/') {
            return Called::Nothing;
        }
        let commands = CommandSet::discover(&self.places);
        let made = if let Some(command) = commands.get(name) {
            command.expand(arguments)
        } else if let Some(skill) = self.skills.get(name).filter(|skill| skill.for_user) {
            let text = skill.text(arguments);
            text.map(|text| Expanded {
                text,
                notes: Vec::new(),
            })
        } else {
            // One that is not in order is no path that happens to look like a command.
            let file = format!("/{}.md:", name.replace(':', "/"));
            let mut bad = commands.warnings().iter();
            return match bad.find(|words| words.contains(&file)) {
                Some(words) => Called::Broken(text::one_line(words)),
                None => Called::Nothing,
            };
        };
        match made {
            Ok(expanded) => Called::Prompt(expanded),
            Err(words) => Called::Broken(text::one_line(&words)),
        }
    }

    /// All that can be called, sorted, and what is wrong with others.
    pub(crate) fn list(&self) -> (Vec<Entry>, Vec<String>) {
        let commands = CommandSet::discover(&self.places);
        let entry = |name: &str, hint: Option<&str>, description: &str| Entry {
            usage: text::one_line(&format!("/{name} {}", hint.unwrap_or_default()))
                .trim_end()
                .to_owned(),
            description: text::one_line(description),
        };
        let mut entries: Vec<Entry> = commands
            .iter()
            .map(|one| entry(&one.name, one.argument_hint.as_deref(), &one.description))
            .collect();
        let skills = self
            .skills
            .iter()
            .filter(|skill| skill.for_user && commands.get(&skill.name).is_none());
        entries.extend(
            skills.map(|one| entry(&one.name, one.argument_hint.as_deref(), &one.description)),
        );
        entries.sort_by(|one, other| one.usage.cmp(&other.usage));
        let warnings = commands
            .warnings()
            .iter()
            .map(|words| text::one_line(words))
            .collect();
        (entries, warnings)
    }

    /// The names without the slash.
    pub(crate) fn names(&self) -> Vec<String> {
        let commands = CommandSet::discover(&self.places);
        let commands = commands.iter().map(|command| command.name.clone());
        let skills = self.skills.iter().filter(|skill| skill.for_user);
        commands
            .chain(skills.map(|skill| skill.name.clone()))
            .collect()
    }
}
