//! The composition root: from what was typed and set to what is run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tooloop::boundary::PrivateTemp;
use tooloop::exec::{Environment, EnvironmentRules, Mask, Processes, Shell};
use tooloop::hooks::{CommandRunner, Hooks};
use tooloop::journal::SessionId;
use tooloop::provider::{
    Cassette, HttpProvider, LOCAL_SERVERS, ModelOverrides, NO_MODEL_HELP, Provider, ProviderConfig,
    RecordingProvider, ResolveError, Resolved, RoutedProvider, Secret, TransportConfig, Wanted,
    compat, detect_local, first_model_of, names_provider, resolve,
};
use tooloop::tools::{BashSettings, LocalOps, Ops, TerminalSettings, WebFetchSettings};
use tooloop::{
    Agent, AgentBuilder, Limits, Mode, OutputSchema, Policy, RetryPolicy, bash_only_system_prompt,
    default_system_prompt,
};

use crate::args::RunArgs;
use crate::exit::{Failure, Status};
use crate::permissions::RuleSources;
use crate::project_rules::ProjectRules;
use crate::replay;
use crate::secrets;
use crate::sessions;
use crate::settings::{self, Approvals, Fault, Files, Loaded, Problem, Settings, Sources, Trust};
use crate::telemetry::{self, Telemetry};
use crate::toolset::{self, Materials, ToolSet};
use crate::trust::{self, Known, Said};
use crate::wall::{Attempt, SandboxReport, Tried, Wall};

/// What a run is made of, whatever its front end.
pub(crate) struct Setup {
    pub(crate) agent: AgentBuilder,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) model: String,
    pub(crate) processes: Processes,
    pub(crate) mode: Mode,
    pub(crate) caps: Caps,
    pub(crate) limits: Limits,
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
}

/// Which session is begun or gone on with.
#[derive(Debug, Clone)]
pub(crate) enum Open {
    New(SessionId),
    Resume(PathBuf),
    Fork(PathBuf, SessionId),
}

impl Open {
    pub(crate) fn start(&self, agent: &Agent) -> Result<tooloop::Session, tooloop::SessionError> {
        match self {
            Self::New(id) => agent.session_named(*id),
            Self::Resume(path) => agent.resume(path),
            Self::Fork(path, id) => agent.fork(path, *id),
        }
    }

    /// The session's name.
    pub(crate) fn session(&self) -> String {
        match self {
            Self::New(id) | Self::Fork(_, id) => id.to_string(),
            Self::Resume(path) => {
                let name = path.file_stem().unwrap_or_default();
                name.to_string_lossy().into_owned()
            }
        }
    }

