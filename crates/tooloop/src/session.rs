//! A live conversation, as its users hold it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tooloop_kernel::{Delivery, Limits, Transcript};
use tooloop_model::Content;
use tooloop_session::SessionId;
use tooloop_tool::Background;
use tracing::Span;

use crate::checkpoints::{Back, FilesRewound, How};
use crate::event::Broadcast;
use crate::gate::RegistryGate;
use crate::{ContextReport, CostReport, Events, SessionError, Spending, TurnReport};

/// A live conversation. Its methods may be called from several places at once; the session itself
/// runs as one task of the tokio runtime that it was begun in.
///
/// [`Session::close`] ends it and waits until nothing that it started is left. Dropping it ends it
/// too, but cannot wait.
#[derive(Debug)]
pub struct Session {
    pub(crate) id: SessionId,
    pub(crate) workspace: PathBuf,
    pub(crate) journal: Option<PathBuf>,
    pub(crate) warnings: Vec<String>,
    pub(crate) commands: mpsc::Sender<Command>,
    pub(crate) events: Arc<Broadcast>,
    pub(crate) gate: Arc<RegistryGate>,
    pub(crate) background: Background,
    pub(crate) noticed: watch::Receiver<bool>,
    pub(crate) end: CancellationToken,
    /// Why it ends, if somebody has said so.
    pub(crate) why: Arc<OnceLock<CloseReason>>,
    pub(crate) task: Option<JoinHandle<Result<(), SessionError>>>,
}

/// What summing up a conversation came to, in tokens of the next request, likely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// Before.
    pub before: u64,
    /// After.
    pub after: u64,
}

/// Why a session is closed, as its hooks are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CloseReason {
    /// Another session takes its place.
    Clear,
    /// Whoever was logged in to the program has logged out.
    Logout,
    /// A person has left where prompts are typed.
    PromptInputExit,
    /// Anything else.
    #[default]
    Other,
}

impl CloseReason {
    /// Its name, as hooks are told it and matchers meet it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clear => "clear",
            Self::Logout => "logout",
            Self::PromptInputExit => "prompt_input_exit",
            Self::Other => "other",
        }
    }
}

/// What a session is told from outside.
#[derive(Debug)]
pub(crate) enum Command {
    Prompt {
        content: Vec<Content>,
        reply: oneshot::Sender<Result<TurnReport, SessionError>>,
        /// The one that the turn's span belongs into.
        span: Span,
    },
    Wake {
        reply: oneshot::Sender<Result<TurnReport, SessionError>>,
        span: Span,
    },
    Say {
        content: Vec<Content>,
        delivery: Delivery,
    },
    Interrupt,
    Shutdown,
    Model {
        name: String,
        max_output_tokens: Option<u64>,
        escalated_output_tokens: Option<u64>,
    },
    Rewind {
        turn: usize,
        reply: oneshot::Sender<Result<(), SessionError>>,
    },
    RewindFiles {
        back: Back,
        how: How,
        reply: oneshot::Sender<Result<FilesRewound, SessionError>>,
    },
    Compact {
        focus: Option<String>,
        reply: oneshot::Sender<Result<Compacted, SessionError>>,
    },
    Limits(Limits),
    Inspect(oneshot::Sender<Transcript>),
    Context(oneshot::Sender<ContextReport>),
    Cost(oneshot::Sender<CostReport>),
}

impl Session {
    /// Its name.
    #[must_use]
    pub const fn id(&self) -> SessionId {
        self.id
    }

    /// The folder that it works in.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// What was wrong with the journal that it goes on with, and what was done about it.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What happens from now on.
    #[must_use]
    pub fn events(&self) -> Events {
        self.events.subscribe()
    }

    /// Runs a turn: from this prompt to the answer, or to whatever else ends it. Dropping the
    /// future interrupts the turn.
    ///
    /// # Errors
    /// If the prompt is blank, a turn is under way, or the journal fails. How the turn ended is
    /// told by the report.
    pub async fn prompt(&self, text: impl Into<String>) -> Result<TurnReport, SessionError> {
        let said = Content::Text(text.into()).as_said();
        self.prompt_with(vec![said]).await
    }

