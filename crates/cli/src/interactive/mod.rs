//! The front end for a person at a terminal: a prompt, and turns that are watched and steered.
//!
//! Everything goes into the terminal's own scrollback; only a few rows at the bottom change while
//! a turn runs. What is shown and what keys mean is decided by the pure parts ([`view`],
//! [`controls`], [`live`], [`screen`]); this file and [`turn`] bring them together with session,
//! terminal and signals. It must not know how a session works inside.

mod called;
mod calls;
mod commands;
mod controls;
mod editor;
mod input;
mod keys;
mod live;
mod paint;
mod pastes;
mod permissions;
mod reader;
mod recap;
mod rewind;
mod screen;
mod terminal;
#[cfg(test)]
mod terminal_double;
mod turn;
mod view;
mod words;

pub(crate) use words::{tokens, took};

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tooloop::exec::Processes;
use tooloop::provider::Provider;
use tooloop::{Agent, Approval, CloseReason, Planning, Policy, Session, SessionError};

use self::commands::{Command, Typed};
use self::editor::{Editor, Line};
use self::paint::{Out, Style, gap, line};
use self::terminal::{Faults, Terminal};
use self::turn::{Ended, Job, Turn};
use crate::exit::{Failure, Status};
use crate::knowledge::Calls;
use crate::permissions::RuleSources;
use crate::project_rules::ProjectRules;
use crate::questions::Questions;
use crate::sessions;
use crate::setup::{self, Caps, Setup};
use crate::signals::Signals;
use crate::text;
use crate::wall::SandboxReport;
use crate::window;

/// For how long after an interrupt Ctrl-C still means to leave.
const SECOND_PRESS: Duration = Duration::from_millis(1_500);

/// Talks with the person at the terminal until they leave.
pub(crate) async fn run(
    prompt: Option<String>,
    setup: Setup,
    workspace: &Path,
) -> Result<Status, Failure> {
    let internal = |what: &'static str| {
        move |error: io::Error| Failure::new(Status::Internal, format!("{what}: {error}"))
    };
    let questions = Questions::default();
    let agent = setup
        .agent
        .approval(Approval::By(Arc::new(questions.clone())));
    let agent = if setup.plans {
        agent.planning(Planning::Asks)
    } else {
        agent
    };
    let agent = agent
        .build()
        .map_err(|error| Failure::settings(error.to_string()))?;
    let signals = Signals::new().map_err(internal("cannot listen for signals"))?;
    let session = setup.open.start(&agent)?;
    let color = setup::environment("NO_COLOR").is_none();
    let history =
        sessions::root(&setup::environment).and_then(|root| Some(root.parent()?.join("history")));
    let (editor, warning) = Editor::new(history.as_deref(), color);
    // In this order: the terminal is restored before what panics said is printed.
    let faults = Faults::keep();
    let mut terminal = Terminal::new().map_err(internal("cannot write to the terminal"))?;
    terminal
        .enter()
        .map_err(internal("cannot set the terminal's mode"))?;
    let mut front = Front {
        agent,
        provider: setup.provider,
        caps: setup.caps,
        model: setup.model,
        other_model: false,
        begun: session.policy(),
        session: Some(session),
        saved_rules: setup.saved_rules,
        rule_sources: setup.rule_sources,
        calls: setup.calls,
        processes: setup.processes,
        sandbox: setup.sandbox,
        editor,
        signals,
        questions,
        color,
        terminal,
        faults,
    };
    let mut warnings = setup.warnings;
    warnings.extend(warning);
    let is_resumed = setup.open.is_resumed();
    let left = async {
        front.greet(workspace, warnings).await?;
        if is_resumed {
            front.recall().await?;
        }
        front.talk(prompt).await
    };
    let left = left.await;
    let closed = front.close(left).await;
    if let Some(temp) = setup.temp {
        // All that could write there has ended.
        temp.sweep();
    }
    closed
}

/// The editor, the frames and the questions need a terminal on all three, one that can move its
/// cursor.
pub(crate) fn check_terminal() -> Result<(), Failure> {
    let terminals = [
        ("standard input", io::stdin().is_terminal()),
        ("standard output", io::stdout().is_terminal()),
        ("standard error", io::stderr().is_terminal()),
    ];
    if let Some((name, _)) = terminals.iter().find(|(_, is_terminal)| !is_terminal) {
        return Err(Failure::usage(format!(
            "{name} is not a terminal: use -p for one job without one"
        )));
    }
    if setup::environment("TERM").is_some_and(|term| term == "dumb") {
        return Err(Failure::usage(
            "this terminal cannot move its cursor (TERM=dumb): use -p for one job",
        ));
    }
    Ok(())
}

