//! The words by which the kernel's own messages are told from what came in.
//!
//! A record does not say of a user message whether a user said it, nor of an answer whether a tool
//! gave it. Where that matters it is told by these words; a test keeps them what the kernel says.

use tooloop_model::{Content, Message, ToolResult};

/// Answers of the kernel to calls that an interrupt met.
const INTERRUPTED: [(&str, Closed); 3] = [
    (
        "not run: the user interrupted before this call began",
        Closed::NotBegun,
    ),
    (
        "not run: the user interrupted before this call was allowed",
        Closed::NotAllowed,
    ),
    (
        "interrupted by the user while it ran: its outcome is unknown",
        Closed::Running,
    ),
];

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
    /// By an interrupt: it had not begun.
    NotBegun,
    /// By an interrupt: somebody was being asked.
    NotAllowed,
    /// By an interrupt: it ran.
    Running,
    /// By whoever went on with the session after a death.
    Dead,
}

/// Why the kernel gave this answer, if it did.
pub(super) fn closed(result: &ToolResult) -> Option<Closed> {
    let text = only_text(&result.content).filter(|_| result.is_error)?;
    let interrupted = INTERRUPTED.iter().find(|(words, _)| text == *words);
    let dead = RESUMED.iter().any(|words| text.starts_with(words));
    interrupted
        .map(|(_, closed)| *closed)
        .or_else(|| dead.then_some(Closed::Dead))
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

fn only_text(content: &[Content]) -> Option<&str> {
    match content {
        [Content::Text(text)] => Some(text),
        _ => None,
    }
}
