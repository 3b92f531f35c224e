//! The runtime: turns the kernel's effects into I/O, and what comes of them into inputs.
//!
//! It decides nothing. Each session is one task; it owns everything that runs for the session and
//! ends it before it ends itself.

mod asking;
mod commands;
mod compacting;
mod files;
mod hooking;
mod model;
mod nested;
mod parts;
mod reminding;
mod tools;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;
use tooloop_kernel::{
    Delivery, Effect, Entry, Input, Judgement, Kernel, Prepared, StopJudgement, Sync, TurnEnd,
};
use tooloop_model::{Content, Message, ModelError, StreamEvent, ToolUse, ToolUseId};
use tooloop_provider::{Provider, Redactor};
use tooloop_session::StoreError;
use tooloop_tool::{Background, Registry};

pub(crate) use self::parts::{Keep, Parts, start};

use self::compacting::Compacting;
use self::hooking::{Answered, Heard, Hooking};
use self::nested::Nested;
use self::tools::{Ran, Run};
use crate::agents::{Assignment, ModeTold, Subagents};
use crate::checkpoints::Checkpoints;
use crate::event::Broadcast;
use crate::gate::RegistryGate;
use crate::hooks::SessionHooks;
use crate::keeping::Journal;
use crate::model_call::ModelCall;
use crate::output_schema::OutputSchema;
use crate::results::Results;
use crate::session::{CloseReason, Command};
use crate::trace::Trace;
use crate::turn::TurnUnderWay;
use crate::{Approval, CacheLedger, Event, SessionError, StopHook};

/// How long closing waits for tools that were told to end. A shell gets two seconds between TERM
/// and KILL; what is left after this is dropped, which kills it.
const CLOSE_GRACE: Duration = Duration::from_secs(4);

/// How long a stop hook may think.
const STOP_HOOK_LIMIT: Duration = Duration::from_secs(60);

