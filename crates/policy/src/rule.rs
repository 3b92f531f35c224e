//! Permission rules: `Tool` or `Tool(specifier)`.
//!
//! A rule is only text with a shape here; what a specifier means depends on what a call touches
//! and is the policy's to say.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use thiserror::Error;

use crate::{Grant, path_rule};

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
    ///
    /// `mcp__server` names every tool of that server, and a star at the end stands for any rest.
    #[must_use]
    pub fn names(&self, tool: &str) -> bool {
        let starts_with = |start: &str| {
            tool.get(..start.len())
                .is_some_and(|found| found.eq_ignore_ascii_case(start))
        };
        if let Some(start) = self.tool.strip_suffix('*') {
            return starts_with(start);
        }
        let names_server = self.tool.len() < tool.len()
            && starts_with("mcp__")
            && starts_with(&self.tool)
            && tool
                .get(self.tool.len()..)
                .is_some_and(|rest| rest.starts_with("__"))
            && !self.tool.eq_ignore_ascii_case("mcp");
        names_server || self.tool.eq_ignore_ascii_case(tool)
    }

    /// Ties the path of a rule about files to the folder that it was written for.
    ///
    /// `~/x` becomes a path below `home`, `x/y` and `./x` paths below `root`, a bare name matches
    /// anywhere below `root`. Other rules stay as they are. An allow rule with a relative path
    /// covers no absolute path, so rules from settings should pass through here.
    #[must_use]
    pub fn anchored(&self, root: &Path, home: Option<&Path>) -> Self {
        let is_about_sandbox = self.tool.eq_ignore_ascii_case("sandbox");
        if let Some(path) = self
            .specifier()
            .and_then(|specifier| specifier.trim().strip_prefix("write:"))
            .filter(|_| is_about_sandbox)
        {
            let path = Self {
                tool: "Edit".to_owned(),
                specifier: Some(path.to_owned()),
            };
            let path = path.anchored(root, home);
            return Self {
                tool: self.tool.clone(),
                specifier: path.specifier.map(|path| format!("write:{path}")),
            };
        }
        let (Some(specifier), true) = (self.specifier(), self.is_about_files()) else {
            return self.clone();
        };
        let specifier = specifier.trim();
        let below = |folder: &Path, rest: &str| {
            let folder = folder.to_str()?.trim_end_matches('/');
            Some(format!("{}/{rest}", path_rule::escape(folder)))
        };
        let is_name = !specifier.trim_end_matches('/').contains('/');
        let anchored = if specifier.starts_with('/') {
            None
        } else if let Some(rest) = specifier.strip_prefix("~/") {
            home.and_then(|home| below(home, rest))
        } else if is_name {
            below(root, &format!("**/{specifier}"))
        } else {
            below(root, specifier.trim_start_matches("./"))
        };
        Self {
            tool: self.tool.clone(),
            specifier: anchored.or_else(|| self.specifier.clone()),
        }
    }

    /// The same rule for where the folder that its path begins with leads; `None` if that is where
    /// it is, or if it names no absolute path.
    pub(crate) fn moved(&self, real: impl Fn(&Path) -> PathBuf) -> Option<Self> {
        let specifier = self.specifier().filter(|_| self.is_about_files())?.trim();
        if !specifier.starts_with('/') {
            return None;
        }
        let is_plain = |part: &&str| !part.contains(['*', '?', '\\']);
        let plain = specifier.split('/').take_while(is_plain);
        let folder = plain.collect::<Vec<_>>().join("/");
        let rest = specifier.get(folder.len()..)?;
        let folder = Path::new(&folder);
        if folder.as_os_str().is_empty() {
            return None;
        }
        let moved = real(folder);
        if moved == folder {
            return None;
        }
        let moved = path_rule::escape(moved.to_str()?.trim_end_matches('/'));
        Self::new(&self.tool, Some(&format!("{moved}{rest}"))).ok()
    }

    /// The rule that everything below a folder may be read; `None` if its name is no text.
    #[must_use]
    pub fn reading_below(folder: &Path) -> Option<Self> {
        let folder = folder.to_str()?.trim_end_matches('/');
        Self::new("Read", Some(&format!("{}/**", path_rule::escape(folder)))).ok()
    }

    /// The rule that this may be had beyond the sandbox, and no more; `None` if no rule can say so.
    pub(crate) fn granting(grant: &Grant) -> Option<Self> {
        let specifier = match grant {
            Grant::Write(path) => format!("write:{}", path_rule::escape(path.to_str()?)),
            Grant::Network | Grant::Host(_) | Grant::Unconfined => grant.to_string(),
        };
        Self::new("Sandbox", Some(&specifier)).ok()
    }

    fn is_about_files(&self) -> bool {
        const TOOLS: &[&str] = &[
            "read",
            "edit",
            "write",
            "multiedit",
            "multi_edit",
            "notebookedit",
            "notebook_edit",
            "apply_patch",
            "glob",
            "grep",
            "ls",
        ];
        TOOLS
            .iter()
            .any(|tool| self.tool.eq_ignore_ascii_case(tool))
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
    fn a_server_and_a_star_name_many_tools() {
        let table = [
            ("mcp__git", "mcp__git__push", true),
            ("mcp__git", "mcp__github__push", false),
            ("mcp__git__push", "mcp__git__push", true),
            ("mcp__git__*", "mcp__git__push", true),
            ("mcp__git__p*", "mcp__git__log", false),
            ("mcp", "mcp__git__push", false),
            ("read", "read__x", false),
        ];
        for (rule, tool, expected) in table {
            let parsed: Rule = rule.parse().unwrap();
            assert_eq!(parsed.names(tool), expected, "{rule} on {tool}");
        }
    }

    #[test]
    fn paths_are_tied_to_their_folder() {
        let table = [
            ("Read(./secrets/**)", "Read(/srv/p/secrets/**)"),
            ("Edit(src/**)", "Edit(/srv/p/src/**)"),
            ("Edit(.env)", "Edit(/srv/p/**/.env)"),
            ("Edit(~/notes/*)", "Edit(/home/u/notes/*)"),
            ("Edit(/etc/**)", "Edit(/etc/**)"),
            ("Bash(./x *)", "Bash(./x *)"),
            ("Edit", "Edit"),
        ];
        for (rule, expected) in table {
            let anchored = rule
                .parse::<Rule>()
                .unwrap()
                .anchored(Path::new("/srv/p/"), Some(Path::new("/home/u")));
            assert_eq!(anchored.to_string(), expected);
        }
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
