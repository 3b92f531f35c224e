//! What a shell line is made of: words, commands, redirections, and what to beware of.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use thiserror::Error;

/// A part of a word whose text is only known when the line runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unknown {
    /// A pattern that becomes the names of files.
    Glob,
    /// A brace expansion, which may become several words.
    Brace,
    /// A home directory.
    Tilde,
    /// The result of an arithmetic expansion.
    Number,
    /// The name of a pipe made by a process substitution.
    Process,
    /// The value of a variable; unquoted, it may become several words or none.
    Variable {
        /// Whether it stays one word.
        quoted: bool,
    },
    /// The output of a command; unquoted, it may become several words or none.
    Output {
        /// Whether it stays one word.
        quoted: bool,
    },
}

impl Unknown {
    /// Tells whether this may become several words or none.
    #[must_use]
    pub const fn splits(self) -> bool {
        match self {
            Self::Variable { quoted } | Self::Output { quoted } => !quoted,
            Self::Glob | Self::Brace => true,
            Self::Tilde | Self::Number | Self::Process => false,
        }
    }
}

/// A part of a word.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Piece {
    /// Text as the program sees it, with quotes and escapes resolved.
    Text(String),
    /// Text that is only known when the line runs.
    Unknown(Unknown),
}

/// A word of a shell line.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Word {
    /// The word as it was written.
    pub raw: String,
    /// What it becomes; no pieces is the empty word.
    pub pieces: Vec<Piece>,
}

impl Word {
    /// Makes a word that is nothing but this text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self {
            raw: text.to_owned(),
            pieces: vec![Piece::Text(text.to_owned())],
        }
    }

    /// Makes a word of which nothing is known.
    #[must_use]
    pub fn unknown(raw: &str, unknown: Unknown) -> Self {
        Self {
            raw: raw.to_owned(),
            pieces: vec![Piece::Unknown(unknown)],
        }
    }

    /// Gives the text of the word, if all of it is known before the line runs.
    #[must_use]
    pub fn literal(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Gives the known text at the start of the word.
    #[must_use]
    pub fn prefix(&self) -> &str {
        match self.pieces.first() {
            Some(Piece::Text(text)) => text,
            Some(Piece::Unknown(_)) | None => "",
        }
    }

    /// Goes over the unknown pieces.
    pub fn unknowns(&self) -> impl Iterator<Item = Unknown> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Unknown(unknown) => Some(*unknown),
        })
    }

    /// Tells whether an unquoted value in it may become several words or none.
    #[must_use]
    pub fn splits(&self) -> bool {
        self.unknowns().any(Unknown::splits)
    }

    /// Tells whether a program could take the word, or a word it splits into, for an option.
    #[must_use]
    pub fn may_be_option(&self) -> bool {
        let value_splits = self.unknowns().any(|unknown| match unknown {
            Unknown::Variable { quoted } | Unknown::Output { quoted } => !quoted,
            Unknown::Glob
            | Unknown::Brace
            | Unknown::Tilde
            | Unknown::Number
            | Unknown::Process => false,
        });
        value_splits
            || match self.pieces.first() {
                None => false,
                Some(Piece::Text(text)) => text.starts_with('-'),
                Some(Piece::Unknown(unknown)) => {
                    !matches!(unknown, Unknown::Tilde | Unknown::Process)
                }
            }
    }
}

/// An assignment before a command, or one that stands alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Assignment {
    /// The name of the variable.
    pub name: String,
    /// The value, for an array its elements.
    pub values: Vec<Word>,
    /// The assignment as it was written.
    pub raw: String,
}

/// Where a command was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// In the line itself, at whatever depth.
    Line,
    /// Among the words of another command, which would run it.
    Words {
        /// The index of the command that would run it.
        parent: usize,
        /// Which word of that command is this one's program.
        at: usize,
    },
    /// In a text that another command would run as a shell line.
    Text {
        /// The index of the command that would run it.
        parent: usize,
    },
}

/// What a command does besides what its words say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Nature {
    /// It is a program like any other.
    #[default]
    Plain,
    /// It only runs the commands found in it, with nothing added.
    Transparent,
    /// As `Transparent`, but what it runs may outlive it or start with other settings.
    Launcher,
    /// It runs the commands found in it and does something of its own.
    Carrier,
    /// It runs something that is only known when it runs.
    Opaque(&'static str),
}

/// A simple command: what one program would be called with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Command {
    /// The command as it was written.
    pub text: String,
    /// The assignments before it.
    pub assignments: Vec<Assignment>,
    /// The program and its arguments; none if there are only assignments or redirections.
    pub words: Vec<Word>,
    /// Where it was found.
    pub origin: Origin,
    /// What it does besides.
    pub nature: Nature,
    /// Where the line has gone before it: see [`Parts::places`].
    pub(crate) place: Option<usize>,
}

impl Command {
    /// Gives the program as it is named, if that is known before the line runs.
    #[must_use]
    pub fn program(&self) -> Option<&str> {
        self.words.first().and_then(Word::literal)
    }

    /// Gives the words after the program.
    #[must_use]
    pub fn arguments(&self) -> &[Word] {
        self.words.get(1..).unwrap_or_default()
    }
}

