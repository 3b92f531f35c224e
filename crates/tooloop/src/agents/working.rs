//! A subagent at work, and what is told of it.

use std::sync::Arc;
use std::time::Duration;

use tooloop_kernel::{Budget, Entry, Transcript, TurnEnd};
use tooloop_model::{Content, Message, ToolInput, ToolUse, ToolUseId};
use tooloop_tool::{Progress, ToolContext, ToolError, ToolOutput};
use tracing::Instrument;

use super::{AgentType, Parent};
use crate::{Event, Events, Session, SessionError, TurnReport};

/// How long an interrupted turn may take to say what it came to.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What a person is shown of a call that a subagent makes, in characters.
const SHOWN: usize = 60;

/// Has a subagent work until it is done, or until the call is broken off.
pub(super) async fn work(
    parent: &Parent,
    session: Session,
    prompt: String,
    context: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let mut watch = Watch::new(&session, context.progress.clone());
    let (report, cancelled) = {
        let mut turn = std::pin::pin!(session.prompt(prompt));
        loop {
            tokio::select! {
                biased;
                () = context.cancellation.cancelled() => {
                    drop(session.interrupt().await);
                    let report = tokio::time::timeout(LAST_WORDS, &mut turn).await;
                    break (report.unwrap_or(Err(SessionError::Closed)), true);
                }
                event = watch.next() => watch.take(&event),
                report = &mut turn => break (report, false),
            }
        }
    };
    if let Ok(report) = &report {
        parent.note(report);
    }
    if cancelled {
        drop(session.close().await);
        return Err(ToolError::Cancelled);
    }
    let transcript = session.transcript().await.unwrap_or_default();
    let closed = session.close().await;
    let report = report.map_err(|error| ToolError::Failed(failed(&error)))?;
    // What ended since then was not told to the subagent either.
    let left = &report.background;
    closed.map_err(|error| ToolError::Failed(failed(&error)))?;
    let mut output = told(&report, &transcript);
    if !left.is_empty() {
        let words = format!("Ended with the subagent while it ran: {}", left.join("; "));
        output.content.push(Content::Text(words));
    }
    output.details = Some(watch.words());
    Ok(output)
}

fn failed(error: &SessionError) -> String {
    format!("the subagent could not work: {error}")
}

/// Begins a subagent, and answers at once. What it comes to is told as a notice.
pub(super) fn in_background(
    parent: &Arc<Parent>,
    kind: &AgentType,
    system: String,
    prompt: String,
    description: &str,
    context: &ToolContext,
) -> ToolOutput {
    let session = parent.begin(kind, system, &context.tool_use_id, true);
    let id = short(&session);
    let title = format!("subagent {id}: {}", cut(description, SHOWN));
    let work_under_way = context.background.begin(title.clone());
    let own = ToolContext {
        cancellation: parent.end.child_token(),
        progress: Progress::none(),
        ..context.clone()
    };
    let worker = Arc::clone(parent);
    let name = id.clone();
    let task = async move {
        let result = work(&worker, session, prompt, &own).await;
        if matches!(result, Err(ToolError::Cancelled)) {
            return;
        }
        let results = Arc::clone(&worker.results);
        let output = results.fitted(ToolUseId(name), result).await;
        let texts = output.content.iter().filter_map(|part| match part {
            Content::Text(text) => Some(text.as_str()),
            Content::Image(_) | Content::Document(_) => None,
        });
        let text = texts.collect::<Vec<_>>().join("\n");
        work_under_way.finish(format!(
            "The {title} has ended. Its last message:\n\n{text}"
        ));
    };
    parent.spawn(task.instrument(tracing::Span::current()));
    ToolOutput::text(format!(
        "Subagent {id} works in the background. Go on with something else: you are told when it has \
         ended. Nobody is asked about its calls: what is not allowed already is refused."
    ))
}

/// The name of a subagent: the beginning of its session's.
fn short(session: &Session) -> String {
    let id = session.id().to_string();
    // The newest digits of such a name are at its end.
    id.rsplit('-').next().unwrap_or(&id).to_owned()
}

/// What the one is told for whom it worked.
fn told(report: &TurnReport, transcript: &Transcript) -> ToolOutput {
    let how = how(&report.end);
    let last = match report.text.trim() {
        "" => last_text(transcript),
        text => Some(text.to_owned()),
    };
    match (last, how) {
        (Some(text), None) => ToolOutput::text(text),
        (Some(text), Some(how)) => ToolOutput {
            is_error: matches!(report.end, TurnEnd::ModelError { .. }),
            ..ToolOutput::text(format!(
                "(The subagent is not done: {how}. What it said last, which may be no result:)\n{text}"
            ))
        },
        (None, None) => ToolOutput::text("(The subagent has ended without a word.)"),
        (None, Some(how)) => ToolOutput::failure(format!(
            "The subagent is not done, and has said nothing: {how}."
        )),
    }
}

