//! Which words of a command are paths that it reads.

use super::{
    Analysis, Command, Nature, Part, Piece, Subcommand, Touched, Unknown, Word,
    arguments::after,
    git, is_git,
    programs::{NO_PATHS, READERS, Reader},
};

impl Analysis {
    /// The paths that a command of this index reads, as far as its words are paths. For a program
    /// that is not known these are all its words.
    pub(crate) fn read_by(&self, index: usize) -> Vec<Touched> {
        let Some(command) = self.commands().get(index) else {
            return Vec::new();
        };
        let words = match command.nature {
            Nature::Plain | Nature::Opaque(_) => paths(command),
            // What they run is among the commands of the line.
            Nature::Transparent | Nature::Launcher | Nature::Carrier => Vec::new(),
        };
        let touched = |word| Touched {
            part: Part::Command(index),
            word,
            base: None,
            place: command.place,
            is_deep: false,
        };
        words.into_iter().map(touched).collect()
    }

    /// The folder in which a command runs.
    pub(crate) fn here(&self, index: usize) -> Touched {
        Touched {
            part: Part::Command(index),
            word: Word::text("."),
            base: None,
            place: self.commands().get(index).and_then(|command| command.place),
            is_deep: false,
        }
    }

    /// Every path that a word of a command may be, whatever the program takes it for.
    pub(crate) fn named_by(&self, index: usize) -> Vec<Touched> {
        let Some(command) = self.commands().get(index) else {
            return Vec::new();
        };
        let words = command.arguments().iter().flat_map(|word| {
            let parts = [attached(word), value(word), behind_colon(word)];
            std::iter::once(word.clone()).chain(parts.into_iter().flatten())
        });
        let touched = |word| Touched {
            part: Part::Command(index),
            word,
            base: None,
            place: command.place,
            is_deep: false,
        };
        words.map(touched).collect()
    }
}

/// The value of a short option in the same word: `x` of `-fx`.
fn attached(word: &Word) -> Option<Word> {
    let text = word.prefix();
    let is_short = text.starts_with('-') && !text.starts_with("--");
    let letter = text.chars().nth(1).filter(|_| is_short)?;
    let rest = after(word, text.get(..1 + letter.len_utf8())?)?;
    (!rest.pieces.is_empty()).then_some(rest)
}

/// What stands behind the first `=`.
fn value(word: &Word) -> Option<Word> {
    let at = word.prefix().find('=')?;
    after(word, word.prefix().get(..=at)?)
}

/// What stands behind the last `:`, as in `git show HEAD:path`.
fn behind_colon(word: &Word) -> Option<Word> {
    let at = word.prefix().rfind(':')?;
    after(word, word.prefix().get(..=at)?)
}

/// The words of a command that are paths.
fn paths(command: &Command) -> Vec<Word> {
    let Some(program) = command.program() else {
        return Vec::new();
    };
    let name = program.rsplit('/').next().unwrap_or_default();
    if NO_PATHS.contains(&name) {
        return Vec::new();
    }
    if is_git(command) {
        return git_paths(command);
    }
    if name == "cd" && command.arguments().is_empty() {
        return vec![Word::unknown("~", Unknown::Tilde)];
    }
    if name == "find" {
        return find_paths(command.arguments());
    }
    let reader = READERS.iter().find(|reader| reader.names.contains(&name));
    operands(command.arguments(), reader.unwrap_or(&READER_OF_ALL))
}

const READER_OF_ALL: Reader = Reader {
    names: &[],
    texts: 0,
    valued: "",
    long_valued: &[],
    replacing: &[],
};

fn operands(arguments: &[Word], reader: &Reader) -> Vec<Word> {
    let mut found = Vec::new();
    let is_replaced = |word: &Word| {
        let text = word.prefix();
        reader.replacing.iter().any(|option| {
            if option.starts_with("--") {
                text.starts_with(option)
            } else {
                is_cluster_with(text, option.chars().nth(1), reader)
            }
        })
    };
    let mut texts = if arguments.iter().any(is_replaced) {
        0
    } else {
        reader.texts
    };
    let mut words = arguments.iter();
    let mut ended = false;
    while let Some(word) = words.next() {
        let text = word.prefix();
        if ended || !text.starts_with('-') || text == "-" && word.literal().is_some() {
            if texts > 0 {
                texts -= 1;
            } else {
                found.push(word.clone());
            }
            continue;
        }
        if word.literal() == Some("--") {
            ended = true;
            continue;
        }
        if text.starts_with("--") {
            let name = text.split('=').next().unwrap_or_default();
            let is_text = reader.long_valued.contains(&name);
            match (is_text, name.len() < text.len()) {
                (true, false) => {
                    words.next();
                }
                (false, true) => found.extend(value(word)),
                (true, true) | (false, false) => {}
            }
            continue;
        }
        // The first letter that takes a value ends the letters, and paths begin with other signs
        // where they matter.
        let letters = text.get(1..).unwrap_or_default();
        let end = letters.find(|c: char| !c.is_ascii_alphanumeric());
        let flags = letters
            .get(..end.unwrap_or(letters.len()))
            .unwrap_or_default();
        match flags.find(|letter| reader.valued.contains(letter)) {
            Some(at) => {
                let is_last = letters.len() == at + 1 && word.literal().is_some();
                if is_last {
                    words.next();
                }
            }
            None if end.is_some() || word.literal().is_none() => {
                found.extend(after(word, text.get(..=flags.len()).unwrap_or_default()));
            }
            None => {}
        }
    }
    found
}

