//! What the driver does about the conversation's length: what a summary needs is gathered, and the
//! way back to before one is read from the journal.

use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use tokio::sync::oneshot;
use tooloop_kernel::{CompactionTrigger, Input, Prepared, Transcript, estimate};
use tooloop_model::Content;
use tooloop_session::read_whole;
use tooloop_tool::{Carried, Registry};

use super::Driver;
use crate::gate::RegistryGate;
use crate::hooks::Subject;
use crate::session::Compacted;
use crate::{CompactionState, Event, SessionError};

/// How long what a summary needs may take to gather.
const PREPARATION: Duration = Duration::from_secs(60);

/// So many pieces at most are carried over the size that each may have.
const PIECES: u64 = 5;

/// What is under way for a summary.
#[derive(Default)]
pub(super) struct Compacting {
    preparing: Option<(u64, BoxFuture<'static, Prepared>)>,
    /// Who has asked for it.
    reply: Option<oneshot::Sender<Result<Compacted, SessionError>>>,
    done: Option<Compacted>,
}

impl Compacting {
    pub(super) async fn prepared(&mut self) -> (u64, Prepared) {
        let Some((compaction, preparing)) = &mut self.preparing else {
            return pending().await;
        };
        let came = (*compaction, preparing.await);
        self.preparing = None;
        came
    }

    pub(super) fn cancel(&mut self) {
        self.preparing = None;
    }

    /// It is on record.
    pub(super) const fn done(&mut self, before: u64, after: u64) {
        self.done = Some(Compacted { before, after });
    }
}

impl Driver {
    /// Somebody wants the conversation summed up.
    pub(super) fn compact(
        &mut self,
        focus: Option<String>,
        reply: oneshot::Sender<Result<Compacted, SessionError>>,
    ) -> Option<Input> {
        if self.turn.is_some() || !self.kernel.is_idle() {
            drop(reply.send(Err(SessionError::Busy)));
            return None;
        }
        self.compacting.reply = Some(reply);
        Some(Input::Compact { focus })
    }

    pub(super) fn prepare_compaction(
        &mut self,
        compaction: u64,
        trigger: CompactionTrigger,
        room: u64,
    ) {
        let state = CompactionState::Begun;
        self.events.send(&Event::Compaction { trigger, state });
        let subject = Subject::PreCompact {
            trigger: match trigger {
                CompactionTrigger::Manual => "manual",
                CompactionTrigger::Auto | CompactionTrigger::TooLong => "auto",
            },
        };
        let hooks = self.hooks.clone().filter(|hooks| hooks.wants(&subject));
        let within = self.trace.around_hooks();
        let registry = self.registry.clone();
        let gate = Arc::clone(&self.gate);
        let journal = self.recorded_in.clone();
        let secrets = self.secrets.clone();
        let prepare = async move {
            let mut prepared = Prepared::default();
            if let Some(hooks) = hooks {
                let said = hooks.run(subject, None, within).await;
                prepared.refused = said.block.or(said.stop);
                prepared.instructions = said.context;
            }
            let names: Vec<String> = registry.names().map(str::to_owned).collect();
            let carried = names.iter().map(|name| carried(&registry, &gate, name));
            let carried = fitting(in_turn(join_all(carried).await), room);
            let carried = carried.map(|text| secrets.redact_known(&text).into_owned());
            prepared.carried = carried.map(Content::Text).collect();
            if let Some(journal) = journal {
                prepared.carried.push(Content::Text(format!(
                    "(The whole conversation is on record, in JSON lines, in {})",
                    journal.display()
                )));
            }
            prepared
        };
        let prepare = tokio::time::timeout(PREPARATION, prepare).map(Result::unwrap_or_default);
        self.compacting.preparing = Some((compaction, prepare.boxed()));
    }

