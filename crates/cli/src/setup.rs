//! The composition root: from what was typed and set to what is run.

mod loading;
mod opening;
mod provider;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tooloop::boundary::PrivateTemp;
use tooloop::exec::{Environment, EnvironmentRules, Mask, Processes, Shell};
use tooloop::hooks::{CommandRunner, Hooks};
use tooloop::provider::{Cassette, Provider, RecordingProvider, compat};
use tooloop::tools::{
    BashSettings, JobSettings, LocalOps, Ops, Skill, SkillSet, TerminalSettings, WebFetchSettings,
};
use tooloop::{
    Agent, AgentBuilder, AgentModel, AgentTypes, Limits, Mode, OutputSchema, Policy, ProxySettings,
    Reach, RetryPolicy, Rule,
};

pub(crate) use self::loading::{load_settings, load_settings_asking};
pub(crate) use self::opening::Open;

use self::opening::open;
use self::provider::{provider, with_model};
use crate::args::RunArgs;
use crate::callbacks::ProgramRunner;
use crate::exit::{Failure, Status};
use crate::hook_scripts::KnownScripts;
use crate::initialize::Initialize;
use crate::input;
use crate::knowledge::{self, Calls};
use crate::permissions::RuleSources;
use crate::project_rules::ProjectRules;
use crate::prompt::{self, Ingredients, Prompt};
use crate::replay;
use crate::secrets;
use crate::sessions;
use crate::settings::{self, Loaded, Settings, served};
use crate::telemetry::{self, Telemetry};
use crate::toolset::{self, Materials, ToolSet};
use crate::wall::{Attempt, SandboxReport, Tried, Wall};

/// What a run is made of, whatever its front end.
pub(crate) struct Setup {
    pub(crate) agent: AgentBuilder,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) model: String,
    pub(crate) processes: Processes,
    pub(crate) mode: Mode,
    /// Whether there is a tool for plans, where somebody can be asked about one.
    pub(crate) plans: bool,
    pub(crate) caps: Caps,
    pub(crate) limits: Limits,
    /// How long a headless run waits for background work after an answer.
    pub(crate) background_wait: std::time::Duration,
    pub(crate) open: Open,
    /// What the run is recorded on beside its journal.
    pub(crate) recording: Option<Cassette>,
    pub(crate) warnings: Vec<String>,
    /// What is so about the sandbox.
    pub(crate) sandbox: SandboxReport,
    /// To be held until all that was started has ended.
    pub(crate) temp: Option<PrivateTemp>,
    pub(crate) telemetry: Telemetry,
    /// Where rules are kept that a person saves for this project.
    pub(crate) saved_rules: ProjectRules,
    /// Where each rule is written.
    pub(crate) rule_sources: RuleSources,
    /// What a person can call by a slash and its name.
    pub(crate) calls: Calls,
}

/// How the output caps of a model are chosen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caps {
    /// What the user set.
    wanted: Option<u64>,
}

/// The default output cap, where the model can write more: enough for a large file in one call.
const DEFAULT_OUTPUT_TOKENS: u64 = 16_000;

impl Caps {
    /// The default cap, and the larger one that is tried once when that cut a reply.
    pub(crate) fn of(self, provider: &dyn Provider, model: &str) -> (u64, Option<u64>) {
        let most = provider.info(model).max_output_tokens;
        match self.wanted {
            Some(wanted) => (wanted, None),
            None if most > DEFAULT_OUTPUT_TOKENS => (DEFAULT_OUTPUT_TOKENS, Some(most)),
            None => (most, None),
        }
    }
}

/// Looks a variable up. What is not text counts as not set.
pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The folder to work in.
pub(crate) fn workspace(directory: Option<&Path>) -> Result<PathBuf, Failure> {
    let directory = directory.unwrap_or(Path::new("."));
    let refused = |error: &dyn std::fmt::Display| {
        Failure::usage(format!(
            "cannot work in the folder {}: {error}",
            directory.display()
        ))
    };
    let workspace = std::fs::canonicalize(directory).map_err(|error| refused(&error))?;
    if !workspace.is_dir() {
        return Err(refused(&"it is not a folder"));
    }
    Ok(workspace)
}

