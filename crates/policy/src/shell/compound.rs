//! Compound commands: groups, loops, conditions, functions and `[[ ]]`.

use super::{
    parser::{Parsed, Parser, Stop, is_name},
    parts::{Assignment, Command, Hazard, Nature, Problem, Word},
};

const COMPOUND: &[&str] = &[
    "{", "if", "while", "until", "for", "case", "select", "function", "coproc", "[[",
];
const OUT_OF_PLACE: &[&str] = &[
    "}", "then", "do", "done", "fi", "else", "elif", "esac", "]]",
];

/// Checks whether a shell takes this word for a keyword where a command is expected.
pub(super) fn is_keyword(word: &str) -> bool {
    COMPOUND.contains(&word) || OUT_OF_PLACE.contains(&word) || matches!(word, "!" | "time")
}

impl Parser<'_> {
    pub(super) fn command(&mut self) -> Parsed<()> {
        self.parts.read.0 += 1;
        let word = self.plain_word();
        if self.at("(") || COMPOUND.contains(&word) {
            return self.deeper(Self::compound);
        }
        if OUT_OF_PLACE.contains(&word) {
            return Err(self.unexpected());
        }
        self.simple()
    }

    /// Tells whether a simple command comes, and no keyword.
    pub(super) fn at_simple(&self) -> bool {
        let word = self.plain_word();
        !word.is_empty() && !COMPOUND.contains(&word) && !OUT_OF_PLACE.contains(&word)
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
                    self.returning(|parser| parser.list(Stop::Bracket))?;
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
            place: self.parts.place,
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

    pub(super) fn function(&mut self, name: &str) -> Parsed<()> {
        if name.is_empty() || name.contains(['\'', '"', '\\', '$', '`', '=']) {
            return Err(Problem::Unsupported("a function with such a name"));
        }
        self.parts.hazards.insert(Hazard::Function);
        self.lines()?;
        if self.at("(") || self.at_word(COMPOUND) {
            // Where it goes is known to nobody before it is called.
            self.returning(|parser| parser.deeper(Self::compound))?;
            self.define(name);
            Ok(())
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
}
