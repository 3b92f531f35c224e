//! Redirections and the bodies of here-documents.

use super::{
    MAX_DEPTH,
    parser::{HereDocument, Parsed, Parser},
    parts::{Direction, Hazard, Origin, Problem, Redirect, Word},
};

impl Parser<'_> {
    pub(super) fn redirects(&mut self) -> Parsed<()> {
        loop {
            self.blanks();
            if !self.redirect()? {
                return Ok(());
            }
        }
    }

    /// Reads one redirection, if there is one.
    pub(super) fn redirect(&mut self) -> Parsed<bool> {
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
            // Bash takes `>&-` for the operator, and what follows it for a word of its own.
            if self.at("-") && self.plain_word() != "-" {
                return Err(Problem::Unsupported("a word right behind `&-`"));
            }
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

    pub(super) fn redirect_to(&mut self, start: usize, direction: Direction) -> Parsed<bool> {
        self.blanks();
        if self.at_word_end() {
            return Err(Problem::Missing("the target of a redirection"));
        }
        let target = self.word()?;
        self.note_redirect(start, direction, target);
        Ok(true)
    }

    pub(super) fn note_redirect(&mut self, start: usize, direction: Direction, target: Word) {
        let parent = match self.origin {
            Origin::Line => None,
            Origin::Words { parent, .. } | Origin::Text { parent } => Some(parent),
        };
        self.parts.redirects.push(Redirect {
            text: self.since(start).to_owned(),
            direction,
            target,
            parent,
            place: self.parts.place,
        });
    }

    pub(super) fn here_operator(&mut self, start: usize, strips_tabs: bool) -> Parsed<bool> {
        // See `Parser::substitution`.
        if self.operands > 0 {
            return Err(Problem::Unsupported("a here-document in an expansion"));
        }
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
        self.parts.read.1 += 1;
        self.waiting.push(HereDocument {
            delimiter: delimiter.to_owned(),
            strips_tabs,
            expands: delimiter.len() == raw.len(),
        });
        self.note_redirect(start, Direction::Internal, Word::text(raw));
        Ok(true)
    }

    /// Reads the body of a here-document, which starts here.
    pub(super) fn here_document(&mut self, document: &HereDocument) -> Parsed<()> {
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

    pub(super) fn here_body(&mut self, body: &str) -> Parsed<()> {
        if self.depth >= MAX_DEPTH {
            return Err(Problem::TooDeep(MAX_DEPTH));
        }
        let mut inner = Parser::new(body, self.parts, self.depth + 1, self.origin);
        let mut word = Word::default();
        inner.quoted_text(&mut word, false)
    }
}
