//! The headless run: prompts in, answer or records out, and always an end.

use std::collections::VecDeque;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tooloop::exec::Processes;
use tooloop::{
    Content, Denial, Event, Events, Limits, Mode, Session, SessionError, TurnEnd, TurnReport,
};

use crate::args::OutputFormat;
use crate::control::{self, Host, ToHost};
use crate::exit::{self, Failure, Status};
use crate::input::Line;
use crate::interactive::took;
use crate::output::Output;
use crate::records::{Init, Records};
use crate::signals::Signals;
use crate::strict::Strict;

/// What a headless run is made of.
pub(crate) struct Print {
    pub(crate) session: Session,
    pub(crate) processes: Processes,
    pub(crate) signals: Signals,
    pub(crate) prompts: Prompts,
    pub(crate) format: OutputFormat,
    pub(crate) partial: bool,
    /// Whether there are records of hooks.
    pub(crate) hook_events: bool,
    pub(crate) model: String,
    pub(crate) tools: Vec<String>,
    pub(crate) permission_mode: String,
    pub(crate) sandbox: serde_json::Value,
    pub(crate) resumed: bool,
    pub(crate) warnings: Vec<String>,
    pub(crate) limits: Limits,
    pub(crate) verbose: bool,
    /// Who is asked about calls, if a program at the other end is.
    pub(crate) host: Option<Host>,
    /// Ends the run where somebody would have to be asked.
    pub(crate) strict: Option<Strict>,
}

/// Where prompts come from.
pub(crate) enum Prompts {
    One(String),
    Lines(mpsc::Receiver<Line>),
}

/// Runs until the prompts are done. The last thing on standard output is the answer, or a result
/// record.
pub(crate) async fn run(print: Print) -> Result<Status, Failure> {
    let internal = |what: &'static str| {
        move |error: std::io::Error| Failure::new(Status::Internal, format!("{what}: {error}"))
    };
    let output = Output::stdout().map_err(internal("cannot write to standard output"))?;
    let session_id = print.session.id().to_string();
    let mut records = Records::new(Some(session_id), print.partial);
    let may_bypass = print.permission_mode == Mode::BypassPermissions.name();
    if print.format == OutputFormat::StreamJson {
        let init = records.init(&Init {
            workspace: print.session.workspace().display().to_string(),
            model: &print.model,
            tools: print.tools,
            permission_mode: print.permission_mode,
            sandbox: print.sandbox,
            resumed: print.resumed,
        });
        output.record(&init).await;
        for warning in &print.warnings {
            output.record(&records.warning(warning)).await;
        }
    }
    let run = Run {
        events: print.session.events(),
        session: &print.session,
        output: &output,
        records,
        signals: print.signals,
        format: print.format,
        hook_events: print.hook_events,
        stopped: None,
        model: &print.model,
        may_bypass,
        host: print.host,
        strict: print.strict,
        limits: print.limits,
        deadline: print
            .limits
            .time
            .and_then(|time| Instant::now().checked_add(time)),
    };
    let (last, mut signals, stopped) = run.all(print.prompts).await;
    let status = last.status(stopped);

    let still_running = print.session.background();
    // Everything that was started ends, and all that was recorded is durable, before the last
    // word. A second signal has no patience.
    let processes = &print.processes;
    let close = async {
        let closed = print.session.close().await;
        processes.end_all(std::time::Duration::from_secs(2)).await;
        closed
    };
    let closed = tokio::select! {
        closed = close => closed,
        _ = signals.next() => {
            processes.end_all_now();
            Ok(())
        }
    };
    let status = match closed {
        Err(error) if status == Status::Done => {
            complain(&format!("the answer may not be on record: {error}"));
            Status::Internal
        }
        Ok(()) | Err(_) => status,
    };
    if print.format == OutputFormat::Text {
        for title in still_running {
            complain(&format!(
                "ended with this run while it was running: {title}"
            ));
        }
    }
    if print.verbose
        && let Outcome::Untold(Ok(report)) = &last.outcome
    {
        complain(took(report).trim_start());
    }
    last.tell(&output, print.format, status).await;
    match output.finish() {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Status::BrokenPipe),
        Err(error) => Err(Failure::new(
            Status::Internal,
            format!("cannot write to standard output: {error}"),
        )),
        Ok(()) => Ok(status),
    }
}

