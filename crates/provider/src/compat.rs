//! Files in which folders and people keep settings for another product, in a form that is widespread.
//!
//! Only their names are here, since these are a vendor's words. What stands in such files is read
//! by the program.

/// The file of a folder that everybody has who works there, from the folder on.
pub const PROJECT_SETTINGS: &str = ".claude/settings.json";

/// The file of a folder that is not shared, from the folder on.
pub const LOCAL_SETTINGS: &str = ".claude/settings.local.json";

/// The file of a person, from their home folder on.
pub const USER_SETTINGS: &str = ".claude/settings.json";

/// The variable that names another folder for the file of a person.
pub const USER_FOLDER_VARIABLE: &str = "CLAUDE_CONFIG_DIR";

/// The name of the file of a person in that other folder.
pub const USER_FILE: &str = "settings.json";

/// The file with what agents are to know in a folder, from the folder on.
pub const INSTRUCTIONS: &str = "CLAUDE.md";

/// Further files with the same, from a folder on. They come after [`INSTRUCTIONS`], the stronger last.
pub const MORE_INSTRUCTIONS: [&str; 2] = [".claude/CLAUDE.md", "CLAUDE.local.md"];

/// The folder of a folder whose Markdown files are rules, which are instructions too.
pub const RULES: &str = ".claude/rules";

/// The folder of a person's rules, from [`USER_FOLDER`] on.
pub const USER_RULES: &str = "rules";

/// Files and folders of a project with instructions for other agents. They are not read.
pub const OTHER_INSTRUCTIONS: [&str; 10] = [
    ".clinerules",
    ".cursor/rules",
    ".cursorrules",
    ".github/copilot-instructions.md",
    ".github/instructions",
    ".junie/guidelines.md",
    ".roo/rules",
    ".windsurf/rules",
    ".windsurfrules",
    "GEMINI.md",
];

/// The same of a person, from their home folder on.
pub const USER_INSTRUCTIONS: &str = ".claude/CLAUDE.md";

/// The variable by which hooks find the folder that they are run for.
pub const PROJECT_FOLDER_VARIABLE: &str = "CLAUDE_PROJECT_DIR";

/// The folder of a person, from their home folder on, unless [`USER_FOLDER_VARIABLE`] names another.
pub const USER_FOLDER: &str = ".claude";

/// The folder of a project's skills, from the folder on.
pub const SKILLS: &str = ".claude/skills";

/// The folder of a project's commands, from the folder on.
pub const COMMANDS: &str = ".claude/commands";

/// The file of whoever looks after the machine.
pub const MANAGED_SETTINGS: &str = "/etc/claude-code/managed-settings.json";

/// Files and folders of a project in which other agents and editors are told which programs to
/// start, from the folder on.
pub const PROGRAM_SETTINGS: [&str; 10] = [
    ".claude/hooks",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".codex",
    ".cursor/hooks.json",
    ".cursor/mcp.json",
    ".gemini/settings.json",
    ".mcp.json",
    ".vscode/mcp.json",
    ".vscode/tasks.json",
];

/// The folder of definitions of agents, from a project's or a home folder on.
pub const AGENTS_FOLDER: &str = ".claude/agents";

/// Words that stand for models of the vendor in such definitions, and say nothing elsewhere.
pub const MODEL_WORDS: [&str; 3] = ["haiku", "opus", "sonnet"];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn only_the_managed_file_has_a_fixed_place() {
        for name in [
            PROJECT_SETTINGS,
            LOCAL_SETTINGS,
            USER_SETTINGS,
            USER_FILE,
            USER_FOLDER,
            SKILLS,
            COMMANDS,
        ] {
            assert!(Path::new(name).is_relative(), "{name}");
        }
        assert!(Path::new(MANAGED_SETTINGS).is_absolute());
    }
}
