//! Which files of a folder a command of its settings names: what it runs is as much a part of it as
//! its words are.
//!
//! The line is not understood as a shell would, only taken apart: a word that names no file does no
//! harm, since only files that are there count.

use std::path::{Component, Path, PathBuf};

/// How many files a command may name. What names more is nothing that a person could vouch for.
const MOST: usize = 256;

/// How deep commands in quotes are looked into.
const DEPTH: usize = 4;

/// What ends a word outside of quotes.
const SEPARATORS: [char; 12] = [
    ' ', '\t', '\r', '\n', ';', '&', '|', '(', ')', '<', '>', '`',
];

/// The paths within a folder that the words of a command may mean, sorted, whether or not anything is
/// there; `None` if they are too many. A variable stands for a folder.
pub(super) fn named(
    command: &str,
    folder: &Path,
    variables: &[(&str, &Path)],
) -> Option<Vec<PathBuf>> {
    let mut words = Vec::new();
    split(command, DEPTH, &mut words);
    let words: Vec<_> = words.iter().map(|word| expanded(word, variables)).collect();
    // Where the command may have gone to when it names a file.
    let mut bases = vec![folder.to_owned()];
    for (word, place) in words.iter().zip(words.iter().skip(1)) {
        if matches!(&**word, "cd" | "pushd") {
            bases.extend(within(folder, &folder.join(place)));
        }
    }
    let mut paths = Vec::new();
    for word in &words {
        for part in [&**word].into_iter().chain(word.split(['=', ':', ','])) {
            for base in &bases {
                let path = within(folder, &base.join(part));
                paths.extend(path.filter(|path| path != folder));
            }
            if paths.len() > MOST.saturating_mul(8) {
                return None;
            }
        }
    }
    paths.sort();
    paths.dedup();
    (paths.len() <= MOST).then_some(paths)
}

/// The words of a line, and those of the lines that it has in quotes.
fn split(line: &str, depth: usize, words: &mut Vec<String>) {
    let Some(depth) = depth.checked_sub(1) else {
        return;
    };
    let mut word = String::new();
    let mut quote = None;
    let mut escaped = false;
    let mut end = |word: &mut String| {
        let word = std::mem::take(word);
        if word.contains(SEPARATORS) {
            split(&word, depth, words);
        }
        if !word.is_empty() {
            words.push(word);
        }
    };
    for character in line.chars() {
        match (character, quote) {
            _ if escaped => {
                escaped = false;
                word.push(character);
            }
            ('\\', None | Some('"')) => escaped = true,
            ('\'' | '"', None) => quote = Some(character),
            (character, Some(open)) if character == open => quote = None,
            (character, None) if SEPARATORS.contains(&character) => end(&mut word),
            (character, _) => word.push(character),
        }
    }
    end(&mut word);
}

/// A word with the folders that variables stand for.
fn expanded(word: &str, variables: &[(&str, &Path)]) -> String {
    let mut text = String::new();
    let mut rest = word;
    if let (Some(more), Some((_, home))) = (
        word.strip_prefix("~/"),
        variables.iter().find(|(name, _)| *name == "HOME"),
    ) {
        text.push_str(&home.to_string_lossy());
        text.push('/');
        rest = more;
    }
    while let Some((before, after)) = rest.split_once('$') {
        text.push_str(before);
        let (inner, is_braced) = match after.strip_prefix('{') {
            Some(inner) => (inner, true),
            None => (after, false),
        };
        let is_other = |character: char| !(character == '_' || character.is_ascii_alphanumeric());
        let length = inner.find(is_other).unwrap_or(inner.len());
        let (name, more) = inner.split_at(length);
        let folder = variables.iter().find(|(other, _)| *other == name);
        let more = match more.split_once('}').filter(|_| is_braced) {
            Some((_, more)) => more,
            None => more,
        };
        match folder {
            Some((_, folder)) => text.push_str(&folder.to_string_lossy()),
            None => text.push('$'),
        }
        rest = if folder.is_some() { more } else { after };
    }
    text.push_str(rest);
    text
}

/// The path without `.` and `..`, if that is within the folder.
fn within(folder: &Path, path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                plain.push(component);
            }
        }
    }
    plain.starts_with(folder).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(command: &str, file: &str) -> bool {
        let folder = Path::new("/w x");
        let variables = [
            ("PROJECT", folder),
            ("HOME", Path::new("/")),
            ("PWD", folder),
        ];
        let paths = named(command, folder, &variables).unwrap();
        assert!(paths.iter().all(|path| path.starts_with(folder)));
        paths.contains(&folder.join(file))
    }

    #[test]
    fn scripts_are_found_however_a_command_names_them() {
        for command in [
            "./hooks/x.sh",
            "hooks/x.sh --fast",
            "/w\\ x/hooks/x.sh",
            "sh hooks/../hooks/x.sh",
            "\"$PROJECT\"/hooks/x.sh",
            "\"$PROJECT/hooks/x.sh\"",
            "${PROJECT}/hooks/x.sh",
            "\"${PROJECT:-.}/hooks/x.sh\"",
            "$PWD/hooks/x.sh",
            "'~/w x/hooks/x.sh'",
            "python3 'hooks/x.sh'",
            "FILE=hooks/x.sh; . $FILE",
            "tool --config=hooks/x.sh",
            "true && (cd hooks; ./x.sh)",
            "cd \"$PROJECT\"/hooks && python3 x.sh",
            "bash -c 'exec \"$PROJECT\"/hooks/x.sh a'",
            "bash -c \"bash -c 'hooks/x.sh'\"",
            "cat<hooks/x.sh|sh",
            "echo $(hooks/x.sh)",
            "echo `hooks/x.sh`",
        ] {
            assert!(files(command, "hooks/x.sh"), "{command}");
        }
        for command in [
            "../hooks/x.sh",
            "/hooks/x.sh",
            "$OTHER/hooks/x.sh",
            "x.sh",
            "",
            "$",
            "${",
        ] {
            assert!(!files(command, "hooks/x.sh"), "{command}");
        }
    }

    #[test]
    fn what_names_too_much_is_told() {
        let many: Vec<_> = (0..=MOST).map(|number| number.to_string()).collect();
        let folder = Path::new("/w");
        assert_eq!(named(&many.join(" "), folder, &[]), None);
        let few = many.get(..MOST).unwrap().join(" ");
        assert_eq!(
            named(&few, folder, &[]).map(|paths| paths.len()),
            Some(MOST)
        );
        assert_eq!(named(&"cd a; ".repeat(9000), folder, &[]), None);
    }
}