/// Puts a run together. Asks the network only where a local server must be found or named.
pub(crate) async fn setup(
    args: &RunArgs,
    workspace: &Path,
    mut loaded: Loaded,
) -> Result<Setup, Failure> {
    loaded.warnings.extend(proxy_warnings(&loaded.settings));
    let (telemetry, more) = telemetry::start(&loaded.settings, &environment)?;
    loaded.warnings.extend(more);
    let open = open(args, workspace)?;
    let settings = &loaded.settings;
    let attempt = Attempt::begin(settings);
    let (provider, model) = provider(settings).await?;
    let fallback = settings
        .fallback_model
        .as_ref()
        .filter(|name| **name != model);
    let (provider, fallback) = match fallback {
        Some(name) => {
            let (provider, name) = with_model(settings, provider, "the fallback model", name)?;
            (provider, Some(name))
        }
        None => (provider, None),
    };
    let (provider, agents, more) = agents(args, settings, workspace, provider);
    loaded.warnings.extend(more);
    let settings = &loaded.settings;
    let recording = replay::recording(args, settings, &open, workspace)?;
    let provider: Arc<dyn Provider> = match &recording {
        Some(cassette) => Arc::new(RecordingProvider::onto(provider, cassette.clone())),
        None => provider,
    };
    let asked = Asked {
        provider,
        model,
        fallback,
        agents,
    };
    let tried = attempt.end(settings).await?;
    let setup = Setup {
        telemetry,
        ..assemble(args, workspace, loaded, open, asked, tried)?
    };
    Ok(match recording {
        Some(cassette) => Setup {
            agent: setup.agent.recording(cassette.clone()),
            recording: Some(cassette),
            ..setup
        },
        None => setup,
    })
}

/// What a person should know of the proxies that the environment names.
fn proxy_warnings(settings: &Settings) -> Vec<String> {
    let proxies = ProxySettings::from_environment(|name| {
        std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    });
    let mut warnings = proxies.warnings().to_vec();
    if proxies.names_one() && matches!(settings.sandbox_network, Reach::Hosts(_)) {
        warnings.push(
            "`sandbox_network`: commands reach the listed hosts directly, not through the proxy \
             that HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names; where a proxy is the only way out, \
             set it to \"on\""
                .to_owned(),
        );
    }
    warnings
}

/// Who can be had to work for the agent, and who writes for them as well.
pub(crate) fn agents(
    args: &RunArgs,
    settings: &Settings,
    workspace: &Path,
    provider: Arc<dyn Provider>,
) -> (Arc<dyn Provider>, AgentTypes, Vec<String>) {
    let mut found = crate::agents::find(workspace, args.bare);
    let caps = Caps {
        wanted: settings.max_output_tokens,
    };
    let mut provider = provider;
    let is_served = |name: &str| {
        let own = settings.model.as_deref();
        served(settings, own, &environment) == served(settings, Some(name), &environment)
    };
    let types = found.types(settings.explore_model.as_deref(), is_served, |name| {
        let with = with_model(settings, Arc::clone(&provider), "the model", name);
        let (with, name) = with.map_err(|failure| failure.message)?;
        provider = with;
        let (cap, escalated) = caps.of(&*provider, &name);
        Ok(AgentModel {
            name,
            max_output_tokens: Some(cap),
            escalated_output_tokens: escalated,
        })
    });
    (provider, types, found.warnings)
}

/// Where an agent works.
fn environment_of(workspace: &Path) -> String {
    format!(
        "You work in the folder {} on a {} machine. Commands run without a terminal: nobody can answer a \
         prompt.",
        workspace.display(),
        std::env::consts::OS
    )
}

