//! The grammar of a shell line, by recursive descent over its text.
//!
//! One pass, linear in the length, depth counted. It must be at least as narrow as the shell: what
//! it accepts it has to read as the shell does, and all else is a [`Problem`].

use super::{
    MAX_DEPTH, MAX_LENGTH,
    parts::{Hazard, Origin, Parts, Piece, Problem, Unknown, Word},
};

pub(super) type Parsed<T> = Result<T, Problem>;

/// Parses a whole line.
pub(super) fn parse(line: &str, parts: &mut Parts) -> Parsed<()> {
    if line.len() > MAX_LENGTH {
        return Err(Problem::TooLong(MAX_LENGTH));
    }
    Parser::new(line, parts, 0, Origin::Line).whole()
}

/// Parses a text that a command would run as a line.
pub(super) fn parse_nested(
    text: &str,
    parts: &mut Parts,
    depth: usize,
    parent: usize,
) -> Parsed<()> {
    Parser::new(text, parts, depth, Origin::Text { parent }).whole()
}

/// A here-document whose body comes after the end of the line.
pub(super) struct HereDocument {
    pub(super) delimiter: String,
    pub(super) strips_tabs: bool,
    pub(super) expands: bool,
}

/// Where a list of commands ends.
#[derive(Clone, Copy)]
pub(super) enum Stop {
    End,
    Bracket,
    CaseItem,
    Words(&'static [&'static str]),
}