/// Checks whether a word of short options has this letter before one that takes a text.
fn is_cluster_with(text: &str, letter: Option<char>, reader: &Reader) -> bool {
    let Some(letters) = text.strip_prefix('-').filter(|rest| !rest.starts_with('-')) else {
        return false;
    };
    let end = letters.find(|c| reader.valued.contains(c) && Some(c) != letter);
    let letters = letters
        .get(..end.unwrap_or(letters.len()))
        .unwrap_or_default();
    letter.is_some_and(|letter| letters.contains(letter))
}

/// What `find` walks through or compares with.
fn find_paths(arguments: &[Word]) -> Vec<Word> {
    const COMPARES: &[&str] = &["-newer", "-anewer", "-cnewer", "-samefile", "-files0-from"];
    let is_start = |word: &&Word| !word.prefix().starts_with(['-', '(', '!']);
    let options = |word: &&Word| matches!(word.literal(), Some("-H" | "-L" | "-P"));
    let first = arguments.iter().take_while(options).count();
    let rest = arguments.get(first..).unwrap_or_default();
    let mut found: Vec<Word> = rest.iter().take_while(is_start).cloned().collect();
    let pairs = arguments.iter().zip(arguments.iter().skip(1));
    let compared = pairs.filter(|(option, _)| {
        option
            .literal()
            .is_some_and(|text| COMPARES.contains(&text))
    });
    found.extend(compared.map(|(_, value)| value.clone()));
    found
}

/// Words of a git command that leave the repository are the ones that matter: others are names of
/// revisions as well as of files.
fn git_paths(command: &Command) -> Vec<Word> {
    const TEXTS: &[&str] = &[
        "--author",
        "--committer",
        "--format",
        "--grep",
        "--pretty",
        "--since",
        "--until",
        "--date",
        "--after",
        "--before",
    ];
    let Subcommand::At { index, .. } = git::skip_globals(&command.words) else {
        return Vec::new();
    };
    let name = command.words.get(index).and_then(Word::literal);
    let arguments = command.words.get(index + 1..).unwrap_or_default();
    // The first operand of `grep` is a pattern, and settings and revisions are no files.
    let mut texts = usize::from(name == Some("grep"));
    if matches!(
        name,
        Some("config" | "rev-parse" | "branch" | "tag" | "remote" | "stash")
    ) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let text = word.prefix();
        if !text.starts_with('-') {
            if texts > 0 {
                texts -= 1;
                continue;
            }
            found.push(word.clone());
            found.extend(behind_colon(word));
            continue;
        }
        if matches!(word.literal(), Some("-e" | "-S" | "-G")) {
            texts = 0;
            words.next();
            continue;
        }
        let name = text.split('=').next().unwrap_or_default();
        if text.starts_with("--") {
            if TEXTS.contains(&name) {
                if name.len() == text.len() {
                    words.next();
                }
            } else {
                found.extend(value(word));
            }
        } else if !text.starts_with("-S") && !text.starts_with("-G") && !text.starts_with("-L") {
            found.extend(attached(word));
        }
    }
    found
}

/// Checks whether a word may be any path, and not only one below a folder that is known.
pub(crate) fn is_open(word: &Word) -> bool {
    let climbs = word.pieces.iter().any(|piece| match piece {
        Piece::Text(text) => text.contains(".."),
        Piece::Unknown(_) => false,
    });
    climbs
        || word.unknowns().any(|unknown| match unknown {
            Unknown::Glob | Unknown::Number | Unknown::Tilde | Unknown::Process => false,
            Unknown::Brace | Unknown::Variable { .. } | Unknown::Output { .. } => true,
        })
}
