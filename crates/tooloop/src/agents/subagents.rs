//! The subagents of one session: what they are begun with, and what they came to.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tooloop_kernel::{Ledger, Limits, Settings, Transcript};
use tooloop_model::{Money, ToolUseId, Usage};
use tooloop_policy::Policy;
use tooloop_provider::{Provider, Redactor};
use tooloop_session::{
    Header, JsonlStore, MemoryStore, SessionId, Store, WorksFor, subagents_beside,
};
use tooloop_tool::{Registry, Scope};

use super::{AgentType, Assignment, EXIT_PLAN, MOST_DEPTH, MOST_STEPS, TASK};
use crate::checkpoints::Kept;
use crate::driver::{self, Keep, Parts};
use crate::event::Broadcast;
use crate::hooks::{About, HookEvent, HookSet};
use crate::results::Results;
use crate::{
    Approval, Border, CacheLedger, Denial, ResultBudget, Session, Spending, TurnReport,
    output_schema,
};

/// The subagents of one session. Its tools find it in their scope; the session fills it when it
/// begins.
#[derive(Default)]
pub(crate) struct Subagents(Mutex<Option<Arc<Parent>>>);

/// A session as its subagents see it.
pub(crate) struct Parent {
    pub(crate) provider: Arc<dyn Provider>,
    /// What the session goes by now.
    pub(crate) settings: Mutex<Settings>,
    pub(crate) registry: Registry,
    pub(crate) policy: Arc<RwLock<Policy>>,
    pub(crate) approval: Approval,
    pub(crate) workspace: PathBuf,
    pub(crate) border: Option<Arc<Border>>,
    pub(crate) chance: fn() -> u16,
    pub(crate) budget: ResultBudget,
    pub(crate) results: Arc<Results>,
    pub(crate) secrets: Redactor,
    pub(crate) outputs: Option<PathBuf>,
    pub(crate) hooks: Option<Arc<HookSet>>,
    pub(crate) session: SessionId,
    pub(crate) journal: Option<PathBuf>,
    pub(crate) ledger: Ledger,
    pub(crate) events: Arc<Broadcast>,
    /// Where what calls change is kept.
    pub(crate) kept: Option<Kept>,
    /// The newest turn, if this session is no subagent's.
    pub(crate) turn: Option<Arc<AtomicU32>>,
    pub(crate) depth: u32,
    pub(crate) only_reads: bool,
    pub(crate) top: (SessionId, Option<PathBuf>),
    pub(crate) numbers: Arc<AtomicU64>,
    pub(crate) end: CancellationToken,
    /// What goes on in the background.
    pub(crate) background: Mutex<JoinSet<()>>,
    pub(crate) came: Mutex<Came>,
    /// The spending of subagents of this run.
    pub(crate) spent: Mutex<Spending>,
}

/// What subagents came to that no report has told yet.
#[derive(Default)]
pub(crate) struct Came {
    usage: Usage,
    model_usage: Vec<(String, Usage)>,
    cost_usd: f64,
    denials: Vec<Denial>,
}

impl Subagents {
    pub(crate) fn begin(&self, parent: Parent) {
        *lock(&self.0) = Some(Arc::new(parent));
    }

    pub(crate) fn parent(&self) -> Option<Arc<Parent>> {
        lock(&self.0).clone()
    }

    /// The rules of the session.
    pub(crate) fn policy(&self) -> Option<Arc<RwLock<Policy>>> {
        self.parent().map(|parent| Arc::clone(&parent.policy))
    }

    /// The session goes by other settings from now on.
    pub(crate) fn configure(&self, settings: &Settings) {
        if let Some(parent) = self.parent() {
            lock(&parent.settings).clone_from(settings);
        }
    }

    /// What is changed from now on belongs to this turn.
    pub(crate) fn turn_is(&self, turn: usize) {
        let turn = u32::try_from(turn).unwrap_or(u32::MAX);
        if let Some(newest) = self.parent().and_then(|parent| parent.turn.clone()) {
            newest.store(turn, Ordering::Relaxed);
        }
    }

    /// Returns what subagents have spent in this run.
    pub(crate) fn spent(&self) -> Spending {
        let parent = self.parent();
        parent.map_or_else(Spending::default, |parent| *lock(&parent.spent))
    }

    /// Adds what subagents came to since the last report.
    pub(crate) fn tell_in(&self, report: &mut TurnReport) {
        let Some(parent) = self.parent() else { return };
        let came = std::mem::take(&mut *lock(&parent.came));
        report.usage.add(came.usage);
        for (model, usage) in came.model_usage {
            add(&mut report.model_usage, model, usage);
        }
        if let Some(cost) = &mut report.cost_usd {
            *cost += came.cost_usd;
        }
        report.denials.extend(came.denials);
    }

    /// Ends those who work in the background, and lets go of the session: its tools hold this, and it
    /// holds its tools.
    pub(crate) async fn close(&self, grace: Duration) {
        let Some(parent) = lock(&self.0).take() else {
            return;
        };
        parent.end.cancel();
        let mut background = std::mem::take(&mut *lock(&parent.background));
        let ended = async { while background.join_next().await.is_some() {} };
        if tokio::time::timeout(grace, ended).await.is_err() {
            background.shutdown().await;
        }
    }
}