struct Front {
    agent: Agent,
    provider: Arc<dyn Provider>,
    caps: Caps,
    model: String,
    /// Whether the model is another one than the agent was made with.
    other_model: bool,
    /// `None` only while it is being replaced.
    session: Option<Session>,
    /// The policy that it began with.
    begun: Policy,
    saved_rules: ProjectRules,
    rule_sources: RuleSources,
    calls: Calls,
    processes: Processes,
    sandbox: SandboxReport,
    editor: Editor,
    signals: Signals,
    questions: Questions,
    color: bool,
    terminal: Terminal,
    faults: Faults,
}

/// Until when, and with which status, Ctrl-C leaves.
type Armed = Option<(Option<Instant>, Status)>;

/// What is done after a line.
enum Next {
    Prompt { initial: String },
    Leave(Status),
}

impl Front {
    fn session(&self) -> Result<&Session, Failure> {
        let gone = || Failure::from(tooloop::SessionError::Closed);
        self.session.as_ref().ok_or_else(gone)
    }

    /// Prints lines while no turn runs.
    async fn print(&self, outs: &[Out]) -> Result<(), Failure> {
        let mut text = String::new();
        for out in outs {
            if let Out::Line(line) = out {
                line.render(self.color, &mut text);
                text.push_str("\r\n");
            }
        }
        self.terminal.print(text).await.map_err(|error| {
            Failure::new(
                Status::HungUp,
                format!("cannot write to the terminal: {error}"),
            )
        })
    }

    async fn say(&self, style: Style, words: &str) -> Result<(), Failure> {
        let columns = usize::from(Terminal::size().0);
        let words = text::wrap(&text::clean(words), columns.saturating_sub(1).max(20));
        let lines: Vec<_> = words.into_iter().map(|one| line(style, one)).collect();
        self.print(&lines).await
    }

    async fn greet(&self, workspace: &Path, warnings: Vec<String>) -> Result<(), Failure> {
        let session = self.session()?;
        let first = format!(
            "tooloop {} · {} · {} · {}",
            env!("CARGO_PKG_VERSION"),
            self.model,
            workspace.display(),
            self.sandbox.short()
        );
        self.say(Style::Bold, &first).await?;
        let help = "/help shows commands and keys, Ctrl-D leaves.";
        self.say(Style::Dim, help).await?;
        self.say(Style::Dim, &self.sandbox.line()).await?;
        for warning in warnings.iter().chain(session.warnings()) {
            self.say(Style::Notice, warning).await?;
        }
        self.print(&[gap()]).await
    }

    /// Shows how the session that is gone on with ended.
    async fn recall(&self) -> Result<(), Failure> {
        let transcript = self.session()?.transcript().await?;
        let columns = usize::from(Terminal::size().0);
        self.print(&recap::recap(&transcript, columns)).await
    }

