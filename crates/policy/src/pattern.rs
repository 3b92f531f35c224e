//! Patterns of rules for shell commands, compared word by word.
//!
//! `*` stands for anything, also for several words; ` *` or `:*` at the end also for nothing. A
//! blank separates words and never matches a blank inside one. Quotes keep blanks together, and
//! `\*` is a star. What a word becomes may be unknown: an allow rule has to match whatever it
//! becomes, a deny rule matters if it may match.

use std::path::Path;

use crate::shell::{Piece, Unknown, Word, normal};

/// One element of a pattern or of the text that it is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Char(char),
    /// The end of one word and the start of the next.
    Gap,
    /// Any text, in a pattern; a text that is not known, in a command.
    Any,
    /// In a command: words that are not known, perhaps none.
    Rest,
}

/// A compiled specifier.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    items: Vec<Item>,
    /// Whether more words may follow.
    open: bool,
    /// How many words come before the first star.
    literal_words: usize,
}

/// A command as patterns see it.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    items: Vec<Item>,
    has_unknown: bool,
}

/// Whether a pattern matches a command whose words may hold unknown text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Match {
    Never,
    Maybe,
    Always,
}

impl Pattern {
    /// Makes a pattern that matches just these words.
    pub(crate) fn exact(words: &[Word]) -> Self {
        Self {
            items: Subject::new(words.iter()).items,
            open: false,
            literal_words: words.len(),
        }
    }

    pub(crate) fn new(specifier: &str) -> Self {
        let specifier = specifier.trim();
        let (specifier, mut open) = match specifier.strip_suffix(":*") {
            Some(prefix) => (prefix.trim_end(), true),
            None => (specifier, false),
        };
        let mut items = Vec::new();
        let mut chars = specifier.chars().peekable();
        let mut quote = None;
        while let Some(c) = chars.next() {
            match c {
                '\\' if matches!(chars.peek(), Some('*' | '\\')) => {
                    items.extend(chars.next().map(Item::Char));
                }
                '*' => items.push(Item::Any),
                _ if quote == Some(c) => quote = None,
                '\'' | '"' if quote.is_none() && chars.clone().any(|later| later == c) => {
                    quote = Some(c);
                }
                ' ' | '\t' | '\n' if quote.is_none() => {
                    if items.last() != Some(&Item::Gap) {
                        items.push(Item::Gap);
                    }
                }
                c => items.push(Item::Char(c)),
            }
        }
        if items.ends_with(&[Item::Gap, Item::Any]) {
            items.truncate(items.len() - 2);
            open = true;
        }
        let before_star: Vec<_> = items
            .iter()
            .take_while(|item| **item != Item::Any)
            .collect();
        let gaps = before_star
            .iter()
            .filter(|item| ***item == Item::Gap)
            .count();
        let literal_words = if before_star.len() == items.len() {
            gaps + 1
        } else {
            gaps
        };
        Self {
            items,
            open,
            literal_words,
        }
    }

    /// Tells whether the pattern matches everything.
    pub(crate) fn is_everything(&self) -> bool {
        (self.items.is_empty() && self.open) || self.items == [Item::Any]
    }

    /// How many words of a command the pattern names; all of them if it has no star.
    pub(crate) fn named_words(&self) -> usize {
        let is_exact = !self.open && !self.items.contains(&Item::Any);
        if is_exact {
            usize::MAX
        } else {
            self.literal_words
        }
    }

    /// Returns whether a word after the program names this path by its own text: `/opt/**`, `../x`,
    /// `--output=/opt/a`. A star alone names nothing.
    pub(crate) fn names_path(&self, path: &str, folder: &Path, home: Option<&Path>) -> bool {
        let words = self.items.split(|item| *item == Item::Gap).skip(1);
        let mut candidates = words.flat_map(|word| {
            let value = word.iter().position(|item| *item == Item::Char('='));
            let value = value.and_then(|at| word.get(at + 1..));
            let attached = word
                .get(2..)
                .filter(|_| word.starts_with(&[Item::Char('-')]));
            [Some(word), value, attached].into_iter().flatten()
        });
        candidates.any(|word| names(word, path, folder, home))
    }

    /// Makes the name of the program lower case, as for a file system that ignores case.
    pub(crate) fn fold_program(mut self) -> Self {
        fold(&mut self.items);
        self
    }

    pub(crate) fn matches(&self, subject: &Subject) -> Match {
        if self.matches_surely(&subject.items) {
            Match::Always
        } else if subject.has_unknown && self.may_match(&subject.items) {
            Match::Maybe
        } else {
            Match::Never
        }
    }

