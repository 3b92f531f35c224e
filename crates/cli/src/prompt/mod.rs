//! The system prompt of a run: from what the library brings, what is so, what people have written
//! down, and what was typed.

mod command;

use std::path::{Path, PathBuf};

use tooloop::exec::Shell;
use tooloop::provider::{Redactor, compat};
use tooloop::{
    Border, InstructionSources, Instructions, Policy, PromptProfile, PromptSection, PromptState,
    Repository, SystemPrompt, Withheld,
};

pub(crate) use command::run;

use crate::args::RunArgs;
use crate::exit::Failure;
use crate::input;
use crate::settings::{self, Settings};
use crate::setup::environment;
use crate::toolset::ToolSet;

/// The name of the file with instructions for agents that many products know.
const AGENTS: &str = "AGENTS.md";

/// What the prompt of a run is made of.
pub(crate) struct Ingredients<'i> {
    pub(crate) args: &'i RunArgs,
    pub(crate) settings: &'i Settings,
    pub(crate) workspace: &'i Path,
    /// Folders beside the workspace.
    pub(crate) folders: &'i [PathBuf],
    /// The tools that are really there.
    pub(crate) tools: Vec<String>,
    pub(crate) policy: &'i Policy,
    pub(crate) border: Option<&'i Border>,
    pub(crate) secrets: &'i Redactor,
}

/// The prompt of a run.
pub(crate) struct Prompt {
    pub(crate) system: SystemPrompt,
    /// What it has of instructions; `None` if none are wanted.
    pub(crate) instructions: Option<Instructions>,
    /// What a person should know.
    pub(crate) warnings: Vec<String>,
}

/// Puts the prompt together; `further` sections come after the instructions.
pub(crate) fn prompt(
    ingredients: Ingredients<'_>,
    further: Vec<PromptSection>,
) -> Result<Prompt, Failure> {
    let Ingredients {
        args,
        settings,
        workspace,
        ..
    } = ingredients;
    let root = Repository::of(workspace).map(|repository| repository.root().to_owned());
    let whole = written(
        args.system_prompt.as_ref(),
        args.system_prompt_file.as_deref(),
        "--system-prompt-file",
    )?;
    let mut sections = match whole {
        Some(text) => vec![PromptSection::new("system", text)],
        None => state(&ingredients, root.clone()).sections(),
    };
    let instructions = (settings.instructions && !args.bare)
        .then(|| Instructions::load(sources(&ingredients, root)));
    let mut warnings = Vec::new();
    if let Some(instructions) = &instructions {
        let section = instructions.section();
        let text = ingredients.secrets.redact_known(&section.text);
        sections.push(PromptSection::new(section.name, text));
        warnings.extend(instructions.warnings().iter().cloned());
    }
    if !args.bare {
        sections.extend(further);
    }
    let more = written(
        args.append_system_prompt.as_ref(),
        args.append_system_prompt_file.as_deref(),
        "--append-system-prompt-file",
    )?;
    sections.extend(more.map(|text| PromptSection::new("appended", text)));
    Ok(Prompt {
        system: SystemPrompt::new(sections),
        instructions,
        warnings,
    })
}

/// What was typed, or what stands in the file that was named.
fn written(
    text: Option<&String>,
    file: Option<&Path>,
    option: &str,
) -> Result<Option<String>, Failure> {
    match (text, file) {
        (Some(text), _) => Ok(Some(text.clone())),
        (None, None) => Ok(None),
        (None, Some(path)) => input::file(path, option).map(Some),
    }
}

fn state(ingredients: &Ingredients<'_>, root: Option<PathBuf>) -> PromptState {
    let settings = ingredients.settings;
    let profile = match settings.tools {
        ToolSet::BashOnly => PromptProfile::BashOnly,
        ToolSet::Default | ToolSet::Picked(_) => PromptProfile::Default,
    };
    let state = PromptState::new(ingredients.workspace)
        .profile(profile)
        .folders(ingredients.folders.iter().cloned())
        .repository(root)
        .tools(ingredients.tools.iter().cloned());
    if !ingredients.tools.iter().any(|tool| tool == "bash") {
        return state;
    }
    match &settings.shell {
        Some(shell) => state.shell(shell),
        None => state.shell(Shell::system().path()),
    }
}

fn sources(ingredients: &Ingredients<'_>, root: Option<PathBuf>) -> InstructionSources {
    let variables: Vec<_> = std::env::vars_os().collect();
    let own = settings::user_file(&variables).map(|file| file.with_file_name(AGENTS));
    let home = environment("HOME").map(PathBuf::from);
    let home = home.filter(|home| home.is_absolute());
    let other = environment(compat::USER_FOLDER_VARIABLE).map(PathBuf::from);
    let other = other.filter(|folder| folder.is_absolute());
    let other = match (other, &home) {
        (Some(folder), _) => Some(folder.join(compat::INSTRUCTIONS)),
        (None, Some(home)) => Some(home.join(compat::USER_INSTRUCTIONS)),
        (None, None) => None,
    };
    let rules = other
        .as_ref()
        .and_then(|file| Some(file.parent()?.join(compat::USER_RULES)));
    let names = [AGENTS, compat::INSTRUCTIONS];
    let names = names.into_iter().chain(compat::MORE_INSTRUCTIONS);
    InstructionSources {
        names: names.map(str::to_owned).collect(),
        rules: vec![compat::RULES.to_owned()],
        unread: compat::OTHER_INSTRUCTIONS.map(str::to_owned).to_vec(),
        user: own.into_iter().chain(rules).chain(other).collect(),
        workspace: ingredients.workspace.to_owned(),
        root,
        home,
        withheld: withheld(ingredients.policy, ingredients.border),
    }
}

/// What `read` may not read is not read here either.
fn withheld(policy: &Policy, border: Option<&Border>) -> Withheld {
    let rules = policy.withholding("read");
    let hidden = border.map(|border| border.boundary.hidden.clone());
    Withheld::by(move |path| {
        let is_hidden = |hidden: &Vec<PathBuf>| hidden.iter().any(|one| path.starts_with(one));
        rules.as_ref().is_some_and(|rules| rules.holds(path))
            || hidden.as_ref().is_some_and(is_hidden)
    })
}
