//! What a hook is held against.

use regex::{Regex, RegexBuilder};

use super::names;

/// The longest pattern, compiled: one that says more is no name of a tool.
const SIZE: usize = 64 * 1024;

/// What a hook is held against: everything (an empty text or `*`), names (`edit`, `edit|write`), or,
/// where it holds anything but letters, digits, `_`, `-`, `|` and blanks, a regular expression that is
/// searched for in the name.
///
/// A tool is met by its own name and by those that are widespread for tools of its kind: `bash` by
/// `Bash`, `edit` by `Edit` and `MultiEdit`. Names of other things are met as they are.
#[derive(Debug, Clone)]
pub struct Matcher(Kind);

#[derive(Debug, Clone)]
enum Kind {
    All,
    Names(Vec<String>),
    Pattern(Regex),
}

/// A matcher is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the matcher {matcher:?} is no regular expression: {reason}")]
pub struct MatcherError {
    /// What is written.
    pub matcher: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Matcher {
    /// Reads a matcher as it is written.
    ///
    /// # Errors
    /// If it is no pattern.
    pub fn parse(text: &str) -> Result<Self, MatcherError> {
        let text = text.trim();
        if text.is_empty() || text == "*" {
            return Ok(Self(Kind::All));
        }
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '|' | ' ');
        if text.chars().all(is_plain) {
            let names = text.split('|').map(|name| name.trim().to_owned());
            return Ok(Self(Kind::Names(names.collect())));
        }
        let built = RegexBuilder::new(text).size_limit(SIZE).build();
        built
            .map(|pattern| Self(Kind::Pattern(pattern)))
            .map_err(|error| MatcherError {
                matcher: text.into(),
                reason: last_line(&error.to_string()),
            })
    }

    /// Whether it matches this word.
    #[must_use]
    pub fn matches(&self, word: &str) -> bool {
        match &self.0 {
            Kind::All => true,
            Kind::Names(names) => names.iter().any(|name| name == word),
            Kind::Pattern(pattern) => pattern.is_match(word),
        }
    }

    /// Whether it matches this tool, by any of its names.
    #[must_use]
    pub fn matches_tool(&self, name: &str) -> bool {
        self.matches(name) || names::others(name).iter().any(|other| self.matches(other))
    }
}

/// The library draws the pattern and points into it; the last line says what is wrong.
fn last_line(text: &str) -> String {
    let last = text.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matchers_are_read_as_people_write_them() {
        let table = [
            ("", "bash", true),
            ("*", "anything", true),
            ("bash", "bash", true),
            ("Bash", "bash", true),
            ("BASH", "bash", false),
            ("Edit|Write", "edit", true),
            ("Edit|Write", "write", true),
            ("Edit|Write", "read", false),
            ("Edit|MultiEdit|Write", "apply_patch", true),
            ("Bash", "terminal", true),
            ("Read", "read_everything", false),
            ("WebFetch", "web_fetch", true),
            ("mcp__.*", "mcp__server__tool", true),
            ("mcp__server__.*", "mcp__other__tool", false),
            ("mcp__server", "mcp__server__tool", false),
            (" Bash ", "bash", true),
            (".*", "bash", true),
            ("^Web", "web_fetch", true),
            ("^Fetch", "web_fetch", false),
            ("Edit | Write", "write", true),
            ("Note.*", "todo", false),
        ];
        for (matcher, tool, expected) in table {
            let read = Matcher::parse(matcher).unwrap();
            assert_eq!(read.matches_tool(tool), expected, "{matcher:?} {tool:?}");
        }
        // A word that is no tool's is met as it is.
        assert!(!Matcher::parse("Bash").unwrap().matches("bash"));
    }

    #[test]
    fn a_broken_pattern_is_told() {
        let error = Matcher::parse("Bash(").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the matcher \"Bash(\" is no regular expression: unclosed group"
        );
        assert!(Matcher::parse("a{1000}{1000}").is_err());
    }
}