/// Who writes the replies.
pub(crate) struct Asked {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) model: String,
    pub(crate) fallback: Option<String>,
    /// Who can be had to work for the agent.
    pub(crate) agents: AgentTypes,
}

/// The same with a provider that is there already. Asks no network and tells nobody.
pub(crate) fn assemble(
    args: &RunArgs,
    workspace: &Path,
    mut loaded: Loaded,
    open: Open,
    asked: Asked,
    tried: Tried,
) -> Result<Setup, Failure> {
    let (saved_rules, rule_sources) = saved_rules(args, workspace, &mut loaded)?;
    let Loaded {
        settings,
        mut warnings,
        ..
    } = loaded;
    let Asked {
        provider,
        model,
        fallback,
        agents,
    } = asked;
    let caps = Caps {
        wanted: settings.max_output_tokens,
    };
    let processes = processes()?;
    let mut folders = vec![workspace.to_owned()];
    for folder in &args.add_dir {
        folders.push(self::workspace(Some(folder))?);
    }
    for folder in &settings.additional_directories {
        // Settings are for many places, and not each of them has all folders.
        match self::workspace(Some(folder)) {
            Ok(folder) if folders.contains(&folder) => {}
            Ok(folder) => folders.push(folder),
            Err(failure) => warnings.push(format!("`additional_directories`: {}", failure.message)),
        }
    }
    let further = folders.get(1..).unwrap_or_default();
    let wall = Wall::put_up(tried, &settings, workspace, further)?;
    let window = provider.info(&model).context_window;
    let knowledge = knowledge::gather(args.bare, workspace, &settings, window);
    warnings.extend(knowledge.warnings);
    let policy = policy(&settings, workspace, &wall, &knowledge.skills);
    let secrets = secrets::for_results(&settings);
    let agent = agent(
        &settings,
        Arc::clone(&provider),
        &model,
        caps,
        policy.clone(),
    )
    .workspace(workspace)
    .secrets(secrets.clone());
    let agent = match &wall.border {
        Some(border) => agent.border(border.clone()),
        None => agent,
    };
    let ops: Arc<dyn Ops> = Arc::new(LocalOps::new(processes.clone()));
    let rules = secrets::rules(&settings);
    // What is hidden in what commands print.
    let mask = Mask::new(secrets::for_results(&settings).values().map(str::to_owned));
    let materials = Materials {
        bash: BashSettings {
            mask: mask.clone(),
            confinement: wall.confinement.clone(),
            jobs: Some(JobSettings {
                end_waits: args.is_headless.then_some(settings.background_wait),
                ..JobSettings::default()
            }),
            ..bash(&settings, Arc::clone(&ops), &rules, folders.clone())
        },
        terminal: TerminalSettings {
            confinement: wall.confinement.clone(),
            ..terminal(&settings, Arc::clone(&ops), &rules)
        },
        view: wall.border.as_ref().and_then(|border| border.view.clone()),
        web: WebFetchSettings {
            private_hosts: settings.private_hosts.clone(),
            extra_ca: settings.extra_ca_file.clone(),
            ..WebFetchSettings::default()
        },
        agents: agents.in_environment(environment_of(workspace)),
        skills: knowledge.skills,
        memory: knowledge.memory,
        redactor: secrets::for_records(&settings),
        ops,
    };
    let agent = toolset::equip(agent, &settings.tools, materials);
    let ingredients = Ingredients {
        args,
        settings: &settings,
        workspace,
        folders: further,
        tools: agent.tool_names(),
        policy: &policy,
        border: wall.border.as_ref(),
        secrets: &secrets,
    };
    let Prompt {
        system,
        instructions,
        warnings: more,
    } = prompt::prompt(ingredients, knowledge.sections)?;
    warnings.extend(more);
    let agent = agent.system(system).told_facts(!args.bare);
    let agent = match instructions {
        Some(instructions) => agent.instructions(instructions),
        None => agent,
    };
    if settings.allow_managed_hooks_only && !args.initialize.hooks.is_empty() {
        return Err(Failure::settings(
            "the managed file allows its own hooks only (`allow_managed_hooks_only`), and the \
             program's initialize request has hooks",
        ));
    }
    let hooks = hooks(&settings, &processes, &rules, mask, workspace, &wall);
    let agent = agent.hooks(with_callbacks(hooks, &args.initialize));
    let agent = folders
        .into_iter()
        .skip(1)
        .fold(agent, AgentBuilder::folder);
    let agent = match args.max_turns {
        Some(limit) => agent.max_turns(limit),
        None => agent,
    };
    let agent = match fallback {
        Some(name) => {
            let (cap, escalated) = caps.of(&*provider, &name);
            agent.fallback_model(name, Some(cap), escalated)
        }
        None => agent,
    };
    let agent = match &args.json_schema {
        Some(schema) => agent.output_schema(output_schema(schema)?),
        None => agent,
    };
    let limits = Limits {
        tool_calls: args.max_tool_calls,
        time: args.max_time,
        tokens: args.max_tokens,
        cost: args.max_budget_usd,
    };
    let agent = agent.limits(limits);
    let agent = if args.no_session_persistence {
        agent
    } else {
        agent.journal(sessions::root_for(workspace)?)
    };
    Ok(Setup {
        agent,
        provider,
        model,
        processes,
        mode: settings.permission_mode,
        plans: settings.tools == ToolSet::Default || settings.permission_mode == Mode::Plan,
        caps,
        limits,
        background_wait: settings.background_wait,
        open,
        recording: None,
        warnings,
        sandbox: wall.report,
        temp: wall.temp,
        telemetry: Telemetry::default(),
        saved_rules,
        rule_sources,
        calls: knowledge.calls,
    })
}