    /// Compares with unknown text only ever matched by a star.
    fn matches_surely(&self, text: &[Item]) -> bool {
        let mut at = 0;
        let mut pattern_at = 0;
        // Where to go on if what follows the last star does not match.
        let mut retry: Option<(usize, usize)> = None;
        loop {
            let pattern_ended = pattern_at == self.items.len();
            let text_item = text.get(at);
            let may_go_on = self.open && matches!(text_item, Some(Item::Gap | Item::Rest));
            if pattern_ended && (text_item.is_none() || may_go_on) {
                return true;
            }
            match (self.items.get(pattern_at), text_item) {
                (Some(Item::Any), _) => {
                    retry = Some((pattern_at, at));
                    pattern_at += 1;
                }
                (Some(wanted), Some(found)) if wanted == found => {
                    pattern_at += 1;
                    at += 1;
                }
                _ => {
                    let Some((star, from)) = retry else {
                        return false;
                    };
                    if from >= text.len() {
                        return false;
                    }
                    retry = Some((star, from + 1));
                    pattern_at = star + 1;
                    at = from + 1;
                }
            }
        }
    }

    /// Compares with unknown text standing for anything.
    fn may_match(&self, text: &[Item]) -> bool {
        // reached[i]: the first i items of the pattern can match the text so far.
        let mut reached = vec![false; self.items.len() + 1];
        let mut done = false;
        if let Some(first) = reached.first_mut() {
            *first = true;
        }
        self.skip_stars(&mut reached);
        for item in text {
            done |= self.open && !matches!(item, Item::Char(_)) && at_end(&reached);
            if matches!(item, Item::Any | Item::Rest) {
                let mut any = false;
                for state in &mut reached {
                    any |= *state;
                    *state = any;
                }
                continue;
            }
            let mut next = vec![false; reached.len()];
            for (index, wanted) in self.items.iter().enumerate() {
                if !reached.get(index).copied().unwrap_or_default() {
                    continue;
                }
                let to = match wanted {
                    Item::Any => index,
                    Item::Char(_) | Item::Gap | Item::Rest if wanted == item => index + 1,
                    Item::Char(_) | Item::Gap | Item::Rest => continue,
                };
                if let Some(state) = next.get_mut(to) {
                    *state = true;
                }
            }
            reached = next;
            if !reached.contains(&true) {
                return done;
            }
            self.skip_stars(&mut reached);
        }
        done || at_end(&reached)
    }

    fn skip_stars(&self, reached: &mut [bool]) {
        for (index, item) in self.items.iter().enumerate() {
            if *item == Item::Any
                && reached.get(index).copied().unwrap_or_default()
                && let Some(state) = reached.get_mut(index + 1)
            {
                *state = true;
            }
        }
    }
}

fn at_end(reached: &[bool]) -> bool {
    reached.last().copied().unwrap_or_default()
}

fn fold(items: &mut [Item]) {
    for item in items {
        match item {
            Item::Char(c) => *c = c.to_ascii_lowercase(),
            Item::Gap | Item::Rest => break,
            Item::Any => {}
        }
    }
}

/// Returns whether these items are a path, perhaps with stars, that names the given one.
fn names(items: &[Item], path: &str, folder: &Path, home: Option<&Path>) -> bool {
    let known = items.iter().map_while(|item| match item {
        Item::Char(c) => Some(*c),
        Item::Gap | Item::Any | Item::Rest => None,
    });
    let known: String = known.collect();
    let rest = items.get(known.chars().count()..).unwrap_or_default();
    if known.is_empty() {
        return false;
    }
    let written = match (known.strip_prefix("~/"), home) {
        (Some(below), Some(home)) => home.join(below),
        (Some(_), None) => return false,
        (None, _) => folder.join(&known),
    };
    let Some(written) = written.to_str() else {
        return false;
    };
    // What stands before the last slash is whole; after it a star may go on with the name.
    let (start, name) = match written.rsplit_once('/') {
        Some(split) if !rest.is_empty() => split,
        Some(_) | None => (written, ""),
    };
    let start = normal(Path::new(&format!("{start}/")));
    let Some(start) = start.to_str() else {
        return false;
    };
    if rest.is_empty() {
        return start == path;
    }
    let start = format!("{}/{name}", start.trim_end_matches('/'));
    let pattern = Pattern {
        items: start
            .chars()
            .map(Item::Char)
            .chain(rest.iter().copied())
            .collect(),
        open: false,
        literal_words: 1,
    };
    let matches = |path: &str| {
        let text: Vec<Item> = path.chars().map(Item::Char).collect();
        pattern.matches_surely(&text)
    };
    matches(path) || matches(&format!("{path}/"))
}

impl Subject {
    pub(crate) fn new<'a>(words: impl Iterator<Item = &'a Word>) -> Self {
        let mut items = Vec::new();
        for (index, word) in words.enumerate() {
            if !word.pieces.is_empty() && word.pieces.iter().all(may_vanish) {
                items.push(Item::Rest);
                continue;
            }
            if index > 0 {
                items.push(Item::Gap);
            }
            for piece in &word.pieces {
                match piece {
                    Piece::Text(text) => items.extend(text.chars().map(Item::Char)),
                    Piece::Unknown(_) => items.push(Item::Any),
                }
            }
        }
        let has_unknown = items
            .iter()
            .any(|item| matches!(item, Item::Any | Item::Rest));
        Self { items, has_unknown }
    }

    /// Makes the name of the program lower case and takes the folder from it.
    pub(crate) fn fold_program(mut self) -> Self {
        let end = self
            .items
            .iter()
            .position(|item| matches!(item, Item::Gap | Item::Rest))
            .unwrap_or(self.items.len());
        let slash = self
            .items
            .iter()
            .take(end)
            .rposition(|item| *item == Item::Char('/'));
        if let Some(slash) = slash {
            self.items.drain(..=slash);
        }
        fold(&mut self.items);
        self
    }
}

