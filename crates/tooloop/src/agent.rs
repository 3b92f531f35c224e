//! The recipe.

mod builder;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

use tooloop_kernel::{Entry, Ledger, Limits, Settings, Transcript, estimate};
use tooloop_model::{Money, ToolDefinition};
use tooloop_policy::{Policy, Rule};
use tooloop_provider::{Cassette, Provider, Redactor};
use tooloop_session::{
    Catalog, ForkedFrom, Header, JsonlStore, Line, MemoryStore, SessionId, Store, files_beside,
    inherited_files, inherited_outputs, outputs_beside, read_past,
};
use tooloop_tool::{Registry, Scope};

pub use self::builder::AgentBuilder;

use crate::agents::{Planning, Subagents};
use crate::checkpoints::{self, Place};
use crate::cost::each_subagent;
use crate::driver::{self, Keep, Parts};
use crate::hooks::HookSet;
use crate::output_schema::OutputSchema;
use crate::paths;
use crate::replay::RecordingStore;
use crate::{
    Approval, Border, CacheLedger, Instructions, ResultBudget, Session, SessionError, StopHook,
    SystemPrompt,
};

/// An immutable recipe: provider, model, system prompt, tools, policy. Cheap to clone; any number
/// of sessions may be made of it.
#[derive(Debug, Clone)]
pub struct Agent(Arc<Recipe>);

#[derive(Debug)]
struct Recipe {
    provider: Arc<dyn Provider>,
    settings: Settings,
    registry: Registry,
    policy: Policy,
    approval: Approval,
    results: ResultBudget,
    secrets: Redactor,
    workspace: PathBuf,
    catalog: Option<Catalog>,
    checkpoints: bool,
    folders: Vec<PathBuf>,
    border: Option<Arc<Border>>,
    recording: Option<Cassette>,
    /// Whether a session is, or was, on the cassette.
    recorded: AtomicBool,
    chance: fn() -> u16,
    output: Option<OutputSchema>,
    stop_hook: Option<Arc<dyn StopHook>>,
    hooks: Option<Arc<HookSet>>,
    ledger: Option<Ledger>,
    planning: Option<Planning>,
    prompt: SystemPrompt,
    told_facts: bool,
    instructions: Option<Instructions>,
}

/// What a session goes on with.
#[derive(Default)]
struct Past {
    transcript: Transcript,
    /// What it is the fold of, where that is to be recorded.
    entries: Vec<Entry>,
    /// What was wrong with its record.
    warnings: Vec<String>,
    /// The folders with the long outputs that it names, beside the session's own.
    outputs: Vec<PathBuf>,
    /// Where the old contents of files are kept, and where those of its past are.
    files: Option<(PathBuf, Vec<PathBuf>)>,
    resumed: bool,
    /// The use of the provider's cache in earlier runs.
    cache: CacheLedger,
    /// Where it is recorded.
    journal: Option<PathBuf>,
    /// What its subagents have spent, in tokens and money.
    spent_by_agents: (u64, Money),
}

impl Agent {
    /// Begins a recipe.
    pub fn builder() -> AgentBuilder {
        AgentBuilder::default()
    }

