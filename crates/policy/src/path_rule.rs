//! Path specifiers, such as `src/**` or `./secrets/*.key`, compared as text.
//!
//! `*` and `?` stay within one part of a path, `**` spans parts. A name without a slash matches at
//! any depth. Paths are compared as they are written: what a link leads to is not known here.

use std::path::{Component, Path};

/// How to read a relative pattern when the path is absolute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// It matches nowhere, and only the very paths that it names.
    Narrow,
    /// It matches from any folder on, and all below what it names.
    Wide,
}

/// A compiled path specifier.
#[derive(Clone, Debug)]
pub(crate) struct PathPattern<'a> {
    parts: Vec<&'a str>,
    is_absolute: bool,
    /// Whether it is a bare name, which matches at any depth.
    is_name: bool,
}

impl<'a> PathPattern<'a> {
    pub(crate) fn new(specifier: &'a str) -> Self {
        let specifier = specifier.trim();
        let body = specifier.trim_start_matches("./");
        let mut parts: Vec<&str> = body
            .split('/')
            .filter(|part| !part.is_empty() && *part != ".")
            .collect();
        if body.ends_with('/') {
            parts.push("**");
        }
        Self {
            parts,
            is_absolute: specifier.starts_with('/'),
            is_name: body == specifier && !body.trim_end_matches('/').contains('/'),
        }
    }

    /// A text that every path holds that the specifier names, unless it climbs.
    pub(crate) fn needle(&self) -> Option<&'a str> {
        let is_plain = |part: &&&str| !part.contains(['*', '?', '\\']);
        self.parts.iter().rev().find(is_plain).copied()
    }

    /// Tells whether the specifier names this path.
    pub(crate) fn matches(&self, path: &Path, reading: Reading) -> bool {
        let Some(parts) = parts(path) else {
            // A path that climbs out of where it starts could be any path.
            return reading == Reading::Wide;
        };
        let wide = reading == Reading::Wide;
        let found = |parts: &[&str]| matches_parts(&self.parts, parts, wide);
        if self.is_absolute {
            return path.is_absolute() && found(&parts);
        }
        if path.is_absolute() && !wide {
            return false;
        }
        if wide || self.is_name {
            (0..=parts.len()).any(|from| parts.get(from..).is_some_and(found))
        } else {
            found(&parts)
        }
    }
}

impl PathPattern<'_> {
    /// Checks whether the specifier may name something below this path.
    pub(crate) fn may_match_below(&self, path: &Path) -> bool {
        let Some(parts) = parts(path) else {
            return true;
        };
        if !self.is_absolute {
            // It may begin at any folder.
            return true;
        }
        let mut reached = start(&self.parts);
        for part in parts {
            reached = step(&self.parts, &reached, part);
        }
        reached.contains(&true)
    }
}

/// The parts of a path with `.` and `..` resolved as text.
fn parts(path: &Path) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::ParentDir => {
                let climbs = parts.pop().is_none() && !path.is_absolute();
                if climbs {
                    return None;
                }
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    Some(parts)
}

/// Compares part by part; `wide` lets the path go on below what the pattern names.
fn matches_parts(pattern: &[&str], parts: &[&str], wide: bool) -> bool {
    let mut reached = start(pattern);
    for part in parts {
        if wide && !pattern.is_empty() && reached.last() == Some(&true) {
            return true;
        }
        reached = step(pattern, &reached, part);
    }
    reached.last() == Some(&true)
}

/// Which beginnings of the pattern match no part at all: the first `i` parts match if `[i]` is true.
fn start(pattern: &[&str]) -> Vec<bool> {
    let mut reached = vec![false; pattern.len() + 1];
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    skip_spans(pattern, &mut reached);
    reached
}

/// Which beginnings of the pattern match after one more part.
fn step(pattern: &[&str], reached: &[bool], part: &str) -> Vec<bool> {
    let mut next = vec![false; reached.len()];
    for (index, wanted) in pattern.iter().enumerate() {
        if reached.get(index) != Some(&true) {
            continue;
        }
        let to = if *wanted == "**" {
            index
        } else if matches_part(wanted, part) {
            index + 1
        } else {
            continue;
        };
        if let Some(state) = next.get_mut(to) {
            *state = true;
        }
    }
    skip_spans(pattern, &mut next);
    next
}