    /// Reads lines and runs turns until the person leaves.
    async fn talk(&mut self, mut given: Option<String>) -> Result<Status, Failure> {
        let mut initial = String::new();
        let mut armed: Armed = None;
        loop {
            let text = match given.take() {
                Some(text) => {
                    self.print(&view::prompt(&text)).await?;
                    text
                }
                None => match self.read(&initial).await? {
                    Line::Text(text) => text,
                    Line::Broken(text) => {
                        initial = text;
                        continue;
                    }
                    Line::Woken => match self.whole_turn(Job::Wake, &mut armed).await? {
                        Next::Prompt { initial: unsent } => {
                            initial = unsent;
                            continue;
                        }
                        Next::Leave(status) => return Ok(status),
                    },
                    Line::ControlC { empty } => {
                        initial.clear();
                        let now = Instant::now();
                        match armed.take() {
                            _ if !empty => {}
                            Some((until, status)) if until.is_none_or(|until| now < until) => {
                                return Ok(status);
                            }
                            Some(_) | None => {
                                armed = Some((None, Status::Done));
                                let words = "Press Ctrl-C again to leave.";
                                self.say(Style::Dim, words).await?;
                            }
                        }
                        continue;
                    }
                    Line::End => return Ok(Status::Done),
                    Line::Stopped(status) => {
                        // The cursor still stands in the line. If the terminal has gone away, so be
                        // it.
                        drop(self.print(&[gap()]).await);
                        return Ok(status);
                    }
                    Line::Failed(error) => return Err(self.broken(&error)),
                },
            };
            armed = None;
            let next = match commands::parse(&text) {
                Typed::Blank => Next::Prompt {
                    initial: String::new(),
                },
                Typed::Prompt => self.whole_turn(Job::Prompt(text), &mut armed).await?,
                Typed::Command(Command::Compact(focus)) => {
                    self.whole_turn(Job::Compact(focus), &mut armed).await?
                }
                Typed::Command(command) => {
                    let next = self.command(command).await?;
                    if matches!(next, Next::Prompt { .. }) {
                        self.print(&[gap()]).await?;
                    }
                    next
                }
                Typed::Unknown(name) => match self.called(&name, &text).await? {
                    Some(prompt) => self.whole_turn(Job::Prompt(prompt), &mut armed).await?,
                    None => Next::Prompt {
                        initial: String::new(),
                    },
                },
            };
            match next {
                Next::Prompt { initial: unsent } => initial = unsent,
                Next::Leave(status) => return Ok(status),
            }
        }
    }

    /// Reads a line, unless background work says something first.
    async fn read(&mut self, initial: &str) -> Result<Line, Failure> {
        let session = self.session.as_ref();
        let session = session.ok_or_else(|| Failure::from(tooloop::SessionError::Closed))?;
        let wake = session.noticed();
        Ok(self.editor.read(initial, &mut self.signals, wake).await)
    }

    async fn whole_turn(&mut self, job: Job, armed: &mut Armed) -> Result<Next, Failure> {
        let ended = self.turn(job).await?;
        if ended.interrupted {
            let until = Instant::now().checked_add(SECOND_PRESS);
            *armed = Some((until, Status::Interrupted));
        }
        Ok(match ended.leave {
            Some(status) => Next::Leave(status),
            None => Next::Prompt {
                initial: ended.unsent,
            },
        })
    }

    /// The line editor has failed: says why.
    fn broken(&self, error: &io::Error) -> Failure {
        let mut words = format!("cannot read from the terminal: {error}");
        for fault in self.faults.take() {
            words.push('\n');
            words.push_str(&fault);
        }
        Failure::new(Status::Internal, words)
    }

    async fn turn(&mut self, job: Job) -> Result<Ended, Failure> {
        let gone = || Failure::from(tooloop::SessionError::Closed);
        let turn = Turn {
            session: self.session.as_ref().ok_or_else(gone)?,
            terminal: &self.terminal,
            signals: &mut self.signals,
            questions: &self.questions,
            saved_rules: &self.saved_rules,
            faults: &self.faults,
            color: self.color,
        };
        let ended = turn.run(job).await.map_err(|error| {
            Failure::new(
                Status::Internal,
                format!("cannot use the terminal: {error}"),
            )
        })?;
        match &ended.outcome {
            Some(Ok(_)) if ended.leave.is_some() => {}
            Some(Ok(_)) => self.print(&[gap()]).await?,
            Some(Err(SessionError::NotCompacted(_))) if ended.leave.is_some() => {}
            Some(Err(SessionError::NotCompacted(reason))) => {
                let words = format!("The conversation was not summed up: {reason}.");
                self.say(Style::Notice, &words).await?;
                self.print(&[gap()]).await?;
            }
            Some(Err(_)) => {
                // The session is gone; its end knows why.
                let session = self.session.take().ok_or_else(gone)?;
                return Err(session.close().await.err().map_or_else(gone, Failure::from));
            }
            None => {}
        }
        Ok(ended)
    }

