//! What a session is made of, and how its task begins.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tooloop_kernel::{Kernel, Ledger, Settings, Transcript};
use tooloop_model::Money;
use tooloop_policy::Policy;
use tooloop_provider::{Provider, Redactor};
use tooloop_session::Store;
use tooloop_tool::{Background, Registry};

use super::Driver;
use super::compacting::Compacting;
use super::hooking::Hooking;
use super::nested::Nested;
use crate::agents::{Assignment, ModeTold, Parent, Planning, Subagents};
use crate::checkpoints::{Checkpoints, Kept, Place};
use crate::event::Broadcast;
use crate::gate::RegistryGate;
use crate::hooks::{HookSet, HookedAgent, SessionHooks};
use crate::judged::JudgedCalls;
use crate::keeping::Journal;
use crate::output_schema::OutputSchema;
use crate::results::Results;
use crate::trace::Trace;
use crate::{Approval, Border, CacheLedger, Instructions, ResultBudget, Session, StopHook};

pub(crate) struct Parts {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) settings: Settings,
    pub(crate) registry: Registry,
    pub(crate) policy: Arc<RwLock<Policy>>,
    pub(crate) approval: Approval,
    pub(crate) workspace: PathBuf,
    pub(crate) border: Option<Arc<Border>>,
    pub(crate) store: Box<dyn Store>,
    pub(crate) transcript: Transcript,
    pub(crate) warnings: Vec<String>,
    pub(crate) resumed: bool,
    /// The use of the provider's cache in earlier runs.
    pub(crate) cache: CacheLedger,
    /// The sections of the system prompt with their tokens, if they are known.
    pub(crate) sections: Vec<(String, u64)>,
    /// Where random numbers come from.
    pub(crate) chance: fn() -> u16,
    pub(crate) results: ResultBudget,
    pub(crate) secrets: Redactor,
    /// Where long results go, and whether that ends with the session.
    pub(crate) outputs: Option<(PathBuf, Keep)>,
    /// Where the old contents of files are kept, if they are.
    pub(crate) files: Option<Place>,
    pub(crate) output: Option<OutputSchema>,
    pub(crate) stop_hook: Option<Arc<dyn StopHook>>,
    pub(crate) hooks: Option<Arc<HookSet>>,
    /// Where the session is recorded.
    pub(crate) journal: Option<PathBuf>,
    pub(crate) ledger: Option<Ledger>,
    /// What becomes of plans, if there is a tool for them.
    pub(crate) planning: Option<Planning>,
    /// The subagents of the session, as its tools know them.
    pub(crate) agents: Arc<Subagents>,
    /// Whom it works for, if it is a subagent's.
    pub(crate) assignment: Option<Assignment>,
    /// What subagents have spent before, in tokens and money.
    pub(crate) spent_by_agents: (u64, Money),
    /// Whether the model is told the date.
    pub(crate) told_facts: bool,
    /// What the system prompt has of instructions.
    pub(crate) instructions: Option<Instructions>,
}

/// How long the files of a session are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    WithTheJournal,
    WhileItRuns,
}