    /// Like [`Session::prompt`], with pictures or documents, or with what nobody said
    /// ([`Content::reminder`]).
    ///
    /// # Errors
    /// As for [`Session::prompt`].
    pub async fn prompt_with(&self, content: Vec<Content>) -> Result<TurnReport, SessionError> {
        if content.iter().all(Content::is_blank) {
            return Err(SessionError::BlankPrompt);
        }
        let (reply, answer) = oneshot::channel();
        let span = Span::current();
        let prompt = Command::Prompt {
            content,
            reply,
            span,
        };
        self.tell(prompt).await?;
        answer.await.map_err(|_| SessionError::Closed)?
    }

    /// The titles of the background work that is under way, in the order in which it began. It ends
    /// with the session.
    #[must_use]
    pub fn background(&self) -> Vec<String> {
        self.background.under_way()
    }

    /// The same, of the work whose end the model was promised a notice of.
    #[must_use]
    pub fn promised(&self) -> Vec<String> {
        self.background.promised()
    }

    /// Whether any background work has begun in this session since it was opened.
    #[must_use]
    pub fn has_begun_background(&self) -> bool {
        self.background.has_begun()
    }

    /// Whether background work has said something that has not reached the session yet:
    /// [`Session::noticed`] waits for that.
    #[must_use]
    pub fn has_notices(&self) -> bool {
        self.background.has_notices()
    }

    /// Whether [`Session::wake`] would run a turn now.
    #[must_use]
    pub fn is_noticed(&self) -> bool {
        *self.noticed.borrow()
    }

    /// Waits until background work ends or has something to say while no turn is under way. An end
    /// that was not waited for counts too. For one waiter.
    pub async fn background_changes(&self) {
        tokio::select! {
            () = self.noticed() => {}
            () = self.background.ended() => {}
        }
    }

    /// Waits until background work has something to say while no turn is under way. What it says
    /// by the time of an interrupt, or after, waits for the next prompt.
    pub async fn noticed(&self) {
        let mut noticed = self.noticed.clone();
        if noticed.wait_for(|waits| *waits).await.is_err() {
            // The session is over: nothing more will be said.
            std::future::pending().await
        }
    }

    /// Runs a turn on what background work has said since the last one; `None` if it said nothing.
    /// Dropping the future interrupts the turn.
    ///
    /// # Errors
    /// If a turn is under way, or the journal fails.
    pub async fn wake(&self) -> Result<Option<TurnReport>, SessionError> {
        let (reply, answer) = oneshot::channel();
        let span = Span::current();
        self.tell(Command::Wake { reply, span }).await?;
        match answer.await {
            Ok(report) => report.map(Some),
            Err(_) if self.commands.is_closed() => Err(SessionError::Closed),
            // Dropped unanswered: there was nothing to say.
            Err(_) => Ok(None),
        }
    }

    /// Says something to a running turn: it reaches the model with the results of the calls that
    /// run now. Given back by the report if the turn ends before. Without a running turn it is not sent,
    /// and an [`crate::Event::Warning`] says so.
    ///
    /// # Errors
    /// If the session is closed.
    pub async fn steer(&self, text: impl Into<String>) -> Result<(), SessionError> {
        self.say(text.into(), Delivery::Steer).await
    }

    /// Like [`Session::steer`], with pictures or documents.
    ///
    /// # Errors
    /// If the session is closed.
    pub async fn steer_with(&self, content: Vec<Content>) -> Result<(), SessionError> {
        let delivery = Delivery::Steer;
        self.tell(Command::Say { content, delivery }).await
    }

    /// Says something that reaches the model when it would stop.
    ///
    /// # Errors
    /// If the session is closed.
    pub async fn follow_up(&self, text: impl Into<String>) -> Result<(), SessionError> {
        self.say(text.into(), Delivery::FollowUp).await
    }

    async fn say(&self, text: String, delivery: Delivery) -> Result<(), SessionError> {
        let content = vec![Content::Text(text).as_said()];
        self.tell(Command::Say { content, delivery }).await
    }

    /// Ends the running turn now; its report says so. Does nothing if none is under way.
    ///
    /// # Errors
    /// If the session is closed.
    pub async fn interrupt(&self) -> Result<(), SessionError> {
        self.tell(Command::Interrupt).await
    }

    /// Ends the running turn since the program ends, as on a signal. The results of calls that are
    /// broken off say so.
    ///
    /// # Errors
    /// If the session is closed.
    pub async fn shut_down(&self) -> Result<(), SessionError> {
        self.tell(Command::Shutdown).await
    }