    pub(crate) const fn is_resumed(&self) -> bool {
        matches!(self, Self::Resume(_) | Self::Fork(..))
    }
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

/// Reads the settings of all sources. What a folder's files widen is applied as far as a person has
/// approved it before.
pub(crate) fn load_settings(args: &RunArgs, workspace: &Path) -> Result<Loaded, Failure> {
    let known = known(args, workspace);
    let sources = sources(args, workspace, known.approvals);
    let mut loaded = load(&sources, &Files::default())?;
    if loaded.trust == Trust::Untrusted {
        loaded.warnings.extend(known.warning);
    }
    Ok(loaded)
}

/// The same, and the person at the terminal is asked about what is new; `None` if they leave.
pub(crate) fn load_settings_asking(
    args: &RunArgs,
    workspace: &Path,
) -> Result<Option<Loaded>, Failure> {
    let known = known(args, workspace);
    let files = Files::default();
    let mut sources = sources(args, workspace, known.approvals.clone());
    let loaded = load(&sources, &files)?;
    if loaded.trust != Trust::Untrusted {
        return Ok(Some(loaded));
    }
    match trust::ask(workspace, &loaded, &known)? {
        Said::Leave => Ok(None),
        Said::Go(approvals) => {
            sources.approvals = approvals;
            let mut loaded = load(&sources, &files)?;
            loaded.warnings.extend(known.warning);
            Ok(Some(loaded))
        }
    }
}

fn known(args: &RunArgs, workspace: &Path) -> Known {
    if args.trust_folder {
        return Known {
            approvals: Approvals::Everything,
            ..Known::default()
        };
    }
    trust::known(workspace)
}

fn sources(args: &RunArgs, workspace: &Path, approvals: Approvals) -> Sources {
    let mut flags: Vec<(&'static str, String)> = Vec::new();
    let single = [
        ("model", &args.model),
        ("fallback_model", &args.fallback_model),
        ("base_url", &args.base_url),
        ("api", &args.api),
        ("tools", &args.tools),
        ("permission_mode", &args.permission_mode),
        ("sandbox", &args.sandbox),
        ("debug_file", &args.debug_file),
    ];
    for (key, value) in single {
        flags.extend(value.iter().map(|value| (key, value.clone())));
    }
    for rule in &args.allowed_tools {
        flags.push(("allowed_tools", rule.clone()));
    }
    for rule in &args.disallowed_tools {
        flags.push(("disallowed_tools", rule.clone()));
    }
    let sources = Sources {
        approvals,
        bare: args.bare,
        explicit: args.settings.clone(),
        working_directory: std::env::current_dir().unwrap_or_default(),
        flags,
        ..Sources::new(workspace.to_owned(), std::env::vars_os().collect())
    };
    Sources {
        project: sources.project.filter(|_| !args.bare),
        ..sources
    }
}

fn load(sources: &Sources, files: &Files) -> Result<Loaded, Failure> {
    settings::load(sources, files).map_err(|error| {
        let is_sandbox =
            |problem: &Problem| matches!(problem.fault, Fault::Value { key: "sandbox", .. });
        let status = if error.problems.iter().any(is_sandbox) {
            Status::Sandbox
        } else {
            Status::Settings
        };
        Failure::new(status, error.to_string())
    })
}

/// Puts a run together. Asks the network only where a local server must be found or named.
pub(crate) async fn setup(
    args: &RunArgs,
    workspace: &Path,
    mut loaded: Loaded,
) -> Result<Setup, Failure> {
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
        Some(name) => with_fallback(settings, provider, name)?,
        None => (provider, None),
    };
    let recording = replay::recording(args, settings, &open, workspace)?;
    let provider: Arc<dyn Provider> = match &recording {
        Some(cassette) => Arc::new(RecordingProvider::onto(provider, cassette.clone())),
        None => provider,
    };
    let asked = Asked {
        provider,
        model,
        fallback,
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

/// Who writes the replies.
pub(crate) struct Asked {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) model: String,
    pub(crate) fallback: Option<String>,
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
    let agent = agent(
        &settings,
        Arc::clone(&provider),
        &model,
        caps,
        system_prompt(args, &settings.tools, workspace)?,
        policy(&settings, workspace, &wall),
    )
    .workspace(workspace)
    .secrets(secrets::for_results(&settings));
    let agent = match &wall.border {
        Some(border) => agent.border(border.clone()),
        None => agent,
    };
    let ops: Arc<dyn Ops> = Arc::new(LocalOps::new(processes.clone()));
    let rules = secrets::rules(&settings);
    let materials = Materials {
        bash: BashSettings {
            confinement: wall.confinement.clone(),
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
        ops,
    };
    let agent = toolset::equip(agent, &settings.tools, materials);
    let agent = agent.hooks(hooks(&settings, &processes, &rules, workspace, &wall));
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
        let root = sessions::root(&environment).ok_or_else(|| {
            Failure::settings(
                "there is no folder for sessions: set HOME or XDG_DATA_HOME, or keep no record \
                 with --no-session-persistence",
            )
        })?;
        agent.journal(root)
    };
    Ok(Setup {
        agent,
        provider,
        model,
        processes,
        mode: settings.permission_mode,
        caps,
        limits,
        open,
        recording: None,
        warnings,
        sandbox: wall.report,
        temp: wall.temp,
        telemetry: Telemetry::default(),
        saved_rules,
        rule_sources,
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
    system: String,
    policy: Policy,
) -> AgentBuilder {
    let (cap, escalated) = caps.of(&*provider, model);
    Agent::builder()
        .provider(provider)
        .model(model)
        .system(system)
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
}

/// The rules of all sources. Relative paths in them mean paths in the workspace.
fn policy(settings: &Settings, workspace: &Path, wall: &Wall) -> Policy {
    let policy = Policy {
        mode: settings.permission_mode,
        deny: settings.disallowed_tools.clone(),
        ask: settings.ask_tools.clone(),
        allow: settings.allowed_tools.clone(),
        ..Policy::default()
    };
    let home = environment("HOME").map(PathBuf::from);
    wall.shape(policy.anchored(workspace, home.as_deref()), settings)
}

/// The hooks of all sources, as commands that begin in the workspace.
fn hooks(
    settings: &Settings,
    processes: &Processes,
    rules: &EnvironmentRules,
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
    Hooks {
        rules: settings.hooks.clone(),
        runner: Arc::new(CommandRunner {
            processes: processes.clone(),
            environment: Arc::new(environment),
            directory: workspace.to_owned(),
            shell: shell.map_or_else(|| Shell::system().clone(), Shell::at),
            confinement: wall.confinement.clone().filter(|_| settings.sandbox_hooks),
            mask: mask(settings),
        }),
    }
}

/// What is covered in what commands print.
fn mask(settings: &Settings) -> Option<Mask> {
    Mask::new(secrets::for_results(settings).values().map(str::to_owned))
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
    bash.mask = mask(settings);
    if let Some(shell) = &settings.shell {
        bash.shell = tooloop::exec::Shell::at(shell);
    }
    bash
}

/// Who writes the replies, and the model's name there.
async fn provider(settings: &Settings) -> Result<(Arc<dyn Provider>, String), Failure> {
    let wanted = Wanted {
        model: settings.model.clone(),
        base_url: settings.base_url.clone(),
        format: settings.api,
        api_key: settings
            .key_variable
            .as_deref()
            .and_then(environment)
            .map(Secret::new),
    };
    let (mut config, model) = match resolve(&wanted, &environment) {
        Ok(Resolved { config, model }) => (config, model),
        Err(ResolveError::NothingConfigured) => match detect_local(LOCAL_SERVERS).await {
            Some((config, model)) => (config, Some(model)),
            None => return Err(Failure::new(Status::Auth, NO_MODEL_HELP)),
        },
        Err(error @ ResolveError::NoKey { .. }) => {
            return Err(Failure::new(Status::Auth, error.to_string()));
        }
        Err(error @ ResolveError::UnknownModel { .. }) => {
            return Err(Failure::settings(error.to_string()));
        }
    };
    configure(&mut config, settings)?;
    let model = match model {
        Some(model) => model,
        None => first_model_of(&config).await.ok_or_else(|| {
            Failure::settings(format!(
                "the server at {} does not say which models it has: name one with --model",
                config.base_url
            ))
        })?,
    };
    let provider =
        HttpProvider::new(config).map_err(|error| Failure::settings(error.to_string()))?;
    Ok((Arc::new(provider), model))
}

/// Who writes the replies, the fallback model's included, and that model's name there.
fn with_fallback(
    settings: &Settings,
    provider: Arc<dyn Provider>,
    name: &str,
) -> Result<(Arc<dyn Provider>, Option<String>), Failure> {
    if !names_provider(name) {
        return Ok((provider, Some(name.to_owned())));
    }
    let wanted = Wanted {
        model: Some(name.to_owned()),
        base_url: settings.base_url.clone(),
        format: settings.api,
        api_key: settings
            .key_variable
            .as_deref()
            .and_then(environment)
            .map(Secret::new),
    };
    let told = |error: &dyn std::fmt::Display| format!("the fallback model {name}: {error}");
    let Resolved { mut config, model } = resolve(&wanted, &environment).map_err(|error| {
        let status = match error {
            ResolveError::NoKey { .. } => Status::Auth,
            ResolveError::NothingConfigured | ResolveError::UnknownModel { .. } => Status::Settings,
        };
        Failure::new(status, told(&error))
    })?;
    let name = model.unwrap_or_else(|| name.to_owned());
    configure(&mut config, settings)?;
    let other = HttpProvider::new(config).map_err(|error| Failure::settings(told(&error)))?;
    if other.name() == provider.name() {
        return Ok((provider, Some(name)));
    }
    let routed = RoutedProvider::new(provider).route(name.clone(), Arc::new(other));
    Ok((Arc::new(routed), Some(name)))
}

/// The form of the answer, as it stands there or in the file that it names.
fn output_schema(schema: &str) -> Result<OutputSchema, Failure> {
    let text = match schema.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path).map_err(|error| {
            Failure::usage(format!("--json-schema: cannot read {path}: {error}"))
        })?,
        None => schema.to_owned(),
    };
    OutputSchema::parse(&text).map_err(|error| Failure::usage(format!("--json-schema: {error}")))
}

fn configure(config: &mut ProviderConfig, settings: &Settings) -> Result<(), Failure> {
    config.transport = TransportConfig {
        first_byte: settings.stream_first_byte_timeout,
        idle: settings.stream_idle_timeout,
        content: settings.stream_content_timeout,
        extra_ca: settings.extra_ca_file.clone(),
        ..TransportConfig::default()
    };
    config.overrides = ModelOverrides {
        context_window: settings.context_window,
        max_output_tokens: settings.max_output_tokens,
    };
    config.reasoning_echo = settings.reasoning_echo.clone();
    if let Some(path) = &settings.models_file {
        let data = std::fs::read_to_string(path).map_err(|error| {
            Failure::settings(format!(
                "models_file: cannot read {}: {error}",
                path.display()
            ))
        })?;
        config.model_data = Some(data);
    }
    Ok(())
}

fn system_prompt(args: &RunArgs, tools: &ToolSet, workspace: &Path) -> Result<String, Failure> {
    let read = |path: &PathBuf| {
        std::fs::read_to_string(path)
            .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))
    };
    let mut system = match (&args.system_prompt, &args.system_prompt_file) {
        (Some(text), _) => text.clone(),
        (None, Some(path)) => read(path)?,
        (None, None) if *tools == ToolSet::BashOnly => bash_only_system_prompt(workspace),
        (None, None) => default_system_prompt(workspace),
    };
    let more = match (&args.append_system_prompt, &args.append_system_prompt_file) {
        (Some(text), _) => Some(text.clone()),
        (None, Some(path)) => Some(read(path)?),
        (None, None) => None,
    };
    if let Some(more) = more {
        if !system.is_empty() {
            system.push_str("\n\n");
        }
        system.push_str(&more);
    }
    Ok(system)
}