pub(crate) fn start(parts: Parts) -> Session {
    // A front end sends a handful of commands at most; a full queue makes it wait.
    let (commands, inbox) = mpsc::channel(64);
    let assignment = parts.assignment;
    let events = Arc::new(match &assignment {
        None => Broadcast::default(),
        Some(work) => Broadcast::of_subagent(
            Arc::clone(&work.events),
            work.tool_use_id.clone(),
            Arc::clone(&work.kind),
        ),
    });
    let (noticing, noticed) = watch::channel(false);
    let background = match &assignment {
        None => Background::default(),
        Some(_) => Background::of_subagent(),
    };
    let end = CancellationToken::new();
    let why = Arc::new(OnceLock::new());
    let id = parts.store.session();
    let workspace = parts.workspace.clone();
    let warnings = parts.warnings.clone();
    let gate = Arc::new(RegistryGate {
        registry: parts.registry.clone(),
        policy: Arc::clone(&parts.policy),
        workspace: parts.workspace.clone(),
        border: parts.border.clone(),
        agent: assignment.as_ref().map(|work| Arc::clone(&work.kind)),
        only_reads: assignment.as_ref().is_some_and(|work| work.only_reads),
        planning: parts.planning,
        judged: JudgedCalls::default(),
        secrets: parts.secrets.clone(),
    });
    let journal = parts.journal.clone();
    let outputs = parts.outputs.as_ref().map(|(folder, _)| folder.clone());
    let temporary = parts
        .outputs
        .and_then(|(folder, keep)| (keep == Keep::WhileItRuns).then_some(folder));
    let checkpoints = parts
        .files
        .map(|place| Checkpoints::new(place, Arc::clone(&events), background.clone()));
    let results = Arc::new(Results::new(
        parts.results,
        outputs.clone(),
        parts.secrets.clone(),
    ));
    let settings = Mutex::new(parts.settings.clone());
    let mut transcript = parts.transcript;
    if parts.journal.is_none() {
        // There is nothing that it could be read from again.
        transcript.keep_past();
    }
    results.follow(parts.settings.window);
    let kernel = Kernel::new(parts.settings, Arc::clone(&gate) as _, transcript);
    let kernel = match parts.ledger {
        Some(ledger) => kernel.with_ledger(ledger),
        None => kernel,
    };
    let (tokens, cost) = parts.spent_by_agents;
    kernel.ledger().book(tokens, cost);
    let (top, top_journal) = match &assignment {
        Some(work) => work.top.clone(),
        None => (id, parts.journal.clone()),
    };
    let turn = assignment.is_none().then(Arc::<AtomicU32>::default);
    let kept = match (&assignment, &checkpoints, &turn) {
        (Some(work), _, _) => work.kept.clone(),
        (None, Some(checkpoints), Some(turn)) => Some(Kept {
            checkpoints: checkpoints.clone(),
            turn: Arc::clone(turn),
        }),
        (None, _, _) => None,
    };
    parts.agents.begin(Parent {
        provider: Arc::clone(&parts.provider),
        settings,
        registry: parts.registry.clone(),
        policy: Arc::clone(&parts.policy),
        approval: parts.approval.clone(),
        workspace: parts.workspace.clone(),
        border: parts.border,
        chance: parts.chance,
        budget: parts.results,
        results: Arc::clone(&results),
        secrets: parts.secrets.clone(),
        outputs,
        hooks: parts.hooks.clone(),
        session: id,
        journal: parts.journal.clone(),
        ledger: kernel.ledger().clone(),
        events: Arc::clone(&events),
        kept,
        turn,
        depth: assignment.as_ref().map_or(0, |work| work.depth),
        only_reads: assignment.as_ref().is_some_and(|work| work.only_reads),
        top: (top, top_journal.clone()),
        numbers: assignment
            .as_ref()
            .map_or_else(Arc::default, |work| Arc::clone(&work.numbers)),
        end: end.child_token(),
        background: Mutex::default(),
        came: Mutex::default(),
        spent: Mutex::default(),
    });
    let hooks = parts.hooks.map(|set| {
        Arc::new(SessionHooks {
            agent: assignment.as_ref().map(|work| HookedAgent {
                id,
                kind: Arc::clone(&work.kind),
                journal: parts.journal.clone(),
            }),
            set,
            session: top,
            journal: top_journal,
            workspace: parts.workspace.clone(),
            policy: Arc::clone(&parts.policy),
            events: Arc::clone(&events),
            newest: AtomicU64::new(0),
        })
    });
    let judge = Arc::clone(&gate);
    let driver = Driver {
        kernel,
        hooks,
        hooking: Hooking::default(),
        nested: Nested::new(parts.instructions),
        told_facts: parts.told_facts,
        why: Arc::clone(&why),
        output: parts.output,
        stop_hook: parts.stop_hook,
        judging: None,
        compacting: Compacting::default(),
        recorded_in: parts.journal,
        gate,
        provider: parts.provider,
        registry: parts.registry,
        approval: parts.approval,
        workspace: parts.workspace,
        journal: Journal::new(parts.store),
        events: Arc::clone(&events),
        clock: Instant::now(),
        chance: parts.chance,
        model: None,
        tools: JoinSet::new(),
        runs: BTreeMap::new(),
        early: Vec::new(),
        doubted_count: false,
        told: Vec::new(),
        started: None,
        questions: FuturesUnordered::new(),
        asked: HashMap::new(),
        changed: HashSet::new(),
        timers: Vec::new(),
        turn: None,
        trace: Trace::new(id),
        rewinding: None,
        background: background.clone(),
        results,
        cache: parts.cache,
        sections: parts.sections,
        secrets: parts.secrets,
        temporary,
        checkpoints,
        asks: assignment
            .as_ref()
            .map_or(0, |work| work.number.wrapping_shl(32)),
        assignment,
        agents: parts.agents,
        mode_told: ModeTold::default(),
        unused: HashMap::new(),
        asides: VecDeque::new(),
        noticed: noticing,
    };
    let task = tokio::spawn(driver.run(inbox, end.clone(), parts.resumed));
    Session {
        id,
        workspace,
        journal,
        warnings,
        commands,
        events,
        gate: judge,
        background,
        noticed,
        end,
        why,
        task: Some(task),
    }
}