    /// The folder that the agent works in.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        &self.0.workspace
    }

    /// The names of its tools, sorted.
    #[must_use]
    pub fn tool_names(&self) -> Vec<String> {
        self.0.registry.names().map(str::to_owned).collect()
    }

    /// What the model is told of its tools, sorted by name.
    #[must_use]
    pub fn tool_definitions(&self) -> Arc<[ToolDefinition]> {
        self.0.registry.definitions()
    }

    /// Its system prompt.
    #[must_use]
    pub fn system_prompt(&self) -> &SystemPrompt {
        &self.0.prompt
    }

    /// Where its journals are, if it keeps any.
    #[must_use]
    pub fn catalog(&self) -> Option<&Catalog> {
        self.0.catalog.as_ref()
    }

    /// Begins a session. Must be called within a tokio runtime, which then drives it.
    ///
    /// # Errors
    /// None at present: a new journal is not touched before there is something to record.
    pub fn session(&self) -> Result<Session, SessionError> {
        self.session_named(SessionId::generate())
    }

    /// Begins a session under a name of your own.
    ///
    /// # Errors
    /// None at present: whether a journal of that name is there already shows when the first entry
    /// is recorded, and fails the prompt then.
    pub fn session_named(&self, id: SessionId) -> Result<Session, SessionError> {
        let store: Box<dyn Store> = match &self.0.catalog {
            None => Box::new(MemoryStore::named(id)),
            Some(catalog) => {
                let header = Header::new(id, self.0.workspace.clone());
                Box::new(JsonlStore::create(catalog.path(id), header))
            }
        };
        let outputs = self.outputs(id);
        let past = Past {
            files: self.files(id).map(|folder| (folder, Vec::new())),
            journal: self.0.catalog.as_ref().map(|catalog| catalog.path(id)),
            ..Past::default()
        };
        Ok(self.start(store, past, outputs))
    }

    /// Goes on with the session in this journal. Calls that a dead process left open are answered
    /// "outcome unknown"; nothing is run again.
    ///
    /// # Errors
    /// If the journal cannot be read or another process writes to it.
    pub fn resume(&self, path: &Path) -> Result<Session, SessionError> {
        let entries = self.to_record(|| {
            let mut entries = Vec::new();
            read_past(path, |line| entries.extend(entry(&line)))?;
            Ok(entries)
        })?;
        let mut cache = CacheLedger::default();
        let opened = JsonlStore::open_with(path, |record| {
            cache.take(&record.entry, Some(record.time));
        })?;
        let outputs = Some((outputs_beside(path), Keep::WithTheJournal));
        let past = Past {
            transcript: opened.transcript,
            entries,
            warnings: opened.warnings,
            outputs: inherited_outputs(path, &opened.header),
            files: Some((files_beside(path), inherited_files(path, &opened.header))),
            resumed: true,
            cache: cache.resumed(),
            journal: Some(path.to_owned()),
            spent_by_agents: self.spent_by_agents(path),
        };
        Ok(self.start(Box::new(opened.store), past, outputs))
    }

    /// Begins a session that has the past of the one in this journal, which stays as it is and may
    /// be in use. It is recorded if the agent keeps journals.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn fork(&self, path: &Path, id: SessionId) -> Result<Session, SessionError> {
        let mut lines = Vec::new();
        let mut cache = CacheLedger::default();
        let read = read_past(path, |line| {
            if let Line::Record(record) = &line {
                cache.take(&record.entry, Some(record.time));
            }
            lines.push(line);
        })?;
        let parent = read.header;
        let mut past_outputs = vec![outputs_beside(path)];
        past_outputs.extend(inherited_outputs(path, &parent));
        let mut past_files = vec![files_beside(path)];
        past_files.extend(inherited_files(path, &parent));
        let files = self.files(id);
        if let Some(folder) = &files {
            let turns = read.transcript.turns().len();
            checkpoints::inherit(&files_beside(path), folder, turns);
        }
        let entries = self.to_record(|| Ok(lines.iter().filter_map(entry).collect()))?;
        let store: Box<dyn Store> = match &self.0.catalog {
            None => Box::new(MemoryStore::named(id)),
            Some(catalog) => {
                let header = Header {
                    forked_from: Some(ForkedFrom {
                        session: parent.session,
                        record: lines.last().map(|line| line.id().to_owned()),
                    }),
                    ..Header::new(id, self.0.workspace.clone())
                };
                Box::new(JsonlStore::fork(catalog.path(id), header, lines))
            }
        };
        let past = Past {
            transcript: read.transcript,
            entries,
            warnings: read.warnings,
            outputs: past_outputs,
            files: files.map(|folder| (folder, past_files)),
            resumed: true,
            cache: cache.resumed(),
            journal: self.0.catalog.as_ref().map(|catalog| catalog.path(id)),
            spent_by_agents: (0, Money::default()),
        };
        Ok(self.start(store, past, self.outputs(id)))
    }

    /// What the subagents of a session have spent, if there is a limit that it counts for.
    fn spent_by_agents(&self, journal: &Path) -> (u64, Money) {
        let Limits { tokens, cost, .. } = self.0.settings.limits;
        let mut spent = (0_u64, Money::default());
        if tokens.is_none() && cost.is_none() {
            return spent;
        }
        each_subagent(journal, &mut |transcript, _| {
            let (tokens, cost) = (transcript.spent_tokens(), transcript.spent());
            spent = (spent.0.saturating_add(tokens), spent.1.saturating_add(cost));
        });
        spent
    }

    /// Begins a session on a store of your own, with the past that `entries` are.
    #[must_use]
    pub fn session_on(&self, store: Box<dyn Store>, entries: &[Entry]) -> Session {
        let mut transcript = Transcript::default();
        // It cannot be read from a store, and the way may lead there.
        transcript.keep_past();
        let mut cache = CacheLedger::default();
        for entry in entries {
            transcript.apply(entry);
            cache.take(entry, None);
        }
        let past = Past {
            transcript,
            entries: entries.to_vec(),
            resumed: !entries.is_empty(),
            cache: cache.resumed(),
            ..Past::default()
        };
        self.start(store, past, None)
    }

    fn outputs(&self, id: SessionId) -> Option<(PathBuf, Keep)> {
        Some(match &self.0.catalog {
            Some(catalog) => (outputs_beside(&catalog.path(id)), Keep::WithTheJournal),
            None => {
                // Beside those of other sessions, not in a folder with them: that would be its
                // first user's, and closed to all others.
                let name = format!("tooloop-outputs-{id}");
                (std::env::temp_dir().join(name), Keep::WhileItRuns)
            }
        })
    }

    /// Where the old contents of files of a new session are kept.
    fn files(&self, id: SessionId) -> Option<PathBuf> {
        let catalog = self.0.catalog.as_ref()?;
        self.0.checkpoints.then(|| files_beside(&catalog.path(id)))
    }

    /// What a session's tools are run with, without a session.
    pub(crate) fn parts_for_tools(&self) -> Parts {
        let id = SessionId::generate();
        let folder = std::env::temp_dir().join(format!("tooloop-outputs-{id}"));
        let outputs = Some((folder, Keep::WhileItRuns));
        self.parts(Box::new(MemoryStore::named(id)), Past::default(), outputs)
    }

    fn start(
        &self,
        store: Box<dyn Store>,
        past: Past,
        outputs: Option<(PathBuf, Keep)>,
    ) -> Session {
        let (store, past) = self.recorded(store, past);
        driver::start(self.parts(store, past, outputs))
    }

    /// The entries of the past, where they are to be recorded.
    fn to_record(
        &self,
        read: impl FnOnce() -> Result<Vec<Entry>, SessionError>,
    ) -> Result<Vec<Entry>, SessionError> {
        match &self.0.recording {
            Some(_) => read(),
            None => Ok(Vec::new()),
        }
    }

    /// The store, writing onto the cassette as well if this is its session.
    fn recorded(&self, store: Box<dyn Store>, mut past: Past) -> (Box<dyn Store>, Past) {
        let Some(cassette) = &self.0.recording else {
            return (store, past);
        };
        if self.0.recorded.swap(true, Ordering::AcqRel) {
            past.warnings
                .push("this session is not recorded: a recording holds one session".into());
            return (store, past);
        }
        let store = RecordingStore::new(store, cassette.clone(), &past.entries);
        (Box::new(store), past)
    }

    fn parts(&self, store: Box<dyn Store>, past: Past, outputs: Option<(PathBuf, Keep)>) -> Parts {
        let scope = outputs
            .as_ref()
            .map_or_else(Scope::new, |(folder, _)| Scope::with_outputs(folder));
        let recipe = &self.0;
        let mut policy = recipe.policy.clone();
        // What was put aside for the model can be looked at.
        for folder in scope
            .outputs()
            .into_iter()
            .chain(past.outputs.iter().map(PathBuf::as_path))
        {
            policy.allow.extend(Rule::reading_below(folder));
            policy
                .allow
                .extend(Rule::reading_below(&paths::real(folder)));
        }
        Parts {
            provider: Arc::clone(&recipe.provider),
            settings: recipe.settings.clone(),
            registry: recipe.registry.for_session(&scope),
            policy: Arc::new(RwLock::new(policy)),
            approval: recipe.approval.clone(),
            workspace: recipe.workspace.clone(),
            border: recipe.border.clone(),
            store,
            transcript: past.transcript,
            warnings: past.warnings,
            resumed: past.resumed,
            cache: past.cache,
            sections: sections(&recipe.prompt, recipe.instructions.as_ref()),
            chance: recipe.chance,
            results: recipe.results,
            secrets: recipe.secrets.clone(),
            outputs,
            files: past
                .files
                .filter(|_| recipe.checkpoints)
                .map(|(folder, inherited)| Place {
                    workspace: recipe.workspace.clone(),
                    folders: recipe.folders.clone(),
                    folder,
                    inherited,
                    cap: checkpoints::CAP,
                }),
            output: recipe.output.clone(),
            stop_hook: recipe.stop_hook.clone(),
            hooks: recipe.hooks.clone(),
            journal: past.journal,
            ledger: recipe.ledger.clone(),
            planning: recipe.planning,
            agents: scope.shared(Subagents::default),
            assignment: None,
            spent_by_agents: past.spent_by_agents,
            told_facts: recipe.told_facts,
            instructions: recipe.instructions.clone(),
        }
    }
}

/// The entry in a line, if this version understands it.
fn entry(line: &Line) -> Option<Entry> {
    match line {
        Line::Record(record) => Some(record.entry.clone()),
        Line::Unknown(_) => None,
    }
}

/// The sections of the system prompt with the tokens that they likely have; of instructions, each
/// file.
fn sections(prompt: &SystemPrompt, instructions: Option<&Instructions>) -> Vec<(String, u64)> {
    let files = instructions.map_or(&[][..], Instructions::files);
    let mut sections = Vec::new();
    for section in prompt.sections() {
        let tokens = estimate::text(&section.text);
        if section.name != "instructions" || files.is_empty() {
            sections.push((section.name.to_string(), tokens));
            continue;
        }
        let of_files: u64 = files.iter().map(|file| estimate::text(&file.text)).sum();
        sections.push((section.name.to_string(), tokens.saturating_sub(of_files)));
        let rows = files
            .iter()
            .map(|file| (file.name.clone(), estimate::text(&file.text)));
        sections.extend(rows);
    }
    sections
}
