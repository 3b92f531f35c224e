//! Which other files a Markdown file names with `@path`.

use std::collections::HashSet;

/// What is named, in order, as it is written. What stands in code is not meant.
pub(super) fn imports(text: &str) -> Vec<&str> {
    let mut named = Vec::new();
    let mut fence: Option<(char, usize)> = None;
    for line in text.lines() {
        let mark = fence_mark(line);
        match (fence, mark) {
            (Some((with, length)), Some((mark, count, rest))) => {
                if mark == with && count >= length && rest.trim().is_empty() {
                    fence = None;
                }
            }
            (Some(_), None) => {}
            // A fence of backticks has none behind it on its line.
            (None, Some((mark, count, rest))) if mark != '`' || !rest.contains('`') => {
                fence = Some((mark, count));
            }
            (None, _) => in_line(line, &mut named),
        }
    }
    named
}

/// The mark that begins or ends a block of code, how often it stands there, and what follows.
fn fence_mark(line: &str) -> Option<(char, usize, &str)> {
    let text = line.trim_start_matches([' ', '\t', '>']);
    let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let rest = text.trim_start_matches(mark);
    let count = text.len() - rest.len();
    (count >= 3).then_some((mark, count, rest))
}

fn in_line<'t>(line: &'t str, named: &mut Vec<&'t str>) {
    let mut rest = line;
    let mut before = ' ';
    // Lengths of runs of backticks that nothing ends.
    let mut open: HashSet<usize> = HashSet::new();
    while let Some(next) = rest.chars().next() {
        match next {
            '`' => {
                let after = rest.trim_start_matches('`');
                let length = rest.len() - after.len();
                let end = if open.contains(&length) {
                    None
                } else {
                    closing(after, length)
                };
                match end {
                    Some(behind) => rest = behind,
                    None => {
                        open.insert(length);
                        rest = after;
                    }
                }
                before = '`';
                continue;
            }
            '@' if before.is_whitespace() || matches!(before, '(' | '[' | '"' | '\'') => {
                let after = rest.get(1..).unwrap_or_default();
                let ends = |c: char| {
                    c.is_whitespace() || matches!(c, '`' | ')' | ']' | '<' | '>' | '"' | '\'' | '@')
                };
                let end = after.find(ends).unwrap_or(after.len());
                let (word, behind) = after.split_at(end);
                let word = word.trim_end_matches(['.', ',', ';', ':', '!', '?']);
                if !word.is_empty() {
                    named.push(word);
                }
                rest = behind;
                before = '@';
                continue;
            }
            _ => {}
        }
        before = next;
        rest = rest.get(next.len_utf8()..).unwrap_or_default();
    }
}

/// What is behind the run of so many backticks that ends a span of code.
fn closing(text: &str, length: usize) -> Option<&str> {
    let mut rest = text;
    loop {
        let at = rest.find('`')?;
        let from = rest.get(at..)?;
        let after = from.trim_start_matches('`');
        if from.len() - after.len() == length {
            return Some(after);
        }
        rest = after;
    }
}

/// Whether somebody who writes this surely means a file.
pub(super) fn is_surely_a_file(word: &str) -> bool {
    let is_path = ["./", "../", "~/", "/"]
        .iter()
        .any(|begin| word.starts_with(begin));
    let lower = word.to_ascii_lowercase();
    is_path
        || [".md", ".mdc", ".txt", ".markdown", ".rst"]
            .iter()
            .any(|end| lower.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_text_count_and_those_in_code_do_not() {
        let table: [(&str, &[&str]); 16] = [
            ("@AGENTS.md", &["AGENTS.md"]),
            (
                "See @docs/style.md, and @./more.md.",
                &["docs/style.md", "./more.md"],
            ),
            ("(@a.md) [@b.md] \"@c.md\"", &["a.md", "b.md", "c.md"]),
            ("- @~/own.md\n  - @../up.md", &["~/own.md", "../up.md"]),
            ("mail me@example.com", &[]),
            ("`@a.md` and ``x ` @b.md`` but @c.md", &["c.md"]),
            ("a lone ` and @a.md", &["a.md"]),
            ("`` ` @a.md ` @b.md", &["b.md"]),
            ("```\n@a.md\n```\n@b.md", &["b.md"]),
            ("~~~sh\n@a.md\n```\n@b.md\n~~~~\n@c.md", &["c.md"]),
            ("````\n```\n@a.md\n````\n@b.md", &["b.md"]),
            ("> ```\n> @a.md\n> ```\n@b.md", &["b.md"]),
            ("```one line``` @a.md", &["a.md"]),
            ("```\nnever ended\n@a.md", &[]),
            ("@ alone, @, and @@x.md", &[]),
            ("ä@a.md @ü.md\r\n@b.md", &["ü.md", "b.md"]),
        ];
        for (text, expected) in table {
            assert_eq!(imports(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_line_of_marks_takes_no_time() {
        let mut line = String::new();
        for length in 1..250 {
            line.push_str(&"`".repeat(length));
            line.push_str(" @a ");
        }
        let text = line.repeat(8);
        assert!(imports(&text).len() < text.len());
    }

    #[test]
    fn what_may_be_a_name_of_a_person_is_no_file_for_sure() {
        for word in ["a.md", "./x", "../x", "~/x", "/x", "A.TXT"] {
            assert!(is_surely_a_file(word), "{word}");
        }
        for word in ["alice", "types/node", "v1.2", "example.com", "Override"] {
            assert!(!is_surely_a_file(word), "{word}");
        }
    }
}