/// The rules that a person has saved for this project, which come to the others; and where all of
/// them stand.
fn saved_rules(
    args: &RunArgs,
    workspace: &Path,
    loaded: &mut Loaded,
) -> Result<(ProjectRules, RuleSources), Failure> {
    let variables: Vec<_> = std::env::vars_os().collect();
    let saved_rules = ProjectRules::of(workspace, settings::user_file(&variables).as_deref());
    let saved = if args.bare {
        Vec::new()
    } else {
        let saved = saved_rules.load();
        saved.map_err(|error| Failure::settings(error.to_string()))?
    };
    let home = environment("HOME").map(PathBuf::from);
    let file = saved_rules.file();
    let sources = RuleSources::new(loaded, &saved, file, workspace, home.as_deref());
    let saved = saved.into_iter().map(|saved| saved.rule);
    loaded.settings.allowed_tools.extend(saved);
    Ok((saved_rules, sources))
}

pub(crate) fn processes() -> Result<Processes, Failure> {
    Processes::new().map_err(|error| {
        Failure::new(
            Status::Internal,
            format!("cannot prepare for running commands: {error}"),
        )
    })
}

fn agent(
    settings: &Settings,
    provider: Arc<dyn Provider>,
    model: &str,
    caps: Caps,
    policy: Policy,
) -> AgentBuilder {
    let (cap, escalated) = caps.of(&*provider, model);
    Agent::builder()
        .provider(provider)
        .model(model)
        .output_tokens(cap, escalated)
        .max_parallel_tools(settings.max_parallel_tools)
        .retry(RetryPolicy {
            base: settings.retry_base,
            max_wait: settings.retry_max_wait,
            max_attempts: settings.retry_max_attempts,
            max_total: settings.retry_max_total,
            max_server_wait: settings.retry_after_max,
            ..RetryPolicy::default()
        })
        .policy(policy)
        .checkpoints(settings.checkpoints)
        .compaction(settings.compaction)
}

