//! How the process ends: sorted errors, each with its status.

use tooloop::{Budget, ModelErrorKind, TurnEnd};

/// An error that ends the run before, or beside, a turn.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    /// What happened, where, and what to do; may have several lines.
    pub(crate) message: String,
}

/// The exit statuses. The table in the README has a row for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Done,
    /// The model or its provider failed, or the turn ended without an answer.
    Model,
    Usage,
    /// Somebody would be asked about the call that was to be explained.
    WouldAsk,
    /// The call that was to be explained would be denied.
    WouldDeny,
    /// No key, a wrong key, or no model at all.
    Auth,
    /// The prompt or the messages on standard input are not usable.
    Input,
    /// A hook blocked the prompt, or ended the turn.
    Hook,
    /// There is no sandbox of the kind that was asked for.
    Sandbox,
    Settings,
    MaxTurns,
    MaxToolCalls,
    /// The limit on money or on tokens.
    Budget,
    /// The limit on time.
    Deadline,
    /// The answer never had the form that was asked for.
    Schema,
    /// A call needed permission, and there was nobody to ask.
    Permission,
    /// The conversation was to be summed up, and was not.
    NotCompacted,
    /// A rewind has left files as they were.
    NotRestored,
    /// A fault of ours, or a journal that cannot be kept.
    Internal,
    /// The terminal, or whoever watched, has gone.
    HungUp,
    Interrupted,
    /// SIGQUIT.
    Quit,
    /// SIGABRT.
    Aborted,
    /// The reader of standard output has gone.
    BrokenPipe,
    Terminated,
}

impl Status {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Model => 1,
            Self::Usage => 2,
            Self::WouldAsk => 3,
            Self::WouldDeny => 4,
            Self::Auth => 41,
            Self::Input => 42,
            Self::Hook => 43,
            Self::Sandbox => 44,
            Self::Settings => 52,
            Self::MaxTurns => 53,
            Self::Internal => 54,
            Self::MaxToolCalls => 59,
            Self::Budget => 60,
            Self::Deadline => 61,
            Self::Schema => 62,
            Self::Permission => 63,
            Self::NotCompacted => 64,
            Self::NotRestored => 65,
            Self::HungUp => 129,
            Self::Interrupted => 130,
            Self::Quit => 131,
            Self::Aborted => 134,
            Self::BrokenPipe => 141,
            Self::Terminated => 143,
        }
    }

    /// The status of a turn's end, signals aside.
    pub(crate) const fn of(end: &TurnEnd) -> Self {
        match end {
            // The model was done when the hook spoke.
            TurnEnd::Completed | TurnEnd::StopHookPrevented { .. } => Self::Done,
            TurnEnd::MaxTurns { .. } => Self::MaxTurns,
            TurnEnd::MaxToolCalls { .. } => Self::MaxToolCalls,
            TurnEnd::Budget(_) => Self::Budget,
            TurnEnd::Deadline { .. } => Self::Deadline,
            TurnEnd::StructuredOutputFailed { .. } => Self::Schema,
            TurnEnd::ModelError { error, .. } => match error.kind {
                ModelErrorKind::Auth => Self::Auth,
                ModelErrorKind::Connection
                | ModelErrorKind::FirstByteTimeout
                | ModelErrorKind::IdleTimeout
                | ModelErrorKind::ContentTimeout
                | ModelErrorKind::CutStream
                | ModelErrorKind::Decode
                | ModelErrorKind::Overloaded
                | ModelErrorKind::RateLimited
                | ModelErrorKind::Server
                | ModelErrorKind::Certificate
                | ModelErrorKind::Proxy
                | ModelErrorKind::BadRequest
                | ModelErrorKind::NotFound
                | ModelErrorKind::ContextTooLong
                | ModelErrorKind::ContentRefused
                | ModelErrorKind::EmptyReply
                | ModelErrorKind::AttachmentRefused
                | ModelErrorKind::ThinkingRefused
                | ModelErrorKind::Cancelled => Self::Model,
            },
            TurnEnd::ContextLimit { .. }
            | TurnEnd::OutputLimit
            | TurnEnd::Refused
            | TurnEnd::LoopDetected { .. } => Self::Model,
            TurnEnd::HookStopped { .. } => Self::Hook,
            TurnEnd::Interrupted { .. } => Self::Interrupted,
        }
    }
}