/// The newest text of the model.
fn last_text(transcript: &Transcript) -> Option<String> {
    let messages = transcript.messages().iter().rev();
    messages
        .filter_map(|message| match message.message() {
            Message::Assistant(reply) => Some(reply.text()),
            Message::User(_) | Message::ToolResults(_) => None,
        })
        .map(|text| text.trim().to_owned())
        .find(|text| !text.is_empty())
}

/// How a turn ended, if it is not that the model was done.
fn how(end: &TurnEnd) -> Option<String> {
    Some(match end {
        TurnEnd::Completed | TurnEnd::StopHookPrevented { .. } => return None,
        TurnEnd::MaxTurns { limit } => {
            format!("it has made the {limit} model calls that it may make")
        }
        TurnEnd::MaxToolCalls { limit } => {
            format!("it has made the {limit} tool calls that it may make")
        }
        TurnEnd::Budget(Budget::UnknownPrice { model }) => {
            format!("there is a limit on money, and the price of {model} is not known")
        }
        TurnEnd::Budget(Budget::Tokens { .. } | Budget::Cost { .. }) => {
            "what may be spent is used up".into()
        }
        TurnEnd::Deadline { .. } => "its time is up".into(),
        TurnEnd::ContextLimit { message } => format!("its conversation is too long: {message}"),
        TurnEnd::ModelError { error, .. } => {
            format!("the model could not be asked: {}", error.message)
        }
        TurnEnd::OutputLimit => "its reply was cut again and again".into(),
        TurnEnd::Interrupted { .. } => "it was stopped".into(),
        TurnEnd::Refused => "the model refused to answer".into(),
        TurnEnd::LoopDetected { times } => format!("it did the same {times} times over"),
        TurnEnd::StructuredOutputFailed { problem, .. } => problem.clone(),
        TurnEnd::HookStopped { reason } => format!("a hook has stopped it: {reason}"),
    })
}

/// Shows a person how far a subagent is.
struct Watch {
    events: Option<Events>,
    progress: Progress,
    steps: u32,
    tokens: u64,
    newest: String,
}

impl Watch {
    fn new(session: &Session, progress: Progress) -> Self {
        Self {
            events: progress.is_watched().then(|| session.events()),
            progress,
            steps: 0,
            tokens: 0,
            newest: String::new(),
        }
    }

    /// What happens next; never if nobody watches, or if all is over.
    async fn next(&mut self) -> Event {
        if let Some(events) = &mut self.events {
            match events.next().await {
                Some(event) => return event,
                None => self.events = None,
            }
        }
        std::future::pending().await
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::Recorded(entry) => match &**entry {
                Entry::Message(message) => {
                    let Message::Assistant(reply) = message.message() else {
                        return;
                    };
                    self.steps = self.steps.saturating_add(1);
                    let used = reply
                        .usage
                        .input_tokens
                        .saturating_add(reply.usage.output_tokens);
                    self.tokens = self.tokens.saturating_add(used);
                }
                _ => return,
            },
            Event::ToolStarted { tool_use } => self.newest = call(tool_use),
            _ => return,
        }
        self.progress.report(&self.words());
    }

    fn words(&self) -> String {
        let steps = match self.steps {
            1 => "1 step".into(),
            many => format!("{many} steps"),
        };
        let tokens = match self.tokens {
            few @ 0..1_000 => format!("{few} tokens"),
            many => format!("{}.{}k tokens", many / 1_000, many % 1_000 / 100),
        };
        let newest = [steps, tokens, self.newest.clone()];
        let newest: Vec<_> = newest.into_iter().filter(|part| !part.is_empty()).collect();
        newest.join(" · ")
    }
}

/// A call on one line: the tool, and the first text that it is given.
fn call(tool_use: &ToolUse) -> String {
    let given = match &tool_use.input {
        ToolInput::Valid(input) => input.to_value(),
        ToolInput::Invalid { .. } => return tool_use.name.clone(),
    };
    let first = ["command", "path", "pattern", "url", "description"]
        .iter()
        .find_map(|field| given.get(field)?.as_str());
    match first {
        Some(text) => format!("{} {}", tool_use.name, cut(text, SHOWN)),
        None => tool_use.name.clone(),
    }
}

/// The beginning of a text, on one line.
fn cut(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= most {
        return line;
    }
    let cut: String = line.chars().take(most).collect();
    format!("{}…", cut.trim_end())
}
