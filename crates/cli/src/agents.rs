//! The kinds of subagents of a run: those that are built in, and those that people define in folders.
//!
//! A definition narrows what an agent may do and never widens it, so it needs no trust. One that is
//! wrong is left out, with a warning.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use tooloop::provider::{compat, names_provider};
use tooloop::{AgentModel, AgentType, AgentTypes};

use crate::args::AgentsArgs;
use crate::exit::{Failure, Status};
use crate::print::complain;
use crate::settings;
use crate::setup;
use crate::text::clean;
use crate::toolset::Builtin;

/// The most bytes of a definition.
const MOST_BYTES: u64 = 64 << 10;

/// The most definitions in one folder.
const MOST_FILES: usize = 200;

/// How many folders above the working one are looked into.
const MOST_FOLDERS: usize = 32;

/// A kind of agent, and where it is defined.
#[derive(Debug, Clone)]
pub(crate) struct Defined {
    pub(crate) kind: AgentType,
    /// The model that its file names.
    pub(crate) model: Option<String>,
    /// Its file; `None` if it is built in.
    pub(crate) file: Option<PathBuf>,
    /// Whether it is the folder's that is worked in, not the person's own.
    is_folders: bool,
}

/// All kinds of agents, and what is wrong with definitions.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) agents: Vec<Defined>,
    pub(crate) warnings: Vec<String>,
}

/// Where definitions are looked for.
#[derive(Debug, Default)]
struct Places {
    /// The farthest first: what comes later counts where names are the same.
    folders: Vec<(PathBuf, bool)>,
}

impl Places {
    fn of(workspace: &Path) -> Self {
        let mut folders = Vec::new();
        let variables: Vec<_> = std::env::vars_os().collect();
        let home = setup::environment("HOME").map(PathBuf::from);
        if let Some(home) = home.filter(|home| home.is_absolute()) {
            folders.push((home.join(compat::AGENTS_FOLDER), false));
            folders.push((home.join(".agents/agents"), false));
        }
        if let Some(own) = settings::user_file(&variables) {
            folders.push((own.with_file_name("agents"), false));
        }
        for folder in up_to_repository(workspace) {
            for name in [compat::AGENTS_FOLDER, ".agents/agents", ".tooloop/agents"] {
                folders.push((folder.join(name), true));
            }
        }
        Self { folders }
    }
}

/// The folders from the root of the repository to the one that is worked in; only that if there is no
/// repository.
fn up_to_repository(workspace: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in workspace.ancestors().take(MOST_FOLDERS) {
        folders.push(folder.to_owned());
        if folder.join(".git").symlink_metadata().is_ok() {
            folders.reverse();
            return folders;
        }
    }
    vec![workspace.to_owned()]
}

/// The kinds of agents that a run in this folder has; only those that are built in if it is bare.
pub(crate) fn find(workspace: &Path, bare: bool) -> Found {
    let built_in = |kind| Defined {
        kind,
        model: None,
        file: None,
        is_folders: false,
    };
    let mut found = Found {
        agents: vec![
            built_in(AgentType::explore()),
            built_in(AgentType::general()),
        ],
        warnings: Vec::new(),
    };
    if bare {
        return found;
    }
    let mut seen = Vec::new();
    for (folder, is_folders) in Places::of(workspace).folders {
        // The home folder may be worked in.
        if !seen.contains(&folder) {
            look_into(&folder, is_folders, &mut found);
            seen.push(folder);
        }
    }
    found
        .agents
        .sort_by(|one, other| one.kind.name.cmp(&other.kind.name));
    found
}

fn look_into(folder: &Path, is_folders: bool, found: &mut Found) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        // Mostly there is none.
        return;
    };
    let mut files: Vec<_> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .take(MOST_FILES)
        .collect();
    files.sort();
    for file in files {
        match read(&file).and_then(|bytes| {
            let stem = file.file_stem().unwrap_or_default().to_string_lossy();
            let tool = |name: &str| Builtin::named(name).map(Builtin::name);
            AgentType::parse(&bytes, &stem, tool).map_err(|error| error.to_string())
        }) {
            Ok((kind, model)) => {
                found.agents.retain(|other| other.kind.name != kind.name);
                found.agents.push(Defined {
                    kind,
                    model,
                    file: Some(file),
                    is_folders,
                });
            }
            Err(problem) => found.warnings.push(format!(
                "the agent in {} is left out: {problem}",
                clean(&file.display().to_string())
            )),
        }
    }
}

