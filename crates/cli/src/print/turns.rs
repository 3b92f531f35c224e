//! The turns of a headless run: one for each prompt.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tooloop::{Content, Event, Events, Limits, Session, SessionError};

use super::answers::Answer;
use super::{Done, Last, Outcome, Prompts, complain, tell_as_text};
use crate::args::OutputFormat;
use crate::control::{self, Host};
use crate::exit::{Failure, Status};
use crate::initialize::Initialize;
use crate::input::Line;
use crate::knowledge::{Called, Calls};
use crate::output::Output;
use crate::records::Records;
use crate::signals::Signals;
use crate::strict::Strict;
use crate::window::Asked;

/// A headless run while its turns go on.
pub(super) struct Run<'a> {
    pub(super) session: &'a Session,
    pub(super) events: Events,
    pub(super) output: &'a Output,
    pub(super) records: Records,
    pub(super) signals: Signals,
    pub(super) format: OutputFormat,
    pub(super) hook_events: bool,
    /// What the program at the other end asked for first.
    pub(super) initialize: Initialize,
    /// Why its `initialize` request was refused: no prompt is taken after that.
    pub(super) refused: Option<String>,
    pub(super) background_wait: Duration,
    /// The status that a signal, or a reader that has gone, ends the run with.
    pub(super) stopped: Option<Status>,
    pub(super) model: &'a str,
    pub(super) may_bypass: bool,
    pub(super) host: Option<Host>,
    pub(super) strict: Option<Strict>,
    pub(super) calls: Calls,
    pub(super) limits: Limits,
    /// When the run has taken as long as it may.
    pub(super) deadline: Option<Instant>,
}

