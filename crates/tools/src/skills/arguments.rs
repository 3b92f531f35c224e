//! What follows the name of a skill or command, put into its text.

use std::ops::Range;

/// Puts arguments in: `$ARGUMENTS` is all of them, `$1` to `$9` are single words, where quotes keep blanks
/// together. A text that uses none of these has them at its end. What is put in is not looked at again.
///
/// These stay as they are: `$1` in code (spans in backticks, fences) and without arguments, amounts such as
/// `$1,000` and `$25`, `$0`, `${1}`. Outside code `\$` before a placeholder writes a literal `$`.
#[must_use]
pub fn with_arguments(text: &str, arguments: &str) -> String {
    let arguments = arguments.trim();
    let words = words(arguments);
    let mut code = code(text).into_iter().peekable();
    let mut made = String::with_capacity(text.len() + arguments.len());
    let mut used = false;
    let mut at = 0;
    while let Some((before, after)) = text.get(at..).and_then(|rest| rest.split_once('$')) {
        let place = at + before.len();
        at = place + 1;
        while code.next_if(|range| range.end <= place).is_some() {}
        let in_code = code.peek().is_some_and(|range| range.contains(&place));
        let placeholder = placeholder(after);
        if let (Some(_), false, Some(before)) = (&placeholder, in_code, before.strip_suffix('\\')) {
            made.push_str(before);
            made.push('$');
            continue;
        }
        made.push_str(before);
        match placeholder {
            Some(Placeholder::All) => {
                made.push_str(arguments);
                used = true;
                at += ALL.len();
            }
            Some(Placeholder::Word(nth)) if !in_code && !arguments.is_empty() => {
                made.push_str(words.get(nth).map_or("", String::as_str));
                used = true;
                at += 1;
            }
            Some(Placeholder::Word(_)) | None => made.push('$'),
        }
    }
    made.push_str(text.get(at..).unwrap_or_default());
    if !used && !arguments.is_empty() {
        made.push_str("\n\nArguments: ");
        made.push_str(arguments);
    }
    made
}

const ALL: &str = "ARGUMENTS";

/// What stands for arguments.
enum Placeholder {
    All,
    /// The word at this index.
    Word(usize),
}

/// The placeholder that a text after `$` begins with.
fn placeholder(after: &str) -> Option<Placeholder> {
    if after.starts_with(ALL) {
        return Some(Placeholder::All);
    }
    let mut characters = after.chars();
    let digit = characters.next()?.to_digit(10)?;
    let nth = usize::try_from(digit).ok()?.checked_sub(1)?;
    let is_digit = |next: Option<char>| next.is_some_and(|next| next.is_ascii_digit());
    let is_amount = match characters.next() {
        Some('.' | ',') => is_digit(characters.next()),
        next => is_digit(next),
    };
    (!is_amount).then_some(Placeholder::Word(nth))
}

/// Where code stands in Markdown: fences and spans, in order.
fn code(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut fence: Option<(&str, usize)> = None;
    let (mut paragraph, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let mark = fence_mark(line);
        match (fence, mark) {
            (Some((open, begin)), _) => {
                let is_end = mark.is_some_and(|mark| mark.starts_with(open));
                if is_end && line.trim().len() == mark.map_or(0, str::len) {
                    found.push(begin..at);
                    fence = None;
                    paragraph = at;
                }
            }
            (None, Some(mark)) => {
                spans(text, paragraph..start, &mut found);
                fence = Some((mark, start));
            }
            (None, None) if line.trim().is_empty() => {
                spans(text, paragraph..start, &mut found);
                paragraph = at;
            }
            (None, None) => {}
        }
    }
    match fence {
        Some((_, begin)) => found.push(begin..text.len()),
        None => spans(text, paragraph..text.len(), &mut found),
    }
    found
}

/// The signs that begin or end a fence, if the line is one.
fn fence_mark(line: &str) -> Option<&str> {
    let line = line.trim();
    let sign = line.chars().next().filter(|sign| "`~".contains(*sign))?;
    let rest = line.trim_start_matches(sign);
    let mark = line.get(..line.len() - rest.len())?;
    (mark.len() >= 3 && !(sign == '`' && rest.contains('`'))).then_some(mark)
}