/// A plain file, whole, if it is no longer than one may be.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let told = |error: io::Error| error.to_string();
    let is_file = std::fs::metadata(path).map_err(told)?.is_file();
    if !is_file {
        return Err("it is no plain file".into());
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(told)?;
    file.take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(told)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MOST_BYTES {
        return Err(format!("it has more than {MOST_BYTES} bytes"));
    }
    Ok(bytes)
}

impl Found {
    /// The types, with the models that they name: `model` gives one, if it can be had. A name that
    /// stands for one of another product's models means the session's own.
    ///
    /// A folder's file names a model of the provider in use only: `is_served` says whether one is.
    pub(crate) fn types(
        &mut self,
        explore_model: Option<&str>,
        is_served: impl Fn(&str) -> bool,
        mut model: impl FnMut(&str) -> Result<AgentModel, String>,
    ) -> AgentTypes {
        let mut kinds = Vec::new();
        for one in &self.agents {
            let mut kind = one.kind.clone();
            let own = one.model.as_deref();
            let own = own.filter(|name| !compat::MODEL_WORDS.contains(name));
            let usual = explore_model.filter(|_| one.file.is_none() && kind.name == "explore");
            if let Some(name) = own.or(usual) {
                // What a folder says must not send a conversation elsewhere.
                let wanted = if one.is_folders && names_provider(name) && !is_served(name) {
                    let file = one.file.as_deref().unwrap_or_else(|| Path::new(""));
                    Err(format!(
                        "`model` in {} is not applied: a folder's agent does not choose the provider",
                        clean(&file.display().to_string())
                    ))
                } else {
                    model(name)
                };
                match wanted {
                    Ok(model) => kind.model = Some(model),
                    Err(problem) => self.warnings.push(format!(
                        "the agent {} works with the model of the session: {problem}",
                        clean(&kind.name)
                    )),
                }
            }
            kinds.push(kind);
        }
        AgentTypes::new(kinds)
    }
}

