//! The world round a session: what lives on when a process dies, and what dies with it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tooloop_kernel::{Delivery, Entry, Transcript};
use tooloop_model::{HistoryMessage, JsonObject, ModelErrorKind, StopReason, ToolUseId, Usage};

use crate::bills::Bill;
use crate::disk::Disk;
use crate::law::{Broken, Law};
use crate::record::Record;
use crate::script::{Advised, Loss, Moment, Script, ToolKind};

/// How late something may come that stands behind flushes.
pub(crate) const LATE: Duration = Duration::from_secs(10);

/// More moments than any life has that comes to an end.
const ENDLESS: u32 = 20_000;

/// A handle on the world. One thread has it at a time, so the lock is never waited for.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Mutex<World>>);

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Shared(..)")
    }
}

impl Shared {
    pub(crate) fn new(world: World) -> Self {
        Self(Arc::new(Mutex::new(world)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct World {
    pub(crate) script: Script,
    /// How much of each list is used up.
    pub(crate) used: Used,
    /// What happened, in words, if that is wanted.
    pub(crate) story: Option<Vec<String>>,
    /// Changes with all that happens: two worlds of one script have the same.
    pub(crate) fingerprint: u64,
    /// The inputs that the harness was given.
    pub(crate) steps: u64,
    /// How often each kind of thing happened.
    pub(crate) seen: BTreeMap<&'static str, u64>,
    pub(crate) broken: Option<Broken>,
    pub(crate) disk: Disk,
    /// The fold of what is stored.
    pub(crate) folded: Transcript,
    /// The conversation before room was made the last time.
    pub(crate) before_room: Vec<Arc<HistoryMessage>>,
    /// What is stored says so.
    pub(crate) record: Record,
    /// The calls that are not read-only and have begun, in all lives.
    pub(crate) begun: BTreeSet<ToolUseId>,
    /// How often each call has had its effect.
    pub(crate) effects: BTreeMap<ToolUseId, u32>,
    /// Makes texts tellable apart.
    pub(crate) newest: u64,
    pub(crate) life: Life,
    /// Other models than the first have counted.
    pub(crate) others_counted: bool,
    /// What the death before this life lost.
    pub(crate) lost: Option<Loss>,
    /// The time when this life began.
    base: Duration,
    /// The same on the clock of this life.
    began: Option<Instant>,
    pub(crate) planted: Option<Planted>,
}

/// A law for tests: it is broken when a moment of this kind comes for the so manyth time.
pub(crate) type Planted = (Moment, u32);

#[derive(Default)]
pub(crate) struct Used {
    pub(crate) acts: usize,
    pub(crate) replies: usize,
    pub(crate) answers: usize,
    pub(crate) stops: usize,
    pub(crate) advice: usize,
    pub(crate) summaries: usize,
    pub(crate) disk: usize,
    pub(crate) deaths: usize,
}

/// What dies with the process.
#[derive(Default)]
pub(crate) struct Life {
    pub(crate) number: u32,
    /// Wakes the world when it is over.
    pub(crate) stop: Arc<Notify>,
    pub(crate) dead: Option<Loss>,
    moments: [u32; Moment::KINDS],
    pub(crate) all_moments: u32,
    /// Something was appended.
    pub(crate) appended: bool,
    /// An append failed: nothing more may be done.
    pub(crate) append_failed: bool,
    /// A flush failed: the session may end.
    pub(crate) flush_failed: bool,
    pub(crate) closing: bool,
    /// Somebody wants the turn to end.
    pub(crate) interrupt_wanted: bool,
    /// The same again before anything came of it: another turn may have been asked for meanwhile.
    pub(crate) more_interrupts: u32,
    /// The turn that was under way then.
    pub(crate) interrupted: Option<u64>,
    /// The past has not been closed yet.
    pub(crate) resuming: bool,
    /// The models that a request may name.
    pub(crate) models: Vec<String>,
    /// The newest model call.
    pub(crate) call: u64,
    pub(crate) served: Option<Served>,
    pub(crate) runs: Vec<Run>,
    pub(crate) questions: Vec<ToolUseId>,
    /// A question is open that nobody will answer.
    pub(crate) never: bool,
    pub(crate) answers: BTreeMap<ToolUseId, bool>,
    /// The hosts that are allowed for good.
    pub(crate) granted: BTreeSet<&'static str>,
    /// What was said and is neither on record nor given back.
    pub(crate) said: Vec<Words>,
    /// How many turns have begun.
    pub(crate) turns: u64,
    /// What was said of which nobody may be told whether it arrived.
    pub(crate) uncertain: BTreeSet<String>,
    /// So many turns nobody waits for.
    pub(crate) deserted: usize,
    /// The ends of turns that nobody was told of yet.
    pub(crate) ends: VecDeque<Ended>,
    /// What all replies of this life and the record before it used.
    pub(crate) paid: Usage,
    /// What the provider has billed in this life, the newest call apart.
    pub(crate) billed: Bill,
    /// What is on record that was spent in this life.
    pub(crate) spent: Bill,
    /// What was on record when it began.
    pub(crate) spent_before: Bill,
    /// What the past comes to may have been counted for another model: a journal does not tell, and
    /// what is reckoned with until the next count may be too little.
    pub(crate) foreign_past: bool,
    /// Overloads in a row.
    pub(crate) overloads: u32,
    /// What a hook said against the end of a turn and is not on record.
    pub(crate) objections: Vec<String>,
    /// A hook has ended a turn.
    pub(crate) hook_ended: bool,
    /// The calls that a hook was told of, and what it said.
    pub(crate) told_of: BTreeSet<ToolUseId>,
    pub(crate) advised: BTreeMap<ToolUseId, Advised>,
    pub(crate) rewritten: BTreeMap<ToolUseId, JsonObject>,
    /// A hook wants the turn to end.
    pub(crate) hook_stops: bool,
    /// Entries that a reader of events has not seen yet.
    pub(crate) unread: VecDeque<Entry>,
    /// What was said and not sent, since no turn was under way.
    pub(crate) warned: usize,
    pub(crate) newest_fault: Option<(ModelErrorKind, Option<Duration>)>,
    /// The newest request that is no summary's was refused as too long.
    pub(crate) too_long: bool,
    /// How often somebody waits for a summary.
    pub(crate) compacting: u32,
    /// The newest word of a hook on a summary was no.
    pub(crate) summary_refused: bool,
    /// Steps made since there is room again; `None` if it was never made.
    pub(crate) since_room: Option<u32>,
    /// Summaries that failed in a row where nobody had asked for them.
    pub(crate) failed_summaries: u32,
    /// Why the reply stopped that came before the newest summaries.
    pub(crate) stop_before_summary: Option<StopReason>,
}

/// Something that was said.
pub(crate) struct Words {
    pub(crate) delivery: Delivery,
    pub(crate) text: String,
    /// The turn that was under way.
    pub(crate) turn: Option<u64>,
}

/// An end of a turn on record.
pub(crate) struct Ended {
    pub(crate) end: tooloop_kernel::TurnEnd,
    pub(crate) steps: u32,
    pub(crate) usage: Usage,
    /// What the model said last, if it was the last to speak.
    pub(crate) text: String,
    /// What each model used.
    pub(crate) by_model: BTreeMap<String, Usage>,
}

/// What the model has said in the newest call.
#[derive(Default)]
pub(crate) struct Served {
    /// Who says it.
    pub(crate) model: String,
    /// The tokens that it was sent.
    pub(crate) input: u64,
    /// Whether they are dear.
    pub(crate) dear: bool,
    /// Whether anything has come.
    pub(crate) begins: bool,
    /// The tokens that were seen, and those beside them that were told of.
    pub(crate) seen: u64,
    pub(crate) unseen: u64,
    pub(crate) text: String,
    /// Whether anything has come that a front end shows.
    pub(crate) shown: bool,
    pub(crate) calls: Vec<ServedCall>,
    /// Whether a block came whose contents only its vendor knows.
    pub(crate) has_vendor_block: bool,
    pub(crate) usage: Usage,
    pub(crate) stop: Option<StopReason>,
    /// It ended otherwise.
    pub(crate) failed: bool,
    /// A summary was asked for.
    pub(crate) is_summary: bool,
    /// Nobody listens any more.
    pub(crate) dropped: bool,
}

pub(crate) struct ServedCall {
    pub(crate) index: usize,
    /// As the model wrote it.
    pub(crate) id: ToolUseId,
    pub(crate) tool: ToolKind,
    pub(crate) input: String,
    pub(crate) complete: bool,
    /// Whether it may run at once.
    pub(crate) free: bool,
}

/// A call that runs or ran in this life.
pub(crate) struct Run {
    pub(crate) id: ToolUseId,
    /// The model call that was the newest when it began.
    pub(crate) call: u64,
    pub(crate) read_only: bool,
    /// What it came to: what its result begins with.
    pub(crate) outcome: Option<String>,
    pub(crate) panicked: bool,
    /// Its future is there.
    pub(crate) live: bool,
    /// It was cancelled when it ended.
    pub(crate) cancelled: bool,
    pub(crate) cancellation: CancellationToken,
}

impl Run {
    /// Whether it is under way and nobody has broken it off.
    pub(crate) fn is_under_way(&self) -> bool {
        self.live && self.outcome.is_none() && !self.cancellation.is_cancelled()
    }
}

impl World {
    pub(crate) fn new(script: Script, told: bool, planted: Option<Planted>) -> Self {
        Self {
            script,
            used: Used::default(),
            story: told.then(Vec::new),
            fingerprint: 0xcbf2_9ce4_8422_2325,
            steps: 0,
            seen: BTreeMap::new(),
            broken: None,
            disk: Disk::default(),
            folded: Transcript::default(),
            before_room: Vec::new(),
            record: Record::default(),
            begun: BTreeSet::new(),
            effects: BTreeMap::new(),
            newest: 0,
            life: Life::default(),
            others_counted: false,
            lost: None,
            base: Duration::ZERO,
            began: None,
            planted,
        }
    }

    /// A process begins. Its clock is that of the runtime it runs in.
    pub(crate) fn begin_life(&mut self) -> Arc<Notify> {
        self.base = self.now();
        self.began = Some(Instant::now());
        self.life = Life {
            number: self.life.number + 1,
            paid: self.folded.usage(),
            models: vec!["model".into()],
            ..Life::default()
        };
        Arc::clone(&self.life.stop)
    }

    /// A process is over. What it leaves behind is on the disk.
    pub(crate) fn end_life(&mut self) {
        self.base = self.now();
        self.began = None;
        self.lost = self.life.dead;
    }

    pub(crate) fn now(&self) -> Duration {
        let here = self.began.map(|began| began.elapsed());
        self.base + here.unwrap_or_default()
    }

    /// Whether somebody, or the end of the session, ends turns.
    pub(crate) const fn wants_an_end(&self) -> bool {
        self.life.interrupt_wanted || self.life.deserted > 0 || self.life.closing
    }

    /// Whether the turn has taken as long as it may, and so much more.
    pub(crate) fn time_is_up(&self, more: Duration) -> bool {
        let limit = self.script.knobs.limits.time.map(Duration::from_millis);
        limit.is_some_and(|limit| self.now() >= self.record.began + limit + more)
    }

    /// Whether the turn that is under way is to end at once.
    pub(crate) fn ends_soon(&self) -> bool {
        self.life.interrupt_wanted
            && self.record.in_turn
            && self.life.interrupted == Some(self.life.turns)
    }

    /// Whether anything that is done now is done at all.
    pub(crate) const fn alive(&self) -> bool {
        self.life.dead.is_none() && self.broken.is_none()
    }

    pub(crate) fn die(&mut self, loss: Loss) {
        if self.alive() {
            self.tell(|| match loss {
                Loss::Process(_) => "the process dies".into(),
                Loss::Power(_) => "the power fails".into(),
            });
            self.see(match loss {
                Loss::Process(_) => "death of the process",
                Loss::Power(_) => "loss of power",
            });
            self.life.dead = Some(loss);
            self.life.stop.notify_one();
        }
    }

    /// A law does not hold. The first one counts.
    pub(crate) fn break_law(&mut self, law: Law, words: impl Into<String>) {
        if self.alive() {
            let words = words.into();
            self.broken = Some(Broken { law, words });
            self.life.stop.notify_one();
        }
    }

    pub(crate) fn require(&mut self, law: Law, holds: bool, words: impl FnOnce() -> String) {
        if !holds {
            self.break_law(law, words());
        }
    }

    pub(crate) fn tell(&mut self, words: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            let line = words();
            let now = self.base + self.began.map(|began| began.elapsed()).unwrap_or_default();
            story.push(format!("{:>9} ms  {line}", now.as_millis()));
        }
    }

    pub(crate) fn see(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn stir(&mut self, number: u64) {
        self.fingerprint = (self.fingerprint ^ number).wrapping_mul(0x0000_0100_0000_01b3);
        self.fingerprint ^= self.fingerprint >> 29;
    }

    /// A moment comes, and perhaps death with it. `detail` tells it from others of its kind.
    pub(crate) fn moment(&mut self, moment: Moment, detail: u64, words: impl FnOnce() -> String) {
        if !self.alive() {
            return;
        }
        self.tell(words);
        let now = u64::try_from(self.now().as_millis()).unwrap_or(u64::MAX);
        self.stir(moment as u64);
        self.stir(detail);
        self.stir(now);
        if matches!(
            moment,
            Moment::Piece | Moment::CallEnds | Moment::Answer | Moment::User
        ) {
            self.steps += 1;
        }
        self.life.all_moments += 1;
        if self.life.all_moments > ENDLESS {
            self.break_law(Law::Bounds, "it goes on and on");
        }
        let over = self.record.in_turn && self.time_is_up(LATE);
        self.require(Law::Bounds, !over, || {
            "a turn goes on beyond its time".into()
        });
        let Some(count) = self.life.moments.get_mut(moment as usize) else {
            return;
        };
        *count += 1;
        let count = *count;
        if self.planted == Some((moment, count)) {
            self.break_law(Law::Planted, format!("{moment:?} number {count}"));
        }
        if let Some(death) = self.script.deaths.get(self.used.deaths)
            && death.moment == moment
            && death.nth == count
        {
            let loss = death.loss;
            self.used.deaths += 1;
            self.die(loss);
        }
    }

    /// Somebody says something that is to reach the model, in this turn if it is known in which.
    /// Returns the words.
    pub(crate) fn speak(&mut self, delivery: Delivery, turn: Option<u64>) -> String {
        let number = self.number();
        let text = match delivery {
            Delivery::Notice | Delivery::Aside => format!("notice {number}"),
            Delivery::Steer | Delivery::FollowUp => format!("say {number}"),
        };
        self.life.said.push(Words {
            delivery,
            text: text.clone(),
            turn,
        });
        text
    }

    /// A number that was not there before.
    pub(crate) const fn number(&mut self) -> u64 {
        self.newest += 1;
        self.newest
    }
}