    pub(super) fn compaction_ended(&mut self, trigger: CompactionTrigger, failure: Option<String>) {
        if let (CompactionTrigger::Manual, Some(turn)) = (trigger, &mut self.turn) {
            // It was asked for while the conversation was summed up.
            turn.begins_now(self.kernel.transcript());
        }
        let done = self.compacting.done.take();
        let reply = self
            .compacting
            .reply
            .take_if(|_| trigger == CompactionTrigger::Manual);
        let state = match &failure {
            None => CompactionState::Done,
            Some(reason) => CompactionState::Failed(reason.clone()),
        };
        self.events.send(&Event::Compaction { trigger, state });
        match (reply, done, failure) {
            (Some(reply), Some(done), None) => drop(reply.send(Ok(done))),
            (Some(reply), _, failure) => {
                let reason = failure.unwrap_or_default();
                drop(reply.send(Err(SessionError::NotCompacted(reason))));
            }
            (None, _, Some(reason)) => {
                let words = format!("the conversation was not summed up: {reason}");
                self.events.send(&Event::Warning(words));
            }
            (None, _, None) => {}
        }
    }

    /// Somebody wants the conversation taken back. What a summary stands for is read again from the
    /// journal if the way leads there.
    pub(super) async fn rewind(
        &mut self,
        turn: usize,
        reply: oneshot::Sender<Result<(), SessionError>>,
    ) -> Option<Input> {
        let transcript = self.kernel.transcript();
        let turns = transcript.turns().len();
        let refused = if self.turn.is_some() || !self.kernel.is_idle() {
            SessionError::Busy
        } else if !(1..=turns).contains(&turn) {
            SessionError::NoSuchTurn { turn, turns }
        } else if transcript.reaches(turn) {
            self.rewinding = Some(reply);
            return Some(Input::Rewind { turn, past: None });
        } else {
            match past(self.recorded_in.clone()).await {
                Ok(past) => {
                    self.rewinding = Some(reply);
                    let past = Some(Box::new(past));
                    return Some(Input::Rewind { turn, past });
                }
                Err(error) => error,
            }
        };
        drop(reply.send(Err(refused)));
        None
    }
}

/// What a session has come to, with what was summed up.
async fn past(journal: Option<PathBuf>) -> Result<Transcript, SessionError> {
    let journal = journal.ok_or(SessionError::Closed)?;
    let read = tokio::task::spawn_blocking(move || read_whole(&journal));
    let past = read.await.map_err(|_| SessionError::Closed)?;
    past.map_err(SessionError::Journal)
}

/// What a tool carries over.
async fn carried(registry: &Registry, gate: &Arc<RegistryGate>, name: &str) -> Vec<Carried> {
    match registry.get(name) {
        Some(tool) => tool.carried(&gate.unreadable(name)).await,
        None => Vec::new(),
    }
}

/// The first of each tool, then the second of each: none of them takes the room of all.
fn in_turn(each: Vec<Vec<Carried>>) -> impl Iterator<Item = Carried> {
    let most = each.iter().map(Vec::len).max().unwrap_or(0);
    let mut each: Vec<_> = each.into_iter().map(Vec::into_iter).collect();
    let rounds = (0..most).map(move |_| each.iter_mut().filter_map(Iterator::next).collect());
    rounds.flat_map(|round: Vec<Carried>| round)
}

/// What fits of what tools carry over, as it is said.
fn fitting(carried: impl Iterator<Item = Carried>, room: u64) -> impl Iterator<Item = String> {
    let mut left = room;
    carried.filter_map(move |Carried { title, text }| {
        let most = left.min(room / PIECES);
        // 3.5 bytes a token.
        let bytes = usize::try_from(most.saturating_mul(7) / 2).unwrap_or(usize::MAX);
        let whole = text.len() <= bytes;
        let text = if whole {
            text
        } else {
            let end = text.floor_char_boundary(bytes);
            format!("{}\n[... cut here]", text.get(..end).unwrap_or_default())
        };
        left = left.saturating_sub(estimate::text(&text));
        (most > 0).then(|| format!("({title}, as it is now:)\n{text}"))
    })
}
