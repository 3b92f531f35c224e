//! What the server does with one request: a list of steps on a socket.
//!
//! A [`Reply`] is written down by a test and played by the server. It holds bytes and verbs, no knowledge of any
//! wire format: the modules [`anthropic`](crate::anthropic) and [`openai_chat`](crate::openai_chat) make the bytes.

use crate::{Gate, Wire};
use serde_json::Value;
use std::time::Duration;

/// The text that stands for the number of the request (counting model requests from 1) in the bytes of an event.
///
/// It makes ids differ between replies that are otherwise the same: `call("call_{#n}", "bash", "{}")`.
pub const NUMBER: &str = "{#n}";

/// One thing the server does while it answers.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Step {
    /// Sends the status line and the headers. Implied, as those of an event stream, if bytes come first.
    Head(Head),
    /// Sends bytes of the body as they are.
    Bytes(Vec<u8>),
    /// Sends bytes of the body with [`NUMBER`] replaced.
    Event(String),
    /// Sends bytes past all framing, such as a broken status line.
    Raw(Vec<u8>),
    /// Sends nothing for a while. Prefer [`Step::WaitFor`] unless the length of the silence is what is tested.
    Pause(Duration),
    /// Sends nothing until the gate is open.
    WaitFor(Gate),
    /// Opens a gate, to tell the test that all before it was written.
    Open(Gate),
    /// Keeps the socket open and sends nothing until the client goes or the server ends.
    Hold,
    /// Ends the response in an orderly way. Implied at the end of every reply.
    Close,
    /// Closes the connection in the middle of the response, without its closing chunk.
    Cut,
    /// Resets the connection.
    Reset,
}

/// The status line and headers of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The status code.
    pub status: u16,
    /// Headers in the order in which they are sent, framing headers apart.
    pub headers: Vec<(String, String)>,
    /// How the end of the body is marked.
    pub framing: Framing,
}

/// How the client learns where the body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Framing {
    /// `Transfer-Encoding: chunked`, one chunk a write.
    Chunked,
    /// `Content-Length`, with this many bytes announced.
    Length(usize),
    /// The body ends where the connection ends.
    UntilClose,
}

impl Head {
    /// The head of an event stream that begins well.
    pub fn event_stream() -> Self {
        Self {
            status: 200,
            headers: vec![
                (
                    "content-type".to_owned(),
                    "text/event-stream; charset=utf-8".to_owned(),
                ),
                ("cache-control".to_owned(), "no-cache".to_owned()),
            ],
            framing: Framing::Chunked,
        }
    }
}

/// Steps in order: what builders return and what a reply is made of.
///
/// A sequence of steps can be given as one builder's result, or as an array or vector of several.
///
/// ```
/// use tooloop_testkit::{Reply, anthropic, hold};
///
/// let reply = Reply::stream([anthropic::open(), anthropic::text_start(0), hold()]);
/// assert_eq!(reply.steps().len(), 4); // the head comes first
/// ```
#[derive(Debug, Clone, Default)]
pub struct Steps(pub Vec<Step>);

impl Steps {
    /// Adds the steps of `more` at the end.
    #[must_use]
    pub fn then(mut self, more: impl Into<Self>) -> Self {
        self.0.extend(more.into().0);
        self
    }

    /// Repeats the steps.
    #[must_use]
    pub fn times(self, count: usize) -> Self {
        let one = self.0;
        Self(std::iter::repeat_n(one, count).flatten().collect())
    }
}

impl From<Step> for Steps {
    fn from(step: Step) -> Self {
        Self(vec![step])
    }
}

impl From<Vec<Step>> for Steps {
    fn from(steps: Vec<Step>) -> Self {
        Self(steps)
    }
}

impl From<Vec<Self>> for Steps {
    fn from(parts: Vec<Self>) -> Self {
        parts.into_iter().collect()
    }
}

impl<const N: usize> From<[Self; N]> for Steps {
    fn from(parts: [Self; N]) -> Self {
        parts.into_iter().collect()
    }
}

impl FromIterator<Self> for Steps {
    fn from_iter<I: IntoIterator<Item = Self>>(parts: I) -> Self {
        Self(parts.into_iter().flat_map(|part| part.0).collect())
    }
}

/// Sends bytes of the body as they are.
pub fn bytes(bytes: impl Into<Vec<u8>>) -> Steps {
    Step::Bytes(bytes.into()).into()
}

/// Sends nothing for `length`.
pub fn pause(length: Duration) -> Steps {
    Step::Pause(length).into()
}

