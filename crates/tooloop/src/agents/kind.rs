//! What kinds of agents there are.

use std::borrow::Cow;

use tooloop_tools::front_matter::{self, Field, FrontMatterError, Value};

use crate::SystemPrompt;

/// The longest description of a type as the model reads it, in characters.
const SHORT: usize = 120;

/// How many types the model is told of.
const MOST_TOLD: usize = 24;

/// A kind of agent: its prompt, and what it may do of what the session may that it works for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentType {
    /// Its name.
    pub name: String,
    /// When to use it, for the model that chooses.
    pub description: String,
    /// What it is told.
    pub prompt: String,
    /// The tools that it has, by the names of ours; `None`: all that there are.
    pub tools: Option<Vec<String>>,
    /// The tools that it does not have.
    pub without: Vec<String>,
    /// The model that writes for it; `None`: the one of the session.
    pub model: Option<AgentModel>,
    /// Whether it may change nothing: a call that is not known to be read-only is refused.
    pub read_only: bool,
}

/// The model of a type of agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentModel {
    /// Its name as the provider knows it.
    pub name: String,
    /// Its output cap.
    pub max_output_tokens: Option<u64>,
    /// The larger one.
    pub escalated_output_tokens: Option<u64>,
}

/// What is wrong with a definition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct AgentTypeError {
    /// The line of the file, from 1.
    pub line: usize,
    /// What is wrong there.
    pub problem: String,
}

impl From<FrontMatterError> for AgentTypeError {
    fn from(FrontMatterError { line, problem }: FrontMatterError) -> Self {
        Self { line, problem }
    }
}

impl AgentType {
    /// One that only looks around.
    #[must_use]
    pub fn explore() -> Self {
        Self {
            name: "explore".into(),
            description: "finds out how things are; reads files and runs harmless commands, and \
                          changes nothing"
                .into(),
            prompt: include_str!("texts/explore.md").into(),
            tools: Some(["bash", "glob", "grep", "read"].map(str::to_owned).into()),
            read_only: true,
            ..Self::default()
        }
    }

    /// One that does any piece of work.
    #[must_use]
    pub fn general() -> Self {
        Self {
            name: "general".into(),
            description: "does any piece of work, with all tools".into(),
            prompt: include_str!("texts/general.md").into(),
            ..Self::default()
        }
    }

    /// Reads a definition: Markdown whose front matter names and describes the type and whose body is
    /// its prompt. `named` is its name if it does not tell one; `tool` gives our name for a tool's, if
    /// it is one of ours. Returns it with the name of its model as it is written.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(
        bytes: &[u8],
        named: &str,
        tool: impl Fn(&str) -> Option<&'static str>,
    ) -> Result<(Self, Option<String>), AgentTypeError> {
        let file = front_matter::parse(bytes)?;
        let field = |name: &str| file.fields.iter().find(|field| field.key == name);
        let text = |name: &str| match field(name) {
            None => Ok(None),
            Some(field) => one(field).map(|text| text.map(|text| (text, field.line))),
        };
        let (name, line) = text("name")?.unwrap_or_else(|| (named.to_owned(), 1));
        let fits = |letter: char| letter.is_alphanumeric() || "-_:. ".contains(letter);
        if name.is_empty() || name.chars().count() > 64 || !name.chars().all(fits) {
            let problem = format!("{name:?} is no name: 1 to 64 letters, digits, '-' and '_'");
            return Err(AgentTypeError { line, problem });
        }
        let Some((description, _)) = text("description")? else {
            return Err(AgentTypeError {
                line: 1,
                problem: "there is no `description` that says when to use it".into(),
            });
        };
        let prompt = file.body.trim().to_owned();
        if prompt.is_empty() {
            return Err(AgentTypeError {
                line: file.body_line,
                problem: "there is no prompt below the front matter".into(),
            });
        }
        let tools = match field("tools") {
            None => None,
            Some(field) => match &field.value {
                Value::Empty => None,
                Value::Text(all) if all.trim() == "*" => None,
                _ => {
                    let written = list(field)?;
                    let known: Vec<_> = names(&written, &tool).collect();
                    // What others have and there is none of here narrows it as well.
                    if known.is_empty() && !written.is_empty() {
                        return Err(AgentTypeError {
                            line: field.line,
                            problem: format!(
                                "`tools` names no tool that there is here: {}",
                                written.join(", ")
                            ),
                        });
                    }
                    Some(known)
                }
            },
        };
        let without = match field("disallowedTools").or_else(|| field("disallowed_tools")) {
            None => Vec::new(),
            Some(field) => names(&list(field)?, &tool).collect(),
        };
        let mode = text("permissionMode")?.or(text("permission_mode")?);
        let read_only = match text("read_only")?.or(text("readonly")?) {
            None => false,
            Some((word, line)) => word.parse().map_err(|_| AgentTypeError {
                line,
                problem: format!("`read_only` is true or false, not {word:?}"),
            })?,
        };
        let model = text("model")?.map(|(name, _)| name);
        let plans = mode.is_some_and(|(mode, _)| mode == "plan");
        Ok((
            Self {
                name,
                description,
                prompt,
                tools,
                without,
                model: None,
                read_only: read_only || plans,
            },
            model.filter(|name| name != "inherit"),
        ))
    }

    /// Whether it may have a tool.
    pub(crate) fn has(&self, tool: &str) -> bool {
        let named = |names: &Vec<String>| names.iter().any(|name| name == tool);
        self.tools.as_ref().is_none_or(named) && !named(&self.without)
    }

    /// What it is for, on one short line.
    fn told(&self) -> Cow<'_, str> {
        let line: String = self
            .description
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        if line.chars().count() <= SHORT {
            return line.into();
        }
        let cut: String = line.chars().take(SHORT).collect();
        format!("{}…", cut.trim_end()).into()
    }
}