/// What the run came to.
struct Last {
    outcome: Outcome,
    records: Records,
    /// What nobody could be asked about, if that ended it.
    why: Option<String>,
}

#[expect(clippy::large_enum_variant, reason = "a run makes one of it")]
enum Outcome {
    /// A turn, or what kept it from being one; still to be told.
    Untold(Result<TurnReport, Failure>),
    /// A turn that ended so, and is told already.
    Told(Status),
}

impl Last {
    fn status(&self, stopped: Option<Status>) -> Status {
        match (&self.outcome, stopped) {
            (Outcome::Untold(Ok(report)), None) => Status::of(&report.end),
            (Outcome::Untold(Err(failure)), None) => failure.status,
            (Outcome::Told(status), None) => *status,
            // It was done before the signal reached it.
            (Outcome::Untold(Ok(report)), Some(_)) if report.end == TurnEnd::Completed => {
                Status::Done
            }
            (Outcome::Untold(_) | Outcome::Told(_), Some(stopped)) => stopped,
        }
    }

    async fn tell(mut self, output: &Output, format: OutputFormat, status: Status) {
        let Outcome::Untold(outcome) = self.outcome else {
            return;
        };
        if format != OutputFormat::Text {
            let record = match &outcome {
                Ok(report) => {
                    let why = self.why.filter(|_| status == Status::Permission);
                    self.records.result(report, status, why)
                }
                Err(failure) => self.records.failure(status, &failure.message),
            };
            return output.record(&record).await;
        }
        match outcome {
            Ok(report) => {
                let why = self.why.filter(|_| status == Status::Permission);
                tell_as_text(output, report, why).await;
            }
            Err(failure) => complain(&failure.message),
        }
    }
}

async fn tell_as_text(output: &Output, report: TurnReport, why: Option<String>) {
    for denial in &report.denials {
        let Denial {
            tool,
            input,
            reason,
            ..
        } = denial;
        complain(&format!("not run: {tool} {input}: {reason}"));
    }
    match why.or_else(|| exit::words(&report.end)) {
        Some(words) => complain(&words),
        None if report.answer().trim().is_empty() => complain("the model gave an empty answer"),
        None => {
            let mut text = report.answer().to_owned();
            if !text.ends_with('\n') {
                text.push('\n');
            }
            output.write(text.into_bytes()).await;
        }
    }
}

struct Run<'a> {
    session: &'a Session,
    events: Events,
    output: &'a Output,
    records: Records,
    signals: Signals,
    format: OutputFormat,
    hook_events: bool,
    /// The status that a signal, or a reader that has gone, ends the run with.
    stopped: Option<Status>,
    model: &'a str,
    may_bypass: bool,
    host: Option<Host>,
    strict: Option<Strict>,
    limits: Limits,
    /// When the run has taken as long as it may.
    deadline: Option<Instant>,
}

