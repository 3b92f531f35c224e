//! The runtime: turns the kernel's effects into I/O, and what comes of them into inputs.
//!
//! It decides nothing. Each session is one task; it owns everything that runs for the session and
//! ends it before it ends itself.

mod files;
mod hooking;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, RwLock};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;
use tooloop_kernel::{
    Answer, Delivery, Effect, Entry, Input, Kernel, Ledger, Settings, StopJudgement, Sync,
    Transcript, TurnEnd,
};
use tooloop_model::{Content, ToolInput, ToolUse, ToolUseId};
use tooloop_policy::Policy;
use tooloop_provider::{Provider, Redactor};
use tooloop_session::{Store, StoreError};
use tooloop_tool::{Background, Progress, Registry, ToolContext, ToolError, ToolOutput};
use tracing::{Instrument, Span};

use crate::checkpoints::{Checkpoints, Place};
use crate::driver::hooking::{Answered, Heard, Hooking};
use crate::event::Broadcast;
use crate::gate::RegistryGate;
use crate::hooks::{HookSet, SessionHooks};
use crate::keeping::Journal;
use crate::model_call::ModelCall;
use crate::output_schema::OutputSchema;
use crate::results::Results;
use crate::session::{CloseReason, Command};
use crate::trace::Trace;
use crate::turn::{ReportSender, TurnUnderWay};
use crate::{
    Allowance, Approval, Border, DeniedBy, Event, Question, Reply, ResultBudget, Session,
    SessionError, StopHook, Stopping,
};

/// How long closing waits for tools that were told to end. A shell gets two seconds between TERM
/// and KILL; what is left after this is dropped, which kills it.
const CLOSE_GRACE: Duration = Duration::from_secs(4);

