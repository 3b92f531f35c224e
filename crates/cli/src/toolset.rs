//! Which tools a run has.

use std::fmt;
use std::sync::Arc;

use tooloop::provider::Redactor;
use tooloop::tools::{
    ApplyPatch, Bash, BashSettings, Edit, Glob, Grep, JobOutput, JobStop, MemoryStore, MemoryTool,
    Ops, Read, SearchSettings, SkillSet, SkillTool, TempView, Terminal, TerminalSettings, Todo,
    ViewedOps, WebFetch, WebFetchSettings, Write,
};
use tooloop::{AgentBuilder, AgentTypes, DynTool, TASK, tool};

/// A tool that the product brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Builtin {
    ApplyPatch,
    Bash,
    Edit,
    Glob,
    Grep,
    JobOutput,
    JobStop,
    Memory,
    Read,
    Skill,
    Task,
    Terminal,
    Todo,
    WebFetch,
    Write,
}

impl Builtin {
    pub(crate) const ALL: [Self; 15] = [
        Self::ApplyPatch,
        Self::Bash,
        Self::Edit,
        Self::Glob,
        Self::Grep,
        Self::JobOutput,
        Self::JobStop,
        Self::Memory,
        Self::Read,
        Self::Skill,
        Self::Task,
        Self::Terminal,
        Self::Todo,
        Self::WebFetch,
        Self::Write,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ApplyPatch => "apply_patch",
            Self::Bash => "bash",
            Self::Edit => "edit",
            Self::Glob => "glob",
            Self::Grep => "grep",
            Self::JobOutput => "job_output",
            Self::JobStop => "job_stop",
            Self::Memory => "memory",
            Self::Read => "read",
            Self::Skill => "skill",
            Self::Task => TASK,
            Self::Terminal => "terminal",
            Self::Todo => "todo",
            Self::WebFetch => "web_fetch",
            Self::Write => "write",
        }
    }

    /// By name, also as others write it: `WebFetch` is `web_fetch`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let plain = |name: &str| name.replace(['_', '-'], "").to_ascii_lowercase();
        let wanted = match plain(name).as_str() {
            "todowrite" => "todo".into(),
            "multiedit" => "edit".into(),
            "ls" => "read".into(),
            "agent" => plain(TASK),
            "bashoutput" => plain("job_output"),
            "killshell" => plain("job_stop"),
            _ => plain(name),
        };
        Self::ALL
            .into_iter()
            .find(|tool| plain(tool.name()) == wanted)
    }
}

/// Which tools a run has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum ToolSet {
    /// All that the product brings.
    #[default]
    Default,
    /// The shell alone, with a prompt that tells how to work with it: a baseline to measure by.
    BashOnly,
    /// These, sorted; perhaps none.
    Picked(Vec<Builtin>),
}

impl ToolSet {
    /// Reads `default`, `none`, `bash-only`, or names parted by commas or blanks.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text.trim() {
            "default" => return Ok(Self::Default),
            "bash-only" => return Ok(Self::BashOnly),
            "none" | "" => return Ok(Self::Picked(Vec::new())),
            _ => {}
        }
        let mut picked = Vec::new();
        for name in text.split([',', ' ']).filter(|name| !name.is_empty()) {
            picked.push(Builtin::named(name).ok_or_else(|| unknown(name))?);
        }
        picked.sort_unstable();
        picked.dedup();
        Ok(Self::Picked(picked))
    }

    /// Whether it holds no tool that the other does not.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        let other = other.tools();
        self.tools().iter().all(|tool| other.contains(tool))
    }

    /// Whether it has that tool.
    pub(crate) fn has(&self, tool: Builtin) -> bool {
        self.tools().contains(&tool)
    }

    fn tools(&self) -> Vec<Builtin> {
        match self {
            Self::Default => Builtin::ALL.to_vec(),
            Self::BashOnly => vec![Builtin::Bash],
            Self::Picked(picked) => picked.clone(),
        }
    }
}

