//! The words by which the kernel's own messages are told from what came in.
//!
//! A record does not say of a user message whether a user said it, nor of an answer whether a tool
//! gave it. Where that matters it is told by these words; a test keeps them what the kernel says.

use tooloop_model::{Content, Message, ToolResult};

/// How its answers begin and end to calls that an interrupt, a hook or the time limit met.
const BROKEN_OFF: [(&str, &str, Closed); 3] = [
    ("not run: ", " before this call began", Closed::NotBegun),
    (
        "not run: ",
        " before this call was allowed",
        Closed::NotAllowed,
    ),
    (
        "interrupted by ",
        " while it ran: its outcome is unknown",
        Closed::Running,
    ),
];

/// How its answer begins to a call that was one too many.
const TOO_MANY: &str = "not run: the limit of ";

/// How its answers begin to calls that the death of the process met.
const RESUMED: [&str; 2] = [
    "interrupted, outcome unknown: the harness ended",
    "interrupted: the harness ended",
];

/// How answers begin to calls that there was nothing to run for.
const REJECTED: [&str; 2] = ["there is no tool named ", "invalid input for "];

const REMINDER: &str = "Reminder: you have made the same call with the same outcome ";

/// Why a call was answered without its tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
    /// The turn was broken off before it had begun.
    NotBegun,
    /// The turn was broken off while somebody was being asked.
    NotAllowed,
    /// The turn was broken off while it ran.
    Running,
    /// By whoever went on with the session after a death.
    Dead,
}

/// Why the kernel gave this answer, if it did.
pub(super) fn closed(result: &ToolResult) -> Option<Closed> {
    let text = only_text(&result.content).filter(|_| result.is_error)?;
    if RESUMED.iter().any(|words| text.starts_with(words)) {
        return Some(Closed::Dead);
    }
    let mut broken = BROKEN_OFF.iter();
    broken
        .find(|(begin, end, _)| text.starts_with(begin) && text.ends_with(end))
        .map(|(_, _, closed)| *closed)
}

/// The limit of calls that this one was beyond, if the kernel says so.
pub(super) fn too_many(result: &ToolResult) -> Option<u32> {
    let text = only_text(&result.content).filter(|_| result.is_error)?;
    let (limit, _) = text.strip_prefix(TOO_MANY)?.split_once(' ')?;
    limit.parse().ok()
}

/// What the model is told if there was nothing to run, if this may be that.
pub(super) fn rejection(result: &ToolResult) -> Option<&str> {
    only_text(&result.content).filter(|_| result.is_error)
}

/// Whether it is that for certain.
pub(super) fn is_rejection(text: &str) -> bool {
    REJECTED.iter().any(|words| text.starts_with(words))
}

/// Whether the kernel said this to a model that repeats itself.
pub(super) fn is_reminder(content: &[Content]) -> bool {
    only_text(content).is_some_and(|text| text.starts_with(REMINDER))
}

/// What a message of the user says.
pub(super) const fn said(message: &Message) -> Option<&Vec<Content>> {
    match message {
        Message::User(content) => Some(content),
        Message::Assistant(_) | Message::ToolResults(_) => None,
    }
}

/// What is wrong with an answer, as the kernel tells the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Misfit {
    /// It is not of the form.
    Form { problem: String },
    /// It is not given by this tool.
    Tool { name: String },
}

/// Reads what the kernel says of an answer that does not have its form.
pub(super) fn misfit(content: &[Content]) -> Option<Misfit> {
    let text = only_text(content)?;
    let (_, problem) = text
        .split_once("does not have the form that it must have: ")
        .unzip();
    if let Some(problem) = problem {
        let problem = problem.strip_suffix(". Answer with JSON of that form alone.")?;
        return Some(Misfit::Form {
            problem: problem.into(),
        });
    }
    let (_, name) = text.split_once("When you are done, call the tool ")?;
    let name = name.strip_suffix(" with it.")?;
    Some(Misfit::Tool { name: name.into() })
}

/// The text, if that is all.
pub(super) fn only_text(content: &[Content]) -> Option<&str> {
    match content {
        [Content::Text(text)] => Some(text),
        _ => None,
    }
}