fn one(field: &Field) -> Result<Option<String>, AgentTypeError> {
    match &field.value {
        Value::Empty => Ok(None),
        Value::Text(text) if text.trim().is_empty() => Ok(None),
        Value::Text(text) => Ok(Some(text.trim().to_owned())),
        Value::List(_) | Value::Map(_) => Err(AgentTypeError {
            line: field.line,
            problem: format!("`{}` has to be a text", field.key),
        }),
    }
}

/// A list, or a text of names parted by commas.
fn list(field: &Field) -> Result<Vec<String>, AgentTypeError> {
    let wrong = || AgentTypeError {
        line: field.line,
        problem: format!("`{}` has to be a list of names", field.key),
    };
    match &field.value {
        Value::Empty => Ok(Vec::new()),
        Value::Text(text) => Ok(text
            .split(',')
            .map(|name| name.trim().to_owned())
            .filter(|name| !name.is_empty())
            .collect()),
        Value::List(items) => items
            .iter()
            .map(|item| match item {
                Value::Text(text) => Ok(text.trim().to_owned()),
                Value::Empty | Value::List(_) | Value::Map(_) => Err(wrong()),
            })
            .collect(),
        Value::Map(_) => Err(wrong()),
    }
}

/// Our names for these tools. What stands in brackets behind one narrows a rule, not a list of tools:
/// the session's own rules hold.
fn names(
    written: &[String],
    tool: &impl Fn(&str) -> Option<&'static str>,
) -> impl Iterator<Item = String> {
    written.iter().filter_map(|name| {
        let name = name.split_once('(').map_or(name.as_str(), |(name, _)| name);
        tool(name.trim()).map(str::to_owned)
    })
}

/// The types of agents that there are, sorted by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentTypes {
    types: Vec<AgentType>,
    /// Where an agent works, as all of them are told it.
    environment: String,
}

impl Default for AgentTypes {
    fn default() -> Self {
        Self::new([AgentType::explore(), AgentType::general()])
    }
}

impl AgentTypes {
    /// These types. Of two of one name the later one counts.
    #[must_use]
    pub fn new(types: impl IntoIterator<Item = AgentType>) -> Self {
        let mut sorted: Vec<AgentType> = Vec::new();
        for one in types {
            sorted.retain(|other| other.name != one.name);
            let place = sorted.partition_point(|other| other.name < one.name);
            sorted.insert(place, one);
        }
        Self {
            types: sorted,
            environment: String::new(),
        }
    }

    /// The same, and what all of them are told of where they work.
    #[must_use]
    pub fn in_environment(self, environment: impl Into<String>) -> Self {
        Self {
            environment: environment.into(),
            ..self
        }
    }

    /// With what the agent's own prompt has of where it works and of the instructions there.
    pub(crate) fn within(self, prompt: &SystemPrompt) -> Self {
        let section = |name: &str| {
            let mut sections = prompt.sections().iter();
            sections.find(|section| section.name == name && !section.text.trim().is_empty())
        };
        let environment = section("environment").map(|section| section.text.trim());
        let environment = environment.unwrap_or(self.environment.trim());
        let instructions = section("instructions").map(|section| section.text.trim());
        let parts = [environment, instructions.unwrap_or_default()];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let environment = parts.join("\n\n");
        self.in_environment(environment)
    }

    /// The types, sorted by name.
    #[must_use]
    pub fn types(&self) -> &[AgentType] {
        &self.types
    }

    /// The type of this name, also in other letters; or what to say in its place.
    pub(crate) fn find(&self, name: &str) -> Result<&AgentType, String> {
        let mut types = self.types.iter();
        let found = types
            .clone()
            .find(|one| one.name == name)
            .or_else(|| types.find(|one| one.name.eq_ignore_ascii_case(name)));
        found.ok_or_else(|| {
            let names: Vec<_> = self.types.iter().map(|one| one.name.as_str()).collect();
            format!(
                "there is no agent type {name:?}: the types are {}",
                names.join(", ")
            )
        })
    }

