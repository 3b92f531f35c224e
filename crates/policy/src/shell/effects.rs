//! What a line is known to do: what it reads and writes, whom it talks to, what it leaves unknown.

use std::path::{Component, Path, PathBuf};

use super::{Analysis, Command, Direction, Nature, Piece, Unknown, Word, looked::Looked};

/// What a line is known to do. What is not in it may be done all the same.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Effects {
    /// What it reads by redirection.
    pub reads: Vec<Touched>,
    /// What it writes by redirection or because a known program is told to.
    pub writes: Vec<Touched>,
    /// Whom it talks to.
    pub contacts: Vec<Contact>,
    /// The parts of it that cannot work inside of a sandbox.
    pub outsiders: Vec<Part>,
    /// Whether it may do more than this.
    pub is_unknown: bool,
}

/// A part of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// The command of this index.
    Command(usize),
    /// The redirection of this index.
    Redirect(usize),
}

/// A path that a line names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The part that touches it.
    pub part: Part,
    /// The path, as far as it is known.
    pub word: Word,
    /// The folder that it starts from, if the part itself names one.
    pub(super) base: Option<Word>,
    pub(super) place: Option<usize>,
}

/// A talk with another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    /// The part that talks.
    pub part: Part,
    /// The host, if the line names it.
    pub host: Option<String>,
    /// Whether it goes through an HTTP proxy where one is set.
    pub obeys_proxy: bool,
}

/// A path that a line touches, as far as it can be told before it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) path: PathBuf,
    /// Whether that is all of it, and not only the folder in which it begins.
    pub(crate) is_whole: bool,
}

impl Analysis {
    /// Tells what the line is known to do.
    #[must_use]
    pub fn effects(&self) -> Effects {
        let does_more = |command: &Command| match command.nature {
            Nature::Plain => !self.command_is_read_only(command),
            Nature::Opaque(_) => true,
            Nature::Transparent | Nature::Launcher | Nature::Carrier => false,
        };
        Effects {
            is_unknown: self.problem.is_some() || self.commands().iter().any(does_more),
            ..self.known_effects()
        }
    }

    /// The same without the question whether that is all.
    pub(crate) fn known_effects(&self) -> Effects {
        let mut effects = Effects::default();
        for (index, redirect) in self.redirects().iter().enumerate() {
            let part = Part::Redirect(index);
            if redirect.direction == Direction::Internal {
                continue;
            }
            if let Some(host) = socket(&redirect.target) {
                effects.contacts.push(Contact {
                    part,
                    host,
                    obeys_proxy: false,
                });
                continue;
            }
            let touched = Touched {
                part,
                word: redirect.target.clone(),
                base: None,
                place: redirect.place,
            };
            match redirect.direction {
                Direction::Read => effects.reads.push(touched),
                Direction::Write if !redirect.is_harmless() => effects.writes.push(touched),
                Direction::Write | Direction::Internal => {}
            }
        }
        for (index, command) in self.commands().iter().enumerate() {
            if !command.words.is_empty() {
                Looked {
                    command,
                    part: Part::Command(index),
                    effects: &mut effects,
                }
                .look();
            }
        }
        effects
    }

    /// Where a path that the line names is. `None` where that is not known.
    pub(crate) fn resolve(
        &self,
        touched: &Touched,
        directory: Option<&Path>,
        home: Option<&Path>,
    ) -> Option<Resolved> {
        let start = || self.place(touched.place, directory, home);
        let from = || match &touched.base {
            None => start(),
            Some(base) => resolve_word(base, &start, home)
                .filter(|base| base.is_whole)
                .map(|base| base.path),
        };
        resolve_word(&touched.word, &from, home)
    }

    /// The folder that the line has gone to.
    fn place(
        &self,
        place: Option<usize>,
        directory: Option<&Path>,
        home: Option<&Path>,
    ) -> Option<PathBuf> {
        // A line may go on and on, so this is no recursion.
        let mut steps = Vec::new();
        let mut at = place;
        while let Some((before, word)) = at.and_then(|at| self.parts.places.get(at)) {
            steps.push(word);
            at = *before;
        }
        let mut folder = directory.map(Path::to_owned);
        for word in steps.into_iter().rev() {
            let from = || folder.clone();
            folder = resolve_word(word, &from, home)
                .filter(|found| found.is_whole)
                .map(|found| found.path);
        }
        folder
    }
}

/// Resolves a word as a path, as far as it is known.
fn resolve_word(
    word: &Word,
    from: &dyn Fn() -> Option<PathBuf>,
    home: Option<&Path>,
) -> Option<Resolved> {
    let (start, pieces) = match word.pieces.as_slice() {
        [Piece::Unknown(Unknown::Tilde), rest @ ..] => {
            let is_own = word.raw == "~" || word.raw.starts_with("~/");
            (Some(home.filter(|_| is_own)?.to_owned()), rest)
        }
        [Piece::Unknown(Unknown::Variable { .. }), rest @ ..] => {
            (Some(variable(word, from, home)?), rest)
        }
        pieces => (None, pieces),
    };
    let (text, is_whole) = match pieces {
        [] => ("", true),
        [Piece::Text(text)] => (text.as_str(), true),
        [Piece::Text(text), ..] => (
            text.rsplit_once('/').map_or("", |(folder, _)| folder),
            false,
        ),
        [Piece::Unknown(_), ..] => return None,
    };
    // A folder that is only known because nothing is, such as `/` of `/$x`, is none.
    if text.is_empty() && (start.is_none() || !is_whole) {
        return None;
    }
    let path = match start {
        Some(start) if text.is_empty() => start,
        // What follows a value directly is part of its name.
        Some(start) => start.join(text.strip_prefix('/')?),
        None if text.starts_with('/') => PathBuf::from(text),
        None => from()?.join(text),
    };
    let path = normal(&path);
    let is_deep = path.components().count() > 2;
    (is_whole || is_deep).then_some(Resolved { path, is_whole })
}

/// The value of the variable with which a word begins, if it is one that is known.
fn variable(
    word: &Word,
    from: &dyn Fn() -> Option<PathBuf>,
    home: Option<&Path>,
) -> Option<PathBuf> {
    let raw = word.raw.trim_start_matches('"').strip_prefix('$')?;
    let (name, rest) = match raw.strip_prefix('{') {
        Some(inner) => inner.split_once('}')?,
        None => {
            let end = raw
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .unwrap_or(raw.len());
            raw.split_at_checked(end)?
        }
    };
    let ends = rest.is_empty() || rest.starts_with(['/', '"']);
    match name {
        "HOME" if ends => home.map(Path::to_owned),
        "PWD" if ends => from(),
        _ => None,
    }
}

/// A path with `.` and `..` resolved as text.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            Component::RootDir | Component::Prefix(_) | Component::Normal(_) => {
                normal.push(component);
            }
        }
    }
    normal
}

/// The host of a name below `/dev/tcp` or `/dev/udp`.
fn socket(target: &Word) -> Option<Option<String>> {
    let known = target.prefix();
    let rest = known
        .strip_prefix("/dev/tcp/")
        .or_else(|| known.strip_prefix("/dev/udp/"))?;
    let host = rest.split_once('/').map(|(host, _)| host.to_owned());
    Some(host.filter(|host| !host.is_empty()))
}
