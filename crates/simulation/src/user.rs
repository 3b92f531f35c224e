//! The user of a session: does what the script says, and looks at what comes of it.

mod patience;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::task::JoinHandle;
use tooloop::{Agent, Session, SessionError, TurnReport};
use tooloop_kernel::Delivery;
use tooloop_session::SessionId;

use crate::disk::SimulatedStore;
use crate::law::Law;
use crate::reader;
use crate::script::{After, Moment, What};
use crate::world::Shared;

/// Longer than any single thing takes: in so much time something happens while a turn is under way.
const SILENT: Duration = Duration::from_millis(crate::tools::HANG + 60_000);

/// How long a turn may go on that somebody has interrupted: what stands before it are flushes.
const INTERRUPTED: Duration = Duration::from_secs(12);

/// How long closing may take: the grace for tools, and flushes.
const CLOSING: Duration = Duration::from_secs(20);

/// What comes after a life.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Next {
    /// Another one.
    Again,
    /// Nothing: the script is over.
    Over,
}

/// The session cannot be used any more.
struct Gone;

type Turn = Pin<Box<dyn Future<Output = Result<Option<TurnReport>, SessionError>>>>;

struct Waiting {
    turn: Turn,
    /// No other turn can have been under way when it began.
    alone: bool,
    text: Option<String>,
    /// It is no turn: the conversation is summed up.
    sums_up: bool,
}

struct User {
    shared: Shared,
    session: Arc<Session>,
    turns: Vec<Waiting>,
    reader: Option<JoinHandle<()>>,
}

/// A life of the process, from what is on the disk to its end.
pub(crate) async fn live(shared: &Shared, agent: &Agent) -> Next {
    let entries = shared.lock().wakes();
    let store = SimulatedStore {
        shared: shared.clone(),
        session: session_id(),
    };
    let session = agent.session_on(Box::new(store), &entries);
    let watched = shared.lock().script.knobs.watched;
    let reader = watched.then(|| tokio::spawn(reader::read(shared.clone(), session.events())));
    let mut user = User {
        shared: shared.clone(),
        session: Arc::new(session),
        turns: Vec::new(),
        reader,
    };
    let ended = user.act_out().await;
    let (next, closes) = match ended {
        Ok(end) => end,
        Err(Gone) => (Next::Again, true),
    };
    user.end(closes).await;
    next
}

fn session_id() -> SessionId {
    // One name for all: nobody looks at it.
    "018f0000-0000-7000-8000-000000000000"
        .parse()
        .unwrap_or_else(|_| SessionId::generate())
}

impl User {
    /// Acts until the script or the life is over. Returns what comes next, and whether the session
    /// is closed first.
    async fn act_out(&mut self) -> Result<(Next, bool), Gone> {
        self.look().await?;
        loop {
            let act = self.shared.lock().next_act();
            let Some(act) = act else { break };
            match act.after {
                After::Idle => self.settle().await?,
                After::Millis(millis) => self.wait(Duration::from_millis(millis)).await?,
            }
            {
                let mut world = self.shared.lock();
                world.moment(Moment::User, act.what.number(), || {
                    format!("the user {}", crate::words::what(act.what))
                });
            }
            match act.what {
                What::Prompt => self.prompt().await,
                What::Wake => self.wake().await,
                What::Blank => self.blank().await,
                What::Steer => self.say(Delivery::Steer).await?,
                What::FollowUp => self.say(Delivery::FollowUp).await?,
                What::Interrupt => self.interrupt().await?,
                What::Desert => self.desert(),
                What::Model => self.model().await?,
                What::Look => self.look().await?,
                What::Rewind(turn) => self.rewind(turn).await?,
                What::Compact => self.compact().await,
                What::Close => return Ok((Next::Again, true)),
                What::Leave => return Ok((Next::Again, false)),
                What::Die(loss) => {
                    self.shared.lock().die(loss);
                    let () = std::future::pending().await;
                }
            }
        }
        self.settle().await?;
        Ok((Next::Over, true))
    }

    // ---- acts

    async fn prompt(&mut self) {
        let text = self.shared.lock().speak(Delivery::Steer, None);
        let session = Arc::clone(&self.session);
        let prompt = text.clone();
        let turn = Box::pin(async move { session.prompt(prompt).await.map(Some) });
        self.begin(turn, Some(text)).await;
    }

    async fn wake(&mut self) {
        self.shared.lock().see("wake");
        let session = Arc::clone(&self.session);
        let turn = Box::pin(async move { session.wake().await });
        self.begin(turn, None).await;
    }

    async fn compact(&mut self) {
        {
            let mut world = self.shared.lock();
            if world.life.compacting == 0 && !world.record.in_turn {
                // It has tries of its own.
                world.record.failures = 0;
            }
            world.life.compacting += 1;
        }
        let session = Arc::clone(&self.session);
        let shared = self.shared.clone();
        let turn = Box::pin(async move {
            let compacted = session.compact(None).await;
            let mut world = shared.lock();
            world.life.compacting -= 1;
            match compacted {
                Ok(_) => {
                    world.see("summed up on demand");
                    Ok(None)
                }
                Err(SessionError::NotCompacted(_)) => {
                    world.see("not summed up on demand");
                    Ok(None)
                }
                Err(error) => Err(error),
            }
        });
        self.begin_with(turn, None, true).await;
    }

