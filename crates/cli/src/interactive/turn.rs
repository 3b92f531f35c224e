//! A turn at the terminal: events, keys, signals and the clock come together here, and frames go
//! out. It decides nothing; [`View`] and [`Controls`] do.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tooloop::{
    Content, Entry, Event, Message, Mode, Reply, Rule, Session, SessionError, TurnReport,
};

use super::controls::{self, Controls, Do};
use super::keys;
use super::live::{self, SPIN};
use super::paint::{Out, Style};
use super::reader::Reader;
use super::screen::Screen;
use super::terminal::{Faults, NO_PASTE, PASTE, Terminal};
use super::view::View;
use crate::exit::Status;
use crate::project_rules::ProjectRules;
use crate::questions::Questions;
use crate::signals::Signals;

/// The least time between two frames.
const FRAME: Duration = Duration::from_millis(33);
/// From how many pieces on the next frame is drawn before more events are taken.
const MOST_PENDING: usize = 1_024;

/// What is waited for.
#[derive(Debug, Clone)]
pub(crate) enum Job {
    /// A turn on a prompt.
    Prompt(String),
    /// A turn on what background work has said.
    Wake,
    /// The conversation is summed up; what the summary is to look at most closely.
    Compact(Option<String>),
}

/// What it came to.
#[derive(Debug)]
pub(crate) enum Outcome {
    Turn(Box<TurnReport>),
    Compacted,
}

/// What a turn needs of its surroundings.
pub(crate) struct Turn<'a> {
    pub(crate) session: &'a Session,
    pub(crate) terminal: &'a Terminal,
    pub(crate) signals: &'a mut Signals,
    pub(crate) questions: &'a Questions,
    pub(crate) saved_rules: &'a ProjectRules,
    pub(crate) faults: &'a Faults,
    pub(crate) color: bool,
}

/// How it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// What it came to; `None` if the program is to end before, or there was nothing to do.
    pub(crate) outcome: Option<Result<Outcome, SessionError>>,
    /// What was typed or said and has not reached the model.
    pub(crate) unsent: String,
    /// Whether it was interrupted from the keyboard.
    pub(crate) interrupted: bool,
    /// The status that the program is to end with.
    pub(crate) leave: Option<Status>,
}

impl Turn<'_> {
    /// Runs it.
    pub(crate) async fn run(self, job: Job) -> io::Result<Ended> {
        let Turn {
            session,
            terminal,
            signals,
            questions,
            saved_rules,
            faults,
            color,
        } = self;
        let (columns, rows) = Terminal::size();
        let begun = Instant::now();
        let screen = Screen::new(columns, rows, color);
        let mut shown = Shown {
            opening: Some(Opening {
                prompt: match &job {
                    Job::Prompt(prompt) => Some(prompt.clone()),
                    Job::Wake | Job::Compact(_) => None,
                },
                noticed: Vec::new(),
            }),
            view: View::new(screen.columns(), begun),
            controls: Controls::default(),
            screen,
            begun,
            pending: Vec::new(),
            prefix: PASTE.into(),
        };
        let mut events = session.events();
        let mut keys = Reader::start()?;
        let turn = async {
            let turn = |report| Outcome::Turn(Box::new(report));
            match job {
                Job::Prompt(prompt) => session.prompt(prompt).await.map(|one| Some(turn(one))),
                Job::Wake => session.wake().await.map(|one| one.map(turn)),
                Job::Compact(focus) => {
                    let done = session.compact(focus).await;
                    done.map(|_| Some(Outcome::Compacted))
                }
            }
        };
        let mut turn = std::pin::pin!(turn);
        let mut outcome = None;
        let mut told = false;
        let mut leave = None;
        let mut writing: Option<JoinHandle<io::Result<()>>> = None;
        let mut drawn = begun;
        let mut changed = true;
        while leave.is_none() && outcome.is_none() {
            let due = if changed { FRAME } else { SPIN };
            let due = drawn.checked_add(due).unwrap_or(drawn);
            let roomy = shown.pending.len() < MOST_PENDING;
            tokio::select! {
                biased;
                status = signals.next() => leave = Some(status),
                Some(key) = keys.next() => {
                    changed = true;
                    let Ok(key) = key else {
                        // The terminal has gone away.
                        leave = Some(Status::HungUp);
                        continue;
                    };
                    let Some(action) = keys::action(key) else { continue };
                    let Some(todo) = shown.controls.act(action, Instant::now()) else { continue };
                    leave = shown.perform(todo, session, questions, saved_rules).await;
                }
                written = join(&mut writing) => {
                    if written.is_err() {
                        leave = Some(Status::HungUp);
                    }
                }
                ended = &mut turn => match ended.transpose() {
                    Some(ended) => outcome = Some(ended),
                    // There was nothing to say.
                    None => break,
                },
                Some(event) = events.next(), if roomy => {
                    told |= matches!(event, Event::TurnEnded(_));
                    shown.take(&event, questions);
                    changed = true;
                }
                () = tokio::time::sleep_until(due.into()), if writing.is_none() => {
                    shown.faults(faults);
                    drawn = Instant::now();
                    changed = false;
                    writing = Some(terminal.write(shown.frame(drawn)));
                }
            }
        }
        while let Some(event) = events.try_next() {
            told |= matches!(event, Event::TurnEnded(_));
            shown.take(&event, questions);
        }
        if let (Some(Ok(Outcome::Turn(report))), false) = (&outcome, told) {
            shown.take(&Event::TurnEnded(Arc::new((**report).clone())), questions);
        }
        shown.faults(faults);
        for key in keys.end().await {
            let now = Instant::now();
            let todo = keys::action(key).and_then(|action| shown.controls.act(action, now));
            // What was said now stays unsent; the rest came too late.
            if todo == Some(Do::Leave) {
                leave = Some(Status::Interrupted);
            }
        }
        let interrupted = shown.controls.is_interrupted();
        let last = shown.finish() + NO_PASTE;
        let written = match join_now(writing).await {
            Ok(()) => terminal.print(last).await,
            Err(error) => Err(error),
        };
        if written.is_err() {
            leave = leave.or(Some(Status::HungUp));
        }
        Ok(Ended {
            outcome,
            unsent: shown.controls.into_unsent(),
            interrupted,
            leave,
        })
    }
}