fn open(args: &RunArgs, workspace: &Path) -> Result<Open, Failure> {
    let new = match &args.session_id {
        None => SessionId::generate(),
        Some(id) => id
            .parse()
            .map_err(|_| Failure::usage(format!("--session-id {id:?} is not a UUID")))?,
    };
    let resumes = args.continue_newest || args.resume.is_some();
    if !resumes {
        if args.fork_session {
            return Err(Failure::usage(
                "--fork-session needs the session to fork: --continue or --resume ID",
            ));
        }
        return free(new, args, workspace).map(Open::New);
    }
    if args.no_session_persistence && !args.fork_session {
        return Err(Failure::usage(
            "a session that is gone on with is recorded: --no-session-persistence does not go \
             with --continue or --resume",
        ));
    }
    let catalog = sessions::catalog(sessions::root(&environment), workspace)?;
    let path = match &args.resume {
        Some(wanted) => catalog.find(wanted).map_err(tooloop::SessionError::from)?,
        None => catalog.newest().ok_or_else(|| {
            Failure::usage(format!(
                "there is no session of {} to continue",
                workspace.display()
            ))
        })?,
    };
    Ok(if args.fork_session {
        Open::Fork(path, free(new, args, workspace)?)
    } else {
        Open::Resume(path)
    })
}

/// The id, unless somebody chose it and it is taken.
fn free(id: SessionId, args: &RunArgs, workspace: &Path) -> Result<SessionId, Failure> {
    if args.session_id.is_none() || args.no_session_persistence {
        return Ok(id);
    }
    let catalog = sessions::catalog(sessions::root(&environment), workspace)?;
    if catalog.path(id).exists() {
        return Err(Failure::usage(format!(
            "--session-id {id}: there is such a session already; go on with it: --resume {id}"
        )));
    }
    Ok(id)
}