impl Parent {
    /// Begins the session of a subagent.
    pub(crate) fn begin(
        &self,
        kind: &AgentType,
        system: String,
        call: &ToolUseId,
        in_background: bool,
    ) -> Session {
        let id = SessionId::generate();
        let name: Arc<str> = kind.name.as_str().into();
        let number = self
            .numbers
            .fetch_add(1, Ordering::Relaxed)
            .saturating_add(1);
        let depth = self.depth.saturating_add(1);
        let outputs = self
            .outputs
            .as_ref()
            .map(|outputs| outputs.join(id.to_string()));
        let scope = outputs
            .as_ref()
            .map_or_else(Scope::new, Scope::with_outputs);
        let registry = self.registry.only(|tool| {
            kind.has(tool)
                && tool != EXIT_PLAN
                && tool != output_schema::TOOL
                && (tool != TASK || depth < MOST_DEPTH)
        });
        let (store, journal) = self.store(id, &name, call);
        let assignment = Assignment {
            tool_use_id: call.clone(),
            kind: Arc::clone(&name),
            events: Arc::clone(&self.events),
            number,
            numbers: Arc::clone(&self.numbers),
            depth,
            only_reads: self.only_reads || kind.read_only,
            top: self.top.clone(),
            kept: self.kept.clone(),
        };
        let provider = self.provider.unrecorded();
        let provider = provider.unwrap_or_else(|| Arc::clone(&self.provider));
        driver::start(Parts {
            settings: self.settings_for(kind, system, &registry, &*provider),
            registry: registry.for_session(&scope),
            provider,
            policy: Arc::clone(&self.policy),
            approval: if in_background {
                Approval::Nobody
            } else {
                self.approval.clone()
            },
            workspace: self.workspace.clone(),
            border: self.border.clone(),
            store,
            transcript: Transcript::default(),
            warnings: Vec::new(),
            resumed: false,
            chance: self.chance,
            results: self.budget,
            secrets: self.secrets.clone(),
            outputs: outputs.map(|folder| (folder, Keep::WithTheJournal)),
            files: None,
            output: None,
            stop_hook: None,
            hooks: self.hooks.clone(),
            journal,
            ledger: Some(self.ledger.clone()),
            planning: None,
            agents: scope.shared(Subagents::default),
            assignment: Some(assignment),
            spent_by_agents: (0, Money::default()),
            told_facts: false,
            sections: Vec::new(),
            cache: CacheLedger::default(),
            // Those of the session are in its prompt already.
            instructions: None,
        })
    }

    fn settings_for(
        &self,
        kind: &AgentType,
        system: String,
        registry: &Registry,
        provider: &dyn Provider,
    ) -> Settings {
        let settings = lock(&self.settings).clone();
        let stops =
            |hooks: &Arc<HookSet>| hooks.has(HookEvent::SubagentStop, &About::Word(&kind.name));
        let limits = Limits {
            // That of the call ends it.
            time: None,
            ..settings.limits
        };
        let settings = Settings {
            system: system.into(),
            tools: registry.definitions(),
            max_turns: Some(MOST_STEPS),
            limits,
            output: None,
            last_word: None,
            stop_hook: self.hooks.as_ref().is_some_and(stops),
            ..settings
        };
        match &kind.model {
            None => settings,
            Some(model) => Settings {
                price: provider.info(&model.name).price,
                window: Some(provider.info(&model.name).context_window),
                model: model.name.clone(),
                max_output_tokens: model.max_output_tokens,
                escalated_output_tokens: model.escalated_output_tokens,
                ..settings
            },
        }
    }

    fn store(
        &self,
        id: SessionId,
        agent: &str,
        call: &ToolUseId,
    ) -> (Box<dyn Store>, Option<PathBuf>) {
        let Some(journal) = &self.journal else {
            return (Box::new(MemoryStore::named(id)), None);
        };
        let path = subagents_beside(journal).join(format!("{id}.jsonl"));
        let header = Header {
            works_for: Some(WorksFor {
                session: self.session,
                tool_use: call.to_string(),
                agent: agent.to_owned(),
            }),
            ..Header::new(id, self.workspace.clone())
        };
        (
            Box::new(JsonlStore::create(path.clone(), header)),
            Some(path),
        )
    }

    /// Takes note of what one came to.
    pub(crate) fn note(&self, report: &TurnReport) {
        lock(&self.spent).add(Spending {
            usage: report.usage,
            cost_usd: report.cost_usd,
        });
        let mut came = lock(&self.came);
        came.usage.add(report.usage);
        for (model, usage) in &report.model_usage {
            add(&mut came.model_usage, model.clone(), *usage);
        }
        came.cost_usd += report.cost_usd.unwrap_or_default();
        came.denials.extend(report.denials.iter().cloned());
    }

    /// Has something go on after the call has answered.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut background = lock(&self.background);
        while background.try_join_next().is_some() {}
        background.spawn(work);
    }
}

fn add(known: &mut Vec<(String, Usage)>, model: String, usage: Usage) {
    match known.iter_mut().find(|(other, _)| *other == model) {
        Some((_, used)) => used.add(usage),
        None => known.push((model, usage)),
    }
}

pub(crate) fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
