//! `MEMORY.md`: a line for each note, and whatever else people write there.

use super::{MAX_ABOUT, MAX_INDEX_BYTES, MAX_INDEX_LINES};

/// What of the index is shown to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryIndex {
    /// The text.
    pub text: String,
    /// How many lines are not shown.
    pub left_out: usize,
}

/// The beginning of the index that may be shown; `None` where it is blank.
pub(super) fn shown(index: &str) -> Option<MemoryIndex> {
    let index = index.trim();
    if index.is_empty() {
        return None;
    }
    let mut text = String::new();
    let mut taken = 0;
    for line in index.lines().take(MAX_INDEX_LINES) {
        if text.len() + line.len() + 1 > MAX_INDEX_BYTES {
            break;
        }
        text.push_str(line);
        text.push('\n');
        taken += 1;
    }
    let left_out = index.lines().count() - taken;
    if left_out > 0 {
        text.push_str(&format!("[{left_out} lines more are not shown]\n"));
    }
    text.truncate(text.trim_end().len());
    Some(MemoryIndex { text, left_out })
}

/// The line of a note.
fn line(name: &str, about: &str) -> String {
    format!("- [{name}]({name}.md): {about}")
}

/// Whether a line is that of a note: people may have changed what follows.
fn is_of(line: &str, name: &str) -> bool {
    line.trim_start()
        .strip_prefix("- [")
        .and_then(|rest| rest.split_once("]("))
        .and_then(|(_, rest)| rest.split_once(')'))
        .is_some_and(|(file, _)| file.strip_suffix(".md") == Some(name))
}

/// What the index says of a note.
pub(super) fn about<'a>(index: &'a str, name: &str) -> Option<&'a str> {
    let line = index.lines().find(|line| is_of(line, name))?;
    let (_, about) = line.split_once(')')?;
    Some(about.trim_start_matches([':', '-', ' ', '—']).trim())
}

/// The index with the line of that note set.
pub(super) fn with(index: &str, name: &str, about: &str) -> String {
    let mut made = String::new();
    let mut done = false;
    for old in index.lines() {
        if !is_of(old, name) {
            made.push_str(old);
        } else if done {
            continue;
        } else {
            made.push_str(&line(name, about));
            done = true;
        }
        made.push('\n');
    }
    if !done {
        made.push_str(&line(name, about));
        made.push('\n');
    }
    made
}

/// The index without the lines of that note.
pub(super) fn without(index: &str, name: &str) -> String {
    let lines = index.lines().filter(|line| !is_of(line, name));
    lines.map(|line| format!("{line}\n")).collect()
}

/// What is said of a note, in one line of bounded length.
pub(super) fn one_line(about: &str) -> String {
    let words: Vec<&str> = about.split_whitespace().collect();
    words.join(" ").chars().take(MAX_ABOUT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_notes_are_set_and_taken_out() {
        let hand = "# Memory\n\n- [build](build.md) — old words\nby hand\n- [Title](tests.md): t\n";
        assert_eq!(about(hand, "build"), Some("old words"));
        assert_eq!(about(hand, "tests"), Some("t"));
        assert_eq!(about(hand, "test"), None);
        assert_eq!(
            with(hand, "build", "new"),
            "# Memory\n\n- [build](build.md): new\nby hand\n- [Title](tests.md): t\n"
        );
        assert_eq!(with("", "a", "b"), "- [a](a.md): b\n");
        assert_eq!(with("x", "a", "b"), "x\n- [a](a.md): b\n");
        assert_eq!(
            without(hand, "tests"),
            "# Memory\n\n- [build](build.md) — old words\nby hand\n"
        );
        assert_eq!(without("by hand\n", "a"), "by hand\n");
    }

    #[test]
    fn a_long_index_is_cut_at_a_line() {
        assert_eq!(shown(" \n\n"), None);
        let short = shown("a\nb\n").unwrap();
        assert_eq!((short.text.as_str(), short.left_out), ("a\nb", 0));
        let many = "line\n".repeat(205);
        let many = shown(&many).unwrap();
        assert_eq!(many.left_out, 5);
        assert!(many.text.ends_with("line\n[5 lines more are not shown]"));
        let wide = format!("{}\n", "é".repeat(500)).repeat(40);
        let wide = shown(&wide).unwrap();
        assert_eq!(wide.left_out, 15);
        assert!(wide.text.len() < MAX_INDEX_BYTES + 100);
        assert_eq!(shown(&"x".repeat(30_000)).unwrap().left_out, 1);
    }
}
