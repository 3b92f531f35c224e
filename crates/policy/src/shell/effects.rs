//! What a line is known to do: what it reads and writes, whom it talks to, what it leaves unknown.

use std::{
    borrow::Cow,
    path::{Component, Path, PathBuf},
};

use super::{Analysis, Command, Direction, Nature, Piece, Redirect, Unknown, Word, looked::Looked};

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
    /// Whether what is below the path may be touched too.
    pub(crate) is_deep: bool,
}

impl Touched {
    /// Checks whether the path starts from the folder in which the line starts.
    pub(crate) const fn is_where_line_starts(&self) -> bool {
        self.base.is_none() && self.place.is_none()
    }
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
            let touched = self.redirected(part, redirect);
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
                    is_deep: true,
                }
                .look();
            }
        }
        effects
    }

    /// What a redirection touches.
    pub(crate) fn redirected(&self, part: Part, redirect: &Redirect) -> Touched {
        Touched {
            part,
            word: redirect.target.clone(),
            base: None,
            place: redirect.place,
            is_deep: false,
        }
    }

    /// Where a path that the line names is. `None` where that is not known.
    pub(crate) fn resolve(&self, touched: &Touched, folders: &Folders<'_>) -> Option<Resolved> {
        let start = || folders.at(touched.place);
        let Some(base) = &touched.base else {
            return resolve_word(&touched.word, &start, folders.home);
        };
        let base = || {
            resolve_word(base, &start, folders.home)
                .filter(|base| base.is_whole)
                .map(|base| Cow::Owned(base.path))
        };
        resolve_word(&touched.word, &base, folders.home)
    }

    /// The folders that the line goes to.
    pub(crate) fn folders<'a>(
        &self,
        directory: Option<&Path>,
        home: Option<&'a Path>,
    ) -> Folders<'a> {
        let mut folders = Folders {
            start: directory.map(normal),
            home,
            entered: Vec::with_capacity(self.parts.places.len()),
        };
        // Each is gone to from one that comes before it.
        for (before, word) in &self.parts.places {
            let from = || folders.at(*before);
            let folder = resolve_word(word, &from, home)
                .filter(|found| found.is_whole)
                .map(|found| found.path);
            folders.entered.push(folder);
        }
        folders
    }
}

/// The folders that a line goes to, as far as they are known.
#[derive(Debug)]
pub(crate) struct Folders<'a> {
    start: Option<PathBuf>,
    home: Option<&'a Path>,
    /// One for each place of the line.
    entered: Vec<Option<PathBuf>>,
}

impl Folders<'_> {
    /// The folder of a place, or the one in which the line begins.
    fn at(&self, place: Option<usize>) -> Option<Cow<'_, Path>> {
        let folder = match place {
            None => self.start.as_deref(),
            Some(place) => self.entered.get(place)?.as_deref(),
        };
        folder.map(Cow::Borrowed)
    }
}

/// Resolves a word as a path, as far as it is known.
///
/// The folder that it starts from is handed in without `.` and `..`, so that only what the word
/// adds is looked at: a line may go deeper and deeper.
fn resolve_word<'a>(
    word: &Word,
    from: &dyn Fn() -> Option<Cow<'a, Path>>,
    home: Option<&Path>,
) -> Option<Resolved> {
    let (start, pieces) = match word.pieces.as_slice() {
        [Piece::Unknown(Unknown::Tilde), rest @ ..] => {
            let is_own = word.raw == "~" || word.raw.starts_with("~/");
            (Some(normal(home.filter(|_| is_own)?)), rest)
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
    let (mut path, text) = match start {
        Some(start) if text.is_empty() => (start, text),
        // What follows a value directly is part of its name.
        Some(start) => (start, text.strip_prefix('/')?),
        None if text.starts_with('/') => (PathBuf::new(), text),
        None => (from()?.into_owned(), text),
    };
    go(&mut path, Path::new(text));
    let is_deep = || path.components().nth(2).is_some();
    (is_whole || is_deep()).then_some(Resolved { path, is_whole })
}

/// The value of the variable with which a word begins, if it is one that is known.
fn variable<'a>(
    word: &Word,
    from: &dyn Fn() -> Option<Cow<'a, Path>>,
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
        "HOME" if ends => home.map(normal),
        "PWD" if ends => from().map(Cow::into_owned),
        _ => None,
    }
}

/// A path with `.` and `..` resolved as text.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::with_capacity(path.as_os_str().len());
    go(&mut normal, path);
    normal
}

/// Goes from a folder to where a path leads, `.` and `..` resolved as text.
fn go(folder: &mut PathBuf, path: &Path) {
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                folder.pop();
            }
            Component::RootDir | Component::Prefix(_) | Component::Normal(_) => {
                folder.push(component);
            }
        }
    }
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