/// The messages before the first reply. What background work had said before the turn is among
/// them, and the person has not seen it.
struct Opening {
    /// What the person said themselves.
    prompt: Option<String>,
    /// What background work has said since the turn began, which is shown already.
    noticed: Vec<String>,
}

impl Opening {
    /// The first lines of what is to be shown of an event; `None` if it is over.
    fn take(&mut self, event: &Event) -> Option<Vec<String>> {
        let entry = match event {
            Event::Noticed(words) => {
                self.noticed.push(words.clone());
                return Some(Vec::new());
            }
            Event::Recorded(entry) => entry,
            _ => return Some(Vec::new()),
        };
        let Entry::Message(message) = &**entry else {
            return None;
        };
        let Message::User(content) = message.message() else {
            return None;
        };
        let mut unseen = Vec::new();
        for part in Content::said(content) {
            let Content::Text(text) = part else { continue };
            if self.prompt.as_ref() == Some(text) {
                return None;
            }
            match self.noticed.iter().position(|noticed| noticed == text) {
                Some(shown) => drop(self.noticed.remove(shown)),
                None => unseen.extend(text.lines().next().map(str::to_owned)),
            }
        }
        Some(unseen)
    }
}

/// All that is on the screen, or will be with the next frame.
struct Shown {
    /// `None` as soon as the model has had the word.
    opening: Option<Opening>,
    view: View,
    controls: Controls,
    screen: Screen,
    begun: Instant,
    pending: Vec<Out>,
    /// What goes before the next frame.
    prefix: String,
}

impl Shown {
    fn take(&mut self, event: &Event, questions: &Questions) {
        let now = Instant::now();
        if let Some(opening) = &mut self.opening {
            match opening.take(event) {
                Some(words) => {
                    for words in words {
                        self.pending.extend(self.view.remark(Style::Dim, &words));
                    }
                }
                None => self.opening = None,
            }
        }
        if let Some(said) = self.controls.take(event, now) {
            self.pending.extend(self.view.said(&said));
        }
        self.pending.extend(self.view.take(event, now));
        if matches!(event, Event::Lagged { .. }) {
            for question in questions.waiting() {
                if !self.controls.knows(question.ask) {
                    self.take(&Event::Asked(question), questions);
                }
            }
        }
    }

