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

/// A path that a part of a line touches, as far as that is known.
#[derive(Debug)]
pub(crate) struct TouchedPath {
    pub(crate) part: Part,
    /// What is known of it, and where that leads through a link.
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) extent: Extent,
    /// Whether it is certain that the part touches it, and not only that a word of it is this path.
    pub(crate) is_sure: bool,
    /// Whether what is not known of it stays inside of the folders that the line names.
    pub(crate) is_bounded: bool,
}

/// Which paths a word may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The path that is known.
    Whole,
    /// The path that is known, and what is below it.
    Deep,
    /// Something below the folder that is known.
    Below,
    /// Any path.
    Any,
}

/// Tells whether a shell line touches a path that a rule about files speaks of.
///
/// With a sandbox, what is not known before the line runs is left to the sandbox, which is given
/// the same rules.
pub(crate) fn path_hit(
    line: &Line<'_>,
    specifier: &str,
    kind: Kind,
    places: Places<'_>,
    is_confined: bool,
    among: &dyn Fn(Part) -> bool,
) -> Hit {
    let pattern = PathPattern::new(specifier);
    let needle = pattern.needle();
    let is_nowhere = needle.is_some_and(|needle| {
        !line.may_name(needle) && !line.starts_below(needle) && !places.hold(needle)
    });
    if is_confined && is_nowhere {
        return Hit::Never;
    }
    let direction = match kind {
        Kind::Read => Direction::Read,
        Kind::Write | Kind::Command | Kind::Host | Kind::Grant => Direction::Write,
    };
    let mut maybe = Hit::Never;
    for touched in line.touched(direction) {
        if !among(touched.part) {
            continue;
        }
        let is_met = |path: &PathBuf| pattern.matches(path, Reading::Wide);
        let may_hold = |path: &PathBuf| pattern.may_match_below(path);
        let text = || shown(line.text_of(touched.part));
        let is_possible = match touched.extent {
            Extent::Whole | Extent::Deep if touched.paths.iter().any(is_met) => {
                return Hit::Surely(text());
            }
            Extent::Whole => false,
            Extent::Deep | Extent::Below => touched.paths.iter().any(may_hold),
            Extent::Any => true,
        };
        if is_possible && touched.is_sure && !is_confined && maybe == Hit::Never {
            maybe = Hit::Maybe(format!("the paths of `{}` are not fully known", text()));
        }
    }
    // Paths of other folders in which a shell may be.
    if let Some(hit) = named_elsewhere(line, &pattern, kind, places, among) {
        return hit;
    }
    if maybe == Hit::Never && !is_confined {
        maybe = line.unknown_paths(among);
    }
    maybe
}

/// Tells whether a word is, from any of the folders, a path that the rule speaks of.
fn named_elsewhere(
    line: &Line<'_>,
    pattern: &PathPattern<'_>,
    kind: Kind,
    places: Places<'_>,
    among: &dyn Fn(Part) -> bool,
) -> Option<Hit> {
    let needle = pattern.needle();
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
        let names_path = match kind {
            Kind::Read => redirect.direction == Direction::Read,
            Kind::Write | Kind::Command | Kind::Host | Kind::Grant => {
                redirect.direction == Direction::Write && !redirect.is_harmless()
            }
        };
        if names_path && names(&redirect.target) {
            return Some(Hit::Surely(shown(&redirect.text)));
        }
    }
    if kind != Kind::Read {
        return None;
    }
    for (index, command) in line.analysis.commands().iter().enumerate() {
        if !among(Part::Command(index)) {
            continue;
        }
        for word in command.arguments() {
            let value = word.literal().and_then(|text| text.split_once('='));
            if names(word) || value.is_some_and(|(_, value)| matches(value)) {
                return Some(Hit::Surely(shown(&command.text)));
            }
        }
    }
    None
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