    /// The prompt of an agent of a type.
    pub(crate) fn prompt(&self, kind: &AgentType) -> String {
        let parts = [kind.prompt.trim(), self.environment.trim()];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join("\n\n")
    }

    /// What the model that chooses is told of them.
    pub(crate) fn told(&self) -> String {
        let mut told = String::new();
        for one in self.types.iter().take(MOST_TOLD) {
            told.push_str(&format!("\n- {}: {}", one.name, one.told()));
        }
        let rest: Vec<_> = self
            .types
            .iter()
            .skip(MOST_TOLD)
            .map(|one| one.name.as_str())
            .collect();
        if !rest.is_empty() {
            told.push_str(&format!("\n- {}", rest.join(", ")));
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PromptSection;

    fn tool(name: &str) -> Option<&'static str> {
        match name {
            "Read" | "read" => Some("read"),
            "Bash" => Some("bash"),
            _ => None,
        }
    }

    fn parse(text: &str) -> Result<(AgentType, Option<String>), AgentTypeError> {
        AgentType::parse(text.as_bytes(), "file", tool)
    }

    #[test]
    fn definitions_are_read_as_people_write_them() {
        let text = "---\nname: reviewer\ndescription: |\n  Use it when\n  code is done.\ntools: Read, Bash(git *), WebSearch\nmodel: small\ncolor: red\n---\n\nLook closely.\n";
        let (read, model) = parse(text).unwrap();
        assert_eq!(model.as_deref(), Some("small"));
        let expected = AgentType {
            name: "reviewer".into(),
            description: "Use it when\n  code is done.".replace("\n  ", "\n"),
            prompt: "Look closely.".into(),
            tools: Some(vec!["read".into(), "bash".into()]),
            ..AgentType::default()
        };
        assert_eq!(read, expected);
        assert_eq!(read.told(), "Use it when code is done.");
        let text = "---\ndescription: d\ntools: [Read, read]\ndisallowedTools:\n  - Bash\nmodel: inherit\npermissionMode: plan\n---\nx";
        let (read, model) = parse(text).unwrap();
        assert_eq!((read.name.as_str(), model), ("file", None));
        assert!(read.read_only && read.has("read") && !read.has("bash") && !read.has("edit"));
        let (all, _) =
            parse("---\ndescription: d\ntools: \"*\"\ndisallowedTools: Bash\n---\nx").unwrap();
        assert!(all.has("edit") && !all.has("bash") && !all.read_only);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let table = [
            ("no front matter", "line 1: there is no `description`"),
            (
                "---\nname: a/b\ndescription: d\n---\nx",
                "line 2: \"a/b\" is no name",
            ),
            (
                "---\ndescription: d\n---\n \n",
                "line 4: there is no prompt",
            ),
            (
                "---\ndescription: d\ntools: Nothing\n---\nx",
                "line 3: `tools` names no tool",
            ),
            (
                "---\ndescription: d\ntools: {a: b}\n---\nx",
                "line 3: `tools` has to be a list",
            ),
            (
                "---\ndescription: [d]\n---\nx",
                "line 2: `description` has to be a text",
            ),
            (
                "---\ndescription: d\nread_only: perhaps\n---\nx",
                "line 3: `read_only` is true or false",
            ),
            ("---\ndescription: d\n", "line 1: no second line"),
        ];
        for (text, expected) in table {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn types_are_told_in_the_same_order_whatever_the_order_they_came_in() {
        let one = |name: &str, description: &str| AgentType {
            name: name.into(),
            description: description.into(),
            ..AgentType::default()
        };
        let types = AgentTypes::new([one("b", "old"), one("a", &"x".repeat(200)), one("b", "new")]);
        let told = types.told();
        assert_eq!(told, format!("\n- a: {}…\n- b: new", "x".repeat(SHORT)));
        assert_eq!(types.find("B").unwrap().description, "new");
        assert_eq!(
            types.find("c").unwrap_err(),
            "there is no agent type \"c\": the types are a, b"
        );
    }

    #[test]
    fn an_agent_is_told_what_its_session_is_told_of_the_place() {
        let types = AgentTypes::default().in_environment("It rains.");
        let named = |name: &'static str, text: &str| PromptSection::new(name, text);
        let prompt = SystemPrompt::new([
            named("identity", "You are a gardener."),
            named("environment", "It snows."),
            named("instructions", "Water at dawn."),
        ]);
        let told = |types: AgentTypes| types.prompt(types.find("explore").unwrap());
        assert!(told(types.clone().within(&prompt)).ends_with("\n\nIt snows.\n\nWater at dawn."));
        let other = SystemPrompt::new([named("system", "Be brief.")]);
        assert!(told(types.within(&other)).ends_with("\n\nIt rains."));
    }

    #[test]
    fn an_agent_is_told_where_it_works() {
        let types = AgentTypes::default().in_environment("It rains.\n");
        let prompt = types.prompt(types.find("explore").unwrap());
        assert!(prompt.starts_with("You are a scout") && prompt.ends_with("\n\nIt rains."));
    }
}
