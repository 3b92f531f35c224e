//! How a recipe is put together.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tooloop_kernel::{Fallback, Hooked, Ledger, Limits, OutputWay, RetryPolicy, Settings};
use tooloop_policy::Policy;
use tooloop_provider::{Cassette, Provider, Redactor, compat};
use tooloop_session::Catalog;
use tooloop_tool::{DynTool, Registry, Tool, tool};

use super::{Agent, Recipe};
use crate::agents::{AgentTypes, EXIT_PLAN, ExitPlan, Planning, Task};
use crate::driver;
use crate::hooks::{About, HookEvent, HookSet, Hooks};
use crate::output_schema::{AnswerTool, OutputSchema};
use crate::paths;
use crate::{Approval, Border, BuildError, Instructions, ResultBudget, StopHook, SystemPrompt};

/// Builds an [`Agent`].
#[derive(Debug, Default)]
#[must_use]
pub struct AgentBuilder {
    provider: Option<Arc<dyn Provider>>,
    settings: Settings,
    tools: Vec<ToolEntry>,
    policy: Policy,
    approval: Approval,
    results: ResultBudget,
    secrets: Redactor,
    workspace: Option<PathBuf>,
    folders: Vec<PathBuf>,
    border: Option<Arc<Border>>,
    journal: Option<PathBuf>,
    checkpoints: bool,
    recording: Option<Cassette>,
    chance: Option<fn() -> u16>,
    fallback: Option<Fallback>,
    output: Option<OutputSchema>,
    stop_hook: Option<Arc<dyn StopHook>>,
    hooks: Option<Hooks>,
    ledger: Option<Ledger>,
    agents: Option<AgentTypes>,
    planning: Option<Planning>,
    prompt: SystemPrompt,
    told_facts: bool,
    instructions: Option<Instructions>,
}

struct ToolEntry(Arc<dyn DynTool>);

impl std::fmt::Debug for ToolEntry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0.definition().name)
    }
}

impl AgentBuilder {
    /// Who writes the replies.
    pub fn provider(mut self, provider: Arc<dyn Provider>) -> Self {
        self.provider = Some(provider);
        self
    }