    /// Has another model write from the next model call on.
    ///
    /// # Errors
    /// If the session is closed.
    pub async fn set_model(
        &self,
        name: impl Into<String>,
        max_output_tokens: Option<u64>,
        escalated_output_tokens: Option<u64>,
    ) -> Result<(), SessionError> {
        self.tell(Command::Model {
            name: name.into(),
            max_output_tokens,
            escalated_output_tokens,
        })
        .await
    }

    /// Takes the conversation back to before a turn, counted from 1: what was said in it and after it
    /// is no part of it any more. It stays in the journal, and what it cost stays spent. Files are
    /// left as they are.
    ///
    /// # Errors
    /// If a turn is under way, there is no such turn, or the journal fails.
    pub async fn rewind(&self, turn: usize) -> Result<(), SessionError> {
        let (reply, answer) = oneshot::channel();
        self.tell(Command::Rewind { turn, reply }).await?;
        answer.await.map_err(|_| SessionError::Closed)?
    }

    /// Has the model sum up the conversation to make room; `focus` is what the summary is to look at
    /// most closely. What was said stays in the journal.
    ///
    /// # Errors
    /// If a turn is under way, it could not be done, or the session is closed.
    pub async fn compact(&self, focus: Option<String>) -> Result<Compacted, SessionError> {
        let (reply, answer) = oneshot::channel();
        self.tell(Command::Compact { focus, reply }).await?;
        answer.await.map_err(|_| SessionError::Closed)?
    }

    /// Sets other limits, in force from the next model call on; a time limit, from the next turn on.
    ///
    /// # Errors
    /// If the session is closed.
    pub async fn set_limits(&self, limits: Limits) -> Result<(), SessionError> {
        self.tell(Command::Limits(limits)).await
    }

    /// What the session has come to.
    ///
    /// # Errors
    /// If the session is closed.
    pub async fn transcript(&self) -> Result<Transcript, SessionError> {
        let (reply, answer) = oneshot::channel();
        self.tell(Command::Inspect(reply)).await?;
        answer.await.map_err(|_| SessionError::Closed)
    }

    /// What fills the window of its model.
    ///
    /// # Errors
    /// If the session is closed.
    pub async fn context(&self) -> Result<ContextReport, SessionError> {
        let (reply, answer) = oneshot::channel();
        self.tell(Command::Context(reply)).await?;
        answer.await.map_err(|_| SessionError::Closed)
    }

    /// Returns the cost of the session and its use of the provider's cache. The spending of subagents
    /// is read from their journals; without journals only subagents of this run count.
    ///
    /// # Errors
    /// If the session is closed.
    pub async fn cost(&self) -> Result<CostReport, SessionError> {
        let mut report = self.known_cost().await?;
        if let Some(journal) = self.journal.clone() {
            let read = tokio::task::spawn_blocking(move || Spending::of_subagents(&journal));
            report.subagents = read.await.unwrap_or(report.subagents);
        }
        Ok(report)
    }

    /// Returns what the session's own model calls have cost. Reads no file.
    ///
    /// # Errors
    /// If the session is closed.
    pub async fn own_cost(&self) -> Result<Spending, SessionError> {
        Ok(self.known_cost().await?.own)
    }

    async fn known_cost(&self) -> Result<CostReport, SessionError> {
        let (reply, answer) = oneshot::channel();
        self.tell(Command::Cost(reply)).await?;
        answer.await.map_err(|_| SessionError::Closed)
    }

    /// Ends the session: interrupts what runs, waits until all that was started is gone and all
    /// that was recorded is durable.
    ///
    /// # Errors
    /// If the journal failed.
    pub async fn close(self) -> Result<(), SessionError> {
        self.close_because(CloseReason::Other).await
    }

    /// Like [`Session::close`], and says why: the hooks of the session's end are told.
    ///
    /// # Errors
    /// As for [`Session::close`].
    pub async fn close_because(mut self, reason: CloseReason) -> Result<(), SessionError> {
        self.why.get_or_init(|| reason);
        self.end.cancel();
        match self.task.take() {
            // A task that panicked has told so on its own; there is nothing left to wait for.
            Some(task) => task.await.unwrap_or(Err(SessionError::Closed)),
            None => Ok(()),
        }
    }

    pub(crate) async fn tell(&self, command: Command) -> Result<(), SessionError> {
        self.commands
            .send(command)
            .await
            .map_err(|_| SessionError::Closed)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end.cancel();
    }
}