    /// Does what was asked for; gives the status back if the program is to end.
    async fn perform(
        &mut self,
        todo: Do,
        session: &Session,
        questions: &Questions,
        saved_rules: &ProjectRules,
    ) -> Option<Status> {
        // A session that is closed has ended the turn, and the turn's report says so.
        match todo {
            Do::Steer(text) => drop(session.steer(text).await),
            Do::FollowUp(text) => drop(session.follow_up(text).await),
            Do::Interrupt => drop(session.interrupt().await),
            Do::Leave => return Some(Status::Interrupted),
            Do::Answer { ask, reply, words } => {
                questions.answer(ask, reply);
                self.pending.extend(self.view.remark(Style::Dim, &words));
            }
            Do::Keep { ask, rules } => {
                let (style, words) = keep(saved_rules.clone(), rules).await;
                questions.answer(ask, Reply::AllowForSession);
                self.pending.extend(self.view.remark(style, &words));
            }
            Do::AcceptEdits { ask } => {
                session.change_policy(|policy| policy.mode = Mode::AcceptEdits);
                questions.answer(ask, Reply::Allow);
                let words = "✓ agreed to the plan; edits need no question";
                self.pending.extend(self.view.remark(Style::Dim, words));
            }
            Do::ShowAll(question) => self.pending.extend(self.view.all_of(&question)),
            Do::Tell(words) => {
                let lines = self.view.remark(Style::Notice, &words);
                self.pending.extend(lines);
            }
            Do::Resize(columns, rows) => {
                let erased = self.screen.resize(columns, rows);
                self.prefix.push_str(&erased);
                self.view.resize(self.screen.columns());
            }
        }
        None
    }

    fn faults(&mut self, faults: &Faults) {
        for words in faults.take() {
            self.pending.extend(
                self.view
                    .remark(Style::Bad, &format!("inner fault: {words}")),
            );
        }
    }

    fn frame(&mut self, now: Instant) -> String {
        let columns = self.screen.columns();
        let live = live::rows(&self.view, &self.controls, self.begun, now, columns);
        let frame = self.screen.frame(&self.pending, live);
        self.pending.clear();
        std::mem::take(&mut self.prefix) + &frame
    }

    fn finish(&mut self) -> String {
        let frame = self.screen.finish(&self.pending);
        self.pending.clear();
        std::mem::take(&mut self.prefix) + &frame
    }
}

/// Saves rules for the project, and tells how that went.
async fn keep(saved: ProjectRules, rules: Vec<Rule>) -> (Style, String) {
    let words = controls::in_words(&rules);
    let file = saved
        .file()
        .map_or_else(String::new, |file| file.display().to_string());
    // It waits for the disk, and for others who save.
    let added = tokio::task::spawn_blocking(move || saved.add(&rules)).await;
    let problem = match added {
        Ok(Ok(())) => {
            let words = format!("✓ allowed in this project by {words}, saved in {file}");
            return (Style::Dim, words);
        }
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    let words = format!("✓ allowed for this session by {words}; not saved: {problem}");
    (Style::Notice, words)
}

/// Waits for a write that is under way; for ever if there is none.
async fn join(writing: &mut Option<JoinHandle<io::Result<()>>>) -> io::Result<()> {
    match writing {
        Some(handle) => {
            let result = handle.await;
            *writing = None;
            result.unwrap_or_else(|error| Err(io::Error::other(error)))
        }
        None => std::future::pending().await,
    }
}

/// Waits for a write that is under way, though not for ever.
async fn join_now(mut writing: Option<JoinHandle<io::Result<()>>>) -> io::Result<()> {
    if writing.is_none() {
        return Ok(());
    }
    tokio::time::timeout(Duration::from_secs(5), join(&mut writing))
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_before_the_turn_is_shown_once() {
        let said = |text: &str| {
            let content = vec![Content::Text(text.into())];
            Event::Recorded(Arc::new(Entry::message(Message::User(content))))
        };
        let shown = |words: &str| Some(vec![words.to_owned()]);
        let mut opening = Opening {
            prompt: Some("go".into()),
            noticed: Vec::new(),
        };
        let noticed = Event::Noticed("three".into());
        assert_eq!(opening.take(&noticed), Some(Vec::new()));
        assert_eq!(opening.take(&said("one\nits lines")), shown("one"));
        assert_eq!(opening.take(&said("two")), shown("two"));
        assert_eq!(opening.take(&said("three")), Some(Vec::new()));
        assert_eq!(opening.take(&said("go")), None);
        // A session that was woken.
        opening.prompt = None;
        assert_eq!(opening.take(&said("one")), shown("one"));
        assert_eq!(opening.take(&said("two")), shown("two"));
        let end = Entry::TurnEnd(tooloop::TurnEnd::Completed);
        assert_eq!(opening.take(&Event::Recorded(Arc::new(end))), None);
    }
}