impl fmt::Display for ToolSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::BashOnly => formatter.write_str("bash-only"),
            Self::Picked(picked) if picked.is_empty() => formatter.write_str("none"),
            Self::Picked(picked) => {
                let names: Vec<_> = picked.iter().map(|tool| tool.name()).collect();
                formatter.write_str(&names.join(","))
            }
        }
    }
}

/// What may be said in place of a list of names.
pub(crate) fn words() -> String {
    let names: Vec<_> = Builtin::ALL.iter().map(|tool| tool.name()).collect();
    format!(
        "default, none, bash-only, or a list of: {}",
        names.join(", ")
    )
}

fn unknown(name: &str) -> String {
    let nearest = Builtin::ALL
        .iter()
        .map(|tool| {
            (
                strsim::damerau_levenshtein(tool.name(), &name.to_ascii_lowercase()),
                tool,
            )
        })
        .min()
        .filter(|(distance, _)| *distance <= 2);
    let nearest = nearest.map_or_else(String::new, |(_, tool)| {
        format!("did you mean {}? ", tool.name())
    });
    format!(
        "names no tool with {name:?}: {nearest}it may be {}",
        words()
    )
}

/// What tools are made of.
pub(crate) struct Materials {
    pub(crate) ops: Arc<dyn Ops>,
    pub(crate) bash: BashSettings,
    pub(crate) terminal: TerminalSettings,
    pub(crate) web: WebFetchSettings,
    /// How temporary folders are seen, if not as they are.
    pub(crate) view: Option<TempView>,
    /// Who can be had to work for the agent.
    pub(crate) agents: AgentTypes,
    pub(crate) skills: Arc<SkillSet>,
    /// Where notes are kept, if they are.
    pub(crate) memory: Option<MemoryStore>,
    /// Knows what no note may hold.
    pub(crate) redactor: Redactor,
}

/// Gives an agent its tools.
pub(crate) fn equip(agent: AgentBuilder, set: &ToolSet, mut materials: Materials) -> AgentBuilder {
    let tools = set.tools();
    if ![Builtin::JobOutput, Builtin::JobStop]
        .iter()
        .all(|tool| tools.contains(tool))
    {
        // Nothing could look at a job, or end it.
        materials.bash.jobs = None;
    }
    tools.into_iter().fold(agent, |agent, builtin| {
        match (builtin, make(builtin, &materials)) {
            (_, Some(tool)) => agent.dyn_tool(tool),
            (Builtin::Task, None) => agent.agents(materials.agents.clone()),
            (_, None) => agent,
        }
    })
}

/// A tool; `None` for the one that the agent makes itself, and for those that have nothing to work
/// on.
fn make(builtin: Builtin, materials: &Materials) -> Option<Arc<dyn DynTool>> {
    let ops: Arc<dyn Ops> = match &materials.view {
        Some(view) => Arc::new(ViewedOps::new(Arc::clone(&materials.ops), view.clone())),
        None => Arc::clone(&materials.ops),
    };
    let search = SearchSettings {
        view: materials.view.clone(),
        ..SearchSettings::default()
    };
    Some(match builtin {
        Builtin::ApplyPatch => tool(ApplyPatch::new(ops)),
        Builtin::Bash => tool(Bash::new(materials.bash.clone())),
        Builtin::Edit => tool(Edit::new(ops)),
        Builtin::Glob => tool(Glob::new(search)),
        Builtin::Grep => tool(Grep::new(search)),
        Builtin::JobOutput => tool(JobOutput::new()),
        Builtin::JobStop => tool(JobStop::new()),
        Builtin::Memory => {
            let redactor = materials.redactor.clone();
            let mask = move |text: &str| redactor.redact(text).into_owned();
            tool(MemoryTool::new(materials.memory.clone()?, mask))
        }
        Builtin::Read => tool(Read::new(ops)),
        Builtin::Skill if materials.skills.is_empty_for_model() => return None,
        Builtin::Skill => tool(SkillTool::new(Arc::clone(&materials.skills))),
        Builtin::Task => return None,
        Builtin::Terminal => tool(Terminal::new(materials.terminal.clone())),
        Builtin::Todo => tool(Todo::new()),
        Builtin::WebFetch => tool(WebFetch::new(materials.web.clone())),
        Builtin::Write => tool(Write::new(ops)),
    })
}