/// Tells whether a piece may become no text at all, so that its word goes with it.
fn may_vanish(piece: &Piece) -> bool {
    match piece {
        Piece::Text(_) => false,
        Piece::Unknown(unknown) => match unknown {
            Unknown::Variable { quoted } | Unknown::Output { quoted } => !quoted,
            Unknown::Glob
            | Unknown::Brace
            | Unknown::Tilde
            | Unknown::Number
            | Unknown::Process => false,
        },
    }
}

/// Writes a shell line so that as a specifier it matches that line only.
pub(crate) fn escape(line: &str) -> String {
    line.replace('\\', "\\\\").replace('*', "\\*")
}

/// Gives the line that a specifier without stars stands for.
pub(crate) fn exact_line(specifier: &str) -> Option<String> {
    let specifier = specifier.trim();
    let mut line = String::with_capacity(specifier.len());
    let mut chars = specifier.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if matches!(chars.peek(), Some('*' | '\\')) => line.extend(chars.next()),
            '*' => return None,
            c => line.push(c),
        }
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::analyse;

    fn check(specifier: &str, line: &str) -> Match {
        let analysis = analyse(line);
        let command = analysis.commands().first().unwrap();
        Pattern::new(specifier).matches(&Subject::new(command.words.iter()))
    }

    #[test]
    fn patterns_speak_about_words() {
        use Match::{Always, Maybe, Never};
        let table = [
            ("git log", "git log", Always),
            ("git log", "git  log", Always),
            ("git log", "git log -n 1", Never),
            ("git log", "'git log'", Never),
            ("git log *", "git log", Always),
            ("git log *", "git log -n 1", Always),
            ("git log *", "git logs", Never),
            ("git log *", "git 'log x'", Never),
            ("git log*", "git logs -x", Always),
            ("git log:*", "git log -n 1", Always),
            ("npm run:*", "npm run build", Always),
            ("npm run:*", "npm running", Never),
            ("npm * test", "npm --silent test", Always),
            ("npm * test", "npm a b test", Always),
            ("npm * test", "npm test", Never),
            ("*", "anything at all", Always),
            ("rm *", "rm", Always),
            ("rm \\*", "rm '*'", Always),
            ("rm \\*", "rm x", Never),
            ("rm \\*", "rm *", Maybe),
            ("git commit -m \"a b\"", "git commit -m 'a b'", Always),
            ("git commit -m \"a b\"", "git commit -m a b", Never),
            ("git commit -m \"a *", "git commit -m '\"a' b", Always),
            ("git push *", "git $x", Maybe),
            ("git push *", "git log $x", Never),
            ("git push *", "git p$x", Maybe),
            ("git push *", "git x$x", Never),
            ("git push *", "git pu\"$x\"h origin", Maybe),
            ("git push *", "$x", Maybe),
            ("git push --force *", "git push $x", Maybe),
            ("git push *", "git push $x", Always),
            ("git * x", "git $x", Maybe),
            ("git log *", "git {log,push}", Maybe),
            ("echo *", "echo $x", Always),
            ("echo", "echo $x", Maybe),
            ("echo", "echo \"$x\"", Never),
            ("git push", "git $x push $y", Maybe),
            ("git push", "git $x pull $y", Never),
            ("", "echo", Never),
        ];
        for (specifier, line, expected) in table {
            assert_eq!(
                check(specifier, line),
                expected,
                "{specifier:?} on {line:?}"
            );
        }
    }

    #[test]
    fn named_words_count_up_to_the_first_star() {
        let table = [
            ("git log", usize::MAX),
            ("git log *", 2),
            ("git log:*", 2),
            ("git lo*", 1),
            ("*", 0),
            ("git * log", 1),
        ];
        for (specifier, named) in table {
            assert_eq!(
                Pattern::new(specifier).named_words(),
                named,
                "{specifier:?}"
            );
        }
    }

    #[test]
    fn an_escaped_line_stands_for_itself() {
        for line in ["rm *.txt", "grep 'a\\.b' x", "echo \\* \\\\", "npm run:*"] {
            assert_eq!(exact_line(&escape(line)).as_deref(), Some(line));
            assert_eq!(
                Pattern::new(&escape(line)).named_words(),
                usize::MAX,
                "{line}"
            );
        }
        assert_eq!(exact_line("rm *"), None);
    }
}
