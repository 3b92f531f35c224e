//! What may be wrong with a journal.

use std::fmt;

/// Something that is wrong with a journal, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1.
    pub line: usize,
    /// Where in the file, in bytes from its beginning.
    pub offset: u64,
    /// What it is.
    pub kind: FaultKind,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultKind {
    /// The first line is no header, or half of one.
    Header {
        /// Why not.
        reason: String,
    },
    /// The file begins with a byte order mark.
    ByteOrderMark,
    /// Lines end in CR LF; told once.
    CarriageReturns,
    /// Zeros, which a crash of the file system leaves.
    Nuls {
        /// How many.
        bytes: u64,
    },
    /// The last line is half.
    Torn {
        /// How much of it there is.
        bytes: u64,
    },
    /// The last line is whole but for its end.
    NoLineEnd,
    /// More than one record stands on the line.
    Fused,
    /// The line is longer than is read.
    TooLong {
        /// Its length.
        bytes: u64,
    },
    /// Bytes that are no UTF-8 stand inside of a text.
    NotUtf8,
    /// Something that is no record.
    Unreadable {
        /// How much.
        bytes: u64,
        /// Why.
        reason: String,
    },
    /// The record was there before.
    Duplicate {
        /// Its id.
        id: String,
    },
    /// An entry of a kind that this version does not know. No fault of the file.
    Unknown {
        /// The kind.
        kind: String,
        /// What this version says of it.
        reason: String,
    },
    /// The record does not follow the one before it.
    Chain {
        /// Its number.
        seq: u64,
        /// The number that would follow.
        expected: u64,
        /// Whether it names the record before it as its parent.
        has_parent: bool,
    },
    /// A call has an id that no provider takes, or that another call has.
    ToolUseId {
        /// The id.
        id: String,
        /// The id that it is given.
        instead: String,
    },
    /// A part of a message or a result is blank.
    Blank,
    /// Something is told of a call that nobody made.
    NoSuchCall {
        /// The id of the call.
        id: String,
    },
    /// A call is answered a second time, or something is told of it after its answer.
    AnsweredBefore {
        /// The id of the call.
        id: String,
    },
    /// A call is begun a second time.
    StartedTwice {
        /// The id of the call.
        id: String,
    },
    /// Calls have no answer when the next thing is said.
    Unanswered {
        /// The ids of the calls.
        ids: Vec<String>,
    },
    /// The model answers what nobody has said.
    ReplyToNothing,
    /// Something of a turn stands where no turn is under way.
    OutsideOfTurn,
    /// The conversation is taken back to a turn that there is not.
    NoSuchTurn {
        /// The turn.
        turn: usize,
        /// How many there are.
        turns: usize,
    },
    /// A summary stands for so many messages, and they cannot be parted from the rest.
    NoSuchCut {
        /// The messages.
        cut: usize,
        /// How many there are.
        messages: usize,
    },
    /// Results stand as a message.
    ResultsAsMessage,
}

/// What is done about a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Something is lost: whoever resumes is told.
    Loss,
    /// Only those who ask are told.
    Disorder,
    /// Nothing is wrong with the file.
    Note,
}

impl FaultKind {
    pub(crate) const fn weight(&self) -> Weight {
        match self {
            Self::Unknown { .. } => Weight::Note,
            Self::Header { .. }
            | Self::Nuls { .. }
            | Self::Torn { .. }
            | Self::Fused
            | Self::TooLong { .. }
            | Self::NotUtf8
            | Self::Unreadable { .. }
            | Self::Duplicate { .. }
            | Self::ToolUseId { .. } => Weight::Loss,
            Self::ByteOrderMark
            | Self::CarriageReturns
            | Self::NoLineEnd
            | Self::Chain { .. }
            | Self::Blank
            | Self::NoSuchCall { .. }
            | Self::AnsweredBefore { .. }
            | Self::StartedTwice { .. }
            | Self::Unanswered { .. }
            | Self::ReplyToNothing
            | Self::OutsideOfTurn
            | Self::NoSuchTurn { .. }
            | Self::NoSuchCut { .. }
            | Self::ResultsAsMessage => Weight::Disorder,
        }
    }