/// The rules of all sources. Relative paths in them mean paths in the workspace.
fn policy(settings: &Settings, workspace: &Path, wall: &Wall, skills: &SkillSet) -> Policy {
    let reading = if settings.allow_managed_rules_only {
        Vec::new()
    } else {
        reading(skills, workspace)
    };
    let policy = Policy {
        mode: settings.permission_mode,
        deny: settings.disallowed_tools.clone(),
        ask: settings.ask_tools.clone(),
        allow: [settings.allowed_tools.clone(), reading].concat(),
        protected_names: compat::PROGRAM_SETTINGS.map(str::to_owned).into(),
        ..Policy::default()
    };
    let home = environment("HOME").map(PathBuf::from);
    wall.shape(policy.anchored(workspace, home.as_deref()), settings)
}

/// What lies beside a skill may be read, since its text names it. What a folder's link leads to is judged by
/// where it leads.
fn reading(skills: &SkillSet, workspace: &Path) -> Vec<Rule> {
    let folders = skills.iter().map(Skill::folder);
    let outside = folders.filter(|folder| !folder.starts_with(workspace));
    let plain = outside
        .filter_map(Path::to_str)
        .filter(|path| !path.contains(['*', '?', '\\', '(', ')']));
    plain
        .filter_map(|path| format!("Read({path}/**)").parse().ok())
        .collect()
}

/// The hooks of all sources, as commands that begin in the workspace.
fn hooks(
    settings: &Settings,
    processes: &Processes,
    rules: &EnvironmentRules,
    mask: Option<Mask>,
    workspace: &Path,
    wall: &Wall,
) -> Hooks {
    let mut environment = Environment::of_this_process(rules);
    for name in [
        settings::PROJECT_FOLDER_VARIABLE,
        compat::PROJECT_FOLDER_VARIABLE,
    ] {
        environment.set(name, workspace);
    }
    let shell = settings.shell.as_ref();
    let commands = Arc::new(CommandRunner {
        processes: processes.clone(),
        environment: Arc::new(environment),
        directory: workspace.to_owned(),
        shell: shell.map_or_else(|| Shell::system().clone(), Shell::at),
        confinement: wall.confinement.clone().filter(|_| settings.sandbox_hooks),
        mask,
    });
    Hooks {
        rules: settings.hooks.clone(),
        runner: Arc::new(KnownScripts::new(commands, &settings.hooks, workspace)),
    }
}

/// The hooks with those of the program at the other end.
fn with_callbacks(hooks: Hooks, initialize: &Initialize) -> Hooks {
    let Hooks { mut rules, runner } = hooks;
    if initialize.hooks.is_empty() {
        return Hooks { rules, runner };
    }
    rules.extend(initialize.hooks.iter().cloned());
    let runner = Arc::new(ProgramRunner {
        commands: runner,
        callbacks: initialize.callbacks.clone(),
        blocking: initialize.blocking.clone(),
    });
    Hooks { rules, runner }
}

fn terminal(settings: &Settings, ops: Arc<dyn Ops>, rules: &EnvironmentRules) -> TerminalSettings {
    let environment = Environment::fit_terminal(std::env::vars_os(), rules);
    let mut terminal = TerminalSettings::new(ops, environment);
    if let Some(shell) = &settings.shell {
        terminal.shell = tooloop::exec::Shell::at(shell);
    }
    terminal
}

fn bash(
    settings: &Settings,
    ops: Arc<dyn Ops>,
    rules: &EnvironmentRules,
    folders: Vec<PathBuf>,
) -> BashSettings {
    let mut bash = BashSettings::new(ops, Environment::of_this_process(rules));
    bash.time_limit = settings.tool_timeout;
    bash.folders = folders;
    bash.spool_bytes = settings.spool_max_bytes;
    if let Some(shell) = &settings.shell {
        bash.shell = tooloop::exec::Shell::at(shell);
    }
    bash
}

/// The form of the answer, as it stands there or in the file that it names.
fn output_schema(schema: &str) -> Result<OutputSchema, Failure> {
    let text = match schema.strip_prefix('@') {
        Some(path) => input::file(Path::new(path), "--json-schema")?,
        None => schema.to_owned(),
    };
    OutputSchema::parse(&text).map_err(|error| Failure::usage(format!("--json-schema: {error}")))
}