    /// The turn is begun at once: what is polled first is the command.
    async fn begin(&mut self, turn: Turn, text: Option<String>) {
        self.begin_with(turn, text, false).await;
    }

    async fn begin_with(&mut self, turn: Turn, text: Option<String>, sums_up: bool) {
        let in_turn = self.shared.lock().record.in_turn;
        let mut waiting = Waiting {
            turn,
            alone: self.turns.is_empty() && !in_turn,
            text,
            sums_up,
        };
        let polled = poll_fn(|context| Poll::Ready(waiting.turn.as_mut().poll(context))).await;
        match polled {
            Poll::Ready(result) => {
                let gone = self.told(result, waiting.alone, waiting.text);
                // The next act meets it too.
                drop(gone);
            }
            Poll::Pending => self.turns.push(waiting),
        }
    }

    async fn blank(&mut self) {
        let result = self.session.prompt(" \n").await;
        let refused = matches!(result, Err(SessionError::BlankPrompt));
        self.shared.lock().require(Law::Report, refused, || {
            format!("a blank prompt comes to {result:?}")
        });
    }

    async fn say(&mut self, delivery: Delivery) -> Result<(), Gone> {
        let text = {
            let mut world = self.shared.lock();
            let turn = world.record.in_turn.then_some(world.life.turns);
            world.speak(delivery, turn)
        };
        let said = match delivery {
            Delivery::FollowUp => self.session.follow_up(text).await,
            Delivery::Steer | Delivery::Notice | Delivery::Aside => self.session.steer(text).await,
        };
        self.heard(said)
    }

    async fn interrupt(&mut self) -> Result<(), Gone> {
        self.wants_an_end();
        let told = self.session.interrupt().await;
        self.heard(told)
    }

    fn wants_an_end(&self) {
        let mut world = self.shared.lock();
        if world.record.in_turn || !self.turns.is_empty() {
            world.life.more_interrupts += u32::from(world.life.interrupt_wanted);
            world.life.interrupt_wanted = true;
            world.life.interrupted = world.record.in_turn.then_some(world.life.turns);
        }
    }

    /// Nobody waits for any report any more.
    fn desert(&mut self) {
        self.wants_an_end();
        let mut world = self.shared.lock();
        // What was said to such a turn may be lost: nobody is told.
        let said = world.life.said.iter();
        let said: Vec<_> = said
            .filter(|words| words.delivery != Delivery::Notice)
            .map(|words| words.text.clone())
            .collect();
        let deserted = self.turns.iter().filter(|turn| !turn.sums_up).count();
        if deserted > 0 {
            world.life.uncertain.extend(said);
        }
        world.life.deserted += deserted;
        drop(world);
        self.turns.retain(|turn| turn.sums_up);
    }

    async fn rewind(&mut self, turn: usize) -> Result<(), Gone> {
        let quiet = self.turns.is_empty() && !self.shared.lock().record.in_turn;
        match self.session.rewind(turn).await {
            Ok(()) => Ok(()),
            Err(SessionError::Busy) => {
                let mut world = self.shared.lock();
                world.require(Law::Report, !quiet, || "it is busy with nothing".into());
                Ok(())
            }
            Err(SessionError::NoSuchTurn { turns, .. }) => {
                let mut world = self.shared.lock();
                let there = quiet && (1..=world.folded.turns().len()).contains(&turn);
                world.require(Law::Report, !there, || {
                    format!("there is no turn {turn} of {turns}")
                });
                Ok(())
            }
            Err(error) => self.heard(Err(error)),
        }
    }

    async fn model(&mut self) -> Result<(), Gone> {
        let (name, cap, larger) = {
            let mut world = self.shared.lock();
            let name = format!("model-{}", world.number());
            world.life.models.push(name.clone());
            let knobs = &world.script.knobs;
            (name, knobs.cap, knobs.larger_cap)
        };
        let told = self.session.set_model(name, cap, larger).await;
        self.heard(told)
    }

