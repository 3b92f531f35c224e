//! The strict judge of model requests: what a real server refuses, and some that only some do.
//!
//! Pure functions from a request body to the rules it breaks. The server uses them on every request; they can be
//! used alone on any captured body:
//!
//! ```
//! use serde_json::json;
//! use tooloop_testkit::oracle::{self, Options, Rule};
//!
//! let body = json!({"model": "m", "max_tokens": 100, "messages": [
//!     {"role": "user", "content": "hello"},
//!     {"role": "assistant", "content": [{"type": "tool_use", "id": "tu_1", "name": "bash", "input": {}}]},
//!     {"role": "user", "content": "what happened?"}]});
//! let violations = oracle::check_anthropic(&body, &Options::default());
//! assert_eq!(violations[0].rule, Rule::Results);
//! assert_eq!(violations[0].to_string(), "V2 at messages[1]: tool use \"tu_1\" has no result in the next message");
//! ```
//!
//! | rule | what it asks |
//! |---|---|
//! | V1 | the list starts with a user message and ends with a user (or tool) message; no two assistant messages in a row |
//! | V2 | every tool call is answered exactly once, in the very next message, results first; no stray results |
//! | V3 | no blank text, no message without content, no cache mark on an empty block, at most four cache marks |
//! | V4 | a trailing assistant message does not end in white space |
//! | V5 | thinking comes back byte for byte, signed, in its old places, or not at all, and never last |
//! | V6 | tool names and property names are well formed, names are unique, each schema is of an object |
//! | V7 | tool input is an object (or a string that holds one); call ids are not empty and unique |
//! | V8 | the body is JSON in UTF-8; images are at most 5 MB and 8000 px a side, 2000 px if there are more than 20 |
//! | V9 | the estimated size stays within the window |
//! | shape | the fields that every server needs are there and of the right type |
//! | profile | what one kind of server asks beyond this |

mod anthropic;
mod image;
mod openai_chat;
mod profile;
mod sent;
mod size;
mod thinking;
mod tools;

pub use anthropic::check_anthropic;
pub use openai_chat::check_openai_chat;
pub use profile::{NeedsReasoning, PlainReasoning};
pub use sent::{Learner, Sent, SentBlock, SentMessage};
pub use size::{Window, estimate_tokens};

use serde_json::Value;
use std::fmt;

/// A rule of the judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// V1: how the list of messages starts, ends and alternates.
    Turns,
    /// V2: each tool call has its result, and each result its call.
    Results,
    /// V3: blank text and cache marks.
    Blank,
    /// V4: white space at the end of a trailing assistant message.
    TrailingSpace,
    /// V5: thinking that is sent back.
    Thinking,
    /// V6: names and schemas of tools.
    Tools,
    /// V7: input and ids of tool calls.
    Calls,
    /// V8: encoding of the body and size of images.
    Encoding,
    /// V9: size of the request.
    Window,
    /// Fields that every server needs.
    Shape,
    /// What one kind of server asks beyond the rules.
    Profile,
    /// The test itself: a request came for which the script has no reply.
    Script,
}

impl Rule {
    /// The short name: `V1` to `V9`, or a word.
    pub fn id(self) -> &'static str {
        match self {
            Self::Turns => "V1",
            Self::Results => "V2",
            Self::Blank => "V3",
            Self::TrailingSpace => "V4",
            Self::Thinking => "V5",
            Self::Tools => "V6",
            Self::Calls => "V7",
            Self::Encoding => "V8",
            Self::Window => "V9",
            Self::Shape => "shape",
            Self::Profile => "profile",
            Self::Script => "script",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.id())
    }
}

/// One way in which a request breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// Where in the body, such as `messages[3].content[0]`; empty for the body as a whole.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

impl Violation {
    /// Makes a violation.
    pub fn new(rule: Rule, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            rule,
            path: path.into(),
            message: message.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.rule)?;
        if !self.path.is_empty() {
            write!(formatter, " at {}", self.path)?;
        }
        write!(formatter, ": {}", self.message)
    }
}

/// What the judge knows beside the body.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options<'a> {
    /// The largest request; no limit if `None`.
    pub window: Option<Window>,
    /// Lets the list end with an assistant message that the model is to go on with.
    pub allow_prefill: bool,
    /// What was sent to the client before, to compare thinking with. Without it only signatures and places at the
    /// end are looked at.
    pub sent: Option<&'a Sent>,
}

/// Reads a body as JSON in UTF-8.
///
/// # Errors
/// Says why the bytes are not JSON in UTF-8, as a violation of V8.
pub fn parse_body(bytes: &[u8]) -> Result<Value, Violation> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        Violation::new(
            Rule::Encoding,
            "",
            format!("the body is not UTF-8: {error}"),
        )
    })?;
    serde_json::from_str(text).map_err(|error| {
        Violation::new(Rule::Encoding, "", format!("the body is not JSON: {error}"))
    })
}

/// Collects violations.
#[derive(Debug, Default)]
struct Report(Vec<Violation>);

impl Report {
    fn add(&mut self, rule: Rule, path: impl Into<String>, message: impl Into<String>) {
        self.0.push(Violation::new(rule, path, message));
    }
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// A value's elements, none if it is no array.
fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A field's text, if it is a string.
fn text_of<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str)
}

/// The messages of a body, reporting if there are none.
fn messages<'a>(body: &'a Value, report: &mut Report) -> &'a [Value] {
    match body.get("messages") {
        Some(Value::Array(messages)) if !messages.is_empty() => messages,
        Some(Value::Array(_)) => {
            report.add(Rule::Turns, "messages", "the list is empty");
            &[]
        }
        _ => {
            report.add(Rule::Shape, "messages", "must be a list");
            &[]
        }
    }
}

fn check_model(body: &Value, report: &mut Report) {
    if text_of(body, "model").is_none_or(is_blank) {
        report.add(Rule::Shape, "model", "must be a string with a name");
    }
}