/// The code spans of a paragraph: from one run of backticks to the next one of the same length.
fn spans(text: &str, paragraph: Range<usize>, found: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes().get(paragraph.clone()).unwrap_or_default();
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (index, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'`') {
        match runs.last_mut() {
            Some(run) if run.end == index => run.end = index + 1,
            _ => runs.push(index..index + 1),
        }
    }
    let mut rest = runs.as_slice();
    while let Some((first, after)) = rest.split_first() {
        let end = after.iter().position(|run| run.len() == first.len());
        match end.and_then(|end| Some((after.get(end)?, after.get(end + 1..)?))) {
            Some((end, after)) => {
                found.push(paragraph.start + first.start..paragraph.start + end.end);
                rest = after;
            }
            None => rest = after,
        }
    }
}

/// Words as a shell parts them, as far as quotes go.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in text.chars() {
        match (character, quote) {
            (mark, Some(open)) if mark == open => quote = None,
            ('"' | '\'', None) if word.is_none() => {
                quote = Some(character);
                word = Some(String::new());
            }
            (blank, None) if blank.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_put_in_once() {
        for (text, arguments, expected) in [
            ("a $ARGUMENTS b", "x  y", "a x  y b"),
            ("a $ARGUMENTS b", "", "a  b"),
            ("$1, $2, $3.", "one \"two words\"", "one, two words, ."),
            ("$1", "it's", "it's"),
            ("$1 $ARGUMENTS", "$2 $ARGUMENTS", "$2 $2 $ARGUMENTS"),
            (
                "Review $1 and $ARGUMENTS.",
                "$100 $& $1 $$ $ARGUMENTS",
                "Review $100 and $100 $& $1 $$ $ARGUMENTS.",
            ),
            ("no place", "x", "no place\n\nArguments: x"),
            ("no place", " ", "no place"),
            ("$10 and $100 $0 $x $", "", "$10 and $100 $0 $x $"),
            ("$1é$", "ü", "üé$"),
            ("$1", "'open", "open"),
            ("$1. $1, $1-$2", "a b", "a. a, a-b"),
        ] {
            assert_eq!(
                with_arguments(text, arguments),
                expected,
                "{text} {arguments}"
            );
        }
    }

    #[test]
    fn amounts_and_code_stay() {
        let bill = "The fee is `$25` or $1,000 of $1.2M. Run `awk '{print $1}' f`.\n\n```sh\nset -- $1 $2\n```\n";
        assert_eq!(with_arguments(bill, ""), bill);
        assert_eq!(
            with_arguments(bill, "1111"),
            format!("{bill}\n\nArguments: 1111")
        );
        for same in [
            "$10 ${1} $0 $15.50 $2,5",
            "``a ` $1`` `$2`",
            "~~~\n$1\n```\n$2\n~~~\n",
            "  ````md\n```\n$1\n```\n  ````\n",
            "```\n$1 without an end",
            "`over\ntwo $1 lines`",
        ] {
            let expected = format!("{same}\n\nArguments: a b");
            assert_eq!(with_arguments(same, "a b"), expected, "{same}");
            assert_eq!(with_arguments(same, ""), same);
        }
        for (text, expected) in [
            // No code: an open backtick, one of another paragraph, and text after code.
            ("it` $1", "it` a"),
            ("it`\n\n$1`", "it`\n\na`"),
            ("`x` $1 ```y``` $2", "`x` a ```y``` b"),
            ("```\nx\n```\n$1", "```\nx\n```\na"),
            ("see `gh $ARGUMENTS`", "see `gh a b`"),
            // A literal placeholder.
            ("\\$1 is $1, \\$ARGUMENTS", "$1 is a, $ARGUMENTS"),
            ("\\$x \\$10 $1", "\\$x \\$10 a"),
            ("`\\$1` $1", "`\\$1` a"),
        ] {
            assert_eq!(with_arguments(text, "a b"), expected, "{text}");
        }
        assert_eq!(with_arguments("\\$1", ""), "$1");
    }
}