    /// A word for programs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Header { .. } => "header",
            Self::ByteOrderMark => "byte_order_mark",
            Self::CarriageReturns => "carriage_returns",
            Self::Nuls { .. } => "nul_bytes",
            Self::Torn { .. } => "torn",
            Self::NoLineEnd => "no_line_end",
            Self::Fused => "fused",
            Self::TooLong { .. } => "too_long",
            Self::NotUtf8 => "not_utf8",
            Self::Unreadable { .. } => "unreadable",
            Self::Duplicate { .. } => "duplicate",
            Self::Unknown { .. } => "unknown_kind",
            Self::Chain { .. } => "chain",
            Self::ToolUseId { .. } => "tool_use_id",
            Self::Blank => "blank",
            Self::NoSuchCall { .. } => "no_such_call",
            Self::AnsweredBefore { .. } => "answered_before",
            Self::StartedTwice { .. } => "started_twice",
            Self::Unanswered { .. } => "unanswered",
            Self::ReplyToNothing => "reply_to_nothing",
            Self::OutsideOfTurn => "outside_of_turn",
            Self::NoSuchTurn { .. } => "no_such_turn",
            Self::NoSuchCut { .. } => "no_such_cut",
            Self::ResultsAsMessage => "results_as_message",
        }
    }

    /// What resuming does about it. A repair does the same in the file.
    #[must_use]
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::Header { .. } => {
                "a header is made of what is left of it, the file's name and folder, and the first record"
            }
            Self::ByteOrderMark | Self::CarriageReturns => "it is not taken as a part of the line",
            Self::Nuls { .. } => "they are cut out, and what follows them is kept",
            Self::Torn { .. } => "it is cut off",
            Self::NoLineEnd => "the end is added",
            Self::Fused => "they are split apart",
            Self::TooLong { .. } | Self::Unreadable { .. } => "it is passed over",
            Self::NotUtf8 => "each is kept as U+FFFD",
            Self::Duplicate { .. } => "it is taken once",
            Self::Unknown { .. } => "it is passed over, and stays in the file",
            Self::Chain { .. } => "it is taken where it stands",
            Self::ToolUseId { .. } => "the call is given another id",
            Self::Blank => "it is left out",
            Self::NoSuchCall { .. }
            | Self::AnsweredBefore { .. }
            | Self::StartedTwice { .. }
            | Self::NoSuchTurn { .. }
            | Self::NoSuchCut { .. }
            | Self::OutsideOfTurn => "it changes nothing and is left out",
            Self::Unanswered { .. } => "they are answered: the outcome is unknown",
            Self::ReplyToNothing => "a word that a part is missing is put before it",
            Self::ResultsAsMessage => "they are taken as the answers of their calls",
        }
    }

    /// Whether nothing is wrong with the file, though this version does not understand all of it.
    #[must_use]
    pub fn is_note(&self) -> bool {
        self.weight() == Weight::Note
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header { reason } => write!(out, "the header cannot be read: {reason}"),
            Self::ByteOrderMark => out.write_str("the file begins with a byte order mark"),
            Self::CarriageReturns => out.write_str("lines end in CR LF"),
            Self::Nuls { bytes } => write!(out, "{bytes} zero bytes, as a crash leaves them"),
            Self::Torn { bytes } => write!(
                out,
                "the last line was not written to its end ({bytes} bytes)"
            ),
            Self::NoLineEnd => out.write_str("the last line has no end"),
            Self::Fused => out.write_str("two records on one line"),
            Self::TooLong { bytes } => write!(
                out,
                "a line of {bytes} bytes, and at most {} are read",
                crate::MAX_LINE
            ),
            Self::NotUtf8 => out.write_str("bytes in a text are not UTF-8"),
            Self::Unreadable { bytes, reason } => {
                write!(out, "{bytes} bytes that are no record: {reason}")
            }
            Self::Duplicate { id } => write!(out, "the record {id} was there before"),
            Self::Unknown { kind, reason } => write!(
                out,
                "an entry of a kind that this version does not know, {kind}: {reason}"
            ),
            Self::Chain {
                seq,
                expected,
                has_parent,
            } => {
                let parent = if *has_parent {
                    ""
                } else {
                    ", and its parent is not the record before it"
                };
                write!(out, "record {seq} stands where {expected} would be{parent}")
            }
            Self::ToolUseId { id, instead } => write!(
                out,
                "the id {id:?} of a call cannot be used or is another's; it is {instead} instead"
            ),
            Self::Blank => out.write_str("a part of what was said is blank"),
            Self::NoSuchCall { id } => write!(out, "nobody has made the call {id:?}"),
            Self::AnsweredBefore { id } => write!(out, "the call {id:?} has its answer already"),
            Self::StartedTwice { id } => write!(out, "the call {id:?} had begun already"),
            Self::Unanswered { ids } => write!(out, "calls without an answer: {}", ids.join(", ")),
            Self::ReplyToNothing => out.write_str("a reply to nothing"),
            Self::OutsideOfTurn => out.write_str("no turn is under way here"),
            Self::NoSuchTurn { turn, turns } => write!(
                out,
                "the conversation is taken back to turn {turn}, and has {turns}"
            ),
            Self::NoSuchCut { cut, messages } => write!(
                out,
                "a summary stands for {cut} of {messages} messages, which cannot be parted there"
            ),
            Self::ResultsAsMessage => out.write_str("results that stand as a message"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, offset, kind } = self;
        write!(out, "line {line}, byte {offset}: {kind}")
    }
}