/// Waits until then.
pub(super) async fn passed(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// What a turn waits for.
enum Came {
    Done(Result<Option<Done>, SessionError>),
    Event(Option<Event>),
    Line(Option<Line>),
    /// A question has come up or was withdrawn.
    Asked,
    Stop(Status),
}

impl Run<'_> {
    pub(super) async fn all(mut self, prompts: Prompts) -> (Last, Signals, Option<Status>) {
        let mut lost = None;
        let outcome = match prompts {
            Prompts::One(prompt) => {
                let content = Some(vec![Content::Text(prompt).as_said()]);
                let done = self.turn(content, &mut Lines::default()).await;
                match done.and_then(|done| done.ok_or_else(|| SessionError::BlankPrompt.into())) {
                    Ok(done) => {
                        let (done, failure) = self.settled(done).await;
                        lost = failure;
                        Outcome::Untold(Ok(done))
                    }
                    Err(failure) => Outcome::Untold(Err(failure)),
                }
            }
            Prompts::Lines(lines, first) => {
                let outcome = self.lines(lines, first).await;
                match outcome {
                    Outcome::Told(Status::Done) => {
                        let (status, failure) = self.settled_after().await;
                        lost = failure;
                        Outcome::Told(status)
                    }
                    outcome => outcome,
                }
            }
        };
        let background = match lost {
            Some(_) => self.session.background(),
            None => Vec::new(),
        };
        let last = Last {
            background,
            outcome,
            records: self.records,
            why: self.strict.and_then(|strict| strict.needed()),
            lost,
        };
        (last, self.signals, self.stopped)
    }

    /// A turn for each message. Each is told when it ends, since the front end waits for it.
    async fn lines(&mut self, open: mpsc::Receiver<Line>, first: Option<Line>) -> Outcome {
        let mut lines = Lines {
            open: first.is_some().then_some(open),
            queued: first.into_iter().collect(),
        };
        let mut last_status = None;
        loop {
            let line = match lines.queued.pop_front() {
                Some(line) => Some(line),
                None => tokio::select! {
                    biased;
                    line = lines.next() => line,
                    () = self.session.noticed() => Some(Line::Wake),
                    () = control::changed(self.host.as_ref(), &self.initialize.callbacks) => {
                        self.tell_host().await;
                        continue;
                    }
                    () = passed(self.deadline) => {
                        let words = "the time limit (--max-time) was reached while waiting for the \
                                     next message";
                        return Outcome::Untold(Err(Failure::new(Status::Deadline, words)));
                    }
                    stopped = self.signals.next() => {
                        self.stopped = Some(stopped);
                        let words = "interrupted while waiting for the next message";
                        return Outcome::Untold(Err(Failure::new(stopped, words)));
                    }
                },
            };
            let content = match line {
                Some(Line::User(content, id)) => {
                    if let Some(problem) = self.refused.clone() {
                        let words =
                            format!("no prompt is taken after a refused initialize: {problem}");
                        let record = self.records.failure(Status::Input, &words);
                        match self.format {
                            OutputFormat::Text => complain(&words),
                            OutputFormat::Json | OutputFormat::StreamJson => {
                                self.output.record(&record).await;
                            }
                        }
                        last_status = Some(Status::Input);
                        continue;
                    }
                    self.records.prompted(id);
                    Some(content)
                }
                Some(Line::Wake) => None,
                Some(Line::Control { id, request }) => {
                    self.control(&id, &request).await;
                    continue;
                }
                Some(Line::Response(response)) => {
                    for words in self.answered(&response) {
                        match last_status {
                            None => self.event(Event::Warning(words)).await,
                            // The last record is a result, and this may well be the end.
                            Some(_) => complain(&words),
                        }
                    }
                    continue;
                }
                Some(Line::Bad(reason)) => {
                    return Outcome::Untold(Err(Failure::new(Status::Input, reason)));
                }
                None => {
                    self.input_ends(&mut lines);
                    break;
                }
            };
            if let Err(error) = self.limit_time().await {
                return Outcome::Untold(Err(error.into()));
            }
            match self.turn(content, &mut lines).await {
                Ok(None) => {}
                Ok(Some(done)) if self.stopped.is_none() => {
                    last_status = Some(self.tell(done).await)
                }
                Ok(Some(done)) => return Outcome::Untold(Ok(done)),
                Err(failure) => return Outcome::Untold(Err(failure)),
            }
        }
        last_status.map_or_else(
            || {
                let words = "there was no message on standard input";
                Outcome::Untold(Err(Failure::new(Status::Input, words)))
            },
            Outcome::Told,
        )
    }

    /// Tells what a message came to; gives its status back.
    pub(super) async fn tell(&mut self, done: Done) -> Status {
        let status = done.status();
        match done {
            Done::Turn(report) if self.format == OutputFormat::Text => {
                tell_as_text(self.output, *report, None).await;
            }
            Done::Answer(answer) if self.format == OutputFormat::Text => {
                answer.tell(self.output).await;
            }
            Done::Turn(report) => {
                let record = self.records.result(&report, status, None);
                self.output.record(&record).await;
            }
            Done::Answer(answer) => {
                let record = self.records.answer(&answer, status);
                self.output.record(&record).await;
            }
        }
        status
    }

    /// The next turn may take what is left of the run's time.
    pub(super) async fn limit_time(&mut self) -> Result<(), SessionError> {
        let Some(deadline) = self.deadline else {
            return Ok(());
        };
        let time = deadline.saturating_duration_since(Instant::now());
        let limits = Limits {
            time: Some(time),
            ..self.limits
        };
        self.session.set_limits(limits).await
    }

    /// What a prompt asks for, or a turn on what background work has said; `None` if it said nothing.
    pub(super) async fn turn(
        &mut self,
        content: Option<Vec<Content>>,
        lines: &mut Lines,
    ) -> Result<Option<Done>, Failure> {
        let content = match content {
            Some(content) => Some(self.called(content).await?),
            None => None,
        };
        let session = self.session;
        let asked = content.as_deref().and_then(Asked::of);
        // Only a turn can be told something; what comes meanwhile waits otherwise.
        let hears = asked.is_none();
        let turn = async {
            let turn = |report| Done::Turn(Box::new(report));
            match (asked, content) {
                (Some(asked), _) => {
                    let answer = Answer::to(asked, session).await;
                    answer.map(|answer| Some(Done::Answer(Box::new(answer))))
                }
                (None, Some(content)) => {
                    let report = session.prompt_with(content).await;
                    report.map(|report| Some(turn(report)))
                }
                (None, None) => session.wake().await.map(|report| report.map(turn)),
            }
        };
        let mut turn = std::pin::pin!(turn);
        loop {
            let came = tokio::select! {
                biased;
                event = self.events.next() => Came::Event(event),
                done = &mut turn => Came::Done(done),
                status = self.signals.next(), if self.stopped.is_none() => Came::Stop(status),
                () = self.output.broken().cancelled(), if self.stopped.is_none() => {
                    Came::Stop(Status::BrokenPipe)
                }
                line = lines.next(), if lines.open.is_some() => Came::Line(line),
                () = control::changed(self.host.as_ref(), &self.initialize.callbacks) => Came::Asked,
            };
            match came {
                Came::Event(Some(event)) => self.event(event).await,
                // The session is closed: the report says why.
                Came::Event(None) => {
                    return (&mut turn).await.map_err(Failure::from);
                }
                Came::Stop(status) => {
                    self.stopped = Some(status);
                    match status {
                        Status::Interrupted => session.interrupt().await?,
                        _ => session.shut_down().await?,
                    }
                }
                Came::Line(Some(Line::User(content, id))) if !hears => {
                    lines.queued.push_back(Line::User(content, id));
                }
                Came::Line(line) => self.line(line, lines).await?,
                Came::Asked => {
                    // What was on record before the question is told before it.
                    while let Some(event) = self.events.try_next() {
                        self.event(event).await;
                    }
                    self.tell_host().await;
                }
                Came::Done(done) => {
                    while let Some(event) = self.events.try_next() {
                        self.event(event).await;
                    }
                    self.tell_host().await;
                    let strict = self.strict.as_ref();
                    if strict.is_some_and(|strict| strict.needed().is_some()) {
                        self.stopped.get_or_insert(Status::Permission);
                    }
                    return done.map_err(Failure::from);
                }
            }
        }
    }

    /// A message, with what it calls in its place if it calls a command or a skill.
    async fn called(&mut self, content: Vec<Content>) -> Result<Vec<Content>, Failure> {
        let [Content::Text(text)] = content.as_slice() else {
            return Ok(content);
        };
        match self.calls.expand(text) {
            Called::Nothing => Ok(content),
            Called::Prompt(expanded) => {
                for note in expanded.notes {
                    self.event(Event::Warning(note)).await;
                }
                Ok(vec![Content::Text(expanded.text)])
            }
            Called::Broken(words) => Err(Failure::new(Status::Input, words)),
        }
    }

    /// A line that comes while a turn runs.
    async fn line(&mut self, line: Option<Line>, lines: &mut Lines) -> Result<(), Failure> {
        match line {
            Some(Line::User(content, id)) => {
                let text = content.iter().all(|part| matches!(part, Content::Text(_)));
                let takes = text && lines.queued.is_empty() && self.refused.is_none();
                if takes && Asked::of(&content).is_none() {
                    self.records.prompted(id);
                    let content = self.called(content).await?;
                    self.session.steer_with(content).await?;
                } else {
                    lines.queued.push_back(Line::User(content, id));
                }
            }
            Some(Line::Control { id, request }) => self.control(&id, &request).await,
            Some(Line::Response(response)) => {
                for words in self.answered(&response) {
                    self.event(Event::Warning(words)).await;
                }
            }
            // Only ever put in where lines are waited for.
            Some(Line::Wake) => {}
            // Told when the turn is over.
            Some(Line::Bad(reason)) => {
                lines.queued.push_back(Line::Bad(reason));
                self.input_ends(lines);
            }
            None => self.input_ends(lines),
        }
        Ok(())
    }

    /// Nothing more comes in: nobody can answer any more.
    fn input_ends(&self, lines: &mut Lines) {
        lines.open = None;
        self.initialize.callbacks.close();
        if let Some(host) = &self.host {
            host.close();
        }
    }
}

/// Messages that come in.
#[derive(Default)]
pub(super) struct Lines {
    open: Option<mpsc::Receiver<Line>>,
    queued: VecDeque<Line>,
}

impl Lines {
    async fn next(&mut self) -> Option<Line> {
        match &mut self.open {
            Some(open) => open.recv().await,
            None => None,
        }
    }
}
