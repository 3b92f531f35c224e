//! The headless run: prompts in, answer or records out, and always an end.

mod answers;
mod host;
mod telling;
mod turns;
mod waiting;

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tooloop::exec::Processes;
use tooloop::{Denial, Limits, Mode, Session, TurnEnd, TurnReport};

pub(crate) use self::answers::Answer;

use self::turns::Run;
use crate::args::OutputFormat;
use crate::control::Host;
use crate::exit::{self, Failure, Status};
use crate::initialize::Initialize;
use crate::input::Line;
use crate::interactive::took;
use crate::knowledge::Calls;
use crate::output::{self, Output};
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
    /// Whether there are records of prompts.
    pub(crate) echo: bool,
    /// What the program at the other end asked for first.
    pub(crate) initialize: Initialize,
    /// How long the end of the run waits for background work.
    pub(crate) background_wait: Duration,
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
    /// What a prompt may call by a slash and its name.
    pub(crate) calls: Calls,
}

/// Where prompts come from.
pub(crate) enum Prompts {
    One(String),
    /// The first line is read already; `None` if the input has ended.
    Lines(mpsc::Receiver<Line>, Option<Line>),
}

/// Runs until the prompts are done. The last thing on standard output is the answer, or a result
/// record.
pub(crate) async fn run(print: Print) -> Result<Status, Failure> {
    let internal = |what: &'static str| {
        move |error: std::io::Error| Failure::new(Status::Internal, format!("{what}: {error}"))
    };
    let output = Output::stdout().map_err(internal("cannot write to standard output"))?;
    let session_id = print.session.id().to_string();
    let mut records = Records::new(Some(session_id), print.partial, print.echo);
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
        initialize: print.initialize,
        refused: None,
        background_wait: print.background_wait,
        stopped: None,
        model: &print.model,
        may_bypass,
        host: print.host,
        strict: print.strict,
        calls: print.calls,
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
        processes.end_all(Duration::from_secs(2)).await;
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
        && let Outcome::Untold(Ok(Done::Turn(report))) = &last.outcome
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
    /// Why background work was ended before it was done.
    lost: Option<Failure>,
    /// The titles of that work.
    background: Vec<String>,
}

enum Outcome {
    /// What was done, or what kept it from being done; still to be told.
    Untold(Result<Done, Failure>),
    /// A turn that ended so, and is told already.
    Told(Status),
}

/// What a prompt came to.
enum Done {
    Turn(Box<TurnReport>),
    /// It was for us, and not for the model.
    Answer(Box<Answer>),
}

impl Done {
    fn status(&self) -> Status {
        match self {
            Self::Turn(report) => Status::of(&report.end),
            Self::Answer(answer) => answer.status(),
        }
    }

    fn is_complete(&self) -> bool {
        match self {
            Self::Turn(report) => report.end == TurnEnd::Completed,
            Self::Answer(answer) => answer.words.is_ok(),
        }
    }
}

impl Last {
    fn status(&self, stopped: Option<Status>) -> Status {
        if let Some(lost) = &self.lost {
            return stopped.unwrap_or(lost.status);
        }
        match (&self.outcome, stopped) {
            (Outcome::Untold(Ok(done)), None) => done.status(),
            (Outcome::Untold(Err(failure)), None) => failure.status,
            (Outcome::Told(status), None) => *status,
            // It was done before the signal reached it.
            (Outcome::Untold(Ok(done)), Some(_)) if done.is_complete() => Status::Done,
            (Outcome::Untold(_) | Outcome::Told(_), Some(stopped)) => stopped,
        }
    }

    async fn tell(mut self, output: &Output, format: OutputFormat, status: Status) {
        let Outcome::Untold(outcome) = self.outcome else {
            let Some(lost) = self.lost else { return };
            if format == OutputFormat::Text {
                return complain(&lost.message);
            }
            let records = &mut self.records;
            let record = records.unfinished(status, &lost.message, self.background);
            return output.record(&record).await;
        };
        if format != OutputFormat::Text {
            let record = match &outcome {
                Ok(Done::Turn(report)) => {
                    let why = self.why.filter(|_| status == Status::Permission);
                    let why = why.or_else(|| self.lost.map(|lost| lost.message));
                    self.records.result(report, status, why)
                }
                Ok(Done::Answer(answer)) => self.records.answer(answer, status),
                Err(failure) => self.records.failure(status, &failure.message),
            };
            return match format {
                // One object, not a stream of lines.
                OutputFormat::Json => output.write(format!("{record}\n").into_bytes()).await,
                OutputFormat::StreamJson | OutputFormat::Text => output.record(&record).await,
            };
        }
        match outcome {
            Ok(Done::Turn(report)) => {
                let why = self.why.filter(|_| status == Status::Permission);
                tell_as_text(output, *report, why).await;
                if let Some(lost) = self.lost {
                    complain(&lost.message);
                }
            }
            Ok(Done::Answer(answer)) => answer.tell(output).await,
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

/// Diagnostics go to standard error, each with the name of the program.
pub(crate) fn complain(words: &str) {
    use std::io::Write;
    // Nobody is left to tell if this fails.
    let words = output::for_stderr(words);
    drop(writeln!(std::io::stderr(), "tooloop: {words}"));
}