/// Sends nothing until `gate` is open.
pub fn wait_for(gate: &Gate) -> Steps {
    Step::WaitFor(gate.clone()).into()
}

/// Opens `gate` once all before it was written.
pub fn open_gate(gate: &Gate) -> Steps {
    Step::Open(gate.clone()).into()
}

/// Keeps the socket open and sends nothing until the client goes or the server ends.
pub fn hold() -> Steps {
    Step::Hold.into()
}

/// Ends the response in an orderly way.
pub fn close() -> Steps {
    Step::Close.into()
}

/// Closes the connection in the middle of the response, without its closing chunk.
pub fn cut() -> Steps {
    Step::Cut.into()
}

/// Resets the connection.
pub fn reset() -> Steps {
    Step::Reset.into()
}

/// What the server does with one request.
#[derive(Debug, Clone)]
pub struct Reply {
    steps: Vec<Step>,
    wire: Wire,
}

impl Reply {
    /// Sends an event stream with status 200, made of these steps.
    pub fn stream(steps: impl Into<Steps>) -> Self {
        Self::steps_of(Steps::from(Step::Head(Head::event_stream())).then(steps))
    }

    /// Sends a plain answer of known length.
    pub fn http(status: u16, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        let head = Head {
            status,
            headers: headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            framing: Framing::Length(body.len()),
        };
        Self::steps_of([Step::Head(head).into(), bytes(body)])
    }

    /// Sends a JSON value as a plain answer.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::http(
            status,
            &[("content-type", "application/json")],
            body.to_string(),
        )
    }

    /// Plays just these steps, with no head but the one among them: a reset before any answer is `[reset()]`, and
    /// silence before the status line is `[hold()]`.
    pub fn steps_of(steps: impl Into<Steps>) -> Self {
        Self {
            steps: steps.into().0,
            wire: Wire::default(),
        }
    }

    /// Resets the connection instead of answering.
    pub fn reset() -> Self {
        Self::steps_of(reset())
    }

    /// Takes the request and stays silent, with no status line even.
    pub fn silence() -> Self {
        Self::steps_of(hold())
    }

    /// Does these steps before the status line.
    #[must_use]
    pub fn before_head(mut self, steps: impl Into<Steps>) -> Self {
        self.steps.splice(0..0, steps.into().0);
        self
    }

    /// Adds steps at the end.
    #[must_use]
    pub fn then(mut self, steps: impl Into<Steps>) -> Self {
        self.steps.extend(steps.into().0);
        self
    }

    /// Puts `steps` before each event, bytes step and at the end of the body: pings, comments, unknown events.
    #[must_use]
    pub fn interleave(mut self, steps: impl Into<Steps>) -> Self {
        let between = steps.into().0;
        let mut out = Vec::new();
        for step in self.steps {
            if matches!(step, Step::Bytes(_) | Step::Event(_)) {
                out.extend(between.iter().cloned());
            }
            out.push(step);
        }
        out.extend(between);
        self.steps = out;
        self
    }

    /// Adds or replaces a header of the answer.
    #[must_use]
    pub fn header(self, name: &str, value: &str) -> Self {
        self.with_head(|head| {
            head.headers
                .retain(|(other, _)| !other.eq_ignore_ascii_case(name));
            head.headers.push((name.to_owned(), value.to_owned()));
        })
    }

    /// Changes the status of the answer.
    #[must_use]
    pub fn status(self, status: u16) -> Self {
        self.with_head(|head| head.status = status)
    }

    /// Changes how the end of the body is marked.
    #[must_use]
    pub fn framing(self, framing: Framing) -> Self {
        self.with_head(|head| head.framing = framing)
    }

    /// Changes how the bytes of the body are spelled and cut.
    #[must_use]
    pub fn wire(mut self, wire: Wire) -> Self {
        self.wire = wire;
        self
    }

    /// The steps, the head included.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// How the body is spelled and cut.
    pub fn wire_form(&self) -> &Wire {
        &self.wire
    }

    fn with_head(mut self, change: impl FnOnce(&mut Head)) -> Self {
        let found = self.steps.iter_mut().find_map(|step| match step {
            Step::Head(head) => Some(head),
            _ => None,
        });
        if let Some(head) = found {
            change(head);
        } else {
            let mut head = Head::event_stream();
            change(&mut head);
            self.steps.insert(0, Step::Head(head));
        }
        self
    }
}

impl From<Steps> for Reply {
    fn from(steps: Steps) -> Self {
        Self::stream(steps)
    }
}