/// How long a stop hook may think.
const STOP_HOOK_LIMIT: Duration = Duration::from_secs(60);

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
    let events = Arc::new(Broadcast::default());
    let (noticing, noticed) = watch::channel(false);
    let background = Background::default();
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
    });
    let outputs = parts.outputs.as_ref().map(|(folder, _)| folder.clone());
    let temporary = parts
        .outputs
        .and_then(|(folder, keep)| (keep == Keep::WhileItRuns).then_some(folder));
    let checkpoints = parts
        .files
        .map(|place| Checkpoints::new(place, Arc::clone(&events), background.clone()));
    let kernel = Kernel::new(parts.settings, Arc::clone(&gate) as _, parts.transcript);
    let kernel = match parts.ledger {
        Some(ledger) => kernel.with_ledger(ledger),
        None => kernel,
    };
    let hooks = parts.hooks.map(|set| {
        Arc::new(SessionHooks {
            set,
            session: id,
            journal: parts.journal,
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
        why: Arc::clone(&why),
        output: parts.output,
        stop_hook: parts.stop_hook,
        judging: None,
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
        results: Arc::new(Results::new(parts.results, outputs, parts.secrets.clone())),
        secrets: parts.secrets,
        temporary,
        checkpoints,
        noticed: noticing,
    };
    let task = tokio::spawn(driver.run(inbox, end.clone(), parts.resumed));
    Session {
        id,
        workspace,
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

struct Driver {
    kernel: Kernel,
    hooks: Option<Arc<SessionHooks>>,
    hooking: Hooking,
    /// Why the session ends, if whoever ends it says so.
    why: Arc<OnceLock<CloseReason>>,
    gate: Arc<RegistryGate>,
    provider: Arc<dyn Provider>,
    registry: Registry,
    approval: Approval,
    workspace: PathBuf,
    journal: Journal,
    events: Arc<Broadcast>,
    /// The zero of the kernel's time.
    clock: Instant,
    chance: fn() -> u16,
    model: Option<ModelCall>,
    tools: JoinSet<Ran>,
    /// In order, so that they end in order.
    runs: BTreeMap<u64, Run>,
    /// Of calls that are over while their message is still being written: fires if their results
    /// are thrown away, as it does for calls that run.
    early: Vec<CancellationToken>,
    /// Of read-only calls that are over, by the turn that they belong to: fires if the conversation
    /// is taken back to before it.
    told: Vec<(usize, CancellationToken)>,
    /// The newest call that is on record as about to run: one with effects.
    started: Option<ToolUseId>,
    questions: FuturesUnordered<BoxFuture<'static, (u64, Answered)>>,
    /// The questions that still want an answer.
    asked: HashMap<u64, ToolUse>,
    /// The calls that run with another input than the model wrote, since whoever was asked wants it
    /// so: the model is told.
    changed: HashSet<ToolUseId>,
    timers: Vec<(u64, Pin<Box<Sleep>>)>,
    output: Option<OutputSchema>,
    stop_hook: Option<Arc<dyn StopHook>>,
    /// Somebody judges whether the model is done.
    judging: Option<(u64, BoxFuture<'static, Option<StopJudgement>>)>,
    turn: Option<TurnUnderWay>,
    trace: Trace,
    /// Who waits until the conversation is taken back.
    rewinding: Option<oneshot::Sender<Result<(), SessionError>>>,
    background: Background,
    results: Arc<Results>,
    /// Knows what is not to be shown.
    secrets: Redactor,
    /// The folder that ends with the session.
    temporary: Option<PathBuf>,
    checkpoints: Option<Checkpoints>,
    /// Whether notices wait for a turn to be told in.
    noticed: watch::Sender<bool>,
}

struct Run {
    tool_use: ToolUse,
    is_read_only: bool,
    cancellation: CancellationToken,
    task: tokio::task::Id,
    span: Span,
}

/// What a tool came to.
struct Ran {
    run: u64,
    duration: Duration,
    result: ToolOutput,
    /// A hook wants the turn to end.
    stop: Option<String>,
}

/// What the driver waits for.
enum Came {
    Command(Option<Command>),
    Model(Result<tooloop_model::StreamEvent, tooloop_model::ModelError>),
    Tool(Result<(tokio::task::Id, Ran), JoinError>),
    Reply(u64, Answered),
    Heard(Heard),
    Timer(u64),
    /// Whether the model is done; `None` if nobody said so in time.
    Judged(u64, Option<StopJudgement>),
    Flushed(Result<(), StoreError>),
    /// Background work has something to say.
    Notice(String),
    /// Nobody waits for the turn's report any more.
    Deserted,
    End,
}

impl Driver {
    async fn run(
        mut self,
        mut inbox: mpsc::Receiver<Command>,
        end: CancellationToken,
        resumed: bool,
    ) -> Result<(), SessionError> {
        let mut result = if resumed {
            self.step(Input::Resumed).await
        } else {
            Ok(())
        };
        self.session_starts(resumed);
        while result.is_ok() {
            match self.wait(&mut inbox, &end).await {
                Came::End | Came::Command(None) => break,
                came => result = self.take(came).await,
            }
        }
        // What fails the session is the end of its turn, not the interrupt that closing it takes.
        let failed = self.turn.take_if(|_| result.is_err());
        let closed = self.close().await;
        let mut result = result.and(closed).map_err(SessionError::from);
        if let Some(turn) = failed.or(self.turn.take()) {
            // Only a failed journal leaves a turn without its end. Who waits for the turn is told
            // why; if nobody does, who closes the session is.
            let why = std::mem::replace(&mut result, Err(SessionError::Closed));
            let why = why.err().unwrap_or(SessionError::Closed);
            if let Err(untold) = turn.reply.send(Err(why)) {
                result = untold.map(drop);
            }
        }
        self.events.close();
        result
    }

    async fn wait(&mut self, inbox: &mut mpsc::Receiver<Command>, end: &CancellationToken) -> Came {
        let model = async {
            match &mut self.model {
                Some(model) => model.next().await,
                None => std::future::pending().await,
            }
        };
        let timers = &mut self.timers;
        let timer = std::future::poll_fn(|context| {
            let mut timers = timers.iter_mut();
            timers
                .find_map(|(timer, sleep)| {
                    sleep.as_mut().poll(context).is_ready().then_some(*timer)
                })
                .map_or(Poll::Pending, Poll::Ready)
        });
        let judged = async {
            match &mut self.judging {
                Some((stop, judgement)) => (*stop, judgement.await),
                None => std::future::pending().await,
            }
        };
        let flush = async {
            match &mut self.journal.flushing {
                Some(flushing) => flushing.await,
                None => std::future::pending().await,
            }
        };
        let deserted = async {
            match &mut self.turn {
                Some(turn) => turn.reply.closed().await,
                None => std::future::pending().await,
            }
        };
        // In order: the end and the user first, so that a flood of deltas cannot hold them up.
        tokio::select! {
            biased;
            () = end.cancelled() => Came::End,
            // Before the next command: it may well be another prompt.
            () = deserted => Came::Deserted,
            command = inbox.recv() => Came::Command(command),
            // Before what may end a step or the turn: what is said by then goes with it.
            notice = self.background.notice() => Came::Notice(notice),
            Some((ask, reply)) = self.questions.next(), if !self.questions.is_empty() => {
                Came::Reply(ask, reply)
            }
            Some(heard) = self.hooking.under_way.next(), if !self.hooking.under_way.is_empty() => {
                Came::Heard(heard)
            }
            Some(ran) = self.tools.join_next_with_id(), if !self.tools.is_empty() => Came::Tool(ran),
            event = model => Came::Model(event),
            timer = timer => Came::Timer(timer),
            (stop, judgement) = judged => Came::Judged(stop, judgement),
            result = flush => Came::Flushed(result),
        }
    }

    async fn take(&mut self, came: Came) -> Result<(), StoreError> {
        let input = match came {
            Came::Command(Some(Command::RewindFiles { back, how, reply })) => {
                let rewound = self.rewind_files(back, how).await;
                drop(reply.send(rewound));
                return Ok(());
            }
            Came::Command(Some(command)) => match self.command(command) {
                Some(input) => input,
                None => return Ok(()),
            },
            Came::Model(event) => match self.model_event(event) {
                Some(input) => input,
                None => return Ok(()),
            },
            Came::Tool(ran) => match self.tool_ran(ran) {
                Some((stop, input)) => {
                    // Before its answer, so that nothing begins on that.
                    if let Some(reason) = stop {
                        self.step(Input::HookStop { reason }).await?;
                    }
                    input
                }
                None => return Ok(()),
            },
            Came::Reply(ask, reply) => match self.replied(ask, reply) {
                Some(input) => input,
                None => return Ok(()),
            },
            Came::Heard(heard) => match self.heard(heard) {
                Some(input) => input,
                None => return Ok(()),
            },
            Came::Timer(timer) => {
                self.timers.retain(|(other, _)| *other != timer);
                Input::TimerFired { timer }
            }
            Came::Judged(stop, judgement) => {
                self.judging = None;
                let judgement = judgement.unwrap_or_else(|| {
                    let words = "the stop hook said nothing in a minute: it is not waited for";
                    self.events.send(&Event::Warning(words.into()));
                    StopJudgement::Done
                });
                self.hooking.objected = matches!(judgement, StopJudgement::GoOn { .. });
                Input::StopJudged { stop, judgement }
            }
            Came::Flushed(result) => {
                self.journal.flushed(result)?;
                self.journal.flush_soon();
                return Ok(());
            }
            Came::Notice(notice) => {
                self.events.send(&Event::Noticed(notice.clone()));
                Input::User {
                    content: vec![Content::Text(notice)],
                    delivery: Delivery::Notice,
                }
            }
            Came::Deserted => {
                self.give_up_prompts();
                Input::Interrupt
            }
            Came::Command(None) | Came::End => return Ok(()),
        };
        self.step(input).await?;
        while let Some(input) = self.after_a_step() {
            self.step(input).await?;
        }
        Ok(())
    }

    async fn step(&mut self, input: Input) -> Result<(), StoreError> {
        let effects = self.kernel.step(input);
        self.perform(effects).await?;
        if let Some(reply) = self.rewinding.take() {
            drop(reply.send(Ok(())));
        }
        if self.kernel.is_idle() && !self.is_held() {
            // Nothing waited to be told: the turn did not begin.
            self.turn = None;
            self.trace.nothing_began();
        }
        let waits = self.kernel.wants_wake();
        self.noticed
            .send_if_modified(|noticed| std::mem::replace(noticed, waits) != waits);
        Ok(())
    }

    // ---- what comes in

    fn command(&mut self, command: Command) -> Option<Input> {
        match command {
            Command::Prompt {
                content,
                reply,
                span,
            } => {
                if self.turn.is_some() {
                    drop(reply.send(Err(SessionError::Busy)));
                    return None;
                }
                self.begin_turn(reply, &span);
                self.say(content, Delivery::Steer, true)
            }
            Command::Wake { reply, span } => {
                if self.turn.is_some() {
                    drop(reply.send(Err(SessionError::Busy)));
                    return None;
                }
                self.begin_turn(reply, &span);
                Some(Input::Wake)
            }
            // Outside of a turn nobody would get its report.
            Command::Say { .. } if self.turn.is_none() => {
                let words = "nothing is running: what was said is not sent";
                self.events.send(&Event::Warning(words.into()));
                None
            }
            Command::Say { content, delivery } => self.say(content, delivery, false),
            Command::Interrupt => {
                self.give_up_prompts();
                Some(Input::Interrupt)
            }
            Command::Model {
                name: model,
                max_output_tokens,
                escalated_output_tokens,
            } => Some(Input::Configure(Box::new(Settings {
                max_output_tokens,
                escalated_output_tokens,
                price: self.provider.info(&model).price,
                model,
                ..self.kernel.settings().clone()
            }))),
            Command::Limits(limits) => Some(Input::Configure(Box::new(Settings {
                limits,
                ..self.kernel.settings().clone()
            }))),
            Command::Rewind { turn, reply } => {
                let turns = self.kernel.transcript().turns().len();
                let refused = if self.turn.is_some() {
                    SessionError::Busy
                } else if !(1..=turns).contains(&turn) {
                    SessionError::NoSuchTurn { turn, turns }
                } else {
                    self.rewinding = Some(reply);
                    return Some(Input::Rewind { turn });
                };
                drop(reply.send(Err(refused)));
                None
            }
            Command::Inspect(reply) => {
                drop(reply.send(self.kernel.transcript().clone()));
                None
            }
            // Taken out before.
            Command::RewindFiles { .. } => None,
        }
    }

    fn begin_turn(&mut self, reply: ReportSender, within: &Span) {
        let schema = self.output.clone();
        let model = self.kernel.settings().model.clone();
        let transcript = self.kernel.transcript();
        self.turn = Some(TurnUnderWay::begin(reply, transcript, schema, model));
        let (provider, model) = (self.provider.trace_name(), &self.kernel.settings().model);
        self.trace.turn_begins(within, provider, model);
    }

    fn model_event(
        &mut self,
        event: Result<tooloop_model::StreamEvent, tooloop_model::ModelError>,
    ) -> Option<Input> {
        let call = self.model.as_ref()?.call;
        self.trace.model_event(&event);
        match event {
            Ok(event) => {
                if matches!(event, tooloop_model::StreamEvent::MessageStop { .. }) {
                    self.model_done();
                }
                Some(Input::Stream { call, event })
            }
            Err(error) => {
                self.model_done();
                Some(Input::StreamFailed {
                    call,
                    error,
                    now: self.clock.elapsed(),
                    chance: (self.chance)(),
                })
            }
        }
    }

    fn model_done(&mut self) {
        if let (Some(model), Some(turn)) = (self.model.take(), &mut self.turn) {
            turn.model_done(model.begun.elapsed());
        }
    }

    fn tool_ran(
        &mut self,
        ran: Result<(tokio::task::Id, Ran), JoinError>,
    ) -> Option<(Option<String>, Input)> {
        let (run, duration, mut output, stop) = match ran {
            Ok((_, ran)) => (ran.run, ran.duration, ran.result, ran.stop),
            Err(error) => {
                let failed = error.id();
                let (&run, _) = self.runs.iter().find(|(_, run)| run.task == failed)?;
                let words = "the tool failed inside: this is a fault of the tool, not of the call";
                (run, Duration::ZERO, ToolOutput::failure(words), None)
            }
        };
        // Not there any more: it was cancelled, and nobody wants its answer.
        let Run {
            tool_use,
            is_read_only,
            cancellation,
            span,
            ..
        } = self.runs.remove(&run)?;
        Trace::tool_ended(&span, &output);
        if self.changed.remove(&tool_use.id) {
            let words = format!(
                "Note: this is not the result of what you wrote. Whoever was asked about the call \
                 has changed its input, and it ran with {}",
                tool_use.input.json()
            );
            output.content.push(Content::Text(words));
        }
        if is_read_only {
            let turn = self.kernel.transcript().turns().len();
            self.told.push((turn, cancellation.clone()));
        }
        if self.model.is_some() {
            self.early.push(cancellation);
        }
        self.events.send(&Event::ToolEnded {
            tool_use_id: tool_use.id,
            duration,
            details: output.details,
            refusals: output.refusals,
        });
        let input = Input::ToolFinished {
            run,
            content: output.content,
            is_error: output.is_error,
            fingerprint: output.fingerprint,
        };
        Some((stop, input))
    }

    fn replied(&mut self, ask: u64, answered: Answered) -> Option<Input> {
        let tool_use = self.asked.remove(&ask)?;
        let Answered { reply, by_hook } = answered;
        if matches!(reply, Reply::Deny { .. } | Reply::DenyAndStop { .. }) {
            self.gate.refused(&tool_use);
            if let Some(turn) = self.turn.as_mut().filter(|_| by_hook) {
                turn.answered_by_hook(&tool_use.id);
            }
        }
        let answer = match reply {
            Reply::Allow => Answer::Allow {
                rule: None,
                input: None,
            },
            Reply::AllowForSession => {
                let rules = self.gate.rules(&tool_use);
                let rule = self.gate.allow(rules);
                Answer::Allow { rule, input: None }
            }
            Reply::AllowWith(Allowance { input, rules }) => {
                if input.is_some() {
                    self.changed.insert(tool_use.id);
                }
                let rule = self.gate.allow(rules);
                Answer::Allow { rule, input }
            }
            Reply::Deny { reason } => Answer::Deny {
                reason,
                stops: false,
            },
            Reply::DenyAndStop { reason } => Answer::Deny {
                reason,
                stops: true,
            },
        };
        Some(Input::Answered { ask, answer })
    }

    // ---- what goes out

    async fn perform(&mut self, effects: Vec<Effect>) -> Result<(), StoreError> {
        let mut entries = Vec::new();
        let mut durable = false;
        for effect in effects {
            if let Effect::Record { entry, sync } = effect {
                durable |= sync == Sync::Now;
                entries.push(entry);
                continue;
            }
            self.record(&mut entries, &mut durable).await?;
            self.act(effect);
        }
        self.record(&mut entries, &mut durable).await?;
        self.journal.flush_soon();
        Ok(())
    }

    /// Writes what is to be recorded before the next effect, in one go.
    async fn record(
        &mut self,
        entries: &mut Vec<Entry>,
        durable: &mut bool,
    ) -> Result<(), StoreError> {
        if entries.is_empty() {
            return Ok(());
        }
        self.trace.entries(entries);
        self.journal.append(entries)?;
        if std::mem::take(durable) {
            self.journal.flush_now().await?;
        }
        for entry in entries.drain(..) {
            if matches!(entry, Entry::CallFinished(_)) {
                // On record: no longer thrown away with the reply.
                self.early.clear();
            }
            if let Some(turn) = &mut self.turn {
                turn.note(&entry);
            }
            if let Entry::Rewound { turn } = &entry {
                self.taken_back(*turn);
            }
            if let Entry::CallStarted { tool_use_id } = &entry {
                self.started = Some(tool_use_id.clone());
            }
            if self.events.is_watched() {
                self.events.send(&Event::Recorded(Arc::new(entry)));
            }
        }
        Ok(())
    }

    fn act(&mut self, effect: Effect) {
        match effect {
            // Taken out before.
            Effect::Record { .. } => {}
            Effect::CallModel { call, request } => {
                if let Some(turn) = &mut self.turn {
                    turn.model_called(&request.model);
                }
                self.throw_away_early();
                self.results.sent();
                let provider = Arc::clone(&self.provider);
                let price = || provider.info(&request.model).price;
                let span = (self.trace).model_called(call, &request, provider.trace_name(), price);
                self.model = Some(ModelCall::start(provider, call, *request, span));
            }
            Effect::CancelModel { call } => {
                if self.model.as_ref().is_some_and(|model| model.call == call) {
                    self.model_done();
                }
            }
            Effect::Show { call, event } => self.events.send(&Event::Delta { call, event }),
            Effect::Void { call } => self.events.send(&Event::Voided { call }),
            Effect::RunTool { run, tool_use } => self.run_tool(run, tool_use),
            Effect::CancelTool { run } => {
                if let Some(run) = self.runs.remove(&run) {
                    Trace::tool_cancelled(&run.span);
                    run.cancellation.cancel();
                }
            }
            Effect::Consult { consult, tool_use } => self.consult(consult, tool_use),
            Effect::CancelConsult { consult } => self.cancel_consult(consult),
            Effect::Ask {
                ask,
                tool_use,
                reason,
                cause,
            } => {
                // Where the policy itself asks nothing, a rule would spare no question.
                let rules = match self.gate.cause(&tool_use) {
                    Some(_) => self.gate.rules(&tool_use),
                    None => Vec::new(),
                };
                let question = Question {
                    ask,
                    cause: Some(cause),
                    rules,
                    tool_use: tool_use.clone(),
                    reason,
                };
                if let Some(turn) = &mut self.turn {
                    let by = match self.approval {
                        Approval::Nobody => DeniedBy::Nobody,
                        Approval::By(_) => DeniedBy::Answer,
                    };
                    turn.asked(tool_use.id.clone(), by, question.cause);
                }
                self.trace.asked(&tool_use);
                self.asked.insert(ask, tool_use);
                self.events.send(&Event::Asked(question.clone()));
                let reply = self.ask(question, cause);
                self.questions
                    .push(reply.map(move |reply| (ask, reply)).boxed());
            }
            Effect::CancelAsk { ask } => {
                self.asked.remove(&ask);
                // One is asked at a time: nothing else is dropped with it.
                self.questions.clear();
            }
            Effect::StartTimer { timer, after } => {
                self.timers
                    .push((timer, Box::pin(tokio::time::sleep(after))));
            }
            Effect::CancelTimer { timer } => self.timers.retain(|(other, _)| *other != timer),
            Effect::AskStop { stop, active } => self.ask_stop(stop, active),
            Effect::CancelStop { .. } => self.judging = None,
            Effect::EndTurn { end, unsent } => self.end_turn(end, unsent),
        }
    }

    fn ask_stop(&mut self, stop: u64, active: bool) {
        let text = self.turn.as_ref().map_or("", |turn| turn.text()).into();
        let stopping = Stopping {
            text,
            stop_hook_active: active,
        };
        let judgement = self.judge_stop(stopping);
        let judgement = tokio::time::timeout(self.stop_limit(), judgement);
        self.judging = Some((stop, judgement.map(Result::ok).boxed()));
    }

    fn run_tool(&mut self, run: u64, tool_use: ToolUse) {
        let cancellation = CancellationToken::new();
        let progress = if self.events.is_watched() {
            let events = Arc::clone(&self.events);
            let id = tool_use.id.clone();
            let secrets = self.secrets.clone();
            Progress::to(move |text| {
                events.send(&Event::ToolProgress {
                    tool_use_id: id.clone(),
                    text: secrets.redact_known(text).into(),
                });
            })
        } else {
            Progress::none()
        };
        let context = ToolContext {
            tool_use_id: tool_use.id.clone(),
            working_directory: self.workspace.clone(),
            cancellation: cancellation.clone(),
            progress,
            background: self.background.clone(),
            withheld: self.gate.withheld(&tool_use.name),
            grants: self.gate.grants(&tool_use),
        };
        self.events.send(&Event::ToolStarted {
            tool_use: tool_use.clone(),
        });
        let is_read_only = self.started.take_if(|id| *id == tool_use.id).is_none();
        let checkpoint = if is_read_only {
            None
        } else {
            self.checkpoint(&tool_use)
        };
        let results = Arc::clone(&self.results);
        let hooks = self.hooks.clone();
        let called = tool_use.clone();
        let tool = self.registry.get(&tool_use.name).cloned();
        let input = tool_use.input.clone();
        let span = self.trace.tool_begins(&tool_use);
        let within = span.clone();
        let work = async move {
            let kept = match &checkpoint {
                Some(checkpoint) => checkpoint.before(&context.cancellation).await,
                None => true,
            };
            let begun = Instant::now();
            let result = match (tool, input) {
                (Some(_), _) if !kept => Err(ToolError::Cancelled),
                // Broken off before it began: then it does not begin.
                _ if context.cancellation.is_cancelled() => Err(ToolError::Cancelled),
                (Some(tool), ToolInput::Valid(input)) => tool.run(&input, &context).await,
                // The gate lets neither pass.
                (None, _) | (_, ToolInput::Invalid { .. }) => {
                    Err(ToolError::Failed("there is nothing to run".into()))
                }
            };
            let duration = begun.elapsed();
            let id = context.tool_use_id;
            let result = results.fitted(id, result).await;
            let hooks = hooks.as_deref();
            let (result, stop) =
                hooking::after(hooks, called, result, &context.cancellation, within).await;
            // What a hook changes belongs to the call.
            if let Some(checkpoint) = checkpoint {
                checkpoint.after();
            }
            Ran {
                run,
                duration,
                result,
                stop,
            }
        };
        let task = self.tools.spawn(work.instrument(span.clone()));
        let run_under_way = Run {
            tool_use,
            is_read_only,
            cancellation,
            task: task.id(),
            span,
        };
        self.runs.insert(run, run_under_way);
    }

    /// What ran early for a reply that came to nothing has not been told to anybody.
    fn throw_away_early(&mut self) {
        for cancellation in self.early.drain(..) {
            cancellation.cancel();
        }
    }

    fn end_turn(&mut self, end: TurnEnd, unsent: Vec<Vec<Content>>) {
        self.changed.clear();
        self.throw_away_early();
        let mut unsent = unsent;
        unsent.extend(self.unsaid());
        if std::mem::take(&mut self.hooking.objected) && end == TurnEnd::Completed {
            let words =
                "the stop hook has objected eight times in this turn: it is not heard again";
            self.events.send(&Event::Warning(words.into()));
        }
        let Some(turn) = self.turn.take() else { return };
        let priced = self.kernel.settings().price.is_some();
        let (reply, mut report) = turn.end(end, self.kernel.transcript(), priced);
        report.unsent = unsent;
        report.background = self.background.under_way();
        self.trace.turn_ends(&report);
        self.events
            .send(&Event::TurnEnded(Arc::new(report.clone())));
        drop(reply.send(Ok(report)));
    }

    // ---- the end

    async fn close(&mut self) -> Result<(), StoreError> {
        self.give_up_prompts();
        let effects = self.kernel.step(Input::Interrupt);
        let mut result = self.perform(effects).await;
        self.model = None;
        self.questions.clear();
        self.hooking.under_way.clear();
        self.judging = None;
        self.timers.clear();
        for run in std::mem::take(&mut self.runs).into_values() {
            run.cancellation.cancel();
        }
        let ended = async { while self.tools.join_next().await.is_some() {} };
        if tokio::time::timeout(CLOSE_GRACE, ended).await.is_err() {
            self.tools.shutdown().await;
        }
        self.session_ends().await;
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.close().await;
        }
        if let Some(folder) = self.temporary.take() {
            // There may be none, since nothing was long.
            let removed = tokio::task::spawn_blocking(|| std::fs::remove_dir_all(folder)).await;
            drop(removed);
        }
        if result.is_ok() {
            result = self.journal.flush_now().await;
        }
        self.trace.close();
        result
    }
}

/// A random number: the bottom of the clock is enough to spread retries.
pub(crate) fn chance() -> u16 {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.subsec_nanos());
    let mixed = now.wrapping_mul(0x9e37_79b9) ^ std::process::id().wrapping_mul(0x85eb_ca6b);
    u16::try_from(mixed >> 16).unwrap_or(0)
}