fn skip_spans(pattern: &[&str], reached: &mut [bool]) {
    for (index, part) in pattern.iter().enumerate() {
        if *part == "**"
            && reached.get(index) == Some(&true)
            && let Some(state) = reached.get_mut(index + 1)
        {
            *state = true;
        }
    }
}

fn matches_part(pattern: &str, part: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let part: Vec<char> = part.chars().collect();
    let (mut at, mut part_at) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let escaped =
            pattern.get(at) == Some(&'\\') && matches!(pattern.get(at + 1), Some('*' | '?' | '\\'));
        let wanted = pattern.get(at + usize::from(escaped)).copied();
        match (wanted, part.get(part_at).copied()) {
            (None, None) => return true,
            (Some('*'), _) if !escaped => {
                retry = Some((at, part_at));
                at += 1;
            }
            (Some(wanted), Some(found)) if wanted == found || (wanted == '?' && !escaped) => {
                at += 1 + usize::from(escaped);
                part_at += 1;
            }
            _ => {
                let Some((star, from)) = retry else {
                    return false;
                };
                if from >= part.len() {
                    return false;
                }
                retry = Some((star, from + 1));
                at = star + 1;
                part_at = from + 1;
            }
        }
    }
}

/// Writes a path so that as a specifier it names that path only.
pub(crate) fn escape(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for c in path.chars() {
        if matches!(c, '*' | '?' | '\\') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_reading_matches_what_is_named() {
        let table = [
            ("src/**", "src/a.rs", true),
            ("src/**", "src/a/b.rs", true),
            ("src/**", "srcs/a.rs", false),
            ("src/**", "/home/x/src/a.rs", false),
            ("./src/**", "src/a.rs", true),
            ("src/*", "src/a/b.rs", false),
            ("src/*.rs", "src/a.rs", true),
            ("src/*.rs", "src/.rs", true),
            ("src/?.rs", "src/a.rs", true),
            ("src/", "src/a/b", true),
            ("src", "src/a", false),
            ("*.md", "docs/a.md", true),
            ("./*.md", "docs/a.md", false),
            ("/etc/**", "/etc/hosts", true),
            ("/etc/**", "etc/hosts", false),
            ("//etc/hosts", "/etc/hosts", true),
            ("src/**", "src/../secrets/a", false),
            ("src/**", "../src/a", false),
            ("src/**", "x/../src/a", true),
            ("a/**/b", "a/b", true),
            ("a/**/b", "a/x/y/b", true),
            ("a/**/b", "a/x/y/c", false),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("**", "any/thing", true),
        ];
        for (specifier, path, expected) in table {
            assert_eq!(
                PathPattern::new(specifier).matches(Path::new(path), Reading::Narrow),
                expected,
                "{specifier:?} on {path:?}"
            );
        }
    }

    #[test]
    fn a_wide_reading_matches_from_any_folder_and_below() {
        let table = [
            ("./secrets/**", "/home/x/secrets/key", true),
            ("secrets", "/home/x/secrets/key", true),
            ("secrets", "secrets", true),
            (".env", "/home/x/.env", true),
            (".env", "/home/x/.envrc", false),
            ("secrets/**", "/home/x/open/key", false),
            ("/etc/shadow", "/etc/../etc/shadow", true),
            ("anything", "../../x", true),
        ];
        for (specifier, path, expected) in table {
            assert_eq!(
                PathPattern::new(specifier).matches(Path::new(path), Reading::Wide),
                expected,
                "{specifier:?} on {path:?}"
            );
        }
    }

    #[test]
    fn an_escaped_path_names_itself_only() {
        let path = "/a/x*y?z\\.txt";
        let pattern = escape(path);
        let pattern = PathPattern::new(&pattern);
        assert!(pattern.matches(Path::new(path), Reading::Narrow));
        assert!(!pattern.matches(Path::new("/a/xzzyqz\\.txt"), Reading::Narrow));
    }
}