/// Lists the kinds of agents. Broken pipes end it quietly.
pub(crate) fn run(args: &AgentsArgs) -> Result<Status, Failure> {
    let workspace = setup::workspace(args.directory.as_deref())?;
    let found = find(&workspace, args.bare);
    for warning in &found.warnings {
        complain(warning);
    }
    let mut out = crate::output::stdout();
    for one in &found.agents {
        let Defined {
            kind, model, file, ..
        } = one;
        let line = if args.json {
            serde_json::json!({
                "name": kind.name,
                "description": kind.description,
                "tools": kind.tools,
                "disallowed_tools": kind.without,
                "read_only": kind.read_only,
                "model": model,
                "file": file,
            })
            .to_string()
        } else {
            let file = file
                .as_ref()
                .map_or_else(|| "built in".into(), |file| file.display().to_string());
            let description = kind
                .description
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
            clean(&format!("{}  ({file})\n  {description}", kind.name))
        };
        if writeln!(out, "{line}").is_err() {
            return Ok(Status::BrokenPipe);
        }
    }
    Ok(Status::Done)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join(name), text).unwrap();
    }

    fn looked(folders: &[&Path]) -> Found {
        let mut found = Found::default();
        for folder in folders {
            look_into(folder, true, &mut found);
        }
        found
    }

    #[test]
    fn the_nearer_one_of_a_name_counts_and_a_bad_one_is_named() {
        let root = tempfile::tempdir().unwrap();
        let (far, near) = (root.path().join("far"), root.path().join("near"));
        write(&far, "a.md", "---\ndescription: far\n---\nx");
        write(&far, "b.md", "---\ndescription: only\nmodel: small\n---\nx");
        write(&near, "a.md", "---\ndescription: near\n---\nx");
        write(
            &near,
            "bad.md",
            "---\ndescription: d\ntools: Nothing\n---\nx",
        );
        write(&near, "notes.txt", "no agent");
        fs::create_dir(near.join("folder.md")).unwrap();
        let found = looked(&[&far, &near]);
        let told: Vec<_> = found
            .agents
            .iter()
            .map(|one| one.kind.description.as_str())
            .collect();
        assert_eq!(told, ["only", "near"]);
        let [bad, folder] = found.warnings.as_slice() else {
            panic!("{:?}", found.warnings)
        };
        assert!(
            bad.contains("near/bad.md is left out: line 3: `tools` names no tool"),
            "{bad}"
        );
        assert!(
            folder.contains("folder.md is left out: it is no plain file"),
            "{folder}"
        );
    }

    #[test]
    fn files_are_read_as_other_systems_save_them() {
        let root = tempfile::tempdir().unwrap();
        let plain = "---\ndescription: Use it.\n---\nDo it.\n";
        let utf16 = |unit: fn(u16) -> [u8; 2]| -> Vec<u8> {
            let units = "\u{feff}".encode_utf16().chain(plain.encode_utf16());
            units.flat_map(unit).collect()
        };
        let table: Vec<(&str, Vec<u8>, Option<usize>)> = vec![
            ("mark", format!("\u{feff}{plain}").into(), None),
            ("returns", plain.replace('\n', "\r\n").into(), None),
            ("little", utf16(u16::to_le_bytes), None),
            ("big", utf16(u16::to_be_bytes), None),
            (
                "blanks",
                "--- \ndescription: Use it.\n--- \nDo it.".into(),
                None,
            ),
            (
                "tab",
                "---\ndescription:\tUse it.\n---\nDo it.".into(),
                None,
            ),
            (
                "colon",
                "---\ndescription: Use when: a, b\n---\nDo it.".into(),
                None,
            ),
            (
                "number",
                "---\nname: 12\ndescription: Use it.\n---\nDo it.".into(),
                None,
            ),
            (
                "latin",
                b"---\ndescription: caf\xe9\n---\nDo it.".into(),
                Some(2),
            ),
            (
                "quote",
                "---\ndescription: \"Use it.\n---\nDo it.".into(),
                Some(2),
            ),
            (
                "list",
                "---\ndescription: [a, b]\n---\nDo it.".into(),
                Some(2),
            ),
            ("empty", Vec::new(), Some(1)),
            ("bare", "Do it.".into(), Some(1)),
        ];
        for (name, bytes, _) in &table {
            fs::write(root.path().join(format!("{name}.md")), bytes).unwrap();
        }
        let found = looked(&[root.path()]);
        let mut names: Vec<_> = found
            .agents
            .iter()
            .map(|one| one.kind.name.as_str())
            .collect();
        names.sort_unstable();
        let expected = [
            "12", "big", "blanks", "colon", "little", "mark", "returns", "tab",
        ];
        assert_eq!(names, expected, "{:?}", found.warnings);
        for agent in &found.agents {
            assert!(agent.kind.description.starts_with("Use "), "{agent:?}");
            assert_eq!(agent.kind.prompt.trim(), "Do it.", "{agent:?}");
        }
        for (name, _, line) in table.iter().filter(|row| row.2.is_some()) {
            let part = format!("{name}.md is left out: line {}", line.unwrap());
            let warned = found.warnings.iter().any(|warning| warning.contains(&part));
            assert!(warned, "{part}: {:?}", found.warnings);
        }
    }

    #[test]
    fn models_are_taken_where_they_may_be() {
        let mut found = Found::default();
        for (name, model, is_folders) in [
            ("plain", "small", true),
            ("elsewhere", "xai/small", true),
            ("same", "groq/small", true),
            ("own", "xai/small", false),
            ("word", compat::MODEL_WORDS[0], true),
            ("missing", "none", true),
        ] {
            found.agents.push(Defined {
                kind: AgentType {
                    name: name.into(),
                    ..AgentType::default()
                },
                model: Some(model.into()),
                file: Some("f.md".into()),
                is_folders,
            });
        }
        found.agents.push(Defined {
            kind: AgentType::explore(),
            model: None,
            file: None,
            is_folders: false,
        });
        let types = found.types(
            Some("cheap"),
            |name| name.starts_with("groq/"),
            |name| match name {
                "none" => Err("there is no such model".into()),
                name => Ok(AgentModel {
                    name: name.into(),
                    max_output_tokens: None,
                    escalated_output_tokens: None,
                }),
            },
        );
        let models: Vec<_> = types
            .types()
            .iter()
            .map(|kind| {
                (
                    kind.name.as_str(),
                    kind.model.as_ref().map(|model| model.name.as_str()),
                )
            })
            .collect();
        let expected = [
            ("elsewhere", None),
            ("explore", Some("cheap")),
            ("missing", None),
            ("own", Some("xai/small")),
            ("plain", Some("small")),
            ("same", Some("groq/small")),
            ("word", None),
        ];
        assert_eq!(models, expected);
        assert_eq!(found.warnings.len(), 2, "{:?}", found.warnings);
        assert!(
            found
                .warnings
                .iter()
                .any(|warning| warning.contains("`model` in f.md"))
        );
    }
}
