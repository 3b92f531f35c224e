//! What paths in shell lines may mean.

use std::{
    borrow::Cow,
    path::{Component, Path, PathBuf},
};

use crate::{
    call::Kind,
    command_rule::{Hit, Line, shown},
    path_rule::{PathPattern, Reading},
    shell::{Direction, Part, Piece, Unknown, Word},
};

/// What relative paths in shell lines may mean.
#[derive(Clone, Copy)]
pub(crate) struct Places<'a> {
    /// The folders in which a shell may be.
    pub(crate) roots: &'a [PathBuf],
    pub(crate) home: Option<&'a Path>,
}

impl<'a> Places<'a> {
    /// Tells whether a folder from which a path may start holds this text.
    pub(crate) fn hold(self, text: &str) -> bool {
        let roots = self.roots.iter().map(PathBuf::as_path);
        roots
            .chain(self.home)
            .any(|place| place.to_str().is_none_or(|place| place.contains(text)))
    }

    /// The paths that a text in a shell line may mean.
    fn meant(self, text: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
        let roots = self.roots.iter().map(PathBuf::as_path);
        let below_roots = roots.map(move |root| root.join(text));
        let rest = text
            .strip_prefix('~')
            .filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let rest = rest.map(|rest| rest.trim_start_matches('/'));
        let below_home = self.home.zip(rest).map(|(home, rest)| home.join(rest));
        std::iter::once(PathBuf::from(text))
            .chain(below_roots)
            .chain(below_home)
    }
}

/// Tells whether a file may be touched as far as the borders go.
pub(crate) fn is_inside(path: &Path, roots: &[PathBuf]) -> bool {
    let climbs = path.components().any(|part| part == Component::ParentDir);
    roots.is_empty() || (!climbs && roots.iter().any(|root| path.starts_with(root)))
}

/// Tells whether a shell line names a path that a rule about files speaks of.
///
/// It sees only what stands in the line: a bell, not a lock.
pub(crate) fn path_hit(
    line: &Line<'_>,
    specifier: &str,
    kind: Kind,
    places: Places<'_>,
    among: &dyn Fn(Part) -> bool,
) -> Hit {
    let wanted = match kind {
        Kind::Read => Direction::Read,
        Kind::Write | Kind::Command | Kind::Host | Kind::Grant => Direction::Write,
    };
    let pattern = PathPattern::new(specifier);
    let needle = pattern.needle();
    let is_nowhere = needle.is_some_and(|needle| !line.may_name(needle) && !places.hold(needle));
    if is_nowhere {
        return Hit::Never;
    }
    let is_far = |text: &str| {
        needle.is_some_and(|needle| {
            !text.contains(needle) && !text.contains("..") && !places.hold(needle)
        })
    };
    let matches = |text: &str| {
        if is_far(text) {
            return false;
        }
        let mut meant = places.meant(text);
        !text.is_empty() && meant.any(|path| pattern.matches(&path, Reading::Wide))
    };
    let names = |word: &Word| matches(&known(word));
    for (index, redirect) in line.analysis.redirects().iter().enumerate() {
        if !among(Part::Redirect(index)) {
            continue;
        }
        let names_path = redirect.direction == wanted && !redirect.is_harmless()
            || (redirect.direction == Direction::Read && wanted == Direction::Read);
        if names_path && names(&redirect.target) {
            return Hit::Surely(shown(&redirect.text));
        }
    }
    if kind != Kind::Read {
        return Hit::Never;
    }
    for (index, command) in line.analysis.commands().iter().enumerate() {
        if !among(Part::Command(index)) {
            continue;
        }
        for word in command.arguments() {
            let value = word.literal().and_then(|text| text.split_once('='));
            if names(word) || value.is_some_and(|(_, value)| matches(value)) {
                return Hit::Surely(shown(&command.text));
            }
        }
    }
    Hit::Never
}

/// The path that a word is, as far as it is known: all of it, or else the folder in which it begins.
fn known(word: &Word) -> Cow<'_, str> {
    let is_own_home = word.raw == "~" || word.raw.starts_with("~/");
    let (start, pieces) = match word.pieces.as_slice() {
        [Piece::Unknown(Unknown::Tilde), rest @ ..] if is_own_home => ("~", rest),
        pieces => ("", pieces),
    };
    match pieces {
        [Piece::Text(text)] if start.is_empty() => Cow::Borrowed(text),
        [Piece::Text(text)] => format!("{start}{text}").into(),
        [Piece::Text(text), ..] => {
            let folder = text.rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{start}{folder}").into()
        }
        [] | [Piece::Unknown(_), ..] => start.into(),
    }
}