    /// The model's name as the provider knows it.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.settings.model = model.into();
        self
    }

    /// The system prompt, a text or a list of sections; none if this is not called.
    pub fn system(mut self, system: impl Into<SystemPrompt>) -> Self {
        self.prompt = system.into();
        self
    }

    /// Whether the model is told what changes by itself: the date, and what git has checked out.
    /// That is told, and recorded, with the first prompt of a session and again with the first one
    /// of another day, so the system prompt stays as it is. Not if this is not called.
    pub fn told_facts(mut self, told: bool) -> Self {
        self.told_facts = told;
        self
    }

    /// The instructions that stand in the system prompt, so that those of folders further down are
    /// told when something in them is touched.
    pub fn instructions(mut self, instructions: Instructions) -> Self {
        self.instructions = Some(instructions);
        self
    }

    /// The names of the tools so far, sorted.
    #[must_use]
    pub fn tool_names(&self) -> Vec<String> {
        let mut names: Vec<_> = self
            .tools
            .iter()
            .map(|ToolEntry(tool)| tool.definition().name.clone())
            .collect();
        names.sort_unstable();
        names
    }

    /// Adds a tool.
    pub fn tool(self, implementation: impl Tool) -> Self {
        self.dyn_tool(tool(implementation))
    }

    /// Adds a tool whose input type is not known.
    pub fn dyn_tool(mut self, tool: Arc<dyn DynTool>) -> Self {
        self.tools.push(ToolEntry(tool));
        self
    }

    /// What calls may do. Without one, read-only calls are allowed and all others are asked about.
    /// The workspace and added folders become roots of it.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Who is asked. Without one, what would be asked is denied.
    pub fn approval(mut self, approval: Approval) -> Self {
        self.approval = approval;
        self
    }

    /// The folder that relative paths of tools mean. The current one if this is not called.
    pub fn workspace(mut self, workspace: impl Into<PathBuf>) -> Self {
        self.workspace = Some(workspace.into());
        self
    }

    /// Adds a folder beside the workspace in which files may be touched.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folders.push(folder.into());
        self
    }

    /// The border that no call crosses by its paths, and what commands may do in their sandbox. The
    /// tools that run commands are told of the sandbox themselves:
    /// [`tooloop_tools::ToolConfinement`].
    pub fn border(mut self, border: Border) -> Self {
        self.border = Some(Arc::new(border));
        self
    }

    /// Keeps a journal of each session below this folder. Without one, sessions end with the
    /// process.
    pub fn journal(mut self, root: impl Into<PathBuf>) -> Self {
        self.journal = Some(root.into());
        self
    }

    /// Whether the old contents of files that calls change are kept beside the journal, so that
    /// [`crate::Session::rewind_to`] can restore them. Not without a journal, and not if this is not
    /// called: for tools that work on this machine's files.
    pub fn checkpoints(mut self, kept: bool) -> Self {
        self.checkpoints = kept;
        self
    }

    /// Writes the entries of the session onto a cassette as well, so that it can be replayed
    /// elsewhere ([`crate::replay`]). The model's part is recorded by a
    /// [`tooloop_provider::RecordingProvider`] on the same cassette. One cassette holds one session.
    pub fn recording(mut self, cassette: Cassette) -> Self {
        self.recording = Some(cassette);
        self
    }

    /// The most model calls in a turn.
    pub fn max_turns(mut self, limit: u32) -> Self {
        self.settings.max_turns = Some(limit);
        self
    }

    /// What else a session may use up, as ceilings: before each request the most that it can come to
    /// is set aside, its output cap made smaller if need be; what does not fit is not sent.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// The ledger that the sessions of this agent share with others, so that limits hold for the sum.
    /// Without one, each session has its own.
    pub fn ledger(mut self, ledger: Ledger) -> Self {
        self.ledger = Some(ledger);
        self
    }

    /// Who is asked for the rest of a turn in which the model is overloaded three times in a row, with
    /// its output caps as for [`AgentBuilder::output_tokens`].
    pub fn fallback_model(
        mut self,
        model: impl Into<String>,
        output_tokens: Option<u64>,
        escalated: Option<u64>,
    ) -> Self {
        self.fallback = Some(Fallback {
            model: model.into(),
            max_output_tokens: output_tokens,
            escalated_output_tokens: escalated,
            window: None,
            price: None,
        });
        self
    }

    /// The form that the answer of each turn must have: [`crate::TurnReport::structured_output`].
    pub fn output_schema(mut self, schema: OutputSchema) -> Self {
        self.output = Some(schema);
        self
    }

    /// Who has a say in whether the model is done.
    pub fn stop_hook(mut self, hook: Arc<dyn StopHook>) -> Self {
        self.stop_hook = Some(hook);
        self
    }

    /// The commands that are told what happens, and have a say in it.
    pub fn hooks(mut self, hooks: Hooks) -> Self {
        self.hooks = Some(hooks);
        self
    }

    /// Gives the agent the tool `task`, by which it has subagents of these types work for it.
    pub fn agents(mut self, types: AgentTypes) -> Self {
        self.agents = Some(types);
        self
    }

    /// Gives the agent the tool `exit_plan`, by which it presents a plan in plan mode.
    pub fn planning(mut self, planning: Planning) -> Self {
        self.planning = Some(planning);
        self
    }

    /// Whether the conversation is summed up by itself when it fills the model's window; so if this
    /// is not called. It can be asked for at any time ([`crate::Session::compact`]).
    pub fn compaction(mut self, automatic: bool) -> Self {
        self.settings.compaction = automatic;
        self
    }

    /// How failed model calls are tried again.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.settings.retry = retry;
        self
    }

    /// The output caps: the default one, and the larger one that is tried once when that cut a
    /// reply. The model's own cap if this is not called.
    pub fn output_tokens(mut self, default: u64, escalated: Option<u64>) -> Self {
        self.settings.max_output_tokens = Some(default);
        self.settings.escalated_output_tokens = escalated;
        self
    }

    /// The most read-only calls that run at once.
    pub fn max_parallel_tools(mut self, most: usize) -> Self {
        self.settings.max_parallel_tools = most;
        self
    }

    /// How long results may be before the model is shown a part of them.
    pub fn results(mut self, budget: ResultBudget) -> Self {
        self.results = budget;
        self
    }

    /// What the results of tools must not hold: values that are known are taken out before a result
    /// is recorded, shown or sent. What only looks like a secret stays, since it may be a part of
    /// the work. Nothing is known if this is not called.
    pub fn secrets(mut self, secrets: Redactor) -> Self {
        self.secrets = secrets;
        self
    }

    /// How often the same calls with the same outcome may come in a row before the turn ends.
    pub fn stop_after_repeats(mut self, times: u32) -> Self {
        self.settings.stop_after_repeats = times;
        self
    }

    /// Where the random numbers come from that spread the retries of many. The clock if this is not
    /// called; for tests that must come out the same twice.
    pub fn chance(mut self, chance: fn() -> u16) -> Self {
        self.chance = Some(chance);
        self
    }

    /// Makes the agent.
    ///
    /// # Errors
    /// If a part is missing or does not fit.
    pub fn build(self) -> Result<Agent, BuildError> {
        let provider = self.provider.ok_or(BuildError::NoProvider)?;
        let real = |folder: PathBuf| {
            std::fs::canonicalize(&folder).map_err(|source| BuildError::Workspace {
                path: folder.display().to_string(),
                source,
            })
        };
        let workspace = real(self.workspace.unwrap_or_else(|| PathBuf::from(".")))?;
        let mut policy = self.policy.with_links_followed(paths::real);
        // The first one is what relative paths in lines mean.
        policy.roots.insert(0, workspace.clone());
        for name in compat::PROGRAM_SETTINGS {
            if !policy.protected_names.iter().any(|known| known == name) {
                policy.protected_names.push(name.to_owned());
            }
        }
        let folders = self.folders.into_iter().map(real);
        let folders = folders.collect::<Result<Vec<_>, _>>()?;
        policy.roots.extend(folders.iter().cloned());
        let mut registry = Registry::new();
        for ToolEntry(tool) in self.tools {
            registry.add(tool)?;
        }
        if let Some(types) = self.agents {
            registry.add(tool(Task::new(types.within(&self.prompt))))?;
        }
        if let Some(planning) = self.planning {
            let session = Arc::default();
            registry.add(tool(ExitPlan { planning, session }))?;
        }
        let model = provider.info(&self.settings.model);
        let mut fallback = self.fallback;
        let mut native = model.structured_output;
        if let Some(fallback) = &mut fallback {
            let info = provider.info(&fallback.model);
            fallback.price = info.price;
            fallback.window = Some(info.context_window);
            native &= info.structured_output;
        }
        let form = self.output.as_ref().map(|schema| schema.form(native));
        if let (Some(OutputWay::Tool(_)), Some(schema)) =
            (form.as_ref().map(|form| &form.way), &self.output)
        {
            registry.add(Arc::new(AnswerTool(schema.clone())))?;
        }
        let hooks = self.hooks.filter(|hooks| !hooks.rules.is_empty());
        let hooks = hooks.map(HookSet::new).transpose();
        let hooks = hooks.map_err(|(rule, source)| BuildError::Hook { rule, source })?;
        let stops = |hooks: &HookSet| hooks.has(HookEvent::Stop, &About::Nothing);
        let settings = Settings {
            hooked: hooked(hooks.as_ref(), &registry),
            system: self.prompt.text().into(),
            tools: registry.definitions(),
            price: model.price,
            window: Some(model.context_window),
            fallback,
            output: form,
            last_word: (self.planning == Some(Planning::Answers)).then(|| EXIT_PLAN.into()),
            stop_hook: self.stop_hook.is_some() || hooks.as_ref().is_some_and(stops),
            ..self.settings
        };
        let catalog = self.journal.map(|root| Catalog::new(root, &workspace));
        Ok(Agent(Arc::new(Recipe {
            provider,
            settings,
            registry,
            policy,
            approval: self.approval,
            results: self.results,
            secrets: self.secrets,
            workspace,
            catalog,
            checkpoints: self.checkpoints,
            folders,
            border: self.border,
            recording: self.recording,
            recorded: AtomicBool::new(false),
            chance: self.chance.unwrap_or(driver::chance),
            output: self.output,
            stop_hook: self.stop_hook,
            hooks: hooks.map(Arc::new),
            ledger: self.ledger,
            planning: self.planning,
            prompt: self.prompt,
            told_facts: self.told_facts,
            instructions: self.instructions,
        })))
    }
}

/// The tools of whose calls hooks are told.
fn hooked(hooks: Option<&HookSet>, registry: &Registry) -> Hooked {
    let Some(hooks) = hooks else {
        return Hooked::default();
    };
    let told = |events: &[HookEvent]| {
        let tool = |name: &&str| {
            let mut events = events.iter();
            events.any(|event| hooks.has(*event, &About::Tool(name)))
        };
        registry.names().filter(tool).map(str::to_owned).collect()
    };
    Hooked {
        before: told(&[HookEvent::PreToolUse]),
        after: told(&[HookEvent::PostToolUse, HookEvent::PostToolUseFailure]),
    }
}