#[cfg(test)]
mod tests {
    use tooloop::exec::{Environment, Processes};
    use tooloop::provider::ScriptedProvider;
    use tooloop::tools::{LocalOps, Place};
    use tooloop::{Agent, EXIT_PLAN, Planning};

    use super::*;

    fn skills() -> SkillSet {
        let held = tempfile::tempdir().unwrap();
        let folder = held.path().join("a");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("SKILL.md"), "---\ndescription: x\n---\n").unwrap();
        SkillSet::discover(&[Place::of_user(held.path())])
    }

    fn materials() -> Materials {
        let ops: Arc<dyn Ops> = Arc::new(LocalOps::new(Processes::new().unwrap()));
        Materials {
            bash: BashSettings::new(Arc::clone(&ops), Environment::empty()),
            terminal: TerminalSettings::new(Arc::clone(&ops), Environment::empty()),
            web: WebFetchSettings::default(),
            view: None,
            agents: AgentTypes::default(),
            skills: Arc::new(skills()),
            memory: Some(MemoryStore::at("/nowhere")),
            redactor: Redactor::off(),
            ops,
        }
    }

    #[test]
    fn the_default_set_is_small() {
        let agent = Agent::builder()
            .provider(Arc::new(ScriptedProvider::new()))
            .planning(Planning::Asks);
        let agent = equip(agent, &ToolSet::Default, materials())
            .build()
            .unwrap();
        let bytes: usize = agent
            .tool_definitions()
            .iter()
            .map(|tool| tool.name.len() + tool.description.len() + tool.input_schema.get().len())
            .sum();
        // 3,500 tokens, by the estimate of 3.5 bytes a token.
        assert!(bytes < 3_500 * 7 / 2, "{bytes} bytes");
        let names = agent
            .tool_names()
            .into_iter()
            .filter(|name| name != EXIT_PLAN);
        assert_eq!(names.collect::<Vec<_>>(), Builtin::ALL.map(Builtin::name));
    }

    #[test]
    fn what_has_nothing_to_work_on_is_not_offered() {
        let materials = Materials {
            skills: Arc::default(),
            memory: None,
            ..materials()
        };
        let gone = Builtin::ALL
            .into_iter()
            .filter(|tool| make(*tool, &materials).is_none());
        // The agent makes the last one itself.
        let expected = [Builtin::Memory, Builtin::Skill, Builtin::Task];
        assert_eq!(gone.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn sets_are_read_as_people_write_them() {
        let table = [
            ("default", "default"),
            ("bash-only", "bash-only"),
            ("", "none"),
            (" none ", "none"),
            ("Bash,Edit,Read", "bash,edit,read"),
            ("WebFetch apply-patch", "apply_patch,web_fetch"),
            ("read, read", "read"),
        ];
        for (text, expected) in table {
            assert_eq!(
                ToolSet::parse(text).unwrap().to_string(),
                expected,
                "{text}"
            );
        }
        let words = ToolSet::parse("read,gerp").unwrap_err();
        assert!(
            words.starts_with("names no tool with \"gerp\": did you mean grep?"),
            "{words}"
        );
        let words = ToolSet::parse("frobnicate").unwrap_err();
        assert!(
            words.contains("\"frobnicate\": it may be default, none, bash-only, or"),
            "{words}"
        );
    }

    #[test]
    fn an_agent_gets_what_was_picked() {
        let agent = Agent::builder().provider(Arc::new(ScriptedProvider::new()));
        let picked = ToolSet::parse("read,bash").unwrap();
        let agent = equip(agent, &picked, materials()).build().unwrap();
        assert_eq!(agent.tool_names(), ["bash", "read"]);
    }
}