    /// Law 3, at any moment; and at a quiet one all that must be so then.
    async fn look(&mut self) -> Result<(), Gone> {
        let transcript = tokio::time::timeout(CLOSING, self.session.transcript()).await;
        let Ok(transcript) = transcript else {
            let mut world = self.shared.lock();
            world.break_law(Law::Bounds, "the session does not answer");
            return Err(Gone);
        };
        let live = match transcript {
            Ok(live) => live,
            Err(error) => return self.heard(Err(error)),
        };
        {
            let mut world = self.shared.lock();
            if std::mem::take(&mut world.life.resuming) {
                // A turn of which not even the prompt is left has no end.
                let ended = !world.record.died_in_turn || world.folded.messages().is_empty();
                world.require(Law::Report, ended, || {
                    "the turn of a process that died has no end on record".into()
                });
            }
            let live_messages = live.messages();
            let stored = world.folded.messages();
            let same = if world.record.in_turn || !self.turns.is_empty() {
                // More may be stored by now, and room may have been made.
                stored.starts_with(live_messages) || world.before_room.starts_with(live_messages)
            } else {
                live == world.folded
            };
            world.require(Law::OneFold, same, || {
                "the transcript is not the fold of what is stored".into()
            });
        }
        let idle = self.turns.is_empty() && !self.shared.lock().record.in_turn;
        if idle {
            // The reader of the events comes after the session.
            self.wait(Duration::from_millis(1)).await?;
            self.shared.lock().is_quiet();
        }
        Ok(())
    }

    // ---- what the session says

    fn heard(&self, result: Result<(), SessionError>) -> Result<(), Gone> {
        match result {
            Ok(()) => Ok(()),
            Err(error) => {
                let over = self.session_is_over();
                let mut world = self.shared.lock();
                world.require(Law::Report, over, || {
                    format!("the session says {error} and nothing was wrong")
                });
                Err(Gone)
            }
        }
    }

    /// A turn has come to this.
    fn told(
        &self,
        result: Result<Option<TurnReport>, SessionError>,
        alone: bool,
        text: Option<String>,
    ) -> Result<(), Gone> {
        match result {
            Ok(Some(report)) => {
                self.shared.lock().reported(&report);
                Ok(())
            }
            Ok(None) => {
                let mut world = self.shared.lock();
                world.require(Law::Report, text.is_none(), || {
                    "a prompt comes to nothing".into()
                });
                Ok(())
            }
            Err(SessionError::Busy) => {
                let mut world = self.shared.lock();
                world.see("busy");
                world.require(Law::Report, !alone, || "it is busy with nothing".into());
                world
                    .life
                    .said
                    .retain(|words| Some(&words.text) != text.as_ref());
                Ok(())
            }
            Err(error) => self.heard(Err(error)),
        }
    }

    // ---- the end

    async fn end(mut self, closes: bool) {
        {
            let mut world = self.shared.lock();
            world.life.closing = true;
            world.life.interrupt_wanted |= world.record.in_turn || !self.turns.is_empty();
            world.tell(|| "the session ends".into());
        }
        self.turns.clear();
        let shared = self.shared.clone();
        let session = Arc::into_inner(self.session);
        let closed = async {
            match session {
                Some(session) if closes => Some(session.close().await),
                other => {
                    drop(other);
                    tokio::time::sleep(CLOSING - Duration::from_secs(1)).await;
                    None
                }
            }
        };
        let closed = tokio::time::timeout(CLOSING, closed).await;
        if let Some(reader) = self.reader.take() {
            let read = tokio::time::timeout(Duration::from_secs(1), reader).await;
            let mut world = shared.lock();
            world.require(Law::Bounds, read.is_ok(), || {
                "the events of a session that is over go on".into()
            });
        }
        let mut world = shared.lock();
        match closed {
            Err(_) => world.break_law(Law::Bounds, "the session does not end"),
            Ok(Some(Ok(()))) => {
                // What a process before has left is made durable with the first that is added.
                let durable = world.disk.all_durable() || !world.life.appended;
                world.require(Law::RecordFirst, durable, || {
                    "the session is closed, and not all is durable".into()
                });
            }
            Ok(Some(Err(error))) => {
                let failed = world.life.append_failed || world.life.flush_failed;
                world.require(Law::Report, failed, || {
                    format!("the session closes with {error} and nothing was wrong")
                });
            }
            Ok(None) => {}
        }
        world.is_over();
    }
}

type Told = (
    Result<Option<TurnReport>, SessionError>,
    bool,
    Option<String>,
);

/// The next report, of whichever turn.
async fn next_report(turns: &mut Vec<Waiting>) -> Told {
    poll_fn(|context| {
        for place in 0..turns.len() {
            let Some(waiting) = turns.get_mut(place) else {
                continue;
            };
            if let Poll::Ready(result) = waiting.turn.as_mut().poll(context) {
                let waiting = turns.remove(place);
                return Poll::Ready((result, waiting.alone, waiting.text));
            }
        }
        Poll::Pending
    })
    .await
}

impl What {
    /// Tells it from others.
    const fn number(self) -> u64 {
        match self {
            Self::Prompt => 1,
            Self::Blank => 2,
            Self::Steer => 3,
            Self::FollowUp => 4,
            Self::Interrupt => 5,
            Self::Desert => 6,
            Self::Wake => 7,
            Self::Model => 8,
            Self::Look => 9,
            Self::Close => 10,
            Self::Leave => 11,
            Self::Die(_) => 12,
            Self::Rewind(_) => 13,
            Self::Compact => 14,
        }
    }
}