/// Waits until then.
async fn passed(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// What a turn waits for.
enum Came {
    Report(Result<Option<TurnReport>, SessionError>),
    Event(Option<Event>),
    Line(Option<Line>),
    /// A question has come up or was withdrawn.
    Asked,
    Stop(Status),
}

impl Run<'_> {
    async fn all(mut self, prompts: Prompts) -> (Last, Signals, Option<Status>) {
        let outcome = match prompts {
            Prompts::One(prompt) => {
                let content = Some(vec![Content::Text(prompt)]);
                let report = self.turn(content, &mut Lines::default()).await;
                Outcome::Untold(report.and_then(|report| {
                    report.ok_or_else(|| Failure::from(SessionError::BlankPrompt))
                }))
            }
            Prompts::Lines(lines) => self.lines(lines).await,
        };
        let last = Last {
            outcome,
            records: self.records,
            why: self.strict.and_then(|strict| strict.needed()),
        };
        (last, self.signals, self.stopped)
    }

    /// A turn for each message. Each is told when it ends, since the front end waits for it.
    async fn lines(&mut self, open: mpsc::Receiver<Line>) -> Outcome {
        let mut lines = Lines {
            open: Some(open),
            queued: VecDeque::new(),
        };
        let mut told = None;
        loop {
            let line = match lines.queued.pop_front() {
                Some(line) => Some(line),
                None => tokio::select! {
                    biased;
                    line = lines.next() => line,
                    () = self.session.noticed() => Some(Line::Wake),
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
                Some(Line::User(content)) => Some(content),
                Some(Line::Wake) => None,
                Some(Line::Control { id, request }) => {
                    self.control(&id, &request).await;
                    continue;
                }
                Some(Line::Response(response)) => {
                    for words in self.answered(&response) {
                        match told {
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
                None => break,
            };
            if let Err(error) = self.limit_time().await {
                return Outcome::Untold(Err(error.into()));
            }
            match self.turn(content, &mut lines).await {
                Ok(None) => {}
                Ok(Some(report)) if self.stopped.is_none() => {
                    let status = Status::of(&report.end);
                    if self.format == OutputFormat::Text {
                        tell_as_text(self.output, report, None).await;
                    } else {
                        let record = self.records.result(&report, status, None);
                        self.output.record(&record).await;
                    }
                    told = Some(status);
                }
                Ok(Some(report)) => return Outcome::Untold(Ok(report)),
                Err(failure) => return Outcome::Untold(Err(failure)),
            }
        }
        told.map_or_else(
            || {
                let words = "there was no message on standard input";
                Outcome::Untold(Err(Failure::new(Status::Input, words)))
            },
            Outcome::Told,
        )
    }

    /// The next turn may take what is left of the run's time.
    async fn limit_time(&mut self) -> Result<(), SessionError> {
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

    /// A turn on a prompt, or on what background work has said; `None` if it said nothing.
    async fn turn(
        &mut self,
        content: Option<Vec<Content>>,
        lines: &mut Lines,
    ) -> Result<Option<TurnReport>, Failure> {
        let session = self.session;
        let turn = async {
            match content {
                Some(content) => session.prompt_with(content).await.map(Some),
                None => session.wake().await,
            }
        };
        let mut turn = std::pin::pin!(turn);
        loop {
            let came = tokio::select! {
                biased;
                event = self.events.next() => Came::Event(event),
                report = &mut turn => Came::Report(report),
                status = self.signals.next(), if self.stopped.is_none() => Came::Stop(status),
                () = self.output.broken().cancelled(), if self.stopped.is_none() => {
                    Came::Stop(Status::BrokenPipe)
                }
                line = lines.next(), if lines.open.is_some() => Came::Line(line),
                () = control::changed(self.host.as_ref()) => Came::Asked,
            };
            match came {
                Came::Event(Some(event)) => self.event(event).await,
                // The session is closed: the report says why.
                Came::Event(None) => {
                    return (&mut turn).await.map_err(Failure::from);
                }
                Came::Stop(status) => {
                    self.stopped = Some(status);
                    session.interrupt().await?;
                }
                Came::Line(line) => self.line(line, lines).await?,
                Came::Asked => {
                    // What was on record before the question is told before it.
                    while let Some(event) = self.events.try_next() {
                        self.event(event).await;
                    }
                    self.tell_host().await;
                }
                Came::Report(report) => {
                    while let Some(event) = self.events.try_next() {
                        self.event(event).await;
                    }
                    self.tell_host().await;
                    let strict = self.strict.as_ref();
                    if strict.is_some_and(|strict| strict.needed().is_some()) {
                        self.stopped.get_or_insert(Status::Permission);
                    }
                    return report.map_err(Failure::from);
                }
            }
        }
    }

    /// A line that comes while a turn runs.
    async fn line(&mut self, line: Option<Line>, lines: &mut Lines) -> Result<(), Failure> {
        match line {
            Some(Line::User(content)) => {
                let text = content.iter().all(|part| matches!(part, Content::Text(_)));
                if text && lines.queued.is_empty() {
                    self.session.steer_with(content).await?;
                } else {
                    lines.queued.push_back(Line::User(content));
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
        if let Some(host) = &self.host {
            host.close();
        }
    }

    /// Asks the host what has come up, and takes back what is void.
    async fn tell_host(&mut self) {
        let Some(host) = &mut self.host else { return };
        for message in host.news() {
            let record = match message {
                ToHost::Request(id, body) => self.records.control_request(&id, body),
                ToHost::Cancel(id) => self.records.control_cancel(&id),
            };
            self.output.record(&record).await;
        }
    }

    /// Somebody answers a question. Gives back what a person should know about it.
    fn answered(&mut self, response: &Value) -> Vec<String> {
        match &mut self.host {
            Some(host) => host.answer(response, self.session),
            None => vec![
                "a control response is passed over: nothing was asked (see \
                 --permission-prompt-tool)"
                    .into(),
            ],
        }
    }

    async fn control(&mut self, id: &str, request: &Value) {
        let subtype = request.get("subtype").and_then(Value::as_str);
        let session = self.session;
        let told = |error: SessionError| error.to_string();
        let response = match subtype {
            Some("interrupt") => session.interrupt().await.map_err(told).map(|()| json!({})),
            Some("initialize") => match control::not_initialized(request) {
                None => Ok(json!({
                    "commands": [],
                    "agents": [],
                    "output_style": "default",
                    "available_output_styles": ["default"],
                    "models": [{
                        "value": self.model,
                        "displayName": self.model,
                        "description": "the model of this run",
                    }],
                    "account": {},
                    "pid": std::process::id(),
                })),
                Some(problem) => Err(problem),
            },
            Some("set_permission_mode") => {
                let mode = request.get("mode").and_then(Value::as_str);
                let mode = mode.unwrap_or_default().parse::<Mode>();
                mode.map_err(|error| error.to_string()).and_then(|mode| {
                    control::set_mode(mode, self.may_bypass, session)?;
                    Ok(json!({ "mode": mode.name() }))
                })
            }
            Some("set_model") => {
                let model = request.get("model").and_then(Value::as_str);
                let model = model.unwrap_or(self.model).to_owned();
                let set = session.set_model(model, None, None).await;
                set.map_err(told).map(|()| json!({}))
            }
            Some(other) => Err(format!(
                "control requests of subtype {other:?} are not known here"
            )),
            None => Err("a control request needs a \"subtype\"".into()),
        };
        self.respond(match response {
            Ok(response) => json!({ "subtype": "success", "request_id": id, "response": response }),
            Err(error) => {
                json!({ "subtype": "error", "request_id": id, "error": error })
            }
        })
        .await;
    }

    async fn respond(&mut self, response: Value) {
        let record = self.records.control_response(response);
        self.output.record(&record).await;
    }

    async fn event(&mut self, event: Event) {
        let streaming = self.format == OutputFormat::StreamJson;
        match &event {
            Event::Warning(words) if !streaming => return complain(words),
            Event::Recorded(entry) if !streaming => {
                if let tooloop::Entry::Retry {
                    error,
                    wait_ms,
                    attempt,
                    ..
                } = &**entry
                {
                    let seconds = std::time::Duration::from_millis(*wait_ms).as_secs_f64();
                    complain(&format!(
                        "{}; attempt {} in {seconds:.1} s",
                        error.message,
                        attempt.saturating_add(1)
                    ));
                }
                return;
            }
            _ if !streaming => return,
            _ => {}
        }
        let records = match event {
            Event::Recorded(entry) => self.records.entry(&entry).into_iter().collect(),
            Event::Delta { call, event } => self.records.piece(call, &event),
            Event::Voided { call } => vec![self.records.voided(call)],
            Event::Warning(words) => vec![self.records.warning(&words)],
            Event::Noticed(words) => vec![self.records.notice(&words)],
            Event::Hook(note) if self.hook_events => vec![self.records.hook(&note)],
            Event::Lagged { missed } => {
                let words = format!("the reader is too slow: {missed} events are left out");
                vec![self.records.warning(&words)]
            }
            Event::ToolEnded {
                tool_use_id,
                refusals,
                ..
            } => {
                let record = |refusal| self.records.refused(&tool_use_id, refusal);
                refusals.iter().map(record).collect()
            }
            Event::Hook(_)
            | Event::ToolStarted { .. }
            | Event::ToolProgress { .. }
            | Event::Asked(_)
            | Event::TurnEnded(_) => Vec::new(),
        };
        for record in records {
            self.output.record(&record).await;
        }
    }
}

/// Messages that come in.
#[derive(Default)]
struct Lines {
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

/// Diagnostics go to standard error, each with the name of the program.
pub(crate) fn complain(words: &str) {
    use std::io::Write;
    // Nobody is left to tell if this fails.
    drop(writeln!(std::io::stderr(), "tooloop: {words}"));
}