impl Failure {
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    pub(crate) fn settings(message: impl Into<String>) -> Self {
        Self::new(Status::Settings, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Status::Usage, message)
    }
}

impl From<tooloop::SessionError> for Failure {
    fn from(error: tooloop::SessionError) -> Self {
        let status = match &error {
            tooloop::SessionError::BlankPrompt | tooloop::SessionError::NoSuchTurn { .. } => {
                Status::Input
            }
            tooloop::SessionError::NotCompacted(_) => Status::NotCompacted,
            tooloop::SessionError::NoFiles => Status::Usage,
            tooloop::SessionError::Journal(
                tooloop::journal::StoreError::NotFound { .. }
                | tooloop::journal::StoreError::Ambiguous { .. },
            ) => Status::Usage,
            tooloop::SessionError::Busy
            | tooloop::SessionError::Closed
            | tooloop::SessionError::Files(_)
            | tooloop::SessionError::Journal(_) => Status::Internal,
        };
        Self::new(status, error.to_string())
    }
}

/// What a turn's end means, for a person. `None` for a plain end.
pub(crate) fn words(end: &TurnEnd) -> Option<String> {
    Some(match end {
        TurnEnd::Completed => return None,
        TurnEnd::MaxTurns { limit } => format!(
            "stopped at the limit of {limit} model calls (--max-turns); go on with --continue"
        ),
        TurnEnd::MaxToolCalls { limit } => format!(
            "stopped at the limit of {limit} tool calls (--max-tool-calls); go on with --continue"
        ),
        TurnEnd::Budget(budget) => spent(budget),
        TurnEnd::Deadline { .. } => {
            "stopped at the time limit (--max-time); go on with --continue".into()
        }
        TurnEnd::StructuredOutputFailed { tries, problem } => {
            format!("no answer of {tries} has the form that --json-schema asks for: {problem}")
        }
        TurnEnd::HookStopped { reason } => format!("stopped by a hook: {reason}"),
        TurnEnd::StopHookPrevented { reason } => format!("a hook ended it: {reason}"),
        TurnEnd::ContextLimit { message } => {
            format!("the conversation does not fit the model's window: {message}")
        }
        TurnEnd::ModelError { error, attempts } => {
            let tries = match attempts {
                0 | 1 => String::new(),
                many => format!(" (gave up after {many} attempts)"),
            };
            let later = error.retry_after.map_or_else(String::new, |wait| {
                format!(
                    "; the provider asks to come back in {}",
                    span(wait.as_secs())
                )
            });
            format!("{}{later}{tries}", error.message)
        }
        TurnEnd::OutputLimit => {
            "the reply was cut by the output limit, again and again (max_output_tokens)".into()
        }
        TurnEnd::Interrupted { .. } => "interrupted".into(),
        TurnEnd::Refused => "the model refused to answer".into(),
        TurnEnd::LoopDetected { times } => {
            format!("stopped: the same call had the same outcome {times} times in a row")
        }
    })
}

fn spent(budget: &Budget) -> String {
    match budget {
        Budget::Tokens { limit, spent, next } => format!(
            "stopped before the limit of {limit} tokens (--max-tokens): {spent} are spent, and the \
             next request could take {next} more; go on with a higher one and --continue"
        ),
        Budget::Cost { limit, spent, next } => format!(
            "stopped before the limit of {limit} (--max-budget-usd): {spent} is spent, and the next \
             request could cost {next} more; go on with a higher one and --continue"
        ),
        Budget::UnknownPrice { model } => format!(
            "there is a limit on money (--max-budget-usd), and the price of {model} is not known: \
             give it in a models_file, or limit tokens (--max-tokens)"
        ),
    }
}

fn span(seconds: u64) -> String {
    let (hours, minutes) = (seconds / 3600, seconds % 3600 / 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds} s"),
        (0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (hours, minutes) => format!("{hours} h {minutes} min ({seconds} s)"),
    }
}
