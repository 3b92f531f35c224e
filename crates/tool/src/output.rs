//! What a call comes to.

use std::ops::Range;
use std::path::PathBuf;

use tooloop_model::Content;

/// What a call answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolOutput {
    /// What the model is told. Where nothing is left to tell, a placeholder takes its place.
    pub content: Vec<Content>,
    /// Whether it tells of a failure (a command that ended with another status than 0 does).
    pub is_error: bool,
    /// What a person is shown in place of the content, if that is another thing.
    pub details: Option<String>,
    /// The file in which the whole of it lies already, if there is one: a content that is too long
    /// for the conversation is cut and need not be saved again.
    pub source: Option<PathBuf>,
    /// What makes this outcome the same as another one, for the detection of loops; `None` if that
    /// is the content. Give it when the content holds what changes each time, such as a duration.
    pub fingerprint: Option<String>,
    /// The mark in the content that says what the tool left out, if it left anything out. A result
    /// that has to become shorter still then gets one mark with the sum.
    pub omission: Option<Omission>,
    /// What the sandbox refused on the way: an outcome of its own, since more may be asked for.
    pub refusals: Vec<SandboxRefusal>,
}

/// A place in the first text of a content where a part of the whole is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Omission {
    /// Where the mark is, in bytes of that text, with the line ends around it.
    pub mark: Range<usize>,
    /// How many bytes are left out there.
    pub bytes: u64,
    /// Where the whole is, as the mark says it.
    pub place: String,
}

impl Omission {
    /// Joins the beginning and the end of a text with a mark on a line of its own between them.
    #[must_use]
    pub fn join(head: &str, bytes: u64, place: String, tail: &str) -> (String, Self) {
        let mut text = String::with_capacity(head.len() + tail.len() + place.len() + 50);
        text.push_str(head);
        let start = text.len();
        if !(head.is_empty() || head.ends_with('\n')) {
            text.push('\n');
        }
        text.push_str(&format!("[... {bytes} bytes left out; {place} ...]\n"));
        let mark = start..text.len();
        text.push_str(tail);
        (text, Self { mark, bytes, place })
    }
}

/// Something that the sandbox refused. The model is told of it in the content, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxRefusal {
    /// The act, with its path or host: `writing /srv/x`.
    pub what: String,
    /// The rule that refused it.
    pub rule: String,
    /// What would have to be granted for it; `None`: nothing can be.
    pub grant: Option<String>,
}

impl std::fmt::Display for SandboxRefusal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { what, rule, grant } = self;
        write!(formatter, "the sandbox refused {what}: {rule}")?;
        match grant {
            Some(grant) => write!(
                formatter,
                "; to ask for it, call again with \"grant\": [{grant:?}]"
            ),
            None => formatter.write_str("; no grant changes that"),
        }
    }
}

impl ToolOutput {
    /// A text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: vec![Content::Text(text.into())],
            ..Self::default()
        }
    }

    /// A text that tells of a failure.
    #[must_use]
    pub fn failure(text: impl Into<String>) -> Self {
        Self {
            is_error: true,
            ..Self::text(text)
        }
    }
}

/// A call that came to nothing. What the model did wrong and what went wrong in the tool's world
/// are both told to the model; neither ends the conversation.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The input does not fit the tool.
    #[error("invalid input for {tool}: {problem}")]
    InvalidInput {
        /// The tool.
        tool: String,
        /// What is wrong: names the field.
        problem: String,
    },
    /// It could not be done.
    #[error("{0}")]
    Failed(String),
    /// The sandbox refused it: an outcome of its own, since a wider grant may be asked for.
    #[error("the sandbox refused {what}: {rule}")]
    Denied {
        /// The path, host or act.
        what: String,
        /// The rule that refused it.
        rule: String,
    },
    /// It was cancelled before it was done.
    #[error("cancelled")]
    Cancelled,
}
