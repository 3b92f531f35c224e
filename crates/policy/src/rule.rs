//! Permission rules: `Tool` or `Tool(specifier)`.
//!
//! A rule is only text with a shape here; what a specifier means depends on what a call touches
//! and is the policy's to say.

use std::{fmt, str::FromStr};

use thiserror::Error;

/// One permission rule, such as `Read`, `Bash(git log *)` or `Edit(src/**)`.
///
/// ```
/// use tooloop_policy::Rule;
///
/// let rule: Rule = "Bash(git log *)".parse()?;
/// assert!(rule.names("bash"));
/// assert_eq!(rule.specifier(), Some("git log *"));
/// assert_eq!(rule.to_string(), "Bash(git log *)");
/// # Ok::<(), tooloop_policy::RuleError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    tool: String,
    specifier: Option<String>,
}

impl Rule {
    /// Gives the name of the tool as it was written.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Gives what stands in the brackets, if there are any.
    #[must_use]
    pub fn specifier(&self) -> Option<&str> {
        self.specifier.as_deref()
    }

    /// Tells whether the rule names this tool; ASCII case does not matter.
    #[must_use]
    pub fn names(&self, tool: &str) -> bool {
        self.tool.eq_ignore_ascii_case(tool)
    }

    /// Makes a rule from its two parts.
    ///
    /// # Errors
    /// As for parsing: an empty or malformed tool name, an empty specifier.
    pub fn new(tool: &str, specifier: Option<&str>) -> Result<Self, RuleError> {
        if tool.is_empty() {
            return Err(RuleError::NoTool);
        }
        if let Some(found) = tool.chars().find(|c| !is_name_char(*c)) {
            return Err(RuleError::ToolName {
                tool: tool.to_owned(),
                found,
            });
        }
        if specifier.is_some_and(|specifier| specifier.trim().is_empty()) {
            return Err(RuleError::EmptySpecifier {
                tool: tool.to_owned(),
            });
        }
        Ok(Self {
            tool: tool.to_owned(),
            specifier: specifier.map(str::to_owned),
        })
    }
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '*')
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.specifier {
            Some(specifier) => write!(f, "{}({specifier})", self.tool),
            None => f.write_str(&self.tool),
        }
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let Some((tool, rest)) = text.split_once('(') else {
            if text.contains(')') {
                return Err(RuleError::NotOpened {
                    rule: text.to_owned(),
                });
            }
            return Self::new(text, None);
        };
        // The last bracket closes, so a shell line with brackets of its own can be a specifier.
        let Some(specifier) = rest.strip_suffix(')') else {
            return Err(RuleError::NotClosed {
                rule: text.to_owned(),
            });
        };
        Self::new(tool, Some(specifier))
    }
}

/// A text that is no permission rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RuleError {
    /// There is no tool name.
    #[error("a permission rule starts with the name of a tool")]
    NoTool,
    /// The tool name holds a character that no tool name has.
    #[error("`{tool}` is no tool name: it holds {found:?}")]
    ToolName {
        /// The name as it was written.
        tool: String,
        /// The first character that does not belong.
        found: char,
    },
    /// The brackets are empty.
    #[error("the brackets of `{tool}()` are empty, write `{tool}` for every call")]
    EmptySpecifier {
        /// The name as it was written.
        tool: String,
    },
    /// A bracket was opened and the rule does not end with its partner.
    #[error("the rule `{rule}` does not end with the closing bracket of its specifier")]
    NotClosed {
        /// The rule as it was written.
        rule: String,
    },
    /// A bracket is closed that was never opened.
    #[error("the rule `{rule}` closes a bracket that it does not open")]
    NotOpened {
        /// The rule as it was written.
        rule: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_read_back_as_written() {
        for text in [
            "Bash",
            "Read(./secrets/**)",
            "Bash(git log *)",
            "Bash(npm run:*)",
            "Bash(echo $(date) (x))",
            "Bash(echo a\necho b)",
            "WebFetch(domain:example.com)",
            "mcp__server__tool",
            "mcp__server__*",
        ] {
            let rule: Rule = text.parse().unwrap();
            assert_eq!(rule.to_string(), text);
            assert_eq!(rule.to_string().parse(), Ok(rule));
        }
    }

    #[test]
    fn space_around_a_rule_does_not_matter() {
        assert_eq!(" Bash(ls) \n".parse(), "Bash(ls)".parse::<Rule>());
    }

    #[test]
    fn names_ignore_ascii_case() {
        let rule: Rule = "Bash(ls)".parse().unwrap();
        assert!(rule.names("bash") && rule.names("BASH") && !rule.names("bash2"));
    }

    #[test]
    fn malformed_rules_say_what_is_wrong() {
        let table = [
            ("", RuleError::NoTool),
            ("(ls)", RuleError::NoTool),
            (
                "Bash (ls)",
                RuleError::ToolName {
                    tool: "Bash ".into(),
                    found: ' ',
                },
            ),
            (
                "Bash()",
                RuleError::EmptySpecifier {
                    tool: "Bash".into(),
                },
            ),
            (
                "Bash( )",
                RuleError::EmptySpecifier {
                    tool: "Bash".into(),
                },
            ),
            (
                "Bash(ls",
                RuleError::NotClosed {
                    rule: "Bash(ls".into(),
                },
            ),
            (
                "Bash(ls) x",
                RuleError::NotClosed {
                    rule: "Bash(ls) x".into(),
                },
            ),
            (
                "Bash)",
                RuleError::NotOpened {
                    rule: "Bash)".into(),
                },
            ),
        ];
        for (text, error) in table {
            assert_eq!(text.parse::<Rule>(), Err(error), "{text:?}");
        }
    }
}
