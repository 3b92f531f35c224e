//! Patterns for paths: what they match, and where it is no use to look.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use globset::{ErrorKind, GlobBuilder, GlobSet, GlobSetBuilder};

/// The longest pattern in bytes.
const MAX_LENGTH: usize = 4096;

/// How many alternatives in braces are looked at one by one.
const MAX_ALTERNATIVES: usize = 64;

/// A pattern for the paths below a folder. `*` and `?` stop at `/`, `**` does not; one without any
/// `/` matches a file's name at any depth.
#[derive(Debug)]
pub(super) struct Pattern {
    paths: GlobSet,
    hidden: GlobSet,
    names_hidden: bool,
    alternatives: Vec<Alternative>,
}

/// One of the patterns that braces stand for.
#[derive(Debug)]
struct Alternative {
    /// The folders that it begins with, as far as they are given by name.
    folders: Vec<String>,
    /// How deep what it matches lies; `None` if at any depth.
    depth: Option<usize>,
}

/// Takes from a pattern the folders that it begins with and that lead out of the folder it is
/// looked for in: `/etc/*.conf` is `*.conf` in `/etc`, `../a/*` is `a/*` in `..`.
pub(super) fn split(pattern: &str) -> (Option<PathBuf>, &str) {
    let absolute = pattern.starts_with('/');
    let mut base = PathBuf::new();
    let mut rest = pattern;
    if absolute {
        base.push("/");
        rest = rest.trim_start_matches('/');
    }
    while let Some((first, others)) = rest.split_once('/') {
        let taken = first == ".." || (absolute && !first.contains(is_special));
        if !taken && first != "." && !first.is_empty() {
            break;
        }
        if taken {
            base.push(first);
        }
        // What stays behind the last folder keeps its place: it is not a bare name.
        rest = others;
    }
    let base = (!base.as_os_str().is_empty()).then_some(base);
    (base, rest)
}

const fn is_special(character: char) -> bool {
    matches!(character, '*' | '?' | '[' | ']' | '{' | '}' | '\\')
}

impl Pattern {
    /// Reads a pattern. The error says what is wrong and shows where.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (base, rest) = split(text);
        // A name that stood behind a folder matches in that folder alone.
        let anchored = base.is_some() || text.starts_with("./");
        let parts: Vec<&str> = rest
            .split('/')
            .filter(|part| !part.is_empty() && *part != ".")
            .collect();
        Self::compile(&parts.join("/"), anchored)
    }

    fn compile(rest: &str, anchored: bool) -> Result<Self, String> {
        if rest.is_empty() {
            return Err("the pattern is empty: ** stands for every file".into());
        }
        if rest.len() > MAX_LENGTH {
            return Err(format!("the pattern is longer than {MAX_LENGTH} bytes"));
        }
        if rest.split('/').any(|part| part == "..") {
            return Err(format!(
                "a pattern can hold `..` only at its beginning: {}",
                super::root::harmless(rest)
            ));
        }
        glob(rest).map_err(|kind| wrong(rest, &kind))?;
        let expanded = expand(rest);
        let known = !expanded.is_empty();
        let whole = if known {
            expanded
        } else {
            vec![rest.to_owned()]
        };
        let mut paths = GlobSetBuilder::new();
        let mut hidden = GlobSetBuilder::new();
        let mut names_hidden = false;
        let mut alternatives = Vec::new();
        for one in whole {
            let one = one.trim_matches('/');
            let pattern = if anchored || one.contains('/') {
                one.to_owned()
            } else {
                format!("**/{one}")
            };
            paths.add(glob(&pattern).map_err(|kind| wrong(rest, &kind))?);
            for part in pattern.split('/').filter(|part| part.starts_with('.')) {
                // A part that braces with too many alternatives leave open allows any.
                let part = if known { part } else { ".*" };
                names_hidden = true;
                if let Ok(part) = glob(part) {
                    hidden.add(part);
                }
            }
            alternatives.push(Alternative::of(&pattern, known));
        }
        let too_big = |error: globset::Error| wrong(rest, error.kind());
        Ok(Self {
            paths: paths.build().map_err(too_big)?,
            hidden: hidden.build().map_err(too_big)?,
            names_hidden,
            alternatives,
        })
    }

    /// Whether a path below the folder matches.
    pub(super) fn matches(&self, path: &Path) -> bool {
        self.paths.is_match(path)
    }

    /// Whether the pattern asks for something hidden.
    pub(super) const fn names_hidden(&self) -> bool {
        self.names_hidden
    }

    /// Whether a hidden file or folder of this name is asked for.
    pub(super) fn names(&self, hidden: &OsStr) -> bool {
        self.hidden.is_match(Path::new(hidden))
    }

    /// Whether there may be a match below a folder of this name that lies at this depth.
    pub(super) fn may_be_below(&self, folder: &OsStr, depth: usize) -> bool {
        self.alternatives.iter().any(|one| {
            one.depth.is_none_or(|deepest| depth < deepest)
                && depth
                    .checked_sub(1)
                    .and_then(|index| one.folders.get(index))
                    .is_none_or(|name| name.as_str() == folder)
        })
    }
}

