//! What differs between two runs of the same call without meaning anything: durations, names of
//! temporary files, the folder that is worked in.

use std::path::Path;

/// Units of durations.
const UNITS: [&str; 7] = ["ms", "µs", "ns", "s", "seconds", "second", "sec"];

/// Makes alike what differs between two runs.
#[derive(Debug, Default)]
pub(super) struct Normal {
    folders: Vec<(String, &'static str)>,
}

impl Normal {
    /// Reads this folder as that name.
    pub(super) fn folder(&mut self, path: &Path, name: &'static str) {
        let path = path.display().to_string();
        if path.len() > 1 {
            self.folders.push((path, name));
            // The longest first: one may lie in another.
            self.folders
                .sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        }
    }

    /// The text with all of that made alike.
    pub(super) fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (path, name) in &self.folders {
            if text.contains(path) {
                text = text.replace(path, name);
            }
        }
        let mut normal = String::with_capacity(text.len());
        let mut rest = text.as_str();
        let mut before = ' ';
        while let Some(next) = rest.chars().next() {
            let (piece, length) = match special(rest, before) {
                Some((length, name)) => (name, length),
                None => (
                    rest.get(..next.len_utf8()).unwrap_or_default(),
                    next.len_utf8(),
                ),
            };
            normal.push_str(piece);
            before = rest
                .get(..length)
                .and_then(|taken| taken.chars().next_back())
                .unwrap_or(' ');
            rest = rest.get(length..).unwrap_or_default();
        }
        normal
    }
}

/// The length of what stands here and differs from run to run, and what is read in its place.
fn special(text: &str, before: char) -> Option<(usize, &'static str)> {
    if before.is_alphanumeric() {
        return None;
    }
    if text.starts_with("/tmp/") || text.starts_with("/var/tmp/") {
        return Some((path(text), "<temporary>"));
    }
    if let Some(length) = uuid(text) {
        return Some((length, "<id>"));
    }
    if before == '.' {
        return None;
    }
    duration(text).map(|length| (length, "<time>"))
}

fn path(text: &str) -> usize {
    let is_end = |character: char| character.is_whitespace() || "\"'`:;,()<>|".contains(character);
    text.find(is_end).unwrap_or(text.len())
}

fn uuid(text: &str) -> Option<usize> {
    const LENGTH: usize = 36;
    let bytes = text.as_bytes().get(..LENGTH)?;
    let fits = bytes.iter().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    fits.then_some(LENGTH)
}

/// Such as `0.3 s` or `12ms`.
fn duration(text: &str) -> Option<usize> {
    let digits =
        |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let whole = digits(text);
    if whole == 0 {
        return None;
    }
    let mut rest = text.get(whole..)?;
    if let Some(fraction) = rest.strip_prefix('.') {
        rest = fraction.get(digits(fraction)..)?;
    }
    rest = rest.strip_prefix(' ').unwrap_or(rest);
    let after = UNITS.iter().find_map(|unit| {
        let after = rest.strip_prefix(unit)?;
        let ends = !after.starts_with(|next: char| next.is_alphanumeric() || next == '_');
        ends.then_some(after)
    })?;
    Some(text.len() - after.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_nothing_is_made_alike() {
        let mut normal = Normal::default();
        normal.folder(Path::new("/home/me/project"), "<workspace>");
        normal.folder(Path::new("/home/me/project/sub"), "<sub>");
        for (text, expected) in [
            ("(exit status 0, 0.3 s)", "(exit status 0, <time>)"),
            ("finished in 12ms, 3 files", "finished in <time>, 3 files"),
            ("v0.3 sx, 5 steps, a1 s", "v0.3 sx, 5 steps, a1 s"),
            ("in /tmp/x.y/z: no", "in <temporary>: no"),
            (
                "/home/me/project/a, /home/me/project/sub/b",
                "<workspace>/a, <sub>/b",
            ),
            ("id 01234567-89ab-cdef-0123-456789abcdef.", "id <id>."),
            ("ä 1", "ä 1"),
            ("", ""),
        ] {
            assert_eq!(normal.text(text), expected);
        }
    }
}