    async fn command(&mut self, command: Command) -> Result<Next, Failure> {
        match command {
            Command::Exit => return Ok(Next::Leave(Status::Done)),
            Command::Help => self.help().await?,
            Command::Memory => self.memory().await?,
            Command::Cost => {
                let cost = self.session()?.cost().await?;
                let told = window::cost_lines(&cost).into_iter();
                self.print(
                    &told
                        .map(|words| line(Style::Plain, words))
                        .collect::<Vec<_>>(),
                )
                .await?;
            }
            // A job: it is waited for.
            Command::Compact(_) => {}
            Command::Context => {
                let context = self.session()?.context().await?;
                let told = window::context_lines(&context).into_iter();
                self.print(
                    &told
                        .map(|words| line(Style::Plain, words))
                        .collect::<Vec<_>>(),
                )
                .await?;
            }
            Command::Model(None) => {
                let words = format!("{} ({})", self.model, self.provider.name());
                self.say(Style::Plain, &words).await?;
            }
            Command::Model(Some(name)) => {
                self.model = name;
                self.other_model = true;
                self.apply_model().await?;
                let words = format!("{} writes from now on.", self.model);
                self.say(Style::Plain, &words).await?;
            }
            Command::Sandbox => {
                for line in self.sandbox.lines() {
                    self.say(Style::Plain, &line).await?;
                }
            }
            Command::Clear => self.clear().await?,
            Command::Permissions(words) => {
                let columns = usize::from(Terminal::size().0);
                let (begun, sources) = (&self.begun, &self.rule_sources);
                let session = self.session()?;
                let outs = permissions::permissions(&words, session, begun, sources, columns);
                self.print(&outs).await?;
            }
            Command::Rewind(wanted) => {
                let initial = self.rewind(&wanted).await?;
                return Ok(Next::Prompt { initial });
            }
        }
        Ok(Next::Prompt {
            initial: String::new(),
        })
    }

    async fn apply_model(&self) -> Result<(), Failure> {
        let (cap, escalated) = self.caps.of(&*self.provider, &self.model);
        let session = self.session()?;
        session
            .set_model(self.model.clone(), Some(cap), escalated)
            .await?;
        Ok(())
    }

    async fn clear(&mut self) -> Result<(), Failure> {
        let hint = self.resume_hint();
        let mut still_running = Vec::new();
        if let Some(old) = self.session.take() {
            still_running = old.background();
            old.close_because(CloseReason::Clear).await?;
        }
        let session = self.agent.session()?;
        self.begun = session.policy();
        self.session = Some(session);
        if self.other_model {
            self.apply_model().await?;
        }
        let words = match hint {
            Some(hint) => format!("A new session. The old one can be resumed:\n{hint}"),
            None => "A new session.".into(),
        };
        self.say(Style::Dim, &words).await?;
        self.say_ended(&still_running).await
    }

    /// Says what has ended with a session while it ran.
    async fn say_ended(&self, titles: &[String]) -> Result<(), Failure> {
        for title in titles {
            let words = format!("Ended with the session: {title}");
            self.say(Style::Notice, &words).await?;
        }
        Ok(())
    }

    /// How the session can be gone on with, if there is anything on record.
    fn resume_hint(&self) -> Option<String> {
        let id = self.session.as_ref()?.id();
        let recorded = self.agent.catalog()?.path(id).is_file();
        recorded.then(|| format!("tooloop --resume {id}"))
    }

    /// Ends what runs, and says how to come back. A signal cuts it short.
    async fn close(mut self, left: Result<Status, Failure>) -> Result<Status, Failure> {
        // From now on Ctrl-C is a signal again.
        self.terminal.leave();
        let hint = self.resume_hint();
        let reason = reason(&left);
        let session = self.session.take();
        let still_running = session.as_ref().map(Session::background);
        let processes = self.processes.clone();
        let close = async {
            let closed = match session {
                Some(session) => session.close_because(reason).await,
                None => Ok(()),
            };
            processes.end_all(Duration::from_secs(2)).await;
            closed
        };
        let closed = tokio::select! {
            closed = close => closed,
            _ = self.signals.next() => {
                self.processes.end_all_now();
                Ok(())
            }
        };
        // What matters is in the status by now.
        drop(self.say_ended(&still_running.unwrap_or_default()).await);
        if let Some(hint) = hint {
            drop(self.say(Style::Dim, &format!("Resume with: {hint}")).await);
        }
        let status = left?;
        closed?;
        Ok(status)
    }
}

/// Why the session ends: a person has left, or they had no choice.
const fn reason(left: &Result<Status, Failure>) -> CloseReason {
    match left {
        Ok(Status::Done | Status::Interrupted) => CloseReason::PromptInputExit,
        Ok(_) | Err(_) => CloseReason::Other,
    }
}
