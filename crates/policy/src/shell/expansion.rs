//! The inside of words: quotes, escapes and everything that starts with `$`.

use std::collections::BTreeSet;

use super::{
    parser::{Parsed, Parser, ends_word, is_name, push_text, push_unknown},
    parts::{Assignment, Command, Hazard, Nature, Origin, Problem, Unknown, Word},
};

/// Where a word has a brace that may start a brace expansion.
#[derive(Default)]
struct Braces {
    /// How many pieces come before the first open brace, and how much of the last one.
    opened: Option<(usize, usize)>,
    divided: bool,
    closed: bool,
}

impl Parser<'_> {
    /// Reads one word; there must be one.
    pub(super) fn word(&mut self) -> Parsed<Word> {
        self.word_or_regex(false)
    }

    /// Reads the right side of `=~`, in which brackets and bars are ordinary.
    pub(super) fn regex(&mut self) -> Parsed<Word> {
        self.word_or_regex(true)
    }

    fn word_or_regex(&mut self, is_regex: bool) -> Parsed<Word> {
        let start = self.position;
        let mut word = Word::default();
        let mut braces = Braces::default();
        let mut open_brackets = 0_usize;
        let mut has_class = None;
        if self.eat("~") {
            let rest = self.rest();
            let end = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+')))
                .unwrap_or(rest.len());
            self.position += end;
            push_unknown(&mut word, Unknown::Tilde);
        }
        while let Some(c) = self.peek() {
            match c {
                '|' | '(' | ')' if is_regex && (c != ')' || open_brackets > 0) => {
                    match c {
                        '(' => open_brackets += 1,
                        ')' => open_brackets -= 1,
                        _ => {}
                    }
                    self.next();
                    push_text(&mut word, c.encode_utf8(&mut [0; 4]));
                }
                '<' | '>' if self.at("<(") || self.at(">(") => {
                    self.position += 2;
                    self.substitution()?;
                    push_unknown(&mut word, Unknown::Process);
                }
                _ if ends_word(c) => break,
                '\\' => {
                    self.next();
                    match self.next() {
                        None => return Err(Problem::Unclosed("an escape")),
                        Some('\n') if self.at_word_end() => break,
                        Some('\n') => return Err(Problem::Unsupported("a continued word")),
                        Some(c) => push_text(&mut word, c.encode_utf8(&mut [0; 4])),
                    }
                }
                '\'' => self.single_quoted(&mut word)?,
                '"' => {
                    self.next();
                    push_text(&mut word, "");
                    self.quoted_text(&mut word, true)?;
                }
                '$' => self.dollar(&mut word, false)?,
                '`' => self.backquoted(&mut word, false)?,
                '*' | '?' => {
                    self.next();
                    push_unknown(&mut word, Unknown::Glob);
                }
                '[' => {
                    self.next();
                    // Looked for once in a word, lest many brackets cost a look each.
                    let is_pattern = *has_class.get_or_insert_with(|| {
                        let rest = self.rest();
                        let end = rest.find(ends_word).unwrap_or(rest.len());
                        rest.get(..end).unwrap_or_default().contains(']')
                    });
                    if is_pattern {
                        push_unknown(&mut word, Unknown::Glob);
                    } else {
                        push_text(&mut word, "[");
                    }
                }
                _ => self.plain_text(&mut word, &mut braces),
            }
        }
        let raw = self.since(start);
        if raw.is_empty() {
            return Err(self.unexpected());
        }
        if raw.contains('\n') && self.waits_for_here_document() {
            return Err(Problem::Unsupported("a here-document around a line end"));
        }
        raw.clone_into(&mut word.raw);
        if braces.divided && braces.closed {
            expand_braces(&mut word, &braces);
        }
        // What comes first in a word matters, and an empty text is nothing.
        if word.pieces.len() > 1 {
            word.pieces.retain(|piece| match piece {
                super::Piece::Text(text) => !text.is_empty(),
                super::Piece::Unknown(_) => true,
            });
        }
        Ok(word)
    }

    /// Reads a run of ordinary characters, or one brace.
    fn plain_text(&mut self, word: &mut Word, braces: &mut Braces) {
        let rest = self.rest();
        if rest.starts_with('{') {
            if braces.opened.is_none() {
                let text = word.pieces.last().map_or(0, |piece| match piece {
                    super::Piece::Text(text) => text.len(),
                    super::Piece::Unknown(_) => 0,
                });
                braces.opened = Some((word.pieces.len(), text));
            }
            self.position += 1;
            push_text(word, "{");
            return;
        }
        if rest.starts_with('}') {
            braces.closed |= braces.divided;
            self.position += 1;
            push_text(word, "}");
            return;
        }
        let end = rest
            .find(|c: char| {
                ends_word(c)
                    || matches!(
                        c,
                        '\\' | '\'' | '"' | '$' | '`' | '*' | '?' | '[' | '{' | '}'
                    )
            })
            .unwrap_or(rest.len());
        let text = rest.get(..end).unwrap_or_default();
        if braces.opened.is_some() && (text.contains(',') || text.contains("..")) {
            braces.divided = true;
        }
        self.position += end;
        push_text(word, text);
    }

    fn single_quoted(&mut self, word: &mut Word) -> Parsed<()> {
        self.next();
        let rest = self.rest();
        let Some(end) = rest.find('\'') else {
            return Err(Problem::Unclosed("a single quote"));
        };
        push_text(word, rest.get(..end).unwrap_or_default());
        self.position += end + 1;
        Ok(())
    }

    /// Reads text as between double quotes: up to the quote, or for the body of a here-document
    /// up to the end.
    pub(super) fn quoted_text(&mut self, word: &mut Word, until_quote: bool) -> Parsed<()> {
        loop {
            let rest = self.rest();
            let end = rest
                .find(|c: char| matches!(c, '\\' | '$' | '`') || (c == '"' && until_quote))
                .unwrap_or(rest.len());
            push_text(word, rest.get(..end).unwrap_or_default());
            self.position += end;
            match self.peek() {
                None if until_quote => return Err(Problem::Unclosed("a double quote")),
                None => return Ok(()),
                Some('"') => {
                    self.next();
                    return Ok(());
                }
                Some('$') => self.dollar(word, true)?,
                Some('`') => self.backquoted(word, true)?,
                Some(_) => {
                    self.next();
                    match self.peek() {
                        Some(c @ ('$' | '`' | '\\')) => {
                            self.next();
                            push_text(word, c.encode_utf8(&mut [0; 4]));
                        }
                        Some('"') if until_quote => {
                            self.next();
                            push_text(word, "\"");
                        }
                        Some('\n') => {
                            self.next();
                        }
                        _ => push_text(word, "\\"),
                    }
                }
            }
        }
    }

    fn backquoted(&mut self, word: &mut Word, quoted: bool) -> Parsed<()> {
        self.next();
        let mut inner = String::new();
        loop {
            match self.next() {
                None => return Err(Problem::Unclosed("a backquote")),
                Some('`') => break,
                Some('\\') => match self.next() {
                    None => return Err(Problem::Unclosed("a backquote")),
                    Some(c @ ('`' | '\\' | '$')) => inner.push(c),
                    Some('"') if quoted => {
                        return Err(Problem::Unsupported("an escaped quote in backquotes"));
                    }
                    // Bash drops both even in single quotes there; other shells keep them.
                    Some('\n') => {
                        return Err(Problem::Unsupported("an escaped line end in backquotes"));
                    }
                    Some(c) => {
                        inner.push('\\');
                        inner.push(c);
                    }
                },
                Some(c) => inner.push(c),
            }
        }
        if self.depth >= super::MAX_DEPTH {
            return Err(Problem::TooDeep(super::MAX_DEPTH));
        }
        let (depth, origin) = (self.depth + 1, self.origin);
        self.returning(|parser| Parser::new(&inner, parser.parts, depth, origin).whole())?;
        push_unknown(word, Unknown::Output { quoted });
        Ok(())
    }

    /// Reads what starts with `$`.
    fn dollar(&mut self, word: &mut Word, quoted: bool) -> Parsed<()> {
        self.next();
        if self.eat("((") {
            self.deeper(|parser| parser.arithmetic(false))?;
            push_unknown(word, Unknown::Number);
            return Ok(());
        }
        if self.eat("(") {
            self.substitution()?;
            push_unknown(word, Unknown::Output { quoted });
            return Ok(());
        }
        if self.eat("{") {
            return self.deeper(|parser| parser.parameter(word, quoted));
        }
        if self.at("\\\n") {
            return Err(Problem::Unsupported("a continued `$`"));
        }
        match self.peek() {
            Some('[') => Err(Problem::Unsupported("`$[`")),
            Some('"') if !quoted => Err(Problem::Unsupported("a translated string")),
            Some('\'') if !quoted => self.ansi_quoted(word),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                self.eat_name();
                if self.at("\\\n") {
                    return Err(Problem::Unsupported("a continued name"));
                }
                push_unknown(word, Unknown::Variable { quoted });
                Ok(())
            }
            Some('#' | '?' | '$' | '!') => {
                self.next();
                push_unknown(word, Unknown::Number);
                Ok(())
            }
            Some('@') => {
                self.next();
                push_unknown(word, Unknown::Variable { quoted: false });
                Ok(())
            }
            Some(c) if c.is_ascii_digit() || matches!(c, '*' | '-') => {
                self.next();
                push_unknown(word, Unknown::Variable { quoted });
                Ok(())
            }
            _ => {
                push_text(word, "$");
                Ok(())
            }
        }
    }

    fn eat_name(&mut self) -> &str {
        let rest = self.rest();
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(rest.len());
        self.position += end;
        rest.get(..end).unwrap_or_default()
    }

    fn ansi_quoted(&mut self, word: &mut Word) -> Parsed<()> {
        self.next();
        let mut text = String::new();
        // `sh -c` may start a shell without these quotes: there `$` is text, and escapes are not read.
        let mut is_known = !matches!(self.origin, Origin::Text { .. });
        loop {
            match self.next() {
                None => return Err(Problem::Unclosed("a quote")),
                Some('\'') => break,
                Some('\\') => match self.next() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    // A shell without this kind of quotes ends the string here.
                    Some('\'') => return Err(Problem::Unsupported("an escaped quote in `$'`")),
                    _ => is_known = false,
                },
                Some(c) => text.push(c),
            }
        }
        if is_known {
            push_text(word, &text);
        } else {
            // It may be any text, as the output of a command may.
            push_unknown(word, Unknown::Output { quoted: true });
        }
        Ok(())
    }

    /// Reads a parameter expansion after `${`.
    fn parameter(&mut self, word: &mut Word, quoted: bool) -> Parsed<()> {
        if self.at("#") && !self.at("#}") {
            self.next();
            self.parameter_name()?;
            self.subscript()?;
            return if self.eat("}") {
                push_unknown(word, Unknown::Number);
                Ok(())
            } else {
                Err(Problem::Unsupported("such an expansion"))
            };
        }
        if self.at("!") && !self.at("!}") {
            self.next();
            // The value is read as the name of another variable, with whatever it holds.
            self.parts.evaluates = true;
        }
        let mut splits = self.parameter_name()?;
        splits |= self.subscript()?;
        push_unknown(
            word,
            Unknown::Variable {
                quoted: quoted && !splits,
            },
        );
        if self.eat("}") || self.eat("*}") || self.eat("@}") {
            return Ok(());
        }
        if self.eat("@") {
            let known = self
                .next()
                .is_some_and(|c| matches!(c, 'Q' | 'E' | 'U' | 'L' | 'u' | 'a' | 'A' | 'K' | 'k'));
            return if known && self.eat("}") {
                Ok(())
            } else {
                Err(Problem::Unsupported("such an expansion"))
            };
        }
        for operator in [":-", "-", ":+", "+", ":?", "?"] {
            if self.eat(operator) {
                let mut value = Word::default();
                self.operand(&mut value, quoted)?;
                self.parts.assign(&value);
                word.pieces
                    .extend(value.unknowns().map(super::Piece::Unknown));
                return Ok(());
            }
        }
        if self.eat(":=") || self.eat("=") {
            return Err(Problem::Unsupported("an assignment in an expansion"));
        }
        if self.eat(":") {
            return self.offsets();
        }
        for operator in ["#", "%", "/", "^", ",", "~"] {
            if self.eat(operator) {
                let mut value = Word::default();
                self.operand(&mut value, quoted)?;
                self.parts.note_value(&value);
                return Ok(());
            }
        }
        Err(Problem::Unsupported("such an expansion"))
    }

    /// Reads the name in an expansion and tells whether it stands for several words.
    fn parameter_name(&mut self) -> Parsed<bool> {
        let rest = self.rest();
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        if digits > 0 {
            self.position += digits;
            return Ok(false);
        }
        if let Some(c) = self.peek()
            && matches!(c, '@' | '*' | '#' | '?' | '-' | '$' | '!')
        {
            self.next();
            return Ok(c == '@');
        }
        if is_name(self.eat_name()) {
            Ok(false)
        } else {
            Err(Problem::Unsupported("such an expansion"))
        }
    }

    /// Reads a subscript, if there is one, and tells whether it stands for several words.
    fn subscript(&mut self) -> Parsed<bool> {
        if !self.eat("[") {
            return Ok(false);
        }
        if self.eat("@]") || self.eat("*]") {
            return Ok(true);
        }
        let _ = self.eat("$") || self.eat("-");
        let has_name = self.eat_name().chars().any(|c| !c.is_ascii_digit());
        self.parts.evaluates |= has_name;
        if self.eat("]") {
            Ok(false)
        } else {
            Err(Problem::Unsupported("an array subscript"))
        }
    }

    /// Reads the offset and length of a substring.
    fn offsets(&mut self) -> Parsed<()> {
        let start = self.position;
        loop {
            if self.at("}") {
                let text = self.since(start).to_owned();
                self.next();
                self.arithmetic_assignments(&text, &text);
                return Ok(());
            }
            match self.next() {
                Some(c) if c.is_ascii_alphabetic() || matches!(c, '_' | '$') => {
                    self.parts.evaluates = true;
                }
                Some(c) if c.is_ascii_digit() || matches!(c, ' ' | ':' | '+' | '-' | '*') => {}
                _ => return Err(Problem::Unsupported("such an expansion")),
            }
        }
    }

    /// Reads the operand of an expansion up to its closing brace.
    fn operand(&mut self, word: &mut Word, quoted: bool) -> Parsed<()> {
        self.operands += 1;
        let result = self.operand_inside(word, quoted);
        self.operands -= 1;
        result
    }

    fn operand_inside(&mut self, word: &mut Word, quoted: bool) -> Parsed<()> {
        loop {
            match self.peek() {
                None => return Err(Problem::Unclosed("an expansion")),
                Some('}') => {
                    self.next();
                    return Ok(());
                }
                // Shells do not agree on what quotes mean here when there are quotes around.
                Some('\'' | '"') if quoted => {
                    return Err(Problem::Unsupported("quotes in a quoted expansion"));
                }
                Some('\'') => self.single_quoted(word)?,
                Some('"') => {
                    self.next();
                    self.quoted_text(word, true)?;
                }
                Some('$') => self.dollar(word, quoted)?,
                Some('`') => self.backquoted(word, quoted)?,
                Some('\\') => {
                    self.next();
                    match self.next() {
                        None | Some('\n') => {
                            return Err(Problem::Unsupported("a continued expansion"));
                        }
                        Some(c) => push_text(word, c.encode_utf8(&mut [0; 4])),
                    }
                }
                Some('{' | '\n') => return Err(Problem::Unsupported("such an expansion")),
                Some('<' | '>') if self.at("<(") || self.at(">(") => {
                    return Err(Problem::Unsupported(
                        "a process substitution in an expansion",
                    ));
                }
                Some(c) => {
                    self.next();
                    push_text(word, c.encode_utf8(&mut [0; 4]));
                }
            }
        }
    }

    /// Reads arithmetic up to its closing double bracket.
    ///
    /// Only what cannot be mistaken for commands is arithmetic here.
    pub(super) fn arithmetic(&mut self, is_loop: bool) -> Parsed<()> {
        let start = self.position;
        let mut open = 0_usize;
        // What the expression says itself: `$` stands for each expansion in it.
        let mut own = String::new();
        loop {
            if open == 0 && self.at("))") {
                let text = self.since(start).trim().to_owned();
                self.position += 2;
                self.arithmetic_assignments(&own, &text);
                return Ok(());
            }
            match self.peek() {
                None => return Err(Problem::Unclosed("arithmetic")),
                Some('$') => {
                    let mut value = Word::default();
                    self.dollar(&mut value, true)?;
                    self.parts.evaluates = true;
                    self.parts.assign(&value);
                    own.push('$');
                    continue;
                }
                Some('(') => open += 1,
                Some(')') if open > 0 => open -= 1,
                Some(c) if c.is_ascii_alphabetic() || c == '_' => self.parts.evaluates = true,
                Some(c) if c.is_ascii_digit() => {}
                Some(
                    ' ' | '\t' | '+' | '-' | '*' | '/' | '%' | '<' | '>' | '=' | '!' | '&' | '|'
                    | '^' | '~' | '?' | ':' | ',',
                ) => {}
                Some(';') if is_loop => {}
                Some(_) => return Err(Problem::Unsupported("such arithmetic")),
            }
            own.extend(self.next());
        }
    }

    /// Notes the variables that an arithmetic expression may assign to, so that each is judged like
    /// any assignment.
    pub(super) fn arithmetic_assignments(&mut self, expression: &str, text: &str) {
        if !assigns(expression) {
            return;
        }
        if expression.contains('$') {
            // The value may be the name that is assigned to.
            self.parts.hazards.insert(Hazard::Evaluation);
        }
        for name in names(expression) {
            self.parts.commands.push(Command {
                text: text.to_owned(),
                assignments: vec![Assignment {
                    name: name.to_owned(),
                    values: vec![Word::unknown(text, Unknown::Number)],
                    raw: text.to_owned(),
                }],
                words: Vec::new(),
                origin: self.origin,
                nature: Nature::Plain,
                place: self.parts.place,
            });
        }
    }
}

