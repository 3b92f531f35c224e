//! Regular expressions as they are typed, and what to say of those that are none.

use grep_regex::{ErrorKind, RegexMatcher, RegexMatcherBuilder};

use super::report::named;

/// The longest expression in bytes.
const MAX_LENGTH: usize = 8192;

/// How large a compiled expression may be, in bytes.
const MAX_COMPILED: usize = 4 << 20;

/// How much memory each thread may spend on being fast, in bytes.
const MAX_CACHE: usize = 16 << 20;

/// Reads an expression. The error says what is wrong, where, and what may have been meant.
pub(super) fn matcher(
    pattern: &str,
    ignore_case: bool,
    multiline: bool,
) -> Result<RegexMatcher, String> {
    if pattern.is_empty() {
        return Err("the pattern is empty: it would match every line".into());
    }
    if pattern.len() > MAX_LENGTH {
        return Err(format!("the pattern is longer than {MAX_LENGTH} bytes"));
    }
    // First, since the builder puts every pattern into a group of its own: that would make the
    // picture of an error another one, and `a)(b` none.
    regex_syntax::ParserBuilder::new()
        .utf8(false)
        .build()
        .parse(pattern)
        .map_err(|error| explain(pattern, &error.to_string()))?;
    RegexMatcherBuilder::new()
        .case_insensitive(ignore_case)
        .multi_line(true)
        .dot_matches_new_line(multiline)
        // `$` also stands before the line end of other systems.
        .crlf(!multiline)
        .size_limit(MAX_COMPILED)
        .dfa_size_limit(MAX_CACHE)
        .build(pattern)
        .map_err(|error| match error.kind() {
            ErrorKind::NotAllowed(_) => format!(
                "the pattern holds a line break, which a search line by line cannot find: set \
                 multiline to true: {}",
                named(pattern)
            ),
            _ if error.to_string().contains("size limit") => format!(
                "the pattern is too large, since each repetition counts as often as it may occur: \
                 ask for fewer, or write [0-9A-Za-z_] for \\w: {}",
                named(pattern)
            ),
            _ => format!("invalid pattern: {error}: {}", named(pattern)),
        })
}

fn explain(pattern: &str, problem: &str) -> String {
    let problem: String = problem.chars().take(2000).collect();
    let literal = regex_syntax::escape(pattern);
    let mut text = format!("invalid pattern: {problem}");
    if problem.contains("repetition") && pattern.contains('{') {
        text.push_str(
            r"
in a regular expression { and } count repetitions: write \{ and \} to find them as text",
        );
    } else if problem.contains("look-around") || problem.contains("backreference") {
        text.push_str("\nfind more with a plain pattern, and pick from the lines");
        return text;
    }
    if literal != pattern && literal.len() <= 400 {
        text.push_str(&format!("\nto find this very text: {literal}"));
    }
    text
}
