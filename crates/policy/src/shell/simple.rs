//! Simple commands: assignments, words and redirections in a row.

use super::{
    compound::is_keyword,
    parser::{Parsed, Parser, ends_word, is_name},
    parts::{Assignment, Command, Hazard, Nature, Problem, Unknown, Word},
};

impl Parser<'_> {
    pub(super) fn at_end_of_words(&self) -> bool {
        match self.peek() {
            None | Some('\n' | ';' | '|' | ')') => true,
            Some('&') => !self.at("&>"),
            Some(_) => false,
        }
    }

    pub(super) fn simple(&mut self) -> Parsed<()> {
        let start = self.position;
        let mut end = start;
        let mut assignments = Vec::new();
        let mut words: Vec<Word> = Vec::new();
        let mut redirected = false;
        let mut detaches = false;
        let index = self.parts.commands.len();
        let place = self.parts.place;
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
                let word = self.word()?;
                if word.raw.contains("\\\n") && self.may_be_no_word(&word.raw, words.is_empty()) {
                    return Err(Problem::Unsupported(
                        "a line that continues within such a word",
                    ));
                }
                words.push(word);
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
            place,
        };
        self.follow(&command);
        self.parts.commands.insert(index, command);
        Ok(())
    }

    /// Checks whether a word with a line end in it, which the shell drops first, may be a keyword, an
    /// option of `time`, an assignment, the name of a function, or a part of the redirection behind it.
    fn may_be_no_word(&self, raw: &str, is_first: bool) -> bool {
        let joined = raw.replace("\\\n", "");
        let is_special =
            is_keyword(&joined) || joined.starts_with('-') || joined.contains(['=', '[']);
        (is_first && (is_special || self.at("("))) || self.at("<") || self.at(">")
    }

    /// Goes where `cd` goes.
    fn follow(&mut self, command: &Command) {
        let target = match (command.program(), command.arguments()) {
            (Some("cd"), []) => Word::unknown("~", Unknown::Tilde),
            (Some("cd" | "pushd"), [target]) if target.literal() != Some("-") => target.clone(),
            (Some("cd" | "pushd" | "popd"), _) => {
                Word::unknown("-", Unknown::Variable { quoted: true })
            }
            _ => return,
        };
        self.parts.places.push((command.place, target));
        self.parts.place = Some(self.parts.places.len() - 1);
    }

    pub(super) fn assignment(&mut self) -> Parsed<Option<Assignment>> {
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

    pub(super) fn elements(&mut self) -> Parsed<Vec<Word>> {
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
}