struct Driver {
    kernel: Kernel,
    hooks: Option<Arc<SessionHooks>>,
    hooking: Hooking,
    nested: Nested,
    /// The model is told the date.
    told_facts: bool,
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
    /// The warning about a count of tokens that cannot be true was sent.
    doubted_count: bool,
    /// The newest call that is on record as about to run: one with effects.
    started: Option<ToolUseId>,
    questions: FuturesUnordered<BoxFuture<'static, (u64, Answered)>>,
    /// The questions that still want an answer.
    asked: HashMap<u64, (ToolUse, Arc<Judgement>)>,
    /// The calls that run with another input than the model wrote, since whoever was asked wants it
    /// so: the model is told.
    changed: HashSet<ToolUseId>,
    timers: Vec<(u64, Pin<Box<Sleep>>)>,
    output: Option<OutputSchema>,
    stop_hook: Option<Arc<dyn StopHook>>,
    /// Somebody judges whether the model is done.
    judging: Option<(u64, BoxFuture<'static, Option<StopJudgement>>)>,
    compacting: Compacting,
    /// The journal that the store writes, if it is one.
    recorded_in: Option<PathBuf>,
    turn: Option<TurnUnderWay>,
    trace: Trace,
    /// Who waits until the conversation is taken back.
    rewinding: Option<oneshot::Sender<Result<(), SessionError>>>,
    background: Background,
    results: Arc<Results>,
    cache: CacheLedger,
    /// The sections of the system prompt with their tokens, if they are known.
    sections: Vec<(String, u64)>,
    /// Knows what is not to be shown.
    secrets: Redactor,
    /// The folder that ends with the session.
    temporary: Option<PathBuf>,
    checkpoints: Option<Checkpoints>,
    /// Whom it is a subagent of.
    assignment: Option<Assignment>,
    /// What the model knows of plan mode.
    mode_told: ModeTold,
    /// For how many steps each tool was not used, since it was last.
    unused: HashMap<String, u32>,
    /// What the model is to be reminded of with the results of this step.
    asides: VecDeque<String>,
    /// The subagents that work for it.
    agents: Arc<Subagents>,
    /// What the numbers of its questions begin with, so that no other session of the tree has them.
    asks: u64,
    /// Whether notices wait for a turn to be told in.
    noticed: watch::Sender<bool>,
}

/// What the driver waits for.
enum Came {
    Command(Option<Command>),
    Model(Result<StreamEvent, ModelError>),
    Tool(Result<(tokio::task::Id, Ran), JoinError>),
    Reply(u64, Answered),
    Heard(Heard),
    Timer(u64),
    /// What a summary needs.
    Prepared(u64, Prepared),
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
        let prepared = self.compacting.prepared();
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
            (compaction, prepared) = prepared => Came::Prepared(compaction, prepared),
            (stop, judgement) = judged => Came::Judged(stop, judgement),
            result = flush => Came::Flushed(result),
        }
    }

    async fn take(&mut self, came: Came) -> Result<(), StoreError> {
        let input = match came {
            Came::Command(Some(Command::Rewind { turn, reply })) => {
                match self.rewind(turn, reply).await {
                    Some(input) => input,
                    None => return Ok(()),
                }
            }
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
                    if let Some(aside) = self.aside() {
                        self.step(aside).await?;
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
            Came::Prepared(compaction, prepared) => Input::CompactionPrepared {
                compaction,
                prepared,
            },
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
        let time = Timestamp::now();
        for entry in entries.drain(..) {
            self.cache.take(&entry, Some(time));
            if matches!(entry, Entry::CallFinished(_)) {
                // On record: no longer thrown away with the reply.
                self.early.clear();
            }
            if let Some(turn) = &mut self.turn {
                turn.note(&entry);
            }
            self.note_use(&entry);
            match &entry {
                Entry::Rewound { turn } => self.taken_back(*turn),
                Entry::Compacted { before, after, .. } => {
                    self.compacting.done(*before, *after);
                }
                _ => {}
            }
            if matches!(&entry, Entry::Message(said) if matches!(said.message(), Message::Assistant(_)))
            {
                self.doubt_count();
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

    /// Warns once if the provider's count of tokens cannot be true.
    fn doubt_count(&mut self) {
        if self.doubted_count {
            return;
        }
        if let Some(tokens) = self.kernel.implausible_count() {
            self.doubted_count = true;
            let words = format!(
                "the provider counted {tokens} tokens of input and output, which is far from any \
                 estimate; estimates are used to decide when the conversation is compacted"
            );
            self.events.send(&Event::Warning(words));
        }
    }

    fn act(&mut self, effect: Effect) {
        match effect {
            // Taken out before.
            Effect::Record { .. } => {}
            Effect::CallModel { call, request } => self.call_model(call, *request),
            Effect::CancelModel { call } => {
                if self.model.as_ref().is_some_and(|model| model.call == call) {
                    self.model_done();
                }
            }
            Effect::Show { call, event } => self.events.send(&Event::Delta { call, event }),
            Effect::Void { call } => self.events.send(&Event::Voided { call }),
            Effect::RunTool {
                run,
                tool_use,
                judgement,
            } => self.run_tool(run, tool_use, &judgement),
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
                judgement,
            } => self.ask_about(ask, tool_use, reason, cause, judgement),
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
            Effect::PrepareCompaction {
                compaction,
                trigger,
                room,
            } => self.prepare_compaction(compaction, trigger, room),
            Effect::CancelCompaction { .. } => self.compacting.cancel(),
            Effect::CompactionEnded {
                trigger, failure, ..
            } => self.compaction_ended(trigger, failure),
            Effect::AskStop { stop, active } => self.ask_stop(stop, active),
            Effect::CancelStop { .. } => self.judging = None,
            Effect::EndTurn { end, unsent } => self.end_turn(end, unsent),
        }
    }

    fn end_turn(&mut self, end: TurnEnd, unsent: Vec<Vec<Content>>) {
        self.changed.clear();
        self.forget_asides();
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
        self.agents.tell_in(&mut report);
        self.trace.turn_ends(&report);
        self.events
            .send(&Event::TurnEnded(Arc::new(report.clone())));
        drop(reply.send(Ok(report)));
    }

    // ---- the end

    async fn close(&mut self) -> Result<(), StoreError> {
        self.give_up_prompts();
        let effects = self.kernel.step(Input::Shutdown);
        let mut result = self.perform(effects).await;
        if result.is_ok() && self.kernel.is_idle() {
            // What waited for a summary to begin did not begin.
            self.turn = None;
        }
        self.model = None;
        self.questions.clear();
        self.hooking.under_way.clear();
        self.judging = None;
        self.compacting.cancel();
        self.timers.clear();
        for run in std::mem::take(&mut self.runs).into_values() {
            run.cancellation.cancel();
        }
        let ended = async { while self.tools.join_next().await.is_some() {} };
        if tokio::time::timeout(CLOSE_GRACE, ended).await.is_err() {
            self.tools.shutdown().await;
        }
        self.agents.close(CLOSE_GRACE).await;
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