/// Checks whether an arithmetic expression assigns: `=`, `op=`, `++` or `--`.
pub(super) fn assigns(expression: &str) -> bool {
    let text = expression.as_bytes();
    let at = |index: Option<usize>| index.and_then(|index| text.get(index)).copied();
    expression.contains("++")
        || expression.contains("--")
        || text.iter().enumerate().any(|(index, byte)| {
            let before = at(index.checked_sub(1));
            let is_comparison = at(Some(index + 1)) == Some(b'=')
                || matches!(before, Some(b'=' | b'!'))
                || matches!(before, Some(b'<' | b'>')) && before != at(index.checked_sub(2));
            *byte == b'=' && !is_comparison
        })
}

/// The names in an arithmetic expression, each once.
pub(super) fn names(expression: &str) -> BTreeSet<&str> {
    expression
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .map(|word| word.trim_start_matches(|c: char| c.is_ascii_digit()))
        .filter(|word| is_name(word))
        .collect()
}

/// Keeps of a word with a brace expansion what is certain: the text before it, and that what
/// comes after may split.
fn expand_braces(word: &mut Word, braces: &Braces) {
    let Some((pieces, text)) = braces.opened else {
        return;
    };
    let after: Vec<_> = word
        .pieces
        .iter()
        .skip(pieces)
        .filter(|piece| matches!(piece, super::Piece::Unknown(_)))
        .cloned()
        .collect();
    word.pieces.truncate(pieces);
    if let Some(super::Piece::Text(last)) = word.pieces.last_mut() {
        last.truncate(text);
    }
    if matches!(word.pieces.last(), Some(super::Piece::Text(last)) if last.is_empty()) {
        word.pieces.pop();
    }
    push_unknown(word, Unknown::Brace);
    word.pieces.extend(after);
}