impl Alternative {
    fn of(pattern: &str, known: bool) -> Self {
        if !known {
            return Self {
                folders: Vec::new(),
                depth: None,
            };
        }
        let parts: Vec<&str> = pattern.split('/').collect();
        let last = parts.len().saturating_sub(1);
        let folders = parts
            .iter()
            .take(last)
            .take_while(|part| !part.contains(is_special))
            .map(|part| (*part).to_owned())
            .collect();
        let depth = (!pattern.contains("**")).then_some(parts.len());
        Self { folders, depth }
    }
}

fn glob(pattern: &str) -> Result<globset::Glob, ErrorKind> {
    GlobBuilder::new(pattern)
        .literal_separator(true)
        .backslash_escape(true)
        .empty_alternates(true)
        .build()
        .map_err(|error| error.kind().clone())
}

/// The patterns that braces stand for; none if there are too many.
fn expand(pattern: &str) -> Vec<String> {
    let mut open = vec![pattern.to_owned()];
    let mut done = Vec::new();
    while let Some(pattern) = open.pop() {
        if open.len() + done.len() >= MAX_ALTERNATIVES {
            return Vec::new();
        }
        let Some(braces) = braces(&pattern) else {
            done.push(pattern);
            continue;
        };
        for inner in braces.alternatives {
            open.push(format!("{}{inner}{}", braces.before, braces.after));
        }
    }
    done
}

struct Braces<'p> {
    before: &'p str,
    alternatives: Vec<&'p str>,
    after: &'p str,
}

/// The first braces of a pattern that is known to be well formed.
fn braces(pattern: &str) -> Option<Braces<'_>> {
    let mut depth = 0_usize;
    let mut begin = 0;
    let mut from = 0;
    let mut alternatives = Vec::new();
    for (at, mark) in marks(pattern) {
        match mark {
            '{' => {
                if depth == 0 {
                    begin = at;
                    from = at + 1;
                }
                depth += 1;
            }
            ',' if depth == 1 => {
                alternatives.push(pattern.get(from..at)?);
                from = at + 1;
            }
            '}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    alternatives.push(pattern.get(from..at)?);
                    return Some(Braces {
                        before: pattern.get(..begin)?,
                        alternatives,
                        after: pattern.get(at + 1..)?,
                    });
                }
            }
            _ => {}
        }
    }
    None
}

/// What has a meaning in a pattern, and where: `{`, `,`, `}`, a `[` that is never closed, and a
/// `\` at the end. What is escaped or in a class has none.
fn marks(pattern: &str) -> Vec<(usize, char)> {
    let mut marks = Vec::new();
    let mut characters = pattern.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => marks.extend(characters.next().is_none().then_some((at, '\\'))),
            '[' => {
                characters.next_if(|(_, next)| matches!(next, '!' | '^'));
                // The first one stands for itself.
                characters.next_if(|(_, next)| *next == ']');
                if !characters.any(|(_, next)| next == ']') {
                    marks.push((at, '['));
                }
            }
            '{' | ',' | '}' => marks.push((at, character)),
            _ => {}
        }
    }
    marks
}

/// What is wrong with a pattern, and a picture of where.
fn wrong(pattern: &str, kind: &ErrorKind) -> String {
    let (reason, place) = match kind {
        ErrorKind::UnclosedClass => (
            "a [ is not closed (write [[] to find a [ itself)".into(),
            last(pattern, '['),
        ),
        ErrorKind::UnclosedAlternates => (
            "a { is not closed (write [{] to find a { itself)".into(),
            unmatched(pattern, '{'),
        ),
        ErrorKind::UnopenedAlternates => (
            "a } closes nothing (write [}] to find a } itself)".into(),
            unmatched(pattern, '}'),
        ),
        ErrorKind::InvalidRange(from, to) => (
            format!("the range {from}-{to} is the wrong way round"),
            pattern.find(&format!("{from}-{to}")),
        ),
        ErrorKind::DanglingEscape => (
            r"a \ at the end escapes nothing".into(),
            last(pattern, '\\'),
        ),
        ErrorKind::Regex(_) => ("it is too big".into(), None),
        other => (other.to_string(), None),
    };
    let pattern = super::root::harmless(pattern);
    match place {
        // Only where the picture is true: one column a character.
        Some(place) if pattern.is_ascii() && pattern.len() <= 200 => {
            format!(
                "invalid pattern: {reason}\n    {pattern}\n    {:place$}^",
                ""
            )
        }
        Some(place) => format!("invalid pattern: {reason}, at byte {place}: {pattern:.200}"),
        None => format!("invalid pattern: {reason}: {pattern:.200}"),
    }
}

fn last(pattern: &str, wanted: char) -> Option<usize> {
    marks(pattern)
        .iter()
        .rev()
        .find(|(_, mark)| *mark == wanted)
        .map(|(at, _)| *at)
}

/// Where a brace stands that has no partner.
fn unmatched(pattern: &str, wanted: char) -> Option<usize> {
    let mut open = Vec::new();
    for (at, mark) in marks(pattern) {
        match mark {
            '{' => open.push(at),
            '}' if open.pop().is_none() && wanted == '}' => return Some(at),
            _ => {}
        }
    }
    open.pop()
}

#[cfg(test)]
mod tests;
