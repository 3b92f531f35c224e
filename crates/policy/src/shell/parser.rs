//! The grammar of a shell line, by recursive descent over its text.
//!
//! One pass, linear in the length, depth counted. It must be at least as narrow as the shell: what
//! it accepts it has to read as the shell does, and all else is a [`Problem`].

use super::{
    MAX_DEPTH, MAX_LENGTH,
    parts::{
        Assignment, Command, Direction, Hazard, Nature, Origin, Parts, Piece, Problem, Redirect,
        Unknown, Word,
    },
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
struct HereDocument {
    delimiter: String,
    strips_tabs: bool,
    expands: bool,
}

/// Where a list of commands ends.
#[derive(Clone, Copy)]
enum Stop {
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
    waiting: Vec<HereDocument>,
}

const COMPOUND: &[&str] = &[
    "{", "if", "while", "until", "for", "case", "select", "function", "coproc", "[[",
];
const OUT_OF_PLACE: &[&str] = &[
    "}", "then", "do", "done", "fi", "else", "elif", "esac", "]]",
];

impl<'a> Parser<'a> {
    pub(super) fn new(source: &'a str, parts: &'a mut Parts, depth: usize, origin: Origin) -> Self {
        Self {
            source,
            position: 0,
            depth,
            parts,
            origin,
            waiting: Vec::new(),
        }
    }

    pub(super) fn whole(&mut self) -> Parsed<()> {
        // The shell drops NUL; what is left then is another line than the one looked at.
        if self.source.contains('\0') {
            return Err(Problem::Unsupported("a NUL character"));
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

    /// The run of characters up to the next blank or operator, which is a word if it has no quotes.
    fn plain_word(&self) -> &'a str {
        let rest = self.rest();
        let end = rest.find(ends_word).unwrap_or(rest.len());
        rest.get(..end).unwrap_or_default()
    }

    fn at_word(&self, words: &[&str]) -> bool {
        let word = self.plain_word();
        words.contains(&word)
    }

    fn eat_word(&mut self, word: &'static str) -> Parsed<()> {
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
    fn lines(&mut self) -> Parsed<()> {
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

    fn list(&mut self, stop: Stop) -> Parsed<()> {
        loop {
            self.lines()?;
            if self.at_stop(stop) {
                return Ok(());
            }
            if self.peek().is_none() {
                return Err(Problem::Unclosed("a compound command"));
            }
            self.and_or()?;
            self.blanks();
            if self.at_stop(stop) || self.at("\n") {
                continue;
            }
            if self.at(";;") || self.at(";&") {
                return Err(self.unexpected());
            }
            if self.eat("&") {
                self.parts.hazards.insert(Hazard::Background);
            } else if !self.eat(";") {
                return Err(self.unexpected());
            }
        }
    }

    fn at_stop(&self, stop: Stop) -> bool {
        match stop {
            Stop::End => self.peek().is_none(),
            Stop::Bracket => self.at(")"),
            Stop::CaseItem => self.at(";;") || self.at(";&") || self.at_word(&["esac"]),
            Stop::Words(words) => self.at_word(words),
        }
    }

    fn and_or(&mut self) -> Parsed<()> {
        self.pipeline()?;
        loop {
            self.blanks();
            if !(self.eat("&&") || self.eat("||")) {
                return Ok(());
            }
            self.lines()?;
            self.pipeline()?;
        }
    }

    fn pipeline(&mut self) -> Parsed<()> {
        loop {
            self.blanks();
            if self.at_word(&["!"]) {
                self.position += 1;
            } else if self.at_word(&["time"]) {
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
        loop {
            self.command()?;
            self.blanks();
            if self.at("||") || !(self.eat("|&") || self.eat("|")) {
                return Ok(());
            }
            self.lines()?;
        }
    }

    // Commands.

    fn command(&mut self) -> Parsed<()> {
        if self.at("(") || self.at_word(COMPOUND) {
            return self.deeper(Self::compound);
        }
        if self.at_word(OUT_OF_PLACE) {
            return Err(self.unexpected());
        }
        self.simple()
    }

    fn compound(&mut self) -> Parsed<()> {
        let keyword = self.plain_word();
        self.position += keyword.len();
        match keyword {
            "" => {
                if self.eat("((") {
                    // A shell without arithmetic commands runs this as a subshell in a subshell.
                    self.parts.hazards.insert(Hazard::Dialect);
                    self.arithmetic(false)?;
                } else if self.eat("(") {
                    self.list(Stop::Bracket)?;
                    self.eat(")");
                } else {
                    return Err(self.unexpected());
                }
            }
            "{" => {
                self.list(Stop::Words(&["}"]))?;
                self.eat_word("}")?;
            }
            "if" => self.if_clause()?,
            "while" | "until" => {
                self.list(Stop::Words(&["do"]))?;
                self.do_group()?;
            }
            "for" => self.for_clause()?,
            "case" => self.case_clause()?,
            "[[" => self.test()?,
            "function" => {
                self.blanks();
                let name = self.plain_word();
                self.position += name.len();
                self.blanks();
                if self.eat("(") {
                    self.blanks();
                    if !self.eat(")") {
                        return Err(self.unexpected());
                    }
                }
                return self.function(name);
            }
            "select" => return Err(Problem::Unsupported("select")),
            _ => return Err(Problem::Unsupported("coproc")),
        }
        self.redirects()
    }

    fn if_clause(&mut self) -> Parsed<()> {
        loop {
            self.list(Stop::Words(&["then"]))?;
            self.eat_word("then")?;
            self.list(Stop::Words(&["elif", "else", "fi"]))?;
            if self.at_word(&["elif"]) {
                self.position += 4;
                continue;
            }
            if self.at_word(&["else"]) {
                self.position += 4;
                self.list(Stop::Words(&["fi"]))?;
            }
            return self.eat_word("fi");
        }
    }

    fn do_group(&mut self) -> Parsed<()> {
        self.eat_word("do")?;
        self.list(Stop::Words(&["done"]))?;
        self.eat_word("done")
    }

    fn for_clause(&mut self) -> Parsed<()> {
        self.blanks();
        if self.eat("((") {
            self.arithmetic(true)?;
        } else {
            let name = self.plain_word();
            if !is_name(name) {
                return Err(self.unexpected());
            }
            self.position += name.len();
            let start = self.position;
            self.lines()?;
            let mut values = Vec::new();
            if self.at_word(&["in"]) {
                self.position += 2;
                loop {
                    self.blanks();
                    if self.at_end_of_words() {
                        break;
                    }
                    let value = self.word()?;
                    self.parts.assign(&value);
                    values.push(value);
                }
            } else {
                self.parts.tainted = true;
            }
            self.assignment_command(name, values, self.since(start).trim());
        }
        self.blanks();
        self.eat(";");
        self.lines()?;
        if self.at_word(&["{"]) {
            self.position += 1;
            self.list(Stop::Words(&["}"]))?;
            return self.eat_word("}");
        }
        self.do_group()
    }

    /// Notes a variable that the line itself sets, so that it is judged like any assignment.
    fn assignment_command(&mut self, name: &str, values: Vec<Word>, raw: &str) {
        let raw = format!("{name} {raw}");
        self.parts.commands.push(Command {
            text: raw.clone(),
            assignments: vec![Assignment {
                name: name.to_owned(),
                values,
                raw,
            }],
            words: Vec::new(),
            origin: self.origin,
            nature: Nature::Plain,
        });
    }

    fn case_clause(&mut self) -> Parsed<()> {
        self.blanks();
        self.word()?;
        self.eat_word("in")?;
        loop {
            self.lines()?;
            if self.at_word(&["esac"]) {
                self.position += 4;
                return Ok(());
            }
            self.eat("(");
            loop {
                self.blanks();
                self.word()?;
                self.blanks();
                if self.eat(")") {
                    break;
                }
                if !self.eat("|") {
                    return Err(self.unexpected());
                }
            }
            self.list(Stop::CaseItem)?;
            let _ = self.eat(";;&") || self.eat(";;") || self.eat(";&");
        }
    }

    fn function(&mut self, name: &str) -> Parsed<()> {
        if name.is_empty() || name.contains(['\'', '"', '\\', '$', '`', '=']) {
            return Err(Problem::Unsupported("a function with such a name"));
        }
        self.parts.functions.insert(name.to_owned());
        self.parts.hazards.insert(Hazard::Function);
        self.lines()?;
        if self.at("(") || self.at_word(COMPOUND) {
            self.deeper(Self::compound)
        } else {
            Err(self.unexpected())
        }
    }

    /// The inside of `[[ ]]`.
    fn test(&mut self) -> Parsed<()> {
        let mut words: Vec<Word> = Vec::new();
        loop {
            self.lines()?;
            if self.at_word(&["]]"]) {
                self.position += 2;
                self.test_operands(&words);
                return Ok(());
            }
            if self.peek().is_none() {
                return Err(Problem::Unclosed("[["));
            }
            if self.eat("&&") || self.eat("||") || self.eat("(") || self.eat(")") {
                self.parts.hazards.insert(Hazard::Dialect);
                self.test_operands(&words);
                words.clear();
            } else if !self.at("<(") && !self.at(">(") && (self.eat("<") || self.eat(">")) {
                self.parts.hazards.insert(Hazard::Dialect);
            } else if words.last().and_then(Word::literal) == Some("=~") {
                words.push(self.regex()?);
            } else {
                words.push(self.word()?);
            }
        }
    }

    /// Notes which operands of a test the shell evaluates.
    fn test_operands(&mut self, words: &[Word]) {
        for (index, word) in words.iter().enumerate() {
            let operands = match word.literal() {
                Some("-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge") => {
                    [index.checked_sub(1), Some(index + 1)]
                }
                Some("-v" | "-R") => [None, Some(index + 1)],
                _ => [None, None],
            };
            for operand in operands
                .into_iter()
                .flatten()
                .filter_map(|index| words.get(index))
            {
                let is_number = operand
                    .literal()
                    .is_some_and(|text| text.chars().all(|c| c.is_ascii_digit() || c == '-'));
                if !is_number {
                    self.parts.evaluates = true;
                    self.parts.assign(operand);
                }
            }
        }
    }

    fn at_end_of_words(&self) -> bool {
        match self.peek() {
            None | Some('\n' | ';' | '|' | ')') => true,
            Some('&') => !self.at("&>"),
            Some(_) => false,
        }
    }

    fn simple(&mut self) -> Parsed<()> {
        let start = self.position;
        let mut end = start;
        let mut assignments = Vec::new();
        let mut words: Vec<Word> = Vec::new();
        let mut redirected = false;
        let mut detaches = false;
        let index = self.parts.commands.len();
        loop {
            self.blanks();
            if self.at_end_of_words() {
                break;
            }
            let both = self.at("&>");
            if self.redirect()? {
                redirected = true;
                detaches |= both;
            } else if self.at("(") {
                let [name] = words.as_slice() else {
                    return Err(self.unexpected());
                };
                self.position += 1;
                self.blanks();
                if !self.eat(")") || redirected || !assignments.is_empty() {
                    return Err(Problem::Unexpected("(".to_owned()));
                }
                let name = name.raw.clone();
                return self.function(&name);
            } else if words.is_empty()
                && let Some(assignment) = self.assignment()?
            {
                assignments.push(assignment);
            } else {
                // A shell without `&>` ends the command at the `&` and starts another here.
                if detaches {
                    self.parts.hazards.insert(Hazard::Dialect);
                }
                words.push(self.word()?);
            }
            end = self.position;
        }
        if words.is_empty() && assignments.is_empty() && !redirected {
            return Err(self.unexpected());
        }
        if words.is_empty() && assignments.is_empty() {
            return Ok(());
        }
        let text = self.source.get(start..end).unwrap_or_default().trim();
        // Its substitutions were found first; a reader expects the command before them.
        let command = Command {
            text: text.to_owned(),
            assignments,
            words,
            origin: self.origin,
            nature: Nature::Plain,
        };
        self.parts.commands.insert(index, command);
        Ok(())
    }

    fn assignment(&mut self) -> Parsed<Option<Assignment>> {
        let start = self.position;
        let rest = self.rest();
        let name_end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(rest.len());
        let name = rest.get(..name_end).unwrap_or_default();
        if !is_name(name) {
            return Ok(None);
        }
        let mut after = rest.get(name_end..).unwrap_or_default();
        if let Some(subscript) = after.strip_prefix('[') {
            let index_end = subscript
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .unwrap_or(subscript.len());
            let simple = subscript
                .get(index_end..)
                .and_then(|tail| tail.strip_prefix(']'))
                .filter(|tail| tail.starts_with('=') || tail.starts_with("+="));
            match simple {
                Some(tail) => {
                    self.parts.evaluates = true;
                    after = tail;
                }
                None if self.plain_word().contains("]=") || self.plain_word().contains("]+=") => {
                    return Err(Problem::Unsupported("an array subscript"));
                }
                // The subscript may go on beyond a blank, which only an assignment could do.
                None if !self.plain_word().contains(']') => {
                    return Err(Problem::Unsupported("an array subscript"));
                }
                None => return Ok(None),
            }
        }
        let Some(value) = after.strip_prefix("+=").or_else(|| after.strip_prefix('=')) else {
            return Ok(None);
        };
        self.position += rest.len() - value.len();
        let values = if self.eat("(") {
            let values = self.elements()?;
            if !self.at_word_end() {
                return Err(Problem::Unsupported(
                    "an array with something right after it",
                ));
            }
            values
        } else if self.at_word_end() {
            vec![Word::default()]
        } else {
            vec![self.word()?]
        };
        for value in &values {
            self.parts.assign(value);
        }
        Ok(Some(Assignment {
            name: name.to_owned(),
            values,
            raw: self.since(start).to_owned(),
        }))
    }

    fn elements(&mut self) -> Parsed<Vec<Word>> {
        let mut values = Vec::new();
        loop {
            self.lines()?;
            if self.eat(")") {
                return Ok(values);
            }
            if self.peek().is_none() {
                return Err(Problem::Unclosed("an array"));
            }
            if self.at("[") {
                return Err(Problem::Unsupported("an array subscript"));
            }
            values.push(self.word()?);
        }
    }

    pub(super) fn at_word_end(&self) -> bool {
        self.peek().is_none_or(ends_word) && !self.at("<(") && !self.at(">(")
    }

    // Redirections.

    fn redirects(&mut self) -> Parsed<()> {
        loop {
            self.blanks();
            if !self.redirect()? {
                return Ok(());
            }
        }
    }

    /// Reads one redirection, if there is one.
    fn redirect(&mut self) -> Parsed<bool> {
        let start = self.position;
        let rest = self.rest();
        if let Some(name) = rest.strip_prefix('{')
            && let after =
                name.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "_[]@*$".contains(c))
            && (after.starts_with("}<") || after.starts_with("}>"))
        {
            return Err(Problem::Unsupported("a redirection that names a variable"));
        }
        let operator = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        if rest.starts_with("&>") {
            self.position += 2;
            self.eat(">");
            return self.redirect_to(start, Direction::Write);
        }
        let is_process = operator.starts_with("<(") || operator.starts_with(">(");
        if !operator.starts_with(['<', '>']) || (is_process && operator.len() == rest.len()) {
            return Ok(false);
        }
        if is_process {
            return Err(self.unexpected());
        }
        self.position += rest.len() - operator.len();
        if self.eat("<<<") {
            return self.redirect_to(start, Direction::Internal);
        }
        if self.eat("<<") {
            let strips_tabs = self.eat("-");
            return self.here_operator(start, strips_tabs);
        }
        if self.at(">&") || self.at("<&") {
            let writes = self.at(">");
            self.position += 2;
            self.blanks();
            let word = self.plain_word();
            let number = word.strip_suffix('-').unwrap_or(word);
            let copies = !word.is_empty() && number.chars().all(|c| c.is_ascii_digit());
            let direction = if copies || !writes {
                Direction::Internal
            } else {
                Direction::Write
            };
            self.redirect_to(start, direction)?;
            // Bash expands such a target once more after its quotes are gone.
            let target = self.parts.redirects.last().map(|last| &last.target);
            let is_plain = target.and_then(Word::literal).is_some_and(|text| {
                text.chars()
                    .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-'))
            });
            if !is_plain {
                self.parts.hazards.insert(Hazard::Evaluation);
            }
            return Ok(true);
        }
        let direction = if self.eat("<>") || self.eat(">>") || self.eat(">|") || self.eat(">") {
            Direction::Write
        } else {
            self.eat("<");
            Direction::Read
        };
        self.redirect_to(start, direction)
    }

    fn redirect_to(&mut self, start: usize, direction: Direction) -> Parsed<bool> {
        self.blanks();
        if self.at_word_end() {
            return Err(Problem::Missing("the target of a redirection"));
        }
        let target = self.word()?;
        self.note_redirect(start, direction, target);
        Ok(true)
    }

    fn note_redirect(&mut self, start: usize, direction: Direction, target: Word) {
        let parent = match self.origin {
            Origin::Line => None,
            Origin::Words { parent, .. } | Origin::Text { parent } => Some(parent),
        };
        self.parts.redirects.push(Redirect {
            text: self.since(start).to_owned(),
            direction,
            target,
            parent,
        });
    }

    fn here_operator(&mut self, start: usize, strips_tabs: bool) -> Parsed<bool> {
        self.blanks();
        let raw = self.plain_word();
        let quoted = ['\'', '"'].into_iter().find_map(|quote| {
            raw.strip_prefix(quote)
                .and_then(|inner| inner.strip_suffix(quote))
        });
        let escaped = raw.strip_prefix('\\');
        let delimiter = quoted.or(escaped).unwrap_or(raw);
        let is_simple = !delimiter.is_empty()
            && delimiter
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+' | '!'));
        if !is_simple {
            return Err(Problem::Unsupported("such an end mark of a here-document"));
        }
        self.position += raw.len();
        self.waiting.push(HereDocument {
            delimiter: delimiter.to_owned(),
            strips_tabs,
            expands: delimiter.len() == raw.len(),
        });
        self.note_redirect(start, Direction::Internal, Word::text(raw));
        Ok(true)
    }

    /// Reads the body of a here-document, which starts here.
    fn here_document(&mut self, document: &HereDocument) -> Parsed<()> {
        let start = self.position;
        loop {
            let rest = self.rest();
            if rest.is_empty() {
                return Err(Problem::Unclosed("a here-document"));
            }
            let line = rest.split('\n').next().unwrap_or_default();
            let end = self.position;
            self.position += line.len();
            self.eat("\n");
            let text = if document.strips_tabs {
                line.trim_start_matches('\t')
            } else {
                line
            };
            if text == document.delimiter {
                let body = self.source.get(start..end).unwrap_or_default();
                return if document.expands {
                    self.here_body(body)
                } else {
                    Ok(())
                };
            }
            if document.expands && line.ends_with('\\') {
                return Err(Problem::Unsupported("a continued line in a here-document"));
            }
        }
    }

    fn here_body(&mut self, body: &str) -> Parsed<()> {
        if self.depth >= MAX_DEPTH {
            return Err(Problem::TooDeep(MAX_DEPTH));
        }
        let mut inner = Parser::new(body, self.parts, self.depth + 1, self.origin);
        let mut word = Word::default();
        inner.quoted_text(&mut word, false)
    }

    /// Reads a command substitution after its opening bracket.
    pub(super) fn substitution(&mut self) -> Parsed<()> {
        // Bodies of here-documents that wait outside would be read inside by some shells.
        let outside = std::mem::take(&mut self.waiting);
        let start = self.position;
        self.deeper(|parser| parser.list(Stop::Bracket))?;
        if !self.eat(")") {
            return Err(Problem::Unclosed("a substitution"));
        }
        if !self.waiting.is_empty() {
            return Err(Problem::Unclosed("a here-document"));
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