pub(super) struct Parser<'a> {
    pub(super) source: &'a str,
    pub(super) position: usize,
    pub(super) depth: usize,
    pub(super) parts: &'a mut Parts,
    pub(super) origin: Origin,
    /// Here-documents whose bodies come after the end of the line.
    pub(super) waiting: Vec<HereDocument>,
    /// How many lists are open around what is read now.
    lists: usize,
    /// How many expansions are open around what is read now.
    pub(super) operands: usize,
    /// How many substitutions are open around what is read now.
    substitutions: usize,
    /// The function that the command just read defines, if that is all there is to it.
    defined: Option<String>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(source: &'a str, parts: &'a mut Parts, depth: usize, origin: Origin) -> Self {
        Self {
            source,
            position: 0,
            depth,
            parts,
            origin,
            waiting: Vec::new(),
            lists: 0,
            operands: 0,
            substitutions: 0,
            defined: None,
        }
    }

    pub(super) fn whole(&mut self) -> Parsed<()> {
        // The shell drops NUL; what is left then is another line than the one looked at.
        if self.source.contains('\0') {
            return Err(Problem::Unsupported("a NUL character"));
        }
        if continues_an_operator(self.source) {
            return Err(Problem::Unsupported(
                "a line that continues within an operator",
            ));
        }
        self.list(Stop::End)?;
        if self.waiting.is_empty() {
            Ok(())
        } else {
            Err(Problem::Unclosed("a here-document"))
        }
    }

    // Looking at the text.

    pub(super) fn rest(&self) -> &'a str {
        self.source.get(self.position..).unwrap_or_default()
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn at(&self, text: &str) -> bool {
        self.rest().starts_with(text)
    }

    pub(super) fn eat(&mut self, text: &str) -> bool {
        let found = self.at(text);
        if found {
            self.position += text.len();
        }
        found
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.position += c.len_utf8();
        Some(c)
    }

    pub(super) fn since(&self, start: usize) -> &'a str {
        self.source.get(start..self.position).unwrap_or_default()
    }

    pub(super) fn unexpected(&self) -> Problem {
        match self.peek() {
            None => Problem::Missing("a command"),
            Some(_) => {
                let word = self.plain_word();
                let shown = if word.is_empty() {
                    self.peek().map(String::from).unwrap_or_default()
                } else {
                    word.to_owned()
                };
                Problem::Unexpected(shown)
            }
        }
    }

    pub(super) fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_DEPTH {
            return Err(Problem::TooDeep(MAX_DEPTH));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// Reads what runs in a shell of its own, so that where it goes nothing follows.
    pub(super) fn returning<T>(&mut self, inner: impl FnOnce(&mut Self) -> T) -> T {
        let place = self.parts.place;
        let result = inner(self);
        self.parts.place = place;
        result
    }

    /// The run of characters up to the next blank or operator, which is a word if it has no quotes.
    pub(super) fn plain_word(&self) -> &'a str {
        let rest = self.rest();
        let end = rest.find(ends_word).unwrap_or(rest.len());
        rest.get(..end).unwrap_or_default()
    }

    pub(super) fn at_word(&self, words: &[&str]) -> bool {
        let word = self.plain_word();
        words.contains(&word)
    }

    pub(super) fn eat_word(&mut self, word: &'static str) -> Parsed<()> {
        self.lines()?;
        if self.plain_word() == word {
            self.position += word.len();
            Ok(())
        } else if self.peek().is_none() {
            Err(Problem::Missing(word))
        } else {
            Err(self.unexpected())
        }
    }

    /// Skips blanks, line continuations and a comment; stays on the line.
    pub(super) fn blanks(&mut self) {
        while self.eat(" ") || self.eat("\t") || self.eat("\\\n") {}
        if self.at("#") {
            let rest = self.rest();
            self.position += rest.find('\n').unwrap_or(rest.len());
        }
    }

    /// Skips blanks, comments and line ends, and reads the here-documents that start there.
    pub(super) fn lines(&mut self) -> Parsed<()> {
        loop {
            self.blanks();
            if !self.eat("\n") {
                return Ok(());
            }
            for document in std::mem::take(&mut self.waiting) {
                self.here_document(&document)?;
            }
        }
    }

    // Lists and pipelines.

    pub(super) fn list(&mut self, stop: Stop) -> Parsed<()> {
        self.lists += 1;
        let result = self.list_inside(stop);
        self.lists -= 1;
        result
    }

    fn list_inside(&mut self, stop: Stop) -> Parsed<()> {
        loop {
            self.lines()?;
            if self.at_stop(stop) {
                return Ok(());
            }
            if self.peek().is_none() {
                return Err(Problem::Unclosed("a compound command"));
            }
            let place = self.parts.place;
            self.and_or()?;
            self.blanks();
            let defined = self.defined.take();
            if let Some(name) = defined.filter(|_| !self.at("&")) {
                // Only what surely runs, and in this very shell, surely defines.
                if self.lists == 1 && matches!(stop, Stop::End) && self.is_outermost() {
                    let from = self.parts.commands.len();
                    self.parts.sure_functions.entry(name).or_insert(from);
                }
            }
            if self.at_stop(stop) || self.at("\n") {
                continue;
            }
            if self.at(";;") || self.at(";&") {
                return Err(self.unexpected());
            }
            if self.eat("&") {
                self.parts.hazards.insert(Hazard::Background);
                self.parts.place = place;
            } else if !self.eat(";") {
                return Err(self.unexpected());
            }
        }
    }

    pub(super) fn at_stop(&self, stop: Stop) -> bool {
        match stop {
            Stop::End => self.peek().is_none(),
            Stop::Bracket => self.at(")"),
            Stop::CaseItem => self.at(";;") || self.at(";&") || self.at_word(&["esac"]),
            Stop::Words(words) => self.at_word(words),
        }
    }

    pub(super) fn and_or(&mut self) -> Parsed<()> {
        self.pipeline()?;
        let first = self.defined.take();
        loop {
            self.blanks();
            if !(self.eat("&&") || self.eat("||")) {
                self.defined = first;
                return Ok(());
            }
            self.lines()?;
            self.pipeline()?;
        }
    }

    pub(super) fn pipeline(&mut self) -> Parsed<()> {
        let mut is_timed = false;
        loop {
            self.blanks();
            let word = self.plain_word();
            if word == "!" {
                self.position += 1;
            } else if word == "time" {
                is_timed = true;
                self.position += 4;
                self.blanks();
                if self.at_word(&["-p"]) {
                    self.position += 2;
                    self.blanks();
                }
                if self.at_word(&["--"]) {
                    self.position += 2;
                }
            } else {
                break;
            }
        }
        // After `time` some versions of bash do not know their own keywords in a substitution, and
        // end it at the first bracket of a `case`.
        if is_timed && self.substitutions > 0 && !self.at_simple() {
            return Err(Problem::Unsupported("such a `time` in a substitution"));
        }
        let place = self.parts.place;
        let mut is_piped = false;
        loop {
            self.defined = None;
            self.command()?;
            self.blanks();
            let is_last = self.at("||") || !(self.eat("|&") || self.eat("|"));
            is_piped |= !is_last;
            if is_piped {
                self.parts.place = place;
                self.defined = None;
            }
            if is_last {
                return Ok(());
            }
            self.lines()?;
        }
    }

    /// Notes that a function has just been read.
    pub(super) fn define(&mut self, name: &str) {
        self.parts.functions.insert(name.to_owned());
        self.defined = Some(name.to_owned());
    }

    fn is_outermost(&self) -> bool {
        self.depth == 0 && self.origin == Origin::Line
    }

    /// Reads a command substitution after its opening bracket.
    pub(super) fn substitution(&mut self) -> Parsed<()> {
        // Bodies of here-documents that wait outside would be read inside by some shells.
        let outside = std::mem::take(&mut self.waiting);
        let (commands, documents) = self.parts.read;
        let start = self.position;
        self.substitutions += 1;
        let list = self.returning(|parser| parser.deeper(|parser| parser.list(Stop::Bracket)));
        self.substitutions -= 1;
        list?;
        if !self.eat(")") {
            return Err(Problem::Unclosed("a substitution"));
        }
        if !self.waiting.is_empty() {
            return Err(Problem::Unclosed("a here-document"));
        }
        // Bash takes a substitution apart, writes it anew and reads that; with a here-document in it
        // what comes after may be lost or become words of what is before.
        if self.parts.read.1 > documents && self.parts.read.0 > commands + 1 {
            return Err(Problem::Unsupported(
                "a here-document beside other commands in a substitution",
            ));
        }
        if !outside.is_empty() && self.since(start).contains('\n') {
            return Err(Problem::Unsupported("a here-document around a line end"));
        }
        self.waiting = outside;
        Ok(())
    }

    /// Tells whether the body of a here-document starts at the next line end.
    pub(super) const fn waits_for_here_document(&self) -> bool {
        !self.waiting.is_empty()
    }
}

pub(super) const fn ends_word(c: char) -> bool {
    matches!(
        c,
        ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')'
    )
}

/// Checks whether a backslash before a line end stands between characters that could be one operator,
/// such as `<<` and `-`: the shell drops both before it looks for operators.
fn continues_an_operator(source: &str) -> bool {
    let mut rest = source;
    while let Some((before, after)) = rest.split_once("\\\n") {
        let after = after.trim_start_matches("\\\n");
        rest = after;
        let is_dollar = before.ends_with('$');
        let is_operator = before.ends_with(['<', '>', '&', '|', ';', '(', ')'])
            && after.starts_with(['<', '>', '&', '|', ';', '(', ')', '-']);
        if is_dollar || is_operator {
            return true;
        }
    }
    false
}

pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Adds a piece, joining texts.
pub(super) fn push_text(word: &mut Word, text: &str) {
    if let Some(Piece::Text(last)) = word.pieces.last_mut() {
        last.push_str(text);
    } else {
        word.pieces.push(Piece::Text(text.to_owned()));
    }
}

/// Adds an unknown piece.
pub(super) fn push_unknown(word: &mut Word, unknown: Unknown) {
    word.pieces.push(Piece::Unknown(unknown));
}