/// What a redirection does to what it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// It reads.
    Read,
    /// It writes, or reads and writes.
    Write,
    /// It copies or closes an open file, or hands over a text.
    Internal,
}

/// A redirection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Redirect {
    /// The redirection as it was written.
    pub text: String,
    /// What it does.
    pub direction: Direction,
    /// What it names.
    pub target: Word,
    /// The command whose text or words it was found in, if it is not in the line itself.
    pub parent: Option<usize>,
    /// Where the line has gone before it: see [`Parts::places`].
    pub(crate) place: Option<usize>,
}

impl Redirect {
    /// Tells whether the redirection provably changes nothing and talks to nobody.
    #[must_use]
    pub fn is_harmless(&self) -> bool {
        let is_pipe = matches!(
            self.target.pieces.as_slice(),
            [Piece::Unknown(Unknown::Process)]
        );
        match self.direction {
            Direction::Internal => true,
            Direction::Write => {
                is_pipe
                    || matches!(
                        self.target.literal(),
                        Some("/dev/null" | "/dev/stdout" | "/dev/stderr")
                    )
            }
            // The shell opens a connection for some names below /dev.
            Direction::Read => {
                let known = self.target.prefix();
                let is_whole = self.target.literal().is_some();
                is_pipe
                    || ["/dev/tcp", "/dev/udp"].iter().all(|name| {
                        !known.starts_with(name) && (is_whole || !name.starts_with(known))
                    })
            }
        }
    }
}

/// Something in a line that no single command shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hazard {
    /// A job in the background may outlive the line.
    Background,
    /// A function gives a name another meaning.
    Function,
    /// A text that is only known when the line runs is evaluated by the shell.
    Evaluation,
    /// One shell reads it as a test or a sum, another as commands or redirections.
    Dialect,
}

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Background => "a job is left in the background",
            Self::Function => "a function is defined",
            Self::Evaluation => "the shell evaluates a text that is only known when it runs",
            Self::Dialect => "a test or a sum is something else for some shells",
        })
    }
}

/// Why a line could not be taken apart.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// The line is longer than is looked at.
    #[error("the line is longer than {0} bytes")]
    TooLong(usize),
    /// The line is nested deeper than is looked at.
    #[error("the line is nested more than {0} deep")]
    TooDeep(usize),
    /// Something was opened and not closed.
    #[error("{0} is not closed")]
    Unclosed(&'static str),
    /// Something stands where it cannot.
    #[error("`{0}` stands where it cannot")]
    Unexpected(String),
    /// Something is missing.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// The line uses something whose meaning is not worked out here.
    #[error("{0} is not looked into")]
    Unsupported(&'static str),
}

/// Everything found in a line.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Parts {
    pub(crate) commands: Vec<Command>,
    pub(crate) redirects: Vec<Redirect>,
    /// Where the line goes: each is a folder as `cd` is given it, and the place that it starts from.
    pub(crate) places: Vec<(Option<usize>, Word)>,
    /// Where what is read now would run.
    pub(crate) place: Option<usize>,
    pub(crate) functions: BTreeSet<String>,
    /// Functions that are there for sure, each from the command of this index on.
    pub(crate) sure_functions: BTreeMap<String, usize>,
    pub(crate) hazards: BTreeSet<Hazard>,
    /// How many commands and how many here-documents have been read.
    pub(crate) read: (usize, usize),
    /// A variable may hold a text that the shell would run if it evaluated it.
    pub(crate) tainted: bool,
    /// A variable may hold a text, or an end of one, that assigns if the shell evaluates it.
    pub(crate) may_assign: bool,
    /// The shell evaluates the value of a variable.
    pub(crate) evaluates: bool,
}

impl Parts {
    /// Notes that a variable takes this value.
    pub(crate) fn assign(&mut self, value: &Word) {
        let plain = value.pieces.iter().all(|piece| match piece {
            Piece::Text(text) => text.chars().all(|c| {
                c.is_ascii_alphanumeric()
                    || matches!(
                        c,
                        '_' | ' ' | '.' | ',' | '/' | ':' | '+' | '-' | '=' | '@' | '%'
                    )
            }),
            Piece::Unknown(unknown) => match unknown {
                Unknown::Tilde | Unknown::Number | Unknown::Process | Unknown::Variable { .. } => {
                    true
                }
                Unknown::Glob | Unknown::Brace | Unknown::Output { .. } => false,
            },
        });
        if !plain {
            self.tainted = true;
        }
        self.note_value(value);
    }

    /// Notes a text that may become part of the value of a variable.
    pub(crate) fn note_value(&mut self, value: &Word) {
        let is_number = value.literal().is_some_and(|text| {
            let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
            !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
        });
        let may_assign = value.pieces.iter().any(|piece| match piece {
            Piece::Text(text) => {
                text.contains('=')
                    || ["++", "--"].iter().any(|sign| text.contains(sign))
                    || text.starts_with(['+', '-'])
                    || text.ends_with(['+', '-'])
            }
            Piece::Unknown(_) => false,
        });
        self.may_assign |= may_assign && !is_number;
    }
}
